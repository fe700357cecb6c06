//! The fields about blob files.
//!
//! Both fields end in custom fields, `(custom tag: varint32, field: slice)*, 0`; no custom field is
//! defined yet, and a tag with bit 6 set is rejected. Source: `db/blob/blob_file_addition.cc`,
//! `db/blob/blob_file_garbage.cc`.

use super::text;
use crate::varint::{Reader, put_length_prefixed, put_varint32, put_varint64};
use crate::{Error, Result};

/// Tag that ends the custom fields.
const END: u32 = 0;

/// Bit set in custom tags that a reader must know.
const NOT_IGNORABLE: u32 = 1 << 6;

/// A blob file that is added.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BlobFileAddition {
    /// The number in the file's name.
    pub number: u64,
    /// Number of blobs in it.
    pub blob_count: u64,
    /// Size of the blobs in bytes, headers and keys included.
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
    /// Size of these blobs in the file, in bytes.
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
