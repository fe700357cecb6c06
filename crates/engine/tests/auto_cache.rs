//! The thread of a block cache that sizes itself. The thread exists while a database uses the
//! cache. It ends with the last of these databases, whether that database was closed, was dropped,
//! or failed to open.
#![cfg(not(loom))]

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tailwater::options::{ColumnFamilyOptions, DbOptions, set_from_string};
use tailwater::{BlockCache, Db, ErrorKind, OpenOptions, ReadOptions, WriteOptions};
use tailwater_io::sim::{Fault, FaultPlan, SimStorage};

/// The name of the thread that adjusts the size of a cache.
const SIZES: &str = "block cache";
/// The prefix of the names of all threads that belong to a database and not to a cache.
const WORKS: &str = "tailwater-";
/// Maximum time for a thread to start or end.
const PATIENCE: Duration = Duration::from_secs(60);

const PATH: &str = "/db";
const CREATE: &str = "create_if_missing=true";
const AUTO: &str = "block_based_table_factory={block_cache=auto}";

/// Returns a guard that each test holds, so that the tests run one after another: they count the
/// threads of the process, which they all share.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the names of those threads of this process that belong to databases and caches.
#[expect(clippy::disallowed_methods, reason = "the kernel's reports are not a database's files")]
fn threads() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").expect("the threads of this process");
    let names = tasks.filter_map(|task| {
        // A thread may end at any time.
        std::fs::read_to_string(task.ok()?.path().join("comm")).ok()
    });
    let names = names.map(|name| name.trim_end().to_owned());
    names.filter(|name| name == SIZES || name.starts_with(WORKS)).collect()
}

/// Waits until there are exactly `count` threads that adjust the sizes of caches. Waiting is
/// necessary because a thread gets its name only after it has started, and the kernel may list a
/// thread briefly after it was joined.
#[track_caller]
fn expect_sizing(count: usize) {
    let context = format!("{count} caches are to have a thread");
    until(&context, |threads| threads.iter().filter(|name| *name == SIZES).count() == count);
}

/// Waits until no thread of a database or cache is left.
#[track_caller]
fn expect_none(context: &str) {
    until(context, |threads| threads.is_empty());
}

#[track_caller]
fn until(context: &str, is_so: impl Fn(&[String]) -> bool) {
    let begun = Instant::now();
    loop {
        let threads = threads();
        if is_so(&threads) {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{context}: these threads exist: {threads:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Returns options for a database on a simulated disk, with background threads.
fn options(disk: &SimStorage, text: &str) -> OpenOptions {
    let mut options = OpenOptions::with_storage(Arc::new(disk.clone()));
    options.set_clock(disk.clock());
    options.set_from_string(text).expect("options");
    options
}

fn open(disk: &SimStorage, text: &str) -> Db {
    Db::open(PATH, &options(disk, text)).expect("a database")
}

/// Puts a key and, if `flushed`, flushes it to a table.
fn put(db: &Db, key: &str, flushed: bool) {
    let family = db.cf_handle("default").expect("the default column family");
    db.put_cf_opt(&family, key.as_bytes(), b"value", &WriteOptions::default()).expect("a put");
    if flushed {
        db.flush_cf(&family).expect("a flush");
    }
}

/// Returns a disk with a database that was not closed: one key is in a table, another in the log.
fn left_by_a_crash() -> SimStorage {
    let disk = SimStorage::new(1);
    let db = open(&disk, CREATE);
    put(&db, "a", true);
    put(&db, "b", false);
    disk.process_crash_image(1)
}

/// Regression test: after a database that had written tables was closed or dropped, the cache and
/// its thread continued to exist.
#[test]
fn the_sizing_thread_lives_as_long_as_the_database() {
    let _alone = alone();
    let disk = SimStorage::new(1);
    let mut options = options(&disk, &format!("{CREATE};create_missing_column_families=true"));
    let db = Db::open(PATH, &options).expect("a database");
    until("with a database", |threads| !threads.is_empty());
    assert!(!threads().contains(&SIZES.to_owned()), "a cache of a fixed size has a thread");
    drop(db);
    expect_none("after a cache of a fixed size");
    options.set_from_string(AUTO).expect("options");
    let mut second = ColumnFamilyOptions::default();
    set_from_string(&mut DbOptions::default(), &mut second, AUTO).expect("options");
    options.set_column_family("second", second);
    for round in 0..5 {
        let db = Db::open(PATH, &options).expect("a database");
        expect_sizing(1);
        put(&db, "a", round % 2 == 0);
        // Some rounds close the database, the others only drop it.
        if round < 3 {
            db.close().expect("closing");
        }
        drop(db);
        expect_none(&format!("round {round}"));
    }
}

/// Regression test: if an iterator outlived its database, the cache and its thread continued to
/// exist after the iterator was dropped.
#[test]
fn an_open_iterator_keeps_the_sizing_thread() {
    let _alone = alone();
    let disk = left_by_a_crash();
    for read_only in [true, false] {
        let options = options(&disk, AUTO);
        let db = if read_only {
            Db::open_read_only(PATH, &options).expect("a reader")
        } else {
            Db::open(PATH, &options).expect("a database")
        };
        expect_sizing(1);
        let family = db.cf_handle("default").expect("the default column family");
        let mut iterator =
            db.raw_iterator_cf_opt(&family, &ReadOptions::default()).expect("an iterator");
        drop((family, db));
        expect_sizing(1);
        iterator.seek_to_first().expect("a key");
        assert_eq!(iterator.item(), Some((&b"a"[..], &b"value"[..])));
        drop(iterator);
        expect_none(&format!("read only: {read_only}"));
    }
}

#[test]
fn the_last_database_that_uses_the_cache_ends_its_thread() {
    let _alone = alone();
    let cache = BlockCache::auto();
    let databases = [(); 3].map(|()| {
        let disk = SimStorage::new(1);
        let mut options = options(&disk, CREATE);
        options.set_block_cache(Arc::clone(&cache));
        Db::open(PATH, &options).expect("a database")
    });
    drop(cache);
    for db in databases {
        expect_sizing(1);
        put(&db, "a", true);
        db.close().expect("closing");
    }
    expect_none("after the last database");
}

#[test]
fn no_thread_is_left_by_an_opening_that_fails_at_any_call() {
    let _alone = alone();
    let left = left_by_a_crash();
    type Open = fn(&Path, &OpenOptions) -> tailwater::Result<Db>;
    let to_write: Open = |directory, options| Db::open(directory, options);
    let to_read: Open = |directory, options| Db::open_read_only(directory, options);
    for (open, how) in [(to_write, "for writing"), (to_read, "for reading")] {
        let whole = left.process_crash_image(1);
        let before = whole.call_count();
        drop(open(PATH.as_ref(), &options(&whole, AUTO)).expect("a database"));
        let calls = whole.call_count() - before;
        let mut failed = 0;
        for call in 0..calls {
            let disk = left.process_crash_image(1);
            disk.set_faults(FaultPlan::from(call, Fault::InputOutput));
            failed += u64::from(open(PATH.as_ref(), &options(&disk, AUTO)).is_err());
            expect_none(&format!("{how}, call {call} and every later one fail"));
        }
        println!("{how}: {calls} calls, {failed} openings failed");
        assert!(failed > calls / 2, "{how}: only {failed} of {calls} openings failed");
    }
}

#[test]
fn no_thread_is_left_by_an_opening_that_is_refused() {
    let _alone = alone();
    let disk = SimStorage::new(1);
    let refused = |text: &str| {
        let refused = Db::open(PATH, &options(&disk, &format!("{AUTO};{text}")));
        refused.expect_err("opening must fail").kind()
    };
    assert_eq!(refused(""), ErrorKind::NotFound);
    expect_none("there is no database");
    let db = open(&disk, &format!("{CREATE};{AUTO}"));
    assert_eq!(refused(""), ErrorKind::Busy);
    expect_sizing(1);
    drop(db);
    assert_eq!(refused("comparator=rocksdb.ReverseBytewiseComparator"), ErrorKind::InvalidArgument);
    expect_none("the order is another");
}
