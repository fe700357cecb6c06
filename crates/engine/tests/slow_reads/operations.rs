//! Every kind of read on a real filesystem, from files that are in no block cache.

use tailwater::{Db, OpenOptions, ReadOptions};
use tailwater_testkit::golden;

use super::lines::{Line, recent, text_of};
use super::{KEYS, fill, key, open};

/// Returns the newest slow read after `work`, which must be of this kind.
fn newest(db: &Db, operation: &str, work: impl FnOnce()) -> Line {
    work();
    let newest = recent(db).pop().expect("a slow read");
    assert_eq!(newest.text("operation"), operation, "{newest:?}");
    assert_eq!(newest.text("family"), "default");
    newest
}

/// Runs `check` on a filled database whose reads of blocks are buffered, and direct.
fn in_both_modes(check: impl Fn(&Db)) {
    for direct in ["false", "true"] {
        let directory = tempfile::tempdir().expect("a directory");
        let text = format!(
            "use_direct_reads={direct};slow_read_keys=true;\
             block_based_table_factory={{block_cache=16K;block_size=512}}"
        );
        let db = open(directory.path(), &text);
        fill(&db);
        let modes = db.property_value("tailwater.io-modes").expect("a property");
        let mode = if direct == "true" { "direct" } else { "buffered" };
        let expected = format!("effective {mode}");
        let modes = modes.expect("a known name");
        let of_reads = modes.lines().find(|line| line.starts_with("user_read:"));
        assert!(of_reads.is_some_and(|line| line.contains(&expected)), "{modes}");
        check(&db);
    }
}

#[test]
fn a_get() {
    in_both_modes(|db| {
        let read = newest(db, "get", || {
            db.get(key(101)).expect("a get").expect("a value");
        });
        assert_eq!(read.text("key"), key(101));
        assert_eq!((read.figure("keys"), read.figure("tables")), (1.0, 2.0), "{read:?}");
        // Without a filter, the key is sought in the tables of both levels.
        assert_eq!((read.blocks(0, "data"), read.blocks(6, "data")), (1.0, 1.0), "{read:?}");
        assert_eq!(read.figure("blocks_of_new_tables"), 2.0, "{read:?}");
        assert!(read.figure("device_us") > 0.0 && read.figure("work_us") > 0.0, "{read:?}");
    });
}

#[test]
fn tables_of_an_earlier_opening_are_not_new() {
    let directory = tempfile::tempdir().expect("a directory");
    let text = "block_based_table_factory={block_cache=16K;block_size=512}";
    fill(&open(directory.path(), text));
    let db = open(directory.path(), text);
    let read = newest(&db, "get", || {
        db.get(key(101)).expect("a get").expect("a value");
    });
    assert_eq!(
        (read.blocks(0, "data"), read.figure("blocks_of_new_tables")),
        (1.0, 0.0),
        "{read:?}"
    );
}

#[test]
fn a_multi_get() {
    in_both_modes(|db| {
        let keys: Vec<_> = (0..KEYS).step_by(100).map(key).collect();
        let read = newest(db, "multi_get", || {
            let family = db.default_cf();
            for value in db.batched_multi_get_cf_opt(family, &keys, &ReadOptions::default()) {
                value.expect("a get").expect("a value");
            }
        });
        assert_eq!(read.figure("keys"), 20.0);
        // Even numbers are in the table of level 0. A search that waited for a block once counted
        // its memtables and tables again.
        assert_eq!((read.figure("memtables"), read.figure("tables")), (20.0, 20.0), "{read:?}");
        assert_eq!((read.blocks(0, "data"), read.blocks(6, "data")), (20.0, 0.0), "{read:?}");
        assert!(read.figure("device_us") > 0.0, "{read:?}");
    });
}

#[test]
fn an_iterator() {
    in_both_modes(|db| {
        let mut iterator = db.raw_iterator().expect("an iterator");
        let seek = newest(db, "seek", || iterator.seek(key(777)).expect("a seek"));
        assert_eq!(seek.text("key"), key(777));
        assert_eq!(seek.figure("tables"), 2.0, "{seek:?}");
        assert_eq!((seek.blocks(0, "data"), seek.blocks(6, "data")), (1.0, 1.0), "{seek:?}");
        let mut steps = 0;
        while iterator.valid() {
            iterator.next().expect("a step");
            steps += 1;
        }
        let reads = recent(db);
        let with_blocks = |read: &&Line| {
            read.text("operation") == "step"
                && read.blocks(0, "data") + read.blocks(6, "data") > 0.0
        };
        assert!(steps > 1000 && reads.iter().filter(with_blocks).count() > 50, "{steps} steps");
        newest(db, "seek", || iterator.seek_to_last().expect("a seek"));
        // There is a new table to be opened.
        db.put(key(5), "another value").expect("a put");
        db.flush().expect("a flush");
        newest(db, "refresh", || iterator.refresh().expect("a refresh"));
    });
}

#[test]
fn values_in_blob_files() {
    let name = "blobs";
    let directory = golden::unpack(name);
    let mut options = OpenOptions::default();
    options.set_load_when_opened(
        "enable_blob_files=false;slow_read_threshold_us=1;\
         block_based_table_factory={no_block_cache=true}",
    );
    let db = Db::open(directory.path(), &options).expect("the database");
    let entries = golden::dump(name);
    let keys = entries.iter().filter(|entry| entry.family == "default").map(|entry| &entry.key);
    let is_in_blob_file = |key: &&Vec<u8>| {
        let read = newest(&db, "get", || {
            db.get(key).expect("a get").expect("a value");
        });
        read.figure("blobs") == 1.0
    };
    let in_blob_files: Vec<_> = keys.take(200).filter(is_in_blob_file).collect();
    let count = in_blob_files.len() as u64;
    assert!(count > 20, "{count}");
    let read = newest(&db, "multi_get", || {
        let (family, options) = (db.default_cf(), ReadOptions::default());
        for value in db.batched_multi_get_cf_opt(family, &in_blob_files, &options) {
            value.expect("a get").expect("a value");
        }
    });
    assert_eq!(read.figure("blobs"), count as f64, "{read:?}");
    assert_eq!(db.slow_reads().blobs, 2 * count);
    let metrics = text_of(&db, "tailwater.slow-reads-prometheus");
    let expected = format!("tailwater_slow_reads_blobs_total {}\n", 2 * count);
    assert!(metrics.contains(&expected), "{expected} is not in\n{metrics}");
}

#[test]
fn versions_and_deletions_that_are_stepped_over() {
    let directory = tempfile::tempdir().expect("a directory");
    let db = open(directory.path(), "max_sequential_skip_in_iterations=1000000");
    let before = db.snapshot();
    for number in 0..KEYS {
        db.put(key(number), "value").expect("a put");
    }
    for number in 0..KEYS - 1 {
        db.delete(key(number)).expect("a deletion");
    }
    let mut now = db.raw_iterator().expect("an iterator");
    let read = newest(&db, "seek", || now.seek_to_first().expect("a seek"));
    let skipped = f64::from(KEYS - 1);
    assert_eq!(now.key(), key(KEYS - 1).as_bytes());
    assert_eq!(
        (read.figure("versions"), read.figure("tombstones")),
        (skipped, skipped),
        "{read:?}"
    );

    let options = ReadOptions::default().with_snapshot(before);
    let mut earlier = db.raw_iterator_opt(&options).expect("an iterator");
    let read = newest(&db, "seek", || earlier.seek_to_first().expect("a seek"));
    assert!(!earlier.valid());
    assert_eq!(read.figure("versions"), f64::from(2 * KEYS - 1), "{read:?}");
}
