//! Streaming of whole tables with direct I/O. Read requests are issued before the decoder needs
//! their data.

use std::ops::Range;
use std::sync::Arc;

use tailwater_format::key::{self, ValueType};
use tailwater_format::table::{BLOCK_TRAILER_LENGTH, BlockHandle};
use tailwater_io::buffer::BufferPool;
use tailwater_io::stream::{ReaderOptions, SequentialReader, Workers};
use tailwater_io::{Foreground, ReadFile};

use crate::error::Result;
use crate::stats::ReadAheadCharge;
use crate::table::{ReadProfile, TableIterator, TableReader};

/// Settings shared by the streams of a compaction.
#[derive(Debug)]
pub(crate) struct Streaming {
    /// Size of each request, in bytes.
    pub(crate) request_bytes: usize,
    /// Number of requests in flight, beyond the one that is being decoded.
    pub(crate) depth: usize,
    /// The pool of the buffers into which requests read.
    pub(crate) buffers: BufferPool,
    /// Threads that perform the requests, if the system has no asynchronous I/O.
    pub(crate) workers: Option<Arc<Workers>>,
    /// The foreground reads to which the streams yield.
    pub(crate) foreground: Arc<Foreground>,
    /// Upper bound of the keys to read, as a user key. Blocks all of whose keys are above the bound
    /// are not read.
    pub(crate) until: Option<Vec<u8>>,
}

/// The data blocks of the tables that an iterator reads one after another, as one stream of reads.
#[derive(Debug)]
pub(super) struct BlockStream {
    streaming: Arc<Streaming>,
    reader: Option<SequentialReader>,
    /// Whether `reader` reads the iterator's current table. If false, it still reads the table that
    /// the iterator has left.
    is_here: bool,
    charge: ReadAheadCharge,
}

impl BlockStream {
    /// Creates a stream that has not started.
    pub(super) fn new(streaming: &Arc<Streaming>, table: &TableReader) -> Self {
        Self {
            streaming: Arc::clone(streaming),
            reader: None,
            is_here: false,
            charge: ReadAheadCharge::new(table.reader_memory()),
        }
    }

    /// Notes that the iterator has left the table: the next read is from another table.
    pub(super) fn leave(&mut self) {
        self.is_here = false;
    }

    /// Returns the bytes of a block and its trailer, which together have `length` bytes. Returns
    /// fewer bytes if the file or the streamed span ends earlier.
    pub(super) fn read(
        &mut self,
        table: &TableReader,
        handle: BlockHandle,
        length: usize,
        profile: &ReadProfile,
    ) -> Result<&[u8]> {
        let goes_on = |reader: &SequentialReader| reader.position() <= handle.offset;
        let reader = match self.reader.take() {
            Some(reader) if self.is_here && goes_on(&reader) => reader,
            other => self.begin(other, table, handle.offset, profile)?,
        };
        Ok(self.reader.insert(reader).read(handle.offset, length)?)
    }

    /// Starts reading a table at `offset`, reusing the reader of the previous table.
    fn begin(
        &mut self,
        before: Option<SequentialReader>,
        table: &TableReader,
        offset: u64,
        profile: &ReadProfile,
    ) -> Result<SequentialReader> {
        let span = offset..self.end(table, profile)?.max(offset);
        let file = Arc::clone(table.file().handle());
        let reader = match before {
            Some(mut reader) => reader.restart(file, span).map(|()| reader)?,
            None => self.open(file, span, profile)?,
        };
        self.is_here = true;
        Ok(reader)
    }

    fn open(
        &mut self,
        file: Arc<dyn ReadFile>,
        span: Range<u64>,
        profile: &ReadProfile,
    ) -> Result<SequentialReader> {
        let Streaming { request_bytes, depth, buffers, workers, .. } = &*self.streaming;
        let (request_bytes, depth) = (*request_bytes, *depth);
        let options = ReaderOptions { request_bytes, depth, first: 1, purpose: profile.purpose };
        let mut reader = SequentialReader::new(file, span, options, buffers, workers.as_ref())?;
        reader.give_way_to(Arc::clone(&self.streaming.foreground));
        self.charge.set(((depth + 1) * request_bytes) as u64);
        Ok(reader)
    }

    /// Returns the file offset of the end of the last data block to stream.
    fn end(&self, table: &TableReader, profile: &ReadProfile) -> Result<u64> {
        let data = match table.properties().data_size {
            0 => table.file().length(),
            known => known.min(table.file().length()),
        };
        let Some(until) = &self.streaming.until else { return Ok(data) };
        let mut last = Vec::new();
        let trailer = key::pack_trailer(key::MAX_SEQUENCE, ValueType::FOR_SEEK);
        key::put_internal_key(&mut last, until, trailer);
        let block = TableIterator::data_block(table, profile, &last)?;
        let end = block.map_or(data, |BlockHandle { offset, size }| {
            offset.saturating_add(size).saturating_add(BLOCK_TRAILER_LENGTH as u64)
        });
        Ok(end.min(data))
    }
}
