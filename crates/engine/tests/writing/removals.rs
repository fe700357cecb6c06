//! Tests that tables are removed when no reader uses them any more, and not before.

use tailwater::{ColumnFamily, CompactRangeOptions, Db, ReadOptions};
use tailwater_io::sim::SimStorage;

use crate::support::{default_family, property, put, simulated};

fn open(disk: &SimStorage, text: &str) -> (Db, ColumnFamily) {
    let mut options = simulated(disk, "disable_auto_compactions=true");
    options.set_from_string(text).expect("options");
    let db = Db::open("/db", &options).expect("a database");
    let family = default_family(&db);
    (db, family)
}

fn compact(db: &Db, family: &ColumnFamily) {
    db.compact_range_cf_opt(family, None, None, &CompactRangeOptions::default())
        .expect("a compaction");
}

/// Regression test: a table was moved to another level and then compacted. The table file was
/// removed although readers still used an older version, in which the table was not yet moved.
#[test]
fn a_moved_table_stays_while_an_older_version_is_read() {
    let disk = SimStorage::new(1);
    let (db, family) = open(&disk, "level_compaction_dynamic_level_bytes=false");
    put(&db, "a", "1").expect("a put");
    compact(&db, &family);
    assert_eq!(property(&db, "rocksdb.num-files-at-level1"), "1");
    db.close().expect("closing");
    drop((db, family));

    // With this limit on open tables, a table is opened only when it is read.
    let (db, family) = open(&disk, "level_compaction_dynamic_level_bytes=true;max_open_files=20");
    let mut older = db.raw_iterator_cf_opt(&family, &ReadOptions::default()).expect("an iterator");
    compact(&db, &family);
    assert_eq!(property(&db, "rocksdb.num-files-at-level6"), "1", "it was moved");
    put(&db, "a", "2").expect("a put");
    compact(&db, &family);
    put(&db, "b", "3").expect("a put");
    db.flush_all().expect("a flush, after which tables are removed");

    older.seek_to_first().expect("the table of the older version");
    assert_eq!(older.item(), Some((&b"a"[..], &b"1"[..])));
}
