//! Overlapping range deletions, and reads among them.
//!
//! Each deletion extends a little further to both sides than the previous one, so that in the end
//! all of them cover the keys in the middle. They stay in the memtable while keys are read. An
//! engine that fragments them so that they do not overlap, and keeps every deletion in each
//! fragment, needs work and memory quadratic in their number.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use clap::Args;
use fastrand::Rng;

use crate::arguments::Subjects;
use crate::engine::Engine;
use crate::entries::{Values, key};
use crate::report::{Rate, median};
use crate::store::{Direction, Failure, Store};

/// Engines with range deletions.
const ENGINES: [&str; 2] = ["tailwater", "rocksdb"];
/// Property with the total size of all tables, in bytes.
const TABLE_BYTES: &str = "rocksdb.total-sst-files-size";
/// Length of values, in bytes.
const VALUE_BYTES: usize = 100;
/// Number of keys that remain at each end, per deletion.
const KEYS_BESIDE: u64 = 5;
/// Number of keys by which a deletion extends further than the previous one, at each end.
const KEYS_FURTHER: u64 = 20;

/// What is asked of this command.
#[derive(Debug, Args)]
pub struct RangeDeletionArguments {
    /// How many ranges are deleted; there are 50 keys for each.
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    deletions: u64,
    /// Number of gets.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    reads: u64,
    /// How many times over everything is done.
    #[arg(long, default_value_t = 3, value_parser = crate::arguments::at_least_one)]
    rounds: usize,
    #[command(flatten)]
    subjects: Subjects,
}

/// The size of the workload.
#[derive(Debug, Clone, Copy)]
pub struct Deleting {
    /// Number of range deletions.
    pub deletions: u64,
    /// Number of gets.
    pub reads: u64,
    /// Whether exactly one get follows each deletion.
    pub by_turns: bool,
}

/// The results.
#[derive(Debug, Clone, Copy)]
pub struct Figures {
    /// Deletions per second, including the get after each if they alternate.
    pub deletions: f64,
    /// Gets per second among all deletions; 0 if they alternate.
    pub gets: f64,
    /// Duration of a scan over the remaining keys, in seconds.
    pub scan_s: f64,
    /// Duration of the flush, in seconds.
    pub flush_s: f64,
    /// Length of the tables that the flush wrote, in bytes.
    pub flushed_bytes: f64,
}

/// A row of the report.
struct Row {
    name: &'static str,
    by_turns: bool,
    figure: fn(&Figures) -> f64,
    text: fn(f64) -> String,
}

const ROWS: [Row; 6] = [
    Row {
        name: "deletions per second",
        by_turns: false,
        figure: |it| it.deletions,
        text: |rate| Rate(rate).to_string(),
    },
    Row {
        name: "deletions per second, a get after each",
        by_turns: true,
        figure: |it| it.deletions,
        text: |rate| Rate(rate).to_string(),
    },
    Row {
        name: "gets per second among all",
        by_turns: false,
        figure: |it| it.gets,
        text: |rate| Rate(rate).to_string(),
    },
    Row {
        name: "scan of what remains, ms",
        by_turns: false,
        figure: |it| it.scan_s,
        text: |seconds| format!("{:.1}", seconds * 1e3),
    },
    Row {
        name: "flush, ms",
        by_turns: false,
        figure: |it| it.flush_s,
        text: |seconds| format!("{:.1}", seconds * 1e3),
    },
    Row {
        name: "bytes that it wrote",
        by_turns: false,
        figure: |it| it.flushed_bytes,
        text: |bytes| format!("{bytes:.0}"),
    },
];

impl RangeDeletionArguments {
    /// Runs the command; returns a table.
    pub(crate) fn run(&self, known: &[&dyn Engine]) -> Result<String, Failure> {
        let engines = self.subjects.engines_or(known, &ENGINES)?;
        // Indexed by whether deletions and gets alternate, then by engine: the figures of each
        // round.
        let mut figures = [vec![Vec::new(); engines.len()], vec![Vec::new(); engines.len()]];
        for round in 0..self.rounds {
            for turn in 0..engines.len() {
                // Each engine goes first in turn.
                let index = (turn + round) % engines.len();
                for by_turns in [false, true] {
                    let engine = engines[index];
                    let figure = self.measure(engine, by_turns);
                    let figure = figure.map_err(|error| format!("{}: {error}", engine.name()))?;
                    figures[usize::from(by_turns)][index].push(figure);
                }
            }
        }
        self.table(&engines, &figures)
    }

    fn measure(&self, engine: &dyn Engine, by_turns: bool) -> Result<Figures, Failure> {
        let directory = self.subjects.new_directory()?;
        let subject = engine.create(directory.path(), &self.subjects.options())?;
        let Self { deletions, reads, .. } = *self;
        subject.delete_ranges(&Deleting { deletions, reads, by_turns })
    }

    fn table(
        &self,
        engines: &[&dyn Engine],
        figures: &[Vec<Vec<Figures>>; 2],
    ) -> Result<String, Failure> {
        let (rounds, deletions) = (self.rounds, self.deletions);
        let mut table = format!("{deletions} range deletions, medians of {rounds} rounds:\n\n| |");
        engines.iter().try_for_each(|engine| write!(table, " {} |", engine.name()))?;
        let columns = "---:|".repeat(engines.len());
        writeln!(table, "\n|---|{columns}")?;
        for row in &ROWS {
            write!(table, "| {} |", row.name)?;
            for rounds in &figures[usize::from(row.by_turns)] {
                let median = median(rounds.iter().map(row.figure).collect());
                write!(table, " {} |", (row.text)(median))?;
            }
            writeln!(table)?;
        }
        table.push_str("\nEvery run:\n\n");
        for row in &ROWS {
            for (engine, rounds) in engines.iter().zip(&figures[usize::from(row.by_turns)]) {
                let all: Vec<_> = rounds.iter().map(|it| (row.text)((row.figure)(it))).collect();
                writeln!(table, "- {}, {}: {}", row.name, engine.name(), all.join(", "))?;
            }
        }
        Ok(table)
    }
}

/// Puts keys, deletes ranges of them, and reads.
pub(crate) fn delete(store: &impl Store, work: &Deleting) -> Result<Figures, Failure> {
    let keys = work.deletions * 2 * (KEYS_FURTHER + KEYS_BESIDE);
    let values = Values::new(VALUE_BYTES, 1);
    store.put_all((0..keys).map(|number| (key(number), values.get(number))))?;
    store.settle()?;
    let bytes_before = table_bytes(store)?;
    let mut rng = Rng::with_seed(1);
    let mut get = || store.get(&key(rng.u64(..keys))).map(std::hint::black_box);
    let deleting = timed(|| {
        for reach in (1..=work.deletions).map(|number| number * KEYS_FURTHER) {
            store.delete_range(&key(keys / 2 - reach), &key(keys / 2 + reach))?;
            if work.by_turns {
                get()?;
            }
        }
        Ok(())
    })?;
    let reads = if work.by_turns { 0 } else { work.reads };
    let getting = timed(|| (0..reads).try_for_each(|_| get().map(drop)))?;
    let mut remaining = 0;
    let scanning = timed(|| {
        remaining = store.scan(None, Direction::Forward, u64::MAX)?.entries;
        Ok(())
    })?;
    let expected = work.deletions * 2 * KEYS_BESIDE;
    if remaining != expected {
        return Err(format!("{remaining} keys remain, and not {expected}").into());
    }
    let flushing = timed(|| store.settle())?;
    Ok(Figures {
        deletions: work.deletions as f64 / deleting.as_secs_f64(),
        gets: if reads == 0 { 0.0 } else { reads as f64 / getting.as_secs_f64() },
        scan_s: scanning.as_secs_f64(),
        flush_s: flushing.as_secs_f64(),
        flushed_bytes: table_bytes(store)? - bytes_before,
    })
}

fn timed(work: impl FnOnce() -> Result<(), Failure>) -> Result<Duration, Failure> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed())
}

fn table_bytes(store: &impl Store) -> Result<f64, Failure> {
    let bytes = store.property(TABLE_BYTES)?.ok_or_else(|| format!("no {TABLE_BYTES}"))?;
    Ok(bytes.parse()?)
}
