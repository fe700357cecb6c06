//! Scans of whole databases with direct reads.
//!
//! A scan can be no faster than the device, and need not be faster than a scan of the same tables
//! in the page cache. The row `raw` reads the tables in order, with several large requests in
//! flight.

use tailwater_latency::experiment::Figure;

use super::arguments::{ColdArguments, Mode};
use super::database::{Database, Databases};
use super::figures::{Figures, Timed, ratio};
use super::raw;
use super::results::{Results, measure_rounds};
use super::rows::{Row, Work, compare_with_rocksdb};
use super::subject::Reading;
use crate::store::{Direction, Failure, Store};

/// The options of reads, apart from `async_io`: read-ahead that the engine adapts, and a fixed size
/// with which RocksDB's scans are fast.
const READINGS: [Reading; 2] = [
    Reading { async_io: false, readahead_bytes: 0 },
    Reading { async_io: false, readahead_bytes: 2 << 20 },
];

/// The columns of the table.
const COLUMNS: [Figure; 3] = [
    Figure::new("MB/s>", "/per_second", |bytes| format!("{:.0}", bytes / 1e6)),
    Figure::new("to the slower of raw and page cache>", "/to_reference", ratio),
    Figure::new("to rocksdb>", "/to_rocksdb", ratio),
];

/// Measures scans of the databases.
pub(super) fn measure(
    arguments: &ColdArguments,
    databases: &Databases<'_>,
) -> Result<Results, Failure> {
    let title = format!(
        "Cold scans with direct reads, {}, in MB of table files per second",
        databases.content.describe()
    );
    let raw = Row { label: "raw".to_owned(), work: Work::RawInOrder };
    let rows: Vec<Row<'_>> = [raw]
        .into_iter()
        .chain(Row::cached(databases))
        .chain(Row::cold(databases, &READINGS))
        .collect();
    let measure = |_: u64, row: &Row<'_>| match row.work {
        Work::RawInOrder => {
            databases.evict()?;
            raw::read_sequentially(&databases.raw_files()?)
        }
        Work::Cached(database) => {
            let store = database.open(Mode::Buffered, Reading::default())?;
            scan(&*store, database, databases.keys)?;
            scan(&*store, database, databases.keys)
        }
        Work::Cold(database, reading) => {
            scan(&*database.open_cold(Mode::Direct, reading)?, database, databases.keys)
        }
        Work::Raw(_) => Err("no such row of scans".into()),
    };
    let measured = measure_rounds(rows, arguments.rounds, &title, measure, relate)?;
    Results::new(title, &COLUMNS, &measured)
}

fn relate(rows: &[Row<'_>], figures: &mut [Figures]) {
    compare_with_rocksdb(rows, figures);
    let rates: Vec<f64> = figures.iter().map(|figures| figures.per_second).collect();
    let rate_of = |is_found: &dyn Fn(&Work<'_>) -> bool| {
        let found = rows.iter().position(|row| is_found(&row.work));
        found.map_or(f64::INFINITY, |at| rates[at])
    };
    let raw = rate_of(&|work| matches!(work, Work::RawInOrder));
    for (row, figures) in rows.iter().zip(figures) {
        if let Work::Cold(database, _) = row.work {
            let cached = rate_of(
                &|work| matches!(work, Work::Cached(cached) if std::ptr::eq(*cached, database)),
            );
            figures.to_reference = Some(figures.per_second / raw.min(cached));
        }
    }
}

fn scan(store: &dyn Store, database: &Database<'_>, keys: u64) -> Result<Figures, Failure> {
    let mut timed = Timed::new()?;
    timed.operation(|| match store.scan(None, Direction::Forward, u64::MAX)?.entries {
        entries if entries == keys => Ok(()),
        entries => Err(format!("the scan visited {entries} of {keys} entries").into()),
    })?;
    Ok(timed.figures(database.table_bytes()?))
}
