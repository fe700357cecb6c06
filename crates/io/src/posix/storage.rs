//! The storage of this machine: operations on paths and directories.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags, Stat, Uid};
use rustix::io::{Errno, retry_on_intr};

use super::file::PosixFile;
use super::lock::{PosixLock, file_identity, is_held};
use super::system;
use crate::buffer::ALIGNMENT;
use crate::clock::monotonic_ns;
use crate::descriptors::{DescriptorBudget, with_relief};
use crate::kernel::{Device, System};
use crate::purpose::{IoMode, Purpose};
use crate::rings::Rings;
use crate::sections::{self, Section};
use crate::statistics::Statistics;
use crate::storage::{
    Capabilities, Create, DirectoryEntry, FileIdentity, FileLock, FileMetadata, ListedEntry,
    ReadFile, Storage, WriteFile,
};
use crate::{Error, Operation, Result};

/// The permissions of new files and directories, from which the process's umask is subtracted.
#[derive(Debug, Clone, Copy)]
struct Permissions {
    file: Mode,
    directory: Mode,
}

impl Permissions {
    /// Everyone may read.
    const SHARED: Self =
        Self { file: Mode::from_raw_mode(0o644), directory: Mode::from_raw_mode(0o755) };
    /// Only the owner has access.
    const PRIVATE: Self =
        Self { file: Mode::from_raw_mode(0o600), directory: Mode::from_raw_mode(0o700) };
}

/// The storage of this machine, through its file systems.
#[derive(Debug, Clone)]
pub struct PosixStorage {
    statistics: Arc<Statistics>,
    /// The rings for reads with io_uring; `None` if files must not be read with io_uring.
    rings: Option<Arc<Rings>>,
    permissions: Permissions,
}

impl Default for PosixStorage {
    fn default() -> Self {
        let rings = Some(Rings::new(&DescriptorBudget::of_process()));
        Self { statistics: Arc::default(), rings, permissions: Permissions::SHARED }
    }
}

impl PosixStorage {
    /// Creates a storage whose statistics are all zero. Everyone may read the files and directories
    /// that it creates, within the process's umask.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a storage like [`PosixStorage::new`], except that only the owner has access to the
    /// files and directories that it creates. Those that exist keep their permissions.
    pub fn private() -> Self {
        Self { permissions: Permissions::PRIVATE, ..Self::default() }
    }

    /// Creates a storage whose files are never read with io_uring. Those of [`PosixStorage::new`]
    /// are if the kernel allows it ([`crate::in_flight`]).
    pub fn without_io_uring() -> Self {
        Self { rings: None, ..Self::default() }
    }

    /// Returns whether several reads in flight use io_uring. The first call finds out by setting up
    /// a ring.
    pub fn uses_io_uring(&self) -> bool {
        self.rings.as_ref().is_some_and(|rings| rings.are_allowed())
    }

    /// Returns whether the lock that [`Storage::lock`] takes on a file is held. Neither takes the
    /// lock nor creates the file. A file that does not exist is not locked.
    ///
    /// # Errors
    /// I/O errors.
    pub fn is_locked(&self, path: &Path) -> Result<bool> {
        is_held(path).map_err(|error| Error::new(Operation::Lock, path, error))
    }

    fn file(
        &self,
        operation: Operation,
        path: &Path,
        flags: OFlags,
        mode: IoMode,
        purpose: Purpose,
    ) -> Result<PosixFile> {
        let failed = |error| Error::new(operation, path, error);
        let descriptor = system::open(path, flags, mode, self.permissions.file).map_err(failed)?;
        if operation == Operation::Open {
            let status = rustix::fs::fstat(&descriptor).map_err(|error| failed(error.into()))?;
            if is_directory(&status) {
                return Err(failed(Errno::ISDIR.into()));
            }
        }
        let alignment = match mode {
            IoMode::Direct => system::alignment(descriptor.as_fd()).map_err(failed)?,
            IoMode::Buffered | IoMode::Uncached | IoMode::DropBehind => ALIGNMENT,
        };
        self.statistics.record_open(purpose);
        let statistics = Arc::clone(&self.statistics);
        let path = path.to_owned();
        let rings = self.rings.clone();
        let durable_writes = OnceLock::new();
        Ok(PosixFile {
            descriptor,
            path,
            mode,
            rings,
            alignment,
            statistics,
            durable_writes,
            dropped: 0,
        })
    }
}

fn is_directory(status: &Stat) -> bool {
    FileType::from_raw_mode(status.st_mode) == FileType::Directory
}

fn open_directory(path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    with_relief(|| rustix::fs::open(path, flags, Mode::empty()))
}

/// Calls `visit` for each entry of a directory except `.` and `..`. `failed` converts errors from
/// opening and reading the directory.
fn visit_directory(
    path: &Path,
    failed: impl Fn(Errno) -> Error,
    visit: &mut dyn FnMut(&ListedEntry<'_>) -> Result<()>,
) -> Result<()> {
    let mut directory = open_directory(path).and_then(rustix::fs::Dir::new).map_err(&failed)?;
    while let Some(entry) = directory.read() {
        let entry = entry.map_err(&failed)?;
        let bytes = entry.file_name().to_bytes();
        if matches!(bytes, b"." | b"..") {
            continue;
        }
        let name = String::from_utf8_lossy(bytes);
        let of_entry = || {
            let status = directory
                .fd()
                .and_then(|at| rustix::fs::statat(at, entry.file_name(), AtFlags::empty()));
            status.map_err(|error| {
                Error::new(Operation::Metadata, &path.join(OsStr::from_bytes(bytes)), error)
            })
        };
        let is_directory = match entry.file_type() {
            FileType::Directory => true,
            // A symbolic link to a directory counts as a directory. A dangling link counts as a
            // file.
            FileType::Symlink | FileType::Unknown => {
                of_entry().is_ok_and(|status| is_directory(&status))
            }
            _ => false,
        };
        let length = || of_entry().map(|status| status.st_size as u64);
        visit(&ListedEntry { name: &name, is_directory, length: &length })?;
    }
    Ok(())
}

fn make_directories(path: &Path, permissions: Mode) -> rustix::io::Result<()> {
    match rustix::fs::mkdir(path, permissions) {
        Err(Errno::EXIST) => match rustix::fs::stat(path) {
            Ok(status) if is_directory(&status) => Ok(()),
            _ => Err(Errno::EXIST),
        },
        Err(Errno::NOENT) => match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => {
                make_directories(parent, permissions)?;
                match rustix::fs::mkdir(path, permissions) {
                    // Another thread or process created the directory in the meantime.
                    Err(Errno::EXIST) => Ok(()),
                    answer => answer,
                }
            }
            _ => Err(Errno::NOENT),
        },
        answer => answer,
    }
}

impl Storage for PosixStorage {
    fn open(&self, path: &Path, mode: IoMode, purpose: Purpose) -> Result<Arc<dyn ReadFile>> {
        let _waiting = sections::enter(Section::Device);
        let file = self.file(Operation::Open, path, OFlags::RDONLY, mode, purpose)?;
        Ok(Arc::new(file))
    }

    fn create(
        &self,
        path: &Path,
        create: Create,
        mode: IoMode,
        purpose: Purpose,
    ) -> Result<Box<dyn WriteFile>> {
        let flags = OFlags::WRONLY
            | match create {
                Create::New => OFlags::CREATE | OFlags::EXCL,
                Create::Truncate => OFlags::CREATE | OFlags::TRUNC,
                Create::Existing => OFlags::empty(),
            };
        Ok(Box::new(self.file(Operation::Create, path, flags, mode, purpose)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        rustix::fs::rename(from, to).map_err(|error| Error::new(Operation::Rename, from, error))
    }

    fn copy_ownership(&self, from: &Path, to: &Path) -> Result<()> {
        let failed = |error: Errno| Error::new(Operation::ChangeOwner, to, error);
        let wanted =
            rustix::fs::stat(from).map_err(|error| Error::new(Operation::Metadata, from, error))?;
        // A link is not followed: by putting one there, whoever may write to the directory would
        // become the owner of another file.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = with_relief(|| rustix::fs::open(to, flags, Mode::empty())).map_err(failed)?;
        let found = rustix::fs::fstat(&file).map_err(failed)?;
        let mut mode = Mode::from_raw_mode(wanted.st_mode);
        let is_other_owner = wanted.st_uid != found.st_uid;
        if is_other_owner || wanted.st_gid != found.st_gid {
            let (owner, group) = (Uid::from_raw(wanted.st_uid), Gid::from_raw(wanted.st_gid));
            match rustix::fs::fchown(&file, Some(owner), Some(group)) {
                // Only root may give a file to a group that the process does not belong to.
                Err(Errno::PERM) if !is_other_owner => mode.remove(Mode::RWXG),
                changed => changed.map_err(failed)?,
            }
        }
        // Some filesystems refuse any change.
        if mode == Mode::from_raw_mode(found.st_mode) {
            return Ok(());
        }
        rustix::fs::fchmod(&file, mode).map_err(failed)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        rustix::fs::unlink(path).map_err(|error| Error::new(Operation::Remove, path, error))
    }

    fn remove_directory(&self, path: &Path) -> Result<()> {
        rustix::fs::rmdir(path).map_err(|error| Error::new(Operation::Remove, path, error))
    }

    fn link(&self, existing: &Path, new: &Path) -> Result<()> {
        let follow = AtFlags::SYMLINK_FOLLOW;
        rustix::fs::linkat(CWD, existing, CWD, new, follow)
            .map_err(|error| Error::new(Operation::Link, new, error))
    }

    fn list(&self, directory: &Path) -> Result<Vec<DirectoryEntry>> {
        let mut entries = Vec::new();
        self.visit_entries(directory, &mut |entry| {
            let (name, is_directory) = (entry.name.to_owned(), entry.is_directory);
            entries.push(DirectoryEntry { name, is_directory });
            Ok(())
        })?;
        entries.sort_by(|left, right| left.name.cmp(&right.name));
        Ok(entries)
    }

    fn visit_entries(
        &self,
        directory: &Path,
        visit: &mut dyn FnMut(&ListedEntry<'_>) -> Result<()>,
    ) -> Result<()> {
        visit_directory(directory, |error| Error::new(Operation::List, directory, error), visit)
    }

    fn create_directory(&self, path: &Path) -> Result<()> {
        make_directories(path, self.permissions.directory)
            .map_err(|error| Error::new(Operation::CreateDirectory, path, error))
    }

    fn metadata(&self, path: &Path) -> Result<FileMetadata> {
        let status =
            rustix::fs::stat(path).map_err(|error| Error::new(Operation::Metadata, path, error))?;
        let is_directory = is_directory(&status);
        let modified_us = status.st_mtime as i128 * 1_000_000 + status.st_mtime_nsec as i128 / 1000;
        Ok(FileMetadata {
            length: if is_directory { 0 } else { status.st_size as u64 },
            is_directory,
            modified_us: modified_us.max(0) as u64,
            hard_links: Some(status.st_nlink as u64),
        })
    }

    fn identity(&self, path: &Path) -> Result<FileIdentity> {
        let status =
            rustix::fs::stat(path).map_err(|error| Error::new(Operation::Metadata, path, error))?;
        Ok(file_identity(&status))
    }

    fn canonical_path(&self, path: &Path) -> Result<PathBuf> {
        path.canonicalize().map_err(|error| Error::new(Operation::Metadata, path, error))
    }

    fn capabilities(&self, path: &Path) -> Result<Capabilities> {
        let direct_io = system::direct_io(path)
            .map_err(|error| Error::new(Operation::Metadata, path, error))?;
        let filesystem = system::filesystem_name(path);
        let direct_write_fault = system::direct_write_fault(&filesystem);
        let device = Device::of_directory(&System::default(), path);
        let max_sectors_kib = device.and_then(|device| device.max_sectors_kib);
        let request_bytes_max = max_sectors_kib.and_then(|kib| usize::try_from(kib << 10).ok());
        Ok(Capabilities { filesystem, direct_io, direct_write_fault, request_bytes_max })
    }

    fn resident_pages(&self, path: &Path) -> Result<Option<u64>> {
        let failed = |error| Error::new(Operation::Metadata, path, error);
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let descriptor =
            with_relief(|| rustix::fs::open(path, flags, Mode::empty())).map_err(failed)?;
        system::resident_pages(descriptor.as_fd(), 0, 0)
            .map_err(|error| Error::new(Operation::Metadata, path, error))
    }

    fn sync_directory(&self, directory: &Path) -> Result<()> {
        let started = monotonic_ns();
        open_directory(directory)
            .and_then(|descriptor| retry_on_intr(|| system::sync_all(descriptor.as_fd())))
            .map_err(|error| Error::new(Operation::SyncDirectory, directory, error))?;
        self.statistics.record_sync(Purpose::Metadata, monotonic_ns() - started);
        Ok(())
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        match PosixLock::take(path, self.permissions.file) {
            Ok(lock) => Ok(Box::new(lock)),
            Err(error) => Err(Error::new(Operation::Lock, path, error)),
        }
    }

    fn statistics(&self) -> &Statistics {
        &self.statistics
    }
}
