//! A database keeps its guarantees, wherever a crash interrupts it and whichever call fails.
//!
//! Random operations, on column families, snapshots, flushes, ingestion and checkpoints, run on
//! databases on a simulated disk, with random options. Then states that a crash may leave are
//! opened and compared with a model:
//!
//! - `power`: the power is cut, or the process ends, before and after every sync and at calls of
//!   every kind. This is repeated while a database recovers from a crash, and while it is used
//!   after the recovery.
//! - `faults`: each storage call of a run fails, either alone or with all later calls, or transfers
//!   fewer bytes than requested.
//! - `threads`: like `power`, with several writing threads and the flushing thread.
//!
//! `history` defines what may and what must survive. Each test prints the number of its cases, and
//! the call sites at which it crashed the database or injected faults. A failure names the seed.
//! `TAILWATER_SEED` repeats the run with that seed, and `TAILWATER_ROUNDS` multiplies the number of
//! runs, with different choices.

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
#[path = "crash/mended.rs"]
mod mended;
#[path = "crash/model.rs"]
mod model;
#[path = "crash/power.rs"]
mod power;
#[path = "crash/rare.rs"]
mod rare;
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

/// The result of a check. An error is a description of what is wrong with the database; an error
/// that an injected fault explains is not one.
type Checked<T> = Result<T, String>;
