//! Overlapping range deletions on several engines, and reads while they are in the memtable.
//!
//! Each deletion extends a little beyond both ends of the previous one, so that in the end all
//! deletions cover the keys in the middle. The deletions stay in the memtable while keys are read.
//! An engine that splits the deletions into disjoint fragments, and stores with each fragment all
//! deletions that cover it, needs time and memory quadratic in the number of deletions.

use std::time::{Duration, Instant};

use clap::Args;
use fastrand::Rng;
use serde::{Deserialize, Serialize};
use tailwater_latency::entries::{Values, key};
use tailwater_latency::experiment::{Figure, Finished, Table, in_turn};
use tailwater_latency::numbers::rate;
use tailwater_latency::parsing::at_least_one;

use crate::store::{Direction, Engine, Failure, Store};
use crate::subjects::Subjects;

/// Engines with range deletions.
const ENGINES: [&str; 2] = ["tailwater", "rocksdb"];
/// Name of the property that is the total size of all tables, in bytes.
const TABLE_BYTES: &str = "rocksdb.total-sst-files-size";
/// Length of values, in bytes.
const VALUE_BYTES: usize = 100;
/// No deleted range covers the outermost keys at either end of the key space. Their number at each
/// end is KEYS_BESIDE times the number of deletions.
const KEYS_BESIDE: u64 = 5;
/// Number of keys by which each deleted range extends beyond the previous range, at each end.
const KEYS_FURTHER: u64 = 20;

/// The command's arguments.
#[derive(Debug, Args)]
pub(crate) struct RangeDeletionArguments {
    /// Number of ranges to delete, each of 50 keys.
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    deletions: u64,
    /// Number of gets.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    reads: u64,
    /// Number of repetitions of the whole measurement.
    #[arg(long, default_value_t = 3, value_parser = at_least_one)]
    rounds: usize,
    #[command(flatten)]
    subjects: Subjects,
}

/// The results of an engine in one round.
#[derive(Debug, Serialize, Deserialize)]
struct Round {
    plain: Figures,
    /// The results if deletions and gets alternate.
    by_turns: Figures,
}

/// The rows of the report. Engines are columns.
const ROWS: [Figure; 6] = [
    Figure::new("deletions per second", "/plain/deletions", rate),
    Figure::new("deletions per second, alternating with gets", "/by_turns/deletions", rate),
    Figure::new("gets per second", "/plain/gets", rate),
    Figure::new("scan of the remaining keys, ms", "/plain/scan_s", milliseconds),
    Figure::new("flush, ms", "/plain/flush_s", milliseconds),
    Figure::new("flushed bytes", "/plain/flushed_bytes", |bytes| format!("{bytes:.0}")),
];

fn milliseconds(seconds: f64) -> String {
    format!("{:.1}", seconds * 1e3)
}

impl RangeDeletionArguments {
    /// Runs the command; its table is in Markdown.
    pub(crate) fn run(&self, known: &[Engine]) -> Result<Finished, Failure> {
        let (rounds, deletions) = (self.rounds, self.deletions);
        let engines = self.subjects.engines_or(known, &ENGINES)?;
        let measured = in_turn(engines, rounds, |_, engine| {
            let measure = |by_turns| {
                let directory = self.subjects.new_directory()?;
                let store = (engine.open)(directory.path(), &self.subjects.options())?;
                delete(&*store, self, by_turns)
            };
            let both = || Ok(Round { plain: measure(false)?, by_turns: measure(true)? });
            both().map_err(|error: Failure| format!("{}: {error}", engine.name).into())
        })?;
        let names: String = measured.iter().map(|it| format!("|{}>", it.row.name)).collect();
        let mut table = Table::new(&format!("<{names}"));
        let mut every_run = String::new();
        for row in &ROWS {
            let mut cells = vec![row.column.to_owned()];
            for engine in &measured {
                cells.push(row.cell(&serde_json::to_value(&engine.median)?));
                let runs = serde_json::to_value(&engine.runs)?;
                let runs = runs.as_array().into_iter().flatten().map(|run| row.cell(run));
                let runs = runs.collect::<Vec<_>>().join(", ");
                every_run += &format!("- {}, {}: {runs}\n", row.column, engine.row.name);
            }
            table.row(cells);
        }
        let table = table.markdown();
        let text = format!(
            "{deletions} range deletions, medians of {rounds} rounds:\n\n{table}\nEvery run:\n\n\
             {every_run}"
        );
        Finished::new(text, &measured)
    }
}

/// The results of the workload.
#[derive(Debug, Serialize, Deserialize)]
struct Figures {
    /// Deletions per second. If deletions and gets alternate, the time of the gets is included.
    deletions: f64,
    /// Gets per second while all deletions are in the memtable; 0 if gets and deletions alternate.
    gets: f64,
    /// Duration of a scan over the remaining keys, in seconds.
    scan_s: f64,
    /// Duration of the flush, in seconds.
    flush_s: f64,
    /// Length of the tables that the flush wrote, in bytes.
    flushed_bytes: f64,
}

/// Puts keys, deletes ranges of them, and reads. If `by_turns`, exactly one get follows each
/// deletion, and there are no other gets.
fn delete(
    store: &dyn Store,
    arguments: &RangeDeletionArguments,
    by_turns: bool,
) -> Result<Figures, Failure> {
    let RangeDeletionArguments { deletions, reads, .. } = *arguments;
    let keys = deletions * 2 * (KEYS_FURTHER + KEYS_BESIDE);
    let values = Values::new(VALUE_BYTES, 1);
    store.put_all(&mut (0..keys).map(|number| (key(number), values.get(number))))?;
    store.settle()?;
    let bytes_before = table_bytes(store)?;
    let mut rng = Rng::with_seed(1);
    let mut get = || store.get(&key(rng.u64(..keys))).map(std::hint::black_box);
    let deleting = timed(|| {
        for reach in (1..=deletions).map(|number| number * KEYS_FURTHER) {
            store.delete_range(&key(keys / 2 - reach), &key(keys / 2 + reach))?;
            if by_turns {
                get()?;
            }
        }
        Ok(())
    })?;
    let reads = if by_turns { 0 } else { reads };
    let getting = timed(|| (0..reads).try_for_each(|_| get().map(drop)))?;
    let mut remaining = 0;
    let scanning = timed(|| {
        remaining = store.scan(None, Direction::Forward, u64::MAX)?.entries;
        Ok(())
    })?;
    let expected = deletions * 2 * KEYS_BESIDE;
    if remaining != expected {
        return Err(format!("{remaining} keys remain, not {expected}").into());
    }
    let flushing = timed(|| store.settle())?;
    Ok(Figures {
        deletions: deletions as f64 / deleting.as_secs_f64(),
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

fn table_bytes(store: &dyn Store) -> Result<f64, Failure> {
    let bytes = store.property(TABLE_BYTES)?.ok_or_else(|| format!("no {TABLE_BYTES}"))?;
    Ok(bytes.parse()?)
}
