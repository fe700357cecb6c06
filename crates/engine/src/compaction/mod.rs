//! Compaction: merges tables of one or more levels into tables of a deeper one.
//!
//! # Order
//!
//! 1. The picker selects what to compact from a version, or nothing. It changes nothing.
//! 2. The inputs are claimed, so that no other compaction takes them.
//! 3. A job merges them, without records that no reader can see, into new tables, which it syncs.
//! 4. The outputs are opened. No other thread knows of them yet.
//! 5. The compaction waits for its turn to install. One edit of the MANIFEST replaces the inputs
//!    with the outputs.
//! 6. Readers get the new version. The inputs are deleted when no reader uses them.
//!
//! # A crash
//!
//! Before the end of step 5 the outputs are obsolete, and the next open removes them. After it the
//! inputs are obsolete.

mod filter;
mod job;
mod manual;
mod merge;
mod output;
mod picker;
mod schedule;
mod subcompaction;
#[cfg(test)]
mod tests;
mod urgency;

use std::sync::Arc;

use crate::version::FileMetadata;

pub use filter::{CompactionFilter, CustomCompactionFilter, FilterDecision, FilteredValue};
pub use manual::CompactRangeOptions;
pub(crate) use merge::{Snapshots, Stripe};
pub use picker::BottommostRewrite;
pub(crate) use picker::{
    CompactCursors, LevelTargets, compare_bounds, is_behind, level_scores, pending_compaction_bytes,
};
pub(crate) use schedule::CompactionState;
pub(crate) use urgency::{Quiet, Urgency};

/// A compaction: the picker's choice, which a job executes.
#[derive(Debug, Clone)]
pub(crate) struct Compaction {
    /// The input levels, in order; the last may be the output level. None is empty, except the
    /// output level of a move.
    pub(crate) inputs: Vec<InputLevel>,
    /// The level of the new tables.
    pub(crate) output_level: usize,
    /// The reason.
    pub(crate) reason: Reason,
    /// Whether the input tables only change their level, without being rewritten.
    pub(crate) is_move: bool,
    /// Whether neither a level below the output's nor an older table of level 0 has a key in the
    /// range of the inputs.
    pub(crate) is_bottommost: bool,
    /// The tables of the level below the output's that overlap the inputs: outputs are cut so that
    /// each overlaps few of them.
    pub(crate) grandparents: Vec<Arc<FileMetadata>>,
    /// Approximate size at which an output is cut, in bytes.
    pub(crate) max_output_file_bytes: u64,
    /// Maximum size of the grandparents that an output overlaps, in bytes.
    pub(crate) max_overlap_bytes: u64,
    /// Maximum number of parts that run concurrently.
    pub(crate) max_subcompactions: usize,
}

/// The input tables of one level.
#[derive(Debug, Clone)]
pub(crate) struct InputLevel {
    pub(crate) level: usize,
    /// In the level's order: of level 0 the newest first, of the others by key.
    pub(crate) files: Vec<Arc<FileMetadata>>,
}

/// The reason of a compaction. The names are those of RocksDB's `CompactionReason`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// Level 0 has too many tables or bytes.
    LevelL0FilesNum,
    /// A level has too many bytes.
    LevelMaxLevelSize,
    /// It was requested.
    ManualCompaction,
    /// Tables were marked for compaction.
    FilesMarkedForCompaction,
    /// Tables of the last level hold data that snapshots no longer need.
    BottommostFiles,
    /// Tables hold data older than `ttl`.
    Ttl,
    /// Tables hold data older than `ttl`, and the level's tables are compacted round robin.
    RoundRobinTtl,
    /// Tables are older than `periodic_compaction_seconds`.
    PeriodicCompaction,
}

impl Compaction {
    /// All input tables.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Arc<FileMetadata>> {
        self.inputs.iter().flat_map(|level| level.files.iter())
    }
}
