//! Databases that nobody writes to: work that becomes due by time is done when it is due.
//!
//! The simulated clock determines the time. The database's threads check it at least once per
//! second of real time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tailwater::{Db, OpenOptions};
use tailwater_io::Clock;
use tailwater_io::sim::SimStorage;

use crate::support::{default_family, eventually, log, logs, property, put, simulated};

/// Options with which the sizes of levels never require a compaction.
const NO_TRIGGERS: &str = "level0_file_num_compaction_trigger=100";
const SECOND_NS: u64 = 1_000_000_000;

fn options(disk: &SimStorage, text: &str) -> OpenOptions {
    let mut options = simulated(disk, &format!("{NO_TRIGGERS};{text}"));
    options.set_inline_background(false);
    options
}

fn open(disk: &SimStorage, text: &str) -> Db {
    Db::open("/db", &options(disk, text)).expect("a new database")
}

/// Writes two tables to level 0 that have the same keys.
fn write_tables(db: &Db) {
    for value in ["1", "2"] {
        for key in ["a", "b"] {
            put(db, key, value).expect("a put");
        }
        db.flush_all().expect("a flush");
    }
}

fn tables(db: &Db) -> Vec<u64> {
    db.live_files().iter().map(|file| file.number).collect()
}

fn needs_compaction(db: &Db) -> bool {
    db.needs_compaction_cf(&default_family(db)).expect("a family of this database")
}

/// Waits until a compaction with this reason has ended and no other is needed. `count` is the
/// number of such compactions so far, including this one.
fn expect_compaction(disk: &SimStorage, db: &Db, reason: &str, count: usize) {
    eventually(&format!("compaction {count} for {reason}"), || {
        log(disk, "/db").matches(&format!("({reason})")).count() >= count && !needs_compaction(db)
    });
}

/// Regression test: tables older than `periodic_compaction_seconds` or `ttl`, set when the database
/// was opened or later, were compacted only every 12 hours if nobody wrote to the database.
#[test]
fn tables_are_compacted_when_they_become_too_old() {
    for at_open in [true, false] {
        for (option, reason) in
            [("periodic_compaction_seconds", "PeriodicCompaction"), ("ttl", "Ttl")]
        {
            let disk = SimStorage::new(1);
            let other = if option == "ttl" { "periodic_compaction_seconds=0" } else { "ttl=0" };
            let set = if at_open { format!("{option}=1000") } else { format!("{option}=0") };
            let db = open(&disk, &format!("{other};{set}"));
            write_tables(&db);
            db.compact_range_cf_opt(&default_family(&db), None, None, &Default::default())
                .expect("a compaction");
            // Tables of the last level with data do not expire, so there are also newer tables.
            write_tables(&db);
            if !at_open {
                // The tables are due as soon as the option is set.
                disk.clock().advance(2000 * SECOND_NS);
                db.set_options_cf(&default_family(&db), &[(option, "1000")]).expect("a change");
                expect_compaction(&disk, &db, reason, 1);
                write_tables(&db);
            }
            let count = log(&disk, "/db").matches(&format!("({reason})")).count();
            disk.clock().advance(999 * SECOND_NS);
            let before = tables(&db);
            assert!(!needs_compaction(&db), "{option}");
            assert_eq!(tables(&db), before);
            disk.clock().advance(2 * SECOND_NS);
            expect_compaction(&disk, &db, reason, count + 1);
        }
    }
}

/// Tests that each generation of tables is rewritten after its own period.
#[test]
fn periodic_compactions_repeat() {
    let disk = SimStorage::new(1);
    let db = open(&disk, "ttl=0;periodic_compaction_seconds=1000");
    write_tables(&db);
    for _ in 0..3 {
        let before = tables(&db);
        disk.clock().advance(1001 * SECOND_NS);
        eventually("all tables are rewritten", || {
            tables(&db).iter().all(|table| !before.contains(table))
        });
    }
}

/// Regression test: tables of the last level that a released snapshot had kept large were rewritten
/// too late if `bottommost_file_compaction_delay` had not passed when the snapshot was released.
#[test]
fn bottommost_tables_are_rewritten_when_the_delay_after_a_snapshot_has_passed() {
    let disk = SimStorage::new(1);
    let db =
        open(&disk, "ttl=0;periodic_compaction_seconds=0;bottommost_file_compaction_delay=500");
    put(&db, "a", "1").expect("a put");
    let snapshot = db.snapshot();
    put(&db, "a", "2").expect("a put");
    db.flush_all().expect("a flush");
    db.compact_range_cf_opt(&default_family(&db), None, None, &Default::default())
        .expect("a compaction");
    put(&db, "b", "1").expect("a put");
    let entries = || property(&db, "rocksdb.aggregated-table-properties").contains("# entries=1;");
    assert!(!entries());
    drop(snapshot);
    disk.clock().advance(400 * SECOND_NS);
    // Gives the database time to notice the release while the table is too young.
    std::thread::sleep(Duration::from_millis(2500));
    assert!(!entries(), "the table is too young");
    disk.clock().advance(200 * SECOND_NS);
    eventually("the old version of 'a' is dropped", entries);
}

/// A clock whose wall-clock time can be set back.
#[derive(Debug)]
struct SteppingClock {
    clock: Arc<dyn Clock>,
    behind_us: AtomicU64,
}

impl Clock for SteppingClock {
    fn monotonic_ns(&self) -> u64 {
        self.clock.monotonic_ns()
    }

    fn wall_us(&self) -> u64 {
        self.clock.wall_us() - self.behind_us.load(Ordering::Relaxed)
    }

    fn sleep_until(&self, deadline_ns: u64) {
        self.clock.sleep_until(deadline_ns)
    }
}

/// Tests a clock that is set back after tables were written: they are compacted when their age, by
/// the clock that was set back, exceeds the period.
#[test]
fn tables_are_compacted_after_the_clock_was_set_back() {
    let disk = SimStorage::new(1);
    disk.clock().advance(1_000_000 * SECOND_NS);
    let clock = Arc::new(SteppingClock { clock: disk.clock(), behind_us: AtomicU64::new(0) });
    let mut options = options(&disk, "ttl=0;periodic_compaction_seconds=1000");
    options.set_clock(Arc::clone(&clock) as Arc<dyn Clock>);
    let db = Db::open("/db", &options).expect("a new database");
    write_tables(&db);
    let before = tables(&db);
    clock.behind_us.store(5_000_000_000, Ordering::Relaxed);
    disk.clock().advance(5990 * SECOND_NS);
    assert!(!needs_compaction(&db));
    assert_eq!(tables(&db), before);
    disk.clock().advance(20 * SECOND_NS);
    eventually("the tables are rewritten", || {
        tables(&db).iter().all(|table| !before.contains(table))
    });
}

/// Regression test: a log that was kept for an iterator over the updates was removed only at the
/// next flush after the iterator had been dropped, that is, never if nobody wrote to the database.
#[test]
fn logs_are_removed_after_their_last_follower_is_gone() {
    let disk = SimStorage::new(1);
    let db = open(&disk, "");
    put(&db, "a", "1").expect("a put");
    let updates = db.updates_since(1).expect("a batch");
    db.flush_all().expect("a flush");
    let directory = std::path::Path::new("/db");
    assert_eq!(logs(&disk, directory).len(), 2);
    drop(updates);
    eventually("the old log is removed", || logs(&disk, directory).len() == 1);
}
