//! Tests that the same operations give the same results under different options.
//!
//! A history is a random sequence of operations: writes of every kind to two column families,
//! snapshots and iterators that stay open, ingestions, flushes, manual compactions, pauses of
//! compactions, option changes, passing time, closing and opening. Each history is run several
//! times. At each opening, a run chooses memtable and table sizes, levels, compaction styles and
//! priorities, codecs, filters, caches, write buffer managers, threads and I/O modes at random. It
//! also chooses which of the flushes, compactions and option changes of the history to execute.
//! Whatever a run chooses, gets, multi-gets and iterators in both directions must agree with a
//! model, for the latest state and for every snapshot.
//!
//! - `history`: the operations.
//! - `setup`: the options, and `shared`: the objects that databases can share.
//! - `held`: iterators that stay open and are moved during the history.
//! - `run`: executes a history and reads the database.
//! - `smaller`: removes steps from a failing history for as long as it still fails.
//!
//! A failure prints the seed of its history, the options, and the steps that remain after the
//! reduction. `TAILWATER_SEED` starts with the history of that seed, and `TAILWATER_ROUNDS`
//! multiplies the number of histories.
#![cfg(not(loom))]

#[path = "common/change.rs"]
mod change;
#[path = "common/check.rs"]
mod check;
#[path = "metamorphic/held.rs"]
mod held;
#[path = "metamorphic/history.rs"]
mod history;
#[path = "common/ingestion.rs"]
mod ingestion;
#[path = "common/io_modes.rs"]
#[expect(dead_code, reason = "other tests name modes, and have real disks")]
mod io_modes;
#[path = "metamorphic/run.rs"]
mod run;
#[path = "metamorphic/setup.rs"]
mod setup;
#[path = "metamorphic/shared.rs"]
mod shared;
#[path = "metamorphic/smaller.rs"]
mod smaller;
#[path = "common/subject.rs"]
mod subject;

use std::io::Write as _;
use std::panic;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use fastrand::Rng;
use history::History;
use run::{Run, Tally};
use tailwater_testkit::seed;

/// Number of histories. Each history is executed [`RUNS`] times.
const HISTORIES: u64 = 90;
const RUNS: u64 = 8;
/// Minimum number of runs, summed over all histories. The test fails if there were fewer.
const RUNS_MIN: u64 = 700;
/// Number of histories that run concurrently.
const THREADS: usize = 2;

/// Runs the history with this seed several times, under different options.
fn check_history(seed: u64) -> Tally {
    let mut rng = Rng::with_seed(seed);
    let history = History::random(&mut rng);
    let mut tally = Tally::default();
    for number in 0..RUNS {
        let run_seed = rng.u64(..);
        match Run::play(&history, run_seed) {
            Ok(played) => tally.add(&played),
            Err(failure) => panic!(
                "TAILWATER_SEED={seed} repeats this, in run {number}: {failure}\n{}",
                smaller::report(history, run_seed)
            ),
        }
    }
    tally
}

#[test]
fn other_options_give_the_same_answers() {
    let seed = seed::rng().value();
    let histories = HISTORIES * seed::rounds() as u64;
    let next = AtomicU64::new(0);
    let work = || {
        let mut tally = Tally::default();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= histories {
                return tally;
            }
            tally.add(&check_history(seed.wrapping_add(number)));
        }
    };
    let mut tally = Tally::default();
    thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            match worker.join() {
                Ok(of_worker) => tally.add(&of_worker),
                Err(failure) => panic::resume_unwind(failure),
            }
        }
    });
    let text = format!("metamorphic: {histories} histories, seed {seed}\n{tally}");
    // Writes to stderr directly, since the test harness shows the output of `eprintln!` only if the
    // test fails.
    let _ = std::io::stderr().write_all(text.as_bytes());
    assert!(tally.runs >= RUNS_MIN, "only {} runs", tally.runs);
    assert!(tally.refused > 0, "no read exceeded a strict limit");
    assert!(tally.deep_files * 20 > tally.ingestions, "files hardly ever go below level 0");
    assert!(tally.deep_views * 4 > tally.views, "compaction has hardly done anything");
}
