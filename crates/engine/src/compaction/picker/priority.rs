//! The order in which a level's tables are compacted: `compaction_pri`.
//!
//! Source: `UpdateFilesByCompactionPri` in `db/version_set.cc` and `db/file_ttl_booster.h`.

use std::cmp::Reverse;

use tailwater_format::key;

use crate::compaction::picker::tree::Tree;
use crate::options::CompactionPriority;
use crate::table::FileMetadata;

/// The priority of a level's old tables rises in steps as they age ([`TtlBoost`]). At the age at
/// which it has risen by this many steps, it begins to rise in the next deeper level.
const BOOST_RATIO: u64 = 16;

impl Tree<'_> {
    /// Returns the indexes of a level's tables, in the order in which they are considered as inputs
    /// of a compaction.
    pub(super) fn by_priority(&self, level: usize) -> Vec<usize> {
        let files = self.files(level);
        let mut places: Vec<usize> = (0..files.len()).collect();
        match self.options().compaction_pri {
            CompactionPriority::ByCompensatedSize => {
                places.sort_by_key(|&at| Reverse(self.compensated_size(&files[at])));
            }
            CompactionPriority::OldestLargestSequenceFirst => {
                places.sort_by_key(|&at| files[at].largest_sequence());
            }
            CompactionPriority::OldestSmallestSequenceFirst => {
                places.sort_by_key(|&at| files[at].added().smallest_sequence);
            }
            CompactionPriority::MinOverlappingRatio => {
                let ratios = self.overlapping_ratios(level);
                places.sort_by(|&a, &b| {
                    let rank = |at: usize| (!files[at].is_marked_for_compaction(), ratios[at]);
                    let (left, right) = (files[a].smallest(), files[b].smallest());
                    let by_key = || key::compare_internal(self.context.comparator, left, right);
                    rank(a).cmp(&rank(b)).then_with(by_key)
                });
            }
            CompactionPriority::RoundRobin if level == 0 && !self.is_level_0_disjoint() => {
                places.sort_by_key(|&at| files[at].added().smallest_sequence);
            }
            CompactionPriority::RoundRobin => places.rotate_left(self.cursor_place(level)),
        }
        places
    }

    /// Returns a ratio for each table of a level: the size of the tables that it overlaps in the
    /// next level, divided by its own size, in units of 1/1024. The ratios of old tables are
    /// lowered by [`TtlBoost`]. The table with the lowest ratio is compacted first.
    fn overlapping_ratios(&self, level: usize) -> Vec<u64> {
        let comparator = self.context.comparator;
        let is_less = |a: &[u8], b: &[u8]| key::compare_internal(comparator, a, b).is_lt();
        let boost = TtlBoost::new(self, level);
        let mut below = self.files(level + 1);
        let mut ratios = Vec::new();
        for file in self.files(level) {
            let mut overlap = 0_u64;
            while let [first, rest @ ..] = below
                && is_less(first.largest(), file.smallest())
            {
                below = rest;
            }
            while let [first, rest @ ..] = below
                && is_less(first.smallest(), file.largest())
            {
                overlap = overlap.saturating_add(first.size());
                if is_less(file.largest(), first.largest()) {
                    break;
                }
                below = rest;
            }
            let size = self.compensated_size(file).max(1);
            ratios.push(overlap.saturating_mul(1024) / size / boost.of(file));
        }
        ratios
    }

    /// Whether no two tables of level 0 overlap.
    pub(super) fn is_level_0_disjoint(&self) -> bool {
        let compare = |a: &[u8], b: &[u8]| key::compare_internal(self.context.comparator, a, b);
        let mut files: Vec<_> = self.files(0).iter().collect();
        files.sort_by(|a, b| compare(a.smallest(), b.smallest()));
        files.windows(2).all(|pair| match pair {
            [left, right] => compare(left.largest(), right.smallest()).is_lt(),
            _ => true,
        })
    }
}

/// Raises the priority of tables whose data is older than half of `ttl`, by lowering their overlap
/// ratio. The shallower the level, the earlier the boost begins and the faster it grows. Data thus
/// moves down level by level and reaches the last level before the `ttl` ends, without a burst of
/// compactions at the end.
struct TtlBoost {
    now_s: u64,
    /// A table's priority is boosted if its data is older than this, in seconds. `None` if no
    /// table's priority is boosted.
    begin_s: Option<u64>,
    step_s: u64,
}

impl TtlBoost {
    fn new(tree: &Tree<'_>, level: usize) -> Self {
        let (now_s, ttl) = (tree.context.now_s, tree.options().ttl);
        if ttl == 0 || level == 0 || level + 1 >= tree.non_empty_levels {
            return Self { now_s, begin_s: None, step_s: 1 };
        }
        let half = ttl / 2;
        let range = (ttl / 32 * 31).saturating_sub(half);
        let levels_below = tree.non_empty_levels - level - 1;
        let range = range >> levels_below.min(63);
        let step_s = (range / BOOST_RATIO).max(1);
        Self { now_s, begin_s: Some(half.saturating_add(range)), step_s }
    }

    /// Returns the number by which a table's overlap ratio is divided. A lower ratio means a higher
    /// priority. Returns 1 if the table's data is not old enough.
    fn of(&self, file: &FileMetadata) -> u64 {
        let age_s = self.now_s.saturating_sub(file.oldest_ancestor_time_s());
        match self.begin_s {
            Some(begin_s) if age_s > begin_s => (age_s - begin_s) / self.step_s + 1,
            _ => 1,
        }
    }
}
