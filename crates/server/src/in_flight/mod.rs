//! The memory of requests and replies: who pays for it, when, and from which share.
//!
//! # Shares
//!
//! `limits.in_flight_bytes_max` is divided into five shares. A share that is used up does not
//! affect the others, so large requests and replies never take the memory of small ones:
//!
//! | share | part of the limit | pays for |
//! |---|---|---|
//! | large requests | 1/2 | bodies of more than [`SMALL_BYTES`] |
//! | small requests | 1/16 | bodies of more than [`SHORT_BYTES`] |
//! | short requests | 1/16 | other bodies |
//! | large replies | 1/4 | replies of more than [`SMALL_BYTES`] |
//! | small replies | 1/8 | other replies |
//!
//! Requests and replies of up to [`UNCOUNTED_BYTES`] are not counted, because they fit into the
//! buffers of a connection: logins and small commands never wait. Messages that a poll finds in the
//! log's tail are not counted either, because the tail has a limit of its own.
//!
//! # Requests
//!
//! 1. The header, and the first bytes of a body that name the target of a batch, are not counted. A
//!    request that can be refused after them (because its user lacks the permission, for example)
//!    is answered at once. Its body is then read and discarded, which takes no memory.
//! 2. Any other body is paid for as it arrives: the connection reads bytes only into memory that is
//!    already reserved, and reserves little more than has arrived.
//! 3. If the share is used up, the request waits and keeps what it has. So that requests do not
//!    wait for each other forever, part of the share is a *lane* with memory for the largest
//!    request. The lane belongs to one waiting request at a time, from when it gets the lane until
//!    it is done.
//!
//! # Replies
//!
//! A poll reserves memory before it reads messages from a segment, and holds each of their bytes
//! once. A batch that is too large for the free memory is not held as a whole, but read and sent in
//! parts of [`SMALL_BYTES`]. Only a few of these reads are made concurrently, so that smaller reads
//! wait neither for a processor nor for the device. Messages that such a read finds within a batch
//! are reserved after it. Other replies are reserved when their size is known, and those that are
//! usually large before they are built.
//!
//! # Losing memory
//!
//! A holder that waits for its client, or for the log, loses its memory before others wait: when a
//! request or reply finds its share used up, reservations of the share are revoked, beginning with
//! the one that is the furthest behind the slowest permitted rate ([`Progress`]). What happens then
//! depends on the holder:
//!
//! - A body that has not arrived completely, or a batch that waits for space in the log, is
//!   discarded, and the request is answered with status 58: the client repeats it.
//! - The rest of the reply to a poll is read from the log again when its client continues to read.
//! - The connection of any other reply is closed.
//!
//! A holder that keeps up with that rate is left alone, and so is one that waits for memory
//! itself.

mod pool;
mod progress;
#[cfg(test)]
mod tests;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::JoinError;

use pool::Pool;
pub(crate) use pool::Reservation;
pub(crate) use progress::Progress;

/// Requests and replies of up to this many bytes are not counted in [`InFlight`]. The limit on the
/// number of connections also limits the total size of such requests and replies.
pub(crate) const UNCOUNTED_BYTES: usize = 16 << 10;
/// Size up to which requests and replies count as small, in bytes.
pub(crate) const SMALL_BYTES: usize = 1 << 20;
/// Size up to which requests count as short, in bytes.
const SHORT_BYTES: usize = 128 << 10;
/// Time that a transfer may be behind the slowest permitted rate before its memory can be revoked.
pub(crate) const PATIENCE: Duration = Duration::from_millis(100);
/// Like [`PATIENCE`], for replies that cannot be read again. If the memory of such a reply is
/// revoked, its connection is closed.
const BULK_PATIENCE: Duration = Duration::from_secs(5);

/// Maximum number of reads of segments that are made concurrently. They wait for descriptors, for
/// buffers and for the device, and must leave threads that may block for other work: tokio has 512.
const READS_MAX: usize = 256;

/// Returns the number of large reads that are made concurrently: one for each processor.
fn large_reads_max() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

/// The memory of requests and replies, in five shares.
#[derive(Debug)]
pub(crate) struct InFlight {
    large_requests: Arc<Pool>,
    small_requests: Arc<Pool>,
    short_requests: Arc<Pool>,
    large_replies: Arc<Pool>,
    small_replies: Arc<Pool>,
    /// Has a permit for each read of a large batch, or of a part of one, that may be made now.
    large_reads: Semaphore,
    /// Has a permit for each read of segments that may be made now.
    reads: Arc<Semaphore>,
}

impl InFlight {
    /// Creates a limit of `bytes_max` bytes. `request_bytes_max` is the size of the largest
    /// request.
    pub(crate) fn new(bytes_max: usize, request_bytes_max: usize) -> Self {
        let (half, eighth) = (bytes_max / 2, bytes_max / 8);
        Self {
            large_requests: Arc::new(Pool::new(half, request_bytes_max)),
            small_requests: Arc::new(Pool::new(eighth / 2, SMALL_BYTES.min(request_bytes_max))),
            short_requests: Arc::new(Pool::new(eighth / 2, SHORT_BYTES.min(request_bytes_max))),
            small_replies: Arc::new(Pool::new(eighth, 0)),
            large_replies: Arc::new(Pool::new(bytes_max - half - 2 * eighth, 0)),
            large_reads: Semaphore::new(large_reads_max()),
            reads: Arc::new(Semaphore::new(READS_MAX)),
        }
    }

    /// Reads segments, on a thread that may block.
    ///
    /// # Errors
    /// The read panicked.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, JoinError> {
        // It cannot fail, because the semaphore is never closed.
        let permit = Arc::clone(&self.reads).acquire_owned().await.ok();
        tokio::task::spawn_blocking(move || {
            let _permit = permit;
            read()
        })
        .await
    }

    /// Waits for the turn to read a large batch, or a part of one. The turn ends when the returned
    /// value is dropped.
    pub(crate) async fn large_read(&self) -> Option<SemaphorePermit<'_>> {
        // It cannot fail, because the semaphore is never closed.
        self.large_reads.acquire().await.ok()
    }

    /// Returns an empty reservation for a request with a body of `bytes` bytes; `None` if the
    /// request is too small to be counted.
    pub(crate) fn request(&self, bytes: usize) -> Option<Reservation> {
        let pool = match () {
            () if bytes <= SHORT_BYTES => &self.short_requests,
            () if bytes <= SMALL_BYTES => &self.small_requests,
            () => &self.large_requests,
        };
        let reservation = || Reservation::new(pool, Arc::new(Progress::new(PATIENCE)));
        (bytes > UNCOUNTED_BYTES).then(reservation)
    }

    /// Returns an empty reservation for a reply of `bytes` bytes. `progress` is the progress of its
    /// client.
    pub(crate) fn reply(&self, bytes: usize, progress: &Arc<Progress>) -> Reservation {
        let pool = if bytes > SMALL_BYTES { &self.large_replies } else { &self.small_replies };
        Reservation::new(pool, Arc::clone(progress))
    }

    /// Returns an empty reservation for a reply of `bytes` bytes that cannot be read again.
    pub(crate) fn bulk_reply(&self, bytes: usize) -> Reservation {
        self.reply(bytes, &Arc::new(Progress::new(BULK_PATIENCE)))
    }

    /// Returns the number of reserved bytes.
    pub(crate) fn bytes(&self) -> usize {
        let requests = [&self.large_requests, &self.small_requests, &self.short_requests];
        let replies = [&self.large_replies, &self.small_replies];
        requests.iter().chain(&replies).map(|pool| pool.bytes()).sum()
    }
}
