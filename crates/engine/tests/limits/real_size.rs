//! Entries of real length. These tests need much memory, and disk space in the directory for
//! temporary files, so they run only if `TAILWATER_REAL_SIZE` is `on`. A test that is left out says
//! so, and why: without the variable, or on a machine with too little memory or disk space.

use std::path::Path;

use tailwater::batch::{ENTRY_LENGTH_MAX, KEY_LENGTH_MAX};
use tailwater::for_tests::EntryLimit;
use tailwater::{Db, ErrorKind, OpenOptions, WriteOptions};
use tailwater_testkit::filesystem::say;
use tailwater_testkit::oracle::{Oracle, Script};
use tempfile::TempDir;

use crate::support::{compact, failure};

/// Memory that a test needs, in bytes.
const MEMORY: u64 = 20 << 30;

/// Disk space that a test needs, in bytes.
const SPACE: u64 = 22 << 30;

/// A directory for a test's database. Other tests wait until it is dropped.
struct Place {
    directory: TempDir,
    _limit: EntryLimit,
}

impl Place {
    /// Returns a directory; `None` if the test is left out, after saying why.
    fn of(test: &str) -> Option<Self> {
        let _limit = EntryLimit::of(ENTRY_LENGTH_MAX);
        let directory = tempfile::tempdir().expect("a temporary directory");
        let (memory, space) = (available_memory(), available_space(directory.path()));
        let reason = if std::env::var_os("TAILWATER_REAL_SIZE").is_none_or(|value| value != "on") {
            "TAILWATER_REAL_SIZE is not on".to_owned()
        } else if memory < MEMORY {
            format!("it needs {MEMORY} bytes of memory, and {memory} are available")
        } else if space < SPACE {
            format!("it needs {SPACE} bytes of disk space, and {space} are available")
        } else {
            return Some(Self { directory, _limit });
        };
        say(&format!("skipped: {test}: {reason}"));
        None
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn open(&self) -> Db {
        let mut options = OpenOptions::default();
        let text = "create_if_missing=true;merge_operator=stringappend;\
                    disable_auto_compactions=true;write_buffer_size=8G";
        options.set_from_string(text).expect("options");
        Db::open(self.path().join("db"), &options).expect("a database")
    }

    /// Lets RocksDB open the database, recover its log, verify it, and rewrite everything.
    fn pass_through_rocksdb(&self, test: &str) {
        let Some(mut oracle) = Oracle::start(test) else { return };
        let families = [("default", "merge_operator=stringappend")];
        let mut script = Script::describe(&self.path().join("db"), "", &families);
        script.line(&[&"open-existing"]);
        script.flush("default");
        script.line(&[&"verify"]);
        script.compact("default");
        script.line(&[&"verify"]);
        script.line(&[&"close"]);
        oracle.run(&script).expect("RocksDB reads and rewrites the database");
    }
}

/// Returns the memory that programs can use without swapping, in bytes.
#[expect(clippy::disallowed_methods, reason = "reads the machine's state, not a database")]
fn available_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").expect("the state of the memory");
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let number = line.and_then(|line| line.split_whitespace().next()).expect("a number");
    number.parse::<u64>().expect("a number") << 10
}

/// Returns the free disk space for a file in `directory`, in bytes.
fn available_space(directory: &Path) -> u64 {
    let state = rustix::fs::statvfs(directory).expect("the state of the filesystem");
    state.f_bavail * state.f_frsize
}

/// Returns zeros with a mark in every MiB. Most of the zeros take no memory until they are copied.
fn marked(length: usize, mark: u8) -> Vec<u8> {
    let mut bytes = vec![0; length];
    bytes.iter_mut().step_by(1 << 20).for_each(|byte| *byte = mark);
    bytes
}

fn synced() -> WriteOptions {
    WriteOptions::new().with_sync(true)
}

fn check(db: &Db, key: &[u8], value: &[u8]) {
    let found = db.get(key).expect("a get").expect("a value");
    assert!(found == value, "a value of {} bytes, expected {}", found.len(), value.len());
}

#[test]
fn an_entry_of_the_maximum_length_is_kept_through_every_step() {
    let test = "an entry of 4 GiB";
    let Some(place) = Place::of(test) else { return };
    let key = b"key";
    let value = marked(ENTRY_LENGTH_MAX - key.len(), 7);
    let db = place.open();
    db.put("a", "small").expect("a put");
    let (kind, _) = failure(db.put(b"longer", &value));
    assert_eq!(kind, ErrorKind::InvalidArgument);
    db.put_opt(key, &value, &synced()).expect("an entry of the maximum length");
    db.put("z", "small").expect("a put");
    drop(db);
    // Recovery reads the log and writes a table.
    let db = place.open();
    check(&db, key, &value);
    compact(&db);
    check(&db, key, &value);
    db.close().expect("closing");
    drop(db);
    place.pass_through_rocksdb(test);
    let db = place.open();
    check(&db, key, &value);
    check(&db, b"z", b"small");
}

#[test]
fn rocksdb_recovers_a_log_with_an_entry_of_the_maximum_length() {
    let test = "a log with an entry of 4 GiB";
    let Some(place) = Place::of(test) else { return };
    let key = b"key";
    let value = marked(ENTRY_LENGTH_MAX - key.len(), 7);
    let db = place.open();
    db.put("a", "small").expect("a put");
    db.put_opt(key, &value, &synced()).expect("an entry of the maximum length");
    drop(db);
    place.pass_through_rocksdb(test);
    let db = place.open();
    check(&db, key, &value);
}

#[test]
fn a_key_of_the_maximum_length_is_kept_through_every_step() {
    let test = "a key of 512 MiB";
    let Some(place) = Place::of(test) else { return };
    let key = marked(KEY_LENGTH_MAX, 7);
    let db = place.open();
    let longer = vec![0; KEY_LENGTH_MAX + 1];
    assert_eq!(failure(db.put(&longer, "")).0, ErrorKind::InvalidArgument);
    drop(longer);
    db.put_opt(&key, "value", &synced()).expect("a key of the maximum length");
    drop(db);
    let db = place.open();
    check(&db, &key, b"value");
    compact(&db);
    check(&db, &key, b"value");
    let mut cursor = db.raw_iterator().expect("an iterator");
    cursor.seek_to_last().expect("a seek");
    assert!(cursor.key() == key);
    drop(cursor);
    db.close().expect("closing");
    drop(db);
    place.pass_through_rocksdb(test);
    check(&place.open(), &key, b"value");
}

#[test]
fn operands_of_more_than_four_gib_are_kept_and_fail_only_reads_of_their_key() {
    let Some(place) = Place::of("operands of more than 4 GiB") else { return };
    let check = |db: &Db| {
        let (kind, text) = failure(db.get("m"));
        assert_eq!(kind, ErrorKind::LimitReached, "{text}");
        assert!(text.contains("key 'm'") && text.contains("4500000002 bytes"), "{text}");
        for key in ["a", "z"] {
            assert_eq!(db.get(key).expect("a get").as_deref(), Some(&b"small"[..]));
        }
        assert!(db.background_error().is_none() && db.stopped_compactions().is_empty());
    };
    let db = place.open();
    db.put("a", "small").expect("a put");
    db.put("z", "small").expect("a put");
    let operand = marked(1_500_000_000, b'o');
    for _ in 0..3 {
        db.merge("m", &operand).expect("a merge");
    }
    drop(operand);
    check(&db);
    drop(db);
    let db = place.open();
    check(&db);
    compact(&db);
    check(&db);
    db.put("m", "short").expect("a put");
    compact(&db);
    assert_eq!(db.get("m").expect("a get").as_deref(), Some(&b"short"[..]));
}

#[test]
fn keys_of_more_than_four_gib_in_one_memtable_are_flushed() {
    let Some(place) = Place::of("keys of more than 4 GiB") else { return };
    let keys = 9_u8;
    let key = |number: u8| {
        // The keys differ in their last byte, so no key that separates two of them is short.
        let mut key = vec![0; KEY_LENGTH_MAX];
        key[KEY_LENGTH_MAX - 1] = number;
        key
    };
    let db = place.open();
    for number in 0..keys {
        db.put(key(number), [number]).expect("a put");
    }
    drop(db);
    let db = place.open();
    assert!(db.live_files().len() > 1);
    [0, keys - 1].iter().for_each(|&number| check(&db, &key(number), &[number]));
}
