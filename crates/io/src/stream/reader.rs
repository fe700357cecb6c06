//! Reads a span of a file from front to back, with requests in flight ahead of the caller.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use super::span::{Plan, Source};
use super::take_buffers;
use crate::buffer::{ALIGNMENT, BufferPool, PooledBuffer};
use crate::clock::monotonic_ns;
use crate::foreground::Foreground;
use crate::in_flight::{CompletedRead, RequestPath, Requests, Workers};
use crate::purpose::Purpose;
use crate::storage::ReadFile;
use crate::{Error, Operation, Result};

/// Shortest wait for a request, in nanoseconds, after which the stream reads further ahead. Shorter
/// waits do not count: even a completed request takes about this long to be noticed.
const WAITED_NS: u64 = 20_000;

/// Options of a reading stream.
#[derive(Debug, Clone, Copy)]
pub struct ReaderOptions {
    /// Size of a request in bytes, rounded up to a multiple of [`ALIGNMENT`] and of the file's
    /// alignment. 256 KiB to 2 MiB are usual.
    pub request_bytes: usize,
    /// Maximum number of requests ahead of the caller. The stream adapts the actual number: it is
    /// lower while the caller is slower than the device. With 0 or 1 nothing is read ahead: the
    /// caller's thread makes each request when it needs it. A larger depth needs io_uring, or that
    /// many threads in [`Workers`].
    pub depth: usize,
    /// Initial number of read-ahead requests, clamped to the range from 1 to `depth`.
    pub first: usize,
    /// Why the bytes are read.
    pub purpose: Purpose,
}

/// Reads a span of a file from front to back with aligned requests. A request ahead (read-ahead) is
/// made before the caller asks for its bytes. Every I/O mode is supported. Neither the bounds of
/// the span nor the end of the file need be aligned: the first and the last request extend to the
/// next aligned offset outside the span.
///
/// The number of requests ahead adapts to the caller. It grows by one, up to the maximum, each time
/// that the caller had to wait, and shrinks by one whenever another span begins. It is kept low
/// because requests in flight delay the requests of others at the device, and a caller that is
/// slower than the device gains nothing from more of them.
///
/// A stream that is not read keeps no io_uring instance: once its requests have completed, another
/// user of the pool gets the instance. If all are in use when the stream goes on, threads or the
/// caller make its requests.
///
/// One stream can read many spans and files in turn ([`Self::restart`]), with the same buffers.
///
/// Memory: one buffer for each request ahead and one more. If the pool has fewer buffers, the
/// stream makes fewer requests ahead. In addition, one buffer assembles reads that needed more than
/// one request. This buffer grows to the length of the longest such read.
#[derive(Debug)]
pub struct SequentialReader {
    source: Arc<Source>,
    requests: Requests,
    /// Chunks that have arrived but that the caller has not reached yet, by index.
    ready: BTreeMap<u64, CompletedRead>,
    current: Option<CompletedRead>,
    /// Unused buffers. Every buffer is here, in `requests`, in `ready` or in `current`.
    free: Vec<PooledBuffer>,
    /// Number of buffers that the stream owns.
    buffers: usize,
    /// Size of each buffer, in bytes.
    request_bytes: usize,
    pool: BufferPool,
    workers: Option<Arc<Workers>>,
    /// Whether the options ask for more than one request in flight.
    several: bool,
    depth: usize,
    /// Target number of requests ahead of the caller, in flight or arrived: from 1 to `depth`. It
    /// adapts to the caller.
    ahead: usize,
    /// Initial value of `ahead`. Each new span reduces `ahead` by one, but not below this value.
    first: usize,
    /// Index of the first chunk that the caller has neither received nor skipped.
    given: u64,
    /// Index of the next request to submit.
    next: u64,
    /// Number of requests in flight.
    under_way: usize,
    /// The bytes that the last read returned, if they came from more than one chunk.
    assembled: Vec<u8>,
    /// End of the last read, in bytes from the start of the file.
    position: u64,
    /// If set, limits the requests in flight while users' reads are slowed down at the device.
    foreground: Option<Arc<Foreground>>,
}

impl SequentialReader {
    /// Begins to read `span`, a range of byte offsets in `file`, up to the file's current end. The
    /// first requests ahead of the caller are submitted immediately: to io_uring if that is allowed
    /// and the file has a descriptor, otherwise to `workers`. Without either, or if the pool has
    /// too few buffers, fewer requests are made ahead than the options ask for.
    ///
    /// # Errors
    /// Of kind `OutOfMemory` if the pool cannot provide even one buffer at once; otherwise the
    /// error from reading the file's length.
    pub fn new(
        file: Arc<dyn ReadFile>,
        span: Range<u64>,
        options: ReaderOptions,
        pool: &BufferPool,
        workers: Option<&Arc<Workers>>,
    ) -> Result<Self> {
        Self::with_buffers(file, span, options, pool, workers, Vec::new())
    }

    /// Like [`Self::new`], with a buffer that the caller has taken from the pool. So reading never
    /// fails for lack of memory. The capacity of `first` must be [`ReaderOptions::request_bytes`],
    /// which must be a multiple of the file's alignment; otherwise, a buffer is taken from the
    /// pool.
    ///
    /// # Errors
    /// The error from reading the file's length.
    pub fn with_buffer(
        file: Arc<dyn ReadFile>,
        span: Range<u64>,
        options: ReaderOptions,
        pool: &BufferPool,
        workers: Option<&Arc<Workers>>,
        first: PooledBuffer,
    ) -> Result<Self> {
        Self::with_buffers(file, span, options, pool, workers, vec![first])
    }

    fn with_buffers(
        file: Arc<dyn ReadFile>,
        span: Range<u64>,
        options: ReaderOptions,
        pool: &BufferPool,
        workers: Option<&Arc<Workers>>,
        mut free: Vec<PooledBuffer>,
    ) -> Result<Self> {
        let depth = options.depth.max(1);
        let request_bytes = options.request_bytes.max(1).next_multiple_of(ALIGNMENT);
        let plan = Plan::new(0..0, request_bytes, ALIGNMENT);
        free.retain(|buffer| buffer.capacity() == request_bytes);
        let mut reader = Self {
            source: Arc::new(Source { file: Arc::clone(&file), plan, purpose: options.purpose }),
            requests: Requests::caller(),
            ready: BTreeMap::new(),
            current: None,
            buffers: free.len(),
            free,
            request_bytes,
            pool: pool.clone(),
            workers: workers.cloned(),
            several: options.depth > 1,
            depth,
            ahead: options.first.clamp(1, depth),
            first: options.first.clamp(1, depth),
            given: 0,
            next: 0,
            under_way: 0,
            assembled: Vec::new(),
            position: span.start,
            foreground: None,
        };
        reader.restart(file, span)?;
        Ok(reader)
    }

    /// Begins to read `span` of `file` with the same buffers. This waits for the requests that are
    /// in flight for the previous span, so it is best called when that span has been read to its
    /// end.
    ///
    /// # Errors
    /// The errors of [`Self::new`]. After an error the stream has nothing to read, and can be
    /// restarted.
    pub fn restart(&mut self, file: Arc<dyn ReadFile>, span: Range<u64>) -> Result<()> {
        self.settle();
        let purpose = self.source.purpose;
        let nothing = Plan::new(0..0, self.request_bytes, ALIGNMENT);
        self.source = Arc::new(Source { file: Arc::clone(&file), plan: nothing, purpose });
        (self.given, self.next, self.position) = (0, 0, span.start);
        // The new span may need fewer requests ahead of the caller than the previous span, so begin
        // with one fewer.
        self.ahead = (self.ahead - 1).max(self.first.min(self.depth));
        let end = span.end.min(file.length()?);
        let alignment = file.alignment();
        self.choose_path();
        // So that no ring stays held if the next step fails.
        self.requests.lend_ring();
        self.fit_buffers(alignment)?;
        let span = span.start.min(end)..end;
        let plan = Plan::new(span, self.request_bytes, alignment);
        self.source = Arc::new(Source { file, plan, purpose });
        self.request_ahead(false);
        Ok(())
    }

    /// From the next request on, reduces the requests in flight while users' reads are slowed down
    /// at the device.
    pub fn give_way_to(&mut self, foreground: Arc<Foreground>) {
        self.count_ended(self.under_way);
        self.foreground = Some(foreground);
        if let Some(foreground) = self.foreground_of_requests() {
            foreground.began(self.under_way);
        }
    }

    /// Returns which of the three ways the stream uses to make its requests.
    pub fn request_path(&self) -> RequestPath {
        self.requests.path()
    }

    /// Returns the `length` bytes at `offset`, or fewer if the span or the file ends earlier. Reads
    /// go forward: `offset` must not be below the end of the previous read. Bytes between the two
    /// reads are skipped, and requests that lie completely between them are not made, unless they
    /// have already begun.
    ///
    /// # Errors
    /// If the request for the byte at `offset` failed, its error, and the same error each time
    /// these bytes are read again. If a later request of this read failed, the bytes before the
    /// failure are returned instead. An `offset` below the end of the previous read is an error of
    /// kind `InvalidInput`.
    pub fn read(&mut self, offset: u64, length: usize) -> Result<&[u8]> {
        if offset < self.position {
            let text = format!("a sequential read cannot go back from {}", self.position);
            let source = io::Error::new(io::ErrorKind::InvalidInput, text);
            return Err(Error::at(Operation::Read, self.source.file.path(), offset, source));
        }
        let plan = self.source.plan;
        let end = offset.saturating_add(length as u64).min(plan.end);
        if offset >= end {
            return Ok(&[]);
        }
        let (first, last) = (plan.index_of(offset), plan.index_of(end - 1));
        if first == last {
            let part = self.part(first, offset..end)?;
            self.position = offset + part.len() as u64;
            return Ok(self.current.as_ref().map_or(&[], |chunk| &chunk.buffer[part]));
        }
        self.assembled.clear();
        for index in first..=last {
            let range = plan.range(index);
            let wanted = range.start.max(offset)..range.end.min(end);
            let wanted_length = (wanted.end - wanted.start) as usize;
            let part = self.part(index, wanted)?;
            let ended = part.len() < wanted_length;
            if let Some(chunk) = &self.current {
                self.assembled.extend_from_slice(&chunk.buffer[part]);
            }
            if ended {
                break;
            }
        }
        self.position = offset + self.assembled.len() as u64;
        Ok(&self.assembled)
    }

    /// Like [`Self::read`], but returns only bytes of one request, which are not copied. So the
    /// result may be shorter than `length`, and is empty only where the span or the file ends.
    ///
    /// # Errors
    /// The errors of [`Self::read`].
    pub fn read_part(&mut self, offset: u64, length: usize) -> Result<&[u8]> {
        let is_inside = offset >= self.position && offset < self.source.plan.end;
        let most = if is_inside { self.source.plan.left_at(offset) } else { u64::MAX };
        self.read(offset, length.min(usize::try_from(most).unwrap_or(usize::MAX)))
    }

    /// Returns the end of the last read, in bytes from the start of the file.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Makes chunk `index` the current one and returns the range in its buffer that holds the bytes
    /// `wanted` (offsets in the file). Wanted bytes after the end of the chunk are left out.
    fn part(&mut self, index: u64, wanted: Range<u64>) -> Result<Range<usize>> {
        let chunk = match self.current.take() {
            Some(chunk) if chunk.number == index => chunk,
            other => {
                self.free.extend(other.map(|chunk| chunk.buffer));
                self.fetch(index)
            }
        };
        let chunk = self.current.insert(chunk);
        let begin = self.source.plan.range(index).start;
        let there = begin + chunk.buffer.len() as u64;
        match &chunk.error {
            Some(error) if wanted.end > there => Err(error.duplicate()),
            _ => {
                let from = wanted.start.min(there) - begin;
                Ok(from as usize..(wanted.end.min(there) - begin) as usize)
            }
        }
    }

    /// Waits for chunk `index` and returns it. Releases all earlier chunks.
    fn fetch(&mut self, index: u64) -> CompletedRead {
        if index < self.given {
            // The caller already received chunk `index`, but its buffer was released when a later
            // chunk failed. Request chunk `index` again.
            self.settle();
            self.next = index;
        }
        self.skip_to(index);
        self.given = index + 1;
        self.drop_surplus_buffers();
        let is_first = index == 0;
        loop {
            self.request_ahead(!self.ready.contains_key(&index));
            if let Some(chunk) = self.ready.remove(&index) {
                self.request_ahead(false);
                return chunk;
            }
            let began_ns = monotonic_ns();
            let chunk = self.wait(index);
            if !is_first && monotonic_ns() - began_ns >= WAITED_NS {
                self.ahead = (self.ahead + 1).min(self.depth);
                self.take_more_buffers();
            }
            if chunk.number < index {
                self.free.push(chunk.buffer);
            } else {
                self.ready.insert(chunk.number, chunk);
            }
        }
    }

    /// Releases the chunks before `index`, and cancels their requests that have not begun.
    fn skip_to(&mut self, index: u64) {
        self.next = self.next.max(index);
        let later = self.ready.split_off(&index);
        let skipped = std::mem::replace(&mut self.ready, later);
        self.free.extend(skipped.into_values().map(|chunk| chunk.buffer));
        self.take_back(index);
    }

    fn take_back(&mut self, index: u64) {
        let taken = self.requests.take_back(index);
        self.under_way -= taken.len();
        self.count_ended(taken.len());
        self.free.extend(taken);
    }

    /// Collects the requests that have completed, so that they no longer count as in flight.
    fn collect_ended(&mut self) {
        while self.under_way > 0
            && let Some(chunk) = self.requests.ended()
        {
            self.under_way -= 1;
            self.count_ended(1);
            if chunk.number + 1 < self.given {
                self.free.push(chunk.buffer);
            } else {
                self.ready.insert(chunk.number, chunk);
            }
        }
    }

    /// Waits until a request ends, and needs the chunks up to `index`. At least one must be in
    /// flight.
    fn wait(&mut self, index: u64) -> CompletedRead {
        let chunk = self.requests.wait(index);
        self.under_way -= 1;
        self.count_ended(1);
        chunk
    }

    fn count_ended(&self, requests: usize) {
        if let Some(foreground) = self.foreground_of_requests() {
            foreground.ended(requests);
        }
    }

    /// Returns the [`Foreground`] to which the stream reports its requests in flight; `None` if the
    /// stream has none. Also returns `None` with [`RequestPath::Caller`], where no request is at
    /// the device while the caller works: the caller's thread makes each request itself when it
    /// waits for it.
    fn foreground_of_requests(&self) -> Option<&Foreground> {
        let foreground = self.foreground.as_deref();
        foreground.filter(|_| self.requests.path() != RequestPath::Caller)
    }

    /// Submits requests as long as a buffer is free and both the read-ahead target and the limiter
    /// allow another one. If `needed`, the caller waits for the next request. Then one request in
    /// flight is allowed regardless of the target and the limiter.
    fn request_ahead(&mut self, needed: bool) {
        // The pool must not take the ring back between the look at what is in flight and the
        // requests: these would then be made one by one, without a ring.
        self.requests.hold_ring();
        self.collect_ended();
        self.submit_ahead(needed);
        self.requests.lend_ring();
    }

    /// Submits requests as [`Self::request_ahead`] describes. A ring must be held.
    fn submit_ahead(&mut self, needed: bool) {
        if self.free.is_empty() || self.next >= self.source.plan.count() {
            return;
        }
        if self.under_way == 0 {
            self.choose_path();
        }
        let wanted = self.ahead.saturating_sub(self.ready.len()).max(usize::from(needed));
        let depth = match &self.foreground {
            Some(foreground) => foreground.depth(wanted, self.under_way, needed),
            None => wanted,
        };
        while self.next < self.source.plan.count()
            && self.under_way < depth
            && let Some(buffer) = self.free.pop()
        {
            self.requests.submit(self.source.request(self.next), buffer);
            self.next += 1;
            self.under_way += 1;
            if let Some(foreground) = self.foreground_of_requests() {
                foreground.began(1);
            }
        }
        self.requests.begin();
    }

    /// Chooses how to make requests. Must be called while nothing is in flight: then the pool may
    /// have taken the stream's ring back.
    fn choose_path(&mut self) {
        self.requests.choose(&*self.source.file, self.several, self.workers.as_ref());
    }

    /// Quiesces the stream: cancels or waits for all requests, and frees every buffer.
    fn settle(&mut self) {
        self.take_back(u64::MAX);
        while self.under_way > 0 {
            let chunk = self.wait(u64::MAX);
            self.free.push(chunk.buffer);
        }
        let arrived = std::mem::take(&mut self.ready).into_values().chain(self.current.take());
        self.free.extend(arrived.map(|chunk| chunk.buffer));
    }

    fn wanted_buffers(&self) -> usize {
        match self.requests.path() {
            RequestPath::Caller => 1,
            RequestPath::Threads | RequestPath::Ring => self.ahead + 1,
        }
    }

    /// Replaces the buffers if their size is not a multiple of `alignment`, the alignment of the
    /// new file. All buffers must be free.
    fn fit_buffers(&mut self, alignment: usize) -> Result<()> {
        if !self.request_bytes.is_multiple_of(alignment) {
            self.free.clear();
            self.buffers = 0;
            self.request_bytes = self.request_bytes.next_multiple_of(alignment);
        }
        if self.buffers == 0 {
            let (bytes, path) = (self.request_bytes, self.source.file.path());
            self.free = take_buffers(&self.pool, bytes, 1, Operation::Read, path)?;
            self.buffers = self.free.len();
        }
        self.take_more_buffers();
        Ok(())
    }

    /// Returns free buffers to the pool while the stream has more than its current depth needs.
    fn drop_surplus_buffers(&mut self) {
        while self.buffers > self.wanted_buffers() && self.free.pop().is_some() {
            self.buffers -= 1;
        }
    }

    /// Takes buffers from the pool until the stream has as many as its current depth needs, or the
    /// pool has no more.
    fn take_more_buffers(&mut self) {
        while self.buffers < self.wanted_buffers()
            && let Ok(buffer) = self.pool.try_acquire(self.request_bytes)
        {
            self.free.push(buffer);
            self.buffers += 1;
        }
    }
}

impl Drop for SequentialReader {
    fn drop(&mut self) {
        // First return the buffers that no request uses. Then wait for the requests in flight,
        // which use the others.
        self.free.clear();
        self.ready.clear();
        self.current = None;
        self.count_ended(self.under_way);
    }
}
