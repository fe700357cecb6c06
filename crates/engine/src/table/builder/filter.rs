//! Construction of a table's filter.

use std::sync::Arc;

use tailwater_format::filter::BloomBuilder;

use super::Format;
use crate::block_cache::{BlockCache, SteppedCharge};
use crate::prefix_extractor::PrefixExtractor;

/// Collects the hashes of keys and prefixes, and builds a filter block.
#[derive(Debug)]
pub(super) struct FilterBuilder {
    bloom: BloomBuilder,
    whole_keys: bool,
    prefixes: Option<PrefixExtractor>,
    /// Whether the block is built twice and compared, to detect memory or CPU faults.
    checks: bool,
    /// The memory of the hashes and of the filter block, if it is charged to a cache.
    charge: Option<SteppedCharge>,
}

impl FilterBuilder {
    /// Creates a builder without keys; `None` if the format has no filters. For a Ribbon policy,
    /// the builder makes a Bloom filter of the same accuracy instead, which every reader accepts.
    pub(super) fn new(format: &Format) -> Option<Self> {
        Some(Self {
            bloom: format.filter_policy?.bloom_builder()?,
            whole_keys: format.options.whole_key_filtering,
            prefixes: format.prefix_extractor.clone(),
            checks: format.options.detect_filter_construct_corruption,
            charge: None,
        })
    }

    /// Charges the memory of the filter, until it is finished, to this cache.
    pub(super) fn charge_to(&mut self, cache: Arc<BlockCache>) {
        self.charge = Some(SteppedCharge::new(cache));
    }

    /// Adds a user key, its prefix, or both.
    #[inline]
    pub(super) fn add(&mut self, user_key: &[u8]) {
        let prefix = self.prefixes.as_ref().and_then(|prefixes| prefixes.prefix(user_key));
        match (prefix, self.whole_keys) {
            (Some(prefix), true) => self.bloom.add_with_prefix(user_key, prefix),
            (Some(prefix), false) => self.bloom.add(prefix),
            (None, true) => self.bloom.add(user_key),
            (None, false) => {}
        }
        let memory = self.memory();
        if let Some(charge) = &mut self.charge {
            charge.grow_to(memory);
        }
    }

    /// Returns the number of keys and prefixes added.
    pub(super) fn num_entries(&self) -> usize {
        self.bloom.num_entries()
    }

    /// Returns the memory of the hashes, in bytes.
    pub(super) fn memory(&self) -> usize {
        self.bloom.num_entries() * size_of::<u64>()
    }

    /// Returns the length, in bytes, that the filter block would have if it were built now.
    pub(super) fn size_estimate(&self) -> usize {
        self.bloom.block_length(self.bloom.num_entries())
    }

    /// Returns the filter block; `None` if building it twice gave different results.
    pub(super) fn finish(mut self) -> Option<Vec<u8>> {
        let bytes = self.num_entries() * size_of::<u64>() + self.size_estimate();
        if let Some(charge) = &mut self.charge {
            charge.grow_to(bytes);
        }
        let again = self.checks.then(|| self.bloom.clone().finish());
        let block = self.bloom.finish();
        again.is_none_or(|again| again == block).then_some(block)
    }
}
