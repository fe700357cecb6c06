//! Compression, with codec contexts that are reused from block to block.

use std::fmt;

use flate2::{Compress, FlushCompress, Status};
use zstd::zstd_safe::{self, CCtx, CParameter};

use super::{Compression, MAX_UNCOMPRESSED_LENGTH, lz4, unreadable};
use crate::varint::{MAX_VARINT32_LENGTH, put_varint64};
use crate::{Error, Result};

/// The level that selects the codec's default.
pub const DEFAULT_LEVEL: i32 = 32_767;

/// Base-2 logarithm of the window size for deflate: RocksDB decompresses with a window of 2^14
/// bytes.
const ZLIB_WINDOW_BITS: u8 = 14;
/// The default level of the slower LZ4 compressor.
const LZ4_HC_DEFAULT_LEVEL: i32 = 9;

/// Options for compressing blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompressorOptions {
    /// The codec's level, or [`DEFAULT_LEVEL`]. LZ4 and LZ4HC share one scale: a level of 0 or
    /// below selects the fast compressor, with the negated level as its acceleration; 1 to 12
    /// select the slower one. ZSTD and LZ4 clamp the level; Snappy and bzip2 ignore it. With a
    /// level that zlib does not have ([`CompressorOptions::has_level`]), blocks are stored
    /// uncompressed, as in RocksDB.
    pub level: i32,
    /// Maximum compressed length per 1024 bytes of input; a block that compresses to more is stored
    /// uncompressed. Zero or less compresses nothing, and more than 1023 counts as 1023.
    pub max_compressed_bytes_per_kb: i32,
    /// Whether ZSTD frames end in a checksum of their contents.
    pub checksum: bool,
}

impl Default for CompressorOptions {
    fn default() -> Self {
        Self { level: DEFAULT_LEVEL, max_compressed_bytes_per_kb: 896, checksum: false }
    }
}

impl CompressorOptions {
    /// Returns whether `compression` accepts the level, either as it is or replaced by a supported
    /// one.
    pub fn has_level(&self, compression: Compression) -> bool {
        let zlib_has_it = self.level == DEFAULT_LEVEL || (-1..=9).contains(&self.level);
        compression != Compression::Zlib || zlib_has_it
    }
}

/// Compresses blocks one after the other and reuses the codec's context. After the first block it
/// allocates only to grow the output. bzip2 is an exception, because its library cannot reset a
/// context. A compressor can be used by one thread at a time.
pub struct Compressor {
    codec: Codec,
    max_compressed_bytes_per_kb: u64,
}

enum Codec {
    None,
    Snappy(Box<snap::raw::Encoder>),
    Zlib { deflate: Compress, dictionary: Vec<u8> },
    Bzip2,
    Lz4(lz4::Encoder),
    Zstd(CCtx<'static>),
}

impl Compressor {
    /// Creates a compressor of this type. An empty dictionary counts as none. Snappy and bzip2
    /// ignore the dictionary.
    ///
    /// # Errors
    /// Unsupported, for a compression type that is not writable ([`Compression::is_writable`]), or
    /// a ZSTD dictionary that is damaged.
    pub fn new(
        compression: Compression,
        options: &CompressorOptions,
        dictionary: &[u8],
    ) -> Result<Self> {
        let codec = match compression {
            _ if options.max_compressed_bytes_per_kb <= 0 => Codec::None,
            Compression::None => Codec::None,
            Compression::Snappy => Codec::Snappy(Box::new(snap::raw::Encoder::new())),
            Compression::Zlib => match zlib_level(options.level) {
                Some(level) => Codec::Zlib {
                    deflate: Compress::new_with_window_bits(level, false, ZLIB_WINDOW_BITS),
                    dictionary: dictionary.to_vec(),
                },
                None => Codec::None,
            },
            Compression::Bzip2 => Codec::Bzip2,
            Compression::Lz4 | Compression::Lz4Hc => {
                let level = match (options.level, compression) {
                    (DEFAULT_LEVEL, Compression::Lz4Hc) => LZ4_HC_DEFAULT_LEVEL,
                    (DEFAULT_LEVEL, _) => -1,
                    (level, _) => level,
                };
                let encoder = lz4::Encoder::new(level, dictionary)
                    .ok_or_else(|| Error::unsupported("LZ4 compression: out of memory"))?;
                Codec::Lz4(encoder)
            }
            Compression::Zstd => Codec::Zstd(zstd_context(options, dictionary)?),
            Compression::Xpress | Compression::ZstdNotFinal | Compression::Custom(_) => {
                return Err(unreadable(compression));
            }
        };
        let max_compressed_bytes_per_kb = options.max_compressed_bytes_per_kb.clamp(0, 1023) as u64;
        Ok(Self { codec, max_compressed_bytes_per_kb })
    }

    /// Returns the type of the compressed blocks. LZ4 and LZ4HC are distinguished by the level, not
    /// by the requested type.
    pub fn compression(&self) -> Compression {
        match self.codec {
            Codec::None => Compression::None,
            Codec::Snappy(_) => Compression::Snappy,
            Codec::Zlib { .. } => Compression::Zlib,
            Codec::Bzip2 => Compression::Bzip2,
            Codec::Lz4(lz4::Encoder::Fast { .. }) => Compression::Lz4,
            Codec::Lz4(lz4::Encoder::High { .. }) => Compression::Lz4Hc,
            Codec::Zstd(_) => Compression::Zstd,
        }
    }

    /// Returns whether [`Self::compress`] tries to compress a block of this length. It does not if
    /// the compressor has no compression, if the block is too long, or if the longest permitted
    /// result is no longer than the length prefix. RocksDB counts the blocks that are not
    /// tried (`rocksdb.num.data.blocks.compression.bypassed`).
    pub fn tries(&self, length: usize) -> bool {
        let has_space = match self.codec {
            Codec::None => false,
            Codec::Snappy(_) => true,
            _ => self.compressed_max(length) > MAX_VARINT32_LENGTH,
        };
        has_space && length <= MAX_UNCOMPRESSED_LENGTH
    }

    /// Returns the maximum size of the compressed form of a block of this length, in bytes.
    fn compressed_max(&self, length: usize) -> usize {
        ((self.max_compressed_bytes_per_kb * length as u64) >> 10) as usize
    }

    /// Compresses `block` into `output`, replacing its contents, and returns the type for the
    /// block's trailer. It is [`Compression::None`] if compression does not save enough or fails:
    /// then `output` is unspecified and `block` is to be stored uncompressed.
    pub fn compress(&mut self, block: &[u8], output: &mut Vec<u8>) -> Compression {
        if !self.tries(block.len()) {
            return Compression::None;
        }
        match self.compress_within(block, self.compressed_max(block.len()), output) {
            Some(()) => self.compression(),
            None => Compression::None,
        }
    }

    /// Compresses `value` and replaces the contents of `output` with the result, even if the result
    /// is longer than `value`. Blob files require this.
    ///
    /// # Errors
    /// Unsupported, for a compressor without compression, a value that is too long or a codec that
    /// fails.
    pub fn compress_always(&mut self, value: &[u8], output: &mut Vec<u8>) -> Result<()> {
        // In the worst case, Snappy's output is longer than its input by a sixth and bzip2's by 600
        // bytes. The length prefix takes up to five bytes.
        let most = value.len() + value.len() / 6 + 640;
        if value.len() > MAX_UNCOMPRESSED_LENGTH
            || self.compress_within(value, most, output).is_none()
        {
            let feature = format!("{:?} compression of {} bytes", self.compression(), value.len());
            return Err(Error::unsupported(feature));
        }
        Ok(())
    }

    /// Compresses into at most `most` bytes, framing included.
    fn compress_within(&mut self, block: &[u8], most: usize, output: &mut Vec<u8>) -> Option<()> {
        if let Codec::None = self.codec {
            return None;
        }
        if let Codec::Snappy(encoder) = &mut self.codec {
            output.resize(snap::raw::max_compress_len(block.len()), 0);
            let length = encoder.compress(block, output).ok().filter(|&length| length <= most)?;
            output.truncate(length);
            return Some(());
        }
        if most <= MAX_VARINT32_LENGTH {
            return None;
        }
        output.clear();
        put_varint64(output, block.len() as u64);
        let header = output.len();
        output.resize(most, 0);
        let room = output.get_mut(header..)?;
        let length = match &mut self.codec {
            Codec::None | Codec::Snappy(_) => return None,
            Codec::Zlib { deflate, dictionary } => {
                deflate.reset();
                if !dictionary.is_empty() {
                    deflate.set_dictionary(dictionary).ok()?;
                }
                let status = deflate.compress(block, room, FlushCompress::Finish).ok()?;
                (status == Status::StreamEnd).then_some(deflate.total_out() as usize)?
            }
            Codec::Bzip2 => {
                let mut codec = bzip2::Compress::new(bzip2::Compression::fast(), 30);
                let status = codec.compress(block, room, bzip2::Action::Finish).ok()?;
                (status == bzip2::Status::StreamEnd).then_some(codec.total_out() as usize)?
            }
            Codec::Lz4(encoder) => encoder.compress(block, room)?,
            Codec::Zstd(context) => context.compress2(room, block).ok()?,
        };
        output.truncate(header + length);
        Some(())
    }
}

impl fmt::Debug for Compressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Compressor({:?})", self.compression())
    }
}

/// Returns the level for zlib; `None` if blocks are to be stored uncompressed: for 0, which never
/// saves enough, and for levels that zlib does not have.
fn zlib_level(level: i32) -> Option<flate2::Compression> {
    match level {
        // -1 is zlib's own number for its default.
        DEFAULT_LEVEL | -1 => Some(flate2::Compression::default()),
        1..=9 => Some(flate2::Compression::new(level as u32)),
        _ => None,
    }
}

fn zstd_context(options: &CompressorOptions, dictionary: &[u8]) -> Result<CCtx<'static>> {
    let level = match options.level {
        DEFAULT_LEVEL => zstd_safe::CLEVEL_DEFAULT,
        // Level 0 is below level 1. But the library treats 0 as its default level, which is above
        // 1.
        0 => -1,
        level => level.clamp(zstd_safe::min_c_level(), zstd_safe::max_c_level()),
    };
    let refused = |code| Error::unsupported(format!("ZSTD: {}", zstd_safe::get_error_name(code)));
    let mut context =
        CCtx::try_create().ok_or_else(|| Error::unsupported("ZSTD: out of memory"))?;
    context.set_parameter(CParameter::CompressionLevel(level)).map_err(refused)?;
    context.set_parameter(CParameter::ChecksumFlag(options.checksum)).map_err(refused)?;
    if !dictionary.is_empty() {
        // The context digests the dictionary when it compresses the first block, and keeps the
        // result.
        context.load_dictionary(dictionary).map_err(refused)?;
    }
    Ok(context)
}

/// Trains a ZSTD dictionary of at most `max_length` bytes from `samples`, the concatenation of
/// samples of these `lengths`. `None` if the samples are too few or too similar, or if `lengths` do
/// not add up to the length of `samples`.
pub fn train_dictionary(samples: &[u8], lengths: &[usize], max_length: usize) -> Option<Vec<u8>> {
    let total = lengths.iter().try_fold(0usize, |total, &length| total.checked_add(length));
    if samples.is_empty() || total != Some(samples.len()) {
        return None;
    }
    let mut dictionary = Vec::with_capacity(max_length);
    zstd_safe::train_from_buffer(&mut dictionary, samples, lengths).ok()?;
    Some(dictionary)
}
