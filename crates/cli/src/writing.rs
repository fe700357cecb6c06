//! A database opened for writing, with the options of the command line.

use std::path::Path;

use tailwater::{ColumnFamily, Db, Error, ErrorKind, OpenOptions, WriteOptions};
use tailwater_format::file_name::FileKind;
use tailwater_io::Storage;

use crate::arguments::{Change, Creation, Place};
use crate::database::{column_family, report_opening};
use crate::files::storage;
use crate::outcome::{Failure, Outcome, Result};
use crate::output::say;
use crate::settings::Settings;

/// The action to take if there is no database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Absent {
    /// Report an error: the verb never creates a database.
    Refuse,
    /// Report an error that names the argument `--create`.
    AskForCreate,
    /// Create a database, and say so on standard error.
    Create,
}

impl From<&Creation> for Absent {
    fn from(creation: &Creation) -> Self {
        if creation.create { Self::Create } else { Self::AskForCreate }
    }
}

/// A database that is open for writing.
pub(crate) struct WritableDatabase {
    pub(crate) db: Db,
    /// Options of new column families: the defaults, overridden by the options of the command line.
    options: OpenOptions,
    /// The outcome of recovery when the database was opened.
    outcome: Outcome,
}

impl WritableDatabase {
    /// Opens a database with the options of its OPTIONS file, overridden by those of the command
    /// line, and takes its lock. Those of column families override the options of `family` or, if
    /// it is `None`, of all column families. Reports on standard error what recovery left out, and
    /// which options are not supported.
    ///
    /// # Errors
    /// Not found, if there is no database and `absent` does not allow creating one; refused, if
    /// another process holds the lock; errors from the options and the engine.
    pub(crate) fn open(place: &Place, absent: Absent, family: Option<&str>) -> Result<Self> {
        let Place { directory, common } = place;
        check_presence(directory, absent)?;
        let options = Settings::defaults(common)?.effective;
        let over = common.options.as_deref().unwrap_or_default();
        // The OPTIONS file is read by `Db::open` under the database's lock, when no other process
        // can change it.
        let mut opened = options.clone();
        opened.database_mut().create_if_missing = absent == Absent::Create;
        match family {
            None => opened.set_load_when_opened(over),
            Some(family) => {
                // A new database has only the column family `default`.
                if family != "default" {
                    *opened.other_column_families_mut() = Default::default();
                }
                opened.set_load_when_opened_for(family, over)
            }
        };
        let db = Db::open(directory, &opened).map_err(|error| opening(directory, error))?;
        if db.is_new() {
            say(format_args!(
                "tailwater: no database in {}: a new one was created",
                directory.display()
            ));
        }
        // Opening for writing removes a torn tail, so it is no longer a problem.
        let outcome = match report_opening(&db) {
            Outcome::TornTail => Outcome::Well,
            outcome => outcome,
        };
        Ok(Self { db, options, outcome })
    }

    /// Returns the column family with this name. If the database was created by this run, creates
    /// the column family, too.
    pub(crate) fn column_family(&self, name: &str) -> Result<ColumnFamily> {
        if self.db.is_new() {
            self.column_family_or_new(name)
        } else {
            column_family(&self.db, name)
        }
    }

    /// Returns the column family with this name. If it does not exist, creates it.
    pub(crate) fn column_family_or_new(&self, name: &str) -> Result<ColumnFamily> {
        match self.db.cf_handle(name) {
            Err(error) if error.is_not_found() => self.create_column_family(name),
            answer => Ok(answer?),
        }
    }

    /// Creates a column family, with the options of the command line.
    pub(crate) fn create_column_family(&self, name: &str) -> Result<ColumnFamily> {
        Ok(self.db.create_cf(name, self.options.column_family(name))?)
    }

    /// Closes the database. Returns the outcome that recovery had when the database was opened.
    pub(crate) fn close(self) -> Result<Outcome> {
        self.db.close()?;
        Ok(self.outcome)
    }
}

/// Opens a database, makes one change to a column family, and closes the database.
pub(crate) fn change_and_close(
    place: &Place,
    change: &Change,
    absent: Absent,
    make: impl FnOnce(&Db, &ColumnFamily, &WriteOptions) -> tailwater::Result<()>,
) -> Result<Outcome> {
    let database = WritableDatabase::open(place, absent, Some(&change.column_family))?;
    let family = database.column_family(&change.column_family)?;
    let options = WriteOptions::new().with_sync(change.sync);
    make(&database.db, &family, &options)?;
    database.close()
}

/// Returns an error if a directory has no database, unless one may be created there. A database
/// that lost its CURRENT counts as missing, and none may be created in its directory.
pub(crate) fn check_presence(directory: &Path, absent: Absent) -> Result<()> {
    let storage = &*storage();
    if is_there(storage, directory)? {
        return Ok(());
    }
    match (orphan(storage, directory)?, absent) {
        (Some(name), _) => Err(Failure::NotFound(format!(
            "{}: there is no CURRENT, but {name} belongs to a database",
            directory.display()
        ))),
        (None, Absent::Create) => Ok(()),
        (None, Absent::Refuse) => Err(not_there(directory)),
        (None, Absent::AskForCreate) => {
            Err(Failure::NotFound(format!("{}; --create creates one", not_there(directory))))
        }
    }
}

/// Returns whether a directory contains a database, that is, a file CURRENT.
fn is_there(storage: &dyn Storage, directory: &Path) -> Result<bool> {
    match storage.metadata(&directory.join(FileKind::Current.to_string())) {
        Ok(_) => Ok(true),
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Returns the name of a table, blob file or log in a directory; `None` if it has none.
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

/// Returns the error for a missing database.
pub(crate) fn not_there(directory: &Path) -> Failure {
    Failure::NotFound(format!("{}: there is no database here", directory.display()))
}

/// Converts an error from opening a database. If another process holds the lock, the message says
/// so.
pub(crate) fn opening(directory: &Path, error: Error) -> Failure {
    match error.kind() {
        ErrorKind::Busy => Failure::Refused(format!(
            "{}: another process has the database open, and holds its lock",
            directory.display()
        )),
        _ => error.into(),
    }
}
