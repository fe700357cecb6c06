//! A table of a version: what the MANIFEST says of it, and its state while the database is open.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use tailwater_format::file_name::FileKind;
use tailwater_format::key::{self, Sequence};
use tailwater_format::table::Properties;
use tailwater_format::version_edit::NewFile;
use tailwater_io::Clock;
use tailwater_io::clock::SystemClock;

use crate::block_cache::BlockCache;
use crate::cache::OutsideCharge;
use crate::handover::{Generations, HotRegions};
use crate::memory_counters::{Consumer, Counted};
use crate::table::{CompactionMarks, OpenReader, TableIdentity};

/// The next identifier of a table's blocks in the block cache, unique within the process.
static NEXT_CACHE_ID: AtomicU64 = AtomicU64::new(1);

/// A table at its level. Versions share it.
#[derive(Debug)]
pub(crate) struct FileMetadata {
    /// What the MANIFEST says of the table: the version edit's entry that added it.
    added: NewFile,
    file: Arc<TableFile>,
    /// The memory of this object, once it is charged to a block cache.
    charge: OnceLock<OutsideCharge>,
    counted: Counted,
    pub(crate) reader: OpenReader,
    pub(crate) compaction: CompactionMarks,
}

/// What is known of a table's file. The [`FileMetadata`] of the same file at other levels, in other
/// versions, share it. The file must exist as long as any of them.
#[derive(Debug)]
struct TableFile {
    /// Identifies the file in the block cache.
    cache_id: u64,
    /// When the file was added, in nanoseconds of [`SystemClock::monotonic_ns`]; `None` if that was
    /// before the database was opened.
    added_ns: Option<u64>,
    /// Whether the file has LevelDB's extension, `.ldb`.
    has_leveldb_name: AtomicBool,
    /// Known once the table was written or first opened.
    statistics: OnceLock<FileStatistics>,
    /// Created when the table is first opened.
    hot_regions: OnceLock<Arc<HotRegions>>,
}

/// Statistics of a table's contents, from its properties.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct FileStatistics {
    /// Number of records, including range tombstones.
    pub(crate) entries: u64,
    /// Number of deletions among the records, including range tombstones.
    pub(crate) deletions: u64,
    /// Number of range tombstones among the records.
    pub(crate) range_deletions: u64,
    /// Uncompressed size of the internal keys, in bytes.
    pub(crate) raw_key_bytes: u64,
    /// Uncompressed size of the values, in bytes.
    pub(crate) raw_value_bytes: u64,
    /// Write time of the oldest data, in seconds since 1970; 0 if unknown.
    pub(crate) oldest_ancestor_time_s: u64,
    /// Creation time of the table, in seconds since 1970; 0 if unknown.
    pub(crate) creation_time_s: u64,
}

impl FileStatistics {
    /// Creates the statistics from `properties`. In old tables, the numbers of records and
    /// deletions do not include range tombstones. So each of the two numbers is raised to the
    /// number of range tombstones if it is lower.
    pub(crate) fn of(properties: &Properties) -> Self {
        let deletions = properties.num_deletions.max(properties.num_range_deletions);
        Self {
            entries: properties.num_entries.max(deletions),
            deletions,
            range_deletions: properties.num_range_deletions,
            raw_key_bytes: properties.raw_key_size,
            raw_value_bytes: properties.raw_value_size,
            oldest_ancestor_time_s: properties.creation_time,
            creation_time_s: properties.file_creation_time,
        }
    }
}

/// Returns the memory that is used for a table as long as it is in a version, in bytes.
fn memory(added: &NewFile) -> usize {
    let NewFile { smallest, largest, checksum, open_metadata, .. } = added;
    let checksum = checksum.as_ref().map_or(0, |it| it.function.len() + it.value.len());
    let keys = smallest.len() + largest.len();
    size_of::<FileMetadata>() + size_of::<TableFile>() + keys + checksum + open_metadata.len()
}

impl FileMetadata {
    /// Whether a compaction of the table to the next level is due whatever the sizes of the levels
    /// are: the MANIFEST says so, or it was suggested.
    pub(crate) fn is_marked_for_compaction(&self) -> bool {
        self.added.marked_for_compaction || self.compaction.is_suggested()
    }

    /// Creates the metadata of a table that is added now. It is not yet open.
    pub(crate) fn new(added: NewFile) -> Self {
        Self::added_at(Some(SystemClock.monotonic_ns()), added)
    }

    /// Creates the metadata of a table that was there when the database was opened.
    pub(crate) fn found(added: NewFile) -> Self {
        Self::added_at(None, added)
    }

    fn added_at(added_ns: Option<u64>, added: NewFile) -> Self {
        let file = TableFile {
            cache_id: NEXT_CACHE_ID.fetch_add(1, Ordering::Relaxed),
            added_ns,
            has_leveldb_name: AtomicBool::new(false),
            statistics: OnceLock::new(),
            hot_regions: OnceLock::new(),
        };
        Self::of_file(Arc::new(file), added)
    }

    /// Creates the metadata of a table that is moved from another level. The table's blocks stay
    /// valid in the block cache.
    pub(crate) fn moved(from: &Self, added: NewFile) -> Self {
        Self::of_file(Arc::clone(&from.file), added)
    }

    fn of_file(file: Arc<TableFile>, added: NewFile) -> Self {
        let (reader, compaction) = (OpenReader::default(), CompactionMarks::default());
        let counted = Counted::new(Consumer::Tables, memory(&added));
        Self { added, file, charge: OnceLock::new(), counted, reader, compaction }
    }

    /// Charges the memory of this object to `cache`, unless it is charged already, or does not fit
    /// under a strict capacity limit. Takes no lock.
    pub(crate) fn charge_to(&self, cache: &BlockCache) {
        if self.charge.get().is_none()
            && let Some(charge) = cache.blocks.charge_without_lock(self.counted.bytes())
        {
            let _ = self.charge.set(charge);
        }
    }

    /// Whether `self` is the last reference to the table's file, so that the caller may remove the
    /// file. `self` must not be in a version that can still be acquired.
    pub(crate) fn is_last(self: &Arc<Self>) -> bool {
        Arc::strong_count(self) == 1 && Arc::strong_count(&self.file) == 1
    }

    /// Returns the number that identifies the table's file in the block cache.
    pub(crate) fn cache_id(&self) -> u64 {
        self.file.cache_id
    }

    /// Returns the name of the table's file.
    pub(crate) fn name(&self) -> FileKind {
        if self.file.has_leveldb_name.load(Ordering::Relaxed) {
            FileKind::LevelDbTable(self.number())
        } else {
            FileKind::Table(self.number())
        }
    }

    /// Records that the table's file has LevelDB's extension, `.ldb`.
    pub(crate) fn set_leveldb_name(&self) {
        self.file.has_leveldb_name.store(true, Ordering::Relaxed);
    }

    /// Returns the statistics of the table's contents, if they are known.
    pub(crate) fn statistics(&self) -> Option<&FileStatistics> {
        self.file.statistics.get()
    }

    /// Sets the statistics of the table's contents, unless they are already set.
    pub(crate) fn set_statistics(&self, statistics: FileStatistics) {
        let _ = self.file.statistics.set(statistics);
    }

    /// Returns the regions of the table that users read recently. A compaction that replaces the
    /// table keeps the data of these regions in memory (warm handover).
    pub(crate) fn hot_regions(&self, generations: &Arc<Generations>) -> &Arc<HotRegions> {
        self.file
            .hot_regions
            .get_or_init(|| Arc::new(HotRegions::new(Arc::clone(generations), self.size())))
    }

    /// Returns the write time of the table's oldest data, in seconds since 1970; 0 if unknown.
    pub(crate) fn oldest_ancestor_time_s(&self) -> u64 {
        let by_table = |table: &FileStatistics| table.oldest_ancestor_time_s;
        match self.added.oldest_ancestor_time_s {
            0 => self.statistics().map_or(0, by_table),
            time_s => time_s,
        }
    }

    /// Returns the creation time of the table, in seconds since 1970; 0 if unknown.
    pub(crate) fn creation_time_s(&self) -> u64 {
        match self.added.creation_time_s {
            0 => self.statistics().map_or(0, |table| table.creation_time_s),
            time_s => time_s,
        }
    }

    /// Returns the version edit's entry that added the table.
    pub(crate) fn added(&self) -> &NewFile {
        &self.added
    }

    /// Returns the table's file number.
    pub(crate) fn number(&self) -> u64 {
        self.added.number
    }

    /// Returns the length of the table's file, in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.added.size
    }

    /// Returns the table's smallest internal key.
    #[inline]
    pub(crate) fn smallest(&self) -> &[u8] {
        &self.added.smallest
    }

    /// Returns the table's largest internal key. If the key's trailer is the maximum, the key is
    /// the exclusive end of a range tombstone.
    #[inline]
    pub(crate) fn largest(&self) -> &[u8] {
        &self.added.largest
    }

    /// Returns the user key of the table's smallest key.
    #[inline]
    pub(crate) fn smallest_user_key(&self) -> &[u8] {
        key::user_key(&self.added.smallest)
    }

    /// Returns the user key of the table's largest key.
    #[inline]
    pub(crate) fn largest_user_key(&self) -> &[u8] {
        key::user_key(&self.added.largest)
    }

    /// Returns the table's highest sequence number.
    pub(crate) fn largest_sequence(&self) -> Sequence {
        self.added.largest_sequence
    }

    /// Returns the facts about the table that its reader verifies or uses when it opens the file.
    pub(crate) fn identity(&self) -> TableIdentity {
        let unique_id = self.added.unique_id;
        TableIdentity {
            cache_id: self.cache_id(),
            largest_sequence: Some(self.added.largest_sequence),
            unique_id: (unique_id != [0, 0]).then_some(unique_id),
            tail_length: self.added.tail_size,
            level: Some(self.added.level),
            added_ns: self.file.added_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_properties_without_range_tombstones_in_their_counts_are_corrected() {
        let mut properties = Properties::default();
        properties.num_entries = 3;
        properties.num_deletions = 1;
        properties.num_range_deletions = 5;
        let statistics = FileStatistics::of(&properties);
        assert_eq!((statistics.entries, statistics.deletions), (5, 5));
    }

    #[test]
    fn the_age_of_a_table_is_taken_from_the_manifest_first() {
        let file = |oldest_ancestor_time_s, creation_time_s| {
            let added = NewFile { oldest_ancestor_time_s, creation_time_s, ..NewFile::default() };
            FileMetadata::new(added)
        };
        let statistics = FileStatistics {
            oldest_ancestor_time_s: 7,
            creation_time_s: 8,
            ..FileStatistics::default()
        };
        let unknown = file(0, 0);
        assert_eq!((unknown.oldest_ancestor_time_s(), unknown.creation_time_s()), (0, 0));
        unknown.set_statistics(statistics);
        assert_eq!((unknown.oldest_ancestor_time_s(), unknown.creation_time_s()), (7, 8));
        let known = file(1, 2);
        known.set_statistics(statistics);
        assert_eq!((known.oldest_ancestor_time_s(), known.creation_time_s()), (1, 2));
    }
}
