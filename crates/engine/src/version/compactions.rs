//! Compactions, and the compaction state of a column family: which compactions run, and where
//! round-robin compactions continue.

use std::sync::Arc;

use tailwater_format::Comparator;
use tailwater_format::version_edit::CompactCursor;

use crate::table::FileMetadata;

/// A compaction, as chosen by the picker and executed by a job.
#[derive(Debug, Clone)]
pub(crate) struct Compaction {
    /// The input levels, in ascending order; the last may be the output level. Each has tables.
    pub(crate) inputs: Vec<InputLevel>,
    /// The level of the new tables.
    pub(crate) output_level: usize,
    /// The reason for the compaction.
    pub(crate) reason: Reason,
    pub(crate) kind: CompactionKind,
    /// Whether no level below the output level, and no older table of level 0, has a key in the
    /// range of the inputs.
    pub(crate) is_bottommost: bool,
    /// Tables that overlap the inputs. They are in the first level, going down from the output
    /// level, in which any table overlaps the inputs. Outputs are cut so that each output overlaps
    /// few of these tables.
    pub(crate) grandparents: Vec<Arc<FileMetadata>>,
    /// Approximate size at which an output table is ended and the next one begun, in bytes.
    pub(crate) max_output_file_bytes: u64,
    /// Maximum total size of the grandparents that an output overlaps, in bytes.
    pub(crate) max_overlap_bytes: u64,
    /// Maximum number of parts of this compaction that run concurrently.
    pub(crate) max_subcompactions: usize,
}

/// What a compaction does with its input tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CompactionKind {
    /// They change their level, without being rewritten.
    Move,
    /// They are merged into new tables.
    Merge,
    /// They are removed together with their records.
    #[expect(dead_code, reason = "the picker never drops tables")]
    Drop,
}

/// The input tables of one level.
#[derive(Debug, Clone)]
pub(crate) struct InputLevel {
    pub(crate) level: usize,
    /// The tables in the level's order: newest first in level 0, by key in other levels.
    pub(crate) files: Vec<Arc<FileMetadata>>,
}

/// The reason for a compaction. The names are those of RocksDB's `CompactionReason`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// Level 0 has too many tables or bytes.
    LevelL0FilesNum,
    /// A level has too many bytes.
    LevelMaxLevelSize,
    /// A caller requested the compaction.
    ManualCompaction,
    /// Tables were marked for compaction.
    FilesMarkedForCompaction,
    /// Tables of the last level hold data that snapshots no longer need.
    BottommostFiles,
    /// Tables hold data older than `ttl`.
    Ttl,
    /// Tables hold data older than `ttl`, and the level's tables are compacted in round-robin
    /// order.
    RoundRobinTtl,
    /// Tables are older than `periodic_compaction_seconds`.
    PeriodicCompaction,
}

impl Compaction {
    /// Returns all input tables.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Arc<FileMetadata>> {
        self.inputs.iter().flat_map(|level| level.files.iter())
    }

    /// Marks the input tables as being compacted, or as free again. They must be marked before
    /// another compaction is picked, and freed when this one has ended, even if it failed.
    pub(crate) fn mark_inputs(&self, being_compacted: bool) {
        self.files().for_each(|file| file.compaction.set_claimed(being_compacted));
    }

    /// Returns the first input level.
    pub(crate) fn start_level(&self) -> usize {
        self.inputs.first().map_or(0, |input| input.level)
    }

    /// Returns the smallest and the largest user key of the input tables.
    pub(crate) fn user_keys(&self, comparator: &Comparator) -> Option<(&[u8], &[u8])> {
        let smallest = self.files().map(|file| file.smallest_user_key());
        let largest = self.files().map(|file| file.largest_user_key());
        let smallest = smallest.min_by(|a, b| comparator.compare(a, b))?;
        let largest = largest.max_by(|a, b| comparator.compare(a, b))?;
        Some((smallest, largest))
    }
}

/// The round-robin cursors of levels: the positions at which their next compactions start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct CompactCursors {
    /// The cursor of each level, an internal key; empty if the level has no cursor.
    keys: Vec<Vec<u8>>,
}

impl CompactCursors {
    /// Moves a level's cursor to the given key.
    pub(crate) fn set(&mut self, cursor: &CompactCursor) {
        let level = cursor.level as usize;
        if self.keys.len() <= level {
            self.keys.resize_with(level + 1, Vec::new);
        }
        self.keys[level].clone_from(&cursor.key);
    }

    /// Returns the cursors of all levels that have a cursor.
    pub(crate) fn iter(&self) -> impl Iterator<Item = CompactCursor> {
        let keys = (0..).zip(&self.keys).filter(|(_, key)| !key.is_empty());
        keys.map(|(level, key)| CompactCursor { level, key: key.clone() })
    }

    /// Returns the cursor of a level, which is an internal key; `None` if the level has no cursor.
    pub(crate) fn get(&self, level: usize) -> Option<&[u8]> {
        self.keys.get(level).map(Vec::as_slice).filter(|key| !key.is_empty())
    }
}

/// The compaction state of a column family. The lock on the versions protects it.
#[derive(Debug, Default)]
pub(crate) struct CompactionState {
    /// The compactions that have claimed their inputs and have not ended.
    running: Vec<Arc<Compaction>>,
    /// For each level, the key at which the next round-robin compaction begins.
    cursors: CompactCursors,
}

impl CompactionState {
    /// Creates the state with the cursors recorded in the MANIFEST.
    pub(crate) fn new(cursors: CompactCursors) -> Self {
        Self { cursors, ..Self::default() }
    }

    /// Returns the running compactions.
    pub(crate) fn running(&self) -> &[Arc<Compaction>] {
        &self.running
    }

    /// Returns the round-robin cursors.
    pub(crate) fn cursors(&self) -> &CompactCursors {
        &self.cursors
    }

    /// Notes that a compaction has claimed its inputs.
    pub(crate) fn begin(&mut self, compaction: Arc<Compaction>) {
        self.running.push(compaction);
    }

    /// Notes that a compaction has ended.
    pub(crate) fn end(&mut self, compaction: &Arc<Compaction>) {
        self.running.retain(|running| !Arc::ptr_eq(running, compaction));
    }

    /// Moves a round-robin cursor.
    pub(crate) fn move_cursor(&mut self, cursor: &CompactCursor) {
        self.cursors.set(cursor);
    }
}
