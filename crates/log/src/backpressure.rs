//! Backpressure: refused appends wait until bytes are persisted, memory is freed, or a command
//! completes.

use std::fmt;

use crate::panics;
use crate::sync::{Condvar, Mutex};

/// Wakes all waiters whenever an append may be possible again. A waiter passes a [`Moment`] taken
/// before its refused call, so that no wake-up between that call and the wait is lost.
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

/// The number of changes so far. It identifies the point in time after which
/// [`Backpressure::wait_after`] expects a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment(u64);

impl Backpressure {
    pub(crate) fn now(&self) -> Moment {
        Moment(self.state.lock().changes)
    }

    /// Waits until there has been a change after `moment`.
    pub(crate) fn wait_after(&self, moment: Moment) {
        let mut state = self.state.lock();
        while state.changes == moment.0 {
            state = self.changed.wait(state);
        }
    }

    /// Calls `wake` at the next change after `moment`, or immediately if there has already been a
    /// change.
    pub(crate) fn on_change_after(&self, moment: Moment, wake: Box<dyn FnOnce() + Send>) {
        let mut state = self.state.lock();
        if state.changes == moment.0 {
            state.wakers.push(wake);
            return;
        }
        drop(state);
        call(wake);
    }

    /// Wakes all waiters, because an append may be possible again.
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

/// Calls a waker. If the waker panics, the panic is caught: the other wakers must still be called,
/// and the thread that calls them must continue.
fn call(wake: Box<dyn FnOnce() + Send>) {
    // The panic hook has reported the panic.
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
