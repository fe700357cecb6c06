//! The properties of a table: the contents of the properties block, as names and values sorted by
//! name.
//!
//! Numbers are varints, names are bytes, the index type is a fixed 32-bit number and the filtering
//! flags are the characters `1` and `0`. Properties without a field here, including the user's, are
//! preserved. RocksDB relies on some of the numeric properties: a compaction of the table compares
//! the number of entries that it reads with `num_entries - num_range_deletions`. RocksDB does not
//! rely on `num_data_blocks`, which it leaves zero in tables with a compression dictionary. Source:
//! `table/table_properties.cc`, `table/meta_blocks.cc`,
//! `table/block_based/block_based_table_factory.cc`.
//!
//! A table that was built for ingestion contains a global sequence number. Ingestion may have
//! overwritten this number in place, so the checksum of the properties block is computed with zero
//! in place of the number.

mod codec;
mod names;

use std::collections::BTreeMap;

/// Column family id of a table that was not written for a particular column family.
pub const UNKNOWN_COLUMN_FAMILY_ID: u64 = i32::MAX as u64;

/// How a table's index is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u32)]
#[non_exhaustive]
pub enum IndexType {
    /// The index is one block, in which readers search by bisection.
    #[default]
    BinarySearch = 0,
    /// One block, with an additional hash index over prefixes.
    HashSearch = 1,
    /// An index with two levels: partitions, and a top-level index of the partitions.
    TwoLevelIndexSearch = 2,
    /// One block whose entries also hold the first key of their data block.
    BinarySearchWithFirstKey = 3,
}

impl IndexType {
    /// Returns the type with this number.
    pub fn from_number(number: u32) -> Option<Self> {
        Some(match number {
            0 => Self::BinarySearch,
            1 => Self::HashSearch,
            2 => Self::TwoLevelIndexSearch,
            3 => Self::BinarySearchWithFirstKey,
            _ => return None,
        })
    }
}

/// The properties of a block-based table. Sizes are in bytes, times in seconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Properties {
    /// The number of the file when the table was written; 0 if unknown.
    pub original_file_number: u64,
    /// The size of all data blocks with their trailers.
    pub data_size: u64,
    /// The size of all index blocks: the top level and the partitions. Like RocksDB, it includes
    /// the block trailer of only one of them.
    pub index_size: u64,
    /// Number of partitions of a two-level index; 0 for other indexes.
    pub index_partitions: u64,
    /// The size of the top level of a two-level index; 0 for other indexes.
    pub top_level_index_size: u64,
    /// Whether index keys are user keys, without trailers.
    pub index_key_is_user_key: bool,
    /// Whether index values are delta-encoded.
    pub index_value_is_delta_encoded: bool,
    /// Whether the writer declared that a user-defined index is the primary one. The ordinary index
    /// is complete in any case.
    pub user_defined_index_is_primary: bool,
    /// The size of the filter, partitions included.
    pub filter_size: u64,
    /// The size of all internal keys before encoding.
    pub raw_key_size: u64,
    /// The size of all values before encoding.
    pub raw_value_size: u64,
    /// Number of data blocks; 0 in RocksDB's tables with a compression dictionary.
    pub num_data_blocks: u64,
    /// Number of data blocks left uncompressed because compression did not save enough.
    pub num_data_blocks_compression_rejected: u64,
    /// Number of data blocks left uncompressed because compression was not attempted.
    pub num_data_blocks_compression_bypassed: u64,
    /// Number of index blocks that are marked as having evenly spread keys.
    pub num_uniform_blocks: u64,
    /// Number of entries: all records in data blocks and all range deletions.
    pub num_entries: u64,
    /// Number of keys and prefixes that were added to the filter.
    pub num_filter_entries: u64,
    /// Number of deletions, including range deletions.
    pub num_deletions: u64,
    /// Number of merge operands.
    pub num_merge_operands: u64,
    /// Number of range deletions.
    pub num_range_deletions: u64,
    /// The `format_version` of the table, if recorded. RocksDB leaves it 0 in tables with a
    /// `format_version` below 6.
    pub format_version: u64,
    /// The length of every key if all keys have the same length; else 0.
    pub fixed_key_length: u64,
    /// Id of the column family, or [`UNKNOWN_COLUMN_FAMILY_ID`].
    pub column_family_id: u64,
    /// Time when the oldest data in the table was flushed ("oldest ancester time"); 0 if unknown.
    pub creation_time: u64,
    /// Time when the oldest key was written; 0 if unknown.
    pub oldest_key_time: u64,
    /// Time when the newest key was written; 0 if unknown.
    pub newest_key_time: u64,
    /// Time when the file was created; 0 if unknown.
    pub file_creation_time: u64,
    /// Estimated size of the data blocks if they were compressed with a slower compression than the
    /// table's; 0 if not estimated.
    pub slow_compression_estimated_data_size: u64,
    /// Estimated size of the data blocks if they were compressed with a faster compression than the
    /// table's; 0 if not estimated.
    pub fast_compression_estimated_data_size: u64,
    /// Offset where the data blocks end and everything else begins; 0 if unknown.
    pub tail_start_offset: u64,
    /// False if keys were stripped of their timestamps.
    pub user_defined_timestamps_persisted: bool,
    /// Highest sequence number of any key, if recorded and the table is not empty.
    pub largest_sequence: Option<u64>,
    /// Lowest sequence number of any key, if recorded and the table is not empty.
    pub smallest_sequence: Option<u64>,
    /// The restart interval of data blocks; 0 if unknown.
    pub data_block_restart_interval: u64,
    /// The restart interval of index blocks; 0 if unknown.
    pub index_block_restart_interval: u64,
    /// Whether data blocks store all keys before all values. Each data block also states this
    /// itself.
    pub separate_key_value_in_data_block: bool,
    /// The id of the database that wrote the table.
    pub db_id: Vec<u8>,
    /// The id of the session in which the table was written.
    pub db_session_id: Vec<u8>,
    /// The name of the host on which the table was written.
    pub db_host_id: Vec<u8>,
    /// The column family's name.
    pub column_family_name: Vec<u8>,
    /// The filter policy's name, such as `bloomfilter`. Empty if the table has no filter policy.
    pub filter_policy_name: Vec<u8>,
    /// The comparator's name.
    pub comparator_name: Vec<u8>,
    /// The merge operator's name. If the table has no merge operator, the name is the text
    /// `nullptr`.
    pub merge_operator_name: Vec<u8>,
    /// The prefix extractor with its parameter. `nullptr` if the table has no prefix extractor.
    pub prefix_extractor_name: Vec<u8>,
    /// The names of the property collectors: `[a,b]`.
    pub property_collectors_names: Vec<u8>,
    /// The compression types, see [`compressions`](Self::compressions).
    pub compression_name: Vec<u8>,
    /// The compression options, as human-readable text.
    pub compression_options: Vec<u8>,
    /// Samples of the times at which sequence numbers were written, see
    /// [`sequence_times`](crate::table::sequence_times); empty if unknown.
    pub sequence_to_time_mapping: Vec<u8>,
    /// The index type. RocksDB refuses a table without one.
    pub index_type: Option<IndexType>,
    /// Whether the filter contains whole keys.
    pub whole_key_filtering: bool,
    /// Whether the filter contains prefixes.
    pub prefix_filtering: bool,
    /// Whether a filter is partitioned independently of the index.
    pub decoupled_partitioned_filters: bool,
    /// The version of the ingestion format; `None` if the table was not built for ingestion.
    pub external_version: Option<u32>,
    /// The sequence number that all keys have, in a table that an old RocksDB ingested.
    pub external_global_sequence: Option<u64>,
    /// All other properties: those that the user's property collectors added, and those of later
    /// versions of RocksDB.
    pub user_collected: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Default for Properties {
    /// Returns the values that properties have if they are absent from the properties block.
    fn default() -> Self {
        Self {
            original_file_number: 0,
            data_size: 0,
            index_size: 0,
            index_partitions: 0,
            top_level_index_size: 0,
            index_key_is_user_key: false,
            index_value_is_delta_encoded: false,
            user_defined_index_is_primary: false,
            filter_size: 0,
            raw_key_size: 0,
            raw_value_size: 0,
            num_data_blocks: 0,
            num_data_blocks_compression_rejected: 0,
            num_data_blocks_compression_bypassed: 0,
            num_uniform_blocks: 0,
            num_entries: 0,
            num_filter_entries: 0,
            num_deletions: 0,
            num_merge_operands: 0,
            num_range_deletions: 0,
            format_version: 0,
            fixed_key_length: 0,
            column_family_id: UNKNOWN_COLUMN_FAMILY_ID,
            creation_time: 0,
            oldest_key_time: 0,
            newest_key_time: 0,
            file_creation_time: 0,
            slow_compression_estimated_data_size: 0,
            fast_compression_estimated_data_size: 0,
            tail_start_offset: 0,
            user_defined_timestamps_persisted: true,
            largest_sequence: None,
            smallest_sequence: None,
            data_block_restart_interval: 0,
            index_block_restart_interval: 0,
            separate_key_value_in_data_block: false,
            db_id: Vec::new(),
            db_session_id: Vec::new(),
            db_host_id: Vec::new(),
            column_family_name: Vec::new(),
            filter_policy_name: Vec::new(),
            comparator_name: Vec::new(),
            merge_operator_name: Vec::new(),
            prefix_extractor_name: Vec::new(),
            property_collectors_names: Vec::new(),
            compression_name: Vec::new(),
            compression_options: Vec::new(),
            sequence_to_time_mapping: Vec::new(),
            index_type: None,
            whole_key_filtering: true,
            prefix_filtering: true,
            decoupled_partitioned_filters: false,
            external_version: None,
            external_global_sequence: None,
            user_collected: BTreeMap::new(),
        }
    }
}
