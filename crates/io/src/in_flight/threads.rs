//! Requests made by worker threads.

use std::collections::BTreeMap;
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
    /// Requests that have not begun, by number. A job looks up its request here; if it is missing,
    /// it has been cancelled and the job does nothing.
    reserved: BTreeMap<u64, (ReadRequest, PooledBuffer)>,
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
        let number = request.number;
        self.shared.state.lock().reserved.insert(number, (request, buffer));
        let shared = Arc::clone(&self.shared);
        self.workers.submit(move || RunningRequest::run(shared, number));
    }

    pub(super) fn ended(&self) -> Option<CompletedRead> {
        self.shared.state.lock().done.pop()
    }

    pub(super) fn wait(&self) -> CompletedRead {
        let mut state = self.shared.state.lock();
        loop {
            if let Some(completed) = state.done.pop() {
                return completed;
            }
            state = self.shared.changed.wait(state);
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
    fn run(shared: Arc<RequestQueue>, number: u64) {
        let mut state = shared.state.lock();
        let Some((request, buffer)) = state.reserved.remove(&number) else { return };
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
