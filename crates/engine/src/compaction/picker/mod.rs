//! Chooses what to compact: from a version, its options and what is running, nothing else.
//!
//! # Leveled compaction
//!
//! Level 0 takes tables as flushes write them; they may overlap. Every deeper level is one sorted
//! run with a size that it should not exceed ([`level_targets`]). Each level has a score, its size
//! by that target ([`scores`]). The level of the highest score gives tables to the next one, or
//! level 0 to the base level; which of its tables go first is [`priority`]'s to say. Then come
//! tables that are marked for another reason ([`marked`]).
//!
//! # Order
//!
//! 1. The first tables of a level are chosen ([`leveled`], [`level_0`]).
//! 2. They are widened until no user key is cut in two, then what they overlap in the output level
//!    joins them, then what else of their own level costs nothing more ([`inputs`],
//!    [`round_robin`]).
//! 3. What would touch a table that is being compacted, or a range that a running compaction writes
//!    to, is given up ([`running`]).
//! 4. The rest of the compaction follows from the inputs ([`finish`]). Tables that need no merge
//!    just change their level, several at a time ([`moves`]).
//!
//! A compaction that somebody asks for takes its tables by their keys instead ([`manual`]).
//!
//! Universal and FIFO compaction pick nothing by themselves.
//!
//! # Invariants
//!
//! No input is being compacted. Two compactions that run at once never write to overlapping ranges
//! of one level. Below level 0 the inputs of a level are next to each other, and no user key is
//! both in an input and in a table of its level that stays.
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
pub(crate) use manual::{ManualPick, ManualRange, ManualStep, first_step, next_step, pick_range};
pub(crate) use pressure::{is_behind, pending_compaction_bytes};
pub(crate) use round_robin::{CompactCursors, next_cursor};
pub(crate) use scores::level_scores;

use crate::compaction::Compaction;
use crate::options::{ColumnFamilyOptions, CompactionStyle, DbOptions};
use crate::version::Version;

use tree::Tree;

/// What the picker goes by. The options are sanitised ones.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PickContext<'a> {
    /// What there is to compact.
    pub(crate) version: &'a Version,
    pub(crate) options: &'a ColumnFamilyOptions,
    pub(crate) database: &'a DbOptions,
    /// The order of user keys.
    pub(crate) comparator: &'a Comparator,
    /// The time, in seconds since 1970.
    pub(crate) now_s: u64,
    /// What no snapshot can tell apart any more: the oldest snapshot that was left when one was
    /// last released, or the last sequence number at that time if none was; 0 before the first
    /// release. Tables of the bottom whose data is all older are rewritten, which is pointless
    /// where no snapshot ever kept anything.
    pub(crate) oldest_snapshot: Sequence,
    /// Where round robin goes on, by level.
    pub(crate) cursors: &'a CompactCursors,
    /// The compactions of this column family that are under way; their inputs are marked.
    pub(crate) running: &'a [Arc<Compaction>],
    /// How many tables of level 0 a compaction may take, which has all of them open at once. There
    /// is always enough for one that changes something.
    pub(crate) level_0_fan_in: usize,
}

/// What should be compacted next by itself, if anything can.
pub(crate) fn pick(context: &PickContext<'_>) -> Option<Compaction> {
    match context.options.compaction_style {
        CompactionStyle::Level => leveled::pick(&Tree::new(context)),
        CompactionStyle::Universal | CompactionStyle::Fifo | CompactionStyle::None => None,
    }
}

/// Whether something should be compacted, even if it cannot be yet.
pub(crate) fn needs_compaction(context: &PickContext<'_>) -> bool {
    match context.options.compaction_style {
        CompactionStyle::Level => leveled::is_needed(&Tree::new(context)),
        CompactionStyle::Universal | CompactionStyle::Fifo | CompactionStyle::None => false,
    }
}
