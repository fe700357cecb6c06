//! Locks and condition variables that outlive a panic.
//!
//! A thread that panics while it holds a lock leaves the data as complete as its last statement;
//! every critical section in this crate keeps its data whole between statements, so the lock goes
//! on rather than spreading the panic.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Takes the lock.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Releases the lock until `condition` is notified, then takes it again. It may wake for no reason.
pub(crate) fn wait<'a, T>(condition: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condition.wait(guard).unwrap_or_else(PoisonError::into_inner)
}
