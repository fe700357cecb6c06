//! Recovery from the files that an earlier opening of the database left.

use std::path::Path;
use std::sync::Arc;

use tailwater::{Db, WriteBufferManager, WriteOptions};
use tailwater_io::Storage;
use tailwater_io::sim::SimStorage;
use tailwater_io::{Create, IoMode, Purpose};

use crate::support::{
    default_family, findings, get, get_from, level_0, log, logs, names, options, put, simulated,
};

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

/// Options with which memtables grow in small steps, and with which logs are kept if possible.
const SMALL_STEPS: &str =
    "arena_block_size=4096;disable_auto_compactions=true;avoid_flush_during_recovery=true";

/// Returns a disk after a crash of the process, with a database of two column families that has
/// 600,000 bytes in its logs: each of 200 keys was put three times.
fn crashed_with_full_logs() -> SimStorage {
    let disk = SimStorage::new(1);
    let db = open(&disk, SMALL_STEPS);
    let other = db.create_cf("other", &default_family(&db).options()).expect("a family");
    for number in 0..300 {
        let (key, value) = (format!("{:03}", number % 100), format!("{number} {:1000}", ""));
        put(&db, &key, &value).expect("a put");
        let unsynced = WriteOptions::default();
        db.put_cf_opt(&other, key.as_bytes(), value.as_bytes(), &unsynced).expect("a put");
    }
    disk.process_crash_image(1)
}

/// Opens the database with a write buffer manager of `limit` bytes.
fn open_within(disk: &SimStorage, text: &str, limit: usize) -> (Db, Arc<WriteBufferManager>) {
    let manager = Arc::new(WriteBufferManager::new(limit, false));
    let mut options = simulated(disk, text);
    options.set_write_buffer_manager(Arc::clone(&manager));
    (Db::open(PATH, &options).expect("the database"), manager)
}

fn assert_last_values(db: &Db, until: usize) {
    for family in ["default", "other"].map(|name| db.cf_handle(name).expect("a family")) {
        for number in until - 100..until {
            let value = get_from(db, &family, &format!("{:03}", number % 100));
            let value = value.unwrap_or_else(|| panic!("{number} is lost"));
            assert_eq!(value.trim(), number.to_string());
        }
    }
}

#[test]
fn data_beyond_the_limit_is_flushed_while_the_logs_are_replayed() {
    let crashed = crashed_with_full_logs();
    for (limit, is_exceeded) in [(100_000, true), (10 << 20, false), (0, false)] {
        let disk = crashed.process_crash_image(1);
        let mut reading = simulated(&disk, SMALL_STEPS);
        reading.set_write_buffer_manager(Arc::new(WriteBufferManager::new(limit, false)));
        let reader = Db::open_read_only(PATH, &reading).expect("a database");
        assert_last_values(&reader, 300);
        drop(reader);
        let (db, manager) = open_within(&disk, SMALL_STEPS, limit);
        assert_last_values(&db, 300);
        let tables = level_0(&db);
        assert_eq!((tables > 2, tables > 0), (is_exceeded, is_exceeded), "{tables} tables");
        assert!(limit == 0 || manager.memory_usage() < limit, "{}", manager.memory_usage());
        assert_eq!(log(&disk, PATH).contains("the logs are replayed again"), is_exceeded);
        let image = disk.crash_image(1);
        drop(db);
        assert_last_values(&open(&image, ""), 300);
        assert_eq!(findings(PATH.as_ref(), &simulated(&image, "")), []);
    }
}

#[test]
fn small_flushes_do_not_relieve_a_limit_that_others_have_reached() {
    let disk = crashed_with_full_logs();
    let manager = Arc::new(WriteBufferManager::new(1 << 20, false));
    let mut elsewhere = simulated(&SimStorage::new(1), SMALL_STEPS);
    // Its memtable reaches the limit, and is not flushed before the next write.
    elsewhere.set_write_buffer_manager(Arc::clone(&manager));
    let busy = Db::open("/busy", &elsewhere).expect("a database");
    put(&busy, "a", &"v".repeat(1 << 20)).expect("a put");
    let mut options = simulated(&disk, SMALL_STEPS);
    options.set_write_buffer_manager(Arc::clone(&manager));
    let db = Db::open(PATH, &options).expect("the database");
    assert_last_values(&db, 300);
    // The logs have 37 times the least part of the limit that is flushed, 16 KiB.
    assert!((10..=45).contains(&level_0(&db)), "{} tables", level_0(&db));
}

/// Tests logs with a torn end, and with damage, in a database whose data exceeds the limit.
#[test]
fn a_second_replay_leaves_out_the_same_as_the_first() {
    for is_torn in [true, false] {
        let crashed = crashed_with_full_logs();
        let path = Path::new(PATH).join(logs(&crashed, PATH.as_ref()).pop().expect("a log"));
        let mut file =
            crashed.create(&path, Create::Existing, IoMode::Buffered, Purpose::Wal).expect("a log");
        let length = file.length().expect("its length");
        if is_torn {
            file.truncate(length - 2).expect("a log that is cut short");
        } else {
            file.write_at(&[0xff; 8], length / 2, Purpose::Wal).expect("damage");
        }
        drop(file);
        let mut found = Vec::new();
        for limit in [100_000, 0] {
            let disk = crashed.process_crash_image(1);
            let (db, _) = open_within(&disk, SMALL_STEPS, limit);
            let left_out: Vec<_> = db.left_out().to_vec();
            let lost = disk.list(&Path::new(PATH).join("lost")).map_or(0, |lost| lost.len());
            let value = |key| get(&db, &format!("{key:03}")).map(|value| value.trim().to_owned());
            let keys = (0..100).map(value);
            found.push((left_out, lost, keys.collect::<Vec<_>>()));
        }
        assert_eq!((found[0].0.len(), found[0].1), (1, usize::from(!is_torn)));
        assert_eq!(found[0], found[1]);
    }
}
