//! The position of a cursor among the entries of a block, and the decoding of entries.

use std::cmp::Ordering;
use std::ops::Range;

use crate::block::layout::Layout;
use crate::block::restarts::Restarts;
use crate::varint::decode_varint32;
use crate::{Error, Result};

/// The position of a cursor and the key there. Data cursors and index cursors share this.
#[derive(Debug, Default, Clone)]
pub(super) struct Position {
    /// Offset of the current entry, or of the end of the entries if there is no current entry.
    pub(super) entry: u32,
    /// Offset of the next entry. While an entry is being decoded, the offset after its key.
    pub(super) next: u32,
    /// The whole key of the current entry.
    pub(super) key: Vec<u8>,
    /// Offset of the entry at the next restart, which shows whether the next entry is at a restart;
    /// `u32::MAX` after the last restart.
    pub(super) next_restart_offset: u32,
    pub(super) next_restart: u32,
    pub(super) valid: bool,
}

/// Initial capacity of the buffer for the key, in bytes: most keys are shorter.
const KEY_BYTES: usize = 64;

/// The lengths and offsets at the beginning of an entry.
pub(super) struct EntryHead {
    pub(super) shared: u32,
    pub(super) unshared: u32,
    pub(super) value_length: u32,
    /// Offset of the value from the start of the values. Present only if the entry is at a restart
    /// and values are stored after all keys.
    pub(super) value_offset: Option<u32>,
    /// Offset in the block at which the unshared bytes of the key begin.
    pub(super) key_start: u32,
}

impl Position {
    /// Moves just before the entry at restart number `restart`, so that the next step moves to it.
    pub(super) fn before_restart(
        &mut self,
        block: &[u8],
        layout: &Layout,
        restart: u32,
    ) -> Result<()> {
        self.before_entry(restart, layout.restart_offset(block, restart)?);
        Ok(())
    }

    /// Like [`Position::before_restart`]. `offset` is the offset of the entry.
    #[inline]
    pub(super) fn before_entry(&mut self, restart: u32, offset: u32) {
        self.next = offset;
        self.next_restart = restart;
        self.next_restart_offset = offset;
        self.key.clear();
        self.key.reserve(KEY_BYTES);
        self.valid = false;
    }

    /// Takes over another position, and keeps the buffer.
    pub(super) fn go_to(&mut self, other: &Self) {
        let mut key = std::mem::take(&mut self.key);
        key.clone_from(&other.key);
        *self = Self { key, ..*other };
    }

    /// Moves past the last entry.
    pub(super) fn at_end(&mut self, layout: &Layout) {
        self.entry = layout.entries_end;
        self.next = layout.entries_end;
        self.valid = false;
    }

    /// Moves to the next entry and decodes it up to the end of its key. Returns `None` after the
    /// last entry.
    #[inline(always)]
    pub(super) fn step<const VALUE_LENGTH: bool>(
        &mut self,
        block: &[u8],
        layout: &Layout,
    ) -> Result<Option<EntryHead>> {
        let start = self.next;
        if start >= layout.entries_end {
            self.at_end(layout);
            return Ok(None);
        }
        let at_restart = self.meets_restart(block, layout)?;
        let offset_follows = layout.values_apart && at_restart;
        let head =
            EntryHead::decode::<VALUE_LENGTH>(block, start, layout.entries_end, offset_follows)
                .ok_or_else(|| bad_entry(start))?;
        if head.shared as usize > self.key.len() || (at_restart && head.shared != 0) {
            return Err(bad_entry(start));
        }
        let key_end = head.key_end();
        let unshared =
            block.get(head.key_start as usize..key_end as usize).ok_or_else(|| bad_entry(start))?;
        self.take_key(head.shared as usize, unshared);
        self.entry = start;
        self.next = key_end;
        self.valid = true;
        Ok(Some(head))
    }

    /// Returns whether the next entry is at a restart. If it is, also looks up the restart after
    /// it.
    #[inline(always)]
    pub(super) fn meets_restart(&mut self, block: &[u8], layout: &Layout) -> Result<bool> {
        let at_restart = self.is_before_restart();
        if at_restart {
            self.pass_restart(block, layout)?;
        }
        Ok(at_restart)
    }

    /// Returns whether the next entry is at a restart.
    #[inline(always)]
    pub(super) fn is_before_restart(&self) -> bool {
        self.next == self.next_restart_offset
    }

    /// Looks up the restart after the one that the next entry is at. After an error, the position
    /// is unchanged.
    pub(super) fn pass_restart(&mut self, block: &[u8], layout: &Layout) -> Result<()> {
        self.next_restart_offset = layout.offset_or_max(block, self.next_restart + 1)?;
        self.next_restart += 1;
        Ok(())
    }

    /// Sets the key to the first `shared` bytes of the current key, followed by `unshared`.
    #[inline(always)]
    pub(super) fn take_key(&mut self, shared: usize, unshared: &[u8]) {
        self.key.truncate(shared);
        self.key.extend_from_slice(unshared);
    }

    /// Returns the index, from 0, of the last restart whose entry is before `offset`; `None` if
    /// there is none.
    pub(super) fn restart_before(
        &self,
        block: &[u8],
        layout: &Layout,
        offset: u32,
    ) -> Result<Option<u32>> {
        let mut restart = self.next_restart.min(layout.restart_count);
        while restart > 0 {
            restart -= 1;
            if layout.restart_offset(block, restart)? < offset {
                return Ok(Some(restart));
            }
        }
        Ok(None)
    }

    /// Returns the number of the restart from which to scan for a target: the last restart in
    /// `among` whose key is not above the target, or the first in `among` if there is none.
    /// `compare` compares a key of the block with the target.
    #[inline]
    pub(super) fn search_restarts<const VALUE_LENGTH: bool>(
        block: &[u8],
        layout: &Layout,
        among: Restarts,
        compare: &mut impl FnMut(&[u8]) -> Ordering,
    ) -> Result<u32> {
        let Restarts { first: mut low, last: mut high, .. } = among;
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            match compare(restart_key::<VALUE_LENGTH>(block, layout, middle)?) {
                Ordering::Less => low = middle,
                Ordering::Equal => return Ok(middle),
                Ordering::Greater => high = middle - 1,
            }
        }
        Ok(low)
    }
}

pub(super) fn restart_key<'a, const VALUE_LENGTH: bool>(
    block: &'a [u8],
    layout: &Layout,
    restart: u32,
) -> Result<&'a [u8]> {
    let start = layout.restart_offset(block, restart)?;
    EntryHead::decode::<VALUE_LENGTH>(block, start, layout.entries_end, layout.values_apart)
        .filter(|head| head.shared == 0)
        .and_then(|head| block.get(head.key_start as usize..head.key_end() as usize))
        .ok_or_else(|| bad_entry(start))
}

impl EntryHead {
    /// Returns the offset in the block at which the key ends.
    #[inline(always)]
    pub(super) fn key_end(&self) -> u32 {
        self.key_start + self.unshared
    }

    /// Returns the range of the entry's value, and the offset of the next entry; `None` if the
    /// value is not inside the block. `last_end` is the end of the previous entry's value.
    #[inline(always)]
    pub(super) fn value(&self, layout: &Layout, last_end: u32) -> Option<(Range<u32>, u32)> {
        let key_end = self.key_end();
        let (start, limit) = match (layout.values_apart, self.value_offset) {
            (false, _) => (key_end, layout.entries_end),
            (true, Some(offset)) => (layout.entries_end.checked_add(offset)?, layout.restarts),
            (true, None) => (last_end, layout.restarts),
        };
        let end = start.checked_add(self.value_length).filter(|&end| end <= limit)?;
        Some((start..end, if layout.values_apart { key_end } else { end }))
    }

    /// Decodes the beginning of the entry at offset `start`. Returns `None` if the entry is
    /// malformed or its key does not end at or before offset `end`.
    #[inline(always)]
    pub(super) fn decode<const VALUE_LENGTH: bool>(
        block: &[u8],
        start: u32,
        end: u32,
        offset_follows: bool,
    ) -> Option<Self> {
        let bytes = block.get(start as usize..end as usize)?;
        let mut at = 0;
        let (shared, unshared, value_length);
        match bytes {
            // A fast path for most entries: each of the length fields takes one byte.
            [a, b, c, ..] if VALUE_LENGTH && (a | b | c) < 0x80 => {
                (shared, unshared, value_length) = (u32::from(*a), u32::from(*b), u32::from(*c));
                at = 3;
            }
            _ => {
                shared = next_varint32(bytes, &mut at)?;
                unshared = next_varint32(bytes, &mut at)?;
                value_length = if VALUE_LENGTH { next_varint32(bytes, &mut at)? } else { 0 };
            }
        }
        let value_offset = if offset_follows { Some(next_varint32(bytes, &mut at)?) } else { None };
        let key_start = start + at as u32;
        let key_end = key_start.checked_add(unshared)?;
        (key_end <= end).then_some(Self { shared, unshared, value_length, value_offset, key_start })
    }
}

#[inline(always)]
fn next_varint32(bytes: &[u8], at: &mut usize) -> Option<u32> {
    let (value, length) = decode_varint32(bytes.get(*at..)?)?;
    *at += length;
    Some(value)
}

#[cold]
pub(super) fn bad_entry(offset: u32) -> Error {
    Error::corruption("block entry", offset as usize, "an entry inside the block", "none")
}
