//! A database, opened for writing as the command line says.

use std::path::Path;
use std::sync::Arc;

use tailwater::options::DbOptions;
use tailwater::{ColumnFamily, Db, Error, ErrorKind, OpenOptions, WriteOptions};
use tailwater_format::file_name::FileKind;
use tailwater_io::Storage;

use crate::arguments::{Change, Given};
use crate::database::{column_family, report_opening, storage};
use crate::outcome::{Failure, Outcome, Result};
use crate::output::say;
use crate::settings::Settings;

/// What to do where there is no database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Absent {
    /// Say so.
    Refuse,
    /// Make one, and say so on standard error.
    Make,
}

/// A database that is open for writing.
pub(crate) struct WritableDatabase {
    pub(crate) db: Db,
    /// What it was opened with.
    options: OpenOptions,
    /// Whether it was made just now.
    is_new: bool,
    /// What was found when it was opened.
    outcome: Outcome,
}

impl WritableDatabase {
    /// Opens a database with the options of its OPTIONS file and those `given` over them, takes its
    /// lock, and says on standard error what of it was left out, and what of the options it does
    /// not do.
    ///
    /// # Errors
    /// Not found, where there is none and none is to be made; refused, where another process holds
    /// the lock; those of the options and of the engine.
    pub(crate) fn open(directory: &Path, given: Given<'_>, absent: Absent) -> Result<Self> {
        let storage = storage();
        let is_new = !is_there(&*storage, directory)?;
        let options = match (is_new, absent) {
            (false, _) => existing_options(&storage, directory, given)?,
            (true, Absent::Make) => new_options(&storage, directory, given)?,
            (true, Absent::Refuse) => return Err(not_there(directory)),
        };
        let db = Db::open(directory, &options).map_err(|error| opening(directory, error))?;
        if is_new {
            say(format_args!(
                "tailwater: there was no database in {}: a new one was made",
                directory.display()
            ));
        }
        // A torn tail is mended by opening: what it was is gone.
        let outcome = match report_opening(&db) {
            Outcome::TornTail => Outcome::Well,
            outcome => outcome,
        };
        Ok(Self { db, options, is_new, outcome })
    }

    /// The column family of that name, which is made in a database that was itself made just now.
    pub(crate) fn column_family(&self, name: &str) -> Result<ColumnFamily> {
        if self.is_new { self.column_family_or_new(name) } else { column_family(&self.db, name) }
    }

    /// The column family of that name, which is made if it is not there.
    pub(crate) fn column_family_or_new(&self, name: &str) -> Result<ColumnFamily> {
        match self.db.column_family(name) {
            Err(error) if error.is_not_found() => self.create_column_family(name),
            answer => Ok(answer?),
        }
    }

    /// Makes a column family, with the options that the command line gives.
    pub(crate) fn create_column_family(&self, name: &str) -> Result<ColumnFamily> {
        Ok(self.db.create_column_family(name, self.options.column_family(name))?)
    }

    /// Closes the database.
    pub(crate) fn close(self) -> Result<Outcome> {
        self.db.close()?;
        Ok(self.outcome)
    }
}

/// Opens a database, makes one change to a column family, and closes the database.
pub(crate) fn change_and_close(
    directory: &Path,
    change: &Change,
    absent: Absent,
    make: impl FnOnce(&Db, &ColumnFamily, &WriteOptions) -> tailwater::Result<()>,
) -> Result<Outcome> {
    let database = WritableDatabase::open(directory, change.common.given(), absent)?;
    let family = database.column_family(&change.column_family)?;
    let options = WriteOptions { sync: change.sync, ..WriteOptions::default() };
    make(&database.db, &family, &options)?;
    database.close()
}

/// The options of a database that is there.
pub(crate) fn existing_options(
    storage: &Arc<dyn Storage>,
    directory: &Path,
    given: Given<'_>,
) -> Result<OpenOptions> {
    let filed = Settings::load(storage, directory, Given::default())?.filed;
    let names = Db::list_column_families(directory, &filed)?;
    let mut options = filed.clone();
    // What the file says of databases that are there was said when this one was made.
    options.set_database(DbOptions { error_if_exists: false, ..filed.database().clone() });
    // The file may name column families that were dropped since, or never came to be.
    options.retain_column_families(&names);
    set_given(&mut options, given)?;
    Ok(options)
}

/// The options of a database that is to be made.
///
/// # Errors
/// Refused, where files of a database are, though none that says which count.
fn new_options(
    storage: &Arc<dyn Storage>,
    directory: &Path,
    given: Given<'_>,
) -> Result<OpenOptions> {
    if let Some(name) = orphan(&**storage, directory)? {
        return Err(Failure::Refused(format!(
            "{}: there is no CURRENT, but {name} is of a database: a new one would remove it",
            directory.display()
        )));
    }
    let mut options = Settings::defaults(storage, given)?.effective;
    let database = DbOptions { create_if_missing: true, ..options.database().clone() };
    options.set_database(database);
    Ok(options)
}

fn set_given(options: &mut OpenOptions, given: Given<'_>) -> Result<()> {
    options.set_adopt_directories(given.adopt_directories);
    let Some(text) = given.options else { return Ok(()) };
    let refused = |error: Error| Failure::Usage(format!("--options: {}", error.message()));
    options.set_options(text).map_err(refused)
}

/// Whether a directory has a database.
pub(crate) fn is_there(storage: &dyn Storage, directory: &Path) -> Result<bool> {
    match storage.metadata(&directory.join(FileKind::Current.to_string())) {
        Ok(_) => Ok(true),
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// A file that holds what was written to a database.
fn orphan(storage: &dyn Storage, directory: &Path) -> Result<Option<String>> {
    let entries = match storage.list(directory) {
        Ok(entries) => entries,
        Err(error) if error.is_not_found() => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let holds_data = |name: &str| {
        use FileKind::{Blob, LevelDbTable, Table, Wal};
        matches!(FileKind::parse(name), Some(Blob(_) | LevelDbTable(_) | Table(_) | Wal(_)))
    };
    Ok(entries.into_iter().map(|entry| entry.name).find(|name| holds_data(name)))
}

/// There is no database.
pub(crate) fn not_there(directory: &Path) -> Failure {
    Failure::NotFound(format!("{}: there is no database here", directory.display()))
}

/// Why a database could not be opened.
pub(crate) fn opening(directory: &Path, error: Error) -> Failure {
    match error.kind() {
        ErrorKind::Busy => Failure::Refused(format!(
            "{}: another process has the database open, and holds its lock",
            directory.display()
        )),
        _ => error.into(),
    }
}
