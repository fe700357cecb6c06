//! The compaction's input tables in the output level that have old data.
//!
//! The records in the key ranges of these tables are written to separate outputs. These outputs can
//! then be compacted down to the last level before `ttl` expires, without younger data. Source:
//! `CompactionOutputs::FillFilesToCutForTtl` in `db/compaction/compaction_outputs.cc`.

use tailwater_format::{Comparator, key};

use crate::options::{ColumnFamilyOptions, CompactionPriority, CompactionStyle};
use crate::version::Compaction;

/// The smallest and largest keys of the old tables, in order. An old table is an input table in the
/// output level that has data older than half of `ttl`.
#[derive(Debug, Default)]
pub(super) struct OldFiles {
    bounds: Vec<Bounds>,
    /// Index of the first old table that does not end before the last key given to
    /// [`OldFiles::pass`].
    next: usize,
    /// Whether the key that was last given to [`OldFiles::pass`] is inside the table at `next`.
    is_inside: bool,
}

#[derive(Debug)]
struct Bounds {
    smallest: Vec<u8>,
    largest: Vec<u8>,
}

impl OldFiles {
    /// Finds the tables with old data (older than half of `ttl`) among the inputs of a compaction
    /// that runs at `now_s`, in seconds since 1970.
    pub(super) fn of(compaction: &Compaction, options: &ColumnFamilyOptions, now_s: u64) -> Self {
        let applies = options.compaction_style == CompactionStyle::Level
            && options.compaction_pri == CompactionPriority::MinOverlappingRatio
            && options.ttl > 0
            && now_s >= options.ttl
            && compaction.output_level > 0
            && compaction.inputs.len() > 1
            && !compaction.is_bottommost;
        let Some(last) = compaction.inputs.last().filter(|_| applies) else {
            return Self::default();
        };
        let before_s = now_s - options.ttl / 2;
        // A small table does not count as old, because it is not worth a separate output.
        let is_old = |added: &tailwater_format::version_edit::NewFile| {
            added.oldest_ancestor_time_s < before_s
                && added.size > options.target_file_size_base / 2
        };
        let old = last.files.iter().map(|file| file.added()).filter(|added| is_old(added));
        let bounds = old.map(|added| Bounds {
            smallest: added.smallest.clone(),
            largest: added.largest.clone(),
        });
        Self { bounds: bounds.collect(), next: 0, is_inside: false }
    }

    /// Moves to the next internal key. Returns whether this key is the first key inside an old
    /// table, or the first key after one.
    pub(super) fn pass(&mut self, comparator: &Comparator, key: &[u8]) -> bool {
        let compare = |bound: &[u8]| key::compare_internal(comparator, key, bound);
        while let Some(bounds) = self.bounds.get(self.next) {
            let is_behind = compare(&bounds.largest).is_gt();
            if self.is_inside {
                if is_behind {
                    self.is_inside = false;
                    self.next += 1;
                }
                return is_behind;
            }
            if compare(&bounds.smallest).is_lt() {
                return false;
            }
            if !is_behind {
                self.is_inside = true;
                return true;
            }
            self.next += 1;
        }
        false
    }
}
