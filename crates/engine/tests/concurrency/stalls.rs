//! Writers that are stopped because compactions fall behind, writers that refuse to wait, and
//! writers whose write group's leader panics.

use std::cmp::Ordering as KeyOrder;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tailwater::{
    ColumnFamily, CompactionPause, Db, ErrorKind, StallCause, StallState, WriteBatch, WriteOptions,
};
use tailwater_format::Comparator;
use tailwater_format::comparator::CustomComparator;
use tailwater_io::sim::SimStorage;

use crate::ledger::Ledger;
use crate::scene::{Place, Scene, after_process_crash, check_at_rest};

const NO_SLOWDOWN: WriteOptions = WriteOptions::new().with_no_slowdown(true);

/// Starts writers, each of which writes `batches` batches. Compactions are paused, so the writers
/// are stopped by the tables in level 0; then `then` is called.
fn with_stopped_writers(
    batches: usize,
    then: impl FnOnce(CompactionPause, &Db),
    outcome: impl Fn(Result<(), ErrorKind>) + Sync,
) {
    let storage = SimStorage::new(1);
    let place = Place::Memory(storage.clone());
    let more = "disable_auto_compactions=false;level0_file_num_compaction_trigger=2;\
        level0_slowdown_writes_trigger=3;level0_stop_writes_trigger=4";
    let db = place.open(more);
    let pause = db.pause_compactions().expect("a pause");
    let ledger = Ledger::new(&[1, 3, 80, 2], 500);
    let ids: Vec<u32> = db.column_families().iter().map(ColumnFamily::id).collect();
    thread::scope(|scope| {
        for writer in 0..ledger.writers() {
            let (db, ledger, ids, outcome) = (&db, &ledger, &ids, &outcome);
            scope.spawn(move || {
                for _ in 0..batches {
                    let (number, mut batch) = ledger.begin(writer, ids);
                    match db.write_opt(&mut batch, &WriteOptions::default()) {
                        Ok(()) => ledger.acknowledge(writer, number),
                        Err(error) => return outcome(Err(error.kind())),
                    }
                }
                outcome(Ok(()));
            });
        }
        while !matches!(db.stall_state(), StallState::Stopped { cause: StallCause::Level0, .. }) {
            thread::yield_now();
        }
        then(pause, &db);
    });
    let crashed = after_process_crash(&storage, more, 2);
    check_at_rest(&crashed, &ledger).expect("what was acknowledged");
}

#[test]
fn no_slowdown_writes_are_refused_while_others_wait() {
    let then = |pause: CompactionPause, db: &Db| {
        for round in 0..20 {
            let mut batch = WriteBatch::new();
            batch.put_cf(0, b"impatient", b"").expect("a put");
            let error = db.write_opt(&mut batch, &NO_SLOWDOWN).expect_err("a stall");
            assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
            assert_eq!(batch.len(), 1, "the batch is still there");
            thread::sleep(Duration::from_millis(round / 4));
        }
        drop(pause);
    };
    with_stopped_writers(200, then, |outcome| assert_eq!(outcome, Ok(())));
}

#[test]
fn closing_ends_the_wait_of_writers() {
    let then = |_pause: CompactionPause, db: &Db| {
        db.close().expect("closing");
        let mut batch = WriteBatch::new();
        batch.put_cf(0, b"late", b"").expect("a put");
        db.write_opt(&mut batch, &WriteOptions::default()).expect_err("it is closed");
    };
    with_stopped_writers(usize::MAX, then, |outcome| {
        assert_eq!(outcome, Err(ErrorKind::Closed));
    });
}

#[test]
fn delayed_writers_complete_their_writes() {
    let [place, _] = Place::both(1);
    let more = "disable_auto_compactions=false;level0_file_num_compaction_trigger=2;\
        level0_slowdown_writes_trigger=2;level0_stop_writes_trigger=1000;\
        delayed_write_rate=4000000";
    let db = place.open(more);
    let _pause = db.pause_compactions().expect("a pause");
    let default = db.cf_handle("default").expect("the default family");
    for key in [b"a", b"b"] {
        db.put_cf_opt(&default, key, b"", &WriteOptions::default()).expect("a put");
        db.flush_cf(&default).expect("a flush");
        db.delete_cf_opt(&default, key, &WriteOptions::default()).expect("a deletion");
    }
    assert!(matches!(db.stall_state(), StallState::Delayed { .. }), "{:?}", db.stall_state());
    let ledger = Ledger::new(&[1, 70, 2, 3], 100);
    let scene = Scene::new(&db, &ledger);
    thread::scope(|scope| {
        for writer in 0..ledger.writers() {
            let scene = &scene;
            scope.spawn(move || scene.write(writer, 40, |_| WriteOptions::default()));
        }
        while scene.goes_on() {
            // This deletion never waits for the delay. It fails if it would have to wait. It
            // succeeds if it joins a write group whose leader has already waited.
            let written = db.delete_cf_opt(&default, b"impatient", &NO_SLOWDOWN);
            let kind = written.err().map(|error| error.kind());
            assert!(matches!(kind, None | Some(ErrorKind::Busy)), "{kind:?}");
        }
    });
    // The delay limits the number of bytes written per second. The allowance grows even while
    // nobody writes, and a write within the allowance does not wait. So the first of these writes
    // may succeed.
    let large = vec![b'v'; 100_000];
    let mut refused =
        (0..100).filter_map(|_| db.put_cf_opt(&default, b"impatient", &large, &NO_SLOWDOWN).err());
    let refused = refused.next().expect("a stall");
    assert_eq!(refused.kind(), ErrorKind::Busy, "{refused}");
    db.delete_cf_opt(&default, b"impatient", &WriteOptions::default()).expect("a deletion");
    check_at_rest(&db, &ledger).expect("what was written");
}

/// The key at whose comparison the comparator panics. The comparator orders all other keys
/// bytewise.
const PANICS_AT: &[u8] = b"99/panic";

struct Panicking;

impl CustomComparator for Panicking {
    fn name(&self) -> &str {
        "tests.Panicking"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> KeyOrder {
        if a == PANICS_AT || b == PANICS_AT {
            // `resume_unwind` is used because `panic!` would print a message.
            resume_unwind(Box::new("a comparator that panics"));
        }
        a.cmp(b)
    }
}

#[test]
fn a_panicking_writer_does_not_fail_other_writers() {
    for panicking_operations in [1, 100] {
        let storage = SimStorage::new(1);
        let place = Place::Memory(storage.clone());
        let mut options = place.options("comparator=tests.Panicking");
        options.add_comparator(Comparator::Custom(Arc::new(Panicking)));
        let db = Db::open(place.directory(), &options).expect("the database");
        let ledger = Ledger::new(&[1, 3, 80, 2], 10);
        let ids: Vec<u32> = db.column_families().iter().map(ColumnFamily::id).collect();
        thread::scope(|scope| {
            for writer in 0..ledger.writers() {
                let (db, ledger, ids) = (&db, &ledger, &ids);
                scope.spawn(move || {
                    loop {
                        let (number, mut batch) = ledger.begin(writer, ids);
                        let write = || db.write_opt(&mut batch, &WriteOptions::default());
                        // The write of this thread may panic, too: as the leader of a group, it may
                        // insert the panicking writer's batch.
                        match catch_unwind(AssertUnwindSafe(write)) {
                            Ok(Ok(())) => ledger.acknowledge(writer, number),
                            Ok(Err(_)) | Err(_) => break,
                        }
                    }
                });
            }
            while ledger.acknowledged().into_iter().any(|number| number < 5) {
                thread::yield_now();
            }
            let mut batch = WriteBatch::new();
            for number in 1_u32..panicking_operations {
                batch.put_cf(0, number.to_be_bytes(), b"").expect("a put");
            }
            batch.put_cf(0, PANICS_AT, b"").expect("a put");
            let write = || db.write_opt(&mut batch, &WriteOptions::default());
            let written = catch_unwind(AssertUnwindSafe(write));
            assert!(!matches!(written, Ok(Ok(()))));
        });
        // All writers have returned, and the database must now refuse writes.
        let default = db.cf_handle("default").expect("the default family");
        let refused = db.put_cf_opt(&default, b"late", b"", &WriteOptions::default());
        refused.expect_err("a refused write");
        assert!(db.background_error().is_some());
        check_at_rest(&db, &ledger).expect("what was acknowledged");
    }
}
