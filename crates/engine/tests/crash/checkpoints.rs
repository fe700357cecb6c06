//! Crashes while checkpoints are made. The directory of an incomplete checkpoint contains a marker
//! file, which is removed when the checkpoint is complete.

use std::path::Path;

use tailwater::Db;
use tailwater_io::sim::{Fault, FaultPlan, FaultRule, SimStorage};
use tailwater_io::{Operation, Storage};

use crate::model::DEFAULT;
use crate::rare::{IMAGES, at_every_call, at_every_call_in};
use crate::regressions::{has, open, options, put};

/// Returns a database with a synced key.
fn database(disk: &SimStorage) -> Db {
    let db = open(disk, "");
    put(&db, DEFAULT, "key", true);
    db
}

fn is_whole(disk: &SimStorage, checkpoint: &str) -> bool {
    has(&Db::open(Path::new(checkpoint), &options(disk, "")).expect("the checkpoint"), "key")
}

/// Tests a completed checkpoint whose path ends in `.tmp`, the suffix of the directories in which
/// checkpoints are built. Its marker file must not reappear after a power cut, since the next
/// checkpoint would then remove the directory as an incomplete one.
#[test]
fn a_finished_checkpoint_is_not_mistaken_for_an_unfinished_one() {
    let disk = SimStorage::new(1);
    database(&disk).checkpoint(Path::new("/made.tmp")).expect("a checkpoint");
    for seed in 0..IMAGES {
        let image = disk.crash_image(seed);
        // A marker file marks a checkpoint as unfinished. If the first checkpoint's marker had
        // reappeared after the power cut, this call would remove that checkpoint.
        let made = database(&image).checkpoint(Path::new("/made"));
        assert!(made.is_err(), "image {seed}");
        assert!(is_whole(&image, "/made.tmp"), "image {seed}");
    }
}

/// Tests that a new checkpoint recognizes and replaces the remains of a failed one, even if a crash
/// interrupts the removal of the remains.
#[test]
fn a_checkpoint_that_failed_can_be_made_again() {
    let disk = SimStorage::new(1);
    let db = database(&disk);
    let rule = FaultRule::new(Fault::InputOutput).operation(Operation::Rename);
    disk.set_faults(FaultPlan::none().with(rule.path_containing("/made").from(0)));
    disk.start_recording();
    db.checkpoint(Path::new("/made")).expect_err("it cannot have its name");
    at_every_call(&disk, |image, moment| {
        let made = database(&image).checkpoint(Path::new("/made"));
        made.unwrap_or_else(|error| panic!("{moment}: {error}"));
        assert!(is_whole(&image, "/made"), "{moment}");
        assert!(image.list(Path::new("/made.tmp")).is_err(), "{moment}");
    });
}

/// Regression test: if the directory of a checkpoint could not be synced, the checkpoint's files
/// were removed one by one under its final name, without the marker file. A power cut during the
/// removal left an incomplete checkpoint that looked complete.
#[test]
fn a_failed_checkpoint_leaves_a_whole_database_or_nothing() {
    for operation in [Operation::SyncDirectory, Operation::Rename, Operation::Remove] {
        for (index, lasts) in (0..).flat_map(|index| [(index, false), (index, true)]) {
            let disk = SimStorage::new(1);
            let db = database(&disk);
            let rule = FaultRule::new(Fault::InputOutput).operation(operation);
            let rule = if lasts { rule.from(index) } else { rule.at(index) };
            disk.set_faults(FaultPlan::none().with(rule.path_containing("/made")));
            disk.start_recording();
            let made = db.checkpoint(Path::new("/made"));
            disk.set_faults(FaultPlan::none());
            at_every_call_in(&disk, 5, |image, moment| {
                let is_there = image.metadata(Path::new("/made")).is_ok();
                if is_there {
                    assert!(is_whole(&image, "/made"), "{operation} {index}, {moment}");
                    return;
                }
                let again = database(&image).checkpoint(Path::new("/made"));
                again.unwrap_or_else(|error| panic!("{operation} {index}, {moment}: {error}"));
                assert!(is_whole(&image, "/made"), "{operation} {index}, {moment}");
            });
            if made.is_ok() {
                assert!(index > 0 || operation == Operation::Remove, "{operation} never failed");
                break;
            }
        }
    }
}
