//! The Bloom filter of tables with a `format_version` below 5. A key's 32-bit hash, modulo the
//! number of cache lines, selects the line. Each probe tests the bit of that line that the low bits
//! of a 32-bit value select. For the first probe, this value is the hash. For each further probe,
//! the hash rotated by 17 bits is added to the value.
//!
//! The length of a line, a power of two, is the cache line length of the machine that wrote the
//! filter. Source: `util/bloom_impl.h`, `table/block_based/filter_policy.cc`.

use crate::hash::legacy_bloom_hash;

/// The parameters of a legacy Bloom filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LegacyBloom {
    lines: u32,
    /// The length of a cache line in bytes, a power of two.
    line: u32,
    probes: u32,
}

impl LegacyBloom {
    /// Returns a filter of `length` bytes that consists of `lines` cache lines. `None` if `length`
    /// divided by `lines` is not a whole number, not a power of two, or too large.
    pub(super) fn new(length: usize, probes: u8, lines: u32) -> Option<Self> {
        let length = u32::try_from(length).ok()?;
        let line = length.checked_div(lines)?;
        // A line has fewer than 2^32 bits, so that the index of a bit within its line fits in 32
        // bits.
        let whole = line.is_power_of_two() && line < 1 << 29 && line.checked_mul(lines)? == length;
        whole.then_some(Self { lines, line, probes: probes.into() })
    }

    #[inline]
    pub(super) fn may_contain(&self, block: &[u8], key: &[u8]) -> bool {
        let mut hash = legacy_bloom_hash(key);
        let start = (hash % self.lines) as usize * self.line as usize;
        let Some(line) = block.get(start..).and_then(|rest| rest.get(..self.line as usize)) else {
            return true;
        };
        let step = hash.rotate_right(17);
        for _ in 0..self.probes {
            let bit = hash & (self.line * 8 - 1);
            let byte = line.get(bit as usize / 8).copied().unwrap_or_default();
            if byte >> (bit % 8) & 1 == 0 {
                return false;
            }
            hash = hash.wrapping_add(step);
        }
        true
    }
}
