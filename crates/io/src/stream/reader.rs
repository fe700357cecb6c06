//! Reading a span of a file from front to back.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use super::requests::{Chunk, Plan, RequestPath, Requests, Source};
use super::take_buffers;
use super::workers::Workers;
use crate::buffer::{ALIGNMENT, BufferPool, PooledBuffer};
use crate::clock::monotonic_ns;
use crate::foreground::Foreground;
use crate::purpose::Purpose;
use crate::storage::ReadFile;
use crate::{Error, Operation, Result};

/// A wait that is shorter is none, in nanoseconds: it takes as long to find that a request has
/// ended.
const WAITED_NS: u64 = 20_000;

/// How a stream reads.
#[derive(Debug, Clone, Copy)]
pub struct ReaderOptions {
    /// The size of a request in bytes, rounded up to a multiple of [`ALIGNMENT`], and of what the
    /// file asks for: 256 KiB to 2 MiB, as a rule.
    pub request_bytes: usize,
    /// How many requests are on their way ahead of the caller at most: fewer while the caller is
    /// slower than those are. With 1 or 0 the caller's thread reads each when it needs it. More
    /// need io_uring or as many [`Workers`].
    pub depth: usize,
    /// How many of them it begins with.
    pub first: usize,
    /// Why the bytes are read.
    pub purpose: Purpose,
}

/// Reads a span of a file from front to back, through aligned requests into buffers of a pool, some
/// of them ahead of the caller. It serves every I/O mode; begin and end of span and file need not
/// be aligned. Nothing past the end of the span is read, but what it takes to align it.
///
/// It reads no further ahead than its caller needs: one request more each time that the caller had
/// to wait, up to its depth, and one less with each span. What is on its way at the device stands
/// in the way of others there, and a caller that is slower than the device gains nothing by it.
///
/// One stream can read many spans and files, one after the other ([`Self::restart`]), with the same
/// buffers.
///
/// Memory: a buffer more than it has requests ahead, as far as the pool has them, and the longest
/// read that crossed from one request into the next.
#[derive(Debug)]
pub struct SequentialReader {
    source: Arc<Source>,
    requests: Requests,
    /// What arrived and is wanted later.
    ready: BTreeMap<u64, Chunk>,
    current: Option<Chunk>,
    /// Every buffer is here, in `requests`, in `ready` or in `current`.
    free: Vec<PooledBuffer>,
    /// How many buffers there are.
    buffers: usize,
    /// How large each of them is.
    request_bytes: usize,
    pool: BufferPool,
    workers: Option<Arc<Workers>>,
    /// Whether it was to have several requests on their way.
    several: bool,
    depth: usize,
    /// How many requests it is ahead of the caller, under way or arrived: from 1 to `depth`.
    ahead: usize,
    /// How many it is at first.
    first: usize,
    /// Chunks before this one were given to the caller, or skipped.
    given: u64,
    /// The next request to hand out.
    next: u64,
    /// How many requests are on their way.
    under_way: usize,
    /// A read that lies in more than one request is put together here.
    assembled: Vec<u8>,
    /// Where the last read ended.
    position: u64,
    /// What it asks how many requests may be on their way.
    foreground: Option<Arc<Foreground>>,
}

impl SequentialReader {
    /// Begins to read `span` of `file`, in bytes, as far as the file goes at this moment. Requests
    /// ahead of the caller begin at once: by io_uring where that is allowed and the file has a
    /// descriptor, else by `workers`. With neither the depth is 1; it is less than asked where the
    /// pool has not enough buffers at this moment.
    ///
    /// # Errors
    /// Of kind `OutOfMemory` if the pool has not even one buffer, which is not waited for; else
    /// that of asking for the file's length.
    pub fn new(
        file: Arc<dyn ReadFile>,
        span: Range<u64>,
        options: ReaderOptions,
        pool: &BufferPool,
        workers: Option<&Arc<Workers>>,
    ) -> Result<Self> {
        let depth = options.depth.max(1);
        let request_bytes = options.request_bytes.max(1).next_multiple_of(ALIGNMENT);
        let plan = Plan::new(0..0, request_bytes, ALIGNMENT);
        let mut reader = Self {
            source: Arc::new(Source { file: Arc::clone(&file), plan, purpose: options.purpose }),
            requests: Requests::caller(),
            ready: BTreeMap::new(),
            current: None,
            free: Vec::new(),
            buffers: 0,
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

    /// Begins to read `span` of `file`, with the buffers it has. What is on its way of the file
    /// before is waited for, so a stream is best restarted where it has read its span to the end.
    ///
    /// # Errors
    /// As [`Self::new`]. The stream then has nothing to read, and can be restarted.
    pub fn restart(&mut self, file: Arc<dyn ReadFile>, span: Range<u64>) -> Result<()> {
        self.settle();
        let purpose = self.source.purpose;
        let nothing = Plan::new(0..0, self.request_bytes, ALIGNMENT);
        self.source = Arc::new(Source { file: Arc::clone(&file), plan: nothing, purpose });
        (self.given, self.next, self.position) = (0, 0, span.start);
        // What it took to keep up with the last caller may be more than this one needs.
        self.ahead = (self.ahead - 1).max(self.first.min(self.depth));
        let end = span.end.min(file.length()?);
        let alignment = file.alignment();
        self.requests.choose(&*file, self.several, self.workers.as_ref());
        self.fit_buffers(alignment)?;
        let span = span.start.min(end)..end;
        let plan = Plan::new(span, self.request_bytes, alignment);
        self.source = Arc::new(Source { file, plan, purpose });
        self.request_ahead(false);
        Ok(())
    }

    /// Has fewer requests on their way whenever users' reads are slowed down at the device, from
    /// the next request on.
    pub fn give_way_to(&mut self, foreground: Arc<Foreground>) {
        self.tell_ended(self.under_way);
        self.foreground = Some(foreground);
        if let Some(foreground) = self.foreground_of_requests() {
            foreground.began(self.under_way);
        }
    }

    /// Who makes the requests.
    pub fn request_path(&self) -> RequestPath {
        self.requests.path()
    }

    /// The `length` bytes at `offset`; fewer only where the span or the file ends. Reads go
    /// forward: `offset` is not below the end of the read before; what lies between is skipped, and
    /// not read at all where whole requests do.
    ///
    /// # Errors
    /// The error of the request in which the first byte is missing, again each time those bytes are
    /// asked for. Bytes before the place of the error are given. Going back is of kind
    /// `InvalidInput`.
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

    /// Where the last read ended, in bytes from the start of the file.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Makes the chunk `index` the current one and answers where in it the `wanted` bytes are, as
    /// far as they are there.
    fn part(&mut self, index: u64, wanted: Range<u64>) -> Result<Range<usize>> {
        let chunk = match self.current.take() {
            Some(chunk) if chunk.index == index => chunk,
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

    /// Gets a chunk, and lets go of all before it.
    fn fetch(&mut self, index: u64) -> Chunk {
        if index < self.given {
            // It was let go of when an error came after it; those bytes are asked for once more.
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
            let chunk = self.wait();
            if !is_first && monotonic_ns() - began_ns >= WAITED_NS {
                self.ahead = (self.ahead + 1).min(self.depth);
                self.take_more_buffers();
            }
            if chunk.index < index {
                self.free.push(chunk.buffer);
            } else {
                self.ready.insert(chunk.index, chunk);
            }
        }
    }

    /// Chunks before `index` are not wanted any more.
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
        self.tell_ended(taken.len());
        self.free.extend(taken);
    }

    /// Takes what has arrived, so that it does not count as under way.
    fn collect_ended(&mut self) {
        while self.under_way > 0
            && let Some(chunk) = self.requests.ended()
        {
            self.under_way -= 1;
            self.tell_ended(1);
            if chunk.index + 1 < self.given {
                self.free.push(chunk.buffer);
            } else {
                self.ready.insert(chunk.index, chunk);
            }
        }
    }

    /// Waits until some request has ended. One is on its way.
    fn wait(&mut self) -> Chunk {
        let chunk = self.requests.wait(&self.source);
        self.under_way -= 1;
        self.tell_ended(1);
        chunk
    }

    fn tell_ended(&self, requests: usize) {
        if let Some(foreground) = self.foreground_of_requests() {
            foreground.ended(requests);
        }
    }

    /// Who is told of requests. Those that the caller's thread will make are at no device yet.
    fn foreground_of_requests(&self) -> Option<&Foreground> {
        let foreground = self.foreground.as_deref();
        foreground.filter(|_| self.requests.path() != RequestPath::Caller)
    }

    /// Hands out requests as long as there are buffers for them and users leave room.
    /// One that somebody waits for (`needed`) is always handed out.
    fn request_ahead(&mut self, needed: bool) {
        self.collect_ended();
        if self.free.is_empty() || self.next >= self.source.plan.count() {
            return;
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
            self.requests.submit(&self.source, self.next, buffer);
            self.next += 1;
            self.under_way += 1;
            if let Some(foreground) = self.foreground_of_requests() {
                foreground.began(1);
            }
        }
    }

    /// Comes to rest: nothing is under way, and every buffer is free.
    fn settle(&mut self) {
        self.take_back(u64::MAX);
        while self.under_way > 0 {
            let chunk = self.wait();
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

    /// Sees to buffers for a file of this alignment, when all are free.
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

    /// Gives back buffers that it has too many of since it went less far ahead.
    fn drop_surplus_buffers(&mut self) {
        while self.buffers > self.wanted_buffers() && self.free.pop().is_some() {
            self.buffers -= 1;
        }
    }

    /// Takes as many buffers as it wants and the pool has.
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
        // What nobody writes into goes back before the rest is waited for.
        self.free.clear();
        self.ready.clear();
        self.current = None;
        self.tell_ended(self.under_way);
    }
}
