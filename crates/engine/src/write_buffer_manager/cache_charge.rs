//! The part of a cache's capacity that memtables take.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tailwater_io::sync::Mutex;

use crate::block_cache::BlockCache;
use crate::cache::Reservation;

/// The unit in which capacity is taken, in bytes: the size of a dummy entry in RocksDB.
const UNIT: usize = 256 << 10;

/// The capacity that memtables take from a cache.
#[derive(Debug)]
pub(super) struct CacheCharge {
    cache: Arc<BlockCache>,
    /// Reservations of [`UNIT`] bytes each.
    units: Mutex<Vec<Reservation>>,
    /// The bytes of all `units`: a copy that can be read without the lock.
    bytes: AtomicUsize,
}

impl CacheCharge {
    pub(super) fn new(cache: Arc<BlockCache>) -> Self {
        Self { cache, units: Mutex::default(), bytes: AtomicUsize::new(0) }
    }

    /// Returns the bytes taken from the capacity.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Takes or gives back capacity, until it covers the memory that `used` returns, in bytes. If
    /// the cache cannot free enough, takes less; the next update tries again.
    ///
    /// Capacity is given back only when less than 3/4 of it is used: memtables that grow again
    /// would have to evict blocks for it. Source: `CacheReservationManagerImpl` in
    /// `cache/cache_reservation_manager.cc`.
    pub(super) fn update(&self, used: impl FnOnce() -> usize) {
        let mut units = self.units.lock();
        // Read under the lock, so that the last update is the one that sees the last change.
        let used = used();
        let taken = units.len() * UNIT;
        if used > taken {
            let missing = (used - taken).div_ceil(UNIT);
            units.extend((0..missing).map_while(|_| self.cache.reserve(UNIT)));
        } else if used < taken / 4 * 3 {
            units.truncate(used.div_ceil(UNIT));
        }
        self.bytes.store(units.len() * UNIT, Ordering::Relaxed);
    }
}
