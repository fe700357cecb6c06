//! Databases that RocksDB wrote hold what RocksDB read from them, and reading changes nothing.

#[path = "common/check.rs"]
mod check;

use tailwater::verify::{self, Severity};
use tailwater::{Db, OpenOptions, ReadOptions};
use tailwater_testkit::{directory, golden};

/// The recovery modes, by RocksDB's names.
const RECOVERY_MODES: [&str; 4] = [
    "kTolerateCorruptedTailRecords",
    "kAbsoluteConsistency",
    "kPointInTimeRecovery",
    "kSkipAnyCorruptedRecords",
];

/// Opens a copy of a golden database and compares it with its dump, and verifies it; checks that
/// not a byte of the directory was written.
fn check_database(name: &str) {
    let copy = golden::unpack(name);
    let before = directory::snapshot(copy.path());
    let dump = golden::dump(name);
    for mode in RECOVERY_MODES {
        let mut options = OpenOptions::load(copy.path()).expect("an OPTIONS file");
        options.set_options(&format!("wal_recovery_mode={mode}")).expect("a recovery mode");
        let db = Db::open_read_only(copy.path(), &options)
            .unwrap_or_else(|error| panic!("{name} under {mode}: {error}"));
        let left_out = db.left_out();
        assert!(left_out.is_empty(), "{name} under {mode}: {left_out:?}");
        check::holds(&db, &dump, &format!("{name} under {mode}"));
    }
    let options = OpenOptions::load(copy.path()).expect("an OPTIONS file");
    let report = verify::verify(copy.path(), &options, &mut |_| {});
    // A log that waits to be recycled is worth a note.
    assert!(report.worst() <= Some(Severity::Note), "{name}: {:#?}", report.findings);
    assert!(report.tables > 0 && report.entries > 0, "{name}: nothing was verified");
    directory::assert_unchanged(copy.path(), &before);
}

tailwater_testkit::golden_tests!(check_database);

#[test]
fn the_small_ones() {
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
            let family = db.column_family(&entry.family).expect("a column family");
            let value = db.get(&family, &entry.key, &ReadOptions::default()).expect("a get");
            assert_eq!(value.as_ref(), Some(&entry.value));
        }
    }
}
