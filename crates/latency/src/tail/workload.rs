//! The threads of a run: readers of the hot set, and one writer over all keys.

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

/// The end of a run, as a time on the run's clock; any thread may end the run earlier.
#[derive(Debug)]
pub(super) struct End(AtomicU64);

impl End {
    /// Creates an end at `end_ns`.
    pub(super) fn at(end_ns: u64) -> Self {
        Self(AtomicU64::new(end_ns))
    }

    /// Ends the run now, if it has not ended.
    pub(super) fn now(&self, clock: &dyn Clock) {
        self.0.fetch_min(clock.monotonic_ns(), Ordering::Relaxed);
    }

    /// Returns whether the run is over.
    pub(super) fn has_come(&self, clock: &dyn Clock) -> bool {
        clock.monotonic_ns() >= self.ns()
    }

    fn ns(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The parameters of the readers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading {
    /// Number of hot keys; initially these are the first keys of the database.
    pub(super) hot_keys: u64,
    /// Number of all keys.
    pub(super) keys: u64,
    /// Time from which the hot set moves, on the run's clock; `None` if it does not move.
    pub(super) moves_from_ns: Option<u64>,
    /// Number of readers.
    pub(super) readers: usize,
    /// Reads per second of all readers together; without a rate, each reader starts a read when its
    /// previous one has ended.
    pub(super) reads_per_second: Option<f64>,
    /// Seed of the random keys to read.
    pub(super) seed: u64,
}

/// Interval between two moves of a hot set, in nanoseconds.
const MOVES_NS: u64 = 10_000_000_000;

impl Reading {
    /// Returns the number of the first hot key at the time `now_ns`.
    fn first_key(&self, now_ns: u64) -> u64 {
        let Some(from_ns) = self.moves_from_ns else { return 0 };
        let moved = now_ns.saturating_sub(from_ns) / MOVES_NS * (self.hot_keys / 2);
        moved % (self.keys - self.hot_keys + 1)
    }
}

/// The results of a reader.
#[derive(Debug)]
pub(super) struct Reads {
    /// Latency of each read, in nanoseconds. A read that was due but not started before the end of
    /// the run counts with the time that it waited until the end.
    pub(super) latencies: Histogram<u64>,
    /// Number of completed reads.
    pub(super) count: u64,
    /// Run queue statistics of the thread, if the system reports them.
    pub(super) run_queue: Option<RunQueue>,
}

/// Reads random hot keys until the end, as the reader with number `reader`.
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
        match database.get(&key(number), &mut value)? {
            true => Ok::<_, Failure>(std::hint::black_box(&value).len()),
            false => Err(format!("key {number} has no value").into()),
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

/// Requests precise wakeups for this thread: by default the kernel delays them by up to 50 us. A
/// failure is ignored.
fn wake_up_in_time() {
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}

/// The parameters of the writer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Writing {
    /// Number of all keys, not only hot ones.
    pub(super) keys: u64,
    /// Length of values, in bytes.
    pub(super) value_bytes: usize,
    /// Bytes per second, including keys; unlimited if absent.
    pub(super) bytes_per_second: Option<u64>,
    /// Seed of keys and values.
    pub(super) seed: u64,
}

/// Overwrites random keys until the end; returns the number of bytes of the keys and values
/// written.
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

    /// A clock for one thread, on which sleeping takes no time.
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

    /// A database whose third read takes 10 ms. All other reads take 10 us.
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
        // Only the slow read itself counts as slow.
        assert_eq!(reads.latencies.count_between(20_000, u64::MAX), 1);
    }

    #[test]
    fn an_open_loop_counts_what_reads_waited_behind_a_slow_one() {
        let reads = reads(Some(1000.0), 100_000_000);
        assert_eq!(reads.count, 100);
        // The slow read, and one read that was due in each millisecond of it.
        assert_eq!(reads.latencies.count_between(20_000, u64::MAX), 11);
        assert_eq!(reads.latencies.max() / 100_000, 100);
    }

    #[test]
    fn reads_cut_off_by_the_end_count_with_the_time_they_waited() {
        let reads = reads(Some(1000.0), 8_000_000);
        // The reads due at 0, 1 and 2 ms, of which the last takes until 12 ms, and the reads due at
        // 3 to 7 ms.
        assert_eq!((reads.count, reads.latencies.len()), (3, 8));
    }
}
