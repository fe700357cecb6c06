//! The options of a column family.

use tailwater_format::version_edit::Temperature;

use super::block_based_table::BlockBasedTableOptions;
use super::choice::{CompactionPriority, CompactionStyle, CompressionType, PrepopulateBlobCache};
use super::database::{DbPath, NO_INGESTION_BEHIND, set_paths};
use super::error::Error;
use super::group::{
    CompressionOptions, FifoCompactionOptions, ONLY_BY_HAND, UniversalCompactionOptions,
};
use super::object::{CacheCapacity, ObjectName, PrefixExtractor};
use super::schema::OptionTable;
use super::value::OptionValue;

const NO_TIERS: &str = "files are not sorted by temperature";
const NO_PROTECTION: &str = "records in memory have no checksums";
const NO_INPLACE: &str = "a write never changes an older record in place";
const NO_SCAN_TRIGGER: &str = "memtables are flushed by their size";
const NO_OWN_PARTS: &str = "compaction cuts tables by size and overlap";
const NO_BLOBS: &str = "blob files can be read but are not written";
const NO_CLEANING: &str = "compaction keeps references to blobs and rewrites no blob file";
const NO_DIRECT_BLOBS: &str = "blob files are not written";

/// Value of options `ttl` and `periodic_compaction_seconds`, in seconds, that selects RocksDB's
/// default age for the compaction style.
pub(super) const AGE_BY_DEFAULT: u64 = u64::MAX - 1;

option_table! {
    /// The options of a column family. Names, defaults and units are RocksDB's.
    ///
    /// ```
    /// # fn main() -> tailwater::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// # let db = tailwater::Db::open_default(directory.path())?;
    /// use tailwater::options::{ColumnFamilyOptions, CompressionType, FilterPolicy, ObjectName};
    ///
    /// let mut options = ColumnFamilyOptions::default();
    /// options.write_buffer_size = 16 << 20;
    /// options.compression = CompressionType::Zstd;
    /// // Objects are named: this one is built in, a user's must be registered.
    /// options.merge_operator = ObjectName::new("uint64add");
    /// options.table_factory.block_size = 16 << 10;
    /// options.table_factory.filter_policy = FilterPolicy::Bloom { bits_per_key: 10.0 };
    /// let visits = db.create_cf("visits", &options)?;
    /// db.merge_cf(&visits, "page", 1_u64.to_le_bytes())?;
    ///
    /// // While the database is open, an option is changed by its name.
    /// db.set_options_cf(&visits, &[("write_buffer_size", "32M")])?;
    /// assert_eq!(visits.options().write_buffer_size, 32 << 20);
    /// # Ok(())
    /// # }
    /// ```
    pub struct ColumnFamilyOptions {
        /// Number of range deletions after which a memtable is flushed; 0 means no limit.
        memtable_max_range_deletions: u32 = 0, Mutable, Honoured;
        /// User-defined compression.
        compression_manager: ObjectName = ObjectName::default(), Mutable,
            NoEffect("blocks are compressed with the built-in algorithms, as the other options say");
        /// Compression parameters of blocks.
        compression_opts: CompressionOptions = CompressionOptions::default(), Mutable, Honoured;
        /// Checks the order of a memtable's keys on each read.
        paranoid_memory_checks: bool = false, Mutable,
            NoEffect("the order of a memtable's keys is not checked by reads");
        /// Average number of hidden records skipped per iterator step after which the memtable is
        /// flushed; 0 means no limit.
        memtable_avg_op_scan_flush_trigger: u32 = 0, Mutable, NoEffect(NO_SCAN_TRIGGER);
        /// Size of the checksum of each record of a block in memory, in bytes: 0, 1, 2, 4 or 8.
        block_protection_bytes_per_key: u8 = 0, Mutable, NoEffect(NO_PROTECTION);
        /// Aggressiveness of the eviction of obsolete files' blocks from the cache.
        uncache_aggressiveness: u32 = 0, Mutable, NoEffect("they are always evicted");
        /// Delay before a table of the last level is compacted to drop obsolete entries, in
        /// seconds.
        bottommost_file_compaction_delay: u32 = 0, Mutable, Honoured;
        /// Size of the checksum of each record of a memtable, in bytes: 0, 1, 2, 4 or 8.
        memtable_protection_bytes_per_key: u32 = 0, Mutable, NoEffect(NO_PROTECTION);
        /// Compression of blocks of each level; empty means the same for all.
        compression_per_level: Vec<CompressionType> = Vec::new(), Mutable, Honoured;
        /// Compression of blocks of the last level.
        bottommost_compression: CompressionType = CompressionType::Inherited, Mutable, Honoured;
        /// Tries other compressions on one of this many blocks; 0 means never.
        sample_for_compression: u64 = 0, Mutable, NoEffect("compressions are not compared");
        /// Large values that are added to the cache when they are written.
        prepopulate_blob_cache: PrepopulateBlobCache = PrepopulateBlobCache::Disable, Mutable,
            NoEffect("large values are not cached");
        /// First level whose large values go to blob files.
        blob_file_starting_level: i32 = 0, Mutable, NoEffect(NO_BLOBS);
        /// Readahead of compactions in blob files, in bytes; 0 means the database's
        /// `compaction_readahead_size`.
        blob_compaction_readahead_size: u64 = 0, Mutable, NoEffect(NO_BLOBS);
        /// Share of garbage in the oldest blob files from which compaction is forced to collect it.
        blob_garbage_collection_force_threshold: f64 = 1.0, Mutable, NoEffect(NO_CLEANING);
        /// Share of blob files, from the oldest, whose garbage compaction collects.
        blob_garbage_collection_age_cutoff: f64 = 0.25, Mutable, NoEffect(NO_CLEANING);
        /// Options of the tables.
        table_factory: BlockBasedTableOptions = BlockBasedTableOptions::default(), Mutable,
            Honoured;
        /// Number of merge operands of one key in a memtable after which they are merged; 0 means
        /// no limit.
        max_successive_merges: u64 = 0, Mutable,
            NoEffect("operands are merged by reads, flushes and compactions");
        /// Number of memtables at which writes stop.
        max_write_buffer_number: i32 = 2, Mutable, Honoured;
        /// The part of a key that prefix filters use.
        prefix_extractor: PrefixExtractor = PrefixExtractor::None, Mutable, Honoured;
        /// Size of the huge pages of memtables, in bytes; 0 means the system's normal pages.
        memtable_huge_page_size: u64 = 0, Mutable,
            NoEffect("memtables use pages of the system's default size");
        /// Size of a memtable at which it is flushed, in bytes.
        write_buffer_size: u64 = 64 << 20, Mutable, Honoured;
        /// Merges operands for `max_successive_merges` even if that reads from disk.
        strict_max_successive_merges: bool = false, Mutable,
            NoEffect("operands are merged by reads, flushes and compactions");
        /// Size of a memtable's memory chunks, in bytes; 0 derives it from `write_buffer_size`.
        arena_block_size: u64 = 0, Mutable, NoEffect("the chunks of a memtable grow with it");
        /// Number of hidden records skipped in one iterator step after which the memtable is
        /// flushed; 0 means no limit.
        memtable_op_scan_flush_trigger: u32 = 0, Mutable, NoEffect(NO_SCAN_TRIGGER);
        /// Number of level-0 tables that triggers a compaction.
        level0_file_num_compaction_trigger: i32 = 4, Mutable, Honoured;
        /// Measures the time of background I/O.
        report_bg_io_stats: bool = false, Mutable, NoEffect("the time is always measured");
        /// Number of locks for in-place updates.
        inplace_update_num_locks: u64 = 10_000, Mutable, NoEffect(NO_INPLACE);
        /// Size of the memtable's filter, as a share of the write buffer, 0.25 at most; 0 means no
        /// filter. It is a filter of prefixes, unless `memtable_whole_key_filtering` is set; those
        /// of an extractor that the program registers are not filtered. Gets use it.
        memtable_prefix_bloom_size_ratio: f64 = 0.0, Mutable, Honoured;
        /// Number of level-0 tables, or of sorted runs under universal compaction, at which writes
        /// stop.
        level0_stop_writes_trigger: i32 = 36, Mutable, Honoured;
        /// Compression of blob files.
        blob_compression_type: CompressionType = CompressionType::None, Mutable, NoEffect(NO_BLOBS);
        /// Number of level-0 tables, or of sorted runs under universal compaction, at which writes
        /// are slowed down.
        level0_slowdown_writes_trigger: i32 = 20, Mutable, Honoured;
        /// Estimated bytes pending compaction at which writes stop; 0 means no limit.
        hard_pending_compaction_bytes_limit: u64 = 256 << 30, Mutable, Honoured;
        /// Ratio of the table size of each level to that of the level before.
        target_file_size_multiplier: i32 = 1, Mutable, Honoured;
        /// Verifies each table by reading it after it was written.
        paranoid_file_checks: bool = false, Mutable, Honoured;
        /// Number of consecutive point deletions that a read converts into a range deletion; 0
        /// disables this.
        min_tombstones_for_range_conversion: u32 = 0, Mutable, NoEffect("reads never write");
        /// Minimum length of a value that goes to a blob file, in bytes.
        min_blob_size: u64 = 0, Mutable, NoEffect(NO_BLOBS);
        /// Approximate maximum input of one compaction, in bytes; 0 means 25 times
        /// `target_file_size_base`.
        max_compaction_bytes: u64 = 0, Mutable, Honoured;
        /// Runs only manual compactions, and stalls writes only for memtables.
        disable_auto_compactions: bool = false, Mutable, Honoured;
        /// Share of garbage in a memtable from which a flush writes a new memtable instead of a
        /// table.
        experimental_mempurge_threshold: f64 = 0.0, Mutable,
            NoEffect("flushes always write tables");
        /// Compression parameters of blob files.
        blob_compression_opts: CompressionOptions = CompressionOptions::default(), Mutable,
            NoEffect(NO_BLOBS);
        /// Bit mask of the checks of new tables: 1 for block checksums, 2 for entries, both only
        /// with 1024 (for the outputs of compactions). Example: 1026.
        verify_output_flags: u32 = 0, Mutable, Honoured;
        /// Temperature of tables of the last level.
        last_level_temperature: Temperature = Temperature::UNKNOWN, Mutable, NoEffect(NO_TIERS);
        /// How long the write time of each record is preserved, in seconds.
        preserve_internal_time_seconds: u64 = 0, Mutable, Honoured;
        /// Estimated bytes pending compaction at which writes are slowed down; 0 means no limit.
        soft_pending_compaction_bytes_limit: u64 = 64 << 30, Mutable, Honoured;
        /// Target size of a table of level 1, in bytes.
        target_file_size_base: u64 = 64 << 20, Mutable, Honoured;
        /// Enables garbage collection of blob files by compaction.
        enable_blob_garbage_collection: bool = false, Mutable, NoEffect(NO_CLEANING);
        /// Writes large values to blob files.
        enable_blob_files: bool = false, Mutable,
            NoEffect("new values are stored in tables, whatever their length");
        /// Compression parameters of the last level.
        bottommost_compression_opts: CompressionOptions = CompressionOptions::default(), Mutable,
            Honoured;
        /// Makes the memtable's filter one of whole keys instead of prefixes. RocksDB's filter then
        /// has both: its gets use the keys, and its iterators the prefixes. Here, iterators use no
        /// filter of a memtable.
        memtable_whole_key_filtering: bool = false, Mutable, Honoured;
        /// Ends a table before it exceeds its target size, instead of after.
        target_file_size_is_upper_bound: bool = false, Mutable, Honoured;
        /// Target size of level 1, in bytes.
        max_bytes_for_level_base: u64 = 256 << 20, Mutable, Honoured;
        /// Options of FIFO compaction.
        compaction_options_fifo: FifoCompactionOptions = FifoCompactionOptions::default(), Mutable,
            NoEffect(ONLY_BY_HAND);
        /// Ratio of the size of each level to that of the level before.
        max_bytes_for_level_multiplier: f64 = 10.0, Mutable, Honoured;
        /// Additional factor for the size of each level.
        max_bytes_for_level_multiplier_additional: Vec<i32> = vec![1; 7], Mutable, Honoured;
        /// Number of hidden records of one key that an iterator steps over before it seeks past
        /// them.
        max_sequential_skip_in_iterations: u64 = 8, Mutable, Honoured;
        /// Compression of blocks.
        compression: CompressionType = CompressionType::Lz4, Mutable, Honoured;
        /// Temperature of tables of other levels.
        default_write_temperature: Temperature = Temperature::UNKNOWN, Mutable,
            NoEffect(NO_TIERS);
        /// Options of universal compaction.
        compaction_options_universal: UniversalCompactionOptions =
            UniversalCompactionOptions::default(), Mutable,
            Honoured;
        /// Age of data at which it is compacted, in seconds; 0 means never, `u64::MAX - 1` means 30
        /// days.
        ttl: u64 = AGE_BY_DEFAULT, Mutable, Honoured;
        /// Age of tables at which they are compacted, in seconds; 0 means never, `u64::MAX - 1` the
        /// default of the compaction style.
        periodic_compaction_seconds: u64 = AGE_BY_DEFAULT, Mutable, Honoured;
        /// Verifies the checksums of a memtable's records when it is searched.
        memtable_verify_per_key_checksum_on_seek: bool = false, Mutable, NoEffect(NO_PROTECTION);
        /// Number of reads per byte of a table that triggers its compaction; 0 disables this.
        read_triggered_compaction_threshold: f64 = 0.0, Mutable,
            NoEffect("reads trigger no compactions");
        /// Time for which data is kept out of the last level, in seconds.
        preclude_last_level_data_seconds: u64 = 0, Mutable,
            NoEffect("data of any age goes to the last level; write times are preserved");
        /// Target size of a blob file, in bytes.
        blob_file_size: u64 = 1 << 28, Mutable, NoEffect(NO_BLOBS);
        /// Looks up several keys of a memtable in one pass.
        memtable_batch_lookup_optimization: bool = false, Fixed,
            NoEffect("memtables have their own lookup");
        /// Keeps the last level free for files that are ingested as the oldest data.
        cf_allow_ingest_behind: bool = false, Fixed,
            Refused(NO_INGESTION_BEHIND, &["false"]);
        /// Whether tables store user-defined timestamps.
        persist_user_defined_timestamps: bool = true, Fixed,
            Refused("user-defined timestamps are not implemented, and flushes would have to drop them", &["true"]);
        /// Number of blob files that are written in parallel.
        blob_direct_write_partitions: u32 = 1, Fixed, NoEffect(NO_DIRECT_BLOBS);
        /// Minimum number of memtables that are flushed together.
        min_write_buffer_number_to_merge: i32 = 1, Fixed, Honoured;
        /// User-defined partitioning of tables.
        sst_partitioner_factory: ObjectName = ObjectName::default(), Fixed,
            NoEffect(NO_OWN_PARTS);
        /// Number of levels, 1 to 64.
        num_levels: i32 = 7, Fixed, Honoured;
        /// Accepts data only by ingestion.
        disallow_memtable_writes: bool = false, Fixed, Honoured;
        /// Checks the consistency of levels whenever they change.
        force_consistency_checks: bool = true, Fixed, NoEffect("levels are always checked");
        /// The part of a key that insertion hints use.
        memtable_insert_with_hint_prefix_extractor: PrefixExtractor = PrefixExtractor::None, Fixed,
            NoEffect("memtables take no hints");
        /// Implementation of memtables.
        memtable_factory: ObjectName = ObjectName::new("SkipListFactory"), Fixed,
            NoEffect("memtables are skip lists");
        /// User-defined collectors of table properties.
        table_properties_collectors: Vec<ObjectName> = Vec::new(), Fixed,
            NoEffect("new tables have no user-defined properties, and properties trigger no compaction");
        /// Derives the target sizes of levels from the size of the last level.
        level_compaction_dynamic_level_bytes: bool = true, Fixed, Honoured;
        /// Compaction style. Under universal and FIFO compaction only manual compactions run,
        /// nothing is dropped, and writes stall if there is too much data.
        compaction_style: CompactionStyle = CompactionStyle::Level, Fixed, Honoured;
        /// Filter that drops or changes records in compactions: the built-in
        /// `RemoveEmptyValueCompactionFilter`, or one that the program registers.
        compaction_filter: ObjectName = ObjectName::default(), Fixed, Honoured;
        /// Temperature assumed for tables whose temperature is unknown.
        default_temperature: Temperature = Temperature::UNKNOWN, Fixed, NoEffect(NO_TIERS);
        /// Updates values in memtables in place.
        inplace_update_support: bool = false, Fixed, NoEffect(NO_INPLACE);
        /// Operator that combines merge operands; the program registers it unless it is built in.
        merge_operator: ObjectName = ObjectName::default(), Fixed, Honoured;
        /// Cache locality of the memtable's filter.
        bloom_locality: u32 = 0, Fixed,
            NoEffect("the bits of a key are always in one cache line");
        /// Order of the keys; the program registers it unless it is built in.
        comparator: ObjectName = ObjectName::new("leveldb.BytewiseComparator"), Fixed, Honoured;
        /// Omits filters of the last level, for workloads in which most reads find their keys.
        optimize_filters_for_hits: bool = false, Fixed, Honoured;
        /// Writes large values to blob files before the log.
        enable_blob_direct_write: bool = false, Fixed, NoEffect(NO_DIRECT_BLOBS);
        /// Creates a compaction filter for each compaction; the program registers it.
        compaction_filter_factory: ObjectName = ObjectName::default(), Fixed, NoEffect("only the filter that compaction_filter names is used");
        /// Amount of flushed memtables kept in memory, in bytes.
        max_write_buffer_size_to_maintain: i64 = 0, Fixed,
            NoEffect("flushed memtables are freed when no reader needs them");
        /// The table of a level that is compacted first.
        compaction_pri: CompactionPriority = CompactionPriority::MinOverlappingRatio, Fixed,
            Honoured;
        /// Capacity of the cache of large values.
        blob_cache: CacheCapacity = CacheCapacity::Unset, Unwritten,
            NoEffect("large values are not cached");
        /// Selects the blob file of a write.
        blob_direct_write_partition_strategy: ObjectName = ObjectName::default(), Unwritten,
            NoEffect(NO_DIRECT_BLOBS);
    }
    elsewhere {
        /// Directories of tables; none means the database's directories.
        cf_paths: Vec<DbPath> = Vec::new();
    }
    other_names {
        "cf_paths" => |options, text| set_paths(&mut options.cf_paths, text);
        "block_based_table_factory" => |options, text| {
            OptionTable::set_from_string(&mut options.table_factory, text)
        };
        "plain_table_factory" => |_, text| {
            Err(Error::refused(text, "only block-based tables are built"))
        };
        "memtable" => |options, text| options.memtable_factory.set(text);
        "memtable_veirfy_per_key_checksum_on_seek" => |options, text| {
            options.memtable_verify_per_key_checksum_on_seek.set(text)
        };
    }
    retired {
        "bottommost_temperature"
        "check_flush_compaction_key_order"
        "compaction_measure_io_stats"
        "expanded_compaction_factor"
        "filter_deletes"
        "hard_rate_limit"
        "ignore_max_compaction_bytes_for_input"
        "level_compaction_dynamic_file_size"
        "max_grandparent_overlap_factor"
        "max_mem_compaction_level"
        "max_write_buffer_number_to_maintain"
        "memtable_prefix_bloom_bits"
        "memtable_prefix_bloom_huge_page_tlb_size"
        "memtable_prefix_bloom_probes"
        "min_partial_merge_operands"
        "purge_redundant_kvs_while_flush"
        "rate_limit_delay_max_milliseconds"
        "snap_refresh_nanos"
        "soft_rate_limit"
        "source_compaction_factor"
        "verify_checksums_in_compaction"
    }
}

impl ColumnFamilyOptions {
    /// Returns for how long the write times of records are preserved, in seconds; 0 if they are not
    /// preserved.
    pub(crate) fn preserved_seconds(&self) -> u64 {
        self.preserve_internal_time_seconds.max(self.preclude_last_level_data_seconds)
    }
}
