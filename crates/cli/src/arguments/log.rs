//! The verbs of `tailwater log`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use tailwater_latency::log::LogBenchArguments;

/// Exit codes, printed at the end of the help of `tailwater log`.
pub(crate) const LOG_EXIT_CODES: &str = "\
Exit codes:
  0  all is well
  1  damage, a missing file, or a failed operation
  2  usage error
  3  intact except for the end of a partition, which was truncated by a crash or is being written
     (verify only)
  5  what looks damaged may be the effect of another process, which changed the files whenever they
     were read (stat, verify, dump)";

/// The verbs of `tailwater log`.
#[derive(Debug, Subcommand)]
pub(crate) enum LogVerb {
    /// Print streams, topics and partitions: their offsets, segments, bytes and consumers
    Stat(LogPlace),
    /// Verify all segments: checksums, contiguous offsets, indexes against segments
    Verify(LogPlace),
    /// Print the messages of a partition
    ///
    /// Each message is a line with offset, timestamp in microseconds since 1970, and payload,
    /// separated by tabs; or a JSON document. Ends at damage, which is reported with file and
    /// offset. A batch at the end that was truncated by a crash or is being written is left out.
    Dump(LogDumpArguments),
    /// Rewrite sealed segments without their padding gaps
    ///
    /// The log must not be open. An open log does not need this: the process that has the log open
    /// rewrites its segments in the background. The new files get the owner, group and permissions
    /// of the old ones. An interrupted run can be repeated.
    Compact(LogPlace),
    /// Fill a log with the messages of a running server of Apache Iggy
    ///
    /// Polls every partition of a stream, or of all streams, from its first message to its last.
    /// A repeated import resumes where the last one ended. It fails at a partition that was purged,
    /// or deleted and created again, in between. The log must not be open; a directory with other
    /// files is refused.
    Import(LogImportArguments),
    /// Measure how persisting affects the latency of producers and consumers
    ///
    /// Producers send batches at a fixed rate and consumers poll them, through a server's event
    /// loop that persists messages itself or leaves this to other threads. docs/log.md describes
    /// the tables.
    Bench(Box<LogBenchArguments>),
}

/// Arguments of `log stat`, `log verify` and `log compact`.
#[derive(Debug, Args)]
pub(crate) struct LogPlace {
    /// The log's directory
    pub(crate) directory: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `log dump`.
#[derive(Debug, Args)]
pub(crate) struct LogDumpArguments {
    /// The log's directory
    pub(crate) directory: PathBuf,
    /// The stream, by id or name
    #[arg(long)]
    pub(crate) stream: String,
    /// The topic, by id or name
    #[arg(long)]
    pub(crate) topic: String,
    /// The partition's id
    #[arg(long, default_value_t = 0)]
    pub(crate) partition: u32,
    /// Offset of the first message to print
    #[arg(long, default_value_t = 0)]
    pub(crate) from: u64,
    /// Maximum number of messages to print
    #[arg(long)]
    pub(crate) limit: Option<u64>,
    /// Print payloads in hex
    #[arg(long)]
    pub(crate) hex: bool,
    /// Print a JSON document per message, one per line
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `log import`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("streams").required(true))]
pub(crate) struct LogImportArguments {
    /// The log's directory; for a server, the `log` directory in its system.path
    pub(crate) directory: PathBuf,
    /// Address of the server
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) from: String,
    /// Name of a user who may read the streams to import
    #[arg(long, default_value = "iggy")]
    pub(crate) username: String,
    /// Password of the user given by --username [env: IGGY_PASSWORD]
    #[arg(long)]
    pub(crate) password: Option<String>,
    /// Name or id of a stream
    #[arg(long, group = "streams")]
    pub(crate) stream: Option<String>,
    /// Import all streams
    #[arg(long, group = "streams")]
    pub(crate) all: bool,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}
