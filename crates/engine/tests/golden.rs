//! Tests that Tailwater reads the same contents as RocksDB from golden databases, which RocksDB
//! wrote. Opening and reading a golden database must not change its files.

#[path = "common/check.rs"]
mod check;

use tailwater::verify::{self, Severity};
use tailwater::{CompactRangeOptions, Db, ErrorKind, OpenOptions, ReadOptions, WriteOptions};
use tailwater_testkit::{directory, golden};

/// The recovery modes, in the spelling of option strings.
const RECOVERY_MODES: [&str; 4] = [
    "kTolerateCorruptedTailRecords",
    "kAbsoluteConsistency",
    "kPointInTimeRecovery",
    "kSkipAnyCorruptedRecords",
];

/// Opens a copy of a golden database in every recovery mode, compares its contents with the dump
/// that RocksDB made, and verifies the copy. Checks that no byte in the directory has changed.
fn check_database(name: &str) {
    let copy = golden::unpack(name);
    let before = directory::snapshot(copy.path());
    let dump = golden::dump(name);
    for mode in RECOVERY_MODES {
        let mut options = OpenOptions::load(copy.path()).expect("an OPTIONS file");
        options.set_from_string(&format!("wal_recovery_mode={mode}")).expect("a recovery mode");
        let db = Db::open_read_only(copy.path(), &options)
            .unwrap_or_else(|error| panic!("{name} under {mode}: {error}"));
        let left_out = db.left_out();
        assert!(left_out.is_empty(), "{name} under {mode}: {left_out:?}");
        check::holds(&db, &dump, &format!("{name} under {mode}"));
    }
    let options = OpenOptions::load(copy.path()).expect("an OPTIONS file");
    let report = verify::verify(copy.path(), &options);
    // A note is allowed: verification reports a log that RocksDB keeps for recycling as a note.
    assert!(report.worst() <= Some(Severity::Note), "{name}: {:#?}", report.findings);
    assert!(report.tables > 0 && report.entries > 0, "{name}: nothing was verified");
    directory::assert_unchanged(copy.path(), &before);
}

tailwater_testkit::golden_tests!(check_database);

#[test]
fn small_golden_databases_read_as_rocksdb_read_them() {
    golden::small_names().iter().for_each(|name| check_database(name));
}

#[test]
fn two_handles_read_one_directory_at_once() {
    let copy = golden::unpack("records");
    let options = OpenOptions::load(copy.path()).expect("an OPTIONS file");
    let open = || Db::open_read_only(copy.path(), &options).expect("the database");
    let (first, second) = (open(), open());
    for entry in golden::dump("records").iter().step_by(50) {
        for db in [&first, &second] {
            let family = db.cf_handle(&entry.family).expect("a column family");
            let value = db.get_cf_opt(&family, &entry.key, &ReadOptions::default()).expect("a get");
            assert_eq!(value.as_ref(), Some(&entry.value));
        }
    }
}

/// Tests that an iterator with `allow_unprepared_value` reads a value from its blob file only when
/// the value is requested.
#[test]
#[expect(clippy::disallowed_methods, reason = "damages files behind the database's back")]
fn deferred_blobs_are_read_on_request() {
    let copy = golden::unpack("blobs");
    let options = OpenOptions::load(copy.path()).expect("an OPTIONS file");
    let db = Db::open_read_only(copy.path(), &options).expect("the database");
    let dump = golden::dump("blobs");
    let read = ReadOptions::new().with_allow_unprepared_value(true);
    let mut deferred = None;
    for entry in &dump {
        let family = db.cf_handle(&entry.family).expect("a column family");
        let mut iterator = db.raw_iterator_cf_opt(&family, &read).expect("an iterator");
        iterator.seek(&entry.key).expect("a seek");
        assert_eq!(iterator.key(), entry.key);
        if iterator.value() != entry.value {
            assert!(iterator.value().is_empty());
            iterator.prepare_value().expect("a blob");
            assert_eq!(iterator.value(), entry.value);
            deferred = Some(entry);
        }
    }
    let deferred = deferred.expect("a value in a blob file");
    for file in std::fs::read_dir(copy.path()).expect("a list") {
        let path = file.expect("a file").path();
        if path.extension().is_some_and(|extension| extension == "blob") {
            let mut bytes = std::fs::read(&path).expect("its bytes");
            bytes.iter_mut().skip(30).for_each(|byte| *byte ^= 1);
            std::fs::write(&path, bytes).expect("damage");
        }
    }
    let db = Db::open_read_only(copy.path(), &options).expect("the database");
    let family = db.cf_handle(&deferred.family).expect("a column family");
    let mut iterator = db.raw_iterator_cf_opt(&family, &read).expect("an iterator");
    for _ in 0..2 {
        iterator.seek(&deferred.key).expect("a seek, which reads no blob");
        assert_eq!(iterator.key(), deferred.key);
        let error = iterator.prepare_value().expect_err("a damaged blob");
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        assert!(!iterator.valid() && iterator.key().is_empty());
        iterator.prepare_value().expect("nothing to do");
    }
}

#[test]
fn ranges_contain_the_values_of_blob_files() {
    let copy = golden::unpack("blobs");
    let options = OpenOptions::load(copy.path()).expect("an OPTIONS file");
    let db = Db::open_read_only(copy.path(), &options).expect("the database");
    let dump = golden::dump("blobs");
    let read = ReadOptions::new().with_allow_unprepared_value(true).with_pin_data(true);
    let mut deferred = 0;
    for family in db.column_families() {
        let mut entries = dump.iter().filter(|it| it.family == family.name());
        for found in db.range_cf_opt(&family, .., &read) {
            let (key, value) = found.expect("an entry");
            let expected = entries.next().expect("an entry of the dump");
            assert_eq!((&*key, &*value), (&expected.key[..], &expected.value[..]));
            let mut iterator = db.raw_iterator_cf_opt(&family, &read).expect("an iterator");
            iterator.seek(&key).expect("a seek");
            deferred += usize::from(iterator.value() != expected.value);
        }
        assert!(entries.next().is_none(), "family '{}'", family.name());
    }
    assert!(deferred > 0, "no value is in a blob file");
}

/// Tests iterators that read blobs on request and refresh themselves: they switch to newer versions
/// of the database while they are in use, including versions that a compaction made.
#[test]
fn blobs_are_read_after_a_refresh() {
    let copy = golden::unpack("blobs");
    let options = OpenOptions::load(copy.path()).expect("an OPTIONS file");
    let db = Db::open(copy.path(), &options).expect("the database");
    let dump = golden::dump("blobs");
    for family in db.column_families() {
        let entries: Vec<_> = dump.iter().filter(|it| it.family == family.name()).collect();
        for allow_unprepared_value in [true, false] {
            let read = ReadOptions::new()
                .with_snapshot(db.snapshot())
                .with_auto_refresh_iterator_with_snapshot(true)
                .with_allow_unprepared_value(allow_unprepared_value);
            let mut iterator = db.raw_iterator_cf_opt(&family, &read).expect("an iterator");
            iterator.seek_to_first().expect("a seek");
            for (at, entry) in entries.iter().enumerate() {
                assert_eq!(iterator.key(), entry.key);
                if at % 7 == 3 {
                    // After the deletion and the flush below, the iterator refreshes itself. The
                    // value at its current position must not change.
                    let gone = WriteOptions::default();
                    db.delete_cf_opt(&family, &entry.key, &gone).expect("a deletion");
                    db.flush_cf(&family).expect("a flush");
                }
                if at % 20 == 10 {
                    let everything = CompactRangeOptions::default();
                    db.compact_range_cf_opt(&family, None, None, &everything)
                        .expect("a compaction");
                }
                iterator.prepare_value().expect("a blob");
                assert_eq!(iterator.value(), entry.value, "{at}");
                iterator.next().expect("a step");
            }
            assert!(!iterator.valid());
            iterator.seek_to_last().expect("a seek");
            for entry in entries.iter().rev() {
                iterator.prepare_value().expect("a blob");
                assert_eq!(iterator.item(), Some((&entry.key[..], &entry.value[..])));
                iterator.prev().expect("a step");
            }
            assert!(!iterator.valid());
            drop(iterator);
            // Puts the original contents again, for the next pass of the loop.
            for entry in &entries {
                let again = WriteOptions::default();
                db.put_cf_opt(&family, &entry.key, &entry.value, &again).expect("a put");
            }
        }
    }
}
