//! Requests made by worker threads.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::span::{Chunk, Source};
use super::workers::Workers;
use crate::buffer::PooledBuffer;
use crate::sync::{Condvar, Mutex};
use crate::{Error, Operation};

/// The requests of one stream that are made by the threads of [`Workers`].
#[derive(Debug)]
pub(super) struct ThreadRequests {
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
    /// Requests that have not begun, by index. A job looks up its request here; if it is missing,
    /// it has been cancelled and the job does nothing.
    reserved: BTreeMap<u64, (Arc<Source>, PooledBuffer)>,
    done: Vec<Chunk>,
    /// Number of requests inside their read call.
    running: usize,
    closed: bool,
}

impl ThreadRequests {
    pub(super) fn new(workers: &Arc<Workers>) -> Self {
        Self { workers: Arc::clone(workers), shared: Arc::default() }
    }

    pub(super) fn submit(&self, source: &Arc<Source>, index: u64, buffer: PooledBuffer) {
        self.shared.state.lock().reserved.insert(index, (Arc::clone(source), buffer));
        let shared = Arc::clone(&self.shared);
        self.workers.submit(move || Request::run(shared, index));
    }

    pub(super) fn ended(&self) -> Option<Chunk> {
        self.shared.state.lock().done.pop()
    }

    pub(super) fn wait(&self) -> Chunk {
        let mut state = self.shared.state.lock();
        loop {
            if let Some(chunk) = state.done.pop() {
                return chunk;
            }
            state = self.shared.changed.wait(state);
        }
    }

    pub(super) fn take_back(&self, index: u64) -> Vec<PooledBuffer> {
        let mut state = self.shared.state.lock();
        let kept = state.reserved.split_off(&index);
        let taken = std::mem::replace(&mut state.reserved, kept);
        taken.into_values().map(|(_, buffer)| buffer).collect()
    }
}

impl Drop for ThreadRequests {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.closed = true;
        state.reserved.clear();
        state.done.clear();
        while state.running > 0 {
            state = self.shared.changed.wait(state);
        }
    }
}

/// A request inside its read call. When this is dropped, the result is delivered, or, if the stream
/// has ended, the buffer released. This happens even if the call panics.
struct Request {
    shared: Arc<RequestQueue>,
    source: Arc<Source>,
    index: u64,
    /// `None` only inside drop.
    buffer: Option<PooledBuffer>,
    error: Option<Error>,
}

impl Request {
    fn run(shared: Arc<RequestQueue>, index: u64) {
        let mut state = shared.state.lock();
        let Some((source, buffer)) = state.reserved.remove(&index) else { return };
        state.running += 1;
        drop(state);
        let mut request = Self { shared, source, index, buffer: Some(buffer), error: None };
        if let Some(buffer) = &mut request.buffer {
            request.error = request.source.read(index, buffer);
        }
    }

    #[cold]
    fn panicked(&self) -> Error {
        let offset = self.source.plan.range(self.index).start;
        Error::panicked(Operation::Read, self.source.file.path(), Some(offset))
    }
}

impl Drop for Request {
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
            state.done.push(Chunk { index: self.index, buffer, error });
        }
        drop(state);
        self.shared.changed.notify_all();
    }
}
