//! The figures that a measurement reports.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use tailwater_latency::numbers::median;

use crate::store::Failure;

/// A write that takes longer than this was probably delayed by the scheduler, not by the device: at
/// 250 Hz, a scheduler tick is 4 ms.
const SLOW: Duration = Duration::from_millis(3);
/// Maximum recordable duration, in nanoseconds: ten minutes.
const LONGEST_NS: u64 = 600_000_000_000;

/// The durations of all writes recorded so far.
#[derive(Debug)]
pub(crate) struct Latencies {
    /// The durations in nanoseconds, with three significant digits.
    histogram: Histogram<u64>,
    slow: u64,
}

impl Latencies {
    /// Creates an empty set of write durations.
    ///
    /// # Errors
    /// Never fails, since the bounds are valid for a histogram.
    pub(crate) fn new() -> Result<Self, Failure> {
        Ok(Self { histogram: Histogram::new_with_max(LONGEST_NS, 3)?, slow: 0 })
    }

    /// Adds the duration of one write.
    pub(crate) fn record(&mut self, took: Duration) {
        self.histogram.saturating_record(took.as_nanos() as u64);
        self.slow += u64::from(took > SLOW);
    }

    /// Adds the durations that another writer recorded.
    ///
    /// # Errors
    /// Never fails, since both histograms have the same bounds.
    pub(crate) fn add(&mut self, other: &Self) -> Result<(), Failure> {
        self.slow += other.slow;
        Ok(self.histogram.add(&other.histogram)?)
    }
}

/// The results of a measurement, or the medians over several runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Figures {
    /// Number of writes by all writers.
    pub writes: f64,
    /// Time from the start of the first write to the end of the last, in seconds.
    pub seconds: f64,
    /// Writes per second.
    pub per_second: f64,
    /// Mean duration of a write, in microseconds.
    pub mean_us: f64,
    /// Median duration of a write, in microseconds.
    pub p50_us: f64,
    /// 99th percentile of the durations of writes, in microseconds.
    pub p99_us: f64,
    /// 99.9th percentile of the durations of writes, in microseconds.
    pub p999_us: f64,
    /// 99.99th percentile of the durations of writes, in microseconds.
    pub p9999_us: f64,
    /// Maximum duration of a write, in microseconds.
    pub max_us: f64,
    /// Fraction of writes that took more than 3 ms: 0 to 1.
    pub over_3_ms: f64,
}

impl Figures {
    /// Returns the figures of the writes made in `time`, of which there must be at least one.
    pub(crate) fn of(latencies: &Latencies, time: Duration) -> Self {
        let histogram = &latencies.histogram;
        let at = |quantile: f64| histogram.value_at_quantile(quantile) as f64 / 1000.0;
        let (writes, seconds) = (histogram.len() as f64, time.as_secs_f64());
        Self {
            writes,
            seconds,
            per_second: writes / seconds,
            mean_us: histogram.mean() / 1000.0,
            p50_us: at(0.5),
            p99_us: at(0.99),
            p999_us: at(0.999),
            p9999_us: at(0.9999),
            max_us: histogram.max() as f64 / 1000.0,
            over_3_ms: latencies.slow as f64 / writes,
        }
    }

    /// Returns, for each figure, the median over all `runs`. There must be at least one run.
    pub(crate) fn median(runs: &[Self]) -> Self {
        let of = |figure: fn(&Self) -> f64| median(runs.iter().map(figure).collect());
        Self {
            writes: of(|run| run.writes),
            seconds: of(|run| run.seconds),
            per_second: of(|run| run.per_second),
            mean_us: of(|run| run.mean_us),
            p50_us: of(|run| run.p50_us),
            p99_us: of(|run| run.p99_us),
            p999_us: of(|run| run.p999_us),
            p9999_us: of(|run| run.p9999_us),
            max_us: of(|run| run.max_us),
            over_3_ms: of(|run| run.over_3_ms),
        }
    }

    /// Divides the rate of each run in `runs` by the rate of the run with the same index in
    /// `others`. Returns the median of these ratios.
    pub(crate) fn ratio(runs: &[Self], others: &[Self]) -> f64 {
        let pairs = runs.iter().zip(others);
        median(pairs.map(|(run, other)| run.per_second / other.per_second).collect())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns figures of writes that all have the same duration, so that their rate is
    /// `per_second`.
    pub(crate) fn at_rate(per_second: f64) -> Figures {
        let mut latencies = Latencies::new().unwrap();
        latencies.record(Duration::from_secs_f64(1.0 / per_second));
        Figures::of(&latencies, Duration::from_secs_f64(1.0 / per_second))
    }

    #[test]
    fn figures_are_of_all_writers() {
        let (mut latencies, mut other) = (Latencies::new().unwrap(), Latencies::new().unwrap());
        for _ in 0..975 {
            latencies.record(Duration::from_micros(100));
        }
        for _ in 0..20 {
            other.record(Duration::from_millis(3));
        }
        for _ in 0..5 {
            other.record(Duration::from_micros(3001));
        }
        latencies.add(&other).unwrap();
        let figures = Figures::of(&latencies, Duration::from_secs(2));
        assert_eq!((figures.writes, figures.seconds, figures.per_second), (1000.0, 2.0, 500.0));
        // Writes of exactly 3 ms are not counted as slow.
        assert_eq!(figures.over_3_ms, 0.005);
        let near = |us: f64, expected: f64| (us - expected).abs() <= expected / 1000.0;
        assert!(near(figures.p50_us, 100.0) && near(figures.p99_us, 3000.0), "{figures:?}");
        assert!(near(figures.p999_us, 3001.0) && near(figures.max_us, 3001.0), "{figures:?}");
        assert!(near(figures.mean_us, 172.505), "{figures:?}");
    }

    #[test]
    fn a_ratio_is_of_the_same_run() {
        let of = |rates: [f64; 3]| rates.map(at_rate);
        let (ours, theirs) = (of([200.0, 900.0, 100.0]), of([100.0, 300.0, 400.0]));
        let ratio = Figures::ratio(&ours, &theirs);
        assert!((ratio - 2.0).abs() < 1e-6, "{ratio}");
        let median = Figures::median(&ours);
        assert!((median.per_second - 200.0).abs() < 1e-3, "{median:?}");
    }
}
