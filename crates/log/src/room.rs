//! Waiting for room: for unpersisted bytes to be persisted, memory to be free, a command to be
//! done.

use std::fmt;

use crate::sync::{Condvar, Mutex};

/// Wakes all who wait whenever there may be room. Who is refused takes the moment before its call
/// along, so that no wake-up in between is lost.
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

/// A moment: what [`Room::wait_after`] takes.
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

    /// Has `wake` called when there may be more room than at a moment: now, if there was a change.
    pub(crate) fn on_change_after(&self, moment: Moment, wake: Box<dyn FnOnce() + Send>) {
        let mut state = self.state.lock();
        if state.changes == moment.0 {
            state.wakers.push(wake);
            return;
        }
        drop(state);
        wake();
    }

    /// There may be more room.
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
