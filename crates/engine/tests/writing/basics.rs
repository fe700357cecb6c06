//! Writing, reading and reopening.

use tailwater::{Db, WriteBatch, WriteOptions};

use crate::support::{default_family, findings, get, get_from, options, synced};

#[test]
fn what_is_written_is_read_and_found_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("db");
    let written = WriteOptions::default();
    {
        let db = Db::open(&path, &options("")).expect("a new database");
        let default = default_family(&db);
        db.put(&default, b"a", b"1", &written).expect("a put");
        db.put(&default, b"b", b"2", &synced()).expect("a put");
        db.delete(&default, b"a", &written).expect("a delete");
        assert_eq!((get(&db, "a"), get(&db, "b")), (None, Some("2".into())));
        db.flush(&default).expect("a flush");
        assert_eq!((get(&db, "a"), get(&db, "b")), (None, Some("2".into())));
        let other = db.create_column_family("other", &default.options()).expect("a family");
        let mut batch = WriteBatch::new();
        batch.put(0, b"c", b"3").expect("a record");
        batch.put(other.id(), b"c", b"4").expect("a record");
        db.write(&mut batch, &written).expect("a batch");
        db.close().expect("closing");
    }
    for _ in 0..2 {
        let db = Db::open(&path, &options("")).expect("the database again");
        let other = db.column_family("other").expect("the other family");
        assert_eq!((get(&db, "a"), get(&db, "b")), (None, Some("2".into())));
        assert_eq!(get(&db, "c"), Some("3".into()));
        assert_eq!(get_from(&db, &other, "c"), Some("4".into()));
    }
    assert_eq!(findings(&path, &options("")), []);
}

#[test]
fn every_kind_of_write_does_what_it_says() {
    let directory = tempfile::tempdir().expect("a directory");
    let options = options("merge_operator=StringAppendOperator");
    let db = Db::open(directory.path(), &options).expect("a new database");
    let family = default_family(&db);
    let written = WriteOptions::default();
    for key in ["a", "b", "c", "d", "e"] {
        db.put(&family, key.as_bytes(), b"1", &written).expect("a put");
    }
    db.merge(&family, b"a", b"2", &written).expect("a merge");
    db.single_delete(&family, b"b", &written).expect("a single deletion");
    db.delete_range(&family, b"c", b"e", &written).expect("a range deletion");
    db.put(&family, b"d", b"3", &written).expect("a put");
    let expected = [Some("1,2"), None, None, Some("3"), Some("1")];
    for round in ["in memory", "in a table"] {
        let found = ["a", "b", "c", "d", "e"].map(|key| get(&db, key));
        assert_eq!(found.each_ref().map(Option::as_deref), expected, "{round}");
        db.flush_all().expect("a flush");
    }
    db.merge(&family, b"a", b"3", &written).expect("a merge onto a table");
    assert_eq!(get(&db, "a").as_deref(), Some("1,2,3"));
}

#[test]
fn a_batch_gets_its_sequence_number_and_can_be_written_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let db = Db::open(directory.path(), &options("")).expect("a new database");
    let mut batch = WriteBatch::new();
    batch.put(0, b"a", b"1").expect("a record");
    batch.put(0, b"b", b"1").expect("a record");
    db.write(&mut batch, &WriteOptions::default()).expect("a batch");
    assert_eq!((batch.sequence(), db.latest_sequence()), (1, 2));
    db.write(&mut batch, &WriteOptions::default()).expect("the batch again");
    assert_eq!((batch.sequence(), db.latest_sequence()), (3, 4));
    db.write(&mut WriteBatch::new(), &synced()).expect("a batch of nothing");
    assert_eq!(db.latest_sequence(), 4);
}

#[test]
fn a_snapshot_shows_its_moment_through_flushes() {
    let directory = tempfile::tempdir().expect("a directory");
    let db = Db::open(directory.path(), &options("")).expect("a new database");
    let family = default_family(&db);
    let written = WriteOptions::default();
    let mut snapshots = Vec::new();
    for round in 0..5 {
        db.put(&family, b"key", format!("{round}").as_bytes(), &written).expect("a put");
        db.put(&family, b"key", format!("{round}!").as_bytes(), &written).expect("a put");
        snapshots.push(db.snapshot());
        if round % 2 == 1 {
            db.flush(&family).expect("a flush");
        }
    }
    db.delete(&family, b"key", &written).expect("a delete");
    db.flush(&family).expect("a flush");
    assert_eq!(get(&db, "key"), None);
    for (round, snapshot) in snapshots.into_iter().enumerate() {
        let read = tailwater::ReadOptions { snapshot: Some(snapshot), ..Default::default() };
        let value = db.get(&family, b"key", &read).expect("a get");
        assert_eq!(value, Some(format!("{round}!").into_bytes()));
    }
}
