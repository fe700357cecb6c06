//! Random numbers that a failed test can be repeated with.
//!
//! A test takes its generator from [`rng`], and names [`Seed::value`] in what it prints when it
//! fails; `TAILWATER_SEED` then makes the next run the same. `TAILWATER_ROUNDS` multiplies how much
//! random tests do.

use std::env;

/// A generator and the seed it began with.
#[derive(Debug)]
pub struct Seed {
    value: u64,
    /// The generator.
    pub rng: fastrand::Rng,
}

impl Seed {
    /// What the generator began with.
    pub fn value(&self) -> u64 {
        self.value
    }
}

/// A generator seeded by `TAILWATER_SEED`, or by chance where that is not set.
///
/// # Panics
/// If the variable holds no number.
pub fn rng() -> Seed {
    let value = number("TAILWATER_SEED").unwrap_or_else(|| fastrand::u64(..));
    Seed { value, rng: fastrand::Rng::with_seed(value) }
}

/// How many times over random tests shall do what they do by default: `TAILWATER_ROUNDS`, or 1.
///
/// # Panics
/// If the variable holds no number.
pub fn rounds() -> usize {
    number("TAILWATER_ROUNDS").map_or(1, |rounds| rounds as usize)
}

fn number(variable: &str) -> Option<u64> {
    let value = env::var(variable).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{variable} is no number: '{value}'")))
}
