//! The workloads of `db_bench`.
//!
//! | name | operations | counted |
//! |---|---|---|
//! | `fillseq` | keys in order, on a new database | puts |
//! | `fillrandom` | random keys, on a new database | puts |
//! | `compact` | compaction of everything that `fillrandom` wrote | puts of `fillrandom` |
//! | `readrandom` | random gets; the second of two passes counts | gets |
//! | `multireadrandom` | batches of random gets | keys |
//! | `seekrandom` | a new iterator, a random seek, ten steps | seeks |
//! | `readseq` | everything forward | entries |
//! | `readreverse` | everything backward | entries |
//! | `overwrite` | random keys, on the existing database | puts |

use std::time::Instant;

use clap::ValueEnum;
use fastrand::Rng;
use tailwater_latency::entries::{Values, key};
use tailwater_latency::parsing;

use crate::store::{Direction, Failure, Store};

/// Number of keys in a batch of gets.
const BATCH: usize = 32;
/// Maximum number of steps after a seek.
const STEPS: u64 = 10;

/// A workload. They run in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
#[value(rename_all = "lower")]
pub(crate) enum Workload {
    FillSeq,
    FillRandom,
    Compact,
    ReadRandom,
    MultiReadRandom,
    SeekRandom,
    ReadSeq,
    ReadReverse,
    Overwrite,
}

impl Workload {
    /// Returns the workload's name in `db_bench`.
    pub(crate) fn name(self) -> String {
        parsing::name(&self)
    }

    /// Returns whether the workload needs a new database.
    pub(crate) fn begins_anew(self) -> bool {
        matches!(self, Self::FillSeq | Self::FillRandom)
    }
}

/// The amount of work in a workload.
#[derive(Debug, Clone)]
pub(crate) struct Amount {
    /// Number of entries to put; keys are formed from numbers below this one.
    pub(crate) entries: u64,
    /// Number of gets or seeks. Sequential scans ignore it and visit all entries.
    pub(crate) reads: u64,
    /// Length of values in bytes, at most 1 MiB.
    pub(crate) value_bytes: usize,
}

/// Runs one workload; returns operations per second.
pub(crate) fn run(
    store: &dyn Store,
    workload: Workload,
    amount: &Amount,
    seed: u64,
) -> Result<f64, Failure> {
    match workload {
        Workload::FillSeq => fill(store, amount, seed, |_, index| index),
        Workload::FillRandom | Workload::Overwrite => {
            fill(store, amount, seed, |rng, _| rng.u64(..amount.entries))
        }
        Workload::Compact => measure(|| store.compact().map(|()| amount.entries)),
        Workload::ReadRandom => {
            get_random(store, amount, seed)?;
            get_random(store, amount, seed.wrapping_add(1))
        }
        Workload::MultiReadRandom => multi_get_random(store, amount, seed),
        Workload::SeekRandom => seek_random(store, amount, seed),
        Workload::ReadSeq => scan(store, Direction::Forward),
        Workload::ReadReverse => scan(store, Direction::Backward),
    }
}

fn measure(work: impl FnOnce() -> Result<u64, Failure>) -> Result<f64, Failure> {
    let start = Instant::now();
    let operations = work()?;
    Ok(operations as f64 / start.elapsed().as_secs_f64())
}

fn fill(
    store: &dyn Store,
    amount: &Amount,
    seed: u64,
    mut choose: impl FnMut(&mut Rng, u64) -> u64,
) -> Result<f64, Failure> {
    let mut rng = Rng::with_seed(seed);
    let values = Values::new(amount.value_bytes, seed);
    let mut entries =
        (0..amount.entries).map(|index| (key(choose(&mut rng, index)), values.get(index)));
    measure(|| store.put_all(&mut entries).map(|()| amount.entries))
}

fn get_random(store: &dyn Store, amount: &Amount, seed: u64) -> Result<f64, Failure> {
    let mut rng = Rng::with_seed(seed);
    measure(|| {
        for _ in 0..amount.reads {
            std::hint::black_box(store.get(&key(rng.u64(..amount.entries)))?);
        }
        Ok(amount.reads)
    })
}

fn multi_get_random(store: &dyn Store, amount: &Amount, seed: u64) -> Result<f64, Failure> {
    let mut rng = Rng::with_seed(seed);
    measure(|| {
        let batches = amount.reads / BATCH as u64;
        for _ in 0..batches {
            let keys: [_; BATCH] = std::array::from_fn(|_| key(rng.u64(..amount.entries)));
            std::hint::black_box(store.multi_get(&keys.each_ref().map(|key| key.as_slice()))?);
        }
        Ok(batches * BATCH as u64)
    })
}

fn seek_random(store: &dyn Store, amount: &Amount, seed: u64) -> Result<f64, Failure> {
    let mut rng = Rng::with_seed(seed);
    measure(|| {
        for _ in 0..amount.reads {
            let from = key(rng.u64(..amount.entries));
            std::hint::black_box(store.scan(Some(&from), Direction::Forward, STEPS)?);
        }
        Ok(amount.reads)
    })
}

fn scan(store: &dyn Store, direction: Direction) -> Result<f64, Failure> {
    measure(|| store.scan(None, direction, u64::MAX).map(|scanned| scanned.entries))
}
