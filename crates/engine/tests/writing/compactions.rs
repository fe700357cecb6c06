//! The results of compactions, and what follows if a compaction fails.

use std::path::Path;
use std::sync::Arc;

use tailwater::{
    BottommostRewrite, CompactRangeOptions, Db, ErrorKind, RateLimiter, RateLimiterMode,
    ReadOptions, StallCause, StallState,
};
use tailwater_io::pace::{OpType, Priority};
use tailwater_io::sim::{Fault, FaultPlan, FaultRule, SimStorage};
use tailwater_io::{Create, IoMode, Operation, Purpose, Storage};

use crate::support::{
    default_family, failure, findings, get, level_0, names, property, put, simulated,
};

const PATH: &str = "/db";
const SMALL: &str = "level0_file_num_compaction_trigger=2;max_bytes_for_level_base=20000;\
                     target_file_size_base=5000;compression=kNoCompression";
const FORCE: CompactRangeOptions =
    CompactRangeOptions::new().with_bottommost_level_compaction(BottommostRewrite::Force);

fn open(disk: &SimStorage, text: &str) -> Db {
    Db::open(PATH, &simulated(disk, text)).expect("a database")
}

/// Puts a hundred keys whose values contain `mark`, and flushes them.
fn round(db: &Db, mark: &str) {
    for key in 0..100 {
        put(db, &format!("{key:03}"), &format!("{mark}{}", "v".repeat(90))).expect("a put");
    }
    db.flush_all().expect("a flush");
}

fn tables(disk: &SimStorage) -> Vec<String> {
    let names = names(disk, Path::new(PATH)).into_iter();
    names.filter(|name| name.ends_with(".sst")).collect()
}

/// Waits until obsolete tables are removed and `expected` tables remain. Returns the number of
/// tables that remain. The removal may be delayed by reads of other tests in this process.
fn tables_left(db: &Db, disk: &SimStorage, expected: usize) -> usize {
    for _ in 0..1000 {
        if tables(disk).len() == expected {
            break;
        }
        std::thread::yield_now();
        // The end of a pause looks for tables that can be removed.
        drop(db.pause_compactions().expect("a pause"));
    }
    tables(disk).len()
}

/// Overwrites 100 bytes in the middle of a table. Returns the bytes that were there.
fn damage(disk: &SimStorage, name: &str) -> Vec<u8> {
    let path = Path::new(PATH).join(name);
    let file = disk.open(&path, IoMode::Buffered, Purpose::Verification).expect("a table");
    let mut before = vec![0; 100];
    file.read_full_at(&mut before, 500, Purpose::Verification).expect("its bytes");
    write(disk, name, &[0xff; 100]);
    before
}

fn write(disk: &SimStorage, name: &str, bytes: &[u8]) {
    let path = Path::new(PATH).join(name);
    let mut file = disk
        .create(&path, Create::Existing, IoMode::Buffered, Purpose::FlushWrite)
        .expect("a table");
    file.write_all_at(bytes, 500, Purpose::FlushWrite).expect("other bytes");
}

#[test]
fn overwrites_are_compacted_and_obsolete_files_removed() {
    let disk = SimStorage::new(1);
    let db = open(&disk, SMALL);
    for number in 0..30 {
        round(&db, &format!("{number}-"));
    }
    assert!(level_0(&db) <= 2, "{}", property(&db, "rocksdb.levelstats"));
    assert_eq!(property(&db, "rocksdb.compaction-pending"), "0");
    let live: u64 = property(&db, "rocksdb.live-sst-files-size").parse().expect("a number");
    assert!(live < 60_000, "30 rounds of 10,000 bytes take {live} bytes");
    let known = property(&db, "rocksdb.sstables").lines().filter(|it| !it.starts_with('-')).count();
    assert_eq!(tables_left(&db, &disk, known), known, "obsolete tables are removed");
    assert!(
        (0..100).all(|key| get(&db, &format!("{key:03}")).is_some_and(|it| it.starts_with("29-")))
    );
    db.close().expect("closing");
    drop(db);
    assert_eq!(findings(PATH.as_ref(), &simulated(&disk, SMALL)), []);
}

#[test]
fn iterators_and_snapshots_stay_valid_across_a_compaction() {
    let disk = SimStorage::new(1);
    let db = open(&disk, "disable_auto_compactions=true");
    let family = default_family(&db);
    round(&db, "old");
    let snapshot = db.snapshot();
    let mut iterator = db.raw_iterator_cf_opt(&family, &Default::default()).expect("an iterator");
    iterator.seek_to_first().expect("a seek");
    round(&db, "new");
    db.compact_range_cf_opt(&family, None, None, &FORCE).expect("a compaction");
    assert_eq!(property(&db, "rocksdb.num-files-at-level0"), "0");
    let mut count = 0;
    while iterator.valid() {
        assert!(iterator.value().starts_with(b"old"));
        count += 1;
        iterator.next().expect("a step");
    }
    assert_eq!(count, 100);
    let read = ReadOptions::new().with_snapshot(snapshot);
    let value = db.get_cf_opt(&family, b"007", &read).expect("a get").expect("a value");
    assert!(value.starts_with(b"old"));
    drop((read, iterator));
    // The snapshot has been released. A compaction of the last level now drops the versions that
    // were kept for the snapshot.
    let before: u64 = property(&db, "rocksdb.live-sst-files-size").parse().expect("a number");
    db.compact_range_cf_opt(&family, None, None, &FORCE).expect("a compaction");
    let after: u64 = property(&db, "rocksdb.live-sst-files-size").parse().expect("a number");
    assert!(after < before * 2 / 3, "{before} {after}");
}

#[test]
fn a_manual_compaction_is_limited_to_its_range() {
    let disk = SimStorage::new(1);
    let text = format!("{SMALL};disable_auto_compactions=true;num_levels=3");
    let db = open(&disk, &text);
    let family = default_family(&db);
    round(&db, "a");
    db.compact_range_cf_opt(&family, None, None, &FORCE).expect("a compaction");
    let level_2 = |db: &Db| property(db, "rocksdb.num-files-at-level2");
    let before: usize = level_2(&db).parse().expect("a number");
    assert!(before > 1, "{before}");
    put(&db, "050", "new").expect("a put");
    db.compact_range_cf_opt(&family, Some(b"040"), Some(b"060"), &CompactRangeOptions::default())
        .expect("a compaction");
    assert_eq!(level_0(&db), 0);
    assert_eq!(get(&db, "050").as_deref(), Some("new"));
    let none = db.compact_range_cf_opt(&family, Some(b"x"), Some(b"z"), &FORCE);
    none.expect("nothing to do");
}

#[test]
fn damaged_inputs_stop_compactions_and_nothing_else() {
    let disk = SimStorage::new(1);
    let text = format!("{SMALL};level0_slowdown_writes_trigger=4;level0_stop_writes_trigger=6");
    let db = open(&disk, &text);
    let pause = db.pause_compactions().expect("a pause");
    round(&db, "a");
    let damaged = tables(&disk).remove(0);
    let before = damage(&disk, &damaged);
    round(&db, "b");
    drop(pause);
    let there = tables(&disk);
    assert!(there.contains(&damaged) && level_0(&db) == 2, "the inputs stay");
    put(&db, "later", "1").expect("writes go on");
    let error = loop {
        db.flush_all().expect("a flush");
        if let Err(error) = put(&db, "later", "2") {
            break error;
        }
        assert!(level_0(&db) < 7, "tables pile up without end");
    };
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(error.to_string().contains(&damaged), "{error}");
    write(&disk, &damaged, &before);
    db.resume().expect("the table was restored");
    put(&db, "later", "3").expect("a put");
    assert!(level_0(&db) < 3, "{}", property(&db, "rocksdb.levelstats"));
    assert!(get(&db, "007").is_some_and(|value| value.starts_with('b')));
}

#[test]
fn a_compaction_without_space_is_retried_and_writes_continue() {
    let disk = SimStorage::new(1);
    let db = open(&disk, &format!("{SMALL};bgerror_resume_retry_interval=100"));
    round(&db, "a");
    let no_outputs = FaultRule::new(Fault::NoSpace)
        .operation(Operation::Create)
        .purpose(Purpose::CompactionWrite);
    disk.set_faults(FaultPlan::none().with(no_outputs.from(0)));
    round(&db, "b");
    round(&db, "c");
    assert!(level_0(&db) >= 2, "nothing could be compacted");
    assert_ne!(property(&db, "rocksdb.background-errors"), "0");
    disk.set_faults(FaultPlan::none());
    round(&db, "d");
    assert!(level_0(&db) < 2, "{}", property(&db, "rocksdb.levelstats"));
    assert!(get(&db, "007").is_some_and(|value| value.starts_with('d')));
}

#[test]
fn a_failed_compaction_is_retried_once_before_writes_are_refused() {
    for (faults, refused) in [(1, false), (9, true)] {
        let disk = SimStorage::new(1);
        let db = open(&disk, SMALL);
        round(&db, "a");
        let outputs = FaultRule::new(Fault::InputOutput)
            .operation(Operation::Sync)
            .purpose(Purpose::CompactionWrite);
        let rule = if faults == 1 { outputs.at(0) } else { outputs.from(0) };
        disk.set_faults(FaultPlan::none().with(rule));
        round(&db, "b");
        disk.set_faults(FaultPlan::none());
        assert_eq!(put(&db, "later", "1").is_err(), refused);
        if refused {
            let (kind, text) = failure(put(&db, "later", "1"));
            assert_eq!(kind, ErrorKind::Io, "{text}");
            db.resume().expect("the disk works again");
            put(&db, "later", "1").expect("a put");
        }
        assert!(level_0(&db) < 2, "{}", property(&db, "rocksdb.levelstats"));
        assert!(get(&db, "007").is_some_and(|value| value.starts_with('b')));
    }
}

/// Regression test: writes that had to wait for compactions of one column family failed with the
/// error that had stopped the compactions of another one.
#[test]
fn stopped_compactions_of_one_column_family_do_not_fail_writes_that_wait_for_another() {
    let disk = SimStorage::new(1);
    let text = format!("{SMALL};level0_slowdown_writes_trigger=4;level0_stop_writes_trigger=6");
    let db = open(&disk, &text);
    let pause = db.pause_compactions().expect("a pause");
    round(&db, "a");
    damage(&disk, &tables(&disk).remove(0));
    round(&db, "b");
    assert!(db.stopped_compactions().is_empty());
    drop(pause);
    let stopped = db.stopped_compactions();
    assert!(matches!(&stopped[..], [(family, error)]
        if family.name() == "default" && error.kind() == ErrorKind::Corruption));
    assert_eq!(property(&db, "rocksdb.background-errors"), "1");

    let other = db.create_cf("other", &db.default_cf().options()).expect("a column family");
    let _pause = db.pause_compactions().expect("a pause");
    for key in 0..6_u8 {
        db.put_cf(&other, [key], "").expect("a put");
        db.flush_cf(&other).expect("a flush");
    }
    let (kind, text) = failure(db.put_cf(&other, "key", ""));
    assert_eq!(kind, ErrorKind::Busy, "{text}");
    assert!(db.compact_range_cf(&other, None, None).is_err_and(|it| it.kind() == ErrorKind::Busy));
}

#[test]
fn compaction_pauses_nest_and_may_cause_stalls() {
    let disk = SimStorage::new(1);
    let db = open(&disk, "level0_file_num_compaction_trigger=2;level0_slowdown_writes_trigger=3");
    let pause = db.pause_compactions().expect("a pause");
    let another = db.pause_compactions().expect("another");
    let family = default_family(&db);
    for number in 0..3 {
        round(&db, &number.to_string());
    }
    assert!(matches!(db.stall_state(), StallState::Delayed { cause: StallCause::Level0, .. }));
    assert_eq!(property(&db, "rocksdb.compaction-pending"), "1");
    let (kind, _) = failure(db.compact_range_cf_opt(&family, None, None, &FORCE));
    assert_eq!(kind, ErrorKind::Busy);
    drop(pause);
    assert_eq!(level_0(&db), 3);
    drop(another);
    assert_eq!((level_0(&db), db.stall_state()), (0, StallState::Normal));
}

/// Tests that the mode of a rate limiter decides whether the reads of compactions, the writes of
/// background work, or both are limited. The reads of users never are.
#[test]
fn the_mode_of_a_rate_limiter_chooses_between_reads_and_writes() {
    const BYTES: u64 = 20_000;
    for mode in [RateLimiterMode::ReadsOnly, RateLimiterMode::WritesOnly, RateLimiterMode::AllIo] {
        let disk = SimStorage::new(1);
        let limiter = RateLimiter::new(1 << 40).with_clock(disk.clock()).with_mode(mode);
        let limiter = Arc::new(limiter);
        let text = "disable_auto_compactions=true;compression=kNoCompression;\
                    block_based_table_factory={no_block_cache=true}";
        let mut options = simulated(&disk, text);
        options.set_rate_limiter(Arc::clone(&limiter));
        let db = Db::open("/db", &options).expect("a database");
        for key in ["a", "b"] {
            put(&db, key, &"v".repeat(BYTES as usize / 2)).expect("a put");
            // The tables overlap, so that they are not moved.
            put(&db, "z", key).expect("a put");
            db.flush_all().expect("a flush");
        }
        assert!(get(&db, "a").is_some());
        assert_eq!(limiter.granted(Priority::High) >= BYTES, mode.limits(OpType::Write));
        assert_eq!(limiter.granted(Priority::Low), 0, "{mode:?}");
        db.compact_range_cf_opt(&default_family(&db), None, None, &CompactRangeOptions::default())
            .expect("a compaction");
        let granted = limiter.granted(Priority::Low);
        match mode {
            RateLimiterMode::ReadsOnly => assert!(granted >= BYTES, "{granted}"),
            RateLimiterMode::WritesOnly => assert!((BYTES..2 * BYTES).contains(&granted)),
            RateLimiterMode::AllIo => assert!(granted >= 2 * BYTES, "{granted}"),
        }
    }
}
