//! One key that several threads get repeatedly.
//!
//! All reads use the same few cache lines. If a get writes to shared memory, such as a lock or a
//! reference count, the result shows it: all threads together make fewer gets per second than one
//! thread alone.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use serde::{Deserialize, Serialize};
use tailwater_latency::entries::{Values, key};
use tailwater_latency::experiment::{Finished, Measured, Table};
use tailwater_latency::numbers::rate;

use crate::store::{Engine, Failure, Store};
use crate::subjects::Subjects;

/// Number of entries in the database.
const ENTRIES: u64 = 100_000;
/// Number of the key that all threads get.
const HOT: u64 = ENTRIES / 2;
/// Number of gets between two checks of the clock.
const BETWEEN_LOOKS: u64 = 1000;

/// The command's arguments.
#[derive(Debug, Args)]
pub(crate) struct HotKeyArguments {
    /// Number of concurrent threads.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Duration of each measurement of an engine, in seconds.
    #[arg(long, default_value_t = 2)]
    seconds: u64,
    /// Number of measurements of each engine with one thread. There are as many with several
    /// threads.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    #[command(flatten)]
    subjects: Subjects,
}

/// Gets per second of one thread and of several threads together, and the ratio.
#[derive(Debug, Serialize, Deserialize)]
struct Gets {
    alone: f64,
    together: f64,
    ratio: f64,
}

impl HotKeyArguments {
    /// Runs the command; its table is in Markdown.
    pub(crate) fn run(&self, known: &[Engine]) -> Result<Finished, Failure> {
        let (threads, rounds) = (self.threads, self.rounds);
        let time = Duration::from_secs(self.seconds);
        let mut table = Table::new(&format!("engine<|1 thread>|{threads} threads>|ratio>"));
        let mut measured = Vec::new();
        for engine in self.subjects.engines(known)? {
            let directory = self.subjects.new_directory()?;
            let store = (engine.open)(directory.path(), &self.subjects.options())?;
            let round = |_| -> Result<Gets, Failure> {
                let (alone, together) = (get(&*store, 1, time)?, get(&*store, threads, time)?);
                Ok(Gets { alone, together, ratio: together / alone })
            };
            let runs = (0..rounds).map(round).collect::<Result<_, _>>()?;
            let row = Measured::new(engine, runs)?;
            let Gets { alone, together, ratio } = row.median;
            let name = engine.name.to_owned();
            table.row([name, rate(alone), rate(together), format!("{ratio:.2}")]);
            measured.push(row);
        }
        let table = table.markdown();
        let text = format!("Gets of one key per second, medians of {rounds} rounds:\n\n{table}");
        Finished::new(text, &measured)
    }
}

/// Gets the key [`HOT`] repeatedly in `threads` threads for the duration `time`; returns gets per
/// second of all threads together. If the store does not have this key yet, first puts all
/// [`ENTRIES`] entries.
fn get(store: &dyn Store, threads: usize, time: Duration) -> Result<f64, Failure> {
    let hot = key(HOT);
    if store.get(&hot)?.is_none() {
        let values = Values::new(100, 1);
        store.put_all(&mut (0..ENTRIES).map(|number| (key(number), values.get(number))))?;
        store.compact()?;
        store.settle()?;
    }
    let stop = AtomicBool::new(false);
    let work = || -> Result<f64, Failure> {
        let (start, mut gets) = (Instant::now(), 0);
        while !stop.load(Ordering::Relaxed) {
            for _ in 0..BETWEEN_LOOKS {
                std::hint::black_box(store.get(&hot)?);
            }
            gets += BETWEEN_LOOKS;
            if start.elapsed() >= time {
                stop.store(true, Ordering::Relaxed);
            }
        }
        Ok(gets as f64 / start.elapsed().as_secs_f64())
    };
    thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let mut total = 0.0;
        for handle in handles {
            total += handle.join().map_err(|_| "a reader panicked")??;
        }
        Ok(total)
    })
}
