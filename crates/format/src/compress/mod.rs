//! Block compression: types, their names, and the framing of compressed bytes.
//!
//! A block's compression type is in its trailer, outside the compressed bytes. In RocksDB's
//! compress format 2, which every supported table uses, the compressed bytes begin with the
//! uncompressed length as a varint. Snappy's own format already contains that length, so nothing is
//! added to it. Blob values are compressed the same way. A table may contain one dictionary for its
//! data blocks; LZ4, zlib and ZSTD use it, other types ignore it. Source: `util/compression.h`,
//! `util/compression.cc`, `include/rocksdb/compression_type.h`.

mod compressor;
mod decompressor;
mod lz4;

use std::borrow::Cow;

use crate::varint::Reader;
use crate::{Error, Result};

pub use compressor::{Compressor, CompressorOptions, DEFAULT_LEVEL, train_dictionary};
pub use decompressor::{DecompressionDictionary, Decompressor};

/// Maximum uncompressed length of a compressed block, in bytes. A longer block is stored
/// uncompressed. A block that states a longer length is rejected as corrupt.
pub const MAX_UNCOMPRESSED_LENGTH: usize = i32::MAX as usize;

/// The compression type of a block, numbered as in block trailers and version edits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Compression {
    /// No compression.
    None,
    /// Snappy's raw format.
    Snappy,
    /// Raw deflate, without zlib's header and checksum.
    Zlib,
    /// bzip2.
    Bzip2,
    /// LZ4's block format.
    Lz4,
    /// LZ4's block format, written by its slower compressor.
    Lz4Hc,
    /// Windows' Xpress. Tailwater knows its name, but cannot decompress or compress it.
    Xpress,
    /// One frame of Zstandard.
    Zstd,
    /// Zstandard, under the number that it had before its format was final. Read, never written.
    ZstdNotFinal,
    /// A user-defined compression manager, 0x80 to 0xfe. Tailwater knows its name, but cannot
    /// decompress or compress its blocks.
    Custom(u8),
}

impl Compression {
    /// The types with a number below the custom range, in the order of their numbers.
    pub const BUILT_IN: [Self; 9] = [
        Self::None,
        Self::Snappy,
        Self::Zlib,
        Self::Bzip2,
        Self::Lz4,
        Self::Lz4Hc,
        Self::Xpress,
        Self::Zstd,
        Self::ZstdNotFinal,
    ];

    /// Returns the type with this number.
    #[inline]
    pub fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            0x00 => Self::None,
            0x01 => Self::Snappy,
            0x02 => Self::Zlib,
            0x03 => Self::Bzip2,
            0x04 => Self::Lz4,
            0x05 => Self::Lz4Hc,
            0x06 => Self::Xpress,
            0x07 => Self::Zstd,
            0x40 => Self::ZstdNotFinal,
            0x80..=0xfe => Self::Custom(byte),
            _ => return None,
        })
    }

    /// Returns the byte by which block trailers and version edits identify this compression type.
    #[inline]
    pub const fn to_byte(self) -> u8 {
        match self {
            Self::None => 0x00,
            Self::Snappy => 0x01,
            Self::Zlib => 0x02,
            Self::Bzip2 => 0x03,
            Self::Lz4 => 0x04,
            Self::Lz4Hc => 0x05,
            Self::Xpress => 0x06,
            Self::Zstd => 0x07,
            Self::ZstdNotFinal => 0x40,
            Self::Custom(byte) => byte,
        }
    }

    /// Returns the name in option strings and OPTIONS files: `kLZ4Compression`.
    pub fn option_name(self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::None => "kNoCompression",
            Self::Snappy => "kSnappyCompression",
            Self::Zlib => "kZlibCompression",
            Self::Bzip2 => "kBZip2Compression",
            Self::Lz4 => "kLZ4Compression",
            Self::Lz4Hc => "kLZ4HCCompression",
            Self::Xpress => "kXpressCompression",
            Self::Zstd => "kZSTD",
            Self::ZstdNotFinal => "kZSTDNotFinalCompression",
            Self::Custom(byte) => return Cow::Owned(format!("kCustomCompression{byte:02X}")),
        })
    }

    /// Returns the type with this [`option_name`](Self::option_name).
    pub fn from_option_name(name: &str) -> Option<Self> {
        if let Some(hex) = name.strip_prefix("kCustomCompression") {
            return custom_from_hex(hex);
        }
        Self::BUILT_IN.into_iter().find(|kind| kind.option_name() == name)
    }

    /// Returns the type's name in the properties of tables with `format_version` 6 or lower: `LZ4`.
    pub fn property_name(self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::None => "NoCompression",
            Self::Snappy => "Snappy",
            Self::Zlib => "Zlib",
            Self::Bzip2 => "BZip2",
            Self::Lz4 => "LZ4",
            Self::Lz4Hc => "LZ4HC",
            Self::Xpress => "Xpress",
            Self::Zstd => "ZSTD",
            Self::ZstdNotFinal => "ZSTDNotFinal",
            Self::Custom(byte) => return Cow::Owned(format!("Custom{byte:02X}")),
        })
    }

    /// Returns the type with this [`property_name`](Self::property_name).
    pub fn from_property_name(name: &str) -> Option<Self> {
        if let Some(hex) = name.strip_prefix("Custom") {
            return custom_from_hex(hex);
        }
        Self::BUILT_IN.into_iter().find(|kind| kind.property_name() == name)
    }

    /// Returns whether Tailwater can decompress blocks of this type.
    pub const fn is_readable(self) -> bool {
        !matches!(self, Self::Xpress | Self::Custom(_))
    }

    /// Returns whether Tailwater can compress blocks with this type.
    pub const fn is_writable(self) -> bool {
        self.is_readable() && !matches!(self, Self::ZstdNotFinal)
    }
}

/// Returns the custom type whose number is written as two uppercase hex digits.
fn custom_from_hex(hex: &str) -> Option<Compression> {
    let byte = u8::from_str_radix(hex, 16).ok()?;
    match Compression::from_byte(byte) {
        Some(custom @ Compression::Custom(_)) if hex == format!("{byte:02X}") => Some(custom),
        _ => None,
    }
}

/// Compressed bytes and the uncompressed length that they state. The stated length has been
/// checked: it does not exceed the maximum to which this number of bytes can decompress.
#[derive(Debug, Clone, Copy)]
pub struct CompressedBlock<'a> {
    compression: Compression,
    uncompressed_length: usize,
    payload: &'a [u8],
}

impl<'a> CompressedBlock<'a> {
    /// Reads the framing of `bytes`, a block or a blob value without its trailer.
    ///
    /// # Errors
    /// Corruption, if the stated uncompressed length is above [`MAX_UNCOMPRESSED_LENGTH`] or more
    /// than the bytes can decompress to; unsupported, for a type that Tailwater cannot decompress.
    #[inline]
    pub fn parse(compression: Compression, bytes: &'a [u8]) -> Result<Self> {
        let (claimed, payload) = match compression {
            Compression::None => (bytes.len() as u64, bytes),
            Compression::Snappy => (Reader::new(bytes).varint64(WHAT)?, bytes),
            Compression::Xpress | Compression::Custom(_) => return Err(unreadable(compression)),
            _ => {
                let mut reader = Reader::new(bytes);
                (reader.varint64(WHAT)?, reader.remaining())
            }
        };
        if claimed > highest_length(compression, payload) {
            return Err(Error::corruption(
                WHAT,
                0,
                format!("a length that {} bytes can decompress to", payload.len()),
                format!("{claimed}"),
            ));
        }
        Ok(Self { compression, uncompressed_length: claimed as usize, payload })
    }

    /// Returns the compression type.
    pub fn compression(&self) -> Compression {
        self.compression
    }

    /// Returns the uncompressed length that the block states. Decompression fails if it is wrong.
    #[inline]
    pub fn uncompressed_length(&self) -> usize {
        self.uncompressed_length
    }
}

const WHAT: &str = "compressed block";

/// Returns the maximum number of bytes that `payload` can decompress to.
///
/// In Snappy, an element of 3 bytes encodes at most 64 bytes. In LZ4, a length byte encodes at most
/// 255 bytes. In deflate, a symbol of 2 bits encodes at most 258 bytes. In Zstandard, a block of 4
/// bytes encodes at most 128 KiB, and a frame header may state the frame's uncompressed size. bzip2
/// has no useful bound.
fn highest_length(compression: Compression, payload: &[u8]) -> u64 {
    let length = payload.len() as u64;
    let most = match compression {
        Compression::None => length,
        Compression::Snappy => length * 22,
        Compression::Lz4 | Compression::Lz4Hc => length * 255,
        Compression::Zlib => length * 1032,
        Compression::Zstd | Compression::ZstdNotFinal => {
            match zstd::zstd_safe::get_frame_content_size(payload) {
                Ok(Some(size)) => size.min((length / 4 + 1) << 17),
                Ok(None) => (length / 4 + 1) << 17,
                Err(_) => 0,
            }
        }
        _ => u64::MAX,
    };
    most.min(MAX_UNCOMPRESSED_LENGTH as u64)
}

#[cold]
fn unreadable(compression: Compression) -> Error {
    Error::unsupported(format!("{} compression", compression.property_name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_lead_back() {
        let mut known = 0;
        for byte in 0..=u8::MAX {
            let Some(kind) = Compression::from_byte(byte) else { continue };
            known += 1;
            assert_eq!(kind.to_byte(), byte);
            assert_eq!(Compression::from_option_name(&kind.option_name()), Some(kind));
            assert_eq!(Compression::from_property_name(&kind.property_name()), Some(kind));
        }
        assert_eq!(known, 9 + 127);
        for name in [
            "kZSTDCompression",
            "kCustomCompression7F",
            "kCustomCompression8a",
            "kCustomCompression",
        ] {
            assert_eq!(Compression::from_option_name(name), None, "{name}");
        }
    }

    #[test]
    fn impossible_lengths_are_refused_before_anything_is_allocated() {
        let gigabyte = [0x80, 0x80, 0x80, 0x80, 0x04];
        for kind in Compression::BUILT_IN {
            let mut bytes = gigabyte.to_vec();
            bytes.extend_from_slice(&[0; 1000]);
            match kind {
                Compression::None | Compression::Bzip2 => {}
                Compression::Xpress => assert!(matches!(
                    CompressedBlock::parse(kind, &bytes),
                    Err(Error::Unsupported { .. })
                )),
                _ => assert!(CompressedBlock::parse(kind, &bytes).is_err(), "{kind:?}"),
            }
        }
        let terabyte = [0x80, 0x80, 0x80, 0x80, 0x80, 0x20, 0];
        assert!(CompressedBlock::parse(Compression::Bzip2, &terabyte).is_err());
    }
}
