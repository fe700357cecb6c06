//! The parts of a reply to a poll, and how they are read again.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use tailwater_log::{ErrorKind, Partition, Piece, Polled, StoredBatch, Strategy};
use tokio::task::yield_now;
use tracing::warn;

use super::reply::Unread;
use crate::in_flight::{InFlight, SMALL_BYTES};

/// Maximum size of the messages that one read of the log returns, in bytes.
pub(super) const READ_BYTES: usize = SMALL_BYTES;
/// Number of bytes after which a copy yields to other tasks.
const COPIED_AT_ONCE: usize = 1 << 20;

/// The result of one read of the log, or a part of its bytes: some batches, or one large batch.
#[derive(Debug)]
pub(super) struct Extent {
    first_offset: u64,
    /// Number of messages of the read.
    count: u32,
    /// Length of the whole result of the read, in bytes.
    length: usize,
    /// The bytes that are still to be written, as a range in the result of the read.
    pub(super) rest: Range<usize>,
    /// The bytes in `rest`, if they are in memory. If not, they must be read again.
    pub(super) held: Option<Held>,
    /// The batch of which the bytes are a part, if it was too large to be read as a whole.
    stored: Option<StoredBatch>,
}

impl Extent {
    /// Creates an extent with the result of a read.
    pub(super) fn new(polled: Polled) -> Self {
        let (first_offset, count, length) = (polled.first_offset, polled.count, polled.length());
        let stored = polled.stored;
        let held = stored.is_none().then(|| Held::new(polled.pieces));
        Self { first_offset, count, length, rest: 0..length, held, stored }
    }

    /// Returns the number of bytes in memory that count towards the memory for replies.
    pub(super) fn counted_bytes(&self) -> usize {
        self.held.as_ref().map_or(0, Held::counted_bytes)
    }

    pub(super) fn is_in_tail(&self) -> bool {
        self.held.as_ref().is_some_and(Held::is_in_tail)
    }

    /// Drops the first `bytes` bytes, which have been written.
    pub(super) fn advance(&mut self, bytes: usize) {
        self.rest.start += bytes;
        if let Some(held) = &mut self.held {
            held.advance(bytes);
        }
    }

    /// Splits the extent after `bytes` bytes. Returns the second part, which is not held; `None` if
    /// it would be empty. The caller must replace the held bytes of the first part.
    fn split(&mut self, bytes: usize) -> Option<Self> {
        let second = self.rest.start + bytes..self.rest.end;
        self.rest.end = second.start.min(second.end);
        (!second.is_empty()).then(|| Self {
            rest: second,
            held: None,
            stored: self.stored.clone(),
            ..*self
        })
    }

    /// Replaces the held bytes by a copy of the first `bytes` of them. Returns the rest of the
    /// extent, which is not held.
    pub(super) async fn keep_copy(&mut self, bytes: usize) -> Option<Self> {
        let bytes = bytes.min(self.rest.len());
        let held = self.held.take()?;
        self.held = Some(Held::copied(held.copy(bytes).await));
        self.split(bytes)
    }

    /// Returns the number of bytes that [`Self::hold_from_segments`] reads.
    pub(super) fn bytes_to_read(&self) -> usize {
        let bytes = if self.stored.is_some() { self.rest.len() } else { self.length };
        bytes.min(READ_BYTES)
    }

    /// Reads the bytes from memory, if they are in the log's tail. Returns whether they are.
    pub(super) fn hold_from_tail(&mut self, partition: &Partition, incarnation: u64) -> bool {
        let strategy = Strategy::Offset(self.first_offset);
        match partition.poll_memory(strategy, self.count) {
            Ok(Some(polled)) if self.is_result(&polled, incarnation) => {
                self.hold(polled.pieces);
                true
            }
            _ => false,
        }
    }

    /// Reads the next [`READ_BYTES`] from segments; at the end, possibly fewer. Returns the rest of
    /// the extent, which is not held. The call waits for a thread that may block.
    ///
    /// # Errors
    /// The messages cannot be read, for example because they were removed in the meantime.
    pub(super) async fn hold_from_segments(
        &mut self,
        partition: &Arc<Partition>,
        incarnation: u64,
        in_flight: &InFlight,
    ) -> Result<Option<Self>, Unread> {
        let (strategy, count) = (Strategy::Offset(self.first_offset), self.count);
        if let Some(stored) = self.stored.clone() {
            match self.hold_part(partition, stored, in_flight).await {
                // The segment may have been replaced by a copy without gaps.
                Err(Unread::Unreadable) => self.stored = None,
                held => return held,
            }
        }
        let reading = Arc::clone(partition);
        let read = move || reading.poll_within(strategy, count, READ_BYTES);
        let polled = read_again(in_flight, read).await?;
        if !self.is_result(&polled, incarnation) {
            return Err(Unread::Unreadable);
        }
        if let Some(stored) = polled.stored {
            self.stored = Some(stored.clone());
            return self.hold_part(partition, stored, in_flight).await;
        }
        self.hold(polled.pieces);
        Ok(None)
    }

    /// Reads the next [`READ_BYTES`] of a stored batch, or fewer at its end. Returns the rest of
    /// the extent.
    async fn hold_part(
        &mut self,
        partition: &Arc<Partition>,
        stored: StoredBatch,
        in_flight: &InFlight,
    ) -> Result<Option<Self>, Unread> {
        let _turn = in_flight.large_read().await;
        let (reading, from) = (Arc::clone(partition), self.rest.start);
        let bytes_max = self.rest.len().min(READ_BYTES);
        let read = move || reading.read_stored(&stored, from, bytes_max);
        self.held = Some(Held::new(read_again(in_flight, read).await?));
        Ok(self.split(bytes_max))
    }

    /// Returns whether `polled` is the result of the same read as before.
    fn is_result(&self, polled: &Polled, incarnation: u64) -> bool {
        polled.incarnation == incarnation
            && polled.first_offset == self.first_offset
            && polled.count == self.count
            && polled.length() == self.length
    }

    /// Holds the bytes in `rest`. `pieces` are the whole result of the read.
    fn hold(&mut self, pieces: Vec<Piece>) {
        let mut held = Held::new(pieces);
        held.advance(self.rest.start);
        self.held = Some(held);
    }
}

/// Reads on a thread that may block. Logs an error.
async fn read_again<T: Send + 'static>(
    in_flight: &InFlight,
    read: impl FnOnce() -> tailwater_log::Result<T> + Send + 'static,
) -> Result<T, Unread> {
    let read = in_flight.read(read).await.map_err(|_| Unread::Unreadable)?;
    read.map_err(|error| match error.kind() {
        ErrorKind::OutOfDescriptors => Unread::OutOfDescriptors,
        _ => {
            warn!(%error, "messages of a reply cannot be read again");
            Unread::Unreadable
        }
    })
}

/// Bytes in memory that are still to be written.
#[derive(Debug)]
pub(super) struct Held {
    pieces: VecDeque<Piece>,
    /// Copied bytes, which come before the pieces.
    copy: Vec<u8>,
    /// Number of bytes that have already been written, at the start of the copy or, without a copy,
    /// of the first piece.
    skipped: usize,
}

impl Held {
    fn new(pieces: Vec<Piece>) -> Self {
        Self { pieces: pieces.into(), copy: Vec::new(), skipped: 0 }
    }

    fn copied(copy: Vec<u8>) -> Self {
        Self { pieces: VecDeque::new(), copy, skipped: 0 }
    }

    fn is_in_tail(&self) -> bool {
        self.pieces.iter().any(Piece::is_in_tail)
    }

    /// Returns the slices in order.
    pub(super) fn slices(&self) -> impl Iterator<Item = &[u8]> {
        let copy = Some(self.copy.as_slice()).filter(|copy| !copy.is_empty());
        let all = copy.into_iter().chain(self.pieces.iter().map(|piece| &**piece));
        all.enumerate().map(|(index, slice)| match index {
            0 => slice.get(self.skipped..).unwrap_or_default(),
            _ => slice,
        })
    }

    /// Drops the first `bytes` bytes, and the memory of pieces that are empty then.
    fn advance(&mut self, bytes: usize) {
        self.skipped += bytes;
        if !self.copy.is_empty() && self.skipped >= self.copy.len() {
            self.skipped -= self.copy.len();
            self.copy = Vec::new();
        }
        while self.copy.is_empty()
            && let Some(first) = self.pieces.front()
            && self.skipped >= first.len()
        {
            self.skipped -= first.len();
            self.pieces.pop_front();
        }
    }

    fn counted_bytes(&self) -> usize {
        let pieces = self.pieces.iter().filter(|piece| !piece.is_in_tail());
        pieces.map(|piece| piece.len()).sum::<usize>() + self.copy.len()
    }

    /// Copies the first `bytes` bytes. Yields to other tasks about every [`COPIED_AT_ONCE`] bytes.
    async fn copy(&self, bytes: usize) -> Vec<u8> {
        let mut copy = Vec::with_capacity(bytes);
        for part in self.slices().flat_map(|slice| slice.chunks(COPIED_AT_ONCE)) {
            copy.extend_from_slice(part.get(..bytes - copy.len()).unwrap_or(part));
            if part.len() == COPIED_AT_ONCE {
                yield_now().await;
            }
        }
        copy
    }
}
