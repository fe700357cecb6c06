//! The `tailwater` program.
//!
//! `tailwater db VERB DIR` reads a database without changing it: its entries (`get`, `scan`,
//! `dump`), its state (`properties`, `stats`, `column-families`, `options`), its files (`manifest`,
//! `wal`, `table`, `blob`) and its integrity (`verify`). Other verbs change it: keys (`put`,
//! `delete`, `single-delete`, `delete-range`, `merge`, `load`), column families and the database as
//! a whole (`flush`, `compact`, `checkpoint`, `destroy`). `tailwater tail` measures how direct I/O
//! affects the tail latency of reads. `tailwater log` inspects and benchmarks a message log;
//! `tailwater serve` serves one to clients of Apache Iggy. The libraries do the work; this crate
//! parses arguments and prints results.
//!
//! Results go to standard output; errors, warnings and progress go to standard error. If the reader
//! of standard output closes it early, the program ends silently.

mod arguments;
mod database;
mod live;
mod outcome;
mod output;
mod progress;
mod settings;
mod text;
mod verbs;
mod writing;

use std::process::ExitCode;

use clap::Parser;
use tailwater_io::descriptors::raise_open_files_max;

use arguments::{Arguments, Command, Reading, Verb, Writing};
use outcome::{Failure, Outcome, Result};
use output::Output;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // Each table, segment and connection needs a descriptor.
    raise_open_files_max();
    match arguments.command {
        Command::Db { verb } => {
            let common = verb.common();
            answer(Output::new(common.json, common.hex), |output| run(&verb, output))
        }
        Command::Log { verb } => verbs::log::start(&verb),
        Command::Serve(arguments) => verbs::serve::run(&arguments),
        Command::Tail(arguments) => verbs::tail::run(&arguments),
        Command::TailChild { assignment } => verbs::tail::run_child(&assignment),
    }
}

/// Runs `work`, prints its output or its error, and returns the exit code.
fn answer(mut output: Output, work: impl FnOnce(&mut Output) -> Result<Outcome>) -> ExitCode {
    let answer = work(&mut output).and_then(|outcome| {
        output.finish()?;
        Ok(outcome)
    });
    match answer {
        Ok(outcome) => outcome.into(),
        Err(Failure::Closed) => ExitCode::SUCCESS,
        Err(failure) => {
            // The buffer still holds results that were produced before the error; they are printed,
            // too.
            let _ = output.finish();
            output::complain(&failure);
            failure.exit_code()
        }
    }
}

fn run(verb: &Verb, output: &mut Output) -> Result<Outcome> {
    match verb {
        Verb::Reading(verb) => look(verb, output),
        Verb::Writing(verb) => change(verb, output),
    }
}

fn look(verb: &Reading, output: &mut Output) -> Result<Outcome> {
    match verb {
        Reading::Get(arguments) => verbs::get::run(arguments, output),
        Reading::Scan(arguments) => verbs::scan::run(arguments, output),
        Reading::Dump(arguments) => verbs::dump::run(arguments, output),
        Reading::Verify(arguments) => verbs::verify::run(arguments, output),
        Reading::Properties(arguments) => verbs::properties::run(arguments, output),
        Reading::Stats(arguments) => verbs::stats::run(arguments, output),
        Reading::Manifest(arguments) => verbs::manifest::run(arguments, output),
        Reading::Wal(arguments) => verbs::wal::run(arguments, output),
        Reading::Table(arguments) => verbs::table::run(arguments, output),
        Reading::Blob(arguments) => verbs::blob::run(arguments, output),
        Reading::ColumnFamilies(arguments) => verbs::column_families::run(arguments, output),
        Reading::Options(arguments) => verbs::options::run(arguments, output),
    }
}

fn change(verb: &Writing, output: &mut Output) -> Result<Outcome> {
    match verb {
        Writing::Put(arguments) => verbs::put::run(arguments, output),
        Writing::Delete(arguments) => verbs::delete::run(arguments, output),
        Writing::SingleDelete(arguments) => verbs::single_delete::run(arguments, output),
        Writing::DeleteRange(arguments) => verbs::delete_range::run(arguments, output),
        Writing::Merge(arguments) => verbs::merge::run(arguments, output),
        Writing::Load(arguments) => verbs::load::run(arguments, output),
        Writing::Ingest(arguments) => verbs::ingest::run(arguments, output),
        Writing::Flush(arguments) => verbs::flush::run(arguments, output),
        Writing::Compact(arguments) => verbs::compact::run(arguments, output),
        Writing::SetOptions(arguments) => verbs::set_options::run(arguments, output),
        Writing::CreateColumnFamily(arguments) => {
            verbs::create_column_family::run(arguments, output)
        }
        Writing::DropColumnFamily(arguments) => verbs::drop_column_family::run(arguments, output),
        Writing::Checkpoint(arguments) => verbs::checkpoint::run(arguments, output),
        Writing::Destroy(arguments) => verbs::destroy::run(arguments, output),
    }
}
