//! Tests that a get of cached data takes no lock, neither one of the engine nor one of the I/O
//! layer.
//!
//! Both layers record the locks that a thread takes, in builds with debug assertions only.

use std::path::Path;
use std::sync::Arc;

use tailwater::{
    ColumnFamily, Db, OpenOptions, ReadOptions, Statistics, ValueBuffer, WriteOptions,
};
use tailwater_io::sim::SimStorage;
use tailwater_testkit::filesystem::say;

const KEYS: u32 = 2000;

fn key(number: u32) -> String {
    format!("key{number:06}")
}

/// Returns a database whose keys are in tables of several levels and in memtables, some of them
/// under range deletions. The block cache holds every block that a get may need.
fn warm(more: &str, statistics: bool) -> (Db, ColumnFamily) {
    let mut options = OpenOptions::with_storage(Arc::new(SimStorage::new(1)));
    let text = "create_if_missing=true;write_buffer_size=32K;target_file_size_base=16K;\
                max_bytes_for_level_base=64K;level0_file_num_compaction_trigger=3;\
                block_based_table_factory={filter_policy=bloomfilter:10:false;block_cache=64M;";
    options.set_from_string(&format!("{text}{more}}}")).expect("options");
    options.set_inline_background(true);
    if statistics {
        options.set_statistics(Arc::new(Statistics::new()));
    }
    let db = Db::open(Path::new("/database"), &options).expect("a new database");
    let family = db.cf_handle("default").expect("the default");
    let writes = WriteOptions::default();
    for round in 0..3 {
        for number in (round..KEYS).step_by(3) {
            let value = format!("value of {number} in round {round}, {}", "x".repeat(100));
            let key = key(number);
            db.put_cf_opt(&family, key.as_bytes(), value.as_bytes(), &writes).expect("a put");
        }
    }
    let (begin, end) = (key(500), key(520));
    db.delete_range_cf_opt(&family, begin.as_bytes(), end.as_bytes(), &writes).expect("a deletion");
    let mut value = Vec::new();
    for number in 0..KEYS {
        let key = key(number);
        db.get_into_cf_opt(&family, key.as_bytes(), &ReadOptions::default(), &mut value)
            .expect("a get");
    }
    (db, family)
}

#[test]
#[cfg(debug_assertions)]
fn a_cached_get_takes_no_lock() {
    let placements =
        ["", "cache_index_and_filter_blocks=true", "data_block_index_type=kDataBlockBinaryAndHash"];
    for (more, statistics) in placements.iter().flat_map(|more| [(*more, false), (*more, true)]) {
        let (db, family) = warm(more, statistics);
        let snapshot = db.snapshot();
        let at_snapshot = ReadOptions::new().with_snapshot(snapshot);
        let mut value = Vec::with_capacity(1000);
        for options in [&ReadOptions::default(), &at_snapshot] {
            for number in 0..KEYS + 5 {
                let key = key(number);
                let taken = tailwater_io::sync::locks_taken(|| {
                    db.get_into_cf_opt(&family, key.as_bytes(), options, &mut value)
                        .expect("a get");
                });
                assert!(taken.is_empty(), "{key}, '{more}': {taken:?}");
            }
        }
        let keys: Vec<_> = (0..KEYS + 5).map(key).collect();
        let mut values = ValueBuffer::new();
        for keys in keys.chunks(50) {
            let taken = tailwater_io::sync::locks_taken(|| {
                db.multi_get_into_cf_opt(&family, keys, &at_snapshot, &mut values);
            });
            assert!(taken.is_empty(), "{}, '{more}': {taken:?}", keys[0]);
        }
        // Checks that locks are recorded at all: a put does take locks.
        let taken = tailwater_io::sync::locks_taken(|| {
            db.put_cf_opt(&family, b"key", b"value", &WriteOptions::default()).expect("a put");
        });
        assert!(!taken.is_empty());
    }
    say("locks: cached gets took none");
}

#[test]
#[cfg(not(debug_assertions))]
fn a_cached_get_takes_no_lock() {
    let _ = warm("", false);
    say("LEFT OUT: the locks of a cached get are recorded in builds with debug assertions only");
}
