//! One source of records: a memtable, a table, or the tables of a level.

use std::path::Path;
use std::sync::Arc;

use tailwater_format::Comparator;
use tailwater_format::key::Sequence;

use crate::block_cache::Block;
use crate::cache::Cached;
use crate::error::Result;
use crate::handover::Warmth;
use crate::iterator::tombstones::{TombstoneCursor, TombstoneCursors};
use crate::iterator::{Direction, LevelIterator};
use crate::memtable::{self, MemTable};
use crate::prefix_extractor::PrefixExtractor;
use crate::table::{FileMetadata, SeekTo, StoredBlock, TableIterator, Wanted};

/// One source of records, in internal key order.
pub(crate) enum Leaf {
    /// A memtable.
    MemTable(MemTableIterator),
    /// A table of level 0.
    Table(TableLeaf),
    /// The tables of a level deeper than level 0. The key ranges of these tables do not overlap.
    Level(LevelIterator),
}

/// A position in a memtable. Holds a reference to the memtable, which keeps it in memory.
pub(crate) struct MemTableIterator {
    memtable: Arc<MemTable>,
    cursor: memtable::Cursor,
    tombstones: TombstoneCursors<()>,
}

/// A position in a table of level 0, with the table's tombstones.
pub(crate) struct TableLeaf {
    file: Arc<FileMetadata>,
    iterator: Box<TableIterator>,
    tombstones: TombstoneCursor,
}

/// Calls the same method on whichever variant the leaf is.
macro_rules! dispatch {
    ($self:ident, $memtable:ident => $call:expr, $other:ident => $other_call:expr) => {
        match $self {
            Leaf::MemTable($memtable) => $call,
            Leaf::Table(TableLeaf { iterator: $other, .. }) => $other_call,
            Leaf::Level($other) => $other_call,
        }
    };
}

impl Leaf {
    /// Creates a leaf over a memtable, and over the memtable's range tombstones with sequence
    /// numbers of at most `snapshot`.
    pub(crate) fn of_memtable(memtable: Arc<MemTable>, snapshot: Sequence) -> Self {
        let tombstones = TombstoneCursors::of_memtable(&memtable, snapshot);
        let cursor = memtable::Cursor::default();
        Self::MemTable(MemTableIterator { memtable, cursor, tombstones })
    }

    /// Creates a leaf over a table of level 0, and over the table's range tombstones with sequence
    /// numbers of at most `snapshot`. The tombstones are truncated to the table's bounds; see
    /// [`TombstoneCursor::of_table`].
    pub(crate) fn of_table(
        iterator: TableIterator,
        file: &Arc<FileMetadata>,
        snapshot: Sequence,
    ) -> Result<Self> {
        let tombstones = TombstoneCursor::of_table(iterator.table(), file, snapshot)?;
        let iterator = Box::new(iterator);
        Ok(Self::Table(TableLeaf { file: Arc::clone(file), iterator, tombstones }))
    }

    /// Whether this leaf reads exactly `memtable`.
    pub(crate) fn is_of_memtable(&self, memtable: &Arc<MemTable>) -> bool {
        matches!(self, Self::MemTable(leaf) if Arc::ptr_eq(&leaf.memtable, memtable))
    }

    /// Whether this leaf reads exactly this table of level 0.
    pub(crate) fn is_of_file(&self, file: &Arc<FileMetadata>) -> bool {
        matches!(self, Self::Table(leaf) if Arc::ptr_eq(&leaf.file, file))
    }

    /// Whether this leaf reads the tables of the level with this number.
    pub(crate) fn is_of_level(&self, number: usize) -> bool {
        matches!(self, Self::Level(level) if level.number() == number)
    }

    /// Replaces the leaf's range tombstones by those whose sequence number is at most `snapshot`.
    pub(crate) fn set_snapshot(&mut self, snapshot: Sequence) -> Result<()> {
        match self {
            Self::MemTable(leaf) => {
                leaf.tombstones = TombstoneCursors::of_memtable(&leaf.memtable, snapshot);
            }
            Self::Table(TableLeaf { file, iterator, tombstones }) => {
                *tombstones = TombstoneCursor::of_table(iterator.table(), file, snapshot)?;
            }
            Self::Level(level) => level.set_snapshot(snapshot),
        }
        Ok(())
    }

    /// Whether range tombstones of this leaf may cover records near the current position. False
    /// means that none does.
    #[inline]
    pub(crate) fn has_tombstones(&self) -> bool {
        match self {
            Self::MemTable(leaf) => !leaf.tombstones.is_empty(),
            Self::Table(leaf) => !leaf.tombstones.is_empty(),
            Self::Level(level) => !level.tombstones.is_empty(),
        }
    }

    /// Returns the sequence number of the newest of the leaf's range tombstones that covers the
    /// internal key with this user key and trailer. Keys must be passed in the order of
    /// `direction`. To change the order, first call [`Leaf::reset_tombstones`].
    pub(crate) fn covering(
        &mut self,
        comparator: &Comparator,
        user_key: &[u8],
        trailer: u64,
        direction: Direction,
    ) -> Option<Sequence> {
        match self {
            Self::MemTable(leaf) => {
                leaf.tombstones.covering(comparator, user_key, trailer, direction)
            }
            Self::Table(leaf) => leaf.tombstones.covering(comparator, user_key, trailer, direction),
            Self::Level(level) => level.covering(user_key, trailer, direction),
        }
    }

    /// Whether a newer range tombstone of this leaf hides the leaf's current record.
    pub(crate) fn covers_itself(&mut self, comparator: &Comparator, direction: Direction) -> bool {
        match self {
            Self::MemTable(leaf) => {
                leaf.tombstones.hides(comparator, leaf.cursor.key(&leaf.memtable), direction)
            }
            Self::Table(leaf) => leaf.tombstones.hides(comparator, leaf.iterator.key(), direction),
            Self::Level(level) => level.covers_itself(direction),
        }
    }

    /// Sets `out` to an edge of the range tombstone that `covering` found last. See
    /// [`TombstoneCursor::edge`].
    pub(crate) fn edge(&self, direction: Direction, out: &mut Vec<u8>) {
        match self {
            Self::MemTable(leaf) => leaf.tombstones.edge(direction, out),
            Self::Table(leaf) => leaf.tombstones.edge(direction, out),
            Self::Level(level) => level.tombstones.edge(direction, out),
        }
    }

    /// Resets the position among the leaf's range tombstones. The next call of `covering` may then
    /// be given any key, and later calls may continue in ascending or descending order.
    pub(crate) fn reset_tombstones(&mut self) {
        match self {
            Self::MemTable(leaf) => leaf.tombstones.reset(),
            Self::Table(leaf) => leaf.tombstones.reset(),
            Self::Level(level) => level.reset_tombstones(),
        }
    }

    /// Sets the prefix extractor, if the leaf is a table of level 0. Otherwise does nothing: a
    /// [`LevelIterator`] sets it on its own table iterators.
    pub(crate) fn set_prefixes(&mut self, prefixes: Option<PrefixExtractor>) {
        if let Self::Table(leaf) = self {
            leaf.iterator.set_prefixes(prefixes);
        }
    }

    /// Sets whether later seeks check prefix filters. If a filter then shows that no key has the
    /// target's prefix, the seek leaves this leaf without a position.
    pub(crate) fn ask_prefix_filter(&mut self, ask: bool) {
        dispatch!(self, _leaf => (), leaf => leaf.ask_prefix_filter(ask));
    }

    /// Returns the path of the table that has the current record; `None` in a memtable.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Self::MemTable(_) => None,
            Self::Table(leaf) => Some(leaf.iterator.table().file().path()),
            Self::Level(level) => level.path(),
        }
    }

    /// Returns the iterator of the current table; `None` in a memtable, and if a level has no
    /// current table. The caller must not move the table's iterator out of its block.
    #[inline(always)]
    pub(crate) fn table_mut(&mut self) -> Option<&mut TableIterator> {
        match self {
            Self::MemTable(_) => None,
            Self::Table(leaf) => Some(&mut leaf.iterator),
            Self::Level(level) => level.table_mut(),
        }
    }

    /// Returns the data block that the leaf left last in its current table, if its stored bytes are
    /// in memory.
    pub(crate) fn left_block(&self) -> Option<StoredBlock<'_>> {
        match self {
            Self::MemTable(_) => None,
            Self::Table(leaf) => leaf.iterator.left_block(),
            Self::Level(level) => level.left_block(),
        }
    }

    /// Whether the leaf is positioned on a record.
    #[inline]
    pub(crate) fn valid(&self) -> bool {
        dispatch!(self, leaf => leaf.cursor.valid(), leaf => leaf.valid())
    }

    /// Returns the current internal key.
    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        dispatch!(self, leaf => leaf.cursor.key(&leaf.memtable), leaf => leaf.key())
    }

    /// Returns the current value.
    #[inline]
    pub(crate) fn value(&self) -> &[u8] {
        dispatch!(self, leaf => leaf.cursor.value(&leaf.memtable), leaf => leaf.value())
    }

    /// Returns the current internal key and value.
    #[inline(always)]
    pub(crate) fn entry(&self) -> (&[u8], &[u8]) {
        dispatch!(
            self,
            leaf => (leaf.cursor.key(&leaf.memtable), leaf.cursor.value(&leaf.memtable)),
            leaf => leaf.entry()
        )
    }

    #[inline]
    pub(crate) fn warmth(&self) -> Warmth {
        dispatch!(self, _leaf => Warmth::default(), leaf => leaf.warmth())
    }

    /// Moves to the first record.
    pub(crate) fn seek_to_first(&mut self) -> Result<()> {
        dispatch!(self, leaf => {
            leaf.cursor.seek_to_first(&leaf.memtable);
            Ok(())
        }, leaf => leaf.seek_to_first())
    }

    /// Moves to the last record.
    pub(crate) fn seek_to_last(&mut self) -> Result<()> {
        dispatch!(self, leaf => {
            leaf.cursor.seek_to_last(&leaf.memtable);
            Ok(())
        }, leaf => leaf.seek_to_last())
    }

    /// Prepares a seek: see [`TableIterator::prepare`]. Returns `None` for a memtable.
    pub(crate) fn prepare(&mut self, to: SeekTo<'_>) -> Option<Wanted> {
        dispatch!(self, _leaf => None, leaf => leaf.prepare(to))
    }

    /// Drops what [`Self::prepare`] has prepared. To be called if its seek will not be made.
    pub(crate) fn drop_prepared(&mut self) {
        dispatch!(self, _leaf => (), leaf => leaf.drop_prepared());
    }

    /// Hands over the block that [`Self::prepare`] returned.
    pub(crate) fn hand_over(&mut self, wanted: &Wanted, block: Arc<Cached<Block>>) {
        dispatch!(self, _leaf => (), leaf => leaf.hand_over(wanted, block));
    }

    /// Moves to the first record at or after an internal key.
    pub(crate) fn seek(&mut self, target: &[u8]) -> Result<()> {
        dispatch!(self, leaf => {
            leaf.cursor.seek(&leaf.memtable, target);
            Ok(())
        }, leaf => leaf.seek(target))
    }

    /// Moves to the last record at or before an internal key.
    pub(crate) fn seek_for_prev(&mut self, target: &[u8]) -> Result<()> {
        dispatch!(self, leaf => {
            leaf.cursor.seek_for_previous(&leaf.memtable, target);
            Ok(())
        }, leaf => leaf.seek_for_prev(target))
    }

    /// Moves to the next record.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<()> {
        dispatch!(self, leaf => {
            leaf.cursor.next(&leaf.memtable);
            Ok(())
        }, leaf => leaf.next())
    }

    /// Moves to the previous record.
    #[inline]
    pub(crate) fn previous(&mut self) -> Result<()> {
        dispatch!(self, leaf => {
            leaf.cursor.previous(&leaf.memtable);
            Ok(())
        }, leaf => leaf.previous())
    }
}
