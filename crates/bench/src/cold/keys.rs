//! The choice of keys: random, and each in a block that nothing else reads.
//!
//! The keys of a database are divided into slots of [`SLOT_KEYS`] consecutive keys, which are
//! several blocks. Every other slot is for measured reads, which use a slot once; the rest is for
//! the reads before the eviction.

use fastrand::Rng;

use crate::store::Failure;

/// Number of consecutive keys in a slot. In a database with six levels, each level has a sixth of
/// the keys, and still more than a block in a slot: a block of 4 KiB has about 35 entries of 116
/// bytes.
const SLOT_KEYS: u64 = 256;
/// Number of keys that are read before the eviction. There are fewer tables than this.
const WARMING_KEYS: u64 = 500;

/// Returns the numbers of `count` random keys of a database with `keys` keys.
///
/// # Errors
/// If the database is too small.
pub(super) fn measured(keys: u64, count: usize, rng: &mut Rng) -> Result<Vec<u64>, Failure> {
    check(keys, count)?;
    let mut slots: Vec<u64> = (0..keys / SLOT_KEYS).step_by(2).collect();
    rng.shuffle(&mut slots);
    slots.truncate(count);
    Ok(slots.into_iter().map(middle).collect())
}

/// Checks that a database with `keys` keys is large enough for `count` reads.
///
/// # Errors
/// If it is not.
pub(super) fn check(keys: u64, count: usize) -> Result<(), Failure> {
    match (keys / SLOT_KEYS).div_ceil(2) {
        slots if slots >= count as u64 => Ok(()),
        slots => Err(format!(
            "--gigabytes: a database of {keys} keys has blocks for {slots} reads, not for {count} \
             (--reads, --batch-size)"
        )
        .into()),
    }
}

/// Returns the numbers of the keys to read before the eviction, evenly distributed.
pub(super) fn warming(keys: u64) -> impl Iterator<Item = u64> {
    let slots = keys / SLOT_KEYS;
    let step = (slots / WARMING_KEYS).max(2).next_multiple_of(2);
    (1..slots).step_by(step as usize).map(middle)
}

/// Returns a key in the middle of a slot.
fn middle(slot: u64) -> u64 {
    slot * SLOT_KEYS + SLOT_KEYS / 2
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_slot_is_read_once() {
        let keys = 100 * SLOT_KEYS + 7;
        let measured = measured(keys, 50, &mut Rng::with_seed(1)).unwrap();
        assert!(!measured.is_sorted());
        let slots: BTreeSet<u64> =
            measured.iter().copied().chain(warming(keys)).map(|key| key / SLOT_KEYS).collect();
        assert_eq!(slots.len(), 50 + warming(keys).count());
        assert!(warming(keys).all(|key| key / SLOT_KEYS % 2 == 1));
        let error = super::measured(keys, 51, &mut Rng::with_seed(1)).unwrap_err();
        assert!(error.to_string().contains("--gigabytes"), "{error}");
    }

    #[test]
    fn warming_reaches_all_parts_of_a_database() {
        let keys = 20_000_000;
        let warming: Vec<u64> = warming(keys).collect();
        assert!((400..=1000).contains(&warming.len()), "{}", warming.len());
        assert!(warming[0] < keys / 200 && warming[warming.len() - 1] > keys / 200 * 199);
    }
}
