//! Writes blocks to a table's file: compressed, with trailers and padding.

use std::path::{Path, PathBuf};

use tailwater_format::compress::{Compression, Compressor, Decompressor};
use tailwater_format::table::{BlockChecksum, BlockHandle};
use tailwater_io::stream::SequentialWriter;

use crate::error::{Error, Result};

/// The writer of a table's blocks.
///
/// It reuses its buffers and the codec's context, so that writing allocates no memory once the
/// buffers have grown.
pub(super) struct BlockWriter {
    writer: SequentialWriter,
    path: PathBuf,
    checksum: BlockChecksum,
    compressor: Compressor,
    compressed: Vec<u8>,
    verifier: Option<Verifier>,
    /// Number of bytes written.
    offset: u64,
    /// Whether any block of the table is compressed.
    compressed_any: bool,
    /// Whether written bytes stay in the page cache, if possible.
    is_warm: bool,
}

/// A block that was written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Written {
    /// The block's location in the file.
    pub(super) handle: BlockHandle,
    /// The block's compression.
    pub(super) compression: Compression,
}

/// Verifies each compressed block: decompresses it and compares the result with the original.
#[derive(Default)]
struct Verifier {
    decompressor: Decompressor,
    output: Vec<u8>,
}

impl BlockWriter {
    /// Creates a writer at the start of a file. With `verify`, every compressed block is verified
    /// by decompressing it.
    pub(super) fn new(
        writer: SequentialWriter,
        path: &Path,
        checksum: BlockChecksum,
        compressor: Compressor,
        verify: bool,
    ) -> Self {
        Self {
            writer,
            path: path.to_owned(),
            checksum,
            compressor,
            compressed: Vec::new(),
            verifier: verify.then(Verifier::default),
            offset: 0,
            compressed_any: false,
            is_warm: false,
        }
    }

    /// Returns the table's path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Sets whether bytes written from now on stay in the page cache, if possible.
    pub(super) fn set_warm(&mut self, is_warm: bool) {
        self.is_warm = is_warm;
    }

    /// Returns the number of bytes written.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the type of the blocks' checksums.
    pub(super) fn checksum(&self) -> BlockChecksum {
        self.checksum
    }

    /// Returns the compression that is applied to blocks if it saves enough.
    pub(super) fn compression(&self) -> Compression {
        self.compressor.compression()
    }

    /// Returns whether compression is tried for a block of this length.
    pub(super) fn tries_compression(&self, length: usize) -> bool {
        self.compressor.tries(length)
    }

    /// Returns the compression types of the compressed blocks written so far.
    pub(super) fn compressions_used(&self) -> Vec<Compression> {
        self.compressed_any.then(|| self.compression()).into_iter().collect()
    }

    /// Writes a block, compressed if that saves enough. The contents of `block` are unspecified
    /// afterwards.
    ///
    /// # Errors
    /// Errors from writing the file; corruption, if a compressed block does not decompress to the
    /// original.
    pub(super) fn write(&mut self, block: &mut Vec<u8>) -> Result<Written> {
        let compression = self.compressor.compress(block, &mut self.compressed);
        if compression == Compression::None {
            return self.write_plain(block);
        }
        self.put_compressed(block, compression)
    }

    /// Writes a block whose compressed form is known.
    ///
    /// # Errors
    /// Those of [`BlockWriter::write`].
    pub(super) fn write_compressed(&mut self, block: &[u8], compressed: &[u8]) -> Result<Written> {
        self.compressed.clear();
        self.compressed.extend_from_slice(compressed);
        self.put_compressed(block, self.compression())
    }

    /// Writes `self.compressed`, which is the compressed form of `block`.
    fn put_compressed(&mut self, block: &[u8], compression: Compression) -> Result<Written> {
        self.compressed_any = true;
        let mut compressed = std::mem::take(&mut self.compressed);
        let written = self
            .verify(block, &compressed, compression)
            .and_then(|()| self.put(&mut compressed, compression));
        self.compressed = compressed;
        written
    }

    /// Writes a block uncompressed. The contents of `block` are unspecified afterwards.
    ///
    /// # Errors
    /// Errors from writing the file.
    pub(super) fn write_plain(&mut self, block: &mut Vec<u8>) -> Result<Written> {
        self.put(block, Compression::None)
    }

    /// Writes bytes that are not a block.
    ///
    /// # Errors
    /// Errors from writing the file.
    pub(super) fn write_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        if self.is_warm {
            self.writer.append_warm(bytes)?
        } else {
            self.writer.append(bytes)?
        }
        self.offset += bytes.len() as u64;
        Ok(())
    }

    /// Writes zeros up to the next multiple of `alignment`, which is at most a page.
    ///
    /// # Errors
    /// Errors from writing the file.
    pub(super) fn pad(&mut self, alignment: u64) -> Result<()> {
        const ZEROS: [u8; 4096] = [0; 4096];
        let length = self.offset.next_multiple_of(alignment) - self.offset;
        self.write_bytes(&ZEROS[..length as usize])
    }

    /// Returns the file writer, for the owner to sync and close.
    pub(super) fn into_writer(self) -> SequentialWriter {
        self.writer
    }

    /// Writes a block and its trailer together.
    fn put(&mut self, bytes: &mut Vec<u8>, compression: Compression) -> Result<Written> {
        let handle = BlockHandle { offset: self.offset, size: bytes.len() as u64 };
        let trailer = self.checksum.trailer(self.offset, bytes, compression.to_byte());
        bytes.extend_from_slice(&trailer);
        self.write_bytes(bytes)?;
        Ok(Written { handle, compression })
    }

    fn verify(&mut self, block: &[u8], compressed: &[u8], compression: Compression) -> Result<()> {
        let Some(Verifier { decompressor, output }) = &mut self.verifier else { return Ok(()) };
        match decompressor.decompress(compression, compressed, None, output) {
            Ok(()) if *output == block => Ok(()),
            Ok(()) => {
                let message = "a block differed after it was compressed and decompressed";
                Err(Error::corruption_at(&self.path, self.offset, message))
            }
            Err(error) => Err(Error::decoding(&self.path, self.offset, error)),
        }
    }
}

impl std::fmt::Debug for BlockWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlockWriter")
            .field("path", &self.path)
            .field("offset", &self.offset)
            .field("compressor", &self.compressor)
            .finish_non_exhaustive()
    }
}
