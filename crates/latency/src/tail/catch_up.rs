//! `tailwater log bench catch-up` measures how a consumer that catches up affects other reads. The
//! consumer reads a long message log from its beginning. At the same time, readers read a key-value
//! database whose hot set fits into the page cache. All run in one process inside a memory limit.
//!
//! The consumer reads each byte of the log once. If it reads through the page cache, these bytes
//! evict the hot set; with direct I/O they do not. The measured process, the memory limit, the
//! database and the figures are those of `tailwater tail`. The log is filled once before the runs,
//! outside the limit.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use tailwater_io::Purpose;
use tailwater_log::{
    Durability, IoModeChoice, Log, LogOptions, Strategy, TailMemory, TopicOptions,
};

use super::arguments::{Limit, TailArguments, limit_bytes};
use super::child::{Assignment, CatchUp, ConcurrentWork};
use super::copy::copy_database;
use super::engine::EngineName;
use super::figures::Figures;
use super::launch::{Launch, Processes};
use super::plan::Plan;
use super::source::Source;
use super::units::{Bytes, HotSet};
use crate::experiment::{Finished, Measured, Place, Table, in_turn};
use crate::failure::Failure;
use crate::files::write_json;
use crate::log::scratch;
use crate::numbers;
use crate::own::OwnDirectory;
use crate::parsing::{above_zero, at_least_one, seconds};
use crate::report::ReportFiles;

/// Number of messages in each batch of the log.
const BATCH: u32 = 100;
/// Length of a message's payload, in bytes.
const MESSAGE_BYTES: usize = 1000;
/// Maximum number of messages that a poll returns.
const POLL: u32 = 1000;
/// Size of the hot set, in percent of the memory limit.
const HOT_PERCENT: f64 = 40.0;
/// Size of a page, in bytes.
const PAGE_BYTES: f64 = 4096.0;

/// Arguments of the experiment.
#[derive(Debug, Clone, Args)]
pub struct CatchUpArguments {
    /// Total payload in the log
    #[arg(long, value_name = "BYTES", default_value = "4GB", value_parser = Bytes::above_zero)]
    pub size: Bytes,
    /// Memory limit of the process, including page cache
    #[arg(long, value_name = "BYTES", default_value = "512M", value_parser = limit_bytes)]
    pub limit: Bytes,
    /// Number of threads that read the hot set
    #[arg(long, default_value_t = 4, value_parser = at_least_one)]
    pub readers: usize,
    /// Reads of the hot set per second
    #[arg(long, default_value_t = 4000.0, value_parser = above_zero)]
    pub read_rate: f64,
    /// Duration of a run without a consumer, in seconds; other runs end when the consumer has read
    /// the log
    #[arg(long, default_value_t = 10.0, value_parser = seconds, allow_negative_numbers = true)]
    pub duration: f64,
    /// Number of runs of each mode
    #[arg(long, default_value_t = 3, value_parser = at_least_one)]
    pub runs: usize,
    /// Parent directory of the log and the database, on the disk to measure; both are removed
    /// afterwards
    #[arg(long, default_value = "tailwater-catch-up")]
    pub directory: PathBuf,
    /// Path of the report [default: report.json in the directory]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// A mode that is compared with others.
struct Mode {
    name: &'static str,
    /// Whether the consumer reads with direct I/O; `None` if there is no consumer.
    is_direct: Option<bool>,
}

const MODES: [Mode; 3] = [
    Mode { name: "no consumer", is_direct: None },
    Mode { name: "buffered", is_direct: Some(false) },
    Mode { name: "direct", is_direct: Some(true) },
];

/// Runs the experiment.
pub(crate) fn run(arguments: &CatchUpArguments) -> Result<Finished, Failure> {
    let plan = Plan::new(&TailArguments {
        limit: Some(Limit::Bytes(arguments.limit.0)),
        size: Some(Bytes(arguments.limit.0 * 2)),
        hot: Some(HotSet::Percent(HOT_PERCENT)),
        readers: Some(arguments.readers),
        read_rate: Some(arguments.read_rate),
        duration: Some(arguments.duration),
        directory: Some(arguments.directory.clone()),
        ..TailArguments::default()
    })?;
    let _place = Place::take(&plan.directory)?;
    let out = arguments.out.clone();
    let files = ReportFiles::at(&out.unwrap_or_else(|| plan.directory.join("report.json")))?;
    let processes = Processes::new(plan.parameters.limit_bytes)?;
    let source = Source::new(&plan.parameters);
    let original = OwnDirectory::at(&source.path(&plan.directory))?;
    source.build(&plan.directory)?;
    let database = plan.directory.join("catch-up-database");
    let copy = OwnDirectory::create(&database)?;
    copy_database(&source.path(&plan.directory), &database)?;
    original.remove()?;
    let log = plan.directory.join("catch-up-log");
    let own_log = OwnDirectory::create(&log)?;
    let log = log.join("log");
    say!("filling a log with {}", arguments.size);
    fill(&log, arguments.size.0)?;
    let measured = in_turn(Vec::from(MODES), arguments.runs, |run, Mode { name, is_direct }| {
        say!("run {} of {}: {name}", run + 1, arguments.runs);
        processes.evict(&[&database, &log])?;
        let catch_up = is_direct.map(|is_direct| CatchUp { log: log.clone(), is_direct });
        let assignment = assignment(&plan, &database, run as u64, catch_up);
        let phases =
            processes.run(&assignment, name, &|figures| Some(log_bytes(figures) as u64))?;
        let first = phases.into_iter().next().map(|phase| phase.figures);
        first.ok_or_else(|| "the process reported no measurements".into())
    })?;
    own_log.remove()?;
    copy.remove()?;
    let rows: Vec<_> = measured
        .iter()
        .map(|Measured { row, runs, .. }| json!({"mode": row.name, "runs": runs}))
        .collect();
    let parameters = json!({
        "log_bytes": arguments.size.0,
        "experiment": plan.parameters,
        "memory_limit": processes.memory_limit().0,
    });
    let report = json!({"schema": 1, "parameters": parameters, "rows": rows});
    write_json(files.json(), &report)?;
    Finished::new(text(arguments, plan.parameters.hot_bytes(), &measured), &report)
}

fn assignment(plan: &Plan, database: &Path, seed: u64, catch_up: Option<CatchUp>) -> Assignment {
    let parameters = &plan.parameters;
    Assignment {
        engine: EngineName::Tailwater,
        directory: database.to_owned(),
        options: "disable_auto_compactions=true".to_owned(),
        load: parameters.load,
        batch_load: None,
        concurrent_work: ConcurrentWork::Nothing,
        duration: parameters.duration(),
        seed,
        warms: true,
        incident: None,
        block_bytes: parameters.block_bytes(),
        slow_read_threshold_us: None,
        catch_up,
    }
}

/// Returns the number of bytes that the consumer read from the log's segments. They are subtracted
/// from the bytes that the process read from the device; the rest are misses of the hot set.
fn log_bytes(figures: &Figures) -> f64 {
    let read = figures.kernel.bytes_per_purpose.get(Purpose::LogRead.name());
    read.map_or(0.0, |read| read.read_bytes)
}

fn options(io_mode: IoModeChoice) -> LogOptions {
    LogOptions::new()
        .with_append_io_mode(IoModeChoice::Direct)
        .with_read_io_mode(io_mode)
        .with_tail_memory(TailMemory::Private)
        .with_tail_bytes_max(64 << 20)
}

/// Creates a log with one partition and `bytes` of payload.
fn fill(directory: &Path, bytes: u64) -> Result<(), Failure> {
    let topic =
        TopicOptions::new().with_durability(Durability::Memory).with_segment_bytes(256 << 20);
    let (log, partitions) = scratch::create(directory, &options(IoModeChoice::Direct), &topic, 1)?;
    let batch = scratch::batch(0, BATCH, &[b'x'; MESSAGE_BYTES])?;
    for _ in 0..bytes.div_ceil(u64::from(BATCH) * MESSAGE_BYTES as u64) {
        drop(partitions[0].append(&batch)?);
    }
    drop(partitions);
    Ok(log.close()?)
}

impl CatchUp {
    /// Reads the whole log as fast as possible. Returns the number of bytes that were read from
    /// segment files.
    pub(super) fn consume(&self) -> Result<u64, Failure> {
        let io_mode = if self.is_direct { IoModeChoice::Direct } else { IoModeChoice::Buffered };
        let options = options(io_mode).with_create_if_missing(false);
        let log = Log::open(&self.log, &options)?;
        let partition = log.partitions().into_iter().next().ok_or("the log has no partition")?;
        let mut strategy = Strategy::First;
        loop {
            let polled = partition.poll(strategy, POLL)?;
            if polled.count == 0 {
                break;
            }
            strategy = Strategy::Offset(polled.end_offset());
        }
        let read = log.storage().statistics().snapshot(Purpose::LogRead).read_bytes;
        drop(partition);
        log.close()?;
        Ok(read)
    }
}

fn text(
    arguments: &CatchUpArguments,
    hot_bytes: u64,
    measured: &[Measured<Mode, Figures>],
) -> String {
    let mut table = Table::new(
        "consumer<12|log MB/s>9|reads/s>9|p50 ms>9|p99 ms>9|p99.9 ms>9|missed MB>11|missed MB/s>11",
    );
    for Measured { row, median, runs } in measured {
        let of =
            |figure: &dyn Fn(&Figures) -> f64| numbers::median(runs.iter().map(figure).collect());
        let missed = |figures: &Figures| {
            let pages = figures.kernel.figure("missed_pages_per_second");
            pages.map_or(f64::NAN, |pages| pages * PAGE_BYTES / 1e6)
        };
        let latencies =
            [median.latencies.p50_us, median.latencies.p99_us, median.latencies.p999_us];
        let [p50, p99, p999] = latencies.map(|us| format!("{:.3}", us / 1e3));
        table.row([
            row.name.to_owned(),
            format!("{:.0}", of(&|figures| log_bytes(figures) / figures.seconds / 1e6)),
            format!("{:.0}", median.reads_per_second),
            p50,
            p99,
            p999,
            format!("{:.1}", of(&|figures| missed(figures) * figures.seconds)),
            format!("{:.2}", of(&missed)),
        ]);
    }
    format!(
        "A consumer reads a log of {} during {} reads/s of a hot set of {}, in {} of memory; \
         medians of {} runs\n\n{table}\nMissed: bytes that the process read from the device, except for \
         the log: misses of the hot set.\n",
        arguments.size,
        arguments.read_rate,
        Bytes(hot_bytes),
        arguments.limit,
        arguments.runs,
    )
}
