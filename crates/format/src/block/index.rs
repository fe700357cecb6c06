//! A cursor over the entries of an index block. Each entry has the location of another block of the
//! table, such as a data block.
//!
//! The key of an entry is at or above the last key of its block, and below the first key of the
//! next block. The value is normally a block handle: the offset and the size of the block, as
//! varints. There is a shorter form in format_version 4 and later, for an entry whose key shares
//! bytes with the previous key. Its block directly follows the previous entry's block, and the
//! value is only the difference of their sizes, as a signed varint. In an index with first keys,
//! the length and the bytes of the block's first internal key follow the handle or the difference.
//! Source: `IndexValue` in `table/format.{h,cc}`.

use std::cmp::Ordering;
use std::ops::Range;

use crate::block::layout::Layout;
use crate::block::position::{Position, bad_entry};
use crate::block::restarts::Restarts;
use crate::table::{BLOCK_TRAILER_LENGTH, BlockHandle};
use crate::varint::Reader;
use crate::{Error, Result};

/// How the entries of an index block are encoded. This is recorded in the table's properties.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IndexFormat {
    /// Whether entries omit the lengths of their values, and values may be differences from the
    /// previous block (format_version 4 and later).
    pub delta_values: bool,
    /// Whether each entry also has the first internal key of its block.
    pub first_keys: bool,
}

/// A position in an index block. The cursor borrows the block only during a call, as a
/// [`crate::block::Cursor`] does.
#[derive(Debug, Default, Clone)]
pub struct IndexCursor {
    position: Position,
    handle: BlockHandle,
    first_key: Range<u32>,
    value_end: u32,
}

impl IndexCursor {
    /// Makes the cursor point to no entry. After that, it can be used on another block.
    pub fn reset(&mut self) {
        self.position.valid = false;
    }

    /// Moves to the position of another cursor on the same block.
    pub fn go_to(&mut self, other: &Self) {
        let Self { position, handle, first_key, value_end } = self;
        position.go_to(&other.position);
        *handle = other.handle;
        *first_key = other.first_key.clone();
        *value_end = other.value_end;
    }

    /// Returns whether the cursor is at an entry.
    #[inline]
    pub fn valid(&self) -> bool {
        self.position.valid
    }

    /// Returns the key of the current entry. The table's properties tell whether it is a user key
    /// or an internal key.
    #[inline]
    pub fn key(&self) -> &[u8] {
        &self.position.key
    }

    /// Returns the location of the block to which the current entry refers.
    #[inline]
    pub fn handle(&self) -> BlockHandle {
        self.handle
    }

    /// Returns the first internal key of the block to which the current entry refers; empty if the
    /// index does not store first keys.
    pub fn first_key<'a>(&self, block: &'a [u8]) -> &'a [u8] {
        block.get(self.first_key.start as usize..self.first_key.end as usize).unwrap_or_default()
    }

    /// Moves to the first entry.
    pub fn seek_to_first(
        &mut self,
        block: &[u8],
        layout: &Layout,
        format: IndexFormat,
    ) -> Result<()> {
        if layout.is_empty() {
            self.position.at_end(layout);
            return Ok(());
        }
        self.position.before_restart(block, layout, 0)?;
        self.next(block, layout, format)
    }

    /// Moves to the last entry.
    pub fn seek_to_last(
        &mut self,
        block: &[u8],
        layout: &Layout,
        format: IndexFormat,
    ) -> Result<()> {
        if layout.is_empty() {
            self.position.at_end(layout);
            return Ok(());
        }
        self.position.before_restart(block, layout, layout.restart_count - 1)?;
        self.next(block, layout, format)?;
        while self.position.valid && self.position.next < layout.entries_end {
            self.next(block, layout, format)?;
        }
        Ok(())
    }

    /// Moves to the first entry whose key is not below a target, or past the last entry if there is
    /// none. `compare` compares a key of the block with the target. `among` is a range of restarts:
    /// it must contain the last restart whose key is not above the target or, if there is none, the
    /// first restart.
    #[inline]
    pub fn seek(
        &mut self,
        block: &[u8],
        layout: &Layout,
        format: IndexFormat,
        among: Restarts,
        mut compare: impl FnMut(&[u8]) -> Ordering,
    ) -> Result<()> {
        if layout.is_empty() {
            self.position.at_end(layout);
            return Ok(());
        }
        let restart = if format.delta_values {
            Position::search_restarts::<false>(block, layout, among, &mut compare)?
        } else {
            Position::search_restarts::<true>(block, layout, among, &mut compare)?
        };
        match among.offset {
            Some(offset) if restart == among.first => self.position.before_entry(restart, offset),
            _ => self.position.before_restart(block, layout, restart)?,
        }
        loop {
            self.next(block, layout, format)?;
            if !self.position.valid || compare(&self.position.key) != Ordering::Less {
                return Ok(());
            }
        }
    }

    /// Moves to the next entry. After the last entry, the cursor is no longer valid.
    #[inline]
    pub fn next(&mut self, block: &[u8], layout: &Layout, format: IndexFormat) -> Result<()> {
        let head = if format.delta_values {
            self.position.step::<false>(block, layout)?
        } else {
            self.position.step::<true>(block, layout)?
        };
        let Some(head) = head else { return Ok(()) };
        let entry = self.position.entry;
        let start = match (layout.values_apart, head.value_offset) {
            (false, _) => self.position.next,
            (true, Some(offset)) => {
                layout.entries_end.checked_add(offset).ok_or_else(|| bad_entry(entry))?
            }
            (true, None) => self.value_end,
        };
        let limit = match (layout.values_apart, format.delta_values) {
            (true, true) => layout.restarts,
            (false, true) => layout.entries_end,
            (_, false) => start.checked_add(head.value_length).ok_or_else(|| bad_entry(entry))?,
        };
        let value = block.get(start as usize..limit as usize).ok_or_else(|| bad_entry(entry))?;
        let delta = format.delta_values && head.shared != 0;
        let length = self.decode_value(value, start, delta, format.first_keys)?;
        self.value_end = if format.delta_values { start + length } else { limit };
        if !layout.values_apart {
            self.position.next = self.value_end;
            if self.value_end > layout.entries_end {
                return Err(bad_entry(entry));
            }
        }
        Ok(())
    }

    /// Moves to the previous entry. Before the first entry, the cursor is no longer valid.
    pub fn previous(&mut self, block: &[u8], layout: &Layout, format: IndexFormat) -> Result<()> {
        let current = self.position.entry;
        let Some(restart) = self.position.restart_before(block, layout, current)? else {
            self.position.at_end(layout);
            return Ok(());
        };
        self.position.before_restart(block, layout, restart)?;
        loop {
            self.next(block, layout, format)?;
            if !self.position.valid || self.position.entry >= current {
                return Err(bad_entry(current));
            }
            if self.position.next >= current {
                return Ok(());
            }
        }
    }

    /// Decodes the value of the current entry: a handle, followed by a first key if `first_keys` is
    /// true. If `delta` is true, the handle is stored as the difference of its size from that of
    /// the previous entry's handle. The value begins at the start of `value`, which is at offset
    /// `start` of the block. Returns the length of the value in bytes.
    fn decode_value(
        &mut self,
        value: &[u8],
        start: u32,
        delta: bool,
        first_keys: bool,
    ) -> Result<u32> {
        let mut reader = Reader::new(value);
        let at = |error: Error| error.at(u64::from(start));
        self.handle = if delta {
            let difference = reader.varsigned64("index value").map_err(at)?;
            self.next_handle(difference).ok_or_else(|| {
                let found = format!("size {} changed by {difference}", self.handle.size);
                Error::corruption("index value", start as usize, "a block size", found)
            })?
        } else {
            BlockHandle::decode(&mut reader).map_err(at)?
        };
        self.first_key = 0..0;
        if first_keys {
            let key = reader.length_prefixed("first key in index").map_err(at)?;
            let end = start + reader.offset() as u32;
            self.first_key = end - key.len() as u32..end;
        }
        Ok(reader.offset() as u32)
    }

    /// Returns the handle of the block that directly follows the current one and is larger by
    /// `difference` bytes; `None` if it would exceed the limits of a file.
    fn next_handle(&self, difference: i64) -> Option<BlockHandle> {
        const TRAILER: u64 = BLOCK_TRAILER_LENGTH as u64;
        let behind = self.handle.offset.checked_add(self.handle.size)?;
        let handle = BlockHandle {
            offset: behind.checked_add(TRAILER)?,
            size: self.handle.size.checked_add_signed(difference)?,
        };
        handle.offset.checked_add(handle.size)?.checked_add(TRAILER)?;
        Some(handle)
    }
}
