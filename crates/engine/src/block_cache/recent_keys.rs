//! The keys that users read lately. When a flush writes a record of one of these keys, the block
//! with the record is worth keeping in a cache: the version of the key that users read, in a
//! memtable or in a cached block of an older table, is obsolete, and their next read needs the new
//! one.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use tailwater_format::filter::FilterKey;

/// Bytes of a cache for each bit of a set. Values of this size and more have a bit each if they are
/// all cached and read.
const BYTES_PER_BIT: usize = 128;
/// Bounds of the number of bits of a set; powers of two.
const BITS_MIN: usize = 1 << 18;
const BITS_MAX: usize = 1 << 25;
/// A set is full if 1/FULL_PART of its bits are set. It then takes no more keys, and the next flush
/// begins a new one.
const FULL_PART: usize = 16;

/// The keys that users read lately, in two sets: the one that is being filled, and the one before.
/// A set is a bitmap indexed by a part of the key's hash. Because of collisions, one in eight keys
/// at most may be reported although users did not read it. Any thread may use this.
#[derive(Debug)]
pub(crate) struct RecentKeys {
    bits: usize,
    /// The sets, once a key was noted.
    sets: OnceLock<[KeySet; 2]>,
    /// Index of the set that is being filled.
    current: AtomicUsize,
}

#[derive(Debug)]
struct KeySet {
    words: Box<[AtomicU64]>,
    /// Number of bits that are set.
    count: AtomicUsize,
}

impl RecentKeys {
    /// Creates an empty set for the readers of a cache that grows to at most `cache_bytes` bytes.
    /// It takes 1/512 of this memory, 64 KiB to 8 MiB, once a key was noted.
    pub(crate) fn new(cache_bytes: usize) -> Self {
        let bits = (cache_bytes / BYTES_PER_BIT).clamp(BITS_MIN, BITS_MAX).next_power_of_two();
        Self { bits, sets: OnceLock::new(), current: AtomicUsize::new(0) }
    }

    /// Records that a user read a key, unless the set is full. Writes to memory only if the key's
    /// bit is not set yet.
    #[inline]
    pub(crate) fn note(&self, user_key: &[u8]) {
        let sets = self.sets.get_or_init(|| [0, 1].map(|_| KeySet::new(self.bits)));
        let hash = FilterKey::new(user_key).hash();
        sets[self.current.load(Relaxed) & 1].add(hash, self.full());
    }

    /// Whether a user read a key lately. May return true for another key because of a collision.
    pub(crate) fn has(&self, user_key: &[u8]) -> bool {
        let hash = FilterKey::new(user_key).hash();
        self.sets.get().is_some_and(|sets| sets.iter().any(|set| set.has(hash)))
    }

    /// Begins a new set, and forgets the one before the current one, if the current one is full.
    /// Keys that are noted meanwhile may be forgotten, too.
    pub(crate) fn forget_old(&self) {
        let Some(sets) = self.sets.get() else { return };
        let current = self.current.load(Relaxed) & 1;
        if sets[current].count.load(Relaxed) >= self.full() {
            sets[current ^ 1].clear();
            self.current.store(current ^ 1, Relaxed);
        }
    }

    /// Returns the number of bits that are set in a full set.
    #[inline]
    fn full(&self) -> usize {
        self.bits / FULL_PART
    }
}

impl KeySet {
    fn new(bits: usize) -> Self {
        let words = (0..bits / 64).map(|_| AtomicU64::new(0)).collect();
        Self { words, count: AtomicUsize::new(0) }
    }

    #[inline]
    fn add(&self, hash: u64, full: usize) {
        let (word, bit) = self.place(hash);
        if word.load(Relaxed) & bit == 0
            && self.count.load(Relaxed) < full
            && word.fetch_or(bit, Relaxed) & bit == 0
        {
            self.count.fetch_add(1, Relaxed);
        }
    }

    fn has(&self, hash: u64) -> bool {
        let (word, bit) = self.place(hash);
        word.load(Relaxed) & bit != 0
    }

    fn clear(&self) {
        self.words.iter().for_each(|word| word.store(0, Relaxed));
        self.count.store(0, Relaxed);
    }

    #[inline]
    fn place(&self, hash: u64) -> (&AtomicU64, u64) {
        // The number of words is a power of two.
        (&self.words[(hash >> 6) as usize & (self.words.len() - 1)], 1 << (hash % 64))
    }
}

#[cfg(all(not(loom), test))]
mod tests {
    use super::*;

    fn keys(numbers: std::ops::Range<u64>) -> impl Iterator<Item = [u8; 8]> {
        numbers.map(u64::to_be_bytes)
    }

    fn share_of(recent: &RecentKeys, numbers: std::ops::Range<u64>) -> f64 {
        let count = numbers.end - numbers.start;
        keys(numbers).filter(|key| recent.has(key)).count() as f64 / count as f64
    }

    #[test]
    fn keys_are_forgotten_after_enough_others_were_read() {
        let recent = RecentKeys::new(0);
        assert_eq!(share_of(&recent, 0..1000), 0.0);
        keys(0..1000).for_each(|key| recent.note(&key));
        recent.forget_old();
        assert_eq!(share_of(&recent, 0..1000), 1.0);
        assert!(share_of(&recent, 1000..10_000) < 0.02);
        // One key that is read over and over displaces nothing.
        for _ in 0..100_000 {
            recent.note(b"hot");
        }
        recent.forget_old();
        assert_eq!(share_of(&recent, 0..1000), 1.0);
        let full = (BITS_MIN / FULL_PART) as u64;
        for round in 1..3 {
            let begin = round * 1_000_000;
            keys(begin..begin + full + full / 8).for_each(|key| recent.note(&key));
            recent.forget_old();
            assert_eq!(share_of(&recent, begin..begin + full - 2000), 1.0, "{round}");
            let expected = if round == 1 { 1.0 } else { 0.13 };
            assert!(share_of(&recent, 0..1000) <= expected, "{round}");
        }
        // However many keys are read before the next flush, few others seem to be.
        keys(5_000_000..6_000_000).for_each(|key| recent.note(&key));
        recent.forget_old();
        assert!(share_of(&recent, 10_000_000..10_010_000) < 1.0 / 7.0);
    }
}
