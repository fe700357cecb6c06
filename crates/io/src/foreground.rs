//! Limits the depth of background streams while users wait for the device.
//!
//! A user's read queues at the device behind the requests that the device already has.
//! [`Foreground`] records the durations of users' short reads that went to the device, and limits
//! how many requests background streams may have in flight:
//!
//! - There is no limit while users do not read from the device, or while their reads take no longer
//!   than without background work.
//! - When reads are slowed down, the limit for all streams together is divided by 2 to 8, depending
//!   on how much they are. Once they no longer are, the limit grows by one request at a time.
//! - A stream that a caller waits for may always have one request, so no such stream stops.
//! - The limit is lifted immediately when no user has read for a second.
//!
//! # What is slow
//! Reads are judged in windows of some milliseconds, by the mean of the logarithms of their
//! durations, so that a single read that waited for the processor has little weight. The mean is
//! compared with a baseline: the mean of reads that were made while no stream had asked for
//! requests for at least a second. The baseline moves down towards faster windows. It moves up,
//! slowly, only while streams are down to one request and reads are still slow. In that case the
//! device or the users' load has changed, and throttling does not help.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use crate::clock::{Clock, SystemClock};
use crate::shards::{SHARDS, shard_of_this_thread};
use crate::sync::Mutex;

/// Duration below which a read is taken to have come from the page cache, in nanoseconds.
const FROM_DEVICE_NS: u64 = 20_000;
/// Size above which a read is not counted, because its length dominates its duration, in bytes.
const SHORT_READ: u64 = 64 << 10;
/// Minimum length of a window, in nanoseconds.
const WINDOW_NS: u64 = 10_000_000;
/// Number of reads below which a window is extended.
const ENOUGH_READS: u64 = 8;
/// Maximum length of a window, in nanoseconds.
const LONGEST_WINDOW_NS: u64 = 100_000_000;
/// Time after which a sent request is assumed to have ended, whether or not its stream has noticed,
/// in nanoseconds.
const REQUEST_NS: u64 = 5_000_000;
/// Time since a stream last asked for requests, in nanoseconds, after which there is no background
/// work.
const IDLE_NS: u64 = 1_000_000_000;
/// Time without a completed read, in nanoseconds, after which users are taken not to be reading. A
/// queue that is never empty can delay a read by half a second.
const NO_READS_NS: u64 = 1_000_000_000;
/// Minimum time between two raises of the limit by one request, in nanoseconds.
const BETWEEN_RAISES_NS: u64 = 50_000_000;
/// Increase over the baseline, in log2 units, above which reads count as slowed down (1.5x).
const SLOWED: f64 = 0.585;
/// Largest factor by which the limit is divided in one step. The smallest is 2.
const MOST_AT_ONCE: f64 = 8.0;
/// Increase over the baseline, in log2 units, below which reads count as unaffected (1.25x).
const UNHARMED: f64 = 0.322;
/// Fraction of the distance to a faster window by which the baseline moves.
const LEARNING: f64 = 1.0 / 8.0;
/// Fraction of the distance to a slower window by which the baseline moves, where throttling does
/// not help.
const FORGETTING: f64 = 1.0 / 512.0;

/// Measures the latency of users' reads at the device, and limits accordingly how many requests
/// background streams may have in flight. Safe to use from any thread. Recording takes no lock, and
/// a read that is too fast to have come from the device writes nothing.
#[derive(Debug)]
pub struct Foreground {
    shards: [Shard; SHARDS],
    control: Mutex<Control>,
    /// Number of requests of streams in flight.
    under_way: AtomicUsize,
    /// Number of times that a stream was granted fewer requests than it asked for.
    held_back: AtomicU64,
    clock: Arc<dyn Clock>,
}

/// Aligned to two cache lines: processors fetch lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard {
    reads: AtomicU64,
    logarithms: AtomicU64,
}

impl Foreground {
    /// Creates a limiter without recorded reads that uses this clock.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            shards: Default::default(),
            control: Mutex::default(),
            under_way: AtomicUsize::new(0),
            held_back: AtomicU64::new(0),
            clock,
        }
    }

    /// Records a user's read of `bytes`.
    #[inline]
    pub fn record(&self, bytes: u64, duration_ns: u64) {
        if duration_ns >= FROM_DEVICE_NS && bytes <= SHORT_READ {
            let shard = &self.shards[shard_of_this_thread()];
            shard.reads.fetch_add(1, Relaxed);
            shard.logarithms.fetch_add(logarithm(duration_ns), Relaxed);
        }
    }

    /// Returns the number of requests that a stream may have in flight. The stream asks for `full`
    /// and has `own` in flight now. A stream that a caller waits for (`needed`) may always have
    /// one.
    pub fn depth(&self, full: usize, own: usize, needed: bool) -> usize {
        let mut control = self.control.lock();
        let now_ns = self.clock.monotonic_ns();
        // A stream whose caller has stopped reading does not notice that its requests have ended,
        // so the count alone may be too high.
        let under_way = self.under_way.load(Relaxed).min(control.sent_lately(now_ns));
        let others = under_way.saturating_sub(own);
        let all = others + full;
        match control.ask(now_ns, self.reads(), all) {
            Some(limit) if limit.saturating_sub(others) < full => {
                self.held_back.fetch_add(1, Relaxed);
                limit.saturating_sub(others).max(usize::from(needed))
            }
            Some(_) | None => full,
        }
    }

    /// Returns the number of times that a stream was granted fewer requests than it asked for.
    pub fn held_back(&self) -> u64 {
        self.held_back.load(Relaxed)
    }

    /// Records that a stream has sent `requests`.
    pub fn began(&self, requests: usize) {
        let now_ns = self.clock.monotonic_ns();
        self.control.lock().sent.extend(std::iter::repeat_n(now_ns, requests));
        self.under_way.fetch_add(requests, Relaxed);
    }

    /// Records that `requests` requests of a stream have ended.
    pub fn ended(&self, requests: usize) {
        self.under_way.fetch_sub(requests, Relaxed);
    }

    fn reads(&self) -> Reads {
        let mut sum = Reads::default();
        for shard in &self.shards {
            sum.count += shard.reads.load(Relaxed);
            sum.logarithms += shard.logarithms.load(Relaxed);
        }
        sum
    }
}

impl Default for Foreground {
    fn default() -> Self {
        Self::new(Arc::new(SystemClock))
    }
}

/// Returns the binary logarithm in units of 1/256, interpolated linearly between powers of two,
/// with an error of at most 0.09.
fn logarithm(duration_ns: u64) -> u64 {
    let duration_ns = duration_ns.min(1 << 50);
    let exponent = duration_ns.max(1).ilog2();
    (u64::from(exponent) << 8) + (((duration_ns << 8) >> exponent) & 0xFF)
}

/// Reads that went to the device, so far or in a window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Reads {
    count: u64,
    /// The sum of the logarithms of their durations, in units of 1/256.
    logarithms: u64,
}

impl Reads {
    fn since(self, earlier: Self) -> Self {
        // Count and sum are not read in one atomic step, so one may be ahead of the other.
        Self {
            count: self.count.saturating_sub(earlier.count),
            logarithms: self.logarithms.saturating_sub(earlier.logarithms),
        }
    }

    /// Returns the mean of the logarithms.
    fn mean(self) -> f64 {
        self.logarithms as f64 / 256.0 / self.count as f64
    }
}

/// Decides the limit. It has no clock: callers pass the time.
#[derive(Debug, Default)]
struct Control {
    /// Maximum number of requests of all streams in flight; `None` as long as reads are not slowed
    /// down.
    limit: Option<usize>,
    /// The mean logarithm of reads without background work.
    baseline: Option<f64>,
    /// Time of the last call of [`Self::ask`].
    asked_ns: Option<u64>,
    /// Highest number of requests that streams would have had in this window without a limit.
    full: usize,
    window_began_ns: u64,
    /// Totals of all reads before the window.
    before: Reads,
    raised_ns: u64,
    /// When the last window with reads ended.
    read_ns: u64,
    /// Times at which requests were sent, in the last few milliseconds.
    sent: VecDeque<u64>,
}

impl Control {
    /// Returns the number of requests that were sent recently enough to be still at the device.
    fn sent_lately(&mut self, now_ns: u64) -> usize {
        let is_old = |sent_ns: &u64| now_ns.saturating_sub(*sent_ns) >= REQUEST_NS;
        while self.sent.front().is_some_and(is_old) {
            self.sent.pop_front();
        }
        self.sent.len()
    }

    /// Returns the limit. `full` is the number of requests that there would be without one.
    fn ask(&mut self, now_ns: u64, reads: Reads, full: usize) -> Option<usize> {
        let idle = self.asked_ns.is_none_or(|asked| now_ns.saturating_sub(asked) >= IDLE_NS);
        self.asked_ns = Some(now_ns);
        self.full = self.full.max(full);
        let (window, elapsed) = (reads.since(self.before), now_ns - self.window_began_ns);
        let complete =
            elapsed >= LONGEST_WINDOW_NS || (elapsed >= WINDOW_NS && window.count >= ENOUGH_READS);
        if idle || complete {
            if idle {
                self.learn_unharmed(window);
            } else {
                self.judge(now_ns, window);
            }
            (self.window_began_ns, self.before, self.full) = (now_ns, reads, full);
        }
        self.limit
    }

    /// Sets the baseline from reads without background work.
    fn learn_unharmed(&mut self, reads: Reads) {
        self.limit = None;
        if reads.count >= ENOUGH_READS {
            self.baseline = Some(reads.mean());
        }
    }

    fn judge(&mut self, now_ns: u64, reads: Reads) {
        if reads.count == 0 {
            // Either no user reads, or a read has been waiting for the whole window.
            if now_ns - self.read_ns >= NO_READS_NS {
                self.limit = None;
            }
            return;
        }
        self.read_ns = now_ns;
        let mean = reads.mean();
        let baseline = *self.baseline.get_or_insert(mean);
        let deepest = self.limit.unwrap_or(self.full).min(self.full);
        if mean < baseline {
            self.baseline = Some(baseline + (mean - baseline) * LEARNING);
        } else if deepest <= 1 {
            self.baseline = Some(baseline + (mean - baseline) * FORGETTING);
        }
        if mean > baseline + SLOWED {
            let times = (mean - baseline).exp2().clamp(2.0, MOST_AT_ONCE);
            self.limit = Some(((deepest as f64 / times) as usize).max(1));
            self.raised_ns = now_ns;
        } else if mean < baseline + UNHARMED
            && let Some(limit) = self.limit
            && now_ns - self.raised_ns >= BETWEEN_RAISES_NS
        {
            self.limit = (limit < self.full).then_some(limit + 1);
            self.raised_ns = now_ns;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;

    const MS: u64 = 1_000_000;

    /// A control, the time, and the reads so far.
    #[derive(Default)]
    struct Played {
        control: Control,
        now_ns: u64,
        reads: Reads,
    }

    impl Played {
        fn read(&mut self, count: u64, duration_ns: u64) {
            self.reads.count += count;
            self.reads.logarithms += count * logarithm(duration_ns);
        }

        /// Simulates a window with ten reads of this duration, and returns the depth then allowed
        /// to a stream of depth 8.
        fn window(&mut self, duration_ns: u64) -> usize {
            self.now_ns += WINDOW_NS;
            self.read(10, duration_ns);
            self.ask()
        }

        fn ask(&mut self) -> usize {
            self.control.ask(self.now_ns, self.reads, 8).unwrap_or(8)
        }

        /// Simulates reads of users for a while, without background work.
        fn unloaded(duration_ns: u64) -> Self {
            let mut played = Self { now_ns: 5000 * MS, ..Self::default() };
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
        // One more request after each 50 ms of reads that are not slowed down.
        let up: Vec<_> = (0..40).map(|_| played.window(100_000)).collect();
        assert_eq!(up[..11], [1, 1, 1, 1, 2, 2, 2, 2, 2, 3, 3]);
        assert_eq!(up[39], 8);
        // Between the two thresholds the depth stays the same.
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
        // Each request of the stream adds 30 us to a read, for a minute.
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
        // There was background work from the beginning, so the baseline is that of slow reads.
        let mut played = Played::default();
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
        // A long read does not count either.
        foreground.record(1 << 20, 400_000);
        assert_eq!(foreground.reads(), Reads::default());
        foreground.record(4096, 1 << 20);
        assert_eq!(foreground.reads(), Reads { count: 1, logarithms: 20 << 8 });
        assert_eq!(foreground.depth(4, 0, false), 4);
    }

    #[test]
    fn streams_share_a_reduced_depth() {
        let foreground = Foreground::new(Arc::new(ManualClock::new(0)));
        foreground.control.lock().asked_ns = Some(0);
        foreground.control.lock().limit = Some(3);
        assert_eq!(foreground.depth(4, 0, false), 3);
        foreground.began(2);
        // First the stream that has two requests in flight, then another stream.
        assert_eq!((foreground.depth(4, 2, false), foreground.depth(4, 0, false)), (3, 1));
        foreground.began(2);
        assert_eq!((foreground.depth(4, 0, false), foreground.depth(4, 0, true)), (0, 1));
        foreground.ended(4);
        assert_eq!((foreground.depth(2, 0, false), foreground.held_back()), (2, 5));
    }
}
