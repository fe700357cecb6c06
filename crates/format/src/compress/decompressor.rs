//! Decompression, with codec contexts that are reused from block to block.

use std::fmt;
use std::sync::OnceLock;

use flate2::{Decompress, FlushDecompress, Status};
use zstd::zstd_safe::{DCtx, DDict, get_error_name};

use super::{CompressedBlock, Compression, WHAT, lz4, unreadable};
use crate::{Error, Result};

/// Initial size of bzip2's output, in bytes. The output grows as needed, because the uncompressed
/// length that a block states cannot be trusted.
const BZIP2_FIRST_STEP: usize = 1 << 20;

/// The dictionary of a table, prepared for decompression. It is read-only and may be shared between
/// threads.
pub struct DecompressionDictionary {
    bytes: Vec<u8>,
    /// ZSTD's digest of the dictionary, made when the first ZSTD block needs it.
    zstd: OnceLock<Option<DDict<'static>>>,
}

impl DecompressionDictionary {
    /// Takes the contents of a table's dictionary block.
    ///
    /// # Errors
    /// Corruption, if it is empty: RocksDB would have omitted the block.
    pub fn new(bytes: Vec<u8>) -> Result<Self> {
        if bytes.is_empty() {
            return Err(Error::truncated("compression dictionary", 0));
        }
        Ok(Self { bytes, zstd: OnceLock::new() })
    }

    /// Returns the bytes as stored in the table.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the memory in use, in bytes.
    pub fn memory_usage(&self) -> usize {
        let digest = self.zstd.get().and_then(Option::as_ref).map_or(0, DDict::sizeof);
        size_of::<Self>() + self.bytes.capacity() + digest
    }

    fn zstd(&self) -> Result<&DDict<'static>> {
        self.zstd.get_or_init(|| DDict::try_create(&self.bytes)).as_ref().ok_or_else(|| {
            Error::corruption("compression dictionary", 0, "a ZSTD dictionary", "a damaged one")
        })
    }
}

impl fmt::Debug for DecompressionDictionary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DecompressionDictionary({} bytes)", self.bytes.len())
    }
}

/// Decompresses blocks one after the other and reuses the codecs' contexts. After the first block
/// of a codec it allocates only to grow the output. bzip2 is an exception, because its library
/// cannot reset a context. A decompressor can be used by one thread at a time.
#[derive(Default)]
pub struct Decompressor {
    snappy: snap::raw::Decoder,
    zlib: Option<Decompress>,
    zstd: Option<DCtx<'static>>,
}

impl Decompressor {
    /// Creates a decompressor, which handles all readable types ([`Compression::is_readable`]).
    pub fn new() -> Self {
        Self::default()
    }

    /// Decompresses `bytes`, a block or blob value without its trailer, and replaces the contents
    /// of `output` with the result. After an error, the contents of `output` are unspecified.
    ///
    /// # Errors
    /// Corruption, for bytes that are invalid for `compression`; unsupported, for a compression
    /// type that is not readable ([`Compression::is_readable`]).
    pub fn decompress(
        &mut self,
        compression: Compression,
        bytes: &[u8],
        dictionary: Option<&DecompressionDictionary>,
        output: &mut Vec<u8>,
    ) -> Result<()> {
        let block = CompressedBlock::parse(compression, bytes)?;
        if compression == Compression::Bzip2 {
            return decompress_bzip2_growing(&block, output);
        }
        if output.capacity() < block.uncompressed_length {
            // The allocator zeroes memory of this size on first touch. So if the stated length is
            // false, no more memory is used than the bytes decompress to.
            *output = vec![0; block.uncompressed_length];
        } else {
            // `resize` writes zeros only to bytes beyond the previous length, so an output that was
            // at least as long before costs nothing here.
            output.resize(block.uncompressed_length, 0);
        }
        self.decompress_into(&block, dictionary, output)
    }

    /// Decompresses `block` into `output`, whose length is the block's
    /// [`uncompressed_length`](CompressedBlock::uncompressed_length). After an error `output` is
    /// unspecified.
    ///
    /// # Errors
    /// Corruption, for bytes that are invalid for the compression type or an output of the wrong
    /// length.
    pub fn decompress_into(
        &mut self,
        block: &CompressedBlock<'_>,
        dictionary: Option<&DecompressionDictionary>,
        output: &mut [u8],
    ) -> Result<()> {
        if output.len() != block.uncompressed_length {
            return Err(wrong_length(block, output.len()));
        }
        let payload = block.payload;
        let written = match block.compression {
            Compression::None => {
                output.copy_from_slice(payload);
                output.len()
            }
            Compression::Snappy => {
                self.snappy.decompress(payload, output).map_err(|error| damaged(block, error))?
            }
            Compression::Zlib => self.inflate(block, dictionary, output)?,
            Compression::Bzip2 => decompress_bzip2(block, output)?,
            Compression::Lz4 | Compression::Lz4Hc => {
                let dictionary = dictionary.map_or(&[][..], DecompressionDictionary::bytes);
                lz4::decompress(payload, dictionary, output)
                    .ok_or_else(|| damaged(block, "a malformed sequence"))?
            }
            Compression::Zstd | Compression::ZstdNotFinal => {
                let context = self.zstd.get_or_insert_with(DCtx::create);
                match dictionary {
                    None => context.decompress(output, payload),
                    Some(dictionary) => {
                        context.decompress_using_ddict(output, payload, dictionary.zstd()?)
                    }
                }
                .map_err(|code| damaged(block, get_error_name(code)))?
            }
            Compression::Xpress | Compression::Custom(_) => {
                return Err(unreadable(block.compression));
            }
        };
        if written == output.len() { Ok(()) } else { Err(wrong_length(block, written)) }
    }

    fn inflate(
        &mut self,
        block: &CompressedBlock<'_>,
        dictionary: Option<&DecompressionDictionary>,
        output: &mut [u8],
    ) -> Result<usize> {
        let inflate = match &mut self.zlib {
            Some(inflate) => {
                inflate.reset(false);
                inflate
            }
            none => none.insert(Decompress::new(false)),
        };
        if let Some(dictionary) = dictionary {
            inflate.set_dictionary(&dictionary.bytes).map_err(|error| damaged(block, error))?;
        }
        match inflate.decompress(block.payload, output, FlushDecompress::Finish) {
            Ok(Status::StreamEnd) => Ok(inflate.total_out() as usize),
            Ok(_) => Err(damaged(block, "a stream that does not end")),
            Err(error) => Err(damaged(block, error)),
        }
    }
}

impl fmt::Debug for Decompressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Decompressor")
    }
}

fn decompress_bzip2(block: &CompressedBlock<'_>, output: &mut [u8]) -> Result<usize> {
    let mut codec = bzip2::Decompress::new(false);
    match codec.decompress(block.payload, output) {
        Ok(bzip2::Status::StreamEnd) => Ok(codec.total_out() as usize),
        Ok(_) => Err(damaged(block, "a stream that does not end")),
        Err(error) => Err(damaged(block, error)),
    }
}

/// Decompresses bzip2 into an output that grows only as bytes are produced. The uncompressed length
/// that the block states may be far too high: bzip2 has no useful bound on the ratio of
/// uncompressed to compressed bytes.
fn decompress_bzip2_growing(block: &CompressedBlock<'_>, output: &mut Vec<u8>) -> Result<()> {
    let mut codec = bzip2::Decompress::new(false);
    output.clear();
    loop {
        let room = block.uncompressed_length - output.len();
        output.reserve(room.min(BZIP2_FIRST_STEP.max(output.len())));
        let consumed = codec.total_in() as usize;
        let input = block.payload.get(consumed..).unwrap_or_default();
        let before = output.len();
        match codec.decompress_vec(input, output) {
            Ok(bzip2::Status::StreamEnd) if output.len() == block.uncompressed_length => {
                return Ok(());
            }
            Ok(bzip2::Status::StreamEnd) => return Err(wrong_length(block, output.len())),
            Ok(_) if output.len() > block.uncompressed_length => {
                return Err(wrong_length(block, output.len()));
            }
            Ok(_) if output.len() == before && codec.total_in() as usize == consumed => {
                return Err(damaged(block, "a stream that does not end"));
            }
            Ok(_) => {}
            Err(error) => return Err(damaged(block, error)),
        }
    }
}

#[cold]
fn damaged(block: &CompressedBlock<'_>, found: impl fmt::Display) -> Error {
    let expected = format!("{} data", block.compression.property_name());
    Error::corruption(WHAT, 0, expected, found.to_string())
}

#[cold]
fn wrong_length(block: &CompressedBlock<'_>, found: usize) -> Error {
    let expected = format!("{} uncompressed bytes", block.uncompressed_length);
    Error::corruption(WHAT, 0, expected, format!("{found}"))
}
