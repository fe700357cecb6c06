//! Memory outside a block cache that is charged to it.

use std::sync::Arc;

use super::BlockCache;
use crate::cache::Reservation;

/// Size of the parts, in bytes, in which growing memory is charged. Same as in RocksDB.
const PART: usize = 256 << 10;

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

/// Memory that grows and is charged to a cache in parts, until this value is dropped. Parts that do
/// not fit under a strict capacity limit are not charged.
#[derive(Debug)]
pub(crate) struct GrowingCharge {
    cache: Arc<BlockCache>,
    parts: Vec<Reservation>,
    /// Size of all parts, charged or not.
    bytes: usize,
}

impl GrowingCharge {
    pub(crate) fn new(cache: Arc<BlockCache>) -> Self {
        Self { cache, parts: Vec::new(), bytes: 0 }
    }

    /// Charges more parts if the memory has grown by at least half a part since the last one. Takes
    /// no lock, because it may be called by a thread of low priority.
    #[inline]
    pub(crate) fn grow_to(&mut self, bytes: usize) {
        if bytes >= self.bytes + PART / 2 {
            self.add((bytes - self.bytes).next_multiple_of(PART));
        }
    }

    /// Charges `bytes` in addition.
    #[cold]
    pub(crate) fn add(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.parts.extend(self.cache.blocks.charge_without_lock(bytes));
    }
}
