//! A table, as the MANIFEST knows it, and its reader while it is open.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use tailwater_format::file_name::FileKind;
use tailwater_format::key::{self, Sequence};
use tailwater_format::table::Properties;
use tailwater_format::version_edit::NewFile;
use tailwater_io::sync::Mutex;

use crate::epoch::EpochCell;
use crate::handover::{Generations, Heat};
use crate::table::{TableIdentity, TableReader};

/// What tables' blocks go by in the block cache: never the same for two tables of a process.
static NEXT_CACHE_ID: AtomicU64 = AtomicU64::new(1);

/// A table, as the MANIFEST knows it. Versions share it.
#[derive(Debug)]
pub(crate) struct FileMetadata {
    /// What was said when it was added.
    added: NewFile,
    cache_id: u64,
    /// Its reader, if it is open: filled and emptied by the table cache.
    pub(crate) table: EpochCell<TableReader>,
    /// Held by whoever opens it for everybody, so that nobody else reads the same meanwhile.
    pub(crate) opening: Mutex<()>,
    /// Whether it was read since the table cache last looked.
    pub(crate) touched: AtomicBool,
    /// Whether a compaction takes it in. Set and read by whoever holds the lock under which
    /// compactions are picked.
    being_compacted: AtomicBool,
    /// Whether its file has LevelDB's name.
    has_leveldb_name: AtomicBool,
    /// What it holds, since it was written or first opened.
    statistics: OnceLock<FileStatistics>,
    /// Shared by what stands for the same file in other levels, which older versions still have.
    bytes: Arc<FileBytes>,
    /// What of it users read lately, once that is asked for.
    heat: OnceLock<Arc<Heat>>,
}

/// The bytes of a table's file, which are needed as long as any [`FileMetadata`] shares this.
#[derive(Debug)]
struct FileBytes;

/// What a table holds, as its properties say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct FileStatistics {
    /// How many records, range tombstones included.
    pub(crate) entries: u64,
    /// How many of them delete something, range tombstones included.
    pub(crate) deletions: u64,
    /// How many of them are range tombstones.
    pub(crate) range_deletions: u64,
    /// How many bytes the internal keys take, uncompressed.
    pub(crate) raw_key_bytes: u64,
    /// How many bytes the values take, uncompressed.
    pub(crate) raw_value_bytes: u64,
    /// When the oldest of the data was written, in seconds since 1970; 0 if unknown.
    pub(crate) oldest_ancestor_time_s: u64,
    /// When the table was made, in seconds since 1970; 0 if unknown.
    pub(crate) creation_time_s: u64,
}

impl FileStatistics {
    /// What `properties` say. Old tables do not count range tombstones among the rest.
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

impl FileMetadata {
    /// A table that is not open yet.
    pub(crate) fn new(added: NewFile) -> Self {
        Self {
            added,
            cache_id: NEXT_CACHE_ID.fetch_add(1, Ordering::Relaxed),
            table: EpochCell::new(None),
            opening: Mutex::new(()),
            touched: AtomicBool::new(false),
            being_compacted: AtomicBool::new(false),
            has_leveldb_name: AtomicBool::new(false),
            statistics: OnceLock::new(),
            bytes: Arc::new(FileBytes),
            heat: OnceLock::new(),
        }
    }

    /// A table that was in another level: its blocks stay in the block cache.
    pub(crate) fn moved(from: &Self, added: NewFile) -> Self {
        let statistics = from.statistics.clone();
        let bytes = Arc::clone(&from.bytes);
        let heat = from.heat.clone();
        let has_leveldb_name = AtomicBool::new(from.has_leveldb_name.load(Ordering::Relaxed));
        let cache_id = from.cache_id;
        Self { cache_id, has_leveldb_name, statistics, bytes, heat, ..Self::new(added) }
    }

    /// Whether only the caller needs the table's file: no version has it, in whatever level. `self`
    /// must be in no version that can still be taken up.
    pub(crate) fn is_last(self: &Arc<Self>) -> bool {
        Arc::strong_count(self) == 1 && Arc::strong_count(&self.bytes) == 1
    }

    /// The name of its file.
    pub(crate) fn name(&self) -> FileKind {
        match self.has_leveldb_name.load(Ordering::Relaxed) {
            true => FileKind::LevelDbTable(self.number()),
            false => FileKind::Table(self.number()),
        }
    }

    /// Notes that its file was found under LevelDB's name.
    pub(crate) fn set_leveldb_name(&self) {
        self.has_leveldb_name.store(true, Ordering::Relaxed);
    }

    /// Whether a compaction takes it in.
    pub(crate) fn is_being_compacted(&self) -> bool {
        self.being_compacted.load(Ordering::Relaxed)
    }

    /// Says whether a compaction takes it in.
    pub(crate) fn set_being_compacted(&self, being_compacted: bool) {
        self.being_compacted.store(being_compacted, Ordering::Relaxed);
    }

    /// What it holds, if that is known yet.
    pub(crate) fn statistics(&self) -> Option<&FileStatistics> {
        self.statistics.get()
    }

    /// Says what it holds. What was said first stays.
    pub(crate) fn set_statistics(&self, statistics: FileStatistics) {
        let _ = self.statistics.set(statistics);
    }

    /// What of it users read lately.
    pub(crate) fn heat(&self, generations: &Arc<Generations>) -> &Arc<Heat> {
        self.heat.get_or_init(|| Arc::new(Heat::new(Arc::clone(generations), self.size())))
    }

    /// When the oldest of its data was written, in seconds since 1970; 0 if unknown.
    pub(crate) fn oldest_ancestor_time_s(&self) -> u64 {
        let by_table = |table: &FileStatistics| table.oldest_ancestor_time_s;
        match self.added.oldest_ancestor_time_s {
            0 => self.statistics().map_or(0, by_table),
            time_s => time_s,
        }
    }

    /// When it was made, in seconds since 1970; 0 if unknown.
    pub(crate) fn creation_time_s(&self) -> u64 {
        match self.added.creation_time_s {
            0 => self.statistics().map_or(0, |table| table.creation_time_s),
            time_s => time_s,
        }
    }

    /// What was said when it was added.
    pub(crate) fn added(&self) -> &NewFile {
        &self.added
    }

    /// The number in its name.
    pub(crate) fn number(&self) -> u64 {
        self.added.number
    }

    /// Its length in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.added.size
    }

    /// Its smallest internal key.
    #[inline]
    pub(crate) fn smallest(&self) -> &[u8] {
        &self.added.smallest
    }

    /// Its largest internal key; the end of a range tombstone, exclusive, if its trailer is the
    /// highest there is.
    #[inline]
    pub(crate) fn largest(&self) -> &[u8] {
        &self.added.largest
    }

    /// The user key of its smallest key.
    #[inline]
    pub(crate) fn smallest_user_key(&self) -> &[u8] {
        key::user_key(&self.added.smallest)
    }

    /// The user key of its largest key.
    #[inline]
    pub(crate) fn largest_user_key(&self) -> &[u8] {
        key::user_key(&self.added.largest)
    }

    /// The highest sequence number in it.
    pub(crate) fn largest_sequence(&self) -> Sequence {
        self.added.largest_sequence
    }

    /// What its reader must find when it opens the file.
    pub(crate) fn identity(&self) -> TableIdentity {
        let unique_id = self.added.unique_id;
        TableIdentity {
            cache_id: self.cache_id,
            largest_sequence: Some(self.added.largest_sequence),
            unique_id: (unique_id != [0, 0]).then_some(unique_id),
            tail_length: self.added.tail_size,
            level_0: self.added.level == 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_tables_do_not_count_range_tombstones_among_the_rest() {
        let properties = Properties {
            num_entries: 3,
            num_deletions: 1,
            num_range_deletions: 5,
            ..Properties::default()
        };
        let statistics = FileStatistics::of(&properties);
        assert_eq!((statistics.entries, statistics.deletions), (5, 5));
    }

    #[test]
    fn the_manifest_says_how_old_a_table_is_before_the_table_does() {
        let file = |oldest_ancestor_time_s, creation_time_s| {
            let added = NewFile { oldest_ancestor_time_s, creation_time_s, ..NewFile::default() };
            FileMetadata::new(added)
        };
        let told = FileStatistics {
            oldest_ancestor_time_s: 7,
            creation_time_s: 8,
            ..FileStatistics::default()
        };
        let unknown = file(0, 0);
        assert_eq!((unknown.oldest_ancestor_time_s(), unknown.creation_time_s()), (0, 0));
        unknown.set_statistics(told);
        assert_eq!((unknown.oldest_ancestor_time_s(), unknown.creation_time_s()), (7, 8));
        let known = file(1, 2);
        known.set_statistics(told);
        assert_eq!((known.oldest_ancestor_time_s(), known.creation_time_s()), (1, 2));
    }
}
