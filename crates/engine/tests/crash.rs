//! Tests that a database keeps its durability guarantees wherever a crash interrupts it, and
//! whichever storage call fails.
//!
//! Random operations (writes to several column families, snapshots, flushes, ingestions and
//! checkpoints) run on databases with random options on a simulated disk. The tests then take disk
//! images that a crash may leave, open each image and compare its contents with a model:
//!
//! - `power`: cuts the power, or kills the process, before and after every sync and at storage
//!   calls of every kind. Some databases are crashed again while they recover, or while they are
//!   used after the recovery.
//! - `faults`: injects a fault into each storage call of a run: the call, or the call and all later
//!   ones, fail or transfer fewer bytes than requested.
//! - `threads`: as in `power`, with several threads that write and a background thread that
//!   flushes.
//!
//! `history` defines which operations may survive a crash and which must. Each test prints the
//! number of its cases, and the call sites at which it crashed the database or injected faults. A
//! failure prints the seed. `TAILWATER_SEED` repeats the run with that seed, and `TAILWATER_ROUNDS`
//! multiplies the number of runs, with different random choices.

#[path = "common/change.rs"]
mod change;
#[path = "crash/check.rs"]
mod check;
#[path = "crash/checkpoints.rs"]
mod checkpoints;
#[path = "crash/faults.rs"]
mod faults;
#[path = "crash/history.rs"]
mod history;
#[path = "common/ingestion.rs"]
mod ingestion;
#[path = "common/io_modes.rs"]
#[expect(dead_code, reason = "other tests name modes, and have real disks")]
mod io_modes;
#[path = "crash/model.rs"]
mod model;
#[path = "crash/power.rs"]
mod power;
#[path = "crash/rare.rs"]
mod rare;
#[path = "crash/regressions.rs"]
mod regressions;
#[path = "crash/resuming.rs"]
mod resuming;
#[path = "crash/run.rs"]
mod run;
#[path = "crash/setup.rs"]
mod setup;
#[path = "crash/tally.rs"]
mod tally;
#[path = "crash/threads.rs"]
mod threads;
#[path = "crash/workload.rs"]
mod workload;

/// The result of a check. `Err` describes what is wrong with the database. An error that the
/// database returns because of an injected fault is not an `Err`.
type Checked<T> = Result<T, String>;
