//! How a read may get at a table's blocks: only those in memory, or from the file too.

use std::sync::Arc;

use tailwater_format::table::BlockHandle;
use tailwater_io::Purpose;

use crate::Result;
use crate::cache::{Cached, Key, Priority};
use crate::epoch::{self, Guard};
use crate::table::reader::TableReader;
use crate::table::{Block, BlockKind, BlockRef};

/// How a read that goes to the file behaves.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadProfile {
    /// Why it reads.
    pub(crate) purpose: Purpose,
    /// Whether block checksums are checked.
    pub(crate) verify_checksums: bool,
    /// Whether what it reads goes into the block cache.
    pub(crate) fill_cache: bool,
}

/// How a read may get at blocks.
pub(crate) trait BlockAccess {
    /// The block at `handle`; `None` if this kind of access cannot have it.
    fn block<'a>(
        &'a self,
        table: &'a TableReader,
        handle: BlockHandle,
        kind: BlockKind,
    ) -> Result<Option<BlockRef<'a>>>;
}

/// Blocks in memory only: takes no lock, touches no reference count, allocates nothing.
pub(crate) struct Resident<'g>(pub(crate) &'g Guard);

impl BlockAccess for Resident<'_> {
    #[inline]
    fn block<'a>(
        &'a self,
        table: &'a TableReader,
        handle: BlockHandle,
        _kind: BlockKind,
    ) -> Result<Option<BlockRef<'a>>> {
        let Some(cache) = &table.context.block_cache else { return Ok(None) };
        Ok(cache.blocks.lookup(table.cache_key(handle), self.0).map(BlockRef::Borrowed))
    }
}

/// Blocks in memory, and from the file where they are not.
pub(crate) struct Loading<'o>(pub(crate) &'o ReadProfile);

impl BlockAccess for Loading<'_> {
    fn block<'a>(
        &'a self,
        table: &'a TableReader,
        handle: BlockHandle,
        kind: BlockKind,
    ) -> Result<Option<BlockRef<'a>>> {
        table.load(handle, kind, self.0).map(|block| Some(BlockRef::Owned(block)))
    }
}

impl TableReader {
    /// What the block at `handle` goes by in the block cache.
    #[inline]
    fn cache_key(&self, handle: BlockHandle) -> Key {
        Key { file: self.cache_id, offset: handle.offset }
    }

    /// The block at `handle`, from the cache or the file.
    pub(crate) fn load(
        &self,
        handle: BlockHandle,
        kind: BlockKind,
        profile: &ReadProfile,
    ) -> Result<Arc<Cached<Block>>> {
        match self.resident(handle) {
            Some(block) => Ok(block),
            None => {
                let dictionary = self.dictionary_for(kind);
                let bytes = self.file.read(
                    handle,
                    dictionary,
                    profile.verify_checksums,
                    profile.purpose,
                )?;
                self.keep(handle, kind, bytes, profile)
            }
        }
    }

    /// The block at `handle`, if the cache has it.
    pub(crate) fn resident(&self, handle: BlockHandle) -> Option<Arc<Cached<Block>>> {
        let cache = self.context.block_cache.as_ref()?;
        let guard = epoch::pin();
        cache.blocks.lookup(self.cache_key(handle), &guard).map(Arc::clone)
    }

    /// Makes a block of uncompressed bytes that came from `handle`, and puts it into the cache
    /// where that is wanted.
    pub(crate) fn keep(
        &self,
        handle: BlockHandle,
        kind: BlockKind,
        bytes: Vec<u8>,
        profile: &ReadProfile,
    ) -> Result<Arc<Cached<Block>>> {
        let block = Block::parse(bytes, kind).map_err(|error| self.damaged(handle, error))?;
        Ok(match &self.context.block_cache {
            Some(cache) if profile.fill_cache => {
                let charge = block.memory();
                cache
                    .blocks
                    .insert(self.cache_key(handle), block, charge, self.context.priority(kind))
                    .into_cached()
            }
            _ => Arc::new(Cached::standalone(block)),
        })
    }
}

impl super::TableContext {
    fn priority(&self, kind: BlockKind) -> Priority {
        match kind {
            BlockKind::Data => Priority::Low,
            BlockKind::Index | BlockKind::Filter if self.meta_blocks.high_priority => {
                Priority::High
            }
            BlockKind::Index | BlockKind::Filter => Priority::Low,
        }
    }
}
