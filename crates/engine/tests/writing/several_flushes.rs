//! Flushes that run at the same time: of several column families, and of one.

use std::path::Path;
use std::sync::Arc;
use std::thread;

use tailwater::{ColumnFamily, Db, ErrorKind, WriteOptions};
use tailwater_io::sim::SimStorage;

use crate::gate::{Call, Gate, Opening};
use crate::support::{
    default_family, eventually, failure, findings, get_from, property, returns, simulated, synced,
    unlogged,
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

#[test]
fn a_slow_flush_of_one_family_delays_no_other() {
    let disk = SimStorage::new(1);
    let (gate, db) = open(&disk, "max_background_jobs=8");
    let (slow, quick) = (create(&db, "slow"), create(&db, "quick"));
    put_into(&db, &slow, "a", "1");
    put_into(&db, &quick, "a", "1");
    gate.stop(Call::SyncTable, 0);
    thread::scope(|scope| {
        let opening = Opening(&gate);
        let slowly = scope.spawn(|| db.flush_cf(&slow));
        gate.wait();
        db.flush_cf(&quick).expect("a flush");
        assert_eq!((tables(&db, &quick), tables(&db, &slow)), (1, 0));
        assert_eq!(property(&db, "rocksdb.num-running-flushes"), "1");
        let both = recovered(&disk, &[("slow", "a"), ("quick", "a")]);
        assert_eq!(both, [Some("1".to_owned()), Some("1".to_owned())]);
        drop(opening);
        slowly.join().expect("no panic").expect("a flush");
    });
    assert_eq!(tables(&db, &slow), 1);
}

#[test]
fn with_one_flush_at_a_time_a_family_waits_for_another() {
    let disk = SimStorage::new(1);
    let (gate, db) = open(&disk, "max_background_flushes=1;max_background_jobs=8");
    let (slow, quick) = (create(&db, "slow"), create(&db, "quick"));
    put_into(&db, &slow, "a", "1");
    put_into(&db, &quick, "a", "1");
    gate.stop(Call::SyncTable, 0);
    thread::scope(|scope| {
        let opening = Opening(&gate);
        let slowly = scope.spawn(|| db.flush_cf(&slow));
        gate.wait();
        let quickly = scope.spawn(|| db.flush_cf(&quick));
        eventually("the second flush is due", || {
            number(&db, &quick, "rocksdb.mem-table-flush-pending") == 1
        });
        assert!(!quickly.is_finished() && tables(&db, &quick) == 0);
        // More threads flush as soon as the option allows it.
        db.set_database_options(&[("max_background_flushes", "2")]).expect("a change");
        quickly.join().expect("no panic").expect("a flush");
        assert_eq!((tables(&db, &quick), tables(&db, &slow)), (1, 0));
        drop(opening);
        slowly.join().expect("no panic").expect("a flush");
    });
}

/// Fills two memtables of one column family, and stops the flush of the first while the second is
/// flushed. Returns when the table of the second waits to be installed.
fn with_two_flushes_of_a_family(
    text: &str,
    end: impl FnOnce(&SimStorage, &Gate, &Db, &ColumnFamily) + Send,
) {
    let disk = SimStorage::new(1);
    let (gate, db) = open(&disk, &format!("max_background_flushes=2;{text}"));
    let family = create(&db, "family");
    put_into(&db, &family, "a", "first");
    gate.stop(Call::SyncTable, 0);
    thread::scope(|scope| {
        let _opening = Opening(&gate);
        let older = scope.spawn(|| drop(db.flush_cf(&family)));
        gate.wait();
        put_into(&db, &family, "a", "second");
        put_into(&db, &family, "b", "second");
        let newer = scope.spawn(|| drop(db.flush_cf(&family)));
        eventually("the second memtable is flushed", || {
            number(&db, &family, "rocksdb.num-immutable-mem-table") == 2
                && number(&db, &family, "rocksdb.num-running-flushes") == 1
                && number(&db, &family, "rocksdb.mem-table-flush-pending") == 0
        });
        assert_eq!(tables(&db, &family), 0, "it is not installed before the first");
        let keys = [("family", "a"), ("family", "b")];
        assert_eq!(recovered(&disk, &keys), [Some("second".to_owned()), Some("second".to_owned())]);
        end(&disk, &gate, &db, &family);
        gate.open();
        older.join().expect("no panic");
        newer.join().expect("no panic");
        let get = |key| get_from(&db, &family, key);
        assert_eq!((get("a").as_deref(), get("b").as_deref()), (Some("second"), Some("second")));
    });
    drop(db);
    assert_eq!(findings(Path::new(PATH), &simulated(&disk, "")), []);
}

#[test]
fn flushes_of_a_family_are_installed_in_order() {
    with_two_flushes_of_a_family("disable_auto_compactions=true", |disk, gate, db, family| {
        gate.open();
        eventually("both are installed", || tables(db, family) == 2);
        assert_eq!(number(db, family, "rocksdb.num-immutable-mem-table"), 0);
        let keys = [("family", "a"), ("family", "b")];
        assert_eq!(recovered(disk, &keys), [Some("second".to_owned()), Some("second".to_owned())]);
    });
}

#[test]
fn a_flush_waits_until_an_older_one_that_failed_is_repeated() {
    with_two_flushes_of_a_family("disable_auto_compactions=true", |_, gate, db, family| {
        gate.open_to_fail();
        eventually("the failure is latched", || db.background_error().is_some());
        assert_eq!(tables(db, family), 0);
        let refused = db.put_cf_opt(family, b"c", b"1", &WriteOptions::default());
        assert_eq!(failure(refused).0, ErrorKind::Io);
        db.resume().expect("the next sync succeeds");
        assert_eq!(tables(db, family), 2, "the second table was kept");
    });
}

#[test]
fn a_table_that_waits_to_be_installed_is_removed_with_its_family() {
    with_two_flushes_of_a_family("", |_, gate, db, family| {
        let files = || db.live_files().len();
        db.drop_cf(family).expect("dropped");
        gate.open();
        eventually("both flushes have ended", || {
            property(db, "rocksdb.num-running-flushes") == "0"
        });
        assert_eq!(files(), 0);
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
