//! The command line and its help.

mod log;
mod reading;
mod serve;
mod writing;

use clap::{Args, Parser, Subcommand};
use tailwater_bench::tail::{CHILD_COMMAND, TailArguments};

pub(crate) use log::*;
pub(crate) use reading::*;
pub(crate) use serve::*;
pub(crate) use writing::*;

/// The end of every verb's help.
const EXIT_CODES: &str = "\
Exit codes:
  0  all is well
  1  something is damaged, not there or cannot be done
  2  the command line is wrong
  3  all is well but for a last record that a crash cut short (a torn tail)
  4  nothing is known to be damaged, but something that this version does not support was not
     verified (verify only)
  5  what looks damaged or torn is being written by another process, or may be (verify, table,
     wal, blob)";

/// The end of the experiment's help.
const TAIL_EXAMPLES: &str = "\
Examples:
  tailwater tail --quick
      the whole experiment, small, in two minutes
  tailwater tail --runs 5 --no-compaction --out results
      the published experiment, five runs each, beside what reads cost when nothing else happens
  tailwater tail --hot 3% --write-rate calibrate --directory /mnt/disk
      a small hot set, as many writes as that disk keeps up with";

/// Storage whose reads keep a flat tail.
#[derive(Debug, Parser)]
#[command(name = "tailwater", version, max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to work on.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Look into a database in RocksDB's format, and change it
    ///
    /// The verbs from get to options only look: they write nothing and take no lock, so that the
    /// database may be open elsewhere, and is shown as it is at this moment. The others hold the
    /// database's lock while they work. Each takes the options of the database's OPTIONS file;
    /// --options sets others over them.
    #[command(after_help = EXIT_CODES)]
    Db {
        #[command(subcommand)]
        verb: Verb,
    },
    /// Look into a message log, make it dense, and measure one
    ///
    /// stat, verify and dump only look: they write nothing and take no lock, so that the log may be
    /// open elsewhere. What its owner has only in memory is not shown.
    #[command(after_help = LOG_EXIT_CODES)]
    Log {
        #[command(subcommand)]
        verb: LogVerb,
    },
    /// Serve a message log to unmodified clients of Apache Iggy
    #[command(after_help = SERVE_NOTES)]
    Serve(ServeArguments),
    /// Show on your disk what direct I/O does to the tail of reads
    ///
    /// Reads a hot set while a writer writes over all of a database that is larger than memory, so
    /// that compactions go on all the time: once with everything through the page cache, and then
    /// with more and more going past it. Each run is a process of its own inside a memory limit.
    /// The answer is a table, and a report in JSON; docs/tail.md says how to read them.
    #[command(after_help = TAIL_EXAMPLES)]
    Tail(TailArguments),
    /// The process of one run of tail
    #[command(name = CHILD_COMMAND, hide = true)]
    TailChild {
        /// What it has to do
        assignment: String,
    },
}

/// What to do with a database.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Looks, and changes nothing.
    #[command(flatten)]
    Reading(Reading),
    /// Changes it.
    #[command(flatten)]
    Writing(Writing),
}

/// What every verb takes.
#[derive(Debug, Args)]
pub(crate) struct Common {
    /// Print JSON: one document, or one on each line where there are many
    #[arg(long)]
    pub(crate) json: bool,
    /// Print keys and values in hex, and take those that are given in hex
    #[arg(long)]
    pub(crate) hex: bool,
    /// Options over those of the OPTIONS file, in RocksDB's form: 'name=value;name=value'
    #[arg(long, value_name = "TEXT")]
    pub(crate) options: Option<String>,
    /// Take over directories of wal_dir, db_paths and cf_paths that another database has claimed:
    /// only if that database is gone, or is this one before it was moved or restored
    #[arg(long)]
    pub(crate) adopt_directories: bool,
}

/// What the command line overrides of the database's files.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Given<'a> {
    /// An option string.
    pub(crate) options: Option<&'a str>,
    /// Whether to take over directories that another database has claimed.
    pub(crate) adopt_directories: bool,
}

impl Common {
    /// Returns what the command line overrides of the database's files.
    pub(crate) fn given(&self) -> Given<'_> {
        Given { options: self.options.as_deref(), adopt_directories: self.adopt_directories }
    }
}

/// How keys are given.
#[derive(Debug, Args)]
pub(crate) struct Keys {
    /// Take keys in hex, whatever is printed. Without it and --hex they are text, in which \xNN
    /// stands for a byte, \\ for a backslash, and \n \r \t \0 for what they mean elsewhere
    #[arg(long)]
    pub(crate) key_hex: bool,
}

impl Verb {
    /// Returns the arguments that all verbs share.
    pub(crate) fn common(&self) -> &Common {
        match self {
            Self::Reading(verb) => verb.common(),
            Self::Writing(verb) => verb.common(),
        }
    }
}

/// Returns the end of a verb's help: commands with what they print, and the exit codes.
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
