//! Builds a batch.

use crate::key::Sequence;
use crate::limits::{self, TooLong};
use crate::timed_value;
use crate::varint::{put_length_prefixed, put_varint32, put_varint64};
use crate::{Error, Result};

use super::reader::BatchReader;
use super::record::{Layout, RecordKind};
use super::{AsColumnFamilyId, COUNT_OFFSET, DEFAULT_FAMILY, HEADER_LENGTH};

/// A batch under construction, encoded as in the write-ahead log. Its sequence number is 0 until
/// [`WriteBatch::set_sequence`] sets it.
///
/// A method that returns an error leaves the batch unchanged.
///
/// ```
/// # use tailwater_format::batch::{RecordKind, WriteBatch};
/// let mut batch = WriteBatch::new();
/// batch.put("apple", "red")?;
/// batch.delete("pear")?;
/// batch.put_cf(7, "melon", "green")?; // a column family's handle, or its ID
/// assert_eq!(batch.len(), 3);
///
/// let first = batch.reader()?.next().expect("a record")?;
/// assert_eq!((first.kind, first.key), (RecordKind::Put, &b"apple"[..]));
/// # Ok::<(), tailwater_format::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct WriteBatch {
    bytes: Vec<u8>,
    count: u32,
    plain: Plain,
}

/// Whether a batch has only records that need no check beyond those of the methods that add them:
/// puts, deletions and single deletions in one column family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Plain {
    /// The batch has no record.
    Empty,
    /// The batch has only such records, in the column family with this ID.
    In(u32),
    /// The batch may have other records.
    No,
}

impl Plain {
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Empty, plain) | (plain, Self::Empty) => plain,
            (Self::In(a), Self::In(b)) if a == b => self,
            _ => Self::No,
        }
    }
}

/// Batches are equal if their encodings are.
impl PartialEq for WriteBatch {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for WriteBatch {}

impl Default for WriteBatch {
    fn default() -> Self {
        Self::new()
    }
}

impl WriteBatch {
    /// Creates an empty batch.
    pub fn new() -> Self {
        Self::with_capacity_bytes(HEADER_LENGTH)
    }

    /// Creates an empty batch with a capacity of `capacity` bytes, header included.
    pub fn with_capacity_bytes(capacity: usize) -> Self {
        let mut bytes = Vec::with_capacity(capacity.max(HEADER_LENGTH));
        bytes.resize(HEADER_LENGTH, 0);
        Self { bytes, count: 0, plain: Plain::Empty }
    }

    /// Creates a batch from its encoding, after validating it.
    ///
    /// # Errors
    /// Corruption if the bytes are not a batch, and the errors of
    /// [`Record::check`](super::Record::check).
    pub fn from_data(bytes: Vec<u8>) -> Result<Self> {
        let mut reader = BatchReader::new(&bytes)?;
        reader.try_for_each(|record| record?.check())?;
        let count = reader.record_count();
        Ok(Self { bytes, count, plain: Plain::No })
    }

    /// Removes every record. Keeps the allocated memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.resize(HEADER_LENGTH, 0);
        self.count = 0;
        self.plain = Plain::Empty;
    }

    /// Returns the ID of the column family of all records, if they are puts, deletions and single
    /// deletions in one column family that the methods of this batch have added. Such records have
    /// been checked already. `None` for an empty batch and for batches from
    /// [`WriteBatch::from_data`].
    #[inline]
    pub fn plain_column_family(&self) -> Option<u32> {
        match self.plain {
            Plain::In(column_family) => Some(column_family),
            Plain::Empty | Plain::No => None,
        }
    }

    /// Returns the number of records that change a key or a range of keys.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether the batch has no record that changes a key or a range of keys.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the length of the batch in bytes, header included.
    pub fn size_in_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the encoded batch, as the write-ahead log stores it.
    pub fn data(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns a reader of the records, in the order in which they were added.
    ///
    /// # Errors
    /// The errors of [`BatchReader::new`], which do not occur for a `WriteBatch`.
    pub fn reader(&self) -> Result<BatchReader<'_>> {
        BatchReader::new(&self.bytes)
    }

    /// Returns the sequence number of the batch, which is that of the first record that changes a
    /// key.
    pub fn sequence(&self) -> Sequence {
        self.bytes.first_chunk::<8>().map_or(0, |bytes| Sequence::from_le_bytes(*bytes))
    }

    /// Sets the sequence number of the batch, which is that of the first record that changes a key.
    pub fn set_sequence(&mut self, sequence: Sequence) {
        if let Some(bytes) = self.bytes.first_chunk_mut::<8>() {
            *bytes = sequence.to_le_bytes();
        }
    }

    /// Sets the value of `key` in the column family `default`.
    ///
    /// # Errors
    /// Unsupported if the key is longer than [`KEY_LENGTH_MAX`], if key and value together are
    /// longer than [`ENTRY_LENGTH_MAX`], or if the batch would have more than `u32::MAX` records.
    /// Every method that adds a record returns these errors.
    ///
    /// [`KEY_LENGTH_MAX`]: super::KEY_LENGTH_MAX
    /// [`ENTRY_LENGTH_MAX`]: super::ENTRY_LENGTH_MAX
    #[inline]
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_cf(DEFAULT_FAMILY, key, value)
    }

    /// Sets the value of `key` in a column family, which is given as a handle or an ID.
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

    /// Removes `key` from a column family, which is given as a handle or an ID.
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

    /// Removes `key` from the column family `default` by a single deletion. The key must have been
    /// put exactly once since a single deletion last removed it, and must not be merged. Do not mix
    /// this method with [`WriteBatch::delete`] on one key: older values may become visible again.
    ///
    /// # Errors
    /// See [`WriteBatch::put`].
    #[inline]
    pub fn single_delete(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.single_delete_cf(DEFAULT_FAMILY, key)
    }

    /// Removes `key` from a column family by a single deletion. The key must have been put exactly
    /// once since a single deletion last removed it, and must not be merged. Do not mix this method
    /// with [`WriteBatch::delete_cf`] on one key: older values may become visible again.
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

    /// Removes every key in `[begin, end)` from the column family `default`.
    ///
    /// # Errors
    /// See [`WriteBatch::put`]. The limit on the length of a key applies to `end` too.
    #[inline]
    pub fn delete_range(&mut self, begin: impl AsRef<[u8]>, end: impl AsRef<[u8]>) -> Result<()> {
        self.delete_range_cf(DEFAULT_FAMILY, begin, end)
    }

    /// Removes every key in `[begin, end)` from a column family.
    ///
    /// # Errors
    /// See [`WriteBatch::put`]. The limit on the length of a key applies to `end` too.
    #[inline]
    pub fn delete_range_cf(
        &mut self,
        family: impl AsColumnFamilyId,
        begin: impl AsRef<[u8]>,
        end: impl AsRef<[u8]>,
    ) -> Result<()> {
        limits::check_key(end.as_ref().len()).map_err(too_long)?;
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

    /// Adds a merge operand to `key` in a column family.
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

    /// Sets the value of `key` in a column family to a serialized wide-column entity.
    ///
    /// # Errors
    /// See [`WriteBatch::put`].
    pub fn put_entity_cf(
        &mut self,
        family: impl AsColumnFamilyId,
        key: impl AsRef<[u8]>,
        entity: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.add(RecordKind::Entity, family.column_family_id(), key.as_ref(), entity.as_ref())
    }

    /// Sets the value of `key` in a column family to a reference to a value in a blob file. `index`
    /// is the serialized reference (blob index).
    ///
    /// A write to a database refuses such a record, because only flushes and compactions write blob
    /// indexes. RocksDB's format allows the record in a log, and replay accepts it. This method
    /// builds such batches for the tests of readers.
    ///
    /// # Errors
    /// See [`WriteBatch::put`].
    #[doc(hidden)]
    pub fn put_blob_index_cf(
        &mut self,
        family: impl AsColumnFamilyId,
        key: impl AsRef<[u8]>,
        index: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.add(RecordKind::BlobIndex, family.column_family_id(), key.as_ref(), index.as_ref())
    }

    /// Sets the value of `key` in a column family, with the explicit write time `write_time_s`, in
    /// seconds since 1970.
    ///
    /// # Errors
    /// See [`WriteBatch::put`]. The write time adds eight bytes to the length of the value.
    pub fn timed_put_cf(
        &mut self,
        family: impl AsColumnFamilyId,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        write_time_s: u64,
    ) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        let value_length = value.len() + timed_value::NUMBER_LENGTH;
        limits::check_entry(key.len(), value_length).map_err(too_long)?;
        self.begin(RecordKind::TimedPut, family.column_family_id())?;
        put_length_prefixed(&mut self.bytes, key);
        put_varint64(&mut self.bytes, value_length as u64);
        timed_value::put(&mut self.bytes, value, write_time_s);
        Ok(())
    }

    /// Adds a record with arbitrary bytes, which only readers of the log see. It changes no key and
    /// is not counted.
    ///
    /// # Errors
    /// See [`WriteBatch::put`].
    pub fn put_log_data(&mut self, data: impl AsRef<[u8]>) -> Result<()> {
        self.add(RecordKind::LogData, 0, &[], data.as_ref())
    }

    /// Appends the records of another batch to this one.
    ///
    /// # Errors
    /// Unsupported if the batch would have more than `u32::MAX` records.
    pub fn append(&mut self, other: &WriteBatch) -> Result<()> {
        self.add_to_count(other.count)?;
        self.plain = self.plain.and(other.plain);
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
        limits::check_entry(key.len(), value.len()).map_err(too_long)?;
        self.begin(kind, column_family)?;
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

    /// Begins a record: counts it, and writes its tag and the ID of its column family.
    fn begin(&mut self, kind: RecordKind, column_family: u32) -> Result<()> {
        self.add_to_count(u32::from(kind.value_type().is_some()))?;
        let plain = match kind {
            RecordKind::Put | RecordKind::Delete | RecordKind::SingleDelete => {
                Plain::In(column_family)
            }
            _ => Plain::No,
        };
        self.plain = self.plain.and(plain);
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

#[cold]
fn too_long(entry: TooLong) -> Error {
    Error::unsupported(entry.to_string())
}
