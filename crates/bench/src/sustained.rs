//! Overwriting at full speed for minutes.
//!
//! A database is filled, then one thread overwrites random keys for the given time, at full speed
//! or at a given rate. The report of each engine has:
//!
//! - puts per second, and their latency: percentiles, the maximum, and the fraction of the time
//!   spent in puts of more than 10 ms, which a writer perceives as stalls;
//! - space: the bytes in the directory per byte of keys and values: the average, the maximum, and
//!   the value after all background work was done;
//! - bytes that the process wrote, logs included, per byte of keys and values that it put;
//! - the peak memory of the process; also its peak anonymous memory, and how much of that memory
//!   the engine attributes to memtables, block cache and open tables;
//! - the number and size of tables in each level, right after the last put and again after all
//!   background work was done.
//!
//! Each engine runs in its own process, to measure the memory and the writes of each engine
//! separately.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use clap::Args;
use tailwater_latency::entries::KEY_BYTES;
use tailwater_latency::numbers::Rate;
use tailwater_latency::say;

use crate::engine::Engine;
use crate::process::{directory_bytes, peak_memory_bytes, written_bytes};
use crate::store::Failure;
use crate::subjects::Subjects;
use crate::workloads::basket::{Amount, Workload};
use crate::workloads::overwriting::{LOOK_EVERY, MEMORY, Memory, Overwriting, STALL, Writes};

/// Maximum number of seconds to wait until the size of the directory is stable; it is checked once
/// a second.
const LOOKS_FOR_SETTLED: usize = 60;

/// The command's arguments.
#[derive(Debug, Args)]
pub struct SustainedArguments {
    /// Number of keys.
    #[arg(long, default_value_t = 10_000_000)]
    num: u64,
    /// Length of values in bytes; keys have 16 bytes.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(..=1 << 20))]
    value_size: u32,
    /// Duration of overwriting, in seconds.
    #[arg(long, default_value_t = 600)]
    seconds: u64,
    /// Rate limit in puts per second; unlimited by default.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    rate: Option<u32>,
    #[command(flatten)]
    subjects: Subjects,
}

impl SustainedArguments {
    /// Runs the command; returns a report.
    pub(crate) fn run(&self, known: &[&dyn Engine]) -> Result<String, Failure> {
        let engines = self.subjects.engines(known)?;
        match engines[..] {
            [engine] => self.run_engine(engine),
            _ => engines.iter().map(|engine| self.run_process(engine.name())).collect(),
        }
    }

    /// Runs one engine in a separate process.
    fn run_process(&self, engine: &str) -> Result<String, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["sustained", "--engines", engine]);
        command.args(["--num", &self.num.to_string()]);
        command.args(["--value-size", &self.value_size.to_string()]);
        command.args(["--seconds", &self.seconds.to_string()]);
        command.args(["--options", &self.subjects.options()]);
        if let Some(rate) = self.rate {
            command.args(["--rate", &rate.to_string()]);
        }
        if let Some(directory) = self.subjects.parent_directory() {
            command.arg("--directory").arg(directory);
        }
        let output = command.stderr(std::process::Stdio::inherit()).output()?;
        if !output.status.success() {
            return Err(format!("{engine}: {}", output.status).into());
        }
        Ok(String::from_utf8(output.stdout)?)
    }

    fn run_engine(&self, engine: &dyn Engine) -> Result<String, Failure> {
        let directory = self.subjects.new_directory()?;
        let subject = engine.create(directory.path(), &self.subjects.options())?;
        let value_bytes = self.value_size as usize;
        let amount = Amount { entries: self.num, reads: 0, value_bytes };
        say!("{}: filling", engine.name());
        subject.run(Workload::FillSeq, &amount, 1)?;
        subject.settle()?;
        say!("{}: overwriting for {} seconds", engine.name(), self.seconds);
        let work = Overwriting {
            keys: self.num,
            value_bytes,
            time: Duration::from_secs(self.seconds),
            rate: self.rate,
            directory: directory.path(),
        };
        let written_before = written_bytes()?;
        let writes = subject.overwrite(&work)?;
        let levels = subject.property("rocksdb.levelstats")?;
        subject.settle()?;
        let figures = Figures {
            entry_bytes: (KEY_BYTES + value_bytes) as u64,
            live_bytes: self.num * (KEY_BYTES + value_bytes) as u64,
            settled_bytes: settled_bytes(directory.path())?,
            written_bytes: written_bytes()? - written_before,
            peak_memory_bytes: peak_memory_bytes()?,
            time: work.time,
            levels,
            settled_levels: subject.property("rocksdb.levelstats")?,
            writes,
        };
        figures.report(engine.name())
    }
}

/// The figures of one engine after its run.
struct Figures {
    entry_bytes: u64,
    live_bytes: u64,
    settled_bytes: u64,
    written_bytes: u64,
    peak_memory_bytes: u64,
    time: Duration,
    levels: Option<String>,
    settled_levels: Option<String>,
    writes: Writes,
}

impl Figures {
    fn report(&self, engine: &str) -> Result<String, Failure> {
        let Self { writes, .. } = self;
        let latencies = &writes.latencies;
        let puts = latencies.len();
        let micros = |percent| latencies.value_at_quantile(percent / 100.0) as f64 / 1000.0;
        let space = |bytes: u64| bytes as f64 / self.live_bytes as f64;
        let mean_size = writes.sizes.iter().sum::<u64>() / writes.sizes.len().max(1) as u64;
        let most = writes.sizes.iter().copied().max().unwrap_or(0);
        let written = self.written_bytes as f64 / (puts * self.entry_bytes) as f64;
        let stalled = 100.0 * writes.stalled.as_secs_f64() / self.time.as_secs_f64();
        let mut text = format!("## {engine}\n\n");
        writeln!(text, "- puts: {}/s", Rate(puts as f64 / self.time.as_secs_f64()))?;
        writeln!(
            text,
            "- microseconds per put: p50 {:.1}, p99 {:.1}, p99.9 {:.1}, p99.99 {:.1}, max {:.0}",
            micros(50.0),
            micros(99.0),
            micros(99.9),
            micros(99.99),
            latencies.max() as f64 / 1000.0
        )?;
        writeln!(text, "- time in puts of more than {} ms: {stalled:.1} %", STALL.as_millis())?;
        writeln!(
            text,
            "- bytes on disk per byte of data: {:.2} on average, {:.2} at most, {:.2} settled",
            space(mean_size),
            space(most),
            space(self.settled_bytes)
        )?;
        writeln!(text, "- bytes written per byte put: {written:.2}")?;
        writeln!(text, "- peak memory: {} MiB", self.peak_memory_bytes >> 20)?;
        let Memory { anonymous, parts } = &writes.memory;
        write!(text, "- peak anonymous memory, {} MiB:", anonymous >> 20)?;
        for ((_, part), bytes) in MEMORY.iter().zip(parts) {
            write!(text, " {part} {},", bytes >> 20)?;
        }
        let rest = anonymous.saturating_sub(parts.iter().sum());
        writeln!(text, " everything else {}", rest >> 20)?;
        for (when, levels) in
            [("after the last put", &self.levels), ("settled", &self.settled_levels)]
        {
            if let Some(levels) = levels {
                writeln!(text, "\nLevels {when}:\n\n```text\n{}\n```", levels.trim_end())?;
            }
        }
        text.push('\n');
        Ok(text)
    }
}

/// Waits until the total size of the files in a directory is stable, and returns it in bytes. After
/// background work has ended, obsolete files may still be removed one by one.
fn settled_bytes(directory: &Path) -> Result<u64, Failure> {
    let mut bytes = directory_bytes(directory)?;
    for _ in 0..LOOKS_FOR_SETTLED {
        thread::sleep(LOOK_EVERY);
        let before = std::mem::replace(&mut bytes, directory_bytes(directory)?);
        if before == bytes {
            break;
        }
    }
    Ok(bytes)
}
