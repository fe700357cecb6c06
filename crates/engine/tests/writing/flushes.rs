//! When memtables are flushed, and what the flushed tables contain.

use std::path::Path;
use std::sync::Arc;

use tailwater::{Db, ReadOptions, WriteOptions};
use tailwater_format::key::ValueType;
use tailwater_io::pace::{Priority, RateLimiter};
use tailwater_io::sim::SimStorage;
use tailwater_io::{IoMode, Purpose, Storage};

use crate::support::{
    create_family, default_family, get, level_0, level_0_of, logs, names, property, put, simulated,
    stored,
};

const PATH: &str = "/db";

fn open(disk: &SimStorage, text: &str) -> Db {
    Db::open("/db", &simulated(disk, text)).expect("a database")
}

#[test]
fn a_full_memtable_becomes_a_table() {
    let disk = SimStorage::new(1);
    let db = open(&disk, "write_buffer_size=64K");
    let value = "v".repeat(1000);
    for key in 0..200 {
        put(&db, &format!("{key:04}"), &value).expect("a put");
    }
    assert!((2..10).contains(&level_0(&db)), "{} tables", level_0(&db));
    assert!((0..200).all(|key| get(&db, &format!("{key:04}")).is_some()));
}

#[test]
fn flushes_merge_the_configured_number_of_memtables() {
    let disk = SimStorage::new(1);
    let text = "write_buffer_size=64K;max_write_buffer_number=6;\
                min_write_buffer_number_to_merge=3";
    let db = open(&disk, text);
    let value = "v".repeat(1000);
    let mut most = 0;
    for key in 0..400 {
        put(&db, &format!("{:04}", key % 50), &value).expect("a put");
        let waiting: usize =
            property(&db, "rocksdb.num-immutable-mem-table").parse().expect("a number");
        most = most.max(waiting);
    }
    assert_eq!(most, 2, "the third makes a table of all");
    let entries: u64 = property(&db, "rocksdb.estimate-num-keys").parse().expect("a number");
    assert!(entries < 400, "versions that nobody can see are left out: {entries}");
    db.flush_all().expect("a flush of fewer");
    assert_eq!(property(&db, "rocksdb.num-immutable-mem-table"), "0");
}

#[test]
fn the_logs_of_many_families_are_bounded() {
    let disk = SimStorage::new(1);
    let db = open(
        &disk,
        "max_total_wal_size=100000;max_write_buffer_number=4;\
                         min_write_buffer_number_to_merge=2",
    );
    let quiet = create_family(&db, "quiet");
    db.put_cf_opt(&quiet, b"a", b"1", &WriteOptions::default()).expect("a put");
    let value = "v".repeat(1000);
    for key in 0..300 {
        put(&db, &format!("{key:04}"), &value).expect("a put");
    }
    assert_eq!(level_0_of(&db, &quiet), 1, "its write no longer holds the oldest log");
}

/// Regression test: the logs grew without limit. The limit on their length did not flush sealed
/// memtables if there were fewer than `min_write_buffer_number_to_merge`. Besides, it flushed only
/// the memtables with entries in the oldest log, but treated the later logs as released, too.
#[test]
fn the_logs_of_sealed_memtables_are_bounded() {
    let disk = SimStorage::new(1);
    let text = "write_buffer_size=64K;max_write_buffer_number=6;min_write_buffer_number_to_merge=3;\
                max_total_wal_size=300000";
    let db = open(&disk, text);
    let quiet = create_family(&db, "quiet");
    let value = "v".repeat(1000);
    // One sealed memtable, and an active one whose only entry is in a later log.
    for key in 0..70 {
        let key = format!("{key:04}");
        db.put_cf_opt(&quiet, key.as_bytes(), value.as_bytes(), &WriteOptions::default())
            .expect("a put");
    }
    let sealed = db.property_value_cf(&quiet, "rocksdb.num-immutable-mem-table");
    assert_eq!(sealed.expect("a property").as_deref(), Some("1"));
    for key in 0..2000 {
        put(&db, &format!("{:04}", key % 50), &value).expect("a put");
        let bytes: u64 = logs(&disk, Path::new(PATH))
            .iter()
            .map(|log| disk.open(&Path::new(PATH).join(log), IoMode::Buffered, Purpose::Wal))
            .map(|log| log.expect("a log").length().expect("a length"))
            .sum();
        assert!(bytes < 400_000, "the logs have {bytes} bytes after {key} puts");
    }
}

#[test]
fn db_write_buffer_size_bounds_all_memtables() {
    let disk = SimStorage::new(1);
    let db = open(&disk, "db_write_buffer_size=300000");
    let value = "v".repeat(1000);
    for key in 0..500 {
        put(&db, &format!("{key:04}"), &value).expect("a put");
    }
    assert!(level_0(&db) >= 1);
    let size: u64 = property(&db, "rocksdb.cur-size-all-mem-tables").parse().expect("a number");
    assert!(size <= 300_000, "{size}");
}

/// Regression test: a key had a deletion, then a newer value, then a single deletion of that value.
/// A flush dropped the plain deletion. A compaction later removed the value together with the
/// single deletion. An old value in a deeper level, which the plain deletion had deleted, then
/// showed again.
#[test]
fn a_deletion_below_a_single_deleted_write_is_kept() {
    let disk = SimStorage::new(1);
    let db = open(&disk, "disable_auto_compactions=true");
    let (family, options) = (default_family(&db), WriteOptions::default());
    let deletes =
        |key: &str| db.delete_cf_opt(&family, key.as_bytes(), &options).expect("a deletion");
    for key in ["mixed", "plain"] {
        put(&db, key, "first").expect("a put");
        deletes(key);
        put(&db, key, "second").expect("a put");
    }
    db.single_delete_cf_opt(&family, b"mixed", &options).expect("a single deletion");
    db.flush_all().expect("a flush");
    let stored: Vec<_> =
        stored(&disk, &db).into_iter().map(|(key, _, kind, _)| (key, kind)).collect();
    let expected = [
        ("mixed", ValueType::SingleDeletion),
        ("mixed", ValueType::Value),
        ("mixed", ValueType::Deletion),
        ("plain", ValueType::Value),
    ];
    assert_eq!(stored, expected.map(|(key, kind)| (key.to_owned(), kind)));
}

/// Regression test: when range deletions overlapped, a flush stored each range deletion again for
/// every key in its range. The flush also kept the records that the range deletions delete. 2,000
/// overlapping range deletions took 66 MB.
#[test]
fn flushes_drop_range_deletions_that_no_snapshot_distinguishes() {
    let disk = SimStorage::new(1);
    let db = open(&disk, "disable_auto_compactions=true");
    let family = default_family(&db);
    let delete_range = |begin: u32, end: u32| {
        let (begin, end) = (format!("{begin:05}"), format!("{end:05}"));
        let options = WriteOptions::default();
        db.delete_range_cf_opt(&family, begin.as_bytes(), end.as_bytes(), &options)
            .expect("a deletion");
    };
    let tombstone = |key: &str, sequence, end: &str| {
        (key.to_owned(), sequence, ValueType::RangeDeletion, end.as_bytes().to_vec())
    };
    put(&db, "00500", "seen").expect("a put");
    let seen = db.snapshot();
    put(&db, "00501", "covered").expect("a put");
    for number in 0..400 {
        delete_range(500 - number, 502 + number);
    }
    put(&db, "00502", "newer").expect("a put");
    db.flush_all().expect("a flush");
    let put_of = |key: &str, sequence, value: &str| {
        (key.to_owned(), sequence, ValueType::Value, value.as_bytes().to_vec())
    };
    // Of the range deletions only the newest remains, since its range includes all others.
    let expected = [
        put_of("00500", 1, "seen"),
        put_of("00502", 403, "newer"),
        tombstone("00101", 402, "00901"),
    ];
    assert_eq!(stored(&disk, &db), expected);
    let at_snapshot = ReadOptions::new().with_snapshot(seen);
    let get = |key: &str| db.get_cf_opt(&family, key.as_bytes(), &at_snapshot).expect("a get");
    assert_eq!((get("00500").as_deref(), get("00501")), (Some(&b"seen"[..]), None));

    // The snapshot distinguishes the range deletions before it from those after it, so some of each
    // remain.
    delete_range(1000, 1005);
    let between = db.snapshot();
    delete_range(1002, 1008);
    delete_range(1001, 1006);
    db.flush_all().expect("a flush");
    let expected = [
        tombstone("01000", 404, "01001"),
        tombstone("01001", 406, "01005"),
        tombstone("01001", 404, "01005"),
        tombstone("01005", 406, "01006"),
        tombstone("01006", 405, "01008"),
    ];
    assert_eq!(stored(&disk, &db)[..expected.len()], expected);
    drop(between);
}

#[test]
fn memtable_max_range_deletions_triggers_a_flush() {
    let disk = SimStorage::new(1);
    let db = open(&disk, "memtable_max_range_deletions=3");
    let family = default_family(&db);
    for key in 0..10_u8 {
        db.delete_range_cf_opt(&family, [key], [key + 1], &WriteOptions::default())
            .expect("a deletion");
    }
    assert_eq!(level_0(&db), 3);
}

#[test]
fn an_atomic_flush_includes_all_families() {
    let disk = SimStorage::new(1);
    let db = open(&disk, "atomic_flush=true");
    let other = create_family(&db, "other");
    put(&db, "a", "1").expect("a put");
    db.put_cf_opt(&other, b"b", b"2", &WriteOptions::default()).expect("a put");
    db.flush_cf(&other).expect("a flush");
    assert_eq!(level_0(&db), 1, "the other families' memtables go with it");
}

/// Tests a value with a single deletion above it in one memtable. The flush must keep both or drop
/// both. If it dropped only the value, the single deletion would later delete an older value
/// instead.
#[test]
fn flushes_keep_the_writes_that_single_deletions_pair_with() {
    let disk = SimStorage::new(1);
    let db = open(&disk, "");
    let family = default_family(&db);
    let written = WriteOptions::default();
    for _ in 0..2 {
        db.put_cf_opt(&family, b"key", b"1", &written).expect("a put");
        db.single_delete_cf_opt(&family, b"key", &written).expect("a single deletion");
    }
    db.put_cf_opt(&family, b"key", b"2", &written).expect("a put");
    db.flush_cf(&family).expect("a flush");
    let entries = property(&db, "rocksdb.sstables");
    assert!(entries.contains("seq:5"), "{entries}");
    assert_eq!(
        db.get_cf_opt(&family, b"key", &ReadOptions::default()).expect("a get").as_deref(),
        Some(&b"2"[..])
    );
    db.single_delete_cf_opt(&family, b"key", &written).expect("a single deletion");
    db.flush_cf(&family).expect("a flush");
    assert_eq!(get(&db, "key"), None);
}

#[test]
fn flushes_bypass_the_page_cache_if_configured() {
    let disk = SimStorage::new(1);
    let db = open(&disk, "use_direct_io_for_flush_and_compaction=true");
    put(&db, "a", "1").expect("a put");
    db.flush_all().expect("a flush");
    assert_eq!(get(&db, "a").as_deref(), Some("1"));
    disk.refuse_direct("/db".as_ref());
    put(&db, "b", "2").expect("a put");
    let error = db.flush_all().expect_err("the filesystem refuses it");
    assert!(error.to_string().contains("O_DIRECT"), "{error}");
}

#[test]
fn flushes_respect_the_rate_limiter() {
    let disk = SimStorage::new(1);
    let mut options = simulated(&disk, "compression=kNoCompression");
    let second = 1_000_000;
    let limiter = RateLimiter::new(1 << 30).with_refill_period(second).with_clock(disk.clock());
    let limiter = Arc::new(limiter);
    options.set_rate_limiter(Arc::clone(&limiter));
    let db = Db::open("/db", &options).expect("a database");
    put(&db, "a", &"v".repeat(10_000)).expect("a put");
    db.flush_all().expect("a flush");
    let size: u64 = property(&db, "rocksdb.total-sst-files-size").parse().expect("a number");
    assert!(size > 10_000);
    assert_eq!(limiter.granted(Priority::High), size, "every byte of the table was asked for");
}

#[test]
fn the_info_log_records_events_and_is_rotated() {
    let disk = SimStorage::new(1);
    let text = "keep_log_file_num=3;max_log_file_size=1000";
    for _ in 0..3 {
        let db = open(&disk, text);
        for key in 0..10 {
            put(&db, &key.to_string(), "1").expect("a put");
            db.flush_all().expect("a flush");
            disk.clock().advance(1_000_000_000);
        }
        let logs = names(&disk, "/db".as_ref()).into_iter();
        let logs: Vec<String> = logs.filter(|name| name.starts_with("LOG")).collect();
        assert!(logs.len() <= 3 && logs[0] == "LOG", "{logs:?}");
    }
    let file = disk
        .open("/db/LOG".as_ref(), IoMode::Buffered, Purpose::Metadata)
        .expect("the information log");
    let mut text = vec![0; file.length().expect("a length") as usize];
    file.read_full_at(&mut text, 0, Purpose::Metadata).expect("its text");
    let text = String::from_utf8(text).expect("text");
    let last = text.lines().last().expect("a line");
    assert!(last.starts_with("2023/11/14-") && last.ends_with("INFO the database was closed"));
    assert!(text.contains("INFO flushed 1 entries of 'default' into table "), "{text}");
}
