//! Tests of databases in which a storage operation fails. Each test covers one kind of operation.

use tailwater::{Db, ErrorKind};
use tailwater_io::sim::{Fault, FaultPlan, FaultRule, SimStorage};
use tailwater_io::{Operation, Purpose};

use crate::support::{default_family, failure, findings, get, put, simulated, synced};

const PATH: &str = "/db";

fn open(disk: &SimStorage) -> Db {
    Db::open(PATH, &simulated(disk, "")).expect("a database")
}

fn fail_once(disk: &SimStorage, fault: Fault, operation: Operation, purpose: Purpose) {
    let rule = FaultRule::new(fault).operation(operation).purpose(purpose).at(0);
    disk.set_faults(FaultPlan::none().with(rule));
}

/// Returns a database with the key `before`, on which a put of the key `during` has failed.
fn failed_write(fault: Fault, operation: Operation) -> (SimStorage, Db) {
    let disk = SimStorage::new(3);
    let db = open(&disk);
    db.put_cf_opt(&default_family(&db), b"before", b"1", &synced()).expect("a put");
    fail_once(&disk, fault, operation, Purpose::Wal);
    let failed = db.put_cf_opt(&default_family(&db), b"during", b"1", &synced());
    let (_, text) = failure(failed);
    assert!(text.contains(".log"), "{text}");
    assert_eq!(get(&db, "before").as_deref(), Some("1"), "reads go on");
    assert_eq!(get(&db, "during"), None);
    let (_, text) = failure(put(&db, "after", "1"));
    assert!(text.contains("refused after an error"), "{text}");
    (disk, db)
}

#[test]
fn a_failed_log_is_not_written_until_the_database_is_reopened() {
    for operation in [Operation::Write, Operation::Sync] {
        let (disk, db) = failed_write(Fault::InputOutput, operation);
        let (kind, text) = failure(db.resume());
        assert_eq!(kind, ErrorKind::Io);
        assert!(text.contains("after reopening"), "{text}");
        assert_eq!(failure(db.close()).0, ErrorKind::Io, "closing reports it");
        drop(db);
        let db = open(&disk);
        assert_eq!(get(&db, "before").as_deref(), Some("1"));
        put(&db, "after", "1").expect("a put");
    }
}

#[test]
fn resume_abandons_a_log_that_ran_out_of_space() {
    for operation in [Operation::Write, Operation::Sync] {
        let (disk, db) = failed_write(Fault::NoSpace, operation);
        db.resume().expect("there is space");
        db.put_cf_opt(&default_family(&db), b"after", b"2", &synced()).expect("a put");
        for seed in 0..20 {
            let image = disk.crash_image(seed);
            assert_eq!(findings(PATH.as_ref(), &simulated(&image, "")), [], "seed {seed}");
            let crashed = open(&image);
            assert_eq!(get(&crashed, "before").as_deref(), Some("1"), "seed {seed}");
            assert_eq!(get(&crashed, "after").as_deref(), Some("2"), "seed {seed}");
            assert_eq!(get(&crashed, "during"), None, "it was refused and then passed by");
        }
    }
}

#[test]
fn resume_retries_a_failed_flush() {
    for operation in [Operation::Create, Operation::Write, Operation::Sync] {
        let disk = SimStorage::new(3);
        let db = open(&disk);
        put(&db, "before", "1").expect("a put");
        fail_once(&disk, Fault::InputOutput, operation, Purpose::FlushWrite);
        let (_, text) = failure(db.flush_all());
        assert!(text.contains(".sst"), "{text}");
        assert_eq!(get(&db, "before").as_deref(), Some("1"));
        failure(put(&db, "refused", "1"));
        db.resume().expect("the disk works again");
        db.put_cf_opt(&default_family(&db), b"after", b"2", &synced()).expect("a put");
        let crashed = open(&disk.crash_image(1));
        assert_eq!(get(&crashed, "before").as_deref(), Some("1"));
        assert_eq!(get(&crashed, "after").as_deref(), Some("2"));
    }
}

#[test]
fn resume_rewrites_a_failed_manifest() {
    for operation in [Operation::Write, Operation::Sync] {
        let disk = SimStorage::new(3);
        let db = open(&disk);
        db.put_cf_opt(&default_family(&db), b"before", b"1", &synced()).expect("a put");
        fail_once(&disk, Fault::InputOutput, operation, Purpose::Manifest);
        let (_, text) = failure(db.flush_all());
        assert!(text.contains("MANIFEST"), "{text}");
        for seed in 0..10 {
            let crashed = open(&disk.crash_image(seed));
            assert_eq!(get(&crashed, "before").as_deref(), Some("1"), "seed {seed}");
        }
        db.resume().expect("the disk works again");
        put(&db, "after", "2").expect("a put");
        db.flush_all().expect("a flush");
        for seed in 0..10 {
            let image = disk.crash_image(seed);
            assert_eq!(findings(PATH.as_ref(), &simulated(&image, "")), [], "seed {seed}");
            let crashed = open(&image);
            assert_eq!(get(&crashed, "before").as_deref(), Some("1"), "seed {seed}");
            assert_eq!(get(&crashed, "after").as_deref(), Some("2"), "seed {seed}");
        }
    }
}
