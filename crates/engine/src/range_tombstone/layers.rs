//! The range tombstones of a growing memtable, as a log-structured set of indexes.
//!
//! A new tombstone becomes an index of its own. As long as the index before it is less than
//! [`GROWTH`] times as large, the two are merged. So each index is several times as large as the
//! one after it. With n tombstones, a read searches O(log n) indexes, and each tombstone is
//! rewritten O(log n) times.

use std::sync::Arc;

use tailwater_format::Comparator;
use tailwater_format::key::Sequence;

use super::{RangeTombstone, TombstoneIndex};

/// Each index has at least this many times as many tombstones as the next smaller index.
const GROWTH: usize = 4;

/// The range tombstones of a memtable at a point in time. Immutable.
#[derive(Default)]
pub(crate) struct TombstoneLayers {
    /// The indexes among which the tombstones are divided. The index with the most tombstones comes
    /// first.
    indexes: Vec<Arc<TombstoneIndex>>,
}

impl TombstoneLayers {
    /// Returns a copy with one more tombstone; `None` if there already is a tombstone with the same
    /// start and sequence number.
    pub(crate) fn with(
        &self,
        comparator: &Comparator,
        tombstone: RangeTombstone<'_>,
    ) -> Option<Self> {
        let RangeTombstone { start, sequence, .. } = tombstone;
        if self.indexes.iter().any(|index| index.has(start, sequence)) {
            return None;
        }
        let mut indexes = self.indexes.clone();
        let mut last = TombstoneIndex::of(comparator, tombstone);
        while let Some(smaller) = indexes.pop_if(|it| it.len() < GROWTH * last.len()) {
            last = smaller.merged(&last);
        }
        indexes.push(Arc::new(last));
        Some(Self { indexes })
    }

    /// Returns the tombstone indexes of which this set consists. The index with the most tombstones
    /// comes first.
    #[inline]
    pub(crate) fn indexes(&self) -> &[Arc<TombstoneIndex>] {
        &self.indexes
    }

    /// Returns the sequence number of the newest tombstone that covers the user key and whose
    /// sequence number is at most `snapshot`.
    #[inline]
    pub(crate) fn covering(&self, user_key: &[u8], snapshot: Sequence) -> Option<Sequence> {
        // Searches the indexes from the last to the first. The last ones usually have the newest
        // tombstones. An index is skipped if all its tombstones are older than the one found.
        self.indexes.iter().rev().fold(None, |newest, index| {
            if newest >= Some(index.newest()) {
                newest
            } else {
                newest.max(index.covering(user_key, snapshot))
            }
        })
    }

    /// Returns the tombstones, in no particular order. A tombstone that deletes nothing ends where
    /// it starts.
    pub(crate) fn iter(&self) -> impl Iterator<Item = RangeTombstone<'_>> {
        self.indexes.iter().flat_map(|index| index.iter())
    }

    /// Whether a tombstone covers a key in the range from `first` to `last`, both inclusive.
    pub(crate) fn overlaps(&self, first: &[u8], last: &[u8]) -> bool {
        self.indexes.iter().any(|index| index.overlaps(first, last))
    }

    /// Returns the memory of the indexes, in bytes.
    pub(crate) fn memory_usage(&self) -> usize {
        let of = |index: &Arc<TombstoneIndex>| size_of::<TombstoneIndex>() + index.memory_usage();
        self.indexes.iter().map(of).sum()
    }
}
