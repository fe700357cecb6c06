//! The memory of one memtable, as a write buffer manager counts it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::WriteBufferManager;

/// The memory of one memtable. It counts until this value is dropped, which must happen only after
/// the memory was freed.
#[derive(Debug)]
pub(crate) struct MemTableCharge {
    manager: Arc<WriteBufferManager>,
    /// The memory that this value has added to the manager's count of all memory, in bytes.
    used: AtomicUsize,
    /// The memory that this value has added to the manager's count of memory that accepts writes,
    /// in bytes.
    active: AtomicUsize,
    /// The memory of range deletions that is counted, in bytes.
    tombstones: AtomicUsize,
}

impl MemTableCharge {
    /// Begins to count the memory of a new memtable.
    pub(crate) fn new(manager: Arc<WriteBufferManager>) -> Self {
        let (used, active) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self { manager, used, active, tombstones: AtomicUsize::new(0) }
    }

    /// Counts memory that the memtable has allocated.
    pub(crate) fn add(&self, bytes: usize) {
        let is_limited = self.manager.enabled();
        let used = if is_limited || self.manager.cost_to_cache() { bytes } else { 0 };
        let active = if is_limited { bytes } else { 0 };
        self.used.fetch_add(used, Ordering::Relaxed);
        self.active.fetch_add(active, Ordering::Relaxed);
        self.manager.grow(used, active);
    }

    /// Counts the memory of the memtable's range deletions, which is `bytes` now.
    pub(crate) fn add_tombstones(&self, bytes: usize) {
        let counted = self.tombstones.fetch_max(bytes, Ordering::Relaxed);
        self.add(bytes.saturating_sub(counted));
    }

    /// Notes that the memtable accepts no more writes.
    pub(crate) fn seal(&self) {
        self.manager.seal(self.active.swap(0, Ordering::Relaxed));
    }
}

impl Drop for MemTableCharge {
    fn drop(&mut self) {
        self.seal();
        self.manager.shrink(*self.used.get_mut());
    }
}
