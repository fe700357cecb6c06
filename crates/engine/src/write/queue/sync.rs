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

/// How often a writer that may spin looks before it lets its thread sleep: some microseconds, about
/// what an unsynced group takes. A model tries everything that may happen meanwhile anyway.
const SPINS: u32 = if cfg!(all(loom, test)) { 0 } else { 200 };

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
    for _ in 0..if may_spin { SPINS } else { 0 } {
        if is_over() {
            return;
        }
        std::hint::spin_loop();
    }
    // A thread may wake up for no reason, or for one that is past.
    while !is_over() {
        thread::park();
    }
}
