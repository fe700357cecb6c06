//! A database written by this engine, as its users see it.
#![cfg(not(loom))]

use tailwater::{Db, OpenOptions, ReadOptions, WriteBatch, WriteOptions};

fn options(text: &str) -> OpenOptions {
    let mut options = OpenOptions::default();
    options.set_options("create_if_missing=true").expect("options");
    options.set_options(text).expect("options");
    options
}

fn get(db: &Db, family: &str, key: &str) -> Option<String> {
    let family = db.column_family(family).expect("a column family");
    let value = db.get(&family, key.as_bytes(), &ReadOptions::default()).expect("a get");
    value.map(|value| String::from_utf8(value).expect("text"))
}

#[test]
fn what_is_written_is_read_and_found_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("db");
    let written = WriteOptions::default();
    {
        let db = Db::open(&path, &options("")).expect("a new database");
        let default = db.column_family("default").expect("the default family");
        db.put(&default, b"a", b"1", &written).expect("a put");
        db.put(&default, b"b", b"2", &WriteOptions { sync: true, ..written }).expect("a put");
        db.delete(&default, b"a", &written).expect("a delete");
        assert_eq!((get(&db, "default", "a"), get(&db, "default", "b")), (None, Some("2".into())));
        db.flush(&default).expect("a flush");
        assert_eq!((get(&db, "default", "a"), get(&db, "default", "b")), (None, Some("2".into())));
        let other = db.create_column_family("other", default.options()).expect("a family");
        let mut batch = WriteBatch::new();
        batch.put(0, b"c", b"3").expect("a record");
        batch.put(other.id(), b"c", b"4").expect("a record");
        db.write(&mut batch, &written).expect("a batch");
        db.close().expect("closing");
    }
    for _ in 0..2 {
        let db = Db::open(&path, &options("")).expect("the database again");
        assert_eq!(get(&db, "default", "a"), None);
        assert_eq!(get(&db, "default", "b"), Some("2".into()));
        assert_eq!(get(&db, "default", "c"), Some("3".into()));
        assert_eq!(get(&db, "other", "c"), Some("4".into()));
    }
    let report = tailwater::verify::verify(&path, &options(""), &mut |_| {});
    assert_eq!(report.findings, []);
}
