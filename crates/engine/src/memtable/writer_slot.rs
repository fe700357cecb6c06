//! State that is kept between inserts: the position of the last insert, and counters.
//!
//! There is a slot for each processor, and a thread always uses the same slot. It takes the slot
//! for the duration of an insert. A thread that finds its slot taken does not wait: it inserts
//! without a remembered position and uses the shared counters.
#![expect(unsafe_code, reason = "the slot's flag guards its splice, which a lock would wait for")]

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering};

use super::counters::LiveCounters;
use super::skiplist::Splice;

/// One processor's slot, on cache lines of its own.
#[repr(align(128))]
#[derive(Default)]
pub(super) struct WriterSlot {
    taken: AtomicBool,
    splice: UnsafeCell<Splice>,
    counters: LiveCounters,
}

// SAFETY: the splice is reached only through a `TakenSlot`, and there is at most one at a time.
unsafe impl Sync for WriterSlot {}

/// A slot that one writer has taken. Dropping it gives the slot back.
pub(super) struct TakenSlot<'a> {
    slot: &'a WriterSlot,
}

impl WriterSlot {
    /// Takes the slot, unless another writer has it.
    #[inline]
    pub(super) fn try_take(&self) -> Option<TakenSlot<'_>> {
        if self.taken.load(Ordering::Relaxed) || self.taken.swap(true, Ordering::Acquire) {
            return None;
        }
        Some(TakenSlot { slot: self })
    }

    /// Returns the counters of all writers that use this slot.
    pub(super) fn counters(&self) -> &LiveCounters {
        &self.counters
    }
}

impl TakenSlot<'_> {
    /// Returns the position of the last insert.
    #[inline]
    pub(super) fn splice(&mut self) -> &mut Splice {
        // SAFETY: the flag was clear and stays set until this `TakenSlot` is dropped, so there is
        // no other `TakenSlot` of this slot. The release in `drop` and the acquire in `try_take`
        // order the uses of the splice.
        unsafe { &mut *self.slot.splice.get() }
    }

    /// Returns the counters that only the slot's current holder updates.
    #[inline]
    pub(super) fn counters(&self) -> &LiveCounters {
        &self.slot.counters
    }
}

impl Drop for TakenSlot<'_> {
    #[inline]
    fn drop(&mut self) {
        if std::thread::panicking() {
            // If the insert panicked, for instance in a comparator, the position may be half
            // updated.
            *self.splice() = Splice::default();
        }
        self.slot.taken.store(false, Ordering::Release);
    }
}
