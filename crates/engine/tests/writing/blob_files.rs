//! Tests that blob files, which RocksDB wrote, are removed while the database is open: when nothing
//! refers to their blobs any more, and not before.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tailwater::{
    BottommostRewrite, ColumnFamily, CompactRangeOptions, Db, OpenOptions, ReadOptions, verify,
};
use tailwater_io::posix::PosixStorage;
use tailwater_io::sim::{Call, SimStorage};
use tailwater_io::{Create, IoMode, Operation, Purpose, Storage};
use tailwater_testkit::dump::Entry;
use tailwater_testkit::golden;

use crate::check;
use crate::support::{default_family, names, simulated, synced};

const PATH: &str = "/db";

/// Options that are set over those of the golden databases. Tailwater does not write blob files.
const OVER: &str = "enable_blob_files=false;disable_auto_compactions=true";

/// Returns options with which to open a golden database on a simulated disk.
fn options(disk: &SimStorage) -> OpenOptions {
    let mut options = simulated(disk, "");
    options.set_load_when_opened(OVER);
    options
}

/// Creates a disk with the files of a golden database, all of them synced.
fn disk(name: &str) -> SimStorage {
    let disk = SimStorage::new(1);
    disk.create_directory(PATH.as_ref()).expect("a directory");
    for (file, bytes) in golden::files(name) {
        let path = Path::new(PATH).join(file);
        let file = disk.create(&path, Create::New, IoMode::Buffered, Purpose::Metadata);
        let mut file = file.expect("a file");
        file.write_all_at(&bytes, 0, Purpose::Metadata).expect("a write");
        file.sync_all(Purpose::Metadata).expect("a sync");
    }
    disk.sync_directory(PATH.as_ref()).expect("a sync");
    disk.sync_directory("/".as_ref()).expect("a sync");
    disk
}

fn open(disk: &SimStorage) -> Db {
    Db::open(PATH, &options(disk)).unwrap_or_else(|error| panic!("{error}"))
}

fn blob_files(storage: &dyn Storage, directory: &Path) -> Vec<String> {
    let mut names = names(storage, directory);
    names.retain(|name| name.ends_with(".blob"));
    names.sort();
    names
}

/// Waits until `expected` blob files remain. Returns the number of those that remain. The removal
/// may be delayed by reads of other tests in this process.
fn blob_files_left(db: &Db, disk: &SimStorage, expected: usize) -> usize {
    let left = || blob_files(disk, PATH.as_ref()).len();
    for _ in 0..60_000 {
        if left() == expected {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
        // The end of a pause looks for files that can be removed.
        drop(db.pause_compactions().expect("a pause"));
    }
    left()
}

fn delete(db: &Db, entries: &[Entry]) {
    for entry in entries {
        let family = db.cf_handle(&entry.family).expect("a column family");
        db.delete_cf_opt(&family, &entry.key, &synced()).expect("a deletion");
    }
}

fn compact(db: &Db, family: &ColumnFamily) {
    let force =
        CompactRangeOptions::new().with_bottommost_level_compaction(BottommostRewrite::Force);
    db.compact_range_cf_opt(family, None, None, &force).expect("a compaction");
}

fn compact_all(db: &Db) {
    db.column_families().iter().for_each(|family| compact(db, family));
}

fn number(db: &Db, name: &str) -> u64 {
    let value = db.property_value_cf(&default_family(db), name).expect("a property");
    value.expect("a value").parse().expect("a number")
}

/// Regression test: blob files were removed only when the database was opened the next time, never
/// while it was open.
#[test]
fn blob_files_without_live_blobs_are_removed() {
    for name in ["blobs", "small-blobs"] {
        let disk = disk(name);
        let db = open(&disk);
        let dump = golden::dump(name);
        check::holds(&db, &dump, name);
        assert!(blob_files(&disk, PATH.as_ref()).len() > 1, "{name}");
        delete(&db, &dump);
        compact_all(&db);
        assert_eq!(blob_files_left(&db, &disk, 0), 0, "{name}");
        assert_eq!(number(&db, "tailwater.num-obsolete-files"), 0, "{name}");
        check::holds(&db, &[], name);
        db.close().expect("closing");
        drop(db);
        check::holds(&open(&disk), &[], name);
    }
}

/// Tests that exactly those blob files are removed whose blobs are all garbage.
#[test]
fn blob_files_with_live_blobs_stay() {
    let disk = disk("blobs");
    let db = open(&disk);
    let mut dump = golden::dump("blobs");
    compact_all(&db);
    let mut before = number(&db, "rocksdb.num-blob-files") as usize;
    let all = before;
    while !dump.is_empty() {
        let kept = dump.split_off(dump.len().min(dump.len() / 4 + 10));
        delete(&db, &dump);
        compact_all(&db);
        let now = number(&db, "rocksdb.num-blob-files") as usize;
        assert!(now <= before, "{now} of {before} are left");
        assert_eq!(blob_files_left(&db, &disk, now), now);
        check::holds(&db, &kept, "the others");
        let live = number(&db, "rocksdb.live-blob-file-size");
        assert_eq!(number(&db, "rocksdb.total-blob-file-size"), live);
        (before, dump) = (now, kept);
    }
    assert!(all > 10 && before == 0, "{all} were there, {before} are left");
}

/// Regression test: the blob files of a dropped column family stayed until the next opening.
#[test]
fn blob_files_of_a_dropped_family_stay_until_its_last_handle_is_dropped() {
    let disk = disk("small-blobs");
    let db = open(&disk);
    let (of_default, of_other): (Vec<Entry>, Vec<Entry>) =
        golden::dump("small-blobs").into_iter().partition(|entry| entry.family == "default");
    let all = blob_files(&disk, PATH.as_ref()).len();
    let of_others_files = all - number(&db, "rocksdb.num-blob-files") as usize;
    assert!(all > of_others_files && of_others_files > 0);
    let other = db.cf_handle("other").expect("a column family");
    db.drop_cf(&other).expect("dropping");
    drop(db.pause_compactions().expect("a pause"));
    assert_eq!(blob_files(&disk, PATH.as_ref()).len(), all);
    for entry in &of_other {
        let value = db.get_cf_opt(&other, &entry.key, &ReadOptions::default()).expect("a get");
        assert_eq!(value.as_ref(), Some(&entry.value));
    }
    drop(other);
    let left = all - of_others_files;
    assert_eq!(blob_files_left(&db, &disk, left), left);
    check::holds(&db, &of_default, "the other family");
}

/// Tests that an iterator keeps the blob files of its version, and that the properties count them.
#[test]
fn blob_files_stay_while_an_older_version_is_read() {
    let disk = disk("blobs");
    let db = open(&disk);
    let dump = golden::dump("blobs");
    db.flush_all().expect("a flush");
    let options = ReadOptions::new().with_allow_unprepared_value(true);
    let mut older = db.raw_iterator_cf_opt(&default_family(&db), &options).expect("an iterator");
    let versions_files = number(&db, "rocksdb.num-blob-files") as usize;
    let bytes = number(&db, "rocksdb.live-blob-file-size");
    delete(&db, &dump);
    compact_all(&db);
    assert_eq!(number(&db, "rocksdb.num-blob-files"), 0);
    assert_eq!(number(&db, "rocksdb.live-blob-file-size"), 0);
    // Regression test: this property had the size of the current version's files only.
    assert_eq!(number(&db, "rocksdb.total-blob-file-size"), bytes);
    assert_eq!(blob_files_left(&db, &disk, versions_files), versions_files);
    older.seek_to_first().expect("the first entry");
    for entry in &dump {
        older.prepare_value().expect("a blob");
        assert!(older.item() == Some((&entry.key, &entry.value)));
        older.next().expect("the next entry");
    }
    assert!(!older.valid());
    drop(older);
    assert_eq!(blob_files_left(&db, &disk, 0), 0);
    assert_eq!(number(&db, "rocksdb.total-blob-file-size"), 0);
}

/// Tests that a checkpoint, which shares blob files with the database, keeps its own.
#[test]
fn a_checkpoint_keeps_the_blob_files_that_the_database_removes() {
    let disk = disk("small-blobs");
    let db = open(&disk);
    let dump = golden::dump("small-blobs");
    db.checkpoint("/checkpoint").expect("a checkpoint");
    delete(&db, &dump);
    compact_all(&db);
    assert_eq!(blob_files_left(&db, &disk, 0), 0);
    let copy = Db::open("/checkpoint", &options(&disk)).expect("the checkpoint");
    check::holds(&copy, &dump, "the checkpoint");
}

/// Tests the effect of a power cut and of a crash of the process at each step of a compaction that
/// leaves a blob file without live blobs, and at the removal of the file.
#[test]
fn a_crash_loses_no_blob_file_that_is_needed() {
    let disk = disk("small-blobs");
    let db = open(&disk);
    let (deleted, kept): (Vec<Entry>, Vec<Entry>) =
        golden::dump("small-blobs").into_iter().partition(|entry| entry.family == "other");
    disk.start_recording();
    delete(&db, &deleted);
    let begin = disk.call_count();
    compact_all(&db);
    let left = number(&db, "rocksdb.num-blob-files") as usize;
    assert_eq!(blob_files_left(&db, &disk, left), left);
    let calls = disk.calls();
    let is_removal = |call: &Call| {
        call.operation == Operation::Remove && call.path.extension().is_some_and(|it| it == "blob")
    };
    assert!(calls.iter().any(is_removal), "no blob file was removed");
    for call in calls.iter().filter(|call| call.number >= begin) {
        for seed in 0..2 {
            let mut replay = disk.replay();
            replay.advance_to(call.number);
            for image in [replay.crash_image(seed), replay.process_crash_image(seed)] {
                let context = format!("a crash at call {} of {:?}", call.number, call.operation);
                let db = open(&image);
                check::holds(&db, &kept, &context);
                compact_all(&db);
                assert_eq!(blob_files_left(&db, &image, left), left, "{context}");
                check::holds(&db, &kept, &context);
                db.close().expect("closing");
                drop(db);
                let report = verify::verify(PATH, &options(&image));
                assert!(report.findings.is_empty(), "{context}: {:?}", report.findings);
            }
        }
    }
}

/// Tests that the background thread removes blob files, and closes those that were read.
#[test]
fn a_thread_removes_and_closes_blob_files() {
    let copy = golden::unpack("blobs");
    let mut options = OpenOptions::with_storage(Arc::new(PosixStorage::new()));
    options.set_load_when_opened(OVER);
    let db = Db::open(copy.path(), &options).expect("the database");
    let dump = golden::dump("blobs");
    check::holds(&db, &dump, "blobs");
    assert!(open_blob_files(copy.path()) > 0);
    delete(&db, &dump);
    compact_all(&db);
    let begun = Instant::now();
    while !blob_files(&PosixStorage::new(), copy.path()).is_empty()
        || open_blob_files(copy.path()) > 0
    {
        assert!(begun.elapsed() < Duration::from_secs(60), "blob files stay");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Returns the number of blob files of a directory, including removed ones, that this process has
/// open.
#[expect(clippy::disallowed_methods, reason = "asks the system what is open")]
fn open_blob_files(directory: &Path) -> usize {
    let descriptors = std::fs::read_dir("/proc/self/fd").expect("the list of descriptors");
    let open = descriptors.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    let is_blob = |path: &Path| path.to_string_lossy().contains(".blob");
    open.filter(|path| path.starts_with(directory) && is_blob(path)).count()
}
