//! The five bytes after every block: the compression type of the block, and a checksum of the block
//! and the compression type.
//!
//! Source: `table/format.cc`, `table/block_based/reader_common.cc`.

use crate::checksum::{ChecksumType, context_modifier};
use crate::{Error, Result};

/// The length of a block's trailer, in bytes.
pub const BLOCK_TRAILER_LENGTH: usize = 5;

/// The parameters on which the checksums of a table's blocks depend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockChecksum {
    /// The checksum type.
    pub checksum_type: ChecksumType,
    /// The file's base context checksum; 0 if the format version is below 6.
    pub base_context: u32,
}

impl BlockChecksum {
    /// Splits `bytes`, a block followed by its trailer, into the block and its compression type
    /// byte. Verifies the checksum first. `offset` is the offset of the block in its file.
    ///
    /// # Errors
    /// Corruption, for a checksum mismatch or fewer bytes than a trailer. Offsets in errors count
    /// from the first byte of the block.
    #[inline]
    pub fn verify<'a>(&self, offset: u64, bytes: &'a [u8]) -> Result<(&'a [u8], u8)> {
        let (block, compression) = Self::split(bytes)?;
        let (protected, stored) = bytes
            .split_last_chunk::<4>()
            .ok_or_else(|| Error::truncated("block trailer", bytes.len()))?;
        let stored = u32::from_le_bytes(*stored);
        let computed = self
            .checksum_type
            .compute(protected)
            .wrapping_add(context_modifier(self.base_context, offset));
        if stored != computed {
            return Err(mismatch(protected.len(), computed, stored));
        }
        Ok((block, compression))
    }

    /// Splits a block followed by its trailer as [`BlockChecksum::verify`] does, without verifying
    /// the checksum.
    ///
    /// # Errors
    /// Corruption, for fewer bytes than a trailer.
    #[inline]
    pub fn split(bytes: &[u8]) -> Result<(&[u8], u8)> {
        match bytes.split_last_chunk::<BLOCK_TRAILER_LENGTH>() {
            Some((block, [compression, ..])) => Ok((block, *compression)),
            None => Err(Error::truncated("block trailer", bytes.len())),
        }
    }

    /// Returns the trailer for `block`, which has this compression type and is written at `offset`
    /// of its file.
    #[inline]
    pub fn trailer(
        &self,
        offset: u64,
        block: &[u8],
        compression: u8,
    ) -> [u8; BLOCK_TRAILER_LENGTH] {
        let checksum = self
            .checksum_type
            .compute_with_last_byte(block, compression)
            .wrapping_add(context_modifier(self.base_context, offset));
        let [a, b, c, d] = checksum.to_le_bytes();
        [compression, a, b, c, d]
    }
}

#[cold]
fn mismatch(at: usize, computed: u32, stored: u32) -> Error {
    let expected = format!("checksum {computed:#010x}");
    Error::corruption("block", at, expected, format!("{stored:#010x}"))
}
