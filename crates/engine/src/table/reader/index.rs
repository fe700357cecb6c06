//! From a key to the handle of the data block that can hold it.

use std::cmp::Ordering;
use std::sync::Arc;

use tailwater_format::block::{IndexCursor, IndexFormat, Target};
use tailwater_format::key;
use tailwater_format::table::BlockHandle;
use tailwater_format::{self as format, Comparator};

use crate::Result;
use crate::cache::Cached;
use crate::table::reader::{BlockAccess, MetaBlock, ReadProfile, TableReader};
use crate::table::{Block, BlockKind, BlockRef};

/// Holds an internal key against one given in its parts.
#[inline(always)]
pub(crate) fn compare_to(
    comparator: &Comparator,
    entry: &[u8],
    user_key: &[u8],
    trailer: u64,
) -> Ordering {
    Target { comparator, user_key, trailer }.compare(entry)
}

/// Readies an index block for being searched.
pub(super) fn prepare_index(
    block: Block,
    comparator: &Comparator,
    index_format: IndexFormat,
    user_keys: bool,
) -> format::Result<Block> {
    match comparator {
        Comparator::Bytewise => block.with_prefixes(index_format.delta_values, user_keys),
        _ => Ok(block),
    }
}

impl TableReader {
    /// Moves `cursor` to the first entry of an index block that is not below the internal key of
    /// these parts.
    #[inline]
    pub(crate) fn seek_index(
        &self,
        block: &Block,
        index_format: IndexFormat,
        cursor: &mut IndexCursor,
        user_key: &[u8],
        trailer: u64,
    ) -> format::Result<()> {
        let comparator = self.comparator();
        let (bytes, layout) = (block.bytes(), block.layout());
        let among = block.restarts_for(user_key);
        if self.index.user_keys {
            cursor.seek(bytes, layout, index_format, among, |entry| {
                comparator.compare(entry, user_key)
            })
        } else {
            let target = Target { comparator, user_key, trailer };
            cursor.seek(bytes, layout, index_format, among, |entry| target.compare(entry))
        }
    }

    /// The user key of a key of the index.
    pub(crate) fn index_user_key<'a>(&self, entry: &'a [u8]) -> &'a [u8] {
        if self.index.user_keys { entry } else { key::user_key(entry) }
    }

    /// Holds a key of the index against an internal key: where they are user keys, by user key
    /// alone.
    pub(crate) fn compare_index_key(&self, entry: &[u8], internal_key: &[u8]) -> Ordering {
        if self.index.user_keys {
            self.comparator().compare(entry, key::user_key(internal_key))
        } else {
            key::compare_internal(self.comparator(), entry, internal_key)
        }
    }

    /// Holds two keys of the index against each other.
    pub(crate) fn compare_index_keys(&self, a: &[u8], b: &[u8]) -> Ordering {
        if self.index.user_keys {
            self.comparator().compare(a, b)
        } else {
            key::compare_internal(self.comparator(), a, b)
        }
    }

    /// A block that the table keeps or leaves to the cache.
    #[inline]
    pub(super) fn meta_block<'a, A: BlockAccess>(
        &'a self,
        access: &'a A,
        block: &'a MetaBlock,
        kind: BlockKind,
    ) -> Result<Option<BlockRef<'a>>> {
        match &block.kept {
            Some(kept) => Ok(Some(BlockRef::Borrowed(kept))),
            None => access.block(self, block.handle, kind),
        }
    }

    /// The root of the index.
    #[inline]
    pub(super) fn index_root<'a, A: BlockAccess>(
        &'a self,
        access: &'a A,
    ) -> Result<Option<BlockRef<'a>>> {
        self.meta_block(access, &self.index.root, BlockKind::Index)
    }

    /// How the entries of the index are written.
    pub(crate) fn index_format(&self) -> IndexFormat {
        self.index.format
    }

    /// Whether the root of the index leads to index blocks.
    pub(crate) fn has_partitioned_index(&self) -> bool {
        self.index.partitioned
    }

    /// The root of the index, from the table, the cache or the file.
    pub(crate) fn load_index_root(&self, profile: &ReadProfile) -> Result<Arc<Cached<Block>>> {
        match &self.index.root.kept {
            Some(kept) => Ok(Arc::clone(kept)),
            None => self.load(self.index_handle(), BlockKind::Index, profile),
        }
    }

    /// Where the root of the index is.
    pub(crate) fn index_handle(&self) -> BlockHandle {
        self.index.root.handle
    }
}
