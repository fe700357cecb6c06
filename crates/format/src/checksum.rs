//! The checksums of tables, logs and blob files.
//!
//! Logs and blob files store a CRC32C in masked form, because a CRC over bytes that contain their
//! own CRC is a constant. A table names one of five checksum types in its footer; the checksum of a
//! block covers its payload and the compression type byte after it. From `format_version` 6 on, a
//! number derived from the file's base context checksum and the block's offset is added to every
//! checksum in a table. So a block that was written at the wrong offset or belongs to another file
//! is detected. Source: `table/format.h`, `table/format.cc`, `util/crc32c.h`.

use xxhash_rust::xxh3::xxh3_64;
use xxhash_rust::xxh32::{Xxh32, xxh32};
use xxhash_rust::xxh64::{Xxh64, xxh64};

/// Number added to a rotated CRC to mask it.
const CRC_MASK_DELTA: u32 = 0xa282_ead8;

/// Multiplier for the last byte, which is XORed into an XXH3 checksum after the multiplication.
const LAST_BYTE_MULTIPLIER: u32 = 0x6b90_83d9;

/// Returns the CRC32C (Castagnoli) of `data`.
#[inline]
pub fn crc32c(data: &[u8]) -> u32 {
    ::crc32c::crc32c(data)
}

/// Extends a CRC: returns the CRC32C of the bytes that `crc` covers, followed by `data`.
#[inline]
pub fn crc32c_extend(crc: u32, data: &[u8]) -> u32 {
    ::crc32c::crc32c_append(crc, data)
}

/// Returns the masked form of a CRC, which is stored in files.
#[inline]
pub const fn mask_crc32c(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(CRC_MASK_DELTA)
}

/// Returns the CRC whose masked form is `masked`.
#[inline]
pub const fn unmask_crc32c(masked: u32) -> u32 {
    masked.wrapping_sub(CRC_MASK_DELTA).rotate_left(15)
}

/// The checksum type of a table's blocks, numbered as in the footer and the OPTIONS file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
#[non_exhaustive]
pub enum ChecksumType {
    /// No checksum is computed: zero is stored.
    None = 0,
    /// Masked CRC32C.
    Crc32c = 1,
    /// XXH32.
    XxHash = 2,
    /// The lower half of XXH64.
    XxHash64 = 3,
    /// The lower half of a hash: the XXH3 of all bytes except the last byte, modified by the last
    /// byte.
    #[default]
    Xxh3 = 4,
}

impl ChecksumType {
    /// All types, in the order of their numbers.
    pub const ALL: [Self; 5] = [Self::None, Self::Crc32c, Self::XxHash, Self::XxHash64, Self::Xxh3];

    /// Returns the type with this number.
    #[inline]
    pub fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.get(usize::from(byte)).copied()
    }

    /// Returns the name in option strings and OPTIONS files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "kNoChecksum",
            Self::Crc32c => "kCRC32c",
            Self::XxHash => "kxxHash",
            Self::XxHash64 => "kxxHash64",
            Self::Xxh3 => "kXXH3",
        }
    }

    /// Returns the checksum of `data`.
    #[inline]
    pub fn compute(self, data: &[u8]) -> u32 {
        match self {
            Self::None => 0,
            Self::Crc32c => mask_crc32c(crc32c(data)),
            Self::XxHash => xxh32(data, 0),
            Self::XxHash64 => xxh64(data, 0) as u32,
            Self::Xxh3 => match data.split_last() {
                Some((&last, rest)) => fold_last_byte(xxh3_64(rest) as u32, last),
                None => 0,
            },
        }
    }

    /// Returns the checksum of `data` followed by the byte `last`.
    #[inline]
    pub fn compute_with_last_byte(self, data: &[u8], last: u8) -> u32 {
        match self {
            Self::None => 0,
            Self::Crc32c => mask_crc32c(crc32c_extend(crc32c(data), &[last])),
            Self::XxHash => {
                let mut state = Xxh32::new(0);
                state.update(data);
                state.update(&[last]);
                state.digest()
            }
            Self::XxHash64 => {
                let mut state = Xxh64::new(0);
                state.update(data);
                state.update(&[last]);
                state.digest() as u32
            }
            Self::Xxh3 => fold_last_byte(xxh3_64(data) as u32, last),
        }
    }
}

#[inline]
fn fold_last_byte(checksum: u32, last: u8) -> u32 {
    checksum ^ u32::from(last).wrapping_mul(LAST_BYTE_MULTIPLIER)
}

/// Returns the number to add to the checksum of the block at `offset` in a file with this base
/// context checksum. Files below `format_version` 6 have a base of zero, for which the result is
/// zero.
#[inline]
pub const fn context_modifier(base_context: u32, offset: u64) -> u32 {
    if base_context == 0 {
        return 0;
    }
    base_context ^ (offset as u32).wrapping_add((offset >> 32) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masking_is_undone_by_unmasking() {
        // The CRC32C of "123456789" in RFC 3720.
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        for crc in [0, 1, 0xe306_9283, u32::MAX] {
            assert_ne!(mask_crc32c(crc), crc);
            assert_eq!(unmask_crc32c(mask_crc32c(crc)), crc);
        }
        assert_eq!(crc32c_extend(crc32c(b"1234"), b"56789"), crc32c(b"123456789"));
    }

    #[test]
    fn a_separate_last_byte_gives_the_same_checksum() {
        let data: Vec<u8> = (0..700u32).map(|n| (n * 7 + n / 9) as u8).collect();
        for kind in ChecksumType::ALL {
            for length in 1..data.len() {
                let (&last, rest) = data[..length].split_last().unwrap();
                assert_eq!(
                    kind.compute(&data[..length]),
                    kind.compute_with_last_byte(rest, last),
                    "{kind:?} over {length} bytes"
                );
            }
        }
        assert_eq!(ChecksumType::Xxh3.compute(b""), 0);
    }

    #[test]
    fn checksum_type_numbers_round_trip() {
        for kind in ChecksumType::ALL {
            assert_eq!(ChecksumType::from_byte(kind as u8), Some(kind));
        }
        assert_eq!(ChecksumType::from_byte(5), None);
    }

    #[test]
    fn the_context_modifier_distinguishes_offsets() {
        assert_eq!(context_modifier(0, 4096), 0);
        assert_eq!(context_modifier(7, 0), 7);
        assert_ne!(context_modifier(7, 1 << 32), context_modifier(7, 2 << 32));
        assert_ne!(context_modifier(7, 100), context_modifier(8, 100));
    }
}
