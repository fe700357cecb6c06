//! A workload that overwrites keys, at full speed or at a given rate, and measures the space and
//! memory used.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use hdrhistogram::Histogram;
use tailwater_latency::entries::{Values, key};

use crate::process::{anonymous_bytes, directory_bytes};
use crate::store::{Failure, Store};
use crate::sustained::SustainedArguments;

/// A put that takes longer than this counts as a stall.
pub(crate) const STALL: Duration = Duration::from_millis(10);
/// A sleep may end this much later than requested. A writer with a rate limit does not sleep if the
/// next put is due sooner than this.
const TIMER_ERROR: Duration = Duration::from_millis(1);
/// Properties that report parts of the engine's memory in bytes, with their labels in the report.
pub(crate) const MEMORY: [(&str, &str); 3] = [
    ("rocksdb.size-all-mem-tables", "memtables"),
    ("rocksdb.block-cache-usage", "block cache"),
    ("rocksdb.estimate-table-readers-mem", "open tables"),
];
/// Interval between two samples of the directory's size.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Number of memory samples in each [`LOOK_EVERY`] interval.
const MEMORY_SAMPLES: u32 = 25;

/// The results of overwriting.
#[derive(Debug)]
pub(crate) struct Writes {
    /// Duration of each put, in nanoseconds.
    pub(crate) latencies: Histogram<u64>,
    /// Total duration of all puts that took longer than `STALL`.
    pub(crate) stalled: Duration,
    /// Samples of the directory's size, one for each second, in bytes.
    pub(crate) sizes: Vec<u64>,
    /// The memory sample with the highest anonymous memory.
    pub(crate) memory: Memory,
}

/// The memory of a process, in bytes.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// Resident anonymous memory of the process, without code and page cache.
    pub(crate) anonymous: u64,
    /// The values of the properties in [`MEMORY`], in the same order.
    pub(crate) parts: [u64; MEMORY.len()],
}

/// Overwrites random keys of the database in `directory`. Meanwhile, samples the size of the
/// directory, and the memory that the process and parts of the engine use.
pub(crate) fn overwrite(
    store: &dyn Store,
    arguments: &SustainedArguments,
    directory: &Path,
) -> Result<Writes, Failure> {
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let watch = scope.spawn(|| watch(store, directory, &is_done));
        let put = put_for(store, arguments);
        is_done.store(true, Ordering::Relaxed);
        let (sizes, memory) = watch.join().map_err(|_| "the watching thread panicked")??;
        let (latencies, stalled) = put?;
        Ok(Writes { latencies, stalled, sizes, memory })
    })
}

fn put_for(
    store: &dyn Store,
    arguments: &SustainedArguments,
) -> Result<(Histogram<u64>, Duration), Failure> {
    let time = Duration::from_secs(arguments.seconds);
    let mut rng = Rng::with_seed(2);
    let values = Values::new(arguments.value_size as usize, 2);
    let mut latencies = Histogram::new(3)?;
    let mut stalled = Duration::ZERO;
    let start = Instant::now();
    let mut before = start;
    for number in 0.. {
        store.put(&key(rng.u64(..arguments.num)), values.get(number))?;
        let now = Instant::now();
        let took = now - before;
        latencies.record(took.as_nanos() as u64)?;
        if took > STALL {
            stalled += took;
        }
        if now - start >= time {
            break;
        }
        before = match arguments.rate {
            Some(rate) => wait_until(start + Duration::from_secs(number + 1) / rate, now),
            None => now,
        };
    }
    Ok((latencies, stalled))
}

/// Waits until `due`, when the next put is to start. Returns the actual time after the wait.
fn wait_until(due: Instant, now: Instant) -> Instant {
    // A put takes microseconds, but a sleep may last up to a millisecond too long. So the writer
    // sleeps only if the put is due in a millisecond or more.
    let ahead = due.saturating_duration_since(now);
    if ahead < TIMER_ERROR {
        return now;
    }
    thread::sleep(ahead);
    Instant::now()
}

fn watch(
    store: &dyn Store,
    directory: &Path,
    is_done: &AtomicBool,
) -> Result<(Vec<u64>, Memory), Failure> {
    let (mut sizes, mut most) = (Vec::new(), Memory::default());
    while !is_done.load(Ordering::Relaxed) {
        sizes.push(directory_bytes(directory)?);
        // Memory is sampled more often than the directory, because a memtable can be filled and
        // flushed within a second.
        for _ in 0..MEMORY_SAMPLES {
            let memory = Memory::of(store)?;
            if memory.anonymous > most.anonymous {
                most = memory;
            }
            thread::sleep(LOOK_EVERY / MEMORY_SAMPLES);
        }
    }
    Ok((sizes, most))
}

impl Memory {
    fn of(store: &dyn Store) -> Result<Self, Failure> {
        let mut parts = [0; MEMORY.len()];
        for (part, (property, _)) in parts.iter_mut().zip(MEMORY) {
            *part = store.property(property)?.map_or(Ok(0), |text| text.parse())?;
        }
        Ok(Self { anonymous: anonymous_bytes()?, parts })
    }
}
