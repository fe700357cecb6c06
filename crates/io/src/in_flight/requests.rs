//! Requests in flight, and the three ways to make them.

use std::collections::VecDeque;
use std::sync::Arc;

use super::request::{CompletedRead, ReadRequest};
use super::ring::RingRequests;
use super::threads::ThreadRequests;
use super::workers::Workers;
use crate::buffer::PooledBuffer;
use crate::sections::{self, Section};
use crate::storage::ReadFile;

/// How requests are made.
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

/// Requests in flight. Their numbers are unique. Dropping this waits for the requests that are
/// inside their system call, because the call writes to their buffer.
#[derive(Debug)]
pub(crate) enum Requests {
    /// Requests, oldest first. Each is made when the caller waits for it.
    Caller(VecDeque<(ReadRequest, PooledBuffer)>),
    Threads(ThreadRequests),
    Ring(RingRequests),
}

impl Requests {
    pub(crate) fn caller() -> Self {
        Self::Caller(VecDeque::new())
    }

    /// Chooses how to make the requests of a file. If `several` requests may be in flight, io_uring
    /// makes them, or the workers if io_uring is not possible. Otherwise the caller makes them.
    /// Must be called while nothing is in flight.
    pub(crate) fn choose(
        &mut self,
        file: &dyn ReadFile,
        several: bool,
        workers: Option<&Arc<Workers>>,
    ) {
        let access = if several { file.ring_access() } else { None };
        if let Some(access) = access {
            if matches!(self, Self::Ring(ring) if ring.is_of(access.rings)) {
                return;
            }
            if let Some(ring) = access.rings.take() {
                *self = Self::Ring(RingRequests::new(ring));
                return;
            }
        }
        match (&*self, workers) {
            (Self::Threads(_), Some(_)) if several => {}
            (_, Some(workers)) if several => *self = Self::Threads(ThreadRequests::new(workers)),
            _ => *self = Self::caller(),
        }
    }

    /// Keeps the ring, if there is one, from being taken back by its pool. It may have been taken
    /// back before, but only while nothing was in flight.
    pub(crate) fn hold_ring(&self) {
        if let Self::Ring(ring) = self {
            ring.hold();
        }
    }

    /// Lets the pool of rings take the ring back while nothing is in flight. Before the next
    /// request, [`Self::hold_ring`] must be called, and then, if nothing is in flight,
    /// [`Self::choose`]. A ring that was just chosen is held.
    pub(crate) fn lend_ring(&mut self) {
        if let Self::Ring(ring) = self {
            ring.lend();
        }
    }

    pub(crate) fn path(&self) -> RequestPath {
        match self {
            Self::Caller(_) => RequestPath::Caller,
            Self::Threads(_) => RequestPath::Threads,
            Self::Ring(_) => RequestPath::Ring,
        }
    }

    /// Adds a request, which reads into `buffer`. With a ring, the kernel begins it at the next
    /// call of [`Self::begin`], [`Self::wait`] or [`Self::ended`].
    pub(crate) fn submit(&mut self, request: ReadRequest, buffer: PooledBuffer) {
        match self {
            Self::Caller(waiting) => waiting.push_back((request, buffer)),
            Self::Threads(threads) => threads.submit(request, buffer),
            Self::Ring(ring) => ring.submit(request, buffer),
        }
    }

    /// Makes the kernel begin the submitted requests.
    pub(crate) fn begin(&mut self) {
        if let Self::Ring(ring) = self {
            ring.begin();
        }
    }

    /// Makes the kernel begin the submitted requests, and returns one that it has completed at
    /// once.
    pub(crate) fn begin_and_reap(&mut self) -> Option<CompletedRead> {
        self.begin();
        match self {
            Self::Caller(_) => None,
            Self::Threads(threads) => threads.ended(),
            Self::Ring(ring) => ring.completed(),
        }
    }

    /// Waits until a request ends. At least one must be in flight. The caller needs those with a
    /// number up to `needed` before it can go on.
    pub(crate) fn wait(&mut self, needed: u64) -> CompletedRead {
        let _waiting = sections::enter(Section::Device);
        match self {
            Self::Caller(waiting) => {
                let next = waiting
                    .front()
                    .map_or(0, |(first, _)| first.file.next_of_waiting(waiting.len()));
                let Some((request, buffer)) = waiting.remove(next) else {
                    unreachable!("a caller that waits has submitted a request")
                };
                request.complete(buffer)
            }
            Self::Threads(threads) => threads.wait(needed),
            Self::Ring(ring) => ring.wait(),
        }
    }

    /// Returns a completed request if there is one; does not wait.
    pub(crate) fn ended(&mut self) -> Option<CompletedRead> {
        match self {
            Self::Caller(_) => None,
            Self::Threads(threads) => threads.ended(),
            Self::Ring(ring) => ring.ended(),
        }
    }

    /// Cancels the requests with a number below `number` that have not begun, and returns their
    /// buffers.
    pub(crate) fn take_back(&mut self, number: u64) -> Vec<PooledBuffer> {
        match self {
            Self::Caller(waiting) => {
                let mut taken = Vec::new();
                for (request, buffer) in std::mem::take(waiting) {
                    match request.number < number {
                        true => taken.push(buffer),
                        false => waiting.push_back((request, buffer)),
                    }
                }
                taken
            }
            Self::Threads(threads) => threads.take_back(number),
            Self::Ring(ring) => ring.take_back(number),
        }
    }
}
