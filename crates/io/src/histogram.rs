//! A histogram of durations that many threads record into without locks.
//!
//! Buckets are log-linear: the range between two powers of two is divided into [`SUBDIVISIONS`]
//! equal buckets. So the width of a bucket is at most 1/16 of its lower bound, and the number of
//! buckets is fixed. The layout is that of HdrHistogram.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const SUBDIVISION_BITS: u32 = 4;
/// Number of buckets per power of two.
const SUBDIVISIONS: u64 = 1 << SUBDIVISION_BITS;
/// Binary logarithm of the duration, in nanoseconds, from which on all durations share the last
/// bucket: 2^40 ns are 18 minutes.
const LARGEST_EXPONENT: u32 = 40;
const BUCKETS: usize = ((LARGEST_EXPONENT - SUBDIVISION_BITS + 1) << SUBDIVISION_BITS) as usize;

/// Returns the number of the bucket in which `value` is counted.
fn bucket_of(value: u64) -> usize {
    let value = value.min((1 << LARGEST_EXPONENT) - 1);
    if value < SUBDIVISIONS {
        return value as usize;
    }
    let shift = value.ilog2() - SUBDIVISION_BITS;
    let part = (value >> shift) & (SUBDIVISIONS - 1);
    ((u64::from(shift + 1) << SUBDIVISION_BITS) + part) as usize
}

/// Returns the largest value that is counted in the bucket with this number.
fn highest_in(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < SUBDIVISIONS {
        return bucket;
    }
    let shift = (bucket >> SUBDIVISION_BITS) - 1;
    let part = bucket & (SUBDIVISIONS - 1);
    ((SUBDIVISIONS + part + 1) << shift) - 1
}

/// Counts durations. Recording is a few relaxed atomic additions.
#[derive(Debug)]
pub(crate) struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    total_ns: AtomicU64,
    max_ns: AtomicU64,
}

impl Histogram {
    pub(crate) fn new() -> Self {
        Self {
            buckets: [const { AtomicU64::new(0) }; BUCKETS],
            total_ns: AtomicU64::new(0),
            max_ns: AtomicU64::new(0),
        }
    }

    pub(crate) fn record(&self, duration_ns: u64) {
        self.buckets[bucket_of(duration_ns)].fetch_add(1, Relaxed);
        self.total_ns.fetch_add(duration_ns, Relaxed);
        // The maximum seldom changes. Checking it first avoids a write to the cache line.
        if duration_ns > self.max_ns.load(Relaxed) {
            self.max_ns.fetch_max(duration_ns, Relaxed);
        }
    }

    /// Adds the recorded durations to `sum`.
    pub(crate) fn add_to(&self, sum: &mut Latencies) {
        sum.buckets.resize(BUCKETS, 0);
        for (into, bucket) in sum.buckets.iter_mut().zip(&self.buckets) {
            let count = bucket.load(Relaxed);
            *into += count;
            sum.count += count;
        }
        sum.total_ns += self.total_ns.load(Relaxed);
        sum.max_ns = sum.max_ns.max(self.max_ns.load(Relaxed));
    }
}

/// Counts of call durations, copied from a histogram at a point in time.
///
/// The copy is not atomic. If a call ends during the copying, `count` may include the call while
/// `total_ns` does not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Latencies {
    /// Number of the calls whose durations the histogram recorded.
    pub count: u64,
    /// Sum of the durations of the calls, in nanoseconds.
    pub total_ns: u64,
    /// Longest duration of a call, in nanoseconds.
    pub max_ns: u64,
    buckets: Vec<u64>,
}

impl Latencies {
    /// Returns the mean in nanoseconds; zero if there was no call.
    pub fn mean_ns(&self) -> u64 {
        self.total_ns.checked_div(self.count).unwrap_or(0)
    }

    /// Returns a duration in nanoseconds that `percent` percent of the calls (0 to 100) did not
    /// exceed. It is the exact percentile or at most 1/16 above it. Zero if there was no call.
    pub fn percentile_ns(&self, percent: f64) -> u64 {
        let rank =
            ((percent / 100.0 * self.count as f64).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return highest_in(bucket).min(self.max_ns);
            }
        }
        self.max_ns
    }

    /// Returns the calls that ended after `earlier`, an older copy of the same histogram. The
    /// maximum of the result is exact or at most 1/16 too high.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let before = earlier.buckets.iter().copied().chain(std::iter::repeat(0));
        let buckets: Vec<u64> = self
            .buckets
            .iter()
            .zip(before)
            .map(|(now, before)| now.saturating_sub(before))
            .collect();
        let longest = buckets.iter().rposition(|count| *count > 0);
        Self {
            count: buckets.iter().sum(),
            total_ns: self.total_ns.saturating_sub(earlier.total_ns),
            max_ns: longest.map_or(0, |bucket| highest_in(bucket).min(self.max_ns)),
            buckets,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_contiguous_and_narrow() {
        let mut next = 0u64;
        for bucket in 0..BUCKETS {
            assert_eq!(bucket_of(next), bucket, "the lowest value of bucket {bucket}");
            let highest = highest_in(bucket);
            assert_eq!(bucket_of(highest), bucket, "the highest value of bucket {bucket}");
            assert!(highest - next <= next / SUBDIVISIONS, "bucket {bucket} is too wide");
            next = highest + 1;
        }
        assert_eq!(next, 1 << LARGEST_EXPONENT);
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn a_difference_contains_only_later_records() {
        let histogram = Histogram::new();
        let taken = || {
            let mut latencies = Latencies::default();
            histogram.add_to(&mut latencies);
            latencies
        };
        histogram.record(70_000_000);
        let earlier = taken();
        assert_eq!(taken().since(&earlier).max_ns, 0);
        histogram.record(1_000);
        histogram.record(2_000);
        let later = taken().since(&earlier);
        assert_eq!((later.count, later.total_ns), (2, 3_000));
        assert!((2_000..=2_125).contains(&later.max_ns), "{}", later.max_ns);
        assert!((1_000..=1_063).contains(&later.percentile_ns(50.0)));
        assert_eq!(taken().since(&Latencies::default()).count, 3);
    }

    #[test]
    fn percentiles_bound_the_true_value() {
        let histogram = Histogram::new();
        for value in 1..=10_000u64 {
            histogram.record(value * 100);
        }
        let mut latencies = Latencies::default();
        histogram.add_to(&mut latencies);
        assert_eq!(latencies.count, 10_000);
        assert_eq!(latencies.mean_ns(), 500_050);
        assert_eq!(latencies.max_ns, 1_000_000);
        assert_eq!(latencies.percentile_ns(100.0), 1_000_000);
        for percent in [0.01, 1.0, 50.0, 99.0, 99.9] {
            let exact = (percent * 10_000.0) as u64;
            let found = latencies.percentile_ns(percent);
            assert!(
                found >= exact && found <= exact + exact / 16,
                "{percent}: {found}, not {exact}"
            );
        }
    }

    #[test]
    fn an_empty_histogram_reads_as_zero() {
        let latencies = Latencies::default();
        assert_eq!((latencies.mean_ns(), latencies.percentile_ns(99.0)), (0, 0));
    }
}
