//! Crashes at operations that random work rarely reaches.

use std::cell::Cell;
use std::path::{Path, PathBuf};

use tailwater::options::{ColumnFamilyOptions, DbPath};
use tailwater::{
    Db, ErrorKind, IngestOptions, OpenOptions, SstFileWriter, WriteBatch, WriteOptions,
};
use tailwater_io::sim::{Fault, FaultPlan, FaultRule, SimStorage};
use tailwater_io::{Create, IoMode, Operation, Purpose, Storage};

use crate::model::DEFAULT;
use crate::regressions::{PATH, create, has, open, options, put};

/// Number of random crash images that are checked at each crash point.
pub(crate) const IMAGES: u64 = 30;

/// Calls `check` with [`IMAGES`] random disk images that a power cut may leave, for a power cut
/// before every recorded call and after the last one.
pub(crate) fn at_every_call(disk: &SimStorage, check: impl Fn(SimStorage, &str)) {
    at_every_call_in(disk, IMAGES, check);
}

/// Like [`at_every_call`], but with `images` random disk images for each power cut.
pub(crate) fn at_every_call_in(disk: &SimStorage, images: u64, check: impl Fn(SimStorage, &str)) {
    let calls = disk.calls();
    let end = calls.last().map_or(0, |call| call.number + 1);
    let mut replay = disk.replay();
    for moment in calls.iter().map(|call| call.number).chain([end]) {
        let next = calls.iter().find(|call| call.number == moment);
        replay.advance_to(moment);
        for seed in moment * images..(moment + 1) * images {
            check(replay.crash_image(seed), &format!("image {seed} before {next:?}"));
        }
    }
}

/// Tests that a write with a sync also syncs older logs. These logs are complete, but their writes
/// are not yet in tables.
#[test]
fn a_synced_write_syncs_the_logs_before_it() {
    let text = "write_buffer_size=65536;arena_block_size=4096;min_write_buffer_number_to_merge=3;\
                max_write_buffer_number=5";
    let disk = SimStorage::new(1);
    let db = open(&disk, text);
    for index in 0..8 {
        put(&db, DEFAULT, &format!("{index}{}", "k".repeat(20_000)), false);
    }
    put(&db, DEFAULT, "synced", true);
    let logs = disk.list(Path::new(PATH)).expect("a list");
    let logs = logs.iter().filter(|entry| entry.name.ends_with(".log"));
    assert!(logs.count() > 1, "nothing was sealed");
    for seed in 0..30 {
        let db = open(&disk.crash_image(seed), text);
        for index in 0..8 {
            assert!(has(&db, &format!("{index}{}", "k".repeat(20_000))), "{index} of {seed}");
        }
    }
}

/// Tests a batch of two column families in a log that recovery kept without syncing it. When one of
/// the column families is flushed, the log must be synced first. Otherwise a power cut could lose
/// the log, and only the flushed part of the batch would survive.
#[test]
fn a_kept_log_is_durable_before_a_flush() {
    let text = "avoid_flush_during_recovery=true;wal_dir=/logs";
    let disk = SimStorage::new(1);
    let db = open(&disk, text);
    create(&db, "other");
    let other = db.cf_handle("other").expect("a column family");
    let mut batch = WriteBatch::new();
    batch.put_cf(0, b"key", b"value").expect("room");
    batch.put_cf(other.id(), b"key", b"value").expect("room");
    db.write_opt(&mut batch, &WriteOptions::default()).expect("a batch");
    let disk = disk.process_crash_image(1);
    let db = open(&disk, text);
    db.flush_cf(&db.cf_handle("other").expect("a column family")).expect("a flush");
    for seed in 0..30 {
        assert!(has(&open(&disk.crash_image(seed), text), "key"), "image {seed}");
    }
}

/// Tests a power cut during the destruction of a database. Afterwards the database is either
/// complete, or it cannot be opened and a second `destroy` removes the files that are left.
#[test]
fn a_database_is_destroyed_completely_or_not_at_all() {
    for text in ["", "wal_dir=/logs;db_paths={/tables}"] {
        let disk = SimStorage::new(1);
        let db = open(&disk, text);
        create(&db, "other");
        put(&db, DEFAULT, "flushed", false);
        db.flush_all().expect("a flush");
        put(&db, DEFAULT, "logged", true);
        db.close().expect("closing");
        drop(db);
        disk.start_recording();
        destroy(&disk, text);
        let existing = format!("create_if_missing=false;{text}");
        at_every_call(&disk, |image, moment| {
            match Db::open(Path::new(PATH), &options(&image, &existing)) {
                Ok(db) => assert!(has(&db, "flushed") && has(&db, "logged"), "{moment}"),
                Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound, "{moment}: {error}"),
            }
            println!("{moment}");
            destroy(&image, text);
            for directory in [PATH, "/logs", "/tables"] {
                let mut left = image.list(Path::new(directory)).unwrap_or_default();
                // `destroy` leaves the lock file in a directory that has no claim.
                left.retain(|entry| entry.name != "TAILWATER-LOCK");
                assert!(left.is_empty(), "{directory} has {left:?}, {moment}");
            }
        });
    }
}

fn destroy(disk: &SimStorage, text: &str) {
    Db::destroy(Path::new(PATH), &options(disk, text)).expect("destroying");
}

/// Tests that a power cut does not restore any part of a destroyed database.
#[test]
fn no_part_of_a_destroyed_database_returns_after_a_power_cut() {
    for stays in [None, Some("notes")] {
        let disk = SimStorage::new(1);
        drop(open(&disk, ""));
        if let Some(name) = stays {
            let path = Path::new(PATH).join(name);
            disk.create(&path, Create::New, IoMode::Buffered, Purpose::Wal).expect("a file");
            disk.sync_directory(Path::new(PATH)).expect("a sync");
        }
        destroy(&disk, "");
        for seed in 0..30 {
            let left = disk.crash_image(seed).list(Path::new(PATH)).ok();
            let left = left.map(|entries| entries.into_iter().map(|entry| entry.name));
            let names = left.map(Iterator::collect::<Vec<_>>);
            assert_eq!(names, stays.map(|name| vec![name.to_owned()]), "image {seed}");
        }
    }
}

/// Tests that a database's claim on a directory outside its home is durable once the database is
/// open. This must also be so if an earlier opening crashed right after it made the claim.
#[test]
fn a_claim_is_on_the_device_when_the_database_is_open() {
    let text = "db_paths={/tables}";
    let is_claimed =
        |disk: &SimStorage| disk.metadata(Path::new("/tables/TAILWATER-CLAIM")).is_ok();
    let disk = SimStorage::new(1);
    disk.start_recording();
    drop(open(&disk, text));
    let mut replay = disk.replay();
    for call in disk.calls() {
        replay.advance_to(call.number);
        let image = replay.process_crash_image(call.number);
        drop(open(&image, text));
        for seed in 0..IMAGES {
            let image = image.crash_image(seed);
            assert!(is_claimed(&image), "image {seed} at {call:?}");
            // This file lists the directories outside the home. With it, a later opening finds
            // these directories even if no option names them any more.
            let record = Path::new(PATH).join("TAILWATER-DIRECTORIES");
            assert!(image.metadata(&record).is_ok(), "image {seed} at {call:?}");
        }
    }
}

/// Tests two changes that opening a database may make. One changes the claim in a directory other
/// than the database's home. The other changes the file of Tailwater's own options. Both changes
/// must be durable when `open` returns.
#[test]
fn changes_made_by_an_opening_are_durable_when_it_returns() {
    let claim = Path::new("/tables/TAILWATER-CLAIM");
    let own_options = Path::new(PATH).join("TAILWATER-OPTIONS");
    let text = "db_paths={/tables};warm_handover=false";
    let disk = SimStorage::new(1);
    drop(open(&disk, text));
    let first = [read(&disk, claim), read(&disk, &own_options)];
    assert!(first.iter().all(Option::is_some), "{first:?}");
    // Replaces the claim in `/tables` by a claim that names another home, as if this database were
    // a copy of the database in that home. Each opening below takes over `/tables`.
    disk.remove(claim).expect("a claim");
    let mut file =
        disk.create(claim, Create::New, IoMode::Buffered, Purpose::Metadata).expect("a file");
    let other = String::from_utf8(first[0].clone().unwrap_or_default()).expect("text");
    let other = other.replace(PATH, "/above/elsewhere");
    file.write_all_at(other.as_bytes(), 0, Purpose::Metadata).expect("a claim of another home");
    file.sync_all(Purpose::Metadata).expect("a sync");
    disk.sync_directory(Path::new("/tables")).expect("a sync");
    for text in ["db_paths={/tables};warm_handover=true", "db_paths={/tables}"] {
        let mut options = options(&disk, text);
        options.set_adopt_directories(true);
        drop(Db::open(Path::new(PATH), &options).unwrap_or_else(|error| panic!("{error}")));
        let now = [read(&disk, claim), read(&disk, &own_options)];
        assert!(now[0] == first[0] && now[1] != first[1], "{now:?}");
        for seed in 0..IMAGES {
            let image = disk.crash_image(seed);
            let left = [read(&image, claim), read(&image, &own_options)];
            assert_eq!(left, now, "{text}, image {seed}");
        }
    }
}

fn read(disk: &SimStorage, path: &Path) -> Option<Vec<u8>> {
    let file = disk.open(path, IoMode::Buffered, Purpose::Metadata).ok()?;
    let mut bytes = vec![0; file.length().expect("a length") as usize];
    file.read_full_at(&mut bytes, 0, Purpose::Metadata).expect("its bytes");
    Some(bytes)
}

/// Tests that, when a database no longer uses a directory, its tables there are removed before its
/// claim on the directory.
#[test]
fn a_claim_is_removed_after_the_files_that_it_protects() {
    let place = Path::new("/family");
    let disk = SimStorage::new(1);
    let db = open(&disk, "");
    let default = db.cf_handle(DEFAULT).expect("the default column family");
    let cf_paths = vec![DbPath { path: place.to_path_buf(), target_size: 0 }];
    let mut family_options = ColumnFamilyOptions::clone(&default.options());
    family_options.cf_paths = cf_paths;
    db.create_cf("other", &family_options).expect("a column family");
    put(&db, "other", "key", true);
    let other = db.cf_handle("other").expect("a column family");
    db.flush_cf(&other).expect("a flush");
    db.drop_cf(&other).expect("dropping");
    // The table of the dropped column family still exists in this crash image, because the handle
    // `other` was still in use.
    let disk = disk.process_crash_image(1);
    let tables = |disk: &SimStorage| {
        let names = disk.list(place).unwrap_or_default().into_iter().map(|entry| entry.name);
        names.filter(|name| name.ends_with(".sst")).count()
    };
    let is_claimed = |disk: &SimStorage| disk.metadata(&place.join("TAILWATER-CLAIM")).is_ok();
    assert!(tables(&disk) > 0 && is_claimed(&disk));
    disk.start_recording();
    drop(open(&disk, ""));
    assert!(tables(&disk) == 0 && !is_claimed(&disk));
    at_every_call(&disk, |image, moment| {
        assert!(tables(&image) == 0 || is_claimed(&image), "{moment}");
    });
    for seed in 0..IMAGES {
        assert!(!is_claimed(&disk.crash_image(seed)), "image {seed}: another may claim it");
    }
}

/// Tests that the directories of a new column family are recorded in TAILWATER-DIRECTORIES before
/// the column family is added to the MANIFEST. The OPTIONS file names the directories only later.
#[test]
fn the_directories_of_a_column_family_are_recorded() {
    let disk = SimStorage::new(1);
    let db = open(&disk, "");
    let default = db.cf_handle(DEFAULT).expect("the default column family");
    let cf_paths = vec![DbPath { path: PathBuf::from("/family"), target_size: 0 }];
    let mut family_options = ColumnFamilyOptions::clone(&default.options());
    family_options.cf_paths = cf_paths;
    disk.start_recording();
    db.create_cf("other", &family_options).expect("a column family");
    let created = Cell::new(0);
    at_every_call(&disk, |image, moment| {
        let families = Db::list_cf(Path::new(PATH), &options(&image, "")).expect("a list");
        if families.iter().any(|name| name == "other") {
            let record = Path::new(PATH).join("TAILWATER-DIRECTORIES");
            assert!(read(&image, &record).is_some_and(|text| text == b"/family\n"), "{moment}");
            created.set(created.get() + 1);
        }
    });
    assert!(created.get() > 0);
}

/// Returns the logs in a directory, with their contents.
fn logs_in(disk: &SimStorage, directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = disk.list(directory).unwrap_or_default();
    let logs = entries.iter().filter(|entry| entry.name.ends_with(".log"));
    let paths = logs.map(|entry| directory.join(&entry.name));
    paths.map(|path| (path.clone(), read(disk, &path).expect("a log"))).collect()
}

/// Tests a damaged log of which only a part could be recovered. The log must be kept in the folder
/// `lost`, even if a power cut interrupts the recovery.
#[test]
fn a_damaged_log_is_kept() {
    for with_links in [true, false] {
        let disk = SimStorage::new(1);
        let db = open(&disk, "");
        for key in ["first", "second", "third"] {
            put(&db, DEFAULT, &key.repeat(200), true);
        }
        drop(db);
        let (path, _) = logs_in(&disk, Path::new(PATH)).pop().expect("a log");
        let file = disk.create(&path, Create::Existing, IoMode::Buffered, Purpose::Wal);
        let mut file = file.expect("the log");
        file.write_all_at(b"damage", 1500, Purpose::Wal).expect("a write");
        file.sync_data(Purpose::Wal).expect("a sync");
        drop(file);
        let (_, damaged) = logs_in(&disk, Path::new(PATH)).pop().expect("a log");
        let refuse_links = |disk: &SimStorage| {
            let rule = FaultRule::new(Fault::InputOutput).operation(Operation::Link).from(0);
            let plan = FaultPlan::none();
            disk.set_faults(if with_links { plan } else { plan.with(rule) });
        };
        refuse_links(&disk);
        disk.start_recording();
        let db = open(&disk, "");
        assert!(has(&db, &"first".repeat(200)) && !has(&db, &"third".repeat(200)));
        drop(db);
        at_every_call(&disk, |image, moment| {
            refuse_links(&image);
            drop(open(&image, ""));
            let image = image.crash_image(1);
            let kept = logs_in(&image, &Path::new(PATH).join("lost"));
            assert!(kept.iter().any(|(_, bytes)| *bytes == damaged), "{moment}");
        });
    }
}

/// Tests a power cut before any storage call that the opening of a database or the creation of a
/// column family makes. The options can be loaded from the database directory afterwards.
#[test]
fn options_can_be_loaded_after_a_crash_at_any_call() {
    let disk = SimStorage::new(1);
    drop(open(&disk, ""));
    disk.start_recording();
    let db = open(&disk, "");
    create(&db, "other");
    at_every_call(&disk, |image, moment| {
        let loaded = OpenOptions::load_from(std::sync::Arc::new(image), Path::new(PATH));
        assert!(loaded.is_ok_and(|it| it.column_families().count() > 0), "{moment}");
    });
}

/// Path of a table file outside the database's directories.
const OUTSIDE: &str = "/outside/file.sst";

/// Returns a disk with the parent directory of [`OUTSIDE`].
fn disk_with_outside() -> SimStorage {
    let disk = SimStorage::new(1);
    disk.create_directory(Path::new("/outside")).expect("a directory");
    disk.sync_directory(Path::new("/")).expect("a sync");
    disk
}

/// Creates a table file with one key.
fn make_outside(disk: &SimStorage, path: &str) {
    let mut writer = SstFileWriter::new(&options(disk, ""), DEFAULT).expect("a writer");
    writer.open(Path::new(path)).expect("a file");
    writer.put(b"ingested", b"value").expect("a put");
    writer.finish().expect("a whole file");
}

/// Ingests the table file at `path` into the default column family.
fn ingest(db: &Db, path: &str, options: &IngestOptions) -> tailwater::Result<()> {
    let family = db.cf_handle(DEFAULT).expect("a column family");
    db.ingest_external_file_cf_opts(&family, &[Path::new(path)], options).map(drop)
}

/// Tests that a table file survives a power cut once `SstFileWriter::finish` has returned.
#[test]
fn a_finished_external_file_is_on_the_device() {
    let disk = disk_with_outside();
    make_outside(&disk, OUTSIDE);
    for seed in 0..30 {
        let image = disk.crash_image(seed);
        let db = open(&image, "");
        ingest(&db, OUTSIDE, &IngestOptions::default()).expect("a whole file");
        assert!(has(&db, "ingested"), "image {seed}");
    }
}

/// Tests that an ingested file is durable, even if it is moved into the database and its creator
/// did not sync it.
#[test]
fn an_ingested_file_that_is_moved_is_durable() {
    let disk = disk_with_outside();
    make_outside(&disk, "/outside/original.sst");
    let source = disk.open(Path::new("/outside/original.sst"), IoMode::Buffered, Purpose::Wal);
    let source = source.expect("a file");
    let mut bytes = vec![0; source.length().expect("a length") as usize];
    source.read_full_at(&mut bytes, 0, Purpose::Wal).expect("its bytes");
    let path = Path::new(OUTSIDE);
    let copy = disk.create(path, Create::New, IoMode::Buffered, Purpose::Wal);
    copy.expect("a file").write_all_at(&bytes, 0, Purpose::Wal).expect("a write");
    let db = open(&disk, "");
    let moves = IngestOptions::new().with_move_files(true);
    ingest(&db, OUTSIDE, &moves).expect("a file");
    for seed in 0..30 {
        assert!(has(&open(&disk.crash_image(seed), ""), "ingested"), "image {seed}");
    }
}

/// Tests an ingestion between two recycled logs. The end of a recycled log may look damaged, so
/// recovery continues with the next log only if that log begins with the next sequence number. If
/// the ingestion used a sequence number of its own, the first number of the next log would be too
/// high by one.
#[test]
fn recycled_logs_have_no_sequence_gap_at_an_ingestion() {
    let text = "recycle_log_file_num=2;write_buffer_size=65536;arena_block_size=4096;\
                min_write_buffer_number_to_merge=3;max_write_buffer_number=6";
    for with_snapshot in [false, true] {
        let disk = disk_with_outside();
        let db = open(&disk, text);
        // The files of these logs are reused below. These logs are longer than the later ones, so
        // remains of them stay at the ends of the files.
        for round in 0..4 {
            put(&db, DEFAULT, &format!("{round}{}", "k".repeat(150_000)), true);
            db.flush_all().expect("a flush");
        }
        // After these writes the memtable is full, so the next write begins a new log.
        let before: Vec<String> = (0..3).map(|at| format!("{at}{}", "b".repeat(30_000))).collect();
        before.iter().for_each(|key| put(&db, DEFAULT, key, true));
        let snapshot = with_snapshot.then(|| db.snapshot());
        make_outside(&disk, OUTSIDE);
        ingest(&db, OUTSIDE, &IngestOptions::default()).expect("a file");
        put(&db, DEFAULT, "after", true);
        drop(snapshot);
        for seed in 0..30 {
            let db = open(&disk.crash_image(seed), text);
            for key in ["ingested", "after"].into_iter().chain(before.iter().map(String::as_str)) {
                assert!(has(&db, key), "{} of {seed}, snapshot {with_snapshot}", &key[..5]);
            }
        }
    }
}
