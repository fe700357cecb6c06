//! Random objects that databases can share: caches with a strict limit, row caches, write buffer
//! managers.

use std::sync::Arc;

use fastrand::Rng;
use tailwater::{BlockCache, OpenOptions, WriteBufferManager};

/// Capacity of a cache in which every read finds room, in bytes.
const ENOUGH: usize = 64 << 20;

/// The objects with which a database is opened.
#[derive(Debug, Clone)]
pub(crate) struct SharedObjects {
    /// A block cache with a strict limit, and its capacity in bytes.
    strict: Option<(Arc<BlockCache>, usize)>,
    rows: Option<Arc<BlockCache>>,
    manager: Option<Arc<WriteBufferManager>>,
}

impl SharedObjects {
    /// Returns random objects for a history that may have range deletions, which a row cache
    /// excludes.
    pub(crate) fn random(rng: &mut Rng, deletes_ranges: bool) -> Self {
        let strict = (rng.u8(..4) == 0).then(|| {
            let capacity = *rng.choice(&[0, 2000, 20_000]).expect("there are some");
            let cache = BlockCache::new(capacity);
            cache.set_strict_capacity_limit(true);
            (Arc::new(cache), capacity)
        });
        let rows = match (rng.u8(..6), &strict) {
            _ if deletes_ranges => None,
            (0 | 1, Some((strict, _))) => Some(Arc::clone(strict)),
            (0..=3, _) => Some(Arc::new(BlockCache::new(rng.usize(..30_000)))),
            _ => None,
        };
        // Writes do not stall: iterators that stay open keep the memory that a stall waits for.
        let manager = match (rng.u8(..6), &strict) {
            (0, Some((strict, _))) => {
                let strict = Arc::clone(strict);
                Some(Arc::new(WriteBufferManager::with_cache(rng.usize(..300_000), strict, false)))
            }
            (0 | 1, _) => Some(Arc::new(WriteBufferManager::new(rng.usize(..300_000), false))),
            _ => None,
        };
        Self { strict, rows, manager }
    }

    pub(crate) fn add_to(&self, options: &mut OpenOptions) {
        if let Some((cache, _)) = &self.strict {
            options.set_block_cache(Arc::clone(cache));
        }
        if let Some(rows) = &self.rows {
            options.set_row_cache(Arc::clone(rows));
        }
        if let Some(manager) = &self.manager {
            options.set_write_buffer_manager(Arc::clone(manager));
        }
    }

    /// Whether reads may fail because a cache has a strict limit.
    pub(crate) fn limits_reads(&self) -> bool {
        self.strict.is_some()
    }

    /// Until the returned value is dropped, a cache with a strict limit has room for every read.
    pub(crate) fn room(&self) -> Room {
        if let Some((cache, _)) = &self.strict {
            cache.set_capacity(ENOUGH);
        }
        Room(self.strict.clone())
    }

    /// Returns the objects as text for a message.
    pub(crate) fn text(&self) -> String {
        let strict = self.strict.as_ref().map(|(_, capacity)| capacity);
        let rows = self.rows.as_ref().map(|cache| cache.capacity());
        let manager = self.manager.as_ref().map(|it| (it.buffer_size(), it.cost_to_cache()));
        format!("strict cache: {strict:?}, row cache: {rows:?}, write buffer manager: {manager:?}")
    }
}

/// Gives a cache its usual capacity back when it is dropped.
pub(crate) struct Room(Option<(Arc<BlockCache>, usize)>);

impl Drop for Room {
    fn drop(&mut self) {
        if let Some((cache, capacity)) = &self.0 {
            cache.set_capacity(*capacity);
        }
    }
}
