//! Tables that need a compaction for reasons other than the size of their level.
//!
//! Source: `ComputeFilesMarkedForCompaction`, `ComputeBottommostFilesMarkedForCompaction`,
//! `ComputeExpiredTtlFiles` and `ComputeFilesMarkedForPeriodicCompaction` in `db/version_set.cc`.

use std::sync::Arc;

use crate::compaction::picker::tree::{Tree, files_of, non_empty_levels};
use crate::table::FileMetadata;
use crate::version::Version;

/// A table and its level.
pub(super) type Marked<'a> = (usize, &'a Arc<FileMetadata>);

/// Returns the tables of the first `level_count` levels that are not being compacted.
fn free_files(version: &Version, level_count: usize) -> impl Iterator<Item = Marked<'_>> {
    let files = (0..level_count)
        .flat_map(|level| files_of(version, level).iter().map(move |file| (level, file)));
    files.filter(|(_, file)| !file.is_being_compacted())
}

/// Returns the tables that have the flag `marked_for_compaction`, are not being compacted and are
/// not in the last non-empty level.
pub(super) fn marked_by_themselves(version: &Version) -> impl Iterator<Item = Marked<'_>> {
    let levels = non_empty_levels(version).saturating_sub(1).max(1);
    free_files(version, levels).filter(|(_, file)| file.added().marked_for_compaction)
}

impl<'a> Tree<'a> {
    /// Returns the tables of the first `level_count` levels that are not being compacted.
    fn free_files(&self, level_count: usize) -> impl Iterator<Item = Marked<'a>> {
        free_files(self.context.version, level_count)
    }

    /// Calls the function [`marked_by_themselves`] of this module with the version of this LSM
    /// tree.
    pub(super) fn marked_by_themselves(&self) -> Vec<Marked<'a>> {
        marked_by_themselves(self.context.version).collect()
    }

    /// Returns the tables that can be rewritten in the last level of their key range to free space.
    /// No deeper level has data in the range of such a table, and all its records are older than
    /// the oldest snapshot. A rewrite drops tombstones and overwritten versions, and sets sequence
    /// numbers to 0. A table that a rewrite would not change is not returned: it would be rewritten
    /// again and again.
    ///
    /// The option `preserve_internal_time_seconds` makes a rewrite keep recent sequence numbers. A
    /// table is therefore only returned when it is older than that period; otherwise it would be
    /// rewritten again and again.
    pub(super) fn marked_at_the_bottom(&self) -> Vec<Marked<'a>> {
        let delay_s = u64::from(self.options().bottommost_file_compaction_delay);
        let delay_s = delay_s.max(self.options().preserved_seconds());
        // The latest creation time of a table to return, in seconds since 1970.
        let youngest_s = match delay_s {
            0 => Some(u64::MAX),
            _ => self.context.now_s.checked_sub(delay_s).filter(|&time_s| time_s > 0),
        };
        let Some(youngest_s) = youngest_s else { return Vec::new() };
        let marked = self.free_files(self.non_empty_levels).filter(|(level, file)| {
            let newest = file.largest_sequence();
            newest != 0
                && newest < self.context.oldest_snapshot
                && !file.is_settled()
                && file.creation_time_s() <= youngest_s
                && self.is_bottommost_file(*level, file)
        });
        marked.collect()
    }

    /// Returns the tables that have data older than `ttl`, in all levels except the last.
    pub(super) fn marked_by_ttl(&self) -> Vec<Marked<'a>> {
        let ttl = self.options().ttl;
        let Some(oldest_s) = self.context.now_s.checked_sub(ttl).filter(|_| ttl != 0) else {
            return Vec::new();
        };
        let files = self.free_files(self.level_count().saturating_sub(1));
        let marked = files.filter(|(_, file)| {
            let time_s = file.oldest_ancestor_time_s();
            time_s != 0 && time_s < oldest_s
        });
        marked.collect()
    }

    /// Returns tables older than `periodic_compaction_seconds`.
    pub(super) fn marked_by_period(&self) -> Vec<Marked<'a>> {
        let period_s = self.options().periodic_compaction_seconds;
        let oldest_s = self.context.now_s.checked_sub(period_s).filter(|_| period_s != 0);
        let Some(oldest_s) = oldest_s else { return Vec::new() };
        let marked = self.free_files(self.level_count()).filter(|(_, file)| {
            let time_s = match file.creation_time_s() {
                0 => file.oldest_ancestor_time_s(),
                time_s => time_s,
            };
            time_s != 0 && time_s < oldest_s
        });
        marked.collect()
    }

    fn is_bottommost_file(&self, level: usize, file: &Arc<FileMetadata>) -> bool {
        let is_oldest = level != 0 || self.files(0).last().is_some_and(|l| Arc::ptr_eq(l, file));
        let (smallest, largest) = (file.smallest_user_key(), file.largest_user_key());
        is_oldest && !self.is_range_below(level, smallest, largest)
    }

    /// Whether a level deeper than `level` has a table that overlaps the user keys from `smallest`
    /// to `largest`. For level 0 the range is ignored: returns whether any deeper level has a
    /// table.
    pub(super) fn is_range_below(&self, level: usize, smallest: &[u8], largest: &[u8]) -> bool {
        let compare = |a: &[u8], b: &[u8]| self.context.comparator.compare(a, b);
        (level + 1..self.level_count()).any(|below| {
            let files = self.files(below);
            let at =
                files.partition_point(|file| compare(file.largest_user_key(), smallest).is_lt());
            let overlaps =
                |file: &Arc<FileMetadata>| compare(file.smallest_user_key(), largest).is_le();
            match level {
                0 => !files.is_empty(),
                _ => files.get(at).is_some_and(overlaps),
            }
        })
    }
}
