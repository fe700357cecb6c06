//! Requests made by worker threads.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::request::{CompletedRead, ReadRequest};
use super::workers::Workers;
use crate::buffer::PooledBuffer;
use crate::sections::{self, Section};
use crate::sync::{Condvar, Mutex};
use crate::{Error, Operation};

/// The requests of one queue that are made by the threads of [`Workers`].
#[derive(Debug)]
pub(crate) struct ThreadRequests {
    workers: Arc<Workers>,
    shared: Arc<RequestQueue>,
}

#[derive(Debug, Default)]
struct RequestQueue {
    state: Mutex<State>,
    changed: Condvar,
}

/// Each buffer is in exactly one place: in `reserved`, in `done`, or with a request that is inside
/// its read call.
#[derive(Debug, Default)]
struct State {
    /// Requests that have not begun, by number.
    reserved: BTreeMap<u64, (ReadRequest, PooledBuffer)>,
    /// Number of jobs that were given to the workers and have not begun: at least one for each
    /// request in `reserved`. A job makes the first of them, if there is one.
    due: usize,
    done: Vec<CompletedRead>,
    /// Number of requests inside their read call.
    running: usize,
    closed: bool,
}

impl ThreadRequests {
    pub(super) fn new(workers: &Arc<Workers>) -> Self {
        Self { workers: Arc::clone(workers), shared: Arc::default() }
    }

    pub(super) fn submit(&self, request: ReadRequest, buffer: PooledBuffer) {
        let mut state = self.shared.state.lock();
        state.reserved.insert(request.number, (request, buffer));
        if state.due < state.reserved.len() {
            state.due += 1;
            drop(state);
            let shared = Arc::clone(&self.shared);
            self.workers.submit(move || {
                shared.state.lock().due -= 1;
                RunningRequest::run_first(shared);
            });
        }
    }

    pub(super) fn ended(&self) -> Option<CompletedRead> {
        self.shared.state.lock().done.pop()
    }

    /// Waits until a request ends. If no worker can begin one, the caller makes it: the workers may
    /// be occupied by requests for another disk, which does not answer.
    pub(super) fn wait(&self) -> CompletedRead {
        let mut state = self.shared.state.lock();
        loop {
            if let Some(completed) = state.done.pop() {
                return completed;
            }
            if !state.reserved.is_empty() && self.workers.are_occupied() {
                drop(state);
                let shared = Arc::clone(&self.shared);
                // A panic is the error of the request, as in a worker.
                let _ = catch_unwind(AssertUnwindSafe(|| RunningRequest::run_first(shared)));
                state = self.shared.state.lock();
            } else {
                state = self.shared.changed.wait(state);
            }
        }
    }

    pub(super) fn take_back(&self, number: u64) -> Vec<PooledBuffer> {
        let mut state = self.shared.state.lock();
        let kept = state.reserved.split_off(&number);
        let taken = std::mem::replace(&mut state.reserved, kept);
        taken.into_values().map(|(_, buffer)| buffer).collect()
    }
}

impl Drop for ThreadRequests {
    fn drop(&mut self) {
        let _waiting = sections::enter(Section::Device);
        let mut state = self.shared.state.lock();
        state.closed = true;
        state.reserved.clear();
        state.done.clear();
        while state.running > 0 {
            state = self.shared.changed.wait(state);
        }
    }
}

/// A request inside its read call. When this is dropped, the result is delivered, or, if the queue
/// has been dropped, the buffer released. This happens even if the call panics.
struct RunningRequest {
    shared: Arc<RequestQueue>,
    request: ReadRequest,
    /// `None` only inside drop.
    buffer: Option<PooledBuffer>,
    error: Option<Error>,
}

impl RunningRequest {
    fn run_first(shared: Arc<RequestQueue>) {
        let mut state = shared.state.lock();
        let Some((_, (request, buffer))) = state.reserved.pop_first() else { return };
        state.running += 1;
        drop(state);
        let mut running = Self { shared, request, buffer: Some(buffer), error: None };
        if let Some(buffer) = &mut running.buffer {
            running.error = running.request.read(buffer);
        }
    }

    #[cold]
    fn panicked(&self) -> Error {
        Error::panicked(Operation::Read, self.request.file.path(), Some(self.request.offset))
    }
}

impl Drop for RunningRequest {
    fn drop(&mut self) {
        let Some(mut buffer) = self.buffer.take() else { return };
        let mut error = self.error.take();
        if std::thread::panicking() {
            buffer.clear();
            error = Some(self.panicked());
        }
        let mut state = self.shared.state.lock();
        state.running -= 1;
        if state.closed {
            drop(buffer);
        } else {
            state.done.push(CompletedRead { number: self.request.number, buffer, error });
        }
        drop(state);
        self.shared.changed.notify_all();
    }
}
