//! What the queue waits and counts with: loom's own in its models, the standard library's
//! everywhere else.

#[cfg(not(all(loom, test)))]
pub(super) use std::{
    sync::{
        MutexGuard,
        atomic::{AtomicU32, AtomicUsize, Ordering},
    },
    thread::{self, Thread},
};

#[cfg(not(all(loom, test)))]
pub(super) use tailwater_io::sync::{Condvar, Mutex};

#[cfg(all(loom, test))]
pub(super) use loom::{
    sync::{
        Condvar, Mutex, MutexGuard,
        atomic::{AtomicU32, AtomicUsize, Ordering},
    },
    thread::{self, Thread},
};

/// How long a writer that may spin looks before it lets its thread sleep, in rounds of
/// [`LOOKS_PER_ROUND`]: about what waking a thread takes on a processor that idles. A model tries
/// everything that may happen meanwhile anyway.
const ROUNDS: u32 = if cfg!(all(loom, test)) { 0 } else { 60 };
/// So many of them also while others want the processor: about what an unsynced group takes.
const ROUNDS_AMONG_OTHERS: u32 = 6;
const LOOKS_PER_ROUND: u32 = 32;
/// How often a writer lets others run before its thread sleeps.
const YIELDS: u32 = 20;

/// The lock, whatever became of who had it before: what it guards is never left half changed.
#[cfg(not(all(loom, test)))]
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

/// The lock of a model.
#[cfg(all(loom, test))]
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Waits until somebody says that something has changed, or for no reason.
#[cfg(not(all(loom, test)))]
pub(super) fn wait<'m, T>(changed: &Condvar, guard: MutexGuard<'m, T>) -> MutexGuard<'m, T> {
    changed.wait(guard)
}

/// The wait of a model.
#[cfg(all(loom, test))]
pub(super) fn wait<'m, T>(changed: &Condvar, guard: MutexGuard<'m, T>) -> MutexGuard<'m, T> {
    changed.wait(guard).unwrap_or_else(std::sync::PoisonError::into_inner)
}

use super::processors;

/// Wakes a thread that waits in [`wait_until`], or will.
pub(super) fn unpark(thread: &Thread) {
    // Loom tries other threads before atomic operations alone: here too, what was changed may be
    // seen before the thread is woken.
    #[cfg(all(loom, test))]
    AtomicU32::new(0).load(Ordering::Relaxed);
    thread.unpark();
}

/// Waits until `is_over`, after which somebody unparks this thread. Who `may_spin` looks for a
/// while before its thread sleeps.
pub(super) fn wait_until(may_spin: bool, is_over: impl Fn() -> bool) {
    if !spin_until(may_spin, &is_over) {
        sleep_until(is_over);
    }
}

/// Looks for a while whether something `is_over`, if it `may_spin`; returns whether it is.
pub(super) fn spin_until(may_spin: bool, is_over: impl Fn() -> bool) -> bool {
    for round in 0..if may_spin { ROUNDS } else { 0 } {
        for _ in 0..LOOKS_PER_ROUND {
            if is_over() {
                return true;
            }
            std::hint::spin_loop();
        }
        if round >= ROUNDS_AMONG_OTHERS && processors::are_wanted() {
            break;
        }
    }
    is_over()
}

/// Lets others run for a while, and looks in between whether something `is_over`; returns whether
/// it is.
pub(super) fn yield_until(is_over: impl Fn() -> bool) -> bool {
    (0..YIELDS).any(|_| is_over() || !processors::give_way()) && is_over()
}

/// Sleeps until something `is_over`, after which somebody unparks this thread.
pub(super) fn sleep_until(is_over: impl Fn() -> bool) {
    // A thread may wake up for no reason, or for one that is past.
    while !is_over() {
        thread::park();
    }
}
