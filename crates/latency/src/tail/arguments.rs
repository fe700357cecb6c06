//! The arguments of `tailwater tail`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};

use super::batches::BatchForm;
use super::configuration::Configuration;
use super::engine::EngineName;
use super::incident::Incident;
use super::units::{Bytes, HotSet, WriteRate};
use crate::experiment::Earlier;
use crate::parsing::{above_zero, at_least_one, seconds, share};

/// The arguments of the experiment. The default values are those of RocksDB's published experiment,
/// unless `--preset` or `--quick` selects others.
#[derive(Debug, Clone, Default, Args)]
pub struct TailArguments {
    /// Run a small version of the experiment: about three minutes, two processors, 4 GiB of disk
    #[arg(long, conflicts_with = "preset")]
    pub quick: bool,
    /// Use the parameters of a published experiment
    #[arg(long)]
    pub preset: Option<Preset>,
    /// Engines to measure [default: tailwater]
    #[arg(long)]
    pub engine: Option<Engines>,
    /// With the preset cassandra, run only the rows without a rate limiter
    #[arg(long)]
    pub unlimited_only: bool,
    /// Comma-separated list of configurations to compare [default: the first six possible values]
    #[arg(long, value_delimiter = ',')]
    pub configurations: Vec<Configuration>,
    /// Also measure no_compaction: the latency of reads when nothing is written or compacted
    #[arg(long)]
    pub no_compaction: bool,
    /// Memory limit of a run, including page cache; 'none' for no limit [default: 1G]
    #[arg(long, value_name = "BYTES")]
    pub limit: Option<Limit>,
    /// Size of the database
    #[arg(long, value_name = "BYTES", conflicts_with = "ratio")]
    pub size: Option<Bytes>,
    /// Size of the database as a multiple of the memory limit [default: 13.4, which is 3.5 million
    /// keys for a limit of 1G]
    #[arg(long, value_parser = above_zero)]
    pub ratio: Option<f64>,
    /// Size of the hot set, in bytes or in percent of the memory limit [default: 40%]
    #[arg(long, value_name = "PERCENT|BYTES")]
    pub hot: Option<HotSet>,
    /// Number of reader threads [default: one less than processors, which leaves one to the engine]
    #[arg(long, value_parser = at_least_one)]
    pub readers: Option<usize>,
    /// Reads per second in an open loop, where reads start on schedule; by default each reader
    /// starts a read when its previous one has returned
    #[arg(long, value_name = "PER SECOND", value_parser = above_zero)]
    pub read_rate: Option<f64>,
    /// Number of clients that get batches of random keys of the whole database, beside the readers
    /// [default: 0]
    #[arg(long, value_name = "CLIENTS")]
    pub batch_readers: Option<usize>,
    /// Number of keys in a batch [default: 32]
    #[arg(long, value_name = "KEYS", value_parser = at_least_one, requires = "batch_readers")]
    pub batch_size: Option<usize>,
    /// How the clients get the keys of a batch [default: multi-get]
    #[arg(long, requires = "batch_readers")]
    pub batch_form: Option<BatchForm>,
    /// Batches per second of all clients together, in an open loop; by default each client starts
    /// a batch when its previous one has returned
    #[arg(
        long, value_name = "PER SECOND", value_parser = above_zero, requires = "batch_readers"
    )]
    pub batch_rate: Option<f64>,
    /// Bytes to write per second, or 'calibrate' to determine a rate that all configurations
    /// sustain [default: 40MB]
    #[arg(long, value_name = "BYTES|calibrate")]
    pub write_rate: Option<WriteRate>,
    /// Share of their size to which values compress; 1 for random values [default: 0.5 if --options
    /// or --tailwater-options turn compression on, otherwise 1]
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub compression_ratio: Option<f64>,
    /// Attribute the time of reads that take at least this many microseconds to causes, and show
    /// these
    #[arg(long, value_name = "US", value_parser = clap::value_parser!(u64).range(1..))]
    pub slow_reads: Option<u64>,
    /// Duration of a run, in seconds [default: 60]
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    pub duration: Option<f64>,
    /// Number of runs of each configuration [default: 3]
    #[arg(long, value_parser = at_least_one)]
    pub runs: Option<usize>,
    /// Also print the mean of each result over the runs, and its coefficient of variation
    #[arg(long)]
    pub mean: bool,
    /// Additional options of all engines in every configuration, as an option string
    #[arg(long, value_name = "NAME=VALUE;...")]
    pub options: Option<String>,
    /// Additional options of Tailwater in every configuration, including those unknown to RocksDB
    #[arg(long, value_name = "NAME=VALUE;...")]
    pub tailwater_options: Option<String>,
    /// Size of the block cache in configurations with a large one [default: 1.5 times the hot set,
    /// three fifths of the limit at most]
    #[arg(long, value_name = "BYTES")]
    pub block_cache: Option<Bytes>,
    /// Read the whole hot set once before the measurement, so that no first reads from the device
    /// are measured
    #[arg(long)]
    pub warm: bool,
    /// Disturbance to cause during each run, to test how the caches cope with change
    #[arg(long)]
    pub incident: Option<Incident>,
    /// Parent directory of the databases, on the disk to measure [default: tailwater-tail]
    #[arg(long)]
    pub directory: Option<PathBuf>,
    /// Directory of report.html, its picture report.svg, report.json, table.txt and the results
    /// of each run [default: subdirectory 'report' of --directory]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Continue an interrupted experiment; the other arguments must be the same as before
    #[arg(long)]
    pub resume: bool,
    /// Keep the last database of each configuration; with --quick also the source database
    #[arg(long)]
    pub keep: bool,
    /// Reports of earlier runs.
    #[command(flatten)]
    pub earlier: Earlier,
}

/// A published experiment whose parameters can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Preset {
    /// RocksDB's experiment as in the message of its commit: 2,000 hot keys, 4 readers, 100 MiB/s
    /// written, 180 s
    #[value(name = "rocksdb-14743-commit")]
    Rocksdb14743Commit,
    /// RocksDB's experiment as published: 7,500 and then 100,000 hot keys, 4 readers, 200 MiB/s
    /// written, five runs of 120 s
    #[value(name = "rocksdb-14743")]
    Rocksdb14743,
    /// Cassandra's experiment: 10,000 reads/s while one compaction merges ten times as many bytes
    /// as the memory limit, at three rates of compaction
    Cassandra,
}

/// The engines to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Engines {
    /// Tailwater
    Tailwater,
    /// RocksDB
    Rocksdb,
    /// Tailwater and RocksDB, alternating
    Both,
}

impl Engines {
    /// Returns the names of the engines.
    pub(super) fn names(self) -> &'static [EngineName] {
        match self {
            Self::Tailwater => &[EngineName::Tailwater],
            Self::Rocksdb => &[EngineName::Rocksdb],
            Self::Both => &[EngineName::Tailwater, EngineName::Rocksdb],
        }
    }
}

/// The memory limit of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// The memory is not limited.
    None,
    /// The memory is limited to this number of bytes.
    Bytes(u64),
}

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self::None),
            _ => limit_bytes(text).map(|Bytes(bytes)| Self::Bytes(bytes)),
        }
    }
}

/// Parses the size of a memory limit.
pub(super) fn limit_bytes(text: &str) -> Result<Bytes, String> {
    match text.parse()? {
        Bytes(bytes) if bytes < 16 << 20 => Err("an engine needs at least 16M".into()),
        bytes => Ok(bytes),
    }
}
