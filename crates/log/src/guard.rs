//! Notices that the LOCK of a log was removed or replaced, and then changes nothing any more.
//!
//! Another process can then open the log. It continues the segments and journals at the positions
//! at which this process would continue them. Nothing prevents that process from opening the log.
//! But this process checks, before each change of a file or a directory, whether its lock is in
//! place, and an append checks it if the last check is [`CHECK_INTERVAL_NS`] ago. Once the lock was
//! not in place, all changes and appends fail until the log is opened again.

use std::fmt;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use tailwater_io::{
    Capabilities, Clock, Create, DirectoryEntry, Error, FileIdentity, FileLock, FileMetadata,
    IoMode, ListedEntry, Operation, Purpose, ReadFile, Result, Statistics, Storage, WriteFile,
};

use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Time after which an append checks the lock again, in nanoseconds. A check takes about a
/// microsecond.
const CHECK_INTERVAL_NS: u64 = 10_000_000;

/// The lock on a log's directory, as the log checks it.
#[derive(Debug)]
pub(crate) struct LockGuard {
    /// The lock. It cannot be upgraded after the log has released it.
    lock: Weak<dyn FileLock>,
    path: PathBuf,
    is_lost: AtomicBool,
    /// The coarse time from which on the next append checks the lock.
    check_due_ns: AtomicU64,
}

/// The reason why a change was refused.
#[derive(Debug)]
enum Refused {
    Lost,
    Released,
    OnlyInspected,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lost => {
                "the LOCK was removed or replaced, or its directory was renamed, while the log was \
                 open, so another process may have opened the log: close the log, make sure that \
                 no other process uses the directory, and open it again"
            }
            Self::Released => "the log was closed",
            Self::OnlyInspected => "the log is only inspected",
        })
    }
}

impl std::error::Error for Refused {}

impl LockGuard {
    /// Creates a guard of a lock that was taken on the file at `path`.
    pub(crate) fn new(lock: &Arc<dyn FileLock>, path: PathBuf) -> Arc<Self> {
        Arc::new(Self {
            lock: Arc::downgrade(lock),
            path,
            is_lost: AtomicBool::new(false),
            check_due_ns: AtomicU64::new(0),
        })
    }

    /// Creates a guard that refuses every change, for a log that is only inspected.
    pub(crate) fn refusing() -> Arc<Self> {
        #[derive(Debug)]
        struct NoLock;
        impl FileLock for NoLock {}
        let lock = Weak::<NoLock>::new();
        let path = PathBuf::new();
        let (is_lost, check_due_ns) = (AtomicBool::new(false), AtomicU64::new(0));
        Arc::new(Self { lock, path, is_lost, check_due_ns })
    }

    /// Checks the lock. Fails if it is, or was at an earlier check, not in place, and for no other
    /// reason: if the check itself fails, the lock counts as in place.
    pub(crate) fn check(&self) -> Result<()> {
        if self.is_lost.load(Ordering::Acquire) {
            return Err(self.refuse(Refused::Lost));
        }
        let Some(lock) = self.lock.upgrade() else {
            let is_inspected = self.path.as_os_str().is_empty();
            let refused = if is_inspected { Refused::OnlyInspected } else { Refused::Released };
            return Err(self.refuse(refused));
        };
        if matches!(lock.is_in_place(), Ok(false)) {
            self.is_lost.store(true, Ordering::Release);
            return Err(self.refuse(Refused::Lost));
        }
        Ok(())
    }

    /// Like [`Self::check`], for an append: checks only if the last check is a while ago.
    #[inline]
    pub(crate) fn check_if_due(&self, clock: &dyn Clock) -> Result<()> {
        let now_ns = clock.coarse_monotonic_ns();
        let is_due = now_ns >= self.check_due_ns.load(Ordering::Relaxed);
        if !is_due && !self.is_lost.load(Ordering::Acquire) {
            return Ok(());
        }
        self.check_due_ns.store(now_ns + CHECK_INTERVAL_NS, Ordering::Relaxed);
        self.check()
    }

    #[cold]
    fn refuse(&self, refused: Refused) -> Error {
        Error::new(Operation::Lock, &self.path, io::Error::other(refused))
    }
}

/// Wraps the storage of a log. Reads pass; changes fail if the lock is not in place.
#[derive(Debug)]
pub(crate) struct GuardedStorage {
    files: Arc<dyn Storage>,
    guard: Arc<LockGuard>,
}

impl GuardedStorage {
    pub(crate) fn new(files: Arc<dyn Storage>, guard: &Arc<LockGuard>) -> Arc<Self> {
        Arc::new(Self { files, guard: Arc::clone(guard) })
    }
}

impl Storage for GuardedStorage {
    fn open(&self, path: &Path, mode: IoMode, purpose: Purpose) -> Result<Arc<dyn ReadFile>> {
        self.files.open(path, mode, purpose)
    }

    fn create(
        &self,
        path: &Path,
        create: Create,
        mode: IoMode,
        purpose: Purpose,
    ) -> Result<Box<dyn WriteFile>> {
        self.guard.check()?;
        let file = self.files.create(path, create, mode, purpose)?;
        Ok(Box::new(GuardedFile { file, guard: Arc::clone(&self.guard) }))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.guard.check()?;
        self.files.rename(from, to)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.guard.check()?;
        self.files.remove(path)
    }

    fn remove_directory(&self, path: &Path) -> Result<()> {
        self.guard.check()?;
        self.files.remove_directory(path)
    }

    fn link(&self, existing: &Path, new: &Path) -> Result<()> {
        self.guard.check()?;
        self.files.link(existing, new)
    }

    fn list(&self, directory: &Path) -> Result<Vec<DirectoryEntry>> {
        self.files.list(directory)
    }

    fn visit_entries(
        &self,
        directory: &Path,
        visit: &mut dyn FnMut(&ListedEntry<'_>) -> Result<()>,
    ) -> Result<()> {
        self.files.visit_entries(directory, visit)
    }

    fn create_directory(&self, path: &Path) -> Result<()> {
        self.guard.check()?;
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
        self.guard.check()?;
        self.files.sync_directory(directory)
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        self.files.lock(path)
    }

    fn statistics(&self) -> &Statistics {
        self.files.statistics()
    }
}

/// A file of a log. Each change of it first checks the lock.
#[derive(Debug)]
struct GuardedFile {
    file: Box<dyn WriteFile>,
    guard: Arc<LockGuard>,
}

impl WriteFile for GuardedFile {
    fn write_at(&mut self, bytes: &[u8], offset: u64, purpose: Purpose) -> Result<usize> {
        self.guard.check()?;
        self.file.write_at(bytes, offset, purpose)
    }

    fn write_vectored_at(
        &mut self,
        parts: &[IoSlice<'_>],
        offset: u64,
        is_durable: bool,
        purpose: Purpose,
    ) -> Result<()> {
        self.guard.check()?;
        self.file.write_vectored_at(parts, offset, is_durable, purpose)
    }

    fn write_durably_at(&mut self, bytes: &[u8], offset: u64, purpose: Purpose) -> Result<()> {
        self.guard.check()?;
        self.file.write_durably_at(bytes, offset, purpose)
    }

    fn sync_data(&mut self, purpose: Purpose) -> Result<()> {
        self.guard.check()?;
        self.file.sync_data(purpose)
    }

    fn sync_all(&mut self, purpose: Purpose) -> Result<()> {
        self.guard.check()?;
        self.file.sync_all(purpose)
    }

    fn truncate(&mut self, length: u64) -> Result<()> {
        self.guard.check()?;
        self.file.truncate(length)
    }

    fn allocate(&mut self, offset: u64, length: u64) -> Result<()> {
        self.guard.check()?;
        self.file.allocate(offset, length)
    }

    fn start_writeback(&mut self, offset: u64, length: u64) -> Result<()> {
        self.file.start_writeback(offset, length)
    }

    fn length(&self) -> Result<u64> {
        self.file.length()
    }

    fn path(&self) -> &Path {
        self.file.path()
    }

    fn mode(&self) -> IoMode {
        self.file.mode()
    }

    fn alignment(&self) -> usize {
        self.file.alignment()
    }
}
