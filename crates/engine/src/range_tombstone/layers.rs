//! The tombstones of a memtable that grows, as indexes of growing size.
//!
//! A new tombstone is an index of its own. It is merged with the smaller ones before it, so that
//! each index is several times as large as the next: a read asks as many as the logarithm of the
//! number of tombstones, and each tombstone is written anew about as often.

use std::sync::Arc;

use tailwater_format::Comparator;
use tailwater_format::key::Sequence;

use super::{RangeTombstone, TombstoneIndex};

/// An index is at least so many times as large as the next.
const GROWTH: usize = 4;

/// The tombstones of a memtable at one moment. It never changes.
#[derive(Default)]
pub(crate) struct TombstoneLayers {
    /// The largest first.
    indexes: Vec<Arc<TombstoneIndex>>,
}

impl TombstoneLayers {
    /// These and one more; `None` if there is one already with its start and sequence number.
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

    /// The indexes, in no order that matters.
    #[inline]
    pub(crate) fn indexes(&self) -> &[Arc<TombstoneIndex>] {
        &self.indexes
    }

    /// The newest tombstone at or below the snapshot that covers the user key.
    #[inline]
    pub(crate) fn covering(&self, user_key: &[u8], snapshot: Sequence) -> Option<Sequence> {
        // The last ones are the newest, mostly, and the rest need not be asked then.
        self.indexes.iter().rev().fold(None, |newest, index| match newest >= Some(index.newest()) {
            true => newest,
            false => newest.max(index.covering(user_key, snapshot)),
        })
    }

    /// The tombstones, in no order. One that deletes nothing ends where it starts.
    pub(crate) fn iter(&self) -> impl Iterator<Item = RangeTombstone<'_>> {
        self.indexes.iter().flat_map(|index| index.iter())
    }

    /// Whether nothing is deleted.
    pub(crate) fn deletes_nothing(&self) -> bool {
        self.indexes.iter().all(|index| index.deletes_nothing())
    }

    /// Whether a tombstone covers a key from `first` to `last`, both included.
    pub(crate) fn overlaps(&self, first: &[u8], last: &[u8]) -> bool {
        self.indexes.iter().any(|index| index.overlaps(first, last))
    }

    /// The bytes that they take.
    pub(crate) fn memory_usage(&self) -> usize {
        let of = |index: &Arc<TombstoneIndex>| size_of::<TombstoneIndex>() + index.memory_usage();
        self.indexes.iter().map(of).sum()
    }
}
