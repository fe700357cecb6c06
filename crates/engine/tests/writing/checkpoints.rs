//! Tests of checkpoints that fail, that are concurrent, or that have unusual paths.

use std::sync::Arc;

use tailwater::options::{ColumnFamilyOptions, ObjectName};
use tailwater::{CheckpointOptions, Db, ErrorKind, OpenOptions, WriteOptions};
use tailwater_io::sim::{Fault, FaultPlan, SimStorage};
use tailwater_io::{Create, IoMode, Purpose, Storage};

use crate::gate::{Call, Gate};
use crate::support::{
    default_family, failure, findings, get, get_from, options, put, simulated, unlogged,
};

#[test]
fn a_checkpoint_is_a_database_of_its_own() {
    let directory = tempfile::tempdir().expect("a directory");
    let (path, checkpoint) = (directory.path().join("db"), directory.path().join("checkpoint"));
    let text = format!("db_paths={}", directory.path().join("tables").display());
    let db = Db::open(&path, &options(&text)).expect("a new database");
    let default = default_family(&db);
    let other = db.create_cf("other", &default.options()).expect("a family");
    put(&db, "a", "1").expect("a put");
    db.flush_all().expect("a flush");
    put(&db, "b", "2").expect("a put");
    db.put_cf_opt(&other, b"c", b"3", &unlogged()).expect("a put");
    db.checkpoint(&checkpoint).expect("a checkpoint");
    put(&db, "a", "later").expect("a put");
    db.drop_cf(&other).expect("dropping");
    db.flush_all().expect("a flush");
    assert_eq!(findings(&checkpoint, &options("")), []);

    let copy = Db::open(&checkpoint, &options("")).expect("the checkpoint");
    let other = copy.cf_handle("other").expect("the other family");
    assert_eq!(get(&copy, "a").as_deref(), Some("1"));
    assert_eq!(get(&copy, "b").as_deref(), Some("2"));
    assert_eq!(get_from(&copy, &other, "c").as_deref(), Some("3"));
    put(&copy, "a", "of its own").expect("a put");
    drop(copy);
    assert_eq!(get(&db, "a").as_deref(), Some("later"));
    let (kind, text) = failure(db.checkpoint(&checkpoint));
    assert_eq!(kind, ErrorKind::InvalidArgument);
    assert!(text.contains("already"), "{text}");
}

/// Tests that a checkpoint without a flush has what the logs have, for a family that was flushed
/// and one that was not, while later writes and flushes do not change it.
#[test]
fn a_checkpoint_copies_logs_that_are_short() {
    for text in [
        "",
        "recycle_log_file_num=2",
        "manual_wal_flush=true;wal_compression=kZSTD",
        "use_direct_io_for_wal=true",
    ] {
        let disk = SimStorage::new(1);
        let db = Db::open("/db", &simulated(&disk, text)).expect("a new database");
        let mut family = ColumnFamilyOptions::default();
        family.merge_operator = ObjectName::new("uint64add");
        let sums = db.create_cf("sums", &family).expect("a family");
        let add = |sum: u64| db.merge_cf(&sums, b"sum", sum.to_le_bytes()).expect("a merge");
        put(&db, "a", "1").expect("a put");
        add(1);
        db.flush_cf(&sums).expect("a flush");
        add(2);
        put(&db, "b", "2").expect("a put");
        let tables = db.live_files().len();

        let options = CheckpointOptions::new().with_log_size_for_flush(1 << 20);
        db.checkpoint_opt("/checkpoint", &options).expect("a checkpoint");
        assert_eq!(db.live_files().len(), tables, "{text}: nothing is flushed");
        add(4);
        put(&db, "a", "later").expect("a put");
        db.flush_all().expect("a flush");
        db.close().expect("closing");

        assert_eq!(findings("/checkpoint".as_ref(), &simulated(&disk, "")), [], "{text}");
        let mut options = simulated(&disk, "");
        options.set_column_family("sums", family);
        let copy = Db::open("/checkpoint", &options).expect("the checkpoint");
        assert_eq!(get(&copy, "a").as_deref(), Some("1"), "{text}");
        assert_eq!(get(&copy, "b").as_deref(), Some("2"), "{text}");
        let sums = copy.cf_handle("sums").expect("the family");
        let sum = copy.get_cf(&sums, "sum").expect("a get");
        assert_eq!(sum, Some(3_u64.to_le_bytes().to_vec()), "{text}");
    }
}

/// Tests that logs are not copied where they would not be enough, or where they are too long.
#[test]
fn a_checkpoint_flushes_what_its_logs_lack() {
    for (log_size, is_logged) in [(1 << 20, false), (10, true)] {
        let disk = SimStorage::new(1);
        let db = Db::open("/db", &simulated(&disk, "")).expect("a new database");
        let write = if is_logged { WriteOptions::default() } else { unlogged() };
        db.put_opt("a", "1", &write).expect("a put");
        let options = CheckpointOptions::new().with_log_size_for_flush(log_size);
        db.checkpoint_opt("/checkpoint", &options).expect("a checkpoint");
        assert_eq!(db.live_files().len(), 1);
        let copy = Db::open("/checkpoint", &simulated(&disk, "")).expect("the checkpoint");
        assert_eq!(get(&copy, "a").as_deref(), Some("1"));
    }
}

#[test]
fn a_checkpoint_that_fails_leaves_nothing_and_can_be_made_again() {
    let disk = SimStorage::new(1);
    let options = simulated(&disk, "");
    let db = Db::open("/db", &options).expect("a new database");
    put(&db, "a", "1").expect("a put");
    db.flush_all().expect("a flush");
    let mut failed = 0;
    for index in 0.. {
        disk.set_faults(FaultPlan::at(index, Fault::InputOutput));
        let made = db.checkpoint("/checkpoint");
        disk.set_faults(FaultPlan::none());
        if made.is_ok() && index > 30 {
            break;
        }
        // A checkpoint need not fail if a hard link fails, since it then copies the file.
        match made {
            Ok(()) => Db::destroy("/checkpoint", &options).expect("destroying"),
            Err(_) => failed += 1,
        }
    }
    assert!(failed > 10, "faults were met {failed} times");
    let copy = Db::open("/checkpoint", &options).expect("the checkpoint");
    assert_eq!(get(&copy, "a").as_deref(), Some("1"));
    db.put_cf_opt(&default_family(&db), b"b", b"2", &WriteOptions::default()).expect("a put");
}

/// Regression test: the OPTIONS file of a checkpoint named the directories of the original
/// database. When the checkpoint was opened, it showed later writes of the original, or removed the
/// logs of the original while the original was open.
#[test]
fn a_checkpoint_names_no_directory_of_the_original() {
    let disk = SimStorage::new(1);
    let text = "wal_dir=/logs;db_paths=/tables";
    let db = Db::open("/db", &simulated(&disk, text)).expect("a new database");
    put(&db, "a", "1").expect("a put");
    db.checkpoint("/checkpoint").expect("a checkpoint");
    put(&db, "a", "later").expect("a put");
    let load = || OpenOptions::load_from(Arc::new(disk.clone()), "/checkpoint");
    let loaded = load().expect("options");
    assert_eq!(loaded.database().wal_dir, "");
    let reader = Db::open_read_only("/checkpoint", &loaded).expect("a reader");
    assert_eq!(get(&reader, "a").as_deref(), Some("1"));
    drop(Db::open("/checkpoint", &loaded).expect("the checkpoint"));
    Db::destroy("/checkpoint", &load().expect("options")).expect("destroying");
    drop(db);
    let db = Db::open("/db", &simulated(&disk, text)).expect("the original");
    assert_eq!(get(&db, "a").as_deref(), Some("later"));
}

/// Regression test: a checkpoint with an empty path removed files in `./.tmp`. A checkpoint whose
/// path ended in a slash left a directory because of which every later checkpoint at that path
/// failed.
#[test]
fn only_remains_of_an_earlier_checkpoint_are_removed() {
    let disk = SimStorage::new(1);
    let db = Db::open("/db", &simulated(&disk, "")).expect("a new database");
    put(&db, "a", "1").expect("a put");
    let note = |path: &str| {
        let purpose = Purpose::Metadata;
        disk.create(path.as_ref(), Create::New, IoMode::Buffered, purpose).expect("a file");
    };
    disk.create_directory("/.tmp".as_ref()).expect("a directory");
    note("/.tmp/mine");
    for path in ["", ".", "/", "x/.."] {
        let (kind, text) = failure(db.checkpoint(path));
        assert_eq!(kind, ErrorKind::InvalidArgument, "{path}: {text}");
    }
    assert!(disk.metadata("/.tmp/mine".as_ref()).is_ok());
    disk.create_directory("/copy.tmp".as_ref()).expect("a directory");
    note("/copy.tmp/000001.sst");
    let (kind, text) = failure(db.checkpoint("/copy"));
    assert_eq!(kind, ErrorKind::InvalidArgument, "{text}");
    assert!(text.contains("/copy.tmp"), "{text}");
    assert!(disk.metadata("/copy.tmp/000001.sst".as_ref()).is_ok());
    db.checkpoint("/other/").expect("a checkpoint at a path with a slash at its end");
    assert_eq!(names(&disk, "/other").iter().filter(|name| name.contains("STAGING")).count(), 0);
    let copy = Db::open("/other", &simulated(&disk, "")).expect("the checkpoint");
    assert_eq!(get(&copy, "a").as_deref(), Some("1"));
}

/// Regression test: two checkpoints were made concurrently at the same path. The second removed
/// files of the first, and the first nevertheless reported success.
#[test]
fn concurrent_checkpoints_at_one_path_are_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let (path, checkpoint) = (directory.path().join("db"), directory.path().join("checkpoint"));
    let gate = Gate::new();
    let db = Db::open(&path, &gate.options("")).expect("a new database");
    put(&db, "a", "1").expect("a put");
    gate.stop(Call::Link, 0);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| db.checkpoint(&checkpoint));
        gate.wait();
        let (kind, message) = failure(db.checkpoint(&checkpoint));
        assert_eq!(kind, ErrorKind::Busy, "{message}");
        gate.open();
        first.join().expect("no panic").expect("a checkpoint");
    });
    let copy = Db::open(&checkpoint, &options("")).expect("the checkpoint");
    assert_eq!(get(&copy, "a").as_deref(), Some("1"));
}

/// Regression test: while a checkpoint was being made, another directory appeared at its path. The
/// database mistook that directory for the checkpoint and renamed files in it.
#[test]
fn files_created_meanwhile_at_a_checkpoints_path_stay() {
    let disk = SimStorage::new(1);
    let gate = Gate::over(Arc::new(disk.clone()));
    let db = Db::open("/db", &gate.options("")).expect("a new database");
    put(&db, "a", "1").expect("a put");
    gate.stop(Call::Link, 0);
    std::thread::scope(|scope| {
        let made = scope.spawn(|| db.checkpoint("/made"));
        gate.wait();
        disk.create_directory("/made".as_ref()).expect("a directory");
        let path = "/made/000000.dbtmp".as_ref();
        disk.create(path, Create::New, IoMode::Buffered, Purpose::Manifest).expect("a file");
        gate.open();
        let (kind, message) = failure(made.join().expect("no panic"));
        assert_eq!(kind, ErrorKind::Io, "{message}");
    });
    assert_eq!(names(&disk, "/made"), ["000000.dbtmp"]);
    assert_eq!(names(&disk, "/"), ["db", "made"]);
}

/// Regression test: a checkpoint has a marker file until it is complete. A power cut restored the
/// marker file of a complete checkpoint whose name ended in `.tmp`. A later checkpoint with the
/// same name without `.tmp` mistook the complete checkpoint for its own incomplete directory and
/// removed it.
#[test]
fn a_finished_checkpoint_is_not_mistaken_for_an_unfinished_one() {
    for seed in 0..20 {
        let disk = SimStorage::new(seed);
        let db = Db::open("/db", &simulated(&disk, "")).expect("a new database");
        put(&db, "a", "1").expect("a put");
        db.checkpoint("/copy.tmp").expect("a checkpoint");
        let left = disk.crash_image(seed);
        let options = simulated(&left, "");
        let db = Db::open("/db", &options).expect("the database");
        failure(db.checkpoint("/copy"));
        let copy = Db::open_read_only("/copy.tmp", &options).expect("the checkpoint");
        assert_eq!(get(&copy, "a").as_deref(), Some("1"), "seed {seed}");
    }
}

fn names(disk: &SimStorage, directory: &str) -> Vec<String> {
    let entries = disk.list(directory.as_ref()).expect("a directory");
    entries.into_iter().map(|entry| entry.name).collect()
}
