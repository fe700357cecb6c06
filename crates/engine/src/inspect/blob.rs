//! Blob files, record by record.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use tailwater_format::blob::{
    BLOB_FOOTER_LENGTH, BLOB_HEADER_LENGTH, BLOB_RECORD_HEADER_LENGTH, BlobFileFooter,
    BlobFileHeader, BlobRecordHeader,
};
use tailwater_format::compress::{Compression, Decompressor};
use tailwater_io::{IoMode, Purpose, ReadFile, Storage};

use super::read_exactly;
use crate::error::{Error, Result};

/// Number of bytes read at a time in the search for the next record after damage.
const SEARCH_WINDOW: usize = 64 << 10;

/// A reader of a blob file. It keeps one record in memory.
pub struct BlobFileReader {
    file: Arc<dyn ReadFile>,
    header: Result<BlobFileHeader>,
    footer: Result<BlobFileFooter>,
    decompressor: Decompressor,
    /// Length of the file, in bytes.
    length: u64,
    /// Offset of the end of the records: the start of the footer or, without a footer, the end of
    /// the file.
    records_end: u64,
    position: u64,
}

/// An item of a blob file.
#[derive(Debug)]
#[non_exhaustive]
pub enum BlobItem {
    /// A record with a valid header.
    Record(BlobRecord),
    /// Bytes that are not a record.
    Damage {
        /// Offset in the file at which the damage begins.
        offset: u64,
        /// Length of the damage in bytes. The damage ends at the next record with valid checksums,
        /// or at the end of the records.
        length: u64,
        /// The reason why no record begins at `offset`.
        error: Error,
    },
}

/// A record of a blob file.
#[derive(Debug)]
#[non_exhaustive]
pub struct BlobRecord {
    /// Offset of the record in the file.
    pub offset: u64,
    /// Length of the record with header, key and value, in bytes.
    pub length: u64,
    /// Offset of the value in the file. A blob index refers to a value by this offset.
    pub value_offset: u64,
    /// The user key of the value.
    pub key: Vec<u8>,
    /// Length of the value as stored, which may be compressed, in bytes.
    pub stored_length: u64,
    /// The time at which the value expires, in seconds since 1970; 0 for never.
    pub expiration: u64,
    /// Length of the uncompressed value in bytes, or the reason why the value cannot be read: a
    /// checksum mismatch, or bytes that do not decompress. `None` if the file's header is damaged,
    /// which leaves the compression unknown.
    pub value_length: Result<Option<u64>>,
}

impl fmt::Debug for BlobFileReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlobFileReader")
            .field("path", &self.file.path())
            .field("length", &self.length)
            .field("position", &self.position)
            .finish_non_exhaustive()
    }
}

impl BlobFileReader {
    /// Opens a blob file. [`Self::header`] and [`Self::footer`] return errors about a damaged
    /// header or footer.
    ///
    /// # Errors
    /// I/O errors.
    pub fn open(storage: &dyn Storage, path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let file = storage.open(path, IoMode::Buffered, Purpose::Verification)?;
        let length = file.length()?;
        let header = read_exactly(&*file, 0, BLOB_HEADER_LENGTH).and_then(|bytes| {
            BlobFileHeader::decode(&bytes).map_err(|error| Error::decoding(path, 0, error))
        });
        let footer_at = length.saturating_sub(BLOB_FOOTER_LENGTH as u64);
        let footer = read_exactly(&*file, footer_at, BLOB_FOOTER_LENGTH).and_then(|bytes| {
            BlobFileFooter::decode(&bytes).map_err(|error| Error::decoding(path, footer_at, error))
        });
        // A file that was not closed has no footer. Its records extend to the end of the file.
        let records_end = if footer.is_ok() { footer_at } else { length };
        let position = BLOB_HEADER_LENGTH as u64;
        let decompressor = Decompressor::new();
        Ok(Self { file, header, footer, decompressor, length, records_end, position })
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Returns the length of the file when it was opened, in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Returns the header, or a description of its damage.
    pub fn header(&self) -> &Result<BlobFileHeader> {
        &self.header
    }

    /// Returns the footer, or a description of its damage. A file that was not closed has no
    /// footer, which also is reported as damage.
    pub fn footer(&self) -> &Result<BlobFileFooter> {
        &self.footer
    }

    /// Returns the next item; `None` at the end. If the header of a record is damaged, the record's
    /// length is unknown. Reading then continues at the next record with valid checksums.
    ///
    /// # Errors
    /// I/O errors.
    pub fn next_item(&mut self) -> Result<Option<BlobItem>> {
        let offset = self.position;
        if offset >= self.records_end {
            return Ok(None);
        }
        let error = match self.record_header(offset) {
            Ok(header) => return self.record(offset, &header).map(Some),
            Err(error) if error.is_corruption() => error,
            Err(error) => return Err(error),
        };
        self.position = self.next_whole_record(offset + 1)?;
        Ok(Some(BlobItem::Damage { offset, length: self.position - offset, error }))
    }

    /// Reads a record's header, and checks that the record ends before the footer.
    fn record_header(&self, offset: u64) -> Result<BlobRecordHeader> {
        let path = self.file.path();
        let bytes = read_exactly(&*self.file, offset, BLOB_RECORD_HEADER_LENGTH)?;
        let header = BlobRecordHeader::decode(&bytes)
            .map_err(|error| Error::decoding(path, offset, error))?;
        let end = offset.checked_add(header.record_length());
        if end.is_none_or(|end| end > self.records_end) {
            let message = format!(
                "a record of {} bytes extends beyond the end of the records at {}",
                header.record_length(),
                self.records_end
            );
            return Err(Error::corruption_at(path, offset, message));
        }
        Ok(header)
    }

    /// Reads the rest of a record, and moves past the record.
    fn record(&mut self, offset: u64, header: &BlobRecordHeader) -> Result<BlobItem> {
        let body_at = offset + BLOB_RECORD_HEADER_LENGTH as u64;
        let (key, value) = self.body(offset, header)?;
        self.position = offset + header.record_length();
        let value_length = match header.verify(&key, &value) {
            Ok(()) => self.value_length(&value),
            Err(error) => Err(error),
        };
        let path = self.file.path();
        Ok(BlobItem::Record(BlobRecord {
            offset,
            length: header.record_length(),
            value_offset: body_at + header.key_length,
            stored_length: header.value_length,
            expiration: header.expiration,
            value_length: value_length.map_err(|error| Error::decoding(path, body_at, error)),
            key,
        }))
    }

    /// Reads the key and the value of a record.
    fn body(&self, offset: u64, header: &BlobRecordHeader) -> Result<(Vec<u8>, Vec<u8>)> {
        let body_at = offset + BLOB_RECORD_HEADER_LENGTH as u64;
        let length = (header.key_length + header.value_length) as usize;
        let mut key = read_exactly(&*self.file, body_at, length)?;
        let value = key.split_off(header.key_length as usize);
        Ok((key, value))
    }

    /// Returns the uncompressed length of a value.
    fn value_length(&mut self, stored: &[u8]) -> tailwater_format::Result<Option<u64>> {
        let Ok(header) = &self.header else { return Ok(None) };
        if header.compression == Compression::None {
            return Ok(Some(stored.len() as u64));
        }
        let mut value = Vec::new();
        self.decompressor.decompress(header.compression, stored, None, &mut value)?;
        Ok(Some(value.len() as u64))
    }

    /// Returns the offset of the first record with valid checksums at or after `from`. If there is
    /// none, returns the end of the records.
    fn next_whole_record(&self, from: u64) -> Result<u64> {
        let mut window_at = from;
        while window_at < self.records_end {
            let mut window = vec![0; SEARCH_WINDOW + BLOB_RECORD_HEADER_LENGTH - 1];
            let count = self.file.read_full_at(&mut window, window_at, Purpose::Verification)?;
            window.truncate(count);
            for (at, bytes) in window.windows(BLOB_RECORD_HEADER_LENGTH).enumerate() {
                let offset = window_at + at as u64;
                if BlobRecordHeader::decode(bytes).is_ok() && self.is_whole_record(offset)? {
                    return Ok(offset);
                }
            }
            window_at += SEARCH_WINDOW as u64;
        }
        Ok(self.records_end)
    }

    fn is_whole_record(&self, offset: u64) -> Result<bool> {
        let Ok(header) = self.record_header(offset) else { return Ok(false) };
        let (key, value) = self.body(offset, &header)?;
        Ok(header.verify(&key, &value).is_ok())
    }
}
