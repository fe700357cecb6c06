//! Destroys a database: removes every file that certainly belongs to it, and nothing else.
//!
//! # Order
//!
//! 1. The locks are taken, including those of outside directories, and every directory is searched
//!    for files whose owner is unknown. If there are any, nothing is removed.
//! 2. CURRENT is removed first, so that the remains after a crash are not a database.
//! 3. In the outside directories that the database has claimed, the database's files are removed,
//!    and then the claims.
//! 4. The files in the home are removed. The files that identify the database and its claimed
//!    directories are the last of these. LOCK is removed after them, while it is still held, so
//!    that a process waiting for the lock cannot take the directory.
//!
//! A crash between these steps is safe: destroying the database again completes the removal.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tailwater_format::file_name::{ARCHIVE_DIRECTORY, FileKind};
use tailwater_io::{DirectoryEntry, Storage};

use crate::db::Db;
use crate::directory::{
    Directories, Home, Locks, OutsideDirectory, Ownership, durable_id, holds_data, remove_claim,
    sync_parent,
};
use crate::error::{Error, Result};
use crate::open_options::OpenOptions;
use crate::recovery::LOST;
use crate::sst_file_manager::TrackedFiles;
use crate::version::manifest::{self, Manifest};

impl Db {
    /// Removes the database in `directory`: all files that are certainly its own, and directories
    /// that become empty. A missing database is not an error. Files in directories that another
    /// database has claimed are kept.
    ///
    /// # Errors
    /// Busy, if the database is open for writing; invalid argument, if `wal_dir`, `db_paths` or
    /// `cf_paths` name a directory with unclaimed files and [`OpenOptions::set_adopt_directories`]
    /// is not set, in which case nothing is removed; errors from removing files.
    pub fn destroy(directory: impl AsRef<Path>, options: &OpenOptions) -> Result<()> {
        let directory = directory.as_ref();
        let options = options.sanitized(directory, false);
        options.allow_threads();
        destroy(directory, options)
    }
}

/// Removes the database in `directory`, and the directories that become empty.
pub(crate) fn destroy(directory: &Path, mut options: OpenOptions) -> Result<()> {
    let storage = Arc::clone(options.storage());
    let storage = &*storage;
    let home = match Home::at(storage, directory) {
        Err(error) if error.is_not_found() => return Ok(()),
        home => home?,
    };
    options.resolve_paths(&home.path, home.identity)?;
    let lock_path = home.path.join(FileKind::Lock.to_string());
    let lock = storage.lock(&lock_path).map_err(|error| {
        Error::from(error)
            .while_doing("the database is open for writing elsewhere, or cannot be locked")
    })?;
    if options.loads_when_opened() {
        options = options.loaded(&home.path, None)?.sanitized(directory, false);
        options.resolve_paths(&home.path, home.identity)?;
    }
    let id = database_id(storage, &home.path)?;
    let found = Directories::find(storage, home.clone(), &options, &id)?;
    found.check_home(storage)?;
    check_is_home(storage, &found)?;
    let outside = doomed(&found, &options)?;
    let mut locks = Locks::of_home(lock, &home, None);
    outside.iter().try_for_each(|directory| locks.add(storage, directory))?;
    remove_if_there(storage, &home.path.join(FileKind::Current.to_string()))?;
    storage.sync_directory(&home.path)?;
    let files = options.tracked_files(options.storage(), &home.path);
    for directory in outside {
        destroy_outside(&files, &home, directory)?;
    }
    for below in [LOST, ARCHIVE_DIRECTORY] {
        remove_old_logs(storage, &home.path.join(below))?;
    }
    files.remove_destroyed(list_files(storage, &home.path, |kind| !goes_last(kind))?)?;
    // The files that identify the database are only removed when the removal of all other files is
    // durable.
    storage.sync_directory(&home.path)?;
    for path in list_files(storage, &home.path, |kind| kind != FileKind::Lock)? {
        storage.remove(&path)?;
    }
    remove_if_there(storage, &lock_path)?;
    storage.sync_directory(&home.path)?;
    remove_directory(storage, &home.path)?;
    drop(locks);
    Ok(())
}

/// Whether a file of this kind identifies the database and its directories, or is LOCK. Such files
/// are removed after all others.
fn goes_last(kind: FileKind) -> bool {
    matches!(
        kind,
        FileKind::Manifest(_) | FileKind::Identity | FileKind::ClaimedDirectories | FileKind::Lock
    )
}

/// Removes a directory if it is empty.
fn remove_directory(storage: &dyn Storage, directory: &Path) -> Result<()> {
    if storage.remove_directory(directory).is_ok() {
        sync_parent(storage, directory)?;
    }
    Ok(())
}

/// Returns the ID by which the database's claims on directories are recognized, even if other files
/// are damaged or missing.
fn database_id(storage: &dyn Storage, home: &Path) -> Result<String> {
    let number = match manifest::current(storage, home) {
        Ok(number) => Some(number),
        // CURRENT is missing if an earlier attempt to destroy the database was interrupted.
        Err(_) => newest_manifest(storage, home)?,
    };
    let manifest = number.and_then(|number| Manifest::read(storage, home, number).ok());
    let in_manifest = manifest.and_then(|manifest| manifest.database.database_id);
    Ok(durable_id(storage, home, in_manifest.as_deref())?.unwrap_or_default())
}

fn newest_manifest(storage: &dyn Storage, home: &Path) -> Result<Option<u64>> {
    let entries = storage.list(home)?;
    let numbers = entries.iter().filter_map(|entry| match FileKind::parse(&entry.name) {
        Some(FileKind::Manifest(number)) => Some(number),
        _ => None,
    });
    Ok(numbers.max())
}

/// Refuses a directory that contains a MANIFEST or files with data, but no file from which a
/// database ID can be read. Such a directory is not the home of a database that can be destroyed.
fn check_is_home(storage: &dyn Storage, found: &Directories) -> Result<()> {
    let (files, home) = (found.home_files(), &found.home().path);
    let is_readable = |kind| match kind {
        FileKind::Manifest(number) => Manifest::read(storage, home, number).is_ok(),
        FileKind::Current | FileKind::Identity => true,
        _ => false,
    };
    if files.iter().any(is_readable) {
        return Ok(());
    }
    let of_a_database =
        |kind: &FileKind| holds_data(*kind) || matches!(kind, FileKind::Manifest(_));
    match files.iter().find(of_a_database) {
        Some(kind) => {
            let message = format!("there is no database here to destroy, but its file {kind}");
            Err(Error::invalid_argument(message).in_file(home))
        }
        None => Ok(()),
    }
}

/// Returns the directories other than the home whose files are to be removed. Directories that
/// other databases have claimed are not returned.
///
/// # Errors
/// Invalid argument, for a directory with files whose owner is unknown.
fn doomed<'a>(found: &'a Directories, options: &OpenOptions) -> Result<Vec<&'a OutsideDirectory>> {
    // CURRENT is missing if an earlier attempt to destroy the database was interrupted. In an
    // outside directory, that attempt may have removed the database's files and then its claim on
    // the directory, and left only files of other databases. Such a directory without a claim is
    // not refused.
    let is_begun = !found.home_files().has(FileKind::Current);
    let is_nearly_over = found.home_files().iter().all(goes_last);
    let mut doomed = Vec::new();
    for directory in found.outside().iter().filter(|directory| !directory.is_home_of_another()) {
        match &directory.ownership {
            Ownership::Own(_) | Ownership::Adopted(_) => doomed.push(directory),
            Ownership::Unclaimed if options.adopts_directories() => doomed.push(directory),
            Ownership::Unclaimed if is_nearly_over || is_begun && directory.is_recorded => {}
            Ownership::Unclaimed => {
                if let Some(kind) = directory.files.first_with_data() {
                    let message = format!(
                        "{kind} may belong to another database: the directory is not claimed; \
                         open the database once for writing, or adopt the directory \
                         (set_adopt_directories, --adopt-directories)"
                    );
                    return Err(Error::invalid_argument(message).in_file(&directory.path));
                }
            }
            Ownership::Missing | Ownership::Foreign(_) => {}
        }
    }
    Ok(doomed)
}

/// Removes the database's files in a directory outside its home, and the directory if it becomes
/// empty.
fn destroy_outside(files: &TrackedFiles, home: &Home, directory: &OutsideDirectory) -> Result<()> {
    let storage = &**files.storage();
    let path = |kind: FileKind| directory.path.join(kind.to_string());
    files.remove_destroyed(directory.claimable().map(path))?;
    if directory.options.contains(&"wal_dir") {
        remove_old_logs(storage, &directory.path.join(ARCHIVE_DIRECTORY))?;
    }
    storage.sync_directory(&directory.path)?;
    // A crash here is safe: the claim stays until no file of the database is left in the directory.
    remove_claim(storage, home, &directory.path)?;
    remove_directory(storage, &directory.path)
}

/// Removes the logs in `directory`, which is a subdirectory for logs that are no longer needed.
/// Then removes the directory if it is empty. If the directory has a CURRENT file or a claim, it
/// belongs to another database, and nothing is removed.
fn remove_old_logs(storage: &dyn Storage, directory: &Path) -> Result<()> {
    let [current, claim] = [FileKind::Current, FileKind::Claim].map(|kind| kind.to_string());
    match storage.list(directory) {
        Ok(entries) if entries.iter().any(|it| it.name == current || it.name == claim) => {
            return Ok(());
        }
        Ok(_) => {}
        Err(error) if error.is_not_found() => return Ok(()),
        Err(error) => return Err(error.into()),
    }
    for log in list_files(storage, directory, |kind| matches!(kind, FileKind::Wal(_)))? {
        storage.remove(&log)?;
    }
    // Fails if the directory has other contents; it is then kept.
    let _ = storage.remove_directory(directory);
    Ok(())
}

/// Returns the paths of the files in `directory` for whose kind `is_doomed` returns true. The kind
/// is derived from the file name.
fn list_files(
    storage: &dyn Storage,
    directory: &Path,
    is_doomed: impl Fn(FileKind) -> bool,
) -> Result<Vec<PathBuf>> {
    let entries = match storage.list(directory) {
        Ok(entries) => entries,
        Err(error) if error.is_not_found() => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let is_doomed = |entry: &DirectoryEntry| {
        !entry.is_directory && FileKind::parse(&entry.name).is_some_and(&is_doomed)
    };
    let doomed = entries.into_iter().filter(is_doomed);
    Ok(doomed.map(|entry| directory.join(entry.name)).collect())
}

fn remove_if_there(storage: &dyn Storage, path: &Path) -> Result<()> {
    match storage.remove(path) {
        Err(error) if !error.is_not_found() => Err(error.into()),
        _ => Ok(()),
    }
}
