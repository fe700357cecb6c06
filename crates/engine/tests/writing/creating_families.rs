//! Tests of the creation of column families: lists, and what is written when. The OPTIONS file
//! follows later; until then, the MANIFEST has the options of new column families.

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tailwater::options::ColumnFamilyOptions;
use tailwater::{Db, ErrorKind, OpenOptions};
use tailwater_format::file_name::FileKind;
use tailwater_io::posix::PosixStorage;
use tailwater_io::sim::{Fault, FaultPlan, FaultRule, SimStorage};
use tailwater_io::{IoMode, Operation, Purpose, Storage};

use crate::gate::{Call, Gate, Opening};
use crate::support::{default_family, failure, findings, log, names, options, put, simulated};

const PATH: &str = "/db";

/// Returns column family options with this size of memtables, by which the tests recognize them.
fn sized(write_buffer_size: u64) -> ColumnFamilyOptions {
    let mut options = ColumnFamilyOptions::default();
    options.write_buffer_size = write_buffer_size;
    options
}

/// Returns the memtable sizes of all column families but the default one, by name, in the options
/// that the database's files record.
fn loaded(storage: Arc<dyn Storage>, directory: &Path) -> Vec<(String, u64)> {
    let loaded = OpenOptions::load_from(storage, directory).expect("the options");
    let size = |name: &str| (name.to_owned(), loaded.column_family(name).write_buffer_size);
    loaded.column_families().filter(|name| *name != "default").map(size).collect()
}

/// Returns options that are loaded from the database's files.
fn loading(disk: &SimStorage) -> OpenOptions {
    let mut options = simulated(disk, "");
    options.set_load_when_opened("");
    options
}

/// Makes the OPTIONS file impossible to write, so that it stays outdated.
fn refuse_options_files(disk: &SimStorage) {
    let rule = FaultRule::new(Fault::NoSpace).path_containing("OPTIONS");
    let rule = rule.operation(Operation::Create).from(0);
    disk.set_faults(FaultPlan::none().with(rule));
}

/// Returns the text of a file of a database; an empty text if the file was removed meanwhile.
fn read(storage: &dyn Storage, directory: &Path, kind: FileKind) -> String {
    let path = directory.join(kind.to_string());
    let Ok(file) = storage.open(&path, IoMode::Buffered, Purpose::Metadata) else {
        return String::new();
    };
    let mut bytes = vec![0; file.length().expect("a length") as usize];
    file.read_full_at(&mut bytes, 0, Purpose::Metadata).expect("a read");
    String::from_utf8_lossy(&bytes).into_owned()
}

fn options_files(storage: &dyn Storage, directory: &Path) -> Vec<u64> {
    let entries = names(storage, directory);
    let numbers = entries.iter().filter_map(|name| match FileKind::parse(name) {
        Some(FileKind::Options(number)) => Some(number),
        _ => None,
    });
    numbers.collect()
}

/// Regression test: the OPTIONS file was written, and the MANIFEST synced, for each of many new
/// column families, even if they were to be created together.
#[test]
fn a_list_is_created_with_one_sync_of_the_manifest() {
    let disk = SimStorage::new(1);
    let db = Db::open(PATH, &simulated(&disk, "")).expect("a new database");
    let names: Vec<String> = (0..100).map(|number| format!("family{number}")).collect();
    let options = sized(1 << 20);
    let list: Vec<_> = names.iter().map(|name| (name.as_str(), &options)).collect();
    disk.start_recording();
    let created = db.create_cfs(&list).expect("column families");
    let calls = disk.calls();
    let syncs = |purpose| {
        let is_one = |call: &&tailwater_io::sim::Call| {
            call.operation == Operation::Sync && call.purpose == Some(purpose)
        };
        calls.iter().filter(is_one).count()
    };
    assert_eq!((syncs(Purpose::Manifest), syncs(Purpose::Metadata)), (1, 1));
    assert!(created.iter().map(|family| family.name()).eq(names.iter().map(String::as_str)));
    let ids: Vec<u32> = created.iter().map(|family| family.id()).collect();
    assert!(ids.is_sorted() && ids.len() == 100, "{ids:?}");
    for family in &created {
        db.put_cf(family, "key", family.name()).expect("a put");
    }
    assert_eq!(db.create_cfs(&[]).expect("nothing").len(), 0);
    db.close().expect("closing");
    drop((db, created));
    assert_eq!(findings(PATH.as_ref(), &loading(&disk)), []);
    let db = Db::open(PATH, &loading(&disk)).expect("the database");
    for name in &names {
        let family = db.cf_handle(name).expect("a column family");
        assert_eq!(db.get_cf(&family, "key").expect("a get").as_deref(), Some(name.as_bytes()));
        assert_eq!(family.options().write_buffer_size, 1 << 20);
    }
}

#[test]
fn a_list_ends_at_the_first_family_that_is_refused() {
    let disk = SimStorage::new(1);
    let db = Db::open(PATH, &simulated(&disk, "")).expect("a new database");
    let good = sized(1 << 20);
    let mut bad = good.clone();
    bad.cf_allow_ingest_behind = true;
    for (list, created, reason) in [
        (vec![("a", &good), ("b", &good), ("default", &good), ("c", &good)], 2, "'default'"),
        (vec![("d", &good), ("d", &good)], 1, "'d'"),
        (vec![("e", &good), ("f", &bad), ("g", &good)], 1, "cf_allow_ingest_behind"),
        (vec![("a", &good), ("h", &good)], 0, "'a'"),
        (vec![("", &good)], 0, "empty"),
    ] {
        let error = db.create_cfs(&list).expect_err("one is refused");
        assert_eq!(error.created.len(), created, "{list:?}");
        for (family, (name, _)) in error.created.iter().zip(&list) {
            assert_eq!(family.name(), *name);
            db.put_cf(family, "key", "value").expect("a put");
        }
        assert!(error.to_string().contains(reason), "{error}");
        let error = tailwater::Error::from(error);
        assert!(matches!(error.kind(), ErrorKind::InvalidArgument | ErrorKind::NotSupported));
    }
    let listed = Db::list_cf(PATH, &simulated(&disk, "")).expect("the names");
    assert_eq!(listed, ["default", "a", "b", "d", "e"]);
}

/// Tests that after a crash at any step either all column families of a list exist or none, and
/// that those that exist have their options.
#[test]
fn a_crash_leaves_a_list_whole_with_its_options() {
    let disk = SimStorage::new(1);
    let db = Db::open(PATH, &simulated(&disk, "")).expect("a new database");
    put(&db, "key", "value").expect("a put");
    disk.start_recording();
    let (one, two) = (sized(1 << 20), sized(2 << 20));
    db.create_cfs(&[("one", &one), ("two", &two)]).expect("column families");
    let all = [("one".to_owned(), 1 << 20), ("two".to_owned(), 2 << 20)];
    let (mut none, mut both) = (0, 0);
    for call in disk.calls() {
        let mut replay = disk.replay();
        replay.advance_to(call.number);
        for seed in 0..20 {
            for image in [replay.crash_image(seed), replay.process_crash_image(seed)] {
                let before = loaded(Arc::new(image.clone()), PATH.as_ref());
                let db = Db::open(PATH, &loading(&image)).expect("the database");
                let sizes = |db: &Db| -> Vec<(String, u64)> {
                    let families = db.column_families().into_iter().skip(1);
                    let size = |family: tailwater::ColumnFamily| {
                        (family.name().to_owned(), family.options().write_buffer_size)
                    };
                    families.map(size).collect()
                };
                let found = sizes(&db);
                assert_eq!(found, before);
                assert!(found.is_empty() || found == all, "{found:?}");
                *(if found.is_empty() { &mut none } else { &mut both }) += 1;
                // Opening has written an OPTIONS file.
                let second = image.process_crash_image(1);
                let db = Db::open(PATH, &loading(&second)).expect("the database again");
                assert_eq!(sizes(&db), found);
            }
        }
    }
    assert!(none > 0 && both > 0, "none: {none}, both: {both}");
    assert_eq!(loaded(Arc::new(disk.clone()), PATH.as_ref()), all);
}

/// Regression test: each creation waited until an OPTIONS file with the options of all column
/// families was written.
#[test]
fn creations_do_not_wait_for_the_options_file() {
    let disk = SimStorage::new(1);
    let gate = Gate::over(Arc::new(disk.clone()));
    let db = Db::open(PATH, &gate.options("")).expect("a new database");
    gate.stop(Call::Rename, 0);
    let expected: Vec<_> = (0..20).map(|number| (format!("family{number}"), 1 << 20)).collect();
    let opening = Opening(&gate);
    thread::scope(|scope| {
        let creating = scope.spawn(|| {
            for (name, _) in &expected {
                db.create_cf(name, &sized(1 << 20)).expect("a family");
            }
            let dropped = db.create_cf("dropped", &sized(1 << 20)).expect("a family");
            db.drop_cf(&dropped).expect("dropping");
        });
        // A file was written, and is about to get its name.
        gate.wait();
        let begun = Instant::now();
        while !creating.is_finished() && begun.elapsed() < Duration::from_secs(60) {
            thread::sleep(Duration::from_millis(1));
        }
        let is_finished = creating.is_finished();
        if !is_finished {
            gate.open();
        }
        assert!(is_finished, "the creation waits for the OPTIONS file");
    });
    for image in [disk.process_crash_image(1), disk.crash_image(1)] {
        assert_eq!(loaded(Arc::new(image.clone()), PATH.as_ref()), expected);
        let db = Db::open(PATH, &loading(&image)).expect("the database");
        assert_eq!(db.column_families().len(), 21);
    }
    drop(opening);
    // The file is written without another request.
    let named = || {
        let newest = options_files(&disk, PATH.as_ref()).into_iter().max().expect("a file");
        let text = read(&disk, PATH.as_ref(), FileKind::Options(newest));
        text.matches("[CFOptions \"family").count()
    };
    let begun = Instant::now();
    while named() != 20 {
        assert!(begun.elapsed() < Duration::from_secs(60), "the OPTIONS file stays outdated");
        thread::sleep(Duration::from_millis(1));
    }
    db.close().expect("closing");
}

/// Tests that a database that was closed has an OPTIONS file with all column families. RocksDB's
/// function that loads options reads nothing else.
#[test]
fn closing_writes_an_outdated_options_file() {
    let directory = tempfile::tempdir().expect("a directory");
    for round in 0..20 {
        let path = directory.path().join(round.to_string());
        let db = Db::open(&path, &options("")).expect("a new database");
        for number in 0..=round {
            db.create_cf(&format!("family{number}"), &sized(1 << 20)).expect("a family");
        }
        let first = db.cf_handle("family0").expect("a family");
        db.drop_cf(&first).expect("dropping");
        drop(first);
        db.close().expect("closing");
        let storage = PosixStorage::new();
        let newest = options_files(&storage, &path).into_iter().max().expect("an OPTIONS file");
        let text = read(&storage, &path, FileKind::Options(newest));
        assert_eq!(text.matches("[CFOptions \"family").count(), round, "{text}");
    }
}

/// Tests that column families are created although the OPTIONS file cannot be written, that closing
/// reports this, and that their options are not lost.
#[test]
fn a_failure_to_write_the_options_file_loses_no_options() {
    let disk = SimStorage::new(1);
    let db = Db::open(PATH, &simulated(&disk, "")).expect("a new database");
    refuse_options_files(&disk);
    let family = db.create_cf("family", &sized(1 << 20)).expect("a family");
    db.create_cf("second", &sized(2 << 20)).expect("a family");
    db.put_cf(&family, "key", "value").expect("a put");
    let expected = [("family".to_owned(), 1 << 20), ("second".to_owned(), 2 << 20)];
    let (kind, text) = failure(db.close());
    assert_eq!(kind, ErrorKind::NoSpace, "{text}");
    assert!(text.contains("OPTIONS"), "{text}");
    disk.set_faults(FaultPlan::none());
    let text = log(&disk, PATH);
    let warnings = text.lines().filter(|line| line.contains("the OPTIONS file was not written"));
    assert_eq!(warnings.count(), 1, "a repeated failure is reported once: {text}");
    drop((db, family));
    assert_eq!(loaded(Arc::new(disk.clone()), PATH.as_ref()), expected);
    let options = OpenOptions::load_from(Arc::new(disk.clone()), PATH).expect("the options");
    let derived = options.column_family("family").arena_block_size;
    assert_eq!(derived, 0, "a derived value counts as set");
    let db = Db::open(PATH, &loading(&disk)).expect("the database");
    let family = db.cf_handle("family").expect("the family");
    assert_eq!(db.get_cf(&family, "key").expect("a get").as_deref(), Some(&b"value"[..]));
    db.close().expect("closing");
    assert_eq!(loaded(Arc::new(disk.clone()), PATH.as_ref()), expected);
}

/// Regression test: if the open call created a column family, the values that it derived from the
/// options of the column family counted as set.
#[test]
fn derived_options_of_a_family_that_opening_creates_follow_later_changes() {
    let disk = SimStorage::new(1);
    let mut options = simulated(&disk, "create_missing_column_families=true");
    options.set_column_family("family", sized(1 << 20));
    let db = Db::open(PATH, &options).expect("a new database");
    let family = db.cf_handle("family").expect("the family");
    assert_eq!(family.options().arena_block_size, 128 << 10);
    db.set_options_cf(&family, &[("write_buffer_size", "4m")]).expect("a change");
    assert_eq!(family.options().arena_block_size, 512 << 10);
}

/// Tests that a new MANIFEST repeats the options that no OPTIONS file has, and that an opening that
/// fails before it writes the OPTIONS file does not lose them.
#[test]
fn a_new_manifest_repeats_options_that_no_options_file_has() {
    let disk = SimStorage::new(1);
    let text = "max_manifest_file_size=1;max_manifest_space_amp_pct=0";
    let db = Db::open(PATH, &simulated(&disk, text)).expect("a new database");
    refuse_options_files(&disk);
    db.create_cf("family", &sized(1 << 20)).expect("a family");
    let manifests = || -> Vec<String> {
        let names = names(&disk, PATH.as_ref()).into_iter();
        names.filter(|name| name.starts_with("MANIFEST")).collect()
    };
    let before = manifests();
    put(&db, "key", "value").expect("a put");
    db.flush_all().expect("a flush");
    assert_ne!(manifests(), before);
    let expected = [("family".to_owned(), 1 << 20)];
    assert_eq!(loaded(Arc::new(disk.clone()), PATH.as_ref()), expected);
    drop(db);
    failure(Db::open(PATH, &loading(&disk)));
    assert_eq!(loaded(Arc::new(disk.clone()), PATH.as_ref()), expected);
    disk.set_faults(FaultPlan::none());
    let db = Db::open(PATH, &loading(&disk)).expect("the database");
    assert_eq!(db.cf_handle("family").expect("the family").options().write_buffer_size, 1 << 20);
}

/// Tests that a new MANIFEST does not repeat options that an OPTIONS file has: neither when it
/// replaces a long one, nor when the database is opened.
#[test]
fn a_new_manifest_omits_options_that_the_options_file_has() {
    let disk = SimStorage::new(1);
    let text = "max_manifest_file_size=1;max_manifest_space_amp_pct=0";
    let records = || -> usize {
        let names = names(&disk, PATH.as_ref()).into_iter();
        let kinds = names.filter_map(|name| FileKind::parse(&name));
        let manifests = kinds.filter(|kind| matches!(kind, FileKind::Manifest(_)));
        let count = |kind| read(&disk, PATH.as_ref(), kind).matches("[CFOptions").count();
        manifests.map(count).sum()
    };
    let db = Db::open(PATH, &simulated(&disk, text)).expect("a new database");
    db.create_cf("family", &sized(1 << 20)).expect("a family");
    assert_eq!(records(), 1);
    put(&db, "key", "value").expect("a put");
    db.flush_all().expect("a flush");
    assert_eq!(records(), 0);
    db.create_cf("second", &sized(1 << 20)).expect("a family");
    assert_eq!(records(), 1);
    db.close().expect("closing");
    drop(db);
    let _db = Db::open(PATH, &simulated(&disk, "")).expect("the database");
    assert_eq!(records(), 0);
}

/// Tests which options count if both the OPTIONS file and the MANIFEST have some.
#[test]
fn the_newest_options_of_a_family_are_loaded() {
    let disk = SimStorage::new(1);
    let db = Db::open(PATH, &simulated(&disk, "")).expect("a new database");
    let load = || loaded(Arc::new(disk.process_crash_image(1)), PATH.as_ref());
    let family = db.create_cf("family", &sized(1 << 20)).expect("a family");
    // The MANIFEST still has the options of the creation.
    db.set_options_cf(&family, &[("write_buffer_size", "3145728")]).expect("a change");
    assert_eq!(load(), [("family".to_owned(), 3 << 20)]);
    // The OPTIONS file has options of a column family that had the same name.
    refuse_options_files(&disk);
    db.drop_cf(&family).expect("dropping");
    assert_eq!(load(), []);
    db.create_cf("family", &sized(2 << 20)).expect("another family");
    assert_eq!(load(), [("family".to_owned(), 2 << 20)]);
    disk.set_faults(FaultPlan::none());
    db.set_options_cf(&default_family(&db), &[("write_buffer_size", "4194304")]).expect("a change");
    assert_eq!(load(), [("family".to_owned(), 2 << 20)]);
}
