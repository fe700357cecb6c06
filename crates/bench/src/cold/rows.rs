//! The rows of the tables.

use serde::Serialize;

use super::database::{Database, Databases};
use super::figures::Figures;
use super::raw::Raw;
use super::subject::Reading;

/// Label of the row with which the other engines' rows are compared.
const ROCKSDB: &str = "rocksdb";

/// A row of a table.
#[derive(Serialize)]
pub(super) struct Row<'d> {
    pub(super) label: String,
    #[serde(skip)]
    pub(super) work: Work<'d>,
}

/// The measurement of a row.
#[derive(Clone, Copy)]
pub(super) enum Work<'d> {
    /// Raw reads of blocks at random.
    Raw(Raw),
    /// Raw reads of everything in order.
    RawInOrder,
    /// Cold reads by an engine.
    Cold(&'d Database<'d>, Reading),
    /// Reads by an engine from the page cache.
    Cached(&'d Database<'d>),
}

impl<'d> Row<'d> {
    /// Creates the row of raw reads.
    pub(super) fn raw(label: &str, raw: Raw) -> Self {
        Self { label: label.to_owned(), work: Work::Raw(raw) }
    }

    /// Creates the rows of cold reads: each engine with each of its options of reads, given those
    /// without `async_io`.
    pub(super) fn cold(
        databases: &'d Databases<'d>,
        without: &[Reading],
    ) -> impl Iterator<Item = Self> {
        databases.of_engines.iter().flat_map(|database| {
            let row = |reading: Reading| Self {
                label: format!("{}{}", database.engine.name, reading.label()),
                work: Work::Cold(database, reading),
            };
            database.engine.readings(without).into_iter().map(row)
        })
    }

    /// Creates the rows of reads from the page cache: each engine with the default options.
    pub(super) fn cached(databases: &'d Databases<'d>) -> impl Iterator<Item = Self> {
        databases.of_engines.iter().map(|database| Self {
            label: format!("{} from the page cache", database.engine.name),
            work: Work::Cached(database),
        })
    }
}

/// Sets the ratio of each engine's rate to RocksDB's, if that is measured.
pub(super) fn compare_with_rocksdb(rows: &[Row<'_>], figures: &mut [Figures]) {
    let found = rows.iter().position(|row| row.label == ROCKSDB);
    let Some(rate) = found.map(|at| figures[at].per_second) else { return };
    for (row, figures) in rows.iter().zip(figures) {
        if matches!(row.work, Work::Cold(..)) {
            figures.to_rocksdb = Some(figures.per_second / rate);
        }
    }
}
