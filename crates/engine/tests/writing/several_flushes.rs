//! Flushes that run at the same time: of several column families, and of one.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;

use tailwater::{ColumnFamily, Db, ErrorKind, WriteBufferManager, WriteOptions};
use tailwater_io::sim::{Fault, FaultPlan, FaultRule, SimStorage};
use tailwater_io::{Operation, Purpose};

use crate::gate::{Call, Gate, Opening};
use crate::support::{
    default_family, eventually, failure, findings, get_from, names, property, returns, simulated,
    synced, unlogged,
};

const PATH: &str = "/db";

/// Opens a database with background threads, behind a gate that can stop a call.
fn open(disk: &SimStorage, text: &str) -> (Arc<Gate>, Db) {
    let gate = Gate::over(Arc::new(disk.clone()));
    let db = Db::open(PATH, &gate.options(text)).expect("a database");
    (gate, db)
}

fn put_into(db: &Db, family: &ColumnFamily, key: &str, value: &str) {
    db.put_cf_opt(family, key.as_bytes(), value.as_bytes(), &synced()).expect("a put");
}

fn create(db: &Db, name: &str) -> ColumnFamily {
    db.create_cf(name, &default_family(db).options()).expect("a column family")
}

fn number(db: &Db, family: &ColumnFamily, name: &str) -> u64 {
    let value = db.property_value_cf(family, name).expect("a property");
    value.expect("a value").parse().expect("a number")
}

fn tables(db: &Db, family: &ColumnFamily) -> u64 {
    number(db, family, "rocksdb.num-files-at-level0")
}

/// Returns the values of keys after a crash at this point.
fn recovered(disk: &SimStorage, keys: &[(&str, &str)]) -> Vec<Option<String>> {
    let image = disk.crash_image(1);
    let db = Db::open(PATH, &simulated(&image, "")).expect("the database after a crash");
    assert_eq!(db.left_out(), []);
    let value = |(family, key): &(&str, &str)| {
        get_from(&db, &db.cf_handle(family).expect("a column family"), key)
    };
    let values = keys.iter().map(value).collect();
    drop(db);
    assert_eq!(findings(Path::new(PATH), &simulated(&image, "")), []);
    values
}

/// Stops the flush of a column family, `slow`. Calls `work` with another one, `quick`, which has
/// something to flush, too. Afterwards `quick` must have a table and `slow` none.
fn beside_a_slow_flush(text: &str, work: impl FnOnce(&SimStorage, &Db, &ColumnFamily)) {
    let disk = SimStorage::new(1);
    let (gate, db) = open(&disk, text);
    let (slow, quick) = (create(&db, "slow"), create(&db, "quick"));
    put_into(&db, &slow, "a", "1");
    put_into(&db, &quick, "a", "1");
    gate.stop(Call::SyncTable, 0);
    thread::scope(|scope| {
        let opening = Opening(&gate);
        let slowly = scope.spawn(|| db.flush_cf(&slow));
        gate.wait();
        work(&disk, &db, &quick);
        assert_eq!((tables(&db, &quick), tables(&db, &slow)), (1, 0));
        drop(opening);
        slowly.join().expect("no panic").expect("a flush");
    });
    assert_eq!(tables(&db, &slow), 1);
}

#[test]
fn a_slow_flush_of_one_family_delays_no_other() {
    beside_a_slow_flush("max_background_jobs=8", |disk, db, quick| {
        db.flush_cf(quick).expect("a flush");
        assert_eq!(property(db, "rocksdb.num-running-flushes"), "1");
        let both = recovered(disk, &[("slow", "a"), ("quick", "a")]);
        assert_eq!(both, [Some("1".to_owned()), Some("1".to_owned())]);
    });
}

#[test]
fn with_one_flush_at_a_time_a_family_waits_for_another() {
    beside_a_slow_flush("max_background_flushes=1;max_background_jobs=8", |_, db, quick| {
        thread::scope(|scope| {
            let quickly = scope.spawn(|| db.flush_cf(quick));
            eventually("the second flush is due", || {
                number(db, quick, "rocksdb.mem-table-flush-pending") == 1
            });
            assert!(!quickly.is_finished() && tables(db, quick) == 0);
            // More threads flush, and write, as soon as the option allows it.
            db.set_database_options(&[("max_background_flushes", "2")]).expect("a change");
            quickly.join().expect("no panic").expect("a flush");
        });
    });
}

/// Two flushes of a column family: the sync of the older one's table is stopped at the gate, and
/// the table of the newer one waits to be installed.
struct TwoFlushes<'t> {
    disk: &'t SimStorage,
    gate: &'t Gate,
    db: &'t Db,
    family: &'t ColumnFamily,
    /// The results of the two calls that requested the flushes.
    older: &'t OnceLock<tailwater::Result<()>>,
    newer: &'t OnceLock<tailwater::Result<()>>,
}

impl TwoFlushes<'_> {
    fn number(&self, name: &str) -> u64 {
        number(self.db, self.family, name)
    }

    fn tables(&self) -> u64 {
        tables(self.db, self.family)
    }

    /// Waits until only the older flush runs, and the tables of `memtables` memtables wait for it.
    fn wait_until_written(&self, memtables: u64) {
        eventually("all but the first memtable are flushed", || {
            self.number("rocksdb.num-immutable-mem-table") == memtables
                && self.number("rocksdb.num-running-flushes") == 1
                && self.number("rocksdb.mem-table-flush-pending") == 0
        });
    }
}

fn with_two_flushes_of_a_family(text: &str, end: impl FnOnce(&TwoFlushes<'_>)) {
    let disk = SimStorage::new(1);
    let (gate, db) = open(&disk, &format!("max_background_flushes=2;{text}"));
    let family = create(&db, "family");
    put_into(&db, &family, "a", "first");
    gate.stop(Call::SyncTable, 0);
    let [older, newer] = [const { OnceLock::new() }; 2];
    thread::scope(|scope| {
        let _opening = Opening(&gate);
        scope.spawn(|| older.set(db.flush_cf(&family)));
        gate.wait();
        put_into(&db, &family, "a", "second");
        put_into(&db, &family, "b", "second");
        scope.spawn(|| newer.set(db.flush_cf(&family)));
        let (older, newer) = (&older, &newer);
        let two = TwoFlushes { disk: &disk, gate: &gate, db: &db, family: &family, older, newer };
        two.wait_until_written(2);
        assert_eq!(two.tables(), 0, "it is not installed before the first");
        let keys = [("family", "a"), ("family", "b")];
        assert_eq!(recovered(&disk, &keys), [Some("second".to_owned()), Some("second".to_owned())]);
        end(&two);
    });
    let get = |key| get_from(&db, &family, key);
    assert_eq!((get("a").as_deref(), get("b").as_deref()), (Some("second"), Some("second")));
    drop((family, db));
    assert_eq!(findings(Path::new(PATH), &simulated(&disk, "")), []);
}

#[test]
fn flushes_of_a_family_are_installed_in_order() {
    with_two_flushes_of_a_family("disable_auto_compactions=true", |two| {
        two.gate.open();
        eventually("both are installed", || two.tables() == 2);
        assert_eq!(two.number("rocksdb.num-immutable-mem-table"), 0);
        let keys = [("family", "a"), ("family", "b")];
        let both = [Some("second".to_owned()), Some("second".to_owned())];
        assert_eq!(recovered(two.disk, &keys), both);
    });
}

/// Regression test: the caller of the older flush waited until its thread had also installed the
/// newer one.
#[test]
fn callers_wait_for_their_own_flush_only() {
    with_two_flushes_of_a_family("disable_auto_compactions=true", |two| {
        // The thread of the older flush installs both. It stops in the second installation.
        two.gate.stop(Call::SyncManifest, 1);
        two.gate.wait();
        eventually("the older flush returns", || two.older.get().is_some());
        assert!(two.newer.get().is_none());
        assert_eq!(two.tables(), 1);
        two.gate.open();
        eventually("the newer flush returns", || two.newer.get().is_some());
        assert_eq!(two.tables(), 2);
        for outcome in [two.older, two.newer] {
            outcome.get().expect("it has returned").as_ref().expect("a flush");
        }
    });
}

/// Regression test: the failure of a flush that another flush's thread installed counted as one of
/// an attempt from before the flush was requested. So the caller went on waiting.
#[test]
fn callers_get_the_error_with_which_another_thread_installs_their_flush() {
    let text = "disable_auto_compactions=true;write_buffer_size=64K;max_write_buffer_number=6;\
                bgerror_resume_retry_interval=28800000000";
    with_two_flushes_of_a_family(text, |two| {
        let TwoFlushes { disk, gate, db, family, older, newer } = two;
        gate.stop(Call::SyncManifest, 0);
        gate.wait();
        // A third memtable is sealed, and a log begins that the MANIFEST does not list yet. To list
        // it, the second installation syncs the directory, which fails.
        let value = "v".repeat(1000);
        let mut puts = 0..1000;
        while number(db, family, "rocksdb.num-immutable-mem-table") < 3 {
            let key = puts.next().expect("a memtable is sealed");
            put_into(db, family, &format!("c{key:04}"), &value);
        }
        two.wait_until_written(3);
        let full = FaultRule::new(Fault::NoSpace).operation(Operation::SyncDirectory);
        disk.set_faults(FaultPlan::none().with(full.from(0)));
        gate.open();
        eventually("both calls return", || older.get().is_some() && newer.get().is_some());
        older.get().expect("it has returned").as_ref().expect("the first is installed");
        let error = newer.get().expect("it has returned").as_ref().expect_err("no space");
        assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
        assert_eq!(two.tables(), 1);
        disk.set_faults(FaultPlan::none());
        db.resume().expect("a retry");
        eventually("all are installed", || two.tables() == 3);
        assert_eq!(number(db, family, "rocksdb.num-immutable-mem-table"), 0);
    });
}

#[test]
fn a_flush_waits_until_an_older_one_that_failed_is_repeated() {
    with_two_flushes_of_a_family("disable_auto_compactions=true", |two| {
        let TwoFlushes { db, family, .. } = two;
        two.gate.open_to_fail();
        eventually("the failure is latched", || db.background_error().is_some());
        assert_eq!(two.tables(), 0);
        let refused = db.put_cf_opt(family, b"c", b"1", &WriteOptions::default());
        assert_eq!(failure(refused).0, ErrorKind::Io);
        db.resume().expect("the next sync succeeds");
        assert_eq!(two.tables(), 2, "the second table was kept");
    });
}

#[test]
fn a_table_that_waits_to_be_installed_is_removed_with_its_family() {
    with_two_flushes_of_a_family("", |two| {
        two.db.drop_cf(two.family).expect("dropped");
        two.gate.open();
        eventually("both flushes have ended", || {
            property(two.db, "rocksdb.num-running-flushes") == "0"
        });
        assert_eq!(two.db.live_files().len(), 0);
    });
}

/// Regression test: if the older flush had failed, the table of the newer one stayed until another
/// flush.
#[test]
fn a_table_that_waits_for_a_failed_flush_is_removed_with_its_family() {
    with_two_flushes_of_a_family("bgerror_resume_retry_interval=28800000000", |two| {
        let is_table = |name: &String| name.ends_with(".sst");
        let tables = || names(two.disk, Path::new(PATH)).into_iter().filter(is_table).count();
        let full = FaultRule::new(Fault::NoSpace).operation(Operation::Sync);
        two.disk.set_faults(FaultPlan::none().with(full.purpose(Purpose::FlushWrite).from(0)));
        two.gate.open();
        eventually("the older flush fails", || two.older.get().is_some());
        eventually("only the newer table is left", || tables() == 1);
        two.disk.set_faults(FaultPlan::none());
        two.db.drop_cf(two.family).expect("dropped");
        eventually("the newer table is removed", || tables() == 0);
    });
}

#[test]
fn closing_discards_tables_that_wait_to_be_installed() {
    let disk = SimStorage::new(1);
    {
        let (gate, db) = open(&disk, "max_background_flushes=2");
        put_into(&db, &default_family(&db), "a", "1");
        gate.stop(Call::SyncTable, 0);
        thread::scope(|scope| {
            let _opening = Opening(&gate);
            let flushed = scope.spawn(|| db.flush_all());
            gate.wait();
            put_into(&db, &default_family(&db), "a", "2");
            let second = scope.spawn(|| db.flush_all());
            eventually("the second table waits", || {
                property(&db, "rocksdb.num-immutable-mem-table") == "2"
                    && property(&db, "rocksdb.num-running-flushes") == "1"
            });
            gate.open_to_fail();
            assert_eq!(failure(flushed.join().expect("no panic")).0, ErrorKind::Io);
            assert_eq!(failure(second.join().expect("no panic")).0, ErrorKind::Io);
        });
        assert!(db.close().is_err(), "closed after the failure");
    }
    assert_eq!(findings(Path::new(PATH), &simulated(&disk, "")), []);
    let db = Db::open(PATH, &simulated(&disk, "")).expect("the database");
    assert_eq!(get_from(&db, &default_family(&db), "a").as_deref(), Some("2"));
}

/// An atomic flush includes all families, so there is one at a time.
#[test]
fn atomic_flushes_take_effect_together() {
    let disk = SimStorage::new(1);
    let (gate, db) = open(&disk, "atomic_flush=true;max_background_flushes=4");
    let (first, second) = (create(&db, "first"), create(&db, "second"));
    let put_both = |value: &str| {
        for family in [&first, &second] {
            db.put_cf_opt(family, b"a", value.as_bytes(), &unlogged()).expect("a put");
        }
    };
    put_both("1");
    // The flush stops after the table of the first family.
    gate.stop(Call::SyncTable, 1);
    thread::scope(|scope| {
        let opening = Opening(&gate);
        let flushed = scope.spawn(|| db.flush_all());
        gate.wait();
        put_both("2");
        let again = scope.spawn(|| db.flush_all());
        eventually("the second flush is due", || {
            number(&db, &first, "rocksdb.num-immutable-mem-table") == 2
        });
        assert_eq!(recovered(&disk, &[("first", "a"), ("second", "a")]), [None, None]);
        drop(opening);
        flushed.join().expect("no panic").expect("a flush");
        again.join().expect("no panic").expect("a flush");
    });
    let both = recovered(&disk, &[("first", "a"), ("second", "a")]);
    assert_eq!(both, [Some("2".to_owned()), Some("2".to_owned())]);
}

/// Writers that fill memtables of many families, with several flushes at a time and compactions.
#[test]
fn many_families_are_flushed_by_several_threads() {
    let disk = SimStorage::new(1);
    let text = "max_background_flushes=4;write_buffer_size=65536;max_write_buffer_number=4;\
                level0_file_num_compaction_trigger=2";
    let (_gate, db) = open(&disk, text);
    let db = Arc::new(db);
    let families: Vec<_> = (0..12).map(|number| create(&db, &format!("f{number}"))).collect();
    returns("writing", {
        let (db, families) = (Arc::clone(&db), families.clone());
        move || {
            thread::scope(|scope| {
                for part in families.chunks(4) {
                    let db = &db;
                    scope.spawn(move || {
                        for round in 0..600 {
                            let (family, key) = (&part[round % part.len()], format!("{round:04}"));
                            db.put_cf(family, key, "v".repeat(1000)).expect("a put");
                        }
                    });
                }
            });
        }
    });
    db.flush_all().expect("a flush");
    for family in &families {
        let found =
            (0..600).filter(|round| get_from(&db, family, &format!("{round:04}")).is_some());
        assert_eq!(found.count(), 150);
        assert_eq!(number(&db, family, "rocksdb.num-immutable-mem-table"), 0);
    }
    drop((families, db));
    assert_eq!(findings(Path::new(PATH), &simulated(&disk, "")), []);
}

/// Several threads flush one family, while its log often fails and writes resume. A memtable that
/// was flushed twice would count its merge operands twice, and stay in memory.
#[test]
fn each_memtable_is_flushed_once_while_writes_fail_and_resume() {
    let disk = SimStorage::new(1);
    let manager = Arc::new(WriteBufferManager::new(1 << 30, false));
    let mut options = simulated(
        &disk,
        "max_background_flushes=4;max_write_buffer_number=8;merge_operator=uint64add;\
         disable_auto_compactions=true;level0_slowdown_writes_trigger=100000;\
         level0_stop_writes_trigger=100000",
    );
    options.set_inline_background(false);
    options.set_write_buffer_manager(Arc::clone(&manager));
    let db = Db::open(PATH, &options).expect("a database");
    let family = create(&db, "family");
    let (acknowledged, refused) = (AtomicU64::new(0), AtomicU64::new(0));
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let one = 1u64.to_le_bytes();
                    let merged = db.merge_cf_opt(&family, b"sum", one, &WriteOptions::default());
                    match merged {
                        Ok(()) => acknowledged.fetch_add(1, Ordering::Relaxed),
                        Err(_) => refused.fetch_add(1, Ordering::Relaxed),
                    };
                    let _ = db.flush_cf(&family);
                }
            });
        }
        for round in 0..60 {
            let full = FaultRule::new(Fault::NoSpace).operation(Operation::Write);
            disk.set_faults(FaultPlan::none().with(full.purpose(Purpose::Wal).at(round % 7)));
            eventually("the log fails", || db.background_error().is_some());
            db.resume().expect("only one write fails");
        }
        is_over.store(true, Ordering::Relaxed);
    });
    db.flush_all().expect("a flush");
    let sum = db.get_cf(&family, "sum").expect("a get").expect("a value");
    let sum = u64::from_le_bytes(sum.try_into().expect("eight bytes"));
    let (least, refused) = (acknowledged.into_inner(), refused.into_inner());
    assert!((least..=least + refused).contains(&sum), "{least} + {refused} merges, sum {sum}");
    eventually("flushed memtables are freed", || manager.memory_usage() < 100 << 10);
    drop((family, db));
    assert_eq!(findings(Path::new(PATH), &simulated(&disk, "")), []);
}
