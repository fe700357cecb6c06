//! Where one output ends and the next begins.
//!
//! An output ends when it is long enough. Before that it may end between two tables of the level
//! below the output's, its grandparents, so that its next compaction takes few of them: when it
//! would overlap with too many bytes of them, when it would overlap with one only because it spans
//! it, and, the longer it is the sooner, at any bound of one. Source:
//! `CompactionOutputs::ShouldStopBefore` in `db/compaction/compaction_outputs.cc`.

use std::cmp::Ordering;
use std::sync::Arc;

use tailwater_format::Comparator;
use tailwater_format::key::{self, MAX_SEQUENCE, ValueType, pack_trailer};

use super::old_files::OldFiles;
use crate::compaction::Compaction;
use crate::options::{ColumnFamilyOptions, CompactionStyle};
use crate::version::FileMetadata;

/// How many bytes an output should have. Where grandparents give places to be cut at, it may become
/// twice as long.
pub(crate) fn target_bytes(compaction: &Compaction) -> u64 {
    let has_room = !compaction.is_bottommost && !compaction.grandparents.is_empty();
    compaction.max_output_file_bytes / if has_room { 2 } else { 1 }
}

/// What separates an exclusive bound from a record.
const SENTINEL: u64 = pack_trailer(MAX_SEQUENCE, ValueType::RangeDeletion as u8);

/// Follows the keys of the outputs, and says where to cut.
#[derive(Debug)]
pub(super) struct Cuts {
    comparator: Comparator,
    limits: Limits,
    grandparents: Vec<Arc<FileMetadata>>,
    old_files: OldFiles,
    /// The grandparent that holds the last key, or else the first behind it.
    at: usize,
    /// Whether the last key is before that grandparent.
    in_gap: bool,
    has_seen_key: bool,
    /// How many bytes the grandparents have that the current output overlaps.
    overlapped_bytes: u64,
    /// How many bounds of grandparents lie in the current output.
    bounds_within: u64,
}

/// What an output may come to.
#[derive(Debug, Clone, Copy)]
struct Limits {
    /// Outputs of level 0 are not cut.
    is_level_0: bool,
    is_leveled: bool,
    /// No output goes on behind this many bytes.
    max_bytes: u64,
    /// How many bytes an output of this level should have.
    target_bytes: u64,
    max_overlap_bytes: u64,
}

/// What a key has passed since the one before.
#[derive(Debug, Clone, Copy)]
pub(super) struct Passed {
    /// How many bounds of grandparents.
    bounds: u64,
    /// With how many more bytes of them the output overlaps.
    bytes: u64,
    /// Whether it has entered or left a table whose data is old.
    is_at_old_file: bool,
}

impl Cuts {
    /// The cuts of a compaction that begins at `now_s`, in seconds since 1970.
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

    /// Follows to the next internal key.
    pub(super) fn pass(&mut self, key: &[u8]) -> Passed {
        if self.limits.is_level_0 {
            return Passed { bounds: 0, bytes: 0, is_at_old_file: false };
        }
        let before = self.overlapped_bytes;
        let bounds = self.pass_grandparents(key);
        Passed {
            bounds,
            bytes: self.overlapped_bytes.saturating_sub(before),
            is_at_old_file: self.old_files.pass(&self.comparator, key),
        }
    }

    /// Whether the current output, which has `bytes` so far, ends before the key that has `passed`
    /// these.
    pub(super) fn ends_output(&self, passed: Passed, bytes: u64) -> bool {
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
        // Each bound that was let pass makes the next one likelier.
        let percent = 50 + (self.bounds_within * 5).min(40);
        bytes >= limits.target_bytes.div_ceil(100).saturating_mul(percent)
    }

    /// Begins an output with the internal key that it has followed to.
    pub(super) fn restart(&mut self, key: &[u8]) {
        self.bounds_within = 0;
        self.overlapped_bytes = self.overlapped_by(key);
    }

    /// Goes to the last grandparent that holds the key, or to the gap it is in. Answers how many
    /// bounds that passed.
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

    /// How many bytes the grandparents have that hold a key, which it has followed to.
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

    /// Holds an internal key against a bound of a table, by user key; an exclusive bound comes
    /// before its user key.
    fn compare(&self, key: &[u8], bound: &[u8]) -> Ordering {
        let (key, trailer) = key::split(key).unwrap_or((key, 0));
        let (bound, bound_trailer) = key::split(bound).unwrap_or((bound, 0));
        let is_exclusive = |trailer| trailer == SENTINEL;
        self.comparator
            .compare(key, bound)
            .then_with(|| is_exclusive(bound_trailer).cmp(&is_exclusive(trailer)))
    }
}
