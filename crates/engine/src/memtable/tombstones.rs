//! A memtable's range tombstones, stored in a set of indexes (`layers`).
//!
//! Each writer updates the indexes when it adds a tombstone. Readers only search the indexes,
//! without taking a lock or writing to a shared cache line. [`TombstoneLayers`] describes the cost
//! of adding and searching.
//!
//! Invariant: a writer first stores its tombstone in `layers`, then increments `added`, and then
//! publishes the sequence number. So a read at that sequence number finds the tombstone in
//! `layers`, and finds it counted in `added`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arc_swap::ArcSwap;
use tailwater_format::Comparator;
use tailwater_format::key::Sequence;
use tailwater_io::sync::Mutex;

use crate::range_tombstone::{RangeTombstone, TombstoneLayers};

/// The range tombstones of a memtable. Several threads may add and read concurrently.
#[derive(Default)]
pub(super) struct Tombstones {
    /// Number of tombstones in `layers`.
    added: AtomicUsize,
    /// Not an `EpochCell`, which frees a replaced value only at a later epoch collection. Every
    /// added tombstone replaces the layers, so the replaced layers should be freed immediately.
    layers: ArcSwap<TombstoneLayers>,
    /// Held while a tombstone is added, so that additions do not overlap.
    adding: Mutex<()>,
    /// Size of `layers` in bytes.
    memory: AtomicUsize,
}

impl Tombstones {
    /// Adds a tombstone. Returns false, and adds nothing, if there is already a tombstone with the
    /// same start and sequence number.
    pub(super) fn add(&self, comparator: &Comparator, tombstone: RangeTombstone<'_>) -> bool {
        let _adding = self.adding.lock();
        // If the comparator panics in `with`, nothing has changed yet.
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

    /// Returns the memory of all tombstones in bytes.
    pub(super) fn memory_usage(&self) -> usize {
        self.memory.load(Ordering::Relaxed)
    }

    /// Returns all tombstones added so far; `None` if there are none.
    #[inline]
    pub(super) fn layers(&self) -> Option<Arc<TombstoneLayers>> {
        (self.count() > 0).then(|| self.layers.load_full())
    }

    /// Returns the sequence number of the newest tombstone that covers the user key and whose
    /// sequence number is at most `snapshot`.
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
