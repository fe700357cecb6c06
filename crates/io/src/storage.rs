//! The seam between the engine and the disk.
//!
//! A [`Storage`] stands for one file system as one process sees it. All of it is safe to call from
//! any thread.
//!
//! # Durability
//!
//! What a backend promises, and what the simulated one takes away in a crash:
//! - Bytes written are durable once a sync of that file that began after the write has returned,
//!   or the call that wrote them, where that is [`WriteFile::write_durably_at`]. What was written
//!   before by other calls, that one says nothing of.
//! - A name (a file created, renamed, linked or removed) is durable once a sync of its directory
//!   has returned. A file's own sync does not make its name durable.
//! - After a failed sync nothing is known about the bytes written since the last good one; it is
//!   never retried.

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

/// What to do about a file that may already be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Create {
    /// It must not be there.
    New,
    /// It is made empty if it is there.
    Truncate,
    /// It must be there and is kept: a log taken up again or recycled.
    Existing,
}

/// One name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// The name, without its directory. A name that is not UTF-8 is given with replacement
    /// characters.
    pub name: String,
    /// Whether it is a directory.
    pub is_directory: bool,
}

/// One name in a directory, while the directory is read.
pub struct ListedEntry<'a> {
    /// As [`DirectoryEntry::name`].
    pub name: &'a str,
    /// As [`DirectoryEntry::is_directory`].
    pub is_directory: bool,
    pub(crate) length: &'a dyn Fn() -> Result<u64>,
}

impl ListedEntry<'_> {
    /// The length of the file in bytes. It is asked for only now, but more quickly than by its
    /// path.
    ///
    /// # Errors
    /// As [`Storage::metadata`].
    pub fn length(&self) -> Result<u64> {
        (self.length)()
    }
}

/// What is known of a file without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileMetadata {
    /// The length in bytes.
    pub length: u64,
    /// Whether it is a directory.
    pub is_directory: bool,
    /// When it was last written, in microseconds since 1970.
    pub modified_us: u64,
}

/// What a file or directory is, whatever path leads to it. It stays the same while it is renamed;
/// the system may give the inode of one that was removed to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileIdentity {
    /// The device that it is on. Some filesystems get another number each time they are mounted.
    pub device: u64,
    /// The number of its inode.
    pub inode: u64,
}

/// What a filesystem says of direct I/O on a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DirectIo {
    /// It can: offset, length and memory are multiples of so many bytes.
    Aligned(u32),
    /// It cannot.
    Refused,
    /// It does not say: only trying tells.
    Unknown,
}

/// What a filesystem can do, as far as it says without being tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capabilities {
    /// The filesystem's name: `ext4`, `xfs`.
    pub filesystem: String,
    /// Direct I/O on the file that was asked about.
    pub direct_io: DirectIo,
    /// Why direct writes lose data there, where they do.
    pub direct_write_fault: Option<&'static str>,
    /// The largest request that the device takes as one, in bytes (`max_sectors_kb`), if it says
    /// so.
    pub request_bytes_max: Option<usize>,
}

/// A file system: the real one, or one that is simulated.
pub trait Storage: Debug + Send + Sync + 'static {
    /// Opens a file for reading at any offset. A filesystem that refuses [`IoMode::Direct`] is an
    /// error of kind `Unsupported`, here and in [`Self::create`].
    fn open(&self, path: &Path, mode: IoMode, purpose: Purpose) -> Result<Arc<dyn ReadFile>>;

    /// Opens a file for writing at any offset.
    fn create(
        &self,
        path: &Path,
        create: Create,
        mode: IoMode,
        purpose: Purpose,
    ) -> Result<Box<dyn WriteFile>>;

    /// Gives a file or directory another name; a file or an empty directory that had it is
    /// replaced.
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;

    /// Removes a file.
    fn remove(&self, path: &Path) -> Result<()>;

    /// Removes an empty directory.
    fn remove_directory(&self, path: &Path) -> Result<()>;

    /// Gives a file a second name, which must not be there. Of a symbolic link, it is the file that
    /// it leads to which gets the name.
    fn link(&self, existing: &Path, new: &Path) -> Result<()>;

    /// The names in a directory, sorted.
    fn list(&self, directory: &Path) -> Result<Vec<DirectoryEntry>>;

    /// Visits the names in a directory, in any order, until a visit fails. For very many names this
    /// takes less time and memory than [`Self::list`].
    ///
    /// # Errors
    /// Those of listing it, and the visit's.
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

    /// Creates a directory and those above it; one that is there is left as it is.
    fn create_directory(&self, path: &Path) -> Result<()>;

    /// A file's length, kind and time.
    fn metadata(&self, path: &Path) -> Result<FileMetadata>;

    /// What the file or directory is that a path leads to; symbolic links are followed.
    ///
    /// The default tells files apart by the text of their paths. A backend in which a directory can
    /// have several names must tell better.
    fn identity(&self, path: &Path) -> Result<FileIdentity> {
        self.metadata(path)?;
        let mut hasher = DefaultHasher::new();
        path.components().for_each(|component| component.hash(&mut hasher));
        Ok(FileIdentity { device: 0, inode: hasher.finish() })
    }

    /// The absolute path of a file or directory, without symbolic links, `.` and `..`. The default
    /// returns the path unchanged.
    fn canonical_path(&self, path: &Path) -> Result<PathBuf> {
        self.metadata(path)?;
        Ok(path.to_owned())
    }

    /// What the filesystem of a file can do. Of a directory, direct I/O is unknown.
    fn capabilities(&self, path: &Path) -> Result<Capabilities>;

    /// How many pages of a file are in the page cache; `None` where the system does not tell.
    fn resident_pages(&self, path: &Path) -> Result<Option<u64>>;

    /// Makes the names in a directory durable.
    fn sync_directory(&self, directory: &Path) -> Result<()>;

    /// Takes the exclusive lock on a file, which is created if it is not there, and holds it until
    /// the guard is dropped. A lock held by another process or elsewhere in this one is an error of
    /// kind `WouldBlock`; it is never waited for. Others may open the file. It counts for the file
    /// that has the name after it was taken: a file that loses its name keeps nobody out.
    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>>;

    /// What was opened, read, written and synced through this storage so far.
    fn statistics(&self) -> &Statistics;
}

/// A lock on a file, held until this is dropped.
pub trait FileLock: Debug + Send + Sync {}

/// A file open for reading. Reads at different offsets may run at once.
///
/// In [`IoMode::Direct`] offset, length and memory are multiples of [`ReadFile::alignment`];
/// anything else is an error of kind `InvalidInput`. A direct read that passes an unaligned end of
/// the file is short. [`ReadFile::read_span`] reads anything in every mode.
pub trait ReadFile: Debug + Send + Sync {
    /// Reads at `offset` into `buffer` and answers how many bytes came: fewer than asked only at
    /// the end of the file or where the system gave fewer; zero only at the end.
    fn read_at(&self, buffer: &mut [u8], offset: u64, purpose: Purpose) -> Result<usize>;

    /// The length in bytes, as it is at this moment.
    fn length(&self) -> Result<u64>;

    /// The path it was opened by.
    fn path(&self) -> &Path;

    /// How its bytes move.
    fn mode(&self) -> IoMode;

    /// What direct transfers must be aligned to, in bytes: a power of two from [`ALIGNMENT`] to
    /// [`MAX_ALIGNMENT`](crate::buffer::MAX_ALIGNMENT).
    fn alignment(&self) -> usize {
        ALIGNMENT
    }

    /// The descriptor, where a stream may have the kernel read through it by a ring of requests
    /// ([`crate::stream`]), which then tells of it by [`Self::was_read`].
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Does what [`Self::read_at`] does beside reading, for `count` bytes at `offset` that came
    /// through the descriptor: counts them, and lets go of their pages where the mode says so.
    fn was_read(&self, _offset: u64, _count: usize, _purpose: Purpose, _duration_ns: u64) {}

    /// Tells the system that reads will be at random places, so that it reads nothing ahead. That
    /// is advice: what becomes of it is nobody's error.
    fn advise_random(&self) {}

    /// How many pages of a span, in bytes, are in the page cache; `None` where nobody tells.
    fn resident_pages(&self, _offset: u64, _length: u64) -> Option<u64> {
        None
    }

    /// Reads the `length` bytes at `offset`, which need not be aligned in any mode, and answers
    /// them: fewer only where the file ends. In [`IoMode::Direct`] the aligned span around them is
    /// read, else exactly they are. They stay where they were read to: in `buffer`, which grows as
    /// needed, and is to be kept for the next read.
    ///
    /// # Errors
    /// Those of [`Self::read_at`]; a span that ends past 2^64 is of kind `InvalidInput`.
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

    /// Reads until `buffer` is full or the file ends, and answers how many bytes came.
    fn read_full_at(&self, buffer: &mut [u8], offset: u64, purpose: Purpose) -> Result<usize> {
        let length = buffer.len();
        match read_as_far_as_possible(self, buffer, length, offset, purpose) {
            (count, None) => Ok(count),
            (_, Some(error)) => Err(error),
        }
    }
}

/// A file open for writing. One writer at a time. Alignment is as for [`ReadFile`].
pub trait WriteFile: Debug + Send + Sync {
    /// Writes at `offset` and answers how many bytes went: fewer than given only where the system
    /// took fewer.
    fn write_at(&mut self, bytes: &[u8], offset: u64, purpose: Purpose) -> Result<usize>;

    /// Makes the bytes, and the length needed to read them, durable.
    fn sync_data(&mut self, purpose: Purpose) -> Result<()>;

    /// Makes the bytes and all metadata durable.
    fn sync_all(&mut self, purpose: Purpose) -> Result<()>;

    /// Changes the length; a longer file reads as zeros.
    fn truncate(&mut self, length: u64) -> Result<()>;

    /// Reserves space for `length` bytes from `offset` without changing the file's length.
    fn allocate(&mut self, offset: u64, length: u64) -> Result<()>;

    /// Starts writing back a span without waiting for it (`sync_file_range`); no durability follows
    /// from it.
    fn start_writeback(&mut self, offset: u64, length: u64) -> Result<()>;

    /// The length in bytes.
    fn length(&self) -> Result<u64>;

    /// The path it was opened by.
    fn path(&self) -> &Path;

    /// How its bytes move.
    fn mode(&self) -> IoMode;

    /// What direct transfers must be aligned to, as [`ReadFile::alignment`].
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

    /// Writes all of `parts`, one behind the other, at `offset`: in one call where the system takes
    /// all of it, and durably, as [`Self::write_durably_at`], if `is_durable`. Each part's memory
    /// and length are aligned as `offset` is.
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

    /// Writes all of `bytes` at `offset`, and makes them durable with what it takes to read them:
    /// one call (`RWF_DSYNC`) where the system has it. After an error nothing is known of them.
    fn write_durably_at(&mut self, bytes: &[u8], offset: u64, purpose: Purpose) -> Result<()> {
        self.write_all_at(bytes, offset, purpose)?;
        self.sync_data(purpose)
    }
}

/// Reads until `enough` bytes came, the file ends or a read fails, and answers how many came before
/// that: maybe more than enough, up to the whole buffer.
pub(crate) fn read_as_far_as_possible<F: ReadFile + ?Sized>(
    file: &F,
    buffer: &mut [u8],
    enough: usize,
    offset: u64,
    purpose: Purpose,
) -> (usize, Option<Error>) {
    read_on_as_far_as_possible(file, buffer, 0, enough, offset, purpose)
}

/// The same, where `done` bytes came already.
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

/// A direct read that began again at a block brought nothing new: right at the end of the file, an
/// error elsewhere.
fn stuck_before_the_end<F: ReadFile + ?Sized>(file: &F, offset: u64) -> Result<()> {
    if offset >= file.length()? {
        return Ok(());
    }
    Err(Error::at(Operation::Read, file.path(), offset, ErrorKind::UnexpectedEof))
}

/// Where a transfer of which `done` bytes went is taken up again. A direct one that stopped inside
/// a block does that block again, since it can begin nowhere else.
pub(crate) fn resume_at(done: usize, mode: IoMode, alignment: usize) -> usize {
    match mode {
        IoMode::Direct => done - done % alignment,
        IoMode::Buffered | IoMode::Uncached | IoMode::DropBehind => done,
    }
}
