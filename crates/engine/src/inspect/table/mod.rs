//! Inspects tables (SST files) part by part.
//!
//! A [`TableFile`] needs only the file. It needs no comparator, since entries are shown in the
//! order in which the file stores them.

mod block;
mod filter;
mod index;

pub use block::{BlockContents, BlockReport, Entry};
pub use filter::{FilterFacts, FilterStructure};
pub use index::{Index, IndexEntry, IndexPartition};

use std::path::Path;

use tailwater_format::compress::DecompressionDictionary;
use tailwater_format::table::footer::FOOTER_LENGTH;
use tailwater_format::table::meta::MetaBlock;
use tailwater_format::table::{BlockHandle, Footer, Properties};
use tailwater_format::varint::Reader;
use tailwater_io::{IoMode, Purpose, Storage};

use super::read_exactly;
use crate::error::{Error, Result};
use crate::table::BlockFile;

/// A table file, for inspection of its parts.
#[derive(Debug)]
pub struct TableFile {
    file: BlockFile,
    footer: Footer,
    meta_blocks: Result<Vec<MetaEntry>>,
    properties: Result<Properties>,
    dictionary: Result<Option<DecompressionDictionary>>,
    /// Checksum errors of those metaindex, properties and dictionary blocks that could be decoded
    /// nevertheless.
    damage: Vec<Error>,
}

/// A block that the metaindex names.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MetaEntry {
    /// The name of the block, such as `rocksdb.properties`.
    pub name: Vec<u8>,
    /// The location of the block.
    pub handle: BlockHandle,
}

impl MetaEntry {
    /// Returns the kind of the block, which its name determines; `None` for an unknown name.
    pub fn kind(&self) -> Option<MetaBlock<'_>> {
        MetaBlock::from_name(&self.name)
    }
}

impl TableFile {
    /// Opens a table: reads its footer and, if they are readable, its metaindex, properties and
    /// dictionary.
    ///
    /// # Errors
    /// Corruption, for a file without a valid footer; not supported, for other table formats; I/O
    /// errors.
    pub fn open(storage: &dyn Storage, path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let file = storage.open(path, IoMode::Buffered, Purpose::Verification)?;
        let length = file.length()?;
        let start = length.saturating_sub(FOOTER_LENGTH as u64);
        let tail = read_exactly(&*file, start, (length - start) as usize)?;
        let footer = Footer::decode(&tail, start)
            .map_err(|error| Error::decoding(path, start, error).in_file(path))?;
        let unread = || Error::corruption(path, "the metaindex cannot be read");
        let mut table = Self {
            file: BlockFile::new(file, length, footer.block_checksum()),
            footer,
            meta_blocks: Ok(Vec::new()),
            properties: Err(unread()),
            dictionary: Ok(None),
            damage: Vec::new(),
        };
        let mut damage = Vec::new();
        table.meta_blocks = table.read_meta_index(&mut damage);
        table.properties = table.read_properties(&mut damage);
        table.dictionary = table.read_dictionary(&mut damage);
        table.damage = damage;
        Ok(table)
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Returns the length of the file when it was opened, in bytes.
    pub fn length(&self) -> u64 {
        self.file.length()
    }

    /// Returns the offset of the footer.
    pub fn footer_offset(&self) -> u64 {
        self.length().saturating_sub(FOOTER_LENGTH as u64)
    }

    /// Returns the footer.
    pub fn footer(&self) -> &Footer {
        &self.footer
    }

    /// Returns checksum errors in metaindex, properties and dictionary blocks that could be read
    /// nevertheless.
    pub fn damage(&self) -> &[Error] {
        &self.damage
    }

    /// Returns the blocks that the metaindex names, in the order of the metaindex. If the metaindex
    /// cannot be read, returns the error.
    pub fn meta_blocks(&self) -> &Result<Vec<MetaEntry>> {
        &self.meta_blocks
    }

    /// Returns the table's properties, or the error from reading them.
    pub fn properties(&self) -> &Result<Properties> {
        &self.properties
    }

    /// Returns the dictionary with which data blocks are compressed, or the error from reading it.
    /// Returns `None` if the table has no dictionary.
    pub fn dictionary(&self) -> Result<Option<&[u8]>> {
        match &self.dictionary {
            Ok(dictionary) => Ok(dictionary.as_ref().map(DecompressionDictionary::bytes)),
            Err(error) => Err(error.clone()),
        }
    }

    /// Calls `each` with every range tombstone, as an entry. The entry's user key is the start of
    /// the range, and its value the exclusive end. Returns the number of range tombstones.
    ///
    /// # Errors
    /// Corruption, if the block of the tombstones or the metaindex is damaged; errors from `each`.
    pub fn range_tombstones(&self, each: &mut dyn FnMut(&Entry<'_>) -> Result<()>) -> Result<u64> {
        let Some(handle) = self.meta_handle(|kind| kind == MetaBlock::RangeDeletions)? else {
            return Ok(0);
        };
        let mut damage = Vec::new();
        let count = self.meta_contents(handle, &mut damage)?.for_each(each)?;
        damage.pop().map_or(Ok(count), Err)
    }

    /// Returns the location of the first meta block for whose kind `wanted` returns true.
    fn meta_handle(&self, wanted: impl Fn(MetaBlock<'_>) -> bool) -> Result<Option<BlockHandle>> {
        let entries = self.meta_blocks.as_ref().map_err(Clone::clone)?;
        let mut entries = entries.iter();
        Ok(entries.find(|entry| entry.kind().is_some_and(&wanted)).map(|entry| entry.handle))
    }

    /// Reads a block of entries other than a data block; such blocks are compressed without the
    /// dictionary. If the checksum does not match, appends an error to `damage`.
    fn meta_contents(&self, handle: BlockHandle, damage: &mut Vec<Error>) -> Result<BlockContents> {
        let unpacked = self.unpack(handle, None)?;
        damage.extend(unpacked.damage);
        self.contents(handle, unpacked.bytes?)
    }

    fn read_meta_index(&self, damage: &mut Vec<Error>) -> Result<Vec<MetaEntry>> {
        let contents = self.meta_contents(self.footer.metaindex, damage)?;
        let mut entries = Vec::new();
        contents.for_each_raw(|name, value| {
            let handle = BlockHandle::decode(&mut Reader::new(value))
                .map_err(|error| contents.damaged(error))?;
            entries.push(MetaEntry { name: name.to_vec(), handle });
            Ok(())
        })?;
        Ok(entries)
    }

    fn read_properties(&self, damage: &mut Vec<Error>) -> Result<Properties> {
        let handle = self
            .meta_handle(|kind| kind == MetaBlock::Properties)?
            .ok_or_else(|| Error::corruption(self.path(), "the table has no properties"))?;
        let contents = self.meta_contents(handle, damage)?;
        let mut entries: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        contents.for_each_raw(|name, value| {
            entries.push((name.to_vec(), value.to_vec()));
            Ok(())
        })?;
        Properties::from_entries(entries.iter().map(|(name, value)| (&name[..], &value[..])))
            .map_err(|error| Error::decoding(self.path(), handle.offset, error))
    }

    fn read_dictionary(&self, damage: &mut Vec<Error>) -> Result<Option<DecompressionDictionary>> {
        let found = self.meta_handle(|kind| kind == MetaBlock::CompressionDictionary);
        // If the metaindex cannot be read, the dictionary counts as missing: without the metaindex,
        // no data block can be found that would need it.
        let Some(handle) = found.unwrap_or_default() else { return Ok(None) };
        let unpacked = self.unpack(handle, None)?;
        damage.extend(unpacked.damage);
        DecompressionDictionary::new(unpacked.bytes?)
            .map(Some)
            .map_err(|error| Error::decoding(self.path(), handle.offset, error))
    }
}
