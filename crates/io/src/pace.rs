//! Limits the rate at which background work reads and writes bytes.
//!
//! A token bucket is refilled once per period with the bytes of one period. Bytes that were not
//! used in the previous period are dropped, so that a pause is followed by a burst of at most one
//! period's bytes. A request that finds too few bytes in the bucket waits in the queue of its
//! priority. Each refill is granted to the requests at the front of the queues. A request that is
//! granted only a part of its bytes keeps its position in the queue.
//!
//! The order of the queues is RocksDB's. User requests always come first. Among the others, the
//! higher priority usually comes first, but in one of `fairness` refills two adjacent priorities
//! are swapped, so that no request waits forever.
//!
//! No separate thread refills the bucket. One of the waiting threads sleeps until the next refill
//! is due, and then performs it for all.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::clock::{Clock, SystemClock};
use crate::sync::{Condvar, Mutex};

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
    period_ns: u64,
    bytes_per_second: AtomicU64,
    state: Mutex<State>,
    /// Notified after a refill, and when the thread that slept until the next refill has stopped
    /// sleeping.
    changed: Condvar,
    granted: [AtomicU64; Priority::COUNT],
}

#[derive(Debug)]
struct State {
    available: u64,
    next_fill_ns: u64,
    /// Whether a thread sleeps until the next refill of `available` is due.
    filler_waits: bool,
    /// The waiting requests, in one queue for each priority. Each queue is in the order of arrival.
    queues: [VecDeque<Waiting>; Priority::COUNT],
    next_ticket: u64,
    fairness: u32,
    /// Chooses the refills in which priorities are swapped.
    random: fastrand::Rng,
}

/// A request that has been granted none or only a part of its bytes.
#[derive(Debug)]
struct Waiting {
    ticket: u64,
    missing: u64,
}

impl RateLimiter {
    /// Creates a limiter of `bytes_per_second`, with RocksDB's defaults: a refill every 100 ms, and
    /// fairness 10.
    pub fn new(bytes_per_second: u64) -> Self {
        let state = State {
            available: 0,
            next_fill_ns: 0,
            filler_waits: false,
            queues: Default::default(),
            next_ticket: 0,
            fairness: FAIRNESS,
            // The same calls make the same choices, so that tests are reproducible.
            random: fastrand::Rng::with_seed(bytes_per_second),
        };
        Self {
            clock: Arc::new(SystemClock),
            period_ns: REFILL_PERIOD_US * 1000,
            bytes_per_second: AtomicU64::new(bytes_per_second),
            state: Mutex::new(state),
            changed: Condvar::new(),
            granted: [const { AtomicU64::new(0) }; Priority::COUNT],
        }
    }

    /// Sets the period of refills, in microseconds. Zero counts as one. A longer period makes
    /// larger bursts; a shorter one wakes waiting threads more often.
    #[must_use]
    pub fn with_refill_period(mut self, refill_period_us: u64) -> Self {
        self.period_ns = refill_period_us.max(1).saturating_mul(1000);
        self
    }

    /// Sets the fairness: on average, `Low` is served before `Mid` in one of `fairness` refills,
    /// and so is `Mid` before `High`. `User` is always served first. The value is clamped to 1
    /// to 100; 1 means every refill.
    #[must_use]
    pub fn with_fairness(self, fairness: u32) -> Self {
        self.state.lock().fairness = fairness.clamp(1, FAIRNESS_MAX);
        self
    }

    /// Sets the clock, which is the system's by default.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Waits until `bytes` have been granted. A request that exceeds one refill is split into
    /// parts, so that other requests are granted between the parts.
    pub fn request(&self, bytes: u64, priority: Priority) {
        let mut left = bytes;
        while left > 0 {
            let part = left.min(self.bytes_per_fill());
            self.request_part(part, priority);
            left -= part;
        }
        self.granted[priority as usize].fetch_add(bytes, Relaxed);
    }

    /// Returns the rate in bytes per second.
    pub fn bytes_per_second(&self) -> u64 {
        self.bytes_per_second.load(Relaxed)
    }

    /// Changes the rate, beginning with the next refill.
    pub fn set_bytes_per_second(&self, bytes_per_second: u64) {
        self.bytes_per_second.store(bytes_per_second, Relaxed);
    }

    /// Returns the number of bytes granted to requests of a priority so far.
    pub fn granted(&self, priority: Priority) -> u64 {
        self.granted[priority as usize].load(Relaxed)
    }

    /// Returns the number of bytes of one refill. It is at least one, so that no request waits
    /// forever.
    fn bytes_per_fill(&self) -> u64 {
        let bytes = u128::from(self.bytes_per_second()) * u128::from(self.period_ns);
        u64::try_from(bytes / 1_000_000_000).unwrap_or(u64::MAX).max(1)
    }

    fn request_part(&self, bytes: u64, priority: Priority) {
        let mut state = self.state.lock();
        self.fill_if_due(&mut state);
        if state.available >= bytes && state.queues.iter().all(VecDeque::is_empty) {
            state.available -= bytes;
            return;
        }
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        state.queues[priority as usize].push_back(Waiting { ticket, missing: bytes });
        state.give_out();
        while state.is_waiting(ticket, priority) {
            if state.filler_waits {
                state = self.changed.wait(state);
                continue;
            }
            state.filler_waits = true;
            let due = state.next_fill_ns;
            drop(state);
            let filler = Filler { limiter: self, ticket, priority };
            self.clock.sleep_until(due);
            std::mem::forget(filler);
            state = self.state.lock();
            state.filler_waits = false;
            self.fill_if_due(&mut state);
            // Wakes the other threads: those whose requests were granted return, and one of the
            // rest sleeps until the next refill.
            self.changed.notify_all();
        }
    }

    fn fill_if_due(&self, state: &mut State) {
        let now = self.clock.monotonic_ns();
        if now >= state.next_fill_ns {
            state.available = self.bytes_per_fill();
            state.next_fill_ns = now.saturating_add(self.period_ns);
            state.give_out();
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
        state.queues[self.priority as usize].retain(|waiting| waiting.ticket != self.ticket);
        drop(state);
        self.limiter.changed.notify_all();
    }
}

impl State {
    fn is_waiting(&self, ticket: u64, priority: Priority) -> bool {
        self.queues[priority as usize].iter().any(|waiting| waiting.ticket == ticket)
    }

    /// Grants the available bytes to the waiting requests. [`Self::order`] decides which priority's
    /// queue is served first; in each queue, the oldest request is first.
    fn give_out(&mut self) {
        for priority in self.order() {
            while let Some(first) = self.queues[priority as usize].front_mut() {
                let part = first.missing.min(self.available);
                first.missing -= part;
                self.available -= part;
                if first.missing > 0 {
                    return;
                }
                self.queues[priority as usize].pop_front();
            }
        }
    }

    /// Returns the order in which the queues are served at this refill.
    fn order(&mut self) -> [Priority; Priority::COUNT] {
        let mut order = [Priority::User, Priority::High, Priority::Mid, Priority::Low];
        // If both swaps happen, the first puts `Low` before `Mid`, and the second puts `Low` before
        // `High`.
        if self.random.u32(..self.fairness) == 0 {
            order.swap(2, 3);
        }
        if self.random.u32(..self.fairness) == 0 {
            order.swap(1, 2);
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::thread::{Scope, ScopedJoinHandle};

    use super::*;
    use crate::clock::ManualClock;

    const PERIOD_NS: u64 = 100_000_000;

    /// Returns a limiter of 1,000 bytes per refill.
    fn limiter(clock: &Arc<ManualClock>) -> RateLimiter {
        RateLimiter::new(10_000).with_clock(Arc::clone(clock) as Arc<dyn Clock>)
    }

    /// Makes a request in a new thread, and waits until the request is in its queue.
    fn queued<'scope>(
        scope: &'scope Scope<'scope, '_>,
        limiter: &'scope RateLimiter,
        bytes: u64,
        priority: Priority,
    ) -> ScopedJoinHandle<'scope, ()> {
        let before = limiter.state.lock().queues[priority as usize].len();
        let handle = scope.spawn(move || limiter.request(bytes, priority));
        while limiter.state.lock().queues[priority as usize].len() == before {
            std::thread::yield_now();
        }
        handle
    }

    /// Advances the clock to the next refill, and waits until a waiting thread has performed the
    /// refill.
    fn fill(limiter: &RateLimiter, clock: &ManualClock) {
        clock.wait_for_sleepers(1);
        let due = limiter.state.lock().next_fill_ns;
        clock.advance(PERIOD_NS);
        while limiter.state.lock().next_fill_ns == due {
            std::thread::yield_now();
        }
    }

    /// A clock that panics once, after its first sleep.
    #[derive(Debug)]
    struct Startled {
        clock: Arc<ManualClock>,
        panics: AtomicBool,
    }

    impl Clock for Startled {
        fn monotonic_ns(&self) -> u64 {
            self.clock.monotonic_ns()
        }

        fn wall_us(&self) -> u64 {
            self.clock.wall_us()
        }

        fn sleep_until(&self, deadline_ns: u64) {
            self.clock.sleep_until(deadline_ns);
            assert!(!self.panics.swap(false, Relaxed), "on purpose");
        }
    }

    /// Regression test: if the clock panicked while a request slept until the next refill, all
    /// other requests waited forever.
    #[test]
    fn a_panic_while_sleeping_does_not_strand_other_requests() {
        let clock = Arc::new(ManualClock::new(0));
        let startled = Startled { clock: Arc::clone(&clock), panics: AtomicBool::new(true) };
        let limiter = RateLimiter::new(10_000).with_clock(Arc::new(startled));
        limiter.request(1000, Priority::Low);
        std::thread::scope(|scope| {
            let panicking = queued(scope, &limiter, 1000, Priority::Low);
            clock.wait_for_sleepers(1);
            let other = queued(scope, &limiter, 1000, Priority::Low);
            clock.advance(PERIOD_NS);
            assert!(panicking.join().is_err());
            other.join().unwrap();
        });
        assert_eq!(limiter.granted(Priority::Low), 2000);
    }

    #[test]
    fn requests_wait_once_the_refill_is_used_up() {
        let clock = Arc::new(ManualClock::new(0));
        let limiter = limiter(&clock);
        limiter.request(400, Priority::Low);
        limiter.request(600, Priority::Low);
        std::thread::scope(|scope| {
            let waiting = queued(scope, &limiter, 2500, Priority::Low);
            for _ in 0..2 {
                fill(&limiter, &clock);
                clock.wait_for_sleepers(1);
                assert!(!waiting.is_finished());
            }
            fill(&limiter, &clock);
            waiting.join().unwrap();
        });
        assert_eq!(limiter.granted(Priority::Low), 3500);
        // 500 bytes of the last refill are left, which this request uses up. The long pause after
        // it adds only one refill.
        limiter.request(500, Priority::User);
        clock.advance(50 * PERIOD_NS);
        limiter.request(1000, Priority::User);
        assert_eq!(limiter.state.lock().available, 0);
    }

    #[test]
    fn users_requests_come_first_and_partly_served_ones_keep_their_place() {
        let clock = Arc::new(ManualClock::new(0));
        let limiter = limiter(&clock);
        limiter.request(1000, Priority::Low);
        std::thread::scope(|scope| {
            let low = queued(scope, &limiter, 1000, Priority::Low);
            let first = queued(scope, &limiter, 700, Priority::User);
            let second = queued(scope, &limiter, 700, Priority::User);
            fill(&limiter, &clock);
            first.join().unwrap();
            assert!(!second.is_finished() && !low.is_finished());
            fill(&limiter, &clock);
            // This refill grants 400 bytes to the rest of the second user request, and 600 bytes to
            // the low-priority request.
            second.join().unwrap();
            clock.wait_for_sleepers(1);
            assert!(!low.is_finished());
            fill(&limiter, &clock);
            low.join().unwrap();
        });
    }

    #[test]
    fn low_priorities_are_occasionally_served_first() {
        let clock = Arc::new(ManualClock::new(0));
        let limiter = limiter(&clock);
        let mut state = limiter.state.lock();
        let mut firsts = [0u32; Priority::COUNT];
        for _ in 0..10_000 {
            let order = state.order();
            assert_eq!(order[0], Priority::User);
            firsts[order[1] as usize] += 1;
        }
        assert!((8500..9500).contains(&firsts[Priority::High as usize]), "{firsts:?}");
        assert!((700..1100).contains(&firsts[Priority::Mid as usize]), "{firsts:?}");
        assert!((50..200).contains(&firsts[Priority::Low as usize]), "{firsts:?}");
    }

    #[test]
    fn the_fairness_is_clamped_and_one_swaps_priorities_in_every_refill() {
        let always = [Priority::User, Priority::Low, Priority::High, Priority::Mid];
        for fairness in [0, 1] {
            let limiter = RateLimiter::new(10_000).with_fairness(fairness);
            assert!((0..100).all(|_| limiter.state.lock().order() == always), "{fairness}");
        }
        let limiter = RateLimiter::new(10_000).with_fairness(u32::MAX);
        assert_eq!(limiter.state.lock().fairness, FAIRNESS_MAX);
    }

    #[test]
    fn the_rate_can_be_changed() {
        let clock = Arc::new(ManualClock::new(0));
        let limiter = limiter(&clock);
        limiter.request(1000, Priority::High);
        limiter.set_bytes_per_second(50_000);
        assert_eq!(limiter.bytes_per_second(), 50_000);
        std::thread::scope(|scope| {
            let waiting = queued(scope, &limiter, 5000, Priority::High);
            fill(&limiter, &clock);
            waiting.join().unwrap();
        });
        limiter.set_bytes_per_second(0);
        assert_eq!(limiter.bytes_per_fill(), 1);
    }

    #[test]
    fn the_rate_holds_with_many_threads_on_the_systems_clock() {
        let limiter = RateLimiter::new(10_000_000).with_refill_period(2000);
        let started = SystemClock.monotonic_ns();
        std::thread::scope(|scope| {
            for priority in [Priority::Low, Priority::Mid, Priority::High, Priority::User] {
                let limiter = &limiter;
                scope.spawn(move || {
                    for _ in 0..50 {
                        limiter.request(5000, priority);
                    }
                });
            }
        });
        let took_ms = (SystemClock.monotonic_ns() - started) / 1_000_000;
        let granted: u64 = [Priority::Low, Priority::Mid, Priority::High, Priority::User]
            .map(|priority| limiter.granted(priority))
            .iter()
            .sum();
        assert_eq!(granted, 1_000_000);
        // At 10 MB/s, 1 MB takes 100 ms. The bytes of the first refill are available immediately,
        // which saves one refill period (2 ms).
        assert!(took_ms >= 90, "{took_ms} ms");
    }
}
