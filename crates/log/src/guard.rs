//! Notices that the LOCK of a log was removed or replaced, and then changes nothing any more.
//!
//! Another process can then open the log. It continues the segments and journals at the positions
//! at which this process would continue them. Nothing prevents that process from opening the log.
//! But this process checks, before each change of a file or a directory, whether its lock is in
//! place, and an append checks it if the last check is [`CHECK_INTERVAL_NS`] ago. Once the lock was
//! not in place, all changes and appends fail until the log is opened again.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use tailwater_io::{
    Clock, Create, Error, FileLock, IoMode, Operation, Purpose, Result, Storage, WriteFile,
};

use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Time after which an append checks the lock again, in nanoseconds. A check takes about a
/// microsecond.
const CHECK_INTERVAL_NS: u64 = 10_000_000;

/// The lock on a log's directory, as the log checks it.
#[derive(Debug)]
pub(crate) struct LockGuard {
    /// The lock; `None` if the log is only inspected. It cannot be upgraded after the log has
    /// released it.
    lock: Option<Weak<dyn FileLock>>,
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
        Self::of(Some(Arc::downgrade(lock)), path)
    }

    /// Creates a guard that refuses every change, for a log that is only inspected.
    pub(crate) fn refusing() -> Arc<Self> {
        Self::of(None, PathBuf::new())
    }

    fn of(lock: Option<Weak<dyn FileLock>>, path: PathBuf) -> Arc<Self> {
        let (is_lost, check_due_ns) = (AtomicBool::new(false), AtomicU64::new(0));
        Arc::new(Self { lock, path, is_lost, check_due_ns })
    }

    /// Checks the lock. Fails if it is, or was at an earlier check, not in place, and for no other
    /// reason: if the check itself fails, the lock counts as in place.
    pub(crate) fn check(&self) -> Result<()> {
        if self.is_lost.load(Ordering::Acquire) {
            return Err(self.refuse(Refused::Lost));
        }
        let Some(lock) = &self.lock else { return Err(self.refuse(Refused::OnlyInspected)) };
        let Some(lock) = lock.upgrade() else { return Err(self.refuse(Refused::Released)) };
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

    /// Checks the lock, and returns the storage for a change of it.
    fn checked(&self) -> Result<&dyn Storage> {
        self.guard.check()?;
        Ok(&*self.files)
    }
}

impl Storage for GuardedStorage {
    tailwater_io::forward_storage!(
        files: open, list, visit_entries, metadata, identity, canonical_path, capabilities,
        resident_pages, lock, statistics,
    );
    tailwater_io::forward_storage!(
        checked()?: rename, copy_ownership, remove, remove_directory, link, create_directory,
        sync_directory,
    );

    fn create(
        &self,
        path: &Path,
        create: Create,
        mode: IoMode,
        purpose: Purpose,
    ) -> Result<Box<dyn WriteFile>> {
        let file = self.checked()?.create(path, create, mode, purpose)?;
        Ok(Box::new(GuardedFile { file, guard: Arc::clone(&self.guard) }))
    }
}

/// A file of a log. Each change of it first checks the lock.
#[derive(Debug)]
struct GuardedFile {
    file: Box<dyn WriteFile>,
    guard: Arc<LockGuard>,
}

impl GuardedFile {
    /// Checks the lock, and returns the file for a change of it.
    fn checked(&mut self) -> Result<&mut dyn WriteFile> {
        self.guard.check()?;
        Ok(&mut *self.file)
    }
}

impl WriteFile for GuardedFile {
    tailwater_io::forward_write_file!(file: start_writeback, length, path, mode, alignment);
    tailwater_io::forward_write_file!(
        checked()?: write_at, write_vectored_at, write_durably_at, sync_data, sync_all, truncate,
        allocate,
    );
}
