//! How much there is left to compact: what stalls writes.
//!
//! Source: `EstimateCompactionBytesNeeded` in `db/version_set.cc`.

use crate::compaction::picker::LevelTargets;
use crate::compaction::picker::tree::{files_of, total_size};
use crate::options::{ColumnFamilyOptions, CompactionStyle};
use crate::version::Version;

/// About how many bytes compactions have to read and write until every level is within its size: 0
/// for other than leveled compaction.
pub(crate) fn pending_compaction_bytes(version: &Version, options: &ColumnFamilyOptions) -> u64 {
    if options.compaction_style != CompactionStyle::Level {
        return 0;
    }
    let targets = LevelTargets::new(version, options);
    let level_bytes = |level: usize| total_size(files_of(version, level));
    let level_0_bytes = level_bytes(0);
    let trigger = usize::try_from(options.level0_file_num_compaction_trigger).unwrap_or(0);
    let is_level_0_due =
        files_of(version, 0).len() >= trigger || level_0_bytes >= options.max_bytes_for_level_base;
    let last = targets.max_bytes.len().saturating_sub(1);
    let mut pending = 0_u64;
    // What comes down from the level above.
    let mut coming = 0;
    if is_level_0_due {
        pending = level_0_bytes;
        coming = level_0_bytes;
        if targets.base_level < last {
            pending = pending.saturating_add(level_bytes(targets.base_level));
        }
    }
    for level in targets.base_level..last {
        let size = level_bytes(level).saturating_add(coming);
        coming = size.saturating_sub(targets.max_bytes(level));
        let next = level_bytes(level + 1);
        if coming > 0 && next > 0 {
            // Each byte meets as many of the next level as that is larger.
            let fan_out = next as f64 / size as f64 + 1.0;
            pending = pending.saturating_add((coming as f64 * fan_out) as u64);
        }
    }
    pending
}
