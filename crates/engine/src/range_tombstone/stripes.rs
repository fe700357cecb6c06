//! What snapshots can tell apart of range tombstones.
//!
//! Of the tombstones over a key, only the newest of each stripe between two snapshots is ever seen.
//! What is written to tables is that alone, in fragments that do not overlap. They are cut wherever
//! a tombstone begins or ends, as RocksDB cuts them, and joined again where that makes no
//! difference. Source: `FragmentedRangeTombstoneList` in `db/range_tombstone_fragmenter.cc`, as
//! flushes and compactions use it.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use tailwater_format::Comparator;
use tailwater_format::key::Sequence;

use super::RangeTombstone;

/// A part of the keys that the same tombstones cover, as far as snapshots tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StripedFragment<'a> {
    /// Its first user key.
    pub(crate) start: &'a [u8],
    /// The first user key behind it.
    pub(crate) end: &'a [u8],
    /// The newest tombstone of each stripe that has one, the newest first.
    pub(crate) sequences: Vec<Sequence>,
}

/// Tombstones, given in any order, as snapshots tell them apart, in the order of their keys, cut
/// wherever one of them begins or ends.
/// `below` is the snapshot right below the stripe of a sequence number, if there is one. Takes time
/// for sorting, and for what is given and answered.
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
    // How many tombstones of each sequence number cover the fragment in the making.
    let mut active: BTreeMap<Sequence, usize> = BTreeMap::new();
    // A tombstone starts before it ends, so the ends last longest.
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

/// The newest of each stripe that has any, the newest first; `None` without any.
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

/// Joins fragments, given in order, that touch and have the same tombstones, and leaves out those
/// without any.
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
