//! Compactions that a program requests, suggests or forbids.

use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tailwater::options::ColumnFamilyOptions;
use tailwater::{
    BottommostRewrite, CompactRangeOptions, CompactionFilter, CustomCompactionFilter, Db,
    ErrorKind, FilterContext, FilterDecision, FilteredValue,
};
use tailwater_io::sim::SimStorage;
use tailwater_io::thread;

use crate::support::{default_family, eventually, failure, level_0, property, put, simulated};

const PATH: &str = "/db";
const MANUAL: &str = "level0_file_num_compaction_trigger=10;compression=kNoCompression";

/// Puts keys, and flushes them.
fn round(db: &Db, keys: usize) {
    for key in 0..keys {
        put(db, &format!("{key:05}"), "value").expect("a put");
    }
    db.flush_all().expect("a flush");
}

/// Suggestions compacted at once, in the calling thread, and down to the last level.
#[test]
fn suggested_tables_are_compacted_to_the_next_level() {
    let disk = SimStorage::new(1);
    let db = Db::open(PATH, &simulated(&disk, MANUAL)).expect("a database");
    let family = default_family(&db);
    round(&db, 100);
    db.suggest_compact_range_cf(&family, None, None).expect("nothing to mark");
    assert_eq!(level_0(&db), 1, "the only non-empty level is the last one");
    db.compact_range(None, None).expect("a compaction");
    round(&db, 100);
    db.suggest_compact_range_cf(&family, Some(b"1"), None).expect("no keys there");
    assert_eq!(level_0(&db), 1);
    let pause = db.pause_compactions().expect("a pause");
    db.suggest_compact_range_cf(&family, Some(b"00050"), Some(b"00060")).expect("one table");
    assert_eq!(level_0(&db), 1, "a suggestion compacts nothing itself");
    drop(pause);
    eventually("the table is compacted", || level_0(&db) == 0);
}

/// A filter whose first call reports that it began, and waits until it may end.
struct Waiting {
    began: Mutex<Option<Sender<()>>>,
    may_end: Mutex<Receiver<()>>,
}

impl CustomCompactionFilter for Waiting {
    fn name(&self) -> &str {
        "tests.Waiting"
    }

    fn filter(&self, _: &FilterContext, _: &[u8], _: FilteredValue<'_>) -> FilterDecision {
        if let Some(began) = self.began.lock().expect("a lock").take() {
            began.send(()).expect("the test waits");
            // The other end is dropped.
            let _ = self.may_end.lock().expect("a lock").recv();
        }
        FilterDecision::Keep
    }
}

/// A manual compaction that ran while manual compactions were disabled continued to its end.
#[test]
fn a_running_manual_compaction_is_cancelled_when_they_are_disabled() {
    let (began, has_begun) = channel();
    let (ends, may_end) = channel();
    let filter = Waiting { began: Mutex::new(Some(began)), may_end: Mutex::new(may_end) };
    let disk = SimStorage::new(1);
    let mut options = simulated(&disk, &format!("{MANUAL};compaction_filter=tests.Waiting"));
    options.add_compaction_filter(CompactionFilter::Custom(Arc::new(filter)));
    let db = Db::open(Path::new(PATH), &options).expect("a database");
    let other = db.create_cf("other", &ColumnFamilyOptions::default()).expect("a column family");
    round(&db, 2000);
    round(&db, 2000);
    let force =
        CompactRangeOptions::new().with_bottommost_level_compaction(BottommostRewrite::Force);
    let compacting = thread::spawn("compacting", {
        let db = db.clone();
        move || db.compact_range_opt(None, None, &force)
    })
    .expect("a thread");
    has_begun.recv().expect("the filter is called");
    let disabling = thread::spawn("disabling", {
        let db = db.clone();
        move || db.disable_manual_compaction()
    })
    .expect("a thread");
    eventually("manual compactions are disabled", || {
        db.compact_range_cf(&other, None, None).is_err()
    });
    drop(ends);
    let (kind, message) = failure(compacting.join().expect("no panic"));
    assert_eq!(kind, ErrorKind::Cancelled, "{message}");
    disabling.join().expect("no panic").expect("they are disabled");
    assert_eq!(level_0(&db), 2, "nothing was compacted");
    db.disable_manual_compaction().expect("again");
    db.enable_manual_compaction().expect("once");
    assert_eq!(failure(db.compact_range(None, None)).0, ErrorKind::Cancelled);
    db.enable_manual_compaction().expect("twice");
    db.compact_range(None, None).expect("a compaction");
    assert_eq!(level_0(&db), 0);
}

/// Every manual compaction flushed the memtables, whatever its range.
#[test]
fn a_compaction_of_a_range_flushes_only_memtables_that_have_its_keys() {
    let disk = SimStorage::new(1);
    let db = Db::open(PATH, &simulated(&disk, MANUAL)).expect("a database");
    put(&db, "b", "value").expect("a put");
    let entries = || property(&db, "rocksdb.num-entries-active-mem-table");
    for (begin, end) in [("x", "z"), ("z", "a"), ("c", "d")] {
        db.compact_range(Some(begin.as_bytes()), Some(end.as_bytes())).expect("nothing to do");
        assert_eq!(entries(), "1", "{begin} to {end}");
    }
    db.compact_range(Some(b"a"), Some(b"b")).expect("a compaction");
    assert_eq!(entries(), "0");
}

/// Regression test: a timeout that no clock can add to the current time made the call panic.
#[test]
fn waiting_for_compactions_has_any_timeout() {
    let disk = SimStorage::new(1);
    let db = Db::open(PATH, &simulated(&disk, "level0_file_num_compaction_trigger=2"))
        .expect("a database");
    for timeout in [None, Some(Duration::ZERO), Some(Duration::MAX)] {
        put(&db, "a", "value").expect("a put");
        db.flush_all().expect("a flush");
        put(&db, "a", "value").expect("a put");
        db.flush_all().expect("a flush");
        let all_ended = db.wait_for_compactions(timeout).expect("no error");
        if timeout != Some(Duration::ZERO) {
            assert!(all_ended && level_0(&db) < 2, "{timeout:?}");
        }
    }
}
