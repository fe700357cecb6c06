//! `tailwater log bench`: the effect of persisting on the latency of a message log.
//!
//! Producers send batches at a rate, consumers poll them, and a server with one event loop per
//! shard is between them, as in pull request 3068 of Apache Iggy, which this experiment reproduces.
//! A loop appends and polls; the modes differ in where messages are persisted:
//!
//! - `buffered`: by the loop, through the page cache;
//! - `direct_inline`: by the loop, with direct I/O, each write durable (`O_DIRECT`, `O_DSYNC`);
//! - `direct_deferred`: by separate threads, with direct I/O, each write durable;
//! - the other modes are `direct_deferred` with other durabilities.
//!
//! A send is due at a time given by the rate, and its latency counts from then, however late
//! earlier sends are (no coordinated omission). A message's latency to its consumer counts from the
//! due time of its send to the return of the poll that contains it.

mod clients;
mod event_loop;
mod figures;
mod group_commit;
mod mode;
mod open_time;
mod report;
mod run;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::failure::Failure;
use crate::parsing::at_least_one;
use crate::tail::{Bytes, CatchUpArguments};
pub use group_commit::GroupCommitArguments;
pub use mode::Mode;
pub use open_time::OpenArguments;
use report::Report;

/// Experiments other than the one of producers and consumers.
#[derive(Debug, Clone, Subcommand)]
pub enum Experiment {
    /// Measure the time and the reads that opening a log of many segments takes
    Open(OpenArguments),
    /// Measure how many durable writes acknowledged appends cost, by the number of partitions
    GroupCommit(GroupCommitArguments),
    /// Measure what a consumer that catches up does to a key-value reader's hot set in little
    /// memory
    CatchUp(CatchUpArguments),
}

/// Arguments of the command.
#[derive(Debug, Clone, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct LogBenchArguments {
    #[command(subcommand)]
    pub(crate) experiment: Option<Experiment>,
    /// Payload that is sent each second, and polled each second
    #[arg(long, value_name = "BYTES", default_value = "250MB")]
    pub(crate) rate: Bytes,
    /// Messages in a batch
    #[arg(long, default_value_t = 100)]
    pub(crate) batch: u32,
    /// Length of a message's payload, in bytes
    #[arg(long, default_value_t = 1000)]
    pub(crate) message_size: u32,
    /// Number of partitions, which producers and consumers share
    #[arg(long, default_value_t = 4, value_parser = at_least_one)]
    pub(crate) partitions: usize,
    /// Threads that send, and threads that poll
    #[arg(long, default_value_t = 2, value_parser = at_least_one)]
    pub(crate) clients: usize,
    /// Send each batch to the next partition rather than to a partition of the producer's own
    #[arg(long)]
    pub(crate) balanced: bool,
    /// Event loops, each with the partitions of its number
    #[arg(long, default_value_t = 1, value_parser = at_least_one)]
    pub(crate) loops: usize,
    /// Threads that persist, in modes that defer it
    #[arg(long, default_value_t = 2, value_parser = at_least_one)]
    pub(crate) persisters: usize,
    /// Duration of a run, in seconds
    #[arg(long, default_value_t = 20.0)]
    pub(crate) duration: f64,
    /// Runs of each mode, in turn
    #[arg(long, default_value_t = 3, value_parser = at_least_one)]
    pub(crate) runs: usize,
    /// Comma-separated modes to compare
    #[arg(long, value_delimiter = ',', default_values_t = Mode::DEFAULT)]
    pub(crate) modes: Vec<Mode>,
    /// messages_required_to_save; one row for each value
    #[arg(long, value_delimiter = ',', default_value = "1024")]
    pub(crate) messages_required_to_save: Vec<u32>,
    /// size_of_messages_required_to_save; one row for each value
    #[arg(long, value_delimiter = ',', value_name = "BYTES", default_value = "1M")]
    pub(crate) size_of_messages_required_to_save: Vec<Bytes>,
    /// Size of a segment
    #[arg(long, value_name = "BYTES", default_value = "1G")]
    pub(crate) segment_size: Bytes,
    /// Parent directory of the log, on the disk to measure; the log is removed afterwards
    #[arg(long, default_value = "tailwater-log-bench")]
    pub(crate) directory: PathBuf,
    /// Path of the report [default: report.json in the directory]
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

/// Runs the experiment; returns its tables.
///
/// # Errors
/// Errors of the log and of the system.
pub fn run(arguments: &LogBenchArguments) -> Result<String, Failure> {
    match &arguments.experiment {
        Some(Experiment::Open(arguments)) => return open_time::run(arguments),
        Some(Experiment::GroupCommit(arguments)) => return group_commit::run(arguments),
        Some(Experiment::CatchUp(arguments)) => return crate::tail::catch_up(arguments),
        None => {}
    }
    let mut report = Report::new(arguments);
    for round in 0..arguments.runs {
        let rows = report.rows();
        for index in 0..rows.len() {
            // A different row goes first each time, so that other load on the machine affects all.
            let row = &rows[(index + round) % rows.len()];
            say!("run {} of {}: {}", round + 1, arguments.runs, row.label());
            let figures = run::run(arguments, row)?;
            report.add(row, figures);
        }
    }
    report.write(arguments)?;
    Ok(report.to_string())
}
