//! The properties of a table: the contents of the properties block, as names and values sorted by
//! name.
//!
//! Numbers are varints, names are bytes, the index type is a fixed 32-bit number and the filtering
//! flags are the characters `1` and `0`. Properties without a field here, including the user's, are
//! preserved. RocksDB relies on some of these numbers: a compaction of the table compares the
//! number of entries that it reads with `num_entries - num_range_deletions`. It does not rely on
//! `num_data_blocks`, which it leaves zero in tables with a compression dictionary. Source:
//! `table/table_properties.cc`, `table/meta_blocks.cc`,
//! `table/block_based/block_based_table_factory.cc`.
//!
//! A table that was built for ingestion contains a global sequence number that ingestion may have
//! overwritten in place: the checksum of its properties block is computed with that number as zero.

use std::collections::BTreeMap;

use crate::compress::Compression;
use crate::varint::{Reader, put_varint64};
use crate::{Error, Result};

use super::property_names::{
    COMPRESSION_MANAGER, EMBEDDED_BLOB_STATS, EXTERNAL_GLOBAL_SEQUENCE, EXTERNAL_VERSION, FLAGS,
    INDEX_TYPE, NUMBERS, STRINGS,
};

/// Column family id of a table that was not written for a particular column family.
pub const UNKNOWN_COLUMN_FAMILY_ID: u64 = i32::MAX as u64;

/// How a table's index is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u32)]
pub enum IndexType {
    /// One block, with binary search.
    #[default]
    BinarySearch = 0,
    /// One block, with an additional hash index over prefixes.
    HashSearch = 1,
    /// Partitions and an index over them.
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
pub struct Properties {
    /// The file number when the table was made, or 0.
    pub original_file_number: u64,
    /// The size of all data blocks with their trailers.
    pub data_size: u64,
    /// The size of the index, including partitions and one trailer.
    pub index_size: u64,
    /// Number of partitions of a two-level index, else 0.
    pub index_partitions: u64,
    /// The size of the top level of a two-level index, else 0.
    pub top_level_index_size: u64,
    /// Whether index keys are user keys, without trailers.
    pub index_key_is_user_key: bool,
    /// Whether index values are delta-encoded.
    pub index_value_is_delta_encoded: bool,
    /// Whether the writer used a user-defined index as its primary one; the ordinary one is
    /// complete in any case.
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
    /// Number of entries: everything in data blocks, and range deletions.
    pub num_entries: u64,
    /// Number of keys and prefixes that were added to the filter.
    pub num_filter_entries: u64,
    /// Number of deletions, including range deletions.
    pub num_deletions: u64,
    /// Number of merge operands.
    pub num_merge_operands: u64,
    /// Number of range deletions.
    pub num_range_deletions: u64,
    /// The format version, if recorded; 0 in RocksDB's tables below version 6.
    pub format_version: u64,
    /// The length of every key, or 0.
    pub fixed_key_length: u64,
    /// The column family, or [`UNKNOWN_COLUMN_FAMILY_ID`].
    pub column_family_id: u64,
    /// Time when the oldest data in the table was flushed ("oldest ancester time"); 0 if unknown.
    pub creation_time: u64,
    /// Time when the oldest key was written; 0 if unknown.
    pub oldest_key_time: u64,
    /// Time when the newest key was written; 0 if unknown.
    pub newest_key_time: u64,
    /// Time when the file was created; 0 if unknown.
    pub file_creation_time: u64,
    /// Estimated size with a slower compression, or 0.
    pub slow_compression_estimated_data_size: u64,
    /// Estimated size with a faster compression, or 0.
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
    /// Whether data blocks store values separately from keys; each block also states it.
    pub separate_key_value_in_data_block: bool,
    /// The database's identity.
    pub db_id: Vec<u8>,
    /// The session in which the table was made.
    pub db_session_id: Vec<u8>,
    /// The host on which the table was made.
    pub db_host_id: Vec<u8>,
    /// The column family's name.
    pub column_family_name: Vec<u8>,
    /// The filter policy's name, empty without one: `bloomfilter`.
    pub filter_policy_name: Vec<u8>,
    /// The comparator's name.
    pub comparator_name: Vec<u8>,
    /// The merge operator's name, `nullptr` without one.
    pub merge_operator_name: Vec<u8>,
    /// The prefix extractor with its parameter, `nullptr` without one.
    pub prefix_extractor_name: Vec<u8>,
    /// The names of the property collectors: `[a,b]`.
    pub property_collectors_names: Vec<u8>,
    /// The compression types, see [`compressions`](Self::compressions).
    pub compression_name: Vec<u8>,
    /// The compression options, as human-readable text.
    pub compression_options: Vec<u8>,
    /// Write times of sequence numbers, in RocksDB's encoding; empty if unknown.
    pub sequence_to_time_mapping: Vec<u8>,
    /// The index type. RocksDB refuses a table without one.
    pub index_type: Option<IndexType>,
    /// Whether the filter contains whole keys.
    pub whole_key_filtering: bool,
    /// Whether the filter contains prefixes.
    pub prefix_filtering: bool,
    /// Whether a filter is partitioned independently of the index.
    pub decoupled_partitioned_filters: bool,
    /// The version of a table that was built for ingestion.
    pub external_version: Option<u32>,
    /// The sequence number of every key in a table that was ingested by an old RocksDB.
    pub external_global_sequence: Option<u64>,
    /// All other properties: the user's and those of later versions.
    pub user_collected: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Default for Properties {
    /// The meaning of absent properties.
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

impl Properties {
    /// Returns the properties from the entries of a properties block, in order.
    ///
    /// # Errors
    /// Corruption, for names that do not ascend or a value that is not of its property's kind;
    /// unsupported, for an unknown index type.
    pub fn from_entries<Name, Value>(
        entries: impl IntoIterator<Item = (Name, Value)>,
    ) -> Result<Self>
    where
        Name: AsRef<[u8]>,
        Value: AsRef<[u8]>,
    {
        let mut properties = Self::default();
        let mut last: Option<Name> = None;
        for (name, value) in entries {
            if last.is_some_and(|last| last.as_ref() >= name.as_ref()) {
                let expected = "names in order";
                return Err(malformed(name.as_ref(), expected, "one out of order"));
            }
            properties.insert(name.as_ref(), value.as_ref())?;
            last = Some(name);
        }
        Ok(properties)
    }

    /// Sets the property of one entry of a properties block.
    ///
    /// # Errors
    /// Corruption, for a value that is not of its property's kind; unsupported, for an unknown
    /// index type.
    pub fn insert(&mut self, name: &[u8], value: &[u8]) -> Result<()> {
        let text = str::from_utf8(name).unwrap_or_default();
        if let Some(property) = NUMBERS.iter().find(|property| property.name == text) {
            let number = Reader::new(value)
                .varint64("table property")
                .map_err(|_| malformed(name, "a varint", format!("{value:02x?}")))?;
            (property.set)(self, number);
        } else if let Some(property) = STRINGS.iter().find(|property| property.name == text) {
            *(property.place)(self) = value.to_vec();
        } else if let Some(flag) = FLAGS.iter().find(|flag| flag.name == text) {
            *(flag.place)(self) = value != b"0";
        } else if text == INDEX_TYPE {
            let number = Reader::new(value).fixed32("index type property")?;
            let kind = IndexType::from_number(number)
                .ok_or_else(|| Error::unsupported(format!("index type {number}")))?;
            self.index_type = Some(kind);
        } else if text == EXTERNAL_VERSION {
            self.external_version = Some(Reader::new(value).fixed32("external file version")?);
        } else if text == EXTERNAL_GLOBAL_SEQUENCE {
            let sequence = Reader::new(value).fixed64("global sequence number property")?;
            self.external_global_sequence = Some(sequence);
        } else {
            self.user_collected.insert(name.to_vec(), value.to_vec());
        }
        Ok(())
    }

    /// Returns the entries of the properties block, sorted by name, without those that RocksDB
    /// omits when they carry no information.
    pub fn to_entries(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut entries = self.user_collected.clone();
        let mut put = |name: &str, value: Vec<u8>| {
            entries.insert(name.as_bytes().to_vec(), value);
        };
        for property in NUMBERS {
            if let Some(number) = (property.written)(self) {
                let mut value = Vec::new();
                put_varint64(&mut value, number);
                put(property.name, value);
            }
        }
        for property in STRINGS {
            let value = (property.value)(self);
            if !value.is_empty() {
                put(property.name, value.clone());
            }
        }
        for flag in FLAGS {
            if let Some(value) = (flag.written)(self) {
                put(flag.name, vec![b'0' + u8::from(value)]);
            }
        }
        if let Some(kind) = self.index_type {
            put(INDEX_TYPE, (kind as u32).to_le_bytes().to_vec());
        }
        if let Some(version) = self.external_version {
            put(EXTERNAL_VERSION, version.to_le_bytes().to_vec());
        }
        if let Some(sequence) = self.external_global_sequence {
            put(EXTERNAL_GLOBAL_SEQUENCE, sequence.to_le_bytes().to_vec());
        }
        entries.into_iter().collect()
    }

    /// Rejects features that are not supported here.
    ///
    /// # Errors
    /// Unsupported, for keys that were stripped of their timestamps and for blob records inside the
    /// table; corruption, if the index type is missing.
    pub fn check_supported(&self) -> Result<()> {
        if !self.user_defined_timestamps_persisted {
            return Err(Error::unsupported("user-defined timestamps"));
        }
        if self.user_collected.contains_key(EMBEDDED_BLOB_STATS.as_bytes()) {
            return Err(Error::unsupported("embedded blob records"));
        }
        if self.index_type.is_none() {
            return Err(malformed(INDEX_TYPE.as_bytes(), "an index type", "none"));
        }
        Ok(())
    }

    /// Returns the compression types that blocks of this table may have, besides none, for a table
    /// whose footer has this `format_version`. Below version 7 the property is the name of one
    /// type; from there on it is the name of the compression manager and the numbers of the types
    /// in hex: `BuiltinV2;0407;`.
    ///
    /// # Errors
    /// Corruption, for a malformed property; unsupported, for a user-defined compression manager.
    pub fn compressions(&self, format_version: u32) -> Result<Vec<Compression>> {
        let expected = "compression types";
        let name = "rocksdb.compression".as_bytes();
        let found = || String::from_utf8_lossy(&self.compression_name).into_owned();
        let text = str::from_utf8(&self.compression_name)
            .map_err(|_| malformed(name, expected, found()))?;
        if format_version < 7 || text.is_empty() {
            if text.is_empty() {
                // A writer that did not record the property may have used any type.
                return Ok(Compression::BUILT_IN.into_iter().skip(1).collect());
            }
            let kind = Compression::from_property_name(text)
                .ok_or_else(|| malformed(name, expected, found()))?;
            return Ok((kind != Compression::None).then_some(kind).into_iter().collect());
        }
        let mut fields = text.split(';');
        let (Some(manager), Some(types), Some(_)) = (fields.next(), fields.next(), fields.next())
        else {
            return Err(malformed(name, expected, found()));
        };
        if !matches!(manager, COMPRESSION_MANAGER | "" | "nullptr") {
            return Err(Error::unsupported(format!("compression manager {manager}")));
        }
        let pair = |pair: &[u8]| {
            let hex = str::from_utf8(pair).ok()?;
            let digits = pair.len() == 2 && pair.iter().all(u8::is_ascii_hexdigit);
            let byte = u8::from_str_radix(hex, 16).ok().filter(|_| digits)?;
            Compression::from_byte(byte).filter(|&kind| kind != Compression::None)
        };
        types
            .as_bytes()
            .chunks(2)
            .map(|chunk| pair(chunk).ok_or_else(|| malformed(name, expected, found())))
            .collect()
    }

    /// Returns the compression property of a table of `format_version` that was written with
    /// `configured` and contains blocks of the types in `used`. A table below version 7 can name
    /// only one type, which is ZSTD if present.
    pub fn compression_property(
        format_version: u32,
        configured: Compression,
        used: &[Compression],
    ) -> Vec<u8> {
        let mut types: Vec<u8> = used.iter().map(|kind| kind.to_byte()).collect();
        types.retain(|&byte| byte != Compression::None.to_byte());
        types.sort_unstable();
        types.dedup();
        if format_version < 7 {
            let zstd = Compression::Zstd.to_byte();
            let first = if types.contains(&zstd) { Some(zstd) } else { types.first().copied() };
            let named = first.and_then(Compression::from_byte).unwrap_or(configured);
            return named.property_name().into_owned().into_bytes();
        }
        let manager = if configured == Compression::None { "" } else { COMPRESSION_MANAGER };
        let hex: String = types.iter().map(|byte| format!("{byte:02X}")).collect();
        format!("{manager};{hex};").into_bytes()
    }
}

#[cold]
fn malformed(name: &[u8], expected: &'static str, found: impl Into<String>) -> Error {
    let what = format!("table property {}", name.escape_ascii());
    Error::corruption(what, 0, expected, found.into())
}
