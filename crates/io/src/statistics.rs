//! Counts, sizes and durations of reads, writes and syncs, per [`Purpose`].
//!
//! Recording takes no lock. Counters are sharded, and each thread always uses the same shard, so
//! that cores that record concurrently do not contend for a cache line. The counters of a shard for
//! one purpose are allocated when a thread of that shard first records that purpose.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use crate::clock::Clock;
use crate::foreground::Foreground;
use crate::histogram::{Histogram, Latencies};
use crate::purpose::Purpose;
use crate::shards::{SHARDS, shard_of_this_thread};

/// The duration of a read, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadTime {
    /// The read was the only one that its caller had in flight.
    Alone(u64),
    /// The read was one of several that its caller had in flight. The duration includes the time in
    /// which it waited behind the others.
    InBatch(u64),
}

/// The statistics of one [`crate::Storage`]. Only successful calls are counted. Safe to use from
/// any thread.
#[derive(Debug, Default)]
pub struct Statistics {
    shards: [Shard; SHARDS],
    foreground: Arc<Foreground>,
}

/// Aligned to two cache lines, because processors prefetch cache lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard {
    purposes: [OnceLock<Box<Counters>>; Purpose::COUNT],
}

#[derive(Debug)]
#[repr(align(128))]
struct Counters {
    opens: AtomicU64,
    reads: Histogram,
    read_bytes: AtomicU64,
    writes: Histogram,
    written_bytes: AtomicU64,
    syncs: Histogram,
}

impl Counters {
    fn new() -> Self {
        Self {
            opens: AtomicU64::new(0),
            reads: Histogram::new(),
            read_bytes: AtomicU64::new(0),
            writes: Histogram::new(),
            written_bytes: AtomicU64::new(0),
            syncs: Histogram::new(),
        }
    }
}

impl Statistics {
    /// Creates statistics that are all zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates statistics whose [`Foreground`] uses this clock.
    pub fn with_clock(clock: Arc<dyn Clock>) -> Self {
        Self { shards: Default::default(), foreground: Arc::new(Foreground::new(clock)) }
    }

    /// Counts one opened or created file.
    pub fn record_open(&self, purpose: Purpose) {
        self.counters(purpose).opens.fetch_add(1, Relaxed);
    }

    /// Counts a read of `bytes`.
    pub fn record_read(&self, purpose: Purpose, bytes: u64, time: ReadTime) {
        let (ReadTime::Alone(duration_ns) | ReadTime::InBatch(duration_ns)) = time;
        let counters = self.counters(purpose);
        counters.reads.record(duration_ns);
        counters.read_bytes.fetch_add(bytes, Relaxed);
        if matches!(purpose, Purpose::UserRead | Purpose::UserBlobRead)
            && matches!(time, ReadTime::Alone(_))
        {
            self.foreground.record(bytes, duration_ns);
        }
    }

    /// Returns the tracker of the device reads that users' requests wait for.
    pub fn foreground(&self) -> &Arc<Foreground> {
        &self.foreground
    }

    /// Counts a write of `bytes` that took `duration_ns`.
    pub fn record_write(&self, purpose: Purpose, bytes: u64, duration_ns: u64) {
        let counters = self.counters(purpose);
        counters.writes.record(duration_ns);
        counters.written_bytes.fetch_add(bytes, Relaxed);
    }

    /// Counts a sync that took `duration_ns`.
    pub fn record_sync(&self, purpose: Purpose, duration_ns: u64) {
        self.counters(purpose).syncs.record(duration_ns);
    }

    /// Returns the figures of one purpose so far, summed over all shards.
    pub fn snapshot(&self, purpose: Purpose) -> PurposeStatistics {
        let mut sum = PurposeStatistics::default();
        for shard in &self.shards {
            let Some(counters) = shard.purposes[purpose as usize].get() else { continue };
            sum.opens += counters.opens.load(Relaxed);
            counters.reads.add_to(&mut sum.reads);
            sum.read_bytes += counters.read_bytes.load(Relaxed);
            counters.writes.add_to(&mut sum.writes);
            sum.written_bytes += counters.written_bytes.load(Relaxed);
            counters.syncs.add_to(&mut sum.syncs);
        }
        sum
    }

    fn counters(&self, purpose: Purpose) -> &Counters {
        self.shards[shard_of_this_thread()].purposes[purpose as usize]
            .get_or_init(|| Box::new(Counters::new()))
    }
}

/// A copy of the I/O counters of one [`Purpose`] at a point in time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PurposeStatistics {
    /// Files opened or created.
    pub opens: u64,
    /// Number and durations of reads.
    pub reads: Latencies,
    /// Bytes read.
    pub read_bytes: u64,
    /// Number and durations of writes.
    pub writes: Latencies,
    /// Bytes written.
    pub written_bytes: u64,
    /// Number and durations of syncs.
    pub syncs: Latencies,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_lose_no_count() {
        let statistics = Statistics::new();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for step in 0..1000 {
                        statistics.record_open(Purpose::Wal);
                        statistics.record_read(Purpose::UserRead, 10, ReadTime::Alone(step));
                        statistics.record_write(Purpose::Wal, 7, step);
                        statistics.record_sync(Purpose::Wal, step);
                    }
                });
            }
        });
        let read = statistics.snapshot(Purpose::UserRead);
        assert_eq!((read.reads.count, read.read_bytes, read.reads.max_ns), (8000, 80_000, 999));
        assert_eq!((read.opens, read.writes.count, read.syncs.count), (0, 0, 0));
        let log = statistics.snapshot(Purpose::Wal);
        assert_eq!((log.opens, log.writes.count, log.written_bytes), (8000, 8000, 56_000));
        assert_eq!(log.syncs.count, 8000);
        assert_eq!(statistics.snapshot(Purpose::Manifest), PurposeStatistics::default());
    }
}
