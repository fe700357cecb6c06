//! `tailwater log bench` measures how the way of persisting messages affects the latency of a
//! message log.
//!
//! The experiment reproduces a measurement of Apache Iggy's pull request 3068. Producers send
//! batches at a fixed rate to a server with one event loop per shard, and consumers poll the
//! batches. The event loops serve appends and polls. The modes differ in which threads persist
//! messages, and how:
//!
//! - `buffered`: the event loop persists them, with writes through the page cache;
//! - `direct_inline_unsynced`: the event loop persists them, with direct I/O (`O_DIRECT`); no write
//!   is durable;
//! - `direct_inline`: the event loop persists them, with direct I/O and each write durable
//!   (`O_DIRECT`, `O_DSYNC`);
//! - `direct_deferred`: separate threads persist them, with direct I/O and each write durable;
//! - the other modes also use separate threads and direct I/O, but differ in how partial blocks are
//!   written or in the durability that an acknowledgement promises.
//!
//! The rate determines when each send is due. A producer's latency is measured from that due time,
//! even if earlier sends delay the send, which avoids coordinated omission. A consumer's latency is
//! measured from the same due time until the poll that contains the message returns.

mod clients;
mod document;
mod event_loop;
mod figures;
mod group_commit;
mod mode;
mod open_time;
mod report;
mod run;
pub(crate) mod scratch;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::experiment::{Earlier, Finished, Place, in_turn};
use crate::failure::Failure;
use crate::parsing::{at_least_one, seconds};
use crate::report::ReportFiles;
use crate::tail::{Bytes, CatchUpArguments};
use clients::DUE_BYTES;
pub use group_commit::GroupCommitArguments;
pub use mode::Mode;
pub use open_time::OpenArguments;
use report::Row;
use scratch::BATCH_BYTES_MAX;

/// Experiments other than the one with producers and consumers.
#[derive(Debug, Clone, Subcommand)]
pub enum Experiment {
    /// Measure the time and the number of reads to open a log with many segments
    Open(OpenArguments),
    /// Measure durable writes per acknowledged append, by number of partitions
    GroupCommit(GroupCommitArguments),
    /// Measure how a consumer that catches up affects the hot set of a key-value reader in limited
    /// memory
    CatchUp(CatchUpArguments),
}

/// Arguments of the command.
#[derive(Debug, Clone, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct LogBenchArguments {
    #[command(subcommand)]
    pub(crate) experiment: Option<Experiment>,
    /// Payload to send, and to poll, per second
    #[arg(long, value_name = "BYTES", default_value = "250MB", value_parser = Bytes::above_zero)]
    pub(crate) rate: Bytes,
    /// Number of messages per batch
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) batch: u32,
    /// Payload length of a message, in bytes; at least 8, for the time when it was due
    #[arg(
        long, default_value_t = 1000,
        value_parser = clap::value_parser!(u32).range(DUE_BYTES as i64..=i64::from(BATCH_BYTES_MAX))
    )]
    pub(crate) message_size: u32,
    /// Number of partitions, distributed over producers and consumers
    #[arg(long, default_value_t = 4, value_parser = at_least_one)]
    pub(crate) partitions: usize,
    /// Number of producer threads; there are as many consumer threads
    #[arg(long, default_value_t = 2, value_parser = at_least_one)]
    pub(crate) clients: usize,
    /// Producers send batches to all partitions in turn instead of only to their own
    #[arg(long)]
    pub(crate) balanced: bool,
    /// Number of event loops, over which the partitions are distributed
    #[arg(long, default_value_t = 1, value_parser = at_least_one)]
    pub(crate) loops: usize,
    /// Number of persister threads, in modes where threads other than the event loops persist
    /// messages
    #[arg(long, default_value_t = 2, value_parser = at_least_one)]
    pub(crate) persisters: usize,
    /// Duration of a run, in seconds
    #[arg(long, default_value_t = 20.0, value_parser = seconds, allow_negative_numbers = true)]
    pub(crate) duration: f64,
    /// Number of runs of each mode
    #[arg(long, default_value_t = 3, value_parser = at_least_one)]
    pub(crate) runs: usize,
    /// Comma-separated list of modes to compare
    #[arg(long, value_delimiter = ',', default_values_t = Mode::DEFAULT)]
    pub(crate) modes: Vec<Mode>,
    /// Comma-separated values of messages_required_to_save; one row for each
    #[arg(
        long, value_delimiter = ',', default_value = "1024",
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    pub(crate) messages_required_to_save: Vec<u32>,
    /// Comma-separated values of size_of_messages_required_to_save; one row for each
    #[arg(
        long, value_delimiter = ',', value_name = "BYTES", default_value = "1M",
        value_parser = Bytes::above_zero
    )]
    pub(crate) size_of_messages_required_to_save: Vec<Bytes>,
    /// Size of a segment, from 64K to 1T
    #[arg(long, value_name = "BYTES", default_value = "1G", value_parser = segment_size)]
    pub(crate) segment_size: Bytes,
    /// Parent directory of the log, on the disk to measure; the log is removed afterwards
    #[arg(long, default_value = "tailwater-log-bench")]
    pub(crate) directory: PathBuf,
    /// Path of the results, a .json file; the report, an .html file, and its picture are next to it
    /// [default: report.json in the directory]
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) earlier: Earlier,
}

fn segment_size(text: &str) -> Result<Bytes, String> {
    match text.parse()? {
        Bytes(bytes) if !(64_u64 << 10..=1 << 40).contains(&bytes) => {
            Err("a segment has 64K to 1T".into())
        }
        bytes => Ok(bytes),
    }
}

/// Runs the experiment.
///
/// # Errors
/// Errors of the log and the operating system.
pub fn run(arguments: &LogBenchArguments) -> Result<Finished, Failure> {
    match &arguments.experiment {
        Some(Experiment::Open(arguments)) => open_time::run(arguments),
        Some(Experiment::GroupCommit(arguments)) => group_commit::run(arguments),
        Some(Experiment::CatchUp(arguments)) => crate::tail::catch_up(arguments),
        None => {
            if let Some(finished) = arguments.earlier.finish(document::document)? {
                return Ok(finished);
            }
            let place = Place::take(&arguments.directory)?;
            let out = arguments.out.clone();
            let out = out.unwrap_or_else(|| arguments.directory.join("report.json"));
            let files = ReportFiles::at(&out)?;
            let measured = in_turn(Row::all(arguments), arguments.runs, |run, row| {
                let name = format!("run {} of {}: {}", run + 1, arguments.runs, row.label());
                say!("{name}");
                run::run(arguments, &place, row, &name)
            })?;
            report::finish(arguments, &measured, &files)
        }
    }
}
