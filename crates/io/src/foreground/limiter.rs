//! The limit on the requests of background streams, or of batches, and the algorithm that
//! determines it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use crate::clock::Clock;
use crate::sync::Mutex;

/// Minimum length of a window in nanoseconds. A window is a period whose mean read duration is
/// compared with the baseline.
pub(super) const WINDOW_NS: u64 = 10_000_000;
/// A window shorter than [`LONGEST_WINDOW_NS`] is extended until it has this number of reads.
const ENOUGH_READS: u64 = 8;
/// Maximum length of a window, in nanoseconds.
const LONGEST_WINDOW_NS: u64 = 100_000_000;
/// Time in nanoseconds after which a request counts as ended, even if its stream has not reported
/// that.
const REQUEST_NS: u64 = 5_000_000;
/// Time in nanoseconds. If no stream calls [`Foreground::depth`] during this time, there is no
/// background work.
pub(super) const IDLE_NS: u64 = 1_000_000_000;
/// Time in nanoseconds. If no user's read completes during this time, the limit on requests is
/// lifted, because users presumably do not read. The time is long because a read may wait half a
/// second in a device queue that is never empty.
const NO_READS_NS: u64 = 1_000_000_000;
/// Minimum time between two increases of the limit on requests, in nanoseconds. Each increase is by
/// one request.
const BETWEEN_RAISES_NS: u64 = 50_000_000;
/// Largest number by which the limit on requests is divided in one step. The smallest such number
/// is 2.
const MOST_AT_ONCE: f64 = 8.0;
/// If the mean read duration of a window is below the baseline, the baseline moves towards this
/// mean by this fraction of the difference.
const LEARNING: f64 = 1.0 / 8.0;
/// If the reads of a window are slower than the baseline while the streams are limited to one
/// request, the baseline moves towards the window's mean by this fraction of the difference.
const FORGETTING: f64 = 1.0 / 512.0;

/// Period in nanoseconds after which the baseline of batches is measured anew.
const PROBE_PERIOD_NS: u64 = 1_000_000_000;
/// When the baseline of batches is measured anew, it moves towards the measured mean by this
/// fraction of the difference.
const PROBE_WEIGHT: f64 = 0.5;

/// When reads count as slow.
#[derive(Debug)]
pub(super) struct Policy {
    /// Reads count as slow if their mean duration in a window exceeds the baseline by at least this
    /// value, in log2 units.
    slowed: f64,
    /// Reads count as not slow if the mean exceeds the baseline by less than this value, in log2
    /// units.
    unharmed: f64,
    /// Whether the baseline is measured anew once in each [`PROBE_PERIOD_NS`], with a limit of one
    /// request.
    probes: bool,
}

/// The policy for background streams. Reads count as slow if they take more than 1.5 times as long
/// as the baseline, and as not slow if they take less than 1.25 times as long.
pub(super) const STREAMS: Policy = Policy { slowed: 0.585, unharmed: 0.322, probes: false };
/// The policy for batches, with factors of 1.2 and 1.1.
pub(super) const BATCHES: Policy = Policy { slowed: 0.263, unharmed: 0.1375, probes: true };

/// The limit on the requests of all background streams, or of all batches.
#[derive(Debug)]
pub(super) struct Limiter {
    pub(super) control: Mutex<Control>,
    /// Number of requests in flight.
    under_way: AtomicUsize,
    /// Number of times that fewer requests were granted than asked for.
    pub(super) held_back: AtomicU64,
}

impl Limiter {
    pub(super) fn new(policy: &'static Policy) -> Self {
        Self {
            control: Mutex::new(Control::new(policy)),
            under_way: AtomicUsize::new(0),
            held_back: AtomicU64::new(0),
        }
    }

    /// Returns the number of requests that a caller may have in flight. Without a limit this is
    /// `full`. `own` is the number of requests that the caller has in flight now. `observe` returns
    /// the time, and the reads that requests may slow down; it is called under the lock, so that
    /// neither ever goes back. If `needed` is true, the result is at least 1.
    pub(super) fn depth(
        &self,
        observe: impl FnOnce() -> (u64, Reads),
        full: usize,
        own: usize,
        needed: bool,
    ) -> usize {
        let mut control = self.control.lock();
        let (now_ns, reads) = observe();
        // A caller that does not wait for its requests does not report that they have ended. So
        // `self.under_way` may be too high. Requests that were sent long ago are therefore not
        // counted.
        let under_way = self.under_way.load(Relaxed).min(control.sent_lately(now_ns));
        let others = under_way.saturating_sub(own);
        let all = others + full;
        match control.ask(now_ns, reads, all) {
            Some(limit) if limit.saturating_sub(others) < full => {
                self.held_back.fetch_add(1, Relaxed);
                limit.saturating_sub(others).max(usize::from(needed))
            }
            Some(_) | None => full,
        }
    }

    pub(super) fn began(&self, clock: &dyn Clock, requests: usize) {
        let now_ns = clock.monotonic_ns();
        self.control.lock().sent.extend(std::iter::repeat_n(now_ns, requests));
        self.under_way.fetch_add(requests, Relaxed);
    }

    pub(super) fn ended(&self, requests: usize) {
        self.under_way.fetch_sub(requests, Relaxed);
    }
}

/// The number and the durations of recorded reads, either of all reads so far or of those in a
/// window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Reads {
    pub(super) count: u64,
    /// The sum of the log2 of the reads' durations in nanoseconds, in units of 1/256.
    pub(super) logarithms: u64,
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

/// What the reads of a window are for.
#[derive(Debug, Clone, Copy)]
enum Window {
    /// They show whether requests slow reads down.
    Judged,
    /// They measure the baseline anew, beside one request. Afterwards the limit is `then`.
    Probe { then: Option<usize> },
}

/// The algorithm that determines the limit on the requests of background streams, or of batches.
/// It reads no clock: callers pass the time.
#[derive(Debug)]
pub(super) struct Control {
    policy: &'static Policy,
    /// Maximum number of requests that all streams, or all batches, together may have in
    /// flight; `None` for no limit.
    pub(super) limit: Option<usize>,
    window: Window,
    /// Time when the last measurement of the baseline ended.
    probed_ns: u64,
    /// The mean of the logarithms of the durations of reads that were made while there was no
    /// background work; `None` if unknown.
    baseline: Option<f64>,
    /// Time of the last call of [`Self::ask`].
    pub(super) requested_ns: Option<u64>,
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
    pub(super) fn new(policy: &'static Policy) -> Self {
        Self {
            policy,
            limit: None,
            window: Window::Judged,
            probed_ns: 0,
            baseline: None,
            requested_ns: None,
            full: 0,
            window_began_ns: 0,
            before: Reads::default(),
            raised_ns: 0,
            read_ns: 0,
            sent: VecDeque::new(),
        }
    }

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
    pub(super) fn ask(&mut self, now_ns: u64, reads: Reads, full: usize) -> Option<usize> {
        let idle = self.requested_ns.is_none_or(|last| now_ns.saturating_sub(last) >= IDLE_NS);
        self.requested_ns = Some(now_ns);
        self.full = self.full.max(full);
        let window = reads.since(self.before);
        let elapsed = now_ns.saturating_sub(self.window_began_ns);
        let complete =
            elapsed >= LONGEST_WINDOW_NS || (elapsed >= WINDOW_NS && window.count >= ENOUGH_READS);
        if idle || complete {
            if idle {
                self.learn_unharmed(window);
            } else if let Window::Probe { then } =
                std::mem::replace(&mut self.window, Window::Judged)
            {
                self.learn_from_probe(now_ns, window, then);
            } else {
                self.judge(now_ns, window);
                self.probe_if_due(now_ns, window);
            }
            (self.window_began_ns, self.before, self.full) = (now_ns, reads, full);
        }
        self.limit
    }

    /// If it is time to measure the baseline anew, limits the requests to one during the next
    /// window.
    fn probe_if_due(&mut self, now_ns: u64, reads: Reads) {
        let is_due = now_ns.saturating_sub(self.probed_ns) >= PROBE_PERIOD_NS;
        if self.policy.probes && is_due && reads.count >= ENOUGH_READS {
            self.window = Window::Probe { then: self.limit.replace(1) };
        }
    }

    /// Ends a measurement of the baseline: `reads` were made with at most one request in flight.
    /// Sets the limit that applied before it.
    fn learn_from_probe(&mut self, now_ns: u64, reads: Reads, limit: Option<usize>) {
        self.limit = limit;
        self.probed_ns = now_ns;
        if reads.count >= ENOUGH_READS {
            let mean = reads.mean();
            let baseline = self.baseline.unwrap_or(mean);
            self.baseline = Some(baseline + (mean - baseline) * PROBE_WEIGHT);
        }
    }

    /// Removes the limit on requests, and sets the baseline from reads that were made while there
    /// was no background work.
    fn learn_unharmed(&mut self, reads: Reads) {
        (self.limit, self.window) = (None, Window::Judged);
        if reads.count >= ENOUGH_READS {
            self.baseline = Some(reads.mean());
        }
    }

    fn judge(&mut self, now_ns: u64, reads: Reads) {
        if reads.count == 0 {
            // No read ended in this window. Either users do not read, or a read takes longer than
            // the window.
            if now_ns.saturating_sub(self.read_ns) >= NO_READS_NS {
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
        if mean > baseline + self.policy.slowed {
            let times = (mean - baseline).exp2().clamp(2.0, MOST_AT_ONCE);
            self.limit = Some(((deepest as f64 / times) as usize).max(1));
            self.raised_ns = now_ns;
        } else if mean < baseline + self.policy.unharmed
            && let Some(limit) = self.limit
            && now_ns.saturating_sub(self.raised_ns) >= BETWEEN_RAISES_NS
        {
            self.limit = (limit < self.full).then_some(limit + 1);
            self.raised_ns = now_ns;
        }
    }
}
