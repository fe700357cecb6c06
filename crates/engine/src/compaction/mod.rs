//! Compaction: from tables of one or more levels to tables of a deeper one.
//!
//! # Order
//!
//! 1. The picker looks at a version and answers what to compact, or nothing. It changes nothing.
//! 2. The inputs are marked, so that no other compaction takes them.
//! 3. A job merges them, without what nobody can see any more, into new tables, which it syncs.
//! 4. The outputs are opened, which only this compaction knows of.
//! 5. The compaction waits for its turn to change the versions. The MANIFEST gets one edit: the
//!    inputs out, the outputs in.
//! 6. Readers get the new version. The inputs go when nobody reads them.
//!
//! # A crash
//!
//! Before the end of step 5 the outputs are left over, which the next open removes, and the inputs
//! count. After it the inputs are left over.

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

pub use filter::{CompactionFilter, FilterDecision, FilteredValue};
pub use manual::CompactRangeOptions;
pub(crate) use merge::{Snapshots, Stripe};
pub use picker::BottommostRewrite;
pub(crate) use picker::{
    CompactCursors, LevelTargets, compare_bounds, is_behind, level_scores, pending_compaction_bytes,
};
pub(crate) use schedule::CompactionState;
pub(crate) use urgency::{Quiet, Urgency};

/// What is to be compacted: the picker's answer, which a job carries out.
#[derive(Debug, Clone)]
pub(crate) struct Compaction {
    /// The levels that tables are taken from, in order; the output level may be the last of them.
    /// None is empty but, for a move, that of the output.
    pub(crate) inputs: Vec<InputLevel>,
    /// Where the new tables go.
    pub(crate) output_level: usize,
    /// Why.
    pub(crate) reason: Reason,
    /// Whether the input tables just change their level: no byte of them moves.
    pub(crate) is_move: bool,
    /// Whether no level below the output's, nor an older table of level 0, has any key between the
    /// smallest and the largest of the inputs.
    pub(crate) is_bottommost: bool,
    /// The tables of the level below the output's that overlap the inputs: outputs are cut so that
    /// each overlaps few of them.
    pub(crate) grandparents: Vec<Arc<FileMetadata>>,
    /// At about how many bytes an output is cut.
    pub(crate) max_output_file_bytes: u64,
    /// With how many bytes of grandparents an output may overlap.
    pub(crate) max_overlap_bytes: u64,
    /// Into how many parts it may be cut that run at once.
    pub(crate) max_subcompactions: usize,
}

/// The tables of one level that go into a compaction.
#[derive(Debug, Clone)]
pub(crate) struct InputLevel {
    pub(crate) level: usize,
    /// In the level's order: of level 0 the newest first, of the others by key.
    pub(crate) files: Vec<Arc<FileMetadata>>,
}

/// Why a compaction is done. The names are RocksDB's, of `CompactionReason`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// Level 0 has too many tables or bytes.
    LevelL0FilesNum,
    /// A level has too many bytes.
    LevelMaxLevelSize,
    /// Somebody asked for it.
    ManualCompaction,
    /// Tables were marked for it.
    FilesMarkedForCompaction,
    /// Tables of the last level hold what no snapshot needs any more.
    BottommostFiles,
    /// Tables hold data older than `ttl`.
    Ttl,
    /// As above, where the tables of a level are taken in turn.
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
