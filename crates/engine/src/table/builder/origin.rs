//! The origin of a table, for its properties.

use tailwater_format::table::properties::UNKNOWN_COLUMN_FAMILY_ID;
use tailwater_format::table::{IndexType, Properties, UniqueId};

use super::compression::TableCompression;
use super::format::Format;

/// Where and when a table was created: the database, the column family, the host and the times of
/// its data. Times are in seconds since 1970; 0 means unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origin {
    /// The number in the file's name.
    pub file_number: u64,
    /// The database's id.
    pub db_id: String,
    /// The id of this opening of the database, 20 characters of `0-9A-Z`.
    pub session_id: String,
    /// The host name; empty to omit it.
    pub host_id: String,
    /// The column family's id; `None` for a table of no particular family.
    pub column_family_id: Option<u32>,
    /// The column family's name.
    pub column_family_name: String,
    /// The time when the oldest data in the table was first flushed. For tables of FIFO compaction,
    /// the time when the file was created.
    pub oldest_ancestor_time_s: u64,
    /// The time when the file was created.
    pub creation_time_s: u64,
    /// The time when the oldest key was written.
    pub oldest_key_time_s: u64,
    /// The time when the newest key was written.
    pub newest_key_time_s: u64,
    /// Whether the table is created outside a database, for ingestion. The keys of such a table
    /// have sequence number 0, and ingestion assigns them a global one.
    pub external: bool,
}

impl Origin {
    /// Returns the table's unique id, in the MANIFEST's form; `[0, 0]` if the table has none.
    pub(super) fn unique_id(&self) -> [u64; 2] {
        UniqueId::new(self.db_id.as_bytes(), self.session_id.as_bytes(), self.file_number)
            .map_or([0; 2], |id| id.words())
    }

    /// Returns the number that is mixed into all checksums of the table; never 0. The number
    /// differs between the files of a database. So the checksum fails if a block of another file is
    /// read in place of a block of this file.
    pub(super) fn base_context(&self) -> u32 {
        let id =
            UniqueId::forced(self.db_id.as_bytes(), self.session_id.as_bytes(), self.file_number);
        let bytes = id.external_bytes();
        let (words, _) = bytes.as_chunks::<4>();
        let mut words = words.iter().map(|word| u32::from_le_bytes(*word));
        words.find(|&word| word != 0).unwrap_or(1)
    }

    /// Returns the properties that are known before the first entry.
    pub(super) fn properties(&self, format: &Format, compression: &TableCompression) -> Properties {
        let options = &format.options;
        let prefixes = format.prefix_extractor.as_ref();
        let policy = format.filter_policy.map_or("", |policy| policy.name());
        let mut properties = Properties::default();
        properties.original_file_number = self.file_number;
        properties.index_type = Some(IndexType::BinarySearch);
        properties.index_value_is_delta_encoded = format.delta_index_values();
        properties.format_version = options.format_version.into();
        properties.column_family_id =
            self.column_family_id.map_or(UNKNOWN_COLUMN_FAMILY_ID, u64::from);
        properties.column_family_name = self.column_family_name.clone().into_bytes();
        properties.creation_time = self.oldest_ancestor_time_s;
        properties.oldest_key_time = self.oldest_key_time_s;
        properties.newest_key_time = self.newest_key_time_s;
        properties.file_creation_time = self.creation_time_s;
        properties.data_block_restart_interval =
            options.block_restart_interval.cast_unsigned().into();
        properties.index_block_restart_interval =
            options.index_block_restart_interval.cast_unsigned().into();
        properties.db_id = self.db_id.clone().into_bytes();
        properties.db_session_id = self.session_id.clone().into_bytes();
        properties.db_host_id = self.host_id.clone().into_bytes();
        properties.filter_policy_name = policy.into();
        properties.comparator_name = format.comparator.name().into();
        properties.merge_operator_name = format.merge_operator_name.clone().into_bytes();
        properties.prefix_extractor_name =
            prefixes.map_or("nullptr".to_owned(), |prefixes| prefixes.name()).into_bytes();
        properties.property_collectors_names = b"[]".to_vec();
        properties.compression_options = compression.description().into_bytes();
        properties.whole_key_filtering = options.whole_key_filtering;
        properties.prefix_filtering = prefixes.is_some();
        properties.decoupled_partitioned_filters = options.decouple_partitioned_filters;
        properties.external_version = self.external.then_some(2);
        properties.external_global_sequence = self.external.then_some(0);
        properties
    }
}
