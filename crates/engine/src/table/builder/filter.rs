//! The filter of a table, collected key by key.

use tailwater_format::filter::BloomBuilder;

use super::Format;
use crate::PrefixExtractor;

/// Collects the hashes of keys and prefixes, and makes a filter block of them.
#[derive(Debug)]
pub(super) struct FilterBuilder {
    bloom: BloomBuilder,
    whole_keys: bool,
    prefixes: Option<PrefixExtractor>,
    /// Whether the block is made twice, so that a fault of the memory or processor shows.
    checks: bool,
}

impl FilterBuilder {
    /// A builder without keys; `None` where the format has no filters. A Ribbon policy gets a Bloom
    /// filter of as many bits as its accuracy would take in one, which every reader accepts.
    pub(super) fn new(format: &Format) -> Option<Self> {
        Some(Self {
            bloom: format.filter_policy?.bloom_builder()?,
            whole_keys: format.options.whole_key_filtering,
            prefixes: format.prefix_extractor.clone(),
            checks: format.options.detect_filter_construct_corruption,
        })
    }

    /// Adds what the filter is to know of a user key.
    #[inline]
    pub(super) fn add(&mut self, user_key: &[u8]) {
        let prefix = self.prefixes.as_ref().and_then(|prefixes| prefixes.prefix(user_key));
        match (prefix, self.whole_keys) {
            (Some(prefix), true) => self.bloom.add_with_prefix(user_key, prefix),
            (Some(prefix), false) => self.bloom.add(prefix),
            (None, true) => self.bloom.add(user_key),
            (None, false) => {}
        }
    }

    /// How many keys and prefixes were added and counted.
    pub(super) fn num_entries(&self) -> usize {
        self.bloom.num_entries()
    }

    /// The length that the block would have, in bytes.
    pub(super) fn size_estimate(&self) -> usize {
        self.bloom.block_length(self.bloom.num_entries())
    }

    /// The filter block; `None` if making it twice made two different ones.
    pub(super) fn finish(mut self) -> Option<Vec<u8>> {
        let again = self.checks.then(|| self.bloom.clone().finish());
        let block = self.bloom.finish();
        again.is_none_or(|again| again == block).then_some(block)
    }
}
