//! The lock that keeps a second engine out of a directory.
//!
//! RocksDB takes an `fcntl` write lock on the whole file, which belongs to a process: it is dropped
//! as soon as the process closes *any* descriptor of the file, and does not exclude the process
//! itself. The lock taken here belongs to the open file (`F_OFD_SETLK`). It and RocksDB's exclude
//! each other. It also excludes other users in the process, is not released when they read the
//! file, and is inherited by child processes.
//!
//! A lock on a file that has lost its name, because the database was destroyed, excludes no one:
//! later openers create a new file. So a lock counts only if the path still leads to the locked
//! file after it was taken.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{OFlags, Stat};
use rustix::io::{Errno, retry_on_intr};

use super::system;
use crate::purpose::IoMode;
use crate::storage::{FileIdentity, FileLock};

/// Returns the device and inode of a file, whose types differ between systems.
pub(super) fn file_identity(status: &Stat) -> FileIdentity {
    let (device, inode) = (i128::from(status.st_dev), i128::from(status.st_ino));
    FileIdentity { device: device as u64, inode: inode as u64 }
}

/// A held lock.
#[derive(Debug)]
pub(super) struct PosixLock {
    descriptor: OwnedFd,
}

impl FileLock for PosixLock {}

impl Drop for PosixLock {
    fn drop(&mut self) {
        // A child process that is being started may have the file open slightly longer, so the lock
        // is released explicitly. If that fails, closing the descriptor releases it.
        let _ = system::unlock(self.descriptor.as_fd());
    }
}

impl PosixLock {
    /// Takes the lock on `path`, which is created if it does not exist. The error is of kind
    /// `WouldBlock` if the lock is held.
    pub(super) fn take(path: &Path) -> io::Result<Self> {
        loop {
            let flags = OFlags::RDWR | OFlags::CREATE;
            let descriptor = system::open(path, flags, IoMode::Buffered)?;
            if let Some(lock) = Self::on(descriptor, path)? {
                return Ok(lock);
            }
        }
    }

    /// Locks an open file; `None` if it lost the name that it was opened by.
    fn on(descriptor: OwnedFd, path: &Path) -> io::Result<Option<Self>> {
        match retry_on_intr(|| system::lock(descriptor.as_fd())) {
            Ok(()) => {}
            Err(Errno::ACCESS | Errno::AGAIN) => {
                let text = "the lock is held by another process, or elsewhere in this one";
                return Err(io::Error::new(io::ErrorKind::WouldBlock, text));
            }
            Err(error) => return Err(error.into()),
        }
        let locked = file_identity(&rustix::fs::fstat(&descriptor)?);
        match rustix::fs::stat(path) {
            Ok(status) if file_identity(&status) == locked => Ok(Some(Self { descriptor })),
            Ok(_) | Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// Returns whether the lock on `path` is held. Nothing is locked or created.
pub(super) fn is_held(path: &Path) -> io::Result<bool> {
    match system::open(path, OFlags::RDONLY, IoMode::Buffered) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        descriptor => Ok(system::is_locked(descriptor?.as_fd())?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression test: one process could lock the removed file that it had opened, and another a
    /// new file of the same name.
    #[test]
    fn a_removed_file_cannot_be_locked() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("LOCK");
        let open = || system::open(&path, OFlags::RDWR | OFlags::CREATE, IoMode::Buffered);
        for is_made_again in [false, true] {
            let removed = open().expect("a file");
            rustix::fs::unlink(&path).expect("removing");
            let other = is_made_again.then(|| PosixLock::take(&path).expect("the lock"));
            let taken = PosixLock::on(removed, &path);
            assert!(taken.expect("an answer").is_none());
            drop(other);
            drop(PosixLock::take(&path).expect("the lock"));
        }
    }

    /// Regression test: a child process that also has the file open must not keep a released lock.
    #[test]
    fn a_released_lock_is_free_despite_other_descriptors() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("LOCK");
        let lock = PosixLock::take(&path).expect("the lock");
        let also_open = lock.descriptor.try_clone().expect("another descriptor");
        assert!(PosixLock::take(&path).is_err());
        drop(lock);
        drop(PosixLock::take(&path).expect("the lock"));
        drop(also_open);
    }
}
