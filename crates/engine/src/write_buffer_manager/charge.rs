//! The memory of one memtable, as a write buffer manager and the process count it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::WriteBufferManager;
use crate::memory_counters::Consumer;

/// The memory of one memtable. It counts until this value is dropped, which must happen only after
/// the memory was freed.
#[derive(Debug)]
pub(crate) struct MemTableCharge {
    manager: Option<Arc<WriteBufferManager>>,
    /// All of the memory, in bytes.
    all: AtomicUsize,
    /// The memory that this value has added to the manager's count of all memory, in bytes.
    used: AtomicUsize,
    /// The memory that this value has added to the manager's count of memory that accepts writes,
    /// in bytes.
    active: AtomicUsize,
    /// The memory of range deletions that is counted, in bytes.
    tombstones: AtomicUsize,
}

impl MemTableCharge {
    /// Begins to count the memory of a new memtable, for `manager`, too, if it is given.
    pub(crate) fn new(manager: Option<Arc<WriteBufferManager>>) -> Self {
        let zero = || AtomicUsize::new(0);
        Self { manager, all: zero(), used: zero(), active: zero(), tombstones: zero() }
    }

    /// Counts memory that the memtable has allocated.
    pub(crate) fn add(&self, bytes: usize) {
        self.all.fetch_add(bytes, Ordering::Relaxed);
        Consumer::MemTables.add(bytes);
        let Some(manager) = &self.manager else { return };
        let is_limited = manager.enabled();
        let used = if is_limited || manager.cost_to_cache() { bytes } else { 0 };
        let active = if is_limited { bytes } else { 0 };
        self.used.fetch_add(used, Ordering::Relaxed);
        self.active.fetch_add(active, Ordering::Relaxed);
        manager.grow(used, active);
    }

    /// Counts the memory of the memtable's range deletions, which is `bytes` now.
    pub(crate) fn add_tombstones(&self, bytes: usize) {
        let counted = self.tombstones.fetch_max(bytes, Ordering::Relaxed);
        if bytes > counted {
            self.add(bytes - counted);
        }
    }

    /// Notes that the memtable accepts no more writes.
    pub(crate) fn seal(&self) {
        if let Some(manager) = &self.manager {
            manager.seal(self.active.swap(0, Ordering::Relaxed));
        }
    }
}

impl Drop for MemTableCharge {
    fn drop(&mut self) {
        self.seal();
        Consumer::MemTables.subtract(*self.all.get_mut());
        if let Some(manager) = &self.manager {
            manager.shrink(*self.used.get_mut());
        }
    }
}
