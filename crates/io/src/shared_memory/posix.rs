//! Shared memory regions as files on a tmpfs.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FallocateFlags, Mode, OFlags, mkdirat, readlink, stat, statfs, unlink};
use rustix::io::{Errno, retry_on_intr};

use super::SharedMemory;
use crate::buffer::{Pages, page_size};
use crate::descriptors::with_relief;
use crate::{Error, Operation, Result};

/// Number that identifies tmpfs in the result of `statfs`.
const TMPFS: u32 = 0x0102_1994;
/// Permissions of directories and regions. They give access only to the owner, because others must
/// not read messages.
const DIRECTORY_MODE: Mode = Mode::from_raw_mode(0o700);
const FILE_MODE: Mode = Mode::from_raw_mode(0o600);

/// Name of a symbolic link in the directory of the regions. It leads to the directory of the log
/// whose data the regions contain.
const OWNER: &str = "owner";

/// A directory with shared memory regions that [`siblings`] found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sibling {
    /// The directory that contains the regions.
    pub directory: PathBuf,
    /// The directory whose data the regions contain, see [`PosixSharedMemory::set_owner`].
    pub owner: PathBuf,
    /// Total size of the regions, in bytes.
    pub bytes: u64,
}

/// Lists the directories of `parent` that contain shared memory regions. Only directories whose
/// names begin with `prefix` are listed. Directories that this user may not read, or whose owner is
/// not recorded, are left out.
///
/// # Errors
/// Errors from listing `parent`.
pub fn siblings(parent: &Path, prefix: &str) -> Result<Vec<Sibling>> {
    let names = names_in(parent).map_err(|error| Error::new(Operation::List, parent, error))?;
    let mut found = Vec::new();
    for name in names.iter().filter(|name| name.as_bytes().starts_with(prefix.as_bytes())) {
        let directory = parent.join(name);
        let Ok(owner) = readlink(directory.join(OWNER), Vec::new()) else { continue };
        let owner = PathBuf::from(OsStr::from_bytes(owner.as_bytes()));
        let regions = names_in(&directory).unwrap_or_default();
        let bytes = regions.iter().filter_map(|region| region_bytes(&directory.join(region)));
        found.push(Sibling { bytes: bytes.sum(), owner, directory });
    }
    Ok(found)
}

/// Returns the names of all entries of a directory.
fn names_in(directory: &Path) -> rustix::io::Result<Vec<OsString>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = with_relief(|| rustix::fs::open(directory, flags, Mode::empty()))?;
    rustix::fs::Dir::new(directory)?
        .map(|entry| Ok(OsStr::from_bytes(entry?.file_name().to_bytes()).to_owned()))
        .collect()
}

/// Returns the length of the region at `path`, in bytes; `None` if there is no regular file.
fn region_bytes(path: &Path) -> Option<u64> {
    let status = stat(path).ok()?;
    let kind = rustix::fs::FileType::from_raw_mode(status.st_mode);
    (kind == rustix::fs::FileType::RegularFile).then_some(status.st_size as u64)
}

/// Shared memory regions as files of one directory on a tmpfs, usually below `/dev/shm`.
#[derive(Debug, Clone)]
pub struct PosixSharedMemory {
    directory: PathBuf,
}

impl PosixSharedMemory {
    /// Opens the directory of the regions, and creates it if it does not exist.
    ///
    /// # Errors
    /// I/O errors. The error is of kind `Unsupported` if the directory is not on a tmpfs, and of
    /// kind `PermissionDenied` if it belongs to another user or others may write to it.
    pub fn open(directory: &Path) -> Result<Self> {
        let failed = |error: Errno| Error::new(Operation::CreateDirectory, directory, error);
        match mkdirat(CWD, directory, DIRECTORY_MODE) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(failed(error)),
        }
        Self::open_existing(directory)
    }

    /// Opens the directory of the regions, which must exist.
    ///
    /// # Errors
    /// The errors of [`PosixSharedMemory::open`]. The error is of kind `NotFound` if the directory
    /// does not exist.
    pub fn open_existing(directory: &Path) -> Result<Self> {
        let failed = |error: Errno| Error::new(Operation::Open, directory, error);
        let refused = |kind: io::ErrorKind, text: &str| {
            Error::new(Operation::Open, directory, io::Error::new(kind, text))
        };
        if statfs(directory).map_err(failed)?.f_type as u32 != TMPFS {
            let text = "shared memory must be on a tmpfs";
            return Err(refused(io::ErrorKind::Unsupported, text));
        }
        // All users can write to /dev/shm, so another user may have created the directory.
        let status = rustix::fs::statat(CWD, directory, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)
            .map_err(failed)?;
        let is_own = status.st_uid == rustix::process::geteuid().as_raw();
        let is_directory =
            rustix::fs::FileType::from_raw_mode(status.st_mode) == rustix::fs::FileType::Directory;
        if !is_own || !is_directory || status.st_mode & 0o022 != 0 {
            let text = "it is not a directory that only this user may write to";
            return Err(refused(io::ErrorKind::PermissionDenied, text));
        }
        Ok(Self { directory: directory.to_owned() })
    }

    /// Returns the directory that contains the regions.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Records the directory whose data the regions contain. If that directory is deleted,
    /// [`siblings`] shows that the regions are left over.
    ///
    /// # Errors
    /// I/O errors.
    pub fn set_owner(&self, owner: &Path) -> Result<()> {
        let link = self.directory.join(OWNER);
        let failed = |error: Errno| Error::new(Operation::Create, &link, error);
        if readlink(&link, Vec::new())
            .is_ok_and(|old| old.as_bytes() == owner.as_os_str().as_bytes())
        {
            return Ok(());
        }
        match unlink(&link) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(failed(error)),
        }
        rustix::fs::symlink(owner, &link).map_err(failed)
    }

    fn create_file(path: &Path) -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        with_relief(|| rustix::fs::open(path, flags, FILE_MODE))
    }

    fn allocate(path: &Path, bytes: usize) -> rustix::io::Result<Pages> {
        let file = Self::create_file(path)?;
        let made = allocate_and_map(&file, bytes);
        if made.is_err() {
            // If this fails, an unusable file remains. The first error is still the one to return.
            let _ = unlink(path);
        }
        made
    }
}

/// Allocates all pages of a file and maps them. If pages were allocated on first touch and no space
/// were left, the touch would raise SIGBUS.
pub(super) fn allocate_and_map(file: &OwnedFd, bytes: usize) -> rustix::io::Result<Pages> {
    let bytes = bytes.max(1).next_multiple_of(page_size());
    retry_on_intr(|| rustix::fs::fallocate(file, FallocateFlags::empty(), 0, bytes as u64))?;
    Pages::map_file(file.as_fd(), bytes)
}

impl SharedMemory for PosixSharedMemory {
    fn directory(&self) -> Option<&Path> {
        Some(&self.directory)
    }

    fn create(&self, name: &str, bytes: usize) -> Result<Pages> {
        let path = self.directory.join(name);
        Self::allocate(&path, bytes).map_err(|error| Error::new(Operation::Create, &path, error))
    }

    fn create_empty(&self, name: &str) -> Result<()> {
        let path = self.directory.join(name);
        let created = Self::create_file(&path);
        created.map(drop).map_err(|error| Error::new(Operation::Create, &path, error))
    }

    fn list(&self) -> Result<Vec<String>> {
        let failed = |error| Error::new(Operation::List, &self.directory, error);
        let all = names_in(&self.directory).map_err(failed)?;
        let regions = all.iter().filter(|name| region_bytes(&self.directory.join(name)).is_some());
        let mut names: Vec<String> =
            regions.map(|name| name.to_string_lossy().into_owned()).collect();
        names.sort();
        Ok(names)
    }

    fn read(&self, name: &str) -> Result<Vec<u8>> {
        let path = self.directory.join(name);
        let failed = |operation| move |error: Errno| (operation, error);
        let read = || {
            let flags = OFlags::RDONLY | OFlags::CLOEXEC;
            let file = with_relief(|| rustix::fs::open(&path, flags, Mode::empty()))
                .map_err(failed(Operation::Open))?;
            let length = rustix::fs::fstat(&file).map_err(failed(Operation::Metadata))?.st_size;
            let mut bytes = vec![0; length as usize];
            let mut done = 0;
            while done < bytes.len() {
                let rest = &mut bytes[done..];
                match retry_on_intr(|| rustix::io::pread(&file, &mut *rest, done as u64))
                    .map_err(failed(Operation::Read))?
                {
                    0 => break,
                    count => done += count,
                }
            }
            bytes.truncate(done);
            Ok(bytes)
        };
        read().map_err(|(operation, error): (Operation, Errno)| Error::new(operation, &path, error))
    }

    fn remove(&self, name: &str) -> Result<()> {
        let path = self.directory.join(name);
        unlink(&path).map_err(|error| Error::new(Operation::Remove, &path, error))
    }

    fn remove_if_empty(&self) {
        if self.list().is_ok_and(|regions| regions.is_empty()) {
            let _ = unlink(self.directory.join(OWNER));
            // This fails, as it should, if the directory contains other files.
            let _ = rustix::fs::rmdir(&self.directory);
        }
    }
}
