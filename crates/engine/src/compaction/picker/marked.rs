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
    files.filter(|(_, file)| !file.compaction.is_claimed())
}

/// Returns the tables that are marked for compaction ([`FileMetadata::is_marked_for_compaction`]),
/// are not being compacted and are not in the last non-empty level.
pub(super) fn marked_by_themselves(version: &Version) -> impl Iterator<Item = Marked<'_>> {
    let levels = non_empty_levels(version).saturating_sub(1).max(1);
    free_files(version, levels).filter(|(_, file)| file.is_marked_for_compaction())
}

/// Returns the first second at which something that happened at `time_s`, in seconds since 1970, is
/// longer ago than `age_s` seconds; `None` if `time_s` is 0, which means that it is unknown.
fn due_after(time_s: u64, age_s: u64) -> Option<u64> {
    if time_s == 0 {
        return None;
    }
    time_s.checked_add(age_s)?.checked_add(1)
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

    /// Returns the tables that can be rewritten in the last level of their key range to free space:
    /// those that are due ([`Tree::bottommost_due_s`]).
    pub(super) fn marked_at_the_bottom(&self) -> Vec<Marked<'a>> {
        self.due_files(self.non_empty_levels, Self::bottommost_due_s)
    }

    /// Returns the tables that have data older than `ttl`, in all levels except the last.
    pub(super) fn marked_by_ttl(&self) -> Vec<Marked<'a>> {
        self.due_files(self.level_count().saturating_sub(1), Self::ttl_due_s)
    }

    /// Returns tables older than `periodic_compaction_seconds`.
    pub(super) fn marked_by_period(&self) -> Vec<Marked<'a>> {
        self.due_files(self.level_count(), Self::period_due_s)
    }

    /// Returns the next time at which a table becomes due because of its age, in seconds since
    /// 1970. Tables that are due already or are being compacted do not count.
    pub(super) fn next_due_s(&self) -> Option<u64> {
        let due_s = |marked: Marked<'a>| {
            [self.bottommost_due_s(marked), self.ttl_due_s(marked), self.period_due_s(marked)]
        };
        let times = self.free_files(self.level_count()).flat_map(due_s).flatten();
        times.filter(|&due_s| due_s > self.context.now_s).min()
    }

    /// Returns the tables of the first `level_count` levels that are not being compacted and that
    /// are due. `due_s` returns the time from which on a table is due, in seconds since 1970.
    fn due_files(
        &self,
        level_count: usize,
        due_s: impl Fn(&Self, Marked<'a>) -> Option<u64>,
    ) -> Vec<Marked<'a>> {
        let is_due = |marked: &Marked<'a>| {
            due_s(self, *marked).is_some_and(|due_s| due_s <= self.context.now_s)
        };
        self.free_files(level_count).filter(is_due).collect()
    }

    /// Returns the time from which on a table can be rewritten in the last level of its key range
    /// to free space, in seconds since 1970; 0 if at once. No deeper level has data in the range of
    /// the table, and all its records are older than the oldest snapshot. A rewrite drops
    /// tombstones and overwritten versions, and sets sequence numbers to 0. A table that a rewrite
    /// would not change is never due.
    ///
    /// The option `preserve_internal_time_seconds` makes a rewrite keep recent sequence numbers. A
    /// table is therefore only due when it is older than that period; otherwise it would be
    /// rewritten again and again.
    fn bottommost_due_s(&self, (level, file): Marked<'a>) -> Option<u64> {
        let newest = file.largest_sequence();
        if newest == 0
            || newest >= self.context.oldest_snapshot
            || file.compaction.is_settled()
            || !self.is_bottommost_file(level, file)
        {
            return None;
        }
        let delay_s = u64::from(self.options().bottommost_file_compaction_delay);
        match delay_s.max(self.options().preserved_seconds()) {
            0 => Some(0),
            delay_s => file.creation_time_s().checked_add(delay_s),
        }
    }

    /// Returns the time from which on a table has data older than `ttl`, in seconds since 1970;
    /// `None` in the last level.
    fn ttl_due_s(&self, (level, file): Marked<'a>) -> Option<u64> {
        let ttl = self.options().ttl;
        if ttl == 0 || level + 1 >= self.level_count() {
            return None;
        }
        due_after(file.oldest_ancestor_time_s(), ttl)
    }

    /// Returns the time from which on a table is older than `periodic_compaction_seconds`, in
    /// seconds since 1970.
    fn period_due_s(&self, (_, file): Marked<'a>) -> Option<u64> {
        let period_s = self.options().periodic_compaction_seconds;
        if period_s == 0 {
            return None;
        }
        match file.creation_time_s() {
            0 => due_after(file.oldest_ancestor_time_s(), period_s),
            time_s => due_after(time_s, period_s),
        }
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
