//! Power cuts and crashes of the process, before and after every sync and at calls of every kind.

use std::collections::BTreeSet;

use fastrand::Rng;
use tailwater::Db;
use tailwater_format::record_log::RecoveryMode;
use tailwater_io::sim::{Call, Fault, FaultPlan, FaultRule, SimStorage};
use tailwater_io::{Operation, Purpose};
use tailwater_testkit::seed;

use crate::Checked;
use crate::check::Wreck;
use crate::history::{Ending, History};
use crate::model::{State, difference};
use crate::run::{Run, contents};
use crate::setup::Setup;
use crate::tally::{Tally, is_sync};

/// Number of databases that are created and crashed.
const RUNS: usize = 24;
/// Number of random steps on each new database.
const STEPS: usize = 40;
/// The test crashes before every sync and before the first call of each kind. Of the other calls,
/// it crashes before one in this many.
const OTHERS: usize = 12;
/// Of the databases that were recovered from a power cut, one in this many is used further and then
/// crashed again.
const SECOND_LIVES: u8 = 60;
/// After one in this many power cuts, the recovery is itself interrupted by crashes.
const INTERRUPTED: u8 = 60;
/// After some power cuts, the test writes to the recovered database again. It numbers these writes
/// from `SECOND_LIFE` + 1. Every write before the power cut has a smaller number.
const SECOND_LIFE: u64 = 1_000_000;
/// Minimum number of cases; the test fails if it checked fewer.
const LEAST: usize = 4000;

/// Kinds of storage calls at which the test must have crashed at least once. Each kind occurs only
/// with a certain option or step.
const MUST_HAVE: [(Operation, Option<Purpose>, &str); 9] = [
    (Operation::Sync, Some(Purpose::Wal), "#.log"),
    (Operation::Rename, None, "#.log"),
    (Operation::Truncate, Some(Purpose::Wal), "#.log"),
    (Operation::Allocate, Some(Purpose::Wal), "#.log"),
    (Operation::StartWriteback, Some(Purpose::Wal), "#.log"),
    (Operation::Sync, Some(Purpose::FlushWrite), "#.sst"),
    (Operation::Sync, Some(Purpose::Manifest), "MANIFEST-#"),
    (Operation::Sync, Some(Purpose::Metadata), "OPTIONS-#.dbtmp"),
    (Operation::Link, None, "#.sst"),
];

#[test]
fn guaranteed_writes_survive_crashes() {
    let mut seed = seed::rng();
    let mut tally = Tally::new("crashes", seed.value());
    for index in 0..RUNS * seed::rounds() {
        let mut rng = Rng::with_seed(seed.rng.u64(..));
        let setup = Setup::random(&mut rng);
        if let Err(error) = one_run(&setup, &mut rng, &mut tally) {
            panic!("seed {}, run {index}\noptions {}\n{error}", seed.value(), setup.text());
        }
    }
    tally.finish(LEAST);
    tally.must_have(&MUST_HAVE);
}

/// Performs random work on one database. Then crashes it at all chosen storage calls and checks the
/// disk image that each crash leaves.
fn one_run(setup: &Setup, rng: &mut Rng, tally: &mut Tally) -> Checked<()> {
    let storage = setup.new_disk(rng.u64(..));
    let run = worked(setup, storage, State::new(), 0, STEPS, rng)?;
    crash_everywhere(&run, rng, tally, OTHERS, true)
}

fn worked(
    setup: &Setup,
    storage: SimStorage,
    base: State,
    first: u64,
    steps: usize,
    rng: &mut Rng,
) -> Checked<Run> {
    if setup.without_links {
        let refused = FaultRule::new(Fault::InputOutput).operation(Operation::Link).from(0);
        storage.set_faults(FaultPlan::none().with(refused));
    }
    let mut run = Run::new(storage, setup.clone(), base, first, rng.fork());
    let worked = run.work(steps);
    worked.map_err(|error| format!("at work, {error}\n{}", last_steps(&run.history, u64::MAX)))?;
    Ok(run)
}

/// Returns the numbers of the storage calls before which the database is to crash. These are every
/// sync and the call after it. For each kind of call at which the test has not crashed yet, they
/// include the first call and the call after it. Each remaining call is included with the
/// probability 1 / `others`.
fn places(calls: &[Call], rng: &mut Rng, tally: &Tally, others: usize) -> BTreeSet<u64> {
    let mut places = BTreeSet::new();
    let mut kinds = BTreeSet::new();
    for call in calls {
        let is_new = !tally.was_struck(call) && kinds.insert(crate::tally::site(call));
        if is_sync(call) || is_new {
            places.extend([call.number, call.number + 1]);
        } else if rng.usize(..others) == 0 {
            places.insert(call.number);
        }
    }
    places
}

fn crash_everywhere(
    run: &Run,
    rng: &mut Rng,
    tally: &mut Tally,
    others: usize,
    is_first_life: bool,
) -> Checked<()> {
    let calls = run.storage.calls();
    tally.add_calls(&calls);
    let first = calls.first().map_or(0, |call| call.number);
    let mut replay = run.storage.replay();
    for place in places(&calls, rng, tally, others) {
        replay.advance_to(place);
        if let Some(call) = calls.get((place - first) as usize) {
            tally.strike(call);
        }
        let seed = rng.u64(..);
        let mode = run.setup.random_mode(rng);
        let is_power = rng.u8(..4) > 0;
        let (image, ending) = if is_power {
            (replay.crash_image(seed), Ending::PowerCut(place))
        } else {
            (replay.process_crash_image(seed), Ending::ProcessCrash(place))
        };
        let reported = |error: String| {
            let call = calls.get((place - first) as usize);
            let steps = last_steps(&run.history, place);
            format!("{ending:?}, image {seed}, {mode:?}: {error}\nbefore {call:?}\n{steps}")
        };
        if is_power && rng.u8(..INTERRUPTED) == 0 {
            let image = replay.crash_image(seed);
            interrupt_recovery(&run.setup, &image, mode, rng, tally).map_err(reported)?;
        }
        let claims = run.history.claims(ending);
        let wreck = Wreck { setup: &run.setup, image, claims: &claims, torn: is_power, mode };
        let is_taken = wreck.check(rng).map_err(reported)?;
        tally.add_case(if is_power { "power cuts" } else { "crashes of the process" });
        tally.note("refused by the recovery mode", usize::from(!is_taken));
        if is_power && is_first_life && claims.exists && rng.u8(..SECOND_LIVES) == 0 {
            second_life(&run.setup, replay.crash_image(seed), rng, tally).map_err(reported)?;
        }
    }
    Ok(())
}

/// Opens a database that survived a power cut and continues the random work on it. Then crashes it
/// again at chosen calls and checks the disk images.
fn second_life(
    setup: &Setup,
    storage: SimStorage,
    rng: &mut Rng,
    tally: &mut Tally,
) -> Checked<()> {
    let options = setup.options_after(&storage, RecoveryMode::PointInTime, false);
    let opened = Db::open(setup.directory(), &options);
    let db = opened.map_err(|error| format!("a second life: {error}"))?;
    let base = contents(&db, None).map_err(|error| error.to_string())?;
    drop(db);
    // `Db::open` above wrote to the disk. Its unsynced writes may be lost in the crashes below.
    let run = worked(setup, storage, base, SECOND_LIFE, STEPS / 3, rng)
        .map_err(|error| format!("a second life: {error}"))?;
    crash_everywhere(&run, rng, tally, OTHERS, false)
        .map_err(|error| format!("a second life: {error}"))
}

/// Crashes the recovery from `image` at chosen calls. Checks that the next recovery then restores
/// the same contents as an uninterrupted recovery.
fn interrupt_recovery(
    setup: &Setup,
    image: &SimStorage,
    mode: RecoveryMode,
    rng: &mut Rng,
    tally: &mut Tally,
) -> Checked<()> {
    image.start_recording();
    let options = setup.options_after(image, mode, true);
    // A strict recovery mode may refuse this image; other runs recover such images in other modes.
    let Ok(db) = Db::open(setup.directory(), &options) else { return Ok(()) };
    let expected = contents(&db, None).map_err(|error| error.to_string())?;
    let calls = image.calls();
    tally.add_calls(&calls);
    let mut replay = image.replay();
    for place in places(&calls, rng, tally, OTHERS / 4) {
        replay.advance_to(place);
        let seed = rng.u64(..);
        let reported = |error: String| {
            let call = calls.get(place as usize);
            format!("recovery ended before {call:?}, image {seed}: {error}")
        };
        let is_power = rng.bool();
        let again =
            if is_power { replay.crash_image(seed) } else { replay.process_crash_image(seed) };
        if let Some(call) = calls.get(place as usize) {
            tally.strike(call);
        }
        let options = setup.options_after(&again, mode, true);
        let reopened = Db::open(setup.directory(), &options);
        let reopened = reopened.map_err(|error| reported(error.to_string()))?;
        let found = contents(&reopened, None).map_err(|error| reported(error.to_string()))?;
        if let Some(difference) = difference(&expected, &found) {
            return Err(reported(difference));
        }
        tally.add_case("crashes during recovery");
    }
    Ok(())
}

/// Returns the last few steps that began before storage call number `place`, as text for a message.
pub(crate) fn last_steps(history: &History, place: u64) -> String {
    let begun = history.entries.iter().filter(|entry| entry.calls.start < place);
    let steps: Vec<String> = begun
        .map(|entry| format!("{:?} {:?} {:?}", entry.calls, entry.outcome, entry.step))
        .collect();
    steps[steps.len().saturating_sub(12)..].join("\n")
}
