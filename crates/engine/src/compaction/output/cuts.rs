//! Cuts between outputs.
//!
//! A *grandparent* is a table of the first level below the output level that has tables in the
//! compaction's key range. An output ends when it reaches its maximum size. Before that, it may end
//! at a bound of a grandparent (its smallest or largest key), so that the output's next compaction
//! involves few grandparents. It does so if it would otherwise overlap too many bytes of
//! grandparents, if it spans a whole grandparent that is not small, or if it has reached 50% of the
//! target size. This percentage rises by 5 with each grandparent bound that the output has passed,
//! up to 90%. Source: `CompactionOutputs::ShouldStopBefore` in
//! `db/compaction/compaction_outputs.cc`.

use std::cmp::Ordering;
use std::sync::Arc;

use tailwater_format::Comparator;
use tailwater_format::key::{self, MAX_SEQUENCE, ValueType, pack_trailer};

use super::old_files::OldFiles;
use crate::options::{ColumnFamilyOptions, CompactionStyle};
use crate::table::FileMetadata;
use crate::version::Compaction;

/// Returns the target size of an output, in bytes. If outputs can be cut at grandparents, an output
/// may become up to twice as large as the target.
pub(crate) fn target_bytes(compaction: &Compaction) -> u64 {
    let has_room = !compaction.is_bottommost && !compaction.grandparents.is_empty();
    compaction.max_output_file_bytes / if has_room { 2 } else { 1 }
}

/// The trailer that marks a table's largest key as exclusive: the key is the end of a range
/// tombstone.
const SENTINEL: u64 = pack_trailer(MAX_SEQUENCE, ValueType::RangeDeletion as u8);

/// Tracks the keys of the outputs, and decides where to cut.
#[derive(Debug)]
pub(super) struct Cuts {
    comparator: Comparator,
    limits: Limits,
    grandparents: Vec<Arc<FileMetadata>>,
    old_files: OldFiles,
    /// Index of the grandparent that contains the last key given to [`Cuts::pass`]. If no
    /// grandparent contains that key, index of the first grandparent after the key.
    at: usize,
    /// Whether the last key given to [`Cuts::pass`] is before the grandparent at index `at`, so
    /// that no grandparent contains the key.
    in_gap: bool,
    has_seen_key: bool,
    /// Size of the grandparents that the current output overlaps, in bytes.
    overlapped_bytes: u64,
    /// Number of bounds of grandparents (smallest and largest keys) that the current output has
    /// passed.
    bounds_within: u64,
}

/// Limits of an output.
#[derive(Debug, Clone, Copy)]
struct Limits {
    /// Whether the outputs are in level 0, where they are not cut.
    is_level_0: bool,
    is_leveled: bool,
    /// Maximum size of an output, in bytes.
    max_bytes: u64,
    /// Target size of an output, in bytes.
    target_bytes: u64,
    max_overlap_bytes: u64,
}

/// The grandparents that a compaction passed when it moved from the previous key to the current
/// key.
#[derive(Debug, Clone, Copy)]
pub(super) struct PassedGrandparents {
    /// Number of bounds of grandparents (smallest and largest keys) that were passed.
    bounds: u64,
    /// Total size of the grandparents that begin after the previous key and at or before the
    /// current key, in bytes.
    bytes: u64,
    /// Whether the current key is the first key inside an input table with old data, or the first
    /// key after such a table.
    is_at_old_file: bool,
}

impl Cuts {
    /// Creates the state for a compaction that begins at `now_s`, in seconds since 1970.
    pub(super) fn new(
        compaction: &Compaction,
        comparator: Comparator,
        options: &ColumnFamilyOptions,
        now_s: u64,
    ) -> Self {
        let limits = Limits {
            is_level_0: compaction.output_level == 0,
            is_leveled: options.compaction_style == CompactionStyle::Level,
            max_bytes: compaction.max_output_file_bytes,
            target_bytes: target_bytes(compaction),
            max_overlap_bytes: compaction.max_overlap_bytes,
        };
        Self {
            comparator,
            limits,
            grandparents: compaction.grandparents.clone(),
            old_files: OldFiles::of(compaction, options, now_s),
            at: 0,
            in_gap: true,
            has_seen_key: false,
            overlapped_bytes: 0,
            bounds_within: 0,
        }
    }

    /// Moves to the next internal key. Returns the bounds and bytes of grandparents between the
    /// previous key and this one, and whether this key is at an old file.
    pub(super) fn pass(&mut self, key: &[u8]) -> PassedGrandparents {
        if self.limits.is_level_0 {
            return PassedGrandparents { bounds: 0, bytes: 0, is_at_old_file: false };
        }
        let before = self.overlapped_bytes;
        let bounds = self.pass_grandparents(key);
        PassedGrandparents {
            bounds,
            bytes: self.overlapped_bytes.saturating_sub(before),
            is_at_old_file: self.old_files.pass(&self.comparator, key),
        }
    }

    /// Whether the current output, which has `bytes` so far, ends before the current key. `passed`
    /// is what [`Cuts::pass`] returned for this key.
    pub(super) fn ends_output(&self, passed: PassedGrandparents, bytes: u64) -> bool {
        let limits = &self.limits;
        if passed.is_at_old_file {
            return true;
        }
        if limits.is_level_0 {
            return false;
        }
        if bytes >= limits.max_bytes {
            return true;
        }
        if passed.bounds == 0 {
            return false;
        }
        if self.overlapped_bytes.saturating_add(bytes) > limits.max_overlap_bytes {
            return true;
        }
        if !limits.is_leveled {
            return false;
        }
        let spans_one = passed.bounds >= if self.in_gap { 2 } else { 3 };
        if spans_one && passed.bytes > limits.target_bytes / 8 {
            return true;
        }
        // An output that has passed many bounds of grandparents is likely to reach another bound
        // soon, where it can end. So each passed bound raises the size from which the output may
        // end here.
        let percent = 50 + (self.bounds_within * 5).min(40);
        bytes >= limits.target_bytes.div_ceil(100).saturating_mul(percent)
    }

    /// Starts an output whose first key is the current internal key.
    pub(super) fn restart(&mut self, key: &[u8]) {
        self.bounds_within = 0;
        self.overlapped_bytes = self.overlapped_by(key);
    }

    /// Moves to the last grandparent that contains the key or, if none does, to the gap between
    /// grandparents that contains the key. Returns how many smallest and largest keys of
    /// grandparents were passed.
    fn pass_grandparents(&mut self, key: &[u8]) -> u64 {
        if self.grandparents.is_empty() {
            return 0;
        }
        let mut passed = 0;
        while let Some(grandparent) = self.grandparents.get(self.at) {
            if self.in_gap {
                if self.compare(key, grandparent.smallest()).is_lt() {
                    break;
                }
                if self.has_seen_key {
                    passed += 1;
                    self.overlapped_bytes += grandparent.size();
                }
                self.in_gap = false;
            } else {
                let is_within = match self.compare(key, grandparent.largest()) {
                    Ordering::Less => true,
                    Ordering::Equal => self
                        .grandparents
                        .get(self.at + 1)
                        .is_none_or(|next| self.compare(key, next.smallest()).is_lt()),
                    Ordering::Greater => false,
                };
                if is_within {
                    break;
                }
                passed += u64::from(self.has_seen_key);
                self.in_gap = true;
                self.at += 1;
            }
        }
        self.bounds_within += passed;
        if !self.has_seen_key {
            self.overlapped_bytes = self.overlapped_by(key);
            self.has_seen_key = true;
        }
        passed
    }

    /// Returns the total size of the grandparents that contain the current key, in bytes. A key
    /// that is a bound may be in several.
    fn overlapped_by(&self, key: &[u8]) -> u64 {
        if self.in_gap {
            return 0;
        }
        let up_to = self.grandparents.get(..=self.at).unwrap_or_default();
        let mut holding = up_to.iter().rev();
        let last = holding.next().map_or(0, |grandparent| grandparent.size());
        let earlier =
            holding.take_while(|grandparent| self.compare(key, grandparent.largest()).is_eq());
        last + earlier.map(|grandparent| grandparent.size()).sum::<u64>()
    }

    /// Compares an internal key with the bound of a table. Compares only the user keys. If they are
    /// equal and exactly one of the two trailers marks an exclusive end, the key or bound with this
    /// trailer sorts first.
    fn compare(&self, key: &[u8], bound: &[u8]) -> Ordering {
        let (key, trailer) = key::split(key).unwrap_or((key, 0));
        let (bound, bound_trailer) = key::split(bound).unwrap_or((bound, 0));
        let is_exclusive = |trailer| trailer == SENTINEL;
        self.comparator
            .compare(key, bound)
            .then_with(|| is_exclusive(bound_trailer).cmp(&is_exclusive(trailer)))
    }
}
