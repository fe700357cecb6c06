//! The options of block-based tables.

use tailwater_format::options_text::{parse_option_string, strip_outer_braces};

use super::choice::{
    ChecksumType, DataBlockIndexType, IndexSearchType, IndexShortening, IndexType, PinningTier,
    PrepopulateBlockCache,
};
use super::error::{Error, Result};
use super::object::{CacheCapacity, FilterPolicy, ObjectName};
use super::schema::OptionTable;
use super::value::OptionValue;

const NO_PARTS: &str = "filters and indexes are written in one part";
const NO_OWN_INDEX: &str = "new tables have no index of the user's, and none is gone by";
const NEEDS_OWN_INDEX: &str =
    "new tables have no index of the user's, so RocksDB would not open them with this option";

option_table! {
    /// Which blocks about tables stay in the cache while their tables are open.
    pub struct MetadataCacheOptions {
        /// Filters and indexes that are one block.
        unpartitioned_pinning: PinningTier = PinningTier::Fallback, Fixed, Honoured;
        /// The parts of filters and indexes.
        partition_pinning: PinningTier = PinningTier::Fallback, Fixed,
            NoEffect("parts of filters and indexes live in the block cache");
        /// The tops of filters and indexes in parts.
        top_level_index_pinning: PinningTier = PinningTier::Fallback, Fixed, Honoured;
    }
    elsewhere {}
    other_names {}
    retired {}
}

group_value!(MetadataCacheOptions, |_, text| Err(Error::malformed(text, "a group of options")));

option_table! {
    /// The options of a column family's tables. Names, defaults and units are RocksDB's.
    pub struct BlockBasedTableOptions {
        /// The bound up to which what an iterator reads ahead grows, in bytes; 64 MiB at most.
        max_auto_readahead_size: u64 = 256 << 10, Mutable, Honoured;
        /// How far an iterator reads ahead at first, in bytes.
        initial_auto_readahead_size: u64 = 8 << 10, Mutable, Honoured;
        /// Refuses to open a table without the user's index.
        fail_if_no_udi_on_open: bool = false, Mutable, Refused(NEEDS_OWN_INDEX, &["false"]);
        /// Which blocks about tables stay in the cache.
        metadata_cache_options: MetadataCacheOptions = MetadataCacheOptions::default(), Mutable,
            Honoured;
        /// Keeps the tops of filters and indexes in parts in the cache.
        pin_top_level_index_and_filter: bool = true, Mutable, Honoured;
        /// How much space may be lost to the alignment below: one part in this many.
        super_block_alignment_space_overhead_ratio: u64 = 128, Mutable,
            NoEffect("blocks are not aligned to larger ones");
        /// No data block crosses a multiple of this many bytes; 0 means any may.
        super_block_alignment_size: u64 = 0, Mutable,
            NoEffect("blocks are not aligned to larger ones");
        /// Decompresses each block that was compressed, and compares.
        verify_compression: bool = false, Mutable, Honoured;
        /// Keeps the keys of a data block apart from its values.
        separate_key_value_in_data_block: bool = false, Mutable,
            NoEffect("such blocks are read but not written");
        /// After how many reads in a row an iterator reads ahead.
        num_file_reads_for_auto_readahead: u64 = 2, Mutable, Honoured;
        /// The version of the tables' format: 2 to 7. Tables are written as 5 where it is lower.
        format_version: u32 = 7, Mutable, Honoured;
        /// Goes by the user's index instead of the table's own.
        use_udi_as_primary_index: bool = false, Mutable, Refused(NEEDS_OWN_INDEX, &["false"]);
        /// Counts which bytes of blocks are used, with a bit for this many bytes; 0 means not.
        read_amp_bytes_per_bit: u32 = 0, Mutable,
            NoEffect("bytes that are used are not counted");
        /// Puts whole keys into filters.
        whole_key_filtering: bool = true, Mutable, Honoured;
        /// Which blocks are put into the cache that flushes and compactions write, as far as it has
        /// room for them. What users read is handed over without it: `warm_handover`.
        prepopulate_block_cache: PrepopulateBlockCache = PrepopulateBlockCache::Disable, Mutable,
            Honoured;
        /// Which filters tables get. Where it asks for a Ribbon filter, a Bloom filter of as many
        /// bits is written, which takes more room and is as accurate.
        filter_policy: FilterPolicy = FilterPolicy::None, Mutable, Honoured;
        /// Leaves out of a key what it shares with the one before it.
        use_delta_encoding: bool = true, Mutable, Honoured;
        /// Makes filters of sizes that the allocator wastes least for.
        optimize_filters_for_memory: bool = true, Mutable,
            NoEffect("filters have the size that their keys ask for");
        /// Ends the parts of a filter independently of those of the index.
        decouple_partitioned_filters: bool = true, Mutable, NoEffect(NO_PARTS);
        /// Divides filters into parts under an index; only with an index in parts.
        partition_filters: bool = false, Mutable, NoEffect(NO_PARTS);
        /// How evenly the keys of an index block must be spread to be marked so; below 0 none is.
        uniform_cv_threshold: f64 = -1.0, Mutable, NoEffect("index blocks are searched by halving");
        /// The size of the parts of filters and indexes, in bytes.
        metadata_block_size: u64 = 4096, Mutable, NoEffect(NO_PARTS);
        /// How many keys of an index block share a restart point.
        index_block_restart_interval: i32 = 1, Mutable, Honoured;
        /// How far below its size a data block is ended, in percent, if the next record would pass
        /// it.
        block_size_deviation: i32 = 10, Mutable, Honoured;
        /// The size of data blocks before compression, in bytes.
        block_size: u64 = 4096, Mutable, Honoured;
        /// Keeps no blocks in memory.
        no_block_cache: bool = false, Mutable, Honoured;
        /// The checksum of blocks.
        checksum: ChecksumType = ChecksumType::Xxh3, Mutable, Honoured;
        /// Makes an index of the user's.
        user_defined_index_factory: ObjectName = ObjectName::default(), Mutable,
            NoEffect(NO_OWN_INDEX);
        /// How full the hash of a data block is made.
        data_block_hash_table_util_ratio: f64 = 0.75, Mutable, Honoured;
        /// Compresses index blocks.
        enable_index_compression: bool = true, Mutable, Honoured;
        /// How far the separators of an index are shortened.
        index_shortening: IndexShortening = IndexShortening::Separators, Mutable, Honoured;
        /// How a data block is searched.
        data_block_index_type: DataBlockIndexType = DataBlockIndexType::BinarySearch, Mutable,
            Honoured;
        /// Checks each filter after it was made.
        detect_filter_construct_corruption: bool = false, Mutable, Honoured;
        /// Lets no data block cross a page; only without compression.
        block_align: bool = false, Mutable, Honoured;
        /// How a block of an index is searched.
        index_block_search_type: IndexSearchType = IndexSearchType::Binary, Mutable,
            NoEffect("index blocks are searched by halving");
        /// How the index is laid out.
        index_type: IndexType = IndexType::BinarySearch, Mutable,
            NoEffect("indexes of all types are read, and written as kBinarySearch");
        /// Keeps the filters and indexes of tables of level 0 in the cache.
        pin_l0_filter_and_index_blocks_in_cache: bool = false, Mutable, Honoured;
        /// Keeps filters and indexes in the cache of blocks, instead of with their tables.
        cache_index_and_filter_blocks: bool = false, Mutable, Honoured;
        /// How many keys of a data block share a restart point.
        block_restart_interval: i32 = 16, Mutable, Honoured;
        /// Lets filters and indexes stay longer in the cache than data blocks.
        cache_index_and_filter_blocks_with_high_priority: bool = true, Mutable, Honoured;
        /// Decides where a data block ends.
        flush_block_policy_factory: ObjectName =
            ObjectName::new("FlushBlockBySizePolicyFactory"), Mutable,
            NoEffect("data blocks end by their size");
        /// How large the cache of blocks is; `auto`, which RocksDB does not know, for as large as
        /// memory allows and reads need.
        block_cache: CacheCapacity = CacheCapacity::Unset, Unwritten, Honoured;
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

/// The name of the one kind of table that is built.
pub(super) const BLOCK_BASED_TABLE: &str = "BlockBasedTable";

impl BlockBasedTableOptions {
    /// Takes the kind of table, alone or with options. Those that `text` does not name stay.
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

/// As the value of `table_factory`: the kind of table, alone or with its options. Options that a
/// text does not name are the defaults then.
impl OptionValue for BlockBasedTableOptions {
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
