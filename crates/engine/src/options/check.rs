//! Refuses option values that contradict each other, and values that request unsupported features.
//!
//! Opening a database first adjusts the options ([`super::sanitize_database`]) and then checks
//! them. Opening a database for reading checks only the options that affect reading, so that
//! unsupported options for writing do not prevent it. Source: `ValidateOptions` in
//! `db/db_impl/db_impl_open.cc`, `db/column_family.cc` and
//! `table/block_based/block_based_table_factory.cc`.
//!
//! Values that RocksDB refuses are refused here, too, even if they have no effect in Tailwater.
//! Otherwise RocksDB could not open a database with such an OPTIONS file.

use std::fmt::Display;
use std::ops::RangeInclusive;

use tailwater_io::Purpose;

use tailwater_format::table::IndexType;

use super::block_based_table::CacheUsageOptions;
use super::choice::{
    CacheEntryRoleDecision, CompactionStyle, CompressionType, DataBlockIndexType, IndexSearchType,
    IoModeChoice,
};
use super::column_family::ColumnFamilyOptions;
use super::database::DbOptions;
use super::error::{Error, Problem, Result};
use super::io_mode::RequestedIoMode;
use super::object::PrefixExtractor;
use super::schema::OptionTable;
use super::value::OptionValue;

/// Maximum number of table directories of a database or column family.
const PATHS_MAX: usize = 4;

/// The table format versions that can be selected.
const FORMAT_VERSIONS: RangeInclusive<u32> = 2..=7;

/// Maximum number of levels. A MANIFEST with a table on a deeper level is damaged.
pub(crate) const LEVELS_MAX: u32 = 64;

/// Maximum `wal_preallocation_block_size`, in bytes.
const LOG_SPACE_MAX: u64 = 1 << 30;

/// Valid sizes of the checksum that RocksDB can keep with each record in memory, in bytes. 0 means
/// no checksum.
const PROTECTION_BYTES: [u32; 5] = [0, 1, 2, 4, 8];

/// Refuses database options that contradict each other so that not even reading is possible.
///
/// # Errors
/// For the first refused option, with the reason.
pub(crate) fn check_for_reading(options: &DbOptions) -> Result<()> {
    check_direct_io(options)?;
    check_paths(options)?;
    let threads = &options.read_io_executor_threads;
    refuse(*threads <= 0, "read_io_executor_threads", threads, "it must be above 0")
}

/// Refuses column family options with which not even reading is possible.
///
/// # Errors
/// For the first refused option, with the reason.
pub(crate) fn check_family_for_reading(options: &ColumnFamilyOptions) -> Result<()> {
    within("num_levels", options.num_levels, 1..=LEVELS_MAX as i32)
}

/// Refuses database options that contradict each other or request unsupported features, for a
/// database that is opened for writing.
///
/// # Errors
/// For the first refused option, with the reason.
pub(crate) fn check_database(options: &DbOptions) -> Result<()> {
    options.check_verdicts()?;
    options.tailwater.check_verdicts()?;
    check_for_reading(options)?;
    check_writes(options)?;
    let files = &options.keep_log_file_num;
    refuse(*files == 0, "keep_log_file_num", files, "it must be above 0")?;
    refuse(
        options.open_files_async && !options.skip_stats_update_on_db_open,
        "open_files_async",
        &options.open_files_async,
        "it needs skip_stats_update_on_db_open",
    )?;
    refuse(
        !options.write_dbid_to_manifest && !options.write_identity_file,
        "write_dbid_to_manifest",
        &options.write_dbid_to_manifest,
        "the database's id must be stored somewhere, and write_identity_file is also false",
    )?;
    refuse(
        !is_time_range(&options.daily_offpeak_time_utc),
        "daily_offpeak_time_utc",
        &options.daily_offpeak_time_utc,
        "it must be two different times, such as 04:30-07:30",
    )
}

fn check_paths(options: &DbOptions) -> Result<()> {
    let paths = options.db_paths.len();
    let why = "tables can be in at most 4 directories";
    refuse(paths > PATHS_MAX, "db_paths", &(paths as u64), why)
}

fn check_direct_io(options: &DbOptions) -> Result<()> {
    let mapped = "it bypasses the page cache, which allow_mmap_reads uses";
    let reads = [
        Purpose::UserRead,
        Purpose::CompactionRead,
        Purpose::UserBlobRead,
        Purpose::CompactionBlobRead,
        Purpose::Verification,
    ];
    for purpose in reads {
        let RequestedIoMode { choice, option } = options.io_mode(purpose);
        let is_direct = matches!(choice, IoModeChoice::Direct | IoModeChoice::Auto);
        if let Some(option) = option.filter(|_| is_direct && options.allow_mmap_reads) {
            return Err(Error::refused(&choice.print(), mapped).within(option));
        }
    }
    let mapped = "it bypasses the page cache, which allow_mmap_writes uses";
    let writes = [Purpose::CompactionWrite, Purpose::FlushWrite, Purpose::Ingestion, Purpose::Wal];
    for purpose in writes {
        let RequestedIoMode { choice, option } = options.io_mode(purpose);
        let is_direct = matches!(choice, IoModeChoice::Direct | IoModeChoice::Auto);
        if let Some(option) = option.filter(|_| is_direct && options.allow_mmap_writes) {
            return Err(Error::refused(&choice.print(), mapped).within(option));
        }
    }
    let choice = &options.tailwater.wal_io_mode;
    let is_of_logs = !matches!(choice, IoModeChoice::Uncached | IoModeChoice::Fadvise);
    refuse(!is_of_logs, "wal_io_mode", choice, "logs are written buffered, direct, or auto")?;
    let block = options.tailwater.wal_preallocation_block_size;
    within("wal_preallocation_block_size", block, 0..=LOG_SPACE_MAX)?;
    let buffer = &options.writable_file_max_buffer_size;
    refuse(
        options.use_direct_io_for_flush_and_compaction && *buffer == 0,
        "writable_file_max_buffer_size",
        buffer,
        "use_direct_io_for_flush_and_compaction needs a buffer",
    )
}

fn check_writes(options: &DbOptions) -> Result<()> {
    refuse(
        options.unordered_write && !options.allow_concurrent_memtable_write,
        "unordered_write",
        &options.unordered_write,
        "it needs allow_concurrent_memtable_write",
    )?;
    refuse(
        options.enable_pipelined_write && (options.unordered_write || options.atomic_flush),
        "enable_pipelined_write",
        &options.enable_pipelined_write,
        "it cannot be combined with unordered_write or atomic_flush",
    )
}

/// Whether a text is empty or a range `HH:MM-HH:MM` between two different times of day.
fn is_time_range(text: &str) -> bool {
    let time = |text: &str| {
        let (hours, minutes) = text.split_once(':')?;
        let (hours, minutes) = (hours.parse::<u32>().ok()?, minutes.parse::<u32>().ok()?);
        (hours < 24 && minutes < 60).then_some(hours * 60 + minutes)
    };
    let range = text.split_once('-').and_then(|(from, to)| Some((time(from)?, time(to)?)));
    text.is_empty() || range.is_some_and(|(from, to)| from != to)
}

/// Refuses options of a column family that contradict each other or the database's options, or that
/// request unsupported features.
///
/// # Errors
/// For the first refused option, with the reason.
pub(crate) fn check_column_family(
    options: &ColumnFamilyOptions,
    database: &DbOptions,
) -> Result<()> {
    options.check_verdicts()?;
    let own = &options.compression_opts;
    own.check_verdicts().map_err(|error| error.within("compression_opts"))?;
    let bottommost = &options.bottommost_compression_opts;
    if bottommost.enabled {
        bottommost.check_verdicts().map_err(|error| error.within("bottommost_compression_opts"))?;
    }
    let fifo = &options.compaction_options_fifo;
    fifo.check_verdicts().map_err(|error| error.within("compaction_options_fifo"))?;
    check_family_for_reading(options)?;
    check_memtables(options, database)?;
    check_compaction(options, database)?;
    check_blob_files(options, database)?;
    refuse(
        database.unordered_write && options.max_successive_merges != 0,
        "max_successive_merges",
        &options.max_successive_merges,
        "it cannot be combined with unordered_write",
    )?;
    check_compression(options)?;
    check_table(options).map_err(|error| error.within("table_factory"))
}

fn check_memtables(options: &ColumnFamilyOptions, database: &DbOptions) -> Result<()> {
    let inserts_at_once = database.allow_concurrent_memtable_write;
    let in_place = &options.inplace_update_support;
    let why = "it needs allow_concurrent_memtable_write=false";
    refuse(*in_place && inserts_at_once, "inplace_update_support", in_place, why)?;
    for (name, bytes) in [
        ("memtable_protection_bytes_per_key", options.memtable_protection_bytes_per_key),
        ("block_protection_bytes_per_key", options.block_protection_bytes_per_key.into()),
    ] {
        let is_known = PROTECTION_BYTES.contains(&bytes);
        refuse(!is_known, name, &bytes, "it must be 0, 1, 2, 4 or 8")?;
    }
    Ok(())
}

fn check_compaction(options: &ColumnFamilyOptions, database: &DbOptions) -> Result<()> {
    let style = &options.compaction_style;
    let is_fifo = *style == CompactionStyle::Fifo;
    refuse(
        is_fifo && database.open_files_async,
        "open_files_async",
        &database.open_files_async,
        "it cannot be combined with compaction_style=kCompactionStyleFIFO",
    )?;
    let threshold = &options.read_triggered_compaction_threshold;
    let name = "read_triggered_compaction_threshold";
    refuse(*threshold < 0.0, name, threshold, "it must be at least 0")?;
    check_temperature_ages(options)?;
    refuse(
        is_fifo && database.max_open_files != -1 && options.ttl > 0,
        "compaction_style",
        style,
        "with a ttl it needs all tables open: max_open_files=-1",
    )?;
    let read_amp = &options.compaction_options_universal.max_read_amp;
    let trigger = options.level0_file_num_compaction_trigger;
    refuse(
        *style == CompactionStyle::Universal
            && (*read_amp < -1 || (*read_amp > 0 && *read_amp < trigger)),
        "compaction_options_universal.max_read_amp",
        read_amp,
        "it must be -1, 0, or at least level0_file_num_compaction_trigger",
    )?;
    let paths = options.cf_paths.len();
    let takes_paths = matches!(style, CompactionStyle::Level | CompactionStyle::Universal);
    refuse(
        paths > PATHS_MAX || (paths > 1 && !takes_paths),
        "cf_paths",
        &(paths as u64),
        "tables can be in at most 4 directories, and in one under this compaction_style",
    )
}

fn check_temperature_ages(options: &ColumnFamilyOptions) -> Result<()> {
    let ages = &options.compaction_options_fifo.file_temperature_age_thresholds;
    let is_fifo = options.compaction_style == CompactionStyle::Fifo;
    let name = "compaction_options_fifo.file_temperature_age_thresholds";
    let needs = "it needs compaction_style=kCompactionStyleFIFO and num_levels=1";
    let is_out_of_place = !ages.is_empty() && (!is_fifo || options.num_levels > 1);
    refuse(is_out_of_place, name, ages, needs)?;
    let ascend = ages.is_sorted_by(|before, after| before.age < after.age);
    refuse(!ascend, name, ages, "the ages must ascend")
}

fn check_blob_files(options: &ColumnFamilyOptions, database: &DbOptions) -> Result<()> {
    let writes_of_another_kind = database.enable_pipelined_write
        || database.allow_concurrent_memtable_write
        || database.unordered_write
        || database.two_write_queues;
    refuse(
        options.enable_blob_direct_write && writes_of_another_kind,
        "enable_blob_direct_write",
        &options.enable_blob_direct_write,
        "it needs enable_pipelined_write, allow_concurrent_memtable_write, unordered_write and \
         two_write_queues to be false",
    )?;
    if !options.enable_blob_garbage_collection {
        return Ok(());
    }
    for (name, share) in [
        ("blob_garbage_collection_age_cutoff", options.blob_garbage_collection_age_cutoff),
        (
            "blob_garbage_collection_force_threshold",
            options.blob_garbage_collection_force_threshold,
        ),
    ] {
        within(name, share, 0.0..=1.0)?;
    }
    Ok(())
}

fn check_compression(options: &ColumnFamilyOptions) -> Result<()> {
    let chosen = [
        ("compression", options.compression),
        ("bottommost_compression", options.bottommost_compression),
        ("blob_compression_type", options.blob_compression_type),
    ];
    let per_level = options.compression_per_level.iter();
    for (name, compression) in
        chosen.into_iter().chain(per_level.map(|level| ("compression_per_level", *level)))
    {
        let why = match compression {
            CompressionType::Xpress => "it exists only on Windows",
            CompressionType::Inherited if name != "bottommost_compression" => {
                "only bottommost_compression can inherit a value"
            }
            _ => continue,
        };
        return Err(Error::refused(&compression.print(), why).within(name));
    }
    let samples = &options.compression_opts.zstd_max_train_bytes;
    refuse(
        *samples > 0 && options.compression_opts.max_dict_bytes == 0,
        "compression_opts.zstd_max_train_bytes",
        samples,
        "trained dictionaries need max_dict_bytes above 0",
    )
}

fn check_table(options: &ColumnFamilyOptions) -> Result<()> {
    let table = &options.table_factory;
    table.check_verdicts()?;
    within("format_version", table.format_version, FORMAT_VERSIONS)?;
    check_index(options)?;
    let no_cache = "there is no cache: no_block_cache is true";
    let cached = &table.cache_index_and_filter_blocks;
    refuse(*cached && table.no_block_cache, "cache_index_and_filter_blocks", cached, no_cache)?;
    let pinned = &table.pin_l0_filter_and_index_blocks_in_cache;
    let name = "pin_l0_filter_and_index_blocks_in_cache";
    refuse(*pinned && table.no_block_cache, name, pinned, no_cache)?;
    let charges = &table.cache_usage_options;
    for info in CacheUsageOptions::table() {
        let charged = info.value_in(charges);
        if table.no_block_cache && charged == CacheEntryRoleDecision::Enabled.print() {
            let invalid = Problem::Invalid { value: charged, why: no_cache.into() };
            return Err(Error::new(info.name, invalid).within("cache_usage_options"));
        }
    }
    let is_large = table.block_size > u64::from(u32::MAX);
    refuse(is_large, "block_size", &table.block_size, "it must be below 4 GiB")?;
    check_alignment(options)
}

fn check_alignment(options: &ColumnFamilyOptions) -> Result<()> {
    let table = &options.table_factory;
    let (size, name) = (table.super_block_alignment_size, "super_block_alignment_size");
    let is_power = size.is_power_of_two() && size <= u64::from(u32::MAX);
    let why = "it must be 0 or a power of two below 4 GiB";
    refuse(size != 0 && !is_power, name, &size, why)?;
    let part = &table.super_block_alignment_space_overhead_ratio;
    let name = "super_block_alignment_space_overhead_ratio";
    refuse((1..4).contains(part), name, part, "it must be 0 or at least 4")?;
    let compresses = |compression: &CompressionType| {
        !matches!(compression, CompressionType::None | CompressionType::Inherited)
    };
    let any_compression = compresses(&options.compression)
        || compresses(&options.bottommost_compression)
        || options.compression_per_level.iter().any(compresses);
    refuse(
        table.block_align && (any_compression || !table.block_size.is_power_of_two()),
        "block_align",
        &table.block_align,
        "it needs a block_size that is a power of two, and no compression",
    )
}

fn check_index(options: &ColumnFamilyOptions) -> Result<()> {
    let table = &options.table_factory;
    refuse(
        table.index_type == IndexType::HashSearch
            && options.prefix_extractor == PrefixExtractor::None,
        "index_type",
        &table.index_type,
        "it needs a prefix_extractor",
    )?;
    let threads = options
        .compression_opts
        .parallel_threads
        .max(options.bottommost_compression_opts.parallel_threads);
    refuse(
        table.user_defined_index_factory.id().is_some() && threads > 1,
        "user_defined_index_factory",
        &table.user_defined_index_factory,
        "it needs compression_opts.parallel_threads=1",
    )?;
    refuse(
        table.index_block_search_type == IndexSearchType::Interpolation
            && options.comparator.id() != Some("leveldb.BytewiseComparator"),
        "index_block_search_type",
        &table.index_block_search_type,
        "it needs keys in the order of their bytes",
    )?;
    refuse(
        table.data_block_index_type == DataBlockIndexType::BinaryAndHash
            && table.data_block_hash_table_util_ratio <= 0.0,
        "data_block_hash_table_util_ratio",
        &table.data_block_hash_table_util_ratio,
        "it must be above 0",
    )
}

/// Returns an error about `option` if its value is outside the given range.
fn within<T: OptionValue + PartialOrd + Display>(
    option: &str,
    value: T,
    range: RangeInclusive<T>,
) -> Result<()> {
    if range.contains(&value) {
        return Ok(());
    }
    let why = format!("it must be from {} to {}", range.start(), range.end());
    Err(Error::new(option, Problem::Invalid { value: value.print(), why: why.into() }))
}

/// Returns an error about `option` if `is_invalid` is true.
fn refuse(
    is_invalid: bool,
    option: &str,
    value: &impl OptionValue,
    why: &'static str,
) -> Result<()> {
    if !is_invalid {
        return Ok(());
    }
    Err(Error::new(option, Problem::Invalid { value: value.print(), why: why.into() }))
}
