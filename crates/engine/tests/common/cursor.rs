//! The expected state of an iterator: a position among the entries of a model, within the
//! iterator's bounds and prefix.

use std::ops::Range;

use tailwater::{PrefixExtractor, ReadOptions};
use tailwater_testkit::model::Family;

/// The prefix mode of an iterator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PrefixMode {
    /// Moves through all keys.
    TotalOrder,
    /// Stays within the prefix of the last seek.
    SamePrefix,
    /// The iterator may omit keys whose prefix differs from that of the last seek.
    Free,
}

/// A position among the entries of a model.
pub(crate) struct Cursor<'a> {
    model: &'a Family,
    extractor: Option<&'a PrefixExtractor>,
    mode: PrefixMode,
    options: &'a ReadOptions,
    /// The indexes of the entries within the iterator's bounds.
    bounded: Range<usize>,
    /// The part of `bounded` whose entries the iterator may return until the next seek.
    shown: Range<usize>,
    /// The prefix of the last seek.
    prefix: Option<Vec<u8>>,
    at: Option<usize>,
}

impl<'a> Cursor<'a> {
    /// Creates a cursor without a position.
    pub(crate) fn new(
        model: &'a Family,
        extractor: Option<&'a PrefixExtractor>,
        mode: PrefixMode,
        options: &'a ReadOptions,
    ) -> Self {
        let place = |bound: &Option<Vec<u8>>, otherwise| {
            bound.as_ref().map_or(otherwise, |bound| model.not_below(bound))
        };
        let start = place(&options.iterate_lower_bound, 0);
        let end = place(&options.iterate_upper_bound, model.entries.len());
        let bounded = start..end.max(start);
        let (shown, prefix, at) = (bounded.clone(), None, None);
        Self { model, extractor, mode, options, bounded, shown, prefix, at }
    }

    /// Returns the current entry.
    pub(crate) fn entry(&self) -> Option<(&'a [u8], &'a [u8])> {
        let (key, value) = &self.model.entries[self.at?];
        Some((key, value))
    }

    /// Whether the iterator must be at the cursor's entry. In [`PrefixMode::Free`] the iterator may
    /// be elsewhere after the cursor has left the prefix of the last seek.
    pub(crate) fn is_binding(&self) -> bool {
        if self.mode != PrefixMode::Free {
            return true;
        }
        let shown = self.entry().and_then(|(key, _)| self.prefix_of(key));
        self.prefix.is_none() || shown == self.prefix
    }

    pub(crate) fn seek_to_first(&mut self) {
        match &self.options.iterate_lower_bound {
            Some(bound) => self.seek(&bound.clone()),
            None => {
                self.hold(None);
                self.stand(Some(self.shown.start));
                self.hold_own();
            }
        }
    }

    pub(crate) fn seek_to_last(&mut self) {
        match &self.options.iterate_upper_bound {
            Some(bound) => {
                self.hold(Some(bound));
                self.stand(self.model.not_below(bound).checked_sub(1));
            }
            None => {
                self.hold(None);
                self.stand(self.shown.end.checked_sub(1));
                self.hold_own();
            }
        }
    }

    pub(crate) fn seek(&mut self, target: &[u8]) {
        self.hold(Some(target));
        self.stand(Some(self.model.not_below(target).max(self.bounded.start)));
    }

    pub(crate) fn seek_for_prev(&mut self, target: &[u8]) {
        self.hold(Some(target));
        self.stand(self.model.behind(target).min(self.bounded.end).checked_sub(1));
    }

    pub(crate) fn next(&mut self) {
        if let Some(at) = self.at {
            self.stand(Some(at + 1));
        }
    }

    pub(crate) fn previous(&mut self) {
        if let Some(at) = self.at {
            self.stand(at.checked_sub(1));
        }
    }

    fn stand(&mut self, at: Option<usize>) {
        self.at = at.filter(|at| self.shown.contains(at));
    }

    fn prefix_of(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.extractor.and_then(|by| by.prefix(key)).map(<[u8]>::to_vec)
    }

    /// Records the prefix of `key` and, in [`PrefixMode::SamePrefix`], restricts the cursor to it.
    fn hold(&mut self, key: Option<&[u8]>) {
        self.prefix = key.and_then(|key| self.prefix_of(key));
        self.shown = self.bounded.clone();
        let (PrefixMode::SamePrefix, Some(prefix)) = (self.mode, &self.prefix) else { return };
        let has_prefix =
            |at: &usize| self.prefix_of(&self.model.entries[*at].0).as_ref() == Some(prefix);
        let first = self.bounded.clone().find(has_prefix);
        let last = self.bounded.clone().rfind(has_prefix);
        self.shown = match (first, last) {
            (Some(first), Some(last)) => first..last + 1,
            _ => 0..0,
        };
    }

    fn hold_own(&mut self) {
        if let Some((key, _)) = self.entry() {
            self.hold(Some(key));
        }
    }
}
