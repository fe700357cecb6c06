//! How urgent a compaction of each level is. From 1 on it is due.
//!
//! Source: `ComputeCompactionScore` in `db/version_set.cc`.

use tailwater_format::Comparator;

use crate::compaction::picker::tree::{Tree, total_size};
use crate::compaction::picker::{CompactCursors, PickContext};
use crate::options::{ColumnFamilyOptions, CompactionStyle, DbOptions};
use crate::version::Version;

/// With level sizes chosen by the last level, a score that is due is scaled up by this, so that it
/// can be lowered again by what is coming from above and stay due.
const SCALE: f64 = 10.0;

/// How urgent a compaction of a level is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Score {
    pub(super) level: usize,
    pub(super) value: f64,
}

/// How urgent a compaction of each level is, by level: 0 for the last one, and for other than
/// leveled compaction, which is not scored.
pub(crate) fn level_scores(
    version: &Version,
    options: &ColumnFamilyOptions,
    comparator: &Comparator,
) -> Vec<f64> {
    let mut by_level = vec![0.0; version.levels().len()];
    if options.compaction_style != CompactionStyle::Level {
        return by_level;
    }
    // Scores go by the tables alone, and by which of them are being compacted.
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
    /// The scores of all levels but the last, the highest first.
    pub(super) fn scores(&self) -> Vec<Score> {
        let mut scores = Vec::new();
        // What will come down from the levels above, in bytes.
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

    /// How many bytes of a level will go down.
    fn excess_bytes(&self, level: usize) -> u64 {
        let total = total_size(self.files(level));
        match level == 0 || self.targets.is_unnecessary(level) {
            true => total,
            false => total.saturating_sub(self.targets.max_bytes(level)),
        }
    }

    /// The bytes of a level that no compaction has, tombstones counted more.
    fn free_bytes(&self, level: usize) -> u64 {
        let free = self.files(level).iter().filter(|file| !file.is_being_compacted());
        free.map(|file| self.compensated_size(file)).fold(0, u64::saturating_add)
    }

    /// By the number of tables, since every read looks into each of them; and by their bytes, since
    /// compactions within level 0 make few tables of many bytes.
    fn level_0_score(&self) -> f64 {
        let options = self.options();
        let count = self.files(0).iter().filter(|file| !file.is_being_compacted()).count();
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
            // More than in the base level: this comes before a compaction of that.
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
        // A level that much is coming down to waits for it.
        let score = match is_within {
            true => bytes / max_bytes,
            false => bytes / (max_bytes + coming_bytes) * SCALE,
        };
        match self.targets.lowest_unnecessary_level {
            // It drains, the upper levels first, but after level 0.
            Some(lowest) if level <= lowest && bytes > 0.0 => {
                score.max(SCALE * (1.001 + 0.001 * (lowest - level) as f64))
            }
            _ => score,
        }
    }
}

/// The highest first. Which of two equal ones comes first is as in RocksDB.
fn sort(scores: &mut [Score]) {
    for left in 0..scores.len() {
        for right in left + 1..scores.len() {
            if scores[left].value < scores[right].value {
                scores.swap(left, right);
            }
        }
    }
}
