//! Random keys, values and merge operands.

use fastrand::Rng;

/// The form of merge operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operands {
    /// No merge operands.
    None,
    /// Little-endian numbers of eight bytes, rarely of another length.
    Numbers,
    /// Arbitrary bytes.
    Bytes,
}

/// Number of keys: so few that each key is written repeatedly.
pub(crate) const KEYS: u32 = 700;
/// Number of keys that share their first six bytes.
const KEYS_A_PREFIX: u32 = 9;

/// Returns one of `keys` keys. Most consist of a prefix of six bytes and a suffix of varying
/// length; a few are shorter than the prefix.
pub(crate) fn key(rng: &mut Rng, keys: u32) -> Vec<u8> {
    let number = rng.u32(..keys);
    match number {
        0 => Vec::new(),
        1 => vec![0],
        2 => vec![0xff; 9],
        3..10 => format!("k{number}").into_bytes(),
        _ => {
            let mut key = format!("p{:05}", number / KEYS_A_PREFIX).into_bytes();
            key.extend_from_slice(&number.to_be_bytes()[2..]);
            key.resize(key.len() + (number % 5) as usize, b'x');
            key
        }
    }
}

/// Returns a random value of one of four kinds: empty, a repetition of the same eight bytes, random
/// bytes, or a short text. A value of the second or third kind has at most `longest` bytes.
pub(crate) fn value(rng: &mut Rng, longest: usize) -> Vec<u8> {
    match rng.u8(..10) {
        0 => Vec::new(),
        1 | 2 => b"abcdefgh".repeat(rng.usize(..=longest / 8)),
        3 => (0..rng.usize(..=longest)).map(|_| rng.u8(..)).collect(),
        _ => format!("value of {} and no more", rng.u32(..)).into_bytes(),
    }
}

/// Returns a merge operand.
pub(crate) fn operand(rng: &mut Rng, operands: Operands) -> Vec<u8> {
    if operands == Operands::Numbers && rng.u8(..30) > 0 {
        rng.u64(..).to_le_bytes().to_vec()
    } else {
        value(rng, 20)
    }
}
