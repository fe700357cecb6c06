//! A memtable's range tombstones.
//!
//! Writers index the tombstones that they add; readers only search the indexes, without taking a
//! lock or writing to a shared cache line. See [`TombstoneLayers`] for the cost of adding and
//! searching.
//!
//! Invariant: a writer first puts its tombstone into `layers`, then increments `added`, then
//! publishes the sequence number. So a read at that sequence number finds the tombstone, and finds
//! it included in the count.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arc_swap::ArcSwap;
use tailwater_format::Comparator;
use tailwater_format::key::Sequence;
use tailwater_io::sync::Mutex;

use crate::range_tombstone::{RangeTombstone, TombstoneLayers};

/// Range tombstones shared between writers and readers.
#[derive(Default)]
pub(super) struct Tombstones {
    /// Number of tombstones that were added.
    added: AtomicUsize,
    /// Not an `EpochCell`: every added tombstone replaces the layers, and the replaced layers are
    /// freed immediately, without waiting for an epoch collection.
    layers: ArcSwap<TombstoneLayers>,
    /// Held while a tombstone is added.
    adding: Mutex<()>,
    /// Size of the layers in bytes.
    memory: AtomicUsize,
}

impl Tombstones {
    /// Adds a tombstone. Returns whether the tombstone was new; one with the same start and
    /// sequence number as an existing tombstone is not added.
    pub(super) fn add(&self, comparator: &Comparator, tombstone: RangeTombstone<'_>) -> bool {
        let _adding = self.adding.lock();
        // If the comparator panics here, nothing has changed yet.
        let Some(layers) = self.layers.load().with(comparator, tombstone) else { return false };
        self.memory.store(layers.memory_usage(), Ordering::Relaxed);
        self.layers.store(Arc::new(layers));
        self.added.fetch_add(1, Ordering::Release);
        true
    }

    /// Returns the number of tombstones.
    #[inline]
    pub(super) fn count(&self) -> usize {
        self.added.load(Ordering::Relaxed)
    }

    /// Returns the size of all tombstones in bytes.
    pub(super) fn memory_usage(&self) -> usize {
        self.memory.load(Ordering::Relaxed)
    }

    /// Returns all tombstones added so far; `None` if there are none.
    #[inline]
    pub(super) fn layers(&self) -> Option<Arc<TombstoneLayers>> {
        (self.count() > 0).then(|| self.layers.load_full())
    }

    /// Returns the newest tombstone at or below the snapshot that covers the user key.
    #[inline]
    pub(super) fn covering_sequence(
        &self,
        user_key: &[u8],
        snapshot: Sequence,
    ) -> Option<Sequence> {
        if self.count() == 0 {
            return None;
        }
        self.layers.load().covering(user_key, snapshot)
    }
}
