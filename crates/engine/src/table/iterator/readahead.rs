//! Readahead of an iterator that moves through a table block by block.
//!
//! The first blocks are read one at a time, since a seek often needs no more. After a few
//! sequential reads, a larger part of the file is read in one request. The size of the request
//! doubles each time, up to a maximum. Cached blocks are taken from the cache and do not interrupt
//! the sequence. A compaction that reads with direct I/O does not use this readahead: it streams
//! its tables with several requests in flight.

use std::sync::Arc;

use tailwater_format::table::{BLOCK_TRAILER_LENGTH, BlockHandle};
use tailwater_io::buffer::AlignedBuffer;
use tailwater_io::{IoMode, charge_reads};

use crate::block_cache::{Block, BlockKind};
use crate::cache::Cached;
use crate::error::Result;
use crate::stats::{ReadAheadCharge, Ticker};
use crate::table::{ReadProfile, TableIterator, TableReader};

use super::stream::{BlockStream, Streaming};

/// Maximum size of a readahead, in bytes. A larger one would use memory without benefit.
const READ_AHEAD_MAX: usize = 64 << 20;

/// The kind of readahead of an iterator.
#[derive(Debug, Clone)]
pub(crate) enum ReadPlan {
    /// The iterator reads ahead after some sequential reads.
    ReadAhead(ReadAheadPlan),
    /// The iterator reads whole tables, with several requests in flight from the beginning.
    Streamed(Arc<Streaming>),
}

/// How an iterator reads ahead after some sequential reads.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReadAheadPlan {
    /// Size of each readahead in bytes. With 0, the size is chosen automatically, and grows with
    /// sequential reads.
    pub(crate) bytes: usize,
    /// Whether several requests are in flight while the iterator decodes.
    pub(crate) in_flight: bool,
    /// Whether the iterator keeps the readahead size that it has reached when it goes on to the
    /// next table of a level.
    pub(crate) adaptive: bool,
    /// Upper bound of the keys to read ahead, as a user key. Blocks all of whose keys are above the
    /// bound are not read ahead.
    pub(crate) until: Option<Arc<[u8]>>,
}

impl ReadPlan {
    /// Returns the plan to read `bytes` bytes ahead at a time; 0 chooses the size automatically.
    pub(crate) fn of_bytes(bytes: usize) -> Self {
        Self::ReadAhead(ReadAheadPlan { bytes, ..ReadAheadPlan::default() })
    }

    /// Returns the plan to choose the size of each readahead automatically.
    pub(crate) fn growing() -> Self {
        Self::of_bytes(0)
    }

    /// Whether an iterator that goes on to the next table of a level continues with the readahead
    /// size that it has reached.
    pub(crate) fn is_adaptive(&self) -> bool {
        matches!(self, Self::ReadAhead(plan) if plan.adaptive)
    }
}

/// The readahead state of an iterator.
pub(super) struct ReadAhead {
    /// The bytes that were read ahead; `None` until something is read ahead.
    buffer: Option<AlignedBuffer>,
    charge: ReadAheadCharge,
    /// Offset of `buffer` in the file.
    start: u64,
    /// Offset at which the next block begins if reads are sequential.
    expected: u64,
    sequential: u64,
    /// Whether the next block counts as sequential at any offset, because the iterator has just
    /// continued from another table.
    is_continued: bool,
    /// Size of the next readahead, in bytes.
    length: usize,
    /// Whether `length` was requested by an option. It then applies from the first block and does
    /// not grow.
    fixed: bool,
    /// Whether several requests are in flight when the iterator reads ahead.
    in_flight: bool,
    /// Offset of the block that was loaded last.
    previous: u64,
    until: Until,
    stream: Option<BlockStream>,
    /// Whether everything is read from `stream`.
    is_streamed: bool,
    /// A block that was loaded for the next position, and its offset.
    handed: Option<(u64, Arc<Cached<Block>>)>,
}

impl ReadAhead {
    /// Creates the readahead state of an iterator that reads `table` according to `plan`.
    pub(super) fn new(plan: &ReadPlan, table: &TableReader) -> Self {
        let auto = table.auto_read_ahead();
        let (plan, stream) = match plan {
            ReadPlan::ReadAhead(plan) => (plan.clone(), None),
            ReadPlan::Streamed(streaming) => {
                (ReadAheadPlan::default(), Some(BlockStream::new(Arc::clone(streaming), table)))
            }
        };
        let length = match plan.bytes {
            0 => auto.initial_bytes.min(auto.max_bytes),
            bytes => bytes,
        };
        Self {
            buffer: None,
            charge: ReadAheadCharge::new(table.reader_memory()),
            start: 0,
            expected: 0,
            sequential: 0,
            is_continued: false,
            length,
            fixed: plan.bytes > 0,
            in_flight: plan.in_flight,
            previous: 0,
            until: Until { user_key: plan.until, offset: None },
            is_streamed: stream.is_some(),
            stream,
            handed: None,
        }
    }

    /// Restarts for another table, like [`ReadAhead::new`], but keeps the buffer.
    pub(super) fn restart(&mut self, plan: &ReadPlan, table: &TableReader) {
        if let Some(stream) = self.stream.as_mut().filter(|_| self.is_streamed) {
            return stream.leave();
        }
        let next = Self::new(plan, table);
        let last = std::mem::replace(self, next);
        self.buffer = last.buffer;
        if let Some(buffer) = &mut self.buffer {
            buffer.clear();
        }
        self.charge = last.charge;
        // The stream goes on in the next table with the same buffers.
        self.stream = last.stream;
        if let Some(stream) = &mut self.stream {
            stream.leave();
        }
    }

    /// Continues in a table that replaced the current one. Keeps the readahead size that was
    /// reached.
    pub(super) fn continue_in(&mut self, plan: &ReadPlan, table: &TableReader) {
        let (length, sequential) = (self.length, self.sequential);
        self.restart(plan, table);
        if !self.fixed && !self.is_streamed {
            (self.length, self.sequential, self.is_continued) = (length, sequential, true);
        }
    }

    /// Loads the data block at `handle` from the cache, the readahead buffer or the file.
    pub(super) fn load(
        &mut self,
        table: &TableReader,
        handle: BlockHandle,
        profile: &ReadProfile,
    ) -> Result<Arc<Cached<Block>>> {
        let follows = handle.offset == self.expected && handle.offset > 0;
        let in_sequence = std::mem::take(&mut self.is_continued) || follows;
        self.expected = handle.offset + handle.size + BLOCK_TRAILER_LENGTH as u64;
        self.sequential = if in_sequence { self.sequential + 1 } else { 0 };
        let is_backward = handle.offset < std::mem::replace(&mut self.previous, handle.offset);
        match self.handed.take() {
            Some((offset, block)) if offset == handle.offset => return Ok(block),
            _ => {}
        }
        if let Some(block) = table.resident(handle, BlockKind::Data, profile.purpose) {
            return Ok(block);
        }
        let _charged = charge_reads(profile.charged);
        if let Some(stream) = self.stream.as_mut().filter(|_| self.is_streamed) {
            return from_stream(stream, table, handle, profile);
        }
        let auto = table.auto_read_ahead();
        if !self.fixed && (self.sequential < auto.after_reads || self.length == 0) {
            self.stream = None;
            return table.load_absent(handle, BlockKind::Data, profile);
        }
        // A stream goes forward only.
        if self.in_flight
            && !is_backward
            && let Some(stream) = self.open_stream(table)
        {
            return from_stream(stream, table, handle, profile);
        }
        self.read_ahead(table, handle, profile)
    }

    /// Hands over a block that was loaded for the next position.
    pub(super) fn hand_over(&mut self, handle: BlockHandle, block: Arc<Cached<Block>>) {
        self.handed = Some((handle.offset, block));
    }

    /// Returns the stream of requests in flight; `None` if it cannot get memory.
    fn open_stream(&mut self, table: &TableReader) -> Option<&mut BlockStream> {
        if self.stream.is_none() {
            let ahead = if self.fixed { self.length } else { table.auto_read_ahead().max_bytes };
            let until = self.until.user_key.clone();
            let streaming = Streaming::of_user(table, ahead.min(READ_AHEAD_MAX), until);
            self.stream = Some(BlockStream::new(Arc::new(streaming), table));
        }
        let stream = self.stream.as_mut()?;
        stream.acquire_memory().then_some(stream)
    }

    fn read_ahead(
        &mut self,
        table: &TableReader,
        handle: BlockHandle,
        profile: &ReadProfile,
    ) -> Result<Arc<Cached<Block>>> {
        let file = table.file();
        let needed = file.length_with_trailer(handle)?;
        if self.span(handle.offset, needed).is_none() {
            self.fill(table, handle.offset, needed, profile)?;
            let bytes = self.buffer.as_deref().map_or(0, <[u8]>::len);
            table.count(Ticker::PrefetchBytes, bytes as u64);
        } else {
            table.count(Ticker::PrefetchHits, 1);
        }
        let Some(raw) = self.span(handle.offset, needed) else {
            // The file ends inside the block. The ordinary read reports that as an error.
            return table.load_absent(handle, BlockKind::Data, profile);
        };
        let dictionary = table.dictionary_for(BlockKind::Data);
        let bytes = file.unpack_block(raw, handle, dictionary, profile.verify_checksums)?;
        table.keep(handle, BlockKind::Data, bytes, profile)
    }

    /// Returns a block with its trailer as it is stored in the file, if it was read ahead.
    pub(super) fn stored(&self, table: &TableReader, handle: BlockHandle) -> Option<&[u8]> {
        self.span(handle.offset, table.file().length_with_trailer(handle).ok()?)
    }

    /// Returns the bytes of a span of the file, if it was read ahead.
    fn span(&self, offset: u64, length: usize) -> Option<&[u8]> {
        let from = usize::try_from(offset.checked_sub(self.start)?).ok()?;
        self.buffer.as_deref()?.get(from..from.checked_add(length)?)
    }

    fn fill(
        &mut self,
        table: &TableReader,
        offset: u64,
        needed: usize,
        profile: &ReadProfile,
    ) -> Result<()> {
        let file = table.file();
        // Direct reads must start at an aligned offset, so the readahead starts there, too.
        let start = match file.handle().mode() {
            IoMode::Direct => offset - offset % file.handle().alignment() as u64,
            _ => offset,
        };
        let length = self.length.min(READ_AHEAD_MAX).max(needed);
        let last = self.until.offset(table, profile);
        let end = offset.saturating_add(length as u64).min(last);
        let end = end.max(offset.saturating_add(needed as u64)).min(file.length());
        if !self.fixed {
            self.length = self.length.saturating_mul(2).min(table.auto_read_ahead().max_bytes);
        }
        self.start = start;
        let length = (end - start) as usize;
        let buffer = self.buffer.get_or_insert_with(|| AlignedBuffer::with_capacity(length));
        buffer.clear();
        let read = file.handle().read_span(buffer, start, length, profile.purpose);
        let read = read.map(<[u8]>::len);
        buffer.set_length(*read.as_ref().unwrap_or(&0));
        self.charge.set(buffer.capacity() as u64);
        read?;
        Ok(())
    }
}

/// The end of what an iterator reads ahead.
struct Until {
    /// Upper bound of the keys, as a user key.
    user_key: Option<Arc<[u8]>>,
    /// The file offset of the end of the bound's block; `None` until it is first needed.
    offset: Option<u64>,
}

impl Until {
    /// Returns the file offset of the end of the last block to read ahead in a table.
    fn offset(&mut self, table: &TableReader, profile: &ReadProfile) -> u64 {
        let Some(user_key) = &self.user_key else { return table.file().length() };
        *self.offset.get_or_insert_with(|| {
            TableIterator::end_of_block(table, profile, user_key).unwrap_or(table.file().length())
        })
    }
}

/// Returns the block at `handle` from the stream of its table.
fn from_stream(
    stream: &mut BlockStream,
    table: &TableReader,
    handle: BlockHandle,
    profile: &ReadProfile,
) -> Result<Arc<Cached<Block>>> {
    let file = table.file();
    let needed = file.length_with_trailer(handle)?;
    let raw = stream.read(table, handle, needed, profile)?;
    if raw.len() < needed {
        // The stream or the file ends inside the block. The ordinary read returns the block or
        // reports the error.
        return table.load_absent(handle, BlockKind::Data, profile);
    }
    let dictionary = table.dictionary_for(BlockKind::Data);
    let bytes = file.unpack_block(raw, handle, dictionary, profile.verify_checksums)?;
    table.keep(handle, BlockKind::Data, bytes, profile)
}
