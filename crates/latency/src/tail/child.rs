//! The measured process. It opens the database, reads and writes for the given time, and reports
//! its progress and its figures on standard output.
//!
//! The measurement runs in a process of its own so that the memory limit applies to nothing else,
//! and so that no run finds data of an earlier run in memory.

use std::fmt;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use tailwater_io::clock::SystemClock;
use tailwater_io::{Clock, Purpose};

use super::batches::{BatchLoad, Client};
use super::caches::{Caches, Reading};
use super::engine::{EngineName, Moved, TailDatabase, TailEngine};
use super::figures::{Calls, Figures, Kernel};
use super::incident::Incident;
use super::slow_reads::SlowReadFigures;
use super::workload::{End, Load, Phase, Reads};
use crate::entries::key;
use crate::experiment::timeline::{Collector, Moment, Second, every_second};
use crate::failure::Failure;
use crate::latencies::Latencies;
use crate::numbers::{micros, rate};

/// Size of a page of memory, in bytes. The process that runs [`Task::Neighbour`] touches each page
/// of its memory.
const PAGE_BYTES: usize = 4096;
/// Number of threads that read the hot set once before measuring.
const WARMING_READERS: usize = 8;
/// Maximum duration of each of the two phases in which only readers run: one before the compaction,
/// one after it.
const AROUND_COMPACTION: Duration = Duration::from_secs(10);

/// What a child process must measure. The process receives this value on its command line.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Assignment {
    pub(super) engine: EngineName,
    pub(super) directory: PathBuf,
    pub(super) options: String,
    pub(super) load: Load,
    pub(super) batch_load: Option<BatchLoad>,
    pub(super) concurrent_work: ConcurrentWork,
    pub(super) duration: Duration,
    pub(super) seed: u64,
    /// Whether the whole hot set is read once before the measurement.
    pub(super) warms: bool,
    pub(super) incident: Option<Incident>,
    /// Mean size of a block on the device, in bytes; `None` if it is unknown.
    pub(super) block_bytes: Option<f64>,
    /// Duration from which on the time of a read is attributed to causes, in microseconds; `None`
    /// to attribute none.
    pub(super) slow_read_threshold_us: Option<u64>,
    /// If set, a consumer reads this message log to its end while the readers read the hot set. The
    /// measurement then ends with the consumer.
    pub(super) catch_up: Option<CatchUp>,
}

/// A consumer that catches up: it reads a message log from its beginning.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct CatchUp {
    /// The directory of the message log.
    pub(super) log: PathBuf,
    /// Whether the log's segments are read with direct I/O instead of through the page cache.
    pub(super) is_direct: bool,
}

/// What a child process must do.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Task {
    /// Measure one run for one row of the report.
    Measure(Box<Assignment>),
    /// Hold this many bytes of memory until killed, and so compete with the measured process for
    /// the memory inside the limit.
    Neighbour(u64),
}

impl Assignment {
    /// Returns the duration of the run, if it is known in advance.
    pub(super) fn length(&self) -> Option<Duration> {
        let is_open = self.concurrent_work == ConcurrentWork::Merging || self.catch_up.is_some();
        (!is_open).then_some(self.duration)
    }

    /// Returns the phases of the run, each of which is measured separately. A run with one
    /// compaction has three phases: reads before the compaction, reads during it, and reads after
    /// it. Every other run has one phase.
    pub(super) fn phases(&self) -> Vec<Self> {
        let alone = Self {
            batch_load: None,
            concurrent_work: ConcurrentWork::Nothing,
            duration: self.duration.min(AROUND_COMPACTION),
            ..self.clone()
        };
        match self.concurrent_work {
            ConcurrentWork::Merging => vec![alone.clone(), self.clone(), alone],
            ConcurrentWork::Nothing | ConcurrentWork::Writing | ConcurrentWork::PacedWriting(_) => {
                vec![self.clone()]
            }
        }
    }
}

/// The work in the measured process that runs concurrently with the readers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ConcurrentWork {
    /// Only the readers run.
    Nothing,
    /// A writer that writes as fast as it can.
    Writing,
    /// A writer that writes this many bytes of keys and values per second.
    PacedWriting(u64),
    /// One compaction of the whole database.
    Merging,
}

impl ConcurrentWork {
    /// Works until the end of the phase, or until the compaction has ended, which ends the phase.
    /// Returns the number of bytes of keys and values written.
    fn run(self, phase: &Phase<'_>) -> Result<u64, Failure> {
        match self {
            Self::Nothing => Ok(0),
            Self::Writing => phase.write(None).inspect_err(|_| phase.end_now()),
            Self::PacedWriting(rate) => phase.write(Some(rate)).inspect_err(|_| phase.end_now()),
            Self::Merging => {
                let merged = phase.database.compact();
                phase.end_now();
                merged.map(|()| 0)
            }
        }
    }
}

/// A line that the process writes to standard output, as JSON.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Message {
    /// The database is open and a phase of the run begins, at this time in microseconds since
    /// 1970.
    Began { wall_us: u64 },
    /// A second of the phase has passed.
    Second(Progress),
    /// A phase has ended, with these figures. The database is still open.
    Ended(Box<Figures>),
}

/// What happened in a second of a phase.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Progress {
    pub(super) reads: Second,
    /// The batches; `None` if no clients get batches.
    pub(super) batches: Option<Second>,
    pub(super) engine: Moment,
    /// The median, p99 and p99.9 of all reads of the phase so far, in microseconds.
    pub(super) so_far_us: [f64; 3],
}

impl Progress {
    /// Returns the end of the second, as the time since the start of the phase.
    pub(super) fn at(&self) -> Duration {
        Duration::from_secs_f64(self.reads.at_s)
    }
}

/// Formats a line for the live view.
impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [p50, p99, p999] = self.so_far_us.map(micros);
        let running = |name: &str| self.engine.get(name).copied().unwrap_or(0.0);
        write!(
            f,
            "{} reads/s  p50 {p50}  p99 {p99}  p99.9 {p999} us  {} compacting, {} flushing",
            rate(self.reads.per_second),
            running("running_compactions"),
            running("running_flushes"),
        )
    }
}

/// Receives what happened in each second of a phase, in a thread of its own.
pub(super) type Observer<'a> = &'a (dyn Fn(Progress) -> Result<(), Failure> + Sync);

/// Runs a task given as JSON.
pub(super) fn run(task: &str, engines: &[TailEngine]) -> Result<(), Failure> {
    let assignment = match serde_json::from_str(task)? {
        Task::Measure(assignment) => assignment,
        Task::Neighbour(bytes) => have_memory(bytes),
    };
    let name = assignment.engine.name();
    let engine = engines.iter().find(|engine| engine.name == name);
    let engine = engine.ok_or_else(|| format!("no engine '{name}'"))?;
    let database = (engine.open)(&assignment.directory, &assignment.options)?;
    if assignment.warms {
        warm(&*database, assignment.load.hot_keys)?;
    }
    for phase in assignment.phases() {
        say(&Message::Began { wall_us: SystemClock.wall_us() })?;
        let figures = measure(&*database, &phase, &|progress| say(&Message::Second(progress)))?;
        say(&Message::Ended(Box::new(figures)))?;
    }
    Ok(())
}

/// Allocates memory gradually over one second and holds it forever.
fn have_memory(bytes: u64) -> ! {
    const STEPS: usize = 100;
    let mut taken = Vec::new();
    for _ in 0..STEPS {
        taken.push(vec![1_u8; bytes as usize / STEPS]);
        std::thread::sleep(Duration::from_secs(1) / STEPS as u32);
    }
    loop {
        // Touch the memory repeatedly, so that the kernel considers it in use and does not reclaim
        // it.
        for page in taken.iter().flat_map(|step| step.iter().step_by(PAGE_BYTES)) {
            std::hint::black_box(*page);
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Reads each key of the hot set, which is the first `hot_keys` keys, once.
fn warm(database: &dyn TailDatabase, hot_keys: u64) -> Result<(), Failure> {
    let read = |first: usize| -> Result<(), Failure> {
        let mut value = Vec::new();
        for number in (first as u64..hot_keys).step_by(WARMING_READERS) {
            database.get(&key(number), &mut value)?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let readers: Vec<_> =
            (0..WARMING_READERS).map(|first| scope.spawn(move || read(first))).collect();
        let panicked = |_| Failure::from("a thread of the run panicked");
        readers.into_iter().try_for_each(|reader| reader.join().map_err(panicked)?)
    })
}

fn say(message: &Message) -> Result<(), Failure> {
    let mut output = io::stdout().lock();
    writeln!(output, "{}", serde_json::to_string(message)?)?;
    Ok(output.flush()?)
}

/// Runs one phase and returns its figures. Calls `observer` once a second. A phase with a merging
/// compaction or a consumer ends when the compaction or the consumer has ended. Other phases end
/// after the given duration.
pub(super) fn measure(
    database: &dyn TailDatabase,
    assignment: &Assignment,
    observer: Observer<'_>,
) -> Result<Figures, Failure> {
    let clock = SystemClock;
    if let Some(threshold_us) = assignment.slow_read_threshold_us {
        database.attribute_slow_reads(threshold_us)?;
    }
    let before = database.activity()?;
    let start_ns = clock.monotonic_ns();
    let end = match assignment.concurrent_work {
        _ if assignment.catch_up.is_some() => End::at(u64::MAX),
        ConcurrentWork::Merging => End::at(u64::MAX),
        _ => End::at(start_ns + assignment.duration.as_nanos() as u64),
    };
    let moves = assignment.incident == Some(Incident::MovingHotSet);
    let phase = Phase {
        database,
        clock: &clock,
        load: assignment.load,
        moves_from_ns: moves.then_some(start_ns),
        seed: assignment.seed,
        end,
    };
    let work = work(&phase, assignment, start_ns, observer)?;
    let Work { reads, latencies, batches, read_until_ns, written_bytes, log_bytes } = work;
    let seconds = clock.since_ns(start_ns) as f64 / 1e9;
    let read_seconds = (read_until_ns - start_ns) as f64 / 1e9;
    let activity = database.activity()?.since(&before);

    let count: u64 = reads.iter().map(|reads| reads.count).sum();
    let caches = Caches::of(
        &activity,
        Reading {
            reads: count,
            fetched_bytes: reads.iter().map(|reads| reads.fetched_bytes).sum(),
            block_bytes: assignment.block_bytes,
            is_alone: assignment.batch_load.is_none()
                && assignment.incident != Some(Incident::Scan),
        },
    );
    let waited_s = waited_s(&reads);
    Ok(Figures {
        reads_per_second: count as f64 / read_seconds,
        write_mb_per_second: written_bytes as f64 / seconds / 1e6,
        latencies: Latencies::of(&latencies),
        reads: count as f64,
        seconds,
        stall_share: activity.stalled.as_secs_f64() / seconds,
        run_queue_share: waited_s
            .map(|waited| waited / read_seconds / assignment.load.readers as f64),
        run_queue_us_per_read: waited_s.map(|waited| waited * 1e6 / count.max(1) as f64),
        fallen_back: database.fallen_back()?,
        resident_before_pages: None,
        baseline: None,
        reads_kept: None,
        p999_rise: None,
        before_compaction: None,
        after_compaction: None,
        batches: assignment
            .batch_load
            .zip(batches)
            .map(|(load, (count, latencies))| load.figures(count, &latencies, read_seconds)),
        caches,
        slow_reads: activity.slow_reads.as_ref().map(|reads| SlowReadFigures::of(reads, seconds)),
        kernel: Kernel {
            compaction_mb_per_second: Some(activity.compacted_bytes() / seconds / 1e6),
            compaction_backlog_bytes: Some(activity.pending_compaction_bytes as f64),
            held_back: activity.held_back.map(|times| times as f64),
            user_read_calls: activity.user_reads.map(|reads| Calls::of(&reads, seconds)),
            bytes_per_purpose: activity
                .purposes
                .into_iter()
                .filter(|(_, moved)| moved.read_bytes + moved.written_bytes > 0.0)
                .chain(log_bytes.map(|read_bytes| {
                    let moved = Moved { read_bytes: read_bytes as f64, written_bytes: 0.0 };
                    (Purpose::LogRead.name().to_owned(), moved)
                }))
                .collect(),
            ..Kernel::default()
        },
    })
}

/// Returns the time that all readers together waited for a processor, in seconds; `None` if the
/// kernel does not report it.
fn waited_s(reads: &[Reads]) -> Option<f64> {
    let waits = reads.iter().map(|reads| Some(reads.run_queue?.waiting_ns));
    Some(waits.sum::<Option<u64>>()? as f64 / 1e9)
}

/// What the threads of a phase have measured.
struct Work {
    reads: Vec<Reads>,
    latencies: Histogram<u64>,
    /// Number and latencies of the batches; `None` if no clients get batches.
    batches: Option<(u64, Histogram<u64>)>,
    /// Time when the last reader had ended, on the monotonic clock, in nanoseconds.
    read_until_ns: u64,
    written_bytes: u64,
    /// Bytes that the consumer read from segment files; `None` without a consumer.
    log_bytes: Option<u64>,
}

/// Runs all threads until the end of the phase, or until one of them fails.
fn work(
    phase: &Phase<'_>,
    assignment: &Assignment,
    start_ns: u64,
    observer: Observer<'_>,
) -> Result<Work, Failure> {
    let panicked = |_| Failure::from("a thread of the run panicked");
    let (recorders, mut collector) = Collector::new(assignment.load.readers, start_ns)?;
    let (clients, mut batches) = Client::all(assignment.batch_load, start_ns)?;
    std::thread::scope(|scope| {
        let (running, end) = channel();
        let observed = scope.spawn(move || {
            let collectors = (&mut collector, batches.as_mut());
            let observed = observe(phase, start_ns, &end, collectors, observer);
            observed.inspect_err(|_| phase.end_now()).map(|()| (collector, batches))
        });
        let read = |reader, recorder| phase.read(reader, recorder).inspect_err(|_| phase.end_now());
        let readers: Vec<_> = recorders
            .into_iter()
            .enumerate()
            .map(|(reader, recorder)| scope.spawn(move || read(reader, recorder)))
            .collect();
        let clients: Vec<_> = clients
            .into_iter()
            .enumerate()
            .map(|(number, client)| {
                let get = move || client.get_batches(phase, number);
                scope.spawn(move || get().inspect_err(|_| phase.end_now()))
            })
            .collect();
        let concurrent_work = scope.spawn(|| assignment.concurrent_work.run(phase));
        let scan = (assignment.incident == Some(Incident::Scan)).then(|| {
            scope.spawn(|| {
                let halfway = start_ns + assignment.duration.as_nanos() as u64 / 2;
                phase.clock.sleep_until(halfway);
                let is_over = || phase.end.has_come(phase.clock);
                phase.database.scan(&is_over).inspect_err(|_| phase.end_now())
            })
        });
        let consumer = assignment.catch_up.as_ref().map(|catch_up| {
            scope.spawn(|| {
                let consumed = catch_up.consume();
                phase.end_now();
                consumed
            })
        });
        let reads = readers
            .into_iter()
            .map(|reader| reader.join().map_err(panicked)?)
            .collect::<Result<_, Failure>>();
        let count = clients
            .into_iter()
            .map(|client| client.join().map_err(panicked)?)
            .sum::<Result<u64, Failure>>();
        // The reads have ended, so take the time now. A stalled writer may end much later.
        let read_until_ns = phase.clock.monotonic_ns();
        drop(running);
        let written_bytes = concurrent_work.join().map_err(panicked)??;
        scan.map_or(Ok(()), |scan| scan.join().map_err(panicked)?)?;
        let log_bytes = consumer.map(|consumer| consumer.join().map_err(panicked)?).transpose()?;
        let (collector, batches) = observed.join().map_err(panicked)??;
        let (reads, count, latencies) = (reads?, count?, collector.finish()?);
        let batches = batches.map(|batches| Ok::<_, Failure>((count, batches.finish()?)));
        let batches = batches.transpose()?;
        Ok(Work { reads, latencies, batches, read_until_ns, written_bytes, log_bytes })
    })
}

/// Tells `observer` once a second what the readers and the engine did, until the sender of `end` is
/// dropped.
fn observe(
    phase: &Phase<'_>,
    start_ns: u64,
    end: &Receiver<()>,
    (collector, mut batches): (&mut Collector, Option<&mut Collector>),
    observer: Observer<'_>,
) -> Result<(), Failure> {
    let (mut before_s, mut before) = (0.0, phase.database.activity()?);
    every_second(phase.clock, start_ns, end, |at_s| {
        let reads = collector.collect(at_s)?;
        let batches = batches.as_mut().map(|batches| batches.collect(at_s)).transpose()?;
        let now = phase.database.activity()?;
        let mut engine = now.since(&before).moment(at_s - before_s);
        engine.insert("at_s".to_owned(), at_s);
        (before_s, before) = (at_s, now);
        let so_far = collector.total();
        let so_far_us = [0.5, 0.99, 0.999].map(|at| so_far.value_at_quantile(at) as f64 / 1000.0);
        observer(Progress { reads, batches, engine, so_far_us })
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::tail::engine::Activity;

    /// A database that records the keys that are read.
    #[derive(Default)]
    struct Noted(Mutex<Vec<Vec<u8>>>);

    impl TailDatabase for Noted {
        fn get(&self, key: &[u8], _value: &mut Vec<u8>) -> Result<bool, Failure> {
            self.0.lock().unwrap().push(key.to_vec());
            Ok(true)
        }

        fn multi_get(&self, _keys: &[&[u8]]) -> Result<usize, Failure> {
            unreachable!()
        }

        fn put(&self, _key: &[u8], _value: &[u8]) -> Result<(), Failure> {
            unreachable!()
        }

        fn compact(&self) -> Result<(), Failure> {
            unreachable!()
        }

        fn scan(&self, _is_over: &dyn Fn() -> bool) -> Result<(), Failure> {
            unreachable!()
        }

        fn activity(&self) -> Result<Activity, Failure> {
            unreachable!()
        }
    }

    #[test]
    fn warming_reads_each_hot_key_once() {
        for hot_keys in [1, WARMING_READERS as u64, 1000] {
            let database = Noted::default();
            warm(&database, hot_keys).unwrap();
            let mut read = database.0.into_inner().unwrap();
            read.sort();
            let expected: Vec<_> = (0..hot_keys).map(|number| key(number).to_vec()).collect();
            assert!(read == expected, "{hot_keys}");
        }
    }
}
