//! Random numbers from seeds, so that a failed test can be repeated.
//!
//! A test takes its generator from [`rng`] and prints [`Seed::value`] when it fails; with this
//! value in `TAILWATER_SEED` the run can be repeated. `TAILWATER_ROUNDS` multiplies the amount of
//! work of random tests.

use std::env;

/// A random number generator and its seed.
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

/// Returns a generator seeded by `TAILWATER_SEED`, or randomly if that is not set.
///
/// # Panics
/// If the variable is not a number.
pub fn rng() -> Seed {
    let value = number("TAILWATER_SEED").unwrap_or_else(|| fastrand::u64(..));
    Seed { value, rng: fastrand::Rng::with_seed(value) }
}

/// Returns the factor by which random tests multiply their default amount of work:
/// `TAILWATER_ROUNDS`, or 1.
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
