//! The workloads, and engines that do them by turns.
//!
//! | name | what is done | counted |
//! |---|---|---|
//! | `fillseq` | keys in order, on a new database | puts |
//! | `fillrandom` | keys by chance, on a new database | puts |
//! | `compact` | what `fillrandom` left is written anew, all of it | entries put before |
//! | `readrandom` | gets by chance; of two passes the second counts | gets |
//! | `multireadrandom` | batches of gets by chance | keys |
//! | `seekrandom` | a new iterator, a seek by chance, ten steps | seeks |
//! | `readseq` | everything forward | entries |
//! | `readreverse` | everything backward | entries |
//! | `overwrite` | keys by chance, on what is there | puts |

use std::marker::PhantomData;
use std::path::Path;
use std::time::{Duration, Instant};

use fastrand::Rng;

use crate::entries::{Values, key};
use crate::store::{Direction, Failure, Store};

/// How many keys a batch of gets has.
const BATCH: usize = 32;
/// How many entries a seek goes on over.
const STEPS: u64 = 10;

/// A workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the module's text has them in a table")]
pub enum Workload {
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
    /// All, in the order in which they are done.
    pub const ALL: [Self; 9] = [
        Self::FillSeq,
        Self::FillRandom,
        Self::Compact,
        Self::ReadRandom,
        Self::MultiReadRandom,
        Self::SeekRandom,
        Self::ReadSeq,
        Self::ReadReverse,
        Self::Overwrite,
    ];

    /// Its name in `db_bench`.
    pub fn name(self) -> &'static str {
        match self {
            Self::FillSeq => "fillseq",
            Self::FillRandom => "fillrandom",
            Self::Compact => "compact",
            Self::ReadRandom => "readrandom",
            Self::MultiReadRandom => "multireadrandom",
            Self::SeekRandom => "seekrandom",
            Self::ReadSeq => "readseq",
            Self::ReadReverse => "readreverse",
            Self::Overwrite => "overwrite",
        }
    }

    /// Whether it begins with a new database.
    pub(crate) fn begins_anew(self) -> bool {
        matches!(self, Self::FillSeq | Self::FillRandom)
    }
}

/// How much is done.
#[derive(Debug, Clone)]
pub struct Amount {
    /// How many entries are put, and out of how many keys.
    pub entries: u64,
    /// How many gets or seeks are made; scans are not bounded.
    pub reads: u64,
    /// How long values are, in bytes, at most 1 MiB.
    pub value_bytes: usize,
}

/// What was done, and how long it took.
#[derive(Debug, Clone, Copy)]
pub struct Measured {
    /// How many operations.
    pub operations: u64,
    /// In what time.
    pub time: Duration,
}

impl Measured {
    /// Operations in a second.
    pub fn rate(&self) -> f64 {
        self.operations as f64 / self.time.as_secs_f64()
    }
}

/// A kind of engine, for engines that are put beside each other.
pub trait Engine {
    /// Its name.
    fn name(&self) -> &'static str;

    /// Makes a database in a directory that is empty.
    ///
    /// # Errors
    /// Those of the engine.
    fn create(&self, directory: &Path, options: &str) -> Result<Box<dyn Subject>, Failure>;
}

/// A database that workloads are done on.
pub trait Subject {
    /// Does one.
    ///
    /// # Errors
    /// Those of the engine.
    fn run(&self, workload: Workload, amount: &Amount, seed: u64) -> Result<Measured, Failure>;

    /// Returns when no work is left in the background.
    ///
    /// # Errors
    /// Those of the engine.
    fn settle(&self) -> Result<(), Failure>;
}

/// The kind of engine that `S` is a store of.
#[derive(Debug)]
pub struct Contender<S>(PhantomData<S>);

impl<S: Store> Contender<S> {
    /// That kind.
    #[expect(clippy::new_without_default, reason = "there is nothing to choose a default of")]
    pub fn new() -> Self {
        Self(PhantomData)
    }
}

impl<S: Store + 'static> Engine for Contender<S> {
    fn name(&self) -> &'static str {
        S::NAME
    }

    fn create(&self, directory: &Path, options: &str) -> Result<Box<dyn Subject>, Failure> {
        Ok(Box::new(Opened(S::create(directory, options)?)))
    }
}

/// An open store; workloads are compiled for each kind, so that no call goes through a table.
struct Opened<S>(S);

impl<S: Store> Subject for Opened<S> {
    fn run(&self, workload: Workload, amount: &Amount, seed: u64) -> Result<Measured, Failure> {
        let store = &self.0;
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

    fn settle(&self) -> Result<(), Failure> {
        self.0.settle()
    }
}

fn measure(work: impl FnOnce() -> Result<u64, Failure>) -> Result<Measured, Failure> {
    let start = Instant::now();
    let operations = work()?;
    Ok(Measured { operations, time: start.elapsed() })
}

fn fill(
    store: &impl Store,
    amount: &Amount,
    seed: u64,
    mut choose: impl FnMut(&mut Rng, u64) -> u64,
) -> Result<Measured, Failure> {
    let mut rng = Rng::with_seed(seed);
    let values = Values::new(amount.value_bytes, seed);
    let entries =
        (0..amount.entries).map(|index| (key(choose(&mut rng, index)), values.get(index)));
    measure(|| store.put_all(entries).map(|()| amount.entries))
}

fn get_random(store: &impl Store, amount: &Amount, seed: u64) -> Result<Measured, Failure> {
    let mut rng = Rng::with_seed(seed);
    measure(|| {
        for _ in 0..amount.reads {
            std::hint::black_box(store.get(&key(rng.u64(..amount.entries)))?);
        }
        Ok(amount.reads)
    })
}

fn multi_get_random(store: &impl Store, amount: &Amount, seed: u64) -> Result<Measured, Failure> {
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

fn seek_random(store: &impl Store, amount: &Amount, seed: u64) -> Result<Measured, Failure> {
    let mut rng = Rng::with_seed(seed);
    measure(|| {
        for _ in 0..amount.reads {
            let from = key(rng.u64(..amount.entries));
            std::hint::black_box(store.scan(Some(&from), Direction::Forward, STEPS)?);
        }
        Ok(amount.reads)
    })
}

fn scan(store: &impl Store, direction: Direction) -> Result<Measured, Failure> {
    measure(|| store.scan(None, direction, u64::MAX).map(|scanned| scanned.entries))
}
