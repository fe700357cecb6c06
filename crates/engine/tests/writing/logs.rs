//! What logs contain, and when logs are removed.

use std::path::Path;

use tailwater::{Db, OpenOptions};
use tailwater_io::Storage;
use tailwater_io::sim::SimStorage;

use crate::support::{self, default_family, get, names, put, simulated, synced};

const PATH: &str = "/db";

fn open(disk: &SimStorage, text: &str) -> Db {
    Db::open(PATH, &simulated(disk, text)).expect("a database")
}

fn logs(disk: &SimStorage) -> Vec<String> {
    support::logs(disk, PATH.as_ref())
}

fn again(disk: &SimStorage) -> Db {
    open(disk, "")
}

#[test]
fn manual_wal_flush_buffers_records_until_a_flush_or_sync() {
    let disk = SimStorage::new(1);
    let db = open(&disk, "manual_wal_flush=true");
    put(&db, "held back", "1").expect("a put");
    assert_eq!(get(&again(&disk.process_crash_image(1)), "held back"), None);
    db.flush_wal(false).expect("a flush of the log");
    assert!(get(&again(&disk.process_crash_image(1)), "held back").is_some());
    assert_eq!(get(&again(&disk.crash_image(1)), "held back"), None, "seed 1 loses it");
    db.flush_wal(true).expect("a sync of the log");
    assert!(get(&again(&disk.crash_image(1)), "held back").is_some());
    put(&db, "earlier", "1").expect("a put");
    db.put_cf_opt(&default_family(&db), b"synced", b"1", &synced()).expect("a put");
    let image = again(&disk.crash_image(1));
    assert!(get(&image, "earlier").is_some() && get(&image, "synced").is_some());
}

#[test]
fn a_full_log_buffer_is_written_without_a_manual_flush() {
    let disk = SimStorage::new(1);
    let db = open(&disk, "manual_wal_flush=true;writable_file_max_buffer_size=10000");
    for key in 0..105 {
        put(&db, &format!("{key:03}"), &"v".repeat(1000)).expect("a put");
    }
    let image = again(&disk.process_crash_image(1));
    assert!(get(&image, "000").is_some() && get(&image, "099").is_some());
    assert!(get(&image, "104").is_none(), "the end is still held back");
}

#[test]
fn logs_are_recycled_if_configured() {
    let disk = SimStorage::new(1);
    let db = open(&disk, "recycle_log_file_num=2");
    let mut most = 0;
    for round in 0..10 {
        for key in 0..20 {
            put(&db, &format!("{round}-{key}"), &"v".repeat(100)).expect("a put");
        }
        db.flush_all().expect("a flush");
        most = most.max(logs(&disk).len());
    }
    assert_eq!(most, 2, "the one that is written, and one to be written over");
    put(&db, "tail", "1").expect("a put");
    let image = disk.process_crash_image(1);
    let found = again(&image);
    assert!(get(&found, "tail").is_some() && get(&found, "9-19").is_some());
    let there = names(&image, Path::new(PATH));
    assert!(!there.contains(&"lost".to_owned()), "what the file held before is no damage");
    drop(found);
    db.close().expect("closing");
    assert_eq!(logs(&disk).len(), 1, "what is kept for writing over goes");
}

#[test]
fn logs_stay_if_recovery_avoids_flushing() {
    let disk = SimStorage::new(1);
    let db = open(&disk, "");
    put(&db, "a", "1").expect("a put");
    let image = disk.process_crash_image(1);
    drop(db);
    let kept = open(&image, "avoid_flush_during_recovery=true");
    assert_eq!(get(&kept, "a").as_deref(), Some("1"));
    assert_eq!(support::level_0(&kept), 0);
    assert_eq!(logs(&image).len(), 2);
    kept.put_cf_opt(&default_family(&kept), b"b", b"2", &synced()).expect("a put");
    let crashed = again(&image.crash_image(7));
    assert_eq!(get(&crashed, "a").as_deref(), Some("1"), "the old log came before the new one");
    assert_eq!(get(&crashed, "b").as_deref(), Some("2"));
}

#[test]
fn a_damaged_log_is_kept_aside() {
    let disk = SimStorage::new(1);
    let db = open(&disk, "");
    for key in 0..100 {
        put(&db, &format!("{key:03}"), &"v".repeat(100)).expect("a put");
    }
    let image = disk.process_crash_image(1);
    drop(db);
    let log = Path::new(PATH).join(&logs(&image)[0]);
    let mut file = image
        .create(
            &log,
            tailwater_io::Create::Existing,
            tailwater_io::IoMode::Buffered,
            tailwater_io::Purpose::Wal,
        )
        .expect("the log");
    file.write_all_at(&[0xff; 4], 5000, tailwater_io::Purpose::Wal).expect("damage");
    let bytes = file.length().expect("its length");
    drop(file);
    let damaged = again(&image);
    assert_eq!(damaged.left_out().len(), 1);
    assert!(get(&damaged, "000").is_some() && get(&damaged, "099").is_none());
    put(&damaged, "later", "1").expect("a put");
    damaged.close().expect("closing");
    let lost = Path::new(PATH).join("lost");
    let kept = names(&image, &lost);
    assert_eq!(kept, [log.file_name().expect("a name").to_string_lossy()]);
    let metadata = image.metadata(&lost.join(&kept[0])).expect("the log");
    assert_eq!(metadata.length, bytes);
    let reopened = again(&image);
    assert_eq!(reopened.left_out(), []);
    assert!(get(&reopened, "000").is_some() && get(&reopened, "later").is_some());
}

#[test]
fn the_recovery_modes_treat_a_torn_tail_as_rocksdb_does() {
    let disk = SimStorage::new(1);
    let db = open(&disk, "");
    for key in 0..100 {
        put(&db, &format!("{key:03}"), &"v".repeat(100)).expect("a put");
    }
    let image = disk.process_crash_image(1);
    drop(db);
    let log = Path::new(PATH).join(&logs(&image)[0]);
    let mut file = image
        .create(
            &log,
            tailwater_io::Create::Existing,
            tailwater_io::IoMode::Buffered,
            tailwater_io::Purpose::Wal,
        )
        .expect("the log");
    let bytes = file.length().expect("its length");
    file.truncate(bytes - 10).expect("a torn tail");
    drop(file);
    let modes = [
        ("kTolerateCorruptedTailRecords", true),
        ("kAbsoluteConsistency", false),
        ("kPointInTimeRecovery", true),
        ("kSkipAnyCorruptedRecords", true),
    ];
    for (mode, opens) in modes {
        let image = image.process_crash_image(1);
        let options: OpenOptions = simulated(&image, &format!("wal_recovery_mode={mode}"));
        let db = Db::open(PATH, &options);
        assert_eq!(db.is_ok(), opens, "{mode}: {:?}", db.err());
        if opens {
            let db = Db::open_read_only(PATH, &options).expect("a reader");
            assert!(get(&db, "098").is_some() && get(&db, "099").is_none(), "{mode}");
        }
    }
}
