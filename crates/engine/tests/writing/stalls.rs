//! Writes that are delayed or stopped by write stalls.

use tailwater::{CompactRangeOptions, Db, ErrorKind, StallCause, StallState, WriteOptions};
use tailwater_io::sim::{Fault, FaultPlan, FaultRule, SimStorage};
use tailwater_io::{Operation, Purpose};

use crate::support::{default_family, failure, log, options, property, put, simulated};

fn flush_rounds(db: &Db, rounds: usize) {
    for round in 0..rounds {
        put(db, "key", &round.to_string()).expect("a put");
        db.flush_all().expect("a flush");
    }
}

#[test]
fn many_tables_in_level_0_slow_writes_down_and_then_refuse_them() {
    let disk = SimStorage::new(1);
    let text_of_triggers = "level0_file_num_compaction_trigger=2;\
                            level0_slowdown_writes_trigger=3;level0_stop_writes_trigger=5;\
                            delayed_write_rate=1000000";
    let db = Db::open("/db", &simulated(&disk, text_of_triggers)).expect("a new database");
    let pause = db.pause_compactions().expect("a pause");
    flush_rounds(&db, 2);
    assert_eq!(db.stall_state(), StallState::Normal);
    assert_eq!(property(&db, "rocksdb.actual-delayed-write-rate"), "0");
    flush_rounds(&db, 1);
    match db.stall_state() {
        StallState::Delayed { bytes_per_second: 1_000_000, cause: StallCause::Level0, reason } => {
            assert_eq!(reason, "3 tables in level 0 of 'default'");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(property(&db, "rocksdb.actual-delayed-write-rate"), "1000000");
    let hasty = WriteOptions::new().with_no_slowdown(true);
    // Writes are delayed only after they have used up an allowance of bytes. This write is large
    // enough to do so.
    let (kind, text) = failure(db.put_cf_opt(&default_family(&db), b"a", [b'1'; 100_000], &hasty));
    assert_eq!((kind, text.contains("3 tables in level 0")), (ErrorKind::Busy, true), "{text}");
    flush_rounds(&db, 1);
    // Near the stop condition, the rate is lowered twice: when the memtable is sealed, and when its
    // table is in level 0.
    assert_eq!(property(&db, "rocksdb.actual-delayed-write-rate"), "360000");
    flush_rounds(&db, 1);
    assert_eq!(property(&db, "rocksdb.is-write-stopped"), "1");
    let (kind, text) = failure(put(&db, "a", "1"));
    assert_eq!(kind, ErrorKind::Busy);
    assert!(text.contains("nothing can resume them"), "{text}");
    drop(pause);
    assert_eq!(db.stall_state(), StallState::Normal);
    put(&db, "a", "1").expect("a put");
    drop(db);

    let text = format!("{text_of_triggers};disable_auto_compactions=true");
    let db = Db::open("/db", &simulated(&disk, &text)).expect("the database again");
    flush_rounds(&db, 6);
    assert_eq!(db.stall_state(), StallState::Normal, "nothing compacts, so nothing is waited for");
}

/// Regression test: in a database with universal compaction, level 0 grew without bound: nothing
/// compacted it, and write stalls were disabled.
#[test]
fn universal_databases_stall_until_a_manual_compaction() {
    let disk = SimStorage::new(1);
    let text = "compaction_style=kCompactionStyleUniversal;num_levels=4;\
                level0_file_num_compaction_trigger=2;level0_slowdown_writes_trigger=3;\
                level0_stop_writes_trigger=5";
    let db = Db::open("/db", &simulated(&disk, text)).expect("a new database");
    let warning = "'default' is compacted manually only: its compaction_style is not implemented; \
                   writes are slowed down at 3 sorted runs and stopped at 5 until a manual \
                   compaction";
    assert_eq!(db.warnings(), [warning]);
    flush_rounds(&db, 3);
    assert!(matches!(db.stall_state(), StallState::Delayed { cause: StallCause::Level0, .. }));
    flush_rounds(&db, 2);
    match db.stall_state() {
        StallState::Stopped { cause: StallCause::Level0, reason } => {
            assert_eq!(reason, "5 sorted runs of 'default'");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(property(&db, "rocksdb.is-write-stopped"), "1");
    assert_eq!(failure(put(&db, "a", "1")).0, ErrorKind::Busy);
    db.compact_range_cf_opt(&default_family(&db), None, None, &Default::default())
        .expect("a manual compaction");
    assert_eq!(db.stall_state(), StallState::Normal);
    // The manual compaction left one sorted run, so two more flushes result in three.
    flush_rounds(&db, 2);
    assert!(matches!(db.stall_state(), StallState::Delayed { cause: StallCause::Level0, .. }));
    let reported = log(&disk, "/db");
    for line in [
        format!("WARN {warning}"),
        "WARN writes are stopped: 5 sorted runs of 'default'".to_owned(),
        "INFO the write stall ended".to_owned(),
    ] {
        assert!(reported.contains(&line), "{line} is not in {reported}");
    }
    drop(db);

    let text = format!("{text};disable_auto_compactions=true");
    let db = Db::open("/db", &simulated(&disk, &text)).expect("the database again");
    assert!(db.warnings().is_empty());
    flush_rounds(&db, 6);
    assert_eq!(db.stall_state(), StallState::Normal, "nothing compacts, so nothing is waited for");
}

/// Regression test: a database with FIFO compaction grew without bound: no table was dropped, and
/// write stalls were disabled.
#[test]
fn fifo_databases_stall_on_data_beyond_their_limit() {
    let disk = SimStorage::new(1);
    let text = "compaction_style=kCompactionStyleFIFO;ttl=0;compression=kNoCompression;\
                compaction_options_fifo={max_table_files_size=100000};\
                soft_pending_compaction_bytes_limit=20000;\
                hard_pending_compaction_bytes_limit=60000";
    let db = Db::open("/db", &simulated(&disk, text)).expect("a new database");
    let warnings = db.warnings();
    assert!(warnings.iter().any(|it| it.contains("nothing is dropped")), "{warnings:?}");
    let family = default_family(&db);
    let flush = || {
        put(&db, "key", &"v".repeat(50_000)).expect("a put");
        db.flush_all().expect("a flush");
    };
    (0..2).for_each(|_| flush());
    assert_eq!(db.stall_state(), StallState::Normal);
    flush();
    let is_delayed =
        |state| matches!(state, StallState::Delayed { cause: StallCause::PendingCompaction, .. });
    assert!(is_delayed(db.stall_state()), "{:?}", db.stall_state());
    flush();
    assert_eq!(property(&db, "rocksdb.is-write-stopped"), "1");
    assert_eq!(failure(put(&db, "a", "1")).0, ErrorKind::Busy);
    let more = [("compaction_options_fifo", "{max_table_files_size=1000000}")];
    db.set_options_cf(&family, &more).expect("a change");
    assert_eq!(db.stall_state(), StallState::Normal);
    (0..8).for_each(|_| flush());
    // All tables have the same key, so the manual compaction leaves only its newest value.
    db.set_options_cf(&family, &[("compaction_options_fifo", "{max_table_files_size=100000}")])
        .expect("a change");
    assert_eq!(property(&db, "rocksdb.is-write-stopped"), "1");
    db.compact_range_cf_opt(&family, None, None, &Default::default()).expect("a manual compaction");
    assert_eq!(db.stall_state(), StallState::Normal);
    put(&db, "a", "1").expect("a put");
}

#[test]
fn any_delayed_write_rate_is_accepted() {
    for rate in ["18446744073709551615", "9223372036854775808", "100000000000000000"] {
        let disk = SimStorage::new(1);
        let text = format!(
            "compaction_style=kCompactionStyleUniversal;level0_file_num_compaction_trigger=1;\
             level0_slowdown_writes_trigger=1;level0_stop_writes_trigger=9;\
             delayed_write_rate={rate}"
        );
        let db = Db::open("/db", &simulated(&disk, &text)).expect("a new database");
        flush_rounds(&db, 8);
        assert!(matches!(db.stall_state(), StallState::Delayed { .. }), "{rate}");
        db.compact_range_cf_opt(&default_family(&db), None, None, &Default::default())
            .expect("a manual compaction");
        flush_rounds(&db, 3);
    }
}

#[test]
fn a_stopped_write_continues_after_a_manual_compaction() {
    let directory = tempfile::tempdir().expect("a directory");
    let text = "compaction_style=kCompactionStyleUniversal;level0_file_num_compaction_trigger=2;\
                level0_slowdown_writes_trigger=3;level0_stop_writes_trigger=4";
    let db = Db::open(directory.path(), &options(text)).expect("a new database");
    flush_rounds(&db, 4);
    assert_eq!(property(&db, "rocksdb.is-write-stopped"), "1");
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| put(&db, "a", "1"));
        let all = CompactRangeOptions::default();
        db.compact_range_cf_opt(&default_family(&db), None, None, &all)
            .expect("a manual compaction");
        writing.join().expect("no panic").expect("a put");
    });
}

#[test]
fn the_delayed_write_rate_follows_the_compaction_backlog() {
    let disk = SimStorage::new(1);
    let text = "level0_file_num_compaction_trigger=2;level0_slowdown_writes_trigger=3;\
                level0_stop_writes_trigger=20;delayed_write_rate=1000000";
    let db = Db::open("/db", &simulated(&disk, text)).expect("a new database");
    let rate = || property(&db, "rocksdb.actual-delayed-write-rate");
    let pause = db.pause_compactions().expect("a pause");
    flush_rounds(&db, 3);
    assert_eq!(rate(), "1000000");
    flush_rounds(&db, 1);
    assert_eq!(rate(), "640000", "as much when it is sealed, more when it is a table");
    flush_rounds(&db, 1);
    assert_eq!(rate(), "409600");
    drop(pause);
    assert_eq!(db.stall_state(), StallState::Normal);
    let _pause = db.pause_compactions().expect("a pause");
    flush_rounds(&db, 3);
    assert_eq!(rate(), "573440", "it went up when the delay ended");
    // As in RocksDB, all column families share one write rate. If a column family without a backlog
    // is flushed, this rate increases.
    let options = default_family(&db).options().clone();
    let other = db.create_cf("other", &options).expect("a column family");
    for _ in 0..2 {
        db.put_cf_opt(&other, b"key", b"value", &WriteOptions::default()).expect("a put");
        db.flush_cf(&other).expect("a flush");
    }
    assert_eq!(rate(), "1000000");
}

#[test]
fn memtables_that_cannot_be_flushed_stop_writes_until_they_are() {
    let disk = SimStorage::new(1);
    let text = "write_buffer_size=64K;max_write_buffer_number=2";
    let db = Db::open("/db", &simulated(&disk, text)).expect("a new database");
    let no_tables = FaultRule::new(Fault::NoSpace)
        .operation(Operation::Create)
        .purpose(Purpose::FlushWrite)
        .from(0);
    disk.set_faults(FaultPlan::none().with(no_tables));
    let value = "v".repeat(1000);
    let mut acknowledged = 0;
    let error = loop {
        match put(&db, &format!("{acknowledged:04}"), &value) {
            Ok(()) => acknowledged += 1,
            Err(error) => break error,
        }
        assert!(acknowledged < 1000, "memory has no bound");
    };
    assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
    assert!(db.background_error().is_some_and(|error| error.kind() == ErrorKind::NoSpace));
    let failures = property(&db, "rocksdb.background-errors");
    assert_ne!(failures, "0");
    disk.set_faults(FaultPlan::none());
    db.resume().expect("there is room");
    assert_eq!(property(&db, "rocksdb.background-errors"), failures, "of all there ever were");
    put(&db, "later", "1").expect("a put");
    for key in 0..acknowledged {
        assert!(crate::support::get(&db, &format!("{key:04}")).is_some(), "{key} is lost");
    }
}
