//! Facts about the filter of a table.

use tailwater_format::block::IndexFormat;
use tailwater_format::table::BlockHandle;
use tailwater_format::table::meta::MetaBlock;

use super::TableFile;
use crate::error::Result;

/// Facts about a table's filter.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FilterFacts {
    /// The name of the family of filter policies that can read the filter, such as
    /// `rocksdb.BuiltinBloomFilter`.
    pub policy: String,
    /// The location of the filter or, if it has partitions, of the index of its partitions.
    pub handle: BlockHandle,
    /// The locations of the filter's partitions; empty if the filter is one block.
    pub partitions: Vec<BlockHandle>,
    /// Total size of the filter's blocks in bytes, without trailers and the index of partitions.
    pub bytes: u64,
    /// The structure of the filter or of its first partition.
    pub structure: FilterStructure,
    /// Whether the filter contains whole keys.
    pub whole_keys: bool,
    /// The name of the prefix extractor, if the filter contains prefixes.
    pub prefix_extractor: Option<String>,
}

/// The structure of a filter block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FilterStructure {
    /// A filter without keys.
    Empty,
    /// A Bloom filter in which all bits of a key are in one cache line.
    Bloom {
        /// Number of bits probed per key.
        probes: u8,
    },
    /// A Ribbon filter.
    Ribbon {
        /// Number of blocks. Each has 128 rows.
        blocks: u32,
    },
    /// A Bloom filter in the format of `format_version` 4 and below.
    LegacyBloom {
        /// Number of bits probed per key.
        probes: u8,
    },
    /// A filter of an unknown type. A reader must assume that it contains every key.
    Unknown {
        /// The marker byte that identifies the type.
        marker: u8,
    },
}

impl FilterStructure {
    /// Returns the structure of a filter block, which its last five bytes describe.
    fn of(block: &[u8]) -> Self {
        match block {
            [_, .., 0xff, 0, probes, 0, 0] => Self::Bloom { probes: probes & 0x1f },
            [_, .., 0xfe, _, a, b, c] => {
                Self::Ribbon { blocks: u32::from_le_bytes([*a, *b, *c, 0]) }
            }
            [_, .., probes @ 1..=0x7f, _, _, _, _] => Self::LegacyBloom { probes: *probes },
            [_, .., marker, _, _, _, _] => Self::Unknown { marker: *marker },
            _ => Self::Empty,
        }
    }
}

impl TableFile {
    /// Returns facts about the filter; `None` for a table without one.
    ///
    /// # Errors
    /// Corruption, if the metaindex, the properties or the filter's blocks cannot be read.
    pub fn filter(&self) -> Result<Option<FilterFacts>> {
        let entries = self.meta_blocks.as_ref().map_err(Clone::clone)?;
        let found = entries.iter().find_map(|entry| match entry.kind()? {
            MetaBlock::FullFilter(policy) => Some((policy, entry.handle, false)),
            MetaBlock::PartitionedFilter(policy) => Some((policy, entry.handle, true)),
            _ => None,
        });
        let Some((policy, handle, partitioned)) = found else { return Ok(None) };
        let properties = self.properties.as_ref().map_err(Clone::clone)?;
        let mut partitions = Vec::new();
        if partitioned {
            // The index of filter partitions never stores first keys, unlike the index of data
            // blocks.
            let delta_values = properties.index_value_is_delta_encoded;
            let format = IndexFormat { delta_values, first_keys: false };
            let (entries, damage) = self.index_block(handle, format)?;
            if let Some(error) = damage {
                return Err(error);
            }
            partitions.extend(entries.iter().map(|entry| entry.handle));
        }
        let blocks = if partitioned { &partitions[..] } else { &[handle] };
        let structure = match blocks.first() {
            Some(&first) => FilterStructure::of(&self.filter_block(first)?),
            None => FilterStructure::Empty,
        };
        let extractor = String::from_utf8_lossy(&properties.prefix_extractor_name);
        let has_prefixes = properties.prefix_filtering && !matches!(&*extractor, "" | "nullptr");
        Ok(Some(FilterFacts {
            policy: policy.to_owned(),
            handle,
            bytes: blocks.iter().map(|block| block.size).fold(0, u64::saturating_add),
            structure,
            whole_keys: properties.whole_key_filtering,
            prefix_extractor: has_prefixes.then(|| extractor.into_owned()),
            partitions,
        }))
    }

    fn filter_block(&self, handle: BlockHandle) -> Result<Vec<u8>> {
        let unpacked = self.unpack(handle, None)?;
        unpacked.damage.map_or(unpacked.bytes, Err)
    }
}
