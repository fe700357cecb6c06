//! The queue's synchronization primitives: loom's in its models, the standard library's everywhere
//! else.

use std::time::{Duration, Instant};

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

/// Maximum time that a writer spins before it sleeps. Waking a thread on an idle processor takes
/// about this time.
const SPINNING: Duration = Duration::from_micros(15);
/// Maximum time that a writer spins while other writers wait for a processor. Writing a group
/// without a sync takes about this time.
const SPINNING_AMONG_OTHERS: Duration = Duration::from_nanos(1500);
/// Number of checks of the condition between two readings of the clock.
const LOOKS_PER_ROUND: u32 = 32;
/// Maximum number of yields before a writer's thread sleeps.
const YIELDS: u32 = 20;

/// Locks a mutex, even if a previous holder panicked, because the guarded data is never left half
/// changed.
#[cfg(not(all(loom, test)))]
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

/// Locks a mutex, in a loom model.
#[cfg(all(loom, test))]
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Waits until the condition variable `changed` is notified, or until a spurious wake-up.
#[cfg(not(all(loom, test)))]
pub(super) fn wait<'m, T>(changed: &Condvar, guard: MutexGuard<'m, T>) -> MutexGuard<'m, T> {
    changed.wait(guard)
}

/// Waits for a notification of `changed`, in a loom model.
#[cfg(all(loom, test))]
pub(super) fn wait<'m, T>(changed: &Condvar, guard: MutexGuard<'m, T>) -> MutexGuard<'m, T> {
    changed.wait(guard).unwrap_or_else(std::sync::PoisonError::into_inner)
}

use super::processors;

/// Wakes a thread that waits in [`wait_until`], or is about to wait there.
pub(super) fn unpark(thread: &Thread) {
    // Loom switches threads only at atomic operations. This operation lets loom explore the case
    // that the waiting thread sees its condition fulfilled before it is unparked.
    #[cfg(all(loom, test))]
    AtomicU32::new(0).load(Ordering::Relaxed);
    thread.unpark();
}

/// Waits until `is_over` returns true. The thread that makes it true must unpark this thread
/// afterwards. With `may_spin` this thread spins for a while before it sleeps.
pub(super) fn wait_until(may_spin: bool, is_over: impl Fn() -> bool) {
    if !(may_spin && spin_until(&is_over)) {
        sleep_until(is_over);
    }
}

/// Spins until `is_over` returns true, but only for some microseconds. Returns whether `is_over`
/// returned true.
pub(super) fn spin_until(is_over: impl Fn() -> bool) -> bool {
    // Under loom, spinning is useless, because loom tries every interleaving of the threads anyway.
    if cfg!(all(loom, test)) {
        return is_over();
    }
    let began = Instant::now();
    loop {
        for _ in 0..LOOKS_PER_ROUND {
            if is_over() {
                return true;
            }
            std::hint::spin_loop();
        }
        let spun = began.elapsed();
        if spun > SPINNING || (spun > SPINNING_AMONG_OTHERS && processors::are_writers_held_up()) {
            return false;
        }
    }
}

/// Yields until `is_over` returns true, but at most `YIELDS` times. Returns whether `is_over`
/// returned true.
pub(super) fn yield_until(is_over: impl Fn() -> bool) -> bool {
    (0..YIELDS).any(|_| is_over() || !processors::give_way()) && is_over()
}

/// Sleeps until `is_over` returns true. The thread that makes it true must unpark this thread
/// afterwards.
pub(super) fn sleep_until(is_over: impl Fn() -> bool) {
    // `park` may return spuriously, or because of an earlier unpark.
    while !is_over() {
        thread::park();
    }
}
