//! Generates keys and values as `db_bench` does.
//!
//! A key is a number as 8 big-endian bytes, padded with the character `0`. Values are taken from
//! one long text that compresses to a given share of its size, or are incompressible random bytes.

use std::fmt;

use fastrand::Rng;

/// Length of a key, in bytes.
pub const KEY_BYTES: usize = 16;

/// Length of the text from which values are taken, in bytes.
const TEXT_BYTES: usize = 1 << 20;
/// Length of a piece of the text, in bytes. Each piece repeats its beginning, whose length is the
/// share to which the text compresses.
const PIECE_BYTES: usize = 100;

/// Returns the key of the entry with this number.
#[inline]
pub fn key(number: u64) -> [u8; KEY_BYTES] {
    let mut key = [b'0'; KEY_BYTES];
    key[..8].copy_from_slice(&number.to_be_bytes());
    key
}

/// Values, all of the same length.
pub struct Values {
    bytes: Vec<u8>,
    length: usize,
    is_random: bool,
}

impl fmt::Debug for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Values").field("length", &self.length).finish_non_exhaustive()
    }
}

impl Values {
    /// Creates values of `length` bytes each that compress to about half their size. `length` must
    /// be at most 1 MiB.
    pub fn new(length: usize, seed: u64) -> Self {
        Self::compressible(length, 0.5, seed)
    }

    /// Creates values of `length` bytes each that compress to about this share of their size, as
    /// with `compression_ratio` of `db_bench`; incompressible ones for a share of at least 1.
    /// `length` must be at most 1 MiB.
    pub fn compressible(length: usize, ratio: f64, seed: u64) -> Self {
        if ratio >= 1.0 {
            return Self::random(length, seed);
        }
        let beginning = ((PIECE_BYTES as f64 * ratio) as usize).max(1);
        let mut rng = Rng::with_seed(seed);
        let mut bytes = Vec::with_capacity(TEXT_BYTES + PIECE_BYTES);
        while bytes.len() < TEXT_BYTES {
            let piece: Vec<u8> = (0..beginning).map(|_| rng.u8(b' '..=b'~')).collect();
            bytes.extend(piece.iter().cycle().take(PIECE_BYTES));
        }
        Self { bytes, length, is_random: false }
    }

    /// Creates incompressible values of `length` bytes each.
    pub fn random(length: usize, seed: u64) -> Self {
        let mut bytes = vec![0; TEXT_BYTES + length];
        Rng::with_seed(seed).fill(&mut bytes);
        Self { bytes, length, is_random: true }
    }

    /// Returns the value of the entry with this number.
    ///
    /// Compressible values are parts of one generated text. Consecutive entries have consecutive
    /// parts, which do not overlap. After the last part, the values start again at the beginning of
    /// the text. An incompressible value begins at one of 1,048,576 offsets in the random bytes, so
    /// values overlap.
    #[inline]
    pub fn get(&self, number: u64) -> &[u8] {
        let begin = if self.is_random {
            // Multiplying by this odd constant spreads the values: those of consecutive numbers
            // begin more than 100 KB apart.
            (number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as usize % TEXT_BYTES
        } else {
            let count = TEXT_BYTES / self.length.max(1);
            (number as usize % count) * self.length
        };
        &self.bytes[begin..begin + self.length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_sort_as_their_numbers() {
        assert_eq!(&key(0x0102), b"\0\0\0\0\0\0\x01\x0200000000");
        assert!(key(255) < key(256));
    }

    #[test]
    fn values_repeat_cyclically() {
        let values = Values::new(1 << 19, 7);
        assert_ne!(values.get(0), values.get(1));
        assert_eq!(values.get(0), values.get(2));
        assert_eq!(values.get(1).len(), 1 << 19);
        assert_eq!(Values::new(0, 7).get(3), b"");
    }

    #[test]
    fn values_compress_to_the_given_share() {
        for ratio in [0.1, 0.5, 0.75] {
            let values = Values::compressible(4096, ratio, 7);
            let value = values.get(3);
            // The parts of the value that do not repeat what is right before them.
            let beginning = (100.0 * ratio) as usize;
            let repeats = (beginning..value.len()).filter(|&at| value[at] == value[at - beginning]);
            let share = 1.0 - repeats.count() as f64 / value.len() as f64;
            assert!((share - ratio).abs() < 0.03, "{ratio}: {share}");
        }
        assert_eq!(Values::compressible(100, 1.0, 7).get(5), Values::random(100, 7).get(5));
        assert_eq!(Values::compressible(100, 0.5, 7).get(5), Values::new(100, 7).get(5));
    }

    #[test]
    fn random_values_differ() {
        let values = Values::random(100, 7);
        assert_eq!(values.get(1).len(), 100);
        assert_ne!(values.get(1), values.get(2));
        assert_eq!(values.get(1), Values::random(100, 7).get(1));
    }
}
