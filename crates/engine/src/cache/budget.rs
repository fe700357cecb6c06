//! The cache's memory budget, and reservations against it.

use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

/// The headroom is 1/HEADROOM_DIVISOR of the capacity. Evictions try to keep it free.
///
/// An evicted entry keeps its charge until no reader can see it, so an insert cannot use the bytes
/// that it has just evicted. It uses the headroom instead, which earlier evictions have freed.
const HEADROOM_DIVISOR: usize = 64;

/// The counters of all bytes that are charged to the cache.
///
/// [`Budget::reserve`] never raises `used` above the capacity; entries use only bytes that it
/// reserved. `used` may exceed the capacity by memory outside the cache that is charged although it
/// does not fit ([`Budget::charge`]), and for some time after the capacity was lowered, until
/// enough evicted values are dropped. The counters are accessed with relaxed ordering, because they
/// protect no other memory.
#[repr(align(128))]
#[derive(Debug)]
pub(super) struct Budget {
    capacity: AtomicUsize,
    /// All bytes charged and not yet released.
    used: AtomicUsize,
    /// The part of `used` that belongs to entries that were removed from the hash table and not
    /// dropped yet, because readers may still see them.
    unlinked: AtomicUsize,
    /// The part of `used` that belongs to memory outside the cache.
    outside: AtomicUsize,
}

impl Budget {
    pub(super) fn new(capacity: usize) -> Arc<Self> {
        Arc::new(Self {
            capacity: AtomicUsize::new(capacity),
            used: AtomicUsize::new(0),
            unlinked: AtomicUsize::new(0),
            outside: AtomicUsize::new(0),
        })
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity.load(Ordering::Relaxed)
    }

    pub(super) fn set_capacity(&self, capacity: usize) {
        self.capacity.store(capacity, Ordering::Relaxed);
    }

    pub(super) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    pub(super) fn unlinked(&self) -> usize {
        self.unlinked.load(Ordering::Relaxed)
    }

    /// Returns the bytes charged for entries and for removed values that are still in memory.
    pub(super) fn of_entries(&self) -> usize {
        self.used().saturating_sub(self.outside.load(Ordering::Relaxed))
    }

    /// Returns the number of bytes that evictions try to keep free.
    pub(super) fn headroom(&self) -> usize {
        self.capacity() / HEADROOM_DIVISOR
    }

    /// Returns how many bytes must be evicted before `bytes` more fit. Entries that were removed
    /// from the hash table, but not dropped yet, already count as free.
    pub(super) fn excess(&self, bytes: usize) -> usize {
        let staying = self.used().saturating_sub(self.unlinked());
        staying.saturating_add(bytes).saturating_sub(self.capacity())
    }

    /// Returns how many bytes must be evicted to free the headroom of a cache of `capacity` bytes.
    /// The headroom is the part of the capacity that evictions try to keep free.
    pub(super) fn excess_of(&self, capacity: usize) -> usize {
        let staying = self.used().saturating_sub(self.unlinked());
        (staying + capacity / HEADROOM_DIVISOR).saturating_sub(capacity)
    }

    /// Reserves `bytes`, if they fit into the capacity now.
    pub(super) fn reserve(self: &Arc<Self>, bytes: usize) -> Option<Reservation> {
        let capacity = self.capacity();
        self.used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                used.checked_add(bytes).filter(|&sum| sum <= capacity)
            })
            .ok()?;
        Some(Reservation { budget: Arc::clone(self), bytes })
    }

    /// Charges `bytes` of memory outside the cache, whether they fit into the capacity or not.
    pub(super) fn charge(self: &Arc<Self>, bytes: usize) -> OutsideCharge {
        self.used.fetch_add(bytes, Ordering::Relaxed);
        Reservation { budget: Arc::clone(self), bytes }.for_outside()
    }

    /// Notes that entries were removed from the hash table. Their total charge is `bytes`.
    pub(super) fn unlink(&self, bytes: usize) {
        self.unlinked.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Notes that entries were dropped after their removal from the hash table. Their total charge
    /// was `bytes`.
    pub(super) fn settle(&self, bytes: usize) {
        self.unlinked.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Bytes of the cache's capacity, held until this is dropped.
///
/// A reservation may outlive the cache. Any thread may use it.
#[derive(Debug)]
#[must_use = "dropping a reservation gives its bytes back"]
pub(super) struct Reservation {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Reservation {
    /// Returns the number of reserved bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Uses the reservation for memory outside the cache.
    pub(super) fn for_outside(self) -> OutsideCharge {
        self.budget.outside.fetch_add(self.bytes, Ordering::Relaxed);
        OutsideCharge(self)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Bytes of the cache's capacity that memory outside the cache takes, until this is dropped.
///
/// Like a [`Reservation`], it may outlive the cache, and any thread may use it.
#[derive(Debug)]
#[must_use = "dropping a charge gives its bytes back"]
pub(crate) struct OutsideCharge(Reservation);

impl OutsideCharge {
    /// Returns the number of charged bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.0.bytes
    }

    /// Adds another charge of the same cache to this one.
    pub(crate) fn absorb(&mut self, mut other: Self) {
        debug_assert!(Arc::ptr_eq(&self.0.budget, &other.0.budget), "charges of two caches");
        self.0.bytes += mem::take(&mut other.0.bytes);
    }

    /// Gives back all but `bytes`, which are at most those of the charge.
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        let less = self.0.bytes - bytes;
        self.0.budget.outside.fetch_sub(less, Ordering::Relaxed);
        self.0.budget.used.fetch_sub(less, Ordering::Relaxed);
        self.0.bytes = bytes;
    }
}

impl Drop for OutsideCharge {
    fn drop(&mut self) {
        self.0.budget.outside.fetch_sub(self.0.bytes, Ordering::Relaxed);
    }
}

/// The memory of a cache's entries, which can be asked for after the cache was dropped.
#[derive(Debug)]
pub(crate) struct EntryBytes(Weak<Budget>);

impl EntryBytes {
    pub(super) fn of(budget: &Arc<Budget>) -> Self {
        Self(Arc::downgrade(budget))
    }

    /// Returns the bytes charged for entries and for removed values that are still in memory;
    /// `None` if the cache was dropped and none of its values is left.
    pub(crate) fn get(&self) -> Option<usize> {
        self.0.upgrade().map(|budget| budget.of_entries())
    }

    /// Whether the cache, or one of its values, is left.
    pub(crate) fn is_alive(&self) -> bool {
        self.0.strong_count() > 0
    }
}
