//! Recently evicted keys, to estimate how many misses a larger cache would avoid.
//!
//! One of every [`SAMPLED`] keys is tracked, selected by its hash. When a tracked key is evicted,
//! its slot records the total of bytes evicted so far. When the key is inserted again, the bytes
//! evicted since then show how much larger the cache would have had to be to keep it. Only inserts
//! and evictions use this module; hits do not.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tailwater_io::sizing::GhostHits;

/// Sampling rate: one key in this many is tracked. A power of two.
const SAMPLED: u64 = 32;
/// Number of slots for sampled keys. Each slot remembers one evicted key.
const PLACES: usize = 1 << 14;
/// An insertion of a key is a near hit if a somewhat larger cache would still have held the key.
/// "Somewhat larger" usually means by a quarter. A small cache that holds little of the data that
/// is read may avoid few misses if it grows by a quarter, but all of them if it grows much larger.
/// So the insertion is always a near hit if at most this many KiB were evicted between the key's
/// eviction and its insertion.
const NEAR_MIN_KIB: u64 = 64 << 10;
/// Number of bits of a slot that hold a part of the key's hash. The remaining bits hold the low
/// bits of `evicted_kib` at the key's eviction.
const HASH_BITS: u32 = 32;

/// Recently evicted keys. Any thread may use this.
#[derive(Debug)]
pub(super) struct Ghosts {
    places: Box<[AtomicU64]>,
    /// Total size of all entries evicted so far, in KiB.
    evicted_kib: AtomicU64,
    /// Number of near hits: insertions of sampled keys that a cache larger by a quarter, or by
    /// [`NEAR_MIN_KIB`] if that is more, would still have held.
    near: AtomicU64,
    /// Number of insertions of sampled keys into the cache.
    inserted: AtomicU64,
}

impl Ghosts {
    pub(super) fn new() -> Self {
        Self {
            places: (0..PLACES).map(|_| AtomicU64::new(0)).collect(),
            evicted_kib: AtomicU64::new(0),
            near: AtomicU64::new(0),
            inserted: AtomicU64::new(0),
        }
    }

    /// Records the eviction of an entry.
    #[inline]
    pub(super) fn evicted(&self, hash: u64, bytes: usize) {
        let before = self.evicted_kib.fetch_add((bytes as u64 >> 10).max(1), Relaxed);
        if let Some((place, tag)) = self.sampled(hash) {
            let stamp = before & (u64::MAX >> HASH_BITS);
            place.store(tag << HASH_BITS | stamp, Relaxed);
        }
    }

    /// Records the insertion of a key into a cache of `capacity` bytes.
    #[inline]
    pub(super) fn inserted(&self, hash: u64, capacity: usize) {
        let Some((place, tag)) = self.sampled(hash) else { return };
        self.inserted.fetch_add(1, Relaxed);
        let found = place.load(Relaxed);
        if found >> HASH_BITS != tag {
            return;
        }
        place.store(0, Relaxed);
        let mask = u64::MAX >> HASH_BITS;
        let since = self.evicted_kib.load(Relaxed).wrapping_sub(found & mask) & mask;
        if since <= (capacity as u64 >> 12).max(NEAR_MIN_KIB) {
            self.near.fetch_add(1, Relaxed);
        }
    }

    /// Returns the number of near hits, and of all insertions of sampled keys, so far. A near hit
    /// is the insertion of a sampled key that a somewhat larger cache would still have held.
    pub(super) fn hits(&self) -> GhostHits {
        GhostHits { near: self.near.load(Relaxed), inserted: self.inserted.load(Relaxed) }
    }

    /// Returns the slot for a key with this hash, and the tag that identifies the key in its slot.
    /// A tag is never 0. Returns `None` if the key is not sampled.
    fn sampled(&self, hash: u64) -> Option<(&AtomicU64, u64)> {
        // Mixes all bits of the hash. Otherwise, sampled keys would share the bits that select the
        // shard, the bucket or the tag.
        let mixed = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let is_sampled = mixed >> 32 & (SAMPLED - 1) == 0;
        is_sampled.then(|| (&self.places[(mixed >> 40) as usize % PLACES], hash >> 32 | 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Inserts `keys` keys in turn, over and over, each with an entry of 4 KiB, into a simulated
    /// cache of `capacity` bytes that evicts entries in the order of their insertion. Returns the
    /// share of insertions that count as near: a somewhat larger cache would still have held the
    /// key.
    fn share_near(keys: u64, capacity: usize) -> f64 {
        let ghosts = Ghosts::new();
        let hash = |key: u64| (key + 1).wrapping_mul(0xd6e8_feb8_6659_fd93);
        let held = capacity as u64 / 4096;
        for step in 0..10 * keys {
            ghosts.inserted(hash(step % keys), capacity);
            if step >= held {
                ghosts.evicted(hash((step - held) % keys), 4096);
            }
        }
        let GhostHits { near, inserted } = ghosts.hits();
        assert!(inserted > 0);
        near as f64 / inserted as f64
    }

    #[test]
    fn only_working_sets_slightly_larger_than_the_cache_have_near_hits() {
        let capacity = 256 << 20;
        let held = capacity as u64 / 4096;
        assert!(share_near(held * 9 / 8, capacity) > 0.8);
        assert!(share_near(held * 2, capacity) < 0.01);
        assert!(share_near(held * 20, capacity) < 0.01);
        // Only a cache several times as large would avoid the misses on this working set. Its
        // insertions are near hits nevertheless, because at most NEAR_MIN_KIB is evicted between a
        // key's eviction and its next insertion.
        assert!(share_near(1 << 14, 8 << 20) > 0.8);
        assert!(share_near(1 << 15, 8 << 20) < 0.01);
    }

    #[test]
    fn keys_inserted_once_are_never_near_hits() {
        let ghosts = Ghosts::new();
        for key in 0..100_000_u64 {
            let hash = key.wrapping_mul(0xd6e8_feb8_6659_fd93);
            ghosts.inserted(hash, 1 << 20);
            ghosts.evicted(hash, 4096);
        }
        assert_eq!(ghosts.hits().near, 0);
    }
}
