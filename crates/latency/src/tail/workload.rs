//! The threads of a phase: readers of the hot set, and a writer that overwrites keys of the whole
//! database.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};

use fastrand::Rng;
use serde::{Deserialize, Serialize};
use tailwater_io::Clock;
use tailwater_io::kernel::RunQueue;
use tailwater_io::kernel::disk::thread_read_bytes;

use super::engine::TailDatabase;
use super::schedule::{Arrivals, Pace};
use crate::entries::{KEY_BYTES, Values, key};
use crate::experiment::timeline::Recorder;
use crate::failure::Failure;

/// The time at which a phase ends, in nanoseconds of the monotonic clock. Any thread may end the
/// phase earlier.
#[derive(Debug)]
pub(super) struct End(AtomicU64);

impl End {
    /// Creates the end of a phase, at the time `end_ns`.
    pub(super) fn at(end_ns: u64) -> Self {
        Self(AtomicU64::new(end_ns))
    }

    /// Ends the phase now, unless it has already ended.
    pub(super) fn now(&self, clock: &dyn Clock) {
        self.0.fetch_min(clock.monotonic_ns(), Ordering::Relaxed);
    }

    /// Returns whether the phase that ends at this time has ended.
    pub(super) fn has_come(&self, clock: &dyn Clock) -> bool {
        clock.monotonic_ns() >= self.ns()
    }

    fn ns(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The size of the database, and the reads of its hot set.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Load {
    /// Number of keys in the database. The writer overwrites all of them, not only the hot set.
    pub(super) keys: u64,
    pub(super) key_bytes: usize,
    pub(super) value_bytes: usize,
    /// Share of their size to which values compress.
    #[serde(default = "incompressible")]
    pub(super) compression_ratio: f64,
    /// Size of the hot set, in keys. The readers read only these keys, which at first are the first
    /// keys of the database.
    pub(super) hot_keys: u64,
    pub(super) readers: usize,
    /// Reads per second of all readers together, in an open loop: reads are scheduled. `None` for a
    /// closed loop, in which a reader starts a read when its previous read has returned.
    pub(super) reads_per_second: Option<f64>,
}

/// The ratio of values in reports that do not name it.
fn incompressible() -> f64 {
    1.0
}

/// What the threads of a phase share.
pub(super) struct Phase<'a> {
    pub(super) database: &'a dyn TailDatabase,
    pub(super) clock: &'a dyn Clock,
    pub(super) load: Load,
    /// Start of the time over which the hot set moves, on the monotonic clock; `None` if it does
    /// not move.
    pub(super) moves_from_ns: Option<u64>,
    /// Seed of the random choice of keys, and of the written values.
    pub(super) seed: u64,
    pub(super) end: End,
}

/// Interval between two moves of the hot set, in nanoseconds.
const MOVES_NS: u64 = 10_000_000_000;

/// What one reader has measured, apart from the latencies.
#[derive(Debug)]
pub(super) struct Reads {
    /// Number of reads that have returned.
    pub(super) count: u64,
    /// Time for which the reader's thread ran, and for which it waited for a processor; `None` if
    /// the kernel does not report it.
    pub(super) run_queue: Option<RunQueue>,
    /// Bytes that the reader's thread fetched from devices, read-ahead included; `None` if the
    /// kernel does not report it.
    pub(super) fetched_bytes: Option<u64>,
}

impl Phase<'_> {
    /// Ends the phase now, unless it has already ended.
    pub(super) fn end_now(&self) {
        self.end.now(self.clock);
    }

    /// Returns the number of the first key of the hot set at the time `now_ns`. After every
    /// interval `MOVES_NS`, the hot set moves by half of its size.
    fn first_key(&self, now_ns: u64) -> u64 {
        let Some(from_ns) = self.moves_from_ns else { return 0 };
        let Load { keys, hot_keys, .. } = self.load;
        let moved = now_ns.saturating_sub(from_ns) / MOVES_NS * (hot_keys / 2);
        moved % (keys - hot_keys + 1)
    }

    /// Runs reader number `reader`: reads random keys of the hot set until the phase ends. Records
    /// the latencies of the reads. In an open loop, these include a read that was due but had not
    /// started when the phase ended, with the time from its due time to the end.
    pub(super) fn read(&self, reader: usize, mut recorder: Recorder) -> Result<Reads, Failure> {
        let Load { hot_keys, readers, reads_per_second, .. } = self.load;
        let mut rng = Rng::with_seed(self.seed.wrapping_mul(1000).wrapping_add(reader as u64));
        let mut value = Vec::new();
        let mut get = |now_ns| {
            let number = self.first_key(now_ns) + rng.u64(..hot_keys);
            if self.database.get(&key(number), &mut value)? {
                std::hint::black_box(&value);
                Ok::<_, Failure>(())
            } else {
                Err(format!("key {number} has no value").into())
            }
        };
        let figures = || (RunQueue::of_this_thread(), thread_read_bytes());
        let (before, fetched_before) = figures();
        let count = self.repeat(reads_per_second, (reader, readers), &mut recorder, &mut get)?;
        let (after, fetched_after) = figures();
        let run_queue = before.zip(after).map(|(before, after)| after.since(before));
        let fetched = fetched_before.zip(fetched_after);
        let fetched_bytes = fetched.map(|(before, after)| after.saturating_sub(before));
        recorder.finish();
        Ok(Reads { count, run_queue, fetched_bytes })
    }

    /// Calls `get` with the current time until the phase ends, and records how long the calls
    /// take. With a rate, the threads together make so many calls per second in an open loop;
    /// `thread` is the number of this thread, and their total number. Returns the number of calls.
    pub(super) fn repeat(
        &self,
        per_second: Option<f64>,
        thread: (usize, usize),
        recorder: &mut Recorder,
        get: &mut dyn FnMut(u64) -> Result<(), Failure>,
    ) -> Result<u64, Failure> {
        let Some(rate) = per_second else { return self.closed_loop(recorder, get) };
        wake_up_in_time();
        let arrivals = Arrivals::new(self.clock.monotonic_ns(), rate, thread.0, thread.1);
        self.open_loop(arrivals, recorder, get)
    }

    /// Returns the number of reads.
    fn closed_loop(
        &self,
        recorder: &mut Recorder,
        get: &mut dyn FnMut(u64) -> Result<(), Failure>,
    ) -> Result<u64, Failure> {
        let mut count = 0;
        let mut before = self.clock.monotonic_ns();
        while before < self.end.ns() {
            get(before)?;
            let now = self.clock.monotonic_ns();
            recorder.record(now, now - before);
            count += 1;
            before = now;
        }
        Ok(count)
    }

    /// Returns the number of reads that have returned.
    fn open_loop(
        &self,
        mut arrivals: Arrivals,
        recorder: &mut Recorder,
        get: &mut dyn FnMut(u64) -> Result<(), Failure>,
    ) -> Result<u64, Failure> {
        let (clock, end) = (self.clock, &self.end);
        let mut count = 0;
        let mut due = arrivals.next_ns();
        loop {
            clock.sleep_until(due.min(end.ns()));
            if end.has_come(clock) {
                break;
            }
            get(due)?;
            let now = clock.monotonic_ns();
            recorder.record(now, now - due);
            count += 1;
            due = arrivals.next_ns();
        }
        let ended = clock.monotonic_ns().min(end.ns());
        while due < ended {
            recorder.record(ended, ended - due);
            due = arrivals.next_ns();
        }
        Ok(count)
    }

    /// Runs the writer: overwrites random keys until the phase ends. `rate` limits the bytes of
    /// keys and values per second. Returns the number of these bytes that were written.
    pub(super) fn write(&self, rate: Option<u64>) -> Result<u64, Failure> {
        let Load { keys, value_bytes, compression_ratio, .. } = self.load;
        let mut rng = Rng::with_seed(!self.seed);
        let values = Values::compressible(value_bytes, compression_ratio, self.seed);
        let bytes = KEY_BYTES + value_bytes;
        let mut pace = rate.map(|rate| Pace::new(self.clock, rate));
        let mut written = 0;
        loop {
            if let Some(pace) = &mut pace {
                pace.wait(bytes, self.end.ns());
            }
            if self.end.has_come(self.clock) {
                return Ok(written);
            }
            self.database.put(&key(rng.u64(..keys)), values.get(rng.u64(..)))?;
            written += bytes as u64;
        }
    }
}

/// Makes the kernel wake this thread at the requested time. By default it may delay a wake-up by up
/// to 50 us. A failure is ignored.
fn wake_up_in_time() {
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::atomic::AtomicU64;

    use hdrhistogram::Histogram;

    use super::super::batches::{BatchForm, BatchLoad, Client};
    use super::super::engine::Activity;
    use super::*;
    use crate::experiment::timeline::Collector;

    /// A clock that advances only when something sleeps on it; sleeping returns immediately. For
    /// one thread.
    #[derive(Debug, Default)]
    pub(in super::super) struct SteppingClock(AtomicU64);

    impl Clock for SteppingClock {
        fn monotonic_ns(&self) -> u64 {
            self.0.load(Ordering::Relaxed)
        }

        fn wall_us(&self) -> u64 {
            self.monotonic_ns() / 1000
        }

        fn sleep_until(&self, deadline_ns: u64) {
            self.0.fetch_max(deadline_ns, Ordering::Relaxed);
        }
    }

    /// A database in which the third read takes 10 ms and every other read 10 us, on `clock`.
    struct Hesitating<'c> {
        clock: &'c SteppingClock,
        reads: AtomicU64,
    }

    impl TailDatabase for Hesitating<'_> {
        fn get(&self, _key: &[u8], _value: &mut Vec<u8>) -> Result<bool, Failure> {
            let number = self.reads.fetch_add(1, Ordering::Relaxed);
            let took = if number == 2 { 10_000_000 } else { 10_000 };
            self.clock.sleep_until(self.clock.monotonic_ns() + took);
            Ok(true)
        }

        /// Takes as long as one read.
        fn multi_get(&self, keys: &[&[u8]]) -> Result<usize, Failure> {
            self.get(b"", &mut Vec::new()).map(|_| keys.len())
        }

        fn put(&self, _key: &[u8], _value: &[u8]) -> Result<(), Failure> {
            Ok(())
        }

        fn compact(&self) -> Result<(), Failure> {
            Ok(())
        }

        fn scan(&self, _is_over: &dyn Fn() -> bool) -> Result<(), Failure> {
            Ok(())
        }

        fn activity(&self) -> Result<Activity, Failure> {
            Ok(Activity::default())
        }
    }

    fn phase<'a>(
        database: &'a dyn TailDatabase,
        clock: &'a SteppingClock,
        reads_per_second: Option<f64>,
        end_ns: u64,
    ) -> Phase<'a> {
        let (keys, hot_keys, readers) = (100, 10, 1);
        let load = Load {
            keys,
            key_bytes: KEY_BYTES,
            value_bytes: 1,
            compression_ratio: 1.0,
            hot_keys,
            readers,
            reads_per_second,
        };
        Phase { database, clock, load, moves_from_ns: None, seed: 1, end: End::at(end_ns) }
    }

    #[test]
    fn a_hot_set_that_moves_stays_within_the_keys() {
        let clock = SteppingClock::default();
        let database = Hesitating { clock: &clock, reads: AtomicU64::new(0) };
        let phase = phase(&database, &clock, None, 0);
        assert_eq!(phase.first_key(u64::MAX), 0);
        let phase = Phase { moves_from_ns: Some(7), ..phase };
        let first = |moves: u64| phase.first_key(7 + moves * MOVES_NS);
        assert_eq!([0, 1, 2, 18, 19].map(first), [0, 5, 10, 90, 4]);
    }

    /// Returns the number of reads that returned, and the latencies.
    fn reads(reads_per_second: Option<f64>, end_ns: u64) -> (u64, Histogram<u64>) {
        let clock = SteppingClock::default();
        let database = Hesitating { clock: &clock, reads: AtomicU64::new(0) };
        let (mut recorders, collector) = Collector::new(1, 0).unwrap();
        let phase = phase(&database, &clock, reads_per_second, end_ns);
        let reads = phase.read(0, recorders.remove(0)).unwrap();
        (reads.count, collector.finish().unwrap())
    }

    #[test]
    fn a_closed_loop_waits_for_slow_reads() {
        let (count, latencies) = reads(None, 20_000_000);
        assert_eq!(count, 1001);
        // Only the slow read itself has a high latency.
        assert_eq!(latencies.count_between(20_000, u64::MAX), 1);
    }

    #[test]
    fn an_open_loop_counts_what_reads_waited_behind_a_slow_one() {
        let (count, latencies) = reads(Some(1000.0), 100_000_000);
        assert_eq!(count, 100);
        // The slow read has a high latency, and so have the ten reads that were due while it ran,
        // one per millisecond.
        assert_eq!(latencies.count_between(20_000, u64::MAX), 11);
        assert_eq!(latencies.max() / 100_000, 100);
    }

    #[test]
    fn batches_are_got_with_one_call_or_key_by_key() {
        for (form, reads) in [(BatchForm::MultiGet, 1), (BatchForm::SingleGets, 32)] {
            let clock = SteppingClock::default();
            // All reads take 10 us.
            let database = Hesitating { clock: &clock, reads: AtomicU64::new(3) };
            let phase = phase(&database, &clock, None, 3_200_000);
            let load = BatchLoad { clients: 1, batch_keys: 32, form, batches_per_second: None };
            let (mut clients, collector) = Client::all(Some(load), 0).unwrap();
            let count = clients.remove(0).get_batches(&phase, 0).unwrap();
            assert_eq!(count, 320 / reads, "{form:?}");
            let latencies = collector.unwrap().finish().unwrap();
            assert_eq!((latencies.len(), latencies.max() / 10_000), (count, reads), "{form:?}");
        }
    }

    #[test]
    fn reads_cut_off_by_the_end_count_with_the_time_they_waited() {
        let (count, latencies) = reads(Some(1000.0), 8_000_000);
        // The phase ends at 8 ms. The reads due at 0, 1 and 2 ms return, the last of them only at
        // 12 ms. The reads due at 3 to 7 ms have not started when the phase ends, but their
        // latencies are recorded.
        assert_eq!((count, latencies.len()), (3, 8));
    }
}
