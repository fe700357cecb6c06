//! Random numbers from seeds, so that a failed test can be repeated.
//!
//! A test gets its generator from [`rng`], and prints [`Seed::value`] if it fails. To repeat the
//! failure, run the test with this value in the environment variable `TAILWATER_SEED`. The variable
//! `TAILWATER_ROUNDS` multiplies the amount of work of random tests.

use std::env;

/// A random number generator, and the seed from which it was created.
#[derive(Debug)]
pub struct Seed {
    value: u64,
    /// The generator.
    pub rng: fastrand::Rng,
}

impl Seed {
    /// Returns the seed.
    pub fn value(&self) -> u64 {
        self.value
    }
}

/// Returns a generator. Its seed is the value of `TAILWATER_SEED`, or a random number if that
/// variable is not set.
///
/// # Panics
/// If the variable is not a number.
pub fn rng() -> Seed {
    let value = number("TAILWATER_SEED").unwrap_or_else(|| fastrand::u64(..));
    Seed { value, rng: fastrand::Rng::with_seed(value) }
}

/// Returns the factor by which a random test multiplies its amount of work: the value of
/// `TAILWATER_ROUNDS`, or 1 if that variable is not set.
///
/// # Panics
/// If the variable is not a number.
pub fn rounds() -> usize {
    number("TAILWATER_ROUNDS").map_or(1, |rounds| rounds as usize)
}

fn number(variable: &str) -> Option<u64> {
    let value = env::var(variable).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{variable} is not a number: '{value}'")))
}
