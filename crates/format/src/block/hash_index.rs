//! The hash index at the end of a data block. It maps the hash of a user key to the restart
//! interval that contains the key.
//!
//! Each bucket is one byte: the number of a restart, from 0 to 253; or 254 if keys of several
//! restart intervals are in the bucket; or 255 if the bucket has no key. Only gets use the hash
//! index, since a seek must also find the next higher key.

use crate::{Error, Result};

const COLLISION: u8 = 254;
const NO_ENTRY: u8 = 255;

/// The result of looking up a user key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HashIndexAnswer {
    /// If the block contains the key, the key is in the interval of this restart.
    Restart(u32),
    /// This block does not contain the key. The next block may contain it, or the next higher key.
    Absent,
    /// Keys of several restart intervals are in the bucket, so the block must be searched.
    Collision,
}

/// Where the buckets are in the block: the offset of the first bucket, and their number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HashIndex {
    buckets: u32,
    count: u16,
}

impl HashIndex {
    /// Parses the hash index that ends at offset `end`. Its last two bytes are the number of
    /// buckets. Returns the hash index, and the offset at which its buckets begin.
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

/// The highest restart number that a bucket can store.
const RESTART_MAX: usize = 253;

/// Collects the hashes of the keys of a block, and builds its hash index.
#[derive(Debug)]
pub(super) struct HashIndexBuilder {
    buckets_per_key: f64,
    /// Number of buckets for the keys so far, before it is rounded.
    buckets: f64,
    /// For each key added: its hash, and the index of the restart interval that contains the key.
    keys: Vec<(u32, u8)>,
    /// Whether a block since the last `reset` had more restarts than a bucket can number.
    given_up: bool,
    /// The hash index that was built last: the buckets, followed by their number.
    finished: Vec<u8>,
}

impl HashIndexBuilder {
    /// Creates a builder. `utilization` is the number of keys per bucket; if it is not above 0,
    /// RocksDB's default of 0.75 is used.
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

    /// Discards the keys, and allows hash indexes again after a block with too many restarts.
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

    /// Returns the number of buckets. It is odd, because the hashes are distributed badly over a
    /// number of buckets that is a power of two.
    fn bucket_count(&self) -> u16 {
        self.buckets as u32 as u16 | 1
    }

    /// Returns the length of the hash index in bytes, which is 0 if there is none.
    pub(super) fn length(&self) -> usize {
        if self.given_up { 0 } else { usize::from(self.bucket_count()) + 2 }
    }

    /// Returns the buckets and, after them, the count of buckets. Returns `None` if the block gets
    /// no hash index.
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
