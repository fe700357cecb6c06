//! Epochs: memory is given back once no reader that could see it is left.
//!
//! Versions of the tree, blocks in the cache and the cache's tables are read without a lock and
//! without counting references. A reader [`pin`]s for the time it looks; whoever takes an object
//! out of sight hands it to [`retire`], and a background thread drops it in [`collect`] when every
//! reader that was pinned at that time has left.
//!
//! # Invariants
//!
//! - An object is retired only after it has been unlinked: whoever pins later cannot find it.
//! - A reader keeps a borrowed object no longer than its guard. The signatures see to it.
//! - Nothing is ever dropped by [`pin`] or by dropping a [`Guard`]: reads have no part in freeing.
//!   A file is unlinked or an arena freed by whoever calls [`collect`], and that is never a user's
//!   read.
//! - Pinning writes one slot that belongs to the thread alone.
//!
//! Why that suffices, with the fences it takes, is argued in `domain.rs`.
//!
//! # Bounds
//!
//! A guard holds back everything that is retired while it lives, by anyone. So a guard is for
//! looking, not for waiting: what is needed longer (across a read from the device, in an iterator)
//! is kept with an `Arc`. [`waiting`] says how many objects are held back or not yet collected.
//!
//! # Garbage of one's own
//!
//! A structure that would rather keep its garbage beside the lock it already holds stamps it
//! itself: unlink, then [`advance`]; what has that stamp may go once it is lower than
//! [`oldest_pinned`]. One stamp serves any number of objects. The block cache does so.

pub(crate) mod atomic;
mod cell;
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

pub use cell::{EpochCell, Held};
use domain::{Domain, Slot};
use retired::Retired;

/// The process's clock, its readers and what waits for them.
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
    /// The thread's slot, once it has pinned. Without a destructor, so that reading it is one plain
    /// load.
    static SLOT: Cell<Option<&'static Slot>> = const { Cell::new(None) };
    /// Gives the slot back when the thread ends.
    static ENDING: Ending = const { Ending };
}

/// Its destructor is the end of a thread.
struct Ending;

impl Drop for Ending {
    fn drop(&mut self) {
        let Some(slot) = SLOT.take() else { return };
        if slot.nesting.load(Ordering::Relaxed) == 0 {
            slot.release();
        } else {
            // Another thread-local value holds a guard; it goes later and gives the slot back.
            slot.ending.store(true, Ordering::Relaxed);
        }
    }
}

/// While it lives, nothing that its thread can reach is freed.
///
/// Guards nest; only the outermost costs more than a count. A guard stays on the thread that made
/// it.
pub struct Guard {
    slot: &'static Slot,
    not_send: PhantomData<*mut ()>,
}

/// Announces that the calling thread reads until the guard is dropped.
///
/// A few nanoseconds: a store to a cache line of the thread's own and a fence. The first call of a
/// thread takes a slot, which the thread's end gives back.
#[inline]
pub fn pin() -> Guard {
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
        // The thread is past giving its slot back: this one goes with its guard.
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

/// A point in the order of unlinkings: see [`advance`] and [`oldest_pinned`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(u64);

/// Stamps everything that the calling thread has unlinked so far.
///
/// It writes a line that every [`pin`] reads: stamp several objects together where there are many.
pub fn advance() -> Epoch {
    Epoch(PROCESS.domain.advance())
}

/// What was stamped lower than this can no longer be seen by any reader, whenever the two are
/// compared.
///
/// Walks over one slot for each thread that ever read at the same time as the others.
pub fn oldest_pinned() -> Epoch {
    Epoch(PROCESS.domain.oldest_pinned())
}

/// Hands over an object to be dropped by a later [`collect`], once no guard that could see it
/// remains.
///
/// The caller has unlinked it. Lock-free; allocates.
pub fn retire<T: Send + 'static>(object: T) {
    let stamp = PROCESS.domain.advance();
    PROCESS.retired.push(stamp, Box::new(object));
}

/// Drops the retired objects that no reader can see any more and answers how many they were.
///
/// For a background thread, since a drop may unlink a file or free an arena. A call that meets
/// another call at work returns 0. A drop may call [`retire`] and [`collect`] itself.
pub fn collect() -> usize {
    PROCESS.retired.collect(&PROCESS.domain)
}

/// How many retired objects have not been dropped yet.
pub fn waiting() -> usize {
    PROCESS.retired.count()
}
