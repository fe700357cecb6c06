//! Regression tests for single crashes and faults after which the database had lost data or did not
//! open.

use std::path::Path;
use std::sync::Arc;

use tailwater::{
    ColumnFamily, Db, IngestOptions, OpenOptions, ReadOptions, SstFileWriter, WriteOptions,
};
use tailwater_io::sim::{Fault, FaultPlan, FaultRule, SimStorage};
use tailwater_io::{Create, IoMode, Operation, Purpose, Storage};

use crate::model::DEFAULT;

pub(crate) const PATH: &str = "/above/database";

pub(crate) fn options(disk: &SimStorage, text: &str) -> OpenOptions {
    let mut options = OpenOptions::with_storage(Arc::new(disk.clone()));
    options.set_from_string("create_if_missing=true").expect("options");
    options.set_from_string(text).expect("options");
    options.set_inline_background(true);
    options.set_clock(disk.clock());
    options
}

pub(crate) fn open(disk: &SimStorage, text: &str) -> Db {
    Db::open(Path::new(PATH), &options(disk, text)).unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) fn put(db: &Db, family: &str, key: &str, sync: bool) {
    let family = db.cf_handle(family).expect("a column family");
    let options = WriteOptions::new().with_sync(sync);
    db.put_cf_opt(&family, key.as_bytes(), b"value", &options).expect("a put");
}

pub(crate) fn has(db: &Db, key: &str) -> bool {
    let family = db.cf_handle(DEFAULT).expect("a column family");
    db.get_cf_opt(&family, key.as_bytes(), &ReadOptions::default()).expect("a get").is_some()
}

pub(crate) fn create(db: &Db, family: &str) {
    let default = db.cf_handle(DEFAULT).expect("a column family");
    db.create_cf(family, &default.options()).expect("a column family");
}

/// Regression test: one opening created the database directory and failed before it synced the
/// parent directory. The next opening assumed that the existing directory was durable. A power cut
/// then lost the database.
#[test]
fn directories_created_by_an_earlier_opening_are_synced() {
    for index in 0..4 {
        let disk = SimStorage::new(1);
        let rule = FaultRule::new(Fault::InputOutput).operation(Operation::SyncDirectory).at(index);
        disk.set_faults(FaultPlan::none().with(rule));
        let _ = Db::open(Path::new(PATH), &options(&disk, ""));
        disk.set_faults(FaultPlan::none());
        let db = open(&disk, "");
        put(&db, DEFAULT, "key", true);
        for seed in 0..30 {
            assert!(has(&open(&disk.crash_image(seed), ""), "key"));
        }
    }
}

/// Regression test: opening a database succeeded although its OPTIONS file could not be written.
/// Options that were later loaded from that directory were then outdated. RocksDB refuses to open
/// the database in this case.
#[test]
fn opening_fails_if_the_options_file_cannot_be_written() {
    let disk = SimStorage::new(1);
    let rule = FaultRule::new(Fault::NoSpace).path_containing("OPTIONS").from(0);
    disk.set_faults(FaultPlan::none().with(rule));
    let error = Db::open(Path::new(PATH), &options(&disk, "")).expect_err("no OPTIONS");
    assert!(error.path().is_some_and(|path| path.to_string_lossy().contains("OPTIONS")), "{error}");
    disk.set_faults(FaultPlan::none());
    open(&disk, "");
}

/// Regression test: with `track_and_verify_wals`, a power cut after opening lost the directory
/// entry of the only log. The next opening then refused the database, since it had no log.
#[test]
fn the_name_of_a_tracked_log_is_on_the_device() {
    let text = "track_and_verify_wals=true;wal_dir=/logs";
    let disk = SimStorage::new(1);
    let db = open(&disk, text);
    for round in 0..3 {
        for seed in 0..30 {
            open(&disk.crash_image(seed), text);
        }
        // The flush begins another log. The directory entry of this log must be durable, like that
        // of the first log.
        put(&db, DEFAULT, &format!("{round}"), false);
        db.flush_all().expect("a flush");
    }
}

/// Regression test: dropping a column family removed logs that the MANIFEST still listed as needed.
/// With `track_and_verify_wals`, the next opening missed these logs. It then refused the log after
/// them, which held synced writes.
#[test]
fn logs_removed_with_a_column_family_are_not_reported_missing() {
    let text = "track_and_verify_wals=true;avoid_flush_during_recovery=true";
    let disk = SimStorage::new(1);
    let db = open(&disk, text);
    create(&db, "other");
    put(&db, "other", "key", true);
    db.close().expect("closing");
    drop(db);
    let db = open(&disk, text);
    let other = db.cf_handle("other").expect("a column family");
    db.drop_cf(&other).expect("dropping");
    put(&db, DEFAULT, "synced", true);
    for seed in 0..30 {
        assert!(has(&open(&disk.crash_image(seed), text), "synced"));
    }
}

/// Regression test: with `track_and_verify_wals`, a checkpoint could not be opened, since its
/// directory has no log.
#[test]
fn a_checkpoint_opens_with_wal_tracking() {
    let text = "track_and_verify_wals=true";
    let disk = SimStorage::new(1);
    let db = open(&disk, text);
    put(&db, DEFAULT, "key", false);
    db.checkpoint(Path::new("/checkpoint")).expect("a checkpoint");
    let checkpoint = Db::open_read_only(Path::new("/checkpoint"), &options(&disk, text));
    assert!(has(&checkpoint.expect("the checkpoint"), "key"));
}

/// Regression test: a log ended inside its first record, in a recovery mode that accepts such a
/// log. With `avoid_flush_during_recovery`, recovery kept the log. It did not record the sequence
/// number with which the next log had to begin. A later opening in the default mode therefore left
/// out the next log, with its synced writes.
#[test]
fn a_log_without_a_whole_record_is_not_kept() {
    let keeping = "avoid_flush_during_recovery=true;\
                   wal_recovery_mode=kTolerateCorruptedTailRecords";
    let disk = SimStorage::new(1);
    let db = open(&disk, keeping);
    put(&db, DEFAULT, &"key".repeat(1000), false);
    let mut opened = 0;
    for seed in 0..100 {
        let image = disk.crash_image(seed);
        let Ok(db) = Db::open(Path::new(PATH), &options(&image, keeping)) else { continue };
        put(&db, DEFAULT, "synced", true);
        assert!(has(&open(&image.process_crash_image(seed), ""), "synced"), "image {seed}");
        opened += 1;
    }
    assert!(opened > 10, "{opened} of 100 images could be opened");
}

/// Regression test: a power cut during a write of a MANIFEST edit may lose a sector in the middle
/// of the edit, and not only its end. The database treated that as damage and did not open.
#[test]
fn a_last_edit_that_lacks_a_sector_is_a_torn_tail_of_the_manifest() {
    let disk = SimStorage::new(1);
    let db = open(&disk, "");
    disk.start_recording();
    create(&db, &"name".repeat(400));
    let calls = disk.calls();
    let is_sync = |purpose| purpose == Some(Purpose::Manifest);
    let mut syncs = calls.iter().filter(|call| call.operation == Operation::Sync);
    let sync = syncs.find(|call| is_sync(call.purpose)).expect("a sync of the MANIFEST");
    let mut replay = disk.replay();
    replay.advance_to(sync.number);
    let mut torn = 0;
    for seed in 0..200 {
        let db = open(&replay.crash_image(seed), "");
        torn += usize::from(!db.left_out().is_empty());
    }
    assert!(torn > 20, "only {torn} of 200 were torn");
}

/// Returns a database, its column family `late`, and the path of a file to ingest into `late`. The
/// database has two logs: an older one, to which it no longer writes, and the current one. The
/// older log is not synced, and its writes are not flushed. `late` was created after the older log
/// ended.
fn late_family(disk: &SimStorage) -> (Db, ColumnFamily, &'static Path) {
    let db = open(disk, "write_buffer_size=1048576");
    create(&db, "second");
    // The writes are spread over two families, so that the log is full before a memtable is.
    let value = vec![b'v'; 10_000];
    for number in 0..65 {
        for family in db.column_families() {
            let key = format!("key{number}");
            db.put_cf_opt(&family, key.as_bytes(), &value, &WriteOptions::default())
                .expect("a put");
        }
    }
    create(&db, "late");
    let late = db.cf_handle("late").expect("a column family");
    let file = Path::new("/file.sst");
    let mut writer = SstFileWriter::new(&options(disk, ""), "late").expect("a writer");
    writer.open(file).expect("a file");
    writer.put(b"key", b"value").expect("a put");
    writer.finish().expect("a whole file");
    (db, late, file)
}

/// Regression test: when a column family was created, the database already wrote to a new log, but
/// the log before it was not synced. Then a file was ingested into this column family. A power cut
/// lost the end of the older log but not the ingested file. The database did not open after that,
/// since the column family's data was newer than the surviving logs.
#[test]
fn an_ingested_file_does_not_outlive_the_logs_before_it() {
    for seed in 0..40 {
        let disk = SimStorage::new(seed);
        let (db, late, file) = late_family(&disk);
        db.ingest_external_file_cf_opts(&late, &[file], &IngestOptions::default())
            .expect("an ingestion");
        let db = open(&disk.crash_image(seed), "");
        let late = db.cf_handle("late").expect("a column family");
        let found = db.get_cf_opt(&late, b"key", &ReadOptions::default()).expect("a get");
        assert_eq!(found.as_deref(), Some(&b"value"[..]), "seed {seed}");
    }
    // The ingestion must first sync all older logs, which have the earlier writes. If it cannot,
    // the ingestion must fail, and later writes must fail, too.
    let disk = SimStorage::new(1);
    let (db, late, file) = late_family(&disk);
    let rule = FaultRule::new(Fault::InputOutput).operation(Operation::Sync).path_containing("log");
    disk.set_faults(FaultPlan::none().with(rule.at(0)));
    let options = IngestOptions::default();
    db.ingest_external_file_cf_opts(&late, &[file], &options)
        .expect_err("a log that is not synced");
    db.put_cf_opt(&late, b"key", b"value", &WriteOptions::default())
        .expect_err("a log that failed");
    assert_eq!(db.get_cf_opt(&late, b"key", &ReadOptions::default()).expect("a get"), None);
}

/// Regression test: after a failed sync of a log, the page cache held data that the device lacked.
/// The next opening, with `avoid_flush_during_recovery`, read that data, kept the log and synced it
/// again. This second sync succeeded without writing the data. A power cut then lost writes that
/// had been synced to the next log.
#[test]
fn a_log_is_kept_only_if_it_is_durable() {
    let text = "avoid_flush_during_recovery=true";
    for seed in 0..100 {
        let disk = SimStorage::new(seed);
        let db = open(&disk, text);
        put(&db, DEFAULT, "a", true);
        for index in 0..20 {
            put(&db, DEFAULT, &format!("{index:0200}"), false);
        }
        let rule = FaultRule::new(Fault::InputOutput).operation(Operation::Sync).at(0);
        disk.set_faults(FaultPlan::none().with(rule.purpose(Purpose::Wal)));
        db.flush_wal(true).expect_err("the sync fails");
        disk.set_faults(FaultPlan::none());
        drop(db);
        let db = open(&disk, text);
        put(&db, DEFAULT, "b", true);
        let after = open(&disk.crash_image(seed), text);
        assert!(has(&after, "a") && has(&after, "b"), "seed {seed}");
    }
}

/// Regression test: the sync of a file to be ingested failed. A second ingestion of the file synced
/// it again, and this sync succeeded although the file was not on the device. A power cut then lost
/// a table of the database.
#[test]
fn an_ingested_file_whose_sync_failed_is_copied() {
    for seed in 0..40 {
        let disk = SimStorage::new(seed);
        let db = open(&disk, "");
        let mut writer = SstFileWriter::new(&options(&disk, ""), DEFAULT).expect("a writer");
        writer.open(Path::new("/made.sst")).expect("a file");
        (0..50).for_each(|key| {
            writer.put(format!("{key:03}").as_bytes(), [b'v'; 200]).expect("a put")
        });
        writer.finish().expect("a table");
        copy(&disk, "/made.sst", "/copy.sst");
        let family = db.cf_handle(DEFAULT).expect("a column family");
        let moving = IngestOptions::new().with_move_files(true);
        let ingest =
            || db.ingest_external_file_cf_opts(&family, &[Path::new("/copy.sst")], &moving);
        let rule = FaultRule::new(Fault::InputOutput).operation(Operation::Sync).at(0);
        disk.set_faults(FaultPlan::none().with(rule.purpose(Purpose::Ingestion)));
        ingest().expect_err("the sync fails");
        disk.set_faults(FaultPlan::none());
        ingest().expect("an ingestion");
        let after = open(&disk.crash_image(seed), "");
        assert!((0..50).all(|key| has(&after, &format!("{key:03}"))), "seed {seed}");
    }
}

/// Copies a file without syncing it.
fn copy(disk: &SimStorage, from: &str, to: &str) {
    let (mode, purpose) = (IoMode::Buffered, Purpose::Metadata);
    let file = disk.open(from.as_ref(), mode, purpose).expect("a file");
    let mut bytes = vec![0; file.length().expect("a length") as usize];
    file.read_full_at(&mut bytes, 0, purpose).expect("a read");
    let mut copy = disk.create(to.as_ref(), Create::New, mode, purpose).expect("a file");
    copy.write_all_at(&bytes, 0, purpose).expect("a write");
}

/// Regression test: creating a column family succeeded although the OPTIONS file could not be
/// written. The next opening therefore did not know the column family's merge operator. The options
/// are now in the MANIFEST, too, and the OPTIONS file is written again when the database is closed.
#[test]
fn a_column_family_without_its_options_is_not_left() {
    let (mut failed, mut made_in_spite) = (0, 0);
    for call in 0.. {
        let disk = SimStorage::new(1);
        let db = open(&disk, "");
        let default = db.cf_handle(DEFAULT).expect("a column family").options();
        let mut set = tailwater::options::ColumnFamilyOptions::clone(&default);
        set.num_levels = 3;
        let first = disk.call_count();
        disk.set_faults(FaultPlan::at(call, Fault::InputOutput));
        let is_made = db.create_cf("other", &set).is_ok();
        disk.set_faults(FaultPlan::none());
        let is_met = disk.call_count() - first > call;
        let mut images = vec![disk.process_crash_image(call), disk.crash_image(call)];
        drop(db);
        images.push(disk);
        if !is_made {
            failed += 1;
            continue;
        }
        for image in images {
            let loaded = OpenOptions::load_from(Arc::new(image), Path::new(PATH)).expect("options");
            assert_eq!(loaded.column_family("other").num_levels, 3, "call {call}");
        }
        if !is_met {
            break;
        }
        made_in_spite += 1;
    }
    assert!(failed > 1 && made_in_spite > 3, "{failed} failed, {made_in_spite} did not");
}
