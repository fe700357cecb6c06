//! The kinds of records, and a record that was read.

use crate::blob::BlobIndex;
use crate::key::ValueType;
use crate::{Error, Result};
use crate::{timed_value, wide_column};

use super::KEY_LENGTH_MAX;

/// The effect of a record in a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RecordKind {
    /// Sets the key's value.
    Put,
    /// Removes the key.
    Delete,
    /// Removes the key, which was written exactly once since it was last removed.
    SingleDelete,
    /// Removes every key in `[key, value)`.
    DeleteRange,
    /// Adds a merge operand to the key.
    Merge,
    /// Sets the location of the key's value in a blob file.
    BlobIndex,
    /// Sets the key's value to an entity of named columns.
    Entity,
    /// Sets the key's value, which ends in its write time: eight bytes, in seconds since 1970.
    TimedPut,
    /// Bytes for readers of the log, in `value`.
    LogData,
    /// No change: marks the start or end of a transaction's batch.
    Noop,
    /// The records up to the next [`RecordKind::EndPrepare`] are prepared; they take effect when
    /// committed.
    BeginPrepare,
    /// Like `BeginPrepare`, but the records are already in the database (the write-prepared
    /// policy).
    BeginPersistedPrepare,
    /// Like `BeginPersistedPrepare`, for a transaction that is not yet prepared (the
    /// write-unprepared policy).
    BeginUnprepare,
    /// The end of the prepared records of the transaction that `key` names.
    EndPrepare,
    /// The transaction that `key` names is committed.
    Commit,
    /// The transaction that `key` names is committed, at the user's timestamp in `value`.
    CommitWithTimestamp,
    /// The transaction that `key` names is rolled back.
    Rollback,
}

/// The fields that follow a record's tag.
#[derive(Clone, Copy)]
pub(super) enum Layout {
    Key,
    KeyAndValue,
    Value,
    ValueAndKey,
    Nothing,
}

impl RecordKind {
    /// Returns the kind of a tag, and whether a column family's id follows it.
    #[inline]
    pub(super) fn from_tag(tag: u8) -> Option<(Self, bool)> {
        Some(match tag {
            0x00 => (Self::Delete, false),
            0x01 => (Self::Put, false),
            0x02 => (Self::Merge, false),
            0x03 => (Self::LogData, false),
            0x04 => (Self::Delete, true),
            0x05 => (Self::Put, true),
            0x06 => (Self::Merge, true),
            0x07 => (Self::SingleDelete, false),
            0x08 => (Self::SingleDelete, true),
            0x09 => (Self::BeginPrepare, false),
            0x0A => (Self::EndPrepare, false),
            0x0B => (Self::Commit, false),
            0x0C => (Self::Rollback, false),
            0x0D => (Self::Noop, false),
            0x0E => (Self::DeleteRange, true),
            0x0F => (Self::DeleteRange, false),
            0x10 => (Self::BlobIndex, true),
            0x11 => (Self::BlobIndex, false),
            0x12 => (Self::BeginPersistedPrepare, false),
            0x13 => (Self::BeginUnprepare, false),
            0x15 => (Self::CommitWithTimestamp, false),
            0x16 => (Self::Entity, false),
            0x17 => (Self::Entity, true),
            0x18 => (Self::TimedPut, false),
            0x19 => (Self::TimedPut, true),
            _ => return None,
        })
    }

    /// Returns the tag for the default column family and the tag for any other; only the first for
    /// a record that belongs to no column family.
    pub(super) fn tags(self) -> (u8, Option<u8>) {
        match self {
            Self::Delete => (0x00, Some(0x04)),
            Self::Put => (0x01, Some(0x05)),
            Self::Merge => (0x02, Some(0x06)),
            Self::LogData => (0x03, None),
            Self::SingleDelete => (0x07, Some(0x08)),
            Self::BeginPrepare => (0x09, None),
            Self::EndPrepare => (0x0A, None),
            Self::Commit => (0x0B, None),
            Self::Rollback => (0x0C, None),
            Self::Noop => (0x0D, None),
            Self::DeleteRange => (0x0F, Some(0x0E)),
            Self::BlobIndex => (0x11, Some(0x10)),
            Self::BeginPersistedPrepare => (0x12, None),
            Self::BeginUnprepare => (0x13, None),
            Self::CommitWithTimestamp => (0x15, None),
            Self::Entity => (0x16, Some(0x17)),
            Self::TimedPut => (0x18, Some(0x19)),
        }
    }

    #[inline]
    pub(super) fn layout(self) -> Layout {
        match self {
            Self::Delete
            | Self::SingleDelete
            | Self::EndPrepare
            | Self::Commit
            | Self::Rollback => Layout::Key,
            Self::Put
            | Self::DeleteRange
            | Self::Merge
            | Self::BlobIndex
            | Self::Entity
            | Self::TimedPut => Layout::KeyAndValue,
            Self::LogData => Layout::Value,
            Self::CommitWithTimestamp => Layout::ValueAndKey,
            Self::Noop
            | Self::BeginPrepare
            | Self::BeginPersistedPrepare
            | Self::BeginUnprepare => Layout::Nothing,
        }
    }

    /// Returns the type that the record has in a memtable; `None` for a record that changes no key,
    /// which takes no sequence number and is not counted.
    #[inline]
    pub fn value_type(self) -> Option<ValueType> {
        match self {
            Self::Put => Some(ValueType::Value),
            Self::Delete => Some(ValueType::Deletion),
            Self::SingleDelete => Some(ValueType::SingleDeletion),
            Self::DeleteRange => Some(ValueType::RangeDeletion),
            Self::Merge => Some(ValueType::Merge),
            Self::BlobIndex => Some(ValueType::BlobIndex),
            Self::Entity => Some(ValueType::WideColumnEntity),
            Self::TimedPut => Some(ValueType::ValuePreferredSequence),
            Self::LogData
            | Self::Noop
            | Self::BeginPrepare
            | Self::BeginPersistedPrepare
            | Self::BeginUnprepare
            | Self::EndPrepare
            | Self::Commit
            | Self::CommitWithTimestamp
            | Self::Rollback => None,
        }
    }
}

/// One record of a batch, borrowed from its bytes. [`RecordKind`] defines the meaning of `key` and
/// `value`; a field that the kind does not use is empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// Where the record begins, in bytes from the start of the batch.
    pub offset: usize,
    /// The column family's id; 0 for a record that belongs to none.
    pub column_family: u32,
    /// The effect of the record.
    pub kind: RecordKind,
    /// The key, or the name of a transaction.
    pub key: &'a [u8],
    /// The value, operand, end of a range or log data.
    pub value: &'a [u8],
}

impl Record<'_> {
    /// Checks what a [`BatchReader`](super::BatchReader) does not: that reads, flushes and
    /// compactions can decode the value, and that keys are not too long.
    ///
    /// # Errors
    /// Corruption at the offset of the record, for a timed put too short for its write time, an
    /// entity or blob index that does not decode, and a key longer than [`KEY_LENGTH_MAX`];
    /// unsupported, for an entity with columns in blob files and a blob index that no blob file can
    /// have.
    pub fn check(&self) -> Result<()> {
        let at_record = |error| match error {
            Error::Corruption { what, expected, found, .. } => {
                Error::corruption(what, self.offset, expected, found)
            }
            unsupported @ Error::Unsupported { .. } => unsupported,
        };
        self.check_value().and_then(|()| self.check_keys()).map_err(at_record)
    }

    fn check_value(&self) -> Result<()> {
        match self.kind {
            RecordKind::TimedPut if timed_value::split(self.value).is_none() => {
                let found = format!("{} bytes", self.value.len());
                Err(Error::corruption("timed put", 0, "a value and the time of its write", found))
            }
            RecordKind::Entity => {
                let columns = wide_column::decode(self.value)?;
                match columns.iter().any(|column| column.is_blob_index) {
                    true => Err(Error::unsupported("an entity with columns in blob files")),
                    false => Ok(()),
                }
            }
            RecordKind::BlobIndex => BlobIndex::decode(self.value).map(drop),
            _ => Ok(()),
        }
    }

    fn check_keys(&self) -> Result<()> {
        let end_length = if self.kind == RecordKind::DeleteRange { self.value.len() } else { 0 };
        let length = self.key.len().max(end_length);
        if length <= KEY_LENGTH_MAX {
            return Ok(());
        }
        let (expected, found) =
            (format!("{KEY_LENGTH_MAX} bytes at most"), format!("{length} bytes"));
        Err(Error::corruption("write batch key", 0, expected, found))
    }
}
