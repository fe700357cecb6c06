//! [`Statistics`]: tickers and histograms of a database's operations.
//!
//! Counting takes no lock. Up to 128 threads at a time have counters of their own, on cache lines
//! that no other thread writes; any further threads share one set of counters. A read sums the
//! counters of all threads. A reset does not write the counters: it stores their sums as a
//! baseline, which later reads subtract.

use std::fmt::{self, Write as _};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, MutexGuard, OnceLock};

use tailwater_io::Clock;
use tailwater_io::clock::SystemClock;
use tailwater_io::sync::Mutex;

use super::histograms::{Buckets, Distribution, Histogram, HistogramData};
use super::thread_slot::{self, NUMBERS};
use super::tickers::Ticker;

/// The tickers and histograms of one database, or of several databases that share this object. They
/// have RocksDB's names.
///
/// Without a statistics object
/// ([`OpenOptions::set_statistics`](crate::open_options::OpenOptions::set_statistics)), each count
/// costs only a branch. With one, gets, seeks and writes also read the clock. The object keeps the
/// tickers and histograms that RocksDB keeps at its default level, `kExceptDetailedTimers`, except
/// those that have no meaning in this engine. All other names are unknown.
///
/// Any thread may use this object. Each thread that counts something uses about 22 KiB of memory,
/// up to 128 threads at a time; any further threads share one set of counters.
///
/// ```
/// # fn main() -> tailwater::Result<()> {
/// # let directory = tempfile::tempdir().expect("a temporary directory");
/// # let directory = directory.path();
/// use std::sync::Arc;
/// use tailwater::{Db, OpenOptions, Statistics};
///
/// let statistics = Arc::new(Statistics::new());
/// let mut options = OpenOptions::default();
/// options.create_if_missing(true);
/// options.set_statistics(Arc::clone(&statistics));
/// let db = Db::open(directory, &options)?;
/// db.put("key", "value")?;
/// db.get("key")?;
///
/// assert_eq!(statistics.ticker("rocksdb.number.keys.written"), Some(1));
/// let gets = statistics.histogram("rocksdb.db.get.micros").expect("RocksDB's name");
/// assert_eq!(gets.count, 1);
/// # Ok(())
/// # }
/// ```
pub struct Statistics {
    clock: Arc<dyn Clock>,
    /// The counters of each thread that has a number ([`thread_slot`]), indexed by this number.
    /// Only that thread writes them.
    own: Box<[OnceLock<Box<Counters>>]>,
    /// The counters that are shared by all threads that have no number ([`thread_slot`]).
    shared: Counters,
    /// The sums of all threads' counters at the last reset. A query subtracts them from the current
    /// sums.
    baseline: Mutex<Totals>,
}

/// The counters of one thread, or those that several threads share. Aligned to two cache lines,
/// because processors prefetch lines in pairs: a thread that writes its counters must not
/// invalidate a line that another thread uses.
#[repr(align(128))]
struct Counters {
    tickers: [AtomicU64; Ticker::COUNT],
    histograms: [Buckets; Histogram::COUNT],
}

/// The sums of all threads' counters at a point in time.
struct Totals {
    tickers: [u64; Ticker::COUNT],
    histograms: Vec<Distribution>,
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            tickers: [const { AtomicU64::new(0) }; Ticker::COUNT],
            histograms: std::array::from_fn(|_| Buckets::default()),
        }
    }
}

impl Default for Totals {
    fn default() -> Self {
        Self {
            tickers: [0; Ticker::COUNT],
            histograms: vec![Distribution::default(); Histogram::COUNT],
        }
    }
}

impl Default for Statistics {
    fn default() -> Self {
        Self::new()
    }
}

impl Statistics {
    /// Creates a statistics object with zero counts.
    pub fn new() -> Self {
        Self::with_clock(Arc::new(SystemClock))
    }

    /// Creates a statistics object that measures durations with `clock`.
    pub fn with_clock(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            own: std::iter::repeat_with(OnceLock::new).take(NUMBERS).collect(),
            shared: Counters::default(),
            baseline: Mutex::default(),
        }
    }

    /// Returns the names of all tickers.
    pub fn ticker_names() -> impl Iterator<Item = &'static str> {
        Ticker::ALL.iter().map(|ticker| ticker.name())
    }

    /// Returns the names of all histograms.
    pub fn histogram_names() -> impl Iterator<Item = &'static str> {
        Histogram::ALL.iter().map(|histogram| histogram.name())
    }

    /// Returns the count of a ticker such as `rocksdb.block.cache.hit`; `None` for an unknown name.
    pub fn ticker(&self, name: &str) -> Option<u64> {
        let ticker = Ticker::from_name(name)?;
        Some(self.sum(ticker).wrapping_sub(self.baseline().tickers[ticker as usize]))
    }

    /// Returns the figures of a histogram such as `rocksdb.db.get.micros`; `None` for an unknown
    /// name.
    pub fn histogram(&self, name: &str) -> Option<HistogramData> {
        let histogram = Histogram::from_name(name)?;
        let mut distribution = self.distribution(histogram);
        distribution.subtract(&self.baseline().histograms[histogram as usize]);
        Some(distribution.summary())
    }

    /// Resets all counts to zero. An increment that is concurrent with the reset is either
    /// discarded or counted after the reset.
    pub fn reset(&self) {
        let mut baseline = self.baseline();
        for &ticker in Ticker::ALL {
            baseline.tickers[ticker as usize] = self.sum(ticker);
        }
        for &histogram in Histogram::ALL {
            baseline.histograms[histogram as usize] = self.distribution(histogram);
            for counters in self.counters() {
                counters.histograms[histogram as usize].forget_extremes();
            }
        }
    }

    /// Returns all figures, one per line, in the format of RocksDB's `Statistics::ToString`.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        for name in Self::ticker_names() {
            let count = self.ticker(name).unwrap_or(0);
            let _ = writeln!(text, "{name} COUNT : {count}");
        }
        for name in Self::histogram_names() {
            let data = self.histogram(name).unwrap_or_default();
            let HistogramData { median, percentile_95, percentile_99, max, count, sum, .. } = data;
            let _ = writeln!(
                text,
                "{name} P50 : {median:.6} P95 : {percentile_95:.6} P99 : {percentile_99:.6} \
                 P100 : {:.6} COUNT : {count} SUM : {sum}",
                max as f64
            );
        }
        text
    }

    /// Adds `by` to a ticker.
    #[inline]
    pub(crate) fn add(&self, ticker: Ticker, by: u64) {
        self.recorder().add(ticker, by);
    }

    /// Adds a measurement to a histogram.
    #[inline]
    pub(crate) fn record(&self, histogram: Histogram, value: u64) {
        self.recorder().record(histogram, value);
    }

    /// Starts to measure a duration.
    #[inline]
    pub(crate) fn start(&self) -> Started {
        Started(self.clock.monotonic_ns())
    }

    /// Adds the duration since `started` to a histogram. Returns the duration in microseconds.
    #[inline]
    pub(crate) fn record_since(&self, histogram: Histogram, started: Started) -> u64 {
        let micros = self.clock.monotonic_ns().saturating_sub(started.0) / 1000;
        self.record(histogram, micros);
        micros
    }

    /// Returns the calling thread's counters, for a caller that adds several figures.
    #[inline]
    pub(crate) fn recorder(&self) -> Recorder<'_> {
        match thread_slot::number().and_then(|number| self.own.get(number)) {
            Some(own) => Recorder { counters: own.get_or_init(Box::default), is_own: true },
            None => Recorder { counters: &self.shared, is_own: false },
        }
    }

    fn counters(&self) -> impl Iterator<Item = &Counters> {
        let own = self.own.iter().filter_map(|own| own.get().map(Box::as_ref));
        own.chain([&self.shared])
    }

    fn sum(&self, ticker: Ticker) -> u64 {
        let counts =
            self.counters().map(|counters| counters.tickers[ticker as usize].load(Relaxed));
        counts.fold(0, u64::wrapping_add)
    }

    fn distribution(&self, histogram: Histogram) -> Distribution {
        let mut sum = Distribution::default();
        for counters in self.counters() {
            counters.histograms[histogram as usize].add_to(&mut sum);
        }
        sum
    }

    fn baseline(&self) -> MutexGuard<'_, Totals> {
        self.baseline.lock()
    }
}

impl fmt::Debug for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Statistics").finish_non_exhaustive()
    }
}

/// The start of a measured duration.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Started(u64);

/// The counters to which the calling thread adds.
pub(crate) struct Recorder<'s> {
    counters: &'s Counters,
    /// Whether only the calling thread writes these counters. If so, it adds to them without atomic
    /// read-modify-write instructions.
    is_own: bool,
}

impl Recorder<'_> {
    /// Adds `by` to a ticker.
    #[inline]
    pub(crate) fn add(&self, ticker: Ticker, by: u64) {
        self.add_to(&self.counters.tickers[ticker as usize], by);
    }

    /// Adds a measurement to a histogram.
    #[inline]
    pub(crate) fn record(&self, histogram: Histogram, value: u64) {
        let buckets = &self.counters.histograms[histogram as usize];
        buckets.record(value, |counter, by| self.add_to(counter, by));
    }

    #[inline]
    fn add_to(&self, counter: &AtomicU64, by: u64) {
        if self.is_own {
            counter.store(counter.load(Relaxed).wrapping_add(by), Relaxed);
        } else {
            counter.fetch_add(by, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_lose_no_count() {
        let statistics = Statistics::new();
        // There are more threads than thread numbers, so that some threads share counters.
        std::thread::scope(|scope| {
            for _ in 0..NUMBERS + 16 {
                scope.spawn(|| {
                    for value in 0..100 {
                        statistics.add(Ticker::BytesRead, 3);
                        statistics.record(Histogram::BytesPerRead, value);
                    }
                });
            }
        });
        let threads = NUMBERS as u64 + 16;
        assert_eq!(statistics.ticker("rocksdb.bytes.read"), Some(300 * threads));
        let measured = statistics.histogram("rocksdb.bytes.per.read").expect("a histogram");
        assert_eq!((measured.count, measured.sum), (100 * threads, 4950 * threads));
        assert_eq!((measured.min, measured.max), (0, 99));
        assert_eq!(statistics.ticker("rocksdb.bytes.written"), Some(0));
    }

    #[test]
    fn a_reset_clears_all_counts() {
        let statistics = Statistics::new();
        for _ in 0..2 {
            statistics.add(Ticker::BytesRead, 7);
            statistics.record(Histogram::BytesPerRead, 1000);
            statistics.reset();
            assert_eq!(statistics.ticker("rocksdb.bytes.read"), Some(0));
            let empty = statistics.histogram("rocksdb.bytes.per.read");
            assert_eq!(empty, Some(HistogramData::default()));
        }
        statistics.add(Ticker::BytesRead, 5);
        statistics.record(Histogram::BytesPerRead, 2);
        assert_eq!(statistics.ticker("rocksdb.bytes.read"), Some(5));
        let measured = statistics.histogram("rocksdb.bytes.per.read").expect("a histogram");
        assert_eq!((measured.count, measured.sum, measured.max), (1, 2, 2));
    }

    #[test]
    fn the_text_has_the_format_of_rocksdb() {
        let statistics = Statistics::new();
        statistics.add(Ticker::BlockCacheMiss, 12);
        statistics.record(Histogram::DbGet, 3);
        let text = statistics.text();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), Ticker::COUNT + Histogram::COUNT);
        assert_eq!(lines[0], "rocksdb.block.cache.miss COUNT : 12");
        assert_eq!(
            lines[Ticker::COUNT],
            "rocksdb.db.get.micros P50 : 3.000000 P95 : 3.000000 P99 : 3.000000 P100 : 3.000000 \
             COUNT : 1 SUM : 3"
        );
        assert_eq!(statistics.ticker("rocksdb.nothing"), None);
        assert_eq!(statistics.histogram("rocksdb.block.cache.miss"), None);
    }
}
