//! Construction and storage of fragments of range tombstones.

use std::cmp::Ordering;
use std::fmt;

use tailwater_format::Comparator;
use tailwater_format::key::Sequence;

use super::{RangeTombstone, Truncation, View};

/// Range tombstones cut into fragments that do not overlap. Each fragment has the sequence numbers
/// of the tombstones that cover it.
///
/// The cuts are the start and end keys of all tombstones, in key order. Fragment `i` is the key
/// range `[cut i, cut i + 1)`. A gap between tombstones is a fragment without sequence numbers.
///
/// Immutable; any number of threads may read it. Memory: the bytes of every distinct start and end
/// key, 16 bytes for each such key, and 8 bytes for each tombstone in each fragment that it covers.
/// So the memory is quadratic in the number of tombstones if all of them overlap.
pub(crate) struct FragmentedRangeTombstones {
    comparator: Comparator,
    /// The user keys of the cuts, concatenated. A cut is a boundary between fragments.
    keys: Vec<u8>,
    /// For each cut (boundary between fragments), the end of its user key as an offset in `keys`,
    /// exclusive.
    key_ends: Vec<usize>,
    /// The sequence numbers of all fragments, fragment by fragment, newest first in each.
    sequences: Vec<Sequence>,
    /// For each cut, an exclusive end index in `sequences`: the end of the sequence numbers of the
    /// fragment that ends at the cut. No fragment ends at the first cut, which has 0.
    sequence_ends: Vec<usize>,
}

impl FragmentedRangeTombstones {
    /// Builds fragments from tombstones, which may be given in any order. A tombstone whose end is
    /// not after its start deletes nothing and is omitted. Takes the time of two sorts, which are
    /// fast if the tombstones are nearly sorted, plus linear time in the size of the result.
    pub(crate) fn build<'a>(
        comparator: &Comparator,
        tombstones: impl IntoIterator<Item = RangeTombstone<'a>>,
    ) -> Self {
        let mut starts: Vec<RangeTombstone<'a>> = tombstones
            .into_iter()
            .filter(|tombstone| {
                comparator.compare(tombstone.start, tombstone.end) == Ordering::Less
            })
            .collect();
        let mut ends = starts.clone();
        starts.sort_by(|a, b| comparator.compare(a.start, b.start));
        ends.sort_by(|a, b| comparator.compare(a.end, b.end));

        let mut fragments = Self::empty(comparator.clone());
        fragments.sweep(&starts, &ends);
        fragments.keys.shrink_to_fit();
        fragments.key_ends.shrink_to_fit();
        fragments.sequences.shrink_to_fit();
        fragments.sequence_ends.shrink_to_fit();
        fragments
    }

    /// Creates an empty set of fragments.
    pub(crate) fn empty(comparator: Comparator) -> Self {
        Self {
            comparator,
            keys: Vec::new(),
            key_ends: Vec::new(),
            sequences: Vec::new(),
            sequence_ends: Vec::new(),
        }
    }

    /// Visits all starts and ends of tombstones in key order. At each distinct key, adds a cut (a
    /// boundary between fragments), and stores the fragment that ends there.
    fn sweep(&mut self, starts: &[RangeTombstone<'_>], ends: &[RangeTombstone<'_>]) {
        let mut starts = starts.iter().peekable();
        let mut ends = ends.iter().peekable();
        // The sequence numbers of the tombstones that cover the current fragment, descending, each
        // with the number of tombstones that have it.
        let mut active: Vec<(Sequence, usize)> = Vec::new();
        // Every tombstone starts before it ends. So when the last end is visited, all starts have
        // been visited.
        while let Some(&&next_end) = ends.peek() {
            let cut = match starts.peek() {
                Some(next) if self.comparator.compare(next.start, next_end.end).is_lt() => {
                    next.start
                }
                _ => next_end.end,
            };
            self.push_cut(cut, &active);
            let comparator = &self.comparator;
            while let Some(ended) = ends.next_if(|end| comparator.compare(end.end, cut).is_eq()) {
                let at = active.partition_point(|&(sequence, _)| sequence > ended.sequence);
                active[at].1 -= 1;
                if active[at].1 == 0 {
                    active.remove(at);
                }
            }
            while let Some(begun) =
                starts.next_if(|start| comparator.compare(start.start, cut).is_eq())
            {
                let at = active.partition_point(|&(sequence, _)| sequence > begun.sequence);
                match active.get_mut(at) {
                    Some((sequence, count)) if *sequence == begun.sequence => *count += 1,
                    _ => active.insert(at, (begun.sequence, 1)),
                }
            }
        }
    }

    /// Adds a cut at `key`, and stores the fragment that ends there. `active` are the sequence
    /// numbers of the tombstones that cover this fragment, each with the number of covering
    /// tombstones that have it.
    fn push_cut(&mut self, key: &[u8], active: &[(Sequence, usize)]) {
        self.keys.extend_from_slice(key);
        self.key_ends.push(self.keys.len());
        self.sequences.extend(active.iter().map(|&(sequence, _)| sequence));
        self.sequence_ends.push(self.sequences.len());
    }

    /// Returns the comparator of user keys.
    #[inline]
    pub(crate) fn comparator(&self) -> &Comparator {
        &self.comparator
    }

    /// Whether there are no fragments, so that nothing is deleted.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.key_ends.is_empty()
    }

    /// Returns a range tombstone for each sequence number of each fragment: in the order of the
    /// fragments, and newest first in each fragment.
    pub(crate) fn iter(&self) -> impl Iterator<Item = RangeTombstone<'_>> {
        (0..self.fragments_end()).flat_map(|at| {
            let (start, end) = (self.cut(at), self.cut(at + 1));
            let sequences = self.sequences(at).iter();
            sequences.map(move |&sequence| RangeTombstone { start, end, sequence })
        })
    }

    /// Returns the heap memory of the fragments, in bytes.
    pub(crate) fn memory_usage(&self) -> usize {
        self.keys.capacity()
            + (self.key_ends.capacity() + self.sequence_ends.capacity()) * size_of::<usize>()
            + self.sequences.capacity() * size_of::<Sequence>()
    }

    /// Returns the sequence number of the newest tombstone that covers the user key and whose
    /// sequence number is at most `snapshot`.
    #[inline]
    pub(crate) fn covering_sequence(
        &self,
        user_key: &[u8],
        snapshot: Sequence,
    ) -> Option<Sequence> {
        let fragment = self.fragment_at_or_before(user_key)?;
        let newest = self.newest_visible(fragment, snapshot);
        self.sequences(fragment).get(newest).copied()
    }

    /// Returns a view of all fragments, not truncated to a file's bounds.
    #[cfg(test)]
    pub(crate) fn view(&self) -> View<'_> {
        View::new(self, Truncation::NONE)
    }

    /// Returns a view of the fragments that is truncated to a file's bounds.
    #[inline]
    pub(crate) fn truncated<'a>(&'a self, truncation: &'a Truncation) -> View<'a> {
        View::new(self, truncation)
    }

    /// Returns the number of fragments, which is one more than the index of the last fragment.
    #[inline]
    pub(super) fn fragments_end(&self) -> usize {
        self.key_ends.len().saturating_sub(1)
    }

    /// Returns the user key of cut `at`: the start of fragment `at` and the end of the fragment
    /// before it.
    #[inline]
    pub(super) fn cut(&self, at: usize) -> &[u8] {
        let start = if at == 0 { 0 } else { self.key_ends[at - 1] };
        &self.keys[start..self.key_ends[at]]
    }

    /// Returns the sequence numbers of the tombstones that cover fragment `at`, newest first.
    #[inline]
    pub(super) fn sequences(&self, at: usize) -> &[Sequence] {
        &self.sequences[self.sequence_ends[at]..self.sequence_ends[at + 1]]
    }

    /// Searches the sequence numbers of fragment `at` for the first number that is at most
    /// `snapshot`. Returns the index of this number among them; their count if there is none.
    #[inline]
    pub(super) fn newest_visible(&self, at: usize, snapshot: Sequence) -> usize {
        self.sequences(at).partition_point(|&sequence| sequence > snapshot)
    }

    /// Returns the index of the fragment that contains the user key. A gap between tombstones is a
    /// fragment, too. Returns `None` if the key is before the first fragment or after the last one.
    #[inline]
    pub(super) fn fragment_at_or_before(&self, user_key: &[u8]) -> Option<usize> {
        let behind = self.first_cut_after(user_key);
        if behind == self.key_ends.len() { None } else { behind.checked_sub(1) }
    }

    /// Returns the index of the first cut (boundary between fragments) whose key comes after the
    /// user key; the number of cuts if no cut does.
    #[inline]
    pub(super) fn first_cut_after(&self, user_key: &[u8]) -> usize {
        let (mut low, mut high) = (0, self.key_ends.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.comparator.compare(self.cut(middle), user_key).is_gt() {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }
}

impl fmt::Debug for FragmentedRangeTombstones {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut list = f.debug_list();
        for at in 0..self.fragments_end() {
            let (start, end) = (self.cut(at).escape_ascii(), self.cut(at + 1).escape_ascii());
            list.entry(&format_args!("['{start}', '{end}') {:?}", self.sequences(at)));
        }
        list.finish()
    }
}
