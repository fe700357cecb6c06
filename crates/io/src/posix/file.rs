//! Open files of the real disk.

use std::io::{ErrorKind, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustix::io::retry_on_intr;

use super::system;
use crate::clock::monotonic_ns;
use crate::purpose::{IoMode, Purpose};
use crate::rings::Rings;
use crate::sections::{self, Section};
use crate::statistics::{ReadTime, Statistics};
use crate::storage::{ReadFile, RingAccess, WriteFile, resume_at};
use crate::{Error, Operation, Result};

/// An open file: its descriptor, and what is needed for its errors and statistics.
#[derive(Debug)]
pub(super) struct PosixFile {
    pub(super) descriptor: OwnedFd,
    pub(super) path: PathBuf,
    pub(super) mode: IoMode,
    /// The rings through which this file may be read; `None` if it must not be read with io_uring.
    pub(super) rings: Option<Arc<Rings>>,
    /// Alignment of direct transfers, in bytes.
    pub(super) alignment: usize,
    pub(super) statistics: Arc<Statistics>,
    /// Whether the filesystem honours durable writes (`RWF_DSYNC`). If not, a sync follows each
    /// durable write. Empty until the first durable write determines it.
    pub(super) durable_writes: OnceLock<bool>,
    /// In [`IoMode::DropBehind`], the offset up to which written pages have been dropped from the
    /// page cache.
    pub(super) dropped: u64,
}

/// Minimum number of the most recently written bytes that [`IoMode::DropBehind`] keeps in the page
/// cache. Pages before them are written back and dropped, in steps of at least this number of
/// bytes.
const DROP_BEHIND: u64 = 4 << 20;

/// Maximum size of a folio, a unit of the page cache, in bytes. A folio is aligned to its size.
const LARGEST_FOLIO: u64 = 2 << 20;

impl PosixFile {
    fn file_length(&self) -> Result<u64> {
        match rustix::fs::fstat(&self.descriptor) {
            Ok(status) => Ok(status.st_size as u64),
            Err(error) => Err(Error::new(Operation::Metadata, &self.path, error)),
        }
    }

    fn sync(
        &mut self,
        purpose: Purpose,
        call: impl Fn(BorrowedFd<'_>) -> rustix::io::Result<()>,
    ) -> Result<()> {
        let started = monotonic_ns();
        retry_on_intr(|| call(self.descriptor.as_fd()))
            .map_err(|error| Error::new(Operation::Sync, &self.path, error))?;
        self.statistics.record_sync(purpose, monotonic_ns() - started);
        if self.mode == IoMode::DropBehind {
            system::drop_pages(self.descriptor.as_fd(), 0, 0);
        }
        Ok(())
    }

    /// Starts writeback of the bytes just written. If pages end more than [`DROP_BEHIND`] bytes
    /// before the end of these bytes, waits for the writeback of those pages and drops them from
    /// the page cache.
    fn drop_behind(&mut self, offset: u64, length: u64) -> Result<()> {
        let descriptor = self.descriptor.as_fd();
        let failed = |error| Error::at(Operation::StartWriteback, &self.path, offset, error);
        system::start_writeback(descriptor, offset, length).map_err(failed)?;
        let end = (offset + length).saturating_sub(DROP_BEHIND);
        if end >= self.dropped + DROP_BEHIND {
            system::finish_writeback(descriptor, self.dropped, end - self.dropped)
                .map_err(failed)?;
            system::drop_pages(descriptor, self.dropped, end - self.dropped);
            self.dropped = end;
        }
        Ok(())
    }

    /// Reads, and returns the number of bytes read and the duration in nanoseconds.
    fn timed_read(&self, buffer: &mut [u8], offset: u64) -> Result<(usize, u64)> {
        let started = monotonic_ns();
        let waiting = sections::enter_at(Section::Device, started);
        let descriptor = self.descriptor.as_fd();
        let count = retry_on_intr(|| match self.mode {
            IoMode::Uncached => system::read_uncached(descriptor, &mut *buffer, offset),
            _ => rustix::io::pread(descriptor, &mut *buffer, offset),
        })
        .map_err(|error| Error::at(Operation::Read, &self.path, offset, error))?;
        let ended = monotonic_ns();
        waiting.leave_at(ended);
        Ok((count, ended - started))
    }

    /// In [`IoMode::DropBehind`], drops from the page cache the pages that contain the bytes just
    /// read.
    fn drop_behind_read(&self, offset: u64, count: u64) {
        if self.mode == IoMode::DropBehind {
            // The kernel drops only folios that lie entirely in the given span, and its read-ahead
            // creates large folios. So the span begins with the folio in which the previous read
            // ended.
            let begin = offset - offset % LARGEST_FOLIO;
            system::drop_pages(self.descriptor.as_fd(), begin, offset + count - begin);
        }
    }
}

impl ReadFile for PosixFile {
    fn advise_random(&self) {
        system::advise_random(self.descriptor.as_fd());
    }

    fn resident_pages(&self, offset: u64, length: u64) -> Option<u64> {
        system::resident_pages(self.descriptor.as_fd(), offset, length).ok().flatten()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64, purpose: Purpose) -> Result<usize> {
        let (count, duration_ns) = self.timed_read(buffer, offset)?;
        self.was_read(offset, count, purpose, ReadTime::Alone(duration_ns));
        Ok(count)
    }

    fn read_in_batch_at(&self, buffer: &mut [u8], offset: u64, purpose: Purpose) -> Result<usize> {
        let (count, duration_ns) = self.timed_read(buffer, offset)?;
        self.was_read(offset, count, purpose, ReadTime::InBatch(duration_ns));
        Ok(count)
    }

    fn ring_access(&self) -> Option<RingAccess<'_>> {
        let descriptor = self.descriptor.as_fd();
        self.rings.as_ref().map(|rings| RingAccess { descriptor, rings })
    }

    fn was_read(&self, offset: u64, count: usize, purpose: Purpose, time: ReadTime) {
        self.drop_behind_read(offset, count as u64);
        self.statistics.record_read(purpose, count as u64, time);
    }

    fn length(&self) -> Result<u64> {
        self.file_length()
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn mode(&self) -> IoMode {
        self.mode
    }

    fn alignment(&self) -> usize {
        self.alignment
    }
}

impl WriteFile for PosixFile {
    fn write_at(&mut self, bytes: &[u8], offset: u64, purpose: Purpose) -> Result<usize> {
        let started = monotonic_ns();
        let descriptor = self.descriptor.as_fd();
        let count = retry_on_intr(|| match self.mode {
            IoMode::Uncached => system::write_uncached(descriptor, bytes, offset),
            _ => rustix::io::pwrite(descriptor, bytes, offset),
        })
        .map_err(|error| Error::at(Operation::Write, &self.path, offset, error))?;
        if self.mode == IoMode::DropBehind {
            self.drop_behind(offset, count as u64)?;
        }
        self.statistics.record_write(purpose, count as u64, monotonic_ns() - started);
        Ok(count)
    }

    fn write_vectored_at(
        &mut self,
        parts: &[IoSlice<'_>],
        offset: u64,
        is_durable: bool,
        purpose: Purpose,
    ) -> Result<()> {
        let descriptor = self.descriptor.as_fd();
        let in_one_call = is_durable
            && *self.durable_writes.get_or_init(|| system::has_durable_writes(descriptor));
        let total: usize = parts.iter().map(|part| part.len()).sum();
        let started = monotonic_ns();
        // One call accepts only a limited number of parts. The parts after them are written below,
        // as after a short write.
        let some = &parts[..parts.len().min(system::VECTOR_MAX)];
        let count = retry_on_intr(|| {
            system::write_vectored(self.descriptor.as_fd(), some, offset, in_one_call)
        })
        .map_err(|error| Error::at(Operation::Write, &self.path, offset, error))?;
        self.statistics.record_write(purpose, count as u64, monotonic_ns() - started);
        let mut done = count;
        let mut at = offset;
        for part in parts {
            // If a direct write stopped inside a block, the next write begins with that block
            // again.
            let skipped = resume_at(done.min(part.len()), self.mode, self.alignment);
            if done < part.len() {
                let (rest, place) = (&part[skipped..], at + skipped as u64);
                if in_one_call {
                    self.write_durably_at(rest, place, purpose)?
                } else {
                    self.write_all_at(rest, place, purpose)?
                }
            }
            done -= done.min(part.len());
            at += part.len() as u64;
        }
        if in_one_call && count == total {
            self.statistics.record_sync(purpose, monotonic_ns() - started);
        }
        if is_durable && !in_one_call { self.sync_data(purpose) } else { Ok(()) }
    }

    fn write_durably_at(&mut self, bytes: &[u8], offset: u64, purpose: Purpose) -> Result<()> {
        let descriptor = self.descriptor.as_fd();
        if !*self.durable_writes.get_or_init(|| system::has_durable_writes(descriptor)) {
            self.write_all_at(bytes, offset, purpose)?;
            return self.sync_data(purpose);
        }
        let mut done = 0;
        while done < bytes.len() {
            let resume = resume_at(done, self.mode, self.alignment);
            let (rest, at) = (&bytes[resume..], offset + resume as u64);
            let started = monotonic_ns();
            let count = retry_on_intr(|| system::write_durably(self.descriptor.as_fd(), rest, at))
                .map_err(|error| Error::at(Operation::Write, &self.path, at, error))?;
            if resume + count <= done {
                return Err(Error::at(Operation::Write, &self.path, at, ErrorKind::WriteZero));
            }
            done = resume + count;
            let duration_ns = monotonic_ns() - started;
            self.statistics.record_write(purpose, count as u64, duration_ns);
            self.statistics.record_sync(purpose, duration_ns);
        }
        Ok(())
    }

    fn sync_data(&mut self, purpose: Purpose) -> Result<()> {
        self.sync(purpose, system::sync_data)
    }

    fn sync_all(&mut self, purpose: Purpose) -> Result<()> {
        self.sync(purpose, system::sync_all)
    }

    fn truncate(&mut self, length: u64) -> Result<()> {
        retry_on_intr(|| rustix::fs::ftruncate(&self.descriptor, length))
            .map_err(|error| Error::at(Operation::Truncate, &self.path, length, error))
    }

    fn allocate(&mut self, offset: u64, length: u64) -> Result<()> {
        system::allocate(self.descriptor.as_fd(), offset, length)
            .map_err(|error| Error::at(Operation::Allocate, &self.path, offset, error))
    }

    fn start_writeback(&mut self, offset: u64, length: u64) -> Result<()> {
        system::start_writeback(self.descriptor.as_fd(), offset, length)
            .map_err(|error| Error::at(Operation::StartWriteback, &self.path, offset, error))
    }

    fn length(&self) -> Result<u64> {
        self.file_length()
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn mode(&self) -> IoMode {
        self.mode
    }

    fn alignment(&self) -> usize {
        self.alignment
    }
}
