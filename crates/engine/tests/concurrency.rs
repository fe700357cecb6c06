//! Many threads write, read, flush and change column families concurrently. Every state that a read
//! shows must have existed at some point in time.
//!
//! A failure names the seed. `TAILWATER_SEED` repeats the seed's random choices, though not the
//! order in which threads run; `TAILWATER_ROUNDS` multiplies the number of batches.
#![cfg(not(loom))]

#[path = "concurrency/direct_compactions.rs"]
mod direct_compactions;
#[path = "common/io_modes.rs"]
#[expect(dead_code, reason = "other tests draw disks, too")]
mod io_modes;
#[path = "concurrency/ledger.rs"]
mod ledger;
#[path = "concurrency/multi_gets.rs"]
mod multi_gets;
#[path = "concurrency/opening.rs"]
mod opening;
#[path = "concurrency/process.rs"]
mod process;
#[path = "concurrency/range_deletions.rs"]
mod range_deletions;
#[path = "concurrency/scene.rs"]
mod scene;
#[path = "concurrency/stalls.rs"]
mod stalls;
#[path = "concurrency/upkeep.rs"]
mod upkeep;

use std::thread;

use io_modes::{Disk, IoModes};
use ledger::Ledger;
use scene::{Place, Scene, after_process_crash, check_at_rest, check_sequences};
use tailwater::{Db, WriteOptions};
use tailwater_testkit::seed;

/// Option for runs in which not every batch is synced. A crash of the machine may then lose a whole
/// log but keep the next one. Replay detects the loss only if each log describes its predecessor.
const TRACKING: &str = "track_and_verify_wals=true";

/// The parameters of the writers of one database.
#[derive(Debug, Clone, Copy)]
struct Run {
    /// Number of slots (keys) of each writer.
    slots: &'static [usize],
    batches: u64,
    /// Length of the padding in a value, in bytes.
    padding: usize,
    /// One batch in this many is synced; if 0, no batch is.
    sync_every: u64,
    options: &'static str,
}

impl Run {
    fn write_options(self, number: u64) -> WriteOptions {
        let sync = self.sync_every > 0 && number.is_multiple_of(self.sync_every);
        WriteOptions::new().with_sync(sync)
    }

    /// Runs the writers and readers twice: on simulated storage in memory and on real files. Checks
    /// the contents after closing and, for the simulated storage, after a crash.
    fn play(self) {
        let mut seed = seed::rng();
        println!("seed {}", seed.value());
        for place in Place::both(seed.value()) {
            let ledger = Ledger::new(self.slots, self.padding);
            let modes = match place {
                Place::Memory(_) => {
                    IoModes::random(&mut seed.rng, Disk::Simulated { is_coarse: false })
                }
                Place::Files(_) => IoModes::of_real_files(&mut seed.rng),
            };
            println!("{modes}");
            let options = &format!("{modes};{}", self.options).trim_matches(';').to_owned();
            let db = place.open(options);
            self.fill(&place, &db, &ledger, options, &mut seed.rng);
            check_at_rest(&db, &ledger).expect("what was written");
            if let Place::Memory(storage) = &place {
                let crashed = after_process_crash(storage, options, seed.value());
                check_at_rest(&crashed, &ledger).expect("what was acknowledged before the crash");
            }
            let latest = db.latest_sequence_number();
            db.close().expect("closing");
            drop(db);
            let db = place.open(options);
            check_at_rest(&db, &ledger).expect("what was written before closing");
            assert_eq!(db.latest_sequence_number(), latest);
            // The writers continue in the reopened database.
            self.fill(&place, &db, &ledger, options, &mut seed.rng);
            check_at_rest(&db, &ledger).expect("what was written after reopening");
        }
    }

    /// Runs the writers, with concurrent readers and crashes.
    fn fill(self, place: &Place, db: &Db, ledger: &Ledger, options: &str, rng: &mut fastrand::Rng) {
        let first = db.latest_sequence_number() + 1;
        let scene = Scene::new(db, ledger);
        let batches = self.batches * seed::rounds() as u64;
        let written = thread::scope(|scope| {
            let scene = &scene;
            let writers: Vec<_> = (0..ledger.writers())
                .map(|writer| {
                    scope.spawn(move || {
                        scene.write(writer, batches, |number| self.write_options(number))
                    })
                })
                .collect();
            if let Place::Memory(storage) = place {
                let (all_synced, rng) = (self.sync_every == 1, rng.fork());
                scope.spawn(move || {
                    scene.watch_crashes(storage, options, all_synced, rng);
                });
            }
            if self.sync_every == 0 {
                let rng = rng.fork();
                scope.spawn(move || scene.flush_one_by_one(rng));
            }
            let (one, two, three) = (rng.fork(), rng.fork(), rng.fork());
            scope.spawn(move || scene.watch_snapshots(one));
            scope.spawn(move || scene.watch_iterators(two));
            scope.spawn(move || scene.watch_gets(three));
            writers
                .into_iter()
                .flat_map(|writer| writer.join().expect("a writer"))
                .collect::<Vec<_>>()
        });
        check_sequences(first, written, db.latest_sequence_number());
    }
}

#[test]
fn one_writer() {
    let options = TRACKING;
    let run = Run { slots: &[5], batches: 2000, padding: 200, sync_every: 10, options };
    run.play();
}

#[test]
fn four_writers_that_sync() {
    let run = Run { slots: &[2, 3, 1, 8], batches: 300, padding: 300, sync_every: 1, options: "" };
    run.play();
}

#[test]
fn four_writers_of_large_batches() {
    let slots = &[70, 100, 3, 130];
    let options = TRACKING;
    Run { slots, batches: 200, padding: 40, sync_every: 0, options }.play();
}

#[test]
fn sixteen_writers_that_sync_occasionally() {
    let slots = &[1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 80, 3, 70];
    let options = "max_total_wal_size=150000;min_write_buffer_number_to_merge=2;\
        track_and_verify_wals=true;max_sequential_skip_in_iterations=0";
    Run { slots, batches: 200, padding: 150, sync_every: 7, options }.play();
}

#[test]
fn sixteen_writers_with_atomic_flushes() {
    let slots = &[3; 16];
    let options = "atomic_flush=true;max_write_buffer_number=2;track_and_verify_wals=true;\
        max_sequential_skip_in_iterations=1";
    Run { slots, batches: 300, padding: 150, sync_every: 0, options }.play();
}
