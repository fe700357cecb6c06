//! The command line's arguments, and their help.

mod log;
mod reading;
mod serve;
mod writing;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use tailwater_latency::tail::{CHILD_COMMAND, TailArguments};

pub(crate) use log::*;
pub(crate) use reading::*;
pub(crate) use serve::*;
pub(crate) use writing::*;

/// Exit codes, at the end of every verb's help.
const EXIT_CODES: &str = "\
Exit codes:
  0  all is well
  1  damage, a missing file, or a failed operation; get: there is no such key
  2  usage error
  3  intact except for a torn tail: the last record was truncated by a crash
  4  no damage found, but something was not verified because this version does not support it
     (verify only)
  5  something that looks damaged or torn may be a write in progress by another process
     (verify, table, wal, blob)";

/// The end of the help of `tail`.
const TAIL_EXAMPLES: &str = "\
Examples:
  tailwater tail --quick
      a small version of the experiment, in about three minutes
  tailwater tail --runs 5 --no-compaction --out results
      the published experiment, five runs each, with a baseline without writes and compactions
  tailwater tail --hot 3% --write-rate calibrate --directory /mnt/disk
      a small hot set, at a write rate that all configurations sustain on that disk";

/// Storage that keeps the tail latency of reads flat
#[derive(Debug, Parser)]
#[command(name = "tailwater", version, max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Inspect or change a database in RocksDB's format
    ///
    /// The verbs in the list below from the verb get to the verb options only read: they write
    /// nothing and take no lock. So the database may be open elsewhere, and is shown in its current
    /// state. The other verbs hold the database's lock while they work. All verbs use the options
    /// in the database's OPTIONS file, which --options overrides.
    #[command(after_help = EXIT_CODES)]
    Db {
        #[command(subcommand)]
        verb: Verb,
    },
    /// Inspect, compact, fill or benchmark a message log
    ///
    /// stat, verify and dump only read: they write nothing and take no lock, so the log may be open
    /// elsewhere. They do not show messages that another process has accepted but not yet written
    /// to the log. If it removes or replaces files meanwhile, they read those that there are then.
    #[command(after_help = LOG_EXIT_CODES)]
    Log {
        #[command(subcommand)]
        verb: LogVerb,
    },
    /// Serve a message log to unmodified clients of Apache Iggy
    #[command(after_help = SERVE_NOTES)]
    Serve(ServeArguments),
    /// Measure on your disk how direct I/O affects the tail latency of reads
    ///
    /// Reads a hot set while a writer overwrites a database that is larger than memory, so that
    /// compactions run all the time: first with all I/O through the page cache, then with more and
    /// more of it direct. Each run is a separate process within a memory limit. Prints a table and
    /// writes a report in JSON; docs/tail.md describes both.
    #[command(after_help = TAIL_EXAMPLES)]
    Tail(Box<TailArguments>),
    /// A process that performs one run of the command tail
    #[command(name = CHILD_COMMAND, hide = true)]
    TailChild {
        /// The parameters of the run, as encoded by the parent process
        assignment: String,
    },
}

/// The verbs of `tailwater db`.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// The verbs that read the database and change nothing.
    #[command(flatten)]
    Reading(Reading),
    /// The verbs that change the database.
    #[command(flatten)]
    Writing(Writing),
}

/// The arguments that all verbs have in common. The help lists them after a verb's own arguments.
#[derive(Debug, Args)]
pub(crate) struct Common {
    /// Print JSON: a single document or, if the verb prints many items, one document per line
    #[arg(long, display_order = 901)]
    pub(crate) json: bool,
    /// Print keys and values in hex, and read them in hex from arguments
    #[arg(long, display_order = 902)]
    pub(crate) hex: bool,
    /// Options that override the OPTIONS file, as an option string: 'name=value;name=value'. Verbs
    /// that change the database also record them, for the column family that the verb names or, if
    /// it names none, for all
    #[arg(long, display_order = 903, value_name = "TEXT")]
    pub(crate) options: Option<String>,
    /// Take over directories of wal_dir, db_paths and cf_paths that another database has claimed.
    /// Use this only if that database no longer exists, or if this database was moved or restored
    #[arg(long, display_order = 904)]
    pub(crate) adopt_directories: bool,
}

/// The arguments of a verb that takes the directory of a database.
#[derive(Debug, Args)]
pub(crate) struct Place {
    /// The database's directory
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// The encoding of keys.
#[derive(Debug, Args)]
pub(crate) struct Keys {
    /// Expect keys in hex, whatever the output format. Without this or --hex, keys are text in
    /// which \xNN is a byte, \\ a backslash, and \n \r \t \0 have their usual meanings
    #[arg(long)]
    pub(crate) key_hex: bool,
}

/// Returns the end of a verb's help: example commands with descriptions, and the exit codes.
fn examples(examples: &[(&str, &str)]) -> String {
    let mut text = String::from("Examples:\n");
    for (command, what) in examples {
        text.push_str(&format!("  {command}\n      {what}\n"));
    }
    format!("{text}\n{EXIT_CODES}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_of_the_command_line_holds_together() {
        Arguments::command().debug_assert();
    }
}
