//! Blob files that RocksDB wrote, and that Tailwater removes while the database is open.

use std::path::Path;
use std::time::{Duration, Instant};

use tailwater::{BottommostRewrite, ColumnFamily, CompactRangeOptions, Db, OpenOptions};
use tailwater_io::Storage;
use tailwater_io::posix::PosixStorage;
use tailwater_testkit::oracle::Script;

use crate::blobs;
use crate::laboratory::{Laboratory, in_laboratory};

/// Number of blob files that RocksDB writes for each column family.
const FILES: usize = 10;
/// Number of keys whose values are in one blob file.
const KEYS: usize = 20;
const FAMILIES: [(&str, &str); 2] = [
    ("default", "enable_blob_files=true;min_blob_size=0;disable_auto_compactions=true"),
    ("other", "enable_blob_files=true;min_blob_size=0;disable_auto_compactions=true"),
];

fn key(file: usize, key: usize) -> Vec<u8> {
    format!("{key:04}-{file:04}").into_bytes()
}

/// Regression test: a database whose blob files held only garbage kept them until the next opening.
/// RocksDB removes them while the database is open. The test also checks that RocksDB accepts the
/// garbage that Tailwater recorded, with its consistency checks, and knows the same blob files.
#[test]
fn blob_files_without_live_blobs_are_removed() {
    in_laboratory("removal of blob files", |laboratory| {
        let place = laboratory.next_place();
        let path = place.database();
        let context = laboratory.context.clone();
        rocksdb_writes(laboratory, &path);
        assert_eq!(blob_files(&path), 2 * FILES, "{context}");

        let db = open(&path, &context);
        let (default, other) = (family(&db, "default"), family(&db, "other"));
        // Every second file of the default family, and one blob of each of the others.
        for file in 0..FILES {
            for number in (0..KEYS).filter(|&number| file % 2 == 0 || number == 0) {
                db.delete_cf(&default, key(file, number)).expect("a deletion");
            }
        }
        compact(&db, &default, &context);
        wait_for_blob_files(&path, FILES + FILES / 2, &context);
        db.close().unwrap_or_else(|error| panic!("{context}: {error}"));
        drop((db, default, other));
        assert!(blobs::garbage_is_counted(&path, &context) > 0, "{context}");
        let found = rocksdb_finds(laboratory, &path, &FAMILIES);
        assert_eq!(found, [FILES / 2, FILES], "{context}: blob files according to RocksDB");

        let db = open(&path, &context);
        let (default, other) = (family(&db, "default"), family(&db, "other"));
        db.delete_range_cf(&default, key(0, 0), b"~").expect("a deletion");
        compact(&db, &default, &context);
        wait_for_blob_files(&path, FILES, &context);
        db.drop_cf(&other).expect("dropping");
        drop(other);
        wait_for_blob_files(&path, 0, &context);
        db.close().unwrap_or_else(|error| panic!("{context}: {error}"));
        drop((db, default));
        let found = rocksdb_finds(laboratory, &path, &FAMILIES[..1]);
        assert_eq!(found, [0], "{context}: blob files according to RocksDB");
        assert_eq!(blob_files(&path), 0, "{context}");
    });
}

/// Makes RocksDB write a database in `path` whose values are all in blob files.
fn rocksdb_writes(laboratory: &mut Laboratory, path: &Path) {
    let mut script = Script::open(path, "", &FAMILIES);
    for (family, _) in FAMILIES {
        for file in 0..FILES {
            for number in 0..KEYS {
                script.put(family, &key(file, number), &[b'v'; 100]);
            }
            script.flush(family);
        }
    }
    script.line(&[&"close"]);
    let context = laboratory.context.clone();
    laboratory.rocksdb_does(&script, &context);
}

/// Makes RocksDB open and verify the database with its consistency checks. Returns the number of
/// blob files that it knows in each of the column families.
fn rocksdb_finds(
    laboratory: &mut Laboratory,
    path: &Path,
    families: &[(&str, &str)],
) -> Vec<usize> {
    let families: Vec<(&str, String)> = families
        .iter()
        .map(|(name, options)| (*name, format!("{options};force_consistency_checks=true")))
        .collect();
    let named: Vec<(&str, &str)> =
        families.iter().map(|(name, options)| (*name, options.as_str())).collect();
    let mut script = Script::describe(path, "paranoid_checks=true", &named);
    script.line(&[&"open-existing"]);
    script.line(&[&"verify"]);
    let context = laboratory.context.clone();
    laboratory.rocksdb_does(&script, &context);
    let mut counts = Vec::new();
    for (name, _) in &named {
        let mut script = Script::default();
        script.line(&[&"property", name, &"rocksdb.num-blob-files"]);
        let answer = laboratory.rocksdb_does(&script, &context);
        counts.push(answer.trim().parse().expect("a count"));
    }
    laboratory.rocksdb_closes(&context);
    counts
}

fn open(path: &Path, context: &str) -> Db {
    let mut options = OpenOptions::default();
    options.set_from_string("disable_auto_compactions=true").expect("options");
    Db::open(path, &options).unwrap_or_else(|error| panic!("{context}: {error}"))
}

fn family(db: &Db, name: &str) -> ColumnFamily {
    db.cf_handle(name).expect("a column family")
}

fn compact(db: &Db, family: &ColumnFamily, context: &str) {
    let force =
        CompactRangeOptions::new().with_bottommost_level_compaction(BottommostRewrite::Force);
    db.compact_range_cf_opt(family, None, None, &force)
        .unwrap_or_else(|error| panic!("{context}: {error}"));
}

fn blob_files(path: &Path) -> usize {
    let entries = PosixStorage::new().list(path).expect("a directory");
    entries.iter().filter(|entry| entry.name.ends_with(".blob")).count()
}

fn wait_for_blob_files(path: &Path, expected: usize, context: &str) {
    let begun = Instant::now();
    while blob_files(path) != expected {
        let left = blob_files(path);
        assert!(begun.elapsed() < Duration::from_secs(60), "{context}: {left} are left");
        std::thread::sleep(Duration::from_millis(10));
    }
}
