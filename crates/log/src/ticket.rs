//! Completion of appends and commands.

use std::fmt;
use std::sync::Arc;

use crate::panics;
use crate::sync::{Condvar, Mutex};
use crate::{Error, Result};

type Callback = Box<dyn FnOnce(Result<()>) + Send>;

/// The outcome of an append or a command: already known, or still to come.
///
/// Waiting does not require a thread: [`Self::on_complete`] registers a function. Dropping a ticket
/// has no effect on the append.
#[must_use = "the append is acknowledged when the ticket is complete"]
#[derive(Debug)]
pub struct Ticket(State);

#[derive(Debug)]
enum State {
    Complete(Result<()>),
    Pending(Arc<Signal>),
}

impl Ticket {
    /// Creates a complete ticket.
    pub(crate) fn complete(outcome: Result<()>) -> Self {
        Self(State::Complete(outcome))
    }

    /// Creates a ticket that completes with a signal.
    pub(crate) fn pending(signal: Arc<Signal>) -> Self {
        Self(State::Pending(signal))
    }

    /// Returns whether the ticket is complete.
    pub fn is_complete(&self) -> bool {
        match &self.0 {
            State::Complete(_) => true,
            State::Pending(signal) => signal.state.lock().outcome.is_some(),
        }
    }

    /// Waits until the ticket is complete.
    ///
    /// # Errors
    /// The error from the append or command.
    pub fn wait(self) -> Result<()> {
        match self.0 {
            State::Complete(outcome) => outcome,
            State::Pending(signal) => signal.wait(),
        }
    }

    /// Calls `then` with the outcome: immediately if the ticket is complete, otherwise in the
    /// thread that completes it; `then` must not block that thread.
    pub fn on_complete(self, then: impl FnOnce(Result<()>) + Send + 'static) {
        match self.0 {
            State::Complete(outcome) => then(outcome),
            State::Pending(signal) => signal.on_complete(Box::new(then)),
        }
    }
}

/// The counterpart of a pending ticket, with which the ticket is completed.
#[derive(Default)]
pub(crate) struct Signal {
    state: Mutex<SignalState>,
    completed: Condvar,
}

#[derive(Default)]
struct SignalState {
    outcome: Option<Result<()>>,
    callback: Option<Callback>,
}

impl Signal {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Completes the ticket. Later calls have no effect.
    pub(crate) fn complete(&self, outcome: Result<()>) {
        let callback = {
            let mut state = self.state.lock();
            if state.outcome.is_some() {
                return;
            }
            state.outcome = Some(outcome.clone());
            state.callback.take()
        };
        self.completed.notify_all();
        if let Some(callback) = callback {
            // A panic is caught, because this thread has other tickets to complete. The panic hook
            // has reported it.
            let _ = panics::catch("a callback", || {
                callback(outcome);
                Ok(())
            });
        }
    }

    fn wait(&self) -> Result<()> {
        let mut state = self.state.lock();
        loop {
            if let Some(outcome) = &state.outcome {
                return outcome.clone();
            }
            state = self.completed.wait(state);
        }
    }

    fn on_complete(&self, then: Callback) {
        let mut state = self.state.lock();
        match state.outcome.clone() {
            Some(outcome) => {
                drop(state);
                then(outcome);
            }
            None => state.callback = Some(then),
        }
    }
}

impl Drop for Signal {
    fn drop(&mut self) {
        // If the signal is dropped without an outcome, the callback is called here. Otherwise the
        // owner of the callback would wait forever.
        let mut state = self.state.lock();
        let callback = state.callback.take();
        drop(state);
        if let Some(callback) = callback {
            callback(Err(Error::closed("the log")));
        }
    }
}

impl fmt::Debug for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signal({:?})", self.state.lock().outcome)
    }
}
