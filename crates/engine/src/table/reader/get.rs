//! A point lookup in one table.

use tailwater_format::block::{Cursor, IndexCursor, Interval, Restarts, Target};
use tailwater_format::filter::FilterKey;
use tailwater_format::key::{self, ValueType};
use tailwater_format::table::BlockHandle;

use crate::block_cache::{Block, BlockKind, BlockRef};
use crate::error::Result;
use crate::table::reader::{
    AccessResult, BlockAccess, FilterKind, Loading, MetaBlock, Probe, Resident, Stop, TableReader,
};
use crate::table::{Lookup, Owner, Sink, Step};

/// Cursors of a point lookup. Each thread keeps them for its next lookup.
#[derive(Debug, Default)]
pub(crate) struct GetCursors {
    root: IndexCursor,
    partition: IndexCursor,
    data: Cursor,
}

/// That the filter of a table did not exclude a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PassedFilter {
    /// The event to count if the table has the key.
    present: Option<Probe>,
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
        match self.pass_filter(access, lookup, cursors)? {
            Some(passed) => self.search_index(access, lookup, cursors, passed),
            None => Ok(Step::Continue),
        }
    }

    /// Checks the filter, and passes the newest range tombstone that covers the key to `lookup`.
    /// Returns `None` if the table has no records of the key.
    #[inline]
    pub(crate) fn pass_filter<A: BlockAccess, S: Sink>(
        &self,
        access: &A,
        lookup: &mut Lookup<'_, S>,
        cursors: &mut GetCursors,
    ) -> AccessResult<Option<PassedFilter>, A> {
        let (may_contain, present) =
            self.may_contain(access, lookup.user_key, &mut cursors.root)?;
        // Filters do not contain range tombstones, so these are searched whatever the filter says.
        if !self.range_tombstones.is_empty() {
            let tombstones = &self.range_tombstones;
            lookup.cover(tombstones.covering_sequence(lookup.user_key, lookup.snapshot));
        }
        Ok(may_contain.then_some(PassedFilter { present }))
    }

    /// Passes the records of a key that passed the filter to `lookup`.
    #[inline]
    fn search_index<A: BlockAccess, S: Sink>(
        &self,
        access: &A,
        lookup: &mut Lookup<'_, S>,
        cursors: &mut GetCursors,
        passed: PassedFilter,
    ) -> AccessResult<Step, A> {
        lookup.met_key = false;
        let step = if self.index.partitioned {
            self.get_partitioned(access, lookup, cursors)?
        } else {
            let root = self.index_root(access)?;
            let handle = self.index_handle();
            let GetCursors { root: index, data, .. } = cursors;
            self.get_through_index(access, &root, handle, lookup, index, data)?
        };
        Ok(self.end(access, lookup, passed, step))
    }

    /// Counts the outcome of a search, and returns how the lookup goes on.
    #[inline]
    fn end<A: BlockAccess, S: Sink>(
        &self,
        access: &A,
        lookup: &Lookup<'_, S>,
        passed: PassedFilter,
        step: BlockStep,
    ) -> Step {
        if let (Some(present), true) = (passed.present, lookup.met_key) {
            access.count(self, present);
        }
        match step {
            BlockStep::Done => {
                if let Some(handover) = &self.context.handover {
                    handover.note_read(lookup.user_key);
                }
                Step::Done
            }
            BlockStep::Passed | BlockStep::Ended => Step::Continue,
        }
    }

    /// Returns the first data block that may have records of a key that passed the filter. This is
    /// the first step of a search, whose second step is [`Self::get_at`]. `among` is the result of
    /// [`Self::prefetch_index`] for the key, if that was called.
    #[inline]
    pub(crate) fn locate<A: BlockAccess, S: Sink>(
        &self,
        access: &A,
        lookup: &Lookup<'_, S>,
        among: Option<Restarts>,
        cursors: &mut GetCursors,
    ) -> AccessResult<Option<BlockHandle>, A> {
        let root = self.index_root(access)?;
        let GetCursors { root: top, partition: lower, .. } = cursors;
        let (format, trailer) = (self.index.format, lookup.seek_trailer());
        let damaged = |error| self.damaged(self.index_handle(), error);
        let among = among.unwrap_or_else(|| root.restarts_for(lookup.user_key));
        self.seek_index_among(&root, format, top, among, lookup.user_key, trailer)
            .map_err(damaged)?;
        if !self.index.partitioned {
            return Ok(top.valid().then(|| top.handle()));
        }
        while top.valid() {
            let handle = top.handle();
            let partition = access.block(self, handle, BlockKind::Index)?;
            let damaged = |error| self.damaged(handle, error);
            self.seek_index(&partition, format, lower, lookup.user_key, trailer)
                .map_err(damaged)?;
            if lower.valid() {
                return Ok(Some(lower.handle()));
            }
            top.next(root.bytes(), root.layout(), format).map_err(damaged)?;
        }
        Ok(None)
    }

    /// Like [`Self::get`], for a key that passed the filter. Reads one block after another.
    pub(crate) fn get_passed<S: Sink>(
        &self,
        access: &Loading<'_>,
        lookup: &mut Lookup<'_, S>,
        cursors: &mut GetCursors,
        passed: PassedFilter,
    ) -> Result<Step> {
        let mark = lookup.mark();
        let step = self.search_index(access, lookup, cursors, passed);
        if step.is_err() {
            lookup.rewind(mark);
        }
        step
    }

    /// Passes the records of a key that passed the filter to `lookup`. `block`, at `handle`, is the
    /// block that [`Self::locate`] found, and `interval` the result of [`Self::interval`]. Like
    /// [`Self::get`], this can be repeated if it fails. Returns `None` if the records may continue
    /// in blocks that are not in memory.
    #[inline]
    pub(crate) fn get_at<S: Sink>(
        &self,
        access: &Resident<'_>,
        (block, handle, interval): (&BlockRef<'_>, BlockHandle, Interval),
        lookup: &mut Lookup<'_, S>,
        cursors: &mut GetCursors,
        passed: PassedFilter,
    ) -> Result<Option<Step>> {
        let mark = lookup.mark();
        lookup.met_key = false;
        let data = &mut cursors.data;
        let step = match self.get_in_interval(block, handle, interval, lookup, data)? {
            BlockStep::Ended => {
                // The records may continue in the next block. That is rare, so the search begins
                // again.
                lookup.rewind(mark);
                self.search_index(access, lookup, cursors, passed)
            }
            step => return Ok(Some(self.end(access, lookup, passed, step))),
        };
        match step {
            Ok(step) => Ok(Some(step)),
            Err(stop) => {
                lookup.rewind(mark);
                match stop {
                    Stop::Unreachable(_) => Ok(None),
                    Stop::Failed(error) => Err(error),
                }
            }
        }
    }

    /// Prefetches what [`Self::locate`] reads: first step. Returns the argument of the second step;
    /// `None` if there is none.
    #[inline]
    pub(crate) fn prefetch_index(&self, user_key: &[u8]) -> Option<Restarts> {
        let root = self.index.root.kept.as_ref()?;
        let among = root.restarts_for(user_key);
        root.prefetch_restart(&among);
        Some(among)
    }

    /// Prefetches what [`Self::locate`] reads: second step.
    #[inline]
    pub(crate) fn prefetch_index_entry(&self, among: &Restarts) {
        if let Some(root) = &self.index.root.kept {
            root.prefetch_entry(among);
        }
    }

    /// Prefetches the part of the filter that [`Self::pass_filter`] reads.
    #[inline]
    pub(crate) fn prefetch_filter(&self, user_key: &[u8]) {
        if let FilterKind::Full(MetaBlock { kept: Some(filter), .. }) = &self.filter.kind
            && self.filter.whole_keys
        {
            filter.prefetch_filter(&FilterKey::new(user_key));
        }
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
        let interval = self.interval(block, handle, lookup)?;
        self.get_in_interval(block, handle, interval, lookup, cursor)
    }

    /// Returns the interval of a data block in which the search for the key begins, and prefetches
    /// it.
    #[inline]
    pub(crate) fn interval<S: Sink>(
        &self,
        block: &Block,
        handle: BlockHandle,
        lookup: &Lookup<'_, S>,
    ) -> Result<Interval> {
        let (bytes, layout) = (block.bytes(), block.layout());
        let interval = Interval::of_get(bytes, layout, &self.target(lookup))
            .map_err(|error| self.damaged(handle, error))?;
        block.prefetch_range(interval.bytes(bytes, layout));
        Ok(interval)
    }

    /// Returns the target of a search in a data block.
    #[inline]
    fn target<'t, S: Sink>(&'t self, lookup: &'t Lookup<'_, S>) -> Target<'t> {
        // Records of a table with a global sequence number store sequence number 0, so the search
        // starts before all stored records of the key.
        let trailer = match self.global_sequence {
            None => lookup.seek_trailer(),
            Some(_) => key::pack_trailer(key::MAX_SEQUENCE, ValueType::FOR_SEEK),
        };
        Target { comparator: self.comparator(), user_key: lookup.user_key, trailer }
    }

    /// Passes the key's records in one data block, from the beginning of an interval, to the
    /// lookup.
    #[inline]
    fn get_in_interval<S: Sink>(
        &self,
        block: &BlockRef<'_>,
        handle: BlockHandle,
        interval: Interval,
        lookup: &mut Lookup<'_, S>,
        cursor: &mut Cursor,
    ) -> Result<BlockStep> {
        let (bytes, layout) = (block.bytes(), block.layout());
        let (user_key, snapshot) = (lookup.user_key, lookup.snapshot);
        let comparator = self.comparator();
        let damaged = |error| self.damaged(handle, error);
        cursor.seek_in(bytes, layout, interval, &self.target(lookup)).map_err(damaged)?;
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
            } else {
                lookup.versions_skipped += 1;
            }
            cursor.next(bytes, layout).map_err(damaged)?;
        }
        Ok(BlockStep::Ended)
    }
}
