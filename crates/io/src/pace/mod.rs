//! Limits the rate at which background work reads and writes bytes.
//!
//! A token bucket is refilled once per period with the bytes of one period. Bytes that were not
//! used in the previous period are dropped, so that a pause is followed by a burst of at most one
//! period's bytes. A request that finds too few bytes in the bucket waits in the queue of its
//! priority. Each refill is granted to the requests at the front of the queues. A request that is
//! granted only a part of its bytes keeps its position in the queue.
//!
//! The order of the queues is RocksDB's. User requests always come first. Among the others, the
//! higher priority usually comes first, but in one of `fairness` refills it comes after the lower
//! ones, so that no request waits forever.
//!
//! No separate thread refills the bucket. One of the waiting threads sleeps until the next refill
//! is due, and then performs it for all.
//!
//! The rate is fixed, or adjusted to how often requests have to wait (`tuning`).
//!
//! Source: `util/rate_limiter.cc`.

mod counted;
mod queues;
#[cfg(test)]
mod tests;
mod tuning;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, MutexGuard};

use crate::clock::{Clock, SystemClock};
use crate::sync::{Condvar, Mutex};

pub use counted::{CountedLimiter, RequestCounts};
use queues::Queues;
use tuning::Tuning;

/// Default period of refills, in microseconds. Same as in RocksDB.
const REFILL_PERIOD_US: u64 = 100_000;

/// Default fairness ([`RateLimiter::with_fairness`]). Same as in RocksDB.
const FAIRNESS: u32 = 10;

/// Maximum fairness. Same as in RocksDB.
const FAIRNESS_MAX: u32 = 100;

/// The priority of a request. A variant is more urgent than those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Priority {
    /// Work that can wait, such as a compaction.
    Low,
    /// Work that few operations wait for.
    Mid,
    /// Work that writers will soon wait for, such as a flush.
    High,
    /// Work that a user waits for.
    User,
}

impl Priority {
    /// Number of priorities.
    pub const COUNT: usize = 4;
}

/// What the bytes of a request are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OpType {
    /// They are read.
    Read,
    /// They are written.
    Write,
}

/// Which requests a rate limiter limits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Reads only.
    ReadsOnly,
    /// Writes only. The default, as in RocksDB.
    #[default]
    WritesOnly,
    /// Reads and writes, together.
    AllIo,
}

impl Mode {
    /// Whether requests of this type are limited.
    pub fn limits(self, op_type: OpType) -> bool {
        match op_type {
            OpType::Read => self != Self::WritesOnly,
            OpType::Write => self != Self::ReadsOnly,
        }
    }
}

/// A token bucket that limits a rate in bytes per second. Safe to use from any thread.
///
/// ```
/// use tailwater_io::pace::{Priority, RateLimiter};
///
/// // 16 MiB per second, in refills every 50 ms, for `tailwater::OpenOptions::set_rate_limiter`.
/// let limiter = RateLimiter::new(16 << 20).with_refill_period(50_000);
/// limiter.request(4096, Priority::Low);
/// assert_eq!(limiter.granted(Priority::Low), 4096);
/// limiter.set_bytes_per_second(32 << 20);
/// ```
#[derive(Debug)]
pub struct RateLimiter {
    clock: Arc<dyn Clock>,
    mode: Mode,
    period_ns: u64,
    bytes_per_second: AtomicU64,
    /// Maximum number of bytes that are granted together; 0 means those of one refill.
    single_burst_bytes: AtomicU64,
    state: Mutex<State>,
    /// Notified after a refill, and when the thread that slept until the next refill has stopped
    /// sleeping.
    changed: Condvar,
    granted: [AtomicU64; Priority::COUNT],
    requests: [AtomicU64; Priority::COUNT],
}

#[derive(Debug)]
struct State {
    available: u64,
    next_fill_ns: u64,
    /// Whether a thread sleeps until the next refill of `available` is due.
    filler_waits: bool,
    queues: Queues,
    /// `None` if the rate is fixed.
    tuning: Option<Tuning>,
}

impl RateLimiter {
    /// Creates a limiter of `bytes_per_second`, with RocksDB's defaults: only writes are limited,
    /// at a fixed rate, with a refill every 100 ms, and fairness 10.
    pub fn new(bytes_per_second: u64) -> Self {
        let state = State {
            available: 0,
            next_fill_ns: 0,
            filler_waits: false,
            // The same calls make the same choices, so that tests are reproducible.
            queues: Queues::new(FAIRNESS, bytes_per_second),
            tuning: None,
        };
        Self {
            clock: Arc::new(SystemClock),
            mode: Mode::default(),
            period_ns: REFILL_PERIOD_US * 1000,
            bytes_per_second: AtomicU64::new(bytes_per_second),
            single_burst_bytes: AtomicU64::new(0),
            state: Mutex::new(state),
            changed: Condvar::new(),
            granted: [const { AtomicU64::new(0) }; Priority::COUNT],
            requests: [const { AtomicU64::new(0) }; Priority::COUNT],
        }
    }

    /// Sets the period of refills, in microseconds. Zero counts as one. A longer period makes
    /// larger bursts; a shorter one wakes waiting threads more often.
    #[must_use]
    pub fn with_refill_period(mut self, refill_period_us: u64) -> Self {
        self.period_ns = refill_period_us.max(1).saturating_mul(1000);
        self
    }

    /// Sets the fairness: on average, `Mid` is served after `Low` in one of `fairness` refills, and
    /// `High` after both. `User` is always served first. The value is clamped to 1 to 100; 1 means
    /// every refill.
    #[must_use]
    pub fn with_fairness(mut self, fairness: u32) -> Self {
        self.state.get_mut().queues.set_fairness(fairness.clamp(1, FAIRNESS_MAX));
        self
    }

    /// Sets which requests are limited.
    #[must_use]
    pub fn with_mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// Makes the limiter adjust its rate to the demand, between a twentieth of the rate and the
    /// rate with which it was created. It begins with half of it. Every 100 refill periods, the
    /// rate is lowered by 5 % if requests had to wait in less than 50 % of them, and raised by 5 %
    /// if in more than 90 %. If none had to wait, the rate becomes the lowest.
    #[must_use]
    pub fn with_auto_tuning(mut self) -> Self {
        let most = self.bytes_per_second();
        self.bytes_per_second = AtomicU64::new(most / 2);
        self.state.get_mut().tuning = Some(Tuning::new(most));
        self
    }

    /// Sets the clock, which is the system's by default.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Waits until `bytes`, which are to be written, have been granted. A request that exceeds one
    /// burst is split into parts, so that other requests are granted between the parts.
    pub fn request(&self, bytes: u64, priority: Priority) {
        self.request_of(OpType::Write, bytes, priority);
    }

    /// Like [`Self::request`], for bytes that are read or written. Returns immediately if the
    /// limiter's mode excludes the request.
    pub fn request_of(&self, op_type: OpType, bytes: u64, priority: Priority) {
        self.request_counted(op_type, bytes, priority, None);
    }

    fn request_counted(
        &self,
        op_type: OpType,
        bytes: u64,
        priority: Priority,
        counts: Option<&dyn RequestCounts>,
    ) {
        if !self.mode.limits(op_type) {
            return;
        }
        let mut left = bytes;
        while left > 0 {
            let part = left.min(self.single_burst_bytes());
            let waited_us = self.request_part(part, priority, counts);
            if let Some(counts) = counts {
                counts.granted(op_type, part, waited_us);
            }
            left -= part;
        }
        self.granted[priority as usize].fetch_add(bytes, Relaxed);
    }

    /// Returns which requests are limited.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Returns the rate in bytes per second. If it is tuned, it changes.
    pub fn bytes_per_second(&self) -> u64 {
        self.bytes_per_second.load(Relaxed)
    }

    /// Changes the rate, beginning with the next refill. The range of a tuned rate stays as it is.
    pub fn set_bytes_per_second(&self, bytes_per_second: u64) {
        self.bytes_per_second.store(bytes_per_second, Relaxed);
    }

    /// Returns the maximum number of bytes that are granted together.
    pub fn single_burst_bytes(&self) -> u64 {
        match self.single_burst_bytes.load(Relaxed) {
            0 => self.bytes_per_fill(),
            set => set,
        }
    }

    /// Sets the maximum number of bytes that are granted together; 0, the default, means those of
    /// one refill.
    pub fn set_single_burst_bytes(&self, bytes: u64) {
        self.single_burst_bytes.store(bytes, Relaxed);
    }

    /// Returns the number of bytes granted to requests of a priority so far.
    pub fn granted(&self, priority: Priority) -> u64 {
        self.granted[priority as usize].load(Relaxed)
    }

    /// Returns the number of requests of a priority so far. A request that is split counts once for
    /// each part.
    pub fn requests(&self, priority: Priority) -> u64 {
        self.requests[priority as usize].load(Relaxed)
    }

    /// Returns the number of requests of a priority that wait.
    pub fn pending_requests(&self, priority: Priority) -> usize {
        self.state.lock().queues.waiting(priority)
    }

    /// Returns the number of bytes of one refill. It is at least one, so that no request waits
    /// forever.
    fn bytes_per_fill(&self) -> u64 {
        let bytes = u128::from(self.bytes_per_second()) * u128::from(self.period_ns);
        u64::try_from(bytes / 1_000_000_000).unwrap_or(u64::MAX).max(1)
    }

    /// Waits until `bytes`, at most one burst, are granted. Returns the duration of the wait in
    /// microseconds; `None` if the bytes were granted at once.
    fn request_part(
        &self,
        bytes: u64,
        priority: Priority,
        counts: Option<&dyn RequestCounts>,
    ) -> Option<u64> {
        self.requests[priority as usize].fetch_add(1, Relaxed);
        let mut state = self.state.lock();
        self.tune_if_due(&mut state);
        self.fill_if_due(&mut state);
        if state.available >= bytes && state.queues.are_empty() {
            state.available -= bytes;
            return None;
        }
        let ticket = state.queues.push(priority, bytes);
        state.give_out();
        let mut waits_since_ns = None;
        while state.queues.is_waiting(ticket, priority) {
            waits_since_ns.get_or_insert_with(|| self.clock.monotonic_ns());
            if state.filler_waits {
                state = self.changed.wait(state);
            } else {
                if let Some(counts) = counts {
                    counts.drained();
                }
                state = self.sleep_until_fill(state, ticket, priority);
            }
        }
        drop(state);
        waits_since_ns.map(|since_ns| self.clock.monotonic_ns().saturating_sub(since_ns) / 1000)
    }

    /// Sleeps until the next refill is due, and performs it. To be called by one of the waiting
    /// threads, whose request has this ticket and priority.
    fn sleep_until_fill<'s>(
        &'s self,
        mut state: MutexGuard<'s, State>,
        ticket: u64,
        priority: Priority,
    ) -> MutexGuard<'s, State> {
        if let Some(tuning) = &mut state.tuning {
            tuning.count_drain();
        }
        state.filler_waits = true;
        let due = state.next_fill_ns;
        drop(state);
        let filler = Filler { limiter: self, ticket, priority };
        self.clock.sleep_until(due);
        std::mem::forget(filler);
        let mut state = self.state.lock();
        state.filler_waits = false;
        self.fill_if_due(&mut state);
        // Wakes the other threads: those whose requests were granted return, and one of the rest
        // sleeps until the next refill.
        self.changed.notify_all();
        state
    }

    fn fill_if_due(&self, state: &mut State) {
        let now = self.clock.monotonic_ns();
        if now >= state.next_fill_ns {
            state.available = self.bytes_per_fill();
            state.next_fill_ns = now.saturating_add(self.period_ns);
            state.give_out();
        }
    }

    fn tune_if_due(&self, state: &mut State) {
        if let Some(tuning) = &mut state.tuning {
            let rate = self.bytes_per_second();
            let tuned = tuning.tune(self.clock.monotonic_ns(), self.period_ns, rate);
            if tuned != rate {
                self.set_bytes_per_second(tuned);
            }
        }
    }
}

/// A guard of the thread that sleeps until the next refill. Normally the thread forgets the guard
/// afterwards. If the clock panics, the guard is dropped: the drop removes the thread's request
/// from the queue and lets another thread sleep.
struct Filler<'l> {
    limiter: &'l RateLimiter,
    ticket: u64,
    priority: Priority,
}

impl Drop for Filler<'_> {
    fn drop(&mut self) {
        let mut state = self.limiter.state.lock();
        state.filler_waits = false;
        state.queues.remove(self.ticket, self.priority);
        drop(state);
        self.limiter.changed.notify_all();
    }
}

impl State {
    /// Grants the available bytes to the waiting requests.
    fn give_out(&mut self) {
        self.available = self.queues.give_out(self.available);
    }
}
