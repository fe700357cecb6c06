//! Crashes while `resume` recovers from a log that ran out of space.
//!
//! Batches span several column families. At every crash point during `resume`, even if a call
//! inside `resume` failed and `resume` was called again, each crash image must open. It must
//! contain every batch that was acknowledged as synced, and no batch in part.

use std::collections::BTreeMap;
use std::path::Path;

use tailwater::{Db, ReadOptions, WriteBatch, WriteOptions};
use tailwater_io::sim::{Fault, FaultPlan, FaultRule, SimStorage};
use tailwater_io::{Operation, Purpose};

use crate::mended::{PATH, create, open, options};

/// The column families; the index of each is its ID.
const FAMILIES: [&str; 4] = ["default", "a", "b", "never-written"];
/// Number of random crash images that are checked at each crash point.
const IMAGES: u64 = 2;

/// The batches by their key: the column families in which the batch put the key, and whether the
/// batch was acknowledged as synced.
type Batches = BTreeMap<String, (Vec<u32>, bool)>;

fn write(db: &Db, batches: &mut Batches, key: &str, families: &[u32], sync: bool) -> bool {
    let mut batch = WriteBatch::new();
    for &family in families {
        // The value is so long that a crash can tear its write.
        batch.put_cf(family, key.as_bytes(), [b'v'; 3000]).expect("a small key");
    }
    let written =
        db.write_opt(&mut batch, &WriteOptions { sync, ..WriteOptions::default() }).is_ok();
    batches.insert(key.to_owned(), (families.to_vec(), sync && written));
    written
}

/// Returns a database whose log has failed, either when a batch was written or when the log was
/// synced, and the batches.
fn failed(disk: &SimStorage, text: &str, operation: Operation) -> (Db, Batches) {
    let db = open(disk, text);
    FAMILIES.iter().skip(1).for_each(|family| create(&db, family));
    let mut batches = Batches::new();
    write(&db, &mut batches, "in tables", &[0, 1, 2], true);
    db.flush_cf(&db.cf_handle("a").expect("a column family")).expect("a flush");
    write(&db, &mut batches, "synced", &[0, 1, 2], true);
    write(&db, &mut batches, "of one", &[1], true);
    write(&db, &mut batches, "not synced", &[0, 2], false);
    let rule = FaultRule::new(Fault::NoSpace).operation(operation).purpose(Purpose::Wal).at(0);
    disk.set_faults(FaultPlan::none().with(rule));
    assert!(!write(&db, &mut batches, "rejected", &[0, 1, 2], true));
    disk.set_faults(FaultPlan::none());
    (db, batches)
}

/// Opens a crash image and compares its contents with the batches.
fn check(left: &SimStorage, text: &str, batches: &Batches, context: &str) {
    let db = Db::open(Path::new(PATH), &options(left, text))
        .unwrap_or_else(|error| panic!("{context}: {error}"));
    for (key, (families, must_be_there)) in batches {
        let has = |&id: &u32| {
            let family = db.cf_handle(FAMILIES[id as usize]).expect("a column family");
            db.get_cf_opt(&family, key.as_bytes(), &ReadOptions::default())
                .expect("a get")
                .is_some()
        };
        let found: Vec<bool> = families.iter().map(has).collect();
        assert!(
            found.iter().all(|&is_there| is_there == found[0]),
            "{context}: of batch '{key}' {found:?} is there"
        );
        assert!(found[0] || !must_be_there, "{context}: batch '{key}' is lost");
    }
}

/// Checks crash images before one in `every` recorded calls, and after the last call.
fn check_images(
    disk: &SimStorage,
    text: &str,
    batches: &Batches,
    every: usize,
    context: &str,
) -> usize {
    let calls = disk.calls();
    let mut replay = disk.replay();
    let moments = calls.iter().map(|call| call.number);
    for moment in moments.skip(calls.len() % every).step_by(every).chain([u64::MAX]) {
        replay.advance_to(moment);
        let call = calls.iter().find(|call| call.number == moment);
        let context = format!("{context}, before {call:?}");
        check(&replay.process_crash_image(moment), text, batches, &context);
        for seed in 0..IMAGES {
            let image = replay.crash_image(seed);
            check(&image, text, batches, &format!("{context}, image {seed}"));
        }
    }
    calls.len()
}

/// Regression test: after a log failure, `resume` recorded the flush of one column family after the
/// other in the MANIFEST. A crash between two of these edits left tables that were ahead of the
/// logs of the other column families. The database then could not be opened, or the rejected batch
/// was replayed for the other column families only.
#[test]
fn a_crash_inside_resume_keeps_every_batch_whole() {
    let mut calls = 0;
    for text in ["", "atomic_flush=true", "min_write_buffer_number_to_merge=2"] {
        for operation in [Operation::Write, Operation::Sync] {
            for seed in 0..2 {
                let disk = SimStorage::new(seed);
                let (db, mut batches) = failed(&disk, text, operation);
                disk.start_recording();
                db.resume().expect("there is space");
                let context = format!("'{text}', {operation:?} failed, disk {seed}");
                calls += check_images(&disk, text, &batches, 1, &context);
                batches.insert("rejected".to_owned(), (vec![0], false));
                write(&db, &mut batches, "after", &[0, 1, 2, 3], true);
                check(&disk.crash_image(seed), text, &batches, &context);
                let default = db.cf_handle("default").expect("a column family");
                let rejected = db.get_cf_opt(&default, b"rejected", &ReadOptions::default());
                assert_eq!(rejected.expect("a get"), None, "{context}");
            }
        }
    }
    assert!(calls > 100, "only {calls} calls were cut off");
}

/// Tests that `resume` can be called again after a call inside it failed, and that a crash at any
/// call leaves no batch in part.
#[test]
fn a_failed_resume_can_be_retried() {
    let mut failures = 0;
    for operation in [Operation::Write, Operation::Sync] {
        for index in 0.. {
            let disk = SimStorage::new(index);
            let (db, mut batches) = failed(&disk, "", operation);
            disk.start_recording();
            disk.set_faults(FaultPlan::at(index, Fault::NoSpace));
            let resumed = db.resume();
            disk.set_faults(FaultPlan::none());
            let has_failed = resumed.is_err();
            let context = format!("{operation:?} failed, and then call {index} of resuming");
            if has_failed {
                failures += 1;
                assert!(db.background_error().is_some(), "{context}");
                assert!(!write(&db, &mut batches, "refused", &[0, 1], true), "{context}");
                db.resume().unwrap_or_else(|error| panic!("{context}: {error}"));
            }
            check_images(&disk, "", &batches, 13, &context);
            write(&db, &mut batches, "after", &[0, 1, 2, 3], true);
            check(&disk.crash_image(index), "", &batches, &context);
            if index > disk.calls().len() as u64 {
                break;
            }
        }
    }
    assert!(failures > 20, "only {failures} calls failed");
}
