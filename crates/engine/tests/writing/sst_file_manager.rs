//! Tests of an `SstFileManager` with databases: what it tracks, its limit of space, and files that
//! are removed slowly.

use std::path::Path;
use std::sync::Arc;

use tailwater::{Db, ErrorKind, OpenOptions, SstFileManager, Statistics};
use tailwater_io::clock::ManualClock;
use tailwater_io::sim::{Fault, FaultPlan, FaultRule, SimStorage};
use tailwater_io::{Clock, Create, IoMode, Operation, Purpose, Storage};

use crate::support::{
    eventually, failure, findings, get, level_0, make_file, names, property, put, returns,
    simulated,
};

/// Returns options that compact only on request, and the manager with which they are shared.
fn managed(disk: &SimStorage, text: &str) -> (OpenOptions, Arc<SstFileManager>) {
    let manager = Arc::new(SstFileManager::new());
    let mut options = simulated(disk, "disable_auto_compactions=true;compression=kNoCompression");
    options.set_from_string(text).expect("options");
    options.set_sst_file_manager(Arc::clone(&manager));
    (options, manager)
}

/// Returns a manager that removes files slowly, in chunks of 1,000 bytes, at a rate that no test
/// reaches.
fn slow() -> SstFileManager {
    let manager = SstFileManager::new().with_bytes_max_delete_chunk(1000);
    manager.set_delete_rate_bytes_per_second(1 << 50);
    manager.set_max_trash_db_ratio(f64::INFINITY);
    manager
}

/// Writes a table with a value of `bytes` for a key. All these tables overlap, so that compactions
/// do not only move them.
fn flush(db: &Db, key: &str, bytes: usize) {
    put(db, key, &"v".repeat(bytes)).expect("a put");
    put(db, "z", key).expect("a put");
    db.flush_all().expect("a flush");
}

/// Returns the names of the files in a directory that end with `extension`.
fn files(disk: &SimStorage, directory: &str, extension: &str) -> Vec<String> {
    let mut names = names(disk, directory.as_ref());
    names.retain(|name| name.ends_with(extension));
    names
}

/// Returns the total size of the tables in a directory.
fn table_bytes(disk: &SimStorage, directory: &str) -> u64 {
    let tables = files(disk, directory, ".sst").into_iter();
    let lengths = tables.map(|name| disk.metadata(&Path::new(directory).join(name)));
    lengths.map(|found| found.expect("a table").length).sum()
}

fn trash(disk: &SimStorage, directory: &str) -> Vec<String> {
    files(disk, directory, ".trash")
}

fn create(disk: &SimStorage, path: &str) {
    let path = Path::new(path);
    disk.create(path, Create::New, IoMode::Buffered, Purpose::Metadata).expect("a file");
}

#[test]
fn the_tables_of_all_databases_are_tracked_while_they_are_open() {
    let disk = SimStorage::new(1);
    let (options, manager) = managed(&disk, "");
    let [one, two] = ["/one", "/two"].map(|path| Db::open(path, &options).expect("a database"));
    let sizes = || ["/one", "/two"].map(|directory| table_bytes(&disk, directory));
    for key in ["a", "b"] {
        flush(&one, key, 1000);
        flush(&two, key, 2000);
    }
    assert_eq!(manager.total_size(), sizes().iter().sum());
    one.compact_range(None, None).expect("a compaction");
    assert_eq!(files(&disk, "/one", ".sst").len(), 1);
    make_file(&options, Path::new("/external.sst"), &["c"], "value");
    let external = [Path::new("/external.sst")];
    two.ingest_external_file(&external).expect("an ingestion");
    let [in_one, in_two] = sizes();
    assert_eq!(manager.total_size(), in_one + in_two);
    let tracked = manager.tracked_files();
    assert_eq!(tracked.len(), 4, "{tracked:?}");
    assert!(
        tracked
            .iter()
            .all(|(path, bytes)| { disk.metadata(path).expect("it exists").length == *bytes })
    );
    one.close().expect("closing");
    assert_eq!(manager.total_size(), in_two);
    drop(one);
    let one = Db::open("/one", &options).expect("the database again");
    assert_eq!(manager.total_size(), in_one + in_two);
    drop((one, two));
    assert_eq!((manager.total_size(), manager.tracked_files().len()), (0, 0));
}

#[test]
fn an_opening_that_fails_tracks_nothing() {
    let disk = SimStorage::new(1);
    let (options, manager) = managed(&disk, "");
    let db = Db::open("/db", &options).expect("a database");
    flush(&db, "a", 1000);
    drop(db);
    let rule = FaultRule::new(Fault::InputOutput).operation(Operation::Create);
    disk.set_faults(FaultPlan::none().with(rule.purpose(Purpose::Manifest).from(0)));
    assert!(Db::open("/db", &options).is_err());
    assert_eq!(manager.total_size(), 0);
    disk.set_faults(FaultPlan::none());
    let _db = Db::open("/db", &options).expect("the database");
    assert!(manager.total_size() > 1000);
}

/// Tests that the flush that reaches the limit, and all later writes, get RocksDB's error, until
/// the limit is raised.
#[test]
fn writes_are_refused_from_the_flush_on_that_reaches_the_limit() {
    let disk = SimStorage::new(1);
    let (options, manager) = managed(&disk, "");
    let db = Db::open("/db", &options).expect("a database");
    flush(&db, "a", 1000);
    manager.set_max_allowed_space_usage(manager.total_size() + 1);
    assert!(!manager.is_max_allowed_space_reached());
    put(&db, "b", "1").expect("a put");
    let (kind, text) = failure(db.flush_all());
    assert_eq!(kind, ErrorKind::SpaceLimit);
    assert!(text.ends_with("Max allowed space was reached"), "{text}");
    assert!(manager.is_max_allowed_space_reached());
    assert_eq!(failure(put(&db, "c", "1")).0, ErrorKind::SpaceLimit);
    assert_eq!(db.background_error().map(|error| error.kind()), Some(ErrorKind::SpaceLimit));
    assert_eq!(property(&db, "rocksdb.background-errors"), "0", "the flush succeeded");
    assert_eq!(failure(db.resume()).0, ErrorKind::SpaceLimit);
    assert_eq!(get(&db, "b").as_deref(), Some("1"), "the table was installed");
    assert_eq!(level_0(&db), 2);
    manager.set_max_allowed_space_usage(0);
    db.resume().expect("there is no limit");
    flush(&db, "c", 1);
}

#[test]
fn writes_resume_by_themselves_when_there_is_space_again() {
    let disk = SimStorage::new(1);
    let (mut options, manager) = managed(&disk, "");
    options.set_inline_background(false);
    let db = Db::open("/db", &options).expect("a database");
    let other = Db::open("/other", &options).expect("a database");
    flush(&db, "a", 1000);
    flush(&other, "a", 1000);
    flush(&other, "a", 1000);
    manager.set_max_allowed_space_usage(manager.total_size() + 1);
    let refuse = |db: &Db| {
        put(db, "b", "1").expect("a put");
        let flushed = returns("a flush", {
            let db = db.clone();
            move || db.flush_all()
        });
        assert_eq!(failure(flushed).0, ErrorKind::SpaceLimit);
        assert_eq!(failure(put(db, "c", "1")).0, ErrorKind::SpaceLimit);
    };
    refuse(&db);
    put(&other, "b", "1").expect("only a flush notices the limit");
    // A database that is closed is no longer tracked.
    drop(other);
    eventually("writes resume", || put(&db, "c", "1").is_ok());
    assert!(db.background_error().is_none());
    manager.set_max_allowed_space_usage(manager.total_size());
    refuse(&db);
    manager.set_max_allowed_space_usage(1 << 30);
    eventually("writes resume", || put(&db, "d", "1").is_ok());
    for key in ["a", "b", "c", "d"] {
        assert!(get(&db, key).is_some(), "{key} is lost");
    }
}

#[test]
fn a_compaction_that_could_exceed_the_limit_is_not_started() {
    let disk = SimStorage::new(1);
    let (mut options, manager) = managed(&disk, "");
    let statistics = Arc::new(Statistics::new());
    options.set_statistics(Arc::clone(&statistics));
    let db = Db::open("/db", &options).expect("a database");
    for _ in 0..2 {
        flush(&db, "a", 1000);
    }
    let bytes = manager.total_size();
    let cancelled = || statistics.ticker("rocksdb.compaction.cancelled");
    manager.set_max_allowed_space_usage(2 * bytes - 1);
    let (kind, text) = failure(db.compact_range(None, None));
    assert_eq!(kind, ErrorKind::CompactionTooLarge, "{text}");
    assert_eq!(cancelled(), Some(1));
    put(&db, "b", "1").expect("writes go on");
    manager.set_max_allowed_space_usage(2 * bytes + 1000);
    manager.set_compaction_buffer_size(1001);
    assert_eq!(failure(db.compact_range(None, None)).0, ErrorKind::CompactionTooLarge);
    assert_eq!(cancelled(), Some(2));
    manager.set_max_allowed_space_usage(4 * bytes + 1000);
    db.compact_range(None, None).expect("there is room");
    assert_eq!(cancelled(), Some(2));
    assert!(!manager.is_max_allowed_space_reached_including_compactions());
}

#[test]
fn compactions_by_themselves_are_retried_until_there_is_room() {
    let disk = SimStorage::new(1);
    let text = "level0_file_num_compaction_trigger=2;bgerror_resume_retry_interval=8000";
    let (mut options, manager) = managed(&disk, text);
    options.set_from_string("disable_auto_compactions=false").expect("options");
    options.set_inline_background(false);
    let db = Db::open("/db", &options).expect("a database");
    flush(&db, "a", 1000);
    manager.set_max_allowed_space_usage(3 * manager.total_size());
    flush(&db, "a", 1000);
    let kind = || db.background_error().map(|error| error.kind());
    eventually("the compaction is not started", || kind() == Some(ErrorKind::CompactionTooLarge));
    put(&db, "b", "1").expect("writes go on");
    manager.set_max_allowed_space_usage(0);
    eventually("it is started", || level_0(&db) == 0);
    eventually("it has succeeded", || kind().is_none());
}

/// Tests a compaction that was started because its inputs are small, and whose outputs, which are
/// not compressed, reach the limit.
#[test]
fn a_compaction_whose_outputs_reach_the_limit_fails_and_leaves_no_file() {
    let disk = SimStorage::new(1);
    let (options, manager) = managed(&disk, "compression=kLZ4Compression");
    let db = Db::open("/db", &options).expect("a database");
    for key in ["a", "b"] {
        flush(&db, key, 50_000);
    }
    let before = files(&disk, "/db", ".sst");
    db.set_options(&[("compression", "kNoCompression")]).expect("a change");
    manager.set_max_allowed_space_usage(50_000);
    assert!(manager.total_size() < 25_000);
    assert_eq!(failure(db.compact_range(None, None)).0, ErrorKind::SpaceLimit);
    assert_eq!(failure(put(&db, "c", "1")).0, ErrorKind::SpaceLimit);
    assert_eq!(manager.total_size(), table_bytes(&disk, "/db"));
    assert_eq!(files(&disk, "/db", ".sst"), before);
    db.resume().expect("the outputs are gone");
    manager.set_max_allowed_space_usage(0);
    db.compact_range(None, None).expect("there is no limit");
    assert!(get(&db, "a").is_some() && get(&db, "b").is_some());
}

/// Tests that obsolete tables and logs become trash, which the thread of the manager removes
/// slowly, also when the database was closed meanwhile.
#[test]
fn obsolete_files_are_renamed_and_removed_slowly() {
    let disk = SimStorage::new(1);
    let clock = Arc::new(ManualClock::new(0));
    let manager = SstFileManager::with_clock(Arc::clone(&clock) as Arc<dyn Clock>);
    manager.set_delete_rate_bytes_per_second(1);
    manager.set_max_trash_db_ratio(1000.0);
    let manager = Arc::new(manager);
    let (mut options, _) = managed(&disk, "");
    let statistics = Arc::new(Statistics::new());
    options.set_inline_background(false);
    options.set_statistics(Arc::clone(&statistics));
    options.set_sst_file_manager(Arc::clone(&manager));
    let db = Db::open("/db", &options).expect("a database");
    for _ in 0..3 {
        flush(&db, "a", 1000);
    }
    db.compact_range(None, None).expect("a compaction");
    // The clock stands still, so at most one file is removed.
    eventually("all are trash", || {
        let trash = trash(&disk, "/db");
        let count = |kind: &str| trash.iter().filter(|name| name.contains(kind)).count();
        count(".sst.") + count(".log.") >= 4 && count(".sst.") >= 2
    });
    assert!(manager.total_trash_size() > 2000);
    assert!(statistics.ticker("rocksdb.files.marked.trash") >= Some(5));
    db.close().expect("closing");
    drop(db);
    assert!(!trash(&disk, "/db").is_empty());
    manager.set_delete_rate_bytes_per_second(0);
    manager.wait_for_empty_trash();
    assert_eq!(trash(&disk, "/db"), [""; 0]);
    assert_eq!((manager.total_size(), manager.total_trash_size()), (0, 0));
    let deleted = statistics.ticker("rocksdb.files.marked.trash.deleted");
    assert_eq!(deleted, statistics.ticker("rocksdb.files.marked.trash"));
    let db = Db::open("/db", &options).expect("the database again");
    assert!(get(&db, "a").is_some());
}

/// Tests that the tables of a checkpoint, which are links to those of the database, stay whole when
/// the database removes its own in chunks.
#[test]
fn a_checkpoint_keeps_tables_that_are_removed_slowly() {
    let disk = SimStorage::new(1);
    let (mut options, _) = managed(&disk, "");
    let manager = Arc::new(slow());
    options.set_sst_file_manager(Arc::clone(&manager));
    let db = Db::open("/db", &options).expect("a database");
    for key in ["a", "b"] {
        flush(&db, key, 5000);
    }
    db.checkpoint("/copy").expect("a checkpoint");
    flush(&db, "c", 5000);
    db.compact_range(None, None).expect("a compaction");
    manager.wait_for_empty_trash();
    assert_eq!(trash(&disk, "/db"), [""; 0]);
    db.close().expect("closing");
    let copy = Db::open("/copy", &options).expect("the checkpoint");
    assert_eq!(["a", "b"].map(|key| get(&copy, key).map(|value| value.len())), [Some(5000); 2]);
    assert_eq!(get(&copy, "c"), None);
    drop(copy);
    assert_eq!(findings(Path::new("/copy"), &options), []);
}

/// Tests the trash that a crash leaves, in the home and in a directory of `db_paths`. Files of
/// other names, and files that were there before the database claimed the directory, are kept.
#[test]
fn opening_removes_the_trash_of_the_database_and_nothing_else() {
    for has_manager in [false, true] {
        let disk = SimStorage::new(1);
        disk.create_directory(Path::new("/tables")).expect("a directory");
        create(&disk, "/tables/000100.sst.trash");
        let (options, _) = managed(&disk, "db_paths=/tables");
        let db = Db::open("/db", &options).expect("a database");
        flush(&db, "a", 1000);
        drop(db);
        for path in [
            "/db/000101.log.trash",
            "/db/000102.blob0.trash",
            "/db/notes.trash",
            "/db/000103.sst.trash.old",
            "/tables/000104.sst.trash",
            "/tables/notes.trash",
        ] {
            create(&disk, path);
        }
        let mut options = simulated(&disk, "db_paths=/tables");
        let manager = Arc::new(slow());
        if has_manager {
            options.set_sst_file_manager(Arc::clone(&manager));
        }
        let db = Db::open("/db", &options).expect("the database again");
        manager.wait_for_empty_trash();
        assert_eq!(trash(&disk, "/db"), ["notes.trash"]);
        assert_eq!(files(&disk, "/db", ".old"), ["000103.sst.trash.old"]);
        assert_eq!(trash(&disk, "/tables"), ["000100.sst.trash", "notes.trash"]);
        assert!(get(&db, "a").is_some());
    }
}

/// Tests that numbers in the names of trash are not used again, so that a file never meets the
/// trash of another file of its name.
#[test]
fn trash_reserves_its_number() {
    let disk = SimStorage::new(1);
    let (options, _) = managed(&disk, "");
    drop(Db::open("/db", &options).expect("a database"));
    create(&disk, "/db/000500.sst.trash");
    let db = Db::open("/db", &options).expect("the database again");
    flush(&db, "a", 10);
    assert!(db.live_files().iter().all(|file| file.number > 500));
}

#[test]
fn verification_knows_trash() {
    let disk = SimStorage::new(1);
    let (options, _) = managed(&disk, "");
    drop(Db::open("/db", &options).expect("a database"));
    create(&disk, "/db/000009.sst.trash");
    let report = tailwater::verify::verify("/db", &options);
    let found: Vec<_> = report.findings.iter().map(|it| it.message.clone()).collect();
    assert!(found.iter().any(|message| message.starts_with("trash")), "{found:?}");
    assert_eq!(findings(Path::new("/db"), &options), []);
}

#[test]
fn a_database_is_destroyed_with_its_trash() {
    for has_manager in [false, true] {
        let disk = SimStorage::new(1);
        let (mut options, _) = managed(&disk, "db_paths=/tables");
        options.set_inline_background(false);
        let db = Db::open("/db", &options).expect("a database");
        flush(&db, "a", 5000);
        drop(db);
        create(&disk, "/db/000101.log.trash");
        create(&disk, "/tables/000102.sst.trash");
        let manager = Arc::new(slow());
        if has_manager {
            options.set_sst_file_manager(Arc::clone(&manager));
        }
        Db::destroy("/db", &options).expect("destroying");
        assert_destroyed(&disk);
        assert_eq!((manager.total_size(), manager.total_trash_size()), (0, 0));
    }
}

fn assert_destroyed(disk: &SimStorage) {
    for directory in ["/db", "/tables"] {
        let found = disk.list(Path::new(directory));
        assert!(found.as_ref().is_err_and(|it| it.is_not_found()), "{found:?}");
    }
}

/// Tests that destroying a database removes at once what could not be removed slowly, and that it
/// can be repeated if that fails, too.
#[test]
fn a_database_is_destroyed_although_slow_removals_fail() {
    let rule = FaultRule::new(Fault::InputOutput).operation(Operation::Remove);
    let rule = rule.path_containing(".trash");
    for text in ["", "db_paths=/tables"] {
        let destroy = |rule: FaultRule| {
            let disk = SimStorage::new(1);
            let (mut options, _) = managed(&disk, text);
            options.set_sst_file_manager(Arc::new(slow()));
            let db = Db::open("/db", &options).expect("a database");
            flush(&db, "a", 5000);
            flush(&db, "b", 5000);
            drop(db);
            disk.start_recording();
            disk.set_faults(FaultPlan::none().with(rule));
            let destroyed = Db::destroy("/db", &options);
            disk.set_faults(FaultPlan::none());
            if destroyed.is_err() {
                assert_eq!(files(&disk, "/db", "IDENTITY").len(), 1, "it is still recognised");
                Db::destroy("/db", &options).expect("destroying again");
            }
            assert_destroyed(&disk);
            (destroyed.is_ok(), calls(&disk, Operation::Remove, ".trash"))
        };
        let (is_destroyed, removals) = destroy(rule.clone().at(u64::MAX));
        assert!(is_destroyed && removals >= 2, "two tables");
        assert!(destroy(rule.clone().at(0)).0, "the second attempt succeeds");
        for at in 1..removals {
            destroy(rule.clone().at(at));
        }
        assert!(!destroy(rule.clone().from(0)).0);
    }
}

/// Returns how often an operation was called since recording began, on paths that contain `part`.
fn calls(disk: &SimStorage, operation: Operation, part: &str) -> u64 {
    let calls = disk.calls().into_iter().filter(|call| call.operation == operation);
    calls.filter(|call| call.path.to_string_lossy().contains(part)).count() as u64
}

/// Tests that a database works on whatever fails while a file is removed slowly, and that nothing
/// is left after the next opening.
#[test]
fn failures_of_slow_removals_do_no_harm() {
    for operation in [Operation::Rename, Operation::Truncate, Operation::Remove, Operation::Create]
    {
        let mut at = 0;
        while a_failure_does_no_harm(operation, at) {
            at += 1;
        }
        assert!(at > 1, "{operation} was called for two tables at least");
    }
}

/// Tests a failure of the call with the index `at` of an operation on trash. Returns whether there
/// was one.
fn a_failure_does_no_harm(operation: Operation, at: u64) -> bool {
    let disk = SimStorage::new(1);
    let (mut options, _) = managed(&disk, "");
    options.set_sst_file_manager(Arc::new(slow()));
    let db = Db::open("/db", &options).expect("a database");
    for key in ["a", "b"] {
        flush(&db, key, 5000);
    }
    // A rename is a call on the old path.
    let part = if operation == Operation::Rename { ".sst" } else { ".trash" };
    let rule = FaultRule::new(Fault::InputOutput).operation(operation).path_containing(part);
    disk.start_recording();
    disk.set_faults(FaultPlan::none().with(rule.at(at)));
    db.compact_range(None, None).unwrap_or_else(|error| panic!("{operation}, {at}: {error}"));
    disk.set_faults(FaultPlan::none());
    let has_failed = calls(&disk, operation, part) > at;
    flush(&db, "c", 5000);
    drop(db);
    let db = Db::open("/db", &options).expect("the database again");
    for key in ["a", "b", "c"] {
        assert_eq!(get(&db, key).map(|value| value.len()), Some(5000));
    }
    assert_eq!(trash(&disk, "/db"), [""; 0], "{operation}, {at}");
    drop(db);
    assert_eq!(findings(Path::new("/db"), &options), []);
    has_failed
}
