//! The requests that read a span, and how they are made.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use super::ring::RingRequests;
use super::threads::ThreadRequests;
use super::workers::Workers;
use crate::Error;
use crate::buffer::PooledBuffer;
use crate::purpose::Purpose;
use crate::storage::{ReadFile, read_on_as_far_as_possible};

/// The requests that read a span: aligned, in order, the last one possibly shorter.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    /// Start of the first request: the start of the span, aligned down.
    begin: u64,
    /// End of the span or of the file, as the caller sees it.
    pub(super) end: u64,
    request_bytes: u64,
    alignment: u64,
}

impl Plan {
    /// `request_bytes` is a multiple of `alignment`.
    pub(super) fn new(span: Range<u64>, request_bytes: usize, alignment: usize) -> Self {
        let alignment = alignment as u64;
        let begin = (span.start - span.start % alignment).min(span.end);
        Self { begin, end: span.end, request_bytes: request_bytes as u64, alignment }
    }

    pub(super) fn count(&self) -> u64 {
        (self.end - self.begin).div_ceil(self.request_bytes)
    }

    /// Returns the request that reads the byte at `offset`, which is inside the plan.
    pub(super) fn index_of(&self, offset: u64) -> u64 {
        (offset - self.begin) / self.request_bytes
    }

    pub(super) fn range(&self, index: u64) -> Range<u64> {
        let begin = self.begin + index * self.request_bytes;
        begin..self.end.next_multiple_of(self.alignment).min(begin + self.request_bytes)
    }
}

/// The file, plan and purpose of requests.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) file: Arc<dyn ReadFile>,
    pub(super) plan: Plan,
    pub(super) purpose: Purpose,
}

impl Source {
    /// Makes a request on this thread.
    pub(super) fn read(&self, index: u64, buffer: &mut PooledBuffer) -> Option<Error> {
        self.read_on(index, buffer, 0)
    }

    /// Completes a request of which `done` bytes have been read, on this thread.
    pub(super) fn read_on(
        &self,
        index: u64,
        buffer: &mut PooledBuffer,
        done: usize,
    ) -> Option<Error> {
        let (range, enough) = (self.plan.range(index), self.enough(index));
        buffer.set_length((range.end - range.start) as usize);
        let (file, begin, purpose) = (&*self.file, range.start, self.purpose);
        let (count, error) = read_on_as_far_as_possible(file, buffer, done, enough, begin, purpose);
        buffer.set_length(count);
        error
    }

    /// Returns the number of bytes of a request that are needed: the last one need not be read to
    /// its end.
    fn enough(&self, index: u64) -> usize {
        let range = self.plan.range(index);
        (range.end.min(self.plan.end) - range.start) as usize
    }
}

/// The result of a request: the bytes before the end of the file, or before the error.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) index: u64,
    pub(super) buffer: PooledBuffer,
    pub(super) error: Option<Error>,
}

/// How the requests of a stream are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestPath {
    /// By the caller's thread, each when it is needed.
    Caller,
    /// By [`Workers`], several concurrently.
    Threads,
    /// By the kernel through io_uring, several concurrently: submitted and awaited by the caller's
    /// thread.
    Ring,
}

/// Requests in flight, all of one source. Dropping this waits for those that own a buffer inside a
/// call.
#[derive(Debug)]
pub(super) enum Requests {
    /// Made when the caller waits for them.
    Caller(VecDeque<(u64, PooledBuffer)>),
    Threads(ThreadRequests),
    Ring(Box<RingRequests>),
}

impl Requests {
    pub(super) fn caller() -> Self {
        Self::Caller(VecDeque::new())
    }

    /// Chooses the best way to have several requests of a file in flight, if `several` is set.
    /// Nothing is in flight.
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

    /// Submits a request.
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

    /// Returns a request that has ended, if there is one, without waiting.
    pub(super) fn ended(&mut self) -> Option<Chunk> {
        match self {
            Self::Caller(_) => None,
            Self::Threads(threads) => threads.ended(),
            Self::Ring(ring) => ring.ended(),
        }
    }

    /// Takes back the buffers of requests before `index` that have not begun.
    pub(super) fn take_back(&mut self, index: u64) -> Vec<PooledBuffer> {
        match self {
            Self::Caller(waiting) => {
                let taken = waiting.iter().take_while(|(number, _)| *number < index).count();
                waiting.drain(..taken).map(|(_, buffer)| buffer).collect()
            }
            Self::Threads(threads) => threads.take_back(index),
            // Requests submitted to the ring have begun.
            Self::Ring(_) => Vec::new(),
        }
    }
}
