//! Tests that logs are kept while a follower needs them, and that followers see a write only when
//! it is in the log file.

use tailwater::{WriteBatch, WriteOptions};
use tailwater_io::sim::SimStorage;

use crate::support::{default_family, expect_keys, keys, logs, open, put, put_with, synced};

fn assert_send<T: Send>(value: T) -> T {
    value
}

#[test]
fn logs_are_kept_while_followed_and_removed_afterwards() {
    for recycle in [0, 2] {
        let disk = SimStorage::new(1);
        let db = open(&disk, &format!("recycle_log_file_num={recycle}"));
        put(&db, "0");
        let mut updates = assert_send(db.updates_since(1).expect("a batch"));
        for round in 1..6 {
            db.flush_all().expect("a flush");
            put(&db, &round.to_string());
        }
        assert_eq!(logs(&disk).len(), 6);
        let mut late = db.updates_since(4).expect("a log that is kept for another");
        expect_keys(&mut late, &["3", "4", "5"]);
        expect_keys(&mut updates, &["0", "1", "2", "3", "4", "5"]);
        db.flush_all().expect("a flush");
        assert_eq!(logs(&disk).len(), 2 + recycle, "the one where both are, and the next one");
        put(&db, "6");
        expect_keys(&mut updates, &["6"]);
        drop(late);
        db.flush_all().expect("a flush");
        put(&db, "7");
        expect_keys(&mut updates, &["7"]);
        drop(updates);
        db.flush_all().expect("a flush");
        assert_eq!(logs(&disk).len(), 1 + recycle);
        db.close().expect("closing");
        assert_eq!(logs(&disk).len(), 1);
    }
}

#[test]
fn closing_removes_logs_kept_for_followers() {
    let disk = SimStorage::new(1);
    let db = open(&disk, "");
    put(&db, "a");
    let updates = db.updates_since(1).expect("a batch");
    db.flush_all().expect("a flush");
    assert_eq!(logs(&disk).len(), 2);
    db.close().expect("closing");
    assert_eq!(logs(&disk).len(), 1);
    drop(updates);
}

#[test]
fn logs_kept_for_followers_do_not_affect_recovery() {
    let disk = SimStorage::new(1);
    let db = open(&disk, "track_and_verify_wals=true");
    put(&db, "a");
    let _updates = db.updates_since(1).expect("a batch");
    db.flush_all().expect("a flush");
    put(&db, "b");
    let image = disk.process_crash_image(1);
    assert_eq!(logs(&image).len(), 2);
    let crashed = open(&image, "track_and_verify_wals=true");
    assert_eq!(crashed.left_out(), []);
    assert_eq!(crashed.latest_sequence_number(), 2);
    assert_eq!(logs(&image).len(), 1);
}

#[test]
fn buffered_log_records_are_not_followed() {
    let disk = SimStorage::new(1);
    let db = open(&disk, "manual_wal_flush=true");
    put(&db, "a");
    let mut updates = db.updates_since(1).expect("it will be there");
    expect_keys(&mut updates, &[]);
    put(&db, "b");
    db.flush_wal(false).expect("a flush of the log");
    expect_keys(&mut updates, &["a", "b"]);
    put(&db, "c");
    expect_keys(&mut updates, &[]);
    put_with(&db, "d", &synced());
    expect_keys(&mut updates, &["c", "d"]);
    put(&db, "e");
    db.flush_all().expect("a flush, which switches the log");
    put(&db, "f");
    expect_keys(&mut updates, &["e"]);
}

#[test]
fn following_from_inside_a_batch_returns_the_whole_batch() {
    let disk = SimStorage::new(1);
    let db = open(&disk, "");
    let id = default_family(&db).id();
    for first in ["a", "d"] {
        let mut batch = WriteBatch::new();
        for offset in 0..3 {
            batch.put_cf(id, [first.as_bytes()[0] + offset], b"").expect("a put");
        }
        db.write_opt(&mut batch, &WriteOptions::default()).expect("a write");
    }
    for (sequence, expected) in [(1, "abcdef"), (3, "abcdef"), (4, "def"), (6, "def")] {
        let mut updates = db.updates_since(sequence).expect("a batch");
        assert_eq!(keys(&mut updates).expect("batches").concat(), expected);
    }
}

#[test]
fn an_empty_batch_is_followed_once_another_batch_is_after_it() {
    let disk = SimStorage::new(1);
    let db = open(&disk, "");
    let mut updates = db.updates_since(0).expect("the logs");
    put(&db, "a");
    db.write_opt(&mut WriteBatch::new(), &WriteOptions::default()).expect("a write");
    let mut seen = || -> Vec<(u64, usize)> {
        let batches = updates.by_ref().map(|batch| batch.expect("a batch"));
        batches.map(|batch| (batch.sequence(), batch.len())).collect()
    };
    assert_eq!(seen(), [(1, 1)]);
    put(&db, "b");
    assert_eq!(seen(), [(2, 0), (2, 1)]);
    assert_eq!(db.updates_since(2).expect("b").count(), 1);
}
