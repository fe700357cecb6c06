//! State that is kept from one insert to the next: the position of the last insert, and counters.
//!
//! There is one slot for each processor. A thread is assigned to one slot for good, and takes the
//! slot for the duration of an insert. If another thread has the slot, the inserting thread does
//! not wait: it searches the skiplist from the beginning, and uses counters that all threads share.
#![expect(unsafe_code, reason = "the slot's flag guards its splice, which a lock would wait for")]

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering};

use super::counters::LiveCounters;
use super::skiplist::Splice;

/// One of a memtable's writer slots, on cache lines of its own.
#[repr(align(128))]
#[derive(Default)]
pub(super) struct WriterSlot {
    taken: AtomicBool,
    splice: UnsafeCell<Splice>,
    counters: LiveCounters,
}

// SAFETY: the splice is reached only through a `TakenSlot`, of which each slot has at most one at a
// time. All other fields are atomic.
unsafe impl Sync for WriterSlot {}

/// A slot that one writer has taken. Dropping it releases the slot.
pub(super) struct TakenSlot<'a> {
    slot: &'a WriterSlot,
}

impl WriterSlot {
    /// Takes the slot; `None` if another writer has it.
    #[inline]
    pub(super) fn try_take(&self) -> Option<TakenSlot<'_>> {
        if self.taken.load(Ordering::Relaxed) || self.taken.swap(true, Ordering::Acquire) {
            return None;
        }
        Some(TakenSlot { slot: self })
    }

    /// Returns the counters of all inserts that used this slot.
    pub(super) fn counters(&self) -> &LiveCounters {
        &self.counters
    }
}

impl TakenSlot<'_> {
    /// Returns the position of the last insert.
    #[inline]
    pub(super) fn splice(&mut self) -> &mut Splice {
        // SAFETY: the flag was clear before `try_take` set it for this `TakenSlot`, and it stays
        // set until this `TakenSlot` is dropped, so there is no other `TakenSlot` of this slot. The
        // release in `drop` and the acquire in `try_take` order the uses of the splice by
        // successive holders.
        unsafe { &mut *self.slot.splice.get() }
    }

    /// Returns the slot's counters, which only the holder of the slot updates.
    #[inline]
    pub(super) fn counters(&self) -> &LiveCounters {
        &self.slot.counters
    }
}

impl Drop for TakenSlot<'_> {
    #[inline]
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The insert may have panicked, for instance in a comparator, while the position was
            // being updated.
            *self.splice() = Splice::default();
        }
        self.slot.taken.store(false, Ordering::Release);
    }
}
