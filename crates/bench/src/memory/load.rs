//! The load, and the samples of the memory meanwhile.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use tailwater_latency::entries::{KEY_BYTES, Values, key};
use tailwater_latency::say;

use super::figures::{Figures, Sample};
use super::subject::{MemoryEngine, MemorySubject, Refusal};
use super::{Assignment, TABLES};
use crate::process::Resident;
use crate::store::Failure;

/// Interval between two samples.
const SAMPLE: Duration = Duration::from_millis(100);
/// One of this many reads is a scan.
const READS_PER_SCAN: u64 = 16;
/// Number of entries that a scan visits.
const SCANNED: u64 = 100;

/// The operations of one thread.
#[derive(Debug, Default)]
struct Done {
    operations: u64,
    /// The number of errors of each kind, with the message of the first.
    errors: BTreeMap<String, (u64, String)>,
}

impl Done {
    fn note<T>(&mut self, result: Result<T, Refusal>) {
        match result {
            Ok(_) => self.operations += 1,
            Err(Refusal { kind, message }) => {
                self.errors.entry(kind).or_insert((0, message)).0 += 1
            }
        }
    }

    fn add(&mut self, other: Self) {
        self.operations += other.operations;
        for (kind, (count, message)) in other.errors {
            self.errors.entry(kind).or_insert((0, message)).0 += count;
        }
    }
}

/// Opens the databases, fills them, and runs the load.
pub(super) fn run(engine: &MemoryEngine, assignment: &Assignment) -> Result<Figures, Failure> {
    let Assignment { directory, options, load, .. } = assignment;
    let base = Resident::now()?;
    let directories: Vec<_> =
        (0..load.databases).map(|number| directory.join(number.to_string())).collect();
    let subject = (engine.open)(&directories, &load.limits(), options, TABLES)?;
    let subject = &*subject;
    let value_bytes = load.value_size as usize;
    let entries = (load.data << 20) / (KEY_BYTES + value_bytes) as u64;
    let values = &Values::new(value_bytes, 1);
    say!("{}: filling", engine.name);
    for database in 0..directories.len() {
        for number in 0..entries {
            let put = subject.put(database, &key(number), values.get(number));
            put.map_err(|refusal| format!("filling: {}", refusal.message))?;
        }
    }
    say!("{}: writing and reading for {} seconds", engine.name, load.seconds);
    let is_over = &AtomicBool::new(false);
    let (begun, time) = (Instant::now(), Duration::from_secs(load.seconds));
    let (samples, writes, reads) = thread::scope(|scope| {
        let (writers, readers): (Vec<_>, Vec<_>) = (0..directories.len())
            .map(|database| {
                let writer = move || write(subject, database, entries, values, is_over);
                let reader = move || read(subject, database, entries, is_over);
                (scope.spawn(writer), scope.spawn(reader))
            })
            .unzip();
        let samples = sample(subject, begun, time);
        is_over.store(true, Relaxed);
        let sum = |threads: Vec<thread::ScopedJoinHandle<'_, Done>>| {
            threads.into_iter().try_fold(Done::default(), |mut sum, thread| {
                sum.add(thread.join().map_err(|_| "a thread panicked")?);
                Ok::<_, Failure>(sum)
            })
        };
        Ok::<_, Failure>((samples?, sum(writers)?, sum(readers)?))
    })?;
    let seconds = begun.elapsed().as_secs_f64();
    let mut errors = Done::default();
    let rate = |done: &Done| done.operations as f64 / seconds;
    let (writes_per_second, reads_per_second) = (rate(&writes), rate(&reads));
    errors.add(writes);
    errors.add(reads);
    Ok(Figures {
        engine: engine.name.to_owned(),
        base,
        samples,
        writes_per_second,
        reads_per_second,
        errors: errors.errors,
    })
}

fn write(
    subject: &dyn MemorySubject,
    database: usize,
    entries: u64,
    values: &Values,
    is_over: &AtomicBool,
) -> Done {
    let (mut rng, mut done) = (Rng::with_seed(2 * database as u64), Done::default());
    while !is_over.load(Relaxed) {
        let number = rng.u64(..entries);
        done.note(subject.put(database, &key(number), values.get(number)));
    }
    done
}

fn read(subject: &dyn MemorySubject, database: usize, entries: u64, is_over: &AtomicBool) -> Done {
    let (mut rng, mut done) = (Rng::with_seed(2 * database as u64 + 1), Done::default());
    for turn in 0_u64.. {
        if is_over.load(Relaxed) {
            break;
        }
        let key = key(rng.u64(..entries));
        if turn.is_multiple_of(READS_PER_SCAN) {
            done.note(subject.scan(database, &key, SCANNED));
        } else {
            done.note(subject.get(database, &key));
        }
    }
    done
}

fn sample(
    subject: &dyn MemorySubject,
    begun: Instant,
    time: Duration,
) -> Result<Vec<Sample>, Failure> {
    let mut samples = Vec::new();
    while begun.elapsed() < time {
        let live = subject.live()?;
        samples.push(Sample {
            at_s: begun.elapsed().as_secs_f64(),
            resident: Resident::now()?,
            live,
        });
        thread::sleep(SAMPLE);
    }
    Ok(samples)
}
