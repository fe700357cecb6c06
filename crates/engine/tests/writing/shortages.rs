//! Flushes and compactions that find no disk space or no file descriptor for their tables, while
//! the logs can still be written.
//!
//! Whoever waits for such work gets the error, the work is retried in the background, and writes
//! are accepted again once a retry has succeeded.

use std::path::Path;

use tailwater::options::DbPath;
use tailwater::{
    Db, Error, ErrorKind, IngestOptions, OpenOptions, StallCause, StallState, WriteOptions,
};
use tailwater_io::descriptors::Exhausted;
use tailwater_io::sim::{Fault, FaultPlan, FaultRule, SimStorage};
use tailwater_io::{Operation, Purpose};

use crate::support::{
    create_family, default_family, eventually, failure, findings, get, level_0, log, make_file,
    property, put, returns, simulated, unlogged,
};

/// Small memtables, and retries after at most 16 milliseconds.
const SMALL: &str = "write_buffer_size=64K;max_write_buffer_number=2;\
                     bgerror_resume_retry_interval=2000;compression=kNoCompression";
/// Like [`SMALL`], but nothing is retried within the time of a test.
const NO_RETRIES: &str = "write_buffer_size=64K;max_write_buffer_number=2;\
                          bgerror_resume_retry_interval=28800000000;compression=kNoCompression";
/// Level 0 stops writes at four tables, unless compactions keep it below.
const STOPS_AT_FOUR: &str = "level0_file_num_compaction_trigger=2;\
                             level0_slowdown_writes_trigger=3;level0_stop_writes_trigger=4";

/// The shortages, each with the error that the system returns.
const SHORTAGES: [Fault; 2] = [Fault::NoSpace, Fault::NoDescriptor(Exhausted::Process)];

fn options(disk: &SimStorage, text: &str) -> OpenOptions {
    let mut options = simulated(disk, text);
    options.set_inline_background(false);
    options
}

/// Makes the creation of tables for `purpose` fail, from now on.
fn run_short(disk: &SimStorage, fault: Fault, purpose: Purpose) {
    let rule = FaultRule::new(fault).operation(Operation::Create).purpose(purpose);
    disk.set_faults(FaultPlan::none().with(rule.from(0)));
}

fn end_shortage(disk: &SimStorage) {
    disk.set_faults(FaultPlan::none());
}

/// Checks that an error is about the shortage that `fault` injects into the creation of a table.
fn expect_shortage(error: &Error, fault: Fault) {
    match fault {
        Fault::NoSpace => assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}"),
        _ => assert!(error.is_out_of_descriptors(), "{error}"),
    }
    let path = error.path().unwrap_or_else(|| panic!("no path: {error}"));
    assert!(path.extension().is_some_and(|extension| extension == "sst"), "{error}");
}

/// Puts keys until a put fails. Returns the number of acknowledged keys, and the error.
fn put_until_refused(db: &Db) -> (usize, Error) {
    let value = "v".repeat(1000);
    for number in 0..2000 {
        let db = db.clone();
        let value = value.clone();
        let written = returns("a put", move || put(&db, &format!("{number:06}"), &value));
        if let Err(error) = written {
            return (number, error);
        }
    }
    panic!("memory has no bound");
}

/// Puts and flushes until a put fails, and returns its error.
fn flush_until_refused(db: &Db) -> Error {
    for number in 0..20 {
        let db = db.clone();
        let round = move || -> tailwater::Result<()> {
            for key in ["a", "b"] {
                put(&db, key, &number.to_string())?;
            }
            db.flush_all()
        };
        if let Err(error) = returns("a put or a flush", round) {
            return error;
        }
    }
    panic!("level 0 grows without bound");
}

/// Regression test: when flushes found no space, but the logs could be written, `put` and `flush`
/// waited forever once the memtables were full, and `background_error` returned nothing.
#[test]
fn callers_get_the_error_of_flushes_that_lack_space() {
    for fault in SHORTAGES {
        let disk = SimStorage::new(1);
        let db = Db::open("/db", &options(&disk, SMALL)).expect("a new database");
        put(&db, "first", "1").expect("a put");
        run_short(&disk, fault, Purpose::FlushWrite);
        let (acknowledged, error) = put_until_refused(&db);
        assert!(acknowledged > 50, "memtables are filled first");
        expect_shortage(&error, fault);
        expect_shortage(&db.background_error().expect("an error"), fault);
        assert_eq!(property(&db, "rocksdb.is-write-stopped"), "1");
        assert_ne!(property(&db, "rocksdb.background-errors"), "0");
        let stopped =
            matches!(db.stall_state(), StallState::Stopped { cause: StallCause::MemTables, .. });
        assert!(stopped, "{:?}", db.stall_state());

        make_file(&options(&disk, ""), Path::new("/file.sst"), &["first"], "ingested");
        type Call = fn(&Db) -> tailwater::Result<()>;
        let calls: [(&str, Call); 6] = [
            ("flush", |db| db.flush_all()),
            ("a write that does not wait", |db| {
                let hasty = WriteOptions::new().with_no_slowdown(true);
                db.put_cf_opt(&default_family(db), b"x", b"", &hasty)
            }),
            ("compact_range", |db| {
                db.compact_range_cf_opt(&default_family(db), None, None, &Default::default())
            }),
            ("checkpoint", |db| db.checkpoint("/checkpoint")),
            ("ingestion", |db| {
                let options = IngestOptions::default();
                let family = default_family(db);
                db.ingest_external_file_cf_opts(&family, &["/file.sst"], &options).map(drop)
            }),
            ("resume", |db| db.resume()),
        ];
        for (name, call) in calls {
            let db = db.clone();
            let error = returns(name, move || call(&db)).expect_err(name);
            expect_shortage(&error, fault);
        }
        let of_family = default_family(&db).options();
        for step in [true, false] {
            let (db, of_family) = (db.clone(), of_family.clone());
            returns("a change of the column families", move || match step {
                true => db.create_cf("other", &of_family).map(drop),
                false => db.drop_cf(&db.cf_handle("other")?),
            })
            .expect("no table is needed");
        }
        assert!(get(&db, "000000").is_some(), "reads go on");
        let text = log(&disk, "/db");
        assert!(text.contains("a flush found no") && text.contains("will be retried"), "{text}");

        end_shortage(&disk);
        eventually("writes are accepted again", || put(&db, "later", "1").is_ok());
        eventually("the error is over", || db.background_error().is_none());
        db.flush_all().expect("a flush");
        eventually("the LOG has the end", || {
            log(&disk, "/db").contains("flushes of 'default' succeed again")
        });
        db.close().expect("closing");
        drop(db);
        let db = Db::open("/db", &options(&disk, SMALL)).expect("the database again");
        for key in 0..acknowledged {
            assert!(get(&db, &format!("{key:06}")).is_some(), "{key} is lost");
        }
        drop(db);
        assert_eq!(findings(Path::new("/db"), &simulated(&disk, "")), []);
    }
}

/// Tests writers that are already waiting when the flush that they wait for fails.
#[test]
fn every_waiting_writer_gets_the_error() {
    let disk = SimStorage::new(1);
    let db = Db::open("/db", &options(&disk, NO_RETRIES)).expect("a new database");
    run_short(&disk, Fault::NoSpace, Purpose::FlushWrite);
    let refused = returns("writers", {
        let db = db.clone();
        move || {
            std::thread::scope(|scope| {
                let writer = |_| scope.spawn(|| put_until_refused(&db).1.kind());
                let writers: Vec<_> = (0..4).map(writer).collect();
                writers.into_iter().map(|it| it.join().expect("no panic")).collect::<Vec<_>>()
            })
        }
    });
    assert_eq!(refused, [ErrorKind::NoSpace; 4]);
}

/// Regression test: `resume` returned no error while a flush found no space. Callers could not tell
/// when writes were accepted again.
#[test]
fn resume_returns_the_outcome_of_the_flush_that_it_retries() {
    let disk = SimStorage::new(1);
    let db = Db::open("/db", &options(&disk, NO_RETRIES)).expect("a new database");
    run_short(&disk, Fault::NoSpace, Purpose::FlushWrite);
    put_until_refused(&db);
    let resume = || {
        let db = db.clone();
        returns("resume", move || db.resume())
    };
    for _ in 0..2 {
        assert_eq!(failure(resume()).0, ErrorKind::NoSpace);
    }
    end_shortage(&disk);
    resume().expect("there is space");
    assert!(db.background_error().is_none());
    put(&db, "later", "1").expect("a put");
    resume().expect("nothing has failed");
}

/// Regression test: writes that level 0 stopped waited forever while compactions found no space.
#[test]
fn writers_get_the_error_of_compactions_that_lack_space() {
    for fault in SHORTAGES {
        let disk = SimStorage::new(1);
        let text = format!("{SMALL};{STOPS_AT_FOUR}");
        let db = Db::open("/db", &options(&disk, &text)).expect("a new database");
        run_short(&disk, fault, Purpose::CompactionWrite);
        let error = flush_until_refused(&db);
        expect_shortage(&error, fault);
        expect_shortage(&db.background_error().expect("an error"), fault);
        assert!(level_0(&db) >= 4, "{}", property(&db, "rocksdb.levelstats"));
        assert_ne!(property(&db, "rocksdb.background-errors"), "0");
        eventually("the LOG has the reason", || {
            log(&disk, "/db").contains("a compaction of 'default' found no")
        });
        end_shortage(&disk);
        eventually("writes are accepted again", || put(&db, "later", "1").is_ok());
        eventually("the error is over", || db.background_error().is_none());
        eventually("the LOG has the end", || {
            log(&disk, "/db").contains("compactions of 'default' succeed again")
        });
        db.close().expect("closing");
    }
}

/// Tests that the caller's own compaction ends the failure of background compactions.
#[test]
fn a_manual_compaction_ends_a_shortage_of_compactions() {
    let disk = SimStorage::new(1);
    let text = format!("{NO_RETRIES};{STOPS_AT_FOUR}");
    let db = Db::open("/db", &options(&disk, &text)).expect("a new database");
    run_short(&disk, Fault::NoSpace, Purpose::CompactionWrite);
    assert_eq!(flush_until_refused(&db).kind(), ErrorKind::NoSpace);
    let compact = || {
        let db = db.clone();
        returns("a manual compaction", move || {
            db.compact_range_cf_opt(&default_family(&db), None, None, &Default::default())
        })
    };
    assert_eq!(failure(compact()).0, ErrorKind::NoSpace);
    end_shortage(&disk);
    compact().expect("there is space");
    put(&db, "later", "1").expect("a put");
    assert!(db.background_error().is_none());
}

/// Returns a database with the column families `default` and `full`. The tables of `full` are in a
/// directory of their own.
fn with_another_directory(disk: &SimStorage, text: &str) -> Db {
    let mut options = options(disk, text);
    let mut of_full = options.column_family("full").clone();
    of_full.cf_paths = vec![DbPath { path: "/full".into(), target_size: u64::MAX }];
    options.set_column_family("full", of_full);
    options.set_from_string("create_missing_column_families=true").expect("options");
    Db::open("/db", &options).expect("a new database")
}

fn fill_directory(disk: &SimStorage, purpose: Purpose) {
    let rule = FaultRule::new(Fault::NoSpace).operation(Operation::Create).purpose(purpose);
    disk.set_faults(FaultPlan::none().with(rule.path_containing("/full/").from(0)));
}

/// Regression test: while the disk of one column family was full, no other column family was
/// flushed, although its disk had space.
#[test]
fn a_full_disk_of_one_column_family_does_not_stop_the_flushes_of_another() {
    let disk = SimStorage::new(1);
    let text = "write_buffer_size=64K;max_write_buffer_number=3;compression=kNoCompression;\
                bgerror_resume_retry_interval=28800000000";
    let db = with_another_directory(&disk, text);
    let full = db.cf_handle("full").expect("a column family");
    // The IDs of column families determine the order in which they are flushed.
    let other = create_family(&db, "other");
    fill_directory(&disk, Purpose::FlushWrite);
    let write = |family, key: u32| {
        db.put_cf_opt(family, key.to_be_bytes(), [b'v'; 1000], &WriteOptions::default())
    };
    write(&full, 0).expect("a put");
    write(&other, 0).expect("a put");
    let flush = |family: &tailwater::ColumnFamily| {
        let (db, family) = (db.clone(), family.clone());
        returns("a flush", move || db.flush_cf(&family))
    };
    let (kind, text) = failure(flush(&full));
    assert!(kind == ErrorKind::NoSpace && text.contains("/full/"), "{text}");
    flush(&other).expect("its disk has space");
    // No request for a flush follows, so the memtables are flushed only when they are full.
    for key in 0..1000 {
        let (db, other) = (db.clone(), other.clone());
        let put = move || {
            db.put_cf_opt(&other, u32::to_be_bytes(key), [b'v'; 1000], &WriteOptions::default())
        };
        returns("a put", put).expect("its disk has space");
    }
    let (kind, text) = failure(returns("flushes", {
        let db = db.clone();
        move || db.flush_all()
    }));
    assert!(kind == ErrorKind::NoSpace && text.contains("/full/"), "{text}");
    let reported = db.background_error().expect("an error").to_string();
    assert!(reported.contains("/full/"), "{reported}");
    // The flush of a column family that no longer exists fails no call.
    db.drop_cf(&full).expect("a drop");
    db.flush_all().expect("a flush");
    assert!(db.background_error().is_none());
}

/// Regression test: while compactions of one column family found no space, no other column family
/// was compacted, although its disk had space.
#[test]
fn a_full_disk_of_one_column_family_does_not_stop_the_compactions_of_another() {
    let disk = SimStorage::new(1);
    let text = format!("{NO_RETRIES};{STOPS_AT_FOUR}");
    let db = with_another_directory(&disk, &text);
    let full = db.cf_handle("full").expect("a column family");
    fill_directory(&disk, Purpose::CompactionWrite);
    let round = |family: &tailwater::ColumnFamily| {
        let (db, family) = (db.clone(), family.clone());
        returns("a put or a flush", move || -> tailwater::Result<()> {
            for key in ["a", "b"] {
                db.put_cf(&family, key, "")?;
            }
            db.flush_cf(&family)
        })
    };
    for _ in 0..3 {
        round(&full).expect("a round");
    }
    eventually("a compaction fails", || db.background_error().is_some());
    for _ in 0..20 {
        round(&default_family(&db)).expect("its compactions have space");
    }
    let rounds = (0..10).find_map(|_| round(&full).err());
    let (kind, text) = failure(rounds.map_or(Ok(()), Err));
    assert!(kind == ErrorKind::NoSpace && text.contains("/full/"), "{text}");
    db.set_options_cf(&full, &[("disable_auto_compactions", "true")]).expect("a change");
    round(&full).expect("writes no longer wait for compactions");
    eventually("the error is over", || db.background_error().is_none());
}

/// Tests atomic flushes. While the flush of some column families waits for its retry, no other
/// column family is flushed, and writes that wait for it get the error.
#[test]
fn an_atomic_flush_that_lacks_space_is_retried_as_a_whole() {
    let disk = SimStorage::new(1);
    let db = with_another_directory(&disk, &format!("{NO_RETRIES};atomic_flush=true"));
    let full = db.cf_handle("full").expect("a column family");
    let other = create_family(&db, "other");
    fill_directory(&disk, Purpose::FlushWrite);
    for family in [&default_family(&db), &full] {
        db.put_cf(family, "key", "value").expect("a put");
    }
    assert_eq!(failure(db.flush_cf(&default_family(&db))).0, ErrorKind::NoSpace);
    let write = {
        let db = db.clone();
        move |key: u32| db.put_cf(&other, key.to_be_bytes(), [b'v'; 1000])
    };
    let refused = returns("puts", move || (0..1000).try_for_each(write));
    assert_eq!(failure(refused).0, ErrorKind::NoSpace);
    assert!(db.live_files().is_empty(), "{:?}", db.live_files());
    end_shortage(&disk);
    db.resume().expect("there is space");
    assert_eq!(db.live_files().len(), 3, "{:?}", db.live_files());
}

/// Regression test: without background threads, a flush that found no space was retried forever in
/// the thread of the caller.
#[test]
fn a_database_without_threads_retries_at_the_next_call() {
    let disk = SimStorage::new(1);
    let db = Db::open("/db", &simulated(&disk, NO_RETRIES)).expect("a new database");
    run_short(&disk, Fault::NoSpace, Purpose::FlushWrite);
    let (_, error) = put_until_refused(&db);
    expect_shortage(&error, Fault::NoSpace);
    assert!(db.background_error().is_some());
    assert_eq!(failure(db.resume()).0, ErrorKind::NoSpace);
    assert_eq!(failure(db.flush_all()).0, ErrorKind::NoSpace);
    end_shortage(&disk);
    put(&db, "later", "1").expect("a put");
    assert!(db.background_error().is_none());
    drop(db);

    let disk = SimStorage::new(1);
    let text = format!("{NO_RETRIES};{STOPS_AT_FOUR}");
    let db = Db::open("/db", &simulated(&disk, &text)).expect("a new database");
    run_short(&disk, Fault::NoSpace, Purpose::CompactionWrite);
    expect_shortage(&flush_until_refused(&db), Fault::NoSpace);
    end_shortage(&disk);
    put(&db, "later", "1").expect("a put");
    assert!(db.background_error().is_none());
}

#[test]
fn closing_does_not_wait_for_a_flush_that_lacks_space() {
    for has_unlogged in [false, true] {
        let disk = SimStorage::new(1);
        let db = Db::open("/db", &options(&disk, NO_RETRIES)).expect("a new database");
        if has_unlogged {
            db.put_cf_opt(&default_family(&db), b"unlogged", b"", &unlogged()).expect("a put");
        }
        run_short(&disk, Fault::NoSpace, Purpose::FlushWrite);
        put_until_refused(&db);
        let closed = returns("closing", {
            let db = db.clone();
            move || db.close()
        });
        match has_unlogged {
            true => assert_eq!(failure(closed).0, ErrorKind::NoSpace),
            false => closed.expect("everything is in the log"),
        }
    }
}

/// Regression test: while a flush waited for its retry, statistics were not written, and
/// compactions that had become due were not started.
#[test]
fn upkeep_continues_while_a_flush_waits_for_its_retry() {
    let disk = SimStorage::new(1);
    let db = Db::open("/db", &options(&disk, NO_RETRIES)).expect("a new database");
    run_short(&disk, Fault::NoSpace, Purpose::FlushWrite);
    put(&db, "a", "1").expect("a put");
    assert_eq!(failure(db.flush_all()).0, ErrorKind::NoSpace);
    disk.clock().advance(700_000_000_000);
    eventually("statistics are written", || log(&disk, "/db").contains("DUMPING STATS"));
}
