//! Epochs: memory is freed once no reader that could see it is left.
//!
//! Versions of the LSM tree, blocks in the block cache and the cache's hash tables are read without
//! a lock and without counting references. A reader [`pin`]s while it reads. The thread that
//! unlinks an object retires it: it puts the object into the [`Garbage`] of its database. A
//! background thread drops the object in [`Garbage::collect`] when every reader has left that was
//! pinned when the object was retired.
//!
//! The clock and the readers' slots belong to the process, because a thread may read any number of
//! databases. The retired objects belong to a database (`garbage.rs`).
//!
//! # Invariants
//!
//! - An object is retired only after it has been unlinked: a reader that pins later cannot find it.
//! - A reader keeps a borrowed object no longer than its guard. The signatures enforce it.
//! - [`pin`] and dropping a [`Guard`] never drop an object: reads have no part in freeing. Files
//!   are unlinked and arenas freed by the caller of [`Garbage::collect`], which is never a user's
//!   read.
//! - Pinning writes only to the calling thread's own slot.
//!
//! `domain.rs` argues why these rules suffice, and which fences they need.
//!
//! # Bounds
//!
//! While a guard lives, no object that any thread retires is dropped, in any database. So a guard
//! is for reading, not for waiting: objects needed longer (across a read from the device, in an
//! iterator) are kept with an `Arc`. [`Garbage::waiting`] returns the number of retired objects
//! that are not yet dropped.
//!
//! # Private garbage
//!
//! A structure that keeps its unlinked objects under a lock it already holds can stamp them itself.
//! It unlinks an object, then calls [`advance`], and may free the object when the returned stamp is
//! lower than [`oldest_pinned`]. A stamp may serve any number of objects. The block cache works
//! this way.

pub(crate) mod atomic;
mod cell;
pub(crate) mod domain;
mod garbage;
#[cfg(all(loom, test))]
mod loom;
mod retired;
#[cfg(all(not(loom), test))]
mod tests;

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::Ordering;

pub(crate) use cell::{EpochCell, FullEpochCell, Held};
use domain::{Domain, Slot};
#[cfg(all(not(loom), test))]
pub(crate) use garbage::collect_unowned;
pub(crate) use garbage::{Bin, Collector, Garbage};

/// The process's clock and its readers' slots.
#[cfg(not(all(loom, test)))]
static DOMAIN: Domain = Domain::new();

#[cfg(all(loom, test))]
static DOMAIN: std::sync::LazyLock<Domain> = std::sync::LazyLock::new(Domain::new);

thread_local! {
    /// The thread's slot; `None` until the thread first pins. A pointer, because an index into the
    /// unbounded list of slots would have to be looked up. The value has no destructor, so that
    /// reading it is a plain load.
    static SLOT: Cell<Option<&'static Slot>> = const { Cell::new(None) };
    /// Releases the slot when the thread ends.
    static ENDING: Ending = const { Ending };
}

/// A thread-local value whose destructor runs at the end of the thread.
struct Ending;

impl Drop for Ending {
    fn drop(&mut self) {
        let Some(slot) = SLOT.take() else { return };
        if slot.nesting.load(Ordering::Relaxed) == 0 {
            slot.release();
        } else {
            // Another thread-local value still holds a guard. Dropping that guard releases the
            // slot.
            slot.ending.store(true, Ordering::Relaxed);
        }
    }
}

/// While a guard lives, nothing that its thread can reach through shared pointers is freed.
///
/// Guards nest; all but the outermost only change a counter. A guard stays on the thread that made
/// it.
pub(crate) struct Guard {
    slot: &'static Slot,
    not_send: PhantomData<*mut ()>,
}

/// Announces that the calling thread reads until the guard is dropped.
///
/// Takes a few nanoseconds: a store to a cache line of the thread's own and a fence. The first call
/// of a thread takes a slot, which is released when the thread ends.
#[inline]
pub(crate) fn pin() -> Guard {
    let slot = SLOT.get().unwrap_or_else(take_slot);
    let nesting = slot.nesting.load(Ordering::Relaxed);
    if nesting == 0 {
        DOMAIN.enter(slot);
    }
    slot.nesting.store(nesting + 1, Ordering::Relaxed);
    Guard { slot, not_send: PhantomData }
}

#[cold]
fn take_slot() -> &'static Slot {
    let slot = DOMAIN.take_slot();
    if ENDING.try_with(|_| SLOT.set(Some(slot))).is_err() {
        // The thread is ending and has already released its slot. The new slot is released when the
        // last guard is dropped.
        slot.ending.store(true, Ordering::Relaxed);
    }
    slot
}

impl Drop for Guard {
    #[inline]
    fn drop(&mut self) {
        let nesting = self.slot.nesting.load(Ordering::Relaxed) - 1;
        self.slot.nesting.store(nesting, Ordering::Relaxed);
        if nesting == 0 {
            self.slot.leave();
            if self.slot.ending.load(Ordering::Relaxed) {
                self.slot.release();
            }
        }
    }
}

/// An epoch: a value of the process's logical clock. Epochs order the unlinking of objects: see
/// [`advance`] and [`oldest_pinned`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Epoch(u64);

/// Advances the clock. Returns an epoch that the caller can use as the stamp of every object that
/// the calling thread has unlinked so far.
///
/// Writes a cache line that every [`pin`] reads, so a caller with many objects should use the epoch
/// of one call for several of them.
pub(crate) fn advance() -> Epoch {
    Epoch(DOMAIN.advance())
}

/// Returns an epoch such that no reader, now or later, can see an object with a lower stamp.
///
/// Scans all slots. There are as many as the largest number of threads that owned a slot at the
/// same time.
pub(crate) fn oldest_pinned() -> Epoch {
    Epoch(DOMAIN.oldest_pinned())
}
