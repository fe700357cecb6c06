//! The options of block-based tables.

use tailwater_format::block::IndexShortening;
use tailwater_format::checksum::ChecksumType;
use tailwater_format::options_text::{parse_option_string, strip_outer_braces};
use tailwater_format::table::IndexType;

use super::choice::{
    CacheEntryRoleDecision, DataBlockIndexType, IndexSearchType, PinningTier, PrepopulateBlockCache,
};
use super::error::{Error, Result};
use super::object::{CacheCapacity, FilterPolicy, ObjectName};
use super::schema::OptionTable;
use super::value::{OptionValue, ValueKind};

const NO_PARTS: &str = "filters and indexes are written unpartitioned";
const NO_OWN_INDEX: &str = "new tables have no user-defined index, and none is used";
const NEEDS_OWN_INDEX: &str =
    "new tables have no user-defined index, so RocksDB would not open them with this option";

option_table! {
    /// The metadata blocks that stay in the cache while their tables are open.
    pub struct MetadataCacheOptions {
        /// Unpartitioned filters and indexes.
        unpartitioned_pinning: PinningTier = PinningTier::Fallback, Fixed, Honoured;
        /// Partitions of filters and indexes.
        partition_pinning: PinningTier = PinningTier::Fallback, Fixed,
            NoEffect("partitions of filters and indexes live in the block cache");
        /// Top levels of partitioned filters and indexes.
        top_level_index_pinning: PinningTier = PinningTier::Fallback, Fixed, Honoured;
    }
    elsewhere {}
    other_names {}
    retired {}
}

group_value!(MetadataCacheOptions, |_, text| Err(Error::malformed(text, "a group of options")));

option_table! {
    /// The memory outside the block cache that is charged to it, so that one limit bounds both. The
    /// names are those of RocksDB's cache entry roles.
    pub struct CacheUsageOptions {
        /// Samples from which a dictionary is built.
        compression_dictionary_building_buffer as "kCompressionDictionaryBuildingBuffer":
            CacheEntryRoleDecision = CacheEntryRoleDecision::Fallback, Fixed,
            NoEffect("tables are written without dictionaries");
        /// Filters that flushes and compactions build; by default not charged. What does not fit
        /// under a strict capacity limit is not charged.
        filter_construction as "kFilterConstruction":
            CacheEntryRoleDecision = CacheEntryRoleDecision::Fallback, Fixed, Honoured;
        /// Open tables: properties, range tombstones, and the indexes, filters and dictionaries
        /// that are not in the block cache; by default not charged. A table that does not fit under
        /// a strict capacity limit is not opened, and its read fails.
        block_based_table_reader as "kBlockBasedTableReader":
            CacheEntryRoleDecision = CacheEntryRoleDecision::Fallback, Fixed, Honoured;
        /// What is kept of each table, open or not; by default not charged. What does not fit under
        /// a strict capacity limit is charged later.
        file_metadata as "kFileMetadata":
            CacheEntryRoleDecision = CacheEntryRoleDecision::Fallback, Fixed, Honoured;
        /// The cache of large values.
        blob_cache as "kBlobCache":
            CacheEntryRoleDecision = CacheEntryRoleDecision::Fallback, Fixed,
            NoEffect("large values are not cached");
    }
    elsewhere {}
    other_names {}
    retired {}
}

group_value!(CacheUsageOptions, |_, text| Err(Error::malformed(text, "a group of options")));

option_table! {
    /// The options of a column family's tables. Names, defaults and units are RocksDB's.
    pub struct BlockBasedTableOptions {
        /// Maximum readahead of an iterator, in bytes; 64 MiB at most.
        max_auto_readahead_size: u64 = 256 << 10, Mutable, Honoured;
        /// Initial readahead of an iterator, in bytes.
        initial_auto_readahead_size: u64 = 8 << 10, Mutable, Honoured;
        /// Refuses to open a table without the user-defined index.
        fail_if_no_udi_on_open: bool = false, Mutable, Refused(NEEDS_OWN_INDEX, &["false"]);
        /// Metadata blocks that stay in the cache.
        metadata_cache_options: MetadataCacheOptions = MetadataCacheOptions::default(), Mutable,
            Honoured;
        /// Pins the top levels of partitioned filters and indexes in the cache.
        pin_top_level_index_and_filter: bool = true, Mutable, Honoured;
        /// Share of space that alignment to `super_block_alignment_size` may waste: 1 divided by
        /// this number.
        super_block_alignment_space_overhead_ratio: u64 = 128, Mutable,
            NoEffect("blocks are not aligned to larger ones");
        /// Size of super blocks, in bytes: no data block crosses a multiple of it; 0 means no
        /// alignment.
        super_block_alignment_size: u64 = 0, Mutable,
            NoEffect("blocks are not aligned to larger ones");
        /// Verifies each compressed block by decompressing it.
        verify_compression: bool = false, Mutable, Honoured;
        /// Stores the keys of a data block separately from its values.
        separate_key_value_in_data_block: bool = false, Mutable,
            NoEffect("such blocks can be read but are not written");
        /// Number of sequential reads after which an iterator reads ahead.
        num_file_reads_for_auto_readahead: u64 = 2, Mutable, Honoured;
        /// Version of the table format, 2 to 7. If it is below 5, tables are written with version
        /// 5.
        format_version: u32 = 7, Mutable, Honoured;
        /// Uses the user-defined index instead of the table's own.
        use_udi_as_primary_index: bool = false, Mutable, Refused(NEEDS_OWN_INDEX, &["false"]);
        /// Bytes per bit of the bitmap that tracks which bytes of a block are used; 0 disables it.
        read_amp_bytes_per_bit: u32 = 0, Mutable,
            NoEffect("used bytes are not tracked");
        /// Adds whole keys to filters.
        whole_key_filtering: bool = true, Mutable, Honoured;
        /// Blocks written by flushes and compactions that are added to the block cache, if they
        /// fit. Warm handover works without this option: see `warm_handover`.
        prepopulate_block_cache: PrepopulateBlockCache = PrepopulateBlockCache::Disable, Mutable,
            Honoured;
        /// Filters of tables. Instead of a Ribbon filter, a Bloom filter with
        /// `bloom_equivalent_bits_per_key` bits is written, which is larger and as accurate.
        filter_policy: FilterPolicy = FilterPolicy::None, Mutable, Honoured;
        /// Delta-encodes keys: leaves out the prefix shared with the key before.
        use_delta_encoding: bool = true, Mutable, Honoured;
        /// Chooses the filter sizes that waste the least memory in the allocator.
        optimize_filters_for_memory: bool = true, Mutable,
            NoEffect("filters are sized by their number of keys");
        /// Cuts filter partitions independently of index partitions.
        decouple_partitioned_filters: bool = true, Mutable, NoEffect(NO_PARTS);
        /// Partitions filters; only with a partitioned index.
        partition_filters: bool = false, Mutable, NoEffect(NO_PARTS);
        /// Maximum coefficient of variation of the gaps between keys for an index block to be
        /// marked uniform; a negative number marks none.
        uniform_cv_threshold: f64 = -1.0, Mutable, NoEffect("index blocks are always searched with binary search");
        /// Size of partitions of filters and indexes, in bytes.
        metadata_block_size: u64 = 4096, Mutable, NoEffect(NO_PARTS);
        /// Number of keys between restart points of an index block.
        index_block_restart_interval: i32 = 1, Mutable, Honoured;
        /// A data block whose free space is below this percentage of `block_size` ends before a
        /// record that does not fit.
        block_size_deviation: i32 = 10, Mutable, Honoured;
        /// Size of data blocks before compression, in bytes.
        block_size: u64 = 4096, Mutable, Honoured;
        /// Disables the block cache.
        no_block_cache: bool = false, Mutable, Honoured;
        /// Checksum type of blocks.
        checksum: ChecksumType = ChecksumType::Xxh3, Mutable, Honoured;
        /// Factory of a user-defined index.
        user_defined_index_factory: ObjectName = ObjectName::default(), Mutable,
            NoEffect(NO_OWN_INDEX);
        /// Load factor of the hash index of a data block.
        data_block_hash_table_util_ratio: f64 = 0.75, Mutable, Honoured;
        /// Compresses index blocks.
        enable_index_compression: bool = true, Mutable, Honoured;
        /// Keys of an index that are shortened.
        index_shortening: IndexShortening = IndexShortening::Separators, Mutable, Honoured;
        /// Index type of data blocks.
        data_block_index_type: DataBlockIndexType = DataBlockIndexType::BinarySearch, Mutable,
            Honoured;
        /// Verifies each filter after it was built.
        detect_filter_construct_corruption: bool = false, Mutable, Honoured;
        /// Aligns data blocks so that none crosses a page; only without compression.
        block_align: bool = false, Mutable, Honoured;
        /// Search algorithm for index blocks.
        index_block_search_type: IndexSearchType = IndexSearchType::Binary, Mutable,
            NoEffect("index blocks are always searched with binary search");
        /// Layout of the index.
        index_type: IndexType = IndexType::BinarySearch, Mutable,
            NoEffect("indexes of all types can be read; new ones are kBinarySearch");
        /// Pins the filters and indexes of level-0 tables in the cache.
        pin_l0_filter_and_index_blocks_in_cache: bool = false, Mutable, Honoured;
        /// Keeps filters and indexes in the block cache, instead of with their tables.
        cache_index_and_filter_blocks: bool = false, Mutable, Honoured;
        /// Number of keys between restart points of a data block.
        block_restart_interval: i32 = 16, Mutable, Honoured;
        /// Caches filters and indexes with a higher priority than data blocks.
        cache_index_and_filter_blocks_with_high_priority: bool = true, Mutable, Honoured;
        /// Decides where a data block ends.
        flush_block_policy_factory: ObjectName =
            ObjectName::new("FlushBlockBySizePolicyFactory"), Mutable,
            NoEffect("data blocks are cut by size");
        /// Capacity of the block cache, in bytes; `auto`, which RocksDB does not have, resizes it
        /// to what memory allows and reads need. With a strict limit
        /// (`{capacity=64m;strict_capacity_limit=true}`), a read fails if the block that it needs
        /// does not fit, because others are in use.
        block_cache: CacheCapacity = CacheCapacity::Unset, Unwritten, Honoured;
        /// Memory outside the block cache that is charged to it. RocksDB has no name for this
        /// option in option strings: it can be set only in code there.
        cache_usage_options: CacheUsageOptions = CacheUsageOptions::default(), Unwritten, Honoured;
    }
    elsewhere {}
    other_names {}
    retired {
        "block_cache_compressed"
        "hash_index_allow_collision"
        "index_per_partition"
        "reserve_table_builder_memory"
        "reserve_table_reader_memory"
        "skip_table_builder_flush"
    }
}

/// The name of the only supported table format.
pub(super) const BLOCK_BASED_TABLE: &str = "BlockBasedTable";

impl BlockBasedTableOptions {
    /// Sets options from `text`. It is either the name of the table format alone, or an option
    /// string in which `id` is the name of the table format. Options that `text` does not name keep
    /// their values.
    pub(super) fn set_named(&mut self, text: &str) -> Result<()> {
        let check_kind = |kind: &str| match kind {
            BLOCK_BASED_TABLE => Ok(()),
            "PlainTable" | "CuckooTable" | "AdaptiveTable" => {
                Err(Error::refused(kind, "only block-based tables are built"))
            }
            _ => Err(Error::malformed(kind, BLOCK_BASED_TABLE)),
        };
        if !text.contains('=') {
            return check_kind(strip_outer_braces(text));
        }
        for assignment in parse_option_string(text)? {
            match assignment.name {
                "id" => check_kind(assignment.value)?,
                name => self.set_option(name, assignment.value)?,
            }
        }
        Ok(())
    }
}

/// The value of option `table_factory`. Its text is either the name of the table format alone, or
/// an option string in which `id` is the name of the table format. Options that the text does not
/// name get their defaults.
impl OptionValue for BlockBasedTableOptions {
    const KIND: ValueKind = ValueKind::Group;

    fn set(&mut self, text: &str) -> Result<()> {
        let mut options = Self::default();
        options.set_named(text)?;
        *self = options;
        Ok(())
    }

    fn set_part(&mut self, part: &str, text: &str) -> Result<()> {
        self.set_option(part, text)
    }

    fn print(&self) -> String {
        BLOCK_BASED_TABLE.to_owned()
    }
}
