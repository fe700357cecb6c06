//! One key that several threads get repeatedly.
//!
//! All reads use the same few cache lines. If a get writes to shared memory, such as a lock or a
//! reference count, the result shows it: all threads together make fewer gets per second than one
//! thread alone.

use std::fmt::Write as _;
use std::time::Duration;

use clap::Args;
use tailwater_latency::numbers::{Rate, median};

use crate::engine::Engine;
use crate::store::Failure;
use crate::subjects::Subjects;

/// The command's arguments.
#[derive(Debug, Args)]
pub struct HotKeyArguments {
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

impl HotKeyArguments {
    /// Runs the command; returns the report, a table in Markdown.
    pub(crate) fn run(&self, known: &[&dyn Engine]) -> Result<String, Failure> {
        let threads = self.threads;
        let mut report = format!(
            "Gets of one key per second, medians of {} rounds:\n\n\
             | engine | 1 thread | {threads} threads | ratio |\n|---|---:|---:|---:|\n",
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
