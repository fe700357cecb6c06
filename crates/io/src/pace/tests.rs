//! Tests of the rate limiter.

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
    let before = limiter.pending_requests(priority);
    let handle = scope.spawn(move || limiter.request(bytes, priority));
    while limiter.pending_requests(priority) == before {
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

/// Makes a request of 2500 bytes while the refill of 1000 bytes is used up. It must be granted with
/// the third refill and not before.
fn request_of_three_refills(limiter: &RateLimiter, clock: &ManualClock) {
    std::thread::scope(|scope| {
        let waiting = queued(scope, limiter, 2500, Priority::Low);
        for _ in 0..2 {
            fill(limiter, clock);
            clock.wait_for_sleepers(1);
            assert!(!waiting.is_finished());
        }
        fill(limiter, clock);
        waiting.join().unwrap();
    });
}

#[test]
fn requests_wait_once_the_refill_is_used_up() {
    let clock = Arc::new(ManualClock::new(0));
    let limiter = limiter(&clock);
    limiter.request(400, Priority::Low);
    limiter.request(600, Priority::Low);
    request_of_three_refills(&limiter, &clock);
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
        let order = state.queues.order();
        assert_eq!(order[0], Priority::User);
        firsts[order[1] as usize] += 1;
    }
    assert!((8500..9500).contains(&firsts[Priority::High as usize]), "{firsts:?}");
    assert!((700..1100).contains(&firsts[Priority::Mid as usize]), "{firsts:?}");
    assert!((50..200).contains(&firsts[Priority::Low as usize]), "{firsts:?}");
}

#[test]
fn the_fairness_is_clamped_and_one_swaps_priorities_in_every_refill() {
    let always = [Priority::User, Priority::Low, Priority::Mid, Priority::High];
    for fairness in [0, 1] {
        let limiter = RateLimiter::new(10_000).with_fairness(fairness);
        assert!((0..100).all(|_| limiter.state.lock().queues.order() == always), "{fairness}");
    }
    // The same calls with the same fairness make the same choices.
    let orders = |fairness| {
        let limiter = RateLimiter::new(10_000).with_fairness(fairness);
        let mut state = limiter.state.lock();
        (0..1000).map(|_| state.queues.order()).collect::<Vec<_>>()
    };
    assert_eq!(orders(u32::MAX), orders(FAIRNESS_MAX));
    assert_ne!(orders(FAIRNESS_MAX), orders(FAIRNESS_MAX / 2));
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

#[test]
fn the_mode_decides_which_requests_are_limited() {
    let of = |mode: Mode| [OpType::Read, OpType::Write].map(|op_type| mode.limits(op_type));
    assert_eq!(of(Mode::ReadsOnly), [true, false]);
    assert_eq!(of(Mode::WritesOnly), [false, true]);
    assert_eq!(of(Mode::AllIo), [true, true]);
    let clock = Arc::new(ManualClock::new(0));
    let limiter = limiter(&clock).with_mode(Mode::ReadsOnly);
    limiter.request_of(OpType::Read, 1000, Priority::User);
    // The refill is used up, so a limited request would wait.
    limiter.request(5000, Priority::User);
    assert_eq!((limiter.granted(Priority::User), limiter.requests(Priority::User)), (1000, 1));
    assert_eq!(RateLimiter::new(1).mode(), Mode::WritesOnly);
}

#[test]
fn requests_are_split_into_bursts() {
    let clock = Arc::new(ManualClock::new(0));
    let limiter = limiter(&clock);
    assert_eq!(limiter.single_burst_bytes(), 1000);
    limiter.set_single_burst_bytes(300);
    limiter.request(1000, Priority::Low);
    assert_eq!(limiter.requests(Priority::Low), 4);
    limiter.set_single_burst_bytes(2500);
    // A burst may exceed a refill. It is then granted in parts.
    request_of_three_refills(&limiter, &clock);
    assert_eq!(limiter.requests(Priority::Low), 5);
    limiter.set_single_burst_bytes(0);
    assert_eq!(limiter.single_burst_bytes(), 1000);
}

/// Tests a tuned limiter with requests that use up each refill, and then with few requests.
#[test]
fn a_tuned_rate_rises_with_the_demand_and_falls_without() {
    let clock = Arc::new(ManualClock::new(0));
    let limiter = limiter(&clock).with_auto_tuning();
    assert_eq!(limiter.bytes_per_second(), 5000);
    limiter.request(500, Priority::Low);
    for _ in 0..111 {
        std::thread::scope(|scope| {
            let waiting = queued(scope, &limiter, 500, Priority::Low);
            fill(&limiter, &clock);
            waiting.join().unwrap();
        });
    }
    assert_eq!(limiter.bytes_per_second(), 5250);
    clock.advance(100 * PERIOD_NS);
    limiter.request(1, Priority::Low);
    assert_eq!(limiter.bytes_per_second(), 5000, "few periods were drained");
    clock.advance(100 * PERIOD_NS);
    limiter.request(1, Priority::Low);
    assert_eq!(limiter.bytes_per_second(), 500, "none was");
}

/// The requests that were counted.
#[derive(Debug, Default)]
struct Counts {
    drains: AtomicU64,
    granted: Mutex<Vec<(OpType, u64, Option<u64>)>>,
}

impl RequestCounts for Counts {
    fn drained(&self) {
        self.drains.fetch_add(1, Relaxed);
    }

    fn granted(&self, op_type: OpType, bytes: u64, waited_us: Option<u64>) {
        self.granted.lock().push((op_type, bytes, waited_us));
    }
}

#[test]
fn requests_are_counted_for_those_who_make_them() {
    let clock = Arc::new(ManualClock::new(0));
    let limiter = Arc::new(limiter(&clock).with_mode(Mode::AllIo));
    let all = [Arc::new(Counts::default()), Arc::new(Counts::default())];
    let counted = all.each_ref().map(|counts| {
        let counts = Arc::clone(counts) as Arc<dyn RequestCounts>;
        CountedLimiter::new(Arc::clone(&limiter), Some(counts))
    });
    counted[0].request(OpType::Read, 700, Priority::Low);
    std::thread::scope(|scope| {
        // The second and third parts wait for one refill each.
        let waiting = scope.spawn(|| counted[1].request(OpType::Write, 2100, Priority::User));
        for _ in 0..2 {
            fill(&limiter, &clock);
        }
        waiting.join().unwrap();
    });
    limiter.request(1, Priority::Low);
    assert_eq!(*all[0].granted.lock(), [(OpType::Read, 700, None)]);
    let waited = Some(PERIOD_NS / 1000);
    let parts = [1000, 1000, 100].map(|bytes| (OpType::Write, bytes, waited));
    let mut parts = parts.to_vec();
    parts[2].2 = None;
    assert_eq!(*all[1].granted.lock(), parts);
    assert_eq!(all.map(|counts| counts.drains.load(Relaxed)), [0, 2]);
}
