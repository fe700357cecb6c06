//! Limits how many requests background streams, and batches of users' reads, have at a device while
//! users' reads wait for it.
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
//! A *batch* is a set of reads that one user's call has in flight together. To others, it is what a
//! background stream is: their single reads wait at the device behind the requests of the batch. So
//! the requests of all batches together have a limit of their own, derived in the same way from
//! single reads. It is stricter, and its baseline is renewed once a second, during a window in
//! which batches have one request in flight. If a single thread makes all batches, its own single
//! reads do not count: they do not wait behind a batch.
//!
//! # When reads count as slow
//! Reads are judged in windows of 10 to 100 milliseconds. The measure of a window is the mean of
//! the logarithms of its reads' durations, so that a single read that waited for the processor has
//! little weight. This mean is compared with a baseline: the mean of reads that were made while no
//! stream had asked to send requests for at least a second. If a window is faster than the
//! baseline, the baseline moves part of the way towards it. The baseline moves up, slowly, only
//! while the streams are limited to one request and reads are still slow. In that case the device
//! or the users' load has changed, and limiting the streams does not help.

mod limiter;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use crate::clock::{Clock, SystemClock};
use crate::shards::{SHARDS, shard_of_this_thread};
use crate::thread::ordinal;

use limiter::{BATCHES, IDLE_NS, Limiter, Reads, STREAMS};

/// Duration in nanoseconds below which a read counts as served by the page cache.
const FROM_DEVICE_NS: u64 = 20_000;
/// Maximum size of a read that is recorded, in bytes. The duration of a longer read depends mostly
/// on its size.
const SHORT_READ: u64 = 64 << 10;

/// Measures the duration of users' reads from the device, and derives limits on the requests that
/// background streams and batches may have in flight. Safe to use from any thread. Recording a read
/// takes no lock. If a read was too fast to have come from the device, recording it does nothing.
#[derive(Debug)]
pub struct Foreground {
    shards: [Shard; SHARDS],
    streams: Limiter,
    batches: Limiter,
    batching: BatchingThreads,
    clock: Arc<dyn Clock>,
}

/// Which threads make batches.
#[derive(Debug, Default)]
struct BatchingThreads {
    /// The [`ordinal`] of the thread that made the last batch; 0 if there was none.
    last: AtomicUsize,
    /// Time in nanoseconds when a batch was last made by another thread than the one before; 0 if
    /// that has never happened.
    changed_ns: AtomicU64,
}

impl BatchingThreads {
    fn note(&self, clock: &dyn Clock) {
        let last = self.last.load(Relaxed);
        if last == ordinal() {
            return;
        }
        if last != 0 {
            self.changed_ns.store(clock.monotonic_ns(), Relaxed);
        }
        self.last.store(ordinal(), Relaxed);
    }

    /// Whether only the calling thread has made batches, at least during the last second.
    fn are_only_this(&self, clock: &dyn Clock) -> bool {
        let changed_ns = self.changed_ns.load(Relaxed);
        self.last.load(Relaxed) == ordinal()
            && (changed_ns == 0 || clock.monotonic_ns().saturating_sub(changed_ns) >= IDLE_NS)
    }
}

/// Totals of the reads that some of the threads recorded. Aligned to two cache lines, because
/// processors fetch lines in pairs. So threads with different shards do not share lines.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard {
    /// Reads that may have waited behind a batch.
    single: RecordedReads,
    /// Reads that waited behind no batch: the first reads to complete of each batch, and the single
    /// reads of the only thread that makes batches.
    beside_no_batch: RecordedReads,
}

#[derive(Debug, Default)]
struct RecordedReads {
    count: AtomicU64,
    logarithms: AtomicU64,
}

impl RecordedReads {
    #[inline]
    fn record(&self, duration_ns: u64) {
        self.count.fetch_add(1, Relaxed);
        self.logarithms.fetch_add(logarithm(duration_ns), Relaxed);
    }

    fn add_to(&self, sum: &mut Reads) {
        sum.count += self.count.load(Relaxed);
        sum.logarithms += self.logarithms.load(Relaxed);
    }
}

impl Foreground {
    /// Creates a limiter that has not recorded any reads and takes the time from `clock`.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            shards: Default::default(),
            streams: Limiter::new(&STREAMS),
            batches: Limiter::new(&BATCHES),
            batching: BatchingThreads::default(),
            clock,
        }
    }

    /// Records that a user's single read of `bytes` bytes took `duration_ns`.
    #[inline]
    pub fn record(&self, bytes: u64, duration_ns: u64) {
        if !is_relevant(bytes, duration_ns) {
            return;
        }
        let shard = &self.shards[shard_of_this_thread()];
        if self.batching.are_only_this(&*self.clock) {
            shard.beside_no_batch.record(duration_ns);
        } else {
            shard.single.record(duration_ns);
        }
    }

    /// Records that the first read of a batch to complete, of `bytes` bytes, took `duration_ns`.
    /// The others wait behind it, so their durations do not show harm done by background streams.
    pub(crate) fn record_first_of_batch(&self, bytes: u64, duration_ns: u64) {
        if is_relevant(bytes, duration_ns) {
            self.shards[shard_of_this_thread()].beside_no_batch.record(duration_ns);
        }
    }

    /// Returns the number of requests that a stream may have in flight. Without a limit this is
    /// `full`. `own` is the number of requests that the stream has in flight now. If `needed` is
    /// true, a caller waits for the stream, and the result is at least 1.
    pub fn depth(&self, full: usize, own: usize, needed: bool) -> usize {
        let observe = || (self.clock.monotonic_ns(), self.all_reads());
        self.streams.depth(observe, full, own, needed)
    }

    /// Returns the number of times that a stream was granted fewer requests than it asked for.
    pub fn held_back(&self) -> u64 {
        self.streams.held_back.load(Relaxed)
    }

    /// Records that a stream has sent this number of requests.
    pub fn began(&self, requests: usize) {
        self.streams.began(&*self.clock, requests);
    }

    /// Records the end of `requests` requests that a stream had in flight.
    pub fn ended(&self, requests: usize) {
        self.streams.ended(requests);
    }

    /// Returns the number of requests that a batch may have in flight, at least 1. Without a limit
    /// this is `full`. `own` is the number of requests that the batch has in flight now.
    pub(crate) fn depth_of_batch(&self, full: usize, own: usize) -> usize {
        self.batching.note(&*self.clock);
        let observe = || (self.clock.monotonic_ns(), self.single_reads());
        self.batches.depth(observe, full, own, true)
    }

    /// Records that a batch has sent this number of requests.
    pub(crate) fn batch_began(&self, requests: usize) {
        self.batches.began(&*self.clock, requests);
    }

    /// Records the end of `requests` requests that a batch had in flight.
    pub(crate) fn batch_ended(&self, requests: usize) {
        self.batches.ended(requests);
    }

    /// Returns all recorded reads, for streams.
    fn all_reads(&self) -> Reads {
        let mut sum = self.single_reads();
        self.shards.iter().for_each(|shard| shard.beside_no_batch.add_to(&mut sum));
        sum
    }

    /// Returns the reads that may have waited behind a batch.
    fn single_reads(&self) -> Reads {
        let mut sum = Reads::default();
        self.shards.iter().for_each(|shard| shard.single.add_to(&mut sum));
        sum
    }
}

impl Default for Foreground {
    fn default() -> Self {
        Self::new(Arc::new(SystemClock))
    }
}

/// Whether a read came from the device, and its duration does not depend mostly on its size.
fn is_relevant(bytes: u64, duration_ns: u64) -> bool {
    duration_ns >= FROM_DEVICE_NS && bytes <= SHORT_READ
}

/// Returns the binary logarithm of a duration in nanoseconds, multiplied by 256. The logarithm is
/// interpolated linearly between powers of two. Before the multiplication, it is wrong by at most
/// 0.09.
fn logarithm(duration_ns: u64) -> u64 {
    let duration_ns = duration_ns.min(1 << 50);
    let exponent = duration_ns.max(1).ilog2();
    (u64::from(exponent) << 8) + (((duration_ns << 8) >> exponent) & 0xFF)
}
