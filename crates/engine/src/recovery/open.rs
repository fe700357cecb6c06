//! Opening for writing: the last step of recovery.
//!
//! # Order
//!
//! 1. The LOCK is taken before anything is read, so that no other process writes while the database
//!    is opened. If the options are to be loaded from the OPTIONS file, it is also read under the
//!    LOCK.
//! 2. If requested, a database is created in a directory that has none. A directory with a database
//!    that lost its CURRENT file is refused.
//! 3. The MANIFEST is read, every file that it lists is located, and the logs are replayed into
//!    memtables. Until all files have been found, only the LOCK and the LOG are written.
//! 4. Directories outside the home are claimed. A new MANIFEST is written with the state that was
//!    read; it does not contain what was replayed from the logs. Damaged logs are linked into the
//!    folder `lost`, because the parts of them that cannot be read will not be in any table.
//! 5. A new log is begun, and the memtables are flushed. One atomic group of edits adds the tables
//!    of all column families and records that no older log is needed. After a crash, either all of
//!    these edits are in effect or none is. With `avoid_flush_during_recovery`, and if all old logs
//!    are intact, the old logs are synced and kept instead of flushing the memtables. If the
//!    contents of the old logs exceed the limit of a write buffer manager, the logs are replayed
//!    again here, and flushed in parts (see `second_replay`).
//! 6. Files that nothing refers to are removed.
//! 7. The caller of [`open`] creates requested column families that are missing, and writes the
//!    OPTIONS file.
//!
//! A crash before the end of step 5 is safe: all old logs still exist, and the next opening replays
//! them again.

use std::path::Path;
use std::sync::Arc;

use tailwater_format::file_name::FileKind;
use tailwater_io::{FileLock, Purpose, Storage};

use super::new_database::create_database;
use super::{FilesFound, ManifestRead, Unrecovered, warnings};

use super::recovered::Recovered;
use crate::directory::{
    Directories, Files, GuardedStorage, Home, Locks, create_directory, new_identity,
};
use crate::error::{Error, ErrorKind, Result};
use crate::io_modes::OF_TABLES;
use crate::open_options::OpenOptions;
use crate::options::{check_column_family, check_database};
use crate::stats::InfoLog;
use crate::version::manifest;

/// Recovers the database in `directory` for writing: steps 1 to 6 of the module documentation.
///
/// # Errors
/// The errors of [`crate::Db::open`].
pub(crate) fn open(directory: &Path, options: &OpenOptions) -> Result<Recovered> {
    let mut options = checked(directory, options)?;
    let storage = Arc::clone(options.storage());
    if options.database().create_if_missing {
        create_directory(&*storage, directory)?;
    }
    let home = Home::at(&*storage, directory)
        .map_err(|error| if error.is_not_found() { not_created(directory) } else { error })?;
    options.resolve_paths(&home.path, home.identity)?;
    let guard = Arc::new(GuardedStorage::new(storage, &home.path, home.identity));
    let storage = options.limiting_reads(Arc::clone(&guard) as _);
    options.set_storage(Arc::clone(&storage));
    let (lock, is_new) = lock_and_create(&*storage, &home, &options)?;
    let locks = Locks::of_home(lock, &home, Some(Arc::clone(&guard)));
    if !is_new && options.loads_when_opened() {
        options = checked(directory, &options.loaded_for_writing(&home.path)?)?;
        options.resolve_paths(&home.path, home.identity)?;
    }
    // The home directory is listed only once, here, because a listing takes long if there are very
    // many tables.
    let home_files = Files::list_with_lengths(&*storage, &home.path)?;
    let (clock, elsewhere) = (options.clock(), options.info_log_directory());
    let database = options.database();
    let old_logs = home_files.old_info_logs().collect();
    let info_log = InfoLog::begin(&storage, clock, &home.path, old_logs, elsewhere, database)?;
    let info_log = Arc::new(info_log);
    let refused = |error: &Error| {
        info_log.error(format_args!("the database cannot be opened: {error}"));
    };
    let unrecovered = Unrecovered::for_writing(home, home_files, options);
    let mut found =
        unrecovered.read_manifest().and_then(ManifestRead::find_files).inspect_err(refused)?;
    found.check_objects().inspect_err(refused)?;
    found.prepare_directories(&info_log).inspect_err(refused)?;
    let replayed = found.replay_logs().inspect_err(refused)?;
    warnings::report_left_out(&info_log, &replayed.left_out);
    replayed.warnings.iter().for_each(|warning| info_log.warn(format_args!("{warning}")));
    replayed.recover(guard, locks, info_log, is_new)
}

/// Returns a sanitized copy of the options, or an error if they contradict each other or request
/// unsupported features.
fn checked(directory: &Path, options: &OpenOptions) -> Result<OpenOptions> {
    let options = options.sanitized(directory, false);
    check_database(options.database())?;
    for name in options.column_families().chain(["default"]) {
        check_column_family(options.column_family(name), options.database()).map_err(|error| {
            Error::from(error).while_doing(format_args!("column family '{name}'"))
        })?;
    }
    options.allow_threads();
    Ok(options)
}

impl FilesFound {
    /// Refuses options that name unregistered objects, unless the database's OPTIONS file names
    /// them, too.
    fn check_objects(&mut self) -> Result<()> {
        let Unrecovered { home, options, .. } = &mut self.unrecovered;
        // Column families that the options name and the database does not have may be created.
        let named = options.column_families().map(|name| (name, options.column_family(name)));
        let existing = self.families.iter().map(|family| (family.name.as_str(), &family.options));
        let misses = |(name, family)| options.missing_objects(name, family).next().is_some();
        if existing.chain(named).any(misses) {
            options.record_objects(&home.path);
        }
        self.families
            .iter()
            .try_for_each(|family| options.check_objects(&family.name, &family.options))
    }

    /// Creates missing directories, because the options may name new ones. Then tests in each
    /// directory which I/O modes work. Logs all modes, and adds a warning for each mode that
    /// differs from the requested one.
    fn prepare_directories(&mut self, info_log: &InfoLog) -> Result<()> {
        let Self { unrecovered, warnings, .. } = self;
        let Unrecovered { home, storage, options, io_modes, .. } = unrecovered;
        self.directories.create(&**storage)?;
        let home = &home.path;
        for tables in options.all_table_directories(home) {
            warnings.extend(io_modes.try_in(&**storage, &tables, &OF_TABLES)?);
        }
        let logs = options.wal_directory(home);
        warnings.extend(io_modes.try_in(&**storage, &logs, &[Purpose::Wal])?);
        for line in io_modes.text().lines() {
            info_log.info(format_args!("I/O mode of {line}"));
        }
        warnings.extend(warnings::of_direct_reads(options.database()));
        Ok(())
    }
}

/// Takes the LOCK. If there is no database in `home` and `create_if_missing` is set, creates one.
/// Returns the LOCK, and whether a database was created.
fn lock_and_create(
    storage: &dyn Storage,
    home: &Home,
    options: &OpenOptions,
) -> Result<(Box<dyn FileLock>, bool)> {
    let database = options.database();
    if !has_current(storage, home)? && !database.create_if_missing {
        return Err(not_created(&home.path));
    }
    let lock = storage.lock(&home.path.join(FileKind::Lock.to_string())).map_err(|error| {
        Error::from(error)
            .while_doing("the database is open for writing elsewhere, or cannot be locked")
    })?;
    // Whether a database exists is checked again, because another process may have created one
    // before the LOCK was taken.
    let is_there = has_current(storage, home)?;
    if is_there && database.error_if_exists {
        let message = "there is a database here, and error_if_exists is true";
        return Err(Error::invalid_argument(message).in_file(&home.path));
    }
    if !is_there {
        for name in options.column_families().chain(["default"]) {
            options.check_objects(name, options.column_family(name))?;
        }
        let id = new_identity();
        let is_durable = database.write_identity_file || database.write_dbid_to_manifest;
        let durable_id = if is_durable { id.as_str() } else { "" };
        // A former database in this home may have claimed other directories. Its claims are
        // checked.
        let directories = Directories::find(storage, home.clone(), options, durable_id)?;
        directories.check_for_new(storage)?;
        create_database(storage, &home.path, options, id)?;
    }
    Ok((lock, !is_there))
}

fn has_current(storage: &dyn Storage, home: &Home) -> Result<bool> {
    match manifest::current(storage, &home.path) {
        Ok(_) => Ok(true),
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) => Err(error),
    }
}

fn not_created(directory: &Path) -> Error {
    let message = "there is no database here, and create_if_missing is false";
    Error::new(ErrorKind::NotFound, message).in_file(directory)
}
