//! A cursor over the entries of a data or meta block.

use std::cmp::Ordering;
use std::ops::Range;

use crate::Result;
use crate::block::interval::Interval;
use crate::block::layout::Layout;
use crate::block::position::{EntryHead, Position, bad_entry};
use crate::block::target::Target;

/// A position in a block whose entries store the lengths of their values: data blocks, meta blocks,
/// and index blocks before format_version 4.
///
/// The cursor borrows the block only during a call. A seek may go to any block. Until the next
/// seek, every other call that takes a block must get the block and the layout of the last seek.
/// The cursor reuses its buffers, so moving it allocates nothing once they have grown.
#[derive(Debug, Default)]
pub struct Cursor {
    pub(super) position: Position,
    pub(super) value: Range<u32>,
    pub(super) backwards: Backwards,
}

/// Maximum total length of the keys that are kept for steps backward, in bytes; a longer key is
/// kept alone. Before a key with which they would be longer, the entries kept so far are discarded.
/// The limit is needed because in a malformed block each key may claim to share a long prefix with
/// the previous one.
const BACKWARDS_KEYS_MAX: usize = 1 << 20;

/// Entries of one restart interval. They are decoded at the first step backward into the interval,
/// so that further steps need not decode them again. If the keys are very long, only the last
/// entries of the interval are kept.
#[derive(Debug, Default)]
pub(super) struct Backwards {
    entries: Vec<BackwardsEntry>,
    keys: Vec<u8>,
    /// The number of the restart that follows the interval, and the offset of the entry there, as
    /// in [`Position`].
    next_restart: u32,
    next_restart_offset: u32,
}

#[derive(Debug, Clone)]
struct BackwardsEntry {
    entry: u32,
    next: u32,
    key: Range<u32>,
    value: Range<u32>,
}

impl Backwards {
    /// Returns whether the last entry is the one directly before the entry at offset `current`.
    #[inline(always)]
    pub(super) fn ends_at(&self, current: u32) -> bool {
        self.entries.last().is_some_and(|last| last.next == current)
    }

    /// Returns the key of the last entry.
    #[inline(always)]
    pub(super) fn last_key(&self) -> Option<&[u8]> {
        let key = &self.entries.last()?.key;
        self.keys.get(key.start as usize..key.end as usize)
    }

    /// Adds the entries from the restart at offset `next` to the entry at offset `current`,
    /// exclusive. Both vectors must be empty.
    fn decode(&mut self, block: &[u8], layout: &Layout, mut next: u32, current: u32) -> Result<()> {
        let mut key = 0..0;
        let mut value = 0..0;
        let mut is_first = true;
        while next < current {
            let entry = next;
            let bad = || bad_entry(entry);
            let offset_follows = layout.values_apart && is_first;
            let head = EntryHead::decode::<true>(block, entry, layout.entries_end, offset_follows)
                .filter(|head| head.shared as usize <= key.len())
                .ok_or_else(bad)?;
            let unshared =
                block.get(head.key_start as usize..head.key_end() as usize).ok_or_else(bad)?;
            (value, next) = head.value(layout, value.end).ok_or_else(bad)?;
            let start = self.keys.len();
            self.keys.extend_from_within(key.start..key.start + head.shared as usize);
            self.keys.extend_from_slice(unshared);
            key = start..self.keys.len();
            if key.end > BACKWARDS_KEYS_MAX && start > 0 {
                self.keys.drain(..start);
                self.entries.clear();
                key = 0..self.keys.len();
            }
            self.entries.push(BackwardsEntry {
                entry,
                next,
                key: key.start as u32..key.end as u32,
                value: value.clone(),
            });
            is_first = false;
        }
        // In a malformed block, a scan from the restart before the current entry may not reach
        // exactly the current entry.
        if next == current { Ok(()) } else { Err(bad_entry(current)) }
    }
}

impl Cursor {
    /// Makes the cursor invalid, so that it can be used on another block.
    pub fn reset(&mut self) {
        self.position.valid = false;
        self.backwards.entries.clear();
    }

    /// Returns whether the cursor is at an entry.
    #[inline]
    pub fn valid(&self) -> bool {
        self.position.valid
    }

    /// Returns the key of the current entry.
    #[inline]
    pub fn key(&self) -> &[u8] {
        &self.position.key
    }

    /// Returns the value of the current entry.
    #[inline]
    pub fn value<'a>(&self, block: &'a [u8]) -> &'a [u8] {
        block.get(self.value.start as usize..self.value.end as usize).unwrap_or_default()
    }

    /// Returns the range of the current entry's value, as offsets in the block.
    #[inline]
    pub fn value_range(&self) -> Range<u32> {
        self.value.clone()
    }

    /// Returns the offset of the current entry in the block.
    pub fn entry_offset(&self) -> u32 {
        self.position.entry
    }

    /// Moves to the first entry.
    pub fn seek_to_first(&mut self, block: &[u8], layout: &Layout) -> Result<()> {
        if layout.is_empty() {
            self.position.at_end(layout);
            return Ok(());
        }
        self.before_restart(block, layout, 0)?;
        self.next(block, layout)
    }

    /// Moves to the last entry.
    pub fn seek_to_last(&mut self, block: &[u8], layout: &Layout) -> Result<()> {
        if layout.is_empty() {
            self.position.at_end(layout);
            return Ok(());
        }
        self.before_restart(block, layout, layout.restart_count - 1)?;
        self.next(block, layout)?;
        while self.position.valid && self.position.next < layout.entries_end {
            self.next(block, layout)?;
        }
        Ok(())
    }

    /// Seeks `target` for a get, in the interval that [`Interval::of_get`] returns.
    ///
    /// If the cursor is then at an entry with another user key, the block has no entry that a get
    /// of the target could return: every entry with the target's user key sorts before the target.
    /// Unlike after [`Cursor::seek`], that entry need not be the first one at or above the target.
    ///
    /// # Errors
    /// The errors of [`Interval::of_get`] and of [`Cursor::seek_in`].
    #[inline]
    pub fn seek_for_get(
        &mut self,
        block: &[u8],
        layout: &Layout,
        target: &Target<'_>,
    ) -> Result<()> {
        let interval = Interval::of_get(block, layout, target)?;
        self.seek_in(block, layout, interval, target)
    }

    /// Moves to the next entry. After the last entry, the cursor is no longer valid.
    #[inline(always)]
    pub fn next(&mut self, block: &[u8], layout: &Layout) -> Result<()> {
        let Some(head) = self.position.step::<true>(block, layout)? else { return Ok(()) };
        (self.value, self.position.next) =
            head.value(layout, self.value.end).ok_or_else(|| bad_entry(self.position.entry))?;
        Ok(())
    }

    /// Moves to the previous entry. If the cursor is at the first entry, the cursor becomes
    /// invalid.
    pub fn previous(&mut self, block: &[u8], layout: &Layout) -> Result<()> {
        let current = self.position.entry;
        if !self.backwards.ends_at(current) && !self.decode_backwards(block, layout, current)? {
            self.position.at_end(layout);
            return Ok(());
        }
        self.take_backwards();
        Ok(())
    }

    /// Decodes the entries between the entry at offset `current` and the last restart before it,
    /// and keeps them for steps backward. Returns false if no entry is before `current`.
    pub(super) fn decode_backwards(
        &mut self,
        block: &[u8],
        layout: &Layout,
        current: u32,
    ) -> Result<bool> {
        let kept = &mut self.backwards;
        kept.entries.clear();
        kept.keys.clear();
        let Some(restart) = self.position.restart_before(block, layout, current)? else {
            return Ok(false);
        };
        kept.next_restart = restart + 1;
        kept.next_restart_offset = layout.offset_or_max(block, restart + 1)?;
        let decoded = kept.decode(block, layout, layout.restart_offset(block, restart)?, current);
        if decoded.is_err() {
            kept.entries.clear();
        }
        decoded.map(|()| true)
    }

    /// Takes the last entry out of those that are kept for steps backward, and moves to this entry.
    #[inline]
    pub(super) fn take_backwards(&mut self) {
        let kept = &mut self.backwards;
        let Some(entry) = kept.entries.pop() else { return };
        let key = kept.keys.get(entry.key.start as usize..entry.key.end as usize);
        let position = &mut self.position;
        position.take_key(0, key.unwrap_or_default());
        position.entry = entry.entry;
        position.next = entry.next;
        position.next_restart = kept.next_restart;
        position.next_restart_offset = kept.next_restart_offset;
        position.valid = true;
        self.value = entry.value;
    }

    pub(super) fn before_restart(
        &mut self,
        block: &[u8],
        layout: &Layout,
        restart: u32,
    ) -> Result<()> {
        self.backwards.entries.clear();
        self.position.before_restart(block, layout, restart)
    }

    /// Moves forward to the first entry that is not below the target. `compare` compares a key with
    /// the target.
    #[inline]
    pub(super) fn scan(
        &mut self,
        block: &[u8],
        layout: &Layout,
        mut compare: impl FnMut(&[u8]) -> Ordering,
    ) -> Result<()> {
        loop {
            self.next(block, layout)?;
            if !self.position.valid || compare(&self.position.key) != Ordering::Less {
                return Ok(());
            }
        }
    }
}
