//! Target sizes of levels, and the base level, into which level 0 is compacted.
//!
//! By default, the target sizes are derived from the size of the largest level. Each level above
//! the largest has the target of the next deeper level, divided by
//! `max_bytes_for_level_multiplier`. Level 0 is compacted directly into the base level, and the
//! levels between are empty. The base level is the first non-empty level below level 0 or, if that
//! level's target exceeds `max_bytes_for_level_base`, the nearest level above it whose target does
//! not. A non-empty level is no longer needed if its target is at most `max_bytes_for_level_base`
//! divided by the multiplier. It is then drained into deeper levels, together with the levels above
//! it. With `level_compaction_dynamic_level_bytes` off, sizes are derived from level 1.
//!
//! Source: `CalculateBaseBytes` in `db/version_set.cc`.

use crate::compaction::picker::tree::{files_of, total_size};
use crate::options::{ColumnFamilyOptions, CompactionStyle};
use crate::version::Version;

/// Target sizes of levels, and the base level, into which level 0 is compacted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LevelTargets {
    /// The base level, into which level 0 is compacted.
    pub(crate) base_level: usize,
    /// Target size of each level, in bytes, by level. The element for level 0 has no meaning.
    pub(crate) max_bytes: Vec<u64>,
    /// The deepest level that is to be drained, together with all levels above it; `None` if no
    /// level is to be drained.
    pub(crate) lowest_unnecessary_level: Option<usize>,
}

impl LevelTargets {
    /// Returns the targets of a version.
    pub(crate) fn new(version: &Version, options: &ColumnFamilyOptions) -> Self {
        let count = usize::try_from(options.num_levels).unwrap_or(1).max(1);
        let is_level = options.compaction_style == CompactionStyle::Level;
        if options.level_compaction_dynamic_level_bytes && is_level && count > 1 {
            Self::by_largest_level(version, options, count)
        } else {
            Self::by_level_1(options, count)
        }
    }

    /// Returns the target size of a level, in bytes; [`u64::MAX`] for a level that does not exist.
    pub(crate) fn max_bytes(&self, level: usize) -> u64 {
        self.max_bytes.get(level).copied().unwrap_or(u64::MAX)
    }

    /// Whether a level is to be drained into deeper levels.
    pub(crate) fn is_unnecessary(&self, level: usize) -> bool {
        self.lowest_unnecessary_level.is_some_and(|lowest| level <= lowest)
    }

    fn by_level_1(options: &ColumnFamilyOptions, count: usize) -> Self {
        let mut max_bytes = Vec::with_capacity(count);
        let mut level_bytes = options.max_bytes_for_level_base;
        for level in 0..count {
            if level > 1 {
                let further = &options.max_bytes_for_level_multiplier_additional;
                let further = further.get(level - 1).copied().unwrap_or(1);
                level_bytes = multiply(level_bytes, options.max_bytes_for_level_multiplier);
                level_bytes = multiply(level_bytes, f64::from(further));
            }
            max_bytes.push(level_bytes);
        }
        Self { base_level: 1.min(count - 1), max_bytes, lowest_unnecessary_level: None }
    }

    fn by_largest_level(version: &Version, options: &ColumnFamilyOptions, count: usize) -> Self {
        let sizes: Vec<u64> = (0..count).map(|n| total_size(files_of(version, n))).collect();
        let deeper = sizes.get(1..).unwrap_or_default();
        let first_non_empty = deeper.iter().position(|&size| size > 0).map(|at| at + 1);
        let mut targets = Self {
            base_level: count - 1,
            max_bytes: vec![u64::MAX; count],
            lowest_unnecessary_level: None,
        };
        // If all data is in level 0, level 0 is compacted into the last level.
        let Some(first_non_empty) = first_non_empty else { return targets };

        let multiplier = options.max_bytes_for_level_multiplier;
        let base_max = options.max_bytes_for_level_base;
        let base_min = divide(base_max, multiplier);
        let mut level_bytes = deeper.iter().copied().max().unwrap_or(0);
        for level in (first_non_empty..count - 1).rev() {
            level_bytes = divide(level_bytes, multiplier);
            if targets.lowest_unnecessary_level.is_none() && level_bytes <= base_min {
                targets.lowest_unnecessary_level = Some(level);
            }
        }
        targets.base_level = first_non_empty;
        if level_bytes <= base_min {
            level_bytes = base_min.saturating_add(1);
        } else {
            while targets.base_level > 1 && level_bytes > base_max {
                targets.base_level -= 1;
                level_bytes = divide(level_bytes, multiplier);
            }
            level_bytes = level_bytes.clamp(1, base_max.max(1));
        }
        for level in targets.base_level..count {
            if level > targets.base_level {
                level_bytes = multiply(level_bytes, multiplier);
            }
            // The target of every level is at least the size that level 0 may reach. If it were
            // lower, the level would always be compacted before level 0.
            targets.max_bytes[level] = level_bytes.max(base_max);
        }
        targets
    }
}

/// Returns the product, rounded down. If it would overflow, returns `value` itself.
pub(super) fn multiply(value: u64, factor: f64) -> u64 {
    if value == 0 || factor <= 0.0 {
        return 0;
    }
    let product = value as f64 * factor;
    if product < u64::MAX as f64 { product as u64 } else { value }
}

fn divide(value: u64, divisor: f64) -> u64 {
    (value as f64 / divisor) as u64
}
