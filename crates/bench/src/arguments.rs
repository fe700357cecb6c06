//! The command line.

use std::io::{ErrorKind, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::backup::BackupArguments;
use crate::basket::BasketArguments;
use crate::durable::{self, DurableArguments, NEIGHBOUR_COMMAND};
use crate::engine::Engine;
use crate::files::Temporary;
use crate::hot_key::HotKeyArguments;
use crate::range_deletions::RangeDeletionArguments;
use crate::snapshot_scans::{ScanEngine, SnapshotScanArguments};
use crate::store::Failure;
use crate::sustained::SustainedArguments;
use crate::tail::{self, CHILD_COMMAND, TailArguments, TailEngine};

/// Options that all RocksDB-like engines are opened with.
const OPTIONS: &str = "\
    create_if_missing=true;max_background_jobs=2;max_open_files=-1;\
    write_buffer_size=67108864;compression=kLZ4Compression;\
    block_based_table_factory={block_cache=1073741824;filter_policy=bloomfilter:10:false}";

/// Measures engines side by side; see each command.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs db_bench's workloads and prints operations per second: every run, and the medians.
    Basket(BasketArguments),
    /// Lets one thread, then several, get one key again and again: what they share shows.
    HotKey(HotKeyArguments),
    /// Overwrites at full speed for minutes: space, bytes written, waiting and memory.
    Sustained(SustainedArguments),
    /// Deletes ranges that overlap: how quickly, how they slow reads down, what a flush writes.
    RangeDeletions(RangeDeletionArguments),
    /// Scans one snapshot, with iterators that refresh themselves and with others.
    SnapshotScans(SnapshotScanArguments),
    /// Makes a logical backup beside overwrites, and shows what its iterator keeps.
    Backup(BackupArguments),
    /// Measures puts that are on the device when they return, beside what the device does.
    Durable(DurableArguments),
    /// Shows what direct I/O does to the tail of reads while compactions go on.
    Tail(TailArguments),
    /// The process of one run of it.
    #[command(name = CHILD_COMMAND, hide = true)]
    TailChild { assignment: String },
    /// A process that keeps a processor busy.
    #[command(name = NEIGHBOUR_COMMAND, hide = true)]
    DurableNeighbour,
}

impl Arguments {
    /// Runs the command on engines from `known`, `scan_engines` or `tail_engines`, and prints the
    /// result.
    pub fn run(
        &self,
        known: &[&dyn Engine],
        scan_engines: &[&dyn ScanEngine],
        tail_engines: &[&dyn TailEngine],
    ) -> ExitCode {
        let outcome = match &self.command {
            Command::Basket(arguments) => arguments.run(known),
            Command::HotKey(arguments) => arguments.run(known),
            Command::Sustained(arguments) => arguments.run(known),
            Command::RangeDeletions(arguments) => arguments.run(known),
            Command::SnapshotScans(arguments) => arguments.run(scan_engines),
            Command::Backup(arguments) => arguments.run(scan_engines),
            Command::Durable(arguments) => arguments.run(known),
            Command::DurableNeighbour => durable::compute(),
            Command::Tail(arguments) => tail::run(arguments, tail_engines),
            Command::TailChild { assignment } => {
                tail::run_child(assignment, tail_engines).map(|()| String::new())
            }
        };
        match outcome {
            Ok(report) => {
                match std::io::stdout().write_all(report.as_bytes()) {
                    Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                        say!("error: the report cannot be written: {error}");
                        ExitCode::FAILURE
                    }
                    // If the reader closed the pipe, it has read enough.
                    _ => ExitCode::SUCCESS,
                }
            }
            Err(failure) => {
                say!("error: {failure}");
                ExitCode::FAILURE
            }
        }
    }
}

/// What every command needs to know.
#[derive(Debug, Clone, Args)]
pub struct Subjects {
    /// The options of the databases, as an option string.
    #[arg(long, default_value = OPTIONS)]
    options: String,
    /// Options over those.
    #[arg(long, default_value = "")]
    more_options: String,
    /// The engines, with commas between; all that the command is for by default. The first is
    /// compared with the others.
    #[arg(long, value_delimiter = ',')]
    engines: Vec<String>,
    /// Where databases are made, and removed; the system's directory for such by default.
    #[arg(long)]
    directory: Option<PathBuf>,
}

impl Subjects {
    /// Returns the requested engines from `known`, in the requested order.
    ///
    /// # Errors
    /// A name that matches none of them.
    pub(crate) fn engines<'a>(
        &self,
        known: &[&'a dyn Engine],
    ) -> Result<Vec<&'a dyn Engine>, Failure> {
        if self.engines.is_empty() {
            return Ok(known.to_vec());
        }
        let names = known.iter().map(|engine| engine.name()).collect::<Vec<_>>().join(", ");
        let find = |name: &String| known.iter().copied().find(|engine| engine.name() == *name);
        let unknown = |name| format!("--engines: no engine '{name}'; there are: {names}").into();
        self.engines.iter().map(|name| find(name).ok_or_else(|| unknown(name))).collect()
    }

    /// Returns the same, or those with these names if none were requested.
    ///
    /// # Errors
    /// As [`Self::engines`].
    pub(crate) fn engines_or<'a>(
        &self,
        known: &[&'a dyn Engine],
        names: &[&str],
    ) -> Result<Vec<&'a dyn Engine>, Failure> {
        let mut engines = self.engines(known)?;
        engines.retain(|engine| !self.engines.is_empty() || names.contains(&engine.name()));
        Ok(engines)
    }

    /// Returns whether an engine is requested.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.engines.is_empty() || self.engines.iter().any(|engine| engine == name)
    }

    /// Returns the database options of a command that has `own` instead of the default ones.
    pub(crate) fn options_over(&self, own: &str) -> String {
        format!("{own};{}", self.more_options)
    }

    /// Returns the database options.
    pub(crate) fn options(&self) -> String {
        format!("{};{}", self.options, self.more_options)
    }

    /// Returns a new directory for a database, removed when this is dropped or at an interruption.
    ///
    /// # Errors
    /// Those of making it.
    pub(crate) fn new_directory(&self) -> Result<Temporary, Failure> {
        let mut builder = tempfile::Builder::new();
        builder.prefix("tailwater-bench-");
        let directory = match &self.directory {
            Some(parent) => {
                builder.tempdir_in(parent).map_err(|error| format!("--directory: {error}"))?
            }
            None => builder.tempdir()?,
        };
        Temporary::new(directory)
    }

    /// Returns the parent directory of the databases, if one was given.
    pub(crate) fn parent_directory(&self) -> Option<&PathBuf> {
        self.directory.as_ref()
    }
}

/// Returns a number above 0, for the command line.
pub(crate) fn above_zero(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(number) if number > 0.0 && f64::is_finite(number) => Ok(number),
        _ => Err("it is no number above 0".into()),
    }
}

/// Returns a whole number above 0, for the command line.
pub(crate) fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err("it is no number of 1 or more".into()),
    }
}
