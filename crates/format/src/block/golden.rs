//! Tables written by RocksDB 11.8 that contain every form of block, and a simple block reader with
//! which tests compare the real one.
//!
//! Each table has about forty keys, among them short keys, keys that share 130 bytes, empty and
//! long values, and deletions. The tables are uncompressed. A table is named after its special
//! feature.

use super::IndexFormat;
use crate::comparator::Comparator;
use crate::table::{BLOCK_TRAILER_LENGTH, BlockHandle, Footer, IndexType, Properties, meta};
use crate::varint::Reader;

/// A table, its properties and its metaindex.
pub(super) struct Table {
    pub(super) name: &'static str,
    bytes: &'static [u8],
    footer: Footer,
    pub(super) properties: Properties,
}

/// An entry of a data or meta block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) key: Vec<u8>,
    pub(super) value: Vec<u8>,
    /// Offset of the entry from the start of the block.
    pub(super) offset: u32,
}

/// An entry of an index block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct IndexEntry {
    pub(super) key: Vec<u8>,
    pub(super) handle: BlockHandle,
    pub(super) first_key: Vec<u8>,
}

macro_rules! tables {
    ($($name:literal),*) => {
        [$(Table::new(
            $name,
            include_bytes!(concat!("../../tests/golden/blocks/", $name, ".sst")),
        )),*]
    };
}

/// Returns all golden tables whose blocks the tests read.
pub(super) fn tables() -> Vec<Table> {
    Vec::from(tables![
        "interval-1",
        "interval-2",
        "interval-3",
        "interval-4",
        "interval-5",
        "interval-6",
        "interval-7",
        "interval-8",
        "interval-9",
        "interval-10",
        "interval-11",
        "interval-12",
        "interval-13",
        "interval-14",
        "interval-15",
        "interval-16",
        "index-1",
        "index-2",
        "index-3",
        "index-5",
        "index-7",
        "index-16",
        "hash",
        "hash-apart",
        "apart",
        "apart-1",
        "whole-keys",
        "first-key",
        "first-key-old",
        "aligned",
        "partitions",
        "partitions-old",
        "versions",
        "reverse",
        "successor",
        "uniform",
        "super-aligned",
        "ranges",
        "hash-many",
        "boundaries"
    ])
}

/// Returns the table whose name is `name`.
pub(super) fn table(name: &str) -> Table {
    tables().into_iter().find(|table| table.name == name).unwrap()
}

impl Table {
    fn new(name: &'static str, bytes: &'static [u8]) -> Self {
        let footer = Footer::decode(bytes, 0).unwrap();
        let mut table = Self { name, bytes, footer, properties: Properties::default() };
        let properties = entries(table.meta_block(meta::PROPERTIES).unwrap());
        let pairs = properties.into_iter().map(|entry| (entry.key, entry.value));
        table.properties = Properties::from_entries(pairs).unwrap();
        table
    }

    /// Returns the bytes of a block after verifying its checksum.
    pub(super) fn block(&self, handle: BlockHandle) -> &'static [u8] {
        let length = handle.size as usize + BLOCK_TRAILER_LENGTH;
        let bytes = &self.bytes[handle.offset as usize..][..length];
        self.footer.block_checksum().verify(handle.offset, bytes).unwrap().0
    }

    pub(super) fn metaindex(&self) -> &'static [u8] {
        self.block(self.footer.metaindex)
    }

    /// Returns the meta block with this name.
    pub(super) fn meta_block(&self, name: &str) -> Option<&'static [u8]> {
        let entries = entries(self.metaindex());
        let entry = entries.iter().find(|entry| entry.key == name.as_bytes())?;
        Some(self.block(BlockHandle::decode(&mut Reader::new(&entry.value)).unwrap()))
    }

    /// Returns the encoding of the entries in the table's index blocks.
    pub(super) fn index_format(&self) -> IndexFormat {
        IndexFormat {
            delta_values: self.properties.index_value_is_delta_encoded,
            first_keys: self.index_type() == IndexType::BinarySearchWithFirstKey,
        }
    }

    fn index_type(&self) -> IndexType {
        self.properties.index_type.unwrap()
    }

    /// Returns the index block. For a partitioned index, returns the top level, followed by the
    /// partitions.
    pub(super) fn index_blocks(&self) -> Vec<&'static [u8]> {
        let index = match self.footer.index {
            Some(handle) => self.block(handle),
            None => self.meta_block(meta::INDEX).unwrap(),
        };
        let mut blocks = vec![index];
        if self.index_type() == IndexType::TwoLevelIndexSearch {
            let partitions = index_entries(index, self.index_format());
            blocks.extend(partitions.iter().map(|entry| self.block(entry.handle)));
        }
        blocks
    }

    /// Returns the data blocks in order.
    pub(super) fn data_blocks(&self) -> Vec<&'static [u8]> {
        let index = self.index_blocks();
        let leaves = if index.len() > 1 { &index[1..] } else { &index[..] };
        let format = self.index_format();
        let entries = leaves.iter().flat_map(|block| index_entries(block, format));
        entries.map(|entry| self.block(entry.handle)).collect()
    }

    /// Returns the comparator of the table's user keys.
    pub(super) fn comparator(&self) -> Comparator {
        let name = str::from_utf8(&self.properties.comparator_name).unwrap();
        Comparator::built_in(name).unwrap()
    }
}

/// The entries, the values and the restarts of a block.
struct Parts<'a> {
    entries: &'a [u8],
    /// The values, if they are stored together after all keys.
    values: Option<&'a [u8]>,
    restarts: Vec<u32>,
}

fn fixed32(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes.try_into().unwrap())
}

impl<'a> Parts<'a> {
    fn of(block: &'a [u8]) -> Self {
        let (mut rest, footer) = block.split_at(block.len() - 4);
        let footer = fixed32(footer);
        let mut values_start = None;
        if footer >> 28 & 1 == 1 {
            let (head, start) = rest.split_at(rest.len() - 4);
            (rest, values_start) = (head, Some(fixed32(start) as usize));
        }
        if footer >> 31 == 1 {
            let buckets = u16::from_le_bytes(rest[rest.len() - 2..].try_into().unwrap());
            rest = &rest[..rest.len() - 2 - usize::from(buckets)];
        }
        let count = (footer & 0x0fff_ffff) as usize;
        let (body, restarts) = rest.split_at(rest.len() - 4 * count);
        let entries = &body[..values_start.unwrap_or(body.len())];
        Self {
            entries,
            values: values_start.map(|start| &body[start..]),
            restarts: restarts.chunks(4).map(fixed32).collect(),
        }
    }
}

/// Returns the offsets of a block's restarts.
pub(super) fn restarts(block: &[u8]) -> Vec<u32> {
    Parts::of(block).restarts
}

/// Returns the entries of a data or meta block.
pub(super) fn entries(block: &[u8]) -> Vec<Entry> {
    let parts = Parts::of(block);
    let mut reader = Reader::new(parts.entries);
    let (mut key, mut value_start, mut entries) = (Vec::new(), 0, Vec::new());
    while !reader.is_empty() {
        let offset = reader.offset() as u32;
        let shared = reader.varint32("shared").unwrap() as usize;
        let unshared = reader.varint32("unshared").unwrap() as usize;
        let length = reader.varint32("value length").unwrap() as usize;
        if parts.values.is_some() && parts.restarts.contains(&offset) {
            value_start = reader.varint32("value offset").unwrap() as usize;
        }
        key.truncate(shared);
        key.extend_from_slice(reader.bytes(unshared, "key").unwrap());
        let value = match parts.values {
            Some(values) => &values[value_start..][..length],
            None => reader.bytes(length, "value").unwrap(),
        };
        value_start += length;
        entries.push(Entry { key: key.clone(), value: value.to_vec(), offset });
    }
    entries
}

/// Returns the entries of an index block.
pub(super) fn index_entries(block: &[u8], format: IndexFormat) -> Vec<IndexEntry> {
    let mut reader = Reader::new(Parts::of(block).entries);
    let (mut key, mut handle) = (Vec::new(), BlockHandle::default());
    let mut entries = Vec::new();
    while !reader.is_empty() {
        let shared = reader.varint32("shared").unwrap() as usize;
        let unshared = reader.varint32("unshared").unwrap() as usize;
        if !format.delta_values {
            reader.varint32("value length").unwrap();
        }
        key.truncate(shared);
        key.extend_from_slice(reader.bytes(unshared, "key").unwrap());
        handle = if format.delta_values && shared > 0 {
            let difference = reader.varsigned64("difference").unwrap();
            let size = handle.size.checked_add_signed(difference).unwrap();
            BlockHandle { offset: handle.end(), size }
        } else {
            BlockHandle::decode(&mut reader).unwrap()
        };
        let first_key = if format.first_keys {
            reader.length_prefixed("first key").unwrap().to_vec()
        } else {
            Vec::new()
        };
        entries.push(IndexEntry { key: key.clone(), handle, first_key });
    }
    entries
}
