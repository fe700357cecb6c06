//! Epochs: memory is freed once no reader that could see it is left.
//!
//! Versions of the tree, blocks in the cache and the cache's tables are read without a lock and
//! without counting references. A reader [`pin`]s while it reads; the thread that unlinks an object
//! passes it to [`retire`], and a background thread drops it in [`collect`] when every reader that
//! was pinned at that time has left.
//!
//! # Invariants
//!
//! - An object is retired only after it has been unlinked: a reader that pins later cannot find it.
//! - A reader keeps a borrowed object no longer than its guard. The signatures enforce it.
//! - [`pin`] and dropping a [`Guard`] never drop an object: reads have no part in freeing. Files
//!   are unlinked and arenas freed by the caller of [`collect`], which is never a user's read.
//! - Pinning writes one slot that belongs to the thread alone.
//!
//! `domain.rs` argues why that suffices, and which fences it needs.
//!
//! # Bounds
//!
//! A guard holds back everything that any thread retires while it lives. So a guard is for reading,
//! not for waiting: objects needed longer (across a read from the device, in an iterator) are kept
//! with an `Arc`. [`waiting`] returns the number of objects held back or not yet collected.
//!
//! # Private garbage
//!
//! A structure that keeps its garbage under a lock it already holds can stamp it itself: unlink,
//! then [`advance`]; objects with that stamp may be freed once it is lower than [`oldest_pinned`].
//! One stamp serves any number of objects. The block cache does so.

pub(crate) mod atomic;
mod cell;
mod closing;
pub(crate) mod domain;
pub(crate) mod heavy;
#[cfg(all(loom, test))]
mod loom;
mod retired;
#[cfg(all(not(loom), test))]
mod tests;

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::Ordering;

pub(crate) use cell::{EpochCell, FullEpochCell, Held};
pub(crate) use closing::Closing;
use domain::{Domain, Slot};
use retired::Retired;

/// The process's clock, its readers and the objects that wait for them.
struct Process {
    domain: Domain,
    retired: Retired,
}

#[cfg(not(all(loom, test)))]
static PROCESS: Process = Process { domain: Domain::new(), retired: Retired::new() };

#[cfg(all(loom, test))]
static PROCESS: std::sync::LazyLock<Process> =
    std::sync::LazyLock::new(|| Process { domain: Domain::new(), retired: Retired::new() });

thread_local! {
    /// The thread's slot, once it has pinned. A pointer, because an index into the unbounded list
    /// of slots would have to be looked up. It has no destructor, so that reading it is one plain
    /// load.
    static SLOT: Cell<Option<&'static Slot>> = const { Cell::new(None) };
    /// Releases the slot when the thread ends.
    static ENDING: Ending = const { Ending };
}

/// Its destructor runs at the end of a thread.
struct Ending;

impl Drop for Ending {
    fn drop(&mut self) {
        let Some(slot) = SLOT.take() else { return };
        if slot.nesting.load(Ordering::Relaxed) == 0 {
            slot.release();
        } else {
            // Another thread-local value holds a guard; its later drop releases the slot.
            slot.ending.store(true, Ordering::Relaxed);
        }
    }
}

/// While it lives, nothing that its thread can reach through shared pointers is freed.
///
/// Guards nest; all but the outermost cost only a count. A guard stays on the thread that made it.
pub(crate) struct Guard {
    slot: &'static Slot,
    not_send: PhantomData<*mut ()>,
}

/// Announces that the calling thread reads until the guard is dropped.
///
/// Takes a few nanoseconds: a store to a cache line of the thread's own and a fence. A thread's
/// first call takes a slot, which the thread's end releases.
#[inline]
pub(crate) fn pin() -> Guard {
    let slot = SLOT.get().unwrap_or_else(take_slot);
    let nesting = slot.nesting.load(Ordering::Relaxed);
    if nesting == 0 {
        PROCESS.domain.enter(slot);
    }
    slot.nesting.store(nesting + 1, Ordering::Relaxed);
    Guard { slot, not_send: PhantomData }
}

#[cold]
fn take_slot() -> &'static Slot {
    let slot = PROCESS.domain.take_slot();
    if ENDING.try_with(|_| SLOT.set(Some(slot))).is_err() {
        // The thread's slot was already released: this one is released with its guard.
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

/// A point in the order of unlinkings, see [`advance`] and [`oldest_pinned`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Epoch(u64);

/// Stamps everything that the calling thread has unlinked so far.
///
/// It writes a cache line that every [`pin`] reads: if there are many objects, stamp several
/// together.
pub(crate) fn advance() -> Epoch {
    Epoch(PROCESS.domain.advance())
}

/// Returns an epoch below which no stamped object can be seen by any reader, now or later.
///
/// Scans as many slots as the maximum number of threads that were reading at the same time.
pub(crate) fn oldest_pinned() -> Epoch {
    Epoch(PROCESS.domain.oldest_pinned())
}

/// Passes an object on to be dropped by a later [`collect`], once no guard that could see it
/// remains.
///
/// The caller must have unlinked it. Lock-free; allocates.
pub(crate) fn retire<T: Send + 'static>(object: T) {
    let stamp = PROCESS.domain.advance();
    PROCESS.retired.push(stamp, Box::new(object));
}

/// Drops the retired objects that no reader can see any more, and returns their number.
///
/// For a background thread, since a drop may unlink a file or free an arena. A call during another
/// one may return 0. A drop may itself call [`retire`] and [`collect`].
pub(crate) fn collect() -> usize {
    PROCESS.retired.collect(&PROCESS.domain)
}

/// Returns the number of retired objects not yet dropped.
pub(crate) fn waiting() -> usize {
    PROCESS.retired.count()
}
