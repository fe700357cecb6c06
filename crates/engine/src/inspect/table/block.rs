//! Blocks of a table as stored in the file, and the entries in them.

use std::path::PathBuf;

use tailwater_format::block::{Cursor, Layout};
use tailwater_format::compress::{Compression, DecompressionDictionary};
use tailwater_format::key::{self, Sequence, ValueType};
use tailwater_format::table::{BlockChecksum, BlockHandle};

use super::TableFile;
use crate::block_cache::{Block, BlockKind};
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
    block: Block,
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
    compression_type: u8,
    stored_checksum: u32,
    computed_checksum: u32,
    /// An error if the two checksums differ.
    pub(super) damage: Option<Error>,
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
        self.block.bytes()
    }

    /// Returns the locations of the block's entries, values and restart array.
    pub fn layout(&self) -> &Layout {
        self.block.layout()
    }

    /// Calls `each` with every entry in order. Returns the number of entries.
    ///
    /// # Errors
    /// Corruption, at the first entry that does not decode, and errors from `each`.
    pub fn for_each(&self, each: &mut dyn FnMut(&Entry<'_>) -> Result<()>) -> Result<u64> {
        self.walk(|cursor| {
            let key = cursor.key();
            let (user_key, trailer) = key::split(key).unwrap_or((key, 0));
            each(&Entry {
                offset: cursor.entry_offset(),
                user_key,
                sequence: trailer >> 8,
                type_number: trailer as u8,
                value: cursor.value(self.bytes()),
            })
        })
    }

    /// Calls `each` with every key and value. The keys are not split into user key and trailer.
    pub(super) fn for_each_raw(
        &self,
        mut each: impl FnMut(&[u8], &[u8]) -> Result<()>,
    ) -> Result<u64> {
        self.walk(|cursor| each(cursor.key(), cursor.value(self.bytes())))
    }

    fn walk(&self, mut each: impl FnMut(&Cursor) -> Result<()>) -> Result<u64> {
        let mut count = 0;
        self.block.walk(
            |error| self.damaged(error),
            |cursor| {
                count += 1;
                each(cursor)
            },
        )?;
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
        let dictionary = self.dictionary.as_ref().ok().and_then(Option::as_ref);
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
        let length = self.file.length_with_trailer(handle)?;
        read_exactly(&**self.file.handle(), handle.offset, length)
    }

    fn block_with(
        &self,
        handle: BlockHandle,
        dictionary: Option<&DecompressionDictionary>,
    ) -> Result<BlockReport> {
        let Unpacked { compression_type, stored_checksum, computed_checksum, bytes, .. } =
            self.unpack(handle, dictionary)?;
        let contents = bytes.and_then(|bytes| self.contents(handle, bytes));
        Ok(BlockReport { handle, compression_type, stored_checksum, computed_checksum, contents })
    }

    /// Finds the entries in the uncompressed bytes of the block at `handle`.
    pub(super) fn contents(&self, handle: BlockHandle, bytes: Vec<u8>) -> Result<BlockContents> {
        let block = Block::parse(bytes, BlockKind::Data)
            .map_err(|error| Error::decoding(self.path(), handle.offset, error))?;
        Ok(BlockContents { path: self.path().to_owned(), handle, block })
    }

    /// Reads and decompresses a block, whether or not its checksum matches.
    pub(super) fn unpack(
        &self,
        handle: BlockHandle,
        dictionary: Option<&DecompressionDictionary>,
    ) -> Result<Unpacked> {
        let stored = self.stored_block(handle)?;
        let (payload, compression_type) = BlockChecksum::split(&stored)
            .map_err(|error| Error::decoding(self.path(), handle.offset, error))?;
        let [_, a, b, c, d] =
            self.footer.block_checksum().trailer(handle.offset, payload, compression_type);
        let computed_checksum = u32::from_le_bytes([a, b, c, d]);
        let stored_checksum =
            stored.last_chunk::<4>().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        let damage = (stored_checksum != computed_checksum).then(|| {
            let message = format!(
                "corrupt block: expected checksum {computed_checksum:#010x}, \
                 found {stored_checksum:#010x}"
            );
            Error::corruption_at(self.path(), handle.offset, message)
        });
        let bytes = self.file.unpack_block(&stored, handle, dictionary, false);
        Ok(Unpacked { compression_type, stored_checksum, computed_checksum, damage, bytes })
    }
}
