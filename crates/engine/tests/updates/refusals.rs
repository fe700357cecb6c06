//! Tests of refused requests for updates, and of errors that end an iterator over updates.

use tailwater::{Db, ErrorKind, SstFileWriter};
use tailwater_io::sim::{Fault, FaultPlan, FaultRule, SimStorage};
use tailwater_io::{Operation, Purpose};

use crate::support::{
    PATH, default_family, expect_keys, failure, keys, logs, meddle, open, put, put_with, simulated,
    synced, unlogged,
};

#[test]
fn a_sequence_number_not_yet_written_is_not_found() {
    let disk = SimStorage::new(1);
    let db = open(&disk, "");
    expect_keys(&mut db.updates_since(0).expect("an empty database"), &[]);
    let (kind, text) = failure(db.updates_since(1));
    assert_eq!(kind, ErrorKind::NotFound);
    assert!(text.contains("sequence number 1 is not yet written, the last is 0"), "{text}");
    put(&db, "a");
    expect_keys(&mut db.updates_since(1).expect("a batch"), &["a"]);
    assert_eq!(failure(db.updates_since(2)).0, ErrorKind::NotFound);
}

#[test]
fn unlogged_writes_are_a_gap() {
    let disk = SimStorage::new(1);
    let db = open(&disk, "");
    put(&db, "a");
    let mut updates = db.updates_since(1).expect("a batch");
    expect_keys(&mut updates, &["a"]);
    put_with(&db, "not logged", &unlogged());
    put_with(&db, "not logged either", &unlogged());
    assert!(updates.next().is_none(), "nothing says yet that a log will not have it");
    put(&db, "b");
    for _ in 0..2 {
        let (kind, text) = failure(keys(&mut updates));
        assert_eq!(kind, ErrorKind::NotFound);
        let gap = "gap in sequence numbers: 2 to 3 are in no log, the next batch begins with 4";
        assert!(text.contains(gap) && text.contains(".log"), "{text}");
    }
    let (kind, text) = failure(db.updates_since(2));
    assert_eq!(kind, ErrorKind::NotFound);
    assert!(text.contains("2 is in no log"), "{text}");
    assert!(text.contains("the oldest batch after it begins with 4"), "{text}");
    expect_keys(&mut db.updates_since(4).expect("b"), &["b"]);
}

#[test]
fn a_gap_that_spans_a_log_switch_is_reported() {
    let disk = SimStorage::new(1);
    let db = open(&disk, "");
    put(&db, "a");
    let mut updates = db.updates_since(1).expect("a batch");
    put_with(&db, "not logged", &unlogged());
    db.flush_all().expect("a flush");
    put(&db, "b");
    assert_eq!(updates.next().expect("a").expect("a").sequence(), 1);
    assert_eq!(failure(keys(&mut updates)).0, ErrorKind::NotFound);
}

#[test]
fn an_ingestion_with_a_sequence_number_is_a_gap() {
    let disk = SimStorage::new(1);
    let db = open(&disk, "");
    put(&db, "a");
    let mut updates = db.updates_since(1).expect("a batch");
    let mut file = SstFileWriter::new(&simulated(&disk, ""), "default").expect("a writer");
    file.open("/table.sst").expect("a file");
    file.put(b"a", b"ingested").expect("a put");
    file.finish().expect("a table");
    db.ingest_external_file_cf_opts(&default_family(&db), &["/table.sst"], &Default::default())
        .expect("an ingestion");
    put(&db, "b");
    assert_eq!(updates.next().expect("a").expect("a").sequence(), 1);
    let (kind, text) = failure(keys(&mut updates));
    assert_eq!(kind, ErrorKind::NotFound);
    assert!(text.contains("2 to 2 are in no log"), "{text}");
}

#[test]
fn updates_flushed_before_following_are_not_found() {
    let disk = SimStorage::new(1);
    for text in ["", "manual_wal_flush=true"] {
        let db = open(&disk, text);
        let gone = db.latest_sequence_number() + 1;
        put(&db, "a");
        db.flush_all().expect("a flush");
        let (kind, text) = failure(db.updates_since(gone));
        assert_eq!(kind, ErrorKind::NotFound);
        assert!(text.contains(&format!("sequence number {gone} is in no log")), "{text}");
        put(&db, "b");
        db.flush_wal(false).expect("a flush of the log");
        assert_eq!(failure(db.updates_since(gone)).0, ErrorKind::NotFound);
        let mut any = db.updates_since(0).expect("what is left");
        expect_keys(&mut any, &["b"]);
    }
}

#[test]
fn damage_is_reported_with_file_and_offset() {
    // The last record of the log is a batch of 17 bytes. There are three cases: one of its bits is
    // flipped, its end is cut off, or the whole record is cut off.
    for (cut, is_reported) in
        [(0, "checksum"), (5, "inside a fragment"), (24, "the log ends before byte")]
    {
        let disk = SimStorage::new(1);
        let db = open(&disk, "");
        put(&db, "a");
        let mut updates = db.updates_since(0).expect("a batch");
        expect_keys(&mut updates, &["a"]);
        put(&db, "b");
        put(&db, "c");
        db.flush_all().expect("a flush");
        put(&db, "d");
        let log = logs(&disk).swap_remove(0);
        meddle(&disk, &log, |file| {
            let end = file.length().expect("a length");
            match cut {
                0 => file.write_all_at(&[0xff; 3], end - 3, Purpose::Wal).expect("damage"),
                _ => file.truncate(end - cut).expect("a shorter log"),
            }
        });
        assert_eq!(updates.next().expect("b").expect("b").sequence(), 2);
        let error = updates.next().expect("an error").expect_err("damage");
        assert!(error.is_corruption(), "{error}");
        assert!(error.message().contains(is_reported), "{error}");
        assert!(error.path().expect("a path").ends_with(&log), "{error}");
        assert!(error.offset().expect("an offset") > 7, "{error}");
        let again = updates.next().expect("an error").expect_err("damage");
        assert_eq!(again.to_string(), error.to_string());
    }
}

#[test]
fn failed_writes_are_not_followed_and_their_sequence_number_is_reused() {
    for (operation, manual) in
        [(Operation::Write, false), (Operation::Sync, false), (Operation::Sync, true)]
    {
        let disk = SimStorage::new(3);
        let db = open(&disk, &format!("manual_wal_flush={manual}"));
        put_with(&db, "before", &synced());
        let mut updates = db.updates_since(1).expect("a batch");
        let mut later = db.updates_since(1).expect("a batch");
        expect_keys(&mut updates, &["before"]);
        let rule = FaultRule::new(Fault::NoSpace).operation(operation).purpose(Purpose::Wal).at(0);
        disk.set_faults(FaultPlan::none().with(rule));
        let failed = db.put_cf_opt(&default_family(&db), b"during", b"", &synced());
        assert_eq!(failure(failed).0, ErrorKind::NoSpace);
        expect_keys(&mut updates, &[]);
        db.resume().expect("there is space");
        expect_keys(&mut updates, &[]);
        put_with(&db, "after", &synced());
        assert_eq!(db.latest_sequence_number(), 2);
        expect_keys(&mut updates, &["after"]);
        expect_keys(&mut later, &["before", "after"]);
        let mut sought = db.updates_since(2).expect("the one that counts");
        expect_keys(&mut sought, &["after"]);
    }
}

#[test]
fn closing_the_database_ends_following() {
    let disk = SimStorage::new(1);
    let db = open(&disk, "");
    put(&db, "a");
    let mut updates = db.updates_since(0).expect("a batch");
    let mut first_pending = db.updates_since(1).expect("a batch");
    expect_keys(&mut updates, &["a"]);
    db.close().expect("closing");
    for result in [keys(&mut updates), keys(&mut first_pending)] {
        let (kind, text) = failure(result);
        assert_eq!(kind, ErrorKind::Closed);
        assert!(text.contains("the database was closed"), "{text}");
    }
    assert_eq!(failure(db.updates_since(0)).0, ErrorKind::Closed);
    drop(db);
    let db = open(&disk, "");
    put(&db, "b");
    assert_eq!(failure(keys(&mut updates)).0, ErrorKind::Closed);
}

#[test]
fn a_read_only_handle_refuses_updates_since() {
    let disk = SimStorage::new(1);
    let db = open(&disk, "");
    put(&db, "a");
    let reader = Db::open_read_only(PATH, &simulated(&disk, "")).expect("a reader");
    let (kind, text) = failure(reader.updates_since(1));
    assert_eq!(kind, ErrorKind::ReadOnly);
    assert!(text.contains("updates_since"), "{text}");
}
