//! Facts about the filter of a table.

use tailwater_format::block::IndexFormat;
use tailwater_format::table::BlockHandle;
use tailwater_format::table::meta::MetaBlock;

use super::TableFile;
use crate::error::Result;

/// Facts about a table's filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterFacts {
    /// The name of the filter policies that can read it, such as `rocksdb.BuiltinBloomFilter`.
    pub policy: String,
    /// Its location, or that of the index of its partitions.
    pub handle: BlockHandle,
    /// The locations of its partitions; none if it is one block.
    pub partitions: Vec<BlockHandle>,
    /// The size of its blocks, without trailers and the index of partitions, in bytes.
    pub bytes: u64,
    /// The structure of the filter or of its first partition.
    pub structure: FilterStructure,
    /// Whether it contains whole keys.
    pub whole_keys: bool,
    /// The name of the prefix extractor, if the filter contains prefixes.
    pub prefix_extractor: Option<String>,
}

/// The structure of a filter block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilterStructure {
    /// It has no keys.
    Empty,
    /// A Bloom filter of cache lines.
    Bloom {
        /// Number of bits probed per key.
        probes: u8,
    },
    /// A Ribbon filter.
    Ribbon {
        /// Number of blocks of 128 rows.
        blocks: u32,
    },
    /// A Bloom filter of format_version 4 and below.
    LegacyBloom {
        /// Number of bits probed per key.
        probes: u8,
    },
    /// Unknown: every key may be present.
    Unknown {
        /// The marker byte of its type.
        marker: u8,
    },
}

impl FilterStructure {
    /// Decodes the last five bytes of a filter block.
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
            // The index of filter partitions never has first keys.
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
        let (stored, computed) = (unpacked.stored_checksum, unpacked.computed_checksum);
        if let Some(error) = self.checksum_damage(handle, stored, computed) {
            return Err(error);
        }
        unpacked.bytes
    }
}
