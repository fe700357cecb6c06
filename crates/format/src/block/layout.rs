//! The footer of a block, which gives the locations of its restarts, values and hash index.

use crate::block::hash_index::HashIndex;
use crate::block::restarts::Restarts;
use crate::{Error, Result};

pub(super) const RESTARTS_MASK: u32 = (1 << 28) - 1;
pub(super) const VALUES_APART: u32 = 1 << 28;
const KEYS_UNIFORM: u32 = 1 << 29;
const RESERVED: u32 = 1 << 30;
pub(super) const HASH_INDEX: u32 = 1 << 31;

/// The locations of the parts of a block. Offsets count from the start of the uncompressed block,
/// in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Offset of the end of the entries. The values follow there, if they are stored together after
    /// all keys; otherwise the restarts follow.
    pub(super) entries_end: u32,
    /// Offset of the array of restarts.
    pub(super) restarts: u32,
    /// Number of restarts; 0 only in a block without entries.
    pub(super) restart_count: u32,
    /// Whether the values are stored together after all keys. They then begin at `entries_end`.
    pub(super) values_apart: bool,
    /// Whether the writer has marked the keys as evenly spread.
    keys_uniform: bool,
    pub(super) hash_index: Option<HashIndex>,
}

impl Layout {
    /// The layout of a block without entries.
    pub const EMPTY: Self = Self {
        entries_end: 0,
        restarts: 0,
        restart_count: 0,
        values_apart: false,
        keys_uniform: false,
        hash_index: None,
    };

    /// Reads the footer of an uncompressed block. Checks that all parts that it describes are
    /// inside the block.
    ///
    /// # Errors
    /// Corruption if the block is too short for its parts, or if the footer has bits that no format
    /// version defines.
    pub fn parse(block: &[u8]) -> Result<Self> {
        let length = u32::try_from(block.len())
            .map_err(|_| Error::corruption("block", 0, "less than 4 GiB", "more"))?;
        let mut end = block.len();
        let packed = take_fixed32(block, &mut end)?;
        if packed & RESERVED != 0 {
            let found = format!("{packed:#x}");
            return Err(Error::corruption("block footer", end, "reserved bit 30 clear", found));
        }
        let values_apart = packed & VALUES_APART != 0;
        let values = if values_apart { Some(take_fixed32(block, &mut end)?) } else { None };
        let hash_index = if packed & HASH_INDEX != 0 {
            let (index, start) = HashIndex::parse(block, end)?;
            end = start;
            Some(index)
        } else {
            None
        };

        let restart_count = packed & RESTARTS_MASK;
        let restarts = (restart_count as usize)
            .checked_mul(4)
            .and_then(|bytes| end.checked_sub(bytes))
            .ok_or_else(|| {
                let found = format!("{restart_count} restarts in {length} bytes");
                Error::corruption("block footer", block.len() - 4, "restarts inside", found)
            })? as u32;
        let entries_end = values.unwrap_or(restarts);
        if entries_end > restarts {
            let found = format!("offset {entries_end}");
            return Err(Error::corruption("block footer", end, "values before restarts", found));
        }
        if restart_count == 0 && entries_end != 0 {
            return Err(Error::corruption("block footer", end, "a restart", "entries without one"));
        }
        let keys_uniform = packed & KEYS_UNIFORM != 0;
        Ok(Self { entries_end, restarts, restart_count, values_apart, keys_uniform, hash_index })
    }

    /// Returns the number of restarts.
    pub fn restart_count(&self) -> u32 {
        self.restart_count
    }

    /// Returns whether the block has no entry.
    pub fn is_empty(&self) -> bool {
        self.entries_end == 0
    }

    /// Returns whether the values are stored together after all keys.
    pub fn values_apart(&self) -> bool {
        self.values_apart
    }

    /// Returns whether the writer has marked the keys as evenly spread.
    pub fn keys_uniform(&self) -> bool {
        self.keys_uniform
    }

    /// Returns whether the block has a hash index.
    pub fn has_hash_index(&self) -> bool {
        self.hash_index.is_some()
    }

    /// Returns the offset of the array of restarts. If the block has a hash index, it follows the
    /// array.
    #[inline]
    pub fn restarts_offset(&self) -> usize {
        self.restarts as usize
    }

    /// Returns the offset in the block at which the array of restarts has the last of these.
    #[inline]
    pub fn offset_of_last(&self, restarts: &Restarts) -> usize {
        self.restarts as usize + 4 * restarts.last as usize
    }

    /// Returns the offset of the entry at the last of these restarts, as the block stores it: a
    /// damaged block may store any.
    #[inline]
    pub fn entry_of_last(&self, block: &[u8], restarts: &Restarts) -> Option<usize> {
        self.stored_offset(block, restarts.last)
    }

    /// Returns the offset of the entry at restart number `restart`, as the block stores it: a
    /// damaged block may store any.
    #[inline]
    pub(super) fn stored_offset(&self, block: &[u8], restart: u32) -> Option<usize> {
        let at = self.restarts as usize + 4 * restart as usize;
        Some(u32::from_le_bytes(*block.get(at..)?.first_chunk::<4>()?) as usize)
    }

    /// Returns the offsets of the entries at the restarts, as the block stores them: a damaged
    /// block may store any.
    #[inline]
    pub fn restart_offsets<'a>(&self, block: &'a [u8]) -> impl Iterator<Item = usize> + use<'a> {
        let (from, bytes) = (self.restarts as usize, 4 * self.restart_count as usize);
        let array = block.get(from..from.saturating_add(bytes)).unwrap_or_default();
        array.as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes) as usize)
    }

    /// Returns the offset of the entry at restart number `restart`.
    #[inline]
    pub(super) fn restart_offset(&self, block: &[u8], restart: u32) -> Result<u32> {
        let at = self.restarts as usize + 4 * restart as usize;
        let offset = block
            .get(at..)
            .and_then(|rest| rest.first_chunk::<4>())
            .map(|bytes| u32::from_le_bytes(*bytes))
            .ok_or_else(|| Error::truncated("block restart", at))?;
        if offset >= self.entries_end && offset != 0 {
            let found = format!("offset {offset} of {}", self.entries_end);
            return Err(Error::corruption("block restart", at, "an entry's offset", found));
        }
        Ok(offset)
    }

    /// Returns the offset of the entry at restart number `restart`; `u32::MAX` if there are not
    /// that many restarts.
    #[inline]
    pub(super) fn offset_or_max(&self, block: &[u8], restart: u32) -> Result<u32> {
        if restart < self.restart_count {
            self.restart_offset(block, restart)
        } else {
            Ok(u32::MAX)
        }
    }
}

fn take_fixed32(block: &[u8], end: &mut usize) -> Result<u32> {
    let (head, bytes) = block
        .get(..*end)
        .and_then(|bytes| bytes.split_last_chunk::<4>())
        .ok_or_else(|| Error::truncated("block footer", 0))?;
    *end = head.len();
    Ok(u32::from_le_bytes(*bytes))
}
