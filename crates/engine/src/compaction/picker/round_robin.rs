//! Round-robin selection of a level's tables: `kRoundRobin`.
//!
//! A level's cursor is the position at which its last compaction ended. The next compaction of the
//! level begins with the table at the cursor, and takes the following tables until the level is
//! within its target size. The cursor then moves to the next table, and wraps around at the end of
//! the level. Cursors are stored in the MANIFEST.
//!
//! Source: `SortFileByRoundRobin` and `GetNextCompactCursor` in `db/version_set.{h,cc}`,
//! `SetupOtherFilesWithRoundRobinExpansion` in `db/compaction/compaction_picker_level.cc`.

use std::sync::Arc;

use tailwater_format::key;
use tailwater_format::version_edit::CompactCursor;

use crate::compaction::picker::PickContext;
use crate::compaction::picker::inputs::Inputs;
use crate::compaction::picker::tree::{Tree, total_size};
use crate::options::CompactionPriority;
use crate::table::FileMetadata;
use crate::version::{Compaction, Reason};

/// Returns the position of the input level's cursor after `compaction`. Returns `None` if the
/// compaction does not move the cursor. `context` is the one with which the compaction was picked.
pub(crate) fn next_cursor(
    context: &PickContext<'_>,
    compaction: &Compaction,
) -> Option<CompactCursor> {
    let moves = matches!(compaction.reason, Reason::LevelMaxLevelSize | Reason::RoundRobinTtl);
    let input = compaction.inputs.first().filter(|input| moves && input.level > 0)?;
    if context.options.compaction_pri != CompactionPriority::RoundRobin {
        return None;
    }
    let tree = Tree::new(context);
    let places = tree.by_priority(input.level);
    let place = places.get(input.files.len()).or(places.first())?;
    let file = tree.files(input.level).get(*place)?;
    Some(CompactCursor { level: u32::try_from(input.level).ok()?, key: file.smallest().to_vec() })
}

impl<'a> Tree<'a> {
    /// Returns the index of the table at a level's cursor.
    pub(super) fn cursor_place(&self, level: usize) -> usize {
        let files = self.files(level);
        let Some(cursor) = self.context.cursors.get(level) else { return 0 };
        let place = files.partition_point(|file| {
            key::compare_internal(self.context.comparator, file.smallest(), cursor).is_lt()
        });
        if place < files.len() { place } else { 0 }
    }

    /// Adds to `inputs` the tables that follow them in their level. Stops when the other tables of
    /// the level are within the level's target size, or when the compaction would exceed
    /// `max_compaction_bytes`.
    pub(super) fn widen_round_robin(&self, inputs: &mut Inputs<'a>, output_level: usize) {
        let (level, files) = (inputs.level, self.files(inputs.level));
        let free = files.iter().filter(|file| !file.compaction.is_claimed());
        let excess = total_size(free).saturating_sub(self.targets.max_bytes(level));
        let start = self.by_priority(level).first().copied().unwrap_or(0);
        let overlapped = self.overlapping(output_level, self.range(inputs).bounds());
        if overlapped.is_empty() && self.extend_move(inputs, output_level, start, true) {
            return;
        }
        if inputs.files.first().is_none_or(|first| first.size() >= excess) {
            return;
        }
        let is_last = |file: &Arc<FileMetadata>| {
            inputs.files.last().is_some_and(|last| Arc::ptr_eq(last, file))
        };
        let last = files.iter().position(is_last).unwrap_or(start);
        for file in &files[last + 1..] {
            let mut wider = inputs.clone();
            wider.files.push(file);
            let Some(total) = self.round_robin_size(&mut wider, output_level) else { return };
            if total > self.options().max_compaction_bytes {
                return;
            }
            let is_enough = wider.size() > excess;
            *inputs = wider;
            if is_enough {
                return;
            }
        }
    }

    /// Adds neighbouring tables that share user keys with the inputs. Returns the total size, in
    /// bytes, of the inputs and of the tables that they overlap in the output level. Returns `None`
    /// if a running compaction prevents compacting these tables.
    fn round_robin_size(&self, inputs: &mut Inputs<'a>, output_level: usize) -> Option<u64> {
        self.widen_to_clean_cut(inputs).ok()?;
        if self.collides(&[inputs], output_level) {
            return None;
        }
        let outputs = self.output_inputs(output_level, self.range(inputs)).ok()?;
        let output_bytes = outputs.map_or(0, |outputs| outputs.size());
        Some(inputs.size().saturating_add(output_bytes))
    }
}
