//! The reply to a poll, while it is written.
//!
//! A reply is a sequence of extents. An extent is the result of one read of the log: some batches,
//! or a single large one. Its bytes are in memory (held), or are read when it is their turn. Since
//! a read of the same offsets returns the same bytes, the reply can also give back the memory of
//! an extent, and read it again later.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tailwater_log::{Partition, Polled};
use tokio::time::{Instant, sleep_until};

use super::extent::Extent;
use crate::command::{Body, Content, POLL_HEADER_BYTES};
use crate::in_flight::{InFlight, PATIENCE, Progress, Reservation, SMALL_BYTES, UNCOUNTED_BYTES};

/// Time for which a reply that is being written may occupy memory of the log's tail.
const TAIL_MAX: Duration = Duration::from_secs(1);
/// Number of bytes that a reply keeps when it gives back its memory. When the client has read them,
/// the reply reads the next ones from the log.
const KEPT_BYTES: usize = UNCOUNTED_BYTES;

/// The messages that a poll returns.
#[derive(Debug)]
pub(crate) struct PollReply {
    partition: Arc<Partition>,
    incarnation: u64,
    /// Offset of the partition's last message; `None` if there is none.
    partition_last_offset: Option<u64>,
    /// Offset after the last message of the reply.
    end_offset: u64,
    /// Number of messages.
    count: u32,
    /// Total length of the batches, in bytes.
    length: usize,
    /// The extents that are not completely written.
    extents: VecDeque<Extent>,
    /// The progress of the client that reads the reply.
    progress: Arc<Progress>,
    reservation: Option<Reservation>,
    /// Time from which the reply may no longer occupy memory of the log's tail.
    tail_until: Instant,
}

/// The reason why a reply must give back memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Release {
    /// Others wait for the memory, and the client does not keep up.
    Revoked,
    /// The reply has occupied memory of the log's tail for too long.
    Tail,
}

/// The error that messages of a reply were not read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unread {
    /// The process has too many files open. The messages can be read later.
    OutOfDescriptors,
    /// The messages cannot be read, so that the reply cannot be completed.
    Unreadable,
}

/// Returns the encoded start of a reply's body.
fn header(partition: u32, last_offset: Option<u64>, count: u32) -> [u8; POLL_HEADER_BYTES] {
    let mut header = [0; POLL_HEADER_BYTES];
    header[..4].copy_from_slice(&partition.to_le_bytes());
    header[4..12].copy_from_slice(&last_offset.unwrap_or(0).to_le_bytes());
    header[12..].copy_from_slice(&count.to_le_bytes());
    header
}

/// Returns the body of a reply without messages.
pub(super) fn empty_body(partition: u32) -> Body {
    Body::from(header(partition, None, 0).to_vec())
}

impl PollReply {
    /// Creates a reply without messages.
    pub(super) fn new(partition: &Arc<Partition>) -> Self {
        Self {
            partition: Arc::clone(partition),
            incarnation: 0,
            partition_last_offset: None,
            end_offset: 0,
            count: 0,
            length: 0,
            extents: VecDeque::new(),
            progress: Arc::new(Progress::new(PATIENCE)),
            reservation: None,
            tail_until: Instant::now() + TAIL_MAX,
        }
    }

    pub(super) fn partition(&self) -> &Arc<Partition> {
        &self.partition
    }

    pub(super) fn incarnation(&self) -> u64 {
        self.incarnation
    }

    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// Returns the total length of the batches, in bytes.
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    /// Returns the offset of the last message; `None` if there is no message.
    pub(super) fn last_polled_offset(&self) -> Option<u64> {
        self.end_offset.checked_sub(1).filter(|_| self.count > 0)
    }

    /// Returns the offset at which more messages can be read; `None` if there are none.
    pub(super) fn more_from(&self) -> Option<u64> {
        let end = self.end_offset;
        let has_more = self.partition_last_offset.is_some_and(|last| last >= end);
        (self.count > 0 && has_more).then_some(end)
    }

    /// Adds the result of a read. The messages follow those of the reply.
    pub(super) fn add(&mut self, polled: Polled) {
        (self.incarnation, self.partition_last_offset) =
            (polled.incarnation, polled.partition_last_offset);
        if polled.count > 0 {
            self.end_offset = polled.end_offset();
            self.count += polled.count;
            self.length += polled.length();
            self.extents.push_back(Extent::new(polled));
        }
    }

    /// Returns the body of the reply.
    pub(super) fn into_body(mut self, partition: u32) -> Body {
        self.tail_until = Instant::now() + TAIL_MAX;
        let header = header(partition, self.partition_last_offset, self.count);
        Body { content: Content::Polled { header, reply: Box::new(self) }, reservation: None }
    }

    /// Returns the number of bytes in memory that count towards the memory for replies.
    pub(super) fn counted_bytes(&self) -> usize {
        self.extents.iter().map(Extent::counted_bytes).sum()
    }

    /// Reserves `bytes` bytes in total, without waiting. If too little memory is free, changes
    /// nothing and returns false.
    pub(super) fn try_reserve(&mut self, in_flight: &InFlight, bytes: usize) -> bool {
        // The size of the whole reply determines the share.
        let size = bytes.max(self.length);
        let grow = |reservation: &mut Reservation| match size > SMALL_BYTES {
            true => reservation.try_grow_within_reason(bytes),
            false => reservation.try_grow(bytes),
        };
        let mut other = in_flight.reply(size, &self.progress);
        if let Some(same) = &mut self.reservation
            && same.is_in_share_of(&other)
        {
            return grow(same);
        }
        let is_reserved = grow(&mut other);
        if is_reserved {
            self.reservation = Some(other);
        }
        is_reserved
    }

    /// Reserves `bytes` bytes; waits until the memory is free. The reply must not hold memory.
    pub(super) async fn reserve(&mut self, in_flight: &InFlight, bytes: usize) {
        let other = in_flight.reply(bytes.max(self.length), &self.progress);
        let same = self.reservation.take().filter(|same| same.is_in_share_of(&other));
        self.reservation.insert(same.unwrap_or(other)).grow(bytes).await;
    }

    /// Gives back reserved memory that the reply does not use.
    pub(super) fn reserve_only_held(&mut self) {
        let bytes = self.counted_bytes();
        if bytes <= UNCOUNTED_BYTES {
            self.reservation = None;
        } else if let Some(reservation) = &mut self.reservation {
            reservation.shrink(bytes);
        }
    }

    /// Returns the progress of the client that reads the reply.
    pub(crate) fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }

    /// Returns the next bytes to be written, in order, as far as they are held.
    pub(crate) fn held(&self) -> impl Iterator<Item = &[u8]> {
        let held = self.extents.iter().map_while(|extent| extent.held.as_ref());
        held.flat_map(|held| held.slices())
    }

    /// Returns whether all bytes are written.
    pub(crate) fn is_done(&self) -> bool {
        self.extents.is_empty()
    }

    /// Returns whether the next bytes to be written are held.
    pub(crate) fn is_next_held(&self) -> bool {
        self.extents.front().is_none_or(|extent| extent.held.is_some())
    }

    /// Drops the next `bytes` bytes, which have been written, and gives back their memory.
    pub(crate) fn advance(&mut self, mut bytes: usize) {
        while let Some(first) = self.extents.front_mut()
            && bytes > 0
        {
            let written = bytes.min(first.rest.len());
            bytes -= written;
            first.advance(written);
            if first.rest.is_empty() {
                self.extents.pop_front();
            }
        }
        self.reserve_only_held();
    }

    /// Waits until the reply must give back memory. The caller must then call [`Self::release`].
    pub(crate) async fn must_release(&self) -> Release {
        let is_in_tail = self.extents.iter().any(Extent::is_in_tail);
        let revoked = async {
            match &self.reservation {
                Some(reservation) => reservation.revoked().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = revoked => Release::Revoked,
            () = sleep_until(self.tail_until), if is_in_tail => Release::Tail,
        }
    }

    /// Gives back memory. If the reply only has to leave the log's tail and memory is free, it
    /// copies its messages. Otherwise it keeps a few bytes, and reads the others again later.
    pub(crate) async fn release(&mut self, in_flight: &InFlight, release: Release) {
        let held = self.extents.iter().filter(|extent| extent.held.is_some());
        let bytes = held.map(|extent| extent.rest.len()).sum();
        if release == Release::Tail && self.try_reserve(in_flight, bytes) {
            for extent in self.extents.iter_mut().filter(|extent| extent.is_in_tail()) {
                extent.keep_copy(usize::MAX).await;
            }
            return;
        }
        self.release_after_first();
        if let Some(first) = self.extents.front_mut()
            && let Some(rest) = first.keep_copy(KEPT_BYTES).await
        {
            self.extents.insert(1, rest);
        }
        self.reservation = None;
    }

    fn release_after_first(&mut self) {
        self.extents.iter_mut().skip(1).for_each(|extent| extent.held = None);
    }

    /// Reads the next bytes to be written. Reserves their memory before, and waits until it is
    /// free.
    ///
    /// # Errors
    /// The messages cannot be read, for example because they were removed in the meantime. If they
    /// can be read later, the call can be repeated, and no memory is reserved for them until then.
    pub(crate) async fn hold_next(&mut self, in_flight: &InFlight) -> Result<(), Unread> {
        let (partition, incarnation) = (Arc::clone(&self.partition), self.incarnation);
        let Some(first) = self.extents.front_mut() else { return Ok(()) };
        if first.hold_from_tail(&partition, incarnation) {
            return Ok(());
        }
        let bytes = first.bytes_to_read();
        let all = self.counted_bytes() + bytes;
        if !self.try_reserve(in_flight, all) {
            // A reply must not wait while it holds memory, so that replies do not wait for each
            // other forever.
            self.release_after_first();
            self.reservation = None;
            self.reserve(in_flight, bytes).await;
        }
        let Some(first) = self.extents.front_mut() else { return Ok(()) };
        match first.hold_from_segments(&partition, incarnation, in_flight).await {
            Ok(rest) => {
                rest.into_iter().for_each(|rest| self.extents.insert(1, rest));
                Ok(())
            }
            Err(error) => {
                self.reserve_only_held();
                Err(error)
            }
        }
    }
}
