//! Reads several spans of files together.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use super::request::{CompletedRead, ReadRequest};
use super::requests::Requests;
use super::workers::Workers;
use crate::Result;
use crate::buffer::{AlignedBuffer, BufferPool};
use crate::charged_reads;
use crate::clock::monotonic_ns;
use crate::foreground::Foreground;
use crate::purpose::{IoMode, Purpose};
use crate::storage::ReadFile;

/// Maximum length of a request that several spans share, in bytes.
const SHARED_REQUEST_MAX: u64 = 256 << 10;

/// Maximum length of a request in flight, in bytes. Longer spans are read alone.
const REQUEST_MAX: usize = 64 << 20;

/// Number of threads that make requests where io_uring does not work.
const THREADS: usize = 16;

/// A span of a file that is read together with others. It need not be aligned in any mode.
#[derive(Debug, Clone)]
pub struct Span {
    /// The file.
    pub file: Arc<dyn ReadFile>,
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Length in bytes.
    pub length: usize,
}

impl Span {
    /// Returns the offsets at which a request for the span begins and ends, aligned as the file's
    /// mode requires; `None` if the end does not fit into 64 bits.
    fn request(&self) -> Option<Range<u64>> {
        let unit = match self.file.mode() {
            IoMode::Direct => self.file.alignment() as u64,
            IoMode::Buffered | IoMode::Uncached | IoMode::DropBehind => 1,
        };
        let end = self.offset.checked_add(self.length as u64)?.checked_next_multiple_of(unit)?;
        Some(self.offset - self.offset % unit..end)
    }
}

/// What the reads in flight of a database share: a bound on their memory, and the threads that make
/// them where io_uring does not work. Safe to use from any thread.
pub struct ReadsInFlight {
    buffers: BufferPool,
    /// The threads, which are started when they are first needed. `None` if they must not be
    /// started, or could not be.
    workers: OnceLock<Option<Arc<Workers>>>,
    has_threads: bool,
    foreground: Arc<Foreground>,
}

/// Spans of one file that one request reads.
struct Group {
    /// Offset and end of the request, aligned as the file's mode requires.
    begin: u64,
    end: u64,
    /// The part of `order` that has the indices of the spans.
    spans: Range<usize>,
}

impl ReadsInFlight {
    /// Creates the shared part of reads whose buffers use up to `memory_bytes`. If a read finds
    /// this memory in use, it is made alone, by its caller. Where io_uring does not work, threads
    /// make the reads if `has_threads`; otherwise the caller makes them one at a time. `foreground`
    /// limits the reads in flight while others wait for the device.
    pub fn new(memory_bytes: usize, has_threads: bool, foreground: &Arc<Foreground>) -> Self {
        Self {
            buffers: BufferPool::new(memory_bytes),
            workers: OnceLock::new(),
            has_threads,
            foreground: Arc::clone(foreground),
        }
    }

    /// Returns the pool of the buffers of reads in flight.
    pub fn buffers(&self) -> &BufferPool {
        &self.buffers
    }

    /// Returns the threads that make requests where io_uring does not work, if there are any.
    pub fn workers(&self) -> Option<&Arc<Workers>> {
        let start = || {
            let workers = || Workers::new("tailwater-read", THREADS).ok();
            self.has_threads.then(workers).flatten().map(Arc::new)
        };
        self.workers.get_or_init(start).as_ref()
    }

    /// Reads spans, several at a time, and passes the bytes of each to `receive`, with its index in
    /// `spans`, in any order. The bytes are fewer than the span's only if the file ends earlier.
    /// Spans of a file that touch are read by one request; in direct mode, those whose aligned
    /// spans touch.
    ///
    /// # Errors
    /// Each span has its own result. The errors are those of [`ReadFile::read_span`].
    pub fn read_together(
        &self,
        spans: &[Span],
        purpose: Purpose,
        receive: impl FnMut(usize, Result<&[u8]>),
    ) {
        let (mut order, alone): (Vec<usize>, Vec<usize>) =
            (0..spans.len()).partition(|&at| spans[at].request().is_some());
        order.sort_unstable_by_key(|&at| (address(&spans[at].file), spans[at].offset));
        let groups = group(spans, &order);
        let spans = spans.to_vec();
        Together { spans, order, groups, alone, ..self.begin_together(purpose) }.finish(receive);
    }

    /// Begins a batch of reads whose spans become known one after the other.
    pub fn begin_together(&self, purpose: Purpose) -> Together<'_> {
        Together {
            reads: self,
            purpose,
            spans: Vec::new(),
            order: Vec::new(),
            groups: Vec::new(),
            alone: Vec::new(),
            requests: Requests::caller(),
            in_flight: InFlight { count: 0, foreground: &self.foreground, is_limited: false },
            next: 0,
            first: FirstRead::NotSubmitted,
        }
    }
}

/// The number of requests that a batch has in flight. Dropping this counts them as ended, also
/// while a panic unwinds.
struct InFlight<'a> {
    count: usize,
    foreground: &'a Foreground,
    /// Whether the requests are limited. Requests that the caller's thread makes are not: only one
    /// of them is at the device.
    is_limited: bool,
}

impl InFlight<'_> {
    /// Returns the number of requests that may be in flight, at least 1. `left` is the number of
    /// requests that were not submitted yet.
    fn depth(&self, left: usize) -> usize {
        let wanted = self.count + left;
        if self.is_limited { self.foreground.depth_of_batch(wanted, self.count) } else { wanted }
    }

    fn begin(&mut self) {
        self.count += 1;
        if self.is_limited {
            self.foreground.batch_began(1);
        }
    }

    fn end(&mut self) {
        self.count -= 1;
        if self.is_limited {
            self.foreground.batch_ended(1);
        }
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        if self.is_limited {
            self.foreground.batch_ended(self.count);
        }
    }
}

/// The first read of a batch to complete. The others wait behind other reads of the same caller.
#[derive(Debug, Clone, Copy)]
enum FirstRead {
    NotSubmitted,
    /// When the first read was submitted, in nanoseconds.
    Submitted(u64),
    Completed,
}

impl FirstRead {
    fn submitted(&mut self) {
        if matches!(self, Self::NotSubmitted) {
            *self = Self::Submitted(monotonic_ns());
        }
    }

    fn is_awaited(self) -> bool {
        matches!(self, Self::Submitted(_))
    }

    /// Notes that a read has completed. If it is the first, returns its duration in nanoseconds.
    fn completed(&mut self) -> Option<u64> {
        match std::mem::replace(self, Self::Completed) {
            Self::Submitted(began_ns) => Some(monotonic_ns() - began_ns),
            Self::NotSubmitted | Self::Completed => None,
        }
    }
}

/// A batch of reads. Dropping this waits for those that have begun.
pub struct Together<'a> {
    reads: &'a ReadsInFlight,
    purpose: Purpose,
    spans: Vec<Span>,
    /// The indices of the spans, in the order of the groups.
    order: Vec<usize>,
    groups: Vec<Group>,
    /// The indices of the spans that no request can read.
    alone: Vec<usize>,
    requests: Requests,
    in_flight: InFlight<'a>,
    /// Index of the first group that was not submitted yet.
    next: usize,
    first: FirstRead,
}

impl Together<'_> {
    /// Adds a span, to be read by a request of its own. From the second span on, the requests begin
    /// at once, as far as limits and memory allow.
    pub fn add(&mut self, span: Span) {
        let (at, place) = (self.spans.len(), self.order.len());
        match span.request() {
            Some(Range { start: begin, end }) => {
                self.groups.push(Group { begin, end, spans: place..place + 1 });
                self.order.push(at);
            }
            None => self.alone.push(at),
        }
        self.spans.push(span);
        // The first waits for the second: a single read is an ordinary call.
        if self.groups.len() > 1 {
            self.choose();
            if self.in_flight.is_limited {
                self.submit();
                self.requests.begin();
            }
        }
    }

    /// Waits for the reads, and passes the bytes of each span to `receive`, as
    /// [`ReadsInFlight::read_together`] does. The indices are in the order in which the spans were
    /// added.
    pub fn finish(mut self, mut receive: impl FnMut(usize, Result<&[u8]>)) {
        let mut buffer = AlignedBuffer::with_capacity(0);
        for &at in &self.alone {
            read_alone(&self.spans[at], self.purpose, &mut buffer, |read| receive(at, read));
        }
        if let [only] = self.groups.as_slice()
            && only.spans.len() == 1
        {
            return self.read_each(0, 0, &mut receive);
        }
        self.choose();
        while self.next < self.groups.len() || self.in_flight.count > 0 {
            self.submit();
            if self.in_flight.count == 0 {
                // No memory is free, or the span is long: read on this thread, with memory of its
                // own.
                self.read_each(self.next, 0, &mut receive);
                self.next += 1;
                continue;
            }
            let completed = self.wait();
            self.deliver(&completed, &mut receive);
        }
    }

    /// Chooses how to make the requests, unless some have begun.
    fn choose(&mut self) {
        let several = self.groups.len() > 1;
        let Some(first) = self.groups.first().filter(|_| self.next == 0) else { return };
        let file = Arc::clone(&self.span(first.spans.start).file);
        self.requests.choose(&*file, several, None);
        if several && matches!(self.requests, Requests::Caller(_)) {
            self.requests.choose(&*file, several, self.reads.workers());
        }
        self.in_flight.is_limited = !matches!(self.requests, Requests::Caller(_));
    }

    /// Submits the next requests, as many as may be in flight and have memory.
    fn submit(&mut self) {
        let depth = self.in_flight.depth(self.groups.len() - self.next);
        while self.next < self.groups.len() && self.in_flight.count < depth {
            let request = self.request(self.next, self.in_flight.is_limited);
            let is_possible = request.length <= REQUEST_MAX;
            let buffer = is_possible.then(|| self.reads.buffers.try_acquire(request.length));
            let Some(Ok(buffer)) = buffer else { return };
            if self.in_flight.is_limited {
                self.first.submitted();
            }
            self.requests.submit(request, buffer);
            self.in_flight.begin();
            self.next += 1;
        }
    }

    /// Waits for a request.
    fn wait(&mut self) -> CompletedRead {
        let completed = match self.first.is_awaited().then(|| self.requests.begin_and_reap()) {
            Some(Some(completed)) => {
                // It did not have to wait, so it says nothing about the device.
                self.first = FirstRead::Completed;
                completed
            }
            _ => self.requests.wait(u64::MAX),
        };
        self.in_flight.end();
        if let Some(duration_ns) = self.first.completed() {
            let bytes = completed.buffer.len() as u64;
            self.reads.foreground.record_first_of_batch(bytes, duration_ns);
        }
        completed
    }

    fn span(&self, place: usize) -> &Span {
        &self.spans[self.order[place]]
    }

    fn request(&self, number: usize, in_batch: bool) -> ReadRequest {
        let group = &self.groups[number];
        let last = self.span(group.spans.end - 1);
        let needed = self.order[group.spans.clone()]
            .iter()
            .map(|&at| self.spans[at].offset + self.spans[at].length as u64)
            .max();
        ReadRequest {
            number: number as u64,
            file: Arc::clone(&last.file),
            offset: group.begin,
            length: (group.end - group.begin) as usize,
            enough: (needed.unwrap_or(group.end) - group.begin) as usize,
            purpose: self.purpose,
            in_batch,
            charged: charged_reads::priority(),
        }
    }

    /// Passes on what a request has read.
    fn deliver(&self, completed: &CompletedRead, receive: &mut impl FnMut(usize, Result<&[u8]>)) {
        let group = &self.groups[completed.number as usize];
        let bytes = &completed.buffer[..];
        for place in group.spans.clone() {
            let span = self.span(place);
            let from = (span.offset - group.begin) as usize;
            let end = from + span.length;
            match (&completed.error, bytes.get(from..end)) {
                (_, Some(bytes)) => receive(self.order[place], Ok(bytes)),
                (None, None) => {
                    let count = bytes.len();
                    receive(self.order[place], Ok(&bytes[from.min(count)..end.min(count)]));
                }
                (Some(error), None) if group.spans.len() == 1 => {
                    receive(self.order[place], Err(error.duplicate()));
                }
                // The error may concern another span of the group.
                (Some(_), None) => {
                    let done = place - group.spans.start;
                    return self.read_each(completed.number as usize, done, receive);
                }
            }
        }
    }

    /// Reads the spans of a group one by one on this thread, except the first `done` ones.
    fn read_each(&self, group: usize, done: usize, receive: &mut impl FnMut(usize, Result<&[u8]>)) {
        let mut buffer = AlignedBuffer::with_capacity(0);
        for place in self.groups[group].spans.clone().skip(done) {
            read_alone(self.span(place), self.purpose, &mut buffer, |read| {
                receive(self.order[place], read)
            });
        }
    }
}

fn read_alone(
    span: &Span,
    purpose: Purpose,
    buffer: &mut AlignedBuffer,
    receive: impl FnOnce(Result<&[u8]>),
) {
    receive(span.file.read_span(buffer, span.offset, span.length, purpose));
}

/// Returns the address by which files are told apart.
fn address(file: &Arc<dyn ReadFile>) -> usize {
    Arc::as_ptr(file).cast::<u8>().addr()
}

/// Divides sorted spans into those that one request reads.
fn group(spans: &[Span], order: &[usize]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::with_capacity(order.len());
    for (place, &at) in order.iter().enumerate() {
        let Span { file, .. } = &spans[at];
        let Some(Range { start: begin, end }) = spans[at].request() else { continue };
        if let Some(group) = groups.last_mut()
            && address(file) == address(&spans[order[group.spans.start]].file)
            && begin <= group.end
            && end.max(group.end) - group.begin <= SHARED_REQUEST_MAX
        {
            group.end = group.end.max(end);
            group.spans.end = place + 1;
        } else {
            groups.push(Group { begin, end, spans: place..place + 1 });
        }
    }
    groups
}

impl fmt::Debug for Together<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Together").field("spans", &self.spans).finish_non_exhaustive()
    }
}

impl fmt::Debug for ReadsInFlight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadsInFlight").field("buffers", &self.buffers).finish_non_exhaustive()
    }
}
