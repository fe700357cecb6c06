//! Range tombstones, the records of range deletions, cut into fragments that reads can search.
//!
//! Tombstones arrive in any order and may overlap. [`FragmentedRangeTombstones`] cuts them at the
//! start and end of every tombstone. Between two neighbouring cuts, the same set of tombstones then
//! applies everywhere. In this example, `[a, g) @ 5` is a deletion from `a` (inclusive) to `g`
//! (exclusive) with sequence number 5:
//!
//! ```text
//! given        [a, g) @ 5     [c, k) @ 9     [e, g) @ 2
//! cuts       a       c         e            g       k
//! sequences     {5}     {9, 5}   {9, 5, 2}     {9}
//! ```
//!
//! A read needs one binary search to find the two cuts around its key, and another to find the
//! newest sequence number between them that its snapshot sees.
//!
//! A tombstone stored in a file applies only between the file's smallest and largest internal key.
//! [`Truncation`] holds these two bounds, and a [`View`] is a set of fragments truncated to them. A
//! [`Cursor`] is a position in a view. It does not hold the view but borrows it at each call, so
//! that one owner can store both.
//!
//! Invariants: cuts are strictly ascending in the comparator's order; the sequence numbers between
//! two cuts are strictly descending; fragments never change once they are built.

mod cursor;
mod fragments;
mod index;
mod layers;
mod stripes;
#[cfg(test)]
mod tests;
mod truncation;

use std::cmp::Ordering;

use tailwater_format::Comparator;
use tailwater_format::key::{self, ParsedKey, Sequence, ValueType};

pub(crate) use cursor::Cursor;
pub(crate) use fragments::FragmentedRangeTombstones;
pub(crate) use index::{IndexCursor, TombstoneIndex};
pub(crate) use layers::TombstoneLayers;
pub(crate) use stripes::{StripedFragment, joined, striped_fragments};
pub(crate) use truncation::{Truncation, View};

/// A range deletion: it deletes every key in `[start, end)` with a sequence number below
/// `sequence`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RangeTombstone<'a> {
    /// Start of the deleted range of user keys, inclusive.
    pub(crate) start: &'a [u8],
    /// End of the deleted range of user keys, exclusive.
    pub(crate) end: &'a [u8],
    /// The sequence number of the range deletion.
    pub(crate) sequence: Sequence,
}

impl<'a> RangeTombstone<'a> {
    /// Parses an entry of a table's `rocksdb.range_del` block. The entry's key is an internal key:
    /// the start key with the sequence number and [`ValueType::RangeDeletion`]. The entry's value
    /// is the end key.
    ///
    /// # Errors
    /// Corruption, for a key that is not an internal key or has another type.
    pub(crate) fn from_entry(
        internal_key: &'a [u8],
        value: &'a [u8],
    ) -> tailwater_format::Result<Self> {
        let parsed = ParsedKey::parse(internal_key)?;
        if parsed.value_type != ValueType::RangeDeletion {
            return Err(tailwater_format::Error::corruption(
                "range tombstone",
                parsed.user_key.len(),
                "type RangeDeletion",
                format!("{:?}", parsed.value_type),
            ));
        }
        Ok(Self { start: parsed.user_key, end: value, sequence: parsed.sequence })
    }
}

/// A position between internal keys, at which a truncated tombstone starts or ends.
///
/// It has the form of an internal key (a user key and a packed trailer) and sorts like one. Its
/// type may be one that no record has; then it never equals the internal key of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Boundary<'a> {
    /// The user key.
    pub(crate) user_key: &'a [u8],
    /// `sequence << 8 | type`. Of two boundaries with the same user key, the one with the higher
    /// trailer comes first.
    pub(crate) trailer: u64,
}

impl<'a> Boundary<'a> {
    /// Returns the boundary with the user key and trailer of an internal key. Returns `None` if the
    /// bytes are shorter than a trailer.
    #[inline]
    pub(crate) fn from_internal_key(internal_key: &'a [u8]) -> Option<Self> {
        key::split(internal_key).map(|(user_key, trailer)| Self { user_key, trailer })
    }

    /// Compares two boundaries: first by user key; if the user keys are equal, the higher trailer
    /// comes first.
    #[inline]
    pub(crate) fn compare(self, comparator: &Comparator, other: Boundary<'_>) -> Ordering {
        comparator
            .compare(self.user_key, other.user_key)
            .then_with(|| other.trailer.cmp(&self.trailer))
    }

    /// Whether this boundary comes before the other one.
    #[inline]
    pub(crate) fn is_before(self, comparator: &Comparator, other: Boundary<'_>) -> bool {
        self.compare(comparator, other) == Ordering::Less
    }
}
