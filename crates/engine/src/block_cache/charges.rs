//! Memory outside a block cache that is charged to it.

use std::sync::Arc;

use super::BlockCache;
use crate::cache::OutsideCharge;

/// Size of the steps in which memory is charged, in bytes: that of a dummy entry in RocksDB.
const STEP: usize = 256 << 10;

/// The uses of memory that are charged to the block cache of a column family, each with that cache.
/// By default, none is. The option is `cache_usage_options`.
#[derive(Debug, Clone, Default)]
pub(crate) struct CacheCharges {
    /// Filters that are being built.
    pub(crate) filters: Option<Arc<BlockCache>>,
    /// Open tables.
    pub(crate) readers: Option<Arc<BlockCache>>,
    /// What is kept of each table of a version.
    pub(crate) files: Option<Arc<BlockCache>>,
}

/// Memory outside a cache that is charged to it in steps of [`STEP`], until this value is dropped.
#[derive(Debug)]
pub(crate) struct SteppedCharge {
    cache: Arc<BlockCache>,
    /// `None` until memory is charged.
    charged: Option<OutsideCharge>,
}

impl SteppedCharge {
    pub(crate) fn new(cache: Arc<BlockCache>) -> Self {
        Self { cache, charged: None }
    }

    /// Returns the number of bytes that are charged.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.charged.as_ref().map_or(0, OutsideCharge::bytes)
    }

    /// Charges more if memory of `bytes` exceeds what is charged by at least half a step. Takes no
    /// lock, because it may be called by a thread of low priority. What does not fit under a strict
    /// capacity limit is not charged; the next call tries again.
    #[inline]
    pub(crate) fn grow_to(&mut self, bytes: usize) {
        if bytes >= self.bytes() + STEP / 2 {
            self.grow_by((bytes - self.bytes()).next_multiple_of(STEP));
        }
    }

    #[cold]
    fn grow_by(&mut self, bytes: usize) {
        if let Some(more) = self.cache.blocks.charge_without_lock(bytes) {
            self.add(more);
        }
    }

    /// Charges memory of `bytes`, evicting blocks if needed. If a strict cache cannot free
    /// enough, charges less; the next call tries again.
    ///
    /// The charge is lowered only when less than 3/4 of it is used: memory that grows again would
    /// have to evict blocks. Source: `CacheReservationManagerImpl` in
    /// `cache/cache_reservation_manager.cc`.
    pub(crate) fn set_to(&mut self, bytes: usize) {
        while self.bytes() < bytes
            && let Some(more) = self.cache.blocks.charge(STEP)
        {
            self.add(more);
        }
        if let Some(charged) = &mut self.charged
            && bytes < charged.bytes() / 4 * 3
        {
            charged.shrink_to(bytes.next_multiple_of(STEP));
        }
    }

    fn add(&mut self, more: OutsideCharge) {
        match &mut self.charged {
            Some(charged) => charged.absorb(more),
            None => self.charged = Some(more),
        }
    }
}
