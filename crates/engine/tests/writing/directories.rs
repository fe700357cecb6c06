//! Which directories belong to a database, and which files in them it may remove.

use std::path::Path;

use tailwater::{BottommostRewrite, CompactRangeOptions, Db, ErrorKind, OpenOptions, Result};
use tailwater_io::sim::SimStorage;
use tailwater_io::{Create, IoMode, Purpose, Storage};

use crate::support::{default_family, failure, get, put, simulated};

const DB: &str = "/home/db";

/// Returns a disk and an open database on it, which has some tables and an unflushed log.
fn database(text: &str) -> (SimStorage, Db) {
    let disk = SimStorage::new(1);
    disk.create_directory("/home".as_ref()).expect("a directory");
    let db = Db::open(DB, &simulated(&disk, text)).expect("a new database");
    for key in ["a", "b", "c"] {
        put(&db, key, "1").expect("a put");
        db.flush_all().expect("a flush");
    }
    put(&db, "d", "only in the log").expect("a put");
    (disk, db)
}

fn open(disk: &SimStorage, path: &str, text: &str) -> Result<Db> {
    Db::open(path, &simulated(disk, text))
}

fn read_only(disk: &SimStorage, path: &str, text: &str) -> Result<Db> {
    Db::open_read_only(path, &simulated(disk, text))
}

fn holds_all(db: &Db) {
    for key in ["a", "b", "c"] {
        assert_eq!(get(db, key).as_deref(), Some("1"), "{key}");
    }
    assert_eq!(get(db, "d").as_deref(), Some("only in the log"));
}

fn names(disk: &SimStorage, directory: &str, end: &str) -> Vec<String> {
    let entries = disk.list(directory.as_ref()).expect("a directory");
    entries.into_iter().map(|entry| entry.name).filter(|name| name.ends_with(end)).collect()
}

fn copy_directory(disk: &SimStorage, from: &str, to: &str) {
    disk.create_directory(to.as_ref()).expect("a directory");
    for entry in disk.list(from.as_ref()).expect("a directory") {
        if !entry.is_directory && entry.name != "LOCK" {
            copy_file(disk, &Path::new(from).join(&entry.name), &Path::new(to).join(&entry.name));
        }
    }
}

fn copy_file(disk: &SimStorage, from: &Path, to: &Path) {
    let (mode, purpose) = (IoMode::Buffered, Purpose::Metadata);
    let file = disk.open(from, mode, purpose).expect("a file");
    let mut bytes = vec![0; file.length().expect("a length") as usize];
    file.read_full_at(&mut bytes, 0, purpose).expect("a read");
    let mut copy = disk.create(to, Create::New, mode, purpose).expect("a file");
    copy.write_all_at(&bytes, 0, purpose).expect("a write");
}

/// Regression test: if an option named the database's own directory by another path, such as a
/// relative one, opening the database removed all tables.
#[test]
fn a_directory_may_have_several_names() {
    for text in ["db_paths=/home/db", "wal_dir=/home/db", "db_paths=/home/link;wal_dir=/home/db"] {
        let (disk, db) = database("");
        drop(db);
        disk.create_symbolic_link("db".as_ref(), "/home/link".as_ref()).expect("a link");
        disk.set_working_directory("/home".as_ref()).expect("a directory");
        for path in ["db", "link", "./db/../link", DB] {
            let db =
                open(&disk, path, text).unwrap_or_else(|error| panic!("{path}, {text}: {error}"));
            holds_all(&db);
            drop(db);
            holds_all(&read_only(&disk, path, text).expect("a reader"));
        }
    }
}

/// Regression test: if `db_paths` or `cf_paths` had changed since the last opening, opening the
/// database removed all tables.
#[test]
fn tables_outside_the_configured_directories_are_not_removed() {
    for (before, after) in [
        ("", "db_paths=/tables"),
        ("", "db_paths=/tables:/home/db"),
        ("db_paths=/tables", ""),
        ("db_paths=/tables", "db_paths=/other:/tables"),
        ("cf_paths=/tables", ""),
    ] {
        let (disk, db) = database(before);
        drop(db);
        for attempt in [open(&disk, DB, after), read_only(&disk, DB, after)] {
            let (kind, message) = failure(attempt.map(|_| ()));
            assert_eq!(kind, ErrorKind::Corruption, "{before} -> {after}: {message}");
            assert!(message.contains(".sst: the MANIFEST names this file"), "{message}");
            // The error names the directory in which the missing file is, if the database has
            // claimed that directory or an option names it.
            if !before.is_empty() || after.contains("/home/db") {
                assert!(message.contains("there is a file of that name in"), "{message}");
            }
        }
        holds_all(&open(&disk, DB, before).expect("as it was"));
    }
}

/// Regression test: opening a database removed live tables that had LevelDB's file extension.
#[test]
fn tables_may_have_leveldb_names() {
    let (disk, db) = database("");
    drop(db);
    for name in names(&disk, DB, ".sst") {
        let old = Path::new(DB).join(&name);
        disk.rename(&old, &old.with_extension("ldb")).expect("renaming");
    }
    let db = open(&disk, DB, "").expect("the database");
    holds_all(&db);
    db.checkpoint("/copy").expect("a checkpoint");
    let bottommost_level_compaction = BottommostRewrite::Force;
    let rewrite =
        CompactRangeOptions::new().with_bottommost_level_compaction(bottommost_level_compaction);
    db.compact_range_cf_opt(&default_family(&db), None, None, &rewrite).expect("compacting");
    holds_all(&db);
    drop(db);
    holds_all(&open(&disk, DB, "").expect("the database"));
    assert_eq!(names(&disk, DB, ".ldb"), [""; 0], "compacted tables are removed by their names");
    holds_all(&open(&disk, "/copy", "").expect("the checkpoint"));
}

/// Regression test: opening a database did not detect missing and truncated tables. Only a read of
/// such a table failed.
#[test]
fn missing_and_truncated_files_are_detected_when_opening() {
    let (disk, db) = database("");
    drop(db);
    let table = Path::new(DB).join(&names(&disk, DB, ".sst")[0]);
    let mut file = disk
        .create(&table, Create::Existing, IoMode::Buffered, Purpose::Metadata)
        .expect("a table");
    let length = disk.metadata(&table).expect("a table").length;
    file.truncate(length - 1).expect("cutting");
    let message = failure(open(&disk, DB, "").map(|_| ())).1;
    let expected = format!("{} bytes, and the MANIFEST says {length}", length - 1);
    assert!(message.contains(&expected), "{message}");
    disk.remove(&table).expect("removing");
    for attempt in [open(&disk, DB, ""), read_only(&disk, DB, "")] {
        let (kind, message) = failure(attempt.map(|_| ()));
        assert_eq!(kind, ErrorKind::Corruption);
        assert!(message.contains(&table.display().to_string()), "{message}");
    }
}

/// Regression test: a database with a log directory outside its home was copied. Opening the copy
/// with the same options removed files of the original.
#[test]
fn a_copy_does_not_touch_the_originals_directories() {
    let text = "wal_dir=/logs;db_paths=/tables;avoid_flush_during_recovery=true";
    let (disk, db) = database(text);
    copy_directory(&disk, DB, "/copy");
    for attempt in [open(&disk, "/copy", text), read_only(&disk, "/copy", text)] {
        let (kind, message) = failure(attempt.map(|_| ()));
        assert_eq!(kind, ErrorKind::InvalidArgument, "{message}");
        assert!(message.contains("claimed by database"), "{message}");
        assert!(message.contains("in /home/db"), "{message}");
    }
    Db::destroy("/copy", &simulated(&disk, text)).expect("destroying the copy");
    assert!(disk.metadata("/copy".as_ref()).is_err());
    holds_all(&db);
    drop(db);
    holds_all(&open(&disk, DB, text).expect("the original"));
}

/// Tests a database with directories outside its home. The database can use them after the home is
/// renamed, and a restored copy can adopt them. The inode of the copy's home differs from the inode
/// in the claim files, as after a move to another disk.
#[test]
fn a_moved_database_adopts_its_directories() {
    let text = "wal_dir=/logs;db_paths=/tables";
    let (disk, db) = database(text);
    drop(db);
    disk.rename(DB.as_ref(), "/renamed".as_ref()).expect("renaming");
    holds_all(&open(&disk, "/renamed", text).expect("the same directory"));
    copy_directory(&disk, "/renamed", "/restored");
    assert!(open(&disk, "/restored", text).is_err());
    let mut options = simulated(&disk, text);
    options.set_adopt_directories(true);
    holds_all(&Db::open("/restored", &options).expect("an adopting opening"));
    holds_all(&open(&disk, "/restored", text).expect("its own now"));
    let message = failure(open(&disk, "/renamed", text).map(|_| ())).1;
    assert!(message.contains("in /restored"), "{message}");
}

/// Regression test: when a database was first opened with a directory that it had not yet claimed,
/// it removed files there.
#[test]
fn files_older_than_a_claim_are_never_removed() {
    let (disk, db) = database("");
    drop(db);
    copy_directory(&disk, DB, "/others");
    for name in ["CURRENT", "IDENTITY"] {
        disk.remove(&Path::new("/others").join(name)).expect("removing");
    }
    let before: Vec<String> =
        [".sst", ".log"].iter().flat_map(|end| names(&disk, "/others", end)).collect();
    disk.create_directory("/new".as_ref()).expect("a directory");
    drop(open(&disk, "/new", "").expect("a new database"));
    let text = "db_paths=/new:/others";
    for _ in 0..3 {
        let db = open(&disk, "/new", text).expect("with one more directory");
        put(&db, "x", "y").expect("a put");
        db.flush_all().expect("a flush");
        drop(db);
        let after: Vec<String> =
            [".sst", ".log"].iter().flat_map(|end| names(&disk, "/others", end)).collect();
        assert!(before.iter().all(|name| after.contains(name)), "{before:?}, {after:?}");
    }
}

/// Regression test: creating a database in a directory replayed and removed the logs of another
/// database there. It also overwrote the tables of a database that had lost its CURRENT file.
#[test]
fn a_new_database_refuses_directories_with_files_of_others() {
    let (disk, db) = database("wal_dir=/logs");
    let (kind, message) = failure(open(&disk, "/new", "wal_dir=/logs").map(|_| ()));
    assert_eq!(kind, ErrorKind::InvalidArgument, "{message}");
    drop(db);
    disk.remove("/logs/TAILWATER-CLAIM".as_ref()).expect("as RocksDB leaves it");
    let message = failure(open(&disk, "/newer", "wal_dir=/logs").map(|_| ())).1;
    assert!(message.contains("wal_dir contains existing log file"), "{message}");
    let message = failure(open(&disk, "/newest", "db_paths=/home/db").map(|_| ())).1;
    assert!(message.contains("is the home of another database"), "{message}");
    holds_all(&open(&disk, DB, "wal_dir=/logs").expect("the original"));

    disk.remove(&Path::new(DB).join("CURRENT")).expect("removing CURRENT");
    let tables = names(&disk, DB, ".sst");
    let (kind, message) = failure(open(&disk, DB, "wal_dir=/logs").map(|_| ()));
    assert_eq!(kind, ErrorKind::Corruption, "{message}");
    assert!(message.contains("lost its CURRENT"), "{message}");
    assert_eq!(names(&disk, DB, ".sst"), tables);
}

/// Regression test: a database whose log directory was missing was opened without the writes in its
/// logs.
#[test]
fn a_missing_recorded_log_is_detected() {
    let (disk, db) = database("wal_dir=/logs");
    drop(db);
    for text in ["wal_dir=/elsewhere", ""] {
        for attempt in [open(&disk, DB, text), read_only(&disk, DB, text)] {
            let Err(error) = attempt else { panic!("opened with '{text}'") };
            let log = names(&disk, "/logs", ".log").pop().expect("a log");
            let number = log.trim_end_matches(".log").trim_start_matches('0');
            assert!(error.to_string().contains(number), "{error}");
        }
    }
    holds_all(&open(&disk, DB, "wal_dir=/logs").expect("the database"));
    // Moves the logs to the directory that the options name. The database then finds them.
    for log in names(&disk, "/logs", ".log") {
        disk.rename(&Path::new("/logs").join(&log), &Path::new(DB).join(&log)).expect("renaming");
    }
    holds_all(&open(&disk, DB, "").expect("the database with its logs"));
}

/// Tests an OPTIONS file with a log directory that no longer exists, while the logs are in the
/// directory of the database.
#[test]
fn a_missing_recorded_log_directory_falls_back_to_the_home() {
    let (disk, db) = database("");
    drop(db);
    let options = names(&disk, DB, "").into_iter().filter(|name| name.starts_with("OPTIONS-"));
    let newest = Path::new(DB).join(options.max().expect("an OPTIONS file"));
    let (mode, purpose) = (IoMode::Buffered, Purpose::Metadata);
    let file = disk.open(&newest, mode, purpose).expect("OPTIONS");
    let mut bytes = vec![0; file.length().expect("a length") as usize];
    file.read_full_at(&mut bytes, 0, purpose).expect("a read");
    let text = String::from_utf8(bytes)
        .expect("text")
        .replace("[DBOptions]\n", "[DBOptions]\n  wal_dir=/moved\n");
    assert!(text.contains("/moved"), "{text}");
    let mut file = disk.create(&newest, Create::Truncate, mode, purpose).expect("OPTIONS");
    file.write_all_at(text.as_bytes(), 0, purpose).expect("a write");
    let load = || OpenOptions::load_from(std::sync::Arc::new(disk.clone()), DB);
    let db = Db::open_read_only(DB, &load().expect("options")).expect("a reader");
    holds_all(&db);
    assert!(db.warnings()[0].contains("/moved does not exist"), "{:?}", db.warnings());
    let db = Db::open(DB, &load().expect("options")).expect("the database");
    holds_all(&db);
    drop(db);
    assert_eq!(load().expect("options").database().wal_dir, "");
}

/// Regression test: a file whose name has the largest possible number advanced the counter of file
/// numbers to its end.
#[test]
fn a_file_with_the_largest_number_is_ignored() {
    let (disk, db) = database("");
    drop(db);
    let odd = Path::new(DB).join("18446744073709551615.sst");
    disk.create(&odd, Create::New, IoMode::Buffered, Purpose::Metadata).expect("a file");
    for _ in 0..2 {
        holds_all(&open(&disk, DB, "").expect("the database"));
        assert!(disk.metadata(&odd).is_ok());
    }
}

/// Regression test: when a column family was dropped, the database forgot the directories of the
/// column family although they still contained files.
#[test]
fn a_dropped_column_family_leaves_no_files() {
    let (disk, db) = database("");
    let mut settings = (*default_family(&db).options()).clone();
    settings.cf_paths = vec![tailwater::options::DbPath { path: "/far".into(), target_size: 0 }];
    let far = db.create_cf("far", &settings).expect("a family");
    db.put_cf_opt(&far, b"k", b"v", &Default::default()).expect("a put");
    db.flush_cf(&far).expect("a flush");
    assert_eq!(names(&disk, "/far", ".sst").len(), 1);
    let crashed = disk.process_crash_image(1);
    db.drop_cf(&far).expect("dropping");
    // The disk after a crash just after the drop. The column family's table still exists.
    let dropped = disk.process_crash_image(2);
    drop((far, db));
    assert_eq!(names(&disk, "/far", ".sst"), [""; 0]);
    drop(open(&dropped, DB, "").expect("the database"));
    assert_eq!(names(&dropped, "/far", ""), [""; 0]);
    assert!(open(&crashed, DB, "").is_err(), "the family's table is in a directory of its own");
}

/// Regression test: `destroy` removed files that might belong to other programs or databases.
#[test]
fn destroying_removes_only_files_of_the_database() {
    let text = "wal_dir=/logs;db_paths=/tables";
    let (disk, db) = database(text);
    drop(db);
    for (directory, name) in [("/logs", "archive/000001.log"), (DB, "archive/000002.log")] {
        disk.create_directory(&Path::new(directory).join("archive")).expect("a directory");
        disk.create(&Path::new(directory).join(name), Create::New, IoMode::Buffered, Purpose::Wal)
            .expect("a log");
    }
    let unclaimed = disk.process_crash_image(1);
    unclaimed.remove("/logs/TAILWATER-CLAIM".as_ref()).expect("as RocksDB leaves it");
    let (kind, message) = failure(Db::destroy(DB, &simulated(&unclaimed, text)).map(|_| ()));
    assert_eq!(kind, ErrorKind::InvalidArgument, "{message}");
    holds_all(&open(&unclaimed, DB, text).expect("nothing was removed"));

    // These options do not name `/tables`. `destroy` still finds it, because the database has
    // claimed it.
    Db::destroy(DB, &simulated(&disk, "wal_dir=/logs")).expect("destroying");
    for directory in ["/logs", "/tables", DB] {
        assert!(disk.metadata(directory.as_ref()).is_err(), "{directory}");
    }
    let (disk, db) = database(text);
    drop(db);
    let (kind, _) = failure(Db::destroy("/tables", &simulated(&disk, "")));
    assert_eq!(kind, ErrorKind::InvalidArgument, "not the home");
    holds_all(&open(&disk, DB, text).expect("the database"));
}

/// Regression test: `destroy` removed directories inside the home whose names RocksDB uses,
/// although they held other databases.
#[test]
fn destroying_leaves_other_databases_inside_the_home() {
    let (disk, db) = database("wal_dir=/logs");
    drop(db);
    let inside = ["/home/db/archive", "/home/db/lost", "/logs/archive"];
    for path in inside {
        let db = open(&disk, path, "").expect("another database");
        put(&db, "e", "another").expect("a put");
        db.flush_all().expect("a flush");
    }
    disk.create_directory("/home/db/lost/more".as_ref()).expect("a directory");
    Db::destroy(DB, &simulated(&disk, "wal_dir=/logs")).expect("destroying");
    for path in inside {
        let db = open(&disk, path, "").expect("the other database");
        assert_eq!(get(&db, "e").as_deref(), Some("another"), "{path}");
    }
    assert_eq!(names(&disk, DB, ""), ["archive", "lost"]);
}

/// Regression test: the directory of an open database was renamed, and another database was created
/// at its old path. The first database kept using that path. It removed logs of the second database
/// and wrote its own files there.
#[test]
fn an_open_database_does_not_write_into_a_replaced_directory() {
    for text in ["", "wal_dir=/logs"] {
        let (disk, old) = database(text);
        let moved = if text.is_empty() { (DB, "/home/old") } else { ("/logs", "/old") };
        disk.rename(moved.0.as_ref(), moved.1.as_ref()).expect("a rename");
        let other = if text.is_empty() { DB } else { "/home/other" };
        let new = open(&disk, other, text).expect("another database");
        put(&new, "e", "another").expect("a put");
        let (_, message) = failure(put(&old, "f", "2").and_then(|()| old.flush_all()));
        assert!(
            message.contains("was renamed or removed while the database was open"),
            "{message}"
        );
        let _ = old.close();
        drop((old, new));
        let new = open(&disk, other, text).expect("another database");
        assert_eq!(get(&new, "e").as_deref(), Some("another"));
        assert_eq!(get(&new, "a"), None);
        drop(new);
        let (home, text) = match text {
            "" => ("/home/old", ""),
            _ => (DB, "wal_dir=/old"),
        };
        holds_all(&open(&disk, home, text).expect("the first database"));
    }
}

/// Regression test: RocksDB, which knows no claims, wrote a table into a directory that another
/// database had claimed. That database treated the table as an obsolete file.
#[test]
fn a_table_that_another_database_made_stays_in_an_outside_directory() {
    let (disk, db) = database("db_paths=/tables");
    drop(db);
    let other = open(&disk, "/other", "").expect("another database");
    put(&other, "e", "another").expect("a put");
    other.flush_all().expect("a flush");
    drop(other);
    let table = names(&disk, "/other", ".sst").remove(0);
    copy_file(&disk, &Path::new("/other").join(table), "/tables/000900.sst".as_ref());
    copy_file(
        &disk,
        &Path::new("/tables").join(names(&disk, "/tables", ".sst").remove(0)),
        "/tables/000901.sst".as_ref(),
    );
    holds_all(&open(&disk, DB, "db_paths=/tables").expect("the database"));
    let left = names(&disk, "/tables", ".sst");
    assert!(left.contains(&"000900.sst".to_owned()), "{left:?}");
    assert!(!left.contains(&"000901.sst".to_owned()), "{left:?}");
}

/// Regression test: a damaged log is moved to the folder `lost`. The move overwrote a log of
/// another database there that had the same name.
#[test]
fn a_damaged_log_kept_aside_overwrites_no_file() {
    let (disk, db) = database("wal_recovery_mode=kPointInTimeRecovery");
    drop(db);
    let other = open(&disk, "/home/db/lost", "").expect("another database");
    put(&other, "e", "another").expect("a put");
    drop(other);
    let log = names(&disk, DB, ".log").remove(0);
    let path = Path::new(DB).join(&log);
    let theirs = Path::new(DB).join("lost").join(&log);
    if disk.metadata(&theirs).is_err() {
        let there = names(&disk, "/home/db/lost", ".log").remove(0);
        disk.rename(&Path::new(DB).join("lost").join(there), &theirs).expect("a rename");
    }
    let before = disk.metadata(&theirs).expect("a log");
    let mut file =
        disk.create(&path, Create::Existing, IoMode::Buffered, Purpose::Wal).expect("a log");
    file.write_all_at(b"?", 3, Purpose::Wal).expect("a write");
    drop(file);
    let db = open(&disk, DB, "wal_recovery_mode=kPointInTimeRecovery").expect("the database");
    assert!(!db.left_out().is_empty());
    assert_eq!(disk.metadata(&theirs).expect("a log"), before);
    assert!(names(&disk, "/home/db/lost", ".2.log").len() == 1);
}
