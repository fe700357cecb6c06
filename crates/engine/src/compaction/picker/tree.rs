//! The picker's view of a version, with figures that are computed from it once.

use std::sync::Arc;

use crate::compaction::picker::{LevelTargets, PickContext};
use crate::options::ColumnFamilyOptions;
use crate::table::{FileMetadata, FileStatistics};
use crate::version::Version;

/// Weight of a deletion in a table's compensated size: the number of values of average size that it
/// counts as.
const DELETION_WEIGHT: u64 = 2;

/// Tables of a version.
pub(super) type Files<'a> = Vec<&'a Arc<FileMetadata>>;

/// The picker's view of a version. Each file of the picker adds its methods:
///
/// - `scores`, `marked`: why tables need a compaction
/// - `priority`, `level_0`, `leveled`, `round_robin`, `moves`: which tables come first
/// - `inputs`, `running`: which tables join them, and which are taken
/// - `finish`: the compaction of these tables
pub(super) struct Tree<'a> {
    pub(super) context: PickContext<'a>,
    pub(super) targets: LevelTargets,
    /// Index of the deepest non-empty level, plus 1; 0 if all levels are empty.
    pub(super) non_empty_levels: usize,
    /// The average size of a value on disk, in bytes; 0 if unknown.
    average_value_bytes: u64,
}

impl<'a> Tree<'a> {
    /// Creates the view of the version in `context`.
    pub(super) fn new(context: &PickContext<'a>) -> Self {
        Self {
            context: *context,
            targets: LevelTargets::new(context.version, context.options),
            non_empty_levels: non_empty_levels(context.version),
            average_value_bytes: average_value_bytes(context.version),
        }
    }

    /// Returns the options of the column family.
    pub(super) fn options(&self) -> &'a ColumnFamilyOptions {
        self.context.options
    }

    /// Returns the number of levels.
    pub(super) fn level_count(&self) -> usize {
        self.targets.max_bytes.len()
    }

    /// Returns the tables of a level, in the level's order.
    pub(super) fn files(&self, level: usize) -> &'a [Arc<FileMetadata>] {
        files_of(self.context.version, level)
    }

    /// Returns a table's size in bytes, increased by the estimated size of the data in deeper
    /// levels that the table deletes. All range deletions count. Point deletions count only if they
    /// are more than half of the table's entries. Only the number by which they exceed the other
    /// entries then counts.
    pub(super) fn compensated_size(&self, file: &FileMetadata) -> u64 {
        let statistics = file.statistics().copied().unwrap_or_default();
        let deletions = statistics.deletions.saturating_sub(statistics.range_deletions);
        let surplus = deletions.saturating_mul(2).saturating_sub(statistics.entries);
        let freed =
            surplus.saturating_mul(self.average_value_bytes).saturating_mul(DELETION_WEIGHT);
        let by_ranges = file.added().compensated_range_deletion_size;
        file.size().saturating_add(freed).saturating_add(by_ranges)
    }
}

/// Returns the tables of a level, in the level's order; none if the level does not exist.
pub(super) fn files_of(version: &Version, level: usize) -> &[Arc<FileMetadata>] {
    version.levels().get(level).map_or(&[], |level| level.files())
}

/// Returns the index of the deepest non-empty level, plus 1; 0 if all levels are empty.
pub(super) fn non_empty_levels(version: &Version) -> usize {
    let deepest = version.levels().iter().rposition(|level| !level.files().is_empty());
    deepest.map_or(0, |deepest| deepest + 1)
}

/// Returns the total size of tables, in bytes.
pub(super) fn total_size<'f>(files: impl IntoIterator<Item = &'f Arc<FileMetadata>>) -> u64 {
    files.into_iter().fold(0, |total, file| total.saturating_add(file.size()))
}

/// Returns the average size of a value on disk, in bytes. It is computed from the tables whose
/// statistics are known: the average size of an uncompressed value, times the ratio of the tables'
/// compressed size to their uncompressed size.
fn average_value_bytes(version: &Version) -> u64 {
    let mut file_bytes = 0_u128;
    let mut sum = FileStatistics::default();
    for (_, file) in version.files() {
        let Some(statistics) = file.statistics() else { continue };
        file_bytes += u128::from(file.size());
        sum.entries = sum.entries.saturating_add(statistics.entries);
        sum.deletions = sum.deletions.saturating_add(statistics.deletions);
        sum.raw_key_bytes = sum.raw_key_bytes.saturating_add(statistics.raw_key_bytes);
        sum.raw_value_bytes = sum.raw_value_bytes.saturating_add(statistics.raw_value_bytes);
    }
    let values = sum.entries.saturating_sub(sum.deletions);
    let raw_bytes = u128::from(sum.raw_key_bytes) + u128::from(sum.raw_value_bytes);
    if values == 0 || raw_bytes == 0 {
        return 0;
    }
    let average = u128::from(sum.raw_value_bytes / values) * file_bytes / raw_bytes;
    u64::try_from(average).unwrap_or(u64::MAX)
}
