//! What the queue waits and counts with: loom's own in its models, the standard library's
//! everywhere else.

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

/// How long a writer that may spin looks before it lets its thread sleep: about what waking a
/// thread takes on a processor that idles.
const SPINNING: Duration = Duration::from_micros(15);
/// So long also while others want the processor: about what an unsynced group takes.
const SPINNING_AMONG_OTHERS: Duration = Duration::from_nanos(1500);
/// How often it looks between two looks at the time.
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
    if !(may_spin && spin_until(&is_over)) {
        sleep_until(is_over);
    }
}

/// Looks for a while whether something `is_over`; returns whether it is.
pub(super) fn spin_until(is_over: impl Fn() -> bool) -> bool {
    // A model tries everything that may happen meanwhile anyway.
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
        if spun > SPINNING || (spun > SPINNING_AMONG_OTHERS && processors::are_wanted()) {
            return false;
        }
    }
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
