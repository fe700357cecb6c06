//! What left the cache lately: to tell how many misses a larger cache would have spared.
//!
//! Of all keys one in [`SAMPLED`] is kept account of, by its hash. When it is evicted it is noted
//! with the count of evictions at that time; when it comes back, the evictions since then say how
//! much larger the cache would have had to be. Inserts and evictions alone come here, never hits.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tailwater_io::sizing::GhostHits;

/// One key in so many is sampled; a power of two.
const SAMPLED: u64 = 32;
/// How many evictions are remembered: sampled ones, about.
const PLACES: usize = 1 << 14;
/// A key that was let go of so few KiB ago is near, however small the cache is: where it has little
/// of what is read, a quarter more spares little, and much more may spare all.
const NEAR_MIN_KIB: u64 = 64 << 10;
/// How many bits of a place are of the hash; the others count evictions.
const HASH_BITS: u32 = 32;

/// Keys that were evicted lately. Safe to use from any thread.
#[derive(Debug)]
pub(super) struct Ghosts {
    places: Box<[AtomicU64]>,
    /// How many bytes were evicted so far, in KiB.
    evicted_kib: AtomicU64,
    /// Sampled keys that came back, and that a cache a quarter larger, or by [`NEAR_MIN_KIB`],
    /// would have kept.
    near: AtomicU64,
    /// All sampled keys that were inserted.
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

    /// An entry was evicted.
    #[inline]
    pub(super) fn evicted(&self, hash: u64, bytes: usize) {
        let before = self.evicted_kib.fetch_add((bytes as u64 >> 10).max(1), Relaxed);
        if let Some((place, tag)) = self.sampled(hash) {
            let stamp = before & (u64::MAX >> HASH_BITS);
            place.store(tag << HASH_BITS | stamp, Relaxed);
        }
    }

    /// A key comes in, of a cache of so many bytes.
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

    /// What was found so far.
    pub(super) fn hits(&self) -> GhostHits {
        GhostHits { near: self.near.load(Relaxed), inserted: self.inserted.load(Relaxed) }
    }

    /// The place of a hash that is sampled, and what tells it from others there: never 0.
    fn sampled(&self, hash: u64) -> Option<(&AtomicU64, u64)> {
        // Bits that neither shard, bucket nor tag is taken from alone.
        let mixed = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let is_sampled = mixed >> 32 & (SAMPLED - 1) == 0;
        is_sampled.then(|| (&self.places[(mixed >> 40) as usize % PLACES], hash >> 32 | 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goes round over so many keys of 4 KiB, of which a cache of `capacity` bytes has none when
    /// they come. Answers the share of them that a cache a quarter larger would have had.
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
    fn a_set_a_little_larger_than_the_cache_is_near_and_one_far_larger_is_not() {
        let capacity = 256 << 20;
        let held = capacity as u64 / 4096;
        assert!(share_near(held * 9 / 8, capacity) > 0.8);
        assert!(share_near(held * 2, capacity) < 0.01);
        assert!(share_near(held * 20, capacity) < 0.01);
        // A small one would have to be several times as large, and may be.
        assert!(share_near(1 << 14, 8 << 20) > 0.8);
        assert!(share_near(1 << 15, 8 << 20) < 0.01);
    }

    #[test]
    fn what_comes_once_is_never_near() {
        let ghosts = Ghosts::new();
        for key in 0..100_000_u64 {
            let hash = key.wrapping_mul(0xd6e8_feb8_6659_fd93);
            ghosts.inserted(hash, 1 << 20);
            ghosts.evicted(hash, 4096);
        }
        assert_eq!(ghosts.hits().near, 0);
    }
}
