//! The limit of the memory of memtables: which memtables are flushed as it comes near, and who
//! waits while it is reached.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tailwater::{
    BlockCache, ColumnFamily, Db, ErrorKind, OpenOptions, WriteBatch, WriteBufferManager,
    WriteOptions,
};
use tailwater_io::sim::SimStorage;

use crate::gate::{Call, Gate, Opening};
use crate::support::{
    create_family, default_family, eventually, failure, level_0, level_0_of, log, property, put,
    returns, simulated,
};

const KIB: usize = 1 << 10;

fn options(disk: &SimStorage, manager: &Arc<WriteBufferManager>, text: &str) -> OpenOptions {
    let mut options = simulated(disk, text);
    options.set_write_buffer_manager(Arc::clone(manager));
    options
}

/// Opens a database without background threads.
fn open(disk: &SimStorage, manager: &Arc<WriteBufferManager>, text: &str) -> Db {
    Db::open("/db", &options(disk, manager, text)).expect("a database")
}

/// Opens a database with background threads.
fn open_with_threads(path: &str, manager: &Arc<WriteBufferManager>, text: &str) -> Db {
    let disk = SimStorage::new(1);
    let mut options = options(&disk, manager, text);
    options.set_inline_background(false);
    Db::open(path, &options).expect("a database")
}

fn put_into(db: &Db, family: &ColumnFamily, key: usize, bytes: usize) {
    db.put_cf(family, format!("{key:06}"), vec![b'v'; bytes]).expect("a put");
}

/// Puts values into a column family until a table of `flushed` is written. Returns the next key.
fn fill_until_flushed(db: &Db, family: &ColumnFamily, flushed: &ColumnFamily) -> usize {
    for key in 0..2000 {
        if level_0_of(db, flushed) > 0 {
            return key;
        }
        put_into(db, family, key, 1000);
    }
    panic!("nothing is flushed");
}

fn stops(db: &Db) -> u64 {
    let text = property(db, "rocksdb.db-write-stall-stats");
    let count = text.trim().rsplit(' ').next().expect("a number");
    assert!(text.contains("write-buffer-manager-limit-stops: "), "{text}");
    count.parse().expect("a number")
}

/// Puts one batch of `bytes` bytes into the default column family.
fn put_at_once(db: &Db, bytes: usize) {
    let mut batch = WriteBatch::new();
    for key in 0..bytes / 1000 {
        batch.put(format!("{key:06}"), [b'v'; 1000]).expect("a put");
    }
    db.write(&mut batch).expect("a write");
}

#[test]
fn the_oldest_memtable_is_flushed_and_not_the_largest() {
    let disk = SimStorage::new(1);
    let manager = Arc::new(WriteBufferManager::new(1 << 20, false));
    let db = open(&disk, &manager, "disable_auto_compactions=true");
    let (young, old) = (create_family(&db, "young"), create_family(&db, "old"));
    put_into(&db, &old, 0, 10);
    put_into(&db, &young, 0, 10);
    db.flush_cf(&young).expect("a flush, after which a younger memtable begins");
    let key = fill_until_flushed(&db, &young, &old);
    assert_eq!(level_0_of(&db, &young), 1);
    let usage = manager.mutable_memtable_memory_usage();
    assert!(usage > manager.buffer_size() * 7 / 8, "{usage}");
    put_into(&db, &young, key, 10);
    assert_eq!(level_0_of(&db, &young), 2, "now it is the oldest that has entries");
    assert!(manager.mutable_memtable_memory_usage() < manager.buffer_size() / 2);
}

#[test]
fn the_log_describes_the_manager() {
    let disk = SimStorage::new(1);
    let cache = Arc::new(BlockCache::new(1 << 20));
    let manager = Arc::new(WriteBufferManager::with_cache(12_345, cache, true));
    drop(open(&disk, &manager, ""));
    let text = log(&disk, "/db");
    for line in ["buffer_size: 12345", "allow_stall: 1", "cost_to_cache: 1"] {
        assert!(text.contains(&format!("  Options.write_buffer_manager.{line}\n")), "{text}");
    }
    let other = SimStorage::new(1);
    drop(Db::open("/db", &simulated(&other, "")).expect("a database"));
    let text = log(&other, "/db");
    for object in ["write_buffer_manager", "rate_limiter", "row_cache"] {
        assert!(text.contains(&format!("  Options.{object}: None\n")), "{text}");
    }
}

#[test]
fn properties_and_metrics_report_the_manager() {
    let disk = SimStorage::new(1);
    let cache = Arc::new(BlockCache::new(8 << 20));
    let manager = Arc::new(WriteBufferManager::with_cache(64 << 20, cache, true));
    let db = open(&disk, &manager, "");
    put_at_once(&db, 1 << 20);
    let used = manager.memory_usage();
    assert!(used > 1 << 20);
    let property = |name: &str| db.property_value(name).expect("a property");
    let text = property("tailwater.write-buffer-manager").expect("a manager");
    let values: Vec<usize> = text
        .lines()
        .map(|line| line.rsplit(' ').next().expect("a value").parse().expect("a number"))
        .collect();
    assert_eq!(values, [64 << 20, used, used, manager.dummy_entries_in_cache_usage(), 0], "{text}");
    let metrics = property("tailwater.write-buffer-manager-prometheus").expect("a manager");
    for line in [
        "# TYPE tailwater_write_buffer_manager_memory_bytes gauge\n",
        &format!("\ntailwater_write_buffer_manager_buffer_size_bytes {}\n", 64 << 20),
        &format!("\ntailwater_write_buffer_manager_memory_bytes {used}\n"),
        "\ntailwater_write_buffer_manager_stalled_writers 0\n",
    ] {
        assert!(metrics.contains(line), "{line:?} in {metrics}");
    }
    let other = Db::open("/other", &simulated(&SimStorage::new(2), "")).expect("a database");
    let absent = other.property_value("tailwater.write-buffer-manager").expect("a property");
    assert_eq!(absent, None, "there is no manager");
}

#[test]
fn atomic_flushes_include_all_families() {
    let disk = SimStorage::new(1);
    let manager = Arc::new(WriteBufferManager::new(1 << 20, false));
    let db = open(&disk, &manager, "atomic_flush=true;disable_auto_compactions=true");
    let other = create_family(&db, "other");
    put_into(&db, &other, 0, 10);
    fill_until_flushed(&db, &default_family(&db), &other);
    assert_eq!(level_0(&db), 1);
}

#[test]
fn memory_is_counted_from_the_opening_to_the_end() {
    let manager = Arc::new(WriteBufferManager::new(1 << 30, true));
    {
        let db = open_with_threads("/db", &manager, "");
        let empty = manager.memory_usage();
        assert!(empty > 0, "empty memtables count, too");
        put_at_once(&db, 300 * KIB);
        db.delete_range("a", "b").expect("a deletion");
        let size: usize =
            property(&db, "rocksdb.cur-size-all-mem-tables").parse().expect("a number");
        eventually("only the memtable counts", || manager.memory_usage() == size);
        assert_eq!(manager.mutable_memtable_memory_usage(), size);
        // An iterator keeps a memtable after its flush.
        let iterator = db.raw_iterator().expect("an iterator");
        db.flush_all().expect("a flush");
        assert!(manager.memory_usage() > size);
        assert!(manager.mutable_memtable_memory_usage() < 2 * empty);
        drop(iterator);
        eventually("the memtable is freed", || manager.memory_usage() < 2 * empty);
    }
    eventually("all is freed", || manager.memory_usage() == 0);
    assert_eq!(manager.mutable_memtable_memory_usage(), 0);
}

#[test]
fn hasty_writes_are_refused_while_the_limit_is_reached() {
    let manager = Arc::new(WriteBufferManager::new(1 << 20, true));
    let db = open_with_threads("/db", &manager, "");
    put(&db, "a", "1").expect("a put");
    let iterator = db.raw_iterator().expect("an iterator");
    put_at_once(&db, 1 << 20);
    assert_eq!(stops(&db), 0);
    let hasty = WriteOptions::new().with_no_slowdown(true);
    let put_hastily = || db.put_opt("a", "1", &hasty);
    // The flush that this write requests frees nothing: the iterator keeps the memtable.
    let (kind, text) = failure(put_hastily());
    assert_eq!(kind, ErrorKind::Busy);
    assert!(text.contains("writes are stalled: memtables use "), "{text}");
    assert_eq!(stops(&db), 1);
    manager.set_allow_stall(false);
    put_hastily().expect("no stall");
    manager.set_allow_stall(true);
    manager.set_buffer_size(1 << 30);
    put_hastily().expect("another limit");
    manager.set_buffer_size(1 << 20);
    drop(iterator);
    put(&db, "a", "1").expect("the memtable is freed");
}

#[test]
fn writers_wait_for_a_flush_of_their_own_database() {
    let disk = SimStorage::new(1);
    let manager = Arc::new(WriteBufferManager::new(256 * KIB, true));
    let gate = Gate::over(Arc::new(disk.clone()));
    let mut options = gate.options("");
    options.set_write_buffer_manager(Arc::clone(&manager));
    let db = Db::open("/db", &options).expect("a database");
    gate.stop(Call::SyncTable, 0);
    thread::scope(|scope| {
        let opening = Opening(&gate);
        put_at_once(&db, 300 * KIB);
        let waiting = scope.spawn(|| put(&db, "b", "1"));
        gate.wait();
        eventually("the write stalls", || stops(&db) == 1);
        let hasty = WriteOptions::new().with_no_slowdown(true);
        let refused = db.put_opt("a", "1", &hasty);
        assert_eq!(failure(refused).0, ErrorKind::Busy);
        assert!(!waiting.is_finished());
        drop(opening);
        waiting.join().expect("no panic").expect("a put");
    });
    assert!(manager.memory_usage() < manager.buffer_size());
}

/// Closing a database whose writer waits for the memory of another one.
#[test]
fn closing_ends_a_stall_that_another_database_causes() {
    let manager = Arc::new(WriteBufferManager::new(256 * KIB, true));
    let stalled = Arc::new(open_with_threads("/stalled", &manager, ""));
    let full = open_with_threads("/full", &manager, "");
    put(&full, "a", "1").expect("a put");
    let iterator = full.raw_iterator().expect("an iterator");
    put_at_once(&full, 400 * KIB);
    let writer = tailwater_io::thread::spawn("writer", {
        let stalled = Arc::clone(&stalled);
        move || {
            let (kind, text) = failure(put(&stalled, "a", "1"));
            assert_eq!(kind, ErrorKind::Closed, "{text}");
        }
    });
    let writer = writer.expect("a thread");
    eventually("the write stalls", || stops(&stalled) == 1);
    returns("closing", {
        let stalled = Arc::clone(&stalled);
        move || stalled.close()
    })
    .expect("closed");
    drop(writer);
    drop(iterator);
    put(&full, "b", "1").expect("the other database goes on");
}

/// In RocksDB, these stalls would last until somebody writes to the full database.
#[test]
fn the_memory_of_an_idle_database_is_flushed() {
    for text in ["", "min_write_buffer_number_to_merge=3;max_write_buffer_number=6"] {
        let manager = Arc::new(WriteBufferManager::new(1 << 20, true));
        let idle = open_with_threads("/idle", &manager, text);
        let busy = Arc::new(open_with_threads("/busy", &manager, text));
        put_at_once(&idle, 700 * KIB);
        manager.set_buffer_size(256 * KIB);
        let written = returns("a write", {
            let busy = Arc::clone(&busy);
            move || put(&busy, "a", "1")
        });
        written.expect("a put");
        assert_eq!(level_0(&idle), 1, "{text}");
    }
}

/// In RocksDB, the others would flush tiny memtables until somebody writes to the idle database.
#[test]
fn an_idle_database_flushes_before_the_limit() {
    let manager = Arc::new(WriteBufferManager::new(1 << 20, false));
    let idle = open_with_threads("/idle", &manager, "");
    let busy = open_with_threads("/busy", &manager, "");
    put_at_once(&idle, 950 * KIB);
    eventually("the idle database flushes", || level_0(&idle) == 1);
    eventually("its memtable is freed", || manager.memory_usage() < 100 * KIB);
    (0..100).for_each(|key| put_into(&busy, &default_family(&busy), key, 100));
    assert_eq!(level_0(&busy), 0);
}

/// Memory that no flush gives back.
type Pinned = Box<dyn std::any::Any>;

/// Fills memtables of `db`, or of another database with the same manager, that no flush frees.
type Pin = fn(&Db, &Arc<WriteBufferManager>) -> Pinned;

fn pin_by_an_iterator(db: &Db, _: &Arc<WriteBufferManager>) -> Pinned {
    put_at_once(db, 300 * KIB);
    let iterator = db.raw_iterator();
    db.flush_all().expect("a flush");
    Box::new(iterator.expect("an iterator"))
}

/// The ways to pin memory, with their names.
const PINS: [(&str, Pin); 4] = [
    ("an iterator", pin_by_an_iterator),
    ("a closed database", |_, manager| {
        let closed = open_with_threads("/closed", manager, "");
        put_at_once(&closed, 300 * KIB);
        closed.close().expect("closed");
        Box::new(closed)
    }),
    ("a dropped column family", |db, _| {
        let family = db.create_cf("dropped", &default_family(db).options()).expect("a family");
        (0..300).for_each(|key| put_into(db, &family, key, 1000));
        db.drop_cf(&family).expect("dropped");
        Box::new(family)
    }),
    ("a database that is open for reading", |_, manager| {
        let disk = SimStorage::new(1);
        let none = Arc::new(WriteBufferManager::new(0, false));
        put_at_once(&open(&disk, &none, ""), 300 * KIB);
        let options = options(&disk, manager, "");
        Box::new(Db::open_read_only("/db", &options).expect("the database"))
    }),
];

/// Regression test: these stalls lasted forever, because less than half of the memory was that of
/// memtables that accept writes.
#[test]
fn small_memtables_are_flushed_if_most_of_the_memory_is_pinned() {
    for (name, pin) in PINS {
        let manager = Arc::new(WriteBufferManager::new(1 << 30, true));
        let db = open_with_threads("/db", &manager, "disable_auto_compactions=true");
        let pinned = pin(&db, &manager);
        let before = manager.memory_usage();
        assert!(before > 300 * KIB, "{name}: {before} bytes are pinned");
        manager.set_buffer_size(before + 100 * KIB);
        let writing = db.clone();
        returns(name, move || {
            (0..300).for_each(|key| put_into(&writing, &default_family(&writing), key, 1000));
        });
        assert!(stops(&db) > 0 && level_0(&db) > 1, "{name}");
        drop(pinned);
    }
}

/// Regression test: these stalls lasted forever, and so did the other calls.
#[test]
fn a_stall_that_no_flush_can_end_refuses_writes_and_lets_other_calls_go_on() {
    thread::scope(|scope| {
        scope.spawn(|| stall_until_writes_are_refused(false));
        scope.spawn(|| stall_until_writes_are_refused(true));
    });
}

/// `inline` says whether background work is done by the calling threads.
fn stall_until_writes_are_refused(inline: bool) {
    let manager = Arc::new(WriteBufferManager::new(1 << 30, true));
    let disk = SimStorage::new(1);
    let mut options = options(&disk, &manager, "");
    options.set_inline_background(inline);
    let db = Db::open("/db", &options).expect("a database");
    let other = db.create_cf("other", &default_family(&db).options()).expect("a family");
    let pinned = pin_by_an_iterator(&db, &manager);
    manager.set_buffer_size(200 * KIB);
    thread::scope(|scope| {
        let first = scope.spawn(|| put(&db, "a", "1"));
        eventually("the write stalls", || stops(&db) == 1);
        let waiting: Vec<_> = (0..3).map(|_| scope.spawn(|| put(&db, "b", "1"))).collect();
        let flushed = scope.spawn(|| db.flush_all());
        let dropped = scope.spawn(|| db.drop_cf(&other));
        let created = scope.spawn(|| db.create_cf("more", &other.options()));
        let (kind, text) = failure(first.join().expect("no panic"));
        assert_eq!(kind, ErrorKind::Busy, "{text}");
        assert!(text.contains("writes are stalled: memtables use "), "{text}");
        for write in waiting {
            assert_eq!(failure(write.join().expect("no panic")).0, ErrorKind::Busy);
        }
        flushed.join().expect("no panic").expect("a flush");
        dropped.join().expect("no panic").expect("dropped");
        created.join().expect("no panic").expect("a family");
    });
    assert_eq!(log(&disk, "/db").matches("nothing is left to flush").count(), 1);
    drop(pinned);
    put(&db, "a", "1").expect("the memory is freed");
    assert_eq!(db.get("b").expect("a get"), None, "a refused write");
}

/// A stalled database flushes one family after the other, until the memory is below the limit.
#[test]
fn a_stalled_database_flushes_as_many_families_as_necessary() {
    let manager = Arc::new(WriteBufferManager::new(16 << 20, true));
    let db = Arc::new(open_with_threads("/db", &manager, ""));
    let families: Vec<_> = (0..8).map(|number| create_family(&db, &format!("f{number}"))).collect();
    for family in &families {
        (0..300).for_each(|key| put_into(&db, family, key, 1000));
    }
    assert!(families.iter().all(|family| level_0_of(&db, family) == 0));
    manager.set_buffer_size(1 << 20);
    let written = returns("a write", {
        let db = Arc::clone(&db);
        move || put(&db, "a", "1")
    });
    written.expect("a put");
    assert!(families.iter().filter(|family| level_0_of(&db, family) > 0).count() >= 4);
    assert!(manager.memory_usage() < 1100 * KIB, "{}", manager.memory_usage());
}

#[test]
fn three_databases_that_stall_in_turn_all_go_on() {
    let manager = Arc::new(WriteBufferManager::new(512 * KIB, true));
    let databases: Vec<Arc<Db>> = ["/a", "/b", "/c"]
        .map(|path| Arc::new(open_with_threads(path, &manager, "write_buffer_size=262144")))
        .into();
    // Each database in turn is blocked by the memory of the two others, which are idle then.
    for round in 0..6 {
        for (number, db) in databases.iter().enumerate() {
            let db = Arc::clone(db);
            returns(&format!("round {round} of {number}"), move || {
                put_at_once(&db, 200 * KIB);
            });
        }
    }
    // All of them write at the same time, and one of them is closed meanwhile.
    let is_over = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = databases
        .iter()
        .flat_map(|db| [Arc::clone(db), Arc::clone(db)])
        .map(|db| {
            let is_over = Arc::clone(&is_over);
            tailwater_io::thread::spawn("writer", move || {
                let mut key = 0;
                while !is_over.load(Ordering::Relaxed) {
                    match db.put(format!("{key:06}"), [7; 2000]) {
                        Ok(()) => key += 1,
                        Err(error) => {
                            assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
                            return;
                        }
                    }
                }
            })
            .expect("a thread")
        })
        .collect();
    eventually("every database has stalled", || databases.iter().all(|db| stops(db) > 3));
    let first = Arc::clone(&databases[0]);
    returns("closing", move || first.close()).expect("closed");
    let before = [1, 2].map(|number| stops(&databases[number]));
    eventually("the others go on", || {
        [1, 2].iter().zip(before).all(|(&number, before)| stops(&databases[number]) > before + 3)
    });
    is_over.store(true, Ordering::Relaxed);
    returns("the end of the writers", move || drop(writers));
    assert!(manager.memory_usage() < 4 * 512 * KIB, "{}", manager.memory_usage());
    drop(databases);
    thread::sleep(Duration::from_millis(1));
    eventually("all is freed", || manager.memory_usage() == 0);
}
