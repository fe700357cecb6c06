//! The format of the tables of a column family.

use tailwater_format::Comparator;
use tailwater_format::block::{BuilderOptions, IndexBuilderOptions, IndexFormat, IndexShortening};
use tailwater_format::checksum::ChecksumType;
use tailwater_format::filter::FilterPolicy;
use tailwater_format::limits::{ENTRY_OVERHEAD, block_length_max};
use tailwater_format::table::BLOCK_TRAILER_LENGTH;

use crate::options::{self, BlockBasedTableOptions, ColumnFamilyOptions, DataBlockIndexType};
use crate::prefix_extractor::PrefixExtractor;

/// The lowest format version that is written. If the options request a lower version, this one is
/// used.
const VERSION_MIN: u32 = 5;

/// Size of the pages that aligned blocks do not cross, in bytes.
const PAGE: u64 = 4096;

/// The format of the tables of a column family: its options, and the objects that the options name.
/// The options must have been sanitized and checked. Shared by all builders of the column family.
#[derive(Debug, Clone)]
pub struct Format {
    pub(super) comparator: Comparator,
    pub(super) prefix_extractor: Option<PrefixExtractor>,
    pub(super) merge_operator_name: String,
    pub(super) filter_policy: Option<FilterPolicy>,
    pub(super) options: BlockBasedTableOptions,
}

impl Format {
    /// Returns the format for a column family's options. `merge_operator_name` is the name that the
    /// merge operator itself returns, if there is one.
    pub fn new(
        options: &ColumnFamilyOptions,
        comparator: Comparator,
        prefix_extractor: Option<PrefixExtractor>,
        merge_operator_name: Option<&str>,
    ) -> Self {
        // A filter hashes the bytes of keys. It would miss keys that the comparator finds equal
        // although their bytes differ.
        let filter_policy = if comparator.equates_different_bytes() {
            None
        } else {
            filter_policy(&options.table_factory.filter_policy)
        };
        let mut table = options.table_factory.clone();
        table.format_version = table.format_version.max(VERSION_MIN);
        Self {
            comparator,
            prefix_extractor,
            merge_operator_name: merge_operator_name.unwrap_or("nullptr").to_owned(),
            filter_policy,
            options: table,
        }
    }

    /// Returns the order of user keys.
    pub fn comparator(&self) -> &Comparator {
        &self.comparator
    }

    pub(super) fn block_options(&self) -> BuilderOptions {
        let options = &self.options;
        // The hash index of a data block hashes the bytes of keys. It would miss keys that the
        // comparator finds equal although their bytes differ.
        let hashed = options.data_block_index_type == DataBlockIndexType::BinaryAndHash
            && self.comparator.distinguishes_all_bytes();
        BuilderOptions {
            restart_interval: options.block_restart_interval.cast_unsigned(),
            delta_keys: options.use_delta_encoding,
            values_apart: false,
            hash_index_utilization: hashed.then_some(options.data_block_hash_table_util_ratio),
        }
    }

    pub(super) fn index_options(&self) -> IndexBuilderOptions {
        IndexBuilderOptions {
            restart_interval: self.options.index_block_restart_interval.cast_unsigned(),
            format: IndexFormat { delta_values: self.delta_index_values(), first_keys: false },
            internal_keys: false,
        }
    }

    /// Whether index values are delta-encoded. The encoding requires that data blocks have no
    /// padding between them.
    pub(super) fn delta_index_values(&self) -> bool {
        !self.options.block_align
    }

    pub(super) fn block_limits(&self) -> BlockLimits {
        let options = &self.options;
        let kept = 100 - u64::from(options.block_size_deviation.cast_unsigned().min(100));
        BlockLimits {
            size: options.block_size as usize,
            almost_full: options.block_size.saturating_mul(kept).div_ceil(100) as usize,
            aligned: options.block_align,
        }
    }

    /// Returns the alignment of data blocks, in bytes; 0 for none.
    pub(super) fn alignment(&self) -> u64 {
        if self.options.block_align { self.options.block_size.min(PAGE) } else { 0 }
    }

    pub(super) fn checksum_type(&self) -> ChecksumType {
        self.options.checksum
    }

    pub(super) fn index_shortening(&self) -> IndexShortening {
        self.options.index_shortening
    }
}

fn filter_policy(policy: &options::FilterPolicy) -> Option<FilterPolicy> {
    match policy {
        options::FilterPolicy::None => None,
        options::FilterPolicy::ReadOnly(_) => Some(FilterPolicy::read_only()),
        options::FilterPolicy::Bloom { bits_per_key } => Some(FilterPolicy::bloom(*bits_per_key)),
        options::FilterPolicy::Ribbon { bloom_equivalent_bits_per_key, bloom_before_level } => {
            Some(FilterPolicy::ribbon(*bloom_equivalent_bits_per_key, *bloom_before_level))
        }
    }
}

/// Size limits at which data blocks end. A block also ends before an entry with which it would be
/// longer than a block may be; RocksDB would write a block that cannot be read. Source:
/// `table/block_based/flush_block_policy.cc`.
#[derive(Debug, Clone, Copy)]
pub(super) struct BlockLimits {
    /// Size at which a block ends, in bytes.
    size: usize,
    /// Size in bytes above which a block is almost full. An almost full block ends if the next
    /// entry would make it larger than `size`. 0 disables this rule: a block then ends only after
    /// it has reached `size`.
    almost_full: usize,
    /// Whether a block and its trailer together must not exceed `size`. If true, a block ends if
    /// the next entry would make them larger than `size`, even if the block is not almost full. An
    /// `almost_full` of 0 disables this rule, too.
    aligned: bool,
}

impl BlockLimits {
    /// Whether the current block must end before an entry with a key and value of these lengths is
    /// added.
    #[inline]
    pub(super) fn end_before(
        &self,
        block: &tailwater_format::block::Builder,
        key_length: usize,
        value_length: usize,
    ) -> bool {
        if block.is_empty() {
            return false;
        }
        let size = block.size_estimate();
        let is_too_long_with = |length| size + length + ENTRY_OVERHEAD > block_length_max();
        if size >= self.size || is_too_long_with(key_length + value_length) {
            return true;
        }
        if self.almost_full == 0 || (!self.aligned && size <= self.almost_full) {
            return false;
        }
        let trailer = if self.aligned { BLOCK_TRAILER_LENGTH } else { 0 };
        block.size_estimate_with(key_length, value_length) + trailer > self.size
    }
}
