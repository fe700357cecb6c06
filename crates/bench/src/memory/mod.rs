//! The memory of a process whose databases share a write buffer manager and a strict block cache.
//!
//! Each engine runs in its own child process, because the resident memory of a process cannot be
//! divided among engines. The child opens all databases, fills them, and then writes and reads at
//! full speed: for each database, one thread overwrites random keys, and another alternates between
//! gets and short scans of random keys, so that the cache is always full. Meanwhile, a thread
//! samples the resident memory, and what the engine says about its memory.
//!
//! The configured sum is the limit of the memtables and the capacity of the cache; or only the
//! capacity, if the memory of the memtables is charged to the cache. What the process has resident
//! before it opens the databases, mostly its code, is not part of the sum; the report has both.

mod figures;
mod load;
mod subject;

use std::path::PathBuf;
use std::process::{Command, Stdio};

use clap::Args;
use serde::{Deserialize, Serialize};
use tailwater_latency::experiment::Finished;
use tailwater_latency::say;

use self::figures::{Figures, report};
pub use self::subject::{Limits, MemoryEngine, MemorySubject, Opened, Refusal};
use crate::store::Failure;
use crate::subjects::Subjects;

/// The command of the child process in which one engine runs.
pub(crate) const CHILD_COMMAND: &str = "memory-child";

/// Options of the databases, in addition to the shared write buffer manager and cache. The buffers
/// of compactions and flushes are smaller than by default.
const OPTIONS: &str = "create_if_missing=true;max_background_jobs=2;max_open_files=-1;\
    write_buffer_size=67108864;compaction_readahead_size=524288;\
    writable_file_max_buffer_size=262144;compression=kLZ4Compression";
/// Options of the tables, without the cache. Index and filter blocks are in the cache, so that its
/// capacity bounds them.
const TABLES: &str = "filter_policy=bloomfilter:10:false;cache_index_and_filter_blocks=true";

/// The command's arguments.
#[derive(Debug, Args)]
pub(crate) struct MemoryArguments {
    #[command(flatten)]
    load: Load,
    #[command(flatten)]
    subjects: Subjects,
}

/// The sizes of the databases, their shared limits, and the duration of the load.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
struct Load {
    /// Number of databases in the process.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    databases: u32,
    /// Limit of all memtables together, in MiB.
    #[arg(long, default_value_t = 64)]
    memtables: usize,
    /// Capacity of the block cache, in MiB.
    #[arg(long, default_value_t = 256)]
    cache: usize,
    /// Charges the memtables to the cache, so that the capacity of the cache is the sum. Only
    /// Tailwater: the crate `rocksdb` has no strict cache that a write buffer manager can use.
    #[arg(long)]
    charge: bool,
    /// Size of the keys and values of each database, in MiB.
    #[arg(long, default_value_t = 512)]
    data: u64,
    /// Length of values in bytes; keys have 16 bytes.
    #[arg(long, default_value_t = 400, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    value_size: u32,
    /// Duration of the load, in seconds.
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
}

impl Load {
    fn limits(&self) -> Limits {
        let (memtables_bytes, cache_bytes) = (self.memtables << 20, self.cache << 20);
        Limits { memtables_bytes, cache_bytes, charges_memtables: self.charge }
    }
}

/// What a child process does.
#[derive(Debug, Serialize, Deserialize)]
struct Assignment {
    engine: String,
    directory: PathBuf,
    options: String,
    load: Load,
}

impl MemoryArguments {
    /// Runs each engine in a child process.
    pub(crate) fn run(&self, known: &[MemoryEngine]) -> Result<Finished, Failure> {
        let mut results = Vec::new();
        for engine in known.iter().filter(|engine| self.subjects.wants(engine.name)) {
            let directory = self.subjects.new_directory()?;
            let assignment = Assignment {
                engine: engine.name.to_owned(),
                directory: directory.path().to_owned(),
                options: self.subjects.options_over(OPTIONS),
                load: self.load.clone(),
            };
            results.push(run_process(&assignment)?);
        }
        Finished::new(report(&self.load.limits(), self.load.databases, &results), &results)
    }
}

fn run_process(assignment: &Assignment) -> Result<Figures, Failure> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args([CHILD_COMMAND, &serde_json::to_string(assignment)?]);
    let output = command.stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(format!("{}: {}", assignment.engine, output.status).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Runs the engine of an assignment, and returns its figures as JSON.
pub(crate) fn run_child(assignment: &str, known: &[MemoryEngine]) -> Result<Finished, Failure> {
    let assignment: Assignment = serde_json::from_str(assignment)?;
    let name = &assignment.engine;
    let engine = known.iter().find(|engine| engine.name == *name).ok_or("no such engine")?;
    say!("{name}: opening");
    let figures = load::run(engine, &assignment)?;
    Finished::new(serde_json::to_string(&figures)?, &figures)
}
