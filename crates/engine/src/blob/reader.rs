//! One open blob file, and its records.

use std::path::Path;
use std::sync::Arc;

use tailwater_format::blob::{
    BLOB_HEADER_LENGTH, BLOB_RECORD_HEADER_LENGTH, BlobFileHeader, BlobLocation, BlobRecordHeader,
};
use tailwater_format::compress::{Compression, Decompressor};
use tailwater_io::attribution::{self, Section};
use tailwater_io::buffer::AlignedBuffer;
use tailwater_io::in_flight::Span;
use tailwater_io::{Purpose, ReadFile};

use crate::error::{Error, Result};
use crate::stats::slow_reads;

/// One open blob file. Threads may share it.
#[derive(Debug)]
pub(crate) struct BlobReader {
    file: Arc<dyn ReadFile>,
    /// The file's path. Values that were read keep it, but not the file.
    path: Arc<Path>,
    length: u64,
    header: BlobFileHeader,
}

impl BlobReader {
    /// Opens a blob file and reads its header.
    ///
    /// # Errors
    /// Corruption, if the file does not begin with a blob file's header; not supported, if the
    /// header says that the values in the file expire.
    pub(crate) fn open(file: Arc<dyn ReadFile>, purpose: Purpose) -> Result<Self> {
        let length = file.length()?;
        let mut buffer = AlignedBuffer::with_capacity(BLOB_HEADER_LENGTH);
        let bytes = file.read_span(&mut buffer, 0, BLOB_HEADER_LENGTH, purpose)?;
        let header = BlobFileHeader::decode(bytes)
            .map_err(|error| Error::decoding(file.path(), 0, error))?;
        if header.has_expiration {
            return Err(Error::not_supported("blobs that expire").in_file(file.path()));
        }
        // The header has no checksum, so only contradictions in it can be detected.
        if header.expiration_range != (0, 0) {
            let message = "the header has an expiration range, but nothing in the file expires";
            return Err(Error::corruption_at(file.path(), 0, message));
        }
        let path = Arc::from(file.path());
        Ok(Self { file, path, length, header })
    }

    /// Returns the file's header.
    pub(crate) fn header(&self) -> &BlobFileHeader {
        &self.header
    }

    /// Returns the file's length, in bytes.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Returns the record of `user_key` at the location that its blob index gives.
    ///
    /// # Errors
    /// Corruption, if the file has no such record: the location is outside the file, or its
    /// compression is not that of the file.
    pub(crate) fn record<'k>(
        self: Arc<Self>,
        user_key: &'k [u8],
        location: BlobLocation,
    ) -> Result<BlobRecord<'k>> {
        let path = &self.path;
        let start = location
            .record_offset(user_key.len(), self.length)
            .map_err(|error| Error::decoding(path, location.offset, error))?;
        if location.compression != self.header.compression {
            let message = format!(
                "the index of key '{}' says {:?}, the file {:?}",
                user_key.escape_ascii(),
                location.compression,
                self.header.compression
            );
            return Err(Error::corruption_at(path, start, message));
        }
        Ok(BlobRecord { reader: self, user_key, location, start })
    }
}

/// A record of a blob file that is to be read.
#[derive(Debug)]
pub(crate) struct BlobRecord<'k> {
    reader: Arc<BlobReader>,
    user_key: &'k [u8],
    location: BlobLocation,
    /// Offset of the record in the file.
    start: u64,
}

impl BlobRecord<'_> {
    /// Returns the span of the file that the record fills.
    pub(crate) fn span(&self) -> Span {
        Span { file: Arc::clone(&self.reader.file), offset: self.start, length: self.length() }
    }

    fn length(&self) -> usize {
        BLOB_RECORD_HEADER_LENGTH + self.user_key.len() + self.location.size as usize
    }

    /// Reads the record and returns its value.
    ///
    /// # Errors
    /// Those of [`Self::value`] and [`PackedValue::unpack`], and of the read.
    pub(crate) fn read(&self, purpose: Purpose) -> Result<Vec<u8>> {
        let length = self.length();
        let mut buffer = AlignedBuffer::with_capacity(length);
        let bytes = self.reader.file.read_span(&mut buffer, self.start, length, purpose)?;
        let value = self.value(bytes)?;
        match self.location.compression {
            Compression::None => Ok(value.to_vec()),
            compression => decompress(compression, value, &self.reader.path, self.start),
        }
    }

    /// Returns a copy of the value in the bytes of the record's span, as it is stored.
    ///
    /// # Errors
    /// Those of [`Self::value`].
    pub(crate) fn packed_value(&self, bytes: &[u8]) -> Result<PackedValue> {
        Ok(PackedValue {
            bytes: self.value(bytes)?.to_vec(),
            compression: self.location.compression,
            path: Arc::clone(&self.reader.path),
            start: self.start,
        })
    }

    /// Returns the value in the bytes of the record's span, as it is stored.
    ///
    /// # Errors
    /// Corruption, if the record belongs to another key, ends early, or a checksum does not match.
    fn value<'b>(&self, bytes: &'b [u8]) -> Result<&'b [u8]> {
        slow_reads::count(|counts| counts.blobs += 1);
        let _unpacking = attribution::enter(Section::Unpacking);
        let Self { reader, user_key, start, .. } = self;
        let damaged = |error| Error::decoding(&reader.path, *start, error);
        let wrong = |message: String| Error::corruption_at(&reader.path, *start, message);
        let length = self.length();
        if bytes.len() < length {
            let count = bytes.len();
            return Err(wrong(format!("a blob record of {length} bytes ends after {count}")));
        }
        let (head, rest) = bytes.split_at(BLOB_RECORD_HEADER_LENGTH);
        let header = BlobRecordHeader::decode(head).map_err(damaged)?;
        let (key, value) = rest.split_at(user_key.len());
        if header.key_length != key.len() as u64
            || header.value_length != value.len() as u64
            || key != *user_key
        {
            return Err(wrong(format!(
                "the blob record here is not that of key '{}'",
                user_key.escape_ascii()
            )));
        }
        header.verify(key, value).map_err(damaged)?;
        Ok(value)
    }
}

/// A value that was read and whose record was checked. It is as it was in the blob file, so it may
/// be compressed.
#[derive(Debug)]
pub(crate) struct PackedValue {
    bytes: Vec<u8>,
    compression: Compression,
    path: Arc<Path>,
    /// Offset of the record in the file.
    start: u64,
}

impl PackedValue {
    /// Returns the length of the value as it is stored, in bytes.
    #[cfg(test)]
    pub(super) fn stored_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the value.
    ///
    /// # Errors
    /// Corruption, if the value cannot be decompressed.
    pub(crate) fn unpack(self) -> Result<Vec<u8>> {
        match self.compression {
            Compression::None => Ok(self.bytes),
            compression => decompress(compression, &self.bytes, &self.path, self.start),
        }
    }
}

/// Decompresses the value of the record at offset `start` of a blob file.
fn decompress(compression: Compression, value: &[u8], path: &Path, start: u64) -> Result<Vec<u8>> {
    let _unpacking = attribution::enter(Section::Unpacking);
    let mut output = Vec::new();
    Decompressor::new()
        .decompress(compression, value, None, &mut output)
        .map_err(|error| Error::decoding(path, start, error))?;
    Ok(output)
}
