//! Super versions. A super version holds the memtables, the version and the settings that a read of
//! a column family uses.

use std::collections::VecDeque;
use std::sync::Arc;

use tailwater_io::Purpose;

use crate::blob::{BlobCache, PackedValue};
use crate::column_family::{FamilyReaders, FamilySettings, FlushReason};
use crate::error::Result;
use crate::memtable::MemTable;
use crate::merge_operator::FamilyMergeOperator;
use crate::table::TableCache;
use crate::version::Version;

/// The memtables, version and settings of a column family at a point in time. Immutable. While a
/// super version exists, its files are not removed.
#[derive(Debug)]
pub(crate) struct SuperVersion {
    /// Number of this super version, counted from 1 for each column family.
    number: u64,
    /// The memtables, newest first.
    memtables: Vec<Arc<MemTable>>,
    version: Arc<Version>,
    settings: Arc<FamilySettings>,
}

impl SuperVersion {
    /// Creates a super version from memtables, newest first, and a version.
    pub(crate) fn new(
        number: u64,
        memtables: Vec<Arc<MemTable>>,
        version: Arc<Version>,
        settings: Arc<FamilySettings>,
    ) -> Self {
        Self { number, memtables, version, settings }
    }

    /// Returns the number of this super version, counted from 1 for each column family.
    #[inline]
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Returns the settings of the column family.
    #[inline]
    pub(crate) fn settings(&self) -> &Arc<FamilySettings> {
        &self.settings
    }

    /// Whether `memtable` has reached the size or the number of range deletions at which it must be
    /// sealed.
    #[inline]
    pub(crate) fn is_filled_by(&self, memtable: &MemTable) -> bool {
        let size = self.settings.options.write_buffer_size;
        memtable.memory_usage() as u64 >= size && !memtable.is_empty()
            || self.has_many_range_deletions(memtable)
    }

    /// Returns the limit that `memtable` has reached, as the reason to seal it; `None` if it has
    /// reached none.
    pub(crate) fn reason_to_seal(&self, memtable: &MemTable) -> Option<FlushReason> {
        self.is_filled_by(memtable).then(|| match self.has_many_range_deletions(memtable) {
            true => FlushReason::RangeDeletions,
            false => FlushReason::WriteBufferFull,
        })
    }

    fn has_many_range_deletions(&self, memtable: &MemTable) -> bool {
        let limit = u64::from(self.settings.options.memtable_max_range_deletions);
        limit > 0 && memtable.counters().range_deletions >= limit
    }

    /// Returns the memtables, newest first.
    #[inline]
    pub(crate) fn memtables(&self) -> &[Arc<MemTable>] {
        &self.memtables
    }

    /// Returns the version: tables and blob files.
    #[inline]
    pub(crate) fn version(&self) -> &Arc<Version> {
        &self.version
    }

    /// Returns the open tables.
    #[inline]
    pub(crate) fn tables(&self) -> &Arc<TableCache> {
        &self.settings.readers.tables
    }

    /// Returns the open blob files.
    #[inline]
    pub(crate) fn blobs(&self) -> &Arc<BlobCache> {
        &self.settings.readers.blobs
    }

    /// Returns the merge operator.
    #[inline]
    pub(crate) fn merge_operator(&self) -> &FamilyMergeOperator {
        &self.settings.readers.merge_operator
    }

    /// Whether an iterator uses prefix filters only if its read options request it.
    pub(crate) fn prefixes_on_request(&self) -> bool {
        self.settings.readers.prefixes_on_request
    }

    /// Returns the maximum number of records that an iterator skips one by one before it seeks
    /// instead.
    pub(crate) fn max_sequential_skip(&self) -> u64 {
        self.settings.options.max_sequential_skip_in_iterations
    }

    /// Reads the value of `user_key` at the location that `index`, an encoded blob index, gives.
    pub(crate) fn read_blob(&self, user_key: &[u8], index: &[u8]) -> Result<Vec<u8>> {
        self.settings.readers.blobs.read(user_key, index, Purpose::UserBlobRead)
    }

    /// Reads the values of several keys, each given with its encoded blob index, together: see
    /// [`BlobCache::read_together`].
    pub(crate) fn read_blobs<'k>(
        &self,
        wanted: impl Iterator<Item = (&'k [u8], &'k [u8])>,
    ) -> VecDeque<Result<PackedValue>> {
        let FamilyReaders { tables, blobs, .. } = &*self.settings.readers;
        blobs.read_together(wanted, &tables.context().in_flight, Purpose::UserBlobRead)
    }
}
