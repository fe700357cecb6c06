//! The Ribbon filter. It stores the solution of a system of linear equations over GF(2), in which
//! each key of the filter is one equation.
//!
//! The solution is a matrix of bits: its rows are called slots. A key's hash determines a start
//! slot, one coefficient bit for each of the 128 slots from there on, and an expected result of one
//! bit per column. For each column, a query XORs the bits of those slots whose coefficient is 1. If
//! the key is in the filter, every XOR equals the expected bit of its column. The slots are stored
//! in blocks of 128. A block holds one segment of 128 bits for each column; the first blocks may
//! have one column fewer than the rest. Source: `util/ribbon_impl.h`, `util/ribbon_alg.h`;
//! Dillinger and Walzer, "Ribbon filter: practically smaller than Bloom and Xor".

use crate::hash::fast_range64;

/// Number of coefficients of a key. A block has the same number of slots.
const WIDTH: u32 = 128;
/// The length of a segment in bytes.
const SEGMENT: usize = 16;
/// Maximum number of columns of a solution.
const MAX_COLUMNS: u32 = 32;

/// Multiplier applied to a hash after the seed was XORed into it.
const REHASH_FACTOR: u64 = 0x6193_d459_236a_3a0d;
/// Multiplier that derives a key's coefficients and expected bits from its hash.
const COEFFICIENT_FACTOR: u64 = 0xc28f_8282_2b65_0bed;
/// XORed into the upper coefficients, so that they differ from the lower ones.
const COEFFICIENT_XOR: u64 = 0xc367_844a_6e52_731d;

/// The parameters of a Ribbon filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ribbon {
    /// Number of possible start slots.
    starts: u64,
    /// Number of columns of `upper_start_block` and later blocks; earlier blocks have one fewer.
    upper_columns: u32,
    upper_start_block: u32,
    seed: u64,
}

impl Ribbon {
    /// Returns the filter with `length` bytes of segments in `blocks` blocks, built with this seed;
    /// `None` if the parameters are invalid.
    pub(super) fn new(length: usize, seed: u8, blocks: u32) -> Option<Self> {
        if blocks < 2 {
            return None;
        }
        let segments = u32::try_from(length / SEGMENT).ok()?;
        let mut upper_columns = segments.div_ceil(blocks);
        let mut upper_start_block = upper_columns.checked_mul(blocks)?.checked_sub(segments)?;
        if upper_columns > MAX_COLUMNS {
            (upper_columns, upper_start_block) = (MAX_COLUMNS, 0);
        }
        let starts = u64::from(blocks * WIDTH - WIDTH + 1);
        Some(Self { starts, upper_columns, upper_start_block, seed: raw_seed(seed) })
    }

    #[inline]
    pub(super) fn may_contain(&self, block: &[u8], hash: u64) -> bool {
        let hash = (hash ^ self.seed).wrapping_mul(REHASH_FACTOR);
        let start = fast_range64(hash, self.starts) as u32;
        let mixed = hash.wrapping_mul(COEFFICIENT_FACTOR);
        let coefficients = u128::from(mixed) << 64 | u128::from(mixed ^ COEFFICIENT_XOR) | 1;
        let expected = mixed.swap_bytes() as u32;

        let (number, shift) = (start / WIDTH, start % WIDTH);
        let short = number < self.upper_start_block;
        let first = number * self.upper_columns - number.min(self.upper_start_block);
        let columns = self.upper_columns - u32::from(short);
        let mut here = segments(block, first, columns);
        let left = coefficients << shift;
        if shift == 0 {
            return here
                .enumerate()
                .all(|(column, bits)| parity(bits & left) == (expected >> column) & 1);
        }
        // The coefficients extend into the next block. That block has at least as many columns as
        // this one.
        let right = coefficients >> (WIDTH - shift);
        let mut next = segments(block, first + columns, columns);
        for column in 0..columns {
            let (Some(here), Some(next)) = (here.next(), next.next()) else { return true };
            if parity((here & left) ^ (next & right)) != (expected >> column) & 1 {
                return false;
            }
        }
        true
    }
}

/// Returns the segments `first` to `first + count` of `block`, the end exclusive; fewer if the
/// block ends earlier.
#[inline(always)]
fn segments(block: &[u8], first: u32, count: u32) -> impl Iterator<Item = u128> {
    let bytes = block.get(first as usize * SEGMENT..).unwrap_or_default();
    let (chunks, _) = bytes.as_chunks::<SEGMENT>();
    chunks.iter().take(count as usize).map(|chunk| u128::from_le_bytes(*chunk))
}

#[inline(always)]
fn parity(bits: u128) -> u32 {
    bits.count_ones() & 1
}

/// Returns the seed that is XORed into hashes, derived from the seed that the filter stores.
fn raw_seed(seed: u8) -> u64 {
    let spread = u64::from(seed).wrapping_mul(0xc782_19a2_3eea_dd03);
    let mixed = spread ^ (spread & 0xf0f0_f0f0_f0f0_f0f0) >> 4;
    u64::from(mixed as u32)
}
