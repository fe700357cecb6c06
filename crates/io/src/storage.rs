//! The interface between the engine and the disk.
//!
//! A [`Storage`] represents one filesystem as one process sees it. All methods are safe to call
//! from any thread.
//!
//! # Durability
//!
//! Every backend guarantees the following. In a crash, the simulated backend may lose everything
//! that these guarantees do not cover:
//! - Written bytes are durable once a sync of the file that began after the write has returned, or
//!   once [`WriteFile::write_durably_at`] has returned. That call guarantees nothing for the bytes
//!   of earlier calls.
//! - A name (a file created, renamed, linked or removed) is durable once a sync of its directory
//!   has returned. A file's own sync does not make its name durable.
//! - After a failed sync nothing is known about the bytes written since the last successful sync. A
//!   failed sync is never retried.

use std::fmt::Debug;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{ErrorKind, IoSlice};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::buffer::{ALIGNMENT, AlignedBuffer};
use crate::purpose::{IoMode, Purpose};
use crate::statistics::Statistics;
use crate::{Error, Operation, Result};

/// What to do about a file that may already exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Create {
    /// The file must not exist.
    New,
    /// The file is truncated if it exists.
    Truncate,
    /// The file must exist and is kept: a log that is continued or recycled.
    Existing,
}

/// One name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// The name, without its directory. A name that is not UTF-8 is given with replacement
    /// characters.
    pub name: String,
    /// Whether the name is that of a directory.
    pub is_directory: bool,
}

/// One name in a directory, while the directory is being read.
pub struct ListedEntry<'a> {
    /// Like [`DirectoryEntry::name`].
    pub name: &'a str,
    /// Like [`DirectoryEntry::is_directory`].
    pub is_directory: bool,
    pub(crate) length: &'a dyn Fn() -> Result<u64>,
}

impl ListedEntry<'_> {
    /// Reads the file's length now and returns it, in bytes. This is faster than
    /// [`Storage::metadata`], which resolves a path.
    ///
    /// # Errors
    /// The errors of [`Storage::metadata`].
    pub fn length(&self) -> Result<u64> {
        (self.length)()
    }
}

/// Metadata of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileMetadata {
    /// The length in bytes.
    pub length: u64,
    /// Whether the file is a directory.
    pub is_directory: bool,
    /// Time of the last write, in microseconds since 1970.
    pub modified_us: u64,
}

/// Identifies a file or directory, whatever path leads to it. A rename does not change it; the
/// system may reuse the inode of a removed file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileIdentity {
    /// The device number. Some filesystems get a new one each time they are mounted.
    pub device: u64,
    /// The inode number.
    pub inode: u64,
}

/// What a filesystem reports about direct I/O on a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DirectIo {
    /// Supported. Offset, length and memory must be multiples of this many bytes.
    Aligned(u32),
    /// Not supported.
    Refused,
    /// Not reported. Only trying shows whether direct I/O works.
    Unknown,
}

/// What a filesystem reports that it supports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capabilities {
    /// The filesystem's name: `ext4`, `xfs`.
    pub filesystem: String,
    /// Direct I/O on the queried file.
    pub direct_io: DirectIo,
    /// Why direct writes lose data there, if they do.
    pub direct_write_fault: Option<&'static str>,
    /// The largest request that the device accepts as one, in bytes (`max_sectors_kb`), if it
    /// reports that.
    pub request_bytes_max: Option<usize>,
}

/// A filesystem: the real one, or a simulated one.
pub trait Storage: Debug + Send + Sync + 'static {
    /// Opens a file for reading at any offset. If the filesystem refuses [`IoMode::Direct`], the
    /// error is of kind `Unsupported`, here and in [`Self::create`].
    fn open(&self, path: &Path, mode: IoMode, purpose: Purpose) -> Result<Arc<dyn ReadFile>>;

    /// Opens a file for writing at any offset.
    fn create(
        &self,
        path: &Path,
        create: Create,
        mode: IoMode,
        purpose: Purpose,
    ) -> Result<Box<dyn WriteFile>>;

    /// Renames a file or directory; a file or an empty directory with the new name is replaced.
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;

    /// Removes a file.
    fn remove(&self, path: &Path) -> Result<()>;

    /// Removes an empty directory.
    fn remove_directory(&self, path: &Path) -> Result<()>;

    /// Gives a file a second name, which must not exist. For a symbolic link, the target gets the
    /// name.
    fn link(&self, existing: &Path, new: &Path) -> Result<()>;

    /// Returns the names in a directory, sorted.
    fn list(&self, directory: &Path) -> Result<Vec<DirectoryEntry>>;

    /// Visits the names in a directory, in any order, until a visit fails. For many names this
    /// takes less time and memory than [`Self::list`].
    ///
    /// # Errors
    /// Errors from listing, and the visit's.
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

    /// Creates a directory and its parents; an existing one is left as it is.
    fn create_directory(&self, path: &Path) -> Result<()>;

    /// Returns a file's length, kind and modification time.
    fn metadata(&self, path: &Path) -> Result<FileMetadata>;

    /// Returns the identity of the file or directory that a path leads to; symbolic links are
    /// followed.
    ///
    /// The default distinguishes files by the text of their paths. A backend in which a directory
    /// can have several names must do better.
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

    /// Takes the exclusive lock on a file, which is created if it does not exist, and holds it
    /// until the guard is dropped. It never waits: if the lock is held by another process, or by
    /// another user in this process, the error is of kind `WouldBlock`. Others may open the file.
    /// The path leads to the locked file when the lock is taken. If the file loses that name later,
    /// its lock excludes no one.
    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>>;

    /// Returns the statistics of everything opened, read, written and synced through this storage.
    fn statistics(&self) -> &Statistics;
}

/// A lock on a file, held until the guard is dropped.
pub trait FileLock: Debug + Send + Sync {}

/// A file open for reading. Reads at different offsets may run concurrently.
///
/// In [`IoMode::Direct`] offset, length and memory are multiples of [`ReadFile::alignment`];
/// anything else is an error of kind `InvalidInput`. A direct read across an unaligned end of the
/// file is short. [`ReadFile::read_span`] reads any span in every mode.
pub trait ReadFile: Debug + Send + Sync {
    /// Reads at `offset` into `buffer` and returns the number of bytes read: fewer than requested
    /// at the end of the file or if the system returned fewer; zero only at the end.
    fn read_at(&self, buffer: &mut [u8], offset: u64, purpose: Purpose) -> Result<usize>;

    /// Returns the current length in bytes.
    fn length(&self) -> Result<u64>;

    /// Returns the path that the file was opened by.
    fn path(&self) -> &Path;

    /// Returns the file's I/O mode.
    fn mode(&self) -> IoMode;

    /// Returns the alignment of direct transfers, in bytes: a power of two from [`ALIGNMENT`] to
    /// [`MAX_ALIGNMENT`](crate::buffer::MAX_ALIGNMENT).
    fn alignment(&self) -> usize {
        ALIGNMENT
    }

    /// Returns the file's descriptor if streams may read through it by io_uring
    /// ([`crate::stream`]). A stream then reports each such read to [`Self::was_read`].
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Accounts for `count` bytes at `offset` that were read through the descriptor, as
    /// [`Self::read_at`] does: counts them, and drops their pages if the mode requires it.
    fn was_read(&self, _offset: u64, _count: usize, _purpose: Purpose, _duration_ns: u64) {}

    /// Advises the system that reads will be random, so that it reads nothing ahead. A failure is
    /// ignored.
    fn advise_random(&self) {}

    /// Returns the number of pages of a span, in bytes, in the page cache; `None` if unknown.
    fn resident_pages(&self, _offset: u64, _length: u64) -> Option<u64> {
        None
    }

    /// Reads the `length` bytes at `offset`, which need not be aligned in any mode, and returns
    /// them: fewer only at the end of the file. In [`IoMode::Direct`] the aligned span around them
    /// is read, otherwise exactly those bytes. The returned slice is part of `buffer`, which grows
    /// as needed and should be kept for the next read.
    ///
    /// # Errors
    /// The errors of [`Self::read_at`]; a span that ends past 2^64 is of kind `InvalidInput`.
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

/// A file open for writing, by one writer at a time. Alignment is as for [`ReadFile`].
pub trait WriteFile: Debug + Send + Sync {
    /// Writes at `offset` and returns the number of bytes written: fewer than given only if the
    /// system wrote fewer.
    fn write_at(&mut self, bytes: &[u8], offset: u64, purpose: Purpose) -> Result<usize>;

    /// Makes the bytes, and the length needed to read them, durable.
    fn sync_data(&mut self, purpose: Purpose) -> Result<()>;

    /// Makes the bytes and all metadata durable.
    fn sync_all(&mut self, purpose: Purpose) -> Result<()>;

    /// Changes the length; a longer file reads as zeros.
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

    /// Writes all of `parts`, one after the other, at `offset`: in one call if the system accepts
    /// all parts in one, and durably, as [`Self::write_durably_at`] does, if `is_durable`. Each
    /// part's memory and length have the alignment of `offset`.
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

    /// Writes all of `bytes` at `offset`, and makes them durable with the metadata needed to read
    /// them: one call (`RWF_DSYNC`) where the system supports it. After an error their state is
    /// unknown.
    fn write_durably_at(&mut self, bytes: &[u8], offset: u64, purpose: Purpose) -> Result<()> {
        self.write_all_at(bytes, offset, purpose)?;
        self.sync_data(purpose)
    }
}

/// Reads until `enough` bytes are read, the file ends or a read fails, and returns the number of
/// bytes read before that: possibly more than enough, up to the whole buffer.
pub(crate) fn read_as_far_as_possible<F: ReadFile + ?Sized>(
    file: &F,
    buffer: &mut [u8],
    enough: usize,
    offset: u64,
    purpose: Purpose,
) -> (usize, Option<Error>) {
    read_on_as_far_as_possible(file, buffer, 0, enough, offset, purpose)
}

/// Continues [`read_as_far_as_possible`] after `done` bytes.
pub(crate) fn read_on_as_far_as_possible<F: ReadFile + ?Sized>(
    file: &F,
    buffer: &mut [u8],
    mut done: usize,
    enough: usize,
    offset: u64,
    purpose: Purpose,
) -> (usize, Option<Error>) {
    while done < enough {
        let resume = resume_at(done, file.mode(), file.alignment());
        match file.read_at(&mut buffer[resume..], offset + resume as u64, purpose) {
            Ok(count) if resume + count > done => done = resume + count,
            Ok(0) => break,
            Ok(_) => return (done, stuck_before_the_end(file, offset + done as u64).err()),
            Err(error) => return (done, Some(error)),
        }
    }
    (done, None)
}

/// Called when a direct read that resumed at a block boundary returned nothing new: correct at the
/// end of the file, an error elsewhere.
fn stuck_before_the_end<F: ReadFile + ?Sized>(file: &F, offset: u64) -> Result<()> {
    if offset >= file.length()? {
        return Ok(());
    }
    Err(Error::at(Operation::Read, file.path(), offset, ErrorKind::UnexpectedEof))
}

/// Returns where to resume a transfer after `done` bytes. A direct transfer that stopped inside a
/// block repeats that block, since it must begin at a block boundary.
pub(crate) fn resume_at(done: usize, mode: IoMode, alignment: usize) -> usize {
    match mode {
        IoMode::Direct => done - done % alignment,
        IoMode::Buffered | IoMode::Uncached | IoMode::DropBehind => done,
    }
}
