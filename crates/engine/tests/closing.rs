//! Tests that databases are closed independently of each other: a thread that reads one database
//! for a long time delays the drop of what another one has retired, but not its closing.
//!
//! A test of its own, because such a thread would disturb other tests of the process.
#![cfg(not(loom))]

use std::cmp::Ordering;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use tailwater::{Db, OpenOptions, WriteBufferManager};
use tailwater_format::Comparator;
use tailwater_format::comparator::CustomComparator;
use tailwater_io::Storage;
use tailwater_io::sim::SimStorage;

/// A bytewise comparator that stops the first comparison after [`Stopping::stop`], until the
/// returned sender is dropped. The comparing thread holds an epoch guard if it searches a memtable.
#[derive(Default)]
struct Stopping {
    next: Mutex<Option<(Sender<()>, Receiver<()>)>>,
}

impl Stopping {
    fn stop(&self) -> (Receiver<()>, Sender<()>) {
        let (begun, wait_for_begin) = channel();
        let (end, wait_for_end) = channel();
        *self.next.lock().expect("nobody panics here") = Some((begun, wait_for_end));
        (wait_for_begin, end)
    }
}

impl CustomComparator for Stopping {
    fn name(&self) -> &str {
        "tests.Stopping"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        let stop = self.next.lock().expect("nobody panics here").take();
        if let Some((begun, end)) = stop {
            begun.send(()).expect("the test waits");
            end.recv().expect_err("only dropped");
        }
        a.cmp(b)
    }
}

/// Opens a database with background threads, and lets a thread begin a get that ends when `during`
/// returns. Returns the database.
fn while_read_elsewhere(during: impl FnOnce()) -> Db {
    let comparator = Arc::new(Stopping::default());
    let mut options = simulated(&SimStorage::new(1));
    options.set_from_string("comparator=tests.Stopping").expect("options");
    options.add_comparator(Comparator::Custom(comparator.clone()));
    options.set_inline_background(false);
    let db = Db::open("/elsewhere", &options).expect("a database");
    db.put("key", "value").expect("a put");
    thread::scope(|scope| {
        let (begun, end) = comparator.stop();
        let reader = scope.spawn(|| db.get("key"));
        begun.recv().expect("the get begins");
        during();
        drop(end);
        let value = reader.join().expect("no panic").expect("a get");
        assert_eq!(value.as_deref(), Some(&b"value"[..]));
    });
    db
}

/// Returns the options of a database without background threads.
fn simulated(disk: &SimStorage) -> OpenOptions {
    let mut options = OpenOptions::with_storage(Arc::new(disk.clone()));
    options.set_clock(disk.clock());
    options.set_inline_background(true);
    options.create_if_missing(true);
    options
}

fn tables(disk: &SimStorage) -> Vec<String> {
    let entries = disk.list(Path::new("/db")).expect("a list");
    entries.into_iter().map(|entry| entry.name).filter(|name| name.ends_with(".sst")).collect()
}

fn open(options: &OpenOptions) -> Db {
    Db::open("/db", options).expect("a database")
}

/// If closing or dropping the database waited for the reader, this test would not end.
#[test]
fn the_memory_of_a_closed_database_is_freed_by_another_one() {
    for inline in [true, false] {
        let manager = Arc::new(WriteBufferManager::new(1 << 30, false));
        let mut options = simulated(&SimStorage::new(2));
        options.set_inline_background(inline);
        options.set_write_buffer_manager(Arc::clone(&manager));
        let db = open(&options);
        let elsewhere = while_read_elsewhere(|| {
            db.put("key", "value").expect("a put");
            db.flush().expect("a flush");
            db.put("key", "value").expect("a put");
            db.close().expect("closed");
            assert_eq!(db.get("key").expect("a get").as_deref(), Some(&b"value"[..]));
            drop(db);
            assert!(manager.memory_usage() > 0, "freed under a reader");
        });
        let begun = Instant::now();
        while manager.memory_usage() > 0 {
            assert!(begun.elapsed() < Duration::from_secs(60), "the other database frees nothing");
            thread::sleep(Duration::from_millis(5));
        }
        drop(elsewhere);
    }
}

#[test]
fn files_that_a_reader_may_see_are_left_to_the_next_opening() {
    let disk = SimStorage::new(3);
    let options = simulated(&disk);
    let db = open(&options);
    for value in ["1", "2"] {
        // Two keys, because tables that overlap only in one key are moved, not merged.
        db.put("a", value).expect("a put");
        db.put("z", value).expect("a put");
        db.flush().expect("a flush");
    }
    while_read_elsewhere(|| {
        db.compact_range(None, None).expect("a compaction");
        db.close().expect("closed");
        let left = tables(&disk);
        assert_eq!(left.len(), 3, "one is in the version, two were merged into it: {left:?}");
        drop(open(&options));
        assert_eq!(tables(&disk).len(), 1);
    });
}
