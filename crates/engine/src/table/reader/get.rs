//! A point lookup in one table.

use tailwater_format::block::{Cursor, IndexCursor, Target};
use tailwater_format::key::{self, ValueType};
use tailwater_format::table::BlockHandle;

use crate::block_cache::{BlockKind, BlockRef};
use crate::error::Result;
use crate::table::reader::{AccessResult, BlockAccess, TableReader};
use crate::table::{Lookup, Owner, Sink, Step};

/// Cursors of a point lookup. Each thread keeps them for its next lookup.
#[derive(Debug, Default)]
pub(crate) struct GetCursors {
    root: IndexCursor,
    partition: IndexCursor,
    data: Cursor,
}

/// The reason why a lookup in a data block ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BlockStep {
    /// The lookup is complete.
    Done,
    /// The block has a higher key: the table has no more records of the key.
    Passed,
    /// The block ended: the next block may have more records of the key.
    Ended,
}

impl TableReader {
    /// Passes everything that the table has about the key to `lookup`: first the newest range
    /// tombstone that covers the key, then the key's records, newest first. If this fails, the
    /// lookup can be repeated with another access.
    pub(crate) fn get<A: BlockAccess, S: Sink>(
        &self,
        access: &A,
        lookup: &mut Lookup<'_, S>,
        cursors: &mut GetCursors,
    ) -> AccessResult<Step, A> {
        let mark = lookup.mark();
        let step = self.search(access, lookup, cursors);
        if step.is_err() {
            lookup.rewind(mark);
        }
        step
    }

    #[inline]
    fn search<A: BlockAccess, S: Sink>(
        &self,
        access: &A,
        lookup: &mut Lookup<'_, S>,
        cursors: &mut GetCursors,
    ) -> AccessResult<Step, A> {
        let (may_contain, present) =
            self.may_contain(access, lookup.user_key, &mut cursors.root)?;
        // Filters do not contain range tombstones, so these are searched whatever the filter says.
        if !self.range_tombstones.is_empty() {
            let tombstones = &self.range_tombstones;
            lookup.cover(tombstones.covering_sequence(lookup.user_key, lookup.snapshot));
        }
        if !may_contain {
            return Ok(Step::Continue);
        }
        lookup.met_key = false;
        let step = if self.index.partitioned {
            self.get_partitioned(access, lookup, cursors)?
        } else {
            let root = self.index_root(access)?;
            let handle = self.index_handle();
            let GetCursors { root: index, data, .. } = cursors;
            self.get_through_index(access, &root, handle, lookup, index, data)?
        };
        if let (Some(present), true) = (present, lookup.met_key) {
            access.count(self, present);
        }
        Ok(match step {
            BlockStep::Done => Step::Done,
            BlockStep::Passed | BlockStep::Ended => Step::Continue,
        })
    }

    /// Searches the index partitions that may refer to the key.
    fn get_partitioned<A: BlockAccess, S: Sink>(
        &self,
        access: &A,
        lookup: &mut Lookup<'_, S>,
        cursors: &mut GetCursors,
    ) -> AccessResult<BlockStep, A> {
        let root = self.index_root(access)?;
        let GetCursors { root: top, partition, data } = cursors;
        let (bytes, layout, format) = (root.bytes(), root.layout(), self.index.format);
        let damaged = |error| self.damaged(self.index_handle(), error);
        self.seek_index(&root, format, top, lookup.user_key, lookup.seek_trailer())
            .map_err(damaged)?;
        while top.valid() {
            let handle = top.handle();
            let block = access.block(self, handle, BlockKind::Index)?;
            match self.get_through_index(access, &block, handle, lookup, partition, data)? {
                BlockStep::Ended => top.next(bytes, layout, format).map_err(damaged)?,
                step => return Ok(step),
            }
        }
        Ok(BlockStep::Ended)
    }

    /// Searches the data blocks to which an index block, at `handle`, refers.
    fn get_through_index<A: BlockAccess, S: Sink>(
        &self,
        access: &A,
        index: &BlockRef<'_>,
        handle: BlockHandle,
        lookup: &mut Lookup<'_, S>,
        cursor: &mut IndexCursor,
        data: &mut Cursor,
    ) -> AccessResult<BlockStep, A> {
        let format = self.index.format;
        let damaged = |error| self.damaged(handle, error);
        self.seek_index(index, format, cursor, lookup.user_key, lookup.seek_trailer())
            .map_err(damaged)?;
        while cursor.valid() {
            let block = access.block(self, cursor.handle(), BlockKind::Data)?;
            match self.get_in_block(&block, cursor.handle(), lookup, data)? {
                BlockStep::Ended => {
                    cursor.next(index.bytes(), index.layout(), format).map_err(damaged)?;
                }
                step => return Ok(step),
            }
        }
        Ok(BlockStep::Ended)
    }

    /// Passes the key's records in one data block to the lookup.
    #[inline]
    fn get_in_block<S: Sink>(
        &self,
        block: &BlockRef<'_>,
        handle: BlockHandle,
        lookup: &mut Lookup<'_, S>,
        cursor: &mut Cursor,
    ) -> Result<BlockStep> {
        let (bytes, layout) = (block.bytes(), block.layout());
        let (user_key, snapshot) = (lookup.user_key, lookup.snapshot);
        // Records of a table with a global sequence number store sequence number 0, so the search
        // starts before all stored records of the key.
        let trailer = match self.global_sequence {
            None => lookup.seek_trailer(),
            Some(_) => key::pack_trailer(key::MAX_SEQUENCE, ValueType::FOR_SEEK),
        };
        let comparator = self.comparator();
        let damaged = |error| self.damaged(handle, error);
        let target = Target { comparator, user_key, trailer };
        cursor.seek_for_get(bytes, layout, &target).map_err(damaged)?;
        while cursor.valid() {
            let record = key::ParsedKey::parse(cursor.key()).map_err(damaged)?;
            if comparator.compare(record.user_key, user_key).is_ne() {
                return Ok(BlockStep::Passed);
            }
            lookup.met_key = true;
            let sequence = self.global_sequence.unwrap_or(record.sequence);
            if sequence <= snapshot {
                let record = key::ParsedKey { sequence, ..record };
                let step = lookup.accept(&record, cursor.value(bytes), Owner::Block(block))?;
                if step == Step::Done {
                    return Ok(BlockStep::Done);
                }
            }
            cursor.next(bytes, layout).map_err(damaged)?;
        }
        Ok(BlockStep::Ended)
    }
}
