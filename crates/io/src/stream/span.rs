//! The division of a span into requests, and the results of requests.

use std::ops::Range;
use std::sync::Arc;

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

    /// Returns the number of bytes that a request must read. The last request is padded for
    /// alignment, and need not read to its end.
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
