//! Reduction of range tombstones to those that snapshots can distinguish.
//!
//! A stripe is the range of sequence numbers between two neighbouring snapshots. Of the tombstones
//! of a stripe that cover a key, only the newest is visible. Only these visible tombstones are
//! written to tables, in fragments that do not overlap. Fragments are cut wherever a tombstone
//! begins or ends, as in RocksDB, and neighbours with the same tombstones are joined again. Source:
//! `FragmentedRangeTombstoneList` in `db/range_tombstone_fragmenter.cc`, as used by flushes and
//! compactions.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use tailwater_format::Comparator;
use tailwater_format::key::Sequence;

use super::RangeTombstone;

/// A range of keys covered by the same tombstones, not counting tombstones that a newer one hides
/// from every snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StripedFragment<'a> {
    /// The range's first user key.
    pub(crate) start: &'a [u8],
    /// The range's end, exclusive.
    pub(crate) end: &'a [u8],
    /// For each stripe with a tombstone, the sequence number of its newest one. Newest first.
    pub(crate) sequences: Vec<Sequence>,
}

/// Returns the fragments of tombstones, which may be given in any order. Fragments are cut wherever
/// a tombstone begins or ends, and have the newest tombstone of each stripe. `below` returns the
/// snapshot right below the stripe of a sequence number, if there is one. Takes time for sorting,
/// plus linear time in the size of input and output.
pub(crate) fn striped_fragments<'a>(
    comparator: &Comparator,
    tombstones: impl IntoIterator<Item = RangeTombstone<'a>>,
    below: impl Fn(Sequence) -> Option<Sequence>,
) -> Vec<StripedFragment<'a>> {
    let deletes = |it: &RangeTombstone<'_>| comparator.compare(it.start, it.end).is_lt();
    let mut starts: Vec<RangeTombstone<'a>> = tombstones.into_iter().filter(deletes).collect();
    let mut ends = starts.clone();
    starts.sort_by(|a, b| comparator.compare(a.start, b.start));
    ends.sort_by(|a, b| comparator.compare(a.end, b.end));
    let (mut starts, mut ends) = (starts.into_iter().peekable(), ends.into_iter().peekable());
    let mut fragments: Vec<StripedFragment<'a>> = Vec::new();
    let mut begun_at: &'a [u8] = &[];
    // For each sequence number, the number of its tombstones that cover the current fragment.
    let mut active: BTreeMap<Sequence, usize> = BTreeMap::new();
    // Every tombstone starts before it ends, so the ends are never exhausted before the starts.
    while let Some(&next_end) = ends.peek() {
        let cut = match starts.peek() {
            Some(next) if comparator.compare(next.start, next_end.end).is_lt() => next.start,
            _ => next_end.end,
        };
        if let Some(sequences) = newest_of_stripes(&active, &below) {
            fragments.push(StripedFragment { start: begun_at, end: cut, sequences });
        }
        begun_at = cut;
        let is_cut = |key: &[u8]| comparator.compare(key, cut) == Ordering::Equal;
        while let Some(ended) = ends.next_if(|it| is_cut(it.end)) {
            if let Some(count) = active.get_mut(&ended.sequence) {
                *count -= 1;
                if *count == 0 {
                    active.remove(&ended.sequence);
                }
            }
        }
        while let Some(begun) = starts.next_if(|it| is_cut(it.start)) {
            *active.entry(begun.sequence).or_insert(0) += 1;
        }
    }
    fragments
}

/// Returns the newest sequence number of each stripe that has any, newest first; `None` if there
/// are none.
fn newest_of_stripes(
    active: &BTreeMap<Sequence, usize>,
    below: impl Fn(Sequence) -> Option<Sequence>,
) -> Option<Vec<Sequence>> {
    let mut next = Some(*active.last_key_value()?.0);
    let mut newest = Vec::new();
    while let Some(sequence) = next {
        newest.push(sequence);
        let older = below(sequence).and_then(|below| active.range(..=below).next_back());
        next = older.map(|(&sequence, _)| sequence);
    }
    Some(newest)
}

/// Joins adjacent fragments with the same tombstones, and omits fragments without tombstones. The
/// fragments are given in key order.
pub(crate) fn joined<'a>(
    comparator: &Comparator,
    fragments: impl IntoIterator<Item = StripedFragment<'a>>,
) -> Vec<StripedFragment<'a>> {
    let mut joined: Vec<StripedFragment<'a>> = Vec::new();
    for fragment in fragments {
        match joined.last_mut() {
            _ if fragment.sequences.is_empty() => {}
            Some(last)
                if last.sequences == fragment.sequences
                    && comparator.compare(last.end, fragment.start).is_eq() =>
            {
                last.end = fragment.end;
            }
            _ => joined.push(fragment),
        }
    }
    joined
}
