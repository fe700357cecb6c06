//! Tests that tables are closed when they are no longer needed: tables beyond `max_open_files`, and
//! all tables of a database that is closed.
//!
//! This file has only one test, since it counts the open files of the whole process.

use std::path::Path;

use tailwater::{Db, OpenOptions, ReadOptions};
use tailwater_testkit::oracle::{Oracle, Script};

/// Number of tables of the database.
const TABLES: usize = 60;
/// The value of `max_open_files`, which is the lowest value that the database does not raise.
const ALLOWED: usize = 20;
/// Number of tables that may be open beyond [`ALLOWED`], while one open table is replaced by
/// another.
const ON_THE_WAY: usize = 2;

#[test]
fn no_more_files_are_open_than_needed() {
    let Some(mut oracle) = Oracle::start("the bound on open files") else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let options = "disable_auto_compactions=true";
    let families = [("default", options), ("other", options)];
    let mut script = Script::open(directory.path(), "", &families);
    for table in 0..TABLES {
        let (family, _) = families[table % 2];
        script.put(family, format!("key{table:03}").as_bytes(), b"value");
        script.put(family, b"everywhere", b"value");
        script.flush(family);
    }
    let entries = oracle.dump(script).expect("a database");

    let mut options = OpenOptions::load(directory.path()).expect("an OPTIONS file");
    options.set_from_string("max_open_files=20").expect("a bound");
    let db = Db::open_read_only(directory.path(), &options).expect("the database");
    for entry in entries {
        let family = db.cf_handle(&entry.family).expect("a column family");
        let value = db.get_cf_opt(&family, &entry.key, &ReadOptions::default()).expect("a get");
        assert_eq!(value, Some(entry.value));
        let open = open_files_in(directory.path());
        assert!(open <= ALLOWED + ON_THE_WAY, "{open} files are open, {ALLOWED} may be");
    }
    assert!(open_files_in(directory.path()) > 0, "no table is open: the test counts wrongly");
    drop(db);
    assert_eq!(open_files_in(directory.path()), 0, "a closed database has files open");
    close_one_that_writes(directory.path(), &options);
}

/// Regression test: when a database that was open for writing was closed, its tables stayed open
/// until another database was closed. The tables of an iterator that was dropped after its database
/// stayed open in the same way.
fn close_one_that_writes(directory: &Path, options: &OpenOptions) {
    for with_iterator in [false, true] {
        let db = Db::open(directory, options).expect("the database");
        let family = db.cf_handle("default").expect("a column family");
        let mut iterator =
            db.raw_iterator_cf_opt(&family, &ReadOptions::default()).expect("an iterator");
        iterator.seek_to_first().expect("a key");
        if with_iterator {
            drop((family, db));
            assert!(open_files_in(directory) > 0, "the iterator has no table open");
            iterator.seek_to_first().expect("a key");
            drop(iterator);
        } else {
            drop(iterator);
            drop((family, db));
        }
        assert_eq!(open_files_in(directory), 0, "an iterator was last: {with_iterator}");
    }
}

/// Returns the number of files in `directory` that this process has open.
#[expect(clippy::disallowed_methods, reason = "asks the system what is open")]
fn open_files_in(directory: &Path) -> usize {
    let descriptors = std::fs::read_dir("/proc/self/fd").expect("the list of descriptors");
    descriptors
        .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
        .filter(|path| path.starts_with(directory))
        .count()
}
