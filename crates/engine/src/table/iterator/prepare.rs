//! Preparing a seek: finding the blocks that it needs and that are not in memory, so that those of
//! several tables can be read together.
//!
//! A block tells which block is needed next: a filter whether the index is, the root of an index
//! its partition, and the index the data block. So a seek is prepared in several rounds. In each
//! round, every table returns the one block that it lacks, and the caller loads the blocks of all
//! tables together and hands them over. No block is read that the seek alone would not read.

use std::cell::RefCell;
use std::sync::Arc;

use tailwater_format::key;
use tailwater_format::table::BlockHandle;

use crate::block_cache::{Block, BlockKind, BlockRef};
use crate::cache::Cached;
use crate::table::{
    AccessResult, BlockAccess, Loading, Missing, Probe, ReadProfile, Stop, TableIterator,
    TableReader, Wanted,
};

use super::index::SeekTarget;

/// The target of a seek. Keys are internal keys.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SeekTo<'a> {
    /// The seek goes to the first record.
    First,
    /// The seek goes to the last record.
    Last,
    /// The seek goes to the first record at or after the key.
    AtOrAfter(&'a [u8]),
    /// The seek goes to the last record at or before the key.
    AtOrBefore(&'a [u8]),
}

/// What was found to prepare a seek.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Prepared {
    /// The filter does not exclude the target, or is not asked.
    Passed,
    /// The index is positioned for the seek.
    Positioned,
    /// The filter shows that the table has no key with the target's prefix.
    Excluded,
}

/// The state of preparing a seek.
#[derive(Default)]
pub(super) struct Preparation {
    prepared: Option<Prepared>,
    known: KnownBlocks,
}

/// The index and filter blocks that were handed over, or found in the cache. Those of the filter
/// are kept until it has answered, the others until the seek is prepared: a cache may not keep them
/// as long. Besides, a block that is needed in several rounds is looked up once.
type KnownBlocks = Vec<(BlockHandle, Arc<Cached<Block>>)>;

/// Access to blocks in memory: those that are known, and those in the cache.
struct InMemory<'a> {
    known: RefCell<KnownBlocks>,
    profile: &'a ReadProfile,
}

impl BlockAccess for InMemory<'_> {
    type Stop = Stop;

    fn block<'a>(
        &'a self,
        table: &'a TableReader,
        handle: BlockHandle,
        kind: BlockKind,
    ) -> AccessResult<BlockRef<'a>, Self> {
        let mut known = self.known.borrow_mut();
        if let Some((_, block)) = known.iter().find(|(known, _)| *known == handle) {
            return Ok(BlockRef::Owned(Arc::clone(block)));
        }
        let Some(block) = table.resident(handle, kind, self.profile.purpose) else {
            return Err(Stop::Unreachable(Missing::Block(handle, kind)));
        };
        known.push((handle, Arc::clone(&block)));
        Ok(BlockRef::Owned(block))
    }

    fn count(&self, table: &TableReader, probe: Probe) {
        Loading(self.profile).count(table, probe);
    }
}

impl TableIterator {
    /// Prepares a seek, which must follow: finds the data block that it begins in. Returns a block
    /// that this needs and that is not in memory: a block of the filter or the index, or the data
    /// block itself. If the block is then handed over, the seek need not read it. After a block of
    /// the filter or the index was handed over, this must be called again.
    ///
    /// If this fails, the seek meets the same error.
    pub(crate) fn prepare(&mut self, to: SeekTo<'_>) -> Option<Wanted> {
        match self.find_block_of(to) {
            Ok(Prepared::Positioned) if self.index.valid() => self.data_block_to_load(),
            Err(Stop::Unreachable(Missing::Block(handle, kind))) => Some(self.wanted(handle, kind)),
            Err(_) => {
                self.drop_prepared();
                None
            }
            Ok(_) => None,
        }
    }

    /// Returns the data block of the index's current entry, if it is not in memory.
    fn data_block_to_load(&mut self) -> Option<Wanted> {
        self.preparation.known.clear();
        let handle = self.index.handle();
        if self.block.is_some() && self.handle == handle {
            return None;
        }
        match self.table.resident(handle, BlockKind::Data, self.profile.purpose) {
            Some(block) => {
                self.read_ahead.hand_over(handle, block);
                None
            }
            None => Some(self.wanted(handle, BlockKind::Data)),
        }
    }

    fn wanted(&self, handle: BlockHandle, kind: BlockKind) -> Wanted {
        Wanted { table: Arc::clone(&self.table), handle, kind, is_absent: true }
    }

    fn find_block_of(&mut self, to: SeekTo<'_>) -> Result<Prepared, Stop> {
        let profile = self.profile;
        let known = RefCell::new(std::mem::take(&mut self.preparation.known));
        let access = InMemory { known, profile: &profile };
        let found = self.find_block_with(to, &access);
        self.preparation.known = access.known.into_inner();
        found
    }

    fn find_block_with(&mut self, to: SeekTo<'_>, access: &InMemory<'_>) -> Result<Prepared, Stop> {
        if self.preparation.prepared.is_none() {
            let may_have = match to {
                SeekTo::AtOrAfter(target) => self.may_have_prefix_of(target, access)?,
                SeekTo::First | SeekTo::Last | SeekTo::AtOrBefore(_) => true,
            };
            // So far, only blocks of the filter were needed.
            access.known.borrow_mut().clear();
            let prepared = if may_have { Prepared::Passed } else { Prepared::Excluded };
            self.preparation.prepared = Some(prepared);
            if !may_have {
                return Ok(prepared);
            }
        }
        let target = match to {
            SeekTo::First => SeekTarget::First,
            SeekTo::Last => SeekTarget::Last,
            SeekTo::AtOrAfter(target) | SeekTo::AtOrBefore(target) => {
                let (user_key, trailer) = key::split(target).unwrap_or((target, 0));
                SeekTarget::At { user_key, trailer: self.stored_trailer(trailer) }
            }
        };
        self.index.go_to(&self.table, access, target)?;
        self.preparation.prepared = Some(Prepared::Positioned);
        Ok(Prepared::Positioned)
    }

    /// Hands over the block that [`Self::prepare`] returned.
    pub(crate) fn hand_over(&mut self, wanted: &Wanted, block: Arc<Cached<Block>>) {
        match wanted.kind {
            BlockKind::Data => self.read_ahead.hand_over(wanted.handle, block),
            BlockKind::Index | BlockKind::Filter => {
                self.preparation.known.push((wanted.handle, block));
            }
        }
    }

    /// Drops what [`Self::prepare`] has prepared. To be called if its seek will not be made.
    pub(crate) fn drop_prepared(&mut self) {
        self.take_prepared();
    }

    /// Returns what was prepared for the seek that begins.
    pub(super) fn take_prepared(&mut self) -> Option<Prepared> {
        self.preparation.known.clear();
        self.preparation.prepared.take()
    }
}

#[cfg(test)]
mod tests;
