//! Backpressure: lets callers whose append was refused wait until it may succeed. That is the case
//! after bytes have been persisted, memory has been freed, or a command has completed.

use std::fmt;

use crate::panics;
use crate::sync::{Condvar, Mutex};

/// Wakes all waiters whenever an append may succeed again. A waiter takes the number of
/// [changes](Self::changes) before it makes the call that may be refused, and then waits for the
/// next change. So it does not miss a change that comes between the call and the wait.
#[derive(Default)]
pub(crate) struct Backpressure {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    changes: u64,
    wakers: Vec<Box<dyn FnOnce() + Send>>,
}

impl Backpressure {
    /// Returns the number of changes so far. After a change, an append that was refused may
    /// succeed.
    pub(crate) fn changes(&self) -> u64 {
        self.state.lock().changes
    }

    /// Waits for the first change after `changes` changes.
    pub(crate) fn wait_after(&self, changes: u64) {
        let mut state = self.state.lock();
        while state.changes == changes {
            state = self.changed.wait(state);
        }
    }

    /// Arranges for `wake` to be called once, at the first change after `changes` changes. If there
    /// has already been one, calls `wake` immediately.
    pub(crate) fn on_change_after(&self, changes: u64, wake: Box<dyn FnOnce() + Send>) {
        let mut state = self.state.lock();
        if state.changes == changes {
            state.wakers.push(wake);
            return;
        }
        drop(state);
        call(wake);
    }

    /// Reports a change: an append that was refused may succeed now. Wakes all waiters.
    pub(crate) fn changed(&self) {
        let wakers = {
            let mut state = self.state.lock();
            state.changes += 1;
            std::mem::take(&mut state.wakers)
        };
        self.changed.notify_all();
        wakers.into_iter().for_each(call);
    }
}

/// Calls a waker and catches its panic, because the remaining wakers must still be called and the
/// calling thread must go on.
fn call(wake: Box<dyn FnOnce() + Send>) {
    // Ignore the result: if the waker panics, the panic hook reports the panic.
    let _ = panics::catch("a waker", || {
        wake();
        Ok(())
    });
}

impl fmt::Debug for Backpressure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Backpressure({} changes)", self.state.lock().changes)
    }
}
