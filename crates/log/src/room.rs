//! Waiting for room: until unpersisted bytes are persisted, memory is free, or a command is done.

use std::fmt;

use crate::sync::{Condvar, Mutex};

/// Wakes all waiters whenever there may be room. A waiter passes the moment before its refused
/// call, so that no wake-up in between is lost.
#[derive(Default)]
pub(crate) struct Room {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    changes: u64,
    wakers: Vec<Box<dyn FnOnce() + Send>>,
}

/// A moment, for [`Room::wait_after`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment(u64);

impl Room {
    pub(crate) fn now(&self) -> Moment {
        Moment(self.state.lock().changes)
    }

    /// Waits until there may be more room than at a moment.
    pub(crate) fn wait_after(&self, moment: Moment) {
        let mut state = self.state.lock();
        while state.changes == moment.0 {
            state = self.changed.wait(state);
        }
    }

    /// Calls `wake` when there may be more room than at a moment: at once if there was a change
    /// since.
    pub(crate) fn on_change_after(&self, moment: Moment, wake: Box<dyn FnOnce() + Send>) {
        let mut state = self.state.lock();
        if state.changes == moment.0 {
            state.wakers.push(wake);
            return;
        }
        drop(state);
        wake();
    }

    /// Wakes all waiters: there may be more room.
    pub(crate) fn changed(&self) {
        let wakers = {
            let mut state = self.state.lock();
            state.changes += 1;
            std::mem::take(&mut state.wakers)
        };
        self.changed.notify_all();
        wakers.into_iter().for_each(|wake| wake());
    }
}

impl fmt::Debug for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Room({} changes)", self.state.lock().changes)
    }
}
