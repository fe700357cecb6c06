//! The lock that keeps a second engine out of a directory.
//!
//! It is the lock that RocksDB takes: an `fcntl` write lock on the whole file. Such a lock belongs
//! to the process, which has two consequences. The process can take it any number of times, so a
//! table of the files that are locked refuses the second time. And the kernel drops it as soon as
//! the process closes *any* descriptor of the file, so a file in the table is never opened again:
//! it is recognised by device and inode, by its path, before anything is opened.
//!
//! A lock on a file that has lost its name, because the database was destroyed, keeps nobody out:
//! whoever comes later makes a new file. So a lock counts only if the path leads to the locked file
//! after it was taken.
//!
//! Order: the table is held from the first look until the file stands in it, and again from the
//! release until it is gone, so no other thread opens the file in between.

use std::collections::HashSet;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{LazyLock, PoisonError, RwLock, RwLockWriteGuard};

use rustix::fs::{FlockOperation, OFlags, Stat};
use rustix::io::{Errno, retry_on_intr};

use super::system;
use crate::purpose::IoMode;
use crate::storage::{FileIdentity, FileLock};

/// The files this process holds locked.
static LOCKED: LazyLock<RwLock<HashSet<FileIdentity>>> = LazyLock::new(RwLock::default);

/// The device and inode of a file, whose types differ between systems.
pub(super) fn file_identity(status: &Stat) -> FileIdentity {
    let (device, inode) = (i128::from(status.st_dev), i128::from(status.st_ino));
    FileIdentity { device: device as u64, inode: inode as u64 }
}

/// A lock that is held.
#[derive(Debug)]
pub(super) struct PosixLock {
    /// `None` only inside drop.
    descriptor: Option<OwnedFd>,
    id: FileIdentity,
}

impl PosixLock {
    /// Takes the lock on `path`, which is created if it is not there; kind `WouldBlock` if it is
    /// held.
    pub(super) fn take(path: &Path) -> io::Result<Self> {
        loop {
            if let Some(lock) = Self::try_take(path)? {
                return Ok(lock);
            }
        }
    }

    /// The same; `None` if the file lost its name meanwhile.
    fn try_take(path: &Path) -> io::Result<Option<Self>> {
        let mut locked = write_locked();
        match rustix::fs::stat(path) {
            Ok(status) if locked.contains(&file_identity(&status)) => {
                return Err(held("this process holds the lock already"));
            }
            Ok(_) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        let descriptor = system::open(path, OFlags::RDWR | OFlags::CREATE, IoMode::Buffered)?;
        Self::lock(descriptor, path, &mut locked)
    }

    /// Locks an open file; `None` if it lost the name it was opened by.
    fn lock(
        descriptor: OwnedFd,
        path: &Path,
        locked: &mut HashSet<FileIdentity>,
    ) -> io::Result<Option<Self>> {
        let operation = FlockOperation::NonBlockingLockExclusive;
        match retry_on_intr(|| rustix::fs::fcntl_lock(&descriptor, operation)) {
            Ok(()) => {}
            Err(Errno::ACCESS | Errno::AGAIN) => {
                return Err(held("another process holds the lock"));
            }
            Err(error) => return Err(error.into()),
        }
        let id = file_identity(&rustix::fs::fstat(&descriptor)?);
        match rustix::fs::stat(path) {
            Ok(status) if file_identity(&status) == id => {}
            Ok(_) | Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        locked.insert(id);
        Ok(Some(Self { descriptor: Some(descriptor), id }))
    }
}

#[cold]
fn held(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::WouldBlock, text)
}

impl FileLock for PosixLock {}

impl Drop for PosixLock {
    fn drop(&mut self) {
        let mut locked = write_locked();
        // Closing it releases the lock; the table must not forget the file before.
        drop(self.descriptor.take());
        locked.remove(&self.id);
    }
}

/// The table of the files that are locked.
fn write_locked() -> RwLockWriteGuard<'static, HashSet<FileIdentity>> {
    LOCKED.write().unwrap_or_else(PoisonError::into_inner)
}

/// Refuses a path that this process holds locked: closing a second descriptor of it would release
/// the lock.
///
/// While any lock is held this costs one `stat` for each file that is opened.
pub(super) fn refuse_locked(path: &Path) -> io::Result<()> {
    // Who opens files does not wait for others that do, whatever their weight.
    let locked = LOCKED.read().unwrap_or_else(PoisonError::into_inner);
    if locked.is_empty() {
        return Ok(());
    }
    match rustix::fs::stat(path) {
        Ok(status) if locked.contains(&file_identity(&status)) => {
            let text = "this process holds it locked, and opening it would release the lock";
            Err(io::Error::new(io::ErrorKind::ResourceBusy, text))
        }
        // Whatever else is the matter, opening it will say so.
        Ok(_) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Who opened the file before it was removed got the lock on it, and so did whoever made another
    /// of that name.
    #[test]
    fn a_file_that_lost_its_name_cannot_be_locked() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("LOCK");
        let open = || system::open(&path, OFlags::RDWR | OFlags::CREATE, IoMode::Buffered);
        for is_made_again in [false, true] {
            let removed = open().expect("a file");
            std::fs::remove_file(&path).expect("removing");
            let other = is_made_again.then(|| PosixLock::take(&path).expect("the lock"));
            let taken = PosixLock::lock(removed, &path, &mut write_locked());
            assert!(taken.expect("an answer").is_none());
            drop(other);
            drop(PosixLock::take(&path).expect("the lock"));
        }
    }
}
