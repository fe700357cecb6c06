//! An index of a memtable's range tombstones, for reads at any snapshot.
//!
//! The start and end keys of all tombstones are the cuts. Between neighbouring cuts are fragments,
//! which are the leaves of a binary tree (a segment tree). A tombstone is stored at the highest
//! nodes all of whose leaves it covers; at each height of the tree, these are at most two nodes. So
//! the tombstones that cover a fragment are those stored on the path from its leaf to the root.
//! However many tombstones overlap, a read visits only one such path. At each node, a binary search
//! finds the newest of the stored tombstones that its snapshot sees.
//!
//! An index is immutable. Merging two indexes into a new one takes linear time in the size of the
//! result.

use std::cmp::Ordering;
use std::ops::Range;

use tailwater_format::Comparator;
use tailwater_format::key::Sequence;

use super::truncation::first_version;
use super::{Boundary, RangeTombstone};

/// An index of range tombstones of a memtable. Immutable; any number of threads may read it.
///
/// Memory: the bytes of every distinct start and end key, plus 24 bytes for each such key. In
/// addition 16 bytes for each tombstone, plus 8 bytes for each node that stores it. A tombstone
/// that overlaps no other is stored at a single node; any other at no more nodes than twice the
/// base-2 logarithm of the number of fragments.
pub(crate) struct TombstoneIndex {
    comparator: Comparator,
    /// The user keys of the cuts, concatenated. A cut is a boundary between fragments.
    keys: Vec<u8>,
    /// For each cut (boundary between fragments), the end of its user key as an offset in `keys`,
    /// exclusive.
    key_ends: Vec<usize>,
    /// All tombstones, the newest first.
    spans: Vec<Span>,
    /// The sequence numbers stored at each node: node by node, and newest first in each node. Node
    /// 1 is the root, nodes `2n` and `2n + 1` are the children of node `n`, and the leaves are the
    /// last nodes.
    noted: Vec<Sequence>,
    /// For each node, the index in `noted` of its first sequence number. One more entry at the end
    /// is the length of `noted`.
    noted_starts: Vec<usize>,
}

/// A tombstone. The cuts are the start and end keys of all tombstones, in key order. `start` and
/// `end` are the indexes of the cuts at which this tombstone starts and ends. They are equal if the
/// tombstone deletes nothing.
#[derive(Debug, Clone, Copy)]
struct Span {
    start: u32,
    end: u32,
    sequence: Sequence,
}

impl TombstoneIndex {
    /// Creates the index of a single tombstone. It deletes nothing if its end is not after its
    /// start.
    pub(crate) fn of(comparator: &Comparator, tombstone: RangeTombstone<'_>) -> Self {
        let RangeTombstone { start, end, sequence } = tombstone;
        let deletes = comparator.compare(start, end) == Ordering::Less;
        let cuts = if deletes { &[start, end][..] } else { &[start][..] };
        let mut index = Self::without_notes(comparator);
        cuts.iter().for_each(|cut| index.push_cut(cut));
        index.spans.push(Span { start: 0, end: u32::from(deletes), sequence });
        index.note_spans();
        index
    }

    /// Returns an index of the tombstones of both indexes.
    pub(crate) fn merged(&self, other: &Self) -> Self {
        let mut merged = Self::without_notes(&self.comparator);
        let (own_places, other_places) = merged.take_cuts(self, other);
        let moved = |spans: &[Span], places: &[u32]| {
            let place = |at: u32| places[at as usize];
            let moved =
                |span: &Span| Span { start: place(span.start), end: place(span.end), ..*span };
            spans.iter().map(moved).collect::<Vec<_>>()
        };
        merged.spans = moved(&self.spans, &own_places);
        merged.spans.extend(moved(&other.spans, &other_places));
        // `sort_by_key` merges the two sorted parts in linear time.
        merged.spans.sort_by_key(|span| std::cmp::Reverse(span.sequence));
        merged.keys.shrink_to_fit();
        merged.key_ends.shrink_to_fit();
        merged.note_spans();
        merged
    }

    fn without_notes(comparator: &Comparator) -> Self {
        Self {
            comparator: comparator.clone(),
            keys: Vec::new(),
            key_ends: Vec::new(),
            spans: Vec::new(),
            noted: Vec::new(),
            noted_starts: Vec::new(),
        }
    }

    fn push_cut(&mut self, user_key: &[u8]) {
        self.keys.extend_from_slice(user_key);
        self.key_ends.push(self.keys.len());
    }

    /// Adds the cuts of `a` and `b` to this index, in key order and without duplicates. Returns the
    /// new index of each cut of `a`, and the new index of each cut of `b`.
    fn take_cuts(&mut self, a: &Self, b: &Self) -> (Vec<u32>, Vec<u32>) {
        let (a_count, b_count) = (a.key_ends.len(), b.key_ends.len());
        let (mut a_places, mut b_places) =
            (Vec::with_capacity(a_count), Vec::with_capacity(b_count));
        while a_places.len() < a_count || b_places.len() < b_count {
            let (at_a, at_b) = (a_places.len(), b_places.len());
            let order = match (at_a < a_count, at_b < b_count) {
                (true, true) => self.comparator.compare(a.cut(at_a), b.cut(at_b)),
                (true, false) => Ordering::Less,
                (false, _) => Ordering::Greater,
            };
            let place = self.key_ends.len() as u32;
            self.push_cut(if order.is_le() { a.cut(at_a) } else { b.cut(at_b) });
            if order.is_le() {
                a_places.push(place);
            }
            if order.is_ge() {
                b_places.push(place);
            }
        }
        (a_places, b_places)
    }

    /// Fills the segment tree, whose leaves are the fragments. Stores the sequence number of every
    /// tombstone at the nodes that together cover exactly the tombstone's fragments.
    fn note_spans(&mut self) {
        let fragments = self.fragments_end();
        let mut starts = vec![0; 2 * fragments + 1];
        for span in &self.spans {
            for_each_node(fragments, span, |node| starts[node + 1] += 1);
        }
        for node in 1..starts.len() {
            starts[node] += starts[node - 1];
        }
        let mut next = starts.clone();
        let mut noted = vec![0; starts.last().copied().unwrap_or(0)];
        for span in &self.spans {
            for_each_node(fragments, span, |node| {
                noted[next[node]] = span.sequence;
                next[node] += 1;
            });
        }
        (self.noted, self.noted_starts) = (noted, starts);
    }

    /// Returns the number of tombstones, including those whose key range is empty.
    pub(crate) fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether the key range of every tombstone is empty, so that nothing is deleted.
    pub(crate) fn deletes_nothing(&self) -> bool {
        self.noted.is_empty()
    }

    /// Returns the highest sequence number of the tombstones.
    #[inline]
    pub(crate) fn newest(&self) -> Sequence {
        self.spans.first().map_or(0, |span| span.sequence)
    }

    /// Whether there is a tombstone with this start and sequence number.
    pub(crate) fn has(&self, start: &[u8], sequence: Sequence) -> bool {
        let newer = self.spans.partition_point(|span| span.sequence > sequence);
        let same = self.spans[newer..].iter().take_while(|span| span.sequence == sequence);
        let starts_there = |span: &Span| self.comparator.compare(self.cut_at(span.start), start);
        same.map(starts_there).any(Ordering::is_eq)
    }

    /// Returns the tombstones, newest first. A tombstone that deletes nothing ends where it starts.
    pub(crate) fn iter(&self) -> impl Iterator<Item = RangeTombstone<'_>> {
        self.spans.iter().map(|span| RangeTombstone {
            start: self.cut_at(span.start),
            end: self.cut_at(span.end),
            sequence: span.sequence,
        })
    }

    /// Whether a tombstone covers a key in the range from `first` to `last`, both inclusive.
    pub(crate) fn overlaps(&self, first: &[u8], last: &[u8]) -> bool {
        let (behind_first, behind_last) = (self.first_cut_after(first), self.first_cut_after(last));
        let mut spans = self.spans.iter().filter(|span| span.start < span.end);
        spans.any(|span| (span.start as usize) < behind_last && span.end as usize >= behind_first)
    }

    /// Returns the sequence number of the newest tombstone that covers the user key and whose
    /// sequence number is at most `snapshot`.
    #[inline]
    pub(crate) fn covering(&self, user_key: &[u8], snapshot: Sequence) -> Option<Sequence> {
        let behind = self.first_cut_after(user_key);
        let fragment = if behind == self.key_ends.len() { None } else { behind.checked_sub(1) };
        self.newest_visible(fragment?, snapshot)
    }

    /// Considers only tombstones that cover the given fragment and whose sequence number is at most
    /// `snapshot`. Returns the sequence number of the newest of them.
    #[inline]
    fn newest_visible(&self, fragment: usize, snapshot: Sequence) -> Option<Sequence> {
        let mut newest = None;
        let mut node = self.fragments_end() + fragment;
        while node > 0 {
            let noted = &self.noted[self.noted_at(node)];
            let visible = match noted.first() {
                Some(&first) if first > snapshot => {
                    noted.partition_point(|&sequence| sequence > snapshot)
                }
                _ => 0,
            };
            newest = newest.max(noted.get(visible).copied());
            node /= 2;
        }
        newest
    }

    #[inline]
    fn noted_at(&self, node: usize) -> Range<usize> {
        self.noted_starts[node]..self.noted_starts[node + 1]
    }

    /// Returns the number of fragments, which is one more than the index of the last fragment.
    #[inline]
    fn fragments_end(&self) -> usize {
        self.key_ends.len().saturating_sub(1)
    }

    /// Returns the user key of cut `at`: the start of fragment `at` and the end of the fragment
    /// before it.
    #[inline]
    fn cut(&self, at: usize) -> &[u8] {
        let start = if at == 0 { 0 } else { self.key_ends[at - 1] };
        &self.keys[start..self.key_ends[at]]
    }

    fn cut_at(&self, at: u32) -> &[u8] {
        self.cut(at as usize)
    }

    /// Returns the index of the first cut whose key comes after the user key; the number of cuts if
    /// no cut does.
    #[inline]
    fn first_cut_after(&self, user_key: &[u8]) -> usize {
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

    /// Returns the heap memory of the index, in bytes.
    pub(crate) fn memory_usage(&self) -> usize {
        self.keys.capacity()
            + self.key_ends.capacity() * size_of::<usize>()
            + self.spans.capacity() * size_of::<Span>()
            + self.noted.capacity() * size_of::<Sequence>()
            + self.noted_starts.capacity() * size_of::<usize>()
    }
}

/// Calls `note` with each node at which a tombstone is stored. `fragments` is the number of leaves.
fn for_each_node(fragments: usize, span: &Span, mut note: impl FnMut(usize)) {
    let (mut low, mut high) = (fragments + span.start as usize, fragments + span.end as usize);
    while low < high {
        if low % 2 == 1 {
            note(low);
            low += 1;
        }
        if high % 2 == 1 {
            high -= 1;
            note(high);
        }
        (low, high) = (low / 2, high / 2);
    }
}

/// A cursor over the fragments of an index. Only tombstones whose sequence number is at most that
/// of a snapshot are visible to it. It skips fragments that no visible tombstone covers.
///
/// Every call must be given the same index. No call allocates memory.
#[derive(Debug, Clone)]
pub(crate) struct IndexCursor {
    snapshot: Sequence,
    fragment: usize,
    /// The sequence number of the newest visible tombstone that covers the current fragment; `None`
    /// if the cursor has no position.
    sequence: Option<Sequence>,
}

impl IndexCursor {
    /// Creates a cursor to which tombstones are visible if their sequence number is at most
    /// `snapshot`. It has no position yet.
    pub(crate) fn new(snapshot: Sequence) -> Self {
        Self { snapshot, fragment: 0, sequence: None }
    }

    /// Returns the sequence number of the newest visible tombstone that covers the current
    /// fragment. Returns `None` if there is no current fragment.
    #[inline]
    pub(crate) fn sequence(&self) -> Option<Sequence> {
        self.sequence
    }

    /// Returns the inclusive start of the current fragment.
    #[inline]
    pub(crate) fn start<'a>(&self, index: &'a TombstoneIndex) -> Boundary<'a> {
        first_version(index.cut(self.fragment))
    }

    /// Returns the exclusive end of the current fragment.
    #[inline]
    pub(crate) fn end<'a>(&self, index: &'a TombstoneIndex) -> Boundary<'a> {
        first_version(index.cut(self.fragment + 1))
    }

    /// Adjacent covered fragments form a run without gaps. Returns an edge of the run that contains
    /// the current fragment: its exclusive end if `forward` is true, otherwise its inclusive start.
    pub(crate) fn covered_edge<'a>(
        &self,
        index: &'a TombstoneIndex,
        forward: bool,
    ) -> Boundary<'a> {
        let is_covered = |at: &usize| index.newest_visible(*at, self.snapshot).is_some();
        let cut = if forward {
            let behind = self.fragment + 1..index.fragments_end();
            self.fragment + 1 + behind.take_while(is_covered).count()
        } else {
            self.fragment - (0..self.fragment).rev().take_while(is_covered).count()
        };
        first_version(index.cut(cut))
    }

    /// Goes to the first fragment that ends after the user key and that a visible tombstone covers.
    pub(crate) fn seek(&mut self, index: &TombstoneIndex, user_key: &[u8]) {
        let behind = index.first_cut_after(user_key);
        self.go_forward_from(index, behind.saturating_sub(1));
    }

    /// Goes to the last fragment that a visible tombstone covers.
    pub(crate) fn seek_to_last(&mut self, index: &TombstoneIndex) {
        self.go_backward_from(index, index.fragments_end());
    }

    /// Goes to the next fragment that a visible tombstone covers. After the last such fragment, the
    /// cursor has no position.
    pub(crate) fn next(&mut self, index: &TombstoneIndex) {
        self.go_forward_from(index, self.fragment + 1);
    }

    /// Goes to the previous fragment that a visible tombstone covers. Before the first such
    /// fragment, the cursor has no position.
    pub(crate) fn previous(&mut self, index: &TombstoneIndex) {
        self.go_backward_from(index, self.fragment);
    }

    fn go_forward_from(&mut self, index: &TombstoneIndex, at: usize) {
        self.go_to_first(index, at..index.fragments_end());
    }

    fn go_backward_from(&mut self, index: &TombstoneIndex, end: usize) {
        self.go_to_first(index, (0..end).rev());
    }

    /// Goes to the first of `fragments` that a visible tombstone covers.
    fn go_to_first(&mut self, index: &TombstoneIndex, fragments: impl Iterator<Item = usize>) {
        self.sequence = None;
        for fragment in fragments {
            self.sequence = index.newest_visible(fragment, self.snapshot);
            if self.sequence.is_some() {
                self.fragment = fragment;
                return;
            }
        }
    }
}
