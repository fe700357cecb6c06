//! Blob files, which hold values that are too large for tables, and the indexes that tables store
//! in place of those values.
//!
//! ```text
//! header, 30 bytes     magic number u32, version u32, column family u32, flags u8 (1: expiration),
//!                      compression u8, expiration range 2 x u64
//! record, 32 bytes     key length u64, value length u64, expiration u64, checksum of these u32,
//!                      checksum of key and value u32; then the key, then the value as it is stored
//! footer, 32 bytes     magic number u32, number of records u64, expiration range 2 x u64,
//!                      checksum of these u32
//! ```
//!
//! Numbers are little-endian, checksums are masked CRC32C. A file without a footer was not closed.
//! Every value of a file is compressed as the header says, even if that makes it longer. A blob
//! index points at the value, not at its record. Source: `db/blob/blob_log_format.h`,
//! `db/blob/blob_index.h`.

use crate::checksum::{crc32c, crc32c_extend, mask_crc32c};
use crate::compress::Compression;
use crate::key::ValueType;
use crate::varint::{Reader, put_fixed32, put_fixed64, put_varint64};
use crate::{Error, Result, wide_column};

/// The length of a file's header, in bytes.
pub const BLOB_HEADER_LENGTH: usize = 30;
/// The length of a file's footer, in bytes.
pub const BLOB_FOOTER_LENGTH: usize = 32;
/// The length of a record's header, which precedes its key, in bytes.
pub const BLOB_RECORD_HEADER_LENGTH: usize = 32;

const MAGIC: u32 = 0x0024_8f37;
const VERSION: u32 = 1;
const HAS_EXPIRATION: u8 = 1;

/// The header of a blob file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlobFileHeader {
    /// The column family's id.
    pub column_family_id: u32,
    /// Compression type of every value of the file.
    pub compression: Compression,
    /// Whether values have expiration times. Only RocksDB's old stacked BlobDB writes such files.
    pub has_expiration: bool,
    /// Approximate lower and upper bound of the values' expiration times, in seconds since 1970;
    /// `(0, 0)` if values do not expire.
    pub expiration_range: (u64, u64),
}

impl BlobFileHeader {
    /// Creates the header of a file whose values do not expire.
    pub fn new(column_family_id: u32, compression: Compression) -> Self {
        Self { column_family_id, compression, has_expiration: false, expiration_range: (0, 0) }
    }

    /// Reads the header at the start of `bytes`.
    ///
    /// # Errors
    /// Corruption if there are too few bytes, or if the magic number, the version, the flags or the
    /// compression type is unknown.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        const WHAT: &str = "blob file header";
        let mut reader = Reader::new(bytes);
        check_number(WHAT, 0, MAGIC, reader.fixed32(WHAT)?)?;
        check_number(WHAT, 4, VERSION, reader.fixed32(WHAT)?)?;
        let column_family_id = reader.fixed32(WHAT)?;
        let flags_at = reader.offset();
        let flags = reader.u8(WHAT)?;
        if flags & !HAS_EXPIRATION != 0 {
            let expected = format!("flags {HAS_EXPIRATION:#04x} or none");
            return Err(Error::corruption(WHAT, flags_at, expected, format!("{flags:#04x}")));
        }
        let has_expiration = flags & HAS_EXPIRATION != 0;
        let compression = compression(WHAT, &mut reader)?;
        let expiration_range = (reader.fixed64(WHAT)?, reader.fixed64(WHAT)?);
        Ok(Self { column_family_id, compression, has_expiration, expiration_range })
    }

    /// Appends the encoded header, which has [`BLOB_HEADER_LENGTH`] bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_fixed32(out, MAGIC);
        put_fixed32(out, VERSION);
        put_fixed32(out, self.column_family_id);
        out.push(if self.has_expiration { HAS_EXPIRATION } else { 0 });
        out.push(self.compression.to_byte());
        put_fixed64(out, self.expiration_range.0);
        put_fixed64(out, self.expiration_range.1);
    }
}

/// The footer of a blob file, written when the file is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlobFileFooter {
    /// Number of records in the file.
    pub blob_count: u64,
    /// Smallest and largest expiration time of the values, in seconds since 1970; `(0, 0)` if
    /// values do not expire.
    pub expiration_range: (u64, u64),
}

impl BlobFileFooter {
    /// Creates the footer of a file with `blob_count` records whose values do not expire.
    pub fn new(blob_count: u64) -> Self {
        Self { blob_count, expiration_range: (0, 0) }
    }

    /// Reads the footer at the start of `bytes`.
    ///
    /// # Errors
    /// Corruption if there are too few bytes, or if the magic number or the checksum is wrong.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        const WHAT: &str = "blob file footer";
        let mut reader = Reader::new(bytes);
        let protected = reader.bytes(BLOB_FOOTER_LENGTH - 4, WHAT)?;
        check_crc(WHAT, BLOB_FOOTER_LENGTH - 4, crc32c(protected), reader.fixed32(WHAT)?)?;
        let mut reader = Reader::new(protected);
        check_number(WHAT, 0, MAGIC, reader.fixed32(WHAT)?)?;
        let blob_count = reader.fixed64(WHAT)?;
        let expiration_range = (reader.fixed64(WHAT)?, reader.fixed64(WHAT)?);
        Ok(Self { blob_count, expiration_range })
    }

    /// Appends the encoded footer, which has [`BLOB_FOOTER_LENGTH`] bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        put_fixed32(out, MAGIC);
        put_fixed64(out, self.blob_count);
        put_fixed64(out, self.expiration_range.0);
        put_fixed64(out, self.expiration_range.1);
        let crc = crc32c(out.get(start..).unwrap_or_default());
        put_fixed32(out, mask_crc32c(crc));
    }
}

/// The header of a record. The key and the value follow it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlobRecordHeader {
    /// The length of the key in bytes.
    pub key_length: u64,
    /// The length of the value as stored, which may be compressed, in bytes.
    pub value_length: u64,
    /// When the value expires, in seconds since 1970; 0 for never.
    pub expiration: u64,
    /// The masked CRC32C of the key and the stored value.
    checksum: u32,
}

impl BlobRecordHeader {
    /// Returns the header of a record with this user key, this value as stored, and this expiration
    /// time in seconds since 1970 (0 for never).
    pub fn new(key: &[u8], value: &[u8], expiration: u64) -> Self {
        Self {
            key_length: key.len() as u64,
            value_length: value.len() as u64,
            expiration,
            checksum: mask_crc32c(crc32c_extend(crc32c(key), value)),
        }
    }

    /// Reads the header at the start of `bytes`.
    ///
    /// # Errors
    /// Corruption if there are too few bytes, if the checksum is wrong, or if the lengths are
    /// larger than any file.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        const WHAT: &str = "blob record header";
        let mut reader = Reader::new(bytes);
        let protected = reader.bytes(24, WHAT)?;
        check_crc(WHAT, 24, crc32c(protected), reader.fixed32(WHAT)?)?;
        let checksum = reader.fixed32(WHAT)?;
        let mut reader = Reader::new(protected);
        let (key_length, value_length) = (reader.fixed64(WHAT)?, reader.fixed64(WHAT)?);
        let expiration = reader.fixed64(WHAT)?;
        if key_length.checked_add(value_length).is_none_or(|length| length > i64::MAX as u64) {
            let found = format!("{key_length} and {value_length}");
            return Err(Error::corruption(WHAT, 0, "lengths that fit in a file", found));
        }
        Ok(Self { key_length, value_length, expiration, checksum })
    }

    /// Appends the encoded header, which has [`BLOB_RECORD_HEADER_LENGTH`] bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        put_fixed64(out, self.key_length);
        put_fixed64(out, self.value_length);
        put_fixed64(out, self.expiration);
        let crc = crc32c(out.get(start..).unwrap_or_default());
        put_fixed32(out, mask_crc32c(crc));
        put_fixed32(out, self.checksum);
    }

    /// Returns the length of the whole record in bytes: header, key and value.
    pub fn record_length(&self) -> u64 {
        BLOB_RECORD_HEADER_LENGTH as u64 + self.key_length + self.value_length
    }

    /// Checks `key` and `value` against the lengths and the checksum in this header. Both must be
    /// as stored in the file.
    ///
    /// # Errors
    /// Corruption if the checksum or a length differs. The offset in the error counts from the
    /// start of the key.
    pub fn verify(&self, key: &[u8], value: &[u8]) -> Result<()> {
        const WHAT: &str = "blob record";
        let lengths = (key.len() as u64, value.len() as u64);
        if lengths != (self.key_length, self.value_length) {
            let expected = format!("{} and {} bytes", self.key_length, self.value_length);
            let found = format!("{} and {} bytes", lengths.0, lengths.1);
            return Err(Error::corruption(WHAT, 0, expected, found));
        }
        check_crc(WHAT, 0, crc32c_extend(crc32c(key), value), self.checksum)
    }
}

/// The value of a table entry whose actual value is in a blob file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlobIndex<'a> {
    /// The actual value itself, with an expiration time. It is not in a blob file. Only RocksDB's
    /// old stacked BlobDB writes this.
    Inlined {
        /// Expiration time, in seconds since 1970.
        expiration: u64,
        /// The value.
        value: &'a [u8],
    },
    /// The location of the actual value in a blob file.
    Blob(BlobLocation),
}

/// The location of a value in a blob file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlobLocation {
    /// Number of the blob file.
    pub file_number: u64,
    /// Offset of the value's first byte in the blob file. The header and the key of the record
    /// precede it.
    pub offset: u64,
    /// The length of the value as stored, in bytes.
    pub size: u64,
    /// Compression type of the value.
    pub compression: Compression,
    /// Expiration time of the value, in seconds since 1970, if it has one. Only RocksDB's old
    /// stacked BlobDB writes this.
    pub expiration: Option<u64>,
}

const INLINED_WITH_EXPIRATION: u8 = 0;
const BLOB: u8 = 1;
const BLOB_WITH_EXPIRATION: u8 = 2;

impl<'a> BlobIndex<'a> {
    /// Decodes a blob index. Its encoding must be exactly `bytes`.
    ///
    /// # Errors
    /// Corruption for an unknown type, an incomplete field or trailing bytes. Unsupported for file
    /// number 0, which means that the blob is in the table itself.
    pub fn decode(bytes: &'a [u8]) -> Result<Self> {
        const WHAT: &str = "blob index";
        let mut reader = Reader::new(bytes);
        let kind = reader.u8(WHAT)?;
        let expiration = match kind {
            BLOB => None,
            INLINED_WITH_EXPIRATION | BLOB_WITH_EXPIRATION => Some(reader.varint64(WHAT)?),
            _ => return Err(Error::corruption(WHAT, 0, "a known type", format!("{kind}"))),
        };
        if let (INLINED_WITH_EXPIRATION, Some(expiration)) = (kind, expiration) {
            return Ok(Self::Inlined { expiration, value: reader.remaining() });
        }
        let file_number = reader.varint64(WHAT)?;
        let (offset, size) = (reader.varint64(WHAT)?, reader.varint64(WHAT)?);
        let compression = compression(WHAT, &mut reader)?;
        if !reader.is_empty() {
            let found = format!("{} more bytes", reader.remaining().len());
            return Err(Error::corruption(WHAT, reader.offset(), "the end", found));
        }
        if file_number == 0 {
            return Err(Error::unsupported("embedded blob records"));
        }
        Ok(Self::Blob(BlobLocation { file_number, offset, size, compression, expiration }))
    }

    /// Appends the encoded blob index.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Inlined { expiration, value } => {
                out.push(INLINED_WITH_EXPIRATION);
                put_varint64(out, *expiration);
                out.extend_from_slice(value);
            }
            Self::Blob(location) => {
                match location.expiration {
                    None => out.push(BLOB),
                    Some(expiration) => {
                        out.push(BLOB_WITH_EXPIRATION);
                        put_varint64(out, expiration);
                    }
                }
                put_varint64(out, location.file_number);
                put_varint64(out, location.offset);
                put_varint64(out, location.size);
                out.push(location.compression.to_byte());
            }
        }
    }
}

/// Calls `take` with each blob index in a record's value, encoded: the value itself if it is in a
/// blob file, or those of an entity's columns.
///
/// # Errors
/// The errors of [`wide_column::blob_indexes`] and `take`.
#[inline]
pub fn for_each_blob_index(
    value_type: ValueType,
    value: &[u8],
    mut take: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    match value_type {
        ValueType::BlobIndex => take(value),
        ValueType::WideColumnEntity => {
            wide_column::blob_indexes(value)?.into_iter().try_for_each(take)
        }
        _ => Ok(()),
    }
}

impl BlobLocation {
    /// Returns the offset at which the value's record begins. The record's key has `key_length`
    /// bytes, and the blob file has `file_length` bytes, including its footer.
    ///
    /// # Errors
    /// Corruption if the record would not lie between the header and the footer of the file.
    pub fn record_offset(&self, key_length: usize, file_length: u64) -> Result<u64> {
        let before = BLOB_RECORD_HEADER_LENGTH as u64 + key_length as u64;
        let start = self.offset.checked_sub(before);
        let end = self.offset.checked_add(self.size);
        match (start, end, file_length.checked_sub(BLOB_FOOTER_LENGTH as u64)) {
            (Some(start), Some(end), Some(last))
                if start >= BLOB_HEADER_LENGTH as u64 && end <= last =>
            {
                Ok(start)
            }
            _ => {
                let expected = format!("a record in a file of {file_length} bytes");
                let found = format!("{} bytes at {}", self.size, self.offset);
                Err(Error::corruption("blob index", 0, expected, found))
            }
        }
    }
}

/// Reads the next byte of `reader` as a compression type.
fn compression(what: &'static str, reader: &mut Reader<'_>) -> Result<Compression> {
    let (at, byte) = (reader.offset(), reader.u8(what)?);
    Compression::from_byte(byte)
        .ok_or_else(|| Error::corruption(what, at, "a compression type", format!("{byte:#04x}")))
}

fn check_number(what: &'static str, at: usize, expected: u32, found: u32) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(Error::corruption(what, at, format!("{expected:#010x}"), format!("{found:#010x}")))
}

fn check_crc(what: &'static str, at: usize, computed: u32, stored: u32) -> Result<()> {
    let masked = mask_crc32c(computed);
    if masked == stored {
        return Ok(());
    }
    let expected = format!("checksum {masked:#010x}");
    Err(Error::corruption(what, at, expected, format!("{stored:#010x}")))
}
