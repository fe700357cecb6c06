//! Tickets, through which callers learn the outcome of appends and commands.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::panics;
use crate::sync::{Condvar, Mutex};
use crate::{Error, ErrorKind, Result};

type Callback = Box<dyn FnOnce(Result<()>) + Send>;

/// The outcome of an append or a command, which may still be pending.
///
/// A caller need not block a thread to wait. A ticket is also a future, which any async runtime can
/// await, and [`Self::on_complete`] registers a function. Dropping a ticket does not cancel the
/// append or command.
#[must_use = "the append is acknowledged when the ticket is complete"]
#[derive(Debug)]
pub struct Ticket(State);

#[derive(Debug)]
enum State {
    Complete(Result<()>),
    Pending(Arc<Signal>),
}

impl Ticket {
    /// Creates a ticket whose outcome is already known.
    pub(crate) fn complete(outcome: Result<()>) -> Self {
        Self(State::Complete(outcome))
    }

    /// Creates a pending ticket, and the completer that completes it.
    pub(crate) fn pending() -> (Completer, Self) {
        let signal = Arc::new(Signal::default());
        (Completer(Some(Arc::clone(&signal))), Self(State::Pending(signal)))
    }

    /// Returns whether the outcome is known.
    pub fn is_complete(&self) -> bool {
        match &self.0 {
            State::Complete(_) => true,
            State::Pending(signal) => signal.state.lock().outcome.is_some(),
        }
    }

    /// Waits for the outcome and returns it.
    ///
    /// # Errors
    /// The error of the append or command; panicked, if a panic prevented its completion.
    pub fn wait(self) -> Result<()> {
        match self.0 {
            State::Complete(outcome) => outcome,
            State::Pending(signal) => signal.wait(),
        }
    }

    /// Calls `then` once with the outcome. If the outcome is known, `then` is called immediately.
    /// Otherwise the thread that completes the ticket, usually a thread of the log, calls `then`
    /// later. A panic of `then` in that thread is reported by the panic hook and otherwise ignored.
    ///
    /// `then` must not block that thread, for instance by waiting for another ticket. It cannot
    /// close the log, purge or truncate partitions, or create, change or delete topics and
    /// partitions: there, these methods of [`Log`](crate::Log) return an error. It may drop the
    /// last handle of the log, which is then closed soon after `then` returned.
    pub fn on_complete(self, then: impl FnOnce(Result<()>) + Send + 'static) {
        match self.0 {
            State::Complete(outcome) => then(outcome),
            State::Pending(signal) => signal.on_complete(Box::new(then)),
        }
    }
}

impl Future for Ticket {
    /// The outcome that [`Ticket::wait`] returns.
    type Output = Result<()>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        match &self.0 {
            State::Complete(outcome) => Poll::Ready(outcome.clone()),
            State::Pending(signal) => signal.poll(context),
        }
    }
}

/// The other end of a pending ticket, through which the ticket is completed. Dropping a completer
/// completes its ticket with an error.
pub(crate) struct Completer(Option<Arc<Signal>>);

impl Completer {
    /// Sets the outcome of the ticket.
    pub(crate) fn complete(mut self, outcome: Result<()>) {
        if let Some(signal) = self.0.take() {
            signal.complete(outcome);
        }
    }
}

impl Drop for Completer {
    fn drop(&mut self) {
        // If the signal is still there, a panic has skipped the completion. Without an outcome, the
        // owner of the ticket would wait forever.
        if let Some(signal) = self.0.take() {
            let message = "a panic interrupted the append or command";
            signal.complete(Err(Error::new(ErrorKind::Panicked, message)));
        }
    }
}

impl fmt::Debug for Completer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Completer").field(&self.0).finish()
    }
}

/// The state that a pending ticket and its completer share.
#[derive(Default)]
struct Signal {
    state: Mutex<SignalState>,
    completed: Condvar,
}

#[derive(Default)]
struct SignalState {
    outcome: Option<Result<()>>,
    callback: Option<Callback>,
}

impl Signal {
    fn complete(&self, outcome: Result<()>) {
        let callback = {
            let mut state = self.state.lock();
            state.outcome = Some(outcome.clone());
            state.callback.take()
        };
        self.completed.notify_all();
        if let Some(callback) = callback {
            call(callback, outcome);
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
            None => {
                // The waker of an earlier poll: see `poll`.
                let old = state.callback.replace(then);
                drop(state);
                drop(old);
            }
        }
    }

    /// Returns the outcome if it is known. Otherwise registers the task's waker, which replaces the
    /// waker of the previous poll.
    fn poll(&self, context: &Context<'_>) -> Poll<Result<()>> {
        let waker = context.waker().clone();
        let mut state = self.state.lock();
        if let Some(outcome) = &state.outcome {
            return Poll::Ready(outcome.clone());
        }
        let old = state.callback.replace(Box::new(move |_| waker.wake()));
        // Dropping a waker may run code of the runtime, so first unlock the state.
        drop(state);
        drop(old);
        Poll::Pending
    }
}

/// Calls a callback and catches its panic. The calling thread must complete other tickets too, and
/// may be unwinding: a second panic would abort the process.
fn call(callback: Callback, outcome: Result<()>) {
    // Ignore the result: if the callback panics, the panic hook reports the panic.
    let _ = panics::catch("a callback", || {
        callback(outcome);
        Ok(())
    });
}

impl fmt::Debug for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signal({:?})", self.state.lock().outcome)
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests;
