//! Storage that accesses only the directories with which a database was opened.
//!
//! Files are found by path. If a directory is renamed while the database is open and another
//! directory gets its name, the paths refer to files that have the same numbers, but may belong to
//! another database. So before a file is opened, created, renamed or removed in a directory of the
//! database, and before the directory is synced, the guard checks that the path still refers to the
//! directory that was opened.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tailwater_io::{
    Capabilities, Create, DirectoryEntry, FileIdentity, FileLock, FileMetadata, IoMode,
    ListedEntry, Operation, Purpose, ReadFile, Result, Statistics, Storage, WriteFile,
};

use crate::epoch::EpochCell;

/// Wraps a storage. Fails operations in a database's directory if its path no longer refers to the
/// same device and inode.
#[derive(Debug)]
pub(crate) struct GuardedStorage {
    files: Arc<dyn Storage>,
    /// The paths and identities of the guarded directories. Every opening of a file reads them.
    /// They are read without a lock, so that a user never waits for a background thread here.
    guarded: EpochCell<Vec<(PathBuf, FileIdentity)>>,
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

impl GuardedStorage {
    /// Creates a storage that guards the directory at `path`: it fails operations in this directory
    /// if the path no longer refers to the directory with this identity.
    pub(crate) fn new(files: Arc<dyn Storage>, path: &Path, identity: FileIdentity) -> Self {
        Self { files, guarded: EpochCell::new(Some(Arc::new(vec![(path.to_owned(), identity)]))) }
    }

    /// Also guards the directory at `path`. Must be called by one thread at a time.
    pub(super) fn guard(&self, path: &Path, identity: FileIdentity) {
        let mut guarded = self.guarded.load_arc().map(|all| (*all).clone()).unwrap_or_default();
        guarded.push((path.to_owned(), identity));
        self.guarded.store(Some(Arc::new(guarded)));
    }

    /// Fails if the path of a guarded directory refers to another directory, or to none.
    fn check(&self, operation: Operation, directory: &Path) -> Result<()> {
        let expected = self.guarded.load_arc().and_then(|guarded| {
            guarded.iter().find(|(path, _)| path == directory).map(|(_, identity)| *identity)
        });
        let Some(expected) = expected else { return Ok(()) };
        match self.files.identity(directory) {
            Ok(found) if found == expected => Ok(()),
            Err(error) if !error.is_not_found() => Err(error),
            _ => Err(tailwater_io::Error::new(operation, directory, io::Error::other(Replaced))),
        }
    }

    fn check_parent(&self, operation: Operation, path: &Path) -> Result<()> {
        path.parent().map_or(Ok(()), |directory| self.check(operation, directory))
    }
}

impl Storage for GuardedStorage {
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
        self.check_parent(Operation::Create, path)?;
        self.files.create(path, create, mode, purpose)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.check_parent(Operation::Rename, from)?;
        self.check_parent(Operation::Rename, to)?;
        self.files.rename(from, to)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.check_parent(Operation::Remove, path)?;
        self.files.remove(path)
    }

    fn remove_directory(&self, path: &Path) -> Result<()> {
        self.files.remove_directory(path)
    }

    fn link(&self, existing: &Path, new: &Path) -> Result<()> {
        self.check_parent(Operation::Link, existing)?;
        self.check_parent(Operation::Link, new)?;
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

    fn create_directory(&self, path: &Path) -> Result<()> {
        self.files.create_directory(path)
    }

    fn metadata(&self, path: &Path) -> Result<FileMetadata> {
        self.files.metadata(path)
    }

    fn identity(&self, path: &Path) -> Result<FileIdentity> {
        self.files.identity(path)
    }

    fn canonical_path(&self, path: &Path) -> Result<PathBuf> {
        self.files.canonical_path(path)
    }

    fn capabilities(&self, path: &Path) -> Result<Capabilities> {
        self.files.capabilities(path)
    }

    fn resident_pages(&self, path: &Path) -> Result<Option<u64>> {
        self.files.resident_pages(path)
    }

    fn sync_directory(&self, directory: &Path) -> Result<()> {
        self.check(Operation::SyncDirectory, directory)?;
        self.files.sync_directory(directory)
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        self.files.lock(path)
    }

    fn statistics(&self) -> &Statistics {
        self.files.statistics()
    }
}
