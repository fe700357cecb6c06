//! The index of a table.

use tailwater_format::block::IndexFormat;
use tailwater_format::table::meta::MetaBlock;
use tailwater_format::table::{BlockHandle, IndexType};

use super::TableFile;
use super::block::Unpacked;
use crate::block_cache::{Block, BlockKind};
use crate::error::{Error, Result};

/// A table's index, as far as it could be decoded.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Index {
    /// The location of the index or, if it has two levels, of its root.
    pub root: BlockHandle,
    /// Whether the keys of the index are user keys rather than internal keys.
    pub user_keys: bool,
    /// The partitions of the index; empty unless it has two levels.
    pub partitions: Vec<IndexPartition>,
    /// The entries that refer to data blocks, in order.
    pub entries: Vec<IndexEntry>,
    /// Errors from damaged parts of the index. `entries` lacks the data blocks to which these parts
    /// refer.
    pub damage: Vec<Error>,
}

/// A partition of a two-level index.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct IndexPartition {
    /// The key of the partition in the root of the index.
    pub key: Vec<u8>,
    /// The location of the partition.
    pub handle: BlockHandle,
    /// Number of data blocks to which the partition refers.
    pub entries: usize,
}

/// An entry that refers to a data block.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct IndexEntry {
    /// A key that is at or above the last key of the data block, and below the first key of the
    /// next one.
    pub key: Vec<u8>,
    /// The location of the data block.
    pub handle: BlockHandle,
    /// The first internal key of the data block, if the index stores it.
    pub first_key: Option<Vec<u8>>,
}

impl TableFile {
    /// Reads the index. [`Index::damage`] holds the errors from damaged parts.
    ///
    /// # Errors
    /// Corruption, if the properties or the metaindex are damaged, since the index cannot be read
    /// without them; I/O errors.
    pub fn index(&self) -> Result<Index> {
        let properties = self.properties.as_ref().map_err(Clone::clone)?;
        let root = self
            .meta_handle(|kind| kind == MetaBlock::Index)?
            .or(self.footer.index)
            .ok_or_else(|| Error::corruption(self.path(), "the table has no index"))?;
        let first_keys = properties.index_type == Some(IndexType::BinarySearchWithFirstKey);
        let delta_values = properties.index_value_is_delta_encoded;
        let format = IndexFormat { delta_values, first_keys };
        let mut index =
            Index { root, user_keys: properties.index_key_is_user_key, ..Index::default() };
        let (top, damage) = self.index_block(root, format)?;
        index.damage.extend(damage);
        if properties.index_type != Some(IndexType::TwoLevelIndexSearch) {
            index.entries = top;
            return Ok(index);
        }
        for IndexEntry { key, handle, .. } in top {
            let (entries, damage) = match self.index_block(handle, format) {
                Ok(read) => read,
                Err(error) if error.is_corruption() => (Vec::new(), Some(error)),
                Err(error) => return Err(error),
            };
            index.damage.extend(damage);
            index.partitions.push(IndexPartition { key, handle, entries: entries.len() });
            index.entries.extend(entries);
        }
        Ok(index)
    }

    /// Returns the entries of an index block up to the first that does not decode. Also returns the
    /// decoding error or checksum error, if there is one.
    pub(super) fn index_block(
        &self,
        handle: BlockHandle,
        format: IndexFormat,
    ) -> Result<(Vec<IndexEntry>, Option<Error>)> {
        let Unpacked { damage, bytes, .. } = self.unpack(handle, None)?;
        let bytes = match bytes {
            Ok(bytes) => bytes,
            Err(error) => return Ok((Vec::new(), damage.or(Some(error)))),
        };
        let mut entries = Vec::new();
        let damaged = |error| Error::decoding(self.path(), handle.offset, error);
        let read = Block::parse(bytes, BlockKind::Index).map_err(damaged).and_then(|block| {
            block.walk_index(format, damaged, |cursor| {
                let first_key = format.first_keys.then(|| cursor.first_key(block.bytes()).to_vec());
                let (key, handle) = (cursor.key().to_vec(), cursor.handle());
                entries.push(IndexEntry { key, handle, first_key });
                Ok(())
            })
        });
        Ok((entries, damage.or(read.err())))
    }
}
