//! Write batches: the changes of one write, in the bytes that the write-ahead log holds.
//!
//! ```text
//! batch  := sequence: fixed64, count: fixed32, record*
//! record := tag: u8, [column family: varint32], [key: slice], [value: slice]
//! slice  := length: varint32, bytes
//! ```
//!
//! `sequence` is the sequence number of the first record that changes a key; each such record takes
//! the next number, and `count` is the number of such records. Records that change no key (log
//! data, markers of transactions) take no number and are not counted. The tag determines whether a
//! column family's id follows it; without one the record is for the default column family, id 0.
//! Source: `db/write_batch.cc`, `db/dbformat.h`.

use crate::blob::BlobIndex;
use crate::key::{Sequence, ValueType};
use crate::varint::{Reader, put_length_prefixed, put_varint32};
use crate::{Error, Result};
use crate::{timed_value, wide_column};

/// The length of a batch's header, in bytes.
pub const HEADER_LENGTH: usize = 12;

/// Offset of the count in the header, in bytes.
const COUNT_OFFSET: usize = 8;

/// The longest key, in bytes: with its trailer it must fit 32 bits.
pub const KEY_LENGTH_MAX: usize = u32::MAX as usize - 8;

/// The longest value, in bytes.
pub const VALUE_LENGTH_MAX: usize = u32::MAX as usize;

/// What a record of a batch does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RecordKind {
    /// Sets the key's value.
    Put,
    /// Removes the key.
    Delete,
    /// Removes the key, which was written once since it was last removed.
    SingleDelete,
    /// Removes every key from `key` up to, not including, `value`.
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
    /// No change. It marks where the batch of a transaction ends or begins.
    Noop,
    /// The records up to the next [`RecordKind::EndPrepare`] are prepared; they take effect when
    /// committed.
    BeginPrepare,
    /// As `BeginPrepare`; the records are already in the database (the write-prepared policy).
    BeginPersistedPrepare,
    /// As `BeginPersistedPrepare`, of a transaction that is not yet prepared (the write-unprepared
    /// policy).
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

/// What follows a record's tag.
#[derive(Clone, Copy)]
enum Layout {
    Key,
    KeyAndValue,
    Value,
    ValueAndKey,
    Nothing,
}

impl RecordKind {
    /// Returns the kind of a tag, and whether a column family's id follows it.
    #[inline]
    fn from_tag(tag: u8) -> Option<(Self, bool)> {
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
    fn tags(self) -> (u8, Option<u8>) {
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
    fn layout(self) -> Layout {
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

/// One record of a batch, borrowed from its bytes. [`RecordKind`] defines `key` and `value`; those
/// that a kind does not have are empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// Where the record begins, in bytes from the start of the batch.
    pub offset: usize,
    /// The column family's id; 0 for a record that belongs to none.
    pub column_family: u32,
    /// What the record does.
    pub kind: RecordKind,
    /// The key, or the name of a transaction.
    pub key: &'a [u8],
    /// The value, operand, end of a range or log data.
    pub value: &'a [u8],
}

impl Record<'_> {
    /// Checks what a [`BatchReader`] does not: that reads, flushes and compactions can decode the
    /// value, and that keys are not too long.
    ///
    /// # Errors
    /// Corruption at the offset of the record, for a timed put without room for its time, an entity
    /// or blob index that does not decode, and a key longer than [`KEY_LENGTH_MAX`]; unsupported,
    /// for an entity with columns in blob files and a blob index that no blob file can have.
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

/// Reads the records of a batch in order, without allocating. [`Record::check`] checks their
/// values.
///
/// The iterator ends after the first error. It ends with an error if the header's count is not the
/// number of records that change a key.
#[derive(Debug, Clone)]
pub struct BatchReader<'a> {
    sequence: Sequence,
    count: u32,
    found: u32,
    reader: Reader<'a>,
    finished: bool,
}

impl<'a> BatchReader<'a> {
    /// Reads the header.
    ///
    /// # Errors
    /// Corruption, for bytes shorter than a header.
    pub fn new(bytes: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(bytes);
        let sequence = reader.fixed64("write batch header")?;
        let count = reader.fixed32("write batch header")?;
        Ok(Self { sequence, count, found: 0, reader, finished: false })
    }

    /// Returns the number of the first record that changes a key.
    pub fn sequence(&self) -> Sequence {
        self.sequence
    }

    /// Returns the number of records that change a key, according to the header.
    pub fn record_count(&self) -> u32 {
        self.count
    }

    #[inline]
    fn read(&mut self) -> Result<Record<'a>> {
        let offset = self.reader.offset();
        let tag = self.reader.u8("write batch record")?;
        let Some((kind, has_column_family)) = RecordKind::from_tag(tag) else {
            let found = format!("tag {tag:#x}");
            return Err(Error::corruption("write batch record", offset, "a known tag", found));
        };
        let column_family =
            if has_column_family { self.reader.varint32("column family id")? } else { 0 };
        let (key, value): (&[u8], &[u8]) = match kind.layout() {
            Layout::Key => (self.key()?, &[]),
            Layout::KeyAndValue => (self.key()?, self.value()?),
            Layout::Value => (&[], self.value()?),
            Layout::ValueAndKey => {
                let value = self.value()?;
                (self.key()?, value)
            }
            Layout::Nothing => (&[], &[]),
        };
        self.found = self.found.saturating_add(u32::from(kind.value_type().is_some()));
        Ok(Record { offset, column_family, kind, key, value })
    }

    #[inline]
    fn key(&mut self) -> Result<&'a [u8]> {
        self.reader.length_prefixed("write batch key")
    }

    #[inline]
    fn value(&mut self) -> Result<&'a [u8]> {
        self.reader.length_prefixed("write batch value")
    }

    #[cold]
    fn check_count(&self) -> Option<Result<Record<'a>>> {
        (self.found != self.count).then(|| {
            let expected = format!("{} records that change a key", self.count);
            let found = self.found.to_string();
            Err(Error::corruption("write batch", COUNT_OFFSET, expected, found))
        })
    }
}

impl<'a> Iterator for BatchReader<'a> {
    type Item = Result<Record<'a>>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.finished {
            return None;
        }
        if self.reader.is_empty() {
            self.finished = true;
            return self.check_count();
        }
        let record = self.read();
        self.finished = record.is_err();
        Some(record)
    }
}

/// The ID of the column family `default`.
pub const DEFAULT_FAMILY: u32 = 0;

/// What names a column family in a batch: its ID, or a handle that knows it.
pub trait AsColumnFamilyId {
    /// Returns the ID of the column family.
    fn column_family_id(&self) -> u32;
}

impl AsColumnFamilyId for u32 {
    #[inline]
    fn column_family_id(&self) -> u32 {
        *self
    }
}

impl<F: AsColumnFamilyId + ?Sized> AsColumnFamilyId for &F {
    #[inline]
    fn column_family_id(&self) -> u32 {
        (**self).column_family_id()
    }
}

/// A batch under construction, in the bytes that the log holds. Its sequence number is 0 until
/// [`WriteBatch::set_sequence`].
///
/// A method that refuses its arguments leaves the batch as it was.
///
/// ```
/// use tailwater_format::batch::{RecordKind, WriteBatch};
///
/// let mut batch = WriteBatch::new();
/// batch.put("apple", "red")?;
/// batch.delete("pear")?;
/// batch.put_cf(7, "melon", "green")?; // a column family's handle, or its ID
/// assert_eq!(batch.count(), 3);
///
/// let first = batch.reader()?.next().expect("a record")?;
/// assert_eq!((first.kind, first.key), (RecordKind::Put, &b"apple"[..]));
/// # Ok::<(), tailwater_format::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteBatch {
    bytes: Vec<u8>,
    count: u32,
}

impl Default for WriteBatch {
    fn default() -> Self {
        Self::new()
    }
}

impl WriteBatch {
    /// Creates an empty batch.
    pub fn new() -> Self {
        Self::with_capacity(HEADER_LENGTH)
    }

    /// Creates an empty batch with room for `capacity` bytes, header included.
    pub fn with_capacity(capacity: usize) -> Self {
        let mut bytes = Vec::with_capacity(capacity.max(HEADER_LENGTH));
        bytes.resize(HEADER_LENGTH, 0);
        Self { bytes, count: 0 }
    }

    /// Takes over the bytes of a batch after validating them.
    ///
    /// # Errors
    /// Corruption, for bytes that are no batch, and those of [`Record::check`].
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self> {
        let mut reader = BatchReader::new(&bytes)?;
        reader.try_for_each(|record| record?.check())?;
        let count = reader.record_count();
        Ok(Self { bytes, count })
    }

    /// Removes every record and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.resize(HEADER_LENGTH, 0);
        self.count = 0;
    }

    /// Returns the number of records that change a key.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Returns whether there is no record of any kind.
    pub fn is_empty(&self) -> bool {
        self.bytes.len() == HEADER_LENGTH
    }

    /// Returns the length of the batch in bytes, header included.
    pub fn data_size(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the batch in bytes, as the log holds it.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the records in order.
    ///
    /// # Errors
    /// None that a batch built here can cause; see [`BatchReader::new`].
    pub fn reader(&self) -> Result<BatchReader<'_>> {
        BatchReader::new(&self.bytes)
    }

    /// Returns the number of the first record that changes a key.
    pub fn sequence(&self) -> Sequence {
        self.bytes.first_chunk::<8>().map_or(0, |bytes| Sequence::from_le_bytes(*bytes))
    }

    /// Numbers the records: the first that changes a key gets `sequence`.
    pub fn set_sequence(&mut self, sequence: Sequence) {
        if let Some(bytes) = self.bytes.first_chunk_mut::<8>() {
            *bytes = sequence.to_le_bytes();
        }
    }

    /// Sets the value of `key` in the column family `default`.
    ///
    /// # Errors
    /// Unsupported, for a key longer than [`KEY_LENGTH_MAX`], a value longer than
    /// [`VALUE_LENGTH_MAX`] or more than `u32::MAX` records; so with every method that adds a
    /// record.
    #[inline]
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_cf(DEFAULT_FAMILY, key, value)
    }

    /// Sets the value of `key`. The column family is a handle, or an ID.
    ///
    /// # Errors
    /// See [`WriteBatch::put`].
    #[inline]
    pub fn put_cf(
        &mut self,
        family: impl AsColumnFamilyId,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.add(RecordKind::Put, family.column_family_id(), key.as_ref(), value.as_ref())
    }

    /// Removes `key` from the column family `default`.
    ///
    /// # Errors
    /// See [`WriteBatch::put`].
    #[inline]
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_cf(DEFAULT_FAMILY, key)
    }

    /// Removes `key`.
    ///
    /// # Errors
    /// See [`WriteBatch::put`].
    #[inline]
    pub fn delete_cf(
        &mut self,
        family: impl AsColumnFamilyId,
        key: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.add(RecordKind::Delete, family.column_family_id(), key.as_ref(), &[])
    }

    /// Removes `key` from the column family `default`, where it must have been written once since
    /// it was last removed.
    ///
    /// # Errors
    /// See [`WriteBatch::put`].
    #[inline]
    pub fn single_delete(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.single_delete_cf(DEFAULT_FAMILY, key)
    }

    /// Removes `key`, which must have been written once since it was last removed.
    ///
    /// # Errors
    /// See [`WriteBatch::put`].
    #[inline]
    pub fn single_delete_cf(
        &mut self,
        family: impl AsColumnFamilyId,
        key: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.add(RecordKind::SingleDelete, family.column_family_id(), key.as_ref(), &[])
    }

    /// Removes every key from `begin` up to, not including, `end` from the column family `default`.
    ///
    /// # Errors
    /// See [`WriteBatch::put`]; `end` is a key too.
    #[inline]
    pub fn delete_range(&mut self, begin: impl AsRef<[u8]>, end: impl AsRef<[u8]>) -> Result<()> {
        self.delete_range_cf(DEFAULT_FAMILY, begin, end)
    }

    /// Removes every key from `begin` up to, not including, `end`.
    ///
    /// # Errors
    /// See [`WriteBatch::put`]; `end` is a key too.
    #[inline]
    pub fn delete_range_cf(
        &mut self,
        family: impl AsColumnFamilyId,
        begin: impl AsRef<[u8]>,
        end: impl AsRef<[u8]>,
    ) -> Result<()> {
        check_length("a key", end.as_ref().len(), KEY_LENGTH_MAX)?;
        self.add(RecordKind::DeleteRange, family.column_family_id(), begin.as_ref(), end.as_ref())
    }

    /// Adds a merge operand to `key` in the column family `default`.
    ///
    /// # Errors
    /// See [`WriteBatch::put`].
    #[inline]
    pub fn merge(&mut self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.merge_cf(DEFAULT_FAMILY, key, operand)
    }

    /// Adds a merge operand to `key`.
    ///
    /// # Errors
    /// See [`WriteBatch::put`].
    #[inline]
    pub fn merge_cf(
        &mut self,
        family: impl AsColumnFamilyId,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.add(RecordKind::Merge, family.column_family_id(), key.as_ref(), operand.as_ref())
    }

    /// Sets the value of `key` to an entity of named columns, in serialized form.
    ///
    /// # Errors
    /// See [`WriteBatch::put`].
    pub fn put_entity_cf(
        &mut self,
        family: impl AsColumnFamilyId,
        key: &[u8],
        entity: &[u8],
    ) -> Result<()> {
        self.add(RecordKind::Entity, family.column_family_id(), key, entity)
    }

    /// Sets the value of `key` to a value in a blob file, whose location `index` holds in
    /// serialized form.
    ///
    /// # Errors
    /// See [`WriteBatch::put`].
    pub fn put_blob_index_cf(
        &mut self,
        family: impl AsColumnFamilyId,
        key: &[u8],
        index: &[u8],
    ) -> Result<()> {
        self.add(RecordKind::BlobIndex, family.column_family_id(), key, index)
    }

    /// Sets the value of `key`, written at `write_time_s`, in seconds since 1970.
    ///
    /// # Errors
    /// See [`WriteBatch::put`]; the longest value is eight bytes shorter.
    pub fn timed_put_cf(
        &mut self,
        family: impl AsColumnFamilyId,
        key: &[u8],
        value: &[u8],
        write_time_s: u64,
    ) -> Result<()> {
        check_length("a value", value.len(), VALUE_LENGTH_MAX - timed_value::NUMBER_LENGTH)?;
        self.begin(RecordKind::TimedPut, family.column_family_id(), key.len())?;
        put_length_prefixed(&mut self.bytes, key);
        put_varint32(&mut self.bytes, (value.len() + timed_value::NUMBER_LENGTH) as u32);
        timed_value::put(&mut self.bytes, value, write_time_s);
        Ok(())
    }

    /// Adds bytes for readers of the log. They change no key and are not counted.
    ///
    /// # Errors
    /// See [`WriteBatch::put`].
    pub fn put_log_data(&mut self, data: &[u8]) -> Result<()> {
        self.add(RecordKind::LogData, 0, &[], data)
    }

    /// Adds the records of another batch after those of this one.
    ///
    /// # Errors
    /// Unsupported, if the two count more than `u32::MAX` records.
    pub fn append(&mut self, other: &WriteBatch) -> Result<()> {
        self.add_to_count(other.count)?;
        self.bytes.extend_from_slice(other.bytes.get(HEADER_LENGTH..).unwrap_or_default());
        Ok(())
    }

    fn add(
        &mut self,
        kind: RecordKind,
        column_family: u32,
        key: &[u8],
        value: &[u8],
    ) -> Result<()> {
        check_length("a value", value.len(), VALUE_LENGTH_MAX)?;
        self.begin(kind, column_family, key.len())?;
        match kind.layout() {
            Layout::Key => put_length_prefixed(&mut self.bytes, key),
            Layout::Value => put_length_prefixed(&mut self.bytes, value),
            Layout::KeyAndValue => {
                put_length_prefixed(&mut self.bytes, key);
                put_length_prefixed(&mut self.bytes, value);
            }
            Layout::ValueAndKey => {
                put_length_prefixed(&mut self.bytes, value);
                put_length_prefixed(&mut self.bytes, key);
            }
            Layout::Nothing => {}
        }
        Ok(())
    }

    /// Counts a record and writes its tag and column family.
    fn begin(&mut self, kind: RecordKind, column_family: u32, key_length: usize) -> Result<()> {
        check_length("a key", key_length, KEY_LENGTH_MAX)?;
        self.add_to_count(u32::from(kind.value_type().is_some()))?;
        match kind.tags() {
            (_, Some(tag)) if column_family != 0 => {
                self.bytes.push(tag);
                put_varint32(&mut self.bytes, column_family);
            }
            (tag, _) => self.bytes.push(tag),
        }
        Ok(())
    }

    fn add_to_count(&mut self, records: u32) -> Result<()> {
        let count = self.count.checked_add(records);
        self.count = count.ok_or_else(|| Error::unsupported("a batch of 4 Gi records"))?;
        if let Some((_, rest)) = self.bytes.split_at_mut_checked(COUNT_OFFSET)
            && let Some(bytes) = rest.first_chunk_mut::<4>()
        {
            *bytes = self.count.to_le_bytes();
        }
        Ok(())
    }
}

fn check_length(what: &str, length: usize, length_max: usize) -> Result<()> {
    if length <= length_max {
        return Ok(());
    }
    Err(Error::unsupported(format!("{what} of {length} bytes, more than {length_max}")))
}
