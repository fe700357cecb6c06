//! Storage that accesses only the directories with which a database was opened.
//!
//! Files are found by path. If a directory is renamed while the database is open and another
//! directory gets its name, the paths refer to files that have the same numbers, but may belong to
//! another database. So before a file is opened, created, renamed or removed in a directory of the
//! database, and before the directory is synced, the guard checks that the path still refers to the
//! directory that was opened.
//!
//! If the LOCK of a directory is removed or replaced, another process can lock a new LOCK, and use
//! the same file numbers. So the guard also checks, before it changes anything in a directory, that
//! all locks are in place. If both LOCK and CURRENT were removed, somebody removed the files of the
//! database, and nobody has opened another one there: the process then continues with the files
//! that it has open, as RocksDB does.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use tailwater_format::file_name::FileKind;
use tailwater_io::{
    Create, DirectoryEntry, FileIdentity, FileLock, IoMode, ListedEntry, Operation, Purpose,
    ReadFile, Result, Storage, WriteFile,
};

use crate::epoch::EpochCell;

/// Wraps a storage. Fails operations in a database's directory if its path no longer refers to the
/// same device and inode, and changes if a lock of the database is no longer in place.
#[derive(Debug)]
pub(crate) struct GuardedStorage {
    files: Arc<dyn Storage>,
    /// The database's own directory.
    home: PathBuf,
    /// The guarded directories. Every opening of a file reads them. They are read without a lock,
    /// so that a user never waits for a background thread here.
    guarded: EpochCell<Vec<GuardedDirectory>>,
}

#[derive(Debug, Clone)]
struct GuardedDirectory {
    path: PathBuf,
    identity: FileIdentity,
    /// The lock on the directory; `None` if no lock is guarded. It cannot be upgraded after the
    /// database has released it.
    lock: Option<Weak<dyn FileLock>>,
}

/// The reason why a call was refused: the path of a directory refers to another directory now.
#[derive(Debug)]
struct Replaced;

impl fmt::Display for Replaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "the directory was renamed or removed while the database was open: close the database, \
             and open it at its new path",
        )
    }
}

impl std::error::Error for Replaced {}

/// The reason why a change was refused: a lock of the database is no longer in place.
#[derive(Debug)]
struct LockLost;

impl fmt::Display for LockLost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "the LOCK of the directory was removed or replaced while the database was open, so \
             another process may have opened the database: close the database, and open it again",
        )
    }
}

impl std::error::Error for LockLost {}

impl GuardedStorage {
    /// Creates a storage that guards the directory at `path`: it fails operations in this directory
    /// if the path no longer refers to the directory with this identity.
    pub(crate) fn new(files: Arc<dyn Storage>, path: &Path, identity: FileIdentity) -> Self {
        let home = GuardedDirectory { path: path.to_owned(), identity, lock: None };
        // In no bin: the database is only being opened, and has no garbage yet.
        let guarded = EpochCell::new(Some(Arc::new(vec![home])));
        Self { files, home: path.to_owned(), guarded }
    }

    /// Guards the directory at `path` and, if given, the lock on it. Must be called by one thread
    /// at a time.
    pub(super) fn guard(
        &self,
        path: &Path,
        identity: FileIdentity,
        lock: Option<&Arc<dyn FileLock>>,
    ) {
        let mut guarded = self.guarded.load_arc().map(|all| (*all).clone()).unwrap_or_default();
        guarded.retain(|directory| directory.path != path);
        let lock = lock.map(Arc::downgrade);
        guarded.push(GuardedDirectory { path: path.to_owned(), identity, lock });
        self.guarded.store(Some(Arc::new(guarded)));
    }

    /// Fails if a lock that the database holds was removed or replaced, unless CURRENT was removed,
    /// too, and for no other reason. A lock in a directory that was renamed moves along with it,
    /// and is in place.
    pub(crate) fn check_locks(&self) -> Result<()> {
        let guarded = self.guarded.load_arc();
        let mut guarded = guarded.iter().flat_map(|guarded| guarded.iter());
        let has_lost = |directory: &&GuardedDirectory| {
            directory.has_lost_lock(&*self.files) && !self.is_abandoned(directory)
        };
        match guarded.find(has_lost) {
            None => Ok(()),
            Some(GuardedDirectory { path, .. }) => {
                let lost = io::Error::other(LockLost);
                Err(tailwater_io::Error::new(Operation::Lock, path, lost))
            }
        }
    }

    /// Whether a directory without the lock has no lock at all, and the database no CURRENT.
    fn is_abandoned(&self, directory: &GuardedDirectory) -> bool {
        let is_gone = |directory: &Path, file: FileKind| {
            let found = self.files.metadata(&directory.join(file.to_string()));
            found.is_err_and(|error| error.is_not_found())
        };
        is_gone(&directory.path, FileKind::Lock) && is_gone(&self.home, FileKind::Current)
    }

    /// Fails if the path of a guarded directory refers to another directory, or to none.
    fn check(&self, operation: Operation, directory: &Path) -> Result<()> {
        let guarded = self.guarded.load_arc();
        let mut guarded = guarded.iter().flat_map(|guarded| guarded.iter());
        match guarded.find(|guarded| guarded.path == directory) {
            Some(guarded) if !guarded.is_at_its_path(&*self.files)? => {
                let replaced = io::Error::other(Replaced);
                Err(tailwater_io::Error::new(operation, directory, replaced))
            }
            _ => Ok(()),
        }
    }

    fn check_parent(&self, operation: Operation, path: &Path) -> Result<()> {
        path.parent().map_or(Ok(()), |directory| self.check(operation, directory))
    }

    /// Fails if the file at `path` must not be created, renamed, linked or removed.
    fn check_change(&self, operation: Operation, path: &Path) -> Result<()> {
        self.check_parent(operation, path)?;
        self.check_locks()
    }
}

impl GuardedDirectory {
    /// Whether the lock is certainly not in place.
    fn has_lost_lock(&self, storage: &dyn Storage) -> bool {
        self.lock.as_ref().and_then(Weak::upgrade).is_some_and(|lock| {
            matches!(lock.is_in_place(), Ok(false))
                && matches!(self.is_at_its_path(storage), Ok(true))
        })
    }

    fn is_at_its_path(&self, storage: &dyn Storage) -> Result<bool> {
        match storage.identity(&self.path) {
            Ok(found) => Ok(found == self.identity),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl Storage for GuardedStorage {
    tailwater_io::forward_storage!(
        files: remove_directory, create_directory, metadata, identity, canonical_path, capabilities,
        resident_pages, lock, statistics,
    );

    fn open(&self, path: &Path, mode: IoMode, purpose: Purpose) -> Result<Arc<dyn ReadFile>> {
        self.check_parent(Operation::Open, path)?;
        self.files.open(path, mode, purpose)
    }

    fn create(
        &self,
        path: &Path,
        create: Create,
        mode: IoMode,
        purpose: Purpose,
    ) -> Result<Box<dyn WriteFile>> {
        self.check_change(Operation::Create, path)?;
        self.files.create(path, create, mode, purpose)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.check_parent(Operation::Rename, from)?;
        self.check_change(Operation::Rename, to)?;
        self.files.rename(from, to)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.check_change(Operation::Remove, path)?;
        self.files.remove(path)
    }

    fn link(&self, existing: &Path, new: &Path) -> Result<()> {
        self.check_parent(Operation::Link, existing)?;
        self.check_change(Operation::Link, new)?;
        self.files.link(existing, new)
    }

    fn list(&self, directory: &Path) -> Result<Vec<DirectoryEntry>> {
        self.check(Operation::List, directory)?;
        self.files.list(directory)
    }

    fn visit_entries(
        &self,
        directory: &Path,
        visit: &mut dyn FnMut(&ListedEntry<'_>) -> Result<()>,
    ) -> Result<()> {
        self.check(Operation::List, directory)?;
        self.files.visit_entries(directory, visit)
    }

    fn sync_directory(&self, directory: &Path) -> Result<()> {
        self.check(Operation::SyncDirectory, directory)?;
        self.check_locks()?;
        self.files.sync_directory(directory)
    }
}
