//! Reading a span of a file from front to back.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use super::take_buffers;
use super::workers::Workers;
use crate::buffer::{ALIGNMENT, BufferPool, PooledBuffer, align_down, align_up};
use crate::purpose::Purpose;
use crate::storage::{ReadFile, read_as_far_as_possible};
use crate::sync::{Condvar, Mutex};
use crate::{Error, Operation, Result};

/// How a stream reads.
#[derive(Debug, Clone, Copy)]
pub struct ReaderOptions {
    /// The size of a request in bytes, rounded up to a multiple of [`ALIGNMENT`]: 256 KiB to 2 MiB,
    /// as a rule.
    pub request_bytes: usize,
    /// How many requests are on their way ahead of the caller. With 1 or 0 the caller's thread
    /// reads each when it needs it. More need as many [`Workers`].
    pub depth: usize,
    /// Why the bytes are read.
    pub purpose: Purpose,
}

/// The requests that a span is read by: aligned, in order, the last one maybe shorter.
#[derive(Debug, Clone, Copy)]
struct Plan {
    /// Where the first request begins: the span's begin, aligned down.
    begin: u64,
    /// Where the span or the file ends, as the caller sees it.
    end: u64,
    request_bytes: u64,
}

impl Plan {
    fn count(&self) -> u64 {
        (self.end - self.begin).div_ceil(self.request_bytes)
    }

    /// The request that brings the byte at `offset`, which is inside the plan.
    fn index_of(&self, offset: u64) -> u64 {
        (offset - self.begin) / self.request_bytes
    }

    fn range(&self, index: u64) -> Range<u64> {
        let begin = self.begin + index * self.request_bytes;
        begin..align_up(self.end).min(begin + self.request_bytes)
    }
}

/// What a request brought: the bytes before the end of the file, or before the error.
#[derive(Debug)]
struct Chunk {
    index: u64,
    buffer: PooledBuffer,
    error: Option<Error>,
}

/// What it takes to make a request.
#[derive(Debug)]
struct Source {
    file: Arc<dyn ReadFile>,
    plan: Plan,
    purpose: Purpose,
}

impl Source {
    fn read(&self, index: u64, buffer: &mut PooledBuffer) -> Option<Error> {
        let range = self.plan.range(index);
        let enough = (range.end.min(self.plan.end) - range.start) as usize;
        buffer.set_length((range.end - range.start) as usize);
        let (count, error) =
            read_as_far_as_possible(&*self.file, buffer, enough, range.start, self.purpose);
        buffer.set_length(count);
        error
    }
}

/// Reads a span of a file from front to back, through aligned requests into buffers of a pool, some
/// of them ahead of the caller. It serves both I/O modes; begin and end of span and file need not
/// be aligned.
///
/// Memory: `depth + 1` buffers, or as many as the pool gave when it began, and the longest read
/// that crossed from one request into the next.
#[derive(Debug)]
pub struct SequentialReader {
    source: Arc<Source>,
    fetcher: Fetcher,
    current: Option<Chunk>,
    /// A read that lies in more than one request is put together here.
    assembled: Vec<u8>,
    /// Where the last read ended.
    position: u64,
}

#[derive(Debug)]
enum Fetcher {
    /// The caller's thread reads, into this buffer or into the one of the current chunk.
    Inline(Option<PooledBuffer>),
    Ahead {
        window: Arc<Window>,
        workers: Arc<Workers>,
    },
}

impl SequentialReader {
    /// Begins to read `span` of `file`, in bytes, as far as the file goes at this moment. Requests
    /// ahead of the caller begin at once. Without `workers` the depth is 1; it is less than asked
    /// where the pool has not enough buffers at this moment.
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
        let request_bytes = options.request_bytes.max(1).next_multiple_of(ALIGNMENT);
        let workers = workers.filter(|_| options.depth > 1);
        let wanted = if workers.is_some() { options.depth + 1 } else { 1 };
        let buffers = take_buffers(pool, request_bytes, wanted, Operation::Read, file.path())?;
        let end = span.end.min(file.length()?);
        let begin = align_down(span.start).min(end);
        let plan = Plan { begin, end, request_bytes: request_bytes as u64 };
        let source = Arc::new(Source { file, plan, purpose: options.purpose });
        let fetcher = match workers {
            None => Fetcher::Inline(buffers.into_iter().next()),
            Some(workers) => {
                let window = Arc::new(Window::new(Arc::clone(&source), buffers));
                window.request_ahead(&mut window.state.lock(), workers);
                Fetcher::Ahead { window, workers: Arc::clone(workers) }
            }
        };
        let assembled = Vec::new();
        Ok(Self { source, fetcher, current: None, assembled, position: span.start })
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
            other => self.fetch(index, other.map(|chunk| chunk.buffer)),
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

    /// Gets a chunk; `used` is the buffer that the caller has done with.
    fn fetch(&mut self, index: u64, used: Option<PooledBuffer>) -> Chunk {
        match &mut self.fetcher {
            Fetcher::Inline(spare) => {
                let Some(mut buffer) = used.or_else(|| spare.take()) else {
                    unreachable!("the one buffer is either spare or in the current chunk")
                };
                let error = self.source.read(index, &mut buffer);
                Chunk { index, buffer, error }
            }
            Fetcher::Ahead { window, workers } => window.fetch(index, used, workers),
        }
    }
}

impl Drop for SequentialReader {
    fn drop(&mut self) {
        if let Fetcher::Ahead { window, .. } = &self.fetcher {
            window.close();
        }
    }
}

/// What the caller and the workers share.
#[derive(Debug)]
struct Window {
    source: Arc<Source>,
    state: Mutex<WindowState>,
    changed: Condvar,
}

/// Every buffer is in `free`, in `reserved`, with a request that is inside its call, in `ready`, or
/// in the reader's current chunk.
#[derive(Debug)]
struct WindowState {
    free: Vec<PooledBuffer>,
    /// The buffers of requests that were handed out and have not begun. One that finds none here is
    /// not wanted.
    reserved: BTreeMap<u64, PooledBuffer>,
    ready: BTreeMap<u64, Chunk>,
    /// The next request to hand out.
    next: u64,
    /// Chunks before this one are not wanted any more.
    wanted: u64,
    /// How many requests are inside their call.
    running: usize,
    closed: bool,
}

impl WindowState {
    /// Chunks before `index` are not wanted any more.
    fn skip_to(&mut self, index: u64) {
        self.wanted = index;
        self.next = self.next.max(index);
        let Self { free, reserved, ready, .. } = self;
        free.extend(take_before(ready, index).map(|chunk| chunk.buffer));
        free.extend(take_before(reserved, index));
    }
}

/// Takes out what stands before `index`.
fn take_before<T>(map: &mut BTreeMap<u64, T>, index: u64) -> impl Iterator<Item = T> {
    let rest = map.split_off(&index);
    std::mem::replace(map, rest).into_values()
}

impl Window {
    fn new(source: Arc<Source>, free: Vec<PooledBuffer>) -> Self {
        let state = WindowState {
            free,
            reserved: BTreeMap::new(),
            ready: BTreeMap::new(),
            next: 0,
            wanted: 0,
            running: 0,
            closed: false,
        };
        Self { source, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Hands out requests as long as there are buffers for them.
    fn request_ahead(self: &Arc<Self>, state: &mut WindowState, workers: &Workers) {
        while state.next < self.source.plan.count()
            && let Some(buffer) = state.free.pop()
        {
            let (window, index) = (Arc::clone(self), state.next);
            state.reserved.insert(index, buffer);
            state.next += 1;
            workers.submit(move || Request::run(window, index));
        }
    }

    /// Waits for a chunk; `used` is a buffer that the caller has done with.
    fn fetch(self: &Arc<Self>, index: u64, used: Option<PooledBuffer>, workers: &Workers) -> Chunk {
        let mut state = self.state.lock();
        state.free.extend(used);
        state.skip_to(index);
        loop {
            self.request_ahead(&mut state, workers);
            if let Some(chunk) = state.ready.remove(&index) {
                return chunk;
            }
            state = self.changed.wait(state);
        }
    }

    /// Takes the buffers from requests that have not begun and waits for those that have.
    fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        state.reserved.clear();
        state.ready.clear();
        state.free.clear();
        while state.running > 0 {
            state = self.changed.wait(state);
        }
    }
}

/// A request inside its call. However that ends, dropping this delivers what came, or lets go of
/// the buffer.
struct Request {
    window: Arc<Window>,
    index: u64,
    /// `None` only inside drop.
    buffer: Option<PooledBuffer>,
    error: Option<Error>,
}

impl Request {
    fn run(window: Arc<Window>, index: u64) {
        let mut state = window.state.lock();
        let Some(buffer) = state.reserved.remove(&index) else { return };
        state.running += 1;
        drop(state);
        let mut request = Self { window, index, buffer: Some(buffer), error: None };
        if let Some(buffer) = &mut request.buffer {
            request.error = request.window.source.read(index, buffer);
        }
    }

    #[cold]
    fn panicked(&self) -> Error {
        let source = &self.window.source;
        let offset = source.plan.range(self.index).start;
        let reason = io::Error::other("the reading thread panicked");
        Error::at(Operation::Read, source.file.path(), offset, reason)
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
        let mut state = self.window.state.lock();
        state.running -= 1;
        if state.closed {
            drop(buffer);
        } else if self.index < state.wanted {
            state.free.push(buffer);
        } else {
            state.ready.insert(self.index, Chunk { index: self.index, buffer, error });
        }
        drop(state);
        self.window.changed.notify_all();
    }
}
