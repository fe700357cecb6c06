//! Helpers for the tests of decoders: named byte strings in hexadecimal, seeds for random numbers,
//! and damage to bytes.

use std::fmt::Debug;

/// Returns the bytes of a string of hexadecimal digits.
pub(crate) fn unhex(digits: &str) -> Vec<u8> {
    assert!(digits.len().is_multiple_of(2), "an odd number of digits");
    (0..digits.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).expect("hexadecimal digits"))
        .collect()
}

/// Returns the names and bytes in a file with lines of the form `name hex`, in order. A line that
/// begins with `#` is a comment.
pub(crate) fn named_bytes(text: &str) -> Vec<(&str, Vec<u8>)> {
    text.lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| line.split_once(' ').expect("a name and bytes"))
        .map(|(name, digits)| (name, unhex(digits)))
        .collect()
}

/// Returns a random number generator. Its seed is the value of `TAILWATER_SEED`, or random if that
/// is not set. The seed is printed, so that the test can be repeated.
pub(crate) fn random() -> fastrand::Rng {
    let given = std::env::var("TAILWATER_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed: u64 = given.unwrap_or_else(|| fastrand::u64(..));
    println!("TAILWATER_SEED={seed}");
    fastrand::Rng::with_seed(seed)
}

/// Calls `decode` with every truncation of `bytes`, with each bit of `bytes` flipped, with random
/// bytes written over parts of `bytes`, and with random bytes alone. The results do not matter, but
/// `decode` must return and not panic.
pub(crate) fn damage<T: Debug>(bytes: &[u8], decode: impl Fn(&[u8]) -> T) {
    for length in 0..bytes.len() {
        decode(&bytes[..length]);
    }
    let mut damaged = bytes.to_vec();
    for at in 0..bytes.len() {
        for bit in 0..8 {
            damaged[at] ^= 1 << bit;
            decode(&damaged);
            damaged[at] ^= 1 << bit;
        }
    }
    let mut random = random();
    for _ in 0..1000 {
        let mut damaged = bytes.to_vec();
        for _ in 0..random.usize(1..8) {
            let byte = random.u8(..);
            if let Some(place) = random.choice(&mut damaged) {
                *place = byte;
            }
        }
        decode(&damaged);
        let length = random.usize(..200);
        let noise: Vec<u8> = (0..length).map(|_| random.u8(..)).collect();
        decode(&noise);
    }
}
