//! Percentiles and other figures of latencies.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// Largest latency that can be recorded, in nanoseconds: ten minutes.
const LONGEST_NS: u64 = 600_000_000_000;

/// Returns an empty histogram of latencies in nanoseconds, with three significant digits.
///
/// # Errors
/// Never fails, since the bounds are valid for a histogram.
pub fn histogram() -> Result<Histogram<u64>, Failure> {
    Ok(Histogram::new_with_max(LONGEST_NS, 3)?)
}

/// Number of points of a percentile curve for each nine: ten from p90 to p99, for example.
pub const POINTS_PER_NINE: usize = 10;
/// Number of nines up to which a percentile curve is reported: four are p99.99.
pub const NINES: usize = 4;
/// A point of a percentile curve is reported only if at least this many samples lie above it.
pub const SAMPLES_ABOVE_MIN: f64 = 10.0;

/// Returns the points of a percentile curve, in microseconds. Point number `i` is the latency that
/// the fraction `1 - 10^(-i / POINTS_PER_NINE)` of the operations did not exceed. `samples` is the
/// number of independent samples; points with too few samples above them are left out.
pub fn percentile_curve(histogram: &Histogram<u64>, samples: f64) -> Vec<f64> {
    let above = |point: usize| 0.1_f64.powf(point as f64 / POINTS_PER_NINE as f64);
    (0..=NINES * POINTS_PER_NINE)
        .take_while(|&point| samples * above(point) >= SAMPLES_ABOVE_MIN)
        .map(|point| histogram.value_at_quantile(1.0 - above(point)) as f64 / 1000.0)
        .collect()
}

/// The reported figures of a latency distribution, in microseconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Latencies {
    /// Median.
    pub p50_us: f64,
    /// 90th percentile.
    pub p90_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// 99.9th percentile.
    pub p999_us: f64,
    /// 99.99th percentile.
    pub p9999_us: f64,
    /// Maximum.
    pub max_us: f64,
    /// Mean.
    pub mean_us: f64,
    /// Standard deviation.
    pub stddev_us: f64,
    /// The points of [`percentile_curve`].
    #[serde(default)]
    pub percentiles_us: Vec<f64>,
}

impl Latencies {
    /// Computes percentiles, maximum, mean and standard deviation from a histogram of nanoseconds
    /// of independent operations.
    pub fn of(histogram: &Histogram<u64>) -> Self {
        let at = |quantile: f64| histogram.value_at_quantile(quantile) as f64 / 1000.0;
        Self {
            p50_us: at(0.5),
            p90_us: at(0.9),
            p99_us: at(0.99),
            p999_us: at(0.999),
            p9999_us: at(0.9999),
            max_us: histogram.max() as f64 / 1000.0,
            mean_us: histogram.mean() / 1000.0,
            stddev_us: histogram.stdev() / 1000.0,
            percentiles_us: percentile_curve(histogram, histogram.len() as f64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_in_microseconds() {
        let mut nanoseconds = histogram().unwrap();
        for microseconds in 1..=1000 {
            nanoseconds.record(microseconds * 1000).unwrap();
        }
        let latencies = Latencies::of(&nanoseconds);
        assert!((499.0..=501.0).contains(&latencies.p50_us), "{latencies:?}");
        assert!((989.0..=991.0).contains(&latencies.p99_us), "{latencies:?}");
        assert!((999.0..=1001.0).contains(&latencies.max_us), "{latencies:?}");
        // Of a thousand samples, ten lie above p99, which is the last point.
        assert_eq!(latencies.percentiles_us.len(), 21);
        assert_eq!(latencies.percentiles_us[10], latencies.p90_us);
    }
}
