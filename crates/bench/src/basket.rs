//! The workloads, run by several engines in turn.
//!
//! | name | operations | counted |
//! |---|---|---|
//! | `fillseq` | keys in order, on a new database | puts |
//! | `fillrandom` | random keys, on a new database | puts |
//! | `compact` | compacts everything that `fillrandom` wrote | entries put before |
//! | `readrandom` | random gets; the second of two passes counts | gets |
//! | `multireadrandom` | batches of random gets | keys |
//! | `seekrandom` | a new iterator, a random seek, ten steps | seeks |
//! | `readseq` | everything forward | entries |
//! | `readreverse` | everything backward | entries |
//! | `overwrite` | random keys, on the existing database | puts |

use std::time::{Duration, Instant};

use clap::Args;
use fastrand::Rng;

use crate::arguments::Subjects;
use crate::engine::{Engine, Subject};
use crate::entries::{Values, key};
use crate::files::Temporary;
use crate::report::Report;
use crate::store::{Direction, Failure, Store};

/// Number of keys in a batch of gets.
const BATCH: usize = 32;
/// Number of steps after a seek.
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
    /// All workloads, in the order in which they run.
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

    /// Returns its name in `db_bench`.
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

    /// Returns whether it starts with a new database.
    fn begins_anew(self) -> bool {
        matches!(self, Self::FillSeq | Self::FillRandom)
    }
}

/// The size of a workload.
#[derive(Debug, Clone)]
pub struct Amount {
    /// Number of entries that are put, which is also the number of keys.
    pub entries: u64,
    /// Number of gets or seeks; scans are not bounded.
    pub reads: u64,
    /// Length of values in bytes, at most 1 MiB.
    pub value_bytes: usize,
}

/// The number of operations and their duration.
#[derive(Debug, Clone, Copy)]
pub struct Measured {
    /// Number of operations.
    pub operations: u64,
    /// Duration of all operations.
    pub time: Duration,
}

impl Measured {
    /// Returns operations per second.
    pub fn rate(&self) -> f64 {
        self.operations as f64 / self.time.as_secs_f64()
    }
}

/// What is asked of this command.
#[derive(Debug, Args)]
pub struct BasketArguments {
    /// How many entries are put.
    #[arg(long, default_value_t = 2_000_000)]
    num: u64,
    /// How many gets and seeks are made.
    #[arg(long, default_value_t = 1_000_000)]
    reads: u64,
    /// How long values are, in bytes; keys have 16.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(..=1 << 20))]
    value_size: u32,
    /// How many times over everything is done.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// The workloads, with commas between; what they need first is done, and not reported.
    #[arg(long, value_delimiter = ',')]
    workloads: Vec<String>,
    #[command(flatten)]
    subjects: Subjects,
}

impl BasketArguments {
    /// Runs the command; returns a report.
    pub(crate) fn run(&self, known: &[&dyn Engine]) -> Result<String, Failure> {
        let engines = self.subjects.engines(known)?;
        let workloads = self.chosen_workloads()?;
        let names = engines.iter().map(|engine| engine.name()).collect();
        let mut report = Report::new(names, self.rounds);
        for round in 0..self.rounds {
            Round { arguments: self, engines: &engines, round }.run(&workloads, &mut report)?;
        }
        Ok(report.to_string())
    }

    fn chosen_workloads(&self) -> Result<Vec<Workload>, Failure> {
        if self.workloads.is_empty() {
            return Ok(Workload::ALL.to_vec());
        }
        let names = Workload::ALL.map(Workload::name).join(", ");
        for name in &self.workloads {
            if !Workload::ALL.iter().any(|workload| workload.name() == name) {
                return Err(format!("no workload '{name}'; there are: {names}").into());
            }
        }
        let is_chosen = |workload: &Workload| self.workloads.iter().any(|n| n == workload.name());
        Ok(Workload::ALL.into_iter().filter(is_chosen).collect())
    }
}

/// One run of all workloads on all engines in turn.
struct Round<'a> {
    arguments: &'a BasketArguments,
    engines: &'a [&'a dyn Engine],
    round: usize,
}

/// An engine's database and its directory, which is removed after the database is closed.
struct Place {
    subject: Box<dyn Subject>,
    _directory: Temporary,
}

impl Round<'_> {
    fn run(&self, chosen: &[Workload], report: &mut Report) -> Result<(), Failure> {
        let mut places: Vec<Option<Place>> = self.engines.iter().map(|_| None).collect();
        for workload in self.needed(chosen) {
            for turn in 0..self.engines.len() {
                // Each engine goes first in turn.
                let index = (turn + self.round) % self.engines.len();
                if workload.begins_anew() {
                    places[index] = None;
                    places[index] = Some(self.create(self.engines[index])?);
                }
                let Some(place) = &places[index] else { continue };
                let rate = self.measure(place, workload, index)?;
                if chosen.contains(&workload) {
                    report.add(workload, index, rate);
                }
            }
        }
        Ok(())
    }

    /// Returns the chosen workloads and those that must come before them.
    fn needed(&self, chosen: &[Workload]) -> Vec<Workload> {
        let reads = chosen.iter().any(|workload| *workload > Workload::FillRandom);
        let is_needed = |workload: &Workload| {
            let prepares = matches!(workload, Workload::FillRandom | Workload::Compact);
            chosen.contains(workload) || (reads && prepares)
        };
        Workload::ALL.into_iter().filter(is_needed).collect()
    }

    fn create(&self, engine: &dyn Engine) -> Result<Place, Failure> {
        let directory = self.arguments.subjects.new_directory()?;
        let subject = engine
            .create(directory.path(), &self.arguments.subjects.options())
            .map_err(|error| format!("{}: {error}", engine.name()))?;
        Ok(Place { subject, _directory: directory })
    }

    fn measure(&self, place: &Place, workload: Workload, index: usize) -> Result<f64, Failure> {
        let name = self.engines[index].name();
        let amount = Amount {
            entries: self.arguments.num,
            reads: self.arguments.reads,
            value_bytes: self.arguments.value_size as usize,
        };
        let failed = |error: Failure| format!("{name}, {}: {error}", workload.name());
        let measured =
            place.subject.run(workload, &amount, self.round as u64 + 1).map_err(failed)?;
        let rate = measured.rate();
        say!("round {}  {:<16} {name:<10} {rate:>12.0}/s", self.round + 1, workload.name());
        place.subject.settle().map_err(failed)?;
        Ok(rate)
    }
}

/// Runs one workload.
pub(crate) fn run(
    store: &impl Store,
    workload: Workload,
    amount: &Amount,
    seed: u64,
) -> Result<Measured, Failure> {
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
