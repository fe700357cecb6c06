//! An index of a memtable's range tombstones for reads at any snapshot.
//!
//! The starts and ends of tombstones cut the keys into elementary fragments, which are the leaves
//! of a binary tree (a segment tree). A tombstone is stored at the highest nodes all of whose
//! leaves it covers; these are at most two at each height. The tombstones that cover a fragment are
//! those stored on the path from its leaf to the root. However many tombstones overlap, a read
//! visits one path of the tree, and at each node searches the stored tombstones for the newest one
//! that its snapshot sees.
//!
//! An index is immutable. Merging two indexes into one takes time linear in the size of the result.

use std::cmp::Ordering;
use std::ops::Range;

use tailwater_format::Comparator;
use tailwater_format::key::Sequence;

use super::truncation::first_version;
use super::{Boundary, RangeTombstone};

/// An index of tombstones of a memtable. Shared freely between threads.
///
/// Memory: the bytes of every distinct start and end key, plus 24 bytes for each such key. In
/// addition, for each tombstone 16 bytes, plus 8 bytes for each node that stores it: a single node
/// if it overlaps no other tombstone, and at most twice the logarithm of the number of fragments.
pub(crate) struct TombstoneIndex {
    comparator: Comparator,
    /// The cuts' user keys, concatenated.
    keys: Vec<u8>,
    /// The end of each cut's user key in `keys`.
    key_ends: Vec<usize>,
    /// All tombstones, the newest first.
    spans: Vec<Span>,
    /// The sequence numbers stored at each node, node by node, newest first. Node 1 is the root,
    /// nodes `2n` and `2n + 1` are the children of node `n`, and the leaves come last.
    noted: Vec<Sequence>,
    /// The start of each node's part of `noted`, and at last the end of the last node's part.
    noted_starts: Vec<usize>,
}

/// A tombstone, as indexes of the cuts at which it starts and ends. If it deletes nothing, both are
/// equal.
#[derive(Debug, Clone, Copy)]
struct Span {
    start: u32,
    end: u32,
    sequence: Sequence,
}

impl TombstoneIndex {
    /// Creates the index of one tombstone. If its end is not after its start, it deletes nothing.
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

    /// Returns the merge of two indexes.
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
        // Both parts are sorted, so this stable sort merges them.
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

    /// Merges the cuts of two indexes without duplicates. For each of the two, returns the new
    /// indexes of its cuts.
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

    /// Stores the sequence number of every tombstone at its nodes.
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

    /// Returns the number of tombstones, including those that delete nothing.
    pub(crate) fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether the tombstones delete nothing.
    pub(crate) fn deletes_nothing(&self) -> bool {
        self.noted.is_empty()
    }

    /// Returns the highest sequence number of a tombstone.
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

    /// Whether a tombstone covers a key from `first` to `last`, both included.
    pub(crate) fn overlaps(&self, first: &[u8], last: &[u8]) -> bool {
        let (behind_first, behind_last) = (self.first_cut_after(first), self.first_cut_after(last));
        let mut spans = self.spans.iter().filter(|span| span.start < span.end);
        spans.any(|span| (span.start as usize) < behind_last && span.end as usize >= behind_first)
    }

    /// Returns the newest tombstone at or below the snapshot that covers the user key.
    #[inline]
    pub(crate) fn covering(&self, user_key: &[u8], snapshot: Sequence) -> Option<Sequence> {
        let behind = self.first_cut_after(user_key);
        let fragment = if behind == self.key_ends.len() { None } else { behind.checked_sub(1) };
        self.newest_visible(fragment?, snapshot)
    }

    /// Returns the newest tombstone at or below the snapshot that covers a fragment.
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

    /// Returns one more than the index of the last fragment.
    #[inline]
    fn fragments_end(&self) -> usize {
        self.key_ends.len().saturating_sub(1)
    }

    /// Returns the start of fragment `at`, which is the end of the fragment before it.
    #[inline]
    fn cut(&self, at: usize) -> &[u8] {
        let start = if at == 0 { 0 } else { self.key_ends[at - 1] };
        &self.keys[start..self.key_ends[at]]
    }

    fn cut_at(&self, at: u32) -> &[u8] {
        self.cut(at as usize)
    }

    /// Returns the index of the first cut whose key comes after the user key; the number of cuts if
    /// there is none.
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

/// Calls `note` with each node that stores a tombstone.
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

/// A cursor over those fragments of an index that are covered by a tombstone at or below a
/// snapshot. It skips other fragments.
///
/// Every call must be given the same index. No call allocates memory.
#[derive(Debug, Clone)]
pub(crate) struct IndexCursor {
    snapshot: Sequence,
    fragment: usize,
    /// The sequence number of the newest visible tombstone that covers the current fragment; `None`
    /// if the cursor is invalid.
    sequence: Option<Sequence>,
}

impl IndexCursor {
    /// Creates an unpositioned cursor with the visibility of a read at the snapshot.
    pub(crate) fn new(snapshot: Sequence) -> Self {
        Self { snapshot, fragment: 0, sequence: None }
    }

    /// Returns the sequence number of the newest visible tombstone that covers the current
    /// fragment, if the cursor is valid.
    #[inline]
    pub(crate) fn sequence(&self) -> Option<Sequence> {
        self.sequence
    }

    /// Returns the start of the current fragment, inclusive.
    #[inline]
    pub(crate) fn start<'a>(&self, index: &'a TombstoneIndex) -> Boundary<'a> {
        first_version(index.cut(self.fragment))
    }

    /// Returns the end of the current fragment, exclusive.
    #[inline]
    pub(crate) fn end<'a>(&self, index: &'a TombstoneIndex) -> Boundary<'a> {
        first_version(index.cut(self.fragment + 1))
    }

    /// Returns an edge of the run of covered fragments without gaps that contains the current
    /// fragment: its end, exclusive, or, if `forward` is false, its start, inclusive.
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

    /// Goes to the first covered fragment that ends after the user key.
    pub(crate) fn seek(&mut self, index: &TombstoneIndex, user_key: &[u8]) {
        let behind = index.first_cut_after(user_key);
        self.go_forward_from(index, behind.saturating_sub(1));
    }

    /// Goes to the last covered fragment.
    pub(crate) fn seek_to_last(&mut self, index: &TombstoneIndex) {
        self.go_backward_from(index, index.fragments_end());
    }

    /// Goes to the next covered fragment. After the last one, the cursor is invalid.
    pub(crate) fn next(&mut self, index: &TombstoneIndex) {
        self.go_forward_from(index, self.fragment + 1);
    }

    /// Goes to the previous covered fragment. Before the first one, the cursor is invalid.
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
