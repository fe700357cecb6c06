//! Truncation of fragments to a file's bounds.
//!
//! A tombstone that spans several files of a level is stored in each of them. In each file, it
//! applies only between that file's smallest and largest internal key. The bounds are internal keys
//! and not user keys, because versions of one user key may be in two neighbouring files. Source:
//! `db/range_del_aggregator.cc`, `db/dbformat.h`.

use tailwater_format::key::{MAX_SEQUENCE, ValueType, pack_trailer};
use tailwater_format::{Error, Result};

use super::{Boundary, FragmentedRangeTombstones};

/// A type greater than those of all records (RocksDB's `kTypeMaxValid`). A boundary of this type
/// sorts directly before the records with the same user key and sequence number.
const BEFORE_RECORDS: u8 = 0x1A;

/// The bounds of a file, to which its range tombstones are truncated.
#[derive(Debug, Clone)]
pub(crate) struct Truncation {
    /// The lower bound, inclusive.
    smallest: Option<OwnedBoundary>,
    /// The upper bound, exclusive.
    largest: Option<OwnedBoundary>,
}

#[derive(Debug, Clone)]
struct OwnedBoundary {
    user_key: Box<[u8]>,
    trailer: u64,
}

impl Truncation {
    /// No bounds, so that nothing is truncated.
    pub(crate) const NONE: &'static Self = &Self { smallest: None, largest: None };

    /// Returns the bounds of a file. `smallest` and `largest` are its smallest and largest internal
    /// key, as recorded in its version edit.
    ///
    /// Tombstones of the file apply from `smallest` on, inclusive. Where they end depends on
    /// `largest`:
    /// - If its sequence number and type are [`MAX_SEQUENCE`] and [`ValueType::RangeDeletion`], it
    ///   is a sentinel made from the end key of a tombstone. The upper bound is `largest` itself,
    ///   exclusive: no version of its user key is in the file.
    /// - If its sequence number is 0, the upper bound is also `largest` itself, exclusive: no older
    ///   version of its user key can be in the next file, so no tombstone was cut at this key.
    /// - Otherwise it is the key of a record in the file. The upper bound is directly after it: the
    ///   tombstones apply to this record, but not to older versions of its user key.
    ///
    /// # Errors
    /// Corruption, for a key that is shorter than a trailer.
    pub(crate) fn new(smallest: &[u8], largest: &[u8]) -> Result<Self> {
        let smallest = parse("smallest key of a file", smallest)?;
        let largest = parse("largest key of a file", largest)?;
        let smallest_trailer = pack_trailer(smallest.trailer >> 8, BEFORE_RECORDS);
        let sentinel = pack_trailer(MAX_SEQUENCE, ValueType::RangeDeletion as u8);
        let largest_trailer = match largest.trailer >> 8 {
            0 => largest.trailer,
            _ if largest.trailer == sentinel => sentinel,
            sequence => pack_trailer(sequence - 1, BEFORE_RECORDS),
        };
        Ok(Self {
            smallest: Some(OwnedBoundary::new(smallest.user_key, smallest_trailer)),
            largest: Some(OwnedBoundary::new(largest.user_key, largest_trailer)),
        })
    }
}

impl OwnedBoundary {
    fn new(user_key: &[u8], trailer: u64) -> Self {
        Self { user_key: user_key.into(), trailer }
    }

    #[inline]
    fn as_boundary(&self) -> Boundary<'_> {
        Boundary { user_key: &self.user_key, trailer: self.trailer }
    }
}

fn parse<'a>(what: &'static str, internal_key: &'a [u8]) -> Result<Boundary<'a>> {
    Boundary::from_internal_key(internal_key)
        .ok_or_else(|| Error::truncated(what, internal_key.len()))
}

/// Fragments of a file's range tombstones, truncated to the file's bounds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View<'a> {
    pub(super) fragments: &'a FragmentedRangeTombstones,
    truncation: &'a Truncation,
}

impl<'a> View<'a> {
    /// Creates a view of `fragments` that is truncated to a file's bounds.
    #[inline]
    pub(crate) fn new(
        fragments: &'a FragmentedRangeTombstones,
        truncation: &'a Truncation,
    ) -> Self {
        Self { fragments, truncation }
    }

    #[inline]
    pub(super) fn smallest(self) -> Option<Boundary<'a>> {
        self.truncation.smallest.as_ref().map(OwnedBoundary::as_boundary)
    }

    #[inline]
    pub(super) fn largest(self) -> Option<Boundary<'a>> {
        self.truncation.largest.as_ref().map(OwnedBoundary::as_boundary)
    }
}

/// Returns the boundary before all records of a user key. A tombstone whose end key is this user
/// key ends at this boundary.
#[inline]
pub(super) fn first_version(user_key: &[u8]) -> Boundary<'_> {
    let trailer = pack_trailer(MAX_SEQUENCE, ValueType::RangeDeletion as u8);
    Boundary { user_key, trailer }
}
