//! The hash index at the end of a data block: from a user key's hash to the restart interval that has it.
//!
//! One byte a bucket: a restart number up to 253, 254 where two restarts collide, 255 where there is no key. It answers
//! only for gets; a seek needs the order.

use crate::{Error, Result};

const COLLISION: u8 = 254;
const NO_ENTRY: u8 = 255;

/// What the hash index knows of a user key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HashIndexAnswer {
    /// If the block has the key, it stands in this restart interval.
    Restart(u32),
    /// The block does not have the key; what sorts after it may stand behind the block's last entry.
    Absent,
    /// Two restarts share the bucket: search the block.
    Collision,
}

/// Where the buckets stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HashIndex {
    buckets: u32,
    count: u16,
}

impl HashIndex {
    /// Reads the bucket count that ends at `end`; also answers where the buckets begin.
    pub(super) fn parse(block: &[u8], end: usize) -> Result<(Self, usize)> {
        let (head, count) = block
            .get(..end)
            .and_then(|bytes| bytes.split_last_chunk::<2>())
            .ok_or_else(|| Error::truncated("block hash index", end))?;
        let count = u16::from_le_bytes(*count);
        match head.len().checked_sub(usize::from(count)) {
            Some(start) if count > 0 => Ok((Self { buckets: start as u32, count }, start)),
            _ => Err(Error::corruption(
                "block hash index",
                head.len(),
                "buckets inside the block",
                format!("{count} buckets"),
            )),
        }
    }

    /// Looks up a user key by its 32-bit hash ([`crate::hash::hash32`]).
    #[inline]
    pub(super) fn lookup(self, block: &[u8], hash: u32) -> HashIndexAnswer {
        let bucket = self.buckets as usize + (hash % u32::from(self.count)) as usize;
        match block.get(bucket).copied() {
            Some(NO_ENTRY) => HashIndexAnswer::Absent,
            Some(COLLISION) | None => HashIndexAnswer::Collision,
            Some(restart) => HashIndexAnswer::Restart(u32::from(restart)),
        }
    }
}
