//! Keys and values as `db_bench` generates them.
//!
//! A key is a number as 8 big-endian bytes, padded with the digit 0. Values are pieces of one long
//! text that compresses to about half, or incompressible bytes.

use fastrand::Rng;

/// Length of a key, in bytes.
pub const KEY_BYTES: usize = 16;

/// Length of the text from which values are taken, in bytes.
const TEXT_BYTES: usize = 1 << 20;
/// Length in bytes of a piece of the text. The second half of each piece repeats its first half, so
/// that the text compresses to about half.
const PIECE_BYTES: usize = 100;

/// Returns the key of a number.
#[inline]
pub fn key(number: u64) -> [u8; KEY_BYTES] {
    let mut key = [b'0'; KEY_BYTES];
    key[..8].copy_from_slice(&number.to_be_bytes());
    key
}

/// Values that all have the same length.
pub struct Values {
    text: Vec<u8>,
    length: usize,
}

impl Values {
    /// Creates values of `length` bytes, at most 1 MiB.
    pub fn new(length: usize, seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let mut text = Vec::with_capacity(TEXT_BYTES + PIECE_BYTES);
        while text.len() < TEXT_BYTES {
            let half: Vec<u8> = (0..PIECE_BYTES / 2).map(|_| rng.u8(b' '..=b'~')).collect();
            text.extend_from_slice(&half);
            text.extend_from_slice(&half);
        }
        Self { text, length }
    }

    /// Returns the value of a number. The values of consecutive numbers are consecutive parts of
    /// the text; after its end they start again at its beginning.
    #[inline]
    pub fn get(&self, number: u64) -> &[u8] {
        let count = TEXT_BYTES / self.length.max(1);
        let begin = (number as usize % count) * self.length;
        &self.text[begin..begin + self.length]
    }
}

/// Values that all have the same length and do not compress.
pub struct RandomValues {
    bytes: Vec<u8>,
    length: usize,
}

impl RandomValues {
    /// Creates values of `length` bytes.
    pub fn new(length: usize, seed: u64) -> Self {
        let mut bytes = vec![0; TEXT_BYTES + length];
        Rng::with_seed(seed).fill(&mut bytes);
        Self { bytes, length }
    }

    /// Returns the value of a number: one of 1,048,576 overlapping parts of the random bytes.
    #[inline]
    pub fn get(&self, number: u64) -> &[u8] {
        // The factor moves the values of consecutive numbers more than 100 KB apart.
        let begin = (number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as usize % TEXT_BYTES;
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
    fn random_values_differ() {
        let values = RandomValues::new(100, 7);
        assert_eq!(values.get(1).len(), 100);
        assert_ne!(values.get(1), values.get(2));
        assert_eq!(values.get(1), RandomValues::new(100, 7).get(1));
    }
}
