//! Gathers batches that a poll reads from a segment.

use tailwater_format::message::batch::{Batch, HEADER_BYTES, Header};

use super::polled::Piece;

/// Minimum and maximum capacity of a piece that may get several batches, in bytes. A batch that is
/// larger than the maximum gets a piece of its own.
const PIECE_BYTES: [usize; 2] = [4 << 10, 256 << 10];

/// Batches that were read from a segment, in pieces. The pieces have little more memory than the
/// batches need: a piece is never moved when it grows, and unused memory at its end is released.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    pieces: Vec<Piece>,
    current: Vec<u8>,
    /// Total length of the batches, in bytes.
    length: usize,
}

impl Gathered {
    /// Returns a vector with room for a batch of `length` bytes, to which the batch must be
    /// appended. `most` is the number of bytes that may still be gathered.
    pub(super) fn room(&mut self, length: usize, most: usize) -> &mut Vec<u8> {
        if self.current.capacity() - self.current.len() < length {
            self.finish_piece();
            let [least, usual] = PIECE_BYTES;
            let capacity = self.length.clamp(least, usual).min(most).max(length);
            self.current = Vec::with_capacity(capacity);
        }
        &mut self.current
    }

    /// Replaces the last batch, of `length` bytes, by the part of it that begins with the message
    /// at `offset` and has at most `count` messages. Returns the part's header; `None` if the part
    /// has no messages.
    pub(super) fn cut_last(&mut self, length: usize, offset: u64, count: u32) -> Option<Header> {
        let start = self.current.len().checked_sub(length)?;
        let whole = self.current.get(start..)?;
        let batch =
            Batch::from_parts(Header::decode(whole).ok()?, whole.get(HEADER_BYTES..)?).ok()?;
        let part = batch.part(offset, count)?;
        let (header, from) = (part.header, part.messages.as_ptr().addr() - whole.as_ptr().addr());
        let messages = start + from..start + from + part.messages.len();
        let end = start + HEADER_BYTES + messages.len();
        self.current.copy_within(messages, start + HEADER_BYTES);
        self.current.truncate(end);
        self.current.get_mut(start..start + HEADER_BYTES)?.copy_from_slice(&header.encode());
        Some(header)
    }

    /// Counts the last batch, which has `length` bytes.
    pub(super) fn added(&mut self, length: usize) {
        self.length += length;
    }

    /// Returns the pieces.
    pub(super) fn finish(mut self) -> Vec<Piece> {
        self.finish_piece();
        self.pieces
    }

    fn finish_piece(&mut self) {
        let mut bytes = std::mem::take(&mut self.current);
        if !bytes.is_empty() {
            if bytes.len() < bytes.capacity() / 4 * 3 {
                bytes.shrink_to_fit();
            }
            self.pieces.push(Piece::read(bytes));
        }
    }
}
