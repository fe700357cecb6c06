//! Derives from a compaction's inputs its other properties, for example whether its tables can be
//! moved, and how large its outputs may become.
//!
//! Source: `db/compaction/compaction.cc`, `MaxFileSizeForLevel` in `options/cf_options.cc`, and
//! `GetPathId` in `db/compaction/compaction_picker_level.cc`.

use std::sync::Arc;

use tailwater_format::key::user_key;

use crate::compaction::picker::inputs::Inputs;
use crate::compaction::picker::key_range::KeyRange;
use crate::compaction::picker::level_targets::multiply;
use crate::compaction::picker::tree::{Files, Tree, total_size};
use crate::options::{ColumnFamilyOptions, CompactionPriority, CompactionStyle};
use crate::table::builder::TableCompression;
use crate::version::{Compaction, CompactionKind, InputLevel, Reason};

/// A compaction whose inputs are final, and whose other properties are not derived yet.
pub(super) struct Parts<'a> {
    /// The inputs, by ascending level.
    pub(super) inputs: Vec<Inputs<'a>>,
    pub(super) output_level: usize,
    pub(super) reason: Reason,
    pub(super) grandparents: Files<'a>,
    /// Whether tables of level 0 among the inputs may overlap each other.
    pub(super) may_overlap: bool,
}

impl Parts<'_> {
    fn start_level(&self) -> usize {
        self.inputs.first().map_or(self.output_level, |inputs| inputs.level)
    }
}

impl<'a> Tree<'a> {
    /// Returns the compaction of these inputs.
    pub(super) fn finish(&self, mut parts: Parts<'a>) -> Compaction {
        self.bound_fan_in(&mut parts);
        let range = self.range_of_all(&parts.inputs.iter().collect::<Vec<_>>());
        let is_bottommost = self.is_bottommost(&parts, range);
        let target = self.target_file_bytes(parts.output_level);
        let max_output_file_bytes = match is_bottommost || parts.grandparents.is_empty() {
            true => target,
            // An output may grow to twice the target size, so that it can be cut at the bound of a
            // grandparent. A grandparent is a table of a deeper level that overlaps the outputs.
            false => target.saturating_mul(2),
        };
        let inputs = parts.inputs.iter().map(|inputs| InputLevel {
            level: inputs.level,
            files: inputs.files.iter().copied().map(Arc::clone).collect(),
        });
        Compaction {
            inputs: inputs.collect(),
            output_level: parts.output_level,
            reason: parts.reason,
            kind: match self.is_move(&parts) {
                true => CompactionKind::Move,
                false => CompactionKind::Merge,
            },
            is_bottommost,
            grandparents: parts.grandparents.iter().copied().map(Arc::clone).collect(),
            max_output_file_bytes,
            max_overlap_bytes: match self.options().compaction_style {
                CompactionStyle::Universal => u64::MAX,
                _ => self.options().max_compaction_bytes,
            },
            max_subcompactions: self.max_subcompactions(&parts),
        }
    }

    /// Limits the number of level-0 tables in the compaction to those that can be open at the same
    /// time. The newest tables are left for another compaction, because no table may move down
    /// before an older one.
    fn bound_fan_in(&self, parts: &mut Parts<'a>) {
        let Some(first) = parts.inputs.first_mut().filter(|inputs| inputs.level == 0) else {
            return;
        };
        let surplus = first.files.len().saturating_sub(self.context.level_0_fan_in);
        first.files.drain(..surplus);
    }

    fn is_bottommost(&self, parts: &Parts<'a>, range: KeyRange<'_>) -> bool {
        let older =
            |last: &Arc<_>| self.files(0).last().is_some_and(|oldest| !Arc::ptr_eq(oldest, last));
        let first = parts.inputs.first().and_then(|inputs| inputs.files.last());
        let leaves_older = parts.output_level == 0 && first.is_some_and(|last| older(last));
        let (smallest, largest) = (user_key(range.smallest), user_key(range.largest));
        !leaves_older && !self.is_range_below(parts.output_level, smallest, largest)
    }

    /// Whether the tables can be moved without rewriting: none is merged with another, none needs
    /// another compression or directory, and none overlaps so much of the level below the output
    /// level that its next compaction would be too large.
    fn is_move(&self, parts: &Parts<'a>) -> bool {
        let options = self.options();
        let [inputs] = &parts.inputs[..] else { return false };
        let overlaps = inputs.level == 0 && parts.may_overlap && !self.is_level_0_disjoint();
        let has_filter = options.compaction_filter.id().is_some()
            || options.compaction_filter_factory.id().is_some();
        let is_filtered = has_filter && parts.reason == Reason::ManualCompaction;
        if options.compaction_style != CompactionStyle::Level
            || inputs.level == parts.output_level
            || overlaps
            || is_filtered
        {
            return false;
        }
        let path = output_path(options, parts.output_level);
        let is_elsewhere = inputs.files.iter().any(|file| file.added().path_id != path);
        if is_elsewhere || self.compression(inputs.level) != self.compression(parts.output_level) {
            return false;
        }
        inputs.files.iter().all(|file| {
            let range = KeyRange { smallest: file.smallest(), largest: file.largest() };
            let below = self.overlapping(parts.output_level + 1, range.bounds());
            file.size().saturating_add(total_size(below)) <= options.max_compaction_bytes
        })
    }

    fn compression(&self, level: usize) -> TableCompression {
        let is_last = level + 1 >= self.non_empty_levels;
        let mut compression =
            TableCompression::for_level(self.options(), level, self.targets.base_level, is_last);
        // Two levels have equal compression if they use the same algorithm, whatever its settings.
        // So the settings are cleared.
        compression.options = TableCompression::none().options;
        compression
    }

    /// Returns the target size of a table of a level, in bytes.
    fn target_file_bytes(&self, level: usize) -> u64 {
        let options = self.options();
        let base_level = self.targets.base_level;
        let counts_from_base = options.level_compaction_dynamic_level_bytes
            && options.compaction_style == CompactionStyle::Level
            && level >= base_level;
        let steps = if counts_from_base { level - base_level } else { level };
        if steps == 0 && options.compaction_style == CompactionStyle::Universal {
            return u64::MAX;
        }
        let multiplier = f64::from(options.target_file_size_multiplier);
        let base = options.target_file_size_base;
        (1..steps).fold(base, |bytes, _| multiply(bytes, multiplier))
    }

    fn max_subcompactions(&self, parts: &Parts<'a>) -> usize {
        let is_manual = parts.reason == Reason::ManualCompaction;
        let is_parted = parts.output_level > 0
            && match self.options().compaction_style {
                CompactionStyle::Level => {
                    let in_turn = self.options().compaction_pri == CompactionPriority::RoundRobin;
                    parts.start_level() == 0 || is_manual || in_turn
                }
                CompactionStyle::Universal => true,
                CompactionStyle::Fifo | CompactionStyle::None => false,
            };
        if is_parted { self.context.database.subcompactions_max() } else { 1 }
    }
}

/// Returns the path id of a level's tables, the index of a directory in `cf_paths`. The levels are
/// assigned to the directories in order, and a level gets the first directory that has enough space
/// left for it.
pub(crate) fn output_path(options: &ColumnFamilyOptions, level: usize) -> u8 {
    let last = options.cf_paths.len().saturating_sub(1);
    let room_of = |path: usize| options.cf_paths.get(path).map_or(0, |path| path.target_size);
    let mut path = 0;
    let mut room = room_of(0);
    // Level 0 is assumed to be as large as level 1.
    let mut level_bytes = options.max_bytes_for_level_base;
    let mut at = 0;
    while path < last {
        if level_bytes > room {
            path += 1;
            room = room_of(path);
            continue;
        }
        if at == level {
            break;
        }
        room -= level_bytes;
        if at > 0 {
            let further = options.max_bytes_for_level_multiplier_additional.get(at);
            let further = f64::from(further.copied().unwrap_or(1));
            level_bytes = multiply(level_bytes, options.max_bytes_for_level_multiplier * further);
        }
        at += 1;
    }
    u8::try_from(path).unwrap_or(u8::MAX)
}
