//! The index of a table: which data blocks it has.

use tailwater_format::block::{IndexCursor, IndexFormat, Layout};
use tailwater_format::table::meta::MetaBlock;
use tailwater_format::table::{BlockHandle, IndexType};

use super::TableFile;
use crate::{Error, Result};

/// The index of a table, as far as it can be read.
#[derive(Debug, Default)]
pub struct Index {
    /// Where its root stands.
    pub root: BlockHandle,
    /// Whether its keys are user keys rather than internal keys.
    pub user_keys: bool,
    /// Its partitions, where it has a second level.
    pub partitions: Vec<IndexPartition>,
    /// What leads to data blocks, in order.
    pub entries: Vec<IndexEntry>,
    /// Which parts of it are damaged, and so which data blocks are missing in `entries`.
    pub damage: Vec<Error>,
}

/// A partition of a two-level index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexPartition {
    /// The key under which the root has it.
    pub key: Vec<u8>,
    /// Where it stands.
    pub handle: BlockHandle,
    /// How many data blocks it leads to.
    pub entries: usize,
}

/// What leads to one data block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexEntry {
    /// At or above the last key of the block, below the first key of the next.
    pub key: Vec<u8>,
    /// Where the block stands.
    pub handle: BlockHandle,
    /// The block's first internal key, where the index has those.
    pub first_key: Option<Vec<u8>>,
}

impl TableFile {
    /// Reads the index. What of it is damaged is told in [`Index::damage`].
    ///
    /// # Errors
    /// Corruption, where the properties or the metaindex, without which the index cannot be read,
    /// are damaged; those of the system.
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

    /// The entries of one index block up to the first that does not decode, and what is wrong.
    pub(super) fn index_block(
        &self,
        handle: BlockHandle,
        format: IndexFormat,
    ) -> Result<(Vec<IndexEntry>, Option<Error>)> {
        let unpacked = self.unpack(handle, None)?;
        let (stored, computed) = (unpacked.stored_checksum, unpacked.computed_checksum);
        let damage = self.checksum_damage(handle, stored, computed);
        let bytes = match unpacked.bytes {
            Ok(bytes) => bytes,
            Err(error) => return Ok((Vec::new(), damage.or(Some(error)))),
        };
        let mut entries = Vec::new();
        let read = walk(&bytes, format, &mut entries)
            .map_err(|error| Error::decoding(self.path(), handle.offset, error));
        Ok((entries, damage.or(read.err())))
    }
}

fn walk(
    block: &[u8],
    format: IndexFormat,
    entries: &mut Vec<IndexEntry>,
) -> tailwater_format::Result<()> {
    let layout = Layout::parse(block)?;
    let mut cursor = IndexCursor::default();
    cursor.seek_to_first(block, &layout, format)?;
    while cursor.valid() {
        let first_key = format.first_keys.then(|| cursor.first_key(block).to_vec());
        entries.push(IndexEntry { key: cursor.key().to_vec(), handle: cursor.handle(), first_key });
        cursor.next(block, &layout, format)?;
    }
    Ok(())
}
