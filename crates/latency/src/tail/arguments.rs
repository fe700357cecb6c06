//! What can be typed.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};

use super::configuration::Configuration;
use super::engine::EngineName;
use super::incident::Incident;
use super::units::{Bytes, HotSet, WriteRate};
use crate::parsing::{above_zero, at_least_one};

/// What is asked of the experiment. Where something is not said, the published experiment's is
/// taken, or the preset's.
#[derive(Debug, Clone, Default, Args)]
pub struct TailArguments {
    /// The whole experiment, small: under two minutes, two processors and 4 GiB of disk
    #[arg(long, conflicts_with = "preset")]
    pub quick: bool,
    /// A published experiment instead of the defaults
    #[arg(long)]
    pub preset: Option<Preset>,
    /// The engines to measure, by turns [default: tailwater]
    #[arg(long)]
    pub engine: Option<Engines>,
    /// Of the preset cassandra only the rows without a rate limiter
    #[arg(long)]
    pub unlimited_only: bool,
    /// What to compare, with commas between [default: the first five]
    #[arg(long, value_delimiter = ',')]
    pub configurations: Vec<Configuration>,
    /// Also measure no_compaction: what reads cost when nothing is written or compacted
    #[arg(long)]
    pub no_compaction: bool,
    /// How much memory a run has, its page cache included; none does without a limit [default: 1G]
    #[arg(long, value_name = "BYTES")]
    pub limit: Option<Limit>,
    /// How large the database is
    #[arg(long, value_name = "BYTES", conflicts_with = "ratio")]
    pub size: Option<Bytes>,
    /// How large the database is as a multiple of the limit [default: 13.4, 3.5 million keys in 1G]
    #[arg(long, value_parser = above_zero)]
    pub ratio: Option<f64>,
    /// How much of it is read, in percent of the limit or in bytes [default: 40%]
    #[arg(long, value_name = "PERCENT|BYTES")]
    pub hot: Option<HotSet>,
    /// How many threads read [default: one for each processor but one, which the engine gets]
    #[arg(long, value_parser = at_least_one)]
    pub readers: Option<usize>,
    /// Reads that come each second, whatever becomes of those before; without it each reader waits
    /// for its read before it begins the next
    #[arg(long, value_name = "PER SECOND", value_parser = above_zero)]
    pub read_rate: Option<f64>,
    /// Bytes that are written each second, or 'calibrate': as many as all configurations keep up
    /// with [default: 40MB]
    #[arg(long, value_name = "BYTES|calibrate")]
    pub write_rate: Option<WriteRate>,
    /// How long a run is measured, in seconds [default: 60]
    #[arg(long, value_name = "SECONDS", value_parser = above_zero)]
    pub duration: Option<f64>,
    /// How many runs each configuration has [default: 3]
    #[arg(long, value_parser = at_least_one)]
    pub runs: Option<usize>,
    /// Also print means of the runs, and by how much these differ
    #[arg(long)]
    pub mean: bool,
    /// Options that the engines have in every configuration besides, as an option string
    #[arg(long, value_name = "NAME=VALUE;...")]
    pub options: Option<String>,
    /// Options that Tailwater has besides in every configuration, those that RocksDB does not know
    /// among them
    #[arg(long, value_name = "NAME=VALUE;...")]
    pub tailwater_options: Option<String>,
    /// How large the block cache is in configurations that have a large one [default: half as much
    /// again as the hot set]
    #[arg(long, value_name = "BYTES")]
    pub block_cache: Option<Bytes>,
    /// Read all that will be read once before anything is measured, so that what is measured is not
    /// how the hot set first comes into memory
    #[arg(long)]
    pub warm: bool,
    /// What happens besides in each run
    #[arg(long)]
    pub incident: Option<Incident>,
    /// Where databases are made: the disk that is measured [default: tailwater-tail]
    #[arg(long)]
    pub directory: Option<PathBuf>,
    /// Where report.json, table.txt and each run go [default: report, in the directory]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Go on where an experiment with the same arguments was interrupted
    #[arg(long)]
    pub resume: bool,
    /// Keep the last database of each configuration; of --quick also the source database
    #[arg(long)]
    pub keep: bool,
}

/// A published experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Preset {
    /// RocksDB's, with its small hot set: 2,000 keys, 100 MiB/s written, 180 s
    SeedSmall,
    /// RocksDB's as it was published: 7,500 and then 100,000 hot keys, 4 readers, 200 MiB/s
    /// written, five runs of 120 s
    #[value(name = "rocksdb-14743")]
    Rocksdb14743,
    /// Cassandra's: 10,000 reads/s while one compaction merges ten times the limit, at three rates
    Cassandra,
}

/// Which engines are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Engines {
    /// Tailwater
    Tailwater,
    /// RocksDB
    Rocksdb,
    /// Both, by turns
    Both,
}

impl Engines {
    /// Each of them.
    pub(super) fn names(self) -> &'static [EngineName] {
        match self {
            Self::Tailwater => &[EngineName::Tailwater],
            Self::Rocksdb => &[EngineName::Rocksdb],
            Self::Both => &[EngineName::Tailwater, EngineName::Rocksdb],
        }
    }
}

/// How much memory a run has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// As much as there is.
    None,
    /// So many bytes.
    Bytes(u64),
}

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self::None),
            _ => match text.parse()? {
                Bytes(bytes) if bytes < 16 << 20 => Err("an engine needs 16M at least".into()),
                Bytes(bytes) => Ok(Self::Bytes(bytes)),
            },
        }
    }
}
