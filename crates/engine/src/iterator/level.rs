//! The tables of one level, one behind the other.
//!
//! Tables are opened as the iterator reaches them. The tombstones of a table hold up to its largest
//! key, which may lie behind its last record: the iterator may have gone on to the next table while
//! other sources still have records that the tombstones of the last one hide. So a table's
//! tombstones are kept until a key is asked for that lies outside the table's bounds.

use std::path::Path;
use std::sync::Arc;

use tailwater_format::Comparator;
use tailwater_format::key::{self, Sequence};

use crate::Result;
use crate::handover::Warmth;
use crate::iterator::Direction;
use crate::iterator::tombstones::{TombstoneCursor, hides};
use crate::table::{ReadPlan, ReadProfile, TableCache, TableIterator};
use crate::version::{FileMetadata, Level};

/// The tables of one level of which key ranges do not overlap, one behind the other.
pub(crate) struct LevelIterator {
    /// The number of the level, from 1.
    number: usize,
    level: Arc<Level>,
    tables: Arc<TableCache>,
    profile: ReadProfile,
    plan: ReadPlan,
    snapshot: Sequence,
    asks_prefix_filter: bool,
    /// The table it stands in, by its place in the level.
    file: usize,
    iterator: Option<TableIterator>,
    /// An iterator that stands nowhere, for the sake of its buffers, while there is no other.
    spare: Option<TableIterator>,
    /// Whether the table of `spare` was replaced while the iterator stood in it.
    is_replaced: bool,
    tombstones: Vec<FileTombstones>,
    /// Which of `tombstones` answered last.
    answered: usize,
}

/// The tombstones of a table that was reached.
struct FileTombstones {
    file: Arc<FileMetadata>,
    cursor: TombstoneCursor,
}

impl LevelIterator {
    /// An iterator that stands nowhere yet.
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
            file: 0,
            iterator: None,
            spare: None,
            is_replaced: false,
            tombstones: Vec::new(),
            answered: 0,
        }
    }

    /// Returns the number of the level, from 1.
    pub(crate) fn number(&self) -> usize {
        self.number
    }

    /// Looks at tombstones at or below another sequence number from here on. It must be sought
    /// next.
    pub(crate) fn set_snapshot(&mut self, snapshot: Sequence) {
        self.snapshot = snapshot;
        self.tombstones.clear();
    }

    /// Goes over to a newer state of the same level, and lets go of every table that this does not
    /// have.
    ///
    /// With a target it then stands at the first record not below it, or, going backward, at the
    /// last not above it; unless the table that it stood in is the one to be in, where it stays at
    /// its record, which must be on the same side of the target. Without a target it must be sought
    /// next.
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
        self.tombstones.retain(|kept| index_of(level, &kept.file, tables.comparator()).is_some());
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
            // It holds a table open.
            self.spare = None;
        }
        moved
    }

    /// Returns the place in the level of the table that a seek for `target` begins in, if it begins
    /// in any.
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

    /// As [`TableIterator::ask_prefix_filter`], for every table it comes to.
    pub(crate) fn ask_prefix_filter(&mut self, ask: bool) {
        self.asks_prefix_filter = ask;
        if let Some(iterator) = &mut self.iterator {
            iterator.ask_prefix_filter(ask);
        }
    }

    /// The table it stands in.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.iterator.as_ref().map(|iterator| iterator.table().file().path())
    }

    /// Whether it stands on a record.
    #[inline]
    pub(crate) fn valid(&self) -> bool {
        self.iterator.as_ref().is_some_and(TableIterator::valid)
    }

    /// The internal key it stands on.
    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        self.iterator.as_ref().map_or(&[], TableIterator::key)
    }

    /// The value it stands on.
    #[inline]
    pub(crate) fn value(&self) -> &[u8] {
        self.iterator.as_ref().map_or(&[], TableIterator::value)
    }

    /// How users get at the block it stands in, where a compaction reads it.
    #[inline]
    pub(crate) fn warmth(&self) -> Warmth {
        self.iterator.as_ref().map_or(Warmth::default(), TableIterator::warmth)
    }

    /// Goes to the first record.
    pub(crate) fn seek_to_first(&mut self) -> Result<()> {
        self.go_to_file(Some(0), TableIterator::seek_to_first)?;
        self.skip_forward()
    }

    /// Goes to the last record.
    pub(crate) fn seek_to_last(&mut self) -> Result<()> {
        let last = self.level.files().len().checked_sub(1);
        self.go_to_file(last, TableIterator::seek_to_last)?;
        self.skip_backward()
    }

    /// Goes to the first record that is not below an internal key.
    pub(crate) fn seek(&mut self, target: &[u8]) -> Result<()> {
        let file = self.place_of(target, Direction::Forward);
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

    /// Goes to the last record that is not above an internal key.
    pub(crate) fn seek_for_prev(&mut self, target: &[u8]) -> Result<()> {
        let file = self.place_of(target, Direction::Backward);
        self.go_to_file(file, |iterator| iterator.seek_for_prev(target))?;
        if self.valid() {
            return Ok(());
        }
        self.skip_backward()?;
        self.iterator.as_ref().map_or(Ok(()), |iterator| iterator.check_not_above(target))
    }

    /// Goes to the next record.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<()> {
        let Some(iterator) = &mut self.iterator else { return Ok(()) };
        iterator.next()?;
        if iterator.valid() { Ok(()) } else { self.skip_forward() }
    }

    /// Goes to the record before.
    #[inline]
    pub(crate) fn previous(&mut self) -> Result<()> {
        let Some(iterator) = &mut self.iterator else { return Ok(()) };
        iterator.previous()?;
        if iterator.valid() { Ok(()) } else { self.skip_backward() }
    }

    /// Whether the next table begins with the prefix of an internal key, so that the prefix goes on
    /// there.
    fn next_file_has_prefix_of(&self, target: &[u8]) -> bool {
        let Some(next) = self.level.files().get(self.file + 1) else { return false };
        let Some(by) = &self.tables.context().prefix_extractor else { return true };
        by.prefix(next.smallest_user_key()) == by.prefix(key::user_key(target))
    }

    /// From behind the last record of a table to the first of the next.
    fn skip_forward(&mut self) -> Result<()> {
        while self.iterator.as_ref().is_some_and(|iterator| !iterator.valid()) {
            self.go_to_file(Some(self.file + 1), TableIterator::seek_to_first)?;
        }
        Ok(())
    }

    /// From before the first record of a table to the last of the one before.
    fn skip_backward(&mut self) -> Result<()> {
        while self.iterator.as_ref().is_some_and(|iterator| !iterator.valid()) {
            self.go_to_file(self.file.checked_sub(1), TableIterator::seek_to_last)?;
        }
        Ok(())
    }

    /// Goes to a table by its place in the level, and there where `place` goes; nowhere, if there
    /// is no such table.
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
                    match std::mem::take(&mut self.is_replaced) {
                        true => spare.go_on_in(table, &self.plan),
                        false => spare.move_to(table, &self.plan),
                    }
                    spare
                }
                None => TableIterator::new(table, self.profile, &self.plan),
            };
            iterator.set_prefixes(self.tables.context().prefix_extractor.clone());
            iterator.ask_prefix_filter(self.asks_prefix_filter);
            self.iterator = Some(iterator);
        }
        self.take_tombstones()?;
        match &mut self.iterator {
            Some(iterator) => place(iterator),
            None => Ok(()),
        }
    }

    /// Leaves the table it stands in.
    fn leave_file(&mut self) {
        if let Some(mut iterator) = self.iterator.take() {
            iterator.leave();
            self.spare = Some(iterator);
        }
    }

    /// Keeps the tombstones of the table it has come to.
    fn take_tombstones(&mut self) -> Result<()> {
        let Some(iterator) = &self.iterator else { return Ok(()) };
        let table = iterator.table();
        let Some(file) = self.level.files().get(self.file) else { return Ok(()) };
        let kept = self.tombstones.iter().any(|kept| Arc::ptr_eq(&kept.file, file));
        if table.range_tombstones().is_empty() || kept {
            return Ok(());
        }
        let cursor = TombstoneCursor::of_table(table, file, self.snapshot)?;
        self.tombstones.push(FileTombstones { file: Arc::clone(file), cursor });
        Ok(())
    }

    /// Whether tombstones of a table it has reached may cover records near where it stands.
    #[inline]
    pub(crate) fn has_tombstones(&self) -> bool {
        !self.tombstones.is_empty()
    }

    /// The newest tombstone that covers the internal key of these parts, as
    /// [`TombstoneCursor::covering`].
    pub(crate) fn covering(
        &mut self,
        user_key: &[u8],
        trailer: u64,
        forward: bool,
    ) -> Option<Sequence> {
        let comparator = self.tables.comparator();
        self.tombstones.retain(|tombstones| {
            // Tables that the iteration has left behind.
            let bound =
                if forward { tombstones.file.largest() } else { tombstones.file.smallest() };
            let order = comparator.compare(key::user_key(bound), user_key);
            if forward { order.is_ge() } else { order.is_le() }
        });
        let mut newest = None;
        for (at, tombstones) in self.tombstones.iter_mut().enumerate() {
            let covering = tombstones.cursor.covering(comparator, user_key, trailer, forward);
            if covering > newest {
                newest = covering;
                self.answered = at;
            }
        }
        newest
    }

    /// Whether one of its own tombstones hides the record it stands on.
    pub(crate) fn covers_itself(&mut self, forward: bool) -> bool {
        let Some(iterator) = &self.iterator else { return false };
        let comparator = self.tables.comparator();
        self.tombstones
            .iter_mut()
            .any(|tombstones| hides(&mut tombstones.cursor, comparator, iterator.key(), forward))
    }

    /// Writes where the tombstone that answered last ends, or with `forward` false begins, as an
    /// internal key.
    pub(crate) fn edge(&self, forward: bool, out: &mut Vec<u8>) {
        if let Some(tombstones) = self.tombstones.get(self.answered) {
            tombstones.cursor.edge(forward, out);
        }
    }

    /// Forgets where its tombstones were asked about last.
    pub(crate) fn reset_tombstones(&mut self) {
        let Self { iterator, tombstones, level, file, .. } = self;
        let current = level.files().get(*file).filter(|_| iterator.is_some());
        tombstones.retain_mut(|kept| {
            kept.cursor.reset();
            current.is_some_and(|current| Arc::ptr_eq(&kept.file, current))
        });
    }
}

/// Returns the place of a table in a level, if it is there.
fn index_of(level: &Level, file: &Arc<FileMetadata>, comparator: &Comparator) -> Option<usize> {
    let at = level.files().partition_point(|other| {
        key::compare_internal(comparator, other.largest(), file.largest()).is_lt()
    });
    level.files().get(at).is_some_and(|other| Arc::ptr_eq(other, file)).then_some(at)
}
