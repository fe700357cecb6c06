//! A database keeps its guarantees, however it ends and whatever fails.
//!
//! Random work, over column families, snapshots, flushes, ingestion and checkpoints, runs on
//! databases in the simulator, with random options. Then every state that may remain is opened and
//! compared with a model:
//!
//! - `power`: the power is cut, or the process ends, before and after every sync and at calls of
//!   every kind; also during the recovery from a crash, and in the database's second life after it.
//! - `faults`: each call of a run fails, once or from then on, or transfers fewer bytes than
//!   requested.
//! - `threads`: the same with several writers and the flushing thread.
//!
//! `history` defines what may and must survive. Each test prints its cases and the call sites at
//! which faults were injected. A failure names the seed; `TAILWATER_SEED` repeats it, and
//! `TAILWATER_ROUNDS` multiplies the number of runs, with different choices.

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

/// A result, or what is wrong with the database; consequences of injected faults are not errors.
type Checked<T> = Result<T, String>;
