//! The names of table properties, and their fields in [`Properties`].

use super::Properties;

/// The index type, a fixed 32-bit number.
pub(super) const INDEX_TYPE: &str = "rocksdb.block.based.table.index.type";
/// The version of the ingestion format, a fixed 32-bit number. Only a table that was built for
/// ingestion has this property.
pub(super) const EXTERNAL_VERSION: &str = "rocksdb.external_sst_file.version";
/// The sequence number of all keys in an ingested table, a fixed 64-bit number.
pub(super) const EXTERNAL_GLOBAL_SEQUENCE: &str = "rocksdb.external_sst_file.global_seqno";
/// Present in tables with embedded blob records.
pub(super) const EMBEDDED_BLOB_STATS: &str = "rocksdb.embedded.blob.stats";
/// The name of RocksDB's built-in compression manager, which the compression property contains.
pub(super) const COMPRESSION_MANAGER: &str = "BuiltinV2";

/// A property that is stored as a varint.
pub(super) struct Number {
    pub(super) name: &'static str,
    /// Returns the number to write, or `None` to omit the property.
    pub(super) written: fn(&Properties) -> Option<u64>,
    pub(super) set: fn(&mut Properties, u64),
}

/// A property that is stored as a string of bytes, and omitted if empty.
pub(super) struct Text {
    pub(super) name: &'static str,
    pub(super) value: fn(&Properties) -> &Vec<u8>,
    pub(super) place: fn(&mut Properties) -> &mut Vec<u8>,
}

/// A property that is stored as the character `1` or `0`.
pub(super) struct Flag {
    pub(super) name: &'static str,
    /// Returns the flag to write, or `None` to omit the property.
    pub(super) written: fn(&Properties) -> Option<bool>,
    pub(super) place: fn(&mut Properties) -> &mut bool,
}

/// A varint property that is always written.
macro_rules! always {
    ($name:literal, $field:ident) => {
        Number {
            name: $name,
            written: |properties| Some(properties.$field),
            set: |properties, number| properties.$field = number,
        }
    };
}

/// A varint property that is omitted if it is zero.
macro_rules! unless_zero {
    ($name:literal, $field:ident) => {
        Number {
            name: $name,
            written: |properties| Some(properties.$field).filter(|&number| number != 0),
            set: |properties, number| properties.$field = number,
        }
    };
}

/// A flag that is stored as a varint. It is written only if its value is one of `$written`.
macro_rules! yes_or_no {
    ($name:literal, $field:ident, $written:expr) => {
        Number {
            name: $name,
            written: |properties| {
                $written.contains(&properties.$field).then_some(u64::from(properties.$field))
            },
            set: |properties, number| properties.$field = number != 0,
        }
    };
}

/// A varint property with an optional value, omitted if the value is `None`.
macro_rules! if_known {
    ($name:literal, $field:ident) => {
        Number {
            name: $name,
            written: |properties| properties.$field,
            set: |properties, number| properties.$field = Some(number),
        }
    };
}

macro_rules! text {
    ($name:literal, $field:ident) => {
        Text {
            name: $name,
            value: |properties| &properties.$field,
            place: |properties| &mut properties.$field,
        }
    };
}

pub(super) const NUMBERS: &[Number] = &[
    always!("rocksdb.original.file.number", original_file_number),
    always!("rocksdb.raw.key.size", raw_key_size),
    always!("rocksdb.raw.value.size", raw_value_size),
    always!("rocksdb.data.size", data_size),
    always!("rocksdb.index.size", index_size),
    unless_zero!("rocksdb.index.partitions", index_partitions),
    unless_zero!("rocksdb.top-level.index.size", top_level_index_size),
    yes_or_no!("rocksdb.index.key.is.user.key", index_key_is_user_key, [false, true]),
    yes_or_no!("rocksdb.index.value.is.delta.encoded", index_value_is_delta_encoded, [false, true]),
    yes_or_no!("rocksdb.udi.is.primary.index", user_defined_index_is_primary, [true]),
    always!("rocksdb.num.entries", num_entries),
    always!("rocksdb.num.filter_entries", num_filter_entries),
    always!("rocksdb.deleted.keys", num_deletions),
    always!("rocksdb.merge.operands", num_merge_operands),
    always!("rocksdb.num.range-deletions", num_range_deletions),
    always!("rocksdb.num.data.blocks", num_data_blocks),
    unless_zero!(
        "rocksdb.num.data.blocks.compression.rejected",
        num_data_blocks_compression_rejected
    ),
    unless_zero!(
        "rocksdb.num.data.blocks.compression.bypassed",
        num_data_blocks_compression_bypassed
    ),
    always!("rocksdb.num.uniform.blocks", num_uniform_blocks),
    always!("rocksdb.filter.size", filter_size),
    always!("rocksdb.format.version", format_version),
    always!("rocksdb.fixed.key.length", fixed_key_length),
    always!("rocksdb.column.family.id", column_family_id),
    always!("rocksdb.creation.time", creation_time),
    always!("rocksdb.oldest.key.time", oldest_key_time),
    always!("rocksdb.newest.key.time", newest_key_time),
    unless_zero!("rocksdb.file.creation.time", file_creation_time),
    unless_zero!(
        "rocksdb.sample_for_compression.slow.data.size",
        slow_compression_estimated_data_size
    ),
    unless_zero!(
        "rocksdb.sample_for_compression.fast.data.size",
        fast_compression_estimated_data_size
    ),
    always!("rocksdb.tail.start.offset", tail_start_offset),
    yes_or_no!(
        "rocksdb.user.defined.timestamps.persisted",
        user_defined_timestamps_persisted,
        [false]
    ),
    if_known!("rocksdb.key.largest.seqno", largest_sequence),
    if_known!("rocksdb.key.smallest.seqno", smallest_sequence),
    unless_zero!("rocksdb.data.block.restart.interval", data_block_restart_interval),
    unless_zero!("rocksdb.index.block.restart.interval", index_block_restart_interval),
    yes_or_no!(
        "rocksdb.separate.key.value.in.data.block",
        separate_key_value_in_data_block,
        [true]
    ),
];

pub(super) const STRINGS: &[Text] = &[
    text!("rocksdb.creating.db.identity", db_id),
    text!("rocksdb.creating.session.identity", db_session_id),
    text!("rocksdb.creating.host.identity", db_host_id),
    text!("rocksdb.filter.policy", filter_policy_name),
    text!("rocksdb.comparator", comparator_name),
    text!("rocksdb.merge.operator", merge_operator_name),
    text!("rocksdb.prefix.extractor.name", prefix_extractor_name),
    text!("rocksdb.property.collectors", property_collectors_names),
    text!("rocksdb.column.family.name", column_family_name),
    text!("rocksdb.compression", compression_name),
    text!("rocksdb.compression_options", compression_options),
    text!("rocksdb.seqno.time.map", sequence_to_time_mapping),
];

pub(super) const FLAGS: &[Flag] = &[
    Flag {
        name: "rocksdb.block.based.table.whole.key.filtering",
        written: |properties| Some(properties.whole_key_filtering),
        place: |properties| &mut properties.whole_key_filtering,
    },
    Flag {
        name: "rocksdb.block.based.table.prefix.filtering",
        written: |properties| Some(properties.prefix_filtering),
        place: |properties| &mut properties.prefix_filtering,
    },
    Flag {
        name: "rocksdb.block.based.table.decoupled.partitioned.filters",
        written: |properties| properties.decoupled_partitioned_filters.then_some(true),
        place: |properties| &mut properties.decoupled_partitioned_filters,
    },
];
