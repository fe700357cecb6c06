//! Writes a new file from front to back, with buffers written in the background.

use std::collections::VecDeque;
use std::mem;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, MutexGuard};

use super::take_buffers;
use crate::buffer::{BufferPool, PooledBuffer, align_down};
use crate::foreground::Foreground;
use crate::in_flight::Workers;
use crate::pace::{CountedLimiter, OpType, Priority};
use crate::purpose::{IoMode, Purpose};
use crate::storage::WriteFile;
use crate::sync::{Condvar, Mutex};
use crate::{Error, Operation, Result};

/// Options of a writing stream.
#[derive(Debug, Clone, Copy)]
pub struct WriterOptions {
    /// Size of a buffer, in bytes: bytes are collected until it is full and then written in one
    /// call. Rounded up to a multiple of the file's [alignment](WriteFile::alignment). Corresponds
    /// to RocksDB's `writable_file_max_buffer_size`.
    pub buffer_bytes: usize,
    /// Maximum number of full buffers that wait for [`Workers`] to write them. With 0 the caller's
    /// thread writes.
    pub depth: usize,
    /// In buffered mode, number of newly written bytes after which their writeback is started. With
    /// 0 the system decides when to start it.
    pub bytes_per_sync: u64,
    /// Unit of preallocation, in bytes; 0 disables preallocation. [`SequentialWriter::close`] frees
    /// the space that was preallocated but not used.
    pub preallocate_bytes: u64,
    /// Why the bytes are written.
    pub purpose: Purpose,
}

impl WriterOptions {
    /// Returns options for buffers of 1 MiB that the caller's thread writes, without preallocation
    /// and without early writeback.
    pub fn new(purpose: Purpose) -> Self {
        Self { buffer_bytes: 1 << 20, depth: 0, bytes_per_sync: 0, preallocate_bytes: 0, purpose }
    }
}

/// If the gap between two warm spans is shorter than this, in bytes, they are written as one span.
const WARM_GAP: u64 = 32 << 10;

/// Appends to a new file. Bytes are collected in aligned buffers from a pool, and full buffers can
/// be written in the background. Every I/O mode is supported.
///
/// # Warm spans
/// A warm span is a part of the file that should be in the page cache after it is written. To use
/// warm spans, give a direct stream a second handle to the file, opened in a mode that uses the
/// page cache ([`Self::warm_through`]). Bytes appended with [`Self::append_warm`] are written
/// through this handle, rounded to whole blocks and together with small gaps between warm spans.
/// All other bytes bypass the page cache. No page is written through both handles, except possibly
/// the last page if it is written again. [`Self::sync`] makes the bytes of both handles durable.
///
/// # Invariants
/// - Buffers reach the file in order, one at a time.
/// - Direct writes are whole blocks at block boundaries. A partial last block is padded with zeros,
///   and the file is then truncated to its true length. When more is appended, that block is
///   written again.
/// - The first failure is latched: nothing is written after it, and every later call returns the
///   same error.
///
/// # Crash
/// Nothing is guaranteed to be durable before [`Self::sync`] has returned, and a stream never makes
/// the file's name durable. Synced bytes survive a crash. In direct mode zeros may follow them if
/// the crash came between a padded write and the truncation after it.
#[derive(Debug)]
pub struct SequentialWriter {
    shared: Arc<PieceQueue>,
    workers: Option<Arc<Workers>>,
    /// The buffer that collects appended bytes, which will be written at `offset`; `None` while it
    /// is empty.
    collected: Option<PooledBuffer>,
    /// Offset in the file at which the first byte of `collected` will be written. In direct mode it
    /// is a multiple of the alignment.
    offset: u64,
    /// Length of the file at the last flush. A flush at the same length does nothing, instead of
    /// writing the last block again.
    flushed: u64,
    mode: IoMode,
    /// Alignment of direct writes, in bytes.
    alignment: usize,
    /// Size of a buffer, in bytes.
    buffer_bytes: usize,
    /// The rate limiter that each write waits for, with the priority of the writes.
    pace: Option<(CountedLimiter, Priority)>,
    /// If set, limits the number of buffers queued or being written while users' reads are slowed
    /// down at the device.
    foreground: Option<Arc<Foreground>>,
    depth: usize,
    /// Whether there is a second handle to the file, through which warm spans are written.
    warms: bool,
    /// The warm spans in `collected`, as offsets in the file, in ascending order.
    warm: Vec<Range<u64>>,
}

#[derive(Debug)]
struct PieceQueue {
    state: Mutex<State>,
    changed: Condvar,
}

impl PieceQueue {
    /// Queues a piece for writing. Returns whether the caller must arrange for a drain, because
    /// none is running and none is due. A drain writes queued pieces until there are none, and
    /// holds the output meanwhile.
    fn queue(&self, piece: Piece) -> bool {
        let mut state = self.state.lock();
        state.queue.push_back(piece);
        state.output.is_some() && !mem::replace(&mut state.is_drain_due, true)
    }

    /// Drains the queue for [`Self::queue`].
    fn drain_due(self: &Arc<Self>) {
        self.state.lock().is_drain_due = false;
        self.drain();
    }

    /// Writes the queued pieces, unless another thread does.
    fn drain(self: &Arc<Self>) {
        let mut state = self.state.lock();
        if state.queue.is_empty() {
            return;
        }
        if let Some(taken) = TakenOutput::take(self, &mut state) {
            drop(state);
            taken.write_queued();
        }
    }
}

/// Each buffer is in `free`, in `queue`, being written, or collecting appended bytes.
#[derive(Debug)]
struct State {
    free: Vec<PooledBuffer>,
    queue: VecDeque<Piece>,
    /// The file; `None` while a thread makes calls on it.
    output: Option<Output>,
    failure: Option<Error>,
    /// Whether a drain is inside a call on the file.
    writing: bool,
    /// Whether a worker was told to drain the queue, and has not begun.
    is_drain_due: bool,
    /// Whether the stream was dropped: the thread that has the file then closes it.
    is_dropped: bool,
}

/// A buffer to be written to the file at `offset`.
#[derive(Debug)]
struct Piece {
    buffer: PooledBuffer,
    offset: u64,
    /// If set, the end of the buffer is padding, and the file is truncated to this length after the
    /// write.
    cut_to: Option<u64>,
    /// The warm spans in the buffer, as offsets in the file, in ascending order.
    warm: Vec<Range<u64>>,
}

impl Piece {
    fn end(&self) -> u64 {
        self.offset + self.buffer.len() as u64
    }

    /// Returns the parts of the buffer to write through the page cache, as offsets in the file.
    /// These are the spans in `self.warm`, rounded to whole blocks. Spans with a small gap between
    /// them are joined.
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

    /// Returns the bytes of the buffer at a range of offsets in the file.
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
    /// Whether to preallocate space. This becomes false for good when preallocation fails for lack
    /// of space.
    reserving: bool,
    written_back: u64,
    /// A second handle to the file, for writes into the page cache. Warm spans (parts of the file
    /// to keep in the page cache) are written through it.
    warm_file: Option<Box<dyn WriteFile>>,
}

impl Output {
    fn put(&mut self, piece: &Piece) -> Result<()> {
        let end = piece.end();
        self.reserve(end)?;
        self.write(piece)?;
        if let Some(length) = piece.cut_to {
            self.file.truncate(length)?;
            // The truncation also freed the preallocated space after the new end.
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
                // Start writeback now: these pages are not written again, so nothing is gained by
                // waiting. If this fails, the next sync writes them.
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
                // There is not enough space to preallocate, but there may be enough for the bytes
                // themselves.
                Err(error) if error.is_no_space() => self.reserving = false,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn start_writeback(&mut self, end: u64) -> Result<()> {
        let step = self.options.bytes_per_sync;
        // Leave out the last page if it is not full. It will probably be written again, and a write
        // to a page under writeback waits.
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
    /// Begins to write `file`, which must be empty. Without `workers`, the caller's thread writes
    /// the buffers. If the pool has too few buffers, fewer can be queued than `depth`.
    ///
    /// # Errors
    /// Of kind `OutOfMemory` if no buffer of the pool is free now.
    pub fn new(
        file: Box<dyn WriteFile>,
        options: WriterOptions,
        pool: &BufferPool,
        workers: Option<&Arc<Workers>>,
    ) -> Result<Self> {
        let workers = workers.filter(|_| options.depth > 0);
        let wanted = if workers.is_some() { options.depth + 1 } else { 1 };
        // A buffer may begin with the partial block that ended the previous buffer, so it needs
        // space for one block more.
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
            is_drain_due: false,
            is_dropped: false,
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

    /// Sets `file` as the second handle to the stream's file, through which warm spans are written.
    /// It must be open in a mode that uses the page cache. Must be called before anything is
    /// appended. Has no effect if the stream is not direct.
    pub fn warm_through(&mut self, file: Box<dyn WriteFile>) {
        if self.mode == IoMode::Direct
            && let Some(output) = &mut self.shared.state.lock().output
        {
            output.warm_file = Some(file);
            self.warms = true;
        }
    }

    /// Makes each write wait for a rate limiter, with this priority.
    pub fn keep_to(&mut self, rate_limiter: CountedLimiter, priority: Priority) {
        self.pace = Some((rate_limiter, priority));
    }

    /// Limits the number of buffers that are queued or being written while users' reads are slowed
    /// down at the device. If the limit falls to 0, the caller waits for each write to end.
    pub fn give_way_to(&mut self, foreground: Arc<Foreground>) {
        self.foreground = Some(foreground);
    }

    /// Appends bytes. They may stay in the collecting buffer until [`Self::flush`] writes them.
    ///
    /// # Errors
    /// The first failure of this stream, even if it concerns bytes appended long before.
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

    /// Appends a warm span. Without a second handle ([`Self::warm_through`]) this is the same as
    /// [`Self::append`].
    ///
    /// # Errors
    /// The errors of [`Self::append`].
    pub fn append_warm(&mut self, mut bytes: &[u8]) -> Result<()> {
        while self.warms && !bytes.is_empty() {
            // These bytes are a warm span: they should stay in the page cache. If they do not fit
            // into the buffer, the span is split at the end of the buffer.
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

    /// Writes all bytes appended so far, and waits until they are written to the file. The file's
    /// length is then [`Self::length`].
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

    /// Writes everything appended and makes it durable.
    ///
    /// # Errors
    /// The first failure of this stream. A failed sync is never retried.
    pub fn sync(&mut self) -> Result<()> {
        self.flush()?;
        self.with_output(|output| output.file.sync_data(output.options.purpose))
    }

    /// Writes everything appended, frees the preallocated space after the end, and returns the
    /// file's length in bytes. It does not sync, so call [`Self::sync`] before if the bytes must be
    /// durable.
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

    /// Returns the collecting buffer, or an empty one if nothing is collected. If no buffer is
    /// free, waits until one has been written.
    fn take_collected(&mut self) -> Result<PooledBuffer> {
        if let Some(buffer) = self.collected.take() {
            return Ok(buffer);
        }
        let mut state = self.wait_until(|state| state.failure.is_some() || !state.free.is_empty());
        if let Some(failure) = &state.failure {
            return Err(failure.duplicate());
        }
        let Some(mut buffer) = state.free.pop() else { unreachable!("there is a buffer") };
        buffer.clear();
        Ok(buffer)
    }

    /// Queues the last buffer of a direct stream, which ends inside a block. The buffer is padded
    /// with zeros, and the file is truncated to its true length after the write. The bytes of the
    /// partial block are kept as the start of the next buffer, because the block is written again
    /// when more is appended.
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

    /// Queues a buffer for writing, and arranges for a drain. With `cut_to`, the file is truncated
    /// to that length afterwards.
    fn hand_over(&mut self, buffer: PooledBuffer, cut_to: Option<u64>) -> Result<()> {
        if let Some((rate_limiter, priority)) = &self.pace {
            rate_limiter.request(OpType::Write, buffer.len() as u64, *priority);
        }
        let warm = mem::take(&mut self.warm);
        let piece = Piece { offset: self.offset, buffer, cut_to, warm };
        self.offset = piece.end();
        if self.shared.queue(piece) {
            match &self.workers {
                Some(workers) => {
                    let shared = Arc::clone(&self.shared);
                    workers.submit(self.stream(), move || shared.drain_due());
                }
                None => self.shared.drain_due(),
            }
        }
        self.give_way();
        self.check()
    }

    /// Waits until the number of buffers queued or being written is within the limit of the
    /// foreground limiter.
    fn give_way(&self) {
        let Some(foreground) = &self.foreground else { return };
        // The limiter also counts the buffer that collects bytes, besides those queued or being
        // written. So add one buffer to the depth, and subtract it from the result.
        let behind = foreground.depth(self.depth + 1, 0, true) - 1;
        if behind < self.depth {
            let queued = |state: &State| state.queue.len() + usize::from(state.writing);
            drop(self.wait_until(|state| queued(state) <= behind));
        }
    }

    /// Waits until the state is as wanted. If no worker can begin to write what is queued, this
    /// thread writes it: the workers may be occupied by the streams of another database, on a disk
    /// that does not answer.
    fn wait_until(&self, is_wanted: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        let mut state = self.shared.state.lock();
        while !is_wanted(&state) {
            let is_waiting = state.output.is_some() && !state.queue.is_empty();
            if is_waiting && self.workers.as_ref().is_some_and(|it| it.are_occupied()) {
                drop(state);
                // A panic is latched as the stream's failure, as in a worker.
                let _ = catch_unwind(AssertUnwindSafe(|| self.shared.drain()));
                state = self.shared.state.lock();
            } else {
                state = self.shared.changed.wait(state);
            }
        }
        state
    }

    /// Waits until nothing is queued or being written.
    fn wait_until_written(&self) -> Result<MutexGuard<'_, State>> {
        let state = self.wait_until(|state| state.output.is_some() && state.queue.is_empty());
        match &state.failure {
            Some(failure) => Err(failure.duplicate()),
            None => Ok(state),
        }
    }

    /// Returns the identity of the stream for the workers.
    fn stream(&self) -> usize {
        Arc::as_ptr(&self.shared).addr()
    }

    /// Waits until everything queued is written, and then makes a call on the file. If the call
    /// fails, the failure is latched.
    fn with_output(&self, call: impl FnOnce(&mut Output) -> Result<()>) -> Result<()> {
        let mut state = self.wait_until_written()?;
        // A worker that was told to drain the queue must not wait for the call.
        let Some(mut taken) = TakenOutput::take(&self.shared, &mut state) else { return Ok(()) };
        drop(state);
        let answer = taken.output.as_mut().map_or(Ok(()), call);
        let mut state = self.shared.state.lock();
        state.output = taken.output.take();
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
        // A drain may be about to end and still hold the file for a short time. Release the buffers
        // and the file without waiting for the drain.
        state.is_dropped = true;
        state.free.clear();
        let output = state.output.take();
        let is_drain_due = state.is_drain_due;
        drop(state);
        // Closed without the lock, for which a worker may wait.
        drop(output);
        if let Some(workers) = self.workers.as_ref().filter(|_| is_drain_due) {
            workers.withdraw(self.stream());
        }
    }
}

/// The output of a stream, in the hands of the only thread that makes calls on it. If the thread
/// panics, the output is put back, and the panic is the stream's failure.
struct TakenOutput {
    shared: Arc<PieceQueue>,
    /// `None` after it was put back.
    output: Option<Output>,
}

impl TakenOutput {
    /// Takes the output, unless another thread has it.
    fn take(shared: &Arc<PieceQueue>, state: &mut State) -> Option<Self> {
        let output = state.output.take()?;
        Some(Self { shared: Arc::clone(shared), output: Some(output) })
    }

    /// Writes the queued pieces until there are none.
    fn write_queued(mut self) {
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

    /// Returns the next piece to write. If the queue is empty, puts the file back into the shared
    /// state while that state is still locked. A piece queued after that needs a new drain.
    fn next(&mut self) -> Option<Piece> {
        let mut state = self.shared.state.lock();
        if state.failure.is_some() {
            let State { queue, free, .. } = &mut *state;
            free.extend(queue.drain(..).map(|piece| piece.buffer));
        }
        let piece = state.queue.pop_front();
        state.writing = piece.is_some();
        if piece.is_none() {
            let output = self.output.take();
            if !state.is_dropped {
                state.output = output;
            }
            drop(state);
            self.shared.changed.notify_all();
        }
        piece
    }
}

impl Drop for TakenOutput {
    fn drop(&mut self) {
        // The output was put back, unless a call on it panicked. Then latch an error for the thread
        // that waits for the output.
        let Some(output) = self.output.take() else { return };
        let failure = Error::panicked(Operation::Write, output.file.path(), None);
        let mut state = self.shared.state.lock();
        state.failure = Some(failure);
        state.queue.clear();
        state.writing = false;
        state.output = (!state.is_dropped).then_some(output);
        drop(state);
        self.shared.changed.notify_all();
    }
}
