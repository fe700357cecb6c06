//! The result of a poll.

use std::fmt;
use std::iter::FusedIterator;
use std::ops::{Deref, Range};
use std::slice;
use std::sync::Arc;

use tailwater_format::message::batch::{HEADER_BYTES, Header, Messages};
use tailwater_io::buffer::AppendedSlice;

use super::stored::StoredBatch;
use crate::segment::PartBuffer;
use crate::{Error, ErrorKind, Result};

/// A piece of a poll's bytes: one or more whole batches, or part of a batch. Access to the bytes
/// copies nothing.
#[derive(Debug, Clone)]
pub struct Piece(Source);

/// Where the bytes of a piece are.
#[derive(Debug, Clone)]
enum Source {
    /// Messages or whole batches, in the tail's memory.
    Tail(AppendedSlice),
    /// The header for part of a batch; the next piece contains the messages of that part.
    Header(Box<[u8; HEADER_BYTES]>),
    /// Bytes that were read from a segment.
    Read(Arc<Vec<u8>>),
    /// A range of bytes that were read from a segment without an intermediate buffer.
    Window(Arc<PartBuffer>, Range<usize>),
}

impl Piece {
    /// Returns a piece in the tail's memory.
    pub(super) fn tail(slice: AppendedSlice) -> Self {
        Self(Source::Tail(slice))
    }

    /// Returns the header of part of a batch.
    pub(super) fn header(header: &Header) -> Self {
        Self(Source::Header(Box::new(header.encode())))
    }

    /// Returns batches that were read from a segment, each with its header. The first and the last
    /// may be parts of batches.
    pub(super) fn read(bytes: Vec<u8>) -> Self {
        Self(Source::Read(Arc::new(bytes)))
    }

    /// Returns part of a [`StoredBatch`].
    pub(super) fn window(buffer: PartBuffer, range: Range<usize>) -> Self {
        Self(Source::Window(Arc::new(buffer), range))
    }

    /// Returns whether the piece is only the header of a batch. This is the case if the poll
    /// returns part of a batch that is in memory; the next piece then contains the messages of that
    /// part.
    pub fn is_header(&self) -> bool {
        matches!(self.0, Source::Header(_))
    }

    /// Returns whether the bytes are in the memory of the partition's tail. That memory cannot be
    /// released before the piece is dropped.
    pub fn is_in_tail(&self) -> bool {
        matches!(self.0, Source::Tail(_))
    }
}

impl Deref for Piece {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Source::Tail(slice) => slice,
            Source::Header(header) => &header[..],
            Source::Read(bytes) => bytes,
            Source::Window(buffer, range) => buffer.get(range.clone()).unwrap_or_default(),
        }
    }
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

/// The result of a poll: batches in wire format.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Polled {
    /// Incarnation of the partition that the messages belong to.
    pub incarnation: u64,
    /// Offset of the partition's last readable message, even if that has been deleted since; `None`
    /// if there was none.
    pub partition_last_offset: Option<u64>,
    /// Offset of the first message returned.
    pub first_offset: u64,
    /// Number of messages returned.
    pub count: u32,
    /// The batches: the concatenation of these pieces.
    pub pieces: Vec<Piece>,
    /// If the first batch exceeds the limit of [`Partition::poll_within`], this batch, which is
    /// then the whole result: `pieces` is empty. Always `None` after other polls.
    ///
    /// [`Partition::poll_within`]: super::Partition::poll_within
    pub stored: Option<StoredBatch>,
}

impl Polled {
    /// Returns the total length of the batches in bytes: of all pieces, or of the stored batch.
    pub fn length(&self) -> usize {
        let stored = self.stored.as_ref().map_or(0, StoredBatch::length);
        self.pieces.iter().map(|piece| piece.len()).sum::<usize>() + stored
    }

    /// Returns the offset after the last message returned.
    pub fn end_offset(&self) -> u64 {
        self.first_offset + u64::from(self.count)
    }

    /// Returns the offset of the last message returned; `None` if no message was returned. This is
    /// the offset for a consumer to store when it has processed all messages.
    pub fn last_polled_offset(&self) -> Option<u64> {
        self.end_offset().checked_sub(1).filter(|_| self.count > 0)
    }

    /// Returns an iterator over the messages, in the order of their offsets. It copies nothing. It
    /// returns no messages of a stored batch.
    pub fn messages(&self) -> PolledMessages<'_> {
        PolledMessages {
            pieces: self.pieces.iter(),
            rest: &[],
            header: Header::default(),
            messages: Messages::new(&[]),
            left: 0,
        }
    }

    /// Returns the bytes of all pieces, concatenated.
    pub fn to_vec(&self) -> Vec<u8> {
        self.pieces.iter().flat_map(|piece| piece.iter()).copied().collect()
    }
}

impl<'a> IntoIterator for &'a Polled {
    type Item = Result<PolledMessage<'a>>;
    type IntoIter = PolledMessages<'a>;

    fn into_iter(self) -> PolledMessages<'a> {
        self.messages()
    }
}

/// A message that a poll returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PolledMessage<'a> {
    /// Offset of the message in its partition.
    pub offset: u64,
    /// Id that the producer assigned.
    pub id: u128,
    /// When the log accepted the message, in microseconds since 1970.
    pub timestamp_us: u64,
    /// The producer's timestamp, in microseconds since 1970.
    pub origin_timestamp_us: u64,
    /// The payload.
    pub payload: &'a [u8],
    /// User headers, as the producer encoded them.
    pub user_headers: &'a [u8],
}

/// Iterator over the messages that a poll returned: see [`Polled::messages`].
///
/// The log has verified the messages, so an error means a bug in the log: its kind is
/// [`ErrorKind::Internal`]. The iterator ends after an error.
#[derive(Debug, Clone)]
pub struct PolledMessages<'a> {
    /// The pieces that come after the current one.
    pieces: slice::Iter<'a, Piece>,
    /// The batches of the current piece that come after the current batch.
    rest: &'a [u8],
    /// Header of the current batch.
    header: Header,
    /// The current batch's messages that were not returned yet.
    messages: Messages<'a>,
    /// The number of messages in `messages`.
    left: u32,
}

impl<'a> PolledMessages<'a> {
    /// Makes the next batch the current one. Returns `None` if there is none.
    fn next_batch(&mut self) -> Option<Result<()>> {
        if !self.messages.rest().is_empty() {
            return Some(Err(malformed("it has too many messages")));
        }
        let mut messages_of_part = None;
        if self.rest.is_empty() {
            let piece = self.pieces.next()?;
            if piece.is_header() {
                messages_of_part = self.pieces.next();
            }
            self.rest = piece;
        }
        Some(self.begin_batch(messages_of_part))
    }

    /// Begins the batch at the start of `self.rest`, or, if that is only the header of part of a
    /// batch, this part.
    fn begin_batch(&mut self, messages_of_part: Option<&'a Piece>) -> Result<()> {
        let header = Header::decode(self.rest).map_err(malformed)?;
        let after_header = match messages_of_part {
            Some(piece) => piece,
            None => self.rest.get(HEADER_BYTES..).unwrap_or_default(),
        };
        let length = usize::try_from(header.length).unwrap_or(usize::MAX) - HEADER_BYTES;
        let (messages, rest) = after_header
            .split_at_checked(length)
            .ok_or_else(|| malformed("it is shorter than its header states"))?;
        (self.messages, self.rest) = (Messages::new(messages), rest);
        (self.header, self.left) = (header, header.count);
        Ok(())
    }

    fn next_message(&mut self) -> Result<PolledMessage<'a>> {
        let message = self.messages.next();
        let message = message.ok_or_else(|| malformed("it has too few messages"))?;
        self.left -= 1;
        let header = &self.header;
        let origin_timestamp_us = header.origin_timestamp_us;
        Ok(PolledMessage {
            offset: header.base_offset.saturating_add(message.offset_delta.into()),
            id: message.id,
            timestamp_us: header.base_timestamp_us,
            origin_timestamp_us: origin_timestamp_us
                .saturating_add(message.timestamp_delta_us.into()),
            payload: message.payload,
            user_headers: message.user_headers,
        })
    }
}

impl<'a> Iterator for PolledMessages<'a> {
    type Item = Result<PolledMessage<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut result = Ok(());
        while self.left == 0 && result.is_ok() {
            result = self.next_batch()?;
        }
        let message = result.and_then(|()| self.next_message());
        if message.is_err() {
            (self.pieces, self.rest, self.left) = ([].iter(), &[], 0);
            self.messages = Messages::new(&[]);
        }
        Some(message)
    }
}

impl FusedIterator for PolledMessages<'_> {}

fn malformed(why: impl fmt::Display) -> Error {
    Error::new(ErrorKind::Internal, format!("a batch that was polled is malformed: {why}"))
}
