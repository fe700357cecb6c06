//! The interface between the engine and the disk.
//!
//! A [`Storage`] represents one filesystem as one process sees it. All methods are safe to call
//! from any thread.
//!
//! # Durability
//!
//! Every backend guarantees the following. The simulated backend may lose in a crash everything
//! that these guarantees do not cover.
//! - Written bytes are durable after a sync of the file that began after the write has returned.
//!   Bytes written by [`WriteFile::write_durably_at`] are durable when it returns; it does not make
//!   the bytes of earlier writes durable.
//! - A change of a name (a file created, renamed, linked or removed) is durable after a sync of its
//!   directory has returned. A sync of the file does not make its name durable.
//! - After a failed sync, any bytes written since the last successful sync may be lost, even if a
//!   later sync succeeds. Therefore a failed sync must not be retried.

use std::fmt::{self, Debug};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{ErrorKind, IoSlice};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::buffer::{ALIGNMENT, AlignedBuffer};
use crate::purpose::{IoMode, Purpose};
use crate::rings::Rings;
use crate::statistics::{ReadTime, Statistics};
use crate::{Error, Operation, Result};

/// Whether [`Storage::create`] creates a missing file, and whether it accepts an existing one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Create {
    /// The file must not exist.
    New,
    /// An existing file is truncated to length 0; a missing file is created.
    Truncate,
    /// The file must exist, and its content is kept. Used to continue or recycle a log file.
    Existing,
}

/// One name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DirectoryEntry {
    /// The name, without its directory. In a name that is not UTF-8, invalid bytes are replaced by
    /// U+FFFD.
    pub name: String,
    /// Whether the entry is a directory.
    pub is_directory: bool,
}

impl DirectoryEntry {
    /// Creates an entry. For the values, see its fields.
    pub fn new(name: impl Into<String>, is_directory: bool) -> Self {
        Self { name: name.into(), is_directory }
    }
}

/// An entry of a directory, passed to a visitor while the directory is being read.
pub struct ListedEntry<'a> {
    /// Like [`DirectoryEntry::name`].
    pub name: &'a str,
    /// Like [`DirectoryEntry::is_directory`].
    pub is_directory: bool,
    pub(crate) length: &'a dyn Fn() -> Result<u64>,
}

impl ListedEntry<'_> {
    /// Returns the file's current length in bytes. This is faster than [`Storage::metadata`], which
    /// resolves a path.
    ///
    /// # Errors
    /// The errors of [`Storage::metadata`].
    pub fn length(&self) -> Result<u64> {
        (self.length)()
    }
}

impl Debug for ListedEntry<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListedEntry")
            .field("name", &self.name)
            .field("is_directory", &self.is_directory)
            .finish_non_exhaustive()
    }
}

/// Metadata of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileMetadata {
    /// Length of the file, in bytes.
    pub length: u64,
    /// Whether the file is a directory.
    pub is_directory: bool,
    /// Time of the last write, in microseconds since 1970.
    pub modified_us: u64,
    /// Number of names of the file, each of which is a hard link; `None` if unknown.
    pub hard_links: Option<u64>,
}

impl FileMetadata {
    /// Creates the metadata of a file or directory whose number of hard links is unknown. For the
    /// values, see the fields.
    pub fn new(length: u64, is_directory: bool, modified_us: u64) -> Self {
        Self { length, is_directory, modified_us, hard_links: None }
    }
}

/// The identity of a file or directory, which is the same for every path that leads to it. A rename
/// does not change it. After a file is removed, the filesystem may give its inode number to a new
/// file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileIdentity {
    /// The device number. On some filesystems it changes with each mount.
    pub device: u64,
    /// The inode number.
    pub inode: u64,
}

/// What a filesystem reports about direct I/O on a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DirectIo {
    /// Direct I/O is supported. Offset, length and memory address must be multiples of this many
    /// bytes.
    Aligned(u32),
    /// Direct I/O is not supported.
    Refused,
    /// The filesystem does not report whether it supports direct I/O. Only an attempt shows whether
    /// direct I/O works.
    Unknown,
}

/// What a filesystem reports that it supports.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// The filesystem's name: `ext4`, `xfs`.
    pub filesystem: String,
    /// Whether the filesystem supports direct I/O on the queried file, and with which alignment.
    pub direct_io: DirectIo,
    /// Why direct writes lose data on this filesystem under the running kernel; `None` if no fault
    /// is known.
    pub direct_write_fault: Option<&'static str>,
    /// The largest request in bytes that the block layer sends to the device unsplit
    /// (`max_sectors_kb`); `None` if unknown.
    pub request_bytes_max: Option<usize>,
}

impl Capabilities {
    /// Creates the capabilities of a filesystem of which only the name is known. An implementation
    /// of [`Storage`] sets the fields that it knows.
    pub fn new(filesystem: impl Into<String>) -> Self {
        Self {
            filesystem: filesystem.into(),
            direct_io: DirectIo::Unknown,
            direct_write_fault: None,
            request_bytes_max: None,
        }
    }
}

/// A filesystem: the real one, or a simulated one.
pub trait Storage: Debug + Send + Sync + 'static {
    /// Opens a file for reading. If the filesystem refuses [`IoMode::Direct`], the error is of kind
    /// `Unsupported`; the same is true of [`Self::create`].
    fn open(&self, path: &Path, mode: IoMode, purpose: Purpose) -> Result<Arc<dyn ReadFile>>;

    /// Opens a file for writing. The argument `create` says whether the file must exist.
    fn create(
        &self,
        path: &Path,
        create: Create,
        mode: IoMode,
        purpose: Purpose,
    ) -> Result<Box<dyn WriteFile>>;

    /// Reads a file through the page cache: its first `most` bytes, or all of it if it is shorter.
    fn read_file(&self, path: &Path, most: u64, purpose: Purpose) -> Result<Vec<u8>> {
        let file = self.open(path, IoMode::Buffered, purpose)?;
        let mut bytes = vec![0; file.length()?.min(most) as usize];
        let count = file.read_full_at(&mut bytes, 0, purpose)?;
        bytes.truncate(count);
        Ok(bytes)
    }

    /// Like [`Self::read_file`], but returns `None` if the file does not exist.
    fn read_if_exists(&self, path: &Path, most: u64, purpose: Purpose) -> Result<Option<Vec<u8>>> {
        match self.read_file(path, most, purpose) {
            Err(error) if error.is_not_found() => Ok(None),
            read => read.map(Some),
        }
    }

    /// Renames a file or directory. If `to` names a file or an empty directory, it is replaced.
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;

    /// Gives the file `to` the owner, the group and the permissions of the file `from`. If only the
    /// group differs, and the process may not change it, the group stays and gets no permissions.
    /// The default implementation does nothing, for a storage without owners.
    ///
    /// # Errors
    /// I/O errors, also if `to` is a symbolic link; of kind `PermissionDenied`, if the process may
    /// not give the file to that owner.
    fn copy_ownership(&self, _from: &Path, _to: &Path) -> Result<()> {
        Ok(())
    }

    /// Removes a file.
    fn remove(&self, path: &Path) -> Result<()>;

    /// Removes an empty directory.
    fn remove_directory(&self, path: &Path) -> Result<()>;

    /// Gives a file a second name, which must not exist yet (a hard link). If `existing` is a
    /// symbolic link, the new name is given to the link's target.
    fn link(&self, existing: &Path, new: &Path) -> Result<()>;

    /// Returns the names in a directory, sorted.
    fn list(&self, directory: &Path) -> Result<Vec<DirectoryEntry>>;

    /// Calls the visitor with each name in a directory, in any order, until the visitor returns an
    /// error. For directories with many names this takes less time and memory than [`Self::list`].
    ///
    /// # Errors
    /// The error of reading the directory, or the visitor's.
    fn visit_entries(
        &self,
        directory: &Path,
        visit: &mut dyn FnMut(&ListedEntry<'_>) -> Result<()>,
    ) -> Result<()> {
        for DirectoryEntry { name, is_directory } in self.list(directory)? {
            let length = || Ok(self.metadata(&directory.join(&name))?.length);
            visit(&ListedEntry { name: &name, is_directory, length: &length })?;
        }
        Ok(())
    }

    /// Creates a directory, and its parents if they are missing. An existing directory is not an
    /// error.
    fn create_directory(&self, path: &Path) -> Result<()>;

    /// Returns a file's metadata.
    fn metadata(&self, path: &Path) -> Result<FileMetadata>;

    /// Returns the identity of the file or directory that a path leads to. Symbolic links are
    /// followed.
    ///
    /// The default implementation treats two files as the same if their paths are equal as text. A
    /// backend in which several paths can lead to one directory must override it.
    fn identity(&self, path: &Path) -> Result<FileIdentity> {
        self.metadata(path)?;
        let mut hasher = DefaultHasher::new();
        path.components().for_each(|component| component.hash(&mut hasher));
        Ok(FileIdentity { device: 0, inode: hasher.finish() })
    }

    /// Returns the absolute path of a file or directory, without symbolic links, `.` and `..`. The
    /// default returns the path unchanged.
    fn canonical_path(&self, path: &Path) -> Result<PathBuf> {
        self.metadata(path)?;
        Ok(path.to_owned())
    }

    /// Returns what the filesystem of a file supports. For a directory, direct I/O is unknown.
    fn capabilities(&self, path: &Path) -> Result<Capabilities>;

    /// Returns the number of pages of a file in the page cache; `None` if the system does not
    /// report it.
    fn resident_pages(&self, path: &Path) -> Result<Option<u64>>;

    /// Makes the names in a directory durable.
    fn sync_directory(&self, directory: &Path) -> Result<()>;

    /// Takes the exclusive lock on a file and holds it until the returned guard is dropped. The
    /// file is created if it does not exist.
    ///
    /// The call never waits: if the lock is held, by another process or through another guard in
    /// this process, the error is of kind `WouldBlock`. The lock does not prevent others from
    /// opening the file. When the lock is taken, the path leads to the locked file. The lock
    /// belongs to the file, not the path: if the file is later renamed or removed, the same path
    /// can be locked again.
    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>>;

    /// Returns the statistics of all files opened, read, written and synced through this storage.
    fn statistics(&self) -> &Statistics;
}

/// A lock on a file, held until the guard is dropped.
pub trait FileLock: Debug + Send + Sync {
    /// Whether the path at which the lock was taken still leads to the locked file. If it does not,
    /// the file was removed or replaced, and another process may have locked a new file there. The
    /// default implementation returns true.
    ///
    /// # Errors
    /// Errors from resolving the path, except that it does not exist.
    fn is_in_place(&self) -> Result<bool> {
        Ok(true)
    }
}

/// A file open for reading. Reads at different offsets may run concurrently.
///
/// In [`IoMode::Direct`] offset, length and memory address must be multiples of
/// [`ReadFile::alignment`], or the error is of kind `InvalidInput`. If the file's length is not a
/// multiple of the alignment, a direct read across the end of the file is short.
/// [`ReadFile::read_span`] reads unaligned spans in every mode.
pub trait ReadFile: Debug + Send + Sync {
    /// Reads at `offset` into `buffer` and returns the number of bytes read. It may be less than
    /// requested, at the end of the file or because the system returned fewer bytes. It is zero
    /// only at the end of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64, purpose: Purpose) -> Result<usize>;

    /// Returns the current length in bytes.
    fn length(&self) -> Result<u64>;

    /// Returns the path that the file was opened by.
    fn path(&self) -> &Path;

    /// Returns the file's I/O mode.
    fn mode(&self) -> IoMode;

    /// Returns the required alignment of direct transfers, in bytes: a power of two from
    /// [`ALIGNMENT`] to [`MAX_ALIGNMENT`](crate::buffer::MAX_ALIGNMENT).
    fn alignment(&self) -> usize {
        ALIGNMENT
    }

    /// Like [`Self::read_at`], for one of several reads that its caller has in flight. The read
    /// waits at the device behind the others, so its duration does not show harm done by background
    /// work ([`crate::Foreground`]).
    fn read_in_batch_at(&self, buffer: &mut [u8], offset: u64, purpose: Purpose) -> Result<usize> {
        self.read_at(buffer, offset, purpose)
    }

    /// Returns the file's descriptor and the rings through which it may be read with io_uring
    /// ([`crate::in_flight`]), without calling [`Self::read_at`]. Each such read is then reported
    /// to [`Self::was_read`].
    fn ring_access(&self) -> Option<RingAccess<'_>> {
        None
    }

    /// Called after `count` bytes at `offset` were read through [`Self::ring_access`]. Does what
    /// [`Self::read_at`] does after a read: updates the statistics and, if the mode requires it,
    /// drops the pages from the page cache.
    fn was_read(&self, _offset: u64, _count: usize, _purpose: Purpose, _time: ReadTime) {}

    /// Called when one thread makes `waiting` requests, one at a time. Returns which of them it
    /// makes next, as an index below `waiting`. A simulated disk answers at random, so that
    /// requests complete in any order.
    fn next_of_waiting(&self, _waiting: usize) -> usize {
        0
    }

    /// Advises the system that reads will be random, so that it does not read ahead. A failure is
    /// ignored.
    fn advise_random(&self) {}

    /// Returns how many pages of a span are in the page cache; `None` if unknown. The span is given
    /// in bytes.
    fn resident_pages(&self, _offset: u64, _length: u64) -> Option<u64> {
        None
    }

    /// Reads `length` bytes at `offset` and returns them; the span need not be aligned in any mode.
    /// The result is shorter only if the file ends earlier. In [`IoMode::Direct`] the surrounding
    /// aligned span is read, otherwise exactly the requested span. The returned slice is a part of
    /// `buffer`, which grows as needed and should be reused for the next read.
    ///
    /// # Errors
    /// The errors of [`Self::read_at`]. If `offset + length` does not fit into 64 bits, the error
    /// is of kind `InvalidInput`.
    fn read_span<'a>(
        &self,
        buffer: &'a mut AlignedBuffer,
        offset: u64,
        length: usize,
        purpose: Purpose,
    ) -> Result<&'a [u8]> {
        let unit = match self.mode() {
            IoMode::Direct => self.alignment() as u64,
            IoMode::Buffered | IoMode::Uncached | IoMode::DropBehind => 1,
        };
        let begin = offset - offset % unit;
        let end =
            offset.checked_add(length as u64).and_then(|end| end.checked_next_multiple_of(unit));
        let Some(end) = end else {
            return Err(Error::at(Operation::Read, self.path(), offset, ErrorKind::InvalidInput));
        };
        if length == 0 {
            return Ok(&[]);
        }
        let around = (end - begin) as usize;
        let before = (offset - begin) as usize;
        buffer.reserve(around, unit as usize);
        buffer.set_length(around);
        match read_as_far_as_possible(self, buffer, before + length, begin, purpose) {
            (_, Some(error)) => Err(error),
            (count, None) => Ok(&buffer[before.min(count)..count.min(before + length)]),
        }
    }

    /// Reads until `buffer` is full or the file ends, and returns the number of bytes read.
    fn read_full_at(&self, buffer: &mut [u8], offset: u64, purpose: Purpose) -> Result<usize> {
        let length = buffer.len();
        match read_as_far_as_possible(self, buffer, length, offset, purpose) {
            (count, None) => Ok(count),
            (_, Some(error)) => Err(error),
        }
    }
}

/// A file open for writing, by one writer at a time. The alignment rules of [`ReadFile`] apply.
pub trait WriteFile: Debug + Send + Sync {
    /// Writes at `offset` and returns the number of bytes written, which may be less than the
    /// length of `bytes` (a short write).
    fn write_at(&mut self, bytes: &[u8], offset: u64, purpose: Purpose) -> Result<usize>;

    /// Makes all written bytes durable, with the metadata needed to read them (`fdatasync`).
    fn sync_data(&mut self, purpose: Purpose) -> Result<()>;

    /// Makes all written bytes and all metadata of the file durable (`fsync`).
    fn sync_all(&mut self, purpose: Purpose) -> Result<()>;

    /// Sets the length in bytes. Bytes added at the end read as zeros.
    fn truncate(&mut self, length: u64) -> Result<()>;

    /// Reserves space for `length` bytes from `offset` without changing the file's length.
    fn allocate(&mut self, offset: u64, length: u64) -> Result<()>;

    /// Starts writeback of a span without waiting for it (`sync_file_range`). It makes nothing
    /// durable.
    fn start_writeback(&mut self, offset: u64, length: u64) -> Result<()>;

    /// Returns the length in bytes.
    fn length(&self) -> Result<u64>;

    /// Returns the path that the file was opened by.
    fn path(&self) -> &Path;

    /// Returns the file's I/O mode.
    fn mode(&self) -> IoMode;

    /// Returns the alignment of direct transfers, as [`ReadFile::alignment`] does.
    fn alignment(&self) -> usize {
        ALIGNMENT
    }

    /// Writes all of `bytes` at `offset`, resuming after short writes.
    fn write_all_at(&mut self, bytes: &[u8], offset: u64, purpose: Purpose) -> Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            let resume = resume_at(done, self.mode(), self.alignment());
            let count = self.write_at(&bytes[resume..], offset + resume as u64, purpose)?;
            if resume + count <= done {
                let source = ErrorKind::WriteZero;
                return Err(Error::at(Operation::Write, self.path(), offset + done as u64, source));
            }
            done = resume + count;
        }
        Ok(())
    }

    /// Writes all of `parts` in sequence, beginning at `offset`, in one call if the system accepts
    /// that many parts. If `is_durable`, the bytes are durable on return, as after
    /// [`Self::write_durably_at`]. In direct mode, `offset` and each part's address and length must
    /// be multiples of the file's alignment.
    fn write_vectored_at(
        &mut self,
        parts: &[IoSlice<'_>],
        offset: u64,
        is_durable: bool,
        purpose: Purpose,
    ) -> Result<()> {
        let mut at = offset;
        for part in parts {
            self.write_all_at(part, at, purpose)?;
            at += part.len() as u64;
        }
        if is_durable { self.sync_data(purpose) } else { Ok(()) }
    }

    /// Writes all of `bytes` at `offset` and makes them durable, with the metadata needed to read
    /// them. Where the system supports it, this is one call (`RWF_DSYNC`). After an error it is
    /// unknown which of the bytes were written.
    fn write_durably_at(&mut self, bytes: &[u8], offset: u64, purpose: Purpose) -> Result<()> {
        self.write_all_at(bytes, offset, purpose)?;
        self.sync_data(purpose)
    }
}

/// The means to read a file with io_uring.
#[derive(Debug, Clone, Copy)]
pub struct RingAccess<'a> {
    /// The open file.
    pub descriptor: BorrowedFd<'a>,
    /// The rings of the file's storage.
    pub rings: &'a Arc<Rings>,
}

/// Reads until at least `enough` bytes are read, the file ends or a read fails. Returns the number
/// of bytes read, which may exceed `enough` up to the buffer's length, and the error if a read
/// failed.
pub(crate) fn read_as_far_as_possible<F: ReadFile + ?Sized>(
    file: &F,
    buffer: &mut [u8],
    enough: usize,
    offset: u64,
    purpose: Purpose,
) -> (usize, Option<Error>) {
    let read_at = |part: &mut [u8], at| file.read_at(part, at, purpose);
    read_on_as_far_as_possible(file, buffer, 0, enough, offset, read_at)
}

/// Continues [`read_as_far_as_possible`] if the first `done` bytes of `buffer` have already been
/// read. Reads with `read_at`, which is given a part of the buffer and its offset in the file.
pub(crate) fn read_on_as_far_as_possible<F: ReadFile + ?Sized>(
    file: &F,
    buffer: &mut [u8],
    mut done: usize,
    enough: usize,
    offset: u64,
    mut read_at: impl FnMut(&mut [u8], u64) -> Result<usize>,
) -> (usize, Option<Error>) {
    while done < enough {
        let resume = resume_at(done, file.mode(), file.alignment());
        match read_at(&mut buffer[resume..], offset + resume as u64) {
            Ok(count) if resume + count > done => done = resume + count,
            Ok(0) => break,
            Ok(_) => return (done, stuck_before_the_end(file, offset + done as u64).err()),
            Err(error) => return (done, Some(error)),
        }
    }
    (done, None)
}

/// Called when a direct read, repeated from the last block boundary, returned no bytes beyond those
/// already read. That is correct at the end of the file (`Ok`) and an error elsewhere.
fn stuck_before_the_end<F: ReadFile + ?Sized>(file: &F, offset: u64) -> Result<()> {
    if offset >= file.length()? {
        return Ok(());
    }
    Err(Error::at(Operation::Read, file.path(), offset, ErrorKind::UnexpectedEof))
}

/// Returns the position in the buffer at which to resume a transfer after `done` bytes. A direct
/// transfer must begin at a block boundary, so one that stopped inside a block repeats that block.
pub(crate) fn resume_at(done: usize, mode: IoMode, alignment: usize) -> usize {
    match mode {
        IoMode::Direct => done - done % alignment,
        IoMode::Buffered | IoMode::Uncached | IoMode::DropBehind => done,
    }
}
