//! The effect of direct I/O on the tail latency of reads: `tailwater tail`.
//!
//! Readers read a hot set that fits into memory while a writer overwrites the whole key space of a
//! database that does not fit, so that compactions run all the time. I/O of compactions through the
//! page cache evicts the hot set. The compared configurations differ in which I/O bypasses the page
//! cache; the latencies of reads show the effect.
//!
//! The experiment has these steps, after its parameters are determined (`plan`): a source database
//! is built once (`source`); then, for each run and each configuration in turn, the source database
//! is copied (`copy`), the page cache is emptied, and a separate process (`launch`, `child`) opens
//! the copy inside the memory limit, reads and writes (`workload`) and reports its measurements;
//! `results` are stored run by run, so that an interrupted experiment can be resumed; `report` and
//! `table` present the results.
//!
//! An experiment that is killed may leave directories with temporary names, which the next
//! experiment in the same directory removes. A source database gets its final name only when it is
//! complete.

mod aggregate;
mod arguments;
mod before_after_table;
mod calibration;
mod catch_up;
mod child;
mod configuration;
mod copy;
mod engine;
mod environment;
mod equal_work;
mod experiment;
mod figures;
mod incident;
mod kernel_table;
mod latency;
mod launch;
mod mean_table;
mod plan;
mod report;
mod results;
mod schedule;
mod source;
mod summary;
mod table;
mod tailwater;
#[cfg(test)]
mod tests;
mod tree_options;
mod units;
mod workload;

pub use arguments::{Engines, Limit, Preset, TailArguments};
pub use catch_up::CatchUpArguments;
pub(crate) use catch_up::run as catch_up;
pub use configuration::Configuration;
pub use engine::{Activity, EngineName, Moved, TailDatabase, TailEngine};
pub use incident::Incident;
pub use launch::CHILD_COMMAND;
pub use tailwater::TailwaterEngine;
pub use units::{Bytes, HotSet, WriteRate};

use experiment::Experiment;
use launch::Processes;
use plan::{Plan, Row};

use crate::failure::Failure;

/// Checks whether the arguments can be satisfied.
///
/// # Errors
/// A message with the name of the argument that cannot be satisfied.
pub fn check(arguments: &TailArguments, engines: &[&dyn TailEngine]) -> Result<(), Failure> {
    plans(arguments, engines).map(|_| ())
}

/// Runs the experiment and returns the text to print. Progress goes to standard error.
///
/// # Errors
/// The errors of [`check`], of the engines and of the filesystem.
pub fn run(arguments: &TailArguments, engines: &[&dyn TailEngine]) -> Result<String, Failure> {
    let mut text = String::new();
    for plan in plans(arguments, engines)? {
        let processes = Processes::new(plan.parameters.limit_bytes)?;
        plan.parameters.incident.map_or(Ok(()), |incident| processes.check(incident))?;
        text.push_str(&Experiment::new(plan, &processes).run()?);
    }
    Ok(text)
}

/// Runs the measured process of one run: the command [`CHILD_COMMAND`].
///
/// # Errors
/// Errors from the engine.
pub fn run_child(assignment: &str, engines: &[&dyn TailEngine]) -> Result<(), Failure> {
    child::run(assignment, engines)
}

fn plans(arguments: &TailArguments, engines: &[&dyn TailEngine]) -> Result<Vec<Plan>, Failure> {
    let plans = Plan::all(arguments)?;
    let is_missing = |row: &&Row| !engines.iter().any(|engine| engine.name() == row.engine);
    match plans.iter().flat_map(|plan| &plan.rows).find(is_missing) {
        None => Ok(plans),
        Some(row) => Err(format!(
            "--engine: {} is only in tailwater-peers, of crates/bench-peers",
            row.engine.name()
        )
        .into()),
    }
}
