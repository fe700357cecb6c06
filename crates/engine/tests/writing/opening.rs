//! Opening, closing and destroying a database, and concurrent openings.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::thread;

use tailwater::{CompactRangeOptions, Db, ErrorKind, OpenOptions};
use tailwater_io::posix::PosixStorage;
use tailwater_io::sim::{Fault, FaultPlan, FaultRule, SimStorage};
use tailwater_io::{Create, DirectoryEntry, IoMode, Operation, Purpose, Storage};

use crate::gate::{Call, Gate, Opening};
use crate::support::{
    default_family, failure, findings, get, log, names, options, put, simulated, unlogged,
};

/// Environment variable that is set only in a child process of this test. Its value is the
/// directory of the database.
const CHILD: &str = "TAILWATER_TEST_CHILD_DIRECTORY";

#[test]
fn a_missing_database_is_not_created_by_default() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("none");
    let (kind, text) = failure(Db::open(&path, &OpenOptions::default()));
    assert_eq!(kind, ErrorKind::NotFound);
    assert!(text.contains("create_if_missing"), "{text}");
    assert!(!path.exists());
    drop(Db::open(&path, &options("")).expect("a new database"));
    let (kind, text) = failure(Db::open(&path, &options("error_if_exists=true")));
    assert_eq!(kind, ErrorKind::InvalidArgument);
    assert!(text.contains("error_if_exists"), "{text}");
}

/// Regression test: a database could be opened with `num_levels` below the number of levels that
/// have tables. The database then placed new data as if the deeper levels did not exist, and reads
/// could return the older values there instead of the new data.
#[test]
fn opening_with_fewer_levels_than_in_use_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let db = Db::open(directory.path(), &options("")).expect("a new database");
    put(&db, "a", "1").expect("a put");
    db.compact_range_cf_opt(&default_family(&db), None, None, &CompactRangeOptions::default())
        .expect("a compaction");
    db.close().expect("closing");
    let open = [Db::open, Db::open_read_only];
    for (levels, is_refused) in [(4, true), (6, true), (7, false), (9, false)] {
        let options = options(&format!("num_levels={levels}"));
        for opened in open.map(|open| open(directory.path(), &options)) {
            if is_refused {
                let (kind, text) = failure(opened);
                assert_eq!(kind, ErrorKind::InvalidArgument, "{text}");
                let expected = format!("tables in level 6, and num_levels is {levels}");
                assert!(text.contains(&expected), "{text}");
            } else {
                assert_eq!(get(&opened.expect("a database"), "a").as_deref(), Some("1"));
            }
        }
    }
}

#[test]
fn a_second_handle_for_writing_is_refused_and_one_for_reading_is_not() {
    let directory = tempfile::tempdir().expect("a directory");
    let db = Db::open(directory.path(), &options("")).expect("a new database");
    put(&db, "a", "1").expect("a put");
    let (kind, text) = failure(Db::open(directory.path(), &options("")));
    assert_eq!(kind, ErrorKind::Busy);
    assert!(text.contains("LOCK") && text.contains("open for writing elsewhere"), "{text}");
    let reader = Db::open_read_only(directory.path(), &options("")).expect("a reader");
    assert_eq!(get(&reader, "a").as_deref(), Some("1"));
    assert_eq!(failure(put(&reader, "b", "2")).0, ErrorKind::ReadOnly);
    db.close().expect("closing");
    assert_eq!(failure(put(&db, "b", "2")).0, ErrorKind::Closed);
    assert_eq!(get(&db, "a").as_deref(), Some("1"), "reads go on");
    db.close().expect("closing again does nothing");
    Db::open(directory.path(), &options("")).expect("the lock was given up");
}

/// Tests that a database can be opened after the process that held its lock was killed.
#[test]
fn a_process_that_was_killed_leaves_no_lock() {
    if let Some(path) = std::env::var_os(CHILD) {
        let db = Db::open(Path::new(&path), &options("")).expect("the database");
        put(&db, "child", "was here").expect("a put");
        let ready = Path::new(&path).join("ready");
        PosixStorage::new()
            .create(
                &ready,
                tailwater_io::Create::New,
                tailwater_io::IoMode::Buffered,
                tailwater_io::Purpose::Metadata,
            )
            .expect("a sign");
        loop {
            std::thread::park();
        }
    }
    let directory = tempfile::tempdir().expect("a directory");
    let program = std::env::current_exe().expect("this program");
    let name = "opening::a_process_that_was_killed_leaves_no_lock";
    let mut child = Command::new(program)
        .args(["--exact", name, "--nocapture"])
        .env(CHILD, directory.path())
        .spawn()
        .expect("a child");
    let ready = directory.path().join("ready");
    while !ready.exists() {
        assert_eq!(child.try_wait().expect("the child"), None, "the child ended by itself");
        std::thread::yield_now();
    }
    let (kind, text) = failure(Db::open(directory.path(), &options("")));
    assert_eq!(kind, ErrorKind::Busy, "{text}");
    child.kill().expect("killing");
    child.wait().expect("the child");
    let db = Db::open(directory.path(), &options("")).expect("the database of the killed one");
    assert_eq!(get(&db, "child").as_deref(), Some("was here"));
}

#[test]
fn closing_flushes_unlogged_writes() {
    let directory = tempfile::tempdir().expect("a directory");
    for (text, kept) in [("", true), ("avoid_flush_during_shutdown=true", false)] {
        let path = directory.path().join(format!("kept-{kept}"));
        let db = Db::open(&path, &options(text)).expect("a new database");
        db.put_cf_opt(&default_family(&db), b"a", b"1", &unlogged()).expect("a put");
        drop(db);
        let db = Db::open(&path, &options("")).expect("the database again");
        assert_eq!(get(&db, "a").is_some(), kept, "{text}");
    }
}

/// Regression test: a second call of `close` returned success while the first was still flushing
/// unlogged writes, and even after the first had failed.
#[test]
fn a_second_close_returns_the_outcome_of_the_first() {
    let disk = SimStorage::new(1);
    let gate = Gate::over(Arc::new(disk.clone()));
    let db = Db::open("/db", &gate.options("")).expect("a new database");
    db.put_cf_opt(&default_family(&db), b"a", b"1", &unlogged()).expect("a put");
    gate.stop(Call::SyncManifest, 0);
    thread::scope(|scope| {
        let opening = Opening(&gate);
        let first = scope.spawn(|| db.close());
        gate.wait();
        let second = scope.spawn(|| db.close());
        for _ in 0..1000 {
            assert!(!second.is_finished());
            thread::yield_now();
        }
        let broken = FaultRule::new(Fault::InputOutput).operation(Operation::Sync).at(0);
        disk.set_faults(FaultPlan::none().with(broken));
        drop(opening);
        let errors = [first, second].map(|close| close.join().expect("a thread").expect_err("EIO"));
        assert_eq!(errors[0].to_string(), errors[1].to_string());
    });
    db.close().expect_err("a later call returns the error, too");
}

#[test]
fn destroying_leaves_files_of_others() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("db");
    let text = format!("wal_dir={0}/logs;db_paths={0}/tables,1G", path.display());
    let text = text.as_str();
    let db = Db::open(&path, &options(text)).expect("a new database");
    put(&db, "a", "1").expect("a put");
    db.flush_all().expect("a flush");
    assert_eq!(failure(Db::destroy(&path, &options(text))).0, ErrorKind::Busy);
    db.close().expect("closing");
    let storage = PosixStorage::new();
    let note = path.join("note.txt");
    tailwater_io::Storage::create(
        &storage,
        &note,
        tailwater_io::Create::New,
        tailwater_io::IoMode::Buffered,
        tailwater_io::Purpose::Metadata,
    )
    .expect("a file");
    Db::destroy(&path, &options(text)).expect("destroying");
    assert_eq!(names(&storage, &path), ["note.txt"]);
    storage.remove(&note).expect("removing");
    Db::destroy(&path, &options(text)).expect("destroying what is left");
    assert!(!path.exists());
    Db::destroy(&path, &options(text)).expect("nothing to destroy");
}

#[test]
fn opening_removes_only_obsolete_files() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    let db = Db::open(path, &options("")).expect("a new database");
    put(&db, "a", "1").expect("a put");
    db.flush_all().expect("a flush");
    drop(db);
    let storage = PosixStorage::new();
    let left_over = ["000900.sst", "000901.blob", "000902.dbtmp", "MANIFEST-000903"];
    for name in left_over.into_iter().chain(["notes.txt", "backup.sst.old"]) {
        storage
            .create(
                &path.join(name),
                tailwater_io::Create::New,
                tailwater_io::IoMode::Buffered,
                tailwater_io::Purpose::Metadata,
            )
            .expect("a file");
    }
    let db = Db::open(path, &options("")).expect("the database again");
    put(&db, "b", "2").expect("a put");
    db.flush_all().expect("a flush");
    drop(db);
    let there = names(&storage, path);
    for name in left_over {
        assert!(!there.iter().any(|there| there == name), "{name} is still there");
    }
    assert!(
        there.contains(&"notes.txt".to_owned()) && there.contains(&"backup.sst.old".to_owned())
    );
    assert_eq!(findings(path, &options("")), []);
}

#[test]
fn unsupported_options_are_refused_by_name() {
    let directory = tempfile::tempdir().expect("a directory");
    for (text, name) in [
        ("cf_allow_ingest_behind=true", "cf_allow_ingest_behind"),
        ("block_based_table_factory={format_version=8}", "format_version"),
        ("WAL_ttl_seconds=60", "WAL_ttl_seconds"),
        ("allow_2pc=true", "allow_2pc"),
    ] {
        let path = directory.path().join(name);
        let (_, error) = failure(Db::open(&path, &options(text)));
        assert!(error.contains(name), "{error}");
        assert!(!path.exists(), "{name} left something behind");
    }
    let recycling = options("recycle_log_file_num=1");
    let db = Db::open(directory.path(), &recycling).expect("a new database");
    let (kind, error) = failure(db.put_cf_opt(&default_family(&db), b"a", b"1", &unlogged()));
    assert_eq!(kind, ErrorKind::InvalidArgument);
    assert!(error.contains("recycle_log_file_num"), "{error}");
    let contradicting = unlogged().with_sync(true);
    let (kind, error) = failure(db.put_cf_opt(&default_family(&db), b"a", b"1", &contradicting));
    assert_eq!(kind, ErrorKind::InvalidArgument);
    assert!(error.contains("sync"), "{error}");
}

/// Regression test: opening a database listed its home four times: for the LOG, the OPTIONS file,
/// the tables and the logs. With very many tables, this took most of the time.
#[test]
fn opening_lists_each_directory_once() {
    let disk = SimStorage::new(7);
    let options = simulated(&disk, "");
    let db = Db::open(Path::new("/db"), &options).expect("a new database");
    put(&db, "key", "value").expect("a put");
    db.close().expect("closing");
    drop(db);
    let lists = || {
        let calls = disk.calls();
        calls.iter().filter(|call| call.operation == Operation::List).count()
    };
    disk.start_recording();
    let db = Db::open(Path::new("/db"), &options).expect("the database");
    assert_eq!(lists(), 1, "for writing");
    disk.start_recording();
    let for_reading = Db::open_read_only(Path::new("/db"), &options).expect("the database");
    assert_eq!(lists(), 1, "for reading");
    assert_eq!(get(&for_reading, "key").as_deref(), Some("value"));
    drop((db, for_reading));
    // The opening must list the home only once, and must still remove all but the two newest
    // OPTIONS files.
    drop(Db::open(Path::new("/db"), &options).expect("the database"));
    let entries = disk.list("/db".as_ref()).expect("the directory");
    let is_options = |entry: &&DirectoryEntry| entry.name.starts_with("OPTIONS-");
    assert_eq!(entries.iter().filter(is_options).count(), 2);
}

/// Regression test: an opening that replayed a log removed it twice, and wrote a warning to the LOG
/// that the second removal had failed. There was also a warning about a temporary file that a crash
/// had left, if the opening itself had overwritten and renamed that file.
#[test]
fn opening_does_not_warn_of_leftover_files_that_it_removed() {
    for (before, after, temporary) in [
        ("", "", false),
        ("wal_dir=/logs", "wal_dir=/logs", false),
        // The record of claimed directories is written to a temporary file.
        ("", "db_paths=/tables", true),
        // So is IDENTITY.
        ("write_identity_file=false", "write_identity_file=true", true),
    ] {
        let disk = SimStorage::new(1);
        let db = Db::open("/db", &simulated(&disk, before)).expect("a new database");
        put(&db, "key", "value").expect("a put");
        let image = disk.process_crash_image(1);
        if temporary {
            let path = Path::new("/db/000000.dbtmp");
            let created = image.create(path, Create::New, IoMode::Buffered, Purpose::Metadata);
            drop(created.expect("a file"));
        }
        image.start_recording();
        let db = Db::open("/db", &simulated(&image, after)).expect("the database");
        assert_eq!(get(&db, "key").as_deref(), Some("value"));
        let mut removed = Vec::new();
        for call in image.calls().iter().filter(|call| call.operation == Operation::Remove) {
            assert!(!removed.contains(&call.path), "{} was removed twice", call.path.display());
            removed.push(Arc::clone(&call.path));
        }
        assert!(removed.iter().any(|path| path.extension().is_some_and(|it| it == "log")));
        let log = log(&image, "/db");
        let warnings: Vec<&str> = log.lines().filter(|line| line.contains(" WARN ")).collect();
        assert!(warnings.is_empty(), "{before}, then {after}: {warnings:?}");
        assert!(!names(&image, "/db".as_ref()).contains(&"000000.dbtmp".to_owned()));
    }
}
