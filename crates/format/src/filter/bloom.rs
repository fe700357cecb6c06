//! FastLocalBloom: a Bloom filter whose probes for a key all fall in one cache line. Used by tables
//! of `format_version` 5 and later.
//!
//! The lower half of a key's hash chooses the line. The upper half is multiplied by the golden
//! ratio before each probe but the first, and its top nine bits are the number of the bit in the
//! line. Source: `util/bloom_impl.h`, `table/block_based/filter_policy.cc`.

use crate::hash::{fast_range32, hash64};

use super::METADATA_LENGTH;

/// The length of a cache line in bytes.
const LINE: usize = 64;
/// Maximum total length of a filter's cache lines, in bytes.
const MAX_LENGTH: u64 = 0xffff_ffc0;
/// Fractional part of the golden ratio, scaled to 32 bits.
const GOLDEN_RATIO: u32 = 0x9e37_79b9;

/// The parameters of a FastLocalBloom filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FastLocalBloom {
    lines: u32,
    probes: u32,
}

impl FastLocalBloom {
    /// Returns the filter with `length` bytes of cache lines and this number of probes; `None` if
    /// the parameters are invalid.
    pub(super) fn new(length: usize, probes: u8) -> Option<Self> {
        let lines = u32::try_from(length / LINE).ok().filter(|&lines| lines > 0)?;
        (1..=30).contains(&probes).then_some(Self { lines, probes: probes.into() })
    }

    /// Returns the cache line of `block` that the key with this hash selects.
    #[inline(always)]
    pub(super) fn line<'a>(&self, block: &'a [u8], hash: u64) -> Option<&'a [u8; LINE]> {
        let start = fast_range32(hash as u32, self.lines) as usize * LINE;
        block.get(start..)?.first_chunk()
    }

    /// Makes all probes instead of returning at the first bit that is not set. A mispredicted
    /// branch costs more time than the probes, and without a branch the processor can start on the
    /// next key while it waits for these probes.
    #[inline]
    pub(super) fn may_contain(&self, block: &[u8], hash: u64) -> bool {
        let Some(line) = self.line(block, hash) else { return true };
        let mut state = (hash >> 32) as u32;
        let mut found = true;
        for _ in 0..self.probes {
            found &= probe(line, state);
            state = state.wrapping_mul(GOLDEN_RATIO);
        }
        found
    }
}

/// Returns whether a bit of the line is set. The top nine bits of `state` are the number of the
/// bit.
#[inline(always)]
fn probe(line: &[u8; LINE], state: u32) -> bool {
    let byte = line.get((state >> 26) as usize).copied().unwrap_or_default();
    byte >> (state >> 23 & 7) & 1 != 0
}

/// Returns the number of probes that gives the fewest false positives. `millibits_per_key` is the
/// filter size, in thousandths of a bit per key.
fn probes_for(millibits_per_key: u32) -> u32 {
    /// Inclusive upper bounds of the filter sizes for which 1, 2, 3, ... probes are best, in
    /// thousandths of a bit per key.
    const BOUNDS: [u32; 12] =
        [2_080, 3_580, 5_100, 6_640, 8_300, 10_070, 11_720, 14_001, 16_050, 18_300, 22_001, 25_501];
    let fewer = BOUNDS.partition_point(|&bound| bound < millibits_per_key);
    match millibits_per_key {
        _ if fewer < BOUNDS.len() => fewer as u32 + 1,
        ..=50_000 => (millibits_per_key - 1) / 2_000 - 1,
        _ => 24,
    }
}

/// Builds a FastLocalBloom filter block from the keys of a table or of a partition of its filter.
/// Keys are added in order.
///
/// The output is byte for byte what RocksDB writes for the same keys with
/// `optimize_filters_for_memory` off. Uses eight bytes of memory per key until
/// [`BloomBuilder::finish`].
#[derive(Debug, Clone)]
pub struct BloomBuilder {
    millibits_per_key: u32,
    hashes: Hashes,
    last_prefix: Option<u64>,
}

/// The hashes of the added keys and prefixes, in the order in which they were added. They are
/// stored in chunks.
///
/// A single vector would be copied as it grows. Freeing a large vector would also make the
/// allocator retain more free memory in each thread's heap.
#[derive(Debug, Clone, Default)]
struct Hashes {
    /// Chunks that each hold [`Self::CHUNK`] hashes.
    full: Vec<Vec<u64>>,
    rest: Vec<u64>,
    last: Option<u64>,
}

impl Hashes {
    /// Number of hashes in a chunk: 64 KiB of memory.
    const CHUNK: usize = 8 << 10;

    fn push(&mut self, hash: u64) {
        if self.rest.len() == Self::CHUNK {
            let next = Vec::with_capacity(Self::CHUNK);
            self.full.push(std::mem::replace(&mut self.rest, next));
        }
        self.rest.push(hash);
        self.last = Some(hash);
    }

    fn len(&self) -> usize {
        self.full.len() * Self::CHUNK + self.rest.len()
    }

    /// Removes all hashes and returns them in the order in which they were added. Each chunk is
    /// freed once it has been read.
    fn drain(&mut self) -> impl Iterator<Item = u64> {
        let Self { full, rest, .. } = std::mem::take(self);
        full.into_iter().chain([rest]).flatten()
    }
}

impl BloomBuilder {
    /// Creates a builder of filters with this size, in thousandths of a bit per key.
    pub(super) fn new(millibits_per_key: u32) -> Self {
        Self { millibits_per_key, hashes: Hashes::default(), last_prefix: None }
    }

    /// Adds a key, or its prefix if the filter contains only prefixes. Does nothing if it equals
    /// the last one added.
    pub fn add(&mut self, key: &[u8]) {
        let hash = hash64(key);
        if self.hashes.last != Some(hash) {
            self.hashes.push(hash);
        }
    }

    /// Adds a key and its prefix, for a filter that contains both. Each of the two is skipped if it
    /// equals the previous key or the previous prefix. The prefix is also skipped if it equals
    /// `key`.
    pub fn add_with_prefix(&mut self, key: &[u8], prefix: &[u8]) {
        let (key, prefix) = (hash64(key), hash64(prefix));
        let (last_key, last_prefix) = (self.hashes.last, self.last_prefix);
        // The prefix is added first, so that the last hash is always that of a key.
        if Some(prefix) != last_prefix && prefix != key && Some(prefix) != last_key {
            self.hashes.push(prefix);
        }
        self.last_prefix = Some(prefix);
        if Some(key) != last_key && Some(key) != last_prefix {
            self.hashes.push(key);
        }
    }

    /// Returns the number of keys and prefixes in the filter, without those that were skipped as
    /// repetitions.
    pub fn num_entries(&self) -> usize {
        self.hashes.len()
    }

    /// Returns the length of the filter block for `entries` keys and prefixes, in bytes; 0 for
    /// none.
    pub fn block_length(&self, entries: usize) -> usize {
        if entries == 0 {
            return 0;
        }
        let bits = (entries as u64).saturating_mul(self.millibits_per_key.into());
        let length = bits.div_ceil(8_000).min(MAX_LENGTH).next_multiple_of(LINE as u64);
        length as usize + METADATA_LENGTH
    }

    /// Returns the filter block of all keys and prefixes added, and empties the builder.
    pub fn finish(&mut self) -> Vec<u8> {
        self.last_prefix = None;
        let length = self.block_length(self.hashes.len());
        if length == 0 {
            return Vec::new();
        }
        let probes = probes_for(self.millibits_per_key);
        let mut block = vec![0; length];
        let (lines, _) = block.as_chunks_mut::<LINE>();
        let count = lines.len() as u32;
        for hash in self.hashes.drain() {
            let Some(line) = lines.get_mut(fast_range32(hash as u32, count) as usize) else {
                continue;
            };
            let mut state = (hash >> 32) as u32;
            for _ in 0..probes {
                if let Some(byte) = line.get_mut((state >> 26) as usize) {
                    *byte |= 1 << (state >> 23 & 7);
                }
                state = state.wrapping_mul(GOLDEN_RATIO);
            }
        }
        if let Some(metadata) = block.last_chunk_mut::<METADATA_LENGTH>() {
            *metadata = [0xff, 0, probes as u8, 0, 0];
        }
        block
    }
}
