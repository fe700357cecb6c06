//! Reduction of range tombstones to those that the existing snapshots can distinguish.
//!
//! The snapshots divide the sequence numbers into stripes: a stripe is the range of sequence
//! numbers between two neighbouring snapshots. Of the tombstones that cover a key, only the newest
//! of each stripe has an effect, because no snapshot sees an older one of the stripe without it.
//! Only these tombstones are written to tables, in fragments that do not overlap. As in RocksDB,
//! fragments are cut wherever a tombstone begins or ends. Then neighbouring fragments with the same
//! tombstones are joined. Source: `FragmentedRangeTombstoneList` in
//! `db/range_tombstone_fragmenter.cc`, as used by flushes and compactions.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use tailwater_format::Comparator;
use tailwater_format::key::Sequence;

use super::RangeTombstone;

/// A range of keys that the same tombstones cover. Of these tombstones, only the newest of each
/// stripe is kept; a stripe is the range of sequence numbers between two neighbouring snapshots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StripedFragment<'a> {
    /// Start of the range of user keys, inclusive.
    pub(crate) start: &'a [u8],
    /// End of the range of user keys, exclusive.
    pub(crate) end: &'a [u8],
    /// The sequence numbers of the tombstones, newest first. Each stripe (range of sequence numbers
    /// between two neighbouring snapshots) has at most one of them.
    pub(crate) sequences: Vec<Sequence>,
}

/// Cuts tombstones, which may be given in any order, into fragments wherever a tombstone begins or
/// ends. Returns the fragments in key order, each with the newest tombstone of each stripe. A
/// stripe is the range of sequence numbers between two neighbouring snapshots. For any sequence
/// number, `below` returns the snapshot at the lower end of the number's stripe, or `None` if this
/// stripe has no lower end. Takes the time of two sorts, plus linear time in the size of the
/// result.
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
    // Maps each sequence number to the number of its tombstones that cover the current fragment.
    let mut active: BTreeMap<Sequence, usize> = BTreeMap::new();
    // Every tombstone starts before it ends. So when the last end is visited, all starts have been
    // visited.
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

/// Returns the newest of the active sequence numbers in each stripe, newest first. Returns `None`
/// if there are no active sequence numbers.
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

/// Joins adjacent fragments with the same tombstones, and omits fragments without tombstones.
/// `fragments` must be in key order.
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
