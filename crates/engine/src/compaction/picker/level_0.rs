//! Compactions of level 0.
//!
//! Tables of level 0 may overlap, so a compaction that takes a table also takes the tables of level
//! 0 that overlap it. Only one compaction takes tables of level 0 at a time. While level 0 cannot
//! be compacted into a deeper level, its tables are merged with each other, because a read must
//! search each table of level 0.
//!
//! Source: `TryPickL0TrivialMove`, `PickIntraL0Compaction` and `PickSizeBasedIntraL0Compaction` in
//! `db/compaction/compaction_picker_level.cc`, and `PickCostBasedIntraL0Compaction` in
//! `db/compaction/compaction_picker.cc`.

use crate::compaction::picker::inputs::Inputs;
use crate::compaction::picker::key_range::KeyRange;
use crate::compaction::picker::level_targets::multiply;
use crate::compaction::picker::leveled::Start;
use crate::compaction::picker::tree::{Files, Tree, total_size};
use crate::version::Reason;
use tailwater_format::key;

/// Minimum number of tables merged within level 0.
const INTRA_FILES_MIN: usize = 4;

/// Tables are merged within level 0 only if their number exceeds
/// `level0_file_num_compaction_trigger` by at least this.
const INTRA_FILES_SURPLUS: usize = 2;

impl<'a> Tree<'a> {
    /// If level 0 needs a compaction, selects the level 0 tables with which the selection of its
    /// inputs starts.
    pub(super) fn start_level_0(&self) -> Option<Start<'a>> {
        let base_level = self.targets.base_level;
        let start = |files, output_level, is_level_0_move| {
            let inputs = Inputs { level: 0, files };
            Start { inputs, output_level, reason: Reason::LevelL0FilesNum, is_level_0_move }
        };
        if self.is_level_0_busy() {
            return self.intra_by_size().map(|files| start(files, 0, false));
        }
        let moved = self.level_0_move(base_level);
        if !moved.is_empty() {
            return Some(start(moved, base_level, true));
        }
        if let Some(files) = self.intra_by_size() {
            return Some(start(files, 0, false));
        }
        self.best_files(0, base_level).map(|inputs| start(inputs.files, base_level, false))
    }

    /// Selects tables to merge within level 0, because level 0 cannot be compacted into a deeper
    /// level now.
    pub(super) fn start_intra_level_0(&self) -> Option<Start<'a>> {
        let files = self.intra_by_cost()?;
        let inputs = Inputs { level: 0, files };
        let reason = Reason::LevelL0FilesNum;
        Some(Start { inputs, output_level: 0, reason, is_level_0_move: false })
    }

    /// Returns the tables of level 0 that can be moved to the base level without rewriting: from
    /// the oldest table on, as long as the tables overlap neither each other nor the base level.
    fn level_0_move(&self, base_level: usize) -> Files<'a> {
        let options = self.options();
        let paths = self.context.database.db_paths.len();
        // Moving a table into an empty base level is always possible, but gains nothing.
        if !options.compression_per_level.is_empty()
            || self.files(base_level).is_empty()
            || paths > 1
        {
            return Files::new();
        }
        let compare = |a: &[u8], b: &[u8]| key::compare_internal(self.context.comparator, a, b);
        let mut moved = Files::new();
        let mut range: Option<KeyRange<'_>> = None;
        for file in self.files(0).iter().rev() {
            let own = KeyRange { smallest: file.smallest(), largest: file.largest() };
            let is_apart = range.is_none_or(|range| {
                compare(own.largest, range.smallest).is_lt()
                    || compare(own.smallest, range.largest).is_gt()
            });
            let union = range.map_or(own, |range| range.union(own, self.context.comparator));
            let is_over = !self.overlapping(base_level, union.bounds()).is_empty();
            if !is_apart || is_over || file.compaction.is_claimed() {
                break;
            }
            range = Some(union);
            moved.push(file);
        }
        moved.reverse();
        moved
    }

    /// Returns the tables of level 0 that are newer than all tables being compacted, to merge them
    /// within level 0. Returns `None` unless level 0 is small compared with the base level.
    /// Compacting a small level 0 into a large base level would rewrite many tables there.
    fn intra_by_size(&self) -> Option<Files<'a>> {
        let options = self.options();
        let count_min =
            usize::try_from(options.level0_file_num_compaction_trigger).unwrap_or(0).max(2);
        let files = self.files(0);
        if files.len() < count_min {
            return None;
        }
        let bytes =
            files.iter().map(|file| self.compensated_size(file)).fold(0, u64::saturating_add);
        let factor = options.max_bytes_for_level_multiplier.max(10.0) * 2.0;
        if total_size(self.files(self.targets.base_level)) <= multiply(bytes, factor) {
            return None;
        }
        let free = files.iter().take_while(|file| !file.compaction.is_claimed());
        let free: Files<'a> = free.collect();
        (free.len() >= count_min).then_some(free)
    }

    /// Returns the newest tables of level 0, to merge them within level 0. Adds tables from the
    /// newest to the oldest, until the next table would increase the cost. The cost is the number
    /// of bytes written, divided by the decrease in the number of tables.
    fn intra_by_cost(&self) -> Option<Files<'a>> {
        let options = self.options();
        let files = self.files(0);
        let trigger = usize::try_from(options.level0_file_num_compaction_trigger).unwrap_or(0);
        let newest = files.first().filter(|file| !file.compaction.is_claimed())?;
        if files.len() < trigger + INTRA_FILES_SURPLUS {
            return None;
        }
        let mut bytes = newest.size();
        let mut bytes_per_gone = u64::MAX;
        let mut count = 1;
        for file in &files[1..] {
            bytes = bytes.saturating_add(file.size());
            let per_gone = bytes / count as u64;
            let is_dearer = per_gone > bytes_per_gone || bytes > options.max_compaction_bytes;
            if is_dearer || file.compaction.is_claimed() {
                break;
            }
            bytes_per_gone = per_gone;
            count += 1;
        }
        (count >= INTRA_FILES_MIN).then(|| files[..count].iter().collect())
    }
}
