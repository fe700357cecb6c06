//! Calls in unusual places: while a thread ends.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tailwater::{CompactRangeOptions, Db, ReadOptions, Statistics, WriteBatch, WriteOptions};
use tailwater_io::sim::SimStorage;
use tailwater_io::thread;

use crate::support::{default_family, get, put, simulated, synced};

const PATH: &str = "/db";

/// Does something when its thread ends.
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

/// Everything that a thread may do to a database.
fn use_it(db: &Db, round: &str) {
    let family = default_family(db);
    let none = ReadOptions::default();
    put(db, round, "1").expect("a put");
    db.put(&family, b"synced", b"1", &synced()).expect("a put");
    db.merge(&family, round.as_bytes(), b"2", &WriteOptions::default()).expect("a merge");
    let mut batch = WriteBatch::new();
    batch.put(0, b"batch", b"1").expect("a put");
    batch.delete_range(0, b"x", b"y").expect("a deletion");
    db.write(&mut batch, &WriteOptions::default()).expect("a write");
    for key in ["table", "synced", round] {
        assert!(get(db, key).is_some(), "{key} in {round}");
    }
    let values = db.multi_get(&family, &[b"table", b"batch", b"nothing"], &none);
    assert_eq!(values.iter().filter(|value| matches!(value, Ok(Some(_)))).count(), 2);
    let snapshot = Some(db.snapshot());
    let mut iterator =
        db.iterator(&family, &ReadOptions { snapshot, ..none }).expect("an iterator");
    iterator.seek_to_first().expect("a first key");
    assert!(iterator.valid());
    db.flush_all().expect("a flush");
    db.compact_range(&family, None, None, &CompactRangeOptions::default()).expect("a compaction");
    assert!(get(db, "table").is_some());
}

/// A put or a get in the destructor of a thread-local value ended the process: what the database
/// keeps for the thread was gone already.
#[test]
fn a_thread_that_ends_can_use_the_database() {
    for inline in [true, false] {
        let disk = SimStorage::new(1);
        let text = "merge_operator=stringappend;compression=kLZ4Compression;\
                    block_based_table_factory={no_block_cache=true;block_size=256}";
        let mut options = simulated(&disk, text);
        options.set_inline_background(inline);
        options.set_statistics(Arc::new(Statistics::new()));
        let db = Db::open(PATH.as_ref(), &options).expect("a database");
        put(&db, "table", &"v".repeat(1000)).expect("a put");
        db.flush_all().expect("a flush");
        // Values of a thread go in the opposite order of their first uses.
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
