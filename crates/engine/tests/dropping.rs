//! Tests that dropping an iterator, a snapshot or a handle to a column family leaves expensive work
//! to background threads. The dropped object may hold the last reference to many obsolete tables
//! and memtables, but the calling thread must neither remove files nor free memtables.
//!
//! With `TAILWATER_LARGE=1` the test overwrites and compacts 10 GB instead of 64 MB.
#![cfg(all(not(loom), debug_assertions))]

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use tailwater::{
    ColumnFamily, CompactRangeOptions, Db, DbIterator, OpenOptions, ReadOptions, WriteOptions,
};
use tailwater_io::buffer::pages_given_back;
use tailwater_io::posix::PosixStorage;
use tailwater_io::{Result, Storage};

const VALUE_BYTES: usize = 4 << 10;

/// Storage that records the thread that removed each file.
#[derive(Debug)]
struct Watched {
    files: PosixStorage,
    removals: Mutex<Vec<ThreadId>>,
}

impl Watched {
    fn removals_by(&self, thread: ThreadId) -> usize {
        let removals = self.removals.lock().expect("nobody panics while it is held");
        removals.iter().filter(|by| **by == thread).count()
    }

    fn removals(&self) -> usize {
        self.removals.lock().expect("nobody panics while it is held").len()
    }
}

impl Storage for Watched {
    tailwater_io::forward_storage!(
        files: open, create, rename, remove_directory, link, list, create_directory, metadata,
        identity, canonical_path, capabilities, resident_pages, sync_directory, lock, statistics,
    );

    fn remove(&self, path: &Path) -> Result<()> {
        self.removals.lock().expect("nobody panics while it is held").push(thread::current().id());
        self.files.remove(path)
    }
}

fn write(db: &Db, family: &ColumnFamily, round: u8, bytes: u64) {
    for number in 0..bytes / VALUE_BYTES as u64 {
        // The values are incompressible, so that the tables are large.
        let value: Vec<u8> = (0..VALUE_BYTES as u64 / 8)
            .flat_map(|word| {
                (number * 512 + word + u64::from(round))
                    .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                    .to_le_bytes()
            })
            .collect();
        db.put_cf_opt(family, number.to_be_bytes(), &value, &WriteOptions::default())
            .expect("a put");
    }
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn dropped_handles_leave_cleanup_to_another_thread() {
    let is_large = std::env::var_os("TAILWATER_LARGE").is_some_and(|value| value == "1");
    let bytes = if is_large { 10 << 30 } else { 64 << 20 };
    let files = Arc::new(Watched { files: PosixStorage::new(), removals: Mutex::default() });
    let directory = tempfile::tempdir().expect("a directory");
    let mut options = OpenOptions::with_storage(Arc::clone(&files) as Arc<dyn Storage>);
    let text = "create_if_missing=true;write_buffer_size=8M;compression=kNoCompression;\
                target_file_size_base=4M;level0_slowdown_writes_trigger=1000;\
                level0_stop_writes_trigger=1000;memtable_whole_key_filtering=true;\
                memtable_prefix_bloom_size_ratio=0.1";
    options.set_from_string(text).expect("options");
    let db = Db::open(directory.path(), &options).expect("a database");
    let family = db.cf_handle("default").expect("the default column family");
    write(&db, &family, 0, bytes);
    let held: DbIterator =
        db.raw_iterator_cf_opt(&family, &ReadOptions::default()).expect("an iterator");
    let snapshot = db.snapshot();
    write(&db, &family, 1, bytes);
    db.flush_cf(&family).expect("a flush");
    drop(snapshot);
    let merged = CompactRangeOptions::default();
    db.compact_range_cf_opt(&family, None, None, &merged).expect("a compaction");
    let number = |name: &str| {
        let value = db.property_value_cf(&family, name).expect("a property").expect("a value");
        value.parse::<u64>().expect("a number")
    };
    let (tables, memtables) = ("tailwater.num-obsolete-files", "tailwater.num-pinned-mem-tables");
    // Waits until the number of obsolete tables no longer falls. Those that remain are pinned by
    // the iterator.
    let mut before = 0;
    wait_until("obsolete tables stay", || {
        let now = number(tables);
        std::mem::replace(&mut before, now) == now
    });
    let (pinned, kept) = (number(memtables), number(tables));
    assert!(pinned > 0 && kept > 0, "the iterator keeps {pinned} memtables and {kept} tables");
    let this = thread::current().id();
    let (removals, here, freed) = (files.removals(), files.removals_by(this), pages_given_back());
    drop(held);
    wait_until("what the iterator kept stays", || number(tables) + number(memtables) == 0);
    assert_eq!(files.removals_by(this), here, "tables were removed in the thread that dropped");
    assert_eq!(pages_given_back(), freed, "memtables were freed in the thread that dropped");
    assert!(files.removals() >= removals + kept as usize);
    // Repeats the check that a drop neither removes tables nor frees memtables in the dropping
    // thread. This time, the last handle of a dropped column family pins the column family's
    // memtable and tables.
    let options = family.options();
    db.create_cf("other", &options).expect("a column family");
    let other = db.cf_handle("other").expect("a column family");
    write(&db, &other, 3, 16 << 20);
    db.flush_cf(&other).expect("a flush");
    write(&db, &other, 4, 4 << 20);
    db.drop_cf(&other).expect("dropping");
    let (removals, here, freed) = (files.removals(), files.removals_by(this), pages_given_back());
    drop(other);
    wait_until("what the handle kept stays", || files.removals() > removals && number(tables) == 0);
    assert_eq!((files.removals_by(this), pages_given_back()), (here, freed), "the handle");
    println!("{bytes} bytes written twice: {pinned} memtables and {kept} tables were cleared away");
}
