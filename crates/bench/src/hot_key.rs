//! One key that several threads get repeatedly.
//!
//! All reads hit the same few cache lines, so any shared write of a get, to a lock or a reference
//! count, shows at once: the threads together achieve less than one alone.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;

use crate::arguments::Subjects;
use crate::engine::Engine;
use crate::entries::{Values, key};
use crate::report::{Rate, median};
use crate::store::{Failure, Store};

/// Number of entries in the database.
const ENTRIES: u64 = 100_000;
/// Number of the key that is read.
const HOT: u64 = ENTRIES / 2;
/// Number of gets between two checks of the clock.
const BETWEEN_LOOKS: u64 = 1000;

/// What is asked of this command.
#[derive(Debug, Args)]
pub struct HotKeyArguments {
    /// How many threads there are together.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// How long each turn takes, in seconds.
    #[arg(long, default_value_t = 2)]
    seconds: u64,
    /// How many turns each has.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    #[command(flatten)]
    subjects: Subjects,
}

impl HotKeyArguments {
    /// Runs the command; returns a table.
    pub(crate) fn run(&self, known: &[&dyn Engine]) -> Result<String, Failure> {
        let threads = self.threads;
        let mut report = format!(
            "Gets of one key per second, medians of {} rounds:\n\n\
             | engine | 1 thread | {threads} threads | times as many |\n|---|---:|---:|---:|\n",
            self.rounds
        );
        let time = Duration::from_secs(self.seconds);
        for engine in self.subjects.engines(known)? {
            let directory = self.subjects.new_directory()?;
            let subject = engine.create(directory.path(), &self.subjects.options())?;
            let (mut alone, mut together, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
            for _ in 0..self.rounds {
                let one = subject.get_hot_key(1, time)?;
                let all = subject.get_hot_key(threads, time)?;
                alone.push(one);
                together.push(all);
                ratios.push(all / one);
            }
            writeln!(
                report,
                "| {} | {} | {} | {:.2} |",
                engine.name(),
                Rate(median(alone)),
                Rate(median(together)),
                median(ratios)
            )?;
        }
        Ok(report)
    }
}

/// Gets the key in `threads` threads; returns gets per second of all of them. Puts the entries
/// first if they are missing.
pub(crate) fn get(store: &impl Store, threads: usize, time: Duration) -> Result<f64, Failure> {
    let hot = key(HOT);
    if store.get(&hot)?.is_none() {
        let values = Values::new(100, 1);
        store.put_all((0..ENTRIES).map(|number| (key(number), values.get(number))))?;
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
