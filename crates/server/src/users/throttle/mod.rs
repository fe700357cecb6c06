//! Slows down password guessing: after failed logins, later logins from the same address are
//! delayed.
//!
//! The failed attempts of an address are counted for a minute, beginning with the first failure. Up
//! to a limit, they cause no delay. Until the limit is reached, the number of attempts in flight is
//! at most the number of failures that are left before the limit. After that, the attempts of the
//! address run one after another, and each starts at least a second after the last failure.
//! Successful attempts cause no delay. A client with a wrong password therefore slows down other
//! clients with the same address, but does not lock them out.
//!
//! Addresses are hashed to a fixed number of slots, and addresses in the same slot count as one
//! address. The memory is therefore bounded, and nothing needs to be evicted. The hash function has
//! a random key, so that nobody can predict which addresses share a slot.

use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use tailwater_io::sync::Mutex;
use tokio::sync::Notify;

/// Duration for which failures of an address are counted, beginning with its first failure.
const WINDOW: Duration = Duration::from_secs(60);
/// Minimum time between a failure and the start of the next attempt, after the limit on failures is
/// reached.
pub(super) const DELAY: Duration = Duration::from_secs(1);
/// Number of slots to which addresses are hashed.
const SLOTS: usize = 1024;

/// Limits failed logins per address.
pub(super) struct Throttle {
    failures_max: u32,
    window: Duration,
    delay: Duration,
    hasher: RandomState,
    slots: Box<[Slot]>,
}

/// The login attempts from all addresses whose hash selects this slot.
#[derive(Default)]
struct Slot {
    attempts: Mutex<Attempts>,
    /// Notified when a waiting attempt may start.
    freed: Notify,
}

#[derive(Default)]
struct Attempts {
    in_flight: u32,
    /// Number of failures since the window began.
    failures: u32,
    /// End of the window in which failures are counted. The window begins with its first failure;
    /// `None` if there is no window.
    window_end: Option<Instant>,
    /// Earliest start of the next attempt; `None` if the limit on failures is not reached.
    next: Option<Instant>,
}

impl Throttle {
    /// Creates a throttle. After `failures_max` failed attempts from an address within a minute,
    /// further attempts from that address are delayed.
    pub(super) fn new(failures_max: u32) -> Self {
        Self::with_times(failures_max, WINDOW, DELAY)
    }

    fn with_times(failures_max: u32, window: Duration, delay: Duration) -> Self {
        let slots = (0..SLOTS).map(|_| Slot::default()).collect();
        Self { failures_max, window, delay, hasher: RandomState::new(), slots }
    }

    /// Waits until an attempt to log in from the address may start. The attempt is in flight until
    /// the returned value is dropped.
    pub(super) async fn begin(&self, address: IpAddr) -> Attempt<'_> {
        let slot = self.slot(address);
        loop {
            // The notification is created before the check. Otherwise the end of an attempt between
            // the check and the wait would be missed.
            let freed = slot.freed.notified();
            let started = slot.attempts.lock().start(self.failures_max, Instant::now());
            if let Some(started) = started {
                let attempt = Attempt { throttle: self, slot, address };
                if started.has_room {
                    slot.freed.notify_one();
                }
                if let Some(moment) = started.moment {
                    tokio::time::sleep_until(moment.into()).await;
                }
                return attempt;
            }
            freed.await;
        }
    }

    fn count_failure(&self, slot: &Slot, address: IpAddr) {
        let now = Instant::now();
        let mut attempts = slot.attempts.lock();
        attempts.forget_old_failures(now);
        attempts.failures = attempts.failures.saturating_add(1);
        attempts.window_end.get_or_insert(now + self.window);
        let is_first_beyond = attempts.failures == self.failures_max;
        if attempts.failures >= self.failures_max {
            attempts.next = Some(now + self.delay);
        }
        drop(attempts);
        if is_first_beyond {
            tracing::warn!(%address, failures = self.failures_max, "logins are delayed");
        }
    }

    fn slot(&self, address: IpAddr) -> &Slot {
        let hash = match address.to_canonical() {
            IpAddr::V4(address) => self.hasher.hash_one(address),
            // A host usually controls a whole /64 network of IPv6 addresses, so only the first 64
            // bits identify it.
            IpAddr::V6(address) => self.hasher.hash_one(&address.octets()[..8]),
        };
        &self.slots[hash as usize % SLOTS]
    }
}

/// Permission to start a login attempt.
struct Started {
    /// Time from which the attempt may start; `None` if it may start immediately.
    moment: Option<Instant>,
    /// Whether one more attempt may be in flight besides this one.
    has_room: bool,
}

impl Attempts {
    fn start(&mut self, failures_max: u32, now: Instant) -> Option<Started> {
        self.forget_old_failures(now);
        let in_flight_max = failures_max.saturating_sub(self.failures).max(1);
        if self.in_flight >= in_flight_max {
            return None;
        }
        self.in_flight += 1;
        Some(Started { moment: self.next, has_room: self.in_flight < in_flight_max })
    }

    fn forget_old_failures(&mut self, now: Instant) {
        if self.window_end.is_some_and(|end| end <= now) {
            (self.failures, self.window_end, self.next) = (0, None, None);
        }
    }
}

/// An attempt to log in. It is in flight until this value is dropped.
pub(super) struct Attempt<'a> {
    throttle: &'a Throttle,
    slot: &'a Slot,
    address: IpAddr,
}

impl Attempt<'_> {
    /// Ends the attempt, and counts it as a failure.
    pub(super) fn fail(self) {
        self.throttle.count_failure(self.slot, self.address);
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        self.slot.attempts.lock().in_flight -= 1;
        self.slot.freed.notify_one();
    }
}

impl fmt::Debug for Throttle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Throttle({} failures in {:?})", self.failures_max, self.window)
    }
}

#[cfg(test)]
mod tests;
