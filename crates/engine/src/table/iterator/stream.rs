//! Streams of a table's blocks: read requests are in flight before the decoder needs their data.
//! Compactions stream whole tables with direct I/O, and users' iterators what they read ahead with
//! `async_io`.

use std::ops::Range;
use std::sync::Arc;

use tailwater_format::table::BlockHandle;
use tailwater_io::buffer::{BufferPool, MAX_ALIGNMENT, PooledBuffer};
use tailwater_io::stream::{ReaderOptions, SequentialReader, Workers};
use tailwater_io::{Foreground, ReadFile};

use crate::error::Result;
use crate::stats::ReadAheadCharge;
use crate::table::iterator::TableIterator;
use crate::table::{ReadProfile, TableReader};

/// Number of requests into which the readahead of a user's iterator is divided.
const USER_REQUESTS: usize = 4;
/// Minimum and maximum size of such a request, in bytes.
const USER_REQUEST_MIN: usize = 16 << 10;
const USER_REQUEST_MAX: usize = 1 << 20;

/// Settings shared by the streams of a compaction, or those of a user's iterator.
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
    /// The foreground reads to which the streams yield; `None` for streams of users.
    pub(crate) foreground: Option<Arc<Foreground>>,
    /// Upper bound of the keys to read, as a user key. Blocks all of whose keys are above the bound
    /// are not read.
    pub(crate) until: Option<Arc<[u8]>>,
}

impl Streaming {
    /// Returns the settings for a user's iterator that reads `ahead` bytes ahead.
    pub(super) fn of_user(table: &TableReader, ahead: usize, until: Option<Arc<[u8]>>) -> Self {
        let in_flight = table.in_flight();
        let access = table.file().handle().ring_access();
        let has_rings = access.is_some_and(|access| access.rings.are_allowed());
        let request_bytes = (ahead / USER_REQUESTS).clamp(USER_REQUEST_MIN, USER_REQUEST_MAX);
        let request_bytes = request_bytes.next_multiple_of(MAX_ALIGNMENT);
        Self {
            request_bytes,
            depth: ahead.div_ceil(request_bytes).max(2),
            buffers: in_flight.buffers().clone(),
            workers: if has_rings { None } else { in_flight.workers().cloned() },
            foreground: None,
            until,
        }
    }
}

/// The data blocks of the tables that an iterator reads one after another, as one stream of reads.
#[derive(Debug)]
pub(super) struct BlockStream {
    streaming: Arc<Streaming>,
    reader: Option<SequentialReader>,
    /// The first buffer of `reader`, before it is opened.
    first: Option<PooledBuffer>,
    /// Whether `reader` reads the iterator's current table. If false, it still reads the table that
    /// the iterator has left.
    is_here: bool,
    charge: ReadAheadCharge,
}

impl BlockStream {
    /// Creates a stream that has not started.
    pub(super) fn new(streaming: Arc<Streaming>, table: &TableReader) -> Self {
        Self {
            streaming,
            reader: None,
            first: None,
            is_here: false,
            charge: ReadAheadCharge::new(table.reader_memory()),
        }
    }

    /// Takes the first buffer from the pool, unless the stream has one. Returns whether it has one.
    pub(super) fn acquire_memory(&mut self) -> bool {
        if self.reader.is_none() && self.first.is_none() {
            self.first = self.streaming.buffers.try_acquire(self.streaming.request_bytes).ok();
        }
        self.reader.is_some() || self.first.is_some()
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
        let read = self.reader.insert(reader).read(handle.offset, length);
        // After an error, the next read of the block makes the request again.
        self.is_here = read.is_ok();
        Ok(read?)
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
        let workers = workers.as_ref();
        let mut reader = match self.first.take() {
            Some(first) => {
                SequentialReader::with_buffer(file, span, options, buffers, workers, first)
            }
            None => SequentialReader::new(file, span, options, buffers, workers),
        }?;
        if let Some(foreground) = &self.streaming.foreground {
            reader.give_way_to(Arc::clone(foreground));
        }
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
        let end = TableIterator::end_of_block(table, profile, until).unwrap_or(data);
        Ok(end.min(data))
    }
}
