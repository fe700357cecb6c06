//! Selects compactions from a version, its options and the running compactions.
//!
//! # Leveled compaction
//!
//! Level 0 holds the tables that flushes write, which may overlap. Every deeper level is one sorted
//! run with a target size ([`level_targets`]). Each level has a score, the ratio of its size to the
//! target ([`scores`]). The level with the highest score is compacted into the next one, or level 0
//! into the base level; [`priority`] decides which tables of the level come first. If no score
//! requires a compaction, tables that need one for another reason, such as their age, are compacted
//! ([`marked`]).
//!
//! # Order
//!
//! 1. The first tables of a level are selected ([`leveled`], [`level_0`]).
//! 2. Adjacent tables of the level are added until no user key is both in a selected table and in a
//!    neighbour that is not selected. Then the tables of the output level that overlap the selected
//!    ones are added. Finally, further tables of the input level are added, as long as they overlap
//!    no further tables of the output level ([`inputs`], [`round_robin`]).
//! 3. The compaction is abandoned if one of its tables is already being compacted, or if a running
//!    compaction writes to an overlapping range of the output level ([`running`]).
//! 4. The rest of the compaction is derived from the inputs ([`finish`]). Tables that need no merge
//!    are moved to the output level, several at a time ([`moves`]).
//!
//! A manual compaction selects its tables by their keys instead ([`manual`]).
//!
//! Under universal and FIFO compaction there are only manual compactions.
//!
//! # Invariants
//!
//! No input is already being compacted. Concurrent compactions never write to overlapping ranges of
//! one level. Below level 0 the inputs of a level are adjacent, and no user key is both in an input
//! and in a table of its level that is not an input.
//!
//! Source: `db/version_set.cc`, `db/compaction/compaction_picker.cc`,
//! `db/compaction/compaction_picker_level.cc` and `db/compaction/compaction.cc`.

mod finish;
mod inputs;
mod key_range;
mod level_0;
mod level_targets;
mod leveled;
mod manual;
mod marked;
mod moves;
mod pressure;
mod priority;
mod round_robin;
mod running;
mod scores;
#[cfg(test)]
mod tests;
mod tree;

use std::sync::Arc;

use tailwater_format::Comparator;
use tailwater_format::key::Sequence;

pub(crate) use finish::output_path;
pub(crate) use key_range::compare_bounds;
pub(crate) use level_targets::LevelTargets;
pub use manual::BottommostRewrite;
pub(crate) use manual::{
    ManualPick, ManualRange, ManualStep, first_step, next_step, pick_range, tables_to_suggest,
};
pub(crate) use pressure::{is_behind, pending_compaction_bytes};
pub(crate) use round_robin::next_cursor;
pub(crate) use scores::level_scores;

use crate::options::{ColumnFamilyOptions, CompactionStyle, DbOptions};
use crate::version::{CompactCursors, Compaction, Version};

use tree::Tree;

/// The picker's input. The options must be sanitized.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PickContext<'a> {
    /// The version to compact.
    pub(crate) version: &'a Version,
    pub(crate) options: &'a ColumnFamilyOptions,
    pub(crate) database: &'a DbOptions,
    /// The order of user keys.
    pub(crate) comparator: &'a Comparator,
    /// The time, in seconds since 1970.
    pub(crate) now_s: u64,
    /// The sequence number of the oldest snapshot that remained when a snapshot was last released.
    /// If none remained, the last sequence number at the time of that release; 0 if no snapshot has
    /// been released yet. Bottommost tables whose records are all older than this number are
    /// rewritten, because the released snapshot may have kept obsolete records in them.
    pub(crate) oldest_snapshot: Sequence,
    /// The round-robin cursors of levels.
    pub(crate) cursors: &'a CompactCursors,
    /// The running compactions of this column family. Their inputs are marked as being compacted.
    pub(crate) running: &'a [Arc<Compaction>],
    /// Maximum number of level-0 tables of a compaction, which keeps all of these tables open at
    /// the same time. The maximum is always large enough for a compaction to make progress.
    pub(crate) level_0_fan_in: usize,
}

/// Returns the next automatic compaction, if there is one.
pub(crate) fn pick(context: &PickContext<'_>) -> Option<Compaction> {
    match context.options.compaction_style {
        CompactionStyle::Level => leveled::pick(&Tree::new(context)),
        CompactionStyle::Universal | CompactionStyle::Fifo | CompactionStyle::None => None,
    }
}

/// Returns the next time at which a table becomes due for compaction because of its age, in seconds
/// since 1970. Tables that are due already do not count. `None` if no table ever becomes due.
pub(crate) fn next_due_s(context: &PickContext<'_>) -> Option<u64> {
    match context.options.compaction_style {
        CompactionStyle::Level => Tree::new(context).next_due_s(),
        CompactionStyle::Universal | CompactionStyle::Fifo | CompactionStyle::None => None,
    }
}

/// Whether a compaction is needed, even if it is not yet possible.
pub(crate) fn needs_compaction(context: &PickContext<'_>) -> bool {
    match context.options.compaction_style {
        CompactionStyle::Level => leveled::is_needed(&Tree::new(context)),
        CompactionStyle::Universal | CompactionStyle::Fifo | CompactionStyle::None => false,
    }
}
