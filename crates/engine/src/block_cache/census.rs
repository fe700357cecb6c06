//! All block caches of the process, to report their memory.

use std::sync::{Arc, Weak};

use tailwater_io::sync::Mutex;

use super::Block;
use crate::cache::{Cache, EntryBytes, Slabs};

/// The caches of the process. A cache whose memory is freed is removed when another is created.
static CACHES: Mutex<Vec<Known>> = Mutex::new(Vec::new());

/// What reports the memory of a cache until it is freed, which may be after the cache was dropped.
struct Known {
    entries: EntryBytes,
    slabs: Weak<Slabs>,
}

/// The memory of block caches, in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CacheMemory {
    /// What is charged for blocks and rows, including evicted ones that are still read. Memory
    /// outside the caches that is charged to them is not part of it.
    pub(crate) entries: usize,
    /// Free slots between blocks.
    pub(crate) spare: usize,
}

/// Adds a new cache to those whose memory is reported.
pub(super) fn register(blocks: &Cache<Block>, slabs: &Arc<Slabs>) {
    let known = Known { entries: blocks.entry_bytes(), slabs: Arc::downgrade(slabs) };
    let mut caches = CACHES.lock();
    caches.retain(|known| known.entries.is_alive() || known.slabs.strong_count() > 0);
    caches.push(known);
}

/// Returns the memory of all block caches of the process together.
pub(crate) fn memory_of_all() -> CacheMemory {
    let mut sum = CacheMemory::default();
    let mut all_slabs = Vec::new();
    for Known { entries, slabs } in &*CACHES.lock() {
        sum.entries += entries.get().unwrap_or(0);
        all_slabs.extend(slabs.upgrade());
    }
    // Without the lock: the last reference to slabs unmaps their memory.
    sum.spare = all_slabs.iter().map(|slabs| slabs.spare_bytes()).sum();
    sum
}
