//! Limits how many requests background streams have at a device while users' reads wait for it.
//!
//! A background stream is a sequence of reads or writes of, for example, a compaction. A user's
//! read waits at the device behind the requests that the device already has. [`Foreground`] records
//! the durations of users' short reads that the device served. From these it derives a limit on the
//! requests that all background streams together may have in flight:
//!
//! - There is no limit while users do not read from the device, or while their reads take no longer
//!   than without background work.
//! - When reads become slower, the present limit is divided by 2 to 8, depending on how much slower
//!   they are. If there is no limit yet, the number of requests that streams ask for is divided
//!   instead. When reads are no longer slow, the limit grows by one request at a time.
//! - A stream that a caller waits for may always have one request in flight, so that it never
//!   stops.
//! - The limit is lifted as soon as no user has read for a second.
//!
//! # When reads count as slow
//! Reads are judged in windows of 10 to 100 milliseconds. The measure of a window is the mean of
//! the logarithms of its reads' durations, so that a single read that waited for the processor has
//! little weight. This mean is compared with a baseline: the mean of reads that were made while no
//! stream had asked to send requests for at least a second. If a window is faster than the
//! baseline, the baseline moves part of the way towards it. The baseline moves up, slowly, only
//! while the streams are limited to one request and reads are still slow. In that case the device
//! or the users' load has changed, and limiting the streams does not help.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use crate::clock::{Clock, SystemClock};
use crate::shards::{SHARDS, shard_of_this_thread};
use crate::sync::Mutex;

/// Duration in nanoseconds below which a read counts as served by the page cache.
const FROM_DEVICE_NS: u64 = 20_000;
/// Maximum size of a read that is recorded, in bytes. The duration of a longer read depends mostly
/// on its size.
const SHORT_READ: u64 = 64 << 10;
/// Minimum length of a window in nanoseconds. A window is a period whose mean read duration is
/// compared with the baseline.
const WINDOW_NS: u64 = 10_000_000;
/// A window shorter than [`LONGEST_WINDOW_NS`] is extended until it has this number of reads.
const ENOUGH_READS: u64 = 8;
/// Maximum length of a window, in nanoseconds.
const LONGEST_WINDOW_NS: u64 = 100_000_000;
/// Time in nanoseconds after which a request counts as ended, even if its stream has not reported
/// that.
const REQUEST_NS: u64 = 5_000_000;
/// Time in nanoseconds. If no stream calls [`Foreground::depth`] during this time, there is no
/// background work.
const IDLE_NS: u64 = 1_000_000_000;
/// Time in nanoseconds. If no user's read completes during this time, the limit on requests is
/// lifted, because users presumably do not read. The time is long because a read may wait half a
/// second in a device queue that is never empty.
const NO_READS_NS: u64 = 1_000_000_000;
/// Minimum time between two increases of the limit on requests, in nanoseconds. Each increase is by
/// one request.
const BETWEEN_RAISES_NS: u64 = 50_000_000;
/// Reads count as slow if their mean duration in a window exceeds the baseline by more than this
/// value, in log2 units. The durations are then more than 1.5 times as long as the baseline.
const SLOWED: f64 = 0.585;
/// Largest number by which the limit on requests is divided in one step. The smallest such number
/// is 2.
const MOST_AT_ONCE: f64 = 8.0;
/// Reads count as not slow if their mean duration in a window exceeds the baseline by less than
/// this value, in log2 units. The durations are then less than 1.25 times as long as the baseline.
const UNHARMED: f64 = 0.322;
/// If the mean read duration of a window is below the baseline, the baseline moves towards this
/// mean by this fraction of the difference.
const LEARNING: f64 = 1.0 / 8.0;
/// If the reads of a window are slower than the baseline while the streams are limited to one
/// request, the baseline moves towards the window's mean by this fraction of the difference.
const FORGETTING: f64 = 1.0 / 512.0;

/// Measures the duration of users' reads from the device, and derives a limit on the requests that
/// background streams may have in flight. Safe to use from any thread. Recording a read takes no
/// lock. If a read was too fast to have come from the device, recording it does nothing.
#[derive(Debug)]
pub struct Foreground {
    shards: [Shard; SHARDS],
    control: Mutex<Control>,
    /// Number of requests that background streams have in flight.
    under_way: AtomicUsize,
    /// Number of times that a stream was granted fewer requests than it asked for.
    held_back: AtomicU64,
    clock: Arc<dyn Clock>,
}

/// Totals of the reads that some of the threads recorded. Aligned to two cache lines, because
/// processors fetch lines in pairs. So threads with different shards do not share lines.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard {
    reads: AtomicU64,
    logarithms: AtomicU64,
}

impl Foreground {
    /// Creates a limiter that has not recorded any reads and takes the time from `clock`.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            shards: Default::default(),
            control: Mutex::default(),
            under_way: AtomicUsize::new(0),
            held_back: AtomicU64::new(0),
            clock,
        }
    }

    /// Records that a user's read of `bytes` bytes took `duration_ns`.
    #[inline]
    pub fn record(&self, bytes: u64, duration_ns: u64) {
        if duration_ns >= FROM_DEVICE_NS && bytes <= SHORT_READ {
            let shard = &self.shards[shard_of_this_thread()];
            shard.reads.fetch_add(1, Relaxed);
            shard.logarithms.fetch_add(logarithm(duration_ns), Relaxed);
        }
    }

    /// Returns the number of requests that a stream may have in flight. Without a limit this is
    /// `full`. `own` is the number of requests that the stream has in flight now. If `needed` is
    /// true, a caller waits for the stream, and the result is at least 1.
    pub fn depth(&self, full: usize, own: usize, needed: bool) -> usize {
        let mut control = self.control.lock();
        let now_ns = self.clock.monotonic_ns();
        // A stream whose caller has stopped reading does not report that its requests have ended.
        // So `self.under_way` may be too high. Requests that were sent long ago are therefore not
        // counted.
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

    /// Records that a stream has sent this number of requests.
    pub fn began(&self, requests: usize) {
        let now_ns = self.clock.monotonic_ns();
        self.control.lock().sent.extend(std::iter::repeat_n(now_ns, requests));
        self.under_way.fetch_add(requests, Relaxed);
    }

    /// Records the end of `requests` requests that a stream had in flight.
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

/// Returns the binary logarithm of a duration in nanoseconds, multiplied by 256. The logarithm is
/// interpolated linearly between powers of two. Before the multiplication, it is wrong by at most
/// 0.09.
fn logarithm(duration_ns: u64) -> u64 {
    let duration_ns = duration_ns.min(1 << 50);
    let exponent = duration_ns.max(1).ilog2();
    (u64::from(exponent) << 8) + (((duration_ns << 8) >> exponent) & 0xFF)
}

/// The number and the durations of recorded reads, either of all reads so far or of those in a
/// window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Reads {
    count: u64,
    /// The sum of the log2 of the reads' durations in nanoseconds, in units of 1/256.
    logarithms: u64,
}

impl Reads {
    fn since(self, earlier: Self) -> Self {
        // While the count and the sum are loaded, another thread may record a read, which is then
        // in only one of them. Neither ever decreases, so saturating subtraction is only a
        // safeguard.
        Self {
            count: self.count.saturating_sub(earlier.count),
            logarithms: self.logarithms.saturating_sub(earlier.logarithms),
        }
    }

    /// Returns the mean of the logarithms of the reads' durations, in log2 units.
    fn mean(self) -> f64 {
        self.logarithms as f64 / 256.0 / self.count as f64
    }
}

/// The algorithm that determines the limit on the requests of background streams. It reads no
/// clock: callers pass the time.
#[derive(Debug, Default)]
struct Control {
    /// Maximum number of requests that all streams together may have in flight; `None` for no
    /// limit.
    limit: Option<usize>,
    /// The mean of the logarithms of the durations of reads that were made while there was no
    /// background work; `None` if unknown.
    baseline: Option<f64>,
    /// Time of the last call of [`Self::ask`].
    requested_ns: Option<u64>,
    /// Highest number of requests that, according to calls of [`Self::ask`] in the current window,
    /// all streams together would have in flight without [`Self::limit`].
    full: usize,
    window_began_ns: u64,
    /// Totals of all reads recorded before this window began.
    before: Reads,
    raised_ns: u64,
    /// Time when the last window that contained reads ended.
    read_ns: u64,
    /// Times at which requests were sent, oldest first. Times older than [`REQUEST_NS`] are
    /// removed.
    sent: VecDeque<u64>,
}

impl Control {
    /// Returns the number of requests that were sent less than [`REQUEST_NS`] ago, which may still
    /// be at the device.
    fn sent_lately(&mut self, now_ns: u64) -> usize {
        let is_old = |sent_ns: &u64| now_ns.saturating_sub(*sent_ns) >= REQUEST_NS;
        while self.sent.front().is_some_and(is_old) {
            self.sent.pop_front();
        }
        self.sent.len()
    }

    /// Updates and returns [`Self::limit`]. `reads` are all reads recorded so far. `full` is the
    /// number of requests that all streams together would have in flight without a limit.
    fn ask(&mut self, now_ns: u64, reads: Reads, full: usize) -> Option<usize> {
        let idle = self.requested_ns.is_none_or(|last| now_ns.saturating_sub(last) >= IDLE_NS);
        self.requested_ns = Some(now_ns);
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

    /// Removes the limit on requests, and sets the baseline from reads that were made while there
    /// was no background work.
    fn learn_unharmed(&mut self, reads: Reads) {
        self.limit = None;
        if reads.count >= ENOUGH_READS {
            self.baseline = Some(reads.mean());
        }
    }

    fn judge(&mut self, now_ns: u64, reads: Reads) {
        if reads.count == 0 {
            // No read ended in this window. Either users do not read, or a read takes longer than
            // the window.
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

    /// A simulation: the limiting algorithm under test, the simulated time, and the reads simulated
    /// so far.
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
        // While reads are not slow, the limit grows by one request every 50 ms, which is five
        // windows.
        let up: Vec<_> = (0..40).map(|_| played.window(100_000)).collect();
        assert_eq!(up[..11], [1, 1, 1, 1, 2, 2, 2, 2, 2, 3, 3]);
        assert_eq!(up[39], 8);
        // Reads of 200 us halve the limit on requests. Reads of 135 us lie between the thresholds
        // [`UNHARMED`] and [`SLOWED`], so the limit stays.
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
        // This read is slow enough to come from the device, but longer than [`SHORT_READ`], so it
        // is not recorded.
        foreground.record(1 << 20, 400_000);
        assert_eq!(foreground.reads(), Reads::default());
        foreground.record(4096, 1 << 20);
        assert_eq!(foreground.reads(), Reads { count: 1, logarithms: 20 << 8 });
        assert_eq!(foreground.depth(4, 0, false), 4);
    }

    #[test]
    fn streams_share_a_reduced_depth() {
        let foreground = Foreground::new(Arc::new(ManualClock::new(0)));
        foreground.control.lock().requested_ns = Some(0);
        foreground.control.lock().limit = Some(3);
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
}
