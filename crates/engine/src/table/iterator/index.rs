//! An iterator over a table's index, of one level or two.

use std::sync::Arc;

use tailwater_format::block::IndexCursor;
use tailwater_format::table::BlockHandle;
use tailwater_format::{self as format};

use crate::block_cache::{Block, BlockKind};
use crate::cache::Cached;
use crate::error::Result;
use crate::table::{AccessResult, BlockAccess, Direction, Loading, ReadProfile, TableReader};

/// An iterator over the entries of a table's index. Each entry refers to one data block.
#[derive(Default, Clone)]
pub(super) struct IndexIterator {
    /// The whole index or, if the index is partitioned, its root.
    root: Level,
    /// The current partition, if the index is partitioned.
    partition: Level,
    partitioned: bool,
}

/// An index block and a position in it.
#[derive(Default, Clone)]
pub(super) struct Level {
    block: Option<Arc<Cached<Block>>>,
    handle: BlockHandle,
    cursor: IndexCursor,
}

/// The target of a seek in an index block.
#[derive(Clone, Copy)]
pub(super) enum SeekTarget<'a> {
    First,
    Last,
    At { user_key: &'a [u8], trailer: u64 },
}

impl Level {
    fn valid(&self) -> bool {
        self.block.is_some() && self.cursor.valid()
    }

    /// Calls `step` with this level's index block and cursor; `step` moves the cursor. If `step`
    /// finds the block damaged, the level becomes invalid and no longer has a block, so that
    /// another move does not find the same damage.
    fn go(
        &mut self,
        table: &TableReader,
        step: impl FnOnce(&Block, &mut IndexCursor) -> format::Result<()>,
    ) -> Result<()> {
        let Some(block) = &self.block else { return Ok(()) };
        step(block, &mut self.cursor).map_err(|error| {
            self.leave();
            table.damaged(self.handle, error)
        })
    }

    fn leave(&mut self) {
        self.block = None;
        self.cursor.reset();
    }

    /// Returns the current position.
    pub(super) fn cursor(&self) -> &IndexCursor {
        &self.cursor
    }

    /// Moves another cursor by one entry of this index block.
    pub(super) fn step(
        &self,
        table: &TableReader,
        cursor: &mut IndexCursor,
        direction: Direction,
    ) -> format::Result<()> {
        let Some(block) = &self.block else { return Ok(()) };
        let (bytes, layout, index_format) = (block.bytes(), block.layout(), table.index_format());
        match direction {
            Direction::Forward => cursor.next(bytes, layout, index_format),
            Direction::Backward => cursor.previous(bytes, layout, index_format),
        }
    }

    fn seek(&mut self, table: &TableReader, target: SeekTarget<'_>) -> Result<()> {
        let index_format = table.index_format();
        self.go(table, |block, cursor| match target {
            SeekTarget::First => cursor.seek_to_first(block.bytes(), block.layout(), index_format),
            SeekTarget::Last => cursor.seek_to_last(block.bytes(), block.layout(), index_format),
            SeekTarget::At { user_key, trailer } => {
                table.seek_index(block, index_format, cursor, user_key, trailer)
            }
        })
    }

    fn next(&mut self, table: &TableReader) -> Result<()> {
        self.go(table, |block, cursor| {
            cursor.next(block.bytes(), block.layout(), table.index_format())
        })
    }

    fn previous(&mut self, table: &TableReader) -> Result<()> {
        self.go(table, |block, cursor| {
            cursor.previous(block.bytes(), block.layout(), table.index_format())
        })
    }
}

impl IndexIterator {
    /// Releases the index blocks, so that the iterator can be used for another table. The iterator
    /// is then invalid.
    pub(super) fn leave(&mut self) {
        self.root.leave();
        self.partition.leave();
    }

    /// Whether the iterator is positioned on a data block.
    pub(super) fn valid(&self) -> bool {
        self.leaf().valid()
    }

    /// Returns the handle of the current data block.
    pub(super) fn handle(&self) -> BlockHandle {
        self.leaf().cursor.handle()
    }

    /// Returns the user key of the current entry, which is at or just past the last key of the data
    /// block.
    pub(super) fn user_key<'a>(&'a self, table: &TableReader) -> &'a [u8] {
        table.index_user_key(self.leaf().cursor.key())
    }

    /// Goes to the first data block.
    pub(super) fn seek_to_first(
        &mut self,
        table: &TableReader,
        profile: &ReadProfile,
    ) -> Result<()> {
        self.go_to(table, &Loading(profile), SeekTarget::First)
    }

    /// Goes to the last data block.
    pub(super) fn seek_to_last(
        &mut self,
        table: &TableReader,
        profile: &ReadProfile,
    ) -> Result<()> {
        self.go_to(table, &Loading(profile), SeekTarget::Last)
    }

    /// Goes to the first data block that may hold a record at or above an internal key, given as
    /// user key and trailer.
    pub(super) fn seek(
        &mut self,
        table: &TableReader,
        profile: &ReadProfile,
        user_key: &[u8],
        trailer: u64,
    ) -> Result<()> {
        self.go_to(table, &Loading(profile), SeekTarget::At { user_key, trailer })
    }

    /// Goes to the next data block.
    pub(super) fn next(&mut self, table: &TableReader, profile: &ReadProfile) -> Result<()> {
        if !self.partitioned {
            return self.root.next(table);
        }
        self.partition.next(table)?;
        self.skip_forward(table, &Loading(profile))
    }

    /// Goes to the previous data block.
    pub(super) fn previous(&mut self, table: &TableReader, profile: &ReadProfile) -> Result<()> {
        if !self.partitioned {
            return self.root.previous(table);
        }
        self.partition.previous(table)?;
        while !self.partition.valid() && self.root.valid() {
            self.move_root(|root| root.previous(table))?;
            self.load_partition(table, &Loading(profile))?;
            self.partition.seek(table, SeekTarget::Last)?;
        }
        Ok(())
    }

    /// Moves in the root. If the root is damaged, leaves the partition, too.
    fn move_root(&mut self, step: impl FnOnce(&mut Level) -> Result<()>) -> Result<()> {
        step(&mut self.root).inspect_err(|_| self.partition.leave())
    }

    /// Returns the index block that refers to data blocks, with the current position in it.
    pub(super) fn leaf(&self) -> &Level {
        if self.partitioned { &self.partition } else { &self.root }
    }

    /// Goes to a data block. If `access` stops because a block of the index is missing, the
    /// iterator keeps the blocks that it has, and this can be called again.
    pub(super) fn go_to<A: BlockAccess>(
        &mut self,
        table: &TableReader,
        access: &A,
        target: SeekTarget<'_>,
    ) -> AccessResult<(), A> {
        if self.root.block.is_none() {
            self.partitioned = table.has_partitioned_index();
            self.root.block = Some(table.held_index_root(access)?);
            self.root.handle = table.index_handle();
        }
        self.move_root(|root| root.seek(table, target))?;
        if self.partitioned {
            self.load_partition(table, access)?;
            self.partition.seek(table, target)?;
            self.skip_forward(table, access)?;
        }
        Ok(())
    }

    /// If the iterator is past the end of a partition, moves to the first entry of the next
    /// partition.
    fn skip_forward<A: BlockAccess>(
        &mut self,
        table: &TableReader,
        access: &A,
    ) -> AccessResult<(), A> {
        while !self.partition.valid() && self.root.valid() {
            self.move_root(|root| root.next(table))?;
            self.load_partition(table, access)?;
            self.partition.seek(table, SeekTarget::First)?;
        }
        Ok(())
    }

    /// Loads the partition to which the root's current entry refers.
    fn load_partition<A: BlockAccess>(
        &mut self,
        table: &TableReader,
        access: &A,
    ) -> AccessResult<(), A> {
        self.partition.cursor.reset();
        if !self.root.valid() {
            self.partition.block = None;
            return Ok(());
        }
        let handle = self.root.cursor.handle();
        if self.partition.block.is_none() || self.partition.handle != handle {
            self.partition.block = None;
            let block = access.block(table, handle, BlockKind::Index)?;
            self.partition.block = Some(block.into_arc());
            self.partition.handle = handle;
        }
        Ok(())
    }
}

impl TableReader {
    /// Calls the function `block` for each data block. The function's arguments are the user key of
    /// the data block's index entry, which is at or just past the data block's last key, and the
    /// data block's handle.
    pub(crate) fn for_each_data_block(
        &self,
        profile: &ReadProfile,
        mut block: impl FnMut(&[u8], BlockHandle),
    ) -> Result<()> {
        let mut index = IndexIterator::default();
        index.seek_to_first(self, profile)?;
        while index.valid() {
            block(index.user_key(self), index.handle());
            index.next(self, profile)?;
        }
        Ok(())
    }
}
