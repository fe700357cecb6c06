//! Injects faults at every storage call of a run: either into that call only, or into that call and
//! all later ones.

use fastrand::Rng;
use tailwater_format::record_log::RecoveryMode;
use tailwater_io::sim::{Call, Fault, FaultPlan};
use tailwater_testkit::seed;

use crate::Checked;
use crate::check::Wreck;
use crate::history::Ending;
use crate::model::State;
use crate::run::{Mood, Run};
use crate::setup::Setup;
use crate::tally::Tally;

/// Number of runs, each with other random options and operations.
const RUNS: usize = 3;
/// Number of steps of a run while faults are injected.
const STEPS: usize = 14;
/// Number of further steps of a run after the faults were removed.
const STEPS_AFTER: usize = 5;
/// Minimum number of cases; the test fails if it checked fewer.
const LEAST: usize = 700;

/// A kind of fault to inject.
#[derive(Debug, Clone, Copy)]
struct Trouble {
    fault: Fault,
    /// True if only one call has the fault; false if that call and all later ones have it.
    once: bool,
    kind: &'static str,
}

const TROUBLES: [Trouble; 6] = [
    Trouble { fault: Fault::InputOutput, once: true, kind: "I/O errors" },
    Trouble { fault: Fault::InputOutput, once: false, kind: "I/O errors that stay" },
    Trouble { fault: Fault::NoSpace, once: true, kind: "full disks" },
    Trouble { fault: Fault::NoSpace, once: false, kind: "full disks that stay full" },
    Trouble { fault: Fault::Short, once: true, kind: "short transfers" },
    Trouble { fault: Fault::Short, once: false, kind: "short transfers that stay" },
];

#[test]
fn acknowledged_writes_survive_faults() {
    let mut seed = seed::rng();
    let mut tally = Tally::new("faults", seed.value());
    for index in 0..RUNS * seed::rounds() {
        let mut rng = Rng::with_seed(seed.rng.u64(..));
        let setup = Setup::random(&mut rng).for_faults();
        let work = rng.u64(..);
        let reported = |error: String| -> ! {
            let options = setup.text();
            panic!("seed {}, run {index}\noptions {options}\n{error}", seed.value())
        };
        let calls = calm(&setup, work).unwrap_or_else(|error| reported(error));
        tally.add_calls(&calls);
        for call in &calls {
            for trouble in TROUBLES {
                // A lasting fault begins at one call and hits every later call, too. To save time,
                // the test begins such faults at only a third of the calls, chosen at random.
                if !trouble.once && rng.u8(..3) > 0 {
                    continue;
                }
                if let Err(error) = faulty(&setup, work, call.number, trouble, &mut rng) {
                    reported(format!("{trouble:?} at {call:?}: {error}"));
                }
                tally.strike(call);
                tally.add_case(trouble.kind);
            }
        }
    }
    tally.finish(LEAST);
}

fn run(setup: &Setup, work: u64) -> Run {
    let storage = setup.new_disk(work);
    Run::new(storage, setup.clone(), State::new(), 0, Rng::with_seed(work))
}

/// Performs the run without faults, and returns its storage calls.
fn calm(setup: &Setup, work: u64) -> Checked<Vec<Call>> {
    let mut run = run(setup, work);
    run.work(STEPS)?;
    Ok(run.storage.calls())
}

/// Repeats the run with a fault at storage call number `at` or, unless `trouble.once`, at this call
/// and all later ones. Then removes the fault and continues. Finally crashes the database and
/// checks the disk image that the crash leaves.
fn faulty(setup: &Setup, work: u64, at: u64, trouble: Trouble, rng: &mut Rng) -> Checked<()> {
    let mut run = run(setup, work);
    let fault = trouble.fault;
    let plan = if trouble.once { FaultPlan::at(at, fault) } else { FaultPlan::from(at, fault) };
    run.storage.set_faults(plan);
    // A short transfer is not an error: the caller must continue it, so no step may fail.
    run.mood = if fault == Fault::Short { Mood::Calm } else { Mood::Faulty };
    let is_healed = fault != Fault::Short;
    let steps = |run: &Run| crate::power::last_steps(&run.history, u64::MAX);
    run.work(STEPS).map_err(|error| format!("{error}\n{}", steps(&run)))?;
    if is_healed {
        run.heal().map_err(|error| format!("afterwards: {error}\n{}", steps(&run)))?;
        run.work(STEPS_AFTER).map_err(|error| format!("afterwards: {error}\n{}", steps(&run)))?;
    }
    run.storage.set_faults(FaultPlan::none());
    let seed = rng.u64(..);
    let end = run.storage.call_count();
    let (image, ending) = if rng.bool() {
        (run.storage.crash_image(seed), Ending::PowerCut(end))
    } else {
        (run.storage.process_crash_image(seed), Ending::ProcessCrash(end))
    };
    let claims = run.history.claims(ending);
    let mode = RecoveryMode::PointInTime;
    let wreck = Wreck { setup, image, claims: &claims, torn: true, mode };
    wreck
        .check(rng)
        .map_err(|error| format!("{ending:?}, image {seed}: {error}\n{}", steps(&run)))?;
    Ok(())
}
