//! The bytes the cache may hold, and who holds them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The share of the capacity that is kept free of resident entries, as a divisor.
///
/// An evicted entry holds its bytes until the readers that may see it have left. Evicting this far
/// ahead lets an insert take bytes that were given back instead of waiting for them.
const HEADROOM_DIVISOR: usize = 64;

/// The one count that every charge goes through.
///
/// Its bound is strict by construction: [`Budget::reserve`] is the only way up, and it refuses to
/// pass the capacity. Only lowering the capacity can leave more in use than is allowed, until
/// what is evicted and unpinned has left. Counts are relaxed: they guard no memory.
#[repr(align(128))]
#[derive(Debug)]
pub(super) struct Budget {
    capacity: AtomicUsize,
    /// Every byte charged and not yet given back.
    used: AtomicUsize,
    /// The part of `used` that has left the table and waits for its readers.
    unlinked: AtomicUsize,
}

impl Budget {
    pub(super) fn new(capacity: usize) -> Arc<Self> {
        Arc::new(Self {
            capacity: AtomicUsize::new(capacity),
            used: AtomicUsize::new(0),
            unlinked: AtomicUsize::new(0),
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

    /// The bytes that evictions try to keep free.
    pub(super) fn headroom(&self) -> usize {
        self.capacity() / HEADROOM_DIVISOR
    }

    /// How much has to be evicted before `bytes` more have room, not counting what is already on
    /// its way out.
    pub(super) fn excess(&self, bytes: usize) -> usize {
        let staying = self.used().saturating_sub(self.unlinked());
        staying.saturating_add(bytes).saturating_sub(self.capacity())
    }

    /// How much has to be evicted before a cache of `capacity` bytes has its headroom.
    pub(super) fn excess_of(&self, capacity: usize) -> usize {
        let staying = self.used().saturating_sub(self.unlinked());
        (staying + capacity / HEADROOM_DIVISOR).saturating_sub(capacity)
    }

    /// Takes `bytes` if the capacity has room for them at this moment.
    pub(super) fn reserve(self: &Arc<Self>, bytes: usize) -> Option<Reservation> {
        let capacity = self.capacity();
        self.used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                used.checked_add(bytes).filter(|&sum| sum <= capacity)
            })
            .ok()?;
        Some(Reservation { budget: Arc::clone(self), bytes })
    }

    /// Notes that `bytes` have left the table.
    pub(super) fn unlink(&self, bytes: usize) {
        self.unlinked.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Notes that `bytes` that had left the table wait for no reader any more.
    pub(super) fn settle(&self, bytes: usize) {
        self.unlinked.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Bytes of the cache's capacity, held until this is dropped.
///
/// It outlives the cache if need be. Safe to use from any thread.
#[derive(Debug)]
#[must_use = "dropping a reservation gives its bytes back"]
pub struct Reservation {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Reservation {
    /// How many bytes are held.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Gives back what exceeds `bytes`; nothing if that is not less than what is held.
    pub fn shrink_to(&mut self, bytes: usize) {
        let excess = self.bytes.saturating_sub(bytes);
        self.bytes -= excess;
        self.budget.used.fetch_sub(excess, Ordering::Relaxed);
    }

    /// Takes over what `other`, a reservation of the same cache, holds. One of another cache comes
    /// back as the error.
    pub fn merge(&mut self, mut other: Self) -> Result<(), Self> {
        if !Arc::ptr_eq(&self.budget, &other.budget) {
            return Err(other);
        }
        self.bytes += std::mem::take(&mut other.bytes);
        Ok(())
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
