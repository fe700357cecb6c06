//! Crashes of a database to which several threads write while a background thread flushes it.

use std::sync::Arc;

use fastrand::Rng;
use tailwater::{Db, WriteBatch, WriteOptions};
use tailwater_format::record_log::RecoveryMode;
use tailwater_io::Clock;
use tailwater_io::clock::SystemClock;
use tailwater_io::sim::SimStorage;
use tailwater_testkit::seed;

use crate::Checked;
use crate::check::Wreck;
use crate::history::{Ending, Entry, History, Outcome, Step};
use crate::model::{Batch, DEFAULT, Durability};
use crate::setup::Setup;
use crate::tally::{Tally, is_sync};
use crate::workload::Generator;

/// Number of databases that are written and crashed.
const RUNS: usize = 5;
/// Number of writing threads.
const THREADS: u64 = 3;
/// Number of batches that each thread writes.
const BATCHES: usize = 60;
/// On average, one of `PLACES` syncs is a crash point, and one of 10 * `PLACES` other calls. The
/// first call of each kind always is a crash point.
const PLACES: usize = 4;
/// Minimum number of cases; the test fails if it checked fewer.
const LEAST: usize = 100;

/// A write and its sequence number. The sequence numbers order the writes of all threads.
struct Written {
    sequence: u64,
    entry: Entry,
}

#[test]
fn guaranteed_writes_of_concurrent_threads_survive_crashes() {
    let mut seed = seed::rng();
    let mut tally = Tally::new("crashes with threads", seed.value());
    for index in 0..RUNS * seed::rounds() {
        let mut rng = Rng::with_seed(seed.rng.u64(..));
        let setup = Setup::random(&mut rng);
        if let Err(error) = one_run(&setup, &mut rng, &mut tally) {
            // A rerun with this seed repeats the random choices, but not the order in which threads
            // run.
            panic!("seed {}, run {index}\noptions {}\n{error}", seed.value(), setup.text());
        }
    }
    tally.finish(LEAST);
}

fn one_run(setup: &Setup, rng: &mut Rng, tally: &mut Tally) -> Checked<()> {
    let storage = setup.new_disk(rng.u64(..));
    storage.start_recording();
    let mut options = setup.options(&storage);
    options.set_inline_background(false);
    options.set_clock(Arc::new(SystemClock) as Arc<dyn Clock>);
    let db = Db::open(setup.directory(), &options).map_err(|error| error.to_string())?;
    let other = options.column_family("other").clone();
    db.create_cf("other", &other).map_err(|error| error.to_string())?;
    let begun = storage.call_count();
    let history = History {
        entries: vec![
            entry(Step::Open, 0, begun),
            entry(Step::CreateFamily("other".to_owned()), 0, begun),
        ],
        manual_wal_flush: setup.manual_wal_flush,
        atomic_flush: setup.atomic_flush,
        ..History::default()
    };
    let history = write(&db, &storage, setup, history, rng)?;
    drop(db);
    crash(setup, &storage, &history, rng, tally)
}

fn entry(step: Step, start: u64, end: u64) -> Entry {
    Entry { step, calls: start..end, outcome: Outcome::Done }
}

/// Writes batches from several threads, and adds them to the history in the order of their sequence
/// numbers.
fn write(
    db: &Db,
    storage: &SimStorage,
    setup: &Setup,
    mut history: History,
    rng: &mut Rng,
) -> Checked<History> {
    let written = std::thread::scope(|scope| {
        let threads: Vec<_> = (1..=THREADS)
            .map(|thread| {
                let families = vec![DEFAULT.to_owned(), "other".to_owned()];
                let first = thread * 1_000_000;
                let generator = Generator::new(rng.fork(), setup.limits(), first, families);
                scope.spawn(move || write_batches(db, storage, generator))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join()).collect::<Vec<_>>()
    });
    let mut all = Vec::new();
    for written in written {
        all.extend(written.map_err(|_| "a thread panicked".to_owned())??);
    }
    all.sort_by_key(|written| written.sequence);
    history.entries.extend(all.into_iter().map(|written| written.entry));
    Ok(history)
}

fn write_batches(db: &Db, storage: &SimStorage, mut generator: Generator) -> Checked<Vec<Written>> {
    (0..BATCHES).map(|_| write_batch(db, storage, generator.batch())).collect()
}

fn write_batch(db: &Db, storage: &SimStorage, batch: Batch) -> Checked<Written> {
    let mut bytes = WriteBatch::new();
    for part in &batch.parts {
        let family = db.cf_handle(&part.family).map_err(|error| error.to_string())?;
        part.changes.iter().for_each(|change| change.add_to(&mut bytes, family.id()));
    }
    let options = WriteOptions::new()
        .with_sync(batch.durability == Durability::Synced)
        .with_disable_wal(batch.durability == Durability::Unlogged);
    let start = storage.call_count();
    db.write_opt(&mut bytes, &options).map_err(|error| format!("a write failed: {error}"))?;
    let end = storage.call_count();
    Ok(Written { sequence: bytes.sequence(), entry: entry(Step::Write(batch), start, end) })
}

fn crash(
    setup: &Setup,
    storage: &SimStorage,
    history: &History,
    rng: &mut Rng,
    tally: &mut Tally,
) -> Checked<()> {
    let calls = storage.calls();
    tally.add_calls(&calls);
    let mut replay = storage.replay();
    for call in &calls {
        let is_new = !tally.was_struck(call);
        if !is_new && rng.usize(..if is_sync(call) { PLACES } else { 10 * PLACES }) > 0 {
            continue;
        }
        tally.strike(call);
        let place = call.number + rng.u64(..2);
        replay.advance_to(place);
        let seed = rng.u64(..);
        let is_power = rng.u8(..4) > 0;
        let (image, ending) = if is_power {
            (replay.crash_image(seed), Ending::PowerCut(place))
        } else {
            (replay.process_crash_image(seed), Ending::ProcessCrash(place))
        };
        let claims = history.claims(ending);
        // The threads already write the next log while an older log waits for its flush. A power
        // cut may therefore tear the ends of both logs. The default mode recognizes the torn end of
        // the older log only if each log describes the log before it. Without that, the mode that
        // skips damaged records is used.
        let mode = if setup.tracks_logs {
            RecoveryMode::PointInTime
        } else {
            RecoveryMode::SkipAnyCorruptedRecords
        };
        let wreck = Wreck { setup, image, claims: &claims, torn: is_power, mode };
        let reported = |error| format!("{ending:?}, image {seed}: {error}\nbefore {call:?}");
        wreck.check(rng).map_err(reported)?;
        tally.add_case(if is_power { "power cuts" } else { "crashes of the process" });
    }
    Ok(())
}
