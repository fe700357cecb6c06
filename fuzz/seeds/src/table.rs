//! Finds the blocks of a table, with their locations and kinds.

use std::ops::Range;

use tailwater_format::Result;
use tailwater_format::block::{Cursor, IndexCursor, IndexFormat, Layout};
use tailwater_format::checksum::{ChecksumType, context_modifier};
use tailwater_format::compress::{Compression, DecompressionDictionary, Decompressor};
use tailwater_format::table::footer::FOOTER_LENGTH;
use tailwater_format::table::meta::MetaBlock;
use tailwater_format::table::{
    BLOCK_TRAILER_LENGTH, BlockChecksum, BlockHandle, Footer, IndexType, Properties,
};
use tailwater_format::varint::Reader;

/// The kind of a block in a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockRole {
    /// A data block, which contains user keys and values.
    Data,
    /// A block of the index: the root of the index, or a partition of a two-level index.
    Index,
    /// A filter, or a partition of a filter.
    Filter,
    /// The index of a partitioned filter, whose entries point to the partitions.
    FilterIndex,
    /// The metaindex, which contains the names and locations of the meta blocks.
    MetaIndex,
    /// The properties block.
    Properties,
    /// The compression dictionary of the data blocks.
    Dictionary,
    /// A block of range tombstones, or another block that the metaindex names.
    OtherMeta,
}

/// A block and its location.
#[derive(Debug, Clone, Copy)]
pub struct TableBlock {
    /// The block's kind.
    pub role: BlockRole,
    /// The block's location.
    pub handle: BlockHandle,
}

/// A parsed table: its footer, and the locations of its blocks.
#[derive(Debug)]
pub struct Table {
    /// The footer.
    pub footer: Footer,
    /// The decoded properties.
    pub properties: Properties,
    /// The format of the index entries.
    pub index_format: IndexFormat,
    /// The blocks, in no particular order.
    pub blocks: Vec<TableBlock>,
    dictionary: Option<DecompressionDictionary>,
}

impl Table {
    /// Parses a table that RocksDB wrote.
    ///
    /// # Errors
    /// Errors from the decoders, if the table is damaged.
    pub fn parse(file: &[u8]) -> Result<Self> {
        let footer = Footer::decode(file, 0)?;
        let mut table = Self {
            footer,
            properties: Properties::default(),
            index_format: IndexFormat::default(),
            blocks: vec![TableBlock { role: BlockRole::MetaIndex, handle: footer.metaindex }],
            dictionary: None,
        };
        let (mut index, mut filter_index) = (footer.index, None);
        for (name, value) in entries(&table.contents(file, footer.metaindex)?)? {
            let handle = BlockHandle::decode(&mut Reader::new(&value))?;
            let role = match MetaBlock::from_name(&name) {
                Some(MetaBlock::Properties) => {
                    let entries = entries(&table.contents(file, handle)?)?;
                    table.properties = Properties::from_entries(
                        entries.iter().map(|(name, value)| (&name[..], &value[..])),
                    )?;
                    BlockRole::Properties
                }
                Some(MetaBlock::CompressionDictionary) => {
                    let bytes = table.contents(file, handle)?;
                    table.dictionary = Some(DecompressionDictionary::new(bytes)?);
                    BlockRole::Dictionary
                }
                Some(MetaBlock::Index) => {
                    index = Some(handle);
                    continue;
                }
                Some(MetaBlock::PartitionedFilter(_)) => {
                    filter_index = Some(handle);
                    continue;
                }
                Some(MetaBlock::FullFilter(_)) => BlockRole::Filter,
                _ => BlockRole::OtherMeta,
            };
            table.blocks.push(TableBlock { role, handle });
        }
        let kind = table.properties.index_type;
        table.index_format = IndexFormat {
            delta_values: table.properties.index_value_is_delta_encoded,
            first_keys: kind == Some(IndexType::BinarySearchWithFirstKey),
        };
        if let Some(handle) = filter_index {
            table.blocks.push(TableBlock { role: BlockRole::FilterIndex, handle });
            table.add_below(file, handle, BlockRole::Filter)?;
        }
        if let Some(handle) = index {
            let roots = table.blocks.len();
            table.blocks.push(TableBlock { role: BlockRole::Index, handle });
            if kind == Some(IndexType::TwoLevelIndexSearch) {
                table.add_below(file, handle, BlockRole::Index)?;
                for at in roots + 1..table.blocks.len() {
                    table.add_below(file, table.blocks[at].handle, BlockRole::Data)?;
                }
            } else {
                table.add_below(file, handle, BlockRole::Data)?;
            }
        }
        Ok(table)
    }

    /// Reads the index block that is located by `index`. Adds the blocks to which its entries
    /// refer, as blocks of the kind `role`.
    fn add_below(&mut self, file: &[u8], index: BlockHandle, role: BlockRole) -> Result<()> {
        let block = self.contents(file, index)?;
        let layout = Layout::parse(&block)?;
        let mut cursor = IndexCursor::default();
        cursor.seek_to_first(&block, &layout, self.index_format)?;
        while cursor.valid() {
            self.blocks.push(TableBlock { role, handle: cursor.handle() });
            cursor.next(&block, &layout, self.index_format)?;
        }
        Ok(())
    }

    /// Returns a block with its trailer, as stored in the file.
    pub fn raw<'a>(&self, file: &'a [u8], handle: BlockHandle) -> &'a [u8] {
        let start = handle.offset as usize;
        file.get(start..start + handle.size as usize + BLOCK_TRAILER_LENGTH).unwrap_or_default()
    }

    /// Returns a block's uncompressed bytes.
    ///
    /// # Errors
    /// Errors from the decoders.
    pub fn contents(&self, file: &[u8], handle: BlockHandle) -> Result<Vec<u8>> {
        let (block, kind) =
            self.footer.block_checksum().verify(handle.offset, self.raw(file, handle))?;
        let kind = Compression::from_byte(kind).unwrap_or(Compression::None);
        let mut output = Vec::new();
        Decompressor::new().decompress(kind, block, self.dictionary.as_ref(), &mut output)?;
        Ok(output)
    }

    /// Returns the dictionary of the data blocks, if there is one.
    pub fn dictionary(&self) -> Option<&[u8]> {
        self.dictionary.as_ref().map(DecompressionDictionary::bytes)
    }

    /// Writes correct checksums for all blocks and for the footer. Called after bytes of the file
    /// were changed.
    pub fn write_checksums(&self, file: &mut [u8]) {
        let checksum = self.footer.block_checksum();
        for block in &self.blocks {
            write_trailer(checksum, file, block.handle);
        }
        let footer_at = file.len().saturating_sub(FOOTER_LENGTH) as u64;
        if let Some(footer) = file.last_chunk_mut::<FOOTER_LENGTH>() {
            write_footer_checksum(footer, footer_at);
        }
    }
}

/// Writes the correct checksum into a footer, which is at `offset` in its file. Changes nothing if
/// the format version has no checksum in the footer, or if the checksum type is unknown.
pub fn write_footer_checksum(footer: &mut [u8; FOOTER_LENGTH], offset: u64) {
    const CHECKSUM: Range<usize> = 5..9;
    const BASE_CONTEXT: Range<usize> = 9..13;
    const VERSION: Range<usize> = 41..45;
    let number = |footer: &[u8], place: Range<usize>| {
        footer[place].iter().rev().fold(0, |number, &byte| number << 8 | u32::from(byte))
    };
    let Some(checksum_type) = ChecksumType::from_byte(footer[0]) else { return };
    if number(footer, VERSION) >= 6 {
        footer[CHECKSUM].fill(0);
        let modifier = context_modifier(number(footer, BASE_CONTEXT), offset);
        let checksum = checksum_type.compute(footer).wrapping_add(modifier);
        footer[CHECKSUM].copy_from_slice(&checksum.to_le_bytes());
    }
}

fn write_trailer(checksum: BlockChecksum, file: &mut [u8], handle: BlockHandle) {
    let start = handle.offset as usize;
    let end = start + handle.size as usize;
    let Some(raw) = file.get_mut(start..end + BLOCK_TRAILER_LENGTH) else { return };
    let (block, trailer) = raw.split_at_mut(end - start);
    trailer.copy_from_slice(&checksum.trailer(handle.offset, block, trailer[0]));
}

/// Returns the entries of a meta block.
fn entries(block: &[u8]) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let layout = Layout::parse(block)?;
    let mut cursor = Cursor::default();
    let mut entries = Vec::new();
    cursor.seek_to_first(block, &layout)?;
    while cursor.valid() {
        entries.push((cursor.key().to_vec(), cursor.value(block).to_vec()));
        cursor.next(block, &layout)?;
    }
    Ok(entries)
}
