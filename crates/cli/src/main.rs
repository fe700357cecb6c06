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
//! of standard output closes it early, a verb that prints ends silently; one that changes or
//! verifies something goes on, and its exit code is that of the whole work.

mod arguments;
mod database;
mod files;
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

use arguments::{Arguments, Command, Common, Reading, Verb, Writing};
use outcome::{Failure, Outcome, Result};
use output::Output;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // Each table, segment and connection needs a descriptor.
    raise_open_files_max();
    match arguments.command {
        Command::Db { verb: Verb::Reading(verb) } => read(&verb),
        Command::Db { verb: Verb::Writing(verb) } => change(&verb),
        Command::Log { verb } => verbs::log::start(&verb),
        Command::Serve(arguments) => verbs::serve::run(&arguments),
        Command::Tail(arguments) => verbs::tail::run(&arguments),
        Command::TailChild { assignment } => verbs::tail::run_child(&assignment),
    }
}

/// Runs `work`, prints its output or its error, and returns the exit code.
fn answer(mut output: Output, work: impl FnOnce(&mut Output) -> Result<Outcome>) -> ExitCode {
    let answer = work(&mut output).and_then(|outcome| match output.finish() {
        Ok(()) | Err(Failure::Closed) => Ok(outcome),
        Err(failure) => Err(failure),
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

/// Runs a verb of `tailwater db` that prints.
fn run<A>(
    verb: fn(&A, &mut Output) -> Result<Outcome>,
    arguments: &A,
    common: &Common,
) -> ExitCode {
    answer(Output::new(common.json, common.hex), |output| verb(arguments, output))
}

/// Runs a verb of `tailwater db` to its end, even if nobody reads its output any more.
fn to_the_end<A>(
    verb: fn(&A, &mut Output) -> Result<Outcome>,
    arguments: &A,
    common: &Common,
) -> ExitCode {
    let output = Output::new(common.json, common.hex).outlasting_reader();
    answer(output, |output| verb(arguments, output))
}

fn read(verb: &Reading) -> ExitCode {
    use verbs::*;
    match verb {
        Reading::Get(it) => run(get::run, it, &it.place.common),
        Reading::Scan(it) => run(scan::run, it, &it.place.common),
        Reading::Dump(it) => run(dump::run, it, &it.place.common),
        Reading::Verify(it) => to_the_end(verify::run, it, &it.common),
        Reading::Properties(it) => run(properties::run, it, &it.place.common),
        Reading::Stats(it) => run(stats::run, it, &it.place.common),
        Reading::Manifest(it) => run(manifest::run, it, &it.place.common),
        Reading::Wal(it) => run(wal::run, it, &it.common),
        Reading::Table(it) => run(table::run, it, &it.common),
        Reading::Blob(it) => run(blob::run, it, &it.common),
        Reading::ColumnFamilies(it) => run(column_families::list, it, &it.common),
        Reading::Options(it) => run(options::run, it, &it.place.common),
    }
}

fn change(verb: &Writing) -> ExitCode {
    use verbs::*;
    match verb {
        Writing::Put(it) => to_the_end(change::put, it, &it.place.common),
        Writing::Delete(it) => to_the_end(change::delete, it, &it.place.common),
        Writing::SingleDelete(it) => to_the_end(change::single_delete, it, &it.place.common),
        Writing::DeleteRange(it) => to_the_end(change::delete_range, it, &it.place.common),
        Writing::Merge(it) => to_the_end(change::merge, it, &it.place.common),
        Writing::Load(it) => to_the_end(load::run, it, &it.place.common),
        Writing::Ingest(it) => to_the_end(ingest::run, it, &it.place.common),
        Writing::Flush(it) => to_the_end(flush::run, it, &it.place.common),
        Writing::Compact(it) => to_the_end(compact::run, it, &it.place.common),
        Writing::SetOptions(it) => to_the_end(set_options::run, it, &it.place.common),
        Writing::CreateColumnFamily(it) => {
            to_the_end(column_families::create, it, &it.place.common)
        }
        Writing::DropColumnFamily(it) => to_the_end(column_families::remove, it, &it.place.common),
        Writing::Checkpoint(it) => to_the_end(checkpoint::run, it, &it.place.common),
        Writing::Destroy(it) => to_the_end(destroy::run, it, &it.place.common),
    }
}
