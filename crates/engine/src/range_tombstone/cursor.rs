//! A cursor over the fragments of range tombstones in a [`View`].

use tailwater_format::key::{Sequence, ValueType, pack_trailer};

use super::truncation::first_version;
use super::{Boundary, View};

/// A cursor over the fragments of a view. Only tombstones whose sequence number is in a given range
/// are visible to it. It skips fragments that no visible tombstone covers.
///
/// A seek positions the cursor in a view. Every call until the next seek must be given the same
/// view. No call allocates memory.
#[derive(Debug, Clone)]
pub(crate) struct Cursor {
    /// The lowest sequence number of tombstones that are visible to the cursor, inclusive.
    oldest: Sequence,
    /// The highest sequence number of tombstones that are visible to the cursor, inclusive.
    newest: Sequence,
    fragment: usize,
    /// The visible sequence numbers of the current fragment, as indexes into all sequence numbers
    /// of the fragment: `visible_start..visible_end`. The newest comes first.
    visible_start: usize,
    visible_end: usize,
    valid: bool,
}

impl Cursor {
    /// Creates a cursor to which tombstones are visible if their sequence number is at most
    /// `snapshot`. It has no position yet.
    pub(crate) fn new(snapshot: Sequence) -> Self {
        Self::between(0, snapshot)
    }

    /// Creates a cursor to which tombstones are visible if their sequence number is in `[oldest,
    /// newest]`. It has no position yet.
    pub(crate) fn between(oldest: Sequence, newest: Sequence) -> Self {
        Self { oldest, newest, fragment: 0, visible_start: 0, visible_end: 0, valid: false }
    }

    /// Whether the cursor is on a fragment.
    #[inline]
    pub(crate) fn valid(&self) -> bool {
        self.valid
    }

    /// Returns the inclusive start of the current fragment: its start key with its newest visible
    /// sequence number or, if the view begins later, the view's lower bound. The cursor must be
    /// valid.
    #[inline]
    pub(crate) fn start<'a>(&self, view: View<'a>) -> Boundary<'a> {
        let start = self.untruncated_start(view);
        match view.smallest() {
            Some(smallest) if start.is_before(view.fragments.comparator(), smallest) => smallest,
            _ => start,
        }
    }

    /// Returns the exclusive end of the current fragment: the boundary before all records of its
    /// end key or, if the view ends earlier, the view's upper bound. The cursor must be valid.
    #[inline]
    pub(crate) fn end<'a>(&self, view: View<'a>) -> Boundary<'a> {
        let end = self.untruncated_end(view);
        match view.largest() {
            Some(largest) if largest.is_before(view.fragments.comparator(), end) => largest,
            _ => end,
        }
    }

    /// Returns the newest visible sequence number of the current fragment. The cursor must be
    /// valid.
    #[inline]
    pub(crate) fn sequence(&self, view: View<'_>) -> Sequence {
        view.fragments.sequences(self.fragment)[self.visible_start]
    }

    /// Returns all visible sequence numbers of the current fragment, newest first. The cursor must
    /// be valid.
    #[inline]
    pub(crate) fn sequences<'a>(&self, view: View<'a>) -> &'a [Sequence] {
        &view.fragments.sequences(self.fragment)[self.visible_start..self.visible_end]
    }

    /// Goes to the first fragment of the view; fragments that no visible tombstone covers are
    /// skipped.
    pub(crate) fn seek_to_first(&mut self, view: View<'_>) {
        match view.smallest() {
            Some(smallest) => self.move_to_first_ending_after(view, smallest.user_key),
            None => self.move_to_visible_from(view, 0),
        }
    }

    /// Goes to the last fragment of the view; fragments that no visible tombstone covers are
    /// skipped.
    pub(crate) fn seek_to_last(&mut self, view: View<'_>) {
        match view.largest() {
            Some(largest) => self.move_to_last_starting_by(view, largest.user_key),
            None => self.move_to_visible_before(view, view.fragments.fragments_end()),
        }
    }

    /// Goes to the first fragment that ends after the user key and that a visible tombstone covers.
    /// This is the fragment that contains the key, if a visible tombstone covers the key.
    pub(crate) fn seek(&mut self, view: View<'_>, user_key: &[u8]) {
        self.seek_boundary(view, first_version(user_key));
    }

    /// Goes to the first fragment that ends after a boundary and that a visible tombstone covers.
    /// This is the fragment that contains the boundary, if a visible tombstone covers the boundary.
    pub(crate) fn seek_boundary(&mut self, view: View<'_>, target: Boundary<'_>) {
        let comparator = view.fragments.comparator();
        if view.largest().is_some_and(|largest| !target.is_before(comparator, largest)) {
            self.valid = false;
            return;
        }
        match view.smallest() {
            Some(smallest) if target.is_before(comparator, smallest) => {
                self.move_to_first_ending_after(view, smallest.user_key);
            }
            _ => self.move_to_first_ending_after(view, target.user_key),
        }
    }

    /// Goes to the next fragment that a visible tombstone covers. The cursor must be valid. After
    /// the last such fragment, it is not valid any more.
    pub(crate) fn next(&mut self, view: View<'_>) {
        self.move_to_visible_from(view, self.fragment + 1);
    }

    /// Goes to the previous fragment that a visible tombstone covers. If there is none, the cursor
    /// becomes invalid. The cursor must be valid when this is called.
    pub(crate) fn previous(&mut self, view: View<'_>) {
        self.move_to_visible_before(view, self.fragment);
    }

    fn move_to_first_ending_after(&mut self, view: View<'_>, user_key: &[u8]) {
        let behind = view.fragments.first_cut_after(user_key);
        self.move_to_visible_from(view, behind.saturating_sub(1));
    }

    fn move_to_last_starting_by(&mut self, view: View<'_>, user_key: &[u8]) {
        let behind = view.fragments.first_cut_after(user_key);
        self.move_to_visible_before(view, behind.min(view.fragments.fragments_end()));
    }

    /// Goes to the first fragment whose index is at least `at` and that a visible tombstone covers.
    /// The cursor is then valid only if that fragment overlaps the view.
    fn move_to_visible_from(&mut self, view: View<'_>, at: usize) {
        let fragments = at..view.fragments.fragments_end();
        self.valid = false;
        for fragment in fragments {
            if self.set_fragment(view, fragment) {
                self.valid = self.begins_in_view(view) && self.ends_in_view(view);
                return;
            }
        }
    }

    /// Goes to the last fragment that has an index below `end`, begins before the view's upper
    /// bound, and is covered by a visible tombstone. The cursor is then valid only if that fragment
    /// ends after the view's lower bound.
    fn move_to_visible_before(&mut self, view: View<'_>, end: usize) {
        self.valid = false;
        for fragment in (0..end).rev() {
            // The view's upper bound is an internal key. A fragment may start at the user key of
            // this bound, but have a lower sequence number. It then lies entirely after the bound,
            // and is skipped.
            if self.set_fragment(view, fragment) && self.begins_in_view(view) {
                self.valid = self.ends_in_view(view);
                return;
            }
        }
    }

    /// Makes a fragment the current one. Returns whether a visible tombstone covers it.
    #[inline]
    fn set_fragment(&mut self, view: View<'_>, fragment: usize) -> bool {
        self.fragment = fragment;
        self.visible_start = view.fragments.newest_visible(fragment, self.newest);
        self.visible_end = match self.oldest.checked_sub(1) {
            Some(too_old) => view.fragments.newest_visible(fragment, too_old),
            None => view.fragments.sequences(fragment).len(),
        };
        self.visible_start < self.visible_end
    }

    #[inline]
    fn begins_in_view(&self, view: View<'_>) -> bool {
        let comparator = view.fragments.comparator();
        let start = self.untruncated_start(view);
        view.largest().is_none_or(|largest| start.is_before(comparator, largest))
    }

    #[inline]
    fn ends_in_view(&self, view: View<'_>) -> bool {
        let comparator = view.fragments.comparator();
        let end = self.untruncated_end(view);
        view.smallest().is_none_or(|smallest| smallest.is_before(comparator, end))
    }

    #[inline]
    fn untruncated_start<'a>(&self, view: View<'a>) -> Boundary<'a> {
        let trailer = pack_trailer(self.sequence(view), ValueType::RangeDeletion as u8);
        Boundary { user_key: view.fragments.cut(self.fragment), trailer }
    }

    #[inline]
    fn untruncated_end<'a>(&self, view: View<'a>) -> Boundary<'a> {
        first_version(view.fragments.cut(self.fragment + 1))
    }
}
