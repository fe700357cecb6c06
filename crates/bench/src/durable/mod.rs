//! Puts that are durable when they return.
//!
//! | part | operations |
//! |---|---|
//! | `synced` | several writers put random keys, each put synced; also raw writes |
//! | `fillseq` | one writer puts keys in order, each put synced |
//! | `unsynced` | the puts of `synced` without a sync, by one writer and by four |
//!
//! A raw write durably overwrites 4 KiB of a file of zeros with direct I/O. The rate of raw writes
//! is the maximum rate at which this device can sync a log. There are as many threads as writers,
//! and each thread writes to its own region of the file.
//!
//! Each run measures every row once, in turn: engines, configurations of Tailwater and raw writes.
//! Ratios are computed from rates of the same run, because a device's speed changes from minute to
//! minute. Each measurement has a new database in a new directory, which is removed before the next
//! one begins.

mod arguments;
mod document;
mod experiment;
mod neighbour;
mod raw;
mod report;
mod rows;
mod task;

pub(crate) use arguments::DurableArguments;
pub(crate) use neighbour::{NEIGHBOUR_COMMAND, compute};

use tailwater_latency::experiment::Finished;
use tailwater_latency::files::write_text;
use tailwater_latency::report::ReportFiles;

use self::document::document;
use self::experiment::Experiment;
use crate::store::{Engine, Failure};

/// Runs the command.
pub(crate) fn run(arguments: &DurableArguments, known: &[Engine]) -> Result<Finished, Failure> {
    if let Some(finished) = arguments.earlier.finish(document)? {
        return Ok(finished);
    }
    let (out, failed) = (&arguments.out, |error| format!("--out: {error}"));
    let files = ReportFiles::in_directory(out)?;
    let report = Experiment::new(arguments, known)?.run()?;
    let text = report.to_string();
    write_text(&out.join("table.txt"), &text).map_err(failed)?;
    Finished::recorded(text + "\n", &report, &files, document)
}
