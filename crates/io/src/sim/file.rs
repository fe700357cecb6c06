//! Open files of the simulated disk.

use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::{Arc, MutexGuard};

use rustix::io::Errno;

use super::calls::{Opening, WriteCall};
use super::disk::Effect;
use super::namespace::{FileId, Node};
use super::state::{DeviceTimes, Machine, State, Verdict};
use crate::buffer::AlignedBuffer;
use crate::purpose::{IoMode, Purpose};
use crate::sections::{self, Section};
use crate::statistics::ReadTime;
use crate::storage::{FileLock, ReadFile, WriteFile};
use crate::{Error, Operation, Result};

/// A handle on an open file. The file exists as long as the handle does, even if its names are
/// removed.
#[derive(Debug)]
pub(super) struct SimFile {
    shared: Arc<Machine>,
    file: FileId,
    path: PathBuf,
    mode: IoMode,
    alignment: usize,
    purpose: Purpose,
}

impl SimFile {
    /// Opens a handle on a file. `state` is the locked state of `shared`.
    pub(super) fn open(
        shared: &Arc<Machine>,
        state: &mut State,
        file: FileId,
        path: &Path,
        mode: IoMode,
        purpose: Purpose,
    ) -> Self {
        state.opened(file);
        if let Some(recording) = &mut state.recording {
            recording.openings.push(Opening { path: Arc::from(path), mode, purpose });
        }
        shared.statistics.record_open(purpose);
        let (path, alignment) = (path.to_owned(), state.alignment);
        Self { shared: Arc::clone(shared), file, path, mode, alignment, purpose }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock()
    }

    /// In direct mode, checks that offset, length and memory address are multiples of the
    /// alignment.
    fn check_alignment(&self, memory: &[u8], offset: u64) -> io::Result<()> {
        let aligned = memory.as_ptr().addr().is_multiple_of(self.alignment)
            && memory.len().is_multiple_of(self.alignment)
            && offset.is_multiple_of(self.alignment as u64);
        if self.mode == IoMode::Direct && !aligned {
            return Err(Errno::INVAL.into());
        }
        Ok(())
    }

    fn file_length(&self) -> Result<u64> {
        let mut state = self.state();
        state
            .begin_whole(Operation::Metadata, &self.path, Some(self.purpose))
            .map_err(|error| Error::new(Operation::Metadata, &self.path, error))?;
        Ok(state.disk.file(self.file).length())
    }

    fn read(&self, buffer: &mut [u8], offset: u64, purpose: Purpose) -> io::Result<usize> {
        let mut state = self.state();
        let verdict = state.begin(Operation::Read, &self.path, Some(purpose))?;
        self.check_alignment(buffer, offset)?;
        check_offset(offset)?;
        let length = match verdict {
            Verdict::Whole => buffer.len(),
            Verdict::Short => state.short_length(buffer.len(), self.mode == IoMode::Direct),
            Verdict::Fail(error) => return Err(error.into()),
        };
        let (file, buffer) = (state.disk.file(self.file), &mut buffer[..length]);
        Ok(match self.mode {
            IoMode::Direct => file.read_direct(buffer, offset),
            IoMode::Buffered | IoMode::Uncached | IoMode::DropBehind => file.read(buffer, offset),
        })
    }

    /// Writes and returns the number of bytes written. If `is_durable`, they are durable on return.
    fn write(
        &mut self,
        bytes: &[u8],
        offset: u64,
        purpose: Purpose,
        is_durable: bool,
    ) -> io::Result<usize> {
        let mut state = self.state();
        let call = state.calls;
        if let Some(recording) = &mut state.recording {
            recording.writes.push(WriteCall {
                number: call,
                path: Arc::from(&*self.path),
                mode: self.mode,
                purpose,
                offset,
                length: bytes.len() as u64,
                is_durable,
            });
        }
        let verdict = state.begin(Operation::Write, &self.path, Some(purpose))?;
        let DeviceTimes { write_ns, durable_write_ns, .. } = state.times;
        state.take_time(if is_durable { durable_write_ns } else { write_ns });
        self.check_alignment(bytes, offset)?;
        check_offset(offset)?;
        let span = offset..offset + bytes.len() as u64;
        state.acknowledged.check(self.file, call, &self.path, span);
        let direct = self.mode == IoMode::Direct;
        let (length, error) = match verdict {
            Verdict::Whole => (bytes.len(), None),
            Verdict::Short => (state.short_length(bytes.len(), direct), None),
            Verdict::Fail(Errno::IO) => {
                (state.part_of_failed_write(bytes.len(), direct), Some(Errno::IO))
            }
            Verdict::Fail(error) => (0, Some(error)),
        };
        if length > 0 {
            let bytes = Arc::from(&bytes[..length]);
            state.apply(Effect::Write { file: self.file, offset, bytes });
        }
        if let Some(error) = error {
            return Err(error.into());
        }
        if is_durable {
            let span = offset..offset + length as u64;
            state.apply(Effect::SyncSpan { file: self.file, span });
        }
        Ok(length)
    }

    fn sync(&mut self, purpose: Purpose) -> Result<()> {
        let failed = |error| Error::new(Operation::Sync, &self.path, error);
        let mut state = self.state();
        let verdict = state.begin(Operation::Sync, &self.path, Some(purpose)).map_err(failed)?;
        state.take_time(state.times.sync_ns);
        if let Verdict::Fail(error) = verdict {
            let seed = state.random_seed();
            state.apply(Effect::FailSync { file: self.file, seed });
            return Err(failed(error.into()));
        }
        state.apply(Effect::Sync(self.file));
        self.shared.statistics.record_sync(purpose, 0);
        Ok(())
    }
}

/// Checks that an offset fits into 63 bits, as Linux requires (`off_t` is signed).
fn check_offset(offset: u64) -> io::Result<()> {
    match i64::try_from(offset) {
        Ok(_) => Ok(()),
        Err(_) => Err(Errno::INVAL.into()),
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        self.state().closed(self.file);
    }
}

impl ReadFile for SimFile {
    fn advise_random(&self) {
        self.state().advised_random += 1;
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64, purpose: Purpose) -> Result<usize> {
        let _waiting = sections::enter(Section::Device);
        let count = self
            .read(buffer, offset, purpose)
            .map_err(|error| Error::at(Operation::Read, &self.path, offset, error))?;
        self.shared.statistics.record_read(purpose, count as u64, ReadTime::Alone(0));
        Ok(count)
    }

    fn next_of_waiting(&self, waiting: usize) -> usize {
        if waiting > 1 { self.state().random_index(waiting) } else { 0 }
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

impl WriteFile for SimFile {
    fn write_at(&mut self, bytes: &[u8], offset: u64, purpose: Purpose) -> Result<usize> {
        let count = self
            .write(bytes, offset, purpose, false)
            .map_err(|error| Error::at(Operation::Write, &self.path, offset, error))?;
        self.shared.statistics.record_write(purpose, count as u64, 0);
        Ok(count)
    }

    fn write_vectored_at(
        &mut self,
        parts: &[IoSlice<'_>],
        offset: u64,
        is_durable: bool,
        purpose: Purpose,
    ) -> Result<()> {
        // A vectored write is one system call, so it is simulated as one call with one fault and
        // one crash point.
        let total: usize = parts.iter().map(|part| part.len()).sum();
        let mut bytes = AlignedBuffer::with_capacity(total.next_multiple_of(self.alignment));
        for part in parts {
            if self.mode == IoMode::Direct {
                self.check_alignment(part, offset)
                    .map_err(|error| Error::at(Operation::Write, &self.path, offset, error))?;
            }
            bytes.append(part);
        }
        if is_durable {
            self.write_durably_at(&bytes, offset, purpose)
        } else {
            self.write_all_at(&bytes, offset, purpose)
        }
    }

    fn write_durably_at(&mut self, bytes: &[u8], offset: u64, purpose: Purpose) -> Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            let at = offset + done as u64;
            let count = self
                .write(&bytes[done..], at, purpose, true)
                .map_err(|error| Error::at(Operation::Write, &self.path, at, error))?;
            self.shared.statistics.record_write(purpose, count as u64, 0);
            self.shared.statistics.record_sync(purpose, 0);
            done += count;
        }
        Ok(())
    }

    fn sync_data(&mut self, purpose: Purpose) -> Result<()> {
        self.sync(purpose)
    }

    fn sync_all(&mut self, purpose: Purpose) -> Result<()> {
        self.sync(purpose)
    }

    fn truncate(&mut self, length: u64) -> Result<()> {
        let mut state = self.state();
        state
            .begin_whole(Operation::Truncate, &self.path, Some(self.purpose))
            .and_then(|()| check_offset(length))
            .map_err(|error| Error::at(Operation::Truncate, &self.path, length, error))?;
        state.acknowledged.truncate(self.file, length);
        state.apply(Effect::Truncate { file: self.file, length });
        Ok(())
    }

    fn allocate(&mut self, offset: u64, _length: u64) -> Result<()> {
        self.state()
            .begin_whole(Operation::Allocate, &self.path, Some(self.purpose))
            .map_err(|error| Error::at(Operation::Allocate, &self.path, offset, error))
    }

    fn start_writeback(&mut self, offset: u64, _length: u64) -> Result<()> {
        self.state()
            .begin_whole(Operation::StartWriteback, &self.path, Some(self.purpose))
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

/// An exclusive lock on a file, released on drop. The release is not a numbered call, because the
/// kernel also releases the lock when a process crashes.
#[derive(Debug)]
pub(super) struct SimLock {
    shared: Arc<Machine>,
    path: PathBuf,
    file: FileId,
}

impl SimLock {
    /// Takes the lock on the file at `path`, or fails if it is held. `state` is the locked state of
    /// `shared`.
    pub(super) fn take(
        shared: &Arc<Machine>,
        state: &mut State,
        path: &Path,
        file: FileId,
    ) -> io::Result<Self> {
        if !state.locked.insert(file) {
            let text = "this process already holds the lock";
            return Err(io::Error::new(io::ErrorKind::WouldBlock, text));
        }
        state.opened(file);
        Ok(Self { shared: Arc::clone(shared), path: path.to_owned(), file })
    }
}

impl FileLock for SimLock {
    /// Not a numbered call: it neither changes the disk nor depends on a fault.
    fn is_in_place(&self) -> Result<bool> {
        let state = self.shared.state.lock();
        let node = state.disk.names.node(&self.path);
        Ok(node.is_ok_and(|node| node == Node::File(self.file)))
    }
}

impl Drop for SimLock {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.locked.remove(&self.file);
        state.closed(self.file);
    }
}
