//! Restart points of a block: entries whose keys are stored in full, without a prefix shared with
//! the previous entry. A search can begin at any restart point.

use crate::block::layout::Layout;

/// A range of restart points, given by the numbers of the first and the last one, both inclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restarts {
    pub(super) first: u32,
    pub(super) last: u32,
    /// The offset of the entry at the first restart point, if known.
    pub(super) offset: Option<u32>,
}

impl Restarts {
    /// Returns the indexes of all restart points of a block: from 0 to the last, inclusive.
    #[inline]
    pub fn all(layout: &Layout) -> Self {
        Self { first: 0, last: layout.restart_count.saturating_sub(1), offset: None }
    }
}
