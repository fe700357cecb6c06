//! Padding between groups of batches in a segment that is written with direct I/O.
//!
//! A group of batches is written as whole disk blocks, so it ends with a gap up to the next block
//! boundary. The next group begins after the gap, so that a block with acknowledged bytes is never
//! rewritten.
//!
//! ```text
//! gap     := zeros, trailer               zeros: at least 40 bytes
//! trailer := magic: u64
//!            stable: u64                  durable length of the segment when the group was made
//!            segment: u64                 base offset of the segment
//!            incarnation: u64             of the partition
//!            checksum: u64                XXH3 of the fields before
//! ```
//!
//! A reader that expects a batch looks at the 8 bytes of its length field. If they are zero, the
//! reader is at a gap or at space that was never written, and the next batch may begin at the end
//! of the gap ([`batch_at`]). A gap has at least [`GAP_MIN`] bytes: if the gap after a group would
//! be shorter, the group takes one more block. So writers and readers can compute the end of a gap
//! from its start ([`gap_end`]).
//!
//! When a batch is missing, the trailers show whether a crash or damage is the cause. A write that
//! a crash interrupts may lack any of its sectors, so a batch may be missing although later batches
//! of the same group are present. That is no damage, because the group was not acknowledged. But if
//! a later trailer states a durable length that includes the missing batch, that trailer was
//! written after the batch was acknowledged, so the batch was lost to damage. Trailers are inside
//! gaps, so readers skip them.

use xxhash_rust::xxh3::xxh3_64;

use super::batch::LENGTH_AT;
use super::{put, u64_at};

/// Readers assume that a gap ends at a multiple of this number of bytes. Groups are padded to such
/// a multiple.
pub const BLOCK: u64 = 4096;

/// Length of a trailer, in bytes.
pub const TRAILER_BYTES: usize = 40;

/// Minimum length of a gap, in bytes: the bytes of a batch header up to and including its length
/// field, which are zero, and a trailer.
pub const GAP_MIN: u64 = (LENGTH_AT + 8 + TRAILER_BYTES) as u64;

/// "TWGROUP1", as a number.
const MAGIC: u64 = u64::from_le_bytes(*b"TWGROUP1");

/// Returns the end of the gap that follows a group whose last batch ends at `position`. Writes to
/// the segment are multiples of `block` bytes.
pub fn gap_end(position: u64, block: u64) -> u64 {
    (position + GAP_MIN).next_multiple_of(block)
}

/// What begins at a position in a segment, judged only by the length field that a batch would have
/// there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// At the examined position, a batch begins or the bytes are invalid.
    Batch,
    /// At the examined position, a gap begins, or space that was never written. The field is the
    /// position at which the next batch may begin.
    Gap(u64),
}

/// Returns what begins at `position`: a batch or a gap. The first of `bytes` is at `position`.
/// `bytes` extend to the end of the segment or are at least [`GAP_MIN`] bytes long.
pub fn batch_at(position: u64, bytes: &[u8]) -> Next {
    let is_gap = match u64_at(bytes, LENGTH_AT, "length") {
        Ok(length) => length == 0,
        // The segment has too few bytes left for the length field of a batch. If all of them are
        // zero, they belong to a gap.
        Err(_) => bytes.iter().all(|&byte| byte == 0),
    };
    if is_gap { Next::Gap(gap_end(position, BLOCK)) } else { Next::Batch }
}

/// The contents of a trailer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trailer {
    /// Durable length of the segment, in bytes, at the time when the batches before this trailer
    /// were formed into a group.
    pub stable: u64,
    /// Base offset of the segment.
    pub segment: u64,
    /// Incarnation of the partition.
    pub incarnation: u64,
}

impl Trailer {
    /// Returns the trailer's bytes.
    pub fn encode(&self) -> [u8; TRAILER_BYTES] {
        let mut bytes = [0; TRAILER_BYTES];
        for (index, value) in
            [MAGIC, self.stable, self.segment, self.incarnation].into_iter().enumerate()
        {
            put(&mut bytes, index * 8, &value.to_le_bytes());
        }
        let checksum = checksum(&bytes);
        put(&mut bytes, TRAILER_BYTES - 8, &checksum.to_le_bytes());
        bytes
    }

    /// Returns the trailer in the last bytes of `block`; `None` if there is no valid trailer.
    pub fn at_end_of(block: &[u8]) -> Option<Self> {
        let bytes: &[u8; TRAILER_BYTES] = block.last_chunk()?;
        let value = |index: usize| u64_at(bytes, index * 8, "trailer").ok();
        if value(0)? != MAGIC || value(4)? != checksum(bytes) {
            return None;
        }
        Some(Self { stable: value(1)?, segment: value(2)?, incarnation: value(3)? })
    }
}

fn checksum(bytes: &[u8; TRAILER_BYTES]) -> u64 {
    xxh3_64(bytes.get(..TRAILER_BYTES - 8).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_ends_at_a_block_and_has_a_minimum_length() {
        assert_eq!(gap_end(0, BLOCK), 4096);
        assert_eq!(gap_end(4096 - GAP_MIN, BLOCK), 4096);
        assert_eq!(gap_end(4096 - GAP_MIN + 1, BLOCK), 8192);
        assert_eq!(gap_end(4096, BLOCK), 8192);
        assert_eq!(gap_end(100, 16_384), 16_384);
    }

    #[test]
    fn readers_skip_gaps_but_no_batches() {
        let mut block = vec![0; 2 * BLOCK as usize];
        assert_eq!(batch_at(0, &block), Next::Gap(BLOCK));
        assert_eq!(batch_at(BLOCK + 7, &block[7..]), Next::Gap(2 * BLOCK));
        // The file may end inside the zeros of a gap.
        assert_eq!(batch_at(7, &block[7..20]), Next::Gap(BLOCK));
        assert_eq!(batch_at(7, &[]), Next::Gap(BLOCK));
        // Only one byte of the block is left, less than the minimum length of a gap. So the gap
        // extends to the end of the next block.
        assert_eq!(batch_at(BLOCK - 1, &block[..200]), Next::Gap(2 * BLOCK));
        block[100 + LENGTH_AT] = 1;
        assert_eq!(batch_at(100, &block[100..]), Next::Batch);
        block[BLOCK as usize + 10] = 1;
        assert_eq!(batch_at(BLOCK - 22, &block[BLOCK as usize - 22..]), Next::Batch);
    }

    #[test]
    fn a_trailer_stands_at_the_end_of_a_gap() {
        let trailer = Trailer { stable: 8192, segment: 77, incarnation: 5 };
        let mut block = vec![0; BLOCK as usize];
        assert_eq!(Trailer::at_end_of(&block), None);
        block[BLOCK as usize - TRAILER_BYTES..].copy_from_slice(&trailer.encode());
        assert_eq!(Trailer::at_end_of(&block), Some(trailer));
        let longest_start = (BLOCK - GAP_MIN) as usize;
        assert_eq!(batch_at(longest_start as u64, &block[longest_start..]), Next::Gap(BLOCK));
        for at in BLOCK as usize - TRAILER_BYTES..BLOCK as usize {
            let mut damaged = block.clone();
            damaged[at] ^= 1;
            assert_eq!(Trailer::at_end_of(&damaged), None, "byte {at}");
        }
    }
}
