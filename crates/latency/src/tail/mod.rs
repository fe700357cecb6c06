//! `tailwater tail` measures the effect of direct I/O on the tail latency of reads.
//!
//! Readers read a hot set that fits into memory. Concurrently, a writer overwrites keys of the
//! whole database, which does not fit into memory, so that compactions run all the time. If
//! compactions use the page cache, their I/O evicts the hot set, and reads become slower. The
//! compared configurations differ in which I/O bypasses the page cache.
//!
//! The steps of an experiment, and the modules that implement them:
//! 1. The parameters are determined from the arguments (`plan`).
//! 2. A source database is built once (`source`).
//! 3. For each run and each configuration, the source database is copied (`copy`). The pages of
//!    both databases are evicted from the page cache. A separate process inside the memory limit
//!    (`launch`, `child`) opens the copy, reads and writes (`workload`), and reports its figures.
//! 4. The figures of each run are stored when it ends (`results`), so that an interrupted
//!    experiment can be resumed.
//! 5. The results are presented (`report`, `table`, `tables`, `document`).
//!
//! An experiment that is killed may leave directories with temporary names. The next experiment in
//! the same directory removes them. A source database gets its final name only when it is complete.

mod arguments;
mod batches;
mod caches;
mod calibration;
mod catch_up;
mod child;
mod compression;
mod configuration;
mod copy;
mod document;
mod engine;
mod environment;
mod equal_work;
mod events;
mod experiment;
mod figures;
mod incident;
mod launch;
mod plan;
mod report;
mod results;
mod schedule;
mod slow_reads;
mod source;
mod summary;
mod table;
mod tables;
mod tailwater;
#[cfg(test)]
mod tests;
mod tree_options;
mod units;
mod workload;

pub use arguments::{Engines, Limit, Preset, TailArguments};
pub use batches::BatchForm;
pub use catch_up::CatchUpArguments;
pub(crate) use catch_up::run as catch_up;
pub use configuration::Configuration;
pub use engine::{Activity, EngineName, Moved, TailDatabase, TailEngine};
pub use incident::Incident;
pub use launch::CHILD_COMMAND;
pub use slow_reads::SlowReads;
pub use tailwater::{TAILWATER, Tailwater};
pub use units::{Bytes, HotSet, WriteRate};

use experiment::Experiment;
use launch::Processes;
use plan::{Plan, Row};

use crate::experiment::Finished;
use crate::failure::Failure;

/// Checks that an experiment with these arguments is possible with these engines.
///
/// # Errors
/// If the experiment is not possible. The message names the argument that prevents it.
pub fn check(arguments: &TailArguments, engines: &[TailEngine]) -> Result<(), Failure> {
    plans(arguments, engines).map(|_| ())
}

/// Runs the experiment, once for each hot set that its preset has, or makes the report of earlier
/// runs. Progress is printed on standard error.
///
/// # Errors
/// The errors of [`check`], and errors of the engines and of the filesystem.
pub fn run(arguments: &TailArguments, engines: &[TailEngine]) -> Result<Vec<Finished>, Failure> {
    if let Some(finished) = arguments.earlier.finish(document::document)? {
        return Ok(vec![finished]);
    }
    let run = |plan: Plan| {
        let processes = Processes::new(plan.parameters.limit_bytes)?;
        plan.parameters.incident.map_or(Ok(()), |incident| processes.check(incident))?;
        Experiment::new(plan, &processes).run()
    };
    plans(arguments, engines)?.into_iter().map(run).collect()
}

/// Runs the measured process of one run. The program calls this for the command [`CHILD_COMMAND`].
///
/// # Errors
/// Errors of the engine.
pub fn run_child(assignment: &str, engines: &[TailEngine]) -> Result<(), Failure> {
    child::run(assignment, engines)
}

fn plans(arguments: &TailArguments, engines: &[TailEngine]) -> Result<Vec<Plan>, Failure> {
    let plans = Plan::all(arguments)?;
    let is_missing = |row: &&Row| !engines.iter().any(|engine| engine.name == row.engine.name());
    match plans.iter().flat_map(|plan| &plan.rows).find(is_missing) {
        None => Ok(plans),
        Some(row) => Err(format!(
            "--engine: {} is only in tailwater-peers, of crates/bench-peers",
            row.engine.name()
        )
        .into()),
    }
}
