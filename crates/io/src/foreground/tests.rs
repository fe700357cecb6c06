//! Simulations of the limits, and tests of what is recorded.

use super::limiter::{Control, IDLE_NS, Policy, WINDOW_NS};
use super::*;
use crate::clock::ManualClock;

const MS: u64 = 1_000_000;

/// A simulation: the limiting algorithm under test, the simulated time, and the reads simulated
/// so far.
struct Played {
    control: Control,
    now_ns: u64,
    reads: Reads,
}

impl Played {
    fn new() -> Self {
        Self::with(&STREAMS)
    }

    fn with(policy: &'static Policy) -> Self {
        Self { control: Control::new(policy), now_ns: 0, reads: Reads::default() }
    }

    fn read(&mut self, count: u64, duration_ns: u64) {
        self.reads.count += count;
        self.reads.logarithms += count * logarithm(duration_ns);
    }

    /// Simulates a window in which users make ten reads of this duration. Returns the number of
    /// requests that streams may have in flight after the window if they ask for 8.
    fn window(&mut self, duration_ns: u64) -> usize {
        self.now_ns += WINDOW_NS;
        self.read(10, duration_ns);
        self.ask()
    }

    fn ask(&mut self) -> usize {
        self.control.ask(self.now_ns, self.reads, 8).unwrap_or(8)
    }

    /// Returns a simulation in which users have made reads of this duration without background
    /// work. So this duration is the baseline.
    fn unloaded(duration_ns: u64) -> Self {
        let mut played = Self { now_ns: 5000 * MS, ..Self::new() };
        played.read(1000, duration_ns);
        assert_eq!(played.ask(), 8);
        played
    }
}

#[test]
fn logarithms_are_approximated() {
    for duration_ns in [1_u64, 2, 3, 20_000, 100_000, 1_000_000, u64::MAX >> 14] {
        let found = logarithm(duration_ns) as f64 / 256.0;
        let wanted = (duration_ns as f64).log2();
        assert!((found - wanted).abs() < 0.095, "{duration_ns}: {found}, not {wanted}");
    }
    assert_eq!(logarithm(0), 0);
    assert!(logarithm(u64::MAX) >= 50 << 8);
}

#[test]
fn streams_run_at_full_depth_unless_users_reads_slow_down() {
    let mut played = Played::unloaded(100_000);
    for _ in 0..100 {
        played.now_ns += 3 * MS;
        assert_eq!(played.ask(), 8);
    }
    for _ in 0..100 {
        assert_eq!(played.window(120_000), 8);
    }
}

#[test]
fn depth_is_halved_quickly_and_restored_slowly() {
    let mut played = Played::unloaded(100_000);
    let down: Vec<_> = (0..5).map(|_| played.window(200_000)).collect();
    assert_eq!(down, [4, 2, 1, 1, 1]);
    // While reads are not slow, the limit grows by one request every 50 ms, which is five
    // windows.
    let up: Vec<_> = (0..40).map(|_| played.window(100_000)).collect();
    assert_eq!(up[..11], [1, 1, 1, 1, 2, 2, 2, 2, 2, 3, 3]);
    assert_eq!(up[39], 8);
    // Reads of 200 us halve the limit on requests. Reads of 135 us lie between the thresholds
    // of [`STREAMS`], so the limit stays.
    assert_eq!(played.window(200_000), 4);
    assert!((0..20).all(|_| played.window(135_000) == 4));
}

#[test]
fn full_depth_returns_when_users_stop_reading() {
    let mut played = Played::unloaded(100_000);
    while played.window(300_000) > 1 {}
    for _ in 0..9 {
        played.now_ns += 100 * MS;
        assert_eq!(played.ask(), 1, "a caller may still wait");
    }
    played.now_ns += 100 * MS;
    assert_eq!(played.ask(), 8);
}

#[test]
fn slow_reads_reduce_the_depth_while_few_reads_complete() {
    let mut played = Played::unloaded(100_000);
    let mut depths = Vec::new();
    for _ in 0..5 {
        for _ in 0..4 {
            played.now_ns += 110 * MS;
            depths.push(played.ask());
        }
        played.read(1, 450 * MS);
    }
    assert_eq!(depths[..4], [8; 4]);
    assert_eq!(depths[4..], [1; 16]);
}

#[test]
fn few_reads_are_judged_after_a_longer_window() {
    let mut played = Played::unloaded(100_000);
    played.read(2, 200_000);
    played.now_ns += 50 * MS;
    assert_eq!(played.ask(), 8);
    played.now_ns += 50 * MS;
    assert_eq!(played.ask(), 4);
}

#[test]
fn a_single_slow_read_does_not_reduce_the_depth() {
    let mut played = Played::unloaded(100_000);
    for _ in 0..50 {
        played.read(1, 4_000_000);
        assert_eq!(played.window(100_000), 8);
    }
}

#[test]
fn depth_is_restored_if_reducing_it_does_not_help() {
    let mut played = Played::unloaded(100_000);
    let windows = (0..).take_while(|_| played.window(250_000) < 8).count();
    assert!((300..5000).contains(&windows), "{windows} windows of 10 ms");
}

#[test]
fn depth_stays_reduced_while_that_helps() {
    let mut played = Played::unloaded(100_000);
    // For one minute, each request that the stream may have in flight makes every read 30 us
    // slower.
    let mut depth = 8;
    let mut sum = 0;
    for _ in 0..6000 {
        depth = played.window(100_000 + 30_000 * depth as u64);
        sum += depth;
    }
    let mean = sum as f64 / 6000.0;
    assert!((1.0..3.0).contains(&mean), "a mean depth of {mean}");
}

#[test]
fn the_baseline_is_measured_while_streams_pause() {
    // There is background work from the beginning, so the first baseline is the duration of
    // reads that this work slows down.
    let mut played = Played::new();
    played.ask();
    assert!((0..50).all(|_| played.window(400_000) == 8));
    played.now_ns += 2 * IDLE_NS;
    played.read(500, 100_000);
    assert_eq!(played.ask(), 8);
    assert_eq!(played.window(200_000), 4);
}

#[test]
fn page_cache_hits_and_long_reads_are_not_counted() {
    let foreground = Foreground::default();
    foreground.record(4096, 3000);
    foreground.record(4096, 19_999);
    // This read is slow enough to come from the device, but longer than [`SHORT_READ`], so it
    // is not recorded.
    foreground.record(1 << 20, 400_000);
    assert_eq!(foreground.single_reads(), Reads::default());
    foreground.record(4096, 1 << 20);
    assert_eq!(foreground.single_reads(), Reads { count: 1, logarithms: 20 << 8 });
    assert_eq!(foreground.depth(4, 0, false), 4);
}

#[test]
fn streams_share_a_reduced_depth() {
    let foreground = Foreground::new(Arc::new(ManualClock::new(0)));
    foreground.streams.control.lock().requested_ns = Some(0);
    foreground.streams.control.lock().limit = Some(3);
    assert_eq!(foreground.depth(4, 0, false), 3);
    foreground.began(2);
    // The first call is for the stream that has two requests in flight, the second for another
    // stream.
    assert_eq!((foreground.depth(4, 2, false), foreground.depth(4, 0, false)), (3, 1));
    foreground.began(2);
    assert_eq!((foreground.depth(4, 0, false), foreground.depth(4, 0, true)), (0, 1));
    foreground.ended(4);
    assert_eq!((foreground.depth(2, 0, false), foreground.held_back()), (2, 5));
}
/// Plays a minute in which single reads take 100 us, and 10 us more for each request that
/// batches of 32 have in flight. Batches have asked from the beginning, so there is no time
/// without them. Returns the mean depth of the last half.
fn mean_depth_of_batches(reads_per_window: u64) -> f64 {
    let mut played = Played::with(&BATCHES);
    let (mut depth, mut sum) = (32, 0);
    for window in 0..6000 {
        played.now_ns += WINDOW_NS;
        played.read(reads_per_window, 100_000 + 10_000 * depth as u64);
        depth = played.control.ask(played.now_ns, played.reads, 32).unwrap_or(32);
        sum += if window < 3000 { 0 } else { depth };
    }
    sum as f64 / 3000.0
}

#[test]
fn batches_become_shallow_while_others_read() {
    let mean = mean_depth_of_batches(10);
    assert!((1.0..4.0).contains(&mean), "a mean depth of {mean}");
}

#[test]
fn batches_are_deep_while_no_other_reads() {
    let mean = mean_depth_of_batches(0);
    assert!(mean > 31.9, "a mean depth of {mean}");
}

#[test]
fn the_baseline_of_batches_follows_the_device() {
    let mut played = Played::with(&BATCHES);
    for _ in 0..500 {
        played.now_ns += WINDOW_NS;
        played.read(10, 100_000);
        played.control.ask(played.now_ns, played.reads, 32);
    }
    // The device becomes three times slower. At first that looks like harm.
    let depths: Vec<_> = (0..2000)
        .map(|_| {
            played.now_ns += WINDOW_NS;
            played.read(10, 300_000);
            played.control.ask(played.now_ns, played.reads, 32).unwrap_or(32)
        })
        .collect();
    assert!(depths[..50].contains(&1));
    assert_eq!(depths.last(), Some(&32));
}

#[test]
fn the_first_read_of_a_batch_counts_for_streams_only() {
    let foreground = Foreground::default();
    foreground.record_first_of_batch(4096, 1 << 20);
    assert_eq!(foreground.single_reads(), Reads::default());
    assert_eq!(foreground.all_reads(), Reads { count: 1, logarithms: 20 << 8 });
}

#[test]
fn batches_are_not_limited_for_the_reads_of_the_only_thread_that_makes_them() {
    let clock = Arc::new(ManualClock::new(0));
    clock.advance(5 * IDLE_NS);
    let foreground = Foreground::new(Arc::clone(&clock) as _);
    let read = || foreground.record(4096, 1 << 20);
    let in_another_thread = |call: &(dyn Fn() + Sync)| {
        std::thread::scope(|scope| scope.spawn(call).join().expect("a thread"));
    };
    foreground.depth_of_batch(8, 0);
    read();
    assert_eq!((foreground.single_reads().count, foreground.all_reads().count), (0, 1));
    in_another_thread(&read);
    assert_eq!((foreground.single_reads().count, foreground.all_reads().count), (1, 2));
    in_another_thread(&|| {
        foreground.depth_of_batch(8, 0);
    });
    read();
    assert_eq!(foreground.single_reads().count, 2, "it may have waited behind the other's batch");
    foreground.depth_of_batch(8, 0);
    read();
    assert_eq!(foreground.single_reads().count, 3, "the other made a batch a moment ago");
    clock.advance(IDLE_NS);
    read();
    assert_eq!(foreground.single_reads().count, 3);
}
