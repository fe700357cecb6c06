//! Golden databases: databases written by RocksDB, with the contents that RocksDB read from them.
//!
//! They are packed in `tests/golden/` at the root of the repository, which also documents their
//! contents. An archive is unpacked only once per process. Every caller gets a separate copy of the
//! files, because a test may change them.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tempfile::TempDir;

use crate::dump::{self, Entry};

/// Names of the golden databases, except for the small ones.
const NAMES: [&str; 10] = [
    "basic",
    "blobs",
    "fifo",
    "formats",
    "packages",
    "records",
    "universal",
    "wal",
    "wal-recycled",
    "wal-zstd",
];

/// Names of the golden databases that are so small that a test can damage each of their bytes in
/// turn.
const SMALL_NAMES: [&str; 5] = ["small-2", "small-5", "small-6", "small-7", "small-blobs"];

/// A golden database in memory.
#[derive(Debug)]
struct Unpacked {
    /// Bytes of the database's files, by name.
    files: BTreeMap<String, Vec<u8>>,
    /// The live entries that RocksDB read from the database.
    entries: Vec<Entry>,
}

static UNPACKED: Mutex<BTreeMap<String, Arc<Unpacked>>> = Mutex::new(BTreeMap::new());

/// Returns the names of the golden databases, except for the small ones.
pub fn names() -> &'static [&'static str] {
    &NAMES
}

/// Returns the names of the small golden databases, of a few kilobytes each.
pub fn small_names() -> &'static [&'static str] {
    &SMALL_NAMES
}

/// Returns a fresh copy of a golden database, in a temporary directory that is removed when the
/// returned value is dropped.
///
/// # Panics
/// If there is no database with this name, or the copy cannot be written.
pub fn unpack(name: &str) -> TempDir {
    let directory = tempfile::Builder::new()
        .prefix("tailwater-golden-")
        .tempdir()
        .expect("a temporary directory");
    unpack_into(name, directory.path());
    directory
}

/// Writes the files of a golden database into an existing directory.
///
/// # Panics
/// If there is no database with this name, or the copy cannot be written.
pub fn unpack_into(name: &str, directory: &Path) {
    for (file, contents) in &unpacked(name).files {
        write(&directory.join(file), contents);
    }
}

/// Returns the files of a golden database: their names and bytes.
///
/// # Panics
/// If there is no database with this name.
pub fn files(name: &str) -> BTreeMap<String, Vec<u8>> {
    unpacked(name).files.clone()
}

/// Returns the live entries of a golden database. They are sorted by the id of their column family,
/// and within a column family in the order of its comparator.
///
/// # Panics
/// If there is no database with this name.
pub fn dump(name: &str) -> Vec<Entry> {
    unpacked(name).entries.clone()
}

fn unpacked(name: &str) -> Arc<Unpacked> {
    let mut all = UNPACKED.lock().unwrap_or_else(PoisonError::into_inner);
    let database = all.entry(name.to_owned()).or_insert_with(|| Arc::new(read_archive(name)));
    Arc::clone(database)
}

fn read_archive(name: &str) -> Unpacked {
    let path = directory().join(format!("{name}.tar.zst"));
    let packed = read(&path);
    let mut decoder = zstd::Decoder::new(&packed[..]).expect("a zstd stream");
    decoder.window_log_max(27).expect("a window that zstd knows");
    let mut files = BTreeMap::new();
    let mut entries = Vec::new();
    for entry in tar::Archive::new(decoder).entries().expect("a tar archive") {
        let mut entry = entry.expect("an entry of the archive");
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let path = entry.path().expect("a path").into_owned();
        let mut contents = Vec::new();
        entry.read_to_end(&mut contents).expect("the entry's bytes");
        if path.extension().is_some_and(|extension| extension == "dump") {
            entries = dump::parse(&contents);
        } else if let Some(file) = path.file_name().and_then(|file| file.to_str()) {
            files.insert(file.to_owned(), contents);
        }
    }
    assert!(!files.is_empty() && !entries.is_empty(), "{} is not whole", path.display());
    Unpacked { files, entries }
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden")
}

#[expect(clippy::disallowed_methods, reason = "test data, not a database's files")]
fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()))
}

#[expect(clippy::disallowed_methods, reason = "test data, not a database's files")]
fn write(path: &Path, contents: &[u8]) {
    std::fs::write(path, contents)
        .unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
}

/// Declares a test for each golden database that is not small. The test calls `$check` with the
/// name of the database. Another declared test checks that the macro's list of databases is
/// complete.
#[macro_export]
macro_rules! golden_tests {
    ($check:path) => {
        $crate::golden_tests! {
            $check:
            basic => "basic",
            blobs => "blobs",
            fifo => "fifo",
            formats => "formats",
            packages => "packages",
            records => "records",
            universal => "universal",
            wal => "wal",
            wal_recycled => "wal-recycled",
            wal_zstd => "wal-zstd",
        }
    };
    ($check:path: $($test:ident => $name:literal),* $(,)?) => {
        $(
            #[test]
            fn $test() {
                $check($name);
            }
        )*

        #[test]
        fn every_golden_database_is_checked() {
            assert_eq!($crate::golden::names(), [$($name),*]);
        }
    };
}
