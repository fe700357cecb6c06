//! Compaction scores of levels. A level with a score of 1 or more needs compaction.
//!
//! Source: `ComputeCompactionScore` in `db/version_set.cc`.

use tailwater_format::Comparator;

use crate::compaction::picker::PickContext;
use crate::compaction::picker::tree::{Tree, total_size};
use crate::options::{ColumnFamilyOptions, CompactionStyle, DbOptions};
use crate::version::{CompactCursors, Version};

/// With dynamic level sizes, the score of a level that needs a compaction is multiplied by this
/// factor. Bytes that are about to arrive from shallower levels reduce the score, possibly below 1.
/// The multiplication usually raises it above 1 again.
const SCALE: f64 = 10.0;

/// The score of a level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Score {
    pub(super) level: usize,
    pub(super) value: f64,
}

/// Returns the score of each level. The score of the last level is 0, and so are all scores under
/// compaction styles other than leveled.
pub(crate) fn level_scores(
    version: &Version,
    options: &ColumnFamilyOptions,
    comparator: &Comparator,
) -> Vec<f64> {
    let mut by_level = vec![0.0; version.levels().len()];
    if options.compaction_style != CompactionStyle::Level {
        return by_level;
    }
    // The scores do not depend on the fields that have placeholder values here.
    let (database, cursors) = (DbOptions::default(), CompactCursors::default());
    let tree = Tree::new(&PickContext {
        version,
        options,
        database: &database,
        comparator,
        now_s: 0,
        oldest_snapshot: 0,
        cursors: &cursors,
        running: &[],
        level_0_fan_in: usize::MAX,
    });
    for Score { level, value } in tree.scores() {
        if let Some(score) = by_level.get_mut(level) {
            *score = value;
        }
    }
    by_level
}

impl Tree<'_> {
    /// Returns the scores of all levels but the last, highest first.
    pub(super) fn scores(&self) -> Vec<Score> {
        let mut scores = Vec::new();
        // Bytes that will move from the shallower levels into the current one.
        let mut coming_bytes = 0.0;
        for level in 0..self.level_count().saturating_sub(1) {
            let value = match level {
                0 => self.level_0_score(),
                _ => self.level_score(level, coming_bytes),
            };
            scores.push(Score { level, value });
            coming_bytes += self.excess_bytes(level) as f64;
        }
        sort(&mut scores);
        scores
    }

    /// Returns how many bytes must move down from a level: all bytes of level 0 and of a level to
    /// be drained, or else the bytes above the level's target size.
    fn excess_bytes(&self, level: usize) -> u64 {
        let total = total_size(self.files(level));
        if level == 0 || self.targets.is_unnecessary(level) {
            total
        } else {
            total.saturating_sub(self.targets.max_bytes(level))
        }
    }

    /// Returns the total compensated size ([`Tree::compensated_size`]), in bytes, of the tables of
    /// a level that are not being compacted.
    fn free_bytes(&self, level: usize) -> u64 {
        let free = self.files(level).iter().filter(|file| !file.compaction.is_claimed());
        free.map(|file| self.compensated_size(file)).fold(0, u64::saturating_add)
    }

    /// Returns the score of level 0. It depends on the number of tables, since every read searches
    /// each of them. It also depends on their size, since compactions within level 0 leave few but
    /// large tables.
    fn level_0_score(&self) -> f64 {
        let options = self.options();
        let count = self.files(0).iter().filter(|file| !file.compaction.is_claimed()).count();
        let bytes = self.free_bytes(0);
        let trigger = f64::from(options.level0_file_num_compaction_trigger);
        let mut score = count as f64 / trigger;
        if !options.level_compaction_dynamic_level_bytes {
            return score.max(bytes as f64 / options.max_bytes_for_level_base as f64);
        }
        if bytes >= options.max_bytes_for_level_base {
            score = score.max(1.01);
        }
        let base_level = self.targets.base_level;
        let base_max = self.targets.max_bytes(base_level);
        if bytes > base_max {
            // Level 0 is larger than the base level's target size. If level 0 is also larger than
            // the tables of the base level, this ratio exceeds 1.
            let base_files = self.files(base_level).iter();
            let base_bytes =
                base_files.map(|file| self.compensated_size(file)).fold(0, u64::saturating_add);
            score = score.max(bytes as f64 / base_bytes.max(base_max) as f64);
        }
        if score > 1.0 { score * SCALE } else { score }
    }

    fn level_score(&self, level: usize, coming_bytes: f64) -> f64 {
        let bytes = self.free_bytes(level);
        let max_bytes = self.targets.max_bytes(level);
        let is_within = bytes < max_bytes;
        let (bytes, max_bytes) = (bytes as f64, max_bytes as f64);
        if !self.options().level_compaction_dynamic_level_bytes {
            return bytes / max_bytes;
        }
        // The score of an overfull level is reduced according to the bytes that are about to arrive
        // from shallower levels. The shallower levels are thus compacted first.
        let score =
            if is_within { bytes / max_bytes } else { bytes / (max_bytes + coming_bytes) * SCALE };
        match self.targets.lowest_unnecessary_level {
            // This level is to be drained. Its score is just above `SCALE`, so a full level 0
            // usually comes first. Of several levels to be drained, the shallowest has the highest
            // score.
            Some(lowest) if level <= lowest && bytes > 0.0 => {
                score.max(SCALE * (1.001 + 0.001 * (lowest - level) as f64))
            }
            _ => score,
        }
    }
}

/// Sorts scores, highest first. The order of equal scores is the same as in RocksDB.
fn sort(scores: &mut [Score]) {
    for left in 0..scores.len() {
        for right in left + 1..scores.len() {
            if scores[left].value < scores[right].value {
                scores.swap(left, right);
            }
        }
    }
}
