//! A Bloom filter of the keys in a memtable, so that a get of a key that is not there need not
//! search the skiplist. Source: `DynamicBloom` in RocksDB's `util/dynamic_bloom.h`.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tailwater_format::filter::FilterKey;
use tailwater_io::buffer::ZeroedWords;

use crate::options::ColumnFamilyOptions;
use crate::prefix_extractor::PrefixExtractor;

/// Number of bits that are set for a key.
const PROBES: u32 = 6;

/// What a memtable's filter is made of; from the options
/// `memtable_prefix_bloom_size_ratio`, `memtable_whole_key_filtering` and `prefix_extractor`.
#[derive(Debug, Clone)]
pub(crate) struct FilterSettings {
    bytes: usize,
    content: Content,
}

/// What the filter contains.
#[derive(Debug, Clone)]
enum Content {
    Keys,
    /// The prefixes of keys. A key without a prefix is not in the filter.
    Prefixes(PrefixExtractor),
}

impl FilterSettings {
    /// Returns the settings that the options ask for; `None` for no filter.
    ///
    /// An extractor of the user's is not called here: it may panic, and a memtable must take every
    /// entry that is in a log.
    pub(crate) fn new(
        options: &ColumnFamilyOptions,
        prefixes: Option<&PrefixExtractor>,
    ) -> Option<Self> {
        let content = match prefixes {
            _ if options.memtable_whole_key_filtering => Content::Keys,
            Some(PrefixExtractor::Custom(_)) | None => return None,
            Some(built_in) => Content::Prefixes(built_in.clone()),
        };
        let bytes = options.write_buffer_size as f64 * options.memtable_prefix_bloom_size_ratio;
        (bytes >= 1.0).then(|| Self { bytes: bytes as usize, content })
    }
}

/// A block of the filter: a cache line. All bits of a key are in one block.
type Block = [AtomicU64; 8];

/// The filter of a memtable. Thread-safe: a key is found by every thread that learned of its
/// addition through a load with acquire ordering.
#[derive(Debug)]
pub(super) struct Filter {
    /// The words of all blocks. Their memory is not touched before keys are added: a filter is
    /// created while the leader of the write queue seals the memtable before.
    words: ZeroedWords,
    content: Content,
}

impl Filter {
    /// Creates an empty filter.
    pub(super) fn new(settings: &FilterSettings) -> Self {
        let bytes = settings.bytes.next_multiple_of(size_of::<Block>());
        Self {
            words: ZeroedWords::new(bytes / size_of::<AtomicU64>()),
            content: settings.content.clone(),
        }
    }

    #[inline]
    fn blocks(&self) -> &[Block] {
        self.words.as_chunks().0
    }

    /// Returns the size of the filter, in bytes.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.words)
    }

    /// Adds a key.
    #[inline]
    pub(super) fn add(&self, user_key: &[u8]) {
        let Some((block, bits)) = self.place(user_key) else { return };
        for (word, mask) in bits.words() {
            let word = &block[word];
            if word.load(Relaxed) & mask == 0 {
                word.fetch_or(mask, Relaxed);
            }
        }
    }

    /// Whether the memtable may contain a key. False only if no version of it was added.
    #[inline]
    pub(super) fn may_contain(&self, user_key: &[u8]) -> bool {
        let Some((block, bits)) = self.place(user_key) else { return true };
        bits.words().all(|(word, mask)| block[word].load(Relaxed) & mask != 0)
    }

    /// Returns the block of a key, and its bits in that block; `None` if the key is not filtered.
    #[inline]
    fn place(&self, user_key: &[u8]) -> Option<(&Block, Bits)> {
        let filtered = match &self.content {
            Content::Keys => user_key,
            Content::Prefixes(extractor) => extractor.prefix(user_key)?,
        };
        let hash = FilterKey::new(filtered).hash();
        // The high half of the hash selects the block, the low half the bits.
        let blocks = self.blocks();
        let block = ((hash >> 32) * blocks.len() as u64) >> 32;
        Some((&blocks[block as usize], Bits(hash as u32)))
    }
}

/// The bits of a key in its block.
struct Bits(u32);

impl Bits {
    /// Returns an index of a word and a mask of one bit for each of the key's bits.
    #[inline]
    fn words(&self) -> impl Iterator<Item = (usize, u64)> + use<> {
        let mut hash = self.0;
        (0..PROBES).map(move |_| {
            // Each multiplication by the golden ratio moves other bits to the top.
            hash = hash.wrapping_mul(0x9e37_79b9);
            let bit = hash >> 23;
            ((bit >> 6) as usize, 1 << (bit & 63))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(
        keys: bool,
        ratio: f64,
        prefixes: Option<&PrefixExtractor>,
    ) -> Option<FilterSettings> {
        let options = ColumnFamilyOptions {
            memtable_whole_key_filtering: keys,
            memtable_prefix_bloom_size_ratio: ratio,
            write_buffer_size: 1 << 20,
            ..ColumnFamilyOptions::default()
        };
        FilterSettings::new(&options, prefixes)
    }

    #[test]
    fn added_keys_are_found_and_few_others() {
        let filter = Filter::new(&settings(true, 0.02, None).unwrap());
        assert_eq!(filter.bytes(), (1 << 20) / 50 / 64 * 64 + 64);
        // 12 bits per key.
        let keys = filter.bytes() as u32 * 8 / 12;
        let key = |number: u32| number.to_be_bytes();
        (0..keys).for_each(|number| filter.add(&key(number)));
        assert!((0..keys).all(|number| filter.may_contain(&key(number))));
        let wrong = (keys..keys * 11).filter(|&number| filter.may_contain(&key(number))).count();
        let share = wrong as f64 / f64::from(keys * 10);
        assert!(share < 0.02, "{share} of the absent keys are reported");
    }

    #[test]
    fn prefixes_are_filtered_by_built_in_extractors() {
        let fixed = PrefixExtractor::Fixed(3);
        let filter = Filter::new(&settings(false, 0.02, Some(&fixed)).unwrap());
        filter.add(b"abc1");
        assert!(filter.may_contain(b"abc2"), "the same prefix");
        assert!(!filter.may_contain(b"xyz1"));
        assert!(filter.may_contain(b"xy"), "a key without a prefix");
    }

    #[test]
    fn there_is_no_filter_unless_both_options_ask_for_it() {
        assert!(settings(true, 0.0, None).is_none());
        assert!(settings(false, 0.1, None).is_none());
    }
}
