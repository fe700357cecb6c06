//! Internals that this crate's integration tests exercise directly. Not part of the public API.

#![allow(missing_docs, reason = "the functions behind these have the documentation")]

use std::path::Path;

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
