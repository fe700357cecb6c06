//! The kinds of records in a batch, and a record that was read from a batch.

use crate::blob::BlobIndex;
use crate::key::{TRAILER_LENGTH, ValueType};
use crate::limits::{self, TooLong};
use crate::{Error, Result};
use crate::{timed_value, wide_column};

/// Maximum length of a key that a memtable can store, in bytes: the length of the internal key has
/// 32 bits.
const STORABLE_KEY_LENGTH_MAX: usize = u32::MAX as usize - TRAILER_LENGTH;

/// What a record in a batch does. The names `key` and `value` below are those of the fields of
/// [`Record`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RecordKind {
    /// Sets the key's value.
    Put,
    /// Removes the key.
    Delete,
    /// Removes the key by a single deletion. The writer must have put the key exactly once since
    /// the key was last removed.
    SingleDelete,
    /// Removes every key in `[key, value)`.
    DeleteRange,
    /// Adds a merge operand to the key.
    Merge,
    /// Sets the key's value to a value in a blob file. `value` is the serialized location.
    BlobIndex,
    /// Sets the key's value to a serialized wide-column entity, which has several named columns.
    Entity,
    /// Sets the key's value. The last eight bytes of `value` are its write time, in seconds since
    /// 1970.
    TimedPut,
    /// Changes no key. `value` is arbitrary bytes for readers of the log.
    LogData,
    /// Changes no key. Marks the start or the end of a transaction's batch.
    Noop,
    /// Begins a prepared section of a transaction. The records up to the next
    /// [`RecordKind::EndPrepare`] take effect when the transaction is committed.
    BeginPrepare,
    /// Like `BeginPrepare`, but the records were also inserted into the memtables when they were
    /// prepared (RocksDB's write-prepared policy).
    BeginPersistedPrepare,
    /// Like `BeginPersistedPrepare`, but the transaction is not yet prepared, and more of its
    /// records may follow in other batches (RocksDB's write-unprepared policy).
    BeginUnprepare,
    /// Ends a prepared section. `key` is the name of the transaction.
    EndPrepare,
    /// Commits a transaction. `key` is its name.
    Commit,
    /// Commits a transaction at the user-defined timestamp in `value`. `key` is the name of the
    /// transaction.
    CommitWithTimestamp,
    /// Rolls a transaction back. `key` is its name.
    Rollback,
}

/// Which fields follow the tag of a record, and in which order.
#[derive(Clone, Copy)]
pub(super) enum Layout {
    Key,
    KeyAndValue,
    Value,
    ValueAndKey,
    Nothing,
}

impl RecordKind {
    /// Returns the kind of record that a tag denotes, and whether the ID of a column family follows
    /// the tag; `None` for an unknown tag.
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

    /// Returns the tags of this kind. The first one is for the column family `default`, or for a
    /// kind that belongs to no column family. The second one is for all other column families; it
    /// is `None` for a kind that belongs to no column family.
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

    /// Returns the type with which memtables store the record. Returns `None` for a record that
    /// changes no key. Such a record takes no sequence number, and the record count in the batch's
    /// header does not include it.
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

/// One record of a batch; it borrows the batch's bytes. [`RecordKind`] describes what `key` and
/// `value` contain. A field that the kind does not use is empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Record<'a> {
    /// Offset of the record's tag from the start of the batch, in bytes.
    pub offset: usize,
    /// ID of the column family; 0 if the record belongs to no column family.
    pub column_family: u32,
    /// The effect of the record.
    pub kind: RecordKind,
    /// The key, the first key of a range, or the name of a transaction.
    pub key: &'a [u8],
    /// The value, the merge operand, the exclusive end of a range, or log data.
    pub value: &'a [u8],
}

impl Record<'_> {
    /// Checks what a [`BatchReader`](super::BatchReader) does not check: that the value can be
    /// decoded later by reads, flushes and compactions, and that the keys are not too long.
    ///
    /// # Errors
    /// Corruption, with the offset of the record, if
    ///
    /// - a timed put is too short for its write time,
    /// - an entity or a blob index does not decode, or
    /// - a key is longer than a memtable can store.
    ///
    /// Unsupported for an entity with columns in blob files, and for a blob index with file number
    /// 0.
    pub fn check(&self) -> Result<()> {
        let at_record = |error| match error {
            Error::Corruption { what, expected, found, .. } => {
                Error::corruption(what, self.offset, expected, found)
            }
            unsupported @ Error::Unsupported { .. } => unsupported,
        };
        self.check_value().and_then(|()| self.check_keys()).map_err(at_record)
    }

    /// Checks the lengths of the record's key and value.
    ///
    /// # Errors
    /// A key is longer than [`KEY_LENGTH_MAX`], or the key and the value together are longer than
    /// [`ENTRY_LENGTH_MAX`].
    ///
    /// [`KEY_LENGTH_MAX`]: super::KEY_LENGTH_MAX
    /// [`ENTRY_LENGTH_MAX`]: super::ENTRY_LENGTH_MAX
    #[inline]
    pub fn check_length(&self) -> std::result::Result<(), TooLong> {
        if self.kind == RecordKind::DeleteRange {
            limits::check_key(self.value.len())?;
        }
        limits::check_entry(self.key.len(), self.value.len())
    }

    fn check_value(&self) -> Result<()> {
        match self.kind {
            RecordKind::TimedPut if timed_value::split(self.value).is_none() => {
                let found = format!("{} bytes", self.value.len());
                Err(Error::corruption("timed put", 0, "a value and the time of its write", found))
            }
            RecordKind::Entity => {
                let columns = wide_column::decode(self.value)?;
                if columns.iter().any(|column| column.is_blob_index) {
                    Err(Error::unsupported("an entity with columns in blob files"))
                } else {
                    Ok(())
                }
            }
            RecordKind::BlobIndex => BlobIndex::decode(self.value).map(drop),
            _ => Ok(()),
        }
    }

    fn check_keys(&self) -> Result<()> {
        let end_length = if self.kind == RecordKind::DeleteRange { self.value.len() } else { 0 };
        let length = self.key.len().max(end_length);
        if length <= STORABLE_KEY_LENGTH_MAX {
            return Ok(());
        }
        let expected = format!("{STORABLE_KEY_LENGTH_MAX} bytes at most");
        let found = format!("{length} bytes");
        Err(Error::corruption("write batch key", 0, expected, found))
    }
}
