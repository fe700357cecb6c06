//! What an earlier opening left, and what is made of it.

use std::path::Path;

use tailwater::{Db, WriteOptions};
use tailwater_io::Storage;
use tailwater_io::sim::SimStorage;
use tailwater_io::{Create, IoMode, Purpose};

use crate::support::{default_family, get, get_from, names, options, put, simulated};

const PATH: &str = "/db";

fn open(disk: &SimStorage, text: &str) -> Db {
    Db::open(PATH.as_ref(), &simulated(disk, text)).expect("a database")
}

/// A database that was just made was refused for having no log.
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

/// A directory for tables that was not there was made for a new database only; another did not
/// open.
#[test]
fn a_database_may_be_given_further_directories() {
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

/// What an older log had left behind the end of one that was written over it stayed there when the
/// next was begun. Replay took it for the end of all logs, and a database in which tables of one
/// column family held what came after did not open.
#[test]
fn a_recycled_log_that_is_complete_has_nothing_behind_its_end() {
    let disk = SimStorage::new(1);
    let text = "recycle_log_file_num=1";
    let db = open(&disk, text);
    let default = default_family(&db);
    let other = db.create_column_family("other", default.options()).expect("a family");
    for _ in 0..3 {
        put(&db, "long", &"v".repeat(3000)).expect("a put");
        db.flush_all().expect("a flush");
    }
    db.put(&other, b"a", b"1", &WriteOptions::default()).expect("a put");
    for _ in 0..2 {
        put(&db, "b", "2").expect("a put");
        db.flush(&default).expect("a flush");
    }
    let db = open(&disk.process_crash_image(1), text);
    let other = db.column_family("other").expect("the other family");
    assert_eq!(get_from(&db, &other, "a").as_deref(), Some("1"));
    assert_eq!(get(&db, "b").as_deref(), Some("2"));
}

/// A log that ended inside a record was kept under avoid_flush_during_recovery. Once tables held
/// what came after, the next opening took its end for the loss of that.
#[test]
fn a_log_that_is_kept_ends_with_a_whole_record() {
    let disk = SimStorage::new(1);
    let text = "avoid_flush_during_recovery=true";
    let db = open(&disk, text);
    let default = default_family(&db);
    let other = db.create_column_family("other", default.options()).expect("a family");
    db.put(&other, b"a", b"1", &WriteOptions::default()).expect("a put");
    put(&db, "b", "2").expect("a put");
    put(&db, "c", "3").expect("a put");
    let cut = disk.process_crash_image(1);
    let logs = names(&cut, Path::new(PATH)).into_iter().filter(|name| name.ends_with(".log"));
    let log = Path::new(PATH).join(logs.max().expect("a log"));
    let mut file =
        cut.create(&log, Create::Existing, IoMode::Buffered, Purpose::Wal).expect("the log");
    let length = file.length().expect("its length");
    file.truncate(length - 2).expect("a log that is cut short");
    drop(file);

    let db = open(&cut, text);
    db.flush(&default_family(&db)).expect("a flush");
    let db = open(&cut.process_crash_image(1), text);
    let other = db.column_family("other").expect("the other family");
    assert_eq!(get_from(&db, &other, "a").as_deref(), Some("1"));
    assert_eq!((get(&db, "b").as_deref(), get(&db, "c")), (Some("2"), None));
}
