//! The meta blocks: the contents of the blocks that a table's metaindex names.
//!
//! The metaindex maps names, sorted by bytes, to block handles. Source: `table/meta_blocks.cc`,
//! `table/block_based/block_based_table_reader.cc`,
//! `table/block_based/block_based_table_factory.cc`.

/// The name of the properties block.
pub const PROPERTIES: &str = "rocksdb.properties";
/// The name of the index block. Only tables of `format_version` 6 and later have it in the
/// metaindex.
pub const INDEX: &str = "rocksdb.index";
/// The name of the block of range tombstones.
pub const RANGE_DELETIONS: &str = "rocksdb.range_del";
/// The name of the compression dictionary.
pub const COMPRESSION_DICTIONARY: &str = "rocksdb.compression_dict";
/// The name of the block that contains the prefixes of a hash index.
pub const HASH_INDEX_PREFIXES: &str = "rocksdb.hashindex.prefixes";
/// The name of the block that delimits a hash index's prefixes.
pub const HASH_INDEX_METADATA: &str = "rocksdb.hashindex.metadata";
/// Prefix of the name of a full filter; the policy's compatibility name follows.
pub const FULL_FILTER_PREFIX: &str = "fullfilter.";
/// Prefix of the name of a partitioned filter's index; the policy's compatibility name follows.
pub const PARTITIONED_FILTER_PREFIX: &str = "partitionedfilter.";
/// Prefix of the name of a block with one filter per data block. Such filters are no longer read.
pub const OBSOLETE_FILTER_PREFIX: &str = "filter.";
/// Prefix of the name of a user-defined index; the index's own name follows.
pub const USER_DEFINED_INDEX_PREFIX: &str = "rocksdb.user_defined_index.";

/// The kind of a meta block, which the block's name in the metaindex states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum MetaBlock<'a> {
    /// The table's properties.
    Properties,
    /// The index block, or the top level of a partitioned index.
    Index,
    /// Range tombstones: each key is an internal key with the start of the range, each value is the
    /// end of the range.
    RangeDeletions,
    /// The dictionary of the data blocks, as raw bytes.
    CompressionDictionary,
    /// The concatenated prefixes of a hash index. The table can be read without it.
    HashIndexPrefixes,
    /// For each prefix of a hash index: its length, its first data block and the number of its data
    /// blocks.
    HashIndexMetadata,
    /// One filter for the whole table. The string is the compatibility name of the filter policy.
    FullFilter(&'a str),
    /// The top-level index of a partitioned filter. The string is the compatibility name of the
    /// filter policy.
    PartitionedFilter(&'a str),
    /// One filter per data block, a kind that is no longer read. The table is read without filters.
    ObsoleteFilter(&'a str),
    /// A user-defined index with this name. The table also has its ordinary index.
    UserDefinedIndex(&'a str),
}

impl<'a> MetaBlock<'a> {
    /// Returns the kind of meta block that has this name in a metaindex; `None` for an unknown
    /// name, whose block is ignored.
    pub fn from_name(name: &'a [u8]) -> Option<Self> {
        let name = str::from_utf8(name).ok()?;
        Some(match name {
            PROPERTIES => Self::Properties,
            INDEX => Self::Index,
            RANGE_DELETIONS => Self::RangeDeletions,
            COMPRESSION_DICTIONARY => Self::CompressionDictionary,
            HASH_INDEX_PREFIXES => Self::HashIndexPrefixes,
            HASH_INDEX_METADATA => Self::HashIndexMetadata,
            _ => {
                if let Some(policy) = name.strip_prefix(FULL_FILTER_PREFIX) {
                    Self::FullFilter(policy)
                } else if let Some(policy) = name.strip_prefix(PARTITIONED_FILTER_PREFIX) {
                    Self::PartitionedFilter(policy)
                } else if let Some(policy) = name.strip_prefix(OBSOLETE_FILTER_PREFIX) {
                    Self::ObsoleteFilter(policy)
                } else {
                    Self::UserDefinedIndex(name.strip_prefix(USER_DEFINED_INDEX_PREFIX)?)
                }
            }
        })
    }

    /// Returns the name in the metaindex.
    pub fn name(&self) -> String {
        match self {
            Self::Properties => PROPERTIES.to_string(),
            Self::Index => INDEX.to_string(),
            Self::RangeDeletions => RANGE_DELETIONS.to_string(),
            Self::CompressionDictionary => COMPRESSION_DICTIONARY.to_string(),
            Self::HashIndexPrefixes => HASH_INDEX_PREFIXES.to_string(),
            Self::HashIndexMetadata => HASH_INDEX_METADATA.to_string(),
            Self::FullFilter(policy) => format!("{FULL_FILTER_PREFIX}{policy}"),
            Self::PartitionedFilter(policy) => format!("{PARTITIONED_FILTER_PREFIX}{policy}"),
            Self::ObsoleteFilter(policy) => format!("{OBSOLETE_FILTER_PREFIX}{policy}"),
            Self::UserDefinedIndex(name) => format!("{USER_DEFINED_INDEX_PREFIX}{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meta_block_names_round_trip() {
        let policy = "rocksdb.BuiltinBloomFilter";
        let blocks = [
            MetaBlock::Properties,
            MetaBlock::Index,
            MetaBlock::RangeDeletions,
            MetaBlock::CompressionDictionary,
            MetaBlock::HashIndexPrefixes,
            MetaBlock::HashIndexMetadata,
            MetaBlock::FullFilter(policy),
            MetaBlock::PartitionedFilter(policy),
            MetaBlock::ObsoleteFilter(policy),
            MetaBlock::UserDefinedIndex("trie"),
        ];
        for block in blocks {
            assert_eq!(MetaBlock::from_name(block.name().as_bytes()), Some(block));
        }
        for name in [&b"rocksdb.indexes"[..], b"", b"\xff", b"fullfilter", b"Rocksdb.index"] {
            assert_eq!(MetaBlock::from_name(name), None);
        }
    }
}
