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

use clap::Args;
use serde::Serialize;
use serde_json::json;
use tailwater_latency::entries::KEY_BYTES;
use tailwater_latency::experiment::Finished;
use tailwater_latency::latencies::Latencies;
use tailwater_latency::numbers::rate;
use tailwater_latency::say;

use crate::process::{directory_bytes, peak_memory_bytes, written_bytes};
use crate::store::{Engine, Failure};
use crate::subjects::Subjects;
use crate::workloads::basket::{self, Amount, Workload};
use crate::workloads::overwriting::{LOOK_EVERY, MEMORY, Memory, STALL, overwrite};

/// Maximum number of seconds to wait until the size of the directory is stable; it is checked once
/// a second.
const LOOKS_FOR_SETTLED: usize = 60;

/// The command's arguments.
#[derive(Debug, Args)]
pub(crate) struct SustainedArguments {
    /// Number of keys.
    #[arg(long, default_value_t = 10_000_000)]
    pub(crate) num: u64,
    /// Length of values in bytes; keys have 16 bytes.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(..=1 << 20))]
    pub(crate) value_size: u32,
    /// Duration of overwriting, in seconds.
    #[arg(long, default_value_t = 600)]
    pub(crate) seconds: u64,
    /// Rate limit in puts per second; unlimited by default.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rate: Option<u32>,
    #[command(flatten)]
    subjects: Subjects,
}

impl SustainedArguments {
    /// Runs the command.
    pub(crate) fn run(&self, known: &[Engine]) -> Result<Vec<Finished>, Failure> {
        let engines = self.subjects.engines(known)?;
        match engines[..] {
            [engine] => Ok(vec![self.run_engine(engine)?]),
            _ => engines.iter().map(|engine| self.run_process(engine.name)).collect(),
        }
    }

    /// Runs one engine in a separate process. The result is the text that it prints.
    fn run_process(&self, engine: &str) -> Result<Finished, Failure> {
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
        let text = String::from_utf8(output.stdout)?;
        Finished::new(text.clone(), &text)
    }

    fn run_engine(&self, engine: &Engine) -> Result<Finished, Failure> {
        let directory = self.subjects.new_directory()?;
        let store = (engine.open)(directory.path(), &self.subjects.options())?;
        let value_bytes = self.value_size as usize;
        let amount = Amount { entries: self.num, reads: 0, value_bytes };
        say!("{}: filling", engine.name);
        basket::run(&*store, Workload::FillSeq, &amount, 1)?;
        store.settle()?;
        say!("{}: overwriting for {} seconds", engine.name, self.seconds);
        let written_before = written_bytes()?;
        let writes = overwrite(&*store, self, directory.path())?;
        let levels = store.property("rocksdb.levelstats")?;
        store.settle()?;
        let entry_bytes = (KEY_BYTES + value_bytes) as f64;
        let (puts, seconds) = (writes.latencies.len() as f64, self.seconds as f64);
        let space = |bytes: u64| bytes as f64 / (self.num as f64 * entry_bytes);
        let sizes = &writes.sizes;
        let Memory { anonymous, parts } = writes.memory;
        let figures = Figures {
            puts_per_second: puts / seconds,
            latencies: Latencies::of(&writes.latencies),
            stalled_share: writes.stalled.as_secs_f64() / seconds,
            space_mean: space(sizes.iter().sum::<u64>() / sizes.len().max(1) as u64),
            space_max: space(sizes.iter().copied().max().unwrap_or(0)),
            space_settled: space(settled_bytes(directory.path())?),
            written_per_byte: (written_bytes()? - written_before) as f64 / (puts * entry_bytes),
            peak_memory_mib: peak_memory_bytes()? >> 20,
            anonymous_mib: anonymous >> 20,
            parts_mib: parts.map(|bytes| bytes >> 20),
            rest_mib: anonymous.saturating_sub(parts.iter().sum()) >> 20,
            levels,
            settled_levels: store.property("rocksdb.levelstats")?,
        };
        Finished::new(
            figures.report(engine.name)?,
            &json!({"engine": engine.name, "figures": figures}),
        )
    }
}

/// The figures of one engine after its run. Space and written bytes are per byte of keys and
/// values.
#[derive(Debug, Serialize)]
struct Figures {
    puts_per_second: f64,
    latencies: Latencies,
    stalled_share: f64,
    space_mean: f64,
    space_max: f64,
    space_settled: f64,
    written_per_byte: f64,
    peak_memory_mib: u64,
    anonymous_mib: u64,
    /// The parts of the anonymous memory, as in [`MEMORY`].
    parts_mib: [u64; MEMORY.len()],
    rest_mib: u64,
    levels: Option<String>,
    settled_levels: Option<String>,
}

impl Figures {
    fn report(&self, engine: &str) -> Result<String, Failure> {
        let Latencies { p50_us, p99_us, p999_us, p9999_us, max_us, .. } = self.latencies;
        let mut text = format!(
            "## {engine}\n\n\
             - puts: {}/s\n\
             - microseconds per put: p50 {:.1}, p99 {:.1}, p99.9 {:.1}, p99.99 {:.1}, max {:.0}\n\
             - time in puts of more than {} ms: {:.1} %\n\
             - bytes on disk per byte of data: {:.2} on average, {:.2} at most, {:.2} settled\n\
             - bytes written per byte put: {:.2}\n\
             - peak memory: {} MiB\n\
             - peak anonymous memory, {} MiB:",
            rate(self.puts_per_second),
            p50_us,
            p99_us,
            p999_us,
            p9999_us,
            max_us,
            STALL.as_millis(),
            100.0 * self.stalled_share,
            self.space_mean,
            self.space_max,
            self.space_settled,
            self.written_per_byte,
            self.peak_memory_mib,
            self.anonymous_mib,
        );
        for ((_, part), mib) in MEMORY.iter().zip(self.parts_mib) {
            write!(text, " {part} {mib},")?;
        }
        writeln!(text, " everything else {}", self.rest_mib)?;
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
