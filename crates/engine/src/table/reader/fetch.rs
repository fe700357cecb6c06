//! Reading of blocks from the file: read, verify, decompress.

use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;

use tailwater_format::checksum::ChecksumType;
use tailwater_format::compress::{Compression, DecompressionDictionary, Decompressor};
use tailwater_format::table::{BLOCK_TRAILER_LENGTH, BlockChecksum, BlockHandle};
use tailwater_io::attribution::{self, Section};
use tailwater_io::buffer::AlignedBuffer;
use tailwater_io::{Purpose, ReadFile};

use crate::error::{Error, Result};

/// Maximum length of a block, in bytes. All length fields have 32 bits.
const MAX_BLOCK_LENGTH: u64 = u32::MAX as u64;

/// Capacity of the buffer that a thread keeps for its next read, in bytes. A block may have up to
/// 4 GiB.
const SCRATCH_BYTES_KEPT: usize = 16 << 20;

/// Per-thread buffers and codecs, kept so that reading a block allocates only the block.
struct Scratch {
    raw: AlignedBuffer,
    decompressor: Decompressor,
}

impl Default for Scratch {
    fn default() -> Self {
        Self { raw: AlignedBuffer::with_capacity(0), decompressor: Decompressor::default() }
    }
}

thread_local! {
    static SCRATCH: Cell<Option<Box<Scratch>>> = const { Cell::new(None) };
}

fn with_scratch<R>(read: impl FnOnce(&mut Scratch) -> R) -> R {
    // If the thread is ending, it may already have dropped its scratch.
    let mut scratch = SCRATCH.try_with(Cell::take).ok().flatten().unwrap_or_default();
    let result = read(&mut scratch);
    if scratch.raw.capacity() > SCRATCH_BYTES_KEPT {
        scratch.raw = AlignedBuffer::with_capacity(0);
    }
    let _ = SCRATCH.try_with(|kept| kept.set(Some(scratch)));
    result
}

/// A table's file, with everything needed to read its blocks.
#[derive(Debug)]
pub(crate) struct BlockFile {
    file: Arc<dyn ReadFile>,
    /// The file's length in bytes.
    length: u64,
    /// The type of the blocks' checksums.
    checksum: BlockChecksum,
}

impl BlockFile {
    /// Creates the reader of the blocks of a file of `length` bytes.
    pub(crate) fn new(file: Arc<dyn ReadFile>, length: u64, checksum: BlockChecksum) -> Self {
        Self { file, length, checksum }
    }

    /// Returns the table's path.
    pub(crate) fn path(&self) -> &Path {
        self.file.path()
    }

    /// Returns the file.
    pub(crate) fn handle(&self) -> &Arc<dyn ReadFile> {
        &self.file
    }

    /// Returns the file's length in bytes.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Reads a block and returns its uncompressed bytes.
    ///
    /// # Errors
    /// Corruption, for a handle beyond the end of the file, a checksum mismatch, or bytes that do
    /// not decompress.
    pub(crate) fn read(
        &self,
        handle: BlockHandle,
        dictionary: Option<&DecompressionDictionary>,
        verify: bool,
        purpose: Purpose,
    ) -> Result<Vec<u8>> {
        let length = self.length_with_trailer(handle)?;
        with_scratch(|scratch| {
            let Scratch { raw, decompressor } = scratch;
            let raw = self.file.read_span(raw, handle.offset, length, purpose)?;
            self.check_whole(raw, handle)?;
            self.unpack(raw, handle, dictionary, verify, decompressor)
        })
    }

    /// Returns an error if `raw`, which was read for the block at `handle`, ends before the block
    /// and its trailer do.
    pub(crate) fn check_whole(&self, raw: &[u8], handle: BlockHandle) -> Result<()> {
        let length = self.length_with_trailer(handle)?;
        if raw.len() < length {
            let message = format!("a block of {length} bytes ends after {}", raw.len());
            return Err(Error::corruption_at(self.path(), handle.offset, message));
        }
        Ok(())
    }

    /// Verifies and decompresses a block that was read already. `raw` is exactly the block and its
    /// trailer.
    pub(crate) fn unpack_block(
        &self,
        raw: &[u8],
        handle: BlockHandle,
        dictionary: Option<&DecompressionDictionary>,
        verify: bool,
    ) -> Result<Vec<u8>> {
        with_scratch(|scratch| {
            self.unpack(raw, handle, dictionary, verify, &mut scratch.decompressor)
        })
    }

    /// Returns the payload of a block, if it has a checksum, and that matches. `raw` is exactly the
    /// block and its trailer.
    pub(crate) fn verified<'r>(&self, raw: &'r [u8], handle: BlockHandle) -> Option<&'r [u8]> {
        let has_checksum = self.checksum.checksum_type != ChecksumType::None;
        let verified = has_checksum.then(|| self.checksum.verify(handle.offset, raw));
        verified?.ok().map(|(payload, _)| payload)
    }

    /// Returns the length of a block with its trailer, in bytes.
    pub(crate) fn length_with_trailer(&self, handle: BlockHandle) -> Result<usize> {
        let end = handle
            .offset
            .checked_add(handle.size)
            .and_then(|end| end.checked_add(BLOCK_TRAILER_LENGTH as u64));
        match end {
            Some(end) if end <= self.length && handle.size <= MAX_BLOCK_LENGTH => {
                Ok(handle.size as usize + BLOCK_TRAILER_LENGTH)
            }
            _ => {
                let message = format!(
                    "a block of {} bytes extends beyond the end of the file at {}",
                    handle.size, self.length
                );
                Err(Error::corruption_at(self.path(), handle.offset, message))
            }
        }
    }

    fn unpack(
        &self,
        raw: &[u8],
        handle: BlockHandle,
        dictionary: Option<&DecompressionDictionary>,
        verify: bool,
        decompressor: &mut Decompressor,
    ) -> Result<Vec<u8>> {
        let _unpacking = attribution::enter(Section::Unpacking);
        let decoding = |error| Error::decoding(self.path(), handle.offset, error);
        let (payload, compression) = if verify {
            self.checksum.verify(handle.offset, raw).map_err(decoding)?
        } else {
            BlockChecksum::split(raw).map_err(decoding)?
        };
        let mut output = Vec::new();
        match Compression::from_byte(compression) {
            Some(Compression::None) => output.extend_from_slice(payload),
            Some(compression) => decompressor
                .decompress(compression, payload, dictionary, &mut output)
                .map_err(decoding)?,
            None => {
                let message = format!("unknown compression type {compression:#04x}");
                return Err(Error::corruption_at(self.path(), handle.offset, message));
            }
        }
        Ok(output)
    }
}
