//! An iterator over the records of one table, in internal key order.
//!
//! The iterator holds its current data block and, if the index is partitioned, the current index
//! block. It moves forward and backward. Past the last and before the first record, it is invalid.
//!
//! If the caller asks for that, the iterator skips blocks that cannot be read. It then continues
//! with the next block in its direction.

mod index;
mod lookahead;
mod prepare;
mod readahead;
mod stream;

use std::cmp::Ordering;
use std::sync::Arc;

use tailwater_format::Comparator;
use tailwater_format::block::{Cursor, IndexCursor, Target};
use tailwater_format::key::{self, Sequence, ValueType};
use tailwater_format::table::{BLOCK_TRAILER_LENGTH, BlockHandle};
use tailwater_io::Purpose;

use crate::block_cache::Block;
use crate::cache::Cached;
use crate::error::Result;
use crate::handover::Warmth;
use crate::prefix_extractor::PrefixExtractor;
use crate::skipped_damage::{SkippedDamage, SkippedKeys};
use crate::table::reader::compare_to;
use crate::table::{AccessResult, BlockAccess, Loading, ReadProfile, StoredBlock, TableReader};

use index::IndexIterator;
use lookahead::Lookahead;
pub(crate) use prepare::SeekTo;
use prepare::{Preparation, Prepared};
use readahead::ReadAhead;
pub(crate) use readahead::{ReadAheadPlan, ReadPlan};
pub(crate) use stream::Streaming;

/// An iterator over the records of one table.
pub(crate) struct TableIterator {
    table: Arc<TableReader>,
    profile: ReadProfile,
    index: IndexIterator,
    block: Option<Arc<Cached<Block>>>,
    handle: BlockHandle,
    /// The block that the iterator left last, and its location; set only if a compaction reads the
    /// table.
    left: Option<(BlockHandle, Arc<Cached<Block>>)>,
    /// The warmth of the current block; set only if a compaction reads the table.
    warmth: Warmth,
    cursor: Cursor,
    read_ahead: ReadAhead,
    lookahead: Lookahead,
    /// Whether a seek checks the filter for the prefix of its target.
    asks_prefix_filter: bool,
    /// The column family's current prefix extractor, which may differ from that of the table's
    /// filter.
    prefixes: Option<PrefixExtractor>,
    filter_cursor: IndexCursor,
    /// The current key with the table's global sequence number. Used only if the table has such a
    /// number.
    global_key: Vec<u8>,
    /// Where skipped blocks are recorded; `None` if damaged blocks are not skipped.
    skipped_damage: Option<SkippedDamage>,
    /// What [`Self::prepare`] found for the seek that follows.
    preparation: Preparation,
}

/// The direction in which an iterator moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Forward,
    Backward,
}

impl TableIterator {
    /// Creates an unpositioned iterator that reads ahead according to `plan`.
    pub(crate) fn new(table: Arc<TableReader>, profile: ReadProfile, plan: &ReadPlan) -> Self {
        let read_ahead = ReadAhead::new(plan, &table);
        Self {
            table,
            profile,
            index: IndexIterator::default(),
            block: None,
            handle: BlockHandle::default(),
            left: None,
            warmth: Warmth::default(),
            cursor: Cursor::default(),
            read_ahead,
            lookahead: Lookahead::default(),
            asks_prefix_filter: false,
            prefixes: None,
            filter_cursor: IndexCursor::default(),
            global_key: Vec::new(),
            skipped_damage: None,
            preparation: Preparation::default(),
        }
    }

    /// Returns the data block that, according to the index, holds the first record at or above an
    /// internal key; `None` if the key is past the last block.
    pub(crate) fn data_block(
        table: &TableReader,
        profile: &ReadProfile,
        internal_key: &[u8],
    ) -> Result<Option<BlockHandle>> {
        let (user_key, trailer) = key::split(internal_key).unwrap_or((internal_key, 0));
        let mut index = IndexIterator::default();
        index.seek(table, profile, user_key, trailer)?;
        Ok(index.valid().then(|| index.handle()))
    }

    /// Returns the file offset of the end of the data block that holds the first key at or above
    /// `user_key`; `None` if the table ends before it, or if the index there cannot be read. That
    /// is no error for the reads before it.
    fn end_of_block(table: &TableReader, profile: &ReadProfile, user_key: &[u8]) -> Option<u64> {
        let mut internal_key = Vec::new();
        let trailer = key::pack_trailer(key::MAX_SEQUENCE, ValueType::FOR_SEEK);
        key::put_internal_key(&mut internal_key, user_key, trailer);
        let BlockHandle { offset, size } =
            Self::data_block(table, profile, &internal_key).ok()??;
        Some(offset.saturating_add(size).saturating_add(BLOCK_TRAILER_LENGTH as u64))
    }

    /// Switches to another table and keeps only the buffers. Afterwards the iterator has no
    /// position until a seek.
    pub(crate) fn move_to(&mut self, table: Arc<TableReader>, plan: &ReadPlan) {
        self.leave();
        self.read_ahead.restart(plan, &table);
        self.table = table;
    }

    /// Switches to a table that replaced the current one, and continues with the same readahead.
    /// Afterwards the iterator has no position until a seek.
    pub(crate) fn continue_in(&mut self, table: Arc<TableReader>, plan: &ReadPlan) {
        self.leave();
        self.read_ahead.continue_in(plan, &table);
        self.table = table;
    }

    /// Releases all blocks. The iterator is then invalid.
    pub(crate) fn leave(&mut self) {
        self.drop_prepared();
        self.index.leave();
        self.lookahead.restart();
        self.block = None;
        self.left = None;
        self.cursor.reset();
    }

    /// Returns the current table.
    pub(crate) fn table(&self) -> &Arc<TableReader> {
        &self.table
    }

    /// Sets whether later seeks check the prefix filter. If the filter shows that the table has no
    /// key with the target's prefix, such a seek leaves the iterator invalid.
    pub(crate) fn ask_prefix_filter(&mut self, ask: bool) {
        self.asks_prefix_filter = ask;
    }

    /// Sets the current prefix extractor. The table's filter may have been built with another one.
    pub(crate) fn set_prefixes(&mut self, prefixes: Option<PrefixExtractor>) {
        self.prefixes = prefixes;
    }

    /// Makes the iterator skip damaged blocks, and record them.
    pub(crate) fn skip_damage(&mut self, record: Option<SkippedDamage>) {
        self.skipped_damage = record;
    }

    /// Whether the iterator is positioned on a record.
    #[inline]
    pub(crate) fn valid(&self) -> bool {
        self.block.is_some() && self.cursor.valid()
    }

    /// Returns the current internal key.
    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        if self.table.global_sequence().is_some() { &self.global_key } else { self.cursor.key() }
    }

    /// Returns the current value.
    #[inline]
    pub(crate) fn value(&self) -> &[u8] {
        match &self.block {
            Some(block) => self.cursor.value(block.bytes()),
            None => &[],
        }
    }

    /// Returns the current internal key and value.
    #[inline(always)]
    pub(crate) fn entry(&self) -> (&[u8], &[u8]) {
        (self.key(), self.value())
    }

    #[inline]
    pub(crate) fn warmth(&self) -> Warmth {
        self.warmth
    }

    /// Returns the data block that the iterator left last; `None` if its stored bytes are no longer
    /// in memory.
    pub(crate) fn left_block(&self) -> Option<StoredBlock<'_>> {
        let (handle, block) = self.left.as_ref()?;
        let stored = self.read_ahead.stored(&self.table, *handle)?;
        Some(StoredBlock { table: &self.table, handle: *handle, block, stored })
    }

    /// Goes to the first record.
    pub(crate) fn seek_to_first(&mut self) -> Result<()> {
        self.lookahead.restart();
        if self.take_prepared() != Some(Prepared::Positioned) {
            let moved = self.index.seek_to_first(&self.table, &self.profile);
            self.skip_index_blocks(moved, Direction::Forward)?;
        }
        self.first_in_block_or_after()
    }

    /// Goes to the last record.
    pub(crate) fn seek_to_last(&mut self) -> Result<()> {
        self.lookahead.restart();
        if self.take_prepared() != Some(Prepared::Positioned) {
            let moved = self.index.seek_to_last(&self.table, &self.profile);
            self.skip_index_blocks(moved, Direction::Backward)?;
        }
        self.last_in_block_or_before()
    }

    /// Goes to the first record at or after an internal key.
    pub(crate) fn seek(&mut self, target: &[u8]) -> Result<()> {
        let (prepared, profile) = (self.take_prepared(), self.profile);
        let may_have = match prepared {
            Some(prepared) => prepared != Prepared::Excluded,
            None => self.may_have_prefix_of(target, &Loading(&profile))?,
        };
        if !may_have {
            self.block = None;
            return Ok(());
        }
        self.seek_unfiltered(target, prepared)
    }

    /// Whether the table may have a key with the prefix of an internal key, as far as the filter is
    /// asked.
    fn may_have_prefix_of<A: BlockAccess>(
        &mut self,
        target: &[u8],
        access: &A,
    ) -> AccessResult<bool, A> {
        if !self.asks_prefix_filter || !self.table.filters_by(self.prefixes.as_ref()) {
            return Ok(true);
        }
        let (user_key, _) = key::split(target).unwrap_or((target, 0));
        self.table.may_contain_prefix(access, user_key, &mut self.filter_cursor)
    }

    /// Like [`TableIterator::seek`], without checking a filter. `prepared` is what was prepared.
    fn seek_unfiltered(&mut self, target: &[u8], prepared: Option<Prepared>) -> Result<()> {
        let (user_key, trailer) = key::split(target).unwrap_or((target, 0));
        let stored_trailer = self.stored_trailer(trailer);
        self.lookahead.restart();
        if prepared != Some(Prepared::Positioned) {
            let moved = self.index.seek(&self.table, &self.profile, user_key, stored_trailer);
            self.skip_index_blocks(moved, Direction::Forward)?;
        }
        if let Err(error) = self.seek_in_block(user_key, stored_trailer) {
            self.skip_block(error)?;
        }
        if !self.index.valid() {
            return Ok(());
        }
        let is_in_block = self.valid();
        if !is_in_block {
            self.next_block()?;
            self.first_in_block_or_after()?;
        }
        self.patch_key();
        if self.table.global_sequence().is_some() {
            while self.valid()
                && compare_to(self.table.comparator(), self.key(), user_key, trailer).is_lt()
            {
                self.next()?;
            }
        }
        if is_in_block { Ok(()) } else { self.check_not_below(target) }
    }

    /// Goes to the first record of the index's current block that is at or after a key.
    fn seek_in_block(&mut self, user_key: &[u8], trailer: u64) -> Result<()> {
        self.load_block()?;
        let Some(block) = &self.block else { return Ok(()) };
        let sought = Target { comparator: self.table.comparator(), user_key, trailer };
        block.prefetch_entries();
        self.cursor
            .seek_and_announce(block.bytes(), block.layout(), &sought, |interval| {
                block.prefetch_range(interval);
            })
            .map_err(|error| self.table.damaged(self.handle, error))
    }

    /// Goes to the last record at or before an internal key.
    pub(crate) fn seek_for_prev(&mut self, target: &[u8]) -> Result<()> {
        let prepared = self.take_prepared();
        self.seek_unfiltered(target, prepared)?;
        if !self.valid() {
            self.seek_to_last()?;
            return self.check_not_above(target);
        }
        let (user_key, trailer) = key::split(target).unwrap_or((target, 0));
        if compare_to(self.table.comparator(), self.key(), user_key, trailer).is_gt() {
            self.previous()?;
            return self.check_not_above(target);
        }
        Ok(())
    }

    /// Returns an error if the iterator is below the sought internal key. This happens only in a
    /// table whose records are out of order; a caller that seeks forward would then loop forever.
    pub(crate) fn check_not_below(&self, target: &[u8]) -> Result<()> {
        self.check_order(target, Ordering::Less)
    }

    /// Returns an error if the iterator is above the sought internal key. This happens only in a
    /// table whose records are out of order; a caller that seeks backward would then loop forever.
    pub(crate) fn check_not_above(&self, target: &[u8]) -> Result<()> {
        self.check_order(target, Ordering::Greater)
    }

    fn check_order(&self, target: &[u8], refused: Ordering) -> Result<()> {
        let (user_key, trailer) = key::split(target).unwrap_or((target, 0));
        let order =
            || compare_to(self.table.comparator(), self.key(), user_key, trailer) == refused;
        if !self.valid() || !order() {
            return Ok(());
        }
        let found = format!("'{}'", key::user_key(self.key()).escape_ascii());
        let expected = "records in order";
        let error = tailwater_format::Error::corruption("data block", 0, expected, found);
        Err(self.table.damaged(self.handle, error))
    }

    /// Goes to the next record.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<()> {
        let Some(block) = &self.block else { return Ok(()) };
        if let Err(error) = self.cursor.next(block.bytes(), block.layout()) {
            let error = self.fail(error);
            self.skip_block(error)?;
        }
        if !self.valid() {
            self.next_block()?;
            return self.first_in_block_or_after();
        }
        self.patch_key();
        Ok(())
    }

    /// Goes to the previous record.
    #[inline]
    pub(crate) fn previous(&mut self) -> Result<()> {
        let Some(block) = &self.block else { return Ok(()) };
        if let Err(error) = self.cursor.previous(block.bytes(), block.layout()) {
            let error = self.fail(error);
            self.skip_block(error)?;
        }
        if !self.valid() {
            self.previous_block()?;
            return self.last_in_block_or_before();
        }
        self.patch_key();
        Ok(())
    }

    /// Whether the quick steps below may be used: the keys are in bytewise order, and the records
    /// have their own sequence numbers.
    pub(crate) fn allows_quick_steps(&self) -> bool {
        matches!(self.table.comparator(), Comparator::Bytewise)
            && self.table.global_sequence().is_none()
    }

    /// Goes to the next record, by [`Cursor::next_key`]. Returns whether the iterator has moved.
    #[inline(always)]
    pub(crate) fn next_key(&mut self, snapshot: Sequence) -> bool {
        let Some(block) = &self.block else { return false };
        self.cursor.next_key(block.bytes(), block.layout(), snapshot)
    }

    /// Goes to the previous record, by [`Cursor::previous_decoded`]. Returns whether the iterator
    /// has moved.
    #[inline(always)]
    pub(crate) fn previous_decoded(&mut self) -> bool {
        self.block.is_some() && self.cursor.previous_decoded()
    }

    /// Whether the current record is a value that `snapshot` sees, and certain to be the newest
    /// version of its key in this table. See [`Cursor::is_newest_value`].
    #[inline(always)]
    pub(crate) fn is_newest_value(&mut self, snapshot: Sequence) -> bool {
        let Some(block) = &self.block else { return false };
        self.cursor.is_newest_value(block.bytes(), block.layout(), snapshot)
    }

    /// Goes to the first record of the index's current block, or of the next block that is not
    /// empty.
    fn first_in_block_or_after(&mut self) -> Result<()> {
        loop {
            if let Err(error) = self.go_to_edge_of_block(Direction::Forward) {
                self.skip_block(error)?;
            }
            if self.valid() || !self.index.valid() {
                self.patch_key();
                return Ok(());
            }
            self.next_block()?;
        }
    }

    /// Goes to the last record of the index's current block, or of the previous block that is not
    /// empty.
    fn last_in_block_or_before(&mut self) -> Result<()> {
        loop {
            if let Err(error) = self.go_to_edge_of_block(Direction::Backward) {
                self.skip_block(error)?;
            }
            if self.valid() || !self.index.valid() {
                self.patch_key();
                return Ok(());
            }
            self.previous_block()?;
        }
    }

    /// Goes to the record of the index's current block that an iterator reaches first in a
    /// direction.
    fn go_to_edge_of_block(&mut self, direction: Direction) -> Result<()> {
        self.load_block()?;
        let Some(block) = &self.block else { return Ok(()) };
        let moved = match direction {
            Direction::Forward => self.cursor.seek_to_first(block.bytes(), block.layout()),
            Direction::Backward => self.cursor.seek_to_last(block.bytes(), block.layout()),
        };
        moved.map_err(|error| self.fail(error))
    }

    /// Moves the index to the next data block.
    fn next_block(&mut self) -> Result<()> {
        let moved = self.index.next(&self.table, &self.profile);
        self.skip_index_blocks(moved, Direction::Forward)?;
        if self.profile.purpose == Purpose::UserRead {
            self.lookahead.follow(&self.index, &self.table, Direction::Forward);
        }
        Ok(())
    }

    /// Moves the index to the previous data block.
    fn previous_block(&mut self) -> Result<()> {
        let moved = self.index.previous(&self.table, &self.profile);
        self.skip_index_blocks(moved, Direction::Backward)?;
        if self.profile.purpose == Purpose::UserRead {
            self.lookahead.follow(&self.index, &self.table, Direction::Backward);
        }
        Ok(())
    }

    /// Loads the data block of the index iterator's current entry, if there is one.
    fn load_block(&mut self) -> Result<()> {
        self.cursor.reset();
        if !self.index.valid() {
            self.block = None;
            return Ok(());
        }
        let handle = self.index.handle();
        if self.block.is_some() && self.handle == handle {
            return Ok(());
        }
        let left = self.block.take();
        if self.profile.purpose == Purpose::CompactionRead {
            self.left = left.map(|block| (self.handle, block));
            // Whether the block is cached must be determined before this read, because a buffered
            // read puts the block into the page cache.
            self.warmth = self.table.warmth(handle);
        }
        self.block = Some(self.read_ahead.load(&self.table, handle, &self.profile)?);
        self.handle = handle;
        Ok(())
    }

    /// Returns the trailer with which to seek in the blocks. If the table has a global sequence
    /// number, its records store sequence number 0, so the seek goes before all stored records of
    /// the user key.
    fn stored_trailer(&self, trailer: u64) -> u64 {
        match self.table.global_sequence() {
            None => trailer,
            Some(_) => u64::MAX,
        }
    }

    #[inline]
    fn patch_key(&mut self) {
        if let Some(sequence) = self.table.global_sequence() {
            let (user_key, trailer) = key::split(self.cursor.key()).unwrap_or_default();
            self.global_key.clear();
            let trailer = key::pack_trailer(sequence, trailer as u8);
            key::put_internal_key(&mut self.global_key, user_key, trailer);
        }
    }

    /// Invalidates the iterator and returns the error for a damaged block.
    #[cold]
    fn fail(&mut self, error: tailwater_format::Error) -> crate::error::Error {
        self.block = None;
        self.table.damaged(self.handle, error)
    }

    /// Skips the index's current data block, whose reading returned `error`, or returns the error.
    /// If the block is skipped, the caller moves the index on.
    #[cold]
    fn skip_block(&mut self, error: crate::error::Error) -> Result<()> {
        let Some(record) = &self.skipped_damage else { return Err(error) };
        self.block = None;
        record.skip(error, || {
            let mut before = self.index.clone();
            let moved = before.previous(&self.table, &self.profile);
            let has_before = moved.is_ok() && before.valid();
            SkippedKeys::Range {
                from: has_before.then(|| before.user_key(&self.table).to_vec()),
                to: Some(self.index.user_key(&self.table).to_vec()),
            }
        })
    }

    /// If a move of the index failed, skips the index block that could not be read, and those that
    /// follow in the same direction and cannot be read, or returns the error. `moved` is the result
    /// of the move.
    #[inline]
    fn skip_index_blocks(&mut self, moved: Result<()>, direction: Direction) -> Result<()> {
        match moved {
            Ok(()) => Ok(()),
            Err(error) => self.skip_unreadable_index_blocks(error, direction),
        }
    }

    #[cold]
    fn skip_unreadable_index_blocks(
        &mut self,
        error: crate::error::Error,
        direction: Direction,
    ) -> Result<()> {
        let Some(record) = &self.skipped_damage else { return Err(error) };
        let mut moved = Err(error);
        // Each move that fails has left an index block behind, or has ended the iteration.
        while let Err(error) = moved {
            record.skip(error, || SkippedKeys::Range { from: None, to: None })?;
            moved = match direction {
                Direction::Forward => self.index.next(&self.table, &self.profile),
                Direction::Backward => self.index.previous(&self.table, &self.profile),
            };
        }
        Ok(())
    }
}
