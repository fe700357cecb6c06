//! Ingestions beside what others do at the same time: closing.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use tailwater::{ColumnFamily, Db, ErrorKind, IngestOptions, ReadOptions};

use crate::gate::{Call, Gate};
use crate::support::{default_family, findings, make_file, options, put};

/// All keys and values of a column family, as one read without a snapshot sees them.
fn all(db: &Db, family: &ColumnFamily) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
    let mut found = Vec::new();
    let mut iterator = db.iterator(family, &ReadOptions::default()).expect("an iterator");
    iterator.seek_to_first().expect("a seek");
    while let Some((key, value)) = iterator.entry() {
        found.push((text(key), text(value)));
        iterator.next().expect("a step");
    }
    found
}

/// An ingestion that was under way when its database was closed went on after the lock was given
/// up, and removed tables of whoever opened the database next: those that had got the numbers which
/// it had taken for its own.
#[test]
fn closing_waits_for_an_ingestion() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("db");
    let gate = Gate::new();
    let db = Db::open(&path, &gate.options("")).expect("a database");
    let files: Vec<PathBuf> =
        (0..3).map(|number| directory.path().join(format!("{number}.file"))).collect();
    for (number, file) in files.iter().enumerate() {
        make_file(&gate.options(""), file, &[&format!("file{number}")], "new");
    }
    gate.stop(Call::Link, 1);
    thread::scope(|scope| {
        let ingesting = scope.spawn(|| {
            let files: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
            let options = IngestOptions { link_files: true, ..IngestOptions::default() };
            db.ingest_external_file(&default_family(&db), &files, &options)
        });
        gate.wait();
        let closing = scope.spawn(|| db.close());
        while put(&db, "key", "value").is_ok() {
            thread::yield_now();
        }
        // Who would give up the lock without waiting has done so by the last of them.
        let others: Vec<_> = (0..5)
            .map(|_| {
                thread::sleep(Duration::from_millis(40));
                Db::open(&path, &options("")).map(drop).map_err(|error| error.kind())
            })
            .collect();
        gate.open();
        assert!(others.iter().all(|other| *other == Err(ErrorKind::Busy)), "{others:?}");
        ingesting.join().expect("a thread").expect_err("an ingestion while closing");
        closing.join().expect("a thread").expect("closing");
    });
    let refused = db.ingest_external_file(&default_family(&db), &[&files[0]], &Default::default());
    assert_eq!(refused.expect_err("a closed database").kind(), ErrorKind::InvalidArgument);
    assert_eq!(findings(&path, &options("")), []);
    let next = Db::open(&path, &options("")).expect("a database");
    assert!(all(&next, &default_family(&next)).iter().all(|(key, _)| key == "key"));
}
