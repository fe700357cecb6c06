//! Tests of synced write groups in flight. A log with direct I/O may have several groups that are
//! being written at the same time.

use std::path::Path;
use std::sync::Arc;
use std::thread;

use tailwater::verify::Severity;
use tailwater::{Db, ErrorKind, WriteOptions};
use tailwater_io::sim::{DeviceTimes, Fault, FaultPlan, FaultRule, SimStorage};
use tailwater_io::{IoMode, Operation, Purpose, Storage};

use crate::gate::{Call, Gate, Opening};
use crate::support::{default_family, findings, get, logs, names, property, simulated, synced};

const PATH: &str = "/db";
const DIRECT: &str = "wal_io_mode=direct";
const UNLOGGED: WriteOptions = WriteOptions::new().with_disable_wal(true);

/// Opens a database whose log uses direct I/O, on a simulated disk behind a gate that can stop a
/// call.
fn open(disk: &SimStorage) -> (Arc<Gate>, Db) {
    let gate = Gate::over(Arc::new(disk.clone()));
    let mut options = gate.options(DIRECT);
    options.set_clock(disk.clock());
    options.set_inline_background(true);
    let db = Db::open(Path::new(PATH), &options).expect("a database");
    // Begins the log with this put, so that later groups overwrite its preallocated zeros.
    put(&db, "before").expect("a put");
    (gate, db)
}

fn put(db: &Db, key: &str) -> tailwater::Result<()> {
    db.put_cf_opt(&default_family(db), key.as_bytes(), b"1", &synced())
}

fn log_writes(disk: &SimStorage) -> u64 {
    disk.statistics().snapshot(Purpose::Wal).writes.count
}

/// Waits until the number of log writes that the disk has received is no longer `before`.
fn wait_for_write(disk: &SimStorage, before: u64) {
    while log_writes(disk) == before {
        thread::yield_now();
    }
}

#[test]
fn a_group_is_written_concurrently_but_acknowledged_after_the_one_ahead() {
    // The number of earlier groups varies, so that the groups below are at every position in a
    // block of the log, including its end.
    for first in 0..9 {
        let disk = SimStorage::new(first);
        let (gate, db) = open(&disk);
        (0..first).for_each(|number| put(&db, &format!("{number}")).expect("a put"));
        let before = log_writes(&disk);
        gate.stop(Call::WriteDurably, 0);
        thread::scope(|scope| {
            let opening = Opening(&gate);
            let ahead = scope.spawn(|| put(&db, "ahead"));
            gate.wait();
            let behind = scope.spawn(|| put(&db, "behind"));
            wait_for_write(&disk, before);
            recover_without_them(&disk.crash_image(first));
            assert!(!behind.is_finished() && get(&db, "behind").is_none());
            drop(opening);
            ahead.join().expect("a writer").expect("a put");
            behind.join().expect("a writer").expect("a put");
        });
        let image = disk.crash_image(first);
        let recovered = Db::open(Path::new(PATH), &simulated(&image, "")).expect("a database");
        assert!(["before", "ahead", "behind"].iter().all(|key| get(&recovered, key).is_some()));
        assert_eq!(recovered.left_out(), []);
    }
}

/// Recovers a crash image whose log has a gap: the group with the key `ahead` is missing. The next
/// group, with the key `behind`, is in the log. Neither group may be recovered.
fn recover_without_them(image: &SimStorage) {
    let found = findings(Path::new(PATH), &simulated(image, ""));
    assert!(found.iter().all(|it| it.severity == Severity::TornTail), "{found:?}");
    let db = Db::open(Path::new(PATH), &simulated(image, DIRECT)).expect("a database");
    assert!(db.left_out().iter().all(|it| it.torn_tail), "{:?}", db.left_out());
    let keys = ["before", "ahead", "behind"];
    assert_eq!(keys.map(|key| get(&db, key).is_some()), [true, false, false]);
    put(&db, "after").expect("a put");
    drop(db);
    assert_eq!(findings(Path::new(PATH), &simulated(image, "")), []);
    let db = Db::open(Path::new(PATH), &simulated(image, "")).expect("a database");
    assert!(["before", "after"].iter().all(|key| get(&db, key).is_some()));
}

/// Like [`open`], but on a device whose flushes are faster than its durable writes. Returns after
/// the database has measured this and therefore syncs its logs by flushes of the device.
fn open_with_flushes(disk: &SimStorage) -> (Arc<Gate>, Db) {
    let times = DeviceTimes { write_ns: 50_000, durable_write_ns: 8_000_000, sync_ns: 4_000_000 };
    disk.set_times(times);
    let gate = Gate::over(Arc::new(disk.clone()));
    let mut options = gate.options(DIRECT);
    options.set_clock(disk.clock());
    let db = Db::open(Path::new(PATH), &options).expect("a database");
    while !property(&db, "tailwater.io-modes").contains("synced by flushes") {
        thread::yield_now();
    }
    put(&db, "before").expect("a put");
    (gate, db)
}

/// Waits until the file of the newest log contains a key.
fn wait_for_key_in_log(disk: &SimStorage, key: &str) {
    let log = logs(disk, Path::new(PATH)).pop().expect("a log");
    let file = disk.open(&Path::new(PATH).join(log), IoMode::Buffered, Purpose::Wal);
    let file = file.expect("a log");
    let mut bytes = vec![0; 1 << 20];
    let mut is_there = || {
        let count = file.read_full_at(&mut bytes, 0, Purpose::Wal).expect("its bytes");
        bytes[..count].windows(key.len()).any(|found| found == key.as_bytes())
    };
    while !is_there() {
        thread::yield_now();
    }
}

/// Regression test: on devices whose flushes are faster than durable writes, a group was not
/// written until the group ahead of it had been written and synced.
#[test]
fn groups_synced_by_flushes_are_written_concurrently() {
    let disk = SimStorage::new(1);
    let (gate, db) = open_with_flushes(&disk);
    gate.stop(Call::WriteLog, 0);
    thread::scope(|scope| {
        let opening = Opening(&gate);
        let ahead = scope.spawn(|| put(&db, "ahead"));
        gate.wait();
        let behind = scope.spawn(|| put(&db, "behind"));
        wait_for_key_in_log(&disk, "behind");
        recover_without_them(&disk.crash_image(1));
        assert!(!behind.is_finished() && get(&db, "behind").is_none());
        drop(opening);
        ahead.join().expect("a writer").expect("a put");
        behind.join().expect("a writer").expect("a put");
    });
    let recovered = Db::open(Path::new(PATH), &simulated(&disk.crash_image(1), "")).expect("one");
    assert!(["before", "ahead", "behind"].iter().all(|key| get(&recovered, key).is_some()));
}

#[test]
fn a_failed_device_flush_acknowledges_no_group() {
    let disk = SimStorage::new(1);
    let (gate, db) = open_with_flushes(&disk);
    gate.stop(Call::WriteLog, 0);
    thread::scope(|scope| {
        let opening = Opening(&gate);
        let ahead = scope.spawn(|| put(&db, "ahead"));
        gate.wait();
        let broken = FaultRule::new(Fault::InputOutput).operation(Operation::Sync).from(0);
        disk.set_faults(FaultPlan::none().with(broken));
        let behind = scope.spawn(|| put(&db, "behind"));
        wait_for_key_in_log(&disk, "behind");
        drop(opening);
        for writer in [ahead, behind] {
            let error = writer.join().expect("a writer").expect_err("it was not flushed");
            assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        }
    });
    assert!(put(&db, "refused").is_err());
    assert!(get(&db, "ahead").is_none() && get(&db, "behind").is_none());
    disk.set_faults(FaultPlan::none());
    let recovered = Db::open(Path::new(PATH), &simulated(&disk.crash_image(1), "")).expect("one");
    assert!(get(&recovered, "before").is_some() && get(&recovered, "refused").is_none());
    put(&recovered, "after").expect("a put");
}

#[test]
fn a_failed_group_fails_the_groups_after_it() {
    let disk = SimStorage::new(1);
    let (gate, db) = open(&disk);
    let before = log_writes(&disk);
    gate.stop(Call::WriteDurably, 0);
    thread::scope(|scope| {
        let opening = Opening(&gate);
        let ahead = scope.spawn(|| put(&db, "ahead"));
        gate.wait();
        let behind = scope.spawn(|| put(&db, "behind"));
        wait_for_write(&disk, before);
        let broken = FaultRule::new(Fault::NoSpace).operation(Operation::Write).at(0);
        disk.set_faults(FaultPlan::none().with(broken));
        drop(opening);
        for writer in [ahead, behind] {
            let error = writer.join().expect("a writer").expect_err("there is no room");
            assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
        }
    });
    assert!(put(&db, "refused").is_err());
    db.resume().expect("there is room again");
    put(&db, "after").expect("a put");
    for db in [db, Db::open(Path::new(PATH), &simulated(&disk.crash_image(1), "")).expect("one")] {
        let keys = ["before", "ahead", "behind", "refused", "after"];
        assert_eq!(keys.map(|key| get(&db, key).is_some()), [true, false, false, false, true]);
    }
}

/// Regression test: while a group was in flight, the MANIFEST failed. The group was refused
/// although it was in the log. After `resume`, the next write got the same sequence numbers in the
/// same log, and recovery stopped there.
#[test]
fn a_group_in_the_log_is_not_refused_for_a_failure_of_another_part() {
    // The gate may stop a write of the thread that preallocates the log instead of the group's
    // write. The group is then refused before it is in the log, and the test begins again.
    assert!((0..20).any(is_acknowledged_although_the_manifest_fails));
}

/// Makes the MANIFEST fail while the gate stops a write to the log. Returns false if the put that
/// was made meanwhile is refused.
fn is_acknowledged_although_the_manifest_fails(seed: u64) -> bool {
    let disk = SimStorage::new(seed);
    let manifests = Gate::over(Arc::new(disk.clone()));
    let gate = Gate::over(Arc::clone(&manifests) as Arc<dyn Storage>);
    let mut options = gate.options("wal_io_mode=direct;write_buffer_size=64K");
    options.set_clock(disk.clock());
    let db = Db::open(Path::new(PATH), &options).expect("a database");
    manifests.stop(Call::SyncManifest, 0);
    let big = vec![b'v'; 70_000];
    db.put_cf_opt(&default_family(&db), b"big", &big, &synced()).expect("a put");
    // Begins a log, and the flush of the memtable with the big value.
    put(&db, "before").expect("a put");
    put(&db, "before").expect("a put");
    manifests.wait();
    gate.stop(Call::WriteDurably, 0);
    let ahead = thread::scope(|scope| {
        let opening = Opening(&gate);
        let ahead = scope.spawn(|| put(&db, "ahead"));
        gate.wait();
        manifests.open_to_fail();
        while db.background_error().is_none() {
            thread::yield_now();
        }
        drop(opening);
        ahead.join().expect("a writer")
    });
    assert!(put(&db, "refused").is_err());
    db.resume().expect("a new MANIFEST");
    put(&db, "ahead").expect("a put");
    let image = disk.crash_image(seed);
    let recovered = Db::open(Path::new(PATH), &simulated(&image, "")).expect("a database");
    assert_eq!(recovered.left_out(), []);
    let keys = ["big", "before", "ahead", "refused"];
    assert_eq!(keys.map(|key| get(&recovered, key).is_some()), [true, true, true, false]);
    ahead.is_ok()
}

/// Regression test: an unlogged write waited for a group in flight, which failed. The write was
/// acknowledged although the log had failed, and got the sequence numbers of the failed group.
#[test]
fn a_write_that_waits_for_a_failing_group_is_refused() {
    let disk = SimStorage::new(1);
    let (gate, db) = open(&disk);
    let sequence = db.latest_sequence_number();
    gate.stop(Call::WriteDurably, 0);
    thread::scope(|scope| {
        let opening = Opening(&gate);
        let ahead = scope.spawn(|| put(&db, "ahead"));
        gate.wait();
        let behind =
            scope.spawn(|| db.put_cf_opt(&default_family(&db), b"behind", b"1", &UNLOGGED));
        // Lets the writer of `behind` begin to wait for the group in flight.
        for _ in 0..1000 {
            assert!(!behind.is_finished());
            thread::yield_now();
        }
        let broken = FaultRule::new(Fault::InputOutput).operation(Operation::Write).at(0);
        disk.set_faults(FaultPlan::none().with(broken));
        drop(opening);
        for writer in [ahead, behind] {
            writer.join().expect("a writer").expect_err("the log has failed");
        }
    });
    assert_eq!(get(&db, "behind"), None);
    assert_eq!(db.latest_sequence_number(), sequence);
}

#[test]
fn a_memtable_switch_waits_for_groups_in_flight() {
    let disk = SimStorage::new(1);
    let (gate, db) = open(&disk);
    let logs = || names(&disk, Path::new(PATH)).iter().filter(|it| it.ends_with(".log")).count();
    gate.stop(Call::WriteDurably, 0);
    thread::scope(|scope| {
        let opening = Opening(&gate);
        let ahead = scope.spawn(|| put(&db, "ahead"));
        gate.wait();
        let flush = scope.spawn(|| db.flush_all());
        // The flush must not switch the log while a group is in flight. These iterations would give
        // it enough time to do so.
        for _ in 0..1000 {
            assert!(!flush.is_finished() && logs() == 1);
            thread::yield_now();
        }
        drop(opening);
        ahead.join().expect("a writer").expect("a put");
        flush.join().expect("a thread").expect("a flush");
    });
    assert!(get(&db, "ahead").is_some());
}

/// Tests that an explicit sync of the log does not wait for write groups in flight.
#[test]
fn syncing_the_log_does_not_wait_for_groups_in_flight() {
    let disk = SimStorage::new(1);
    let (gate, db) = open(&disk);
    gate.stop(Call::WriteDurably, 0);
    thread::scope(|scope| {
        let opening = Opening(&gate);
        let ahead = scope.spawn(|| put(&db, "ahead"));
        gate.wait();
        db.flush_wal(true).expect("a sync");
        drop(opening);
        ahead.join().expect("a writer").expect("a put");
    });
}
