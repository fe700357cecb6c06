//! Seeks in a database with six levels.
//!
//! Each operation creates an iterator, seeks a random key and makes one step. It reads a block of
//! each level. The best that an engine could do is to read all blocks at once, which takes at least
//! as long as the slowest of them takes alone.

use fastrand::Rng;
use tailwater_latency::entries::key;
use tailwater_latency::experiment::Figure;
use tailwater_latency::numbers::{micros, rate};

use super::arguments::{ColdArguments, Mode};
use super::database::Databases;
use super::figures::{Figures, Timed, ratio};
use super::keys;
use super::levels::LEVELS;
use super::raw::Raw;
use super::results::{Results, measure_rounds};
use super::rows::{Row, Work, compare_with_rocksdb};
use super::subject::Reading;
use crate::store::{Direction, Failure, Store};

/// The columns of the table.
const COLUMNS: [Figure; 7] = [
    Figure::new("p50 us>", "/p50_us", micros),
    Figure::new("p99 us>", "/p99_us", micros),
    Figure::new("p99.9 us>", "/p999_us", micros),
    Figure::new("seeks/s>", "/per_second", rate),
    Figure::new("p50 to slowest>", "/to_reference", ratio),
    Figure::new("p50 to at once>", "/to_at_once", ratio),
    Figure::new("seeks/s to rocksdb>", "/to_rocksdb", ratio),
];

/// Measures seeks in a mode.
pub(super) fn measure(
    arguments: &ColdArguments,
    databases: &Databases<'_>,
    mode: Mode,
) -> Result<Results, Failure> {
    let ColdArguments { reads, rounds, .. } = *arguments;
    let title = format!(
        "Seeks over {LEVELS} cold levels, {}, {}",
        mode.name(),
        databases.content.describe()
    );
    let raw = [
        Row::raw("raw, the slowest of 6 blocks", Raw::Slowest),
        Row::raw("raw, 6 blocks at once", Raw::Together),
        Row::raw("raw, 6 blocks in turn", Raw::InTurn),
    ];
    let rows: Vec<Row<'_>> =
        raw.into_iter().chain(Row::cold(databases, &[Reading::default()])).collect();
    let measure = |seed: u64, row: &Row<'_>| match row.work {
        Work::Raw(raw) => {
            databases.evict()?;
            let mut figures =
                raw.read(&databases.raw_files()?, mode, (reads, LEVELS as usize), seed)?;
            figures.per_second /= LEVELS as f64;
            Ok(figures)
        }
        Work::Cold(database, reading) => {
            let numbers = keys::measured(databases.keys, reads, &mut Rng::with_seed(seed))?;
            seek(&*database.open_cold(mode, reading)?, &numbers)
        }
        Work::RawInOrder | Work::Cached(_) => Err("no such row of seeks".into()),
    };
    let relate = |rows: &[Row<'_>], figures: &mut [Figures]| {
        compare_with_rocksdb(rows, figures);
        let p50_us = |at: usize| figures.get(at).map_or(f64::NAN, |it| it.latencies.p50_us);
        let (slowest_us, at_once_us) = (p50_us(0), p50_us(1));
        for figures in figures.iter_mut() {
            figures.to_reference = Some(figures.latencies.p50_us / slowest_us);
            figures.to_at_once = Some(figures.latencies.p50_us / at_once_us);
        }
    };
    let measured = measure_rounds(rows, rounds, &title, measure, relate)?;
    Results::new(title, &COLUMNS, &measured)
}

fn seek(store: &dyn Store, numbers: &[u64]) -> Result<Figures, Failure> {
    let mut timed = Timed::new()?;
    for &number in numbers {
        // A scan of one entry makes a step after it.
        timed.operation(|| {
            match store.scan(Some(&key(number)), Direction::Forward, 1)?.entries {
                1 => Ok(()),
                _ => Err(format!("no key from {number} on").into()),
            }
        })?;
    }
    Ok(timed.figures(1))
}
