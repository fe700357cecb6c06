//! The compaction backlog, which makes several compactions run concurrently, and finally stalls
//! writes.
//!
//! Sources: `EstimateCompactionBytesNeeded` in `db/version_set.cc`, and the uses of
//! `CompactionPressureToken` in `db/column_family.cc`.

use crate::compaction::picker::LevelTargets;
use crate::compaction::picker::marked::marked_by_themselves;
use crate::compaction::picker::tree::{files_of, total_size};
use crate::options::{ColumnFamilyOptions, CompactionStyle};
use crate::stall::many_level_0_tables;
use crate::version::Version;

/// If at least this many tables are marked for compaction, compactions run concurrently.
const MARKED_TABLES: usize = 2;

/// Under leveled compaction, estimates how many bytes compactions must process until every level is
/// within its target size. Under FIFO compaction, returns how many bytes exceed the size limit.
/// Returns 0 under other styles.
pub(crate) fn pending_compaction_bytes(version: &Version, options: &ColumnFamilyOptions) -> u64 {
    match options.compaction_style {
        CompactionStyle::Level => {}
        CompactionStyle::Fifo => return above_fifo_size(version, options),
        CompactionStyle::Universal | CompactionStyle::None => return 0,
    }
    let targets = LevelTargets::new(version, options);
    let level_bytes = |level: usize| total_size(files_of(version, level));
    let level_0_bytes = level_bytes(0);
    let trigger = usize::try_from(options.level0_file_num_compaction_trigger).unwrap_or(0);
    let is_level_0_due =
        files_of(version, 0).len() >= trigger || level_0_bytes >= options.max_bytes_for_level_base;
    let last = targets.max_bytes.len().saturating_sub(1);
    let mut pending = 0_u64;
    // Bytes that come down from the level above.
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
            // Each byte that moves down is written once. On average, `next / size` bytes of the
            // next level are rewritten with it.
            let fan_out = next as f64 / size as f64 + 1.0;
            pending = pending.saturating_add((coming as f64 * fan_out) as u64);
        }
    }
    pending
}

/// Returns by how many bytes a column family exceeds the size limit of FIFO compaction. If
/// `max_data_files_size` is set, it limits tables and blob files together; otherwise
/// `max_table_files_size` limits the tables alone.
fn above_fifo_size(version: &Version, options: &ColumnFamilyOptions) -> u64 {
    let fifo = &options.compaction_options_fifo;
    let of_tables = version.files().map(|(_, file)| file.size()).sum::<u64>();
    match fifo.max_data_files_size {
        0 => of_tables.saturating_sub(fifo.max_table_files_size),
        both => {
            let blobs = version.blob_files().values().map(|file| file.added.blob_bytes);
            of_tables.saturating_add(blobs.sum::<u64>()).saturating_sub(both)
        }
    }
}

/// Whether compactions are so far behind that several should run concurrently. `pending_bytes` is
/// the backlog.
pub(crate) fn is_behind(
    version: &Version,
    options: &ColumnFamilyOptions,
    pending_bytes: u64,
) -> bool {
    if options.compaction_style != CompactionStyle::Level {
        return false;
    }
    has_many_in_level_0(files_of(version, 0).len(), options)
        || pending_bytes >= many_bytes(version, options)
        || marked_by_themselves(version).count() >= MARKED_TABLES
}

/// Whether there are so many level-0 tables that several compactions should run concurrently.
fn has_many_in_level_0(tables: usize, options: &ColumnFamilyOptions) -> bool {
    // A negative trigger is never reached.
    let count = |number: i32| usize::try_from(number).unwrap_or(usize::MAX);
    let trigger = count(options.level0_file_num_compaction_trigger);
    tables >= many_level_0_tables(trigger, count(options.level0_slowdown_writes_trigger))
}

/// Returns a threshold in bytes: compactions run concurrently if the backlog is at least this
/// large. The threshold is the smaller of two values. The first is a quarter of
/// `soft_pending_compaction_bytes_limit`; if this option is 0, the threshold is 0. The second is an
/// eighth of the last level's size, but at least twice `max_bytes_for_level_base`. (RocksDB uses
/// the size of all bottommost tables instead of the last level's.)
fn many_bytes(version: &Version, options: &ColumnFamilyOptions) -> u64 {
    let by_limit = options.soft_pending_compaction_bytes_limit / 4;
    let last = version.levels().iter().rfind(|level| !level.files().is_empty());
    match last.map(|level| total_size(level.files())) {
        None => by_limit,
        Some(last) => {
            by_limit.min((last / 8).max(options.max_bytes_for_level_base.saturating_mul(2)))
        }
    }
}
