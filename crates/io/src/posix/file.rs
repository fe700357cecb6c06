//! Open files.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::retry_on_intr;

use super::system;
use crate::clock::monotonic_ns;
use crate::purpose::{IoMode, Purpose};
use crate::statistics::Statistics;
use crate::storage::{ReadFile, WriteFile};
use crate::{Error, Operation, Result};

/// A descriptor and what its errors and figures need.
#[derive(Debug)]
pub(super) struct PosixFile {
    pub(super) descriptor: OwnedFd,
    pub(super) path: PathBuf,
    pub(super) mode: IoMode,
    pub(super) statistics: Arc<Statistics>,
}

impl PosixFile {
    fn file_length(&self) -> Result<u64> {
        match rustix::fs::fstat(&self.descriptor) {
            Ok(status) => Ok(status.st_size as u64),
            Err(error) => Err(Error::new(Operation::Metadata, &self.path, error)),
        }
    }

    fn sync(
        &self,
        purpose: Purpose,
        call: impl Fn(BorrowedFd<'_>) -> rustix::io::Result<()>,
    ) -> Result<()> {
        let started = monotonic_ns();
        retry_on_intr(|| call(self.descriptor.as_fd()))
            .map_err(|error| Error::new(Operation::Sync, &self.path, error))?;
        self.statistics.record_sync(purpose, monotonic_ns() - started);
        Ok(())
    }
}

impl ReadFile for PosixFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64, purpose: Purpose) -> Result<usize> {
        let started = monotonic_ns();
        let count = retry_on_intr(|| rustix::io::pread(&self.descriptor, &mut *buffer, offset))
            .map_err(|error| Error::at(Operation::Read, &self.path, offset, error))?;
        self.statistics.record_read(purpose, count as u64, monotonic_ns() - started);
        Ok(count)
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
}

impl WriteFile for PosixFile {
    fn write_at(&mut self, bytes: &[u8], offset: u64, purpose: Purpose) -> Result<usize> {
        let started = monotonic_ns();
        let count = retry_on_intr(|| rustix::io::pwrite(&self.descriptor, bytes, offset))
            .map_err(|error| Error::at(Operation::Write, &self.path, offset, error))?;
        self.statistics.record_write(purpose, count as u64, monotonic_ns() - started);
        Ok(count)
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
}
