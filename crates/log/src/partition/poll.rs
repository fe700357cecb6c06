//! Polling: reading messages.
//!
//! A poll finds its first message in memory or in a segment. From memory it returns slices of the
//! tail: nothing is copied and no lock is taken. From a segment it reads with prefetching, and
//! keeps nothing in memory afterwards, so that a consumer that is catching up evicts nothing.

use std::sync::Arc;

use tailwater_format::message::batch::{Batch, HEADER_BYTES, Header, Part};
use tailwater_format::message::name::Kind;
use tailwater_io::buffer::AppendedBytes;

use super::polled::{Piece, Polled};
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
        match self.poll_from(strategy, count, true)? {
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
        self.poll_from(strategy, count, false)
    }

    fn poll_from(&self, strategy: Strategy, count: u32, reads: bool) -> Result<Option<Polled>> {
        loop {
            let snapshot = self.snapshot();
            let polled = self.poll_snapshot(&snapshot, strategy, count, reads);
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
        reads: bool,
    ) -> Result<Option<Polled>> {
        let end = snapshot.progress.visible_end();
        let partition_last_offset = end.checked_sub(1).filter(|_| end > snapshot.start_offset);
        let incarnation = snapshot.incarnation;
        let nothing =
            Polled { incarnation, partition_last_offset, first_offset: end, ..Polled::default() };
        if partition_last_offset.is_none() || count == 0 {
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
        let mut wanted = Wanted { offset, count, bytes: POLL_BYTES, polled };
        // Each message is read from memory if it is there, otherwise from its segment.
        while !wanted.is_done() && wanted.offset < end {
            let before = wanted.offset;
            if !poll_chunks(snapshot, end, &mut wanted) {
                if !reads && wanted.polled.count == 0 {
                    return Ok(None);
                }
                if !reads {
                    break;
                }
                match self.poll_segment(snapshot, end, &mut wanted) {
                    // Messages before the error are returned now. The next poll starts at the
                    // damage and returns the error.
                    Err(_) if wanted.polled.count > 0 => break,
                    polled => polled?,
                }
            }
            if wanted.offset == before {
                break;
            }
        }
        Ok(Some(wanted.polled))
    }

    /// Reads batches from the segment that contains the wanted offset. If an error occurs, the
    /// batches read before it stay in the result.
    fn poll_segment(&self, snapshot: &Snapshot, end: u64, wanted: &mut Wanted) -> Result<()> {
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
        let mut bytes = Vec::new();
        let copied = self.copy_batches(&mut cursor, segment_end, wanted, &mut bytes);
        if !bytes.is_empty() {
            wanted.polled.pieces.push(Piece::read(bytes));
        }
        copied?;
        // While others wait for memory, a cursor is not worth its buffers.
        if wanted.offset < segment_end && !files.is_memory_awaited() {
            files.open.cursors.keep(self.id, wanted.offset, cursor);
        }
        Ok(())
    }

    /// Copies batches from a cursor into `bytes`, up to the offset `segment_end` (exclusive).
    fn copy_batches(
        &self,
        cursor: &mut Cursor,
        segment_end: u64,
        wanted: &mut Wanted,
        bytes: &mut Vec<u8>,
    ) -> Result<()> {
        let Cursor { segment, scanner } = cursor;
        let mut is_restarted = false;
        while !wanted.is_done() && wanted.offset < segment_end {
            let Some((position, header)) = scanner.peek()? else {
                // The last segment may have grown since the cursor was created. If there is no
                // batch even so, the file is too short.
                let may_have_grown = !is_restarted && scanner.position() < segment.length();
                if wanted.polled.count == 0 && may_have_grown {
                    is_restarted = true;
                    scanner.restart(scanner.position(), segment.length())?;
                    continue;
                }
                if wanted.polled.count == 0 {
                    return Err(self.missing(segment, wanted.offset, segment_end));
                }
                break;
            };
            let batch_end = header.base_offset + u64::from(header.count);
            if batch_end <= wanted.offset {
                scanner.skip();
                continue;
            }
            if header.base_offset > wanted.offset {
                let message =
                    format!("offsets {} to {} are missing", wanted.offset, header.base_offset);
                return Err(Error::corruption(scanner.path(), position, message));
            }
            let is_whole = wanted.takes_whole(&header);
            let Some(scanned) = scanner.read_verified()? else { break };
            if is_whole {
                bytes.extend_from_slice(&scanned.header.encode());
                bytes.extend_from_slice(scanned.messages);
                let length = HEADER_BYTES + scanned.messages.len();
                wanted.took(header.base_offset, header.count, length);
                continue;
            }
            let batch = Batch::from_parts(scanned.header, scanned.messages)
                .map_err(|error| Error::decoding(&segment.path(Kind::Log), position, error))?;
            let Some(part) = batch.part(wanted.offset, wanted.count) else { break };
            let Part { header: part_header, messages } = part;
            bytes.extend_from_slice(&part_header.encode());
            bytes.extend_from_slice(messages);
            let (first, taken) = (wanted.offset, part_header.count);
            wanted.took(first, taken, HEADER_BYTES + messages.len());
            if wanted.offset < batch_end {
                // The next poll begins inside this batch, but the cursor is already after the
                // batch: it is set back.
                scanner.restart(position, segment.length())?;
            }
        }
        Ok(())
    }

    fn missing(&self, segment: &Segment, offset: u64, end: u64) -> Error {
        let message = format!("offsets {offset} to {end} are missing at the segment's end");
        Error::corruption(&segment.path(Kind::Log), segment.length(), message)
    }

    /// Returns the offset of the first message that is not older than a timestamp, or the offset
    /// after the last message if all are older. `None` if this requires reading a segment and
    /// `reads` is false.
    fn offset_of_timestamp(
        &self,
        snapshot: &Snapshot,
        timestamp_us: u64,
        reads: bool,
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
        if !reads {
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
fn batches<'a>(
    chunk: &Chunk,
    bytes: &'a AppendedBytes,
    from: usize,
) -> impl Iterator<Item = (Header, std::ops::Range<usize>)> + 'a {
    let published = bytes.get(0..bytes.length()).unwrap_or_default();
    Walk::new(published, chunk.place().position, from)
        .map(|walked| (walked.header, walked.start..walked.end))
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
