//! Readahead of an iterator that moves through a table block by block.
//!
//! The first blocks are read one at a time, since a seek often needs no more. After a few
//! sequential reads, a larger part of the file is read in one request. The size of the request
//! doubles each time, up to a maximum. Cached blocks are taken from the cache and do not interrupt
//! the sequence. A compaction that reads with direct I/O does not use this readahead: it streams
//! its tables with several requests in flight.

use std::sync::Arc;

use tailwater_format::table::{BLOCK_TRAILER_LENGTH, BlockHandle};
use tailwater_io::IoMode;
use tailwater_io::buffer::AlignedBuffer;

use crate::block_cache::{Block, BlockKind};
use crate::cache::Cached;
use crate::error::Result;
use crate::stats::{ReadAheadCharge, Ticker};
use crate::table::{ReadProfile, TableReader};

use super::stream::{BlockStream, Streaming};

/// Maximum size of a readahead, in bytes. A larger one would use memory without benefit.
const READ_AHEAD_MAX: usize = 64 << 20;

/// The kind of readahead of an iterator.
#[derive(Debug, Clone)]
pub(crate) enum ReadPlan {
    /// The iterator chooses the size of a readahead automatically; the size grows with sequential
    /// reads.
    Growing,
    /// Each readahead reads this number of bytes.
    Fixed(usize),
    /// Several read requests are in flight while the iterator decodes.
    Streamed(Arc<Streaming>),
}

impl ReadPlan {
    /// Returns the plan to read `bytes` bytes ahead at a time; 0 chooses the size automatically.
    pub(crate) fn of_bytes(bytes: usize) -> Self {
        if bytes > 0 { Self::Fixed(bytes) } else { Self::Growing }
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
    stream: Option<BlockStream>,
}

impl ReadAhead {
    /// Creates the readahead state of an iterator that reads `table` according to `plan`.
    pub(super) fn new(plan: &ReadPlan, table: &TableReader) -> Self {
        let auto = table.auto_read_ahead();
        let (length, stream) = match plan {
            ReadPlan::Growing => (auto.initial_bytes.min(auto.max_bytes), None),
            ReadPlan::Fixed(length) => (*length, None),
            ReadPlan::Streamed(streaming) => (0, Some(BlockStream::new(streaming, table))),
        };
        Self {
            buffer: None,
            charge: ReadAheadCharge::new(table.reader_memory()),
            start: 0,
            expected: 0,
            sequential: 0,
            is_continued: false,
            length,
            fixed: matches!(plan, ReadPlan::Fixed(_)),
            stream,
        }
    }

    /// Restarts for another table, like [`ReadAhead::new`], but keeps the buffer.
    pub(super) fn restart(&mut self, plan: &ReadPlan, table: &TableReader) {
        if let Some(stream) = &mut self.stream {
            return stream.leave();
        }
        let next = Self::new(plan, table);
        let last = std::mem::replace(self, next);
        self.buffer = last.buffer;
        if let Some(buffer) = &mut self.buffer {
            buffer.clear();
        }
        self.charge = last.charge;
    }

    /// Continues in a table that replaced the current one. Keeps the readahead size that was
    /// reached.
    pub(super) fn continue_in(&mut self, plan: &ReadPlan, table: &TableReader) {
        let (length, sequential) = (self.length, self.sequential);
        self.restart(plan, table);
        if !self.fixed && self.stream.is_none() {
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
        if let Some(block) = table.resident(handle, BlockKind::Data, profile.purpose) {
            return Ok(block);
        }
        if let Some(stream) = &mut self.stream {
            return from_stream(stream, table, handle, profile);
        }
        let auto = table.auto_read_ahead();
        if !self.fixed && (self.sequential < auto.after_reads || self.length == 0) {
            return table.load_absent(handle, BlockKind::Data, profile);
        }
        self.read_ahead(table, handle, profile)
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
        let bytes = file.unpack_read_ahead(raw, handle, dictionary, profile.verify_checksums)?;
        table.keep(handle, BlockKind::Data, bytes, profile)
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
        let end = offset.saturating_add(length as u64).min(file.length());
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
    let bytes = file.unpack_read_ahead(raw, handle, dictionary, profile.verify_checksums)?;
    table.keep(handle, BlockKind::Data, bytes, profile)
}
