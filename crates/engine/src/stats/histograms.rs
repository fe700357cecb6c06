//! Histograms, with the names and buckets of RocksDB's.
//!
//! The bucket bounds are computed as in RocksDB (`monitoring/histogram.cc`): each bound is 1.5
//! times the previous one, truncated to two significant digits. Percentiles are interpolated
//! linearly within a bucket, as in RocksDB. So the figures of both engines are comparable.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::tickers::figures;

figures! {
    /// The histograms. Durations are in microseconds.
    Histogram {
        DbGet = "rocksdb.db.get.micros",
        DbWrite = "rocksdb.db.write.micros",
        CompactionTime = "rocksdb.compaction.times.micros",
        /// Syncs of flushed tables.
        TableSync = "rocksdb.table.sync.micros",
        WalFileSync = "rocksdb.wal.file.sync.micros",
        TableOpenIo = "rocksdb.table.open.io.micros",
        DbMultiget = "rocksdb.db.multiget.micros",
        /// Time to read a block from a file for a compaction, including verification and
        /// decompression.
        ReadBlockCompaction = "rocksdb.read.block.compaction.micros",
        /// Time to read a block from a file for any purpose except a compaction.
        ReadBlockGet = "rocksdb.read.block.get.micros",
        /// Number of tables that a compaction read.
        FilesInCompaction = "rocksdb.numfiles.in.singlecompaction",
        DbSeek = "rocksdb.db.seek.micros",
        /// Time that a writer waited because writes were slowed down or stopped.
        WriteStall = "rocksdb.db.write.stall",
        /// The size of a value that a get found, in bytes.
        BytesPerRead = "rocksdb.bytes.per.read",
        /// The size of the batches of a group of writes, in bytes.
        BytesPerWrite = "rocksdb.bytes.per.write",
        /// The total size of the values that a get of several keys found, in bytes.
        BytesPerMultiget = "rocksdb.bytes.per.multiget",
        FlushTime = "rocksdb.db.flush.micros",
        /// Memory of the memtables of a column family that a flush begins to write, in bytes.
        FlushMemoryBytes = "rocksdb.flush.memtable.memory.bytes",
        /// Size of the keys and values in these memtables, in bytes.
        FlushDataBytes = "rocksdb.flush.memtable.total.data.size.bytes",
        /// Memory of these memtables, in bytes, if one had reached `write_buffer_size`.
        FlushFullMemoryBytes = "rocksdb.flush.write_buffer_full.memtable.memory.bytes",
        /// Memory of these memtables, in bytes, if memtables came near the limit of the write
        /// buffer manager.
        FlushManagerMemoryBytes = "rocksdb.flush.write_buffer_manager.memtable.memory.bytes",
        /// Time that a read waited for the rate limiter.
        RateLimiterWaitRead = "rocksdb.rate.limiter.wait.micros.read",
        /// Time that a write waited for the rate limiter.
        RateLimiterWaitWrite = "rocksdb.rate.limiter.wait.micros.write",
        /// Time to check files for ingestion, and to link or copy them into the database's
        /// directory.
        IngestPrepare = "rocksdb.ingest.external.file.prepare.micros",
        /// Time to add ingested files to the database.
        IngestRun = "rocksdb.ingest.external.file.run.micros",
    }
}

const BUCKETS: usize = 109;
/// The largest value of each bucket, inclusive. The last bucket also counts all larger values.
static BOUNDS: [u64; BUCKETS] = bounds();

const fn bounds() -> [u64; BUCKETS] {
    let mut bounds = [1; BUCKETS];
    bounds[1] = 2;
    let mut exact = 2.0_f64;
    let mut at = 2;
    while at < BUCKETS {
        exact *= 1.5;
        let mut digits = exact as u64;
        let mut power_of_ten = 1;
        while digits / 10 > 10 {
            digits /= 10;
            power_of_ten *= 10;
        }
        bounds[at] = digits * power_of_ten;
        at += 1;
    }
    bounds
}

fn bucket_of(value: u64) -> usize {
    BOUNDS.partition_point(|&bound| bound < value).min(BUCKETS - 1)
}

/// The counters of a histogram. They are updated by one thread, or shared by several.
#[derive(Debug)]
pub(super) struct Buckets {
    counts: [AtomicU64; BUCKETS],
    sum: AtomicU64,
    min: AtomicU64,
    max: AtomicU64,
}

impl Default for Buckets {
    fn default() -> Self {
        Self {
            counts: [const { AtomicU64::new(0) }; BUCKETS],
            sum: AtomicU64::new(0),
            min: AtomicU64::new(u64::MAX),
            max: AtomicU64::new(0),
        }
    }
}

impl Buckets {
    /// Adds a measurement. `add` adds a number to a counter. If only one thread updates the
    /// counters, `add` need not be atomic.
    #[inline]
    pub(super) fn record(&self, value: u64, add: impl Fn(&AtomicU64, u64)) {
        add(&self.counts[bucket_of(value)], 1);
        add(&self.sum, value);
        if value < self.min.load(Relaxed) {
            self.min.fetch_min(value, Relaxed);
        }
        if value > self.max.load(Relaxed) {
            self.max.fetch_max(value, Relaxed);
        }
    }

    /// Resets the minimum and maximum. The counts cannot be reset here:
    /// [`Statistics::reset`](super::Statistics::reset) remembers their current values, and
    /// subtracts them from later ones.
    pub(super) fn forget_extremes(&self) {
        self.min.store(u64::MAX, Relaxed);
        self.max.store(0, Relaxed);
    }

    /// Adds these counters to `sum`.
    pub(super) fn add_to(&self, sum: &mut Distribution) {
        for (sum, count) in sum.counts.iter_mut().zip(&self.counts) {
            *sum += count.load(Relaxed);
        }
        sum.sum = sum.sum.wrapping_add(self.sum.load(Relaxed));
        sum.min = sum.min.min(self.min.load(Relaxed));
        sum.max = sum.max.max(self.max.load(Relaxed));
    }
}

/// A copy of a histogram's counters at a point in time.
#[derive(Debug, Clone)]
pub(super) struct Distribution {
    counts: [u64; BUCKETS],
    sum: u64,
    /// The lowest measurement; `u64::MAX` without measurements.
    min: u64,
    max: u64,
}

impl Default for Distribution {
    fn default() -> Self {
        Self { counts: [0; BUCKETS], sum: 0, min: u64::MAX, max: 0 }
    }
}

impl Distribution {
    /// Subtracts the counts and the sum of an earlier copy from this one.
    pub(super) fn subtract(&mut self, earlier: &Self) {
        for (count, earlier) in self.counts.iter_mut().zip(&earlier.counts) {
            *count = count.saturating_sub(*earlier);
        }
        self.sum = self.sum.wrapping_sub(earlier.sum);
    }

    fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the value such that `percent` percent of the measurements are at or below it. The
    /// value is interpolated linearly within its bucket.
    fn percentile(&self, percent: f64) -> f64 {
        let rank = self.count() as f64 * (percent / 100.0);
        let mut below = 0;
        for (at, &count) in self.counts.iter().enumerate() {
            if (below + count) as f64 >= rank {
                let left = at.checked_sub(1).map_or(0, |before| BOUNDS[before]) as f64;
                let right = BOUNDS[at] as f64;
                let part = if count > 0 { (rank - below as f64) / count as f64 } else { 0.0 };
                let value = left + (right - left) * part;
                return value.max(self.min as f64).min(self.max as f64);
            }
            below += count;
        }
        self.max as f64
    }

    /// Returns the summary figures.
    pub(super) fn summary(&self) -> HistogramData {
        let count = self.count();
        if count == 0 {
            return HistogramData::default();
        }
        HistogramData {
            count,
            sum: self.sum,
            average: self.sum as f64 / count as f64,
            median: self.percentile(50.0),
            percentile_95: self.percentile(95.0),
            percentile_99: self.percentile(99.0),
            min: self.min.min(self.max),
            max: self.max,
        }
    }
}

/// Summary figures of a histogram, in the unit of its measurements; all 0 without measurements.
///
/// Percentiles are interpolated linearly within a bucket. The upper bound of a bucket is about 1.5
/// times its lower bound.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub struct HistogramData {
    /// Number of measurements.
    pub count: u64,
    /// Sum of the measurements.
    pub sum: u64,
    /// Mean of the measurements.
    pub average: f64,
    /// Median.
    pub median: f64,
    /// 95th percentile.
    pub percentile_95: f64,
    /// 99th percentile.
    pub percentile_99: f64,
    /// Minimum.
    pub min: u64,
    /// Maximum.
    pub max: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(values: impl IntoIterator<Item = u64>) -> HistogramData {
        let buckets = Buckets::default();
        for value in values {
            buckets.record(value, |counter, by| {
                counter.fetch_add(by, Relaxed);
            });
        }
        let mut distribution = Distribution::default();
        buckets.add_to(&mut distribution);
        distribution.summary()
    }

    /// Checks the bucket bounds against those in a histogram that RocksDB printed.
    #[test]
    fn buckets_have_rocksdb_s_bounds() {
        let first = [
            1, 2, 3, 4, 6, 10, 15, 22, 34, 51, 76, 110, 170, 250, 380, 580, 870, 1300, 1900, 2900,
            4400, 6600, 9900, 14000, 22000, 33000, 50000, 75000, 110_000, 170_000, 250_000,
        ];
        assert_eq!(BOUNDS[..first.len()], first);
        assert!(BOUNDS.is_sorted_by(|a, b| a < b), "{BOUNDS:?}");
        assert!(BOUNDS[BUCKETS - 1] as f64 * 1.5 > u64::MAX as f64 * 0.9, "{BOUNDS:?}");
        for (value, bucket) in [(0, 0), (1, 0), (2, 1), (5, 4), (6, 4), (7, 5), (u64::MAX, 108)] {
            assert_eq!(bucket_of(value), bucket, "{value}");
        }
    }

    #[test]
    fn percentiles_lie_within_their_bucket_in_proportion() {
        let evenly = summary(1..=100);
        assert_eq!((evenly.count, evenly.sum, evenly.average), (100, 5050, 50.5));
        assert_eq!((evenly.min, evenly.max), (1, 100));
        // 34 of the 100 values are at most 34, and 17 are in the bucket from 34 (exclusive) to 51.
        // So the 50th value is interpolated at 16/17 of the way through this bucket.
        assert!((evenly.median - 50.0).abs() < 1e-9, "{evenly:?}");
        // 76 of the 100 values are at most 76, and 24 are in the bucket from 76 (exclusive) to 110.
        // So the 95th value is at 19/24 of the way through this bucket, which is 102.9. But a
        // percentile never exceeds the highest value, 100.
        assert_eq!((evenly.percentile_95, evenly.percentile_99), (100.0, 100.0));
        let one = summary([7]);
        assert_eq!((one.median, one.percentile_99, one.max), (7.0, 7.0, 7));
        assert_eq!(summary([]), HistogramData::default());
    }
}
