//! Blocks of a table as stored in the file, and the entries in them.

use std::path::PathBuf;

use tailwater_format::block::{Cursor, Layout};
use tailwater_format::compress::{Compression, DecompressionDictionary, Decompressor};
use tailwater_format::key::{self, Sequence, ValueType};
use tailwater_format::table::{BLOCK_TRAILER_LENGTH, BlockChecksum, BlockHandle};
use tailwater_io::Purpose;

use super::TableFile;
use crate::error::{Error, Result};
use crate::inspect::read_exactly;

/// A block of entries, as stored in the file.
#[derive(Debug)]
#[non_exhaustive]
pub struct BlockReport {
    /// The location of the block in the file.
    pub handle: BlockHandle,
    /// The number of the compression type in the block's trailer.
    pub compression_type: u8,
    /// The checksum in the block's trailer.
    pub stored_checksum: u32,
    /// The checksum computed from the block's stored bytes.
    pub computed_checksum: u32,
    /// The contents of the block, or the reason why they cannot be read. A wrong checksum alone
    /// does not prevent reading them.
    pub contents: Result<BlockContents>,
}

/// The uncompressed bytes of a block of entries.
#[derive(Debug)]
pub struct BlockContents {
    path: PathBuf,
    handle: BlockHandle,
    bytes: Vec<u8>,
    layout: Layout,
}

/// An entry of a data block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry<'a> {
    /// Offset of the entry in the uncompressed block, in bytes.
    pub offset: u32,
    /// The user key; the whole key if it is too short for an internal key.
    pub user_key: &'a [u8],
    /// The sequence number stored in the entry. It is 0 in a table that was written for ingestion.
    pub sequence: Sequence,
    /// The number of the entry's type.
    pub type_number: u8,
    /// The value.
    pub value: &'a [u8],
}

/// A decompressed block, and the fields of its trailer.
pub(super) struct Unpacked {
    pub(super) compression_type: u8,
    pub(super) stored_checksum: u32,
    pub(super) computed_checksum: u32,
    pub(super) bytes: Result<Vec<u8>>,
}

impl BlockReport {
    /// Whether the block's checksum matches.
    pub fn checksum_holds(&self) -> bool {
        self.stored_checksum == self.computed_checksum
    }

    /// Returns the block's compression; `None` if the compression type stored with the block is
    /// unknown.
    pub fn compression(&self) -> Option<Compression> {
        Compression::from_byte(self.compression_type)
    }
}

impl Entry<'_> {
    /// Returns the entry's type; `None` if its number is unknown.
    pub fn value_type(&self) -> Option<ValueType> {
        ValueType::from_byte(self.type_number)
    }
}

impl BlockContents {
    /// Returns the uncompressed bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the locations of the block's entries, values and restart array.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Calls `each` with every entry in order. Returns the number of entries.
    ///
    /// # Errors
    /// Corruption, at the first entry that does not decode, and errors from `each`.
    pub fn for_each(&self, each: &mut dyn FnMut(&Entry<'_>) -> Result<()>) -> Result<u64> {
        self.walk(&mut |cursor| {
            let key = cursor.key();
            let (user_key, trailer) = key::split(key).unwrap_or((key, 0));
            each(&Entry {
                offset: cursor.entry_offset(),
                user_key,
                sequence: trailer >> 8,
                type_number: trailer as u8,
                value: cursor.value(&self.bytes),
            })
        })
    }

    /// Calls `each` with every key and value. The keys are not split into user key and trailer.
    pub(super) fn for_each_raw(
        &self,
        mut each: impl FnMut(&[u8], &[u8]) -> Result<()>,
    ) -> Result<u64> {
        self.walk(&mut |cursor| each(cursor.key(), cursor.value(&self.bytes)))
    }

    fn walk(&self, each: &mut dyn FnMut(&Cursor) -> Result<()>) -> Result<u64> {
        let mut cursor = Cursor::default();
        let mut count = 0;
        cursor.seek_to_first(&self.bytes, &self.layout).map_err(|error| self.damaged(error))?;
        while cursor.valid() {
            each(&cursor)?;
            count += 1;
            cursor.next(&self.bytes, &self.layout).map_err(|error| self.damaged(error))?;
        }
        Ok(count)
    }

    /// Converts a decoder's error about the bytes of this block. The block may be compressed, so
    /// the error gives the block's offset in the file rather than the offset inside the block.
    pub(super) fn damaged(&self, error: tailwater_format::Error) -> Error {
        let message = format!("in the block here: {error}");
        Error::corruption_at(&self.path, self.handle.offset, message)
    }
}

impl TableFile {
    /// Reads a data block.
    ///
    /// # Errors
    /// Corruption, for a handle beyond the end of the file; I/O errors. The report contains errors
    /// from the block itself.
    pub fn data_block(&self, handle: BlockHandle) -> Result<BlockReport> {
        let dictionary = match &self.dictionary {
            Ok(dictionary) => dictionary.as_ref(),
            Err(_) => None,
        };
        self.block_with(handle, dictionary)
    }

    /// Reads a block other than a data block.
    ///
    /// # Errors
    /// The errors of [`Self::data_block`].
    pub fn meta_block(&self, handle: BlockHandle) -> Result<BlockReport> {
        self.block_with(handle, None)
    }

    /// Reads a block with its trailer, as stored in the file.
    ///
    /// # Errors
    /// Corruption, for a handle beyond the end of the file; I/O errors.
    pub fn stored_block(&self, handle: BlockHandle) -> Result<Vec<u8>> {
        if handle.end() > self.length {
            let message = format!(
                "a block of {} bytes extends beyond the end of the file at {}",
                handle.size, self.length
            );
            return Err(Error::corruption_at(self.path(), handle.offset, message));
        }
        let length = handle.size as usize + BLOCK_TRAILER_LENGTH;
        read_exactly(&*self.file, handle.offset, length, Purpose::Verification)
    }

    pub(super) fn block_with(
        &self,
        handle: BlockHandle,
        dictionary: Option<&DecompressionDictionary>,
    ) -> Result<BlockReport> {
        let unpacked = self.unpack(handle, dictionary)?;
        let contents = unpacked.bytes.and_then(|bytes| {
            let layout = Layout::parse(&bytes)
                .map_err(|error| Error::decoding(self.path(), handle.offset, error))?;
            Ok(BlockContents { path: self.path().to_owned(), handle, bytes, layout })
        });
        Ok(BlockReport {
            handle,
            compression_type: unpacked.compression_type,
            stored_checksum: unpacked.stored_checksum,
            computed_checksum: unpacked.computed_checksum,
            contents,
        })
    }

    /// Reads and decompresses a block, whether or not its checksum matches.
    pub(super) fn unpack(
        &self,
        handle: BlockHandle,
        dictionary: Option<&DecompressionDictionary>,
    ) -> Result<Unpacked> {
        let stored = self.stored_block(handle)?;
        let decoding = |error| Error::decoding(self.path(), handle.offset, error);
        let (payload, compression_type) = BlockChecksum::split(&stored).map_err(decoding)?;
        let [_, a, b, c, d] =
            self.footer.block_checksum().trailer(handle.offset, payload, compression_type);
        let computed_checksum = u32::from_le_bytes([a, b, c, d]);
        let stored_checksum =
            stored.last_chunk::<4>().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        let bytes = match Compression::from_byte(compression_type) {
            Some(Compression::None) => Ok(payload.to_vec()),
            Some(compression) => {
                let mut output = Vec::new();
                Decompressor::new()
                    .decompress(compression, payload, dictionary, &mut output)
                    .map(|_| output)
                    .map_err(decoding)
            }
            None => {
                let message = format!("unknown compression type {compression_type:#04x}");
                Err(Error::corruption_at(self.path(), handle.offset, message))
            }
        };
        Ok(Unpacked { compression_type, stored_checksum, computed_checksum, bytes })
    }
}
