//! Slows down password guessing: after failed logins, refusals of logins from the same address are
//! delayed.
//!
//! The failed attempts of an address are counted for a minute, beginning with the first failure. Up
//! to a limit, they are refused at once. After that, the refusals of the address follow each other
//! at intervals of a second, but none is delayed by more than [`DELAY_MAX`]. An attempt that
//! succeeds is never delayed, so a client with a wrong password neither locks out nor slows down
//! other clients with the same address. The number of passwords that are checked is limited by the
//! threads that hash them ([`super::hashers`]), in whose queue the addresses take turns.
//!
//! Addresses are hashed to a fixed number of slots, and addresses in the same slot count as one
//! address. The memory is therefore bounded, and nothing needs to be evicted. The hash function has
//! a random key, so that nobody can predict which addresses share a slot.

use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::net::IpAddr;
use std::time::Duration;

use tailwater_io::sync::Mutex;
use tokio::time::{Instant, sleep_until};

use crate::host::Host;

/// Duration for which failures of an address are counted, beginning with its first failure.
const WINDOW: Duration = Duration::from_secs(60);
/// Time between two refusals of an address, after the limit on failures is reached.
const DELAY: Duration = Duration::from_secs(1);
/// Maximum time for which a refusal is delayed.
const DELAY_MAX: Duration = Duration::from_secs(5);
/// Number of slots to which addresses are hashed.
const SLOTS: usize = 1024;

/// Delays the refusals of failed logins per address.
pub(super) struct Throttle {
    failures_max: u32,
    hasher: RandomState,
    /// The failures of all addresses whose hash selects a slot.
    slots: Box<[Mutex<Failures>]>,
}

#[derive(Debug, Default)]
struct Failures {
    /// Number of failures since the window began.
    count: u32,
    /// End of the window in which failures are counted. The window begins with its first failure;
    /// `None` if there is no window.
    window_end: Option<Instant>,
    /// Time of the last refusal that was delayed; `None` if none was.
    last_refusal: Option<Instant>,
}

impl Throttle {
    /// Creates a throttle. After `failures_max` failed attempts from an address within a minute,
    /// refusals of further attempts from that address are delayed.
    pub(super) fn new(failures_max: u32) -> Self {
        let slots = (0..SLOTS).map(|_| Mutex::default()).collect();
        Self { failures_max, hasher: RandomState::new(), slots }
    }

    /// Counts a failed attempt from the address, and waits until it may be refused.
    pub(super) async fn delay_refusal(&self, address: IpAddr) {
        let now = Instant::now();
        let (count, refusal) = {
            let mut failures = self.slot(address).lock();
            let refusal = failures.add(self.failures_max, now);
            (failures.count, refusal)
        };
        if count == self.failures_max {
            tracing::warn!(%address, failures = count, "refusals of logins are delayed");
        }
        if let Some(refusal) = refusal {
            sleep_until(refusal).await;
        }
    }

    fn slot(&self, address: IpAddr) -> &Mutex<Failures> {
        &self.slots[self.hasher.hash_one(Host::of(address)) as usize % SLOTS]
    }
}

impl Failures {
    /// Counts a failure. Returns the time of its refusal; `None` if it may be refused at once.
    fn add(&mut self, failures_max: u32, now: Instant) -> Option<Instant> {
        if self.window_end.is_some_and(|end| end <= now) {
            *self = Self::default();
        }
        self.window_end.get_or_insert(now + WINDOW);
        self.count = self.count.saturating_add(1);
        if self.count <= failures_max {
            return None;
        }
        let next = self.last_refusal.map_or(now, |last| last.max(now)) + DELAY;
        self.last_refusal = Some(next.min(now + DELAY_MAX));
        self.last_refusal
    }
}

impl fmt::Debug for Throttle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Throttle({} failures in {WINDOW:?})", self.failures_max)
    }
}

#[cfg(test)]
mod tests;
