//! Writing to a database, reading it and reopening it.

use tailwater::{Db, ReadOptions, WriteBatch, WriteOptions};

use crate::support::{default_family, findings, get, get_from, options, synced};

#[test]
fn writes_are_read_and_survive_reopening() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("db");
    let written = WriteOptions::default();
    {
        let db = Db::open(&path, &options("")).expect("a new database");
        let default = default_family(&db);
        db.put_cf_opt(&default, b"a", b"1", &written).expect("a put");
        db.put_cf_opt(&default, b"b", b"2", &synced()).expect("a put");
        db.delete_cf_opt(&default, b"a", &written).expect("a delete");
        assert_eq!((get(&db, "a"), get(&db, "b")), (None, Some("2".into())));
        db.flush_cf(&default).expect("a flush");
        assert_eq!((get(&db, "a"), get(&db, "b")), (None, Some("2".into())));
        let other = db.create_cf("other", &default.options()).expect("a family");
        let mut batch = WriteBatch::new();
        batch.put_cf(0, b"c", b"3").expect("a record");
        batch.put_cf(other.id(), b"c", b"4").expect("a record");
        db.write_opt(&mut batch, &written).expect("a batch");
        db.close().expect("closing");
    }
    for _ in 0..2 {
        let db = Db::open(&path, &options("")).expect("the database again");
        let other = db.cf_handle("other").expect("the other family");
        assert_eq!((get(&db, "a"), get(&db, "b")), (None, Some("2".into())));
        assert_eq!(get(&db, "c"), Some("3".into()));
        assert_eq!(get_from(&db, &other, "c"), Some("4".into()));
    }
    assert_eq!(findings(&path, &options("")), []);
}

#[test]
fn every_kind_of_write_takes_effect() {
    let directory = tempfile::tempdir().expect("a directory");
    let options = options("merge_operator=StringAppendOperator");
    let db = Db::open(directory.path(), &options).expect("a new database");
    let family = default_family(&db);
    let written = WriteOptions::default();
    for key in ["a", "b", "c", "d", "e"] {
        db.put_cf_opt(&family, key.as_bytes(), b"1", &written).expect("a put");
    }
    db.merge_cf_opt(&family, b"a", b"2", &written).expect("a merge");
    db.single_delete_cf_opt(&family, b"b", &written).expect("a single deletion");
    db.delete_range_cf_opt(&family, b"c", b"e", &written).expect("a range deletion");
    db.put_cf_opt(&family, b"d", b"3", &written).expect("a put");
    let expected = [Some("1,2"), None, None, Some("3"), Some("1")];
    for round in ["in memory", "in a table"] {
        let found = ["a", "b", "c", "d", "e"].map(|key| get(&db, key));
        assert_eq!(found.each_ref().map(Option::as_deref), expected, "{round}");
        db.flush_all().expect("a flush");
    }
    db.merge_cf_opt(&family, b"a", b"3", &written).expect("a merge onto a table");
    assert_eq!(get(&db, "a").as_deref(), Some("1,2,3"));
}

#[test]
fn a_batch_gets_its_sequence_number_and_can_be_written_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let db = Db::open(directory.path(), &options("")).expect("a new database");
    let mut batch = WriteBatch::new();
    batch.put_cf(0, b"a", b"1").expect("a record");
    batch.put_cf(0, b"b", b"1").expect("a record");
    db.write_opt(&mut batch, &WriteOptions::default()).expect("a batch");
    assert_eq!((batch.sequence(), db.latest_sequence_number()), (1, 2));
    db.write_opt(&mut batch, &WriteOptions::default()).expect("the batch again");
    assert_eq!((batch.sequence(), db.latest_sequence_number()), (3, 4));
    db.write_opt(&mut WriteBatch::new(), &synced()).expect("a batch of nothing");
    assert_eq!(db.latest_sequence_number(), 4);
}

#[test]
fn snapshots_stay_consistent_across_flushes() {
    let directory = tempfile::tempdir().expect("a directory");
    let db = Db::open(directory.path(), &options("")).expect("a new database");
    let family = default_family(&db);
    let written = WriteOptions::default();
    let mut snapshots = Vec::new();
    for round in 0..5 {
        db.put_cf_opt(&family, b"key", format!("{round}").as_bytes(), &written).expect("a put");
        db.put_cf_opt(&family, b"key", format!("{round}!").as_bytes(), &written).expect("a put");
        snapshots.push(db.snapshot());
        if round % 2 == 1 {
            db.flush_cf(&family).expect("a flush");
        }
    }
    db.delete_cf_opt(&family, b"key", &written).expect("a delete");
    db.flush_cf(&family).expect("a flush");
    assert_eq!(get(&db, "key"), None);
    for (round, snapshot) in snapshots.into_iter().enumerate() {
        let read = ReadOptions::new().with_snapshot(snapshot);
        let value = db.get_cf_opt(&family, b"key", &read).expect("a get");
        assert_eq!(value, Some(format!("{round}!").into_bytes()));
    }
}
