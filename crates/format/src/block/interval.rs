//! The first step of a search in a data block: it finds the restart interval in which the second
//! step, [`Cursor::seek_in`], scans the entries. Between the steps, the caller can prefetch the
//! interval.
//!
//! [`Cursor::seek_in`]: crate::block::Cursor::seek_in

use std::ops::Range;

use crate::block::hash_index::HashIndexAnswer;
use crate::block::layout::Layout;
use crate::block::position::Position;
use crate::block::restarts::Restarts;
use crate::block::target::Target;
use crate::hash::hash_index_hash;
use crate::{Error, Result};

/// The entries of a block from one restart to the next: the interval in which a search continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval {
    /// The number of the interval's restart; 0 in a block without entries.
    pub(super) restart: u32,
}

impl Interval {
    /// Returns the interval for a seek of `target`: the last one that does not begin above the
    /// target or, if there is none, the first.
    ///
    /// # Errors
    /// Corruption if an entry at a restart is malformed.
    #[inline]
    pub fn of(block: &[u8], layout: &Layout, target: &Target<'_>) -> Result<Self> {
        if layout.is_empty() {
            return Ok(Self { restart: 0 });
        }
        let restart = Position::search_restarts::<true>(
            block,
            layout,
            Restarts::all(layout),
            &mut |entry: &[u8]| target.compare(entry),
        )?;
        Ok(Self { restart })
    }

    /// Returns the interval for a get of `target`. If the block has a hash index, this is the only
    /// interval that can contain the target's user key. This requires a comparator for which keys
    /// with different bytes are never equal. With another comparator, or without a hash index, this
    /// is [`Interval::of`].
    ///
    /// # Errors
    /// The errors of [`Interval::of`]. Corruption also if the hash index refers to a restart that
    /// does not exist.
    #[inline]
    pub fn of_get(block: &[u8], layout: &Layout, target: &Target<'_>) -> Result<Self> {
        let hash_index = layout.hash_index.filter(|_| !layout.is_empty());
        let Some(hash_index) = hash_index.filter(|_| target.comparator.distinguishes_all_bytes())
        else {
            return Self::of(block, layout, target);
        };
        let last = layout.restart_count - 1;
        match hash_index.lookup(block, hash_index_hash(target.user_key)) {
            HashIndexAnswer::Collision => Self::of(block, layout, target),
            // The key is not in this block, but may be in the next one. The cursor must then be
            // past the last entry, unless this block has a key above the target. If it has one, its
            // last restart interval has one, so only this interval is searched.
            HashIndexAnswer::Absent => Ok(Self { restart: last }),
            HashIndexAnswer::Restart(restart) if restart > last => {
                let found = format!("restart {restart} of {}", layout.restart_count);
                Err(Error::corruption("block hash index", 0, "a restart", found))
            }
            HashIndexAnswer::Restart(restart) => Ok(Self { restart }),
        }
    }

    /// Returns the offsets of the interval's first byte and of its end in the block, as the block
    /// stores them: a damaged block may store any.
    #[inline]
    pub fn bytes(self, block: &[u8], layout: &Layout) -> Range<usize> {
        let offset = |restart| layout.stored_offset(block, restart);
        let next = self.restart + 1;
        let end = if next < layout.restart_count { offset(next) } else { None };
        let end = end.unwrap_or(layout.entries_end as usize);
        offset(self.restart).unwrap_or(end)..end
    }
}
