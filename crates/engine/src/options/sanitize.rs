//! Replaces option values that are out of range by valid ones, as RocksDB does when it opens a
//! database.
//!
//! This never fails. [`super::OptionTable::differences`] shows which values were changed. Source:
//! `SanitizeOptions` in `db/db_impl/db_impl_open.cc`, `SanitizeCfOptions` in `db/column_family.cc`,
//! and `table/block_based/block_based_table_factory.cc`.

use std::path::Path;

use tailwater_format::record_log::RecoveryMode;
use tailwater_format::table::IndexType;
use tailwater_format::version_edit::Temperature;

use super::block_based_table::BlockBasedTableOptions;
use super::choice::{CompactionStyle, CompressionType};
use super::column_family::{AGE_BY_DEFAULT, ColumnFamilyOptions};
use super::database::DbOptions;

const MONTH_S: u64 = 30 * 24 * 60 * 60;

/// Replaces values of database options that are out of range. `directory` is the database's home
/// directory.
///
/// Does not take the system's limit on open files into account.
pub(crate) fn sanitize_database(options: &mut DbOptions, directory: &Path) {
    if options.max_open_files != -1 {
        options.max_open_files = options.max_open_files.max(20);
    }
    let rate = options.rate_limiter_bytes_per_sec;
    if rate != 0 && options.bytes_per_sync == 0 {
        options.bytes_per_sync = 1 << 20;
    }
    if options.delayed_write_rate == 0 {
        options.delayed_write_rate = if rate == 0 { 16 << 20 } else { rate };
    }
    // A recycled log file has remains of an older log at its end. The strict recovery modes would
    // mistake them for damage.
    let is_strict = matches!(
        options.wal_recovery_mode,
        RecoveryMode::TolerateCorruptedTailRecords | RecoveryMode::AbsoluteConsistency
    );
    if is_strict || options.wal_ttl_seconds > 0 || options.wal_size_limit_mb > 0 {
        options.recycle_log_file_num = 0;
    }
    if options.recycle_log_file_num != 0 {
        options.async_wal_precreate = false;
    }
    if options.allow_2pc {
        options.avoid_flush_during_recovery = false;
    }
    if options.wal_compression != CompressionType::Zstd {
        options.wal_compression = CompressionType::None;
    }
    // Older versions of RocksDB recorded the database's own directory as `wal_dir` in the OPTIONS
    // file. The entry is cleared, so that it is not used after the database was moved.
    let tables = options.db_paths.first().map_or(directory, |path| path.path.as_path());
    let is_own = Path::new(&options.wal_dir) == directory && tables == directory;
    if is_own {
        options.wal_dir.clear();
    }
    if options.wal_dir.len() > 1 && options.wal_dir.ends_with('/') {
        options.wal_dir.pop();
    }
}

/// Replaces values of column family options that are out of range. `database` must already be
/// sanitized.
pub(crate) fn sanitize_column_family(
    options: &mut ColumnFamilyOptions,
    database: &DbOptions,
    read_only: bool,
) {
    sanitize_memtables(options, database, read_only);
    sanitize_levels(options, database);
    sanitize_ages(options);
    if read_only {
        options.preserve_internal_time_seconds = 0;
        options.preclude_last_level_data_seconds = 0;
    }
    options.enable_blob_direct_write &= options.enable_blob_files;
    options.blob_direct_write_partitions = options.blob_direct_write_partitions.max(1);
    sanitize_table(&mut options.table_factory);
}

fn sanitize_memtables(options: &mut ColumnFamilyOptions, database: &DbOptions, read_only: bool) {
    options.write_buffer_size = options.write_buffer_size.clamp(64 << 10, 64 << 30);
    if options.arena_block_size == 0 {
        options.arena_block_size =
            (options.write_buffer_size / 8).min(1 << 20).next_multiple_of(4096);
    }
    let merged_max = options.max_write_buffer_number.saturating_sub(1);
    options.min_write_buffer_number_to_merge =
        options.min_write_buffer_number_to_merge.min(merged_max).max(1);
    if database.atomic_flush {
        options.min_write_buffer_number_to_merge = 1;
    }
    options.max_write_buffer_number = options.max_write_buffer_number.max(2);
    if options.max_write_buffer_size_to_maintain < 0 {
        let size = options.write_buffer_size.cast_signed();
        options.max_write_buffer_size_to_maintain =
            i64::from(options.max_write_buffer_number).saturating_mul(size);
    }
    options.memtable_prefix_bloom_size_ratio =
        options.memtable_prefix_bloom_size_ratio.clamp(0.0, 0.25);
    if read_only {
        options.memtable_op_scan_flush_trigger = 0;
        options.memtable_avg_op_scan_flush_trigger = 0;
    }
}

fn sanitize_levels(options: &mut ColumnFamilyOptions, database: &DbOptions) {
    let ingests_behind = database.allow_ingest_behind || options.cf_allow_ingest_behind;
    let levels_min = match options.compaction_style {
        CompactionStyle::Level => 2,
        CompactionStyle::Universal if ingests_behind => 3,
        _ => 1,
    };
    options.num_levels = options.num_levels.max(levels_min);
    if options.compaction_style == CompactionStyle::Fifo {
        // FIFO compaction keeps all tables in level 0, so their number must not stall writes.
        options.level0_slowdown_writes_trigger = i32::MAX;
        options.level0_stop_writes_trigger = i32::MAX;
    }
    if options.max_bytes_for_level_multiplier <= 0.0 {
        options.max_bytes_for_level_multiplier = 1.0;
    }
    if options.level0_file_num_compaction_trigger == 0 {
        options.level0_file_num_compaction_trigger = 1;
    }
    options.level0_slowdown_writes_trigger =
        options.level0_slowdown_writes_trigger.max(options.level0_file_num_compaction_trigger);
    options.level0_stop_writes_trigger =
        options.level0_stop_writes_trigger.max(options.level0_slowdown_writes_trigger);
    let hard = options.hard_pending_compaction_bytes_limit;
    let soft = &mut options.soft_pending_compaction_bytes_limit;
    if *soft == 0 || (hard > 0 && *soft > hard) {
        *soft = hard;
    }
    if options.cf_paths.is_empty() {
        options.cf_paths.clone_from(&database.db_paths);
    }
    let is_level = options.compaction_style == CompactionStyle::Level;
    options.level_compaction_dynamic_level_bytes &= is_level && options.cf_paths.len() <= 1;
    let goes_by_capacity = options.compaction_style == CompactionStyle::Fifo
        && options.compaction_options_fifo.use_kv_ratio_compaction;
    if options.max_compaction_bytes == 0 && !goes_by_capacity {
        options.max_compaction_bytes = options.target_file_size_base.saturating_mul(25);
    }
}

fn sanitize_ages(options: &mut ColumnFamilyOptions) {
    if options.ttl == AGE_BY_DEFAULT {
        options.ttl = MONTH_S;
    }
    let has_filter = options.compaction_filter.id().is_some()
        || options.compaction_filter_factory.id().is_some();
    let by_default = match options.compaction_style {
        CompactionStyle::Level if has_filter => MONTH_S,
        CompactionStyle::Universal => MONTH_S,
        _ => 0,
    };
    let period = &mut options.periodic_compaction_seconds;
    if *period == AGE_BY_DEFAULT {
        *period = by_default;
    }
    match options.compaction_style {
        CompactionStyle::Universal if *period == 0 => *period = options.ttl,
        CompactionStyle::Universal if options.ttl != 0 => *period = (*period).min(options.ttl),
        CompactionStyle::Fifo => options.last_level_temperature = Temperature::UNKNOWN,
        _ => {}
    }
}

fn sanitize_table(options: &mut BlockBasedTableOptions) {
    if !(0..=100).contains(&options.block_size_deviation) {
        options.block_size_deviation = 0;
    }
    options.block_restart_interval = options.block_restart_interval.max(1);
    options.index_block_restart_interval = options.index_block_restart_interval.max(1);
    if options.index_type == IndexType::HashSearch {
        options.index_block_restart_interval = 1;
    }
    options.partition_filters &= options.index_type == IndexType::TwoLevelIndexSearch;
}
