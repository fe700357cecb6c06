//! Index lookups: from a key to the handle of its data block.

use std::cmp::Ordering;
use std::sync::Arc;

use tailwater_format::block::{IndexCursor, IndexFormat, Restarts, Target};
use tailwater_format::key;
use tailwater_format::table::BlockHandle;
use tailwater_format::{self as format, Comparator};

use crate::block_cache::{Block, BlockKind, BlockRef};
use crate::cache::Cached;
use crate::table::reader::{AccessResult, BlockAccess, MetaBlock, TableReader};

/// Compares an internal key with another one that is given as user key and trailer.
#[inline(always)]
pub(crate) fn compare_to(
    comparator: &Comparator,
    entry: &[u8],
    user_key: &[u8],
    trailer: u64,
) -> Ordering {
    Target { comparator, user_key, trailer }.compare(entry)
}

/// Adds key prefixes to an index block, if the comparator is bytewise: searches compare the
/// prefixes before they decode keys.
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
    /// Moves `cursor` to the first entry of an index block at or above an internal key, given as
    /// user key and trailer.
    #[inline]
    pub(crate) fn seek_index(
        &self,
        block: &Block,
        index_format: IndexFormat,
        cursor: &mut IndexCursor,
        user_key: &[u8],
        trailer: u64,
    ) -> format::Result<()> {
        let among = block.restarts_for(user_key);
        self.seek_index_among(block, index_format, cursor, among, user_key, trailer)
    }

    /// Like [`Self::seek_index`], with the result of [`Block::restarts_for`] for the user key.
    #[inline]
    pub(crate) fn seek_index_among(
        &self,
        block: &Block,
        index_format: IndexFormat,
        cursor: &mut IndexCursor,
        among: Restarts,
        user_key: &[u8],
        trailer: u64,
    ) -> format::Result<()> {
        let comparator = self.comparator();
        let (bytes, layout) = (block.bytes(), block.layout());
        if self.index.user_keys {
            cursor.seek(bytes, layout, index_format, among, |entry| {
                comparator.compare(entry, user_key)
            })
        } else {
            let target = Target { comparator, user_key, trailer };
            cursor.seek(bytes, layout, index_format, among, |entry| target.compare(entry))
        }
    }

    /// Returns the user key of an index key.
    pub(crate) fn index_user_key<'a>(&self, entry: &'a [u8]) -> &'a [u8] {
        if self.index.user_keys { entry } else { key::user_key(entry) }
    }

    /// Compares an index key with an internal key. If index keys are user keys, only the user keys
    /// are compared.
    pub(crate) fn compare_index_key(&self, entry: &[u8], internal_key: &[u8]) -> Ordering {
        if self.index.user_keys {
            self.comparator().compare(entry, key::user_key(internal_key))
        } else {
            key::compare_internal(self.comparator(), entry, internal_key)
        }
    }

    /// Compares two index keys.
    pub(crate) fn compare_index_keys(&self, a: &[u8], b: &[u8]) -> Ordering {
        if self.index.user_keys {
            self.comparator().compare(a, b)
        } else {
            key::compare_internal(self.comparator(), a, b)
        }
    }

    /// Returns an index or filter block, or the root of a partitioned one: the copy kept with the
    /// open table or, if there is none, the block that `access` provides.
    #[inline]
    pub(super) fn meta_block<'a, A: BlockAccess>(
        &'a self,
        access: &'a A,
        block: &'a MetaBlock,
        kind: BlockKind,
    ) -> AccessResult<BlockRef<'a>, A> {
        match &block.kept {
            Some(kept) => Ok(BlockRef::Borrowed(kept)),
            None => access.block(self, block.handle, kind),
        }
    }

    /// Returns the root of the index.
    #[inline]
    pub(super) fn index_root<'a, A: BlockAccess>(
        &'a self,
        access: &'a A,
    ) -> AccessResult<BlockRef<'a>, A> {
        self.meta_block(access, &self.index.root, BlockKind::Index)
    }

    /// Returns the format of index entries.
    pub(crate) fn index_format(&self) -> IndexFormat {
        self.index.format
    }

    /// Whether the index is partitioned.
    pub(crate) fn has_partitioned_index(&self) -> bool {
        self.index.partitioned
    }

    /// Returns a counted reference to the root of the index.
    pub(crate) fn held_index_root<A: BlockAccess>(
        &self,
        access: &A,
    ) -> AccessResult<Arc<Cached<Block>>, A> {
        Ok(self.index_root(access)?.into_arc())
    }

    /// Returns the handle of the root of the index.
    pub(crate) fn index_handle(&self) -> BlockHandle {
        self.index.root.handle
    }
}
