//! The keys that users have read in a memtable. When the memtable is flushed to a table, the blocks
//! with these keys are worth keeping in a cache.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tailwater_format::filter::FilterKey;

/// Number of 64-bit words in the bitmap.
const WORDS: usize = 4096;

/// The keys that users read, as a 32 KiB bitmap indexed by a part of the key's hash. Because of
/// collisions, a key that was not read may be reported as read.
#[derive(Debug)]
pub(super) struct ReadKeys(Box<[AtomicU64]>);

impl ReadKeys {
    /// Creates an empty set.
    pub(super) fn new() -> Self {
        Self((0..WORDS).map(|_| AtomicU64::new(0)).collect())
    }

    /// Records that a key was read. Writes to memory only if the key's bit is not set yet.
    #[inline]
    pub(super) fn note(&self, user_key: &[u8]) {
        let (word, bit) = self.place(user_key);
        if word.load(Relaxed) & bit == 0 {
            word.fetch_or(bit, Relaxed);
        }
    }

    /// Whether a key was read. May return true for another key because of a hash collision.
    pub(super) fn has(&self, user_key: &[u8]) -> bool {
        let (word, bit) = self.place(user_key);
        word.load(Relaxed) & bit != 0
    }

    #[inline]
    fn place(&self, user_key: &[u8]) -> (&AtomicU64, u64) {
        let hash = FilterKey::new(user_key).hash();
        (&self.0[(hash >> 6) as usize % WORDS], 1 << (hash % 64))
    }
}
