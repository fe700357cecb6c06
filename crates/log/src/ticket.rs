//! Whether an append is as durable as its topic asks, or a command is done.

use std::fmt;
use std::sync::Arc;

use crate::sync::{Condvar, Mutex};
use crate::{Error, Result};

type Callback = Box<dyn FnOnce(Result<()>) + Send>;

/// The outcome of an append or a command, which may still be to come.
///
/// Nobody has to wait with a thread: [`Self::on_complete`] has a function called. Dropping a ticket
/// changes nothing.
#[must_use = "the append is acknowledged when the ticket is complete"]
#[derive(Debug)]
pub struct Ticket(State);

#[derive(Debug)]
enum State {
    Complete(Result<()>),
    Pending(Arc<Signal>),
}

impl Ticket {
    /// A ticket that is complete.
    pub(crate) fn complete(outcome: Result<()>) -> Self {
        Self(State::Complete(outcome))
    }

    /// A ticket that is complete when the signal is.
    pub(crate) fn pending(signal: Arc<Signal>) -> Self {
        Self(State::Pending(signal))
    }

    /// Returns whether it is complete.
    pub fn is_complete(&self) -> bool {
        match &self.0 {
            State::Complete(_) => true,
            State::Pending(signal) => signal.state.lock().outcome.is_some(),
        }
    }

    /// Waits until it is complete.
    ///
    /// # Errors
    /// That of the append or command.
    pub fn wait(self) -> Result<()> {
        match self.0 {
            State::Complete(outcome) => outcome,
            State::Pending(signal) => signal.wait(),
        }
    }

    /// Has `then` called with the outcome: now, if it is complete, else by the thread that
    /// completes it, where it should not take long.
    pub fn on_complete(self, then: impl FnOnce(Result<()>) + Send + 'static) {
        match self.0 {
            State::Complete(outcome) => then(outcome),
            State::Pending(signal) => signal.on_complete(Box::new(then)),
        }
    }
}

/// The other side of a pending ticket.
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

    /// Completes it. Only the first outcome counts.
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
            callback(outcome);
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
        // A callback that nobody completes would leave its caller waiting for ever.
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
