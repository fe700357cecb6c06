//! Key ranges of tables.

use std::cmp::Ordering;

use tailwater_format::Comparator;
use tailwater_format::key::{self, MAX_SEQUENCE, ValueType, pack_trailer};

/// The trailer of a table's largest key if that key is the end of a range tombstone. This end is
/// exclusive: the key itself is not in the table.
const EXCLUSIVE_END: u64 = pack_trailer(MAX_SEQUENCE, ValueType::RangeDeletion as u8);

/// The range from the smallest to the largest internal key of a group of tables, both inclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KeyRange<'k> {
    pub(super) smallest: &'k [u8],
    pub(super) largest: &'k [u8],
}

impl<'k> KeyRange<'k> {
    /// Returns the smallest range that contains both ranges.
    pub(super) fn union(self, other: Self, comparator: &Comparator) -> Self {
        let is_less = |a: &[u8], b: &[u8]| key::compare_internal(comparator, a, b).is_lt();
        let smallest =
            if is_less(other.smallest, self.smallest) { other.smallest } else { self.smallest };
        let largest =
            if is_less(self.largest, other.largest) { other.largest } else { self.largest };
        Self { smallest, largest }
    }

    /// Returns the smallest and the largest key as bounds within which to search for tables.
    pub(super) fn bounds(self) -> Bounds<'k> {
        Bounds { begin: Some(self.smallest), end: Some(self.largest) }
    }
}

/// The internal keys between which overlapping tables are looked up, both inclusive; `None` is
/// unbounded.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Bounds<'k> {
    pub(super) begin: Option<&'k [u8]>,
    pub(super) end: Option<&'k [u8]>,
}

/// Compares bounds of tables by their user keys. If these are equal, an exclusive end sorts before
/// any other bound.
pub(crate) fn compare_bounds(comparator: &Comparator, a: &[u8], b: &[u8]) -> Ordering {
    let (a_key, a_trailer) = key::split(a).unwrap_or((a, 0));
    let (b_key, b_trailer) = key::split(b).unwrap_or((b, 0));
    let order = comparator.compare(a_key, b_key);
    order.then((b_trailer == EXCLUSIVE_END).cmp(&(a_trailer == EXCLUSIVE_END)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn internal_key(user_key: &str, trailer: u64) -> Vec<u8> {
        let mut internal_key = Vec::new();
        key::put_internal_key(&mut internal_key, user_key.as_bytes(), trailer);
        internal_key
    }

    #[test]
    fn an_exclusive_end_comes_before_its_key() {
        let record = internal_key("k", pack_trailer(7, ValueType::Value as u8));
        let newer = internal_key("k", pack_trailer(9, ValueType::Value as u8));
        let end = internal_key("k", EXCLUSIVE_END);
        let before = internal_key("j", 0);
        let compare = |a: &[u8], b: &[u8]| compare_bounds(&Comparator::Bytewise, a, b);
        assert_eq!(compare(&record, &newer), Ordering::Equal);
        assert_eq!(compare(&end, &newer), Ordering::Less);
        assert_eq!(compare(&newer, &end), Ordering::Greater);
        assert_eq!(compare(&end, &end), Ordering::Equal);
        assert_eq!(compare(&end, &before), Ordering::Greater);
    }
}
