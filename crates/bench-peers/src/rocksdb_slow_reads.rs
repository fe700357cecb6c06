//! Where the time of RocksDB's slow reads goes, as far as its `PerfContext` shows it.
//!
//! The context of a thread only grows, so a read's share is the difference between two readings.
//! RocksDB does not tell how long a thread waited for a processor, nor how long it computed.

use std::array;
use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use rocksdb::perf::{PerfContext, PerfMetric, PerfStatsLevel, set_perf_stats};
use tailwater_latency::tail::SlowReads;

/// Times in nanoseconds, each with the name of the cause that it belongs to. The last metric is a
/// number of blocks.
const METRICS: [(PerfMetric, &str); 6] = [
    (PerfMetric::BlockReadTime, "device"),
    (PerfMetric::BlockChecksumTime, "unpacking"),
    (PerfMetric::BlockDecompressTime, "unpacking"),
    (PerfMetric::DbMutexLockNanos, "lock"),
    (PerfMetric::DbConditionWaitNanos, "lock"),
    (PerfMetric::BlockReadCount, ""),
];
const BLOCKS: usize = METRICS.len() - 1;

thread_local! {
    /// The context of the thread, which counts times from its first use on.
    static CONTEXT: RefCell<PerfContext> = RefCell::new({
        set_perf_stats(PerfStatsLevel::EnableTime);
        PerfContext::default()
    });
}

/// The slow reads of a database. Any thread may use it.
#[derive(Debug, Default)]
pub(crate) struct Attribution {
    /// Duration from which on a read is slow, in nanoseconds; 0 if reads are not attributed.
    threshold_ns: AtomicU64,
    count: AtomicU64,
    time_ns: AtomicU64,
    metrics: [AtomicU64; METRICS.len()],
}

impl Attribution {
    /// From now on, attributes reads that take at least this many microseconds.
    pub(crate) fn begin(&self, threshold_us: u64) {
        self.threshold_ns.store(threshold_us.saturating_mul(1000), Relaxed);
    }

    /// Makes a read, and attributes its time if it is slow.
    pub(crate) fn of<T>(&self, read: impl FnOnce() -> T) -> T {
        let threshold_ns = self.threshold_ns.load(Relaxed);
        if threshold_ns == 0 {
            return read();
        }
        let before = metrics();
        let began = Instant::now();
        let result = read();
        let time_ns = began.elapsed().as_nanos() as u64;
        if time_ns >= threshold_ns {
            self.count.fetch_add(1, Relaxed);
            self.time_ns.fetch_add(time_ns, Relaxed);
            for ((sum, after), before) in self.metrics.iter().zip(metrics()).zip(before) {
                sum.fetch_add(after.saturating_sub(before), Relaxed);
            }
        }
        result
    }

    /// Returns the totals; `None` if reads are not attributed.
    pub(crate) fn totals(&self) -> Option<SlowReads> {
        if self.threshold_ns.load(Relaxed) == 0 {
            return None;
        }
        let mut totals = SlowReads {
            count: self.count.load(Relaxed),
            time_us: self.time_ns.load(Relaxed) / 1000,
            blocks: self.metrics[BLOCKS].load(Relaxed),
            ..SlowReads::default()
        };
        for ((_, cause), time_ns) in METRICS.iter().zip(&self.metrics).take(BLOCKS) {
            *totals.causes_us.entry(cause).or_default() += time_ns.load(Relaxed) / 1000;
        }
        Some(totals)
    }
}

/// Returns the calling thread's metrics.
fn metrics() -> [u64; METRICS.len()] {
    CONTEXT.with_borrow(|context| array::from_fn(|at| context.metric(METRICS[at].0)))
}
