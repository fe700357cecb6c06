//! Cursors that find the range tombstones of a source that cover an iterator's current key.

use std::sync::Arc;

use tailwater_format::Comparator;
use tailwater_format::key::{self, Sequence};

use crate::error::{Error, Result};
use crate::iterator::Direction;
use crate::memtable::MemTable;
use crate::range_tombstone::{
    Boundary, Cursor, FragmentedRangeTombstones, IndexCursor, TombstoneIndex, Truncation, View,
};
use crate::table::{FileMetadata, TableReader};

/// A range tombstone that hides the merging iterator's current record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cover {
    /// Index of the leaf that has the tombstone.
    pub(crate) source: usize,
    /// Whether the record's leaf (source of the merge) is older than the tombstone's. In older
    /// leaves, the tombstone hides every record whose key it covers. In its own leaf, it hides only
    /// records with lower sequence numbers.
    pub(crate) below: bool,
}

/// A position among the range tombstones of a table, or of one index of a memtable. The tombstones
/// are split into fragments, which do not overlap.
///
/// Keys are looked up in ascending or descending order, so most of them are in the current fragment
/// or near it.
pub(crate) struct TombstoneCursor {
    place: FragmentPosition,
    /// Whether a lookup has set `place`. If so, `place` is the fragment that contains the key
    /// looked up last or, if no fragment does, the next fragment in the direction of the lookups.
    /// If not, the next lookup seeks.
    placed: bool,
}

/// A position among the fragments of a table, or of one index of a memtable.
enum FragmentPosition {
    Table(TableFragmentPosition),
    MemTable { index: Arc<TombstoneIndex>, cursor: IndexCursor },
}

struct TableFragmentPosition {
    fragments: Arc<FragmentedRangeTombstones>,
    truncation: Truncation,
    cursor: Cursor,
}

impl TombstoneCursor {
    /// Creates a cursor over those tombstones of a memtable's index whose sequence number is at
    /// most `snapshot`.
    pub(crate) fn of_index(index: Arc<TombstoneIndex>, snapshot: Sequence) -> Self {
        let cursor = IndexCursor::new(snapshot);
        Self { place: FragmentPosition::MemTable { index, cursor }, placed: false }
    }

    /// Creates a cursor over those tombstones of a table whose sequence number is at most
    /// `snapshot`, truncated to the table's bounds.
    ///
    /// A tombstone stored in a table may extend past the table's bounds. It must not apply there:
    /// the records that it covers there may have moved to a deeper level, and their sequence
    /// numbers may have been set to 0.
    pub(crate) fn of_table(
        table: &TableReader,
        file: &FileMetadata,
        snapshot: Sequence,
    ) -> Result<Self> {
        let truncation = Truncation::new(file.smallest(), file.largest())
            .map_err(|error| Error::decoding(table.file().path(), 0, error))?;
        let fragments = Arc::clone(table.range_tombstones());
        let place = TableFragmentPosition { fragments, truncation, cursor: Cursor::new(snapshot) };
        Ok(Self { place: FragmentPosition::Table(place), placed: false })
    }

    /// Whether the tombstones delete no key at all.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        match &self.place {
            FragmentPosition::Table(table) => table.fragments.is_empty(),
            FragmentPosition::MemTable { index, .. } => index.deletes_nothing(),
        }
    }

    /// Resets the position. The next call of `covering` may then be given any key, and later calls
    /// may continue in ascending or descending order.
    pub(crate) fn reset(&mut self) {
        self.placed = false;
    }

    /// Returns the sequence number of the newest tombstone that covers the internal key with this
    /// user key and trailer. Keys must be passed in the order of `direction`. To change the order,
    /// first call [`TombstoneCursor::reset`].
    pub(crate) fn covering(
        &mut self,
        comparator: &Comparator,
        user_key: &[u8],
        trailer: u64,
        direction: Direction,
    ) -> Option<Sequence> {
        let key = Boundary { user_key, trailer };
        match direction {
            Direction::Forward => self.covering_forward(comparator, key),
            Direction::Backward => self.covering_backward(comparator, key),
        }
    }

    fn covering_forward(&mut self, comparator: &Comparator, key: Boundary<'_>) -> Option<Sequence> {
        let place = &mut self.place;
        let is_behind = |place: &FragmentPosition| {
            place.end().is_some_and(|end| !key.is_before(comparator, end))
        };
        if !self.placed {
            place.seek(key);
            self.placed = true;
        }
        if is_behind(place) {
            place.next();
            if is_behind(place) {
                place.seek(key);
            }
        }
        let starts_later = place.start().is_some_and(|start| key.is_before(comparator, start));
        if starts_later { None } else { place.sequence() }
    }

    fn covering_backward(
        &mut self,
        comparator: &Comparator,
        key: Boundary<'_>,
    ) -> Option<Sequence> {
        let place = &mut self.place;
        if !self.placed {
            place.seek(key);
            self.placed = true;
            if place.sequence().is_none() {
                // No fragment ends after the key, so no tombstone covers it. But fragments may
                // cover the keys looked up next, which are lower.
                place.seek_to_last();
            }
        }
        while place.start().is_some_and(|start| key.is_before(comparator, start)) {
            place.previous();
        }
        let is_covered = place.end().is_some_and(|end| key.is_before(comparator, end));
        if is_covered { place.sequence() } else { None }
    }

    /// Whether one of the tombstones hides a record of the same source: the tombstone covers the
    /// record's key and has a greater sequence number.
    pub(crate) fn hides(
        &mut self,
        comparator: &Comparator,
        internal_key: &[u8],
        direction: Direction,
    ) -> bool {
        key::split(internal_key).is_some_and(|(user_key, trailer)| {
            let covering = self.covering(comparator, user_key, trailer, direction);
            covering.is_some_and(|sequence| sequence > trailer >> 8)
        })
    }

    /// Sets `out` to the edge in `direction` of the deleted key range around the current fragment,
    /// as an internal key: forward, the exclusive end; backward, the inclusive start. In a table,
    /// this key range is the current fragment alone. In a memtable's index, it includes the
    /// neighbouring fragments that visible tombstones delete as well.
    pub(crate) fn edge(&self, direction: Direction, out: &mut Vec<u8>) {
        let edge = match (&self.place, direction) {
            (FragmentPosition::MemTable { index, cursor }, _) if cursor.sequence().is_some() => {
                Some(cursor.covered_edge(index, direction == Direction::Forward))
            }
            (place, Direction::Forward) => place.end(),
            (place, Direction::Backward) => place.start(),
        };
        out.clear();
        if let Some(edge) = edge {
            key::put_internal_key(out, edge.user_key, edge.trailer);
        }
    }
}

impl FragmentPosition {
    /// Returns the sequence number of the current fragment's newest tombstone that the snapshot can
    /// see; `None` without a current fragment.
    #[inline]
    fn sequence(&self) -> Option<Sequence> {
        match self {
            Self::Table(table) if table.cursor.valid() => Some(table.cursor.sequence(table.view())),
            Self::Table(_) => None,
            Self::MemTable { cursor, .. } => cursor.sequence(),
        }
    }

    /// Returns the inclusive start of the current fragment.
    #[inline]
    fn start(&self) -> Option<Boundary<'_>> {
        self.sequence()?;
        Some(match self {
            Self::Table(table) => table.cursor.start(table.view()),
            Self::MemTable { index, cursor } => cursor.start(index),
        })
    }

    /// Returns the exclusive end of the current fragment.
    #[inline]
    fn end(&self) -> Option<Boundary<'_>> {
        self.sequence()?;
        Some(match self {
            Self::Table(table) => table.cursor.end(table.view()),
            Self::MemTable { index, cursor } => cursor.end(index),
        })
    }

    /// Moves to the first fragment that ends after a key.
    fn seek(&mut self, key: Boundary<'_>) {
        match self {
            Self::Table(table) => table.go(|cursor, view| cursor.seek_boundary(view, key)),
            Self::MemTable { index, cursor } => cursor.seek(index, key.user_key),
        }
    }

    fn seek_to_last(&mut self) {
        match self {
            Self::Table(table) => table.go(Cursor::seek_to_last),
            Self::MemTable { index, cursor } => cursor.seek_to_last(index),
        }
    }

    fn next(&mut self) {
        match self {
            Self::Table(table) => table.go(Cursor::next),
            Self::MemTable { index, cursor } => cursor.next(index),
        }
    }

    fn previous(&mut self) {
        match self {
            Self::Table(table) => table.go(Cursor::previous),
            Self::MemTable { index, cursor } => cursor.previous(index),
        }
    }
}

impl TableFragmentPosition {
    #[inline]
    fn view(&self) -> View<'_> {
        self.fragments.truncated(&self.truncation)
    }

    #[inline]
    fn go(&mut self, go: impl FnOnce(&mut Cursor, View<'_>)) {
        go(&mut self.cursor, self.fragments.truncated(&self.truncation));
    }
}

/// The range tombstones of a source with several cursors: one for each index of a memtable, or for
/// each table of a level that the iterator has reached. `P` identifies the part of the source to
/// which a cursor belongs.
pub(crate) struct TombstoneCursors<P> {
    cursors: Vec<(P, TombstoneCursor)>,
    /// Index of the cursor with the tombstone that the method `covering` found last.
    answered: usize,
}

impl TombstoneCursors<()> {
    /// Creates cursors over a memtable's tombstones whose sequence number is at most `snapshot`.
    pub(crate) fn of_memtable(memtable: &MemTable, snapshot: Sequence) -> Self {
        let layers = memtable.tombstones();
        let indexes = layers.iter().flat_map(|layers| layers.indexes());
        let indexes = indexes.filter(|index| !index.deletes_nothing());
        let cursor = |index| ((), TombstoneCursor::of_index(Arc::clone(index), snapshot));
        Self { cursors: indexes.map(cursor).collect(), answered: 0 }
    }
}

impl<P> TombstoneCursors<P> {
    /// Creates a source's tombstones without a cursor.
    pub(crate) fn none() -> Self {
        Self { cursors: Vec::new(), answered: 0 }
    }

    /// Adds a cursor with tombstones of a part of the source.
    pub(crate) fn push(&mut self, part: P, cursor: TombstoneCursor) {
        self.cursors.push((part, cursor));
    }

    /// Returns the parts of the source that have a cursor.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &P> {
        self.cursors.iter().map(|(part, _)| part)
    }

    /// Keeps only the cursors of the parts for which `keep` returns true.
    pub(crate) fn retain(&mut self, keep: impl Fn(&P) -> bool) {
        self.cursors.retain(|(part, _)| keep(part));
    }

    /// Whether the tombstones delete no key at all.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.cursors.is_empty()
    }

    /// Resets the position. The next call of `covering` may then be given any key, and later calls
    /// may continue in ascending or descending order.
    pub(crate) fn reset(&mut self) {
        self.cursors.iter_mut().for_each(|(_, cursor)| cursor.reset());
    }

    /// Returns the sequence number of the newest tombstone that covers a key. The parameters are
    /// those of [`TombstoneCursor::covering`].
    pub(crate) fn covering(
        &mut self,
        comparator: &Comparator,
        user_key: &[u8],
        trailer: u64,
        direction: Direction,
    ) -> Option<Sequence> {
        let mut newest = None;
        for (at, (_, cursor)) in self.cursors.iter_mut().enumerate() {
            let covering = cursor.covering(comparator, user_key, trailer, direction);
            if covering > newest {
                newest = covering;
                self.answered = at;
            }
        }
        newest
    }

    /// Whether one of the tombstones hides a record of the source. See [`TombstoneCursor::hides`].
    pub(crate) fn hides(
        &mut self,
        comparator: &Comparator,
        internal_key: &[u8],
        direction: Direction,
    ) -> bool {
        let mut cursors = self.cursors.iter_mut();
        cursors.any(|(_, cursor)| cursor.hides(comparator, internal_key, direction))
    }

    /// Sets `out` to an edge of the deleted key range around the tombstone that the latest call of
    /// `covering` found. See [`TombstoneCursor::edge`].
    pub(crate) fn edge(&self, direction: Direction, out: &mut Vec<u8>) {
        if let Some((_, cursor)) = self.cursors.get(self.answered) {
            cursor.edge(direction, out);
        }
    }
}
