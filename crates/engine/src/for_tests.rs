//! Internals that this crate's integration tests exercise directly. Not part of the public API.

#![allow(missing_docs, reason = "the functions behind these have the documentation")]

use std::path::Path;
use std::sync::MutexGuard;

use tailwater_format::limits::{ENTRY_LENGTH_MAX, lowered};
use tailwater_io::sync::Mutex;

use crate::options::{self, ColumnFamilyOptions, DbOptions, Result};
pub use crate::table::builder::{Builder, FinishedTable, Format, Origin, TableCompression};

pub fn sanitize_database(database: &mut DbOptions, directory: &Path) {
    options::sanitize_database(database, directory);
}

pub fn sanitize_column_family(
    family: &mut ColumnFamilyOptions,
    database: &DbOptions,
    read_only: bool,
) {
    options::sanitize_column_family(family, database, read_only);
}

pub fn check_database(database: &DbOptions) -> Result<()> {
    options::check_database(database)
}

pub fn check_column_family(family: &ColumnFamilyOptions, database: &DbOptions) -> Result<()> {
    options::check_column_family(family, database)
}

pub fn check_for_reading(database: &DbOptions) -> Result<()> {
    options::check_for_reading(database)
}

pub fn change_database(
    database: &DbOptions,
    directory: &Path,
    changes: &[(&str, &str)],
) -> Result<DbOptions> {
    options::change_database(database, directory, changes).map(|changed| changed.effective)
}

pub fn change_column_family(
    family: &ColumnFamilyOptions,
    database: &DbOptions,
    changes: &[(&str, &str)],
) -> Result<ColumnFamilyOptions> {
    options::change_column_family(family, database, changes).map(|changed| changed.effective)
}

/// A lowered maximum length of entries, for the whole process. Only one of these exists at a time:
/// the next test waits until it is dropped.
#[derive(Debug)]
pub struct EntryLimit {
    _alone: MutexGuard<'static, ()>,
}

impl EntryLimit {
    /// Sets the maximum length of a key and its value together.
    pub fn of(bytes: usize) -> Self {
        static ALONE: Mutex<()> = Mutex::new(());
        let limit = Self { _alone: ALONE.lock() };
        limit.set(bytes);
        limit
    }

    /// Changes the maximum.
    pub fn set(&self, bytes: usize) {
        lowered::set_entry_length_max(bytes);
    }
}

impl Drop for EntryLimit {
    fn drop(&mut self) {
        lowered::set_entry_length_max(ENTRY_LENGTH_MAX);
    }
}
