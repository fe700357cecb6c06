//! The threads of a phase: readers of the hot set, and a writer that overwrites keys of the whole
//! database.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};

use fastrand::Rng;
use hdrhistogram::Histogram;
use tailwater_io::Clock;
use tailwater_io::kernel::RunQueue;

use super::engine::TailDatabase;
use super::latency::histogram;
use super::schedule::{Arrivals, Pace};
use crate::entries::{KEY_BYTES, RandomValues, key};
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

/// What the readers read, and how fast.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading {
    /// Number of keys in the hot set. At first, these are the first keys of the database.
    pub(super) hot_keys: u64,
    /// Number of keys in the database.
    pub(super) keys: u64,
    /// Start of the time over which the hot set moves, on the monotonic clock; `None` if it does
    /// not move.
    pub(super) moves_from_ns: Option<u64>,
    /// Number of readers.
    pub(super) readers: usize,
    /// Reads per second of all readers together (open loop). If `None`, each reader starts a read
    /// when its previous one has returned (closed loop).
    pub(super) reads_per_second: Option<f64>,
    /// Seed of the readers' random choice of keys.
    pub(super) seed: u64,
}

/// Interval between two moves of the hot set, in nanoseconds.
const MOVES_NS: u64 = 10_000_000_000;

impl Reading {
    /// Returns the number of the first key of the hot set at the time `now_ns`. After every
    /// interval `MOVES_NS`, the hot set moves by half of its size.
    fn first_key(&self, now_ns: u64) -> u64 {
        let Some(from_ns) = self.moves_from_ns else { return 0 };
        let moved = now_ns.saturating_sub(from_ns) / MOVES_NS * (self.hot_keys / 2);
        moved % (self.keys - self.hot_keys + 1)
    }
}

/// What one reader has measured.
#[derive(Debug)]
pub(super) struct Reads {
    /// Latencies of reads, in nanoseconds. In an open loop, a read that was due but had not started
    /// when the phase ended is included, with the time from its due time to the end.
    pub(super) latencies: Histogram<u64>,
    /// Number of reads that have returned.
    pub(super) count: u64,
    /// Time for which the reader's thread ran, and for which it waited for a processor; `None` if
    /// the kernel does not report it.
    pub(super) run_queue: Option<RunQueue>,
}

/// Runs reader number `reader`: reads random keys of the hot set until the phase ends.
pub(super) fn read(
    database: &dyn TailDatabase,
    clock: &dyn Clock,
    reading: &Reading,
    reader: usize,
    end: &End,
) -> Result<Reads, Failure> {
    let mut rng = Rng::with_seed(reading.seed.wrapping_mul(1000).wrapping_add(reader as u64));
    let mut value = Vec::new();
    let mut get = |now_ns| {
        let number = reading.first_key(now_ns) + rng.u64(..reading.hot_keys);
        if database.get(&key(number), &mut value)? {
            Ok::<_, Failure>(std::hint::black_box(&value).len())
        } else {
            Err(format!("key {number} has no value").into())
        }
    };
    let before = RunQueue::of_this_thread();
    let (latencies, count) = match reading.reads_per_second {
        None => closed_loop(clock, end, &mut get)?,
        Some(rate) => {
            wake_up_in_time();
            let arrivals = Arrivals::new(clock.monotonic_ns(), rate, reader, reading.readers);
            open_loop(clock, arrivals, end, &mut get)?
        }
    };
    let after = RunQueue::of_this_thread();
    let run_queue = before.zip(after).map(|(before, after)| after.since(before));
    Ok(Reads { latencies, count, run_queue })
}

fn closed_loop(
    clock: &dyn Clock,
    end: &End,
    get: &mut dyn FnMut(u64) -> Result<usize, Failure>,
) -> Result<(Histogram<u64>, u64), Failure> {
    let mut latencies = histogram()?;
    let mut before = clock.monotonic_ns();
    while before < end.ns() {
        get(before)?;
        let now = clock.monotonic_ns();
        latencies.saturating_record(now - before);
        before = now;
    }
    let count = latencies.len();
    Ok((latencies, count))
}

fn open_loop(
    clock: &dyn Clock,
    mut arrivals: Arrivals,
    end: &End,
    get: &mut dyn FnMut(u64) -> Result<usize, Failure>,
) -> Result<(Histogram<u64>, u64), Failure> {
    let mut latencies = histogram()?;
    let mut due = arrivals.next_ns();
    loop {
        clock.sleep_until(due.min(end.ns()));
        if end.has_come(clock) {
            break;
        }
        get(due)?;
        latencies.saturating_record(clock.monotonic_ns() - due);
        due = arrivals.next_ns();
    }
    let count = latencies.len();
    let ended = clock.monotonic_ns().min(end.ns());
    while due < ended {
        latencies.saturating_record(ended - due);
        due = arrivals.next_ns();
    }
    Ok((latencies, count))
}

/// Makes the kernel wake this thread at the requested time. By default it may delay a wake-up by up
/// to 50 us. A failure is ignored.
fn wake_up_in_time() {
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}

/// What the writer writes, and how fast.
#[derive(Debug, Clone, Copy)]
pub(super) struct Writing {
    /// Number of keys in the database; all of them are overwritten, not only the hot set.
    pub(super) keys: u64,
    /// Length of values, in bytes.
    pub(super) value_bytes: usize,
    /// Bytes of keys and values per second; `None` for no limit.
    pub(super) bytes_per_second: Option<u64>,
    /// Seed of the random choice of keys, and of the values.
    pub(super) seed: u64,
}

/// Runs the writer: overwrites random keys until the phase ends. Returns the number of bytes
/// written, counting keys and values.
pub(super) fn write(
    database: &dyn TailDatabase,
    clock: &dyn Clock,
    writing: &Writing,
    end: &End,
) -> Result<u64, Failure> {
    let mut rng = Rng::with_seed(!writing.seed);
    let values = RandomValues::new(writing.value_bytes, writing.seed);
    let bytes = KEY_BYTES + writing.value_bytes;
    let mut pace = writing.bytes_per_second.map(|rate| Pace::new(clock, rate));
    let mut written = 0;
    loop {
        if let Some(pace) = &mut pace {
            pace.wait(bytes, end.ns());
        }
        if end.has_come(clock) {
            return Ok(written);
        }
        database.put(&key(rng.u64(..writing.keys)), values.get(rng.u64(..)))?;
        written += bytes as u64;
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::atomic::AtomicU64;

    use super::super::engine::Activity;
    use super::*;

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

    fn reading(reads_per_second: Option<f64>) -> Reading {
        let (hot_keys, keys) = (10, 100);
        Reading { hot_keys, keys, moves_from_ns: None, readers: 1, reads_per_second, seed: 1 }
    }

    #[test]
    fn a_hot_set_that_moves_stays_within_the_keys() {
        let reading = Reading { moves_from_ns: Some(7), ..reading(None) };
        let first = |moves: u64| reading.first_key(7 + moves * MOVES_NS);
        assert_eq!([0, 1, 2, 18, 19].map(first), [0, 5, 10, 90, 4]);
        assert_eq!(super::tests::reading(None).first_key(u64::MAX), 0);
    }

    fn reads(reads_per_second: Option<f64>, end_ns: u64) -> Reads {
        let clock = SteppingClock::default();
        let database = Hesitating { clock: &clock, reads: AtomicU64::new(0) };
        let reading = reading(reads_per_second);
        read(&database, &clock, &reading, 0, &End::at(end_ns)).unwrap()
    }

    #[test]
    fn a_closed_loop_waits_for_slow_reads() {
        let reads = reads(None, 20_000_000);
        assert_eq!(reads.count, 1001);
        // Only the slow read itself has a high latency.
        assert_eq!(reads.latencies.count_between(20_000, u64::MAX), 1);
    }

    #[test]
    fn an_open_loop_counts_what_reads_waited_behind_a_slow_one() {
        let reads = reads(Some(1000.0), 100_000_000);
        assert_eq!(reads.count, 100);
        // The slow read has a high latency, and so have the ten reads that were due while it ran,
        // one per millisecond.
        assert_eq!(reads.latencies.count_between(20_000, u64::MAX), 11);
        assert_eq!(reads.latencies.max() / 100_000, 100);
    }

    #[test]
    fn reads_cut_off_by_the_end_count_with_the_time_they_waited() {
        let reads = reads(Some(1000.0), 8_000_000);
        // The phase ends at 8 ms. The reads due at 0, 1 and 2 ms return, the last of them only at
        // 12 ms. The reads due at 3 to 7 ms have not started when the phase ends, but their
        // latencies are recorded.
        assert_eq!((reads.count, reads.latencies.len()), (3, 8));
    }
}
