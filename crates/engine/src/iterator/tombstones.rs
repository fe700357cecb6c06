//! What the range tombstones of a source cover at the place an iterator has reached.

use std::sync::Arc;

use tailwater_format::Comparator;
use tailwater_format::key::{self, Sequence};

use crate::range_tombstone::{Boundary, Cursor, FragmentedRangeTombstones, Truncation, View};
use crate::table::TableReader;
use crate::version::FileMetadata;
use crate::{Error, Result};

/// A range tombstone that hides a record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cover {
    /// The leaf that has the tombstone.
    pub(crate) source: usize,
    /// Whether the record's leaf is an older one, in which the tombstone hides everything it
    /// covers.
    pub(crate) below: bool,
}

/// The range tombstones of one table or memtable, and the fragment an iterator is at.
///
/// Keys are asked for in order, one way or the other, so that most are answered from the fragment
/// of the last answer.
pub(crate) struct TombstoneCursor {
    fragments: Arc<FragmentedRangeTombstones>,
    truncation: Option<Truncation>,
    cursor: Cursor,
    /// Whether the cursor stands at the first fragment that ends behind the last key asked for.
    placed: bool,
}

impl TombstoneCursor {
    /// The tombstones of a memtable at or below `snapshot`.
    pub(crate) fn of_memtable(
        fragments: Arc<FragmentedRangeTombstones>,
        snapshot: Sequence,
    ) -> Self {
        Self { fragments, truncation: None, cursor: Cursor::new(snapshot), placed: false }
    }

    /// The tombstones of a table at or below `snapshot`. They end with the file: a table that was
    /// cut out of a longer run still holds them as they were written, and what they cover beside it
    /// may have gone to a deeper level and lost its sequence numbers.
    pub(crate) fn of_table(
        table: &TableReader,
        file: &FileMetadata,
        snapshot: Sequence,
    ) -> Result<Self> {
        let truncation = Truncation::new(file.smallest(), file.largest())
            .map_err(|error| Error::decoding(table.file().path(), 0, error))?;
        Ok(Self {
            fragments: Arc::clone(table.range_tombstones()),
            truncation: Some(truncation),
            cursor: Cursor::new(snapshot),
            placed: false,
        })
    }

    /// Whether there is none.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.fragments.is_empty()
    }

    /// Forgets the place: the next key may be anywhere.
    pub(crate) fn reset(&mut self) {
        self.placed = false;
    }

    /// The newest tombstone that covers the internal key of these parts. Keys come in ascending
    /// order where `forward` is set, in descending order where not, until
    /// [`TombstoneCursor::reset`].
    pub(crate) fn covering(
        &mut self,
        comparator: &Comparator,
        user_key: &[u8],
        trailer: u64,
        forward: bool,
    ) -> Option<Sequence> {
        let key = Boundary { user_key, trailer };
        if forward {
            self.covering_forward(comparator, key)
        } else {
            self.covering_backward(comparator, key)
        }
    }

    fn covering_forward(&mut self, comparator: &Comparator, key: Boundary<'_>) -> Option<Sequence> {
        let view = view(&self.fragments, self.truncation.as_ref());
        let cursor = &mut self.cursor;
        let behind = |cursor: &Cursor| !key.is_before(comparator, cursor.end(view));
        if !self.placed {
            cursor.seek_boundary(view, key);
            self.placed = true;
        }
        if cursor.valid() && behind(cursor) {
            cursor.next(view);
            if cursor.valid() && behind(cursor) {
                cursor.seek_boundary(view, key);
            }
        }
        if cursor.valid() && key.is_before(comparator, cursor.start(view)) {
            return None;
        }
        cursor.valid().then(|| cursor.sequence(view))
    }

    fn covering_backward(
        &mut self,
        comparator: &Comparator,
        key: Boundary<'_>,
    ) -> Option<Sequence> {
        let view = view(&self.fragments, self.truncation.as_ref());
        let cursor = &mut self.cursor;
        if !self.placed {
            cursor.seek_boundary(view, key);
            self.placed = true;
            if !cursor.valid() {
                // Nothing ends behind the key: nothing covers it, but what comes before it may be
                // covered.
                cursor.seek_to_last(view);
            }
        }
        while cursor.valid() && key.is_before(comparator, cursor.start(view)) {
            cursor.previous(view);
        }
        let covered = cursor.valid() && key.is_before(comparator, cursor.end(view));
        covered.then(|| cursor.sequence(view))
    }

    /// Writes where the fragment that answered last ends, or with `forward` false begins, as an
    /// internal key.
    pub(crate) fn edge(&self, forward: bool, out: &mut Vec<u8>) {
        let view = view(&self.fragments, self.truncation.as_ref());
        let edge = if forward { self.cursor.end(view) } else { self.cursor.start(view) };
        out.clear();
        key::put_internal_key(out, edge.user_key, edge.trailer);
    }
}

/// Whether one of a source's tombstones hides a record of the same source.
pub(crate) fn hides(
    tombstones: &mut TombstoneCursor,
    comparator: &Comparator,
    internal_key: &[u8],
    forward: bool,
) -> bool {
    key::split(internal_key).is_some_and(|(user_key, trailer)| {
        let covering = tombstones.covering(comparator, user_key, trailer, forward);
        covering.is_some_and(|sequence| sequence > trailer >> 8)
    })
}

fn view<'a>(
    fragments: &'a FragmentedRangeTombstones,
    truncation: Option<&'a Truncation>,
) -> View<'a> {
    match truncation {
        Some(truncation) => fragments.truncated(truncation),
        None => fragments.view(),
    }
}
