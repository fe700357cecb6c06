//! Calls to the database from unusual places: from destructors of thread-local values while a
//! thread ends, and from user code that the database itself calls.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tailwater::{
    CompactRangeOptions, Db, ErrorKind, OpenOptions, ReadOptions, Statistics, WriteBatch,
    WriteOptions,
};
use tailwater_io::sim::SimStorage;
use tailwater_io::thread;

use crate::fuse::{self, Fuse, Object};
use crate::support::{default_family, get, put, simulated, synced, unlogged};

const PATH: &str = "/db";

/// Runs an action when it is dropped. As a thread-local value, it is dropped when its thread ends.
#[derive(Default)]
struct AtEnd(Option<Box<dyn FnOnce()>>);

impl Drop for AtEnd {
    fn drop(&mut self) {
        if let Some(work) = self.0.take() {
            work();
        }
    }
}

thread_local! {
    static AT_END: RefCell<AtEnd> = RefCell::default();
}

/// Makes a put, a get and other calls on a database.
fn use_it(db: &Db, round: &str) {
    let family = default_family(db);
    let none = ReadOptions::default();
    put(db, round, "1").expect("a put");
    db.put_cf_opt(&family, b"synced", b"1", &synced()).expect("a put");
    db.merge_cf_opt(&family, round.as_bytes(), b"2", &WriteOptions::default()).expect("a merge");
    let mut batch = WriteBatch::new();
    batch.put_cf(0, b"batch", b"1").expect("a put");
    batch.delete_range_cf(0, b"x", b"y").expect("a deletion");
    db.write_opt(&mut batch, &WriteOptions::default()).expect("a write");
    for key in ["table", "synced", round] {
        assert!(get(db, key).is_some(), "{key} in {round}");
    }
    let values = db.batched_multi_get_cf_opt(&family, &["table", "batch", "nothing"], &none);
    assert_eq!(values.iter().filter(|value| matches!(value, Ok(Some(_)))).count(), 2);
    let snapshot = Some(db.snapshot());
    let mut iterator =
        db.raw_iterator_cf_opt(&family, &none.with_snapshot(snapshot)).expect("an iterator");
    iterator.seek_to_first().expect("a first key");
    assert!(iterator.valid());
    db.flush_all().expect("a flush");
    db.compact_range_cf_opt(&family, None, None, &CompactRangeOptions::default())
        .expect("a compaction");
    assert!(get(db, "table").is_some());
}

/// Regression test: a put or get in the destructor of a thread-local value aborted the process if
/// the database's own thread-local values of that thread had already been destroyed.
#[test]
fn a_thread_that_ends_can_use_the_database() {
    for inline in [true, false] {
        let disk = SimStorage::new(1);
        let text = "merge_operator=stringappend;compression=kLZ4Compression;\
                    block_based_table_factory={no_block_cache=true;block_size=256}";
        let mut options = simulated(&disk, text);
        options.set_inline_background(inline);
        options.set_statistics(Arc::new(Statistics::new()));
        let db = Db::open(PATH, &options).expect("a database");
        put(&db, "table", &"v".repeat(1000)).expect("a put");
        db.flush_all().expect("a flush");
        // The order in which thread-local values are destroyed depends on the order of their first
        // use. So one run uses the test's value before the database's values, and the other run
        // uses it after them.
        for is_first in [true, false] {
            let is_done = Arc::new(AtomicBool::new(false));
            let (done, used) = (Arc::clone(&is_done), db.clone());
            let body = move || {
                if !is_first {
                    use_it(&used, "alive");
                }
                let at_end = used.clone();
                AT_END.with_borrow_mut(|it| {
                    it.0 = Some(Box::new(move || {
                        use_it(&at_end, "ending");
                        done.store(true, Ordering::Release);
                    }));
                });
                if is_first {
                    use_it(&used, "alive");
                }
            };
            thread::spawn("ending", body).expect("a thread").join().expect("no panic");
            assert!(is_done.load(Ordering::Acquire));
            assert_eq!(get(&db, "ending").as_deref(), Some("1,2"));
        }
    }
}

/// Opens a database with one table in level 0. The user-defined objects of the database share a
/// fuse. When a test arms the fuse, calls of a chosen object panic or run an action. The test then
/// flushes a second table, which starts a compaction.
fn open(disk: &SimStorage, fuse: &Arc<Fuse>, text: &str) -> Db {
    let mut options = options(disk, fuse);
    options.set_from_string("level0_file_num_compaction_trigger=2").expect("options");
    options.set_from_string(text).expect("options");
    let db = Db::open(PATH, &options).expect("a database");
    for key in ["a", "b"] {
        put(&db, key, "1").expect("a put");
    }
    db.flush_all().expect("a flush");
    db
}

fn options(disk: &SimStorage, fuse: &Arc<Fuse>) -> OpenOptions {
    let mut options = simulated(disk, "");
    options.set_inline_background(false);
    fuse::install(&mut options, disk.clock(), fuse);
    options
}

/// Waits until a background thread has closed the database, and reopens it.
fn reopen(disk: &SimStorage, fuse: &Arc<Fuse>) -> Db {
    for _ in 0..2000 {
        match Db::open(PATH, &options(disk, fuse)) {
            Ok(db) => return db,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Busy, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("the database was never closed");
}

/// Regression test: a background thread of the database called user code, and the user code dropped
/// the last handle of the database. The close then waited for its own thread to end, and never
/// released the lock.
#[test]
fn the_last_handle_may_be_dropped_by_a_background_thread() {
    for (object, threads, text) in [
        (Object::CompactionFilter, "tailwater-comp", ""),
        (Object::CompactionFilter, "subcompaction", "low_priority_compactions=true"),
        (Object::Comparator, "tailwater-comp", ""),
        (Object::Comparator, "tailwater-flush", ""),
    ] {
        let (disk, fuse) = (SimStorage::new(1), Arc::new(Fuse::default()));
        let db = open(&disk, &fuse, text);
        db.put_cf_opt(&default_family(&db), b"unlogged", b"1", &unlogged()).expect("a put");
        // These keys overlap the first table, so the compaction merges the two tables. Otherwise it
        // would only move one.
        put(&db, "a", "2").expect("a put");
        put(&db, "c", "1").expect("a put");
        let last = db.clone();
        let is_last = Arc::new(AtomicBool::new(false));
        let may_drop = Arc::clone(&is_last);
        fuse.call(object, threads, move || {
            while !may_drop.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            drop(last);
        });
        // A full memtable starts the flush. The test must not wait for the flush, since the
        // flushing thread may be the one that drops the last handle.
        db.set_options_cf(&default_family(&db), &[("write_buffer_size", "65536")])
            .expect("options");
        for key in 0..20 {
            let key = format!("filler {key:02}");
            db.put_cf_opt(&default_family(&db), key.as_bytes(), [b'v'; 4000], &unlogged())
                .expect("it");
        }
        drop(db);
        is_last.store(true, Ordering::Release);
        let db = reopen(&disk, &fuse);
        for key in ["a", "c", "unlogged", "filler 19"] {
            assert!(get(&db, key).is_some(), "{key} is lost: {object:?} in {threads}");
        }
    }
}

/// Tests that user code, such as a compaction filter, cannot close the database that calls it:
/// `close` returns an error. It would have to wait for the work that called the user code.
#[test]
fn user_callbacks_cannot_close_the_database() {
    let (disk, fuse) = (SimStorage::new(1), Arc::new(Fuse::default()));
    let db = open(&disk, &fuse, "disable_auto_compactions=true");
    let family = default_family(&db);
    for threads in ["callbacks_and_thread_exit::", "tailwater-comp"] {
        let reported = Arc::new(Mutex::new(None));
        let (closing, tells) = (db.clone(), Arc::clone(&reported));
        fuse.call(Object::CompactionFilter, threads, move || {
            *tells.lock().expect("an answer") = Some(closing.close());
        });
        if threads == "callbacks_and_thread_exit::" {
            let range = CompactRangeOptions::default();
            db.compact_range_cf_opt(&family, None, None, &range).expect("a compaction");
        } else {
            db.set_options_cf(&family, &[("disable_auto_compactions", "false")]).expect("options");
            for _ in 0..2 {
                put(&db, "a", "2").expect("a put");
                db.flush_all().expect("a flush");
            }
        }
        let answer = || reported.lock().expect("an answer").take();
        let error = loop {
            match answer() {
                Some(answer) => break answer.expect_err("it is called by the database"),
                None => std::thread::yield_now(),
            }
        };
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        put(&db, "c", "1").expect("it is still open");
    }
    db.close().expect("closing");
}
