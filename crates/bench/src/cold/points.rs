//! Random keys, one at a time and in batches.

use fastrand::Rng;
use tailwater_latency::entries::key;
use tailwater_latency::experiment::Figure;
use tailwater_latency::numbers::{micros, rate};

use super::arguments::{ColdArguments, Mode, Part};
use super::database::Databases;
use super::figures::{Figures, Timed, ratio};
use super::keys;
use super::raw::Raw;
use super::results::{Results, measure_rounds};
use super::rows::{Row, Work, compare_with_rocksdb};
use super::subject::Reading;
use crate::store::{Failure, Store};

/// The columns of the table.
const COLUMNS: [Figure; 7] = [
    Figure::new("keys/s>", "/per_second", rate),
    Figure::new("p50 us>", "/p50_us", micros),
    Figure::new("p99 us>", "/p99_us", micros),
    Figure::new("p99.9 us>", "/p999_us", micros),
    Figure::new("to raw>", "/to_reference", ratio),
    Figure::new("by p50>", "/to_raw_by_p50", ratio),
    Figure::new("to rocksdb>", "/to_rocksdb", ratio),
];

/// Measures `part`, which is single gets or batches, in a mode.
pub(super) fn measure(
    arguments: &ColdArguments,
    databases: &Databases<'_>,
    part: Part,
    mode: Mode,
) -> Result<Results, Failure> {
    let ColdArguments { reads, rounds, batch_size, .. } = *arguments;
    let (raw, batch, described) = match part {
        Part::MultiGet => (Raw::Together, batch_size, format!("Batches of {batch_size} cold keys")),
        Part::Get | Part::Scan | Part::Seek => (Raw::InTurn, 1, "Cold keys one by one".to_owned()),
    };
    let title = format!("{described}, {}, {}", mode.name(), databases.content.describe());
    let rows: Vec<Row<'_>> = [Row::raw("raw", raw)]
        .into_iter()
        .chain(Row::cold(databases, &[Reading::default()]))
        .collect();
    let measure = |seed: u64, row: &Row<'_>| match row.work {
        Work::Raw(raw) => {
            databases.evict()?;
            raw.read(&databases.raw_files()?, mode, (reads, batch), seed)
        }
        Work::Cold(database, reading) => {
            let numbers = keys::measured(databases.keys, reads * batch, &mut Rng::with_seed(seed))?;
            let store = database.open_cold(mode, reading)?;
            match part {
                Part::MultiGet => get_in_batches(&*store, &numbers, batch),
                Part::Get | Part::Scan | Part::Seek => get(&*store, &numbers),
            }
        }
        Work::RawInOrder | Work::Cached(_) => Err("no such row of gets".into()),
    };
    let relate = |rows: &[Row<'_>], figures: &mut [Figures]| {
        compare_with_rocksdb(rows, figures);
        let Some((raw, engines)) = figures.split_first_mut() else { return };
        for figures in engines {
            figures.to_reference = Some(figures.per_second / raw.per_second);
            figures.to_raw_by_p50 = Some(raw.latencies.p50_us / figures.latencies.p50_us);
        }
    };
    let measured = measure_rounds(rows, rounds, &title, measure, relate)?;
    Results::new(title, &COLUMNS, &measured)
}

fn get(store: &dyn Store, numbers: &[u64]) -> Result<Figures, Failure> {
    let mut timed = Timed::new()?;
    for &number in numbers {
        timed.operation(|| match store.get(&key(number))? {
            Some(_) => Ok(()),
            None => Err(format!("key {number} has no value").into()),
        })?;
    }
    Ok(timed.figures(1))
}

fn get_in_batches(store: &dyn Store, numbers: &[u64], batch: usize) -> Result<Figures, Failure> {
    let mut timed = Timed::new()?;
    for numbers in numbers.chunks_exact(batch) {
        let keys: Vec<_> = numbers.iter().map(|number| key(*number)).collect();
        let keys: Vec<&[u8]> = keys.iter().map(|key| key.as_slice()).collect();
        timed.operation(|| match store.multi_get(&keys)? {
            found if found == batch => Ok(()),
            found => Err(format!("{found} of {batch} keys have a value").into()),
        })?;
    }
    Ok(timed.figures(batch as u64))
}
