//! The lock that keeps a second engine out of a directory.
//!
//! It is the lock that RocksDB takes: an `fcntl` write lock on the whole file. Such a lock belongs
//! to the process, which has two consequences. The process can take it any number of times, so a
//! table of the files that are locked refuses the second time. And the kernel drops it as soon as
//! the process closes *any* descriptor of the file, so a file in the table is never opened again:
//! it is recognised by device and inode, by its path, before anything is opened.
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
        let mut locked = write_locked();
        match rustix::fs::stat(path) {
            Ok(status) if locked.contains(&file_identity(&status)) => {
                return Err(held("this process holds the lock already"));
            }
            Ok(_) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        let descriptor = system::open(path, OFlags::RDWR | OFlags::CREATE, IoMode::Buffered)?;
        let operation = FlockOperation::NonBlockingLockExclusive;
        match retry_on_intr(|| rustix::fs::fcntl_lock(&descriptor, operation)) {
            Ok(()) => {}
            Err(Errno::ACCESS | Errno::AGAIN) => {
                return Err(held("another process holds the lock"));
            }
            Err(error) => return Err(error.into()),
        }
        let id = file_identity(&rustix::fs::fstat(&descriptor)?);
        locked.insert(id);
        Ok(Self { descriptor: Some(descriptor), id })
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
