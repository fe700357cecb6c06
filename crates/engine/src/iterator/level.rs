//! An iterator over the tables of one level, in key order.
//!
//! A table is opened when the iterator reaches it. The table's range tombstones apply up to the
//! table's largest key, which may be past its last record. So when this iterator has moved to the
//! next table, other sources may still have records that the previous table's tombstones hide.
//! Therefore the iterator keeps a table's tombstones until `covering` is called with a key outside
//! the table's bounds.

use std::path::Path;
use std::sync::Arc;

use tailwater_format::Comparator;
use tailwater_format::key::{self, Sequence};

use crate::block_cache::Block;
use crate::cache::Cached;
use crate::error::Result;
use crate::handover::Warmth;
use crate::iterator::Direction;
use crate::iterator::tombstones::{TombstoneCursor, TombstoneCursors};
use crate::skipped_damage::SkippedDamage;
use crate::table::{
    FileMetadata, ReadPlan, ReadProfile, SeekTo, StoredBlock, TableCache, TableIterator, Wanted,
};
use crate::version::Level;

/// An iterator over the tables of one level other than level 0. Their key ranges do not overlap.
pub(crate) struct LevelIterator {
    /// The number of the level, which is at least 1.
    number: usize,
    level: Arc<Level>,
    tables: Arc<TableCache>,
    profile: ReadProfile,
    plan: ReadPlan,
    snapshot: Sequence,
    asks_prefix_filter: bool,
    /// Where skipped blocks are recorded; `None` if damaged blocks are not skipped.
    skipped_damage: Option<SkippedDamage>,
    /// Index of the current table in the level. Meaningless while `iterator` is `None`.
    file: usize,
    iterator: Option<Box<TableIterator>>,
    /// The table iterator of the table that was left last, without a position. It is kept so that
    /// the next table reuses its buffers. Not used while `iterator` is set.
    spare: Option<Box<TableIterator>>,
    /// Whether the table that `spare` last read was replaced by newer tables, and is no longer part
    /// of the level. If so, the next table that is opened starts with the readahead size that
    /// `spare` had reached.
    is_replaced: bool,
    /// Whether the next table that is opened follows the current one in a scan, and continues with
    /// the readahead size that was reached.
    steps_on: bool,
    /// The place of the table for the seek that follows, if it was prepared.
    prepared: Option<Option<usize>>,
    /// The range tombstones of tables that the iterator has reached. No others cover records near
    /// the current position.
    pub(super) tombstones: TombstoneCursors<Arc<FileMetadata>>,
}

impl LevelIterator {
    /// Creates an iterator without a position.
    pub(crate) fn new(
        number: usize,
        level: Arc<Level>,
        tables: Arc<TableCache>,
        profile: ReadProfile,
        plan: ReadPlan,
        snapshot: Sequence,
    ) -> Self {
        Self {
            number,
            level,
            tables,
            profile,
            plan,
            snapshot,
            asks_prefix_filter: false,
            skipped_damage: None,
            file: 0,
            iterator: None,
            spare: None,
            is_replaced: false,
            steps_on: false,
            prepared: None,
            tombstones: TombstoneCursors::none(),
        }
    }

    /// Makes the iterator skip damaged blocks of the tables that it opens later, and record them.
    pub(crate) fn skip_damage(&mut self, record: Option<SkippedDamage>) {
        self.skipped_damage = record;
    }

    /// Returns the number of the level, which is at least 1.
    pub(crate) fn number(&self) -> usize {
        self.number
    }

    /// Switches to the range tombstones whose sequence number is at most `snapshot`. A seek must
    /// follow.
    pub(crate) fn set_snapshot(&mut self, snapshot: Sequence) {
        self.snapshot = snapshot;
        self.tombstones = TombstoneCursors::none();
    }

    /// Moves to a newer version of the same level, and releases every table that is not part of the
    /// newer version.
    ///
    /// With a target, the iterator is positioned afterwards: forward, at the first record at or
    /// after the target; backward, at the last record at or before it. As an exception, the
    /// iterator stays at its current record if the target falls into the table that the iterator is
    /// in. For this case, the caller must ensure that the current record is at or after the target
    /// (forward), or at or before the target (backward).
    ///
    /// Without a target, a seek must follow.
    pub(crate) fn go_over(
        &mut self,
        level: &Arc<Level>,
        tables: &Arc<TableCache>,
        target: Option<(&[u8], Direction)>,
    ) -> Result<()> {
        self.tables = Arc::clone(tables);
        if let Some(iterator) = &mut self.iterator {
            iterator.set_prefixes(tables.context().prefix_extractor.clone());
        }
        if Arc::ptr_eq(&self.level, level) {
            return Ok(());
        }
        let file = self.iterator.as_ref().and_then(|_| self.level.files().get(self.file));
        let stays_at = file.and_then(|file| index_of(level, file, tables.comparator()));
        self.tombstones.retain(|file| index_of(level, file, tables.comparator()).is_some());
        self.level = Arc::clone(level);
        match stays_at {
            Some(at) => self.file = at,
            None => {
                self.is_replaced = self.iterator.is_some() && target.is_some();
                self.leave_file();
            }
        }
        let asks = std::mem::take(&mut self.asks_prefix_filter);
        let stands = self.valid();
        let moved = match target {
            Some((target, direction))
                if !stands || self.place_of(target, direction) != stays_at =>
            {
                self.reset_tombstones();
                match direction {
                    Direction::Forward => self.seek(target),
                    Direction::Backward => self.seek_for_prev(target),
                }
            }
            _ => Ok(()),
        };
        self.asks_prefix_filter = asks;
        self.is_replaced = false;
        if self.iterator.is_none() {
            // The spare iterator keeps a table open, which may no longer be part of the level.
            self.spare = None;
        }
        moved
    }

    /// Returns the index of the table in which a seek to `target` begins, if there is one.
    fn place_of(&self, target: &[u8], direction: Direction) -> Option<usize> {
        let comparator = self.tables.comparator();
        let files = self.level.files();
        match direction {
            Direction::Forward => {
                let at = files.partition_point(|file| {
                    key::compare_internal(comparator, file.largest(), target).is_lt()
                });
                Some(at).filter(|&at| at < files.len())
            }
            Direction::Backward => {
                let behind = files.partition_point(|file| {
                    key::compare_internal(comparator, file.smallest(), target).is_le()
                });
                behind.checked_sub(1)
            }
        }
    }

    /// Sets whether later seeks check the prefix filter of each table that this iterator reaches.
    /// See [`TableIterator::ask_prefix_filter`].
    pub(crate) fn ask_prefix_filter(&mut self, ask: bool) {
        self.asks_prefix_filter = ask;
        if let Some(iterator) = &mut self.iterator {
            iterator.ask_prefix_filter(ask);
        }
    }

    /// Returns the iterator of the current table. The caller must not move it out of its block.
    #[inline(always)]
    pub(crate) fn table_mut(&mut self) -> Option<&mut TableIterator> {
        self.iterator.as_deref_mut()
    }

    /// Returns the data block that the iterator left last in its current table, if its stored bytes
    /// are in memory.
    pub(super) fn left_block(&self) -> Option<StoredBlock<'_>> {
        self.iterator.as_ref().and_then(|iterator| iterator.left_block())
    }

    /// Returns the path of the current table.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.iterator.as_ref().map(|iterator| iterator.table().file().path())
    }

    /// Whether the iterator is positioned on a record.
    #[inline]
    pub(crate) fn valid(&self) -> bool {
        self.iterator.as_ref().is_some_and(|iterator| iterator.valid())
    }

    /// Returns the current internal key.
    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        self.iterator.as_ref().map_or(&[], |iterator| iterator.key())
    }

    /// Returns the current value.
    #[inline]
    pub(crate) fn value(&self) -> &[u8] {
        self.iterator.as_ref().map_or(&[], |iterator| iterator.value())
    }

    /// Returns the current internal key and value.
    #[inline(always)]
    pub(crate) fn entry(&self) -> (&[u8], &[u8]) {
        match &self.iterator {
            Some(iterator) => iterator.entry(),
            None => (&[], &[]),
        }
    }

    #[inline]
    pub(crate) fn warmth(&self) -> Warmth {
        self.iterator.as_ref().map_or(Warmth::default(), |iterator| iterator.warmth())
    }

    /// Moves to the first record.
    pub(crate) fn seek_to_first(&mut self) -> Result<()> {
        self.prepared = None;
        self.go_to_file(Some(0), TableIterator::seek_to_first)?;
        self.skip_forward()
    }

    /// Moves to the last record.
    pub(crate) fn seek_to_last(&mut self) -> Result<()> {
        self.prepared = None;
        self.go_to_file(self.last_place(), TableIterator::seek_to_last)?;
        self.skip_backward()
    }

    /// Returns the index of the last table, if there is one.
    fn last_place(&self) -> Option<usize> {
        self.level.files().len().checked_sub(1)
    }

    /// Prepares a seek, like [`TableIterator::prepare`].
    pub(crate) fn prepare(&mut self, to: SeekTo<'_>) -> Option<Wanted> {
        let file = match to {
            SeekTo::First => Some(0),
            SeekTo::Last => self.last_place(),
            SeekTo::AtOrAfter(target) => self.place_of(target, Direction::Forward),
            SeekTo::AtOrBefore(target) => self.place_of(target, Direction::Backward),
        };
        if self.go_to_file(file, |_| Ok(())).is_err() {
            self.prepared = None;
            return None;
        }
        self.prepared = Some(file);
        self.iterator.as_mut()?.prepare(to)
    }

    /// Drops what [`Self::prepare`] has prepared. To be called if its seek will not be made.
    pub(crate) fn drop_prepared(&mut self) {
        self.prepared = None;
        if let Some(iterator) = &mut self.iterator {
            iterator.drop_prepared();
        }
    }

    /// Hands over the block that [`Self::prepare`] returned.
    pub(crate) fn hand_over(&mut self, wanted: &Wanted, block: Arc<Cached<Block>>) {
        if let Some(iterator) = &mut self.iterator {
            iterator.hand_over(wanted, block);
        }
    }

    /// Moves to the first record at or after an internal key.
    pub(crate) fn seek(&mut self, target: &[u8]) -> Result<()> {
        let prepared = self.prepared.take();
        let file = prepared.unwrap_or_else(|| self.place_of(target, Direction::Forward));
        self.go_to_file(file, |iterator| iterator.seek(target))?;
        if self.asks_prefix_filter && !self.valid() && !self.next_file_has_prefix_of(target) {
            return Ok(());
        }
        if self.valid() {
            return Ok(());
        }
        self.skip_forward()?;
        self.iterator.as_ref().map_or(Ok(()), |iterator| iterator.check_not_below(target))
    }

    /// Moves to the last record at or before an internal key.
    pub(crate) fn seek_for_prev(&mut self, target: &[u8]) -> Result<()> {
        let prepared = self.prepared.take();
        let file = prepared.unwrap_or_else(|| self.place_of(target, Direction::Backward));
        self.go_to_file(file, |iterator| iterator.seek_for_prev(target))?;
        if self.valid() {
            return Ok(());
        }
        self.skip_backward()?;
        self.iterator.as_ref().map_or(Ok(()), |iterator| iterator.check_not_above(target))
    }

    /// Moves to the next record.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<()> {
        let Some(iterator) = &mut self.iterator else { return Ok(()) };
        iterator.next()?;
        if iterator.valid() { Ok(()) } else { self.skip_forward() }
    }

    /// Moves to the previous record.
    #[inline]
    pub(crate) fn previous(&mut self) -> Result<()> {
        let Some(iterator) = &mut self.iterator else { return Ok(()) };
        iterator.previous()?;
        if iterator.valid() { Ok(()) } else { self.skip_backward() }
    }

    /// Whether the next table's smallest key has the same prefix as an internal key. If not, the
    /// next table has no key with this prefix. True if there is no prefix extractor.
    fn next_file_has_prefix_of(&self, target: &[u8]) -> bool {
        let Some(next) = self.level.files().get(self.file + 1) else { return false };
        let Some(by) = &self.tables.context().prefix_extractor else { return true };
        by.prefix(next.smallest_user_key()) == by.prefix(key::user_key(target))
    }

    /// While the current table's iterator is past its last record, moves to the first record of the
    /// next table.
    fn skip_forward(&mut self) -> Result<()> {
        while self.iterator.as_ref().is_some_and(|iterator| !iterator.valid()) {
            self.steps_on = self.plan.is_adaptive();
            let moved = self.go_to_file(Some(self.file + 1), TableIterator::seek_to_first);
            self.steps_on = false;
            moved?;
        }
        Ok(())
    }

    /// While the current table's iterator is before its first record, moves to the last record of
    /// the previous table.
    fn skip_backward(&mut self) -> Result<()> {
        while self.iterator.as_ref().is_some_and(|iterator| !iterator.valid()) {
            self.steps_on = self.plan.is_adaptive();
            let moved = self.go_to_file(self.file.checked_sub(1), TableIterator::seek_to_last);
            self.steps_on = false;
            moved?;
        }
        Ok(())
    }

    /// Moves to the table at an index in the level, and calls `place` to position the table's
    /// iterator. If there is no table at this index, the iterator has no position afterwards.
    fn go_to_file(
        &mut self,
        place_in_level: Option<usize>,
        place: impl FnOnce(&mut TableIterator) -> Result<()>,
    ) -> Result<()> {
        let stays = self.iterator.is_some() && place_in_level == Some(self.file);
        if !stays {
            self.leave_file();
        }
        let found = place_in_level.and_then(|at| Some((at, self.level.files().get(at)?)));
        let Some((at, file)) = found else { return Ok(()) };
        if !stays {
            let table = self.tables.open(file, self.profile.purpose)?;
            self.file = at;
            let mut iterator = match self.spare.take() {
                Some(mut spare) => {
                    if std::mem::take(&mut self.is_replaced) || self.steps_on {
                        spare.continue_in(table, &self.plan)
                    } else {
                        spare.move_to(table, &self.plan)
                    }
                    spare
                }
                None => Box::new(TableIterator::new(table, self.profile, &self.plan)),
            };
            iterator.set_prefixes(self.tables.context().prefix_extractor.clone());
            iterator.ask_prefix_filter(self.asks_prefix_filter);
            iterator.skip_damage(self.skipped_damage.clone());
            self.iterator = Some(iterator);
        }
        self.take_tombstones()?;
        match &mut self.iterator {
            Some(iterator) => place(iterator),
            None => Ok(()),
        }
    }

    /// Leaves the current table, and keeps its table iterator as `spare`.
    fn leave_file(&mut self) {
        if let Some(mut iterator) = self.iterator.take() {
            iterator.leave();
            self.spare = Some(iterator);
        }
    }

    /// Adds the current table's tombstones to those kept, unless they are already kept.
    fn take_tombstones(&mut self) -> Result<()> {
        let Some(iterator) = &self.iterator else { return Ok(()) };
        let table = iterator.table();
        let Some(file) = self.level.files().get(self.file) else { return Ok(()) };
        let kept = self.tombstones.parts().any(|kept| Arc::ptr_eq(kept, file));
        if table.range_tombstones().is_empty() || kept {
            return Ok(());
        }
        let cursor = TombstoneCursor::of_table(table, file, self.snapshot)?;
        self.tombstones.push(Arc::clone(file), cursor);
        Ok(())
    }

    /// Returns the sequence number of the newest range tombstone that covers the internal key with
    /// this user key and trailer. Keys must be passed in the order that
    /// [`TombstoneCursor::covering`] requires.
    pub(crate) fn covering(
        &mut self,
        user_key: &[u8],
        trailer: u64,
        direction: Direction,
    ) -> Option<Sequence> {
        let comparator = self.tables.comparator();
        // Drops the tombstones of tables that the lookups have passed. Forward, these are the
        // tables that end before `user_key`; backward, those that begin after it.
        self.tombstones.retain(|file| match direction {
            Direction::Forward => {
                comparator.compare(key::user_key(file.largest()), user_key).is_ge()
            }
            Direction::Backward => comparator.compare(file.smallest_user_key(), user_key).is_le(),
        });
        self.tombstones.covering(comparator, user_key, trailer, direction)
    }

    /// Whether a newer range tombstone of this level hides the level's current record.
    pub(crate) fn covers_itself(&mut self, direction: Direction) -> bool {
        let Some(iterator) = &self.iterator else { return false };
        self.tombstones.hides(self.tables.comparator(), iterator.key(), direction)
    }

    /// Resets the position among the range tombstones, and drops those of all tables but the
    /// current one. The next call of `covering` may then be given any key, and later calls may
    /// continue in ascending or descending order.
    pub(crate) fn reset_tombstones(&mut self) {
        let Self { iterator, tombstones, level, file, .. } = self;
        let current = level.files().get(*file).filter(|_| iterator.is_some());
        tombstones.retain(|file| current.is_some_and(|current| Arc::ptr_eq(file, current)));
        tombstones.reset();
    }
}

/// Returns the index of `file` in `level`; `None` if the level does not contain it.
fn index_of(level: &Level, file: &Arc<FileMetadata>, comparator: &Comparator) -> Option<usize> {
    let at = level.files().partition_point(|other| {
        key::compare_internal(comparator, other.largest(), file.largest()).is_lt()
    });
    level.files().get(at).is_some_and(|other| Arc::ptr_eq(other, file)).then_some(at)
}
