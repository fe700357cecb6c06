//! Tests that a database whose LOCK was removed or replaced stops writing.

use std::path::Path;

use tailwater::options::ColumnFamilyOptions;
use tailwater::{CompactRangeOptions, Db, ErrorKind, PosixStorage};
use tailwater_io::Storage;
use tailwater_io::sim::SimStorage;

use crate::support::{default_family, failure, get, options, put, simulated};

/// Regression test: after the LOCK of an open database was removed, another process could open the
/// database, too. A flush of the first process then failed because the other process had created a
/// table with the same number, and removed that table; the database could not be opened any more.
#[test]
fn a_database_without_its_lock_changes_nothing() {
    for replaced in [false, true] {
        let disk = SimStorage::new(1);
        let options = simulated(&disk, "disable_auto_compactions=true");
        let first = Db::open("/db", &options).expect("a database");
        put(&first, "a", "1").expect("a put");
        first.flush_all().expect("a flush");
        put(&first, "b", "1").expect("a put");
        disk.remove(Path::new("/db/LOCK")).expect("removing the LOCK");
        let second = replaced.then(|| Db::open("/db", &options).expect("it is not locked"));

        let expected = "LOCK of the directory was removed or replaced";
        let (kind, error) = failure(first.flush_all());
        assert!(kind == ErrorKind::Io && error.contains(expected), "{error}");
        for refused in [
            put(&first, "c", "1"),
            first.compact_range_cf_opt(
                &default_family(&first),
                None,
                None,
                &CompactRangeOptions::default(),
            ),
            first.create_cf("other", &ColumnFamilyOptions::default()).map(drop),
            first.resume(),
        ] {
            let (_, error) = failure(refused);
            assert!(error.contains(expected), "{error}");
        }
        let latched = first.background_error().expect("writes are refused");
        assert!(latched.to_string().contains(expected), "{latched}");
        assert_eq!(get(&first, "b").as_deref(), Some("1"), "reads continue");

        let second = second.unwrap_or_else(|| Db::open("/db", &options).expect("not locked"));
        put(&second, "d", "2").expect("a put");
        second.flush_all().expect("a flush");
        first.close().expect_err("it was refused to write");
        put(&second, "e", "2").expect("a put");
        drop(first);
        second.close().expect("closing");
        drop(second);
        let db = Db::open("/db", &options).expect("a database");
        for (key, value) in [("a", "1"), ("b", "1"), ("d", "2"), ("e", "2")] {
            assert_eq!(get(&db, key).as_deref(), Some(value), "{key}");
        }
        assert_eq!(get(&db, "c"), None);
    }
}

/// Regression test: a database whose LOCK had been removed acknowledged writes that another process
/// would neither see nor keep.
#[test]
fn a_write_notices_that_the_lock_was_removed() {
    let disk = SimStorage::new(1);
    let options = simulated(&disk, "");
    let db = Db::open("/db", &options).expect("a database");
    put(&db, "a", "1").expect("a put");
    disk.remove(Path::new("/db/LOCK")).expect("removing the LOCK");
    disk.clock().advance(10_000_000);
    put(&db, "b", "1").expect_err("the LOCK was removed");
    put(&db, "c", "1").expect_err("writes stay refused");
}

/// Regression test: like the test above, for a database without writes.
#[test]
fn an_idle_database_notices_that_its_lock_was_removed() {
    let directory = tempfile::tempdir().expect("a directory");
    let db = Db::open(directory.path(), &options("")).expect("a database");
    PosixStorage::new().remove(&directory.path().join("LOCK")).expect("removing the LOCK");
    while db.background_error().is_none() {
        std::thread::yield_now();
    }
    put(&db, "a", "1").expect_err("the LOCK was removed");
}

/// Regression test: a program that removed the files of its open database, as tests with temporary
/// directories do, could not go on, unlike with RocksDB, if a file appeared in the directory
/// meanwhile, so that the directory itself could not be removed. As soon as another process has the
/// lock, it must not go on.
#[test]
fn a_database_whose_files_were_removed_goes_on_until_another_takes_its_place() {
    let disk = SimStorage::new(1);
    let options = simulated(&disk, "");
    let db = Db::open("/db", &options).expect("a database");
    for entry in disk.list(Path::new("/db")).expect("the directory") {
        disk.remove(&Path::new("/db").join(entry.name)).expect("removing a file");
    }
    for key in ["a", "b"] {
        disk.clock().advance(10_000_000);
        put(&db, key, "1").expect("a put");
        db.flush_all().expect("a flush");
        assert_eq!(get(&db, key).as_deref(), Some("1"));
    }
    let _other = disk.lock(Path::new("/db/LOCK")).expect("it is not locked");
    disk.clock().advance(10_000_000);
    put(&db, "c", "1").expect_err("another database is there");
}

/// A database whose directory was renamed still holds its LOCK: it continues to write to its log.
#[test]
fn a_renamed_directory_keeps_its_lock() {
    let disk = SimStorage::new(1);
    let options = simulated(&disk, "");
    let db = Db::open("/db", &options).expect("a database");
    disk.rename(Path::new("/db"), Path::new("/renamed")).expect("renaming");
    disk.clock().advance(10_000_000);
    put(&db, "a", "1").expect("a put");
    let (kind, _) = failure(Db::open("/renamed", &options));
    assert_eq!(kind, ErrorKind::Busy);
    let _ = Db::open("/db", &options).expect("another database");
    disk.clock().advance(10_000_000);
    put(&db, "b", "1").expect("a put");
}
