//! Writes a new file from front to back.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, MutexGuard};

use super::take_buffers;
use super::workers::Workers;
use crate::buffer::{BufferPool, PooledBuffer, align_down};
use crate::foreground::Foreground;
use crate::pace::{Priority, RateLimiter};
use crate::purpose::{IoMode, Purpose};
use crate::storage::WriteFile;
use crate::sync::{Condvar, Mutex};
use crate::{Error, Operation, Result};

/// Options of a writing stream.
#[derive(Debug, Clone, Copy)]
pub struct WriterOptions {
    /// Number of bytes collected for one write, rounded up to a multiple of the file's
    /// [alignment](WriteFile::alignment). RocksDB's `writable_file_max_buffer_size`.
    pub buffer_bytes: usize,
    /// Maximum number of full buffers that wait for [`Workers`] to write them. With 0 the caller's
    /// thread writes.
    pub depth: usize,
    /// Number of newly written bytes after which writeback is started, in buffered mode; 0 leaves
    /// it to the system.
    pub bytes_per_sync: u64,
    /// Unit in which space is preallocated, in bytes; 0 for none. [`SequentialWriter::close`] frees
    /// unused space.
    pub preallocate_bytes: u64,
    /// Why the bytes are written.
    pub purpose: Purpose,
}

impl WriterOptions {
    /// Writes of 1 MiB by the caller's thread, without preallocation and early writeback.
    pub fn new(purpose: Purpose) -> Self {
        Self { buffer_bytes: 1 << 20, depth: 0, bytes_per_sync: 0, preallocate_bytes: 0, purpose }
    }
}

/// Gap between two warm spans, in bytes, below which they are written as one.
const WARM_GAP: u64 = 32 << 10;

/// Appends to a new file through aligned buffers of a pool. Some of the buffers are written in the
/// background. Every I/O mode is supported.
///
/// # Warm spans
/// A direct stream may be given a second handle to the file, open through the page cache
/// ([`Self::warm_through`]). Warm bytes ([`Self::append_warm`]) are written through this handle in
/// whole blocks, with small gaps between them; the rest bypasses the page cache. No page is written
/// through both handles except the last one, which may be written again. The system treats both
/// handles as one file: [`Self::sync`] makes all bytes durable.
///
/// # Invariants
/// - Buffers reach the file in order, one at a time.
/// - Direct writes are whole blocks at block boundaries. The last block is padded with zeros and
///   the file then truncated to its true length; when more is appended, that block is written
///   again.
/// - The first failure latches: nothing is written after it, and every later call returns it.
///
/// # Crash
/// Nothing is durable before [`Self::sync`] has returned; this never makes the name durable. Synced
/// bytes survive a crash, but in direct mode zeros may follow them if the crash came between a
/// padded write and the truncation.
#[derive(Debug)]
pub struct SequentialWriter {
    shared: Arc<PieceQueue>,
    workers: Option<Arc<Workers>>,
    /// The collected bytes, to be written at `offset`. `None` until there are some.
    collected: Option<PooledBuffer>,
    /// Offset of the collected bytes; aligned in direct mode.
    offset: u64,
    /// The length at the last flush, so that another flush does not write the last block again.
    flushed: u64,
    mode: IoMode,
    /// Alignment of direct writes, in bytes.
    alignment: usize,
    /// Size of a buffer, in bytes.
    buffer_bytes: usize,
    /// Rate limiter that each write waits for, and the priority.
    pace: Option<(Arc<RateLimiter>, Priority)>,
    /// Limits the number of writes in flight while users wait, if set.
    foreground: Option<Arc<Foreground>>,
    depth: usize,
    /// Whether there is a second handle, which writes through the page cache.
    warms: bool,
    /// The warm spans of the collected bytes, in order, by their offsets in the file.
    warm: Vec<Range<u64>>,
}

#[derive(Debug)]
struct PieceQueue {
    state: Mutex<State>,
    changed: Condvar,
}

impl PieceQueue {
    /// Queues a piece. Returns the output if no drain (the job that writes queued pieces) has it,
    /// so that the caller starts a drain.
    fn queue(&self, piece: Piece) -> Option<Output> {
        let mut state = self.state.lock();
        state.queue.push_back(piece);
        state.output.take()
    }
}

/// Every buffer is in `free`, in `queue`, being written, or is the collecting buffer.
#[derive(Debug)]
struct State {
    free: Vec<PooledBuffer>,
    queue: VecDeque<Piece>,
    /// `None` while a drain has it.
    output: Option<Output>,
    failure: Option<Error>,
    /// Whether a drain is inside a call on the file.
    writing: bool,
}

/// A buffer to be written to the file.
#[derive(Debug)]
struct Piece {
    buffer: PooledBuffer,
    offset: u64,
    /// Length to truncate the file to afterwards, because the buffer's end is padding.
    cut_to: Option<u64>,
    /// The warm spans of the buffer, in order.
    warm: Vec<Range<u64>>,
}

impl Piece {
    fn end(&self) -> u64 {
        self.offset + self.buffer.len() as u64
    }

    /// Returns the parts to write through the page cache, in whole blocks and in order.
    fn warm_runs(&self, alignment: u64) -> Vec<Range<u64>> {
        let mut runs: Vec<Range<u64>> = Vec::new();
        for span in &self.warm {
            let start = (span.start - span.start % alignment).max(self.offset);
            let end = span.end.next_multiple_of(alignment).min(self.end());
            match runs.last_mut().filter(|last| start < last.end + WARM_GAP) {
                Some(last) => last.end = last.end.max(end),
                None => runs.push(start..end),
            }
        }
        runs
    }

    /// Returns the bytes of a range of offsets in the file.
    fn part(&self, range: Range<u64>) -> &[u8] {
        &self.buffer[(range.start - self.offset) as usize..(range.end - self.offset) as usize]
    }
}

/// The file, and how far it is preallocated and written back.
#[derive(Debug)]
struct Output {
    file: Box<dyn WriteFile>,
    options: WriterOptions,
    reserved: u64,
    /// False after preallocation failed for lack of space.
    reserving: bool,
    written_back: u64,
    /// A second handle to the file, which writes through the page cache, if warm spans are to stay
    /// there.
    warm_file: Option<Box<dyn WriteFile>>,
}

impl Output {
    fn put(&mut self, piece: &Piece) -> Result<()> {
        let end = piece.end();
        self.reserve(end)?;
        self.write(piece)?;
        if let Some(length) = piece.cut_to {
            self.file.truncate(length)?;
            // Truncating frees the space preallocated after the end.
            self.reserved = self.reserved.min(length);
        }
        self.start_writeback(end)
    }

    fn write(&mut self, piece: &Piece) -> Result<()> {
        let (purpose, mut written) = (self.options.purpose, piece.offset);
        if let Some(warm_file) = &mut self.warm_file {
            for run in piece.warm_runs(self.file.alignment() as u64) {
                if written < run.start {
                    self.file.write_all_at(piece.part(written..run.start), written, purpose)?;
                }
                written = run.end;
                let (start, length) = (run.start, run.end - run.start);
                warm_file.write_all_at(piece.part(run), start, purpose)?;
                // Writeback begins immediately, because these pages are not written again. If it
                // fails, the sync writes them.
                let _ = warm_file.start_writeback(start, length);
            }
        }
        if written < piece.end() {
            self.file.write_all_at(piece.part(written..piece.end()), written, purpose)?;
        }
        Ok(())
    }

    fn reserve(&mut self, end: u64) -> Result<()> {
        let step = self.options.preallocate_bytes;
        while step > 0 && self.reserving && self.reserved < end {
            match self.file.allocate(self.reserved, step) {
                Ok(()) => self.reserved += step,
                // Preallocation failed, but the bytes themselves may still fit.
                Err(error) if error.is_no_space() => self.reserving = false,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn start_writeback(&mut self, end: u64) -> Result<()> {
        let step = self.options.bytes_per_sync;
        // The last page is likely to be written again; if its writeback were started now, the next
        // write would wait for it.
        let end = align_down(end);
        let waiting = end.saturating_sub(self.written_back);
        if step == 0 || waiting < step || self.file.mode() == IoMode::Direct {
            return Ok(());
        }
        self.file.start_writeback(self.written_back, waiting)?;
        self.written_back = end;
        Ok(())
    }
}

impl SequentialWriter {
    /// Begins to write `file`, which is empty. Without `workers` the depth is 0. The depth is also
    /// lower than requested if the pool does not have enough buffers now.
    ///
    /// # Errors
    /// Of kind `OutOfMemory` if the pool does not have even one buffer, without waiting for one.
    pub fn new(
        file: Box<dyn WriteFile>,
        options: WriterOptions,
        pool: &BufferPool,
        workers: Option<&Arc<Workers>>,
    ) -> Result<Self> {
        let workers = workers.filter(|_| options.depth > 0);
        let wanted = if workers.is_some() { options.depth + 1 } else { 1 };
        // A padded tail block is carried over into the next buffer, so a buffer needs space for
        // another block.
        let alignment = file.alignment();
        let bytes = options.buffer_bytes.max(2 * alignment).next_multiple_of(alignment);
        let free = take_buffers(pool, bytes, wanted, Operation::Write, file.path())?;
        let mode = file.mode();
        let output = Output {
            file,
            options,
            reserved: 0,
            reserving: true,
            written_back: 0,
            warm_file: None,
        };
        let state = State {
            free,
            queue: VecDeque::new(),
            output: Some(output),
            failure: None,
            writing: false,
        };
        let shared = Arc::new(PieceQueue { state: Mutex::new(state), changed: Condvar::new() });
        Ok(Self {
            shared,
            workers: workers.cloned(),
            collected: None,
            offset: 0,
            flushed: 0,
            mode,
            alignment,
            buffer_bytes: bytes,
            pace: None,
            foreground: None,
            depth: if workers.is_some() { options.depth } else { 0 },
            warms: false,
            warm: Vec::new(),
        })
    }

    /// Keeps warm spans in the page cache. `file` is a second handle to the stream's file, open
    /// through the page cache. Must be called before the first byte; has no effect on a stream that
    /// is not direct.
    pub fn warm_through(&mut self, file: Box<dyn WriteFile>) {
        if self.mode == IoMode::Direct
            && let Some(output) = &mut self.shared.state.lock().output
        {
            output.warm_file = Some(file);
            self.warms = true;
        }
    }

    /// Makes each write wait for a rate limiter.
    pub fn keep_to(&mut self, rate_limiter: Arc<RateLimiter>, priority: Priority) {
        self.pace = Some((rate_limiter, priority));
    }

    /// Reduces the writes in flight whenever users' reads are slowed down at the device. They may
    /// be reduced to none; the caller then waits for each write.
    pub fn give_way_to(&mut self, foreground: Arc<Foreground>) {
        self.foreground = Some(foreground);
    }

    /// Appends bytes. They reach the file at the latest with [`Self::flush`].
    ///
    /// # Errors
    /// The first failure of this stream, which may be of bytes appended long before.
    pub fn append(&mut self, mut bytes: &[u8]) -> Result<()> {
        self.check()?;
        while !bytes.is_empty() {
            let mut buffer = self.take_collected()?;
            let count = buffer.append(bytes);
            bytes = &bytes[count..];
            if buffer.remaining() == 0 {
                self.hand_over(buffer, None)?;
            } else {
                self.collected = Some(buffer);
            }
        }
        Ok(())
    }

    /// Appends bytes that are to stay in the page cache, if the stream has a handle that writes
    /// through it.
    ///
    /// # Errors
    /// The errors of [`Self::append`].
    pub fn append_warm(&mut self, mut bytes: &[u8]) -> Result<()> {
        while self.warms && !bytes.is_empty() {
            // A warm span does not continue in the next buffer.
            let begin = self.length();
            let room = self.collected.as_ref().map_or(self.buffer_bytes, |it| it.remaining());
            let (now, later) = bytes.split_at(bytes.len().min(room));
            match self.warm.last_mut().filter(|last| last.end == begin) {
                Some(last) => last.end += now.len() as u64,
                None => self.warm.push(begin..begin + now.len() as u64),
            }
            self.append(now)?;
            bytes = later;
        }
        self.append(bytes)
    }

    /// Returns the number of appended bytes.
    pub fn length(&self) -> u64 {
        self.offset + self.collected.as_ref().map_or(0, |buffer| buffer.len() as u64)
    }

    /// Writes everything appended to the file, and waits until it is written. The file's length is
    /// then [`Self::length`].
    ///
    /// # Errors
    /// The first failure of this stream.
    pub fn flush(&mut self) -> Result<()> {
        self.check()?;
        let length = self.length();
        if length > self.flushed
            && let Some(buffer) = self.collected.take()
        {
            match self.mode {
                IoMode::Buffered | IoMode::Uncached | IoMode::DropBehind => {
                    self.hand_over(buffer, None)?;
                }
                IoMode::Direct => self.hand_over_padded(buffer)?,
            }
            self.flushed = length;
        }
        self.wait_until_written().map(drop)
    }

    /// Makes everything appended durable.
    ///
    /// # Errors
    /// The first failure of this stream; a sync that failed is never tried again.
    pub fn sync(&mut self) -> Result<()> {
        self.flush()?;
        self.with_output(|output| output.file.sync_data(output.options.purpose))
    }

    /// Writes everything appended, frees the preallocated space after the end, and returns the
    /// length in bytes. It does not sync: call [`Self::sync`] before.
    ///
    /// # Errors
    /// The first failure of this stream.
    pub fn close(mut self) -> Result<u64> {
        let length = self.length();
        self.flush()?;
        self.with_output(|output| {
            if output.reserved > length { output.file.truncate(length) } else { Ok(()) }
        })?;
        Ok(length)
    }

    fn check(&self) -> Result<()> {
        match &self.shared.state.lock().failure {
            Some(failure) => Err(failure.duplicate()),
            None => Ok(()),
        }
    }

    /// Returns the collecting buffer, or an empty one; waits for one that is being written if
    /// necessary.
    fn take_collected(&mut self) -> Result<PooledBuffer> {
        if let Some(buffer) = self.collected.take() {
            return Ok(buffer);
        }
        let mut state = self.shared.state.lock();
        loop {
            if let Some(failure) = &state.failure {
                return Err(failure.duplicate());
            }
            if let Some(mut buffer) = state.free.pop() {
                buffer.clear();
                return Ok(buffer);
            }
            state = self.shared.changed.wait(state);
        }
    }

    /// Hands over the last, partial buffer in direct mode. It is padded, and the file is truncated
    /// to its true length after the write. The bytes of the last block are kept, since more of that
    /// block may follow.
    fn hand_over_padded(&mut self, mut buffer: PooledBuffer) -> Result<()> {
        let whole = buffer.len() - buffer.len() % self.alignment;
        let tail = buffer[whole..].to_vec();
        let length = self.offset + buffer.len() as u64;
        buffer.pad(self.alignment);
        self.hand_over(buffer, (!tail.is_empty()).then_some(length))?;
        if !tail.is_empty() {
            let mut next = self.take_collected()?;
            next.append(&tail);
            self.offset = length - tail.len() as u64;
            self.collected = Some(next);
        }
        Ok(())
    }

    /// Queues a buffer for the file and ensures that it is written.
    fn hand_over(&mut self, buffer: PooledBuffer, cut_to: Option<u64>) -> Result<()> {
        if let Some((rate_limiter, priority)) = &self.pace {
            rate_limiter.request(buffer.len() as u64, *priority);
        }
        let warm = std::mem::take(&mut self.warm);
        let piece = Piece { offset: self.offset, buffer, cut_to, warm };
        self.offset = piece.end();
        // If a drain is running, it finds the piece before it ends.
        if let Some(output) = self.shared.queue(piece) {
            let drain = Drain { shared: Arc::clone(&self.shared), output: Some(output) };
            match &self.workers {
                Some(workers) => workers.submit(move || drain.run()),
                None => drain.run(),
            }
        }
        self.give_way();
        self.check()
    }

    /// Waits until no more buffers are queued and being written than the limiter allows.
    fn give_way(&self) {
        let Some(foreground) = &self.foreground else { return };
        // The limiter also counts the collecting buffer.
        let behind = foreground.depth(self.depth + 1, 0, true) - 1;
        if behind < self.depth {
            let mut state = self.shared.state.lock();
            while state.queue.len() + usize::from(state.writing) > behind {
                state = self.shared.changed.wait(state);
            }
        }
    }

    /// Waits until nothing is queued or being written.
    fn wait_until_written(&self) -> Result<MutexGuard<'_, State>> {
        let mut state = self.shared.state.lock();
        while state.output.is_none() {
            state = self.shared.changed.wait(state);
        }
        match &state.failure {
            Some(failure) => Err(failure.duplicate()),
            None => Ok(state),
        }
    }

    /// Runs a call on the file once everything is written; a failure latches.
    fn with_output(&self, call: impl FnOnce(&mut Output) -> Result<()>) -> Result<()> {
        let mut state = self.wait_until_written()?;
        let answer = state.output.as_mut().map_or(Ok(()), call);
        if let Err(error) = &answer {
            state.failure = Some(error.duplicate());
        }
        answer
    }
}

impl Drop for SequentialWriter {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.queue.clear();
        while state.writing {
            state = self.shared.changed.wait(state);
        }
        // A drain that is about to end may keep the shared state a little longer; buffers and file
        // are released now.
        state.free.clear();
        state.output = None;
    }
}

/// Writes the queued pieces until there are none. Only one drain exists at a time: the one that
/// holds the output.
struct Drain {
    shared: Arc<PieceQueue>,
    /// `None` only inside drop.
    output: Option<Output>,
}

impl Drain {
    fn run(mut self) {
        while let Some(piece) = self.next() {
            let Some(output) = &mut self.output else { return };
            let answer = output.put(&piece);
            let mut state = self.shared.state.lock();
            state.free.push(piece.buffer);
            state.writing = false;
            if let Err(error) = answer {
                state.failure = Some(error);
            }
            drop(state);
            self.shared.changed.notify_all();
        }
    }

    /// Returns the next piece to write. If there is none, the output is returned in the same step,
    /// so that a piece queued after it starts a new drain.
    fn next(&mut self) -> Option<Piece> {
        let mut state = self.shared.state.lock();
        if state.failure.is_some() {
            let State { queue, free, .. } = &mut *state;
            free.extend(queue.drain(..).map(|piece| piece.buffer));
        }
        let piece = state.queue.pop_front();
        state.writing = piece.is_some();
        if piece.is_none() {
            state.output = self.output.take();
            drop(state);
            self.shared.changed.notify_all();
        }
        piece
    }
}

impl Drop for Drain {
    fn drop(&mut self) {
        // The output is still here only if writing panicked. Threads that wait for it must get an
        // error.
        let Some(output) = self.output.take() else { return };
        let failure = Error::panicked(Operation::Write, output.file.path(), None);
        let mut state = self.shared.state.lock();
        state.failure = Some(failure);
        state.queue.clear();
        state.writing = false;
        state.output = Some(output);
        drop(state);
        self.shared.changed.notify_all();
    }
}
