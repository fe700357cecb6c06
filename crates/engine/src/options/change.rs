//! Changes options while the database is open.
//!
//! The changed options are adjusted and checked in the same way as when a database is opened. If
//! the check fails, no option changes. Source: `ColumnFamilyData::SetOptions` in
//! `db/column_family.cc` and `DBImpl::SetDBOptions` in `db/db_impl/db_impl.cc`.

use std::path::Path;

use super::as_set::SetOptions;
use super::check::{check_column_family, check_database};
use super::column_family::ColumnFamilyOptions;
use super::database::DbOptions;
use super::error::{Error, Problem, Result};
use super::schema::OptionTable;
use super::tailwater::TailwaterOptions;

/// Returns a column family's options after applying `changes`, each of which is a name and a value,
/// to `options`, which are the options as they were set. `database` are the database's sanitized
/// options. Dots or braces select parts of an option: both `compression_opts={level=3}` and
/// `block_based_table_factory={block_size=8k}` leave the other parts unchanged.
///
/// # Errors
/// For a name that is not a column family option, an option that cannot be changed while the
/// database is open, an invalid value, or a value that is refused.
pub(crate) fn change_column_family(
    options: &ColumnFamilyOptions,
    database: &DbOptions,
    changes: &[(&str, &str)],
) -> Result<SetOptions<ColumnFamilyOptions>> {
    let mut changed = options.clone();
    for &(name, value) in changes {
        if DbOptions::knows(name) || TailwaterOptions::knows(name) {
            return Err(Error::new(name, Problem::Elsewhere("the database's")));
        }
        match name {
            // While the database is open, table options that `value` does not name keep their
            // values. (When a database is opened, they get their defaults.)
            "table_factory" => {
                changed.table_factory.set_named(value).map_err(|error| error.within(name))?;
            }
            _ => changed.set_mutable_option(name, value)?,
        }
    }
    options
        .table_factory
        .check_fixed(&changed.table_factory)
        .map_err(|error| error.within("table_factory"))?;
    let changed = SetOptions::of_family(changed, database);
    check_column_family(&changed.effective, database)?;
    Ok(changed)
}

/// Returns a database's options after applying `changes`, each of which is a name and a value, to
/// `options`, which are the options as they were set. `directory` is the database's home directory.
///
/// # Errors
/// The errors of [`change_column_family`], for database options instead.
pub(crate) fn change_database(
    options: &DbOptions,
    directory: &Path,
    changes: &[(&str, &str)],
) -> Result<SetOptions<DbOptions>> {
    let mut changed = options.clone();
    for &(name, value) in changes {
        if ColumnFamilyOptions::knows(name) {
            return Err(Error::new(name, Problem::Elsewhere("a column family's")));
        }
        let is_other_name = DbOptions::other_names().iter().any(|other| other.name == name)
            || TailwaterOptions::other_names().iter().any(|other| other.name == name);
        if is_other_name {
            return Err(Error::new(name, Problem::Fixed));
        }
        if TailwaterOptions::knows(name) {
            changed.tailwater.set_mutable_option(name, value)?;
        } else {
            changed.set_mutable_option(name, value)?;
        }
    }
    let changed = SetOptions::of_database(changed, directory);
    check_database(&changed.effective)?;
    Ok(changed)
}
