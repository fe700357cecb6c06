//! The thread that works while users do.
//!
//! It flushes. It is woken when a memtable is sealed, tries again after a while when the disk was
//! full, and frees what readers have let go of. It ends when the database is closed, after the
//! flush it is at.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::{Error, Result};

/// How long the thread sleeps at most.
const IDLE: Duration = Duration::from_secs(1);

/// What the background thread has to do, and whether it is to end.
#[derive(Debug, Default)]
pub(crate) struct Background {
    state: Mutex<State>,
    /// Notified when there is something to do.
    wanted: Condvar,
    /// Notified when something was done.
    done: Condvar,
}

#[derive(Debug, Default)]
struct State {
    flush_wanted: bool,
    closing: bool,
    /// How many rounds of flushing have ended.
    rounds: u64,
    /// How the last of them failed, if it did.
    failure: Option<Error>,
}

/// What the background thread is to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Task {
    Flush,
    /// Nothing in particular: time has passed.
    Idle,
    End,
}

impl Background {
    /// Has memtables flushed.
    pub(crate) fn flush_soon(&self) {
        self.lock().flush_wanted = true;
        self.wanted.notify_one();
    }

    /// Has the thread end.
    pub(crate) fn close(&self) {
        self.lock().closing = true;
        self.wanted.notify_all();
        self.done.notify_all();
    }

    /// Whether the thread is to end.
    pub(crate) fn is_closing(&self) -> bool {
        self.lock().closing
    }

    /// Waits for something to do.
    pub(crate) fn next(&self) -> Task {
        let mut state = self.lock();
        loop {
            if state.closing {
                return Task::End;
            }
            if std::mem::take(&mut state.flush_wanted) {
                return Task::Flush;
            }
            let (next, timeout) =
                self.wanted.wait_timeout(state, IDLE).unwrap_or_else(PoisonError::into_inner);
            state = next;
            if timeout.timed_out() && !state.flush_wanted && !state.closing {
                return Task::Idle;
            }
        }
    }

    /// Waits for `pause`, or until the thread is to end or a flush is asked for.
    pub(crate) fn pause(&self, pause: Duration) {
        let state = self.lock();
        let goes_on = |state: &mut State| !state.closing && !state.flush_wanted;
        let _ = self.wanted.wait_timeout_while(state, pause, goes_on);
    }

    /// Says how a round of flushing has ended.
    pub(crate) fn round_ended(&self, failure: Option<Error>) {
        let mut state = self.lock();
        state.rounds += 1;
        state.failure = failure;
        drop(state);
        self.done.notify_all();
    }

    /// Waits until `outcome` has one; it is asked after each round. What makes a round end in an
    /// outcome happens before its end.
    ///
    /// # Errors
    /// That of the outcome, and that of a round which failed while this waited.
    pub(crate) fn wait_for(&self, outcome: impl Fn() -> Option<Result<()>>) -> Result<()> {
        let mut seen = self.lock().rounds;
        loop {
            if let Some(outcome) = outcome() {
                return outcome;
            }
            let mut state = self.lock();
            while state.rounds == seen && !state.closing {
                state = self.done.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            let failure = state.failure.clone().filter(|_| state.rounds != seen);
            let is_closing = state.closing;
            seen = state.rounds;
            drop(state);
            if let Some(outcome) = outcome() {
                return outcome;
            }
            if let Some(failure) = failure {
                return Err(failure);
            }
            if is_closing {
                return Err(Error::invalid_argument("the database was closed"));
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
