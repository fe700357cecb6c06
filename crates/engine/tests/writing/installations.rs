//! Installations, which make the new tables of a flush, compaction or ingestion part of the
//! database. An installation does not hold the version lock while it opens a new table or syncs the
//! MANIFEST. So reads, writes and other background work continue meanwhile. Edits are written to
//! the MANIFEST one after another.

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tailwater::options::{ColumnFamilyOptions, DbPath};
use tailwater::{
    ColumnFamily, CompactRangeOptions, Db, ErrorKind, IngestOptions, ReadOptions, Result,
    WriteBatch,
};
use tailwater_io::sim::{Fault, FaultPlan, FaultRule, SimStorage};
use tailwater_io::{Operation, Purpose, Storage};

use crate::gate::{Call, Gate, Opening};
use crate::support::{failure, findings, get_from, make_file, names, property, simulated, synced};

const PATH: &str = "/db";

/// While a storage call is stopped at the gate, a test waits for an event for at most this number
/// of pauses. [`PAUSE`] is the length of a pause.
const PAUSES: usize = 12_000;
const PAUSE: Duration = Duration::from_millis(5);

/// A database on a simulated disk, behind a gate that can stop a call. Flushes and compactions run
/// in background threads.
struct Scene {
    disk: SimStorage,
    gate: Arc<Gate>,
    db: Db,
    first: ColumnFamily,
    second: ColumnFamily,
}

impl Scene {
    /// Creates a database with two column families. The first one has two overlapping tables in
    /// level 0, which a compaction merges.
    fn new() -> Self {
        let disk = SimStorage::new(1);
        let gate = Gate::over(Arc::new(disk.clone()));
        let mut options = gate.options("disable_auto_compactions=true;num_levels=2");
        options.set_clock(disk.clock());
        let db = Db::open(Path::new(PATH), &options).expect("a database");
        let first = db.cf_handle("default").expect("the default column family");
        let second = db.create_cf("second", &first.options()).expect("a column family");
        let scene = Self { disk, gate, db, first, second };
        for value in ["old", "new"] {
            ["a", "z"].iter().for_each(|key| scene.put(&scene.first, key, value));
            scene.db.flush_cf(&scene.first).expect("a flush");
        }
        scene
    }

    fn put(&self, family: &ColumnFamily, key: &str, value: &str) {
        self.db.put_cf_opt(family, key.as_bytes(), value.as_bytes(), &synced()).expect("a put");
    }

    fn get(&self, family: &ColumnFamily, key: &str) -> Option<String> {
        get_from(&self.db, family, key)
    }

    fn compact(&self, family: &ColumnFamily) -> Result<()> {
        self.db.compact_range_cf_opt(family, None, None, &CompactRangeOptions::default())
    }

    /// Returns how many tables flushes have created, plus how many tables installations have
    /// opened.
    fn opens(&self) -> u64 {
        self.disk.statistics().snapshot(Purpose::FlushWrite).opens
    }

    fn manifest_writes(&self) -> u64 {
        self.disk.statistics().snapshot(Purpose::Manifest).writes.count
    }

    /// Puts a key into both column families and reads it. Also reads an older key of the first
    /// column family.
    fn use_both(&self, value: &str) {
        for family in [&self.first, &self.second] {
            self.put(family, "m", value);
            assert_eq!(self.get(family, "m").as_deref(), Some(value));
        }
        assert_eq!(self.get(&self.first, "a").as_deref(), Some("new"));
    }

    /// Closes the database, verifies and reopens it. Checks that it has the expected contents:
    /// column family, key and value.
    fn check_reopened(self, expected: &[(&str, &str, Option<&str>)]) {
        let Self { disk, db, first, second, .. } = self;
        drop((first, second));
        db.close().expect("closing");
        drop(db);
        let options = simulated(&disk, "disable_auto_compactions=true");
        assert_eq!(findings(Path::new(PATH), &options), []);
        let db = Db::open(Path::new(PATH), &options).expect("the database again");
        for &(family, key, value) in expected {
            let family = db.cf_handle(family).expect("a column family");
            assert_eq!(get_from(&db, &family, key).as_deref(), value, "{key}");
        }
    }
}

/// Waits until `is_so` returns true. Fails the test after [`PAUSES`] pauses: the expected event is
/// then blocked by the storage call that is stopped at the gate.
fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..PAUSES {
        if is_so() {
            return;
        }
        thread::sleep(PAUSE);
    }
    panic!("{what}: not while the call is blocked");
}

/// Regression test: a compaction held the version lock while it opened its outputs. A flush of
/// another column family waited for the lock, and writers waited for the flush.
#[test]
fn a_flush_completes_while_a_compaction_opens_its_outputs() {
    let scene = Scene::new();
    scene.gate.stop(Call::Open(Purpose::FlushWrite), 0);
    thread::scope(|scope| {
        let opening = Opening(&scene.gate);
        let compaction = scope.spawn(|| scene.compact(&scene.first));
        scene.gate.wait();
        scene.use_both("1");
        let flush = scope.spawn(|| scene.db.flush_cf(&scene.second));
        wait_for("a flush", || flush.is_finished());
        flush.join().expect("a thread").expect("a flush");
        scene.use_both("2");
        assert!(!compaction.is_finished());
        drop(opening);
        compaction.join().expect("a thread").expect("a compaction");
    });
    assert_eq!(scene.db.live_files().iter().filter(|file| file.level == 0).count(), 1);
    scene.check_reopened(&[
        ("default", "a", Some("new")),
        ("default", "m", Some("2")),
        ("second", "m", Some("2")),
    ]);
}

/// Regression test: while a compaction installed its tables, it held the version lock during the
/// sync of the MANIFEST. A flush had to wait for the lock before it could open its own table.
#[test]
fn a_flush_prepares_its_edit_while_the_manifest_is_synced() {
    let scene = Scene::new();
    scene.gate.stop(Call::SyncManifest, 0);
    thread::scope(|scope| {
        let opening = Opening(&scene.gate);
        let compaction = scope.spawn(|| scene.compact(&scene.first));
        scene.gate.wait();
        scene.use_both("1");
        let (opens, written) = (scene.opens(), scene.manifest_writes());
        let flush = scope.spawn(|| scene.db.flush_cf(&scene.second));
        wait_for("a flush's table, created and opened", || scene.opens() == opens + 2);
        // At this point the flush has sealed the memtable, but has not installed its table.
        scene.use_both("2");
        assert_eq!(property(&scene.db, "rocksdb.num-files-at-level0"), "2");
        // The compaction is stopped at the gate while it installs its table, and the flush must
        // wait for the compaction. If the flush did not wait, it would end during these iterations.
        for _ in 0..20 {
            assert!(!flush.is_finished() && !compaction.is_finished());
            thread::sleep(PAUSE);
        }
        assert_eq!(scene.manifest_writes(), written, "edits are written in their order");
        drop(opening);
        compaction.join().expect("a thread").expect("a compaction");
        flush.join().expect("a thread").expect("a flush");
        assert!(scene.manifest_writes() > written);
    });
    scene.check_reopened(&[
        ("default", "a", Some("new")),
        ("default", "m", Some("2")),
        ("second", "m", Some("2")),
    ]);
}

/// Tests a flush that waits to install its table while a compaction syncs the MANIFEST. If that
/// sync fails, the flush must write nothing to the MANIFEST.
#[test]
fn installations_waiting_for_a_failed_manifest_sync_are_refused() {
    let scene = Scene::new();
    scene.put(&scene.second, "m", "1");
    scene.gate.stop(Call::SyncManifest, 0);
    thread::scope(|scope| {
        let _opening = Opening(&scene.gate);
        let compaction = scope.spawn(|| scene.compact(&scene.first));
        scene.gate.wait();
        let (opens, written) = (scene.opens(), scene.manifest_writes());
        let flush = scope.spawn(|| scene.db.flush_cf(&scene.second));
        wait_for("a flush's table, created and opened", || scene.opens() == opens + 2);
        scene.gate.open_to_fail();
        let (kind, text) = failure(compaction.join().expect("a thread"));
        assert!(kind == ErrorKind::Io && text.contains("the gate failed"), "{text}");
        let (kind, text) = failure(flush.join().expect("a thread"));
        assert!(kind == ErrorKind::Io && text.contains("the gate failed"), "{text}");
        assert_eq!(scene.manifest_writes(), written, "nothing is behind the failed sync");
    });
    let refused = scene.db.put_cf_opt(&scene.first, b"b", b"1", &synced());
    assert!(failure(refused).1.contains("writes are refused"));
    let manifests = || {
        let mut names = names(&scene.disk, Path::new(PATH));
        names.retain(|name| name.starts_with("MANIFEST"));
        names
    };
    let before = manifests();
    assert_eq!(scene.get(&scene.first, "a").as_deref(), Some("new"));
    scene.db.resume().expect("a new MANIFEST");
    assert!(manifests() != before, "{before:?}");
    scene.use_both("2");
    scene.compact(&scene.first).expect("a compaction");
    scene.check_reopened(&[("default", "a", Some("new")), ("second", "m", Some("2"))]);
}

/// Tests that a column family can be dropped while a compaction of it opens its outputs. The
/// outputs must then not be installed.
#[test]
fn a_column_family_is_dropped_while_its_compaction_opens_its_outputs() {
    let scene = Scene::new();
    for value in ["old", "new"] {
        ["a", "z"].iter().for_each(|key| scene.put(&scene.second, key, value));
        scene.db.flush_cf(&scene.second).expect("a flush");
    }
    scene.gate.stop(Call::Open(Purpose::FlushWrite), 0);
    thread::scope(|scope| {
        let opening = Opening(&scene.gate);
        let compaction = scope.spawn(|| scene.compact(&scene.second));
        scene.gate.wait();
        let dropping = scope.spawn(|| scene.db.drop_cf(&scene.second));
        wait_for("a column family's end", || dropping.is_finished());
        dropping.join().expect("a thread").expect("a column family that is dropped");
        drop(opening);
        let (kind, text) = failure(compaction.join().expect("a thread"));
        assert_eq!(kind, ErrorKind::Cancelled, "{text}");
    });
    let live: Vec<u64> = scene.db.live_files().iter().map(|file| file.number).collect();
    let Scene { disk, db, first, second, .. } = scene;
    drop((first, second));
    db.close().expect("closing");
    let tables = names(&disk, Path::new(PATH)).into_iter().filter(|name| name.ends_with(".sst"));
    assert_eq!(tables.count(), live.len(), "only those of the first column family");
}

/// Regression test: in a database with several column families, a flush first syncs all logs older
/// than the current one. It held the lock of the logs during these syncs, so that every write
/// waited.
#[test]
fn writes_continue_while_a_flush_syncs_the_complete_logs() {
    let scene = Scene::new();
    let unsynced = |family, key| scene.db.put_cf(family, key, "1");
    unsynced(&scene.second, "m").expect("a put");
    scene.gate.stop(Call::SyncLog, 0);
    thread::scope(|scope| {
        let opening = Opening(&scene.gate);
        let flush = scope.spawn(|| scene.db.flush_cf(&scene.second));
        scene.gate.wait();
        let put = scope.spawn(|| unsynced(&scene.first, "n"));
        wait_for("a put", || put.is_finished());
        put.join().expect("a thread").expect("a put");
        assert_eq!(scene.get(&scene.first, "n").as_deref(), Some("1"));
        assert!(!flush.is_finished());
        drop(opening);
        flush.join().expect("a thread").expect("a flush");
    });
    scene.check_reopened(&[("default", "n", Some("1")), ("second", "m", Some("1"))]);
}

/// Regression test: creating or dropping a column family blocked all writes while it created the
/// directories and wrote the OPTIONS file, which is renamed into place. The creation or drop itself
/// also waited for the OPTIONS file.
#[test]
fn writes_continue_while_column_families_are_created_and_dropped() {
    let scene = Scene::new();
    let mut elsewhere = ColumnFamilyOptions::clone(&scene.first.options());
    elsewhere.cf_paths = vec![DbPath { path: "/elsewhere".into(), target_size: 0 }];
    let create = || scene.db.create_cf("third", &elsewhere).map(drop);
    let drop_second = || scene.db.drop_cf(&scene.second);
    let changes: [(Call, &(dyn Fn() -> Result<()> + Sync)); 3] =
        [(Call::CreateDirectory, &create), (Call::Rename, &create), (Call::Rename, &drop_second)];
    // The cleaning thread renames the OPTIONS file.
    let waits = |call| call == Call::CreateDirectory;
    for (number, (call, change)) in changes.into_iter().enumerate() {
        if let Ok(third) = scene.db.cf_handle("third") {
            scene.db.drop_cf(&third).expect("a drop");
        }
        let value = number.to_string();
        scene.gate.stop(call, 0);
        thread::scope(|scope| {
            let opening = Opening(&scene.gate);
            let changing = scope.spawn(change);
            scene.gate.wait();
            let put = scope.spawn(|| scene.db.put_cf(&scene.first, "m", &value));
            wait_for("a put", || put.is_finished());
            put.join().expect("a thread").expect("a put");
            if waits(call) {
                assert!(!changing.is_finished());
            } else {
                wait_for("a change", || changing.is_finished());
            }
            drop(opening);
            changing.join().expect("a thread").expect("a change");
        });
    }
    scene.check_reopened(&[("default", "m", Some("2"))]);
}

/// Tests that a write that waits for another thread's sync of a log fails if that sync fails. The
/// write must not sync the log again: the operating system reports a failed sync only once, so a
/// second sync would succeed although data is lost.
#[test]
fn a_write_waiting_for_a_failed_log_sync_fails() {
    let scene = Scene::new();
    scene.db.put_cf(&scene.second, "m", "1").expect("a put");
    scene.gate.stop(Call::SyncLog, 0);
    thread::scope(|scope| {
        let _opening = Opening(&scene.gate);
        let flush = scope.spawn(|| scene.db.flush_cf(&scene.second));
        scene.gate.wait();
        let put = scope.spawn(|| scene.db.put_cf_opt(&scene.first, b"n", b"1", &synced()));
        // Lets the writer begin to wait for the stopped sync.
        (0..20).for_each(|_| thread::sleep(PAUSE));
        assert!(!put.is_finished());
        scene.gate.open_to_fail();
        for refused in [put.join().expect("a thread"), flush.join().expect("a thread")] {
            let (kind, text) = failure(refused);
            assert!(kind == ErrorKind::Io && text.contains("the gate failed"), "{text}");
        }
    });
}

/// Regression test: `resume` abandoned complete logs although a running flush still had to sync
/// them. The flush then installed the table of one column family, while a power cut could remove
/// the rest of the same batch.
#[test]
fn resuming_waits_for_a_flush_that_syncs_the_complete_logs() {
    let scene = Scene::new();
    let mut batch = WriteBatch::new();
    batch.put_cf(&scene.first, "m", "1").expect("a record");
    batch.put_cf(&scene.second, "m", "1").expect("a record");
    scene.db.write(&mut batch).expect("a write");
    let logs =
        || names(&scene.disk, Path::new(PATH)).iter().filter(|it| it.ends_with(".log")).count();
    scene.gate.stop(Call::SyncLog, 0);
    scene.disk.start_recording();
    let begin = scene.disk.call_count();
    thread::scope(|scope| {
        let _opening = Opening(&scene.gate);
        let flush = scope.spawn(|| scene.db.flush_cf(&scene.first));
        scene.gate.wait();
        let full = FaultRule::new(Fault::NoSpace).operation(Operation::Write).purpose(Purpose::Wal);
        scene.disk.set_faults(FaultPlan::none().with(full.at(0)));
        scene.db.put("refused", "").expect_err("the disk is full");
        scene.disk.set_faults(FaultPlan::none());
        let before = logs();
        let resume = scope.spawn(|| scene.db.resume());
        // Lets `resume` begin a log, if it does not wait for the flush.
        (0..20).take_while(|_| logs() == before).for_each(|_| thread::sleep(PAUSE));
        scene.gate.open_to_fail();
        // The flush fails, or repeats its work after `resume`.
        let _ = flush.join().expect("a thread");
        resume.join().expect("a thread").expect("there is room again");
    });
    let mut replay = scene.disk.replay();
    for call in begin..=scene.disk.call_count() {
        replay.advance_to(call);
        for seed in 0..4 {
            let options = simulated(&replay.crash_image(seed), "");
            let db = Db::open(Path::new(PATH), &options).expect("the database");
            let has = ["default", "second"].map(|name| {
                get_from(&db, &db.cf_handle(name).expect("a column family"), "m").is_some()
            });
            assert!(has[0] == has[1], "call {call}, seed {seed}: {has:?}");
        }
    }
}

/// Regression test: an ingestion held the lock of the snapshots while it opened its tables, so no
/// snapshot could be taken meanwhile. A snapshot taken during the ingestion must not show the
/// ingested tables.
#[test]
fn a_snapshot_is_taken_while_an_ingestion_opens_its_tables() {
    let scene = Scene::new();
    let file = Path::new("/file");
    make_file(&scene.gate.options(""), file, &["m"], "ingested");
    scene.gate.stop(Call::Open(Purpose::FlushWrite), 0);
    let snapshot = thread::scope(|scope| {
        let opening = Opening(&scene.gate);
        let ingestion = scope.spawn(|| {
            scene.db.ingest_external_file_cf_opts(&scene.first, &[file], &IngestOptions::default())
        });
        scene.gate.wait();
        let taking = scope.spawn(|| scene.db.snapshot());
        wait_for("a snapshot", || taking.is_finished());
        assert!(!ingestion.is_finished());
        drop(opening);
        ingestion.join().expect("a thread").expect("an ingestion");
        taking.join().expect("a thread")
    });
    let before = ReadOptions::new().with_snapshot(snapshot);
    let seen = scene.db.get_cf_opt(&scene.first, b"m", &before).expect("a get");
    assert_eq!(seen, None, "the snapshot is older");
    drop(before);
    assert_eq!(scene.get(&scene.first, "m").as_deref(), Some("ingested"));
    scene.check_reopened(&[("default", "m", Some("ingested"))]);
}

/// Tests that the level chosen for an ingested file stays valid until the file is installed: until
/// then no compaction may begin whose output would overlap the file in this level.
#[test]
fn no_compaction_is_claimed_while_an_ingestion_syncs_the_manifest() {
    let scene = Scene::new();
    // The tables in level 0 have no key in the range of the file, so the chosen level is the one
    // below, level 1.
    let file = Path::new("/file");
    make_file(&scene.gate.options(""), file, &["m"], "ingested");
    let due = [("level0_file_num_compaction_trigger", "1"), ("disable_auto_compactions", "false")];
    scene.gate.stop(Call::SyncManifest, 0);
    thread::scope(|scope| {
        let opening = Opening(&scene.gate);
        let ingestion = scope.spawn(|| {
            scene.db.ingest_external_file_cf_opts(&scene.first, &[file], &IngestOptions::default())
        });
        scene.gate.wait();
        // A compaction of level 0 is now due. The key range of its output, from `a` to `z`,
        // includes `m`, the key in the ingested file.
        let changing = scope.spawn(|| scene.db.set_options_cf(&scene.first, &due));
        // Gives the change of options time to begin the compaction, which must wait for the
        // ingestion.
        (0..20).for_each(|_| thread::sleep(PAUSE));
        drop(opening);
        let ingested = ingestion.join().expect("a thread").expect("an ingestion");
        assert_eq!(ingested[0].level, 1);
        changing.join().expect("a thread").expect("other options");
    });
    let level_0 = || property(&scene.db, "rocksdb.num-files-at-level0");
    wait_for("a compaction of level 0", || level_0() == "0");
    assert_eq!(scene.get(&scene.first, "m").as_deref(), Some("ingested"));
    scene.check_reopened(&[("default", "a", Some("new")), ("default", "m", Some("ingested"))]);
}
