//! The hash functions of the format, other than checksums.
//!
//! Source: `util/hash.cc`, `util/hash.h`, `util/fastrange.h`.

use crate::xxph3::xxph3_64;

/// The seed of legacy Bloom filters.
const LEGACY_BLOOM_SEED: u32 = 0xbc9f_1d34;
/// The seed of hash indexes in data blocks.
const HASH_INDEX_SEED: u32 = 397;

/// Returns the 64-bit hash that filters use for a key: XXPH3, a pre-release of XXH3 whose hashes
/// differ from those of the final version.
#[inline]
pub fn hash64(key: &[u8]) -> u64 {
    xxph3_64(key)
}

/// Returns the 32-bit hash that hash indexes and legacy Bloom filters use. It is like MurmurHash 1,
/// except that the last bytes, if fewer than four, are sign-extended.
#[inline]
pub fn hash32(key: &[u8], seed: u32) -> u32 {
    const MULTIPLIER: u32 = 0xc6a4_a793;
    let mut hash = seed ^ (key.len() as u32).wrapping_mul(MULTIPLIER);
    let (words, rest) = key.as_chunks::<4>();
    for word in words {
        hash = hash.wrapping_add(u32::from_le_bytes(*word)).wrapping_mul(MULTIPLIER);
        hash ^= hash >> 16;
    }
    if rest.is_empty() {
        return hash;
    }
    for (at, &byte) in rest.iter().enumerate() {
        // The first implementation sign-extended these bytes, and stored hashes depend on it.
        hash = hash.wrapping_add((byte as i8 as u32) << (8 * at));
    }
    hash = hash.wrapping_mul(MULTIPLIER);
    hash ^ hash >> 24
}

/// Returns the hash of a key for legacy Bloom filters, which tables below `format_version` 5
/// contain.
#[inline]
pub fn legacy_bloom_hash(key: &[u8]) -> u32 {
    hash32(key, LEGACY_BLOOM_SEED)
}

/// Returns the hash of a user key for the hash index of a data block.
#[inline]
pub fn hash_index_hash(key: &[u8]) -> u32 {
    hash32(key, HASH_INDEX_SEED)
}

/// Maps a hash evenly to `0..range`, without a division. A higher hash never maps to a lower
/// number.
#[inline(always)]
pub const fn fast_range32(hash: u32, range: u32) -> u32 {
    ((range as u64 * hash as u64) >> 32) as u32
}

/// Maps a hash evenly to `0..range`, without a division. A higher hash never maps to a lower
/// number.
#[inline(always)]
pub const fn fast_range64(hash: u64, range: u64) -> u64 {
    ((range as u128 * hash as u128) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_old_hash_sign_extends_the_last_bytes() {
        let cases: [(&[u8], u32); 6] = [
            (b"", 0xbc9f_1d34),
            (b"\x62", 0xef13_45c4),
            (b"\xd0\x7a\x6e\xea\x56", 4_255_445_370),
            (b"\x5c\x5e\xe1\xa0\x73\x81", 1_036_846_008),
            (b"\x5c\xbe\x97\x75\x54\x9a\x52", 815_120_748),
            (b"\x31\x1b\x98\x75\x96\x22\xd3\x9a", 469_635_402),
        ];
        for (key, hash) in cases {
            assert_eq!(legacy_bloom_hash(key), hash, "{key:?}");
        }
        assert_eq!(hash_index_hash(b""), 397);
    }

    #[test]
    fn fast_range_maps_hashes_in_order() {
        assert_eq!(fast_range32(0, 10), 0);
        assert_eq!(fast_range32(u32::MAX, 10), 9);
        assert_eq!(fast_range32(1 << 31, 10), 5);
        assert_eq!(fast_range64(u64::MAX, 10), 9);
        assert_eq!(fast_range64(1 << 63, 10), 5);
        assert_eq!(fast_range64(u64::MAX, 1 << 40), (1 << 40) - 1);
    }
}
