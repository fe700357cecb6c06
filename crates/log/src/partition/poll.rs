//! Polling: reading messages.
//!
//! A poll finds its first message in memory or in a segment. From memory it returns slices of the
//! tail: nothing is copied and no lock is taken. From a segment it reads with prefetching, and
//! keeps nothing in memory afterwards, so that a consumer that is catching up evicts nothing.
//!
//! The bytes that a poll reads from segments are in memory once, and are bounded by the caller's
//! limit. A first batch beyond the limit is returned as a [`StoredBatch`], which the caller reads
//! in parts.

use std::sync::Arc;

use tailwater_format::message::batch::{Batch, HEADER_BYTES, Header};
use tailwater_format::message::name::Kind;
use tailwater_io::buffer::AppendedBytes;

use super::gathered::Gathered;
use super::polled::{Piece, Polled};
use super::stored::StoredBatch;
use super::{Partition, Snapshot};
use crate::segment::{Cursor, Segment};
use crate::tail::{Chunk, Walk};
use crate::{Error, ErrorKind, Result};

/// Upper bound on the bytes that a poll returns; a first batch that alone is larger is still
/// returned.
const POLL_BYTES: usize = 1 << 20;

/// The first message of a poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Strategy {
    /// The message with this offset, or the first one after it that exists.
    Offset(u64),
    /// The first message that was appended at this time or later, in microseconds since 1970.
    Timestamp(u64),
    /// The first message.
    First,
    /// The first of the partition's last `count` messages, where `count` is the number of messages
    /// that the poll requests.
    Last,
}

/// What a poll reads from segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reads {
    /// Nothing.
    Nothing,
    /// Batches up to the poll's limit of bytes.
    WithinLimit,
    /// The same, but a first batch that alone exceeds the limit is returned as a [`StoredBatch`].
    OrDescribesFirst,
    /// The same, but a first batch that alone exceeds the limit is returned nevertheless.
    OrReturnsFirst,
}

/// The progress of a poll: the next offset, the number of messages and bytes still to be read, and
/// the result so far.
struct Wanted {
    offset: u64,
    count: u32,
    bytes: usize,
    polled: Polled,
}

impl Wanted {
    fn is_done(&self) -> bool {
        self.count == 0 || self.bytes == 0
    }

    /// Returns whether no message has been found yet.
    fn is_empty(&self) -> bool {
        self.polled.count == 0
    }

    /// Records that a batch, or part of a batch, was added to the result.
    fn took(&mut self, first_offset: u64, count: u32, bytes: usize) {
        if self.polled.count == 0 {
            self.polled.first_offset = first_offset;
        }
        self.polled.count += count;
        self.count -= count;
        self.bytes = self.bytes.saturating_sub(bytes);
        self.offset = first_offset + u64::from(count);
    }

    /// Returns whether a batch can be returned as a whole, because the poll wants all of its
    /// messages.
    fn takes_whole(&self, header: &Header) -> bool {
        header.base_offset >= self.offset && header.count <= self.count
    }
}

impl Partition {
    /// Returns messages, beginning with the message that the strategy selects: at most `count`
    /// messages, and at most about 1 MiB in total. Returns no messages at the end of the partition,
    /// or if the partition was deleted. [`Polled::messages`] iterates over them.
    ///
    /// Messages that are not in memory are read from a segment, which blocks on the device. A
    /// caller that must not block uses [`Self::poll_memory`]. The log does not notify consumers of
    /// new messages: a consumer at the end of the partition polls again later.
    ///
    /// # Errors
    /// Corruption, with the file and, if known, the offset; I/O errors.
    pub fn poll(&self, strategy: Strategy, count: u32) -> Result<Polled> {
        self.poll_reading(strategy, count, POLL_BYTES, Reads::OrReturnsFirst)
    }

    /// Like [`Self::poll`], but holds at most `bytes_max` bytes of messages that are not in memory.
    /// If the first batch, or the wanted part of it, is larger, its bytes are not returned:
    /// [`Polled::stored`] describes it, and [`Self::read_stored`] reads it.
    ///
    /// # Errors
    /// The errors of [`Self::poll`].
    pub fn poll_within(&self, strategy: Strategy, count: u32, bytes_max: usize) -> Result<Polled> {
        self.poll_reading(strategy, count, bytes_max, Reads::OrDescribesFirst)
    }

    /// Like [`Self::poll_within`], but returns `None` if the first batch is larger than
    /// `bytes_max`, without reading the batch.
    ///
    /// # Errors
    /// The errors of [`Self::poll`].
    pub fn try_poll_within(
        &self,
        strategy: Strategy,
        count: u32,
        bytes_max: usize,
    ) -> Result<Option<Polled>> {
        self.poll_from(strategy, count, bytes_max, Reads::WithinLimit)
    }

    /// Reads up to `bytes_max` bytes of a batch that [`Self::poll_within`] of this partition has
    /// found, beginning `from` bytes after the start of its header. The call blocks on the device.
    ///
    /// Messages are verified as they are read, if the poll has not verified them. The bytes of a
    /// message may therefore be returned by several calls of which only the last one finds that the
    /// message is damaged. Later polls of the batch fail as well.
    ///
    /// # Errors
    /// Corruption, if the batch is damaged, or the segment was removed or cut in the meantime; I/O
    /// errors.
    pub fn read_stored(
        &self,
        batch: &StoredBatch,
        from: usize,
        bytes_max: usize,
    ) -> Result<Vec<Piece>> {
        batch.read(&mut self.env.segment_files.access(), from, bytes_max)
    }

    fn poll_reading(
        &self,
        strategy: Strategy,
        count: u32,
        bytes_max: usize,
        reads: Reads,
    ) -> Result<Polled> {
        match self.poll_from(strategy, count, bytes_max, reads)? {
            Some(polled) => Ok(polled),
            None => Err(Error::new(
                ErrorKind::Internal,
                "poll_from returned no result although it may read segments",
            )),
        }
    }

    /// Polls only memory; `None` if a segment would have to be read.
    ///
    /// # Errors
    /// The errors of [`Self::poll`].
    pub fn poll_memory(&self, strategy: Strategy, count: u32) -> Result<Option<Polled>> {
        self.poll_from(strategy, count, POLL_BYTES, Reads::Nothing)
    }

    /// Polls memory and segments. Returns `None` if the first message must not be read from its
    /// segment, or exceeds the limit.
    fn poll_from(
        &self,
        strategy: Strategy,
        count: u32,
        bytes_max: usize,
        reads: Reads,
    ) -> Result<Option<Polled>> {
        loop {
            let snapshot = self.snapshot();
            let polled = self.poll_snapshot(&snapshot, strategy, count, bytes_max, reads);
            match polled {
                Ok(Some(polled)) if polled.count > 0 => return Ok(Some(polled)),
                // An error may be due to segments that were removed or cut during the read. If no
                // message was found, there may be one in a chunk that was begun meanwhile: the end
                // of the partition is newer than the snapshot's chunks. The poll is repeated with
                // the newer snapshot.
                _ if !Arc::ptr_eq(&snapshot, &self.snapshot()) => {}
                polled => return polled,
            }
        }
    }

    fn poll_snapshot(
        &self,
        snapshot: &Snapshot,
        strategy: Strategy,
        count: u32,
        bytes_max: usize,
        reads: Reads,
    ) -> Result<Option<Polled>> {
        let end = snapshot.progress.visible_end();
        let partition_last_offset = end.checked_sub(1);
        let incarnation = snapshot.incarnation;
        let nothing =
            Polled { incarnation, partition_last_offset, first_offset: end, ..Polled::default() };
        if end <= snapshot.start_offset || count == 0 {
            return Ok(Some(nothing));
        }
        let offset = match strategy {
            Strategy::Offset(offset) => offset,
            Strategy::First => snapshot.start_offset,
            Strategy::Last => end.saturating_sub(u64::from(count)),
            Strategy::Timestamp(timestamp_us) => {
                match self.offset_of_timestamp(snapshot, timestamp_us, reads)? {
                    Some(offset) => offset,
                    None => return Ok(None),
                }
            }
        };
        let offset = offset.max(snapshot.start_offset);
        if offset >= end {
            return Ok(Some(nothing));
        }
        let polled = Polled { first_offset: offset, ..nothing };
        let mut wanted = Wanted { offset, count, bytes: bytes_max, polled };
        // Each message is read from memory if it is there, otherwise from its segment.
        while !wanted.is_done() && wanted.offset < end {
            let before = wanted.offset;
            if !poll_chunks(snapshot, end, &mut wanted) {
                if reads == Reads::Nothing {
                    if wanted.is_empty() {
                        return Ok(None);
                    }
                    break;
                }
                match self.poll_segment(snapshot, end, reads, &mut wanted) {
                    // Messages before the error are returned now. The next poll starts at the
                    // damage and returns the error.
                    Err(_) if !wanted.is_empty() => break,
                    polled => polled?,
                }
            }
            if wanted.offset == before {
                break;
            }
        }
        let is_left = wanted.is_empty() && wanted.bytes == 0;
        Ok((!is_left).then_some(wanted.polled))
    }

    /// Reads batches from the segment that contains the wanted offset. If an error occurs, the
    /// batches read before it stay in the result.
    fn poll_segment(
        &self,
        snapshot: &Snapshot,
        end: u64,
        reads: Reads,
        wanted: &mut Wanted,
    ) -> Result<()> {
        let offset = wanted.offset;
        let (segment, segment_end) = segment_of(snapshot, offset, end)?;
        let files = &self.env.segment_files;
        let mut cursor = match files.open.cursors.take(self.id, offset, segment) {
            Some(cursor) => cursor,
            None => Cursor {
                segment: Arc::clone(segment),
                scanner: segment.scan_for_offset(&mut files.access(), offset)?,
            },
        };
        let mut gathered = Gathered::default();
        let read = self.gather_batches(&mut cursor, segment_end, reads, wanted, &mut gathered);
        wanted.polled.pieces.extend(gathered.finish());
        read?;
        // While others wait for memory, a cursor is not worth its buffers.
        if wanted.offset < segment_end && !files.is_memory_awaited() {
            files.open.cursors.keep(self.id, wanted.offset, cursor);
        }
        Ok(())
    }

    /// Reads batches with a cursor, up to the offset `segment_end` (exclusive).
    fn gather_batches(
        &self,
        cursor: &mut Cursor,
        segment_end: u64,
        reads: Reads,
        wanted: &mut Wanted,
        gathered: &mut Gathered,
    ) -> Result<()> {
        while !wanted.is_done() && wanted.offset < segment_end {
            let Some((position, header)) = self.next_batch(cursor, segment_end, wanted)? else {
                break;
            };
            let length = usize::try_from(header.length).unwrap_or(usize::MAX);
            if length > wanted.bytes && !(wanted.is_empty() && reads == Reads::OrReturnsFirst) {
                if wanted.is_empty() && reads == Reads::OrDescribesFirst {
                    self.poll_large_batch(cursor, wanted)?;
                }
                // The next poll begins with this batch.
                wanted.bytes = 0;
                break;
            }
            let is_whole = wanted.takes_whole(&header);
            let batch_end = header.base_offset + u64::from(header.count);
            let room = gathered.room(length, wanted.bytes);
            if cursor.scanner.read_verified_into(room)?.is_none() {
                break;
            }
            let (first, mut taken) = (wanted.offset.max(header.base_offset), header);
            if !is_whole {
                let Some(part) = gathered.cut_last(length, first, wanted.count) else { break };
                taken = part;
            }
            gathered.added(taken.length as usize);
            wanted.took(first, taken.count, taken.length as usize);
            if wanted.offset < batch_end {
                // The next poll begins inside this batch, but the cursor is already after the
                // batch: it is set back.
                cursor.scanner.restart(position, cursor.segment.length())?;
            }
        }
        Ok(())
    }

    /// Moves a cursor to the batch that contains the wanted offset. Returns the batch's position
    /// and header; `None` at the end of the segment.
    fn next_batch(
        &self,
        cursor: &mut Cursor,
        segment_end: u64,
        wanted: &Wanted,
    ) -> Result<Option<(u64, Header)>> {
        let Cursor { segment, scanner } = cursor;
        let mut is_restarted = false;
        loop {
            let Some((position, header)) = scanner.peek()? else {
                if !wanted.is_empty() {
                    return Ok(None);
                }
                // The last segment may have grown since the cursor was created. If there is no
                // batch even so, the file is too short.
                if !is_restarted && scanner.position() < segment.length() {
                    is_restarted = true;
                    scanner.restart(scanner.position(), segment.length())?;
                    continue;
                }
                return Err(self.missing(segment, wanted.offset, segment_end));
            };
            if header.base_offset > wanted.offset {
                let message =
                    format!("offsets {} to {} are missing", wanted.offset, header.base_offset);
                return Err(Error::corruption(scanner.path(), position, message));
            }
            if header.base_offset + u64::from(header.count) > wanted.offset {
                return Ok(Some((position, header)));
            }
            scanner.skip();
        }
    }

    /// Polls the cursor's next batch, which exceeds the limit of the poll. If the wanted part of it
    /// does not, returns this part; otherwise only describes the batch or part.
    fn poll_large_batch(&self, cursor: &mut Cursor, wanted: &mut Wanted) -> Result<()> {
        let Cursor { segment, scanner } = cursor;
        let Some((position, header)) = scanner.peek()? else { return Ok(()) };
        let stored = StoredBatch::select(segment, scanner, wanted.offset, wanted.count)?;
        let Some(stored) = stored else { return Ok(()) };
        let (first, count, length) = (wanted.offset, stored.count(), stored.length());
        if length <= wanted.bytes {
            wanted.polled.pieces = stored.read_selected(&self.env.segment_files, scanner.file())?;
        } else {
            wanted.polled.stored = Some(stored);
        }
        wanted.took(first, count, length);
        if wanted.offset < header.base_offset + u64::from(header.count) {
            scanner.restart(position, segment.length())?;
        }
        Ok(())
    }

    fn missing(&self, segment: &Segment, offset: u64, end: u64) -> Error {
        let message = format!("offsets {offset} to {end} are missing at the segment's end");
        Error::corruption(&segment.path(Kind::Log), segment.length(), message)
    }

    /// Returns the offset of the first message that is not older than a timestamp, or the offset
    /// after the last message if all are older. `None` if this requires reading a segment, which
    /// the poll must not do.
    fn offset_of_timestamp(
        &self,
        snapshot: &Snapshot,
        timestamp_us: u64,
        reads: Reads,
    ) -> Result<Option<u64>> {
        let end = snapshot.progress.visible_end();
        // Consider the last chunk that begins with a batch older than the timestamp. The wanted
        // message is in that chunk, or is the first message of the next chunk.
        for (index, chunk) in snapshot.chunks.iter().enumerate().rev() {
            let Some(bytes) = chunk.bytes() else { break };
            let Some(first) = batches(chunk, &bytes, chunk.place().first_batch).next() else {
                continue;
            };
            if first.0.base_timestamp_us >= timestamp_us {
                continue;
            }
            let limit = chunk_end(snapshot, index, end);
            let from = chunk.position_of_timestamp(timestamp_us);
            let found = batches(chunk, &bytes, from)
                .map(|(header, _)| header)
                .take_while(|header| header.base_offset < limit)
                .find(|header| header.base_timestamp_us >= timestamp_us);
            return Ok(Some(found.map_or(limit, |header| header.base_offset)));
        }
        if reads == Reads::Nothing {
            return Ok(None);
        }
        // Consider the last segment that begins before the timestamp. The wanted message is in that
        // segment, or is the first message of the next segment.
        let before = |segment: &Arc<Segment>| segment.start().base_timestamp_us < timestamp_us;
        let index = snapshot.segments.partition_point(before);
        let Some(segment) = index.checked_sub(1).and_then(|last| snapshot.segments.get(last))
        else {
            return Ok(Some(snapshot.start_offset));
        };
        let next = snapshot.segments.get(index).map(|next| next.base_offset());
        let mut scanned_end = segment.base_offset();
        let mut access = self.env.segment_files.access();
        let mut scanner = segment.scan_for_timestamp(&mut access, timestamp_us)?;
        while let Some((_, header)) = scanner.peek()? {
            if header.base_timestamp_us >= timestamp_us {
                return Ok(Some(header.base_offset));
            }
            scanned_end = header.base_offset + u64::from(header.count);
            scanner.skip();
        }
        // All messages in the segment are older. If it is the last segment, later messages are only
        // in memory, and none of their chunks begins with an older message (see above).
        Ok(Some(next.unwrap_or(scanned_end)))
    }
}

/// Returns the segment that contains an offset, and the offset after the segment's last message.
fn segment_of(snapshot: &Snapshot, offset: u64, end: u64) -> Result<(&Arc<Segment>, u64)> {
    let index = snapshot.segments.partition_point(|segment| segment.base_offset() <= offset);
    let Some(segment) = index.checked_sub(1).and_then(|last| snapshot.segments.get(last)) else {
        let message = format!("no segment contains offset {offset}");
        return Err(Error::new(ErrorKind::Internal, message));
    };
    let next = snapshot.segments.get(index).map_or(end, |next| next.base_offset());
    Ok((segment, next.min(end)))
}

/// Returns the offset after the last readable message of the chunk at `index`.
fn chunk_end(snapshot: &Snapshot, index: usize, end: u64) -> u64 {
    let next = snapshot.chunks.get(index + 1).map(|next| next.place().base_offset);
    next.unwrap_or(end).min(end)
}

/// Returns the headers and ranges of a chunk's batches at and after a position.
fn batches<'a>(chunk: &Chunk, bytes: &'a AppendedBytes, from: usize) -> Walk<'a> {
    let published = bytes.get(0..bytes.length()).unwrap_or_default();
    Walk::new(published, chunk.place().position, from)
}

/// Adds messages from the chunks to a poll. Returns false if no chunk contains the wanted offset.
fn poll_chunks(snapshot: &Snapshot, end: u64, wanted: &mut Wanted) -> bool {
    let index = snapshot.chunks.partition_point(|chunk| chunk.place().base_offset <= wanted.offset);
    let Some(first) = index.checked_sub(1) else { return false };
    let mut found = false;
    for (index, chunk) in snapshot.chunks.iter().enumerate().skip(first) {
        if wanted.is_done() || wanted.offset >= end {
            break;
        }
        let Some(bytes) = chunk.bytes() else { break };
        let limit = chunk_end(snapshot, index, end);
        if wanted.offset < chunk.place().base_offset {
            break;
        }
        let before = wanted.polled.count;
        poll_chunk(chunk, &bytes, limit, wanted);
        found |= wanted.polled.count > before;
        if wanted.offset < limit {
            break;
        }
    }
    found
}

/// Adds messages from one chunk to a poll, up to the offset `limit` (exclusive).
fn poll_chunk(chunk: &Chunk, bytes: &AppendedBytes, limit: u64, wanted: &mut Wanted) {
    // The bytes of adjacent whole batches, which form one piece of the result.
    let mut run: Option<std::ops::Range<usize>> = None;
    let from = chunk.position_of_offset(wanted.offset);
    for (header, range) in batches(chunk, bytes, from) {
        if header.base_offset >= limit || wanted.is_done() {
            break;
        }
        if header.base_offset + u64::from(header.count) <= wanted.offset {
            continue;
        }
        if range.len() > wanted.bytes && !wanted.is_empty() {
            // The next poll begins with this batch.
            wanted.bytes = 0;
            break;
        }
        if wanted.takes_whole(&header) {
            wanted.took(header.base_offset, header.count, range.len());
            match &mut run {
                Some(run) if run.end == range.start => run.end = range.end,
                _ => {
                    push_run(bytes, run.replace(range), wanted);
                }
            }
            continue;
        }
        push_run(bytes, run.take(), wanted);
        let Some(whole) = bytes.get(range.clone()) else { break };
        let messages = whole.get(HEADER_BYTES..).unwrap_or_default();
        let Ok(batch) = Batch::from_parts(header, messages) else { break };
        let Some(part) = batch.part(wanted.offset, wanted.count) else { break };
        let start = part.messages.as_ptr().addr() - whole.as_ptr().addr() + range.start;
        let slice = bytes.slice(start..start + part.messages.len());
        let first = wanted.offset;
        wanted.polled.pieces.push(Piece::header(&part.header));
        wanted.polled.pieces.extend(slice.map(Piece::tail));
        wanted.took(first, part.header.count, HEADER_BYTES + part.messages.len());
    }
    push_run(bytes, run, wanted);
}

fn push_run(bytes: &AppendedBytes, run: Option<std::ops::Range<usize>>, wanted: &mut Wanted) {
    let slice = run.and_then(|run| bytes.slice(run));
    wanted.polled.pieces.extend(slice.map(Piece::tail));
}
