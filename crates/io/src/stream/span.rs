//! Divides a span of a file into requests.

use std::ops::Range;
use std::sync::Arc;

use crate::charged_reads;
use crate::in_flight::ReadRequest;
use crate::purpose::Purpose;
use crate::storage::ReadFile;

/// The requests that cover a span, in order of their offsets and numbered from 0. All begin and end
/// at aligned offsets and have the same size, except the last one, which may be shorter.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    /// Offset of the first request: the start of the span, rounded down to the alignment.
    begin: u64,
    /// End of the span or of the file, whichever is first; not rounded to the alignment.
    pub(super) end: u64,
    request_bytes: u64,
    alignment: u64,
}

impl Plan {
    /// Plans the requests for `span`. `request_bytes` must be a multiple of `alignment`.
    pub(super) fn new(span: Range<u64>, request_bytes: usize, alignment: usize) -> Self {
        let alignment = alignment as u64;
        let begin = (span.start - span.start % alignment).min(span.end);
        Self { begin, end: span.end, request_bytes: request_bytes as u64, alignment }
    }

    pub(super) fn count(&self) -> u64 {
        (self.end - self.begin).div_ceil(self.request_bytes)
    }

    /// Returns the index of the request that covers `offset`, which must be inside the span.
    pub(super) fn index_of(&self, offset: u64) -> u64 {
        (offset - self.begin) / self.request_bytes
    }

    /// Returns the number of bytes from `offset` to the end of the request that covers it. `offset`
    /// must be inside the span.
    pub(super) fn left_at(&self, offset: u64) -> u64 {
        self.request_bytes - (offset - self.begin) % self.request_bytes
    }

    pub(super) fn range(&self, index: u64) -> Range<u64> {
        let begin = self.begin + index * self.request_bytes;
        begin..self.end.next_multiple_of(self.alignment).min(begin + self.request_bytes)
    }
}

/// What all requests of a stream have in common. The plan divides the span to be read into
/// requests.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) file: Arc<dyn ReadFile>,
    pub(super) plan: Plan,
    pub(super) purpose: Purpose,
}

impl Source {
    /// Returns the request with this index, which is also its number. The last request extends past
    /// the end of the span to an aligned offset, but its read may stop at that end.
    pub(super) fn request(&self, index: u64) -> ReadRequest {
        let range = self.plan.range(index);
        ReadRequest {
            number: index,
            file: Arc::clone(&self.file),
            offset: range.start,
            length: (range.end - range.start) as usize,
            enough: (range.end.min(self.plan.end) - range.start) as usize,
            purpose: self.purpose,
            in_batch: true,
            charged: charged_reads::priority(),
        }
    }
}
