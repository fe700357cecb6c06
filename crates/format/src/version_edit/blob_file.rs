//! The fields of a version edit that describe blob files: one adds a blob file, and one adds
//! garbage to a blob file.
//!
//! Each of these two fields ends with custom fields, `(custom tag: varint32, field: slice)*, 0`. No
//! custom field is defined yet. If bit 6 of a custom tag is set, the reader must know the tag, so
//! the edit is rejected. Source: `db/blob/blob_file_addition.cc`, `db/blob/blob_file_garbage.cc`.

use super::text;
use crate::varint::{Reader, put_length_prefixed, put_varint32, put_varint64};
use crate::{Error, Result};

/// Tag that ends the custom fields.
const END: u32 = 0;

/// Bit of a custom tag. If it is set, a reader that does not know the tag must reject the edit.
const NOT_IGNORABLE: u32 = 1 << 6;

/// A blob file that is added to the database.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlobFileAddition {
    /// The number in the file's name.
    pub number: u64,
    /// Number of blobs in the file.
    pub blob_count: u64,
    /// Total size of the file's records in bytes: blobs with their headers and keys.
    pub blob_bytes: u64,
    /// The name of the file's checksum function; empty if there is none.
    pub checksum_function: String,
    /// The checksum of the whole file; empty if there is none.
    pub checksum: Vec<u8>,
}

impl BlobFileAddition {
    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        let addition = Self {
            number: reader.varint64("blob file number")?,
            blob_count: reader.varint64("count of blobs")?,
            blob_bytes: reader.varint64("bytes of blobs")?,
            checksum_function: text(reader, "blob file checksum function")?,
            checksum: reader.length_prefixed("blob file checksum")?.to_vec(),
        };
        skip_custom(reader)?;
        Ok(addition)
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_varint64(out, self.number);
        put_varint64(out, self.blob_count);
        put_varint64(out, self.blob_bytes);
        put_length_prefixed(out, self.checksum_function.as_bytes());
        put_length_prefixed(out, &self.checksum);
        put_varint32(out, END);
    }
}

/// Garbage in a blob file: blobs to which no table refers any longer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BlobFileGarbage {
    /// The number in the file's name.
    pub number: u64,
    /// Number of blobs that became garbage.
    pub blob_count: u64,
    /// Total size of the records of the blobs that became garbage, in bytes: blobs with their
    /// headers and keys.
    pub blob_bytes: u64,
}

impl BlobFileGarbage {
    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        let garbage = Self {
            number: reader.varint64("blob file number")?,
            blob_count: reader.varint64("count of garbage blobs")?,
            blob_bytes: reader.varint64("bytes of garbage blobs")?,
        };
        skip_custom(reader)?;
        Ok(garbage)
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_varint64(out, self.number);
        put_varint64(out, self.blob_count);
        put_varint64(out, self.blob_bytes);
        put_varint32(out, END);
    }
}

fn skip_custom(reader: &mut Reader<'_>) -> Result<()> {
    loop {
        match reader.varint32("custom field of a blob file")? {
            END => return Ok(()),
            tag if tag & NOT_IGNORABLE != 0 => {
                return Err(Error::unsupported(format!("custom field {tag} of a blob file")));
            }
            _ => {
                reader.length_prefixed("custom field of a blob file")?;
            }
        }
    }
}
