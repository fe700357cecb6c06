//! The `tailwater` program.
//!
//! `tailwater db VERB DIR` looks into a database without changing it: what it holds (`get`, `scan`,
//! `dump`), what it is (`properties`, `options`), how it is written (`manifest`, `wal`, `table`,
//! `blob`) and whether it is whole (`verify`). Everything it knows it has from the library; here is
//! what people type and see.
//!
//! Standard output has the answer and nothing else, standard error what went wrong and how far a
//! long answer is. Who reads the answer may stop reading it: the program then ends quietly.

mod arguments;
mod database;
mod outcome;
mod output;
mod progress;
mod settings;
mod text;
mod verbs;

use std::process::ExitCode;

use clap::Parser;

use arguments::{Arguments, Command, Verb};
use outcome::{Failure, Outcome, Result};
use output::Output;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let Command::Db { verb } = arguments.command;
    let mut output = Output::new(verb.common());
    let answer = run(&verb, &mut output).and_then(|outcome| {
        output.finish()?;
        Ok(outcome)
    });
    match answer {
        Ok(outcome) => outcome.into(),
        Err(Failure::Closed) => ExitCode::SUCCESS,
        Err(failure) => {
            // What was found before stands in the buffer still.
            let _ = output.finish();
            output::complain(&failure);
            failure.exit_code()
        }
    }
}

fn run(verb: &Verb, output: &mut Output) -> Result<Outcome> {
    match verb {
        Verb::Get(arguments) => verbs::get::run(arguments, output),
        Verb::Scan(arguments) => verbs::scan::run(arguments, output),
        Verb::Dump(arguments) => verbs::dump::run(arguments, output),
        Verb::Verify(arguments) => verbs::verify::run(arguments, output),
        Verb::Properties(arguments) => verbs::properties::run(arguments, output),
        Verb::Manifest(arguments) => verbs::manifest::run(arguments, output),
        Verb::Wal(arguments) => verbs::wal::run(arguments, output),
        Verb::Table(arguments) => verbs::table::run(arguments, output),
        Verb::Blob(arguments) => verbs::blob::run(arguments, output),
        Verb::Options(arguments) => verbs::options::run(arguments, output),
    }
}
