//! The figures that a measurement reports.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use tailwater_latency::latencies::{self, histogram};
use tailwater_latency::numbers::median;

use crate::store::Failure;

/// A write that takes longer than this was probably delayed by the scheduler, not by the device: at
/// 250 Hz, a scheduler tick is 4 ms.
const SLOW: Duration = Duration::from_millis(3);

/// The durations of all writes recorded so far.
#[derive(Debug)]
pub(crate) struct Latencies {
    /// The durations in nanoseconds, with three significant digits.
    histogram: Histogram<u64>,
    slow: u64,
}

impl Latencies {
    /// Creates an empty set of write durations.
    pub(crate) fn new() -> Result<Self, Failure> {
        Ok(Self { histogram: histogram()?, slow: 0 })
    }

    /// Adds the duration of one write.
    pub(crate) fn record(&mut self, took: Duration) {
        self.histogram.saturating_record(took.as_nanos() as u64);
        self.slow += u64::from(took > SLOW);
    }

    /// Adds the durations that another writer recorded.
    pub(crate) fn add(&mut self, other: &Self) -> Result<(), Failure> {
        self.slow += other.slow;
        Ok(self.histogram.add(&other.histogram)?)
    }
}

/// The results of a measurement, or the medians over several runs: the writes of all writers, and
/// the durations of a write.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Figures {
    pub(crate) writes: f64,
    /// Time from the start of the first write to the end of the last, in seconds.
    pub(crate) seconds: f64,
    pub(crate) per_second: f64,
    pub(crate) mean_us: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) p999_us: f64,
    pub(crate) p9999_us: f64,
    pub(crate) max_us: f64,
    /// Fraction of writes that took more than 3 ms: 0 to 1.
    pub(crate) over_3_ms: f64,
    /// The points of [`latencies::percentile_curve`].
    pub(crate) percentiles_us: Vec<f64>,
}

impl Figures {
    /// Returns the figures of the writes made in `time`, of which there must be at least one.
    pub(crate) fn of(latencies: &Latencies, time: Duration) -> Self {
        let histogram = &latencies.histogram;
        let latencies::Latencies {
            mean_us,
            p50_us,
            p99_us,
            p999_us,
            p9999_us,
            max_us,
            percentiles_us,
            ..
        } = latencies::Latencies::of(histogram);
        let (writes, seconds) = (histogram.len() as f64, time.as_secs_f64());
        Self {
            writes,
            seconds,
            per_second: writes / seconds,
            mean_us,
            p50_us,
            p99_us,
            p999_us,
            p9999_us,
            max_us,
            over_3_ms: latencies.slow as f64 / writes,
            percentiles_us,
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
    use tailwater_latency::experiment::medians;

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
        let median = medians(&ours).unwrap();
        assert!((median.per_second - 200.0).abs() < 1e-3, "{median:?}");
    }
}
