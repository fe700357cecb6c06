//! Limits the total memory of requests and replies.
//!
//! The memory has three shares: half of it is for large requests, three eighths for replies, and an
//! eighth for small requests. A share that is used up does not affect the others. Requests and
//! replies that fit into the buffers of a connection are not counted, so that logins and small
//! commands never wait.
//!
//! A request or reply that is larger than its whole share waits until nothing else uses the share,
//! and then exceeds the share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Semaphore;

/// Requests and replies of up to this many bytes are not counted in [`InFlight`]. The limit on the
/// number of connections also limits the total size of such requests and replies.
pub(crate) const UNCOUNTED_BYTES: usize = 16 << 10;
/// Size up to which a request counts as small, in bytes.
const SMALL_BYTES: usize = 64 << 10;
/// The unit in which memory is reserved, in bytes.
const UNIT: usize = 1 << 10;

/// The memory of requests and replies, in three shares: for large requests, for small requests and
/// for replies.
#[derive(Debug)]
pub(crate) struct InFlight {
    large: Arc<Pool>,
    small: Arc<Pool>,
    replies: Arc<Pool>,
}

impl InFlight {
    /// Creates a limit of `bytes_max` bytes.
    pub(crate) fn new(bytes_max: usize) -> Self {
        let eighth = bytes_max / 8;
        let large = bytes_max / 2;
        Self {
            large: Arc::new(Pool::new(large)),
            small: Arc::new(Pool::new(eighth)),
            replies: Arc::new(Pool::new(bytes_max - large - eighth)),
        }
    }

    /// Waits until memory for a request of `bytes` bytes is reserved. Returns `None` for a request
    /// that is too small to be counted.
    pub(crate) async fn request(&self, bytes: usize) -> Option<Reservation> {
        let pool = if bytes > SMALL_BYTES { &self.large } else { &self.small };
        if bytes > UNCOUNTED_BYTES { Some(pool.reserve(bytes).await) } else { None }
    }

    /// Waits until memory for a reply of `bytes` bytes is reserved. Returns `None` for a reply that
    /// is too small to be counted.
    pub(crate) async fn reply(&self, bytes: usize) -> Option<Reservation> {
        if bytes > UNCOUNTED_BYTES { Some(self.replies.reserve(bytes).await) } else { None }
    }

    /// Returns the number of reserved bytes.
    pub(crate) fn bytes(&self) -> usize {
        [&self.large, &self.small, &self.replies].iter().map(|pool| pool.bytes()).sum()
    }
}

/// One of the three shares of the memory for requests and replies: the share for large requests,
/// for small requests, or for replies.
#[derive(Debug)]
struct Pool {
    units: Semaphore,
    units_max: usize,
    /// Number of requests or replies that are waiting for memory.
    waiting: AtomicUsize,
}

impl Pool {
    fn new(bytes_max: usize) -> Self {
        let units_max = (bytes_max / UNIT).clamp(1, u32::MAX as usize);
        Self { units: Semaphore::new(units_max), units_max, waiting: AtomicUsize::new(0) }
    }

    fn bytes(&self) -> usize {
        (self.units_max - self.units.available_permits().min(self.units_max)) * UNIT
    }

    /// Returns the number of [`UNIT`]s in `bytes` bytes, rounded up, but at most the size of this
    /// share.
    fn units_of(&self, bytes: usize) -> usize {
        bytes.div_ceil(UNIT).min(self.units_max)
    }

    /// Reserves `units` in this share without waiting. Returns false if fewer units are free.
    fn try_take(&self, units: usize) -> bool {
        let permit = self.units.try_acquire_many(u32::try_from(units).unwrap_or(u32::MAX));
        permit.map(|permit| permit.forget()).is_ok()
    }

    async fn reserve(self: &Arc<Self>, bytes: usize) -> Reservation {
        let mut units = self.units_of(bytes);
        if !self.try_take(units) {
            let _waiting = Waiting::new(&self.waiting);
            let wanted = u32::try_from(units).unwrap_or(u32::MAX);
            match self.units.acquire_many(wanted).await {
                Ok(permit) => permit.forget(),
                // This cannot happen, because the semaphore is never closed.
                Err(_) => units = 0,
            }
        }
        Reservation { pool: Arc::clone(self), units }
    }
}

/// Counts a request or reply as waiting until this value is dropped.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Memory that stays reserved until this value is dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    pool: Arc<Pool>,
    units: usize,
}

impl Reservation {
    /// Returns whether other requests or replies are waiting for memory of the share ([`Pool`]) to
    /// which this reservation belongs.
    pub(crate) fn is_wanted(&self) -> bool {
        self.pool.waiting.load(Ordering::Relaxed) > 0
    }

    /// Changes the size of the reservation to `bytes`, without waiting. If the reservation's share
    /// of the memory ([`Pool`]) has too little free memory, changes nothing and returns false.
    pub(crate) fn resize(&mut self, bytes: usize) -> bool {
        let units = self.pool.units_of(bytes);
        if units > self.units && !self.pool.try_take(units - self.units) {
            return false;
        }
        if units < self.units {
            self.pool.units.add_permits(self.units - units);
        }
        self.units = units;
        true
    }

    /// Grows the reservation to `bytes`, without waiting, if a quarter of its share of the memory
    /// ([`Pool`]) is still free afterwards. Otherwise changes nothing and returns false. The growth
    /// of large replies to slow clients is optional, so it leaves memory for other replies.
    pub(crate) fn grow(&mut self, bytes: usize) -> bool {
        let more = self.pool.units_of(bytes).saturating_sub(self.units);
        let free = self.pool.units.available_permits();
        free >= more + self.pool.units_max / 4 && self.resize(bytes)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.pool.units.add_permits(self.units);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    const SOON: Duration = Duration::from_millis(20);
    const MIB: usize = 1 << 20;

    #[tokio::test]
    async fn a_client_that_fills_one_share_delays_no_other_share() {
        let in_flight = InFlight::new(8 * MIB);
        let large = in_flight.request(4 * MIB).await.expect("counted");
        assert!(timeout(SOON, in_flight.request(MIB)).await.is_err(), "the share is full");
        assert!(!large.is_wanted(), "the waiting request was cancelled");
        let small = timeout(SOON, in_flight.request(SMALL_BYTES)).await.expect("another share");
        let reply = timeout(SOON, in_flight.reply(3 * MIB)).await.expect("another share");
        assert_eq!(in_flight.bytes(), 7 * MIB + SMALL_BYTES);
        assert!(in_flight.request(UNCOUNTED_BYTES).await.is_none());
        assert!(in_flight.reply(UNCOUNTED_BYTES).await.is_none());
        drop((large, small, reply));
        assert_eq!(in_flight.bytes(), 0);
    }

    #[tokio::test]
    async fn a_request_larger_than_its_share_takes_the_whole_share() {
        let in_flight = InFlight::new(MIB);
        let whole = timeout(SOON, in_flight.request(MIB)).await.expect("all of the share");
        assert_eq!(in_flight.bytes(), MIB / 2);
        let mut waiting = Box::pin(in_flight.request(100 << 10));
        assert!(timeout(SOON, &mut waiting).await.is_err());
        assert!(whole.as_ref().is_some_and(Reservation::is_wanted));
        drop(whole);
        timeout(SOON, waiting).await.expect("there is room");
    }

    #[tokio::test]
    async fn a_reservation_grows_only_within_the_free_share() {
        let in_flight = InFlight::new(8 * MIB);
        let mut one = in_flight.reply(MIB).await.expect("counted");
        let mut other = in_flight.reply(MIB).await.expect("counted");
        assert!(one.resize(2 * MIB));
        assert!(!other.resize(2 * MIB));
        assert_eq!(in_flight.bytes(), 3 * MIB);
        assert!(one.resize(10));
        assert!(other.resize(2 * MIB));
        assert_eq!(in_flight.bytes(), 2 * MIB + UNIT);
        drop(one);
        assert!(other.resize(9 * MIB), "all of the share");
        drop(other);
        assert_eq!(in_flight.bytes(), 0);
    }

    #[tokio::test]
    async fn a_growing_reply_leaves_a_quarter_of_the_share_free() {
        let in_flight = InFlight::new(8 * MIB);
        let mut room = in_flight.reply(MIB).await.expect("counted");
        assert!(room.grow(2 * MIB));
        assert!(!room.grow(2 * MIB + MIB / 2));
        assert_eq!(in_flight.bytes(), 2 * MIB, "it is unchanged");
    }
}
