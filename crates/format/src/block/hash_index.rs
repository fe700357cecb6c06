//! The hash index at the end of a data block: maps a user key's hash to the restart interval that
//! contains the key.
//!
//! One byte per bucket: a restart number up to 253, 254 if two restarts collide, 255 if there is no
//! key. Only gets use it; a seek needs sorted order.

use crate::{Error, Result};

const COLLISION: u8 = 254;
const NO_ENTRY: u8 = 255;

/// The result of looking up a user key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HashIndexAnswer {
    /// If the block contains the key, it is in this restart interval.
    Restart(u32),
    /// The block does not contain the key. A key that sorts after it may be in a later block.
    Absent,
    /// Two restarts share the bucket: search the block.
    Collision,
}

/// The location of the buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HashIndex {
    buckets: u32,
    count: u16,
}

impl HashIndex {
    /// Reads the bucket count that ends at `end`; also returns the offset of the buckets.
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

/// The highest restart that a bucket can name.
const RESTART_MAX: usize = 253;

/// Collects the keys of a block and builds its hash index.
#[derive(Debug)]
pub(super) struct HashIndexBuilder {
    buckets_per_key: f64,
    /// Number of buckets that the keys so far require.
    buckets: f64,
    /// The hashes of the keys and their restarts.
    keys: Vec<(u32, u8)>,
    /// Whether a block since the last reset had too many restarts.
    given_up: bool,
    /// The finished buckets and their number.
    finished: Vec<u8>,
}

impl HashIndexBuilder {
    /// Creates a builder that fills this fraction of the buckets; RocksDB's default of 0.75 if it
    /// is not above 0.
    pub(super) fn new(utilization: f64) -> Self {
        let utilization = if utilization > 0.0 { utilization } else { 0.75 };
        Self {
            buckets_per_key: 1.0 / utilization,
            buckets: 0.0,
            keys: Vec::new(),
            given_up: false,
            finished: Vec::new(),
        }
    }

    /// Resets the keys and the flag that a block had too many restarts.
    pub(super) fn reset(&mut self) {
        self.clear();
        self.given_up = false;
    }

    /// Discards the keys of the current block.
    pub(super) fn clear(&mut self) {
        self.keys.clear();
        self.buckets = 0.0;
    }

    #[inline]
    pub(super) fn add(&mut self, hash: u32, restart: usize) {
        if restart > RESTART_MAX {
            self.given_up = true;
        } else if !self.given_up {
            self.keys.push((hash, restart as u8));
            self.buckets += self.buckets_per_key;
        }
    }

    /// Returns the number of buckets, which is odd because the hash spreads badly over powers of
    /// two.
    fn bucket_count(&self) -> u16 {
        self.buckets as u32 as u16 | 1
    }

    /// Returns the length of the index in bytes.
    pub(super) fn length(&self) -> usize {
        if self.given_up { 0 } else { usize::from(self.bucket_count()) + 2 }
    }

    /// Returns the buckets and their number; `None` if the block has no hash index.
    pub(super) fn finish(&mut self) -> Option<&[u8]> {
        if self.given_up {
            return None;
        }
        let count = self.bucket_count();
        self.finished.clear();
        self.finished.resize(usize::from(count), NO_ENTRY);
        for &(hash, restart) in &self.keys {
            if let Some(bucket) = self.finished.get_mut((hash % u32::from(count)) as usize) {
                *bucket = match *bucket {
                    NO_ENTRY => restart,
                    other if other == restart => restart,
                    _ => COLLISION,
                };
            }
        }
        self.finished.extend_from_slice(&count.to_le_bytes());
        Some(&self.finished)
    }
}
