//! Recovery from the files that an earlier opening of the database left.

use std::path::Path;

use tailwater::{Db, WriteOptions};
use tailwater_io::Storage;
use tailwater_io::sim::SimStorage;
use tailwater_io::{Create, IoMode, Purpose};

use crate::support::{default_family, get, get_from, logs, names, options, put, simulated};

const PATH: &str = "/db";

fn open(disk: &SimStorage, text: &str) -> Db {
    Db::open(PATH, &simulated(disk, text)).expect("a database")
}

/// Regression test: with `track_and_verify_wals`, a new database that had never been written to
/// could not be reopened, since it had no log.
#[test]
fn a_new_database_may_track_its_logs() {
    let disk = SimStorage::new(1);
    for _ in 0..3 {
        let db = open(&disk, "track_and_verify_wals=true");
        put(&db, "key", "value").expect("a put");
        db.flush_all().expect("a flush");
        put(&db, "key", "value").expect("a put");
    }
}

/// Regression test: a missing directory for tables was created only together with a new database.
/// An existing database could not be opened if such a directory was missing.
#[test]
fn missing_directories_of_an_existing_database_are_created() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("db");
    drop(Db::open(&path, &options("")).expect("a new database"));
    let elsewhere = directory.path().join("elsewhere");
    let more = format!("create_if_missing=false;db_paths={}", elsewhere.display());
    let db = Db::open(&path, &options(&more)).expect("the directory is made");
    put(&db, "key", "value").expect("a put");
    db.flush_all().expect("a flush");
    assert!(elsewhere.is_dir());
}

/// Regression test: a log in a recycled file was followed by remains of an older log. Recovery took
/// the remains for the end of all logs and ignored the next log. If tables of one column family
/// held later writes, the database could not be opened.
#[test]
fn a_complete_recycled_log_has_no_remains_after_its_end() {
    let disk = SimStorage::new(1);
    let text = "recycle_log_file_num=1";
    let db = open(&disk, text);
    let default = default_family(&db);
    let other = db.create_cf("other", &default.options()).expect("a family");
    for _ in 0..3 {
        put(&db, "long", &"v".repeat(3000)).expect("a put");
        db.flush_all().expect("a flush");
    }
    db.put_cf_opt(&other, b"a", b"1", &WriteOptions::default()).expect("a put");
    for _ in 0..2 {
        put(&db, "b", "2").expect("a put");
        db.flush_cf(&default).expect("a flush");
    }
    let db = open(&disk.process_crash_image(1), text);
    let other = db.cf_handle("other").expect("the other family");
    assert_eq!(get_from(&db, &other, "a").as_deref(), Some("1"));
    assert_eq!(get(&db, "b").as_deref(), Some("2"));
}

/// Regression test: with `avoid_flush_during_recovery`, recovery kept a log that ended with an
/// incomplete record. Later writes were flushed to tables. The next opening then assumed that the
/// log had lost writes at its end.
#[test]
fn a_log_that_is_kept_ends_with_a_whole_record() {
    let disk = SimStorage::new(1);
    let text = "avoid_flush_during_recovery=true";
    let db = open(&disk, text);
    let default = default_family(&db);
    let other = db.create_cf("other", &default.options()).expect("a family");
    db.put_cf_opt(&other, b"a", b"1", &WriteOptions::default()).expect("a put");
    put(&db, "b", "2").expect("a put");
    put(&db, "c", "3").expect("a put");
    let cut = disk.process_crash_image(1);
    let log = Path::new(PATH).join(logs(&cut, PATH.as_ref()).pop().expect("a log"));
    let mut file =
        cut.create(&log, Create::Existing, IoMode::Buffered, Purpose::Wal).expect("the log");
    let length = file.length().expect("its length");
    file.truncate(length - 2).expect("a log that is cut short");
    drop(file);

    let db = open(&cut, text);
    db.flush_cf(&default_family(&db)).expect("a flush");
    let db = open(&cut.process_crash_image(1), text);
    let other = db.cf_handle("other").expect("the other family");
    assert_eq!(get_from(&db, &other, "a").as_deref(), Some("1"));
    assert_eq!((get(&db, "b").as_deref(), get(&db, "c")), (Some("2"), None));
}

/// Regression test: a power cut may lose an unsynced log, or the end of a log, although a later log
/// survives. Recovery replayed the later log although the writes before it were lost.
#[test]
fn replay_stops_at_a_gap_between_logs() {
    let disk = SimStorage::new(1);
    let db = open(&disk, "");
    let other = db.create_cf("other", &default_family(&db).options()).expect("a family");
    put(&db, "zero", "0").expect("a put");
    put(&db, "one", "1").expect("a put");
    db.put_cf_opt(&other, b"a", b"1", &WriteOptions::default()).expect("a put");
    // The flush begins another log. The first log is still needed for the default column family,
    // which is not flushed.
    db.flush_cf(&other).expect("a flush");
    put(&db, "two", "2").expect("a put");
    let logs = |disk: &SimStorage| logs(disk, PATH.as_ref());
    let [first, second] = &logs(&disk)[..] else { panic!("{:?}", logs(&disk)) };
    let length_of_one = |disk: &SimStorage| {
        let path = Path::new(PATH).join(first);
        disk.metadata(&path).expect("the log").length
    };

    let missing = disk.process_crash_image(1);
    missing.remove(&Path::new(PATH).join(first)).expect("removing a log");
    // The flush has synced this log, so a crash cannot lose it. Its absence must be an error.
    let error = Db::open(PATH, &simulated(&missing, "")).expect_err("a log is missing");
    assert!(error.to_string().contains("is missing; it may have held writes"), "{error}");
    let skipping = simulated(&missing, "wal_recovery_mode=kSkipAnyCorruptedRecords");
    let reader = Db::open_read_only(PATH, &skipping).expect("a reader");
    let left_out = &reader.left_out()[0];
    assert!(left_out.path.ends_with(first), "{left_out:?}");

    let shorter = disk.process_crash_image(1);
    let mut file = shorter
        .create(&Path::new(PATH).join(first), Create::Existing, IoMode::Buffered, Purpose::Wal)
        .expect("the log");
    file.truncate(length_of_one(&disk) / 2).expect("a lost end");
    drop(file);
    let error = Db::open(PATH, &simulated(&shorter, "")).expect_err("tables are ahead");
    assert!(error.to_string().contains("hold later writes"), "{error}");
    assert!(second > first);
}

#[test]
fn unsynced_logs_after_a_gap_are_kept_aside() {
    let disk = SimStorage::new(1);
    let db = open(
        &disk,
        "write_buffer_size=64K;max_write_buffer_number=9;\
                          min_write_buffer_number_to_merge=8",
    );
    let value = "v".repeat(1000);
    for key in 0..150 {
        put(&db, &format!("{key:03}"), &value).expect("a put");
    }
    let logs = logs(&disk, PATH.as_ref());
    assert!(logs.len() >= 3, "{logs:?}");
    let image = disk.process_crash_image(1);
    image.remove(&Path::new(PATH).join(&logs[1])).expect("removing a log");
    let reader = Db::open_read_only(PATH, &simulated(&image, "")).expect("a reader");
    assert!(reader.left_out().iter().all(|left_out| left_out.torn_tail));
    let db = open(&image, "");
    let found = (0..150).take_while(|key| get(&db, &format!("{key:03}")).is_some()).count();
    assert!(found > 10 && found < 100, "{found}");
    assert!((found..150).all(|key| get(&db, &format!("{key:03}")).is_none()), "nothing behind it");
    let kept = names(&image, &Path::new(PATH).join("lost"));
    assert_eq!(kept, logs[2..]);
}
