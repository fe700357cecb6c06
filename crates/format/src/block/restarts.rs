//! Restarts: entries that share nothing with the previous one, at which a search can begin.

use crate::block::layout::Layout;

/// A range of restarts, inclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restarts {
    pub(super) first: u32,
    pub(super) last: u32,
}

impl Restarts {
    /// Returns all restarts of a block.
    #[inline]
    pub fn all(layout: &Layout) -> Self {
        Self { first: 0, last: layout.restart_count.saturating_sub(1) }
    }
}
