//! A file whose blocks are durably overwritten with direct I/O. It measures the highest rate of
//! synced writes that a log can achieve on a device.
//!
//! Before the first overwrite, the file is filled with zeros and synced, so that no overwrite
//! allocates space or changes metadata. The file's name is removed immediately after its creation,
//! so its space is freed even if the process crashes.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::retry_on_intr;

use super::scratch;
use crate::buffer::AlignedBuffer;
use crate::posix::{PosixStorage, system};
use crate::storage::Storage;
use crate::{Error, IoMode, Operation, Purpose, Result};

/// Length of the writes that fill the file with zeros, in bytes.
const CHUNK_BYTES: usize = 1 << 20;

/// The method by which an overwrite becomes durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DurableBy {
    /// The write itself is durable: it has the flag `RWF_DSYNC`, which is O_DSYNC for a single
    /// write.
    Flag,
    /// A sync of the file's data (`fdatasync`) follows the write.
    Sync,
}

/// A file for durable overwrites. Threads may overwrite different blocks concurrently.
#[derive(Debug)]
pub struct DurableFile {
    descriptor: OwnedFd,
    path: PathBuf,
    blocks: u64,
}

impl DurableFile {
    /// The length of a block in bytes.
    pub const BLOCK_BYTES: usize = 4096;

    /// Creates a file of at least `blocks` blocks in an existing directory, and fills it with
    /// zeros.
    ///
    /// # Errors
    /// I/O errors. The error is of kind `Unsupported` if the filesystem refuses direct I/O.
    pub fn create(directory: &Path, blocks: u64) -> Result<Self> {
        let storage = PosixStorage::new();
        let (path, mut writer) = scratch::create(&storage, directory, IoMode::Direct)?;
        // The descriptor overwrites the blocks that the writer fills.
        let descriptor = system::open(&path, OFlags::WRONLY, IoMode::Direct, Mode::empty())
            .map_err(|error| Error::new(Operation::Open, &path, error));
        // A crash before this removal leaves an empty file.
        storage.remove(&path)?;
        let descriptor = descriptor?;
        let chunks = (blocks * Self::BLOCK_BYTES as u64).div_ceil(CHUNK_BYTES as u64).max(1);
        let mut zeros = AlignedBuffer::with_capacity(CHUNK_BYTES);
        zeros.set_length(CHUNK_BYTES);
        for chunk in 0..chunks {
            writer.write_all_at(&zeros, chunk * CHUNK_BYTES as u64, Purpose::Metadata)?;
        }
        writer.sync_all(Purpose::Metadata)?;
        let blocks = chunks * (CHUNK_BYTES / Self::BLOCK_BYTES) as u64;
        Ok(Self { descriptor, path, blocks })
    }

    /// Returns the number of blocks in the file.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Returns a block of random bytes, which a device cannot compress.
    pub fn block() -> AlignedBuffer {
        let mut block = AlignedBuffer::with_capacity(Self::BLOCK_BYTES);
        block.set_length(Self::BLOCK_BYTES);
        fastrand::fill(&mut block);
        block
    }

    /// Overwrites the block with this number, which must be below [`Self::blocks`], with the bytes
    /// of `block`. Returns when the overwrite is durable.
    ///
    /// # Errors
    /// I/O errors, and a short write.
    pub fn overwrite(&self, number: u64, block: &AlignedBuffer, by: DurableBy) -> Result<()> {
        debug_assert!(number < self.blocks && block.len() == Self::BLOCK_BYTES);
        let offset = number * Self::BLOCK_BYTES as u64;
        let descriptor = self.descriptor.as_fd();
        let written = retry_on_intr(|| match by {
            DurableBy::Flag => write_durably(descriptor, block, offset),
            DurableBy::Sync => rustix::io::pwrite(descriptor, block, offset),
        });
        let failed = |source| Error::at(Operation::Write, &self.path, offset, source);
        let count = written.map_err(|error| failed(std::io::Error::from(error)))?;
        if count != block.len() {
            return Err(failed(std::io::ErrorKind::WriteZero.into()));
        }
        if by == DurableBy::Sync {
            retry_on_intr(|| system::sync_data(descriptor))
                .map_err(|error| Error::new(Operation::Sync, &self.path, error))?;
        }
        Ok(())
    }
}

fn write_durably(
    descriptor: BorrowedFd<'_>,
    bytes: &[u8],
    offset: u64,
) -> rustix::io::Result<usize> {
    let buffers = [std::io::IoSlice::new(bytes)];
    rustix::io::pwritev2(descriptor, &buffers, offset, rustix::io::ReadWriteFlags::DSYNC)
}
