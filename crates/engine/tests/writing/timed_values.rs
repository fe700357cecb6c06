//! Values that are put with an explicit write time.

use tailwater::{BottommostRewrite, CompactRangeOptions, Db, WriteBatch, WriteOptions};
use tailwater_format::key::ValueType;
use tailwater_format::table::sequence_times;
use tailwater_format::timed_value;
use tailwater_io::sim::SimStorage;

use crate::support::{Stored, default_family, get, put, simulated, stored};

/// A second, in nanoseconds.
const SECOND_NS: u64 = 1_000_000_000;

fn open(disk: &SimStorage, text: &str) -> Db {
    Db::open("/db", &simulated(disk, text)).expect("a database")
}

fn now_s(disk: &SimStorage) -> u64 {
    tailwater_io::Clock::wall_us(&*disk.clock()) / 1_000_000
}

fn timed_put(db: &Db, key: &str, value: &str, time_s: u64) {
    let mut batch = WriteBatch::new();
    batch.timed_put_cf(0, key.as_bytes(), value.as_bytes(), time_s).expect("a batch");
    db.write_opt(&mut batch, &WriteOptions::default()).expect("a write");
}

fn plain(key: &str, sequence: u64, value: &str) -> Stored {
    (key.to_owned(), sequence, ValueType::Value, value.as_bytes().to_vec())
}

fn preferring(key: &str, sequence: u64, value: &str, preferred: u64) -> Stored {
    let mut packed = Vec::new();
    timed_value::put(&mut packed, value.as_bytes(), preferred);
    (key.to_owned(), sequence, ValueType::ValuePreferredSequence, packed)
}

/// Regression test: for a value with a write time, a flush stored the write time in the field of
/// the preferred sequence number. RocksDB's next compaction then used the time as the value's
/// sequence number. The value was invisible from then on. Older values of the key, even deleted
/// ones, showed again.
#[test]
fn tables_without_known_write_times_have_plain_values() {
    let disk = SimStorage::new(1);
    let db = open(&disk, "");
    timed_put(&db, "key", "value", 1_700_000_000);
    timed_put(&db, "soon", "value", 1);
    assert_eq!(get(&db, "key").as_deref(), Some("value"));
    db.flush_all().expect("a flush");
    assert_eq!(stored(&disk, &db), [plain("key", 1, "value"), plain("soon", 2, "value")]);
    assert_eq!(get(&db, "key").as_deref(), Some("value"));
    // Recovery flushes this value from the log. During this flush, as during the flush above, the
    // database knows no sequence number for the value's write time.
    timed_put(&db, "key", "newer", 2);
    let disk = disk.process_crash_image(1);
    let db = open(&disk, "preserve_internal_time_seconds=1000");
    assert!(stored(&disk, &db).contains(&plain("key", 3, "newer")), "{:?}", stored(&disk, &db));
    assert_eq!(get(&db, "key").as_deref(), Some("newer"));
}

/// Regression test: databases with options that preserve write times were refused, and no table
/// stored the write times of its records.
#[test]
fn tables_record_write_times_if_they_are_preserved() {
    let disk = SimStorage::new(1);
    disk.clock().advance(1_000_000 * SECOND_NS);
    let begun_s = now_s(&disk);
    let db = open(&disk, "preserve_internal_time_seconds=10000;disable_auto_compactions=true");
    // A new database that preserves write times reserves the first 100 sequence numbers. They
    // denote write times before the creation of the database.
    assert_eq!(db.latest_sequence_number(), 100);
    put(&db, "a", "1").expect("a put");
    disk.clock().advance(500 * SECOND_NS);
    put(&db, "b", "2").expect("a put");
    db.flush_all().expect("a flush");
    let reported = |db: &Db| {
        let path = &db.live_files()[0].path;
        let table = tailwater::inspect::table::TableFile::open(&disk, path).expect("a table");
        let properties = table.properties().as_ref().expect("properties").clone();
        let times = sequence_times::decode(&properties.sequence_to_time_mapping);
        times.expect("times").iter().map(|it| (it.sequence, it.time_s)).collect::<Vec<_>>()
    };
    assert_eq!(reported(&db), [(100, begun_s), (102, begun_s + 500)]);
    // This value gets a write time before the creation of the database. Its preferred sequence
    // number is one of the 100 that the new database reserved for such times.
    timed_put(&db, "long ago", "3", begun_s - 5000);
    timed_put(&db, "never", "4", 7);
    timed_put(&db, "now", "5", begun_s + 501);
    db.flush_all().expect("a flush");
    let records = stored(&disk, &db);
    for expected in [
        preferring("long ago", 103, "3", 50),
        preferring("never", 104, "4", 0),
        preferring("now", 105, "5", 102),
    ] {
        assert!(records.contains(&expected), "{expected:?} in {records:?}");
    }
    // A compaction into the last level gives each value its preferred sequence number. It may set
    // sequence numbers to zero, but keeps those from which a write time must still be derived.
    let options =
        CompactRangeOptions::new().with_bottommost_level_compaction(BottommostRewrite::Force);
    let compact = || {
        db.compact_range_cf_opt(&default_family(&db), None, None, &options).expect("a compaction");
    };
    compact();
    let mut expected = vec![
        plain("a", 101, "1"),
        plain("b", 102, "2"),
        plain("long ago", 50, "3"),
        plain("never", 0, "4"),
        plain("now", 102, "5"),
    ];
    assert_eq!(stored(&disk, &db), expected);
    assert!(
        reported(&db).ends_with(&[(100, begun_s), (102, begun_s + 500)]),
        "{:?}",
        reported(&db)
    );
    // After this advance of the clock, the write time of sequence number 50 is older than the time
    // span that is preserved.
    disk.clock().advance(9_600 * SECOND_NS);
    compact();
    expected[2] = plain("long ago", 0, "3");
    assert_eq!(stored(&disk, &db), expected);
    assert_eq!(get(&db, "long ago").as_deref(), Some("3"));
}
