//! Steps of a [`Cursor`] over internal keys in bytewise order that need no copy of the previous
//! key, and compare only parts of keys: an iterator takes them as long as every user key has one
//! version.
//!
//! A visible value, below, is an entry of the type [`ValueType::Value`] whose sequence number is
//! not above the snapshot's. These methods report no malformed entry; the cursor then stays where
//! it is, so that [`Cursor::next`] or [`Cursor::previous`] reports it.

use crate::block::bytewise::common_prefix;
use crate::block::cursor::Cursor;
use crate::block::layout::Layout;
use crate::block::position::EntryHead;
use crate::key::{self, Sequence, TRAILER_LENGTH, ValueType};

impl Cursor {
    /// Moves to the next entry if it is a visible value and its user key is above the current one.
    /// Returns whether the cursor has moved. If not, the next entry may be anything, or there may
    /// be none.
    #[inline(always)]
    pub fn next_key(&mut self, block: &[u8], layout: &Layout, snapshot: Sequence) -> bool {
        self.try_next_key(block, layout, snapshot).is_some()
    }

    #[inline(always)]
    fn try_next_key(&mut self, block: &[u8], layout: &Layout, snapshot: Sequence) -> Option<()> {
        let entry = self.position.next;
        if entry >= layout.entries_end || layout.values_apart {
            return None;
        }
        let head = EntryHead::decode::<true>(block, entry, layout.entries_end, false)?;
        let (value, next) = head.value(layout, 0)?;
        let unshared = block.get(head.key_start as usize..head.key_end() as usize)?;
        let (rest, trailer) = key::split(unshared)?;
        let shared = head.shared as usize;
        let last_length = self.position.key.len().checked_sub(TRAILER_LENGTH)?;
        let last_rest = self.position.key.get(shared..last_length)?;
        if !is_visible_value(trailer, snapshot) || !is_above(rest, last_rest) {
            return None;
        }
        if self.position.is_before_restart() {
            if shared != 0 {
                return None;
            }
            self.position.pass_restart(block, layout).ok()?;
        }
        self.position.take_key(shared, unshared);
        self.position.entry = entry;
        self.position.next = next;
        self.value = value;
        Some(())
    }

    /// Moves to the previous entry if that is decoded already. Returns whether the cursor has
    /// moved.
    #[inline(always)]
    pub fn previous_decoded(&mut self) -> bool {
        let is_decoded = self.backwards.ends_at(self.position.entry);
        if is_decoded {
            self.take_backwards();
        }
        is_decoded
    }

    /// Returns whether the current entry is a visible value, and the block has an entry before it
    /// whose user key is lower, so that the block has no newer version of the key. Decodes the
    /// entries before the current one if they are not decoded yet.
    #[inline(always)]
    pub fn is_newest_value(&mut self, block: &[u8], layout: &Layout, snapshot: Sequence) -> bool {
        let current = self.position.entry;
        if !self.backwards.ends_at(current)
            && !self.decode_backwards(block, layout, current).unwrap_or(false)
        {
            return false;
        }
        let (Some((user_key, trailer)), Some((before, _))) =
            (key::split(&self.position.key), self.backwards.last_key().and_then(key::split))
        else {
            return false;
        };
        is_visible_value(trailer, snapshot) && is_above(user_key, before)
    }
}

#[inline(always)]
fn is_visible_value(trailer: u64, snapshot: Sequence) -> bool {
    trailer as u8 == ValueType::Value as u8 && trailer >> 8 <= snapshot
}

/// Returns whether `a` is above `b` in bytewise order.
#[inline(always)]
fn is_above(a: &[u8], b: &[u8]) -> bool {
    let common = common_prefix(a, b);
    match (a.get(common), b.get(common)) {
        (Some(a), Some(b)) => a > b,
        (a, _) => a.is_some(),
    }
}
