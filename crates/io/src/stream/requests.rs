//! The requests of a reading stream that are in flight, and the three ways to make them.

use std::collections::VecDeque;
use std::sync::Arc;

use super::ring::RingRequests;
use super::span::{Chunk, Source};
use super::threads::ThreadRequests;
use super::workers::Workers;
use crate::buffer::PooledBuffer;
use crate::storage::ReadFile;

/// How the requests of a stream are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestPath {
    /// The caller's thread makes the requests, one at a time. It makes a request when it needs the
    /// bytes.
    Caller,
    /// The threads of [`Workers`] make the requests, several concurrently.
    Threads,
    /// The kernel executes the requests through io_uring, several concurrently. The caller's thread
    /// submits them and waits for them.
    Ring,
}

/// Requests in flight, all for the same source. Dropping this waits for the requests that are
/// inside their system call, because the call writes to their buffer.
#[derive(Debug)]
pub(super) enum Requests {
    /// Requests with their indices, oldest first. Each is made when the caller waits for it.
    Caller(VecDeque<(u64, PooledBuffer)>),
    Threads(ThreadRequests),
    Ring(Box<RingRequests>),
}

impl Requests {
    pub(super) fn caller() -> Self {
        Self::Caller(VecDeque::new())
    }

    /// Chooses how to make the requests of a file. If `several` requests may be in flight, io_uring
    /// makes them, or the workers if io_uring is not possible. Otherwise the caller makes them.
    /// Must be called while nothing is in flight.
    pub(super) fn choose(
        &mut self,
        file: &dyn ReadFile,
        several: bool,
        workers: Option<&Arc<Workers>>,
    ) {
        let rings = several && file.descriptor().is_some();
        if rings && matches!(self, Self::Ring(_)) {
            return;
        }
        if rings && let Some(ring) = RingRequests::new() {
            *self = Self::Ring(Box::new(ring));
            return;
        }
        match (&*self, workers) {
            (Self::Threads(_), Some(_)) if several => {}
            (_, Some(workers)) if several => *self = Self::Threads(ThreadRequests::new(workers)),
            _ => *self = Self::caller(),
        }
    }

    pub(super) fn path(&self) -> RequestPath {
        match self {
            Self::Caller(_) => RequestPath::Caller,
            Self::Threads(_) => RequestPath::Threads,
            Self::Ring(_) => RequestPath::Ring,
        }
    }

    /// Submits the request with this index, which reads into `buffer`.
    pub(super) fn submit(&mut self, source: &Arc<Source>, index: u64, buffer: PooledBuffer) {
        match self {
            Self::Caller(waiting) => waiting.push_back((index, buffer)),
            Self::Threads(threads) => threads.submit(source, index, buffer),
            Self::Ring(ring) => ring.submit(source, index, buffer),
        }
    }

    /// Waits until a request ends. At least one must be in flight.
    pub(super) fn wait(&mut self, source: &Source) -> Chunk {
        match self {
            Self::Caller(waiting) => {
                let Some((index, mut buffer)) = waiting.pop_front() else {
                    unreachable!("a caller that waits has submitted a request")
                };
                let error = source.read(index, &mut buffer);
                Chunk { index, buffer, error }
            }
            Self::Threads(threads) => threads.wait(),
            Self::Ring(ring) => ring.wait(),
        }
    }

    /// Returns a completed request if there is one; does not wait.
    pub(super) fn ended(&mut self) -> Option<Chunk> {
        match self {
            Self::Caller(_) => None,
            Self::Threads(threads) => threads.ended(),
            Self::Ring(ring) => ring.ended(),
        }
    }

    /// Cancels the requests with an index below `index` that have not begun, and returns their
    /// buffers.
    pub(super) fn take_back(&mut self, index: u64) -> Vec<PooledBuffer> {
        match self {
            Self::Caller(waiting) => {
                let taken = waiting.iter().take_while(|(number, _)| *number < index).count();
                waiting.drain(..taken).map(|(_, buffer)| buffer).collect()
            }
            Self::Threads(threads) => threads.take_back(index),
            // No request can be taken back: the kernel may have begun every request that was
            // submitted to the ring.
            Self::Ring(_) => Vec::new(),
        }
    }
}
