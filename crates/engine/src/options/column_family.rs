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
const NO_PROTECTION: &str = "records have no checksums of their own in memory";
const NO_INPLACE: &str = "a write never changes an older one";
const NO_SCAN_TRIGGER: &str = "memtables are flushed by their size";
const NO_OWN_PARTS: &str = "compaction cuts tables by size and overlap";
const NO_BLOBS: &str = "blob files are read and not written";
const NO_CLEANING: &str = "compaction carries blobs along and rewrites no blob file";
const NO_MEMTABLE_FILTER: &str = "memtables have no filter and are always searched";
const NO_DIRECT_BLOBS: &str = "large values reach blob files in flushes";

/// What stands for the age at which RocksDB's own default applies, in seconds.
pub(super) const AGE_BY_DEFAULT: u64 = u64::MAX - 1;

option_table! {
    /// The options of a column family. Names, defaults and units are RocksDB's.
    pub struct ColumnFamilyOptions {
        /// How many range deletions a memtable takes before it is flushed; 0 means any number.
        memtable_max_range_deletions: u32 = 0, Mutable, Honoured;
        /// Compresses in ways of the user's.
        compression_manager: ObjectName = ObjectName::default(), Mutable,
            NoEffect("blocks are compressed as the other options say, by what is built in");
        /// How blocks are compressed.
        compression_opts: CompressionOptions = CompressionOptions::default(), Mutable, Honoured;
        /// Checks the order of a memtable's keys whenever it is read.
        paranoid_memory_checks: bool = false, Mutable,
            NoEffect("the order of a memtable's keys is not checked by reads");
        /// How many hidden records a step of an iterator passes over on average before the memtable
        /// is flushed; 0 means any number.
        memtable_avg_op_scan_flush_trigger: u32 = 0, Mutable, NoEffect(NO_SCAN_TRIGGER);
        /// How many bytes of checksum each record of a block in memory has: 0, 1, 2, 4 or 8.
        block_protection_bytes_per_key: u8 = 0, Mutable, NoEffect(NO_PROTECTION);
        /// How eagerly blocks of files that are gone leave the cache.
        uncache_aggressiveness: u32 = 0, Mutable, NoEffect("they always leave it");
        /// For how many seconds tables of the last level that could be cleaned are left alone.
        bottommost_file_compaction_delay: u32 = 0, Mutable, Honoured;
        /// How many bytes of checksum each record of a memtable has: 0, 1, 2, 4 or 8.
        memtable_protection_bytes_per_key: u32 = 0, Mutable, NoEffect(NO_PROTECTION);
        /// How blocks of each level are compressed; empty means the same for all.
        compression_per_level: Vec<CompressionType> = Vec::new(), Mutable, Honoured;
        /// How blocks of the last level are compressed.
        bottommost_compression: CompressionType = CompressionType::Inherited, Mutable, Honoured;
        /// Tries other compressions on one block in this many; 0 means never.
        sample_for_compression: u64 = 0, Mutable, NoEffect("compressions are not compared");
        /// Which large values are put into the cache while they are written.
        prepopulate_blob_cache: PrepopulateBlobCache = PrepopulateBlobCache::Disable, Mutable,
            NoEffect("large values are not cached");
        /// From which level on large values are put into blob files.
        blob_file_starting_level: i32 = 0, Mutable, NoEffect(NO_BLOBS);
        /// How far compaction reads ahead in blob files, in bytes; 0 goes by the database's.
        blob_compaction_readahead_size: u64 = 0, Mutable, NoEffect(NO_BLOBS);
        /// What share of the oldest blob files must be garbage for compaction to clean them.
        blob_garbage_collection_force_threshold: f64 = 1.0, Mutable, NoEffect(NO_CLEANING);
        /// What share of blob files, the oldest, compaction cleans.
        blob_garbage_collection_age_cutoff: f64 = 0.25, Mutable, NoEffect(NO_CLEANING);
        /// The options of the tables.
        table_factory: BlockBasedTableOptions = BlockBasedTableOptions::default(), Mutable,
            Honoured;
        /// How many operands of one key a memtable takes before they are merged; 0 means any
        /// number.
        max_successive_merges: u64 = 0, Mutable,
            NoEffect("operands are merged by reads, flushes and compactions");
        /// How many memtables there may be before writes stop.
        max_write_buffer_number: i32 = 2, Mutable, Honoured;
        /// The part of a key that filters may go by.
        prefix_extractor: PrefixExtractor = PrefixExtractor::None, Mutable, Honoured;
        /// The size of the pages that memtables ask for, in bytes; 0 means the system's.
        memtable_huge_page_size: u64 = 0, Mutable, NoEffect("memtables take the system's pages");
        /// How large a memtable becomes before it is flushed, in bytes.
        write_buffer_size: u64 = 64 << 20, Mutable, Honoured;
        /// Merges operands as above even if it takes a read of the disk.
        strict_max_successive_merges: bool = false, Mutable,
            NoEffect("operands are merged by reads, flushes and compactions");
        /// How large the chunks of a memtable's memory are, in bytes; 0 goes by its size.
        arena_block_size: u64 = 0, Mutable, NoEffect("the chunks of a memtable grow with it");
        /// How many hidden records a step of an iterator passes over before the memtable is
        /// flushed; 0 means any.
        memtable_op_scan_flush_trigger: u32 = 0, Mutable, NoEffect(NO_SCAN_TRIGGER);
        /// How many tables of level 0 set off a compaction.
        level0_file_num_compaction_trigger: i32 = 4, Mutable, Honoured;
        /// Counts the time that background I/O takes.
        report_bg_io_stats: bool = false, Mutable, NoEffect("it is always counted");
        /// How many locks there are for updates in place.
        inplace_update_num_locks: u64 = 10_000, Mutable, NoEffect(NO_INPLACE);
        /// How large the memtable's filter is, as a share of the write buffer; 0 means none, 0.25
        /// is the most.
        memtable_prefix_bloom_size_ratio: f64 = 0.0, Mutable, NoEffect(NO_MEMTABLE_FILTER);
        /// How many tables of level 0 stop writes; under universal compaction, how many sorted
        /// runs.
        level0_stop_writes_trigger: i32 = 36, Mutable, Honoured;
        /// How blob files are compressed.
        blob_compression_type: CompressionType = CompressionType::None, Mutable, NoEffect(NO_BLOBS);
        /// How many tables of level 0 slow writes down; under universal compaction, how many sorted
        /// runs.
        level0_slowdown_writes_trigger: i32 = 20, Mutable, Honoured;
        /// How many bytes may wait for compaction before writes stop; 0 means any number.
        hard_pending_compaction_bytes_limit: u64 = 256 << 30, Mutable, Honoured;
        /// How much larger the tables of each level are than those of the level before.
        target_file_size_multiplier: i32 = 1, Mutable, Honoured;
        /// Reads each table back after it was written.
        paranoid_file_checks: bool = false, Mutable, Honoured;
        /// How many point deletions in a row a read turns into a range deletion; 0 means none.
        min_tombstones_for_range_conversion: u32 = 0, Mutable, NoEffect("reads write nothing");
        /// The length from which on a value is put into a blob file, in bytes.
        min_blob_size: u64 = 0, Mutable, NoEffect(NO_BLOBS);
        /// How many bytes one compaction may read, about; 0 means 25 tables.
        max_compaction_bytes: u64 = 0, Mutable, Honoured;
        /// Compacts only when asked to, and stalls writes for memtables alone.
        disable_auto_compactions: bool = false, Mutable, Honoured;
        /// What share of a memtable must be garbage for a flush to write a memtable instead of a
        /// table.
        experimental_mempurge_threshold: f64 = 0.0, Mutable,
            NoEffect("flushes always write tables");
        /// How blob files are compressed in detail.
        blob_compression_opts: CompressionOptions = CompressionOptions::default(), Mutable,
            NoEffect(NO_BLOBS);
        /// Which checks each output of a compaction goes through, as bits.
        verify_output_flags: u32 = 0, Mutable, Honoured;
        /// The temperature of tables of the last level.
        last_level_temperature: Temperature = Temperature::UNKNOWN, Mutable, NoEffect(NO_TIERS);
        /// For how many seconds back the time of each write is kept.
        preserve_internal_time_seconds: u64 = 0, Mutable, Honoured;
        /// How many bytes may wait for compaction before writes are slowed down; 0 means any
        /// number.
        soft_pending_compaction_bytes_limit: u64 = 64 << 30, Mutable, Honoured;
        /// How large a table of level 1 becomes, in bytes.
        target_file_size_base: u64 = 64 << 20, Mutable, Honoured;
        /// Lets compaction clean blob files.
        enable_blob_garbage_collection: bool = false, Mutable, NoEffect(NO_CLEANING);
        /// Puts large values into blob files.
        enable_blob_files: bool = false, Mutable,
            NoEffect("new values stand in tables, whatever their length");
        /// How blocks of the last level are compressed in detail.
        bottommost_compression_opts: CompressionOptions = CompressionOptions::default(), Mutable,
            Honoured;
        /// Puts whole keys into the memtable's filter.
        memtable_whole_key_filtering: bool = false, Mutable, NoEffect(NO_MEMTABLE_FILTER);
        /// Ends a table before it passes its size, instead of after.
        target_file_size_is_upper_bound: bool = false, Mutable, Honoured;
        /// How large level 1 becomes, in bytes.
        max_bytes_for_level_base: u64 = 256 << 20, Mutable, Honoured;
        /// How FIFO compaction drops tables.
        compaction_options_fifo: FifoCompactionOptions = FifoCompactionOptions::default(), Mutable,
            NoEffect(ONLY_BY_HAND);
        /// How much larger each level is than the one before.
        max_bytes_for_level_multiplier: f64 = 10.0, Mutable, Honoured;
        /// Further factors for each level.
        max_bytes_for_level_multiplier_additional: Vec<i32> = vec![1; 7], Mutable, Honoured;
        /// After how many hidden records of one key an iterator seeks past them.
        max_sequential_skip_in_iterations: u64 = 8, Mutable, Honoured;
        /// How blocks are compressed.
        compression: CompressionType = CompressionType::Lz4, Mutable, Honoured;
        /// The temperature of tables of other levels.
        default_write_temperature: Temperature = Temperature::UNKNOWN, Mutable,
            NoEffect(NO_TIERS);
        /// How universal compaction chooses sorted runs.
        compaction_options_universal: UniversalCompactionOptions =
            UniversalCompactionOptions::default(), Mutable,
            Honoured;
        /// The age of data from which on it is compacted, in seconds; 0 means none, `u64::MAX - 1`
        /// 30 days.
        ttl: u64 = AGE_BY_DEFAULT, Mutable, Honoured;
        /// The age of tables from which on they are compacted, in seconds; 0 means none,
        /// `u64::MAX - 1` what suits the style of compaction.
        periodic_compaction_seconds: u64 = AGE_BY_DEFAULT, Mutable, Honoured;
        /// Checks the checksums of a memtable's records when it is searched.
        memtable_verify_per_key_checksum_on_seek: bool = false, Mutable, NoEffect(NO_PROTECTION);
        /// How many reads for each byte set off a compaction of a table; 0 means any number.
        read_triggered_compaction_threshold: f64 = 0.0, Mutable,
            NoEffect("reads set off no compaction");
        /// For how many seconds data is kept out of the last level.
        preclude_last_level_data_seconds: u64 = 0, Mutable,
            NoEffect("data of any age goes to the last level; its times are preserved");
        /// How large a blob file becomes, in bytes.
        blob_file_size: u64 = 1 << 28, Mutable, NoEffect(NO_BLOBS);
        /// Looks up several keys of a memtable in one walk.
        memtable_batch_lookup_optimization: bool = false, Fixed,
            NoEffect("the way through a memtable is the engine's");
        /// Keeps the last level free for files that are ingested behind all others.
        cf_allow_ingest_behind: bool = false, Fixed,
            Refused(NO_INGESTION_BEHIND, &["false"]);
        /// Whether tables store user-defined timestamps.
        persist_user_defined_timestamps: bool = true, Fixed,
            Refused("user-defined timestamps are not built, and flushes would have to drop them", &["true"]);
        /// How many blob files writes go to at a time.
        blob_direct_write_partitions: u32 = 1, Fixed, NoEffect(NO_DIRECT_BLOBS);
        /// How many memtables are flushed together.
        min_write_buffer_number_to_merge: i32 = 1, Fixed, Honoured;
        /// Cuts tables where the user says.
        sst_partitioner_factory: ObjectName = ObjectName::default(), Fixed,
            NoEffect(NO_OWN_PARTS);
        /// How many levels there are, 1 to 64.
        num_levels: i32 = 7, Fixed, Honoured;
        /// Takes data only by ingestion.
        disallow_memtable_writes: bool = false, Fixed, Honoured;
        /// Checks what levels consist of whenever it changes.
        force_consistency_checks: bool = true, Fixed, NoEffect("levels are always checked");
        /// The part of a key that hints for insertion go by.
        memtable_insert_with_hint_prefix_extractor: PrefixExtractor = PrefixExtractor::None, Fixed,
            NoEffect("memtables take no hints");
        /// The kind of memtable.
        memtable_factory: ObjectName = ObjectName::new("SkipListFactory"), Fixed,
            NoEffect("memtables are skip lists");
        /// Collects properties of tables.
        table_properties_collectors: Vec<ObjectName> = Vec::new(), Fixed,
            NoEffect("new tables have no properties of the user's, and none is compacted for what they say");
        /// Chooses the sizes of levels by that of the last.
        level_compaction_dynamic_level_bytes: bool = true, Fixed, Honoured;
        /// How tables are chosen and arranged by compaction. Under universal and FIFO compaction
        /// nothing is compacted or dropped unless somebody asks for a compaction, and writes are
        /// stalled where there is too much.
        compaction_style: CompactionStyle = CompactionStyle::Level, Fixed, Honoured;
        /// Drops or changes records in compactions; the user supplies it in code.
        compaction_filter: ObjectName = ObjectName::default(), Fixed, Honoured;
        /// The temperature of tables of which none is known.
        default_temperature: Temperature = Temperature::UNKNOWN, Fixed, NoEffect(NO_TIERS);
        /// Changes values in the memtable.
        inplace_update_support: bool = false, Fixed, NoEffect(NO_INPLACE);
        /// Makes a value of operands; one that is not built in the user supplies in code.
        merge_operator: ObjectName = ObjectName::default(), Fixed, Honoured;
        /// How the memtable's filter is laid out.
        bloom_locality: u32 = 0, Fixed,
            NoEffect(NO_MEMTABLE_FILTER);
        /// The order of the keys; one that is not built in the user supplies in code.
        comparator: ObjectName = ObjectName::new("leveldb.BytewiseComparator"), Fixed, Honoured;
        /// Makes no filters for the last level, since most reads find their keys.
        optimize_filters_for_hits: bool = false, Fixed, Honoured;
        /// Writes large values to blob files before they are in the log.
        enable_blob_direct_write: bool = false, Fixed, NoEffect(NO_DIRECT_BLOBS);
        /// Makes a compaction filter for each compaction; the user supplies it in code.
        compaction_filter_factory: ObjectName = ObjectName::default(), Fixed, NoEffect("compactions ask the filter that compaction_filter names, and no other");
        /// How many bytes of flushed memtables are kept in memory.
        max_write_buffer_size_to_maintain: i64 = 0, Fixed,
            NoEffect("flushed memtables are given up when no reader needs them");
        /// Which table of a level is compacted first.
        compaction_pri: CompactionPriority = CompactionPriority::MinOverlappingRatio, Fixed,
            Honoured;
        /// How large the cache of large values is.
        blob_cache: CacheCapacity = CacheCapacity::Unset, Unwritten,
            NoEffect("large values are not cached");
        /// Chooses the blob file that a write goes to.
        blob_direct_write_partition_strategy: ObjectName = ObjectName::default(), Unwritten,
            NoEffect(NO_DIRECT_BLOBS);
    }
    elsewhere {
        /// Where tables are put; none means where the database's are.
        cf_paths: Vec<DbPath> = Vec::new();
    }
    other_names {
        "cf_paths" => |options, text| set_paths(&mut options.cf_paths, text);
        "block_based_table_factory" => |options, text| {
            OptionTable::set_options(&mut options.table_factory, text)
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
    /// For how many seconds back it is preserved when records were written; 0 where it is not.
    pub(crate) fn preserved_seconds(&self) -> u64 {
        self.preserve_internal_time_seconds.max(self.preclude_last_level_data_seconds)
    }
}
