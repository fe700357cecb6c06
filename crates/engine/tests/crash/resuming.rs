//! Crashes while `resume` recovers a database whose log ran out of space.
//!
//! Batches span several column families. The database is crashed at every storage call of `resume`,
//! also when a call inside the first `resume` failed and `resume` was called again. Each crash
//! image must open, must contain every batch that was acknowledged as synced, and must contain no
//! batch in part.

use std::collections::BTreeMap;
use std::path::Path;

use tailwater::{Db, ReadOptions, WriteBatch, WriteOptions};
use tailwater_io::sim::{Fault, FaultPlan, FaultRule, SimStorage};
use tailwater_io::{Operation, Purpose};

use crate::regressions::{PATH, create, open, options};

/// The names of the column families; the index of a name is the column family's ID.
const FAMILIES: [&str; 4] = ["default", "a", "b", "never-written"];
/// Number of random crash images that are checked at each crash point.
const IMAGES: u64 = 2;

/// The batches, by their key. Each has the IDs of the column families in which it put the key, and
/// whether it was acknowledged as synced.
type Batches = BTreeMap<String, (Vec<u32>, bool)>;

fn write(db: &Db, batches: &mut Batches, key: &str, families: &[u32], sync: bool) -> bool {
    let mut batch = WriteBatch::new();
    for &family in families {
        // The value is longer than a sector, so that a crash can tear the log record of the batch.
        batch.put_cf(family, key.as_bytes(), [b'v'; 3000]).expect("a small key");
    }
    let written = db.write_opt(&mut batch, &WriteOptions::new().with_sync(sync)).is_ok();
    batches.insert(key.to_owned(), (families.to_vec(), sync && written));
    written
}

/// Returns a database whose log has run out of space, and the batches written to it. `operation` is
/// the log operation that failed: a write or a sync.
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

/// Opens a crash image and checks that it contains all synced batches, and no batch in part.
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

/// Checks crash images before every `every`th recorded call and after the last call.
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

/// Regression test: after a log failure, `resume` recorded the flushes of the column families in
/// the MANIFEST one after the other. After a crash between two of these edits, some column families
/// had tables that were newer than the logs of the others. The database then could not be opened,
/// or a batch that had been rejected was replayed for some of the column families only.
#[test]
fn a_crash_inside_resume_keeps_every_batch_whole() {
    let mut calls = 0;
    for text in
        ["", "atomic_flush=true", "max_write_buffer_number=4;min_write_buffer_number_to_merge=2"]
    {
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

/// Tests a `resume` during which a storage call fails. A second `resume` must succeed. After a
/// crash at any call, each batch must be either complete or absent.
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
