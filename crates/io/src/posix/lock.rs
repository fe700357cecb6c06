//! The lock on a directory, which only one engine can hold.
//!
//! RocksDB takes an `fcntl` write lock on the whole lock file. Such a lock belongs to the process:
//! it is released as soon as the process closes *any* descriptor of the file, and it does not
//! exclude other openings of the file in the same process. The lock taken here belongs to the open
//! file (`F_OFD_SETLK`). It conflicts with RocksDB's lock. Unlike RocksDB's, it also excludes other
//! openings in the same process, is not released when they are closed, and is inherited by child
//! processes.
//!
//! If the database is destroyed, the lock file loses its name. A lock on it then excludes no one,
//! because later openers create a new file. So after a lock is taken, the path must still lead to
//! the locked file. If it does not, the lock is taken again on the new file.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, Stat};
use rustix::io::{Errno, retry_on_intr};

use super::system;
use crate::purpose::IoMode;
use crate::storage::{FileIdentity, FileLock};
use crate::{Error, Operation, Result};

/// Returns the device and inode of a file. The types of these numbers differ between systems.
pub(super) fn file_identity(status: &Stat) -> FileIdentity {
    let (device, inode) = (i128::from(status.st_dev), i128::from(status.st_ino));
    FileIdentity { device: device as u64, inode: inode as u64 }
}

/// A lock that is held until it is dropped.
#[derive(Debug)]
pub(super) struct PosixLock {
    descriptor: OwnedFd,
    path: PathBuf,
    identity: FileIdentity,
}

impl FileLock for PosixLock {
    fn is_in_place(&self) -> Result<bool> {
        leads_to(&self.path, self.identity)
            .map_err(|error| Error::new(Operation::Metadata, &self.path, error))
    }
}

impl Drop for PosixLock {
    fn drop(&mut self) {
        // Release the lock explicitly, because a child process that is just being started may keep
        // the file open for a little longer. If this fails, closing the descriptor releases the
        // lock.
        let _ = system::unlock(self.descriptor.as_fd());
    }
}

impl PosixLock {
    /// Takes the lock on the file at `path`, which is created with `permissions` if it does not
    /// exist. If another process holds the lock, or this process holds it through another opening
    /// of the file, the error is of kind `WouldBlock`.
    pub(super) fn take(path: &Path, permissions: Mode) -> io::Result<Self> {
        loop {
            let flags = OFlags::RDWR | OFlags::CREATE;
            let descriptor = system::open(path, flags, IoMode::Buffered, permissions)?;
            if let Some(lock) = Self::on(descriptor, path)? {
                return Ok(lock);
            }
        }
    }

    /// Takes the lock on an open file. Returns `None` if `path`, at which it was opened, no longer
    /// leads to this file.
    fn on(descriptor: OwnedFd, path: &Path) -> io::Result<Option<Self>> {
        match retry_on_intr(|| system::lock(descriptor.as_fd())) {
            Ok(()) => {}
            Err(Errno::ACCESS | Errno::AGAIN) => {
                let text = "the lock is held by another process, or elsewhere in this one";
                return Err(io::Error::new(io::ErrorKind::WouldBlock, text));
            }
            Err(error) => return Err(error.into()),
        }
        let identity = file_identity(&rustix::fs::fstat(&descriptor)?);
        let is_in_place = leads_to(path, identity)?;
        Ok(is_in_place.then(|| Self { descriptor, path: path.to_owned(), identity }))
    }
}

/// Whether the path leads to the file with this identity.
fn leads_to(path: &Path, identity: FileIdentity) -> io::Result<bool> {
    match retry_on_intr(|| rustix::fs::stat(path)) {
        Ok(status) => Ok(file_identity(&status) == identity),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Returns whether the lock on the file at `path` is held. Neither takes the lock nor creates the
/// file.
pub(super) fn is_held(path: &Path) -> io::Result<bool> {
    match system::open(path, OFlags::RDONLY, IoMode::Buffered, Mode::empty()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        descriptor => Ok(system::is_locked(descriptor?.as_fd())?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression test: after the lock file was removed, one process could lock the removed file
    /// that it had already opened, and another process a new file of the same name.
    #[test]
    fn a_removed_file_cannot_be_locked() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("LOCK");
        let flags = OFlags::RDWR | OFlags::CREATE;
        let open = || system::open(&path, flags, IoMode::Buffered, Mode::RUSR | Mode::WUSR);
        for is_made_again in [false, true] {
            let removed = open().expect("a file");
            rustix::fs::unlink(&path).expect("removing");
            let other = is_made_again
                .then(|| PosixLock::take(&path, Mode::RUSR | Mode::WUSR).expect("the lock"));
            let taken = PosixLock::on(removed, &path);
            assert!(taken.expect("an answer").is_none());
            drop(other);
            drop(PosixLock::take(&path, Mode::RUSR | Mode::WUSR).expect("the lock"));
        }
    }

    /// Regression test: the holder of a lock did not notice that its file was removed or replaced.
    #[test]
    fn a_lock_on_a_removed_file_is_not_in_place() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("LOCK");
        let lock = PosixLock::take(&path, Mode::RUSR | Mode::WUSR).expect("the lock");
        assert!(lock.is_in_place().expect("a status"));
        rustix::fs::unlink(&path).expect("removing");
        assert!(!lock.is_in_place().expect("a status"));
        let other =
            PosixLock::take(&path, Mode::RUSR | Mode::WUSR).expect("the lock on a new file");
        assert!(!lock.is_in_place().expect("a status"));
        assert!(other.is_in_place().expect("a status"));
    }

    /// Regression test: a lock stayed held after its release if a child process also had the file
    /// open.
    #[test]
    fn a_released_lock_is_free_despite_other_descriptors() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("LOCK");
        let lock = PosixLock::take(&path, Mode::RUSR | Mode::WUSR).expect("the lock");
        let also_open = lock.descriptor.try_clone().expect("another descriptor");
        assert!(PosixLock::take(&path, Mode::RUSR | Mode::WUSR).is_err());
        drop(lock);
        drop(PosixLock::take(&path, Mode::RUSR | Mode::WUSR).expect("the lock"));
        drop(also_open);
    }
}
