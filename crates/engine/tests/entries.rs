//! Tests of the iterators over the entries of ranges and prefixes, and of the shorthand methods of
//! `Db`, which use default options.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use tailwater::options::{ColumnFamilyOptions, ObjectName};
use tailwater::{
    AsColumnFamilyId, BottommostRewrite, CompactRangeOptions, Db, Entries, ErrorKind, OpenOptions,
    ReadOptions, WriteBatch, WriteOptions,
};
use tailwater_format::Comparator;
use tailwater_io::sim::SimStorage;

fn options() -> OpenOptions {
    let mut options = OpenOptions::with_storage(Arc::new(SimStorage::new(1)));
    options.set_from_string("create_if_missing=true").expect("options");
    options
}

fn keys(entries: impl Iterator<Item = tailwater::Result<(Box<[u8]>, Box<[u8]>)>>) -> Vec<Vec<u8>> {
    entries.map(|entry| entry.expect("an entry").0.into_vec()).collect()
}

/// Takes all entries. Before each entry, `fronts` decides whether it is taken from the front or
/// from the back. Returns the keys in the order in which they were taken.
fn taken(mut entries: Entries, mut fronts: impl FnMut() -> bool) -> Vec<Vec<u8>> {
    let mut taken = Vec::new();
    while let Some(entry) = if fronts() { entries.next() } else { entries.next_back() } {
        taken.push(entry.expect("an entry").0.into_vec());
    }
    assert!(entries.next().is_none() && entries.next_back().is_none());
    taken.sort();
    taken
}

#[test]
fn ranges_agree_with_a_map_from_both_ends() {
    let db = Db::open("/db", &options()).expect("a database");
    let mut model = BTreeMap::new();
    for key in (0..60u8).step_by(2) {
        db.put([key], [key, key]).expect("a put");
        model.insert(vec![key], vec![key, key]);
        if key == 30 {
            db.flush().expect("a flush");
        }
    }
    let bounds =
        |key: u8| [Bound::Unbounded, Bound::Included(vec![key]), Bound::Excluded(vec![key])];
    let mut rng = fastrand::Rng::with_seed(7);
    for (low, high) in [(0, 58), (1, 57), (2, 2), (20, 41), (21, 21), (30, 32), (58, 80)] {
        for start in bounds(low) {
            for end in bounds(high) {
                if let (Bound::Excluded(low), Bound::Excluded(high)) = (&start, &end)
                    && low == high
                {
                    continue;
                }
                let range = (start.clone(), end.clone());
                let expected: Vec<_> =
                    model.range(range.clone()).map(|(key, _)| key.clone()).collect();
                assert_eq!(keys(db.range(range.clone())), expected, "{range:?}");
                let reversed: Vec<_> = expected.iter().rev().cloned().collect();
                assert_eq!(keys(db.range(range.clone()).rev()), reversed, "{range:?}");
                assert_eq!(taken(db.range(range.clone()), || rng.bool()), expected, "{range:?}");
            }
        }
    }
    assert!(keys(db.range([9]..[3])).is_empty(), "a range that ends before it begins");
}

#[test]
fn a_range_is_consistent_and_respects_iterate_bounds() {
    let db = Db::open("/db", &options()).expect("a database");
    for key in ["a", "b", "c", "d"] {
        db.put(key, "1").expect("a put");
    }
    let mut entries = db.range(..);
    db.delete("c").expect("a deletion");
    db.put("e", "1").expect("a put");
    db.flush().expect("a flush");
    assert_eq!(entries.next_back().expect("an entry").expect("no error").0.as_ref(), b"d");
    assert_eq!(keys(entries), [b"a", b"b", b"c"]);
    let mut bounded = ReadOptions::new();
    bounded.iterate_lower_bound = Some(b"b".to_vec());
    bounded.iterate_upper_bound = Some(b"e".to_vec());
    assert_eq!(keys(db.range_opt("a"..="z", &bounded)), [b"b", b"d"]);
    assert_eq!(keys(db.range_opt("c".., &bounded)), [b"d"]);
}

#[test]
fn a_range_yields_every_key_whatever_the_options_say_of_prefixes() {
    let mut options = options();
    let text = "prefix_extractor=fixed:1;\
                block_based_table_factory={filter_policy=bloomfilter:10:false}";
    options.set_from_string(text).expect("options");
    let db = Db::open("/db", &options).expect("a database");
    let all = ["a1", "a2", "c1", "c2"];
    for key in all {
        db.put(key, "1").expect("a put");
    }
    db.flush().expect("a flush");
    let reads = ReadOptions::new()
        .with_prefix_same_as_start(true)
        .with_pin_data(true)
        .with_allow_unprepared_value(true);
    let mut iterator = db.raw_iterator_opt(&reads).expect("an iterator");
    iterator.seek("b").expect("a seek");
    assert!(!iterator.valid(), "the prefix filter lets an iterator skip the table");
    assert_eq!(keys(db.range_opt("a".."z", &reads)), all.map(|key| key.as_bytes()));
    assert_eq!(keys(db.range_opt("b".., &reads)), [b"c1", b"c2"]);
    assert_eq!(keys(db.range_opt("b".., &reads).rev()), [b"c2", b"c1"]);
    let after_b = (Bound::Excluded("b"), Bound::Unbounded);
    assert_eq!(keys(db.range_opt(after_b, &reads)), [b"c1", b"c2"]);
    assert_eq!(keys(db.prefix_opt("", &reads)), all.map(|key| key.as_bytes()));
}

#[test]
fn a_prefix_of_bytes_255_ends_with_the_last_key() {
    let db = Db::open("/db", &options()).expect("a database");
    for key in [&[1u8, 255][..], &[1, 255, 3], &[2], &[255], &[255, 255], &[255, 255, 9]] {
        db.put(key, "").expect("a put");
    }
    assert_eq!(keys(db.prefix([1, 255])), [vec![1, 255], vec![1, 255, 3]]);
    assert_eq!(keys(db.prefix([255, 255])), [vec![255, 255], vec![255, 255, 9]]);
    assert_eq!(keys(db.prefix("")).len(), 6);
}

#[test]
fn foreign_families_and_other_orders_yield_an_error_as_the_first_item() {
    let other = Db::open("/db", &options()).expect("a database");
    let mut options = options();
    options.add_comparator(Comparator::ReverseBytewise);
    let mut reverse = ColumnFamilyOptions::default();
    reverse.comparator = ObjectName::new("rocksdb.ReverseBytewiseComparator");
    let db = Db::open("/db", &options).expect("a database");
    let mut refused = db.range_cf(other.default_cf(), ..);
    let error = refused.next().expect("an item").expect_err("a foreign column family");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(refused.next().is_none());
    let family = db.create_cf("reverse", &reverse).expect("a column family");
    for key in ["a", "b", "c"] {
        db.put_cf(&family, key, "").expect("a put");
    }
    assert_eq!(keys(db.range_cf(&family, "c".."a")), [b"c", b"b"]);
    let error = db.prefix_cf(&family, "a").next().expect("an item").expect_err("another order");
    assert_eq!(error.kind(), ErrorKind::NotSupported);
}

#[test]
fn shorthand_methods_use_the_default_column_family() {
    let db = Db::open("/db", &options()).expect("a database");
    let family = db.create_cf("second", &ColumnFamilyOptions::default()).expect("a column family");
    let mut batch = WriteBatch::new();
    batch.put("key", "default").expect("a record");
    batch.put_cf(&family, "key", "second").expect("a record");
    batch.put_cf(family.column_family_id(), "by ID", "second").expect("a record");
    db.write(&mut batch).expect("a write");
    db.put_opt("synced", "1", &WriteOptions::new().with_sync(true)).expect("a put");
    assert_eq!(db.get("key").expect("a get").as_deref(), Some(&b"default"[..]));
    assert_eq!(db.get_cf(&family, "key").expect("a get").as_deref(), Some(&b"second"[..]));
    assert_eq!(db.get_cf(&family, "by ID").expect("a get").as_deref(), Some(&b"second"[..]));
    assert_eq!(db.get("by ID").expect("a get"), None);
    let found = db.multi_get(&["synced", "nothing"]);
    assert!(matches!(&found[..], [Ok(Some(value)), Ok(None)] if **value == b"1"[..]));
    db.delete_range("a", "l").expect("a range deletion");
    db.flush().expect("a flush");
    db.compact_range(None, None).expect("a compaction");
    assert_eq!(keys(db.range(..)), [b"synced"]);
    // As in RocksDB, the estimate of the number of keys counts a range deletion as the deletion of
    // one key. Here that cancels the one remaining key, so the estimate is 0. The compaction only
    // moved the table to the last level. A compaction that rewrites the table drops the range
    // deletion.
    let estimated = || db.property_int_value("rocksdb.estimate-num-keys").expect("a property");
    assert_eq!(estimated(), Some(0));
    let rewrite =
        CompactRangeOptions::new().with_bottommost_level_compaction(BottommostRewrite::Force);
    db.compact_range_opt(None, None, &rewrite).expect("a compaction");
    assert_eq!(estimated(), Some(1));
    let error = db.property_int_value("rocksdb.levelstats").expect_err("a text");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}

#[test]
fn options_of_one_column_family_leave_the_others_alone() {
    let mut options = options();
    options
        .set_from_string("create_missing_column_families=true;write_buffer_size=2M")
        .expect("options");
    options.set_column_family_from_string("small", "write_buffer_size=1M").expect("options");
    let refused = options
        .set_column_family_from_string("small", "max_open_files=7")
        .expect_err("the database's");
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    assert_ne!(options.database().max_open_files, 7);
    // Refused even if the value would not change.
    let now = format!("max_open_files={}", options.database().max_open_files);
    let refused = options.set_column_family_from_string("small", &now).expect_err("the database's");
    assert!(refused.message().contains("max_open_files"), "{refused}");
    let refused =
        options.set_column_family_from_string("small", "no_such_option=1").expect_err("unknown");
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    // An option that is set for all column families also changes column families that already have
    // options of their own.
    options.set_from_string("level0_file_num_compaction_trigger=9").expect("options");

    let db = Db::open("/db", &options).expect("a database");
    let small = db.cf_handle("small").expect("it was created");
    let of_default = db.default_cf().options();
    assert_eq!(of_default.write_buffer_size, 2 << 20);
    assert_eq!(small.options().write_buffer_size, 1 << 20);
    for family in [&small, db.default_cf()] {
        assert_eq!(family.options().level0_file_num_compaction_trigger, 9, "{}", family.name());
    }
}

#[test]
fn a_system_error_keeps_its_errno() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let error = Db::open_default(file.path().join("db")).expect_err("a file is in the way");
    assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::EXIST.raw_os_error()), "{error:?}");
    assert_eq!(error.kind(), ErrorKind::Io);
    let source = std::error::Error::source(&error).expect("the storage's error");
    assert!(source.downcast_ref::<tailwater::storage::Error>().is_some());

    let directory = tempfile::tempdir().expect("a directory");
    let error = Db::open_read_only(directory.path(), &OpenOptions::default())
        .expect_err("there is no database");
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(
        Db::open("/db", &options())
            .expect("a database")
            .cf_handle("none")
            .is_err_and(|error| error.raw_os_error().is_none() && error.io_error().is_none())
    );
}

#[test]
fn the_built_in_compaction_filter_removes_empty_values() {
    let mut options = options();
    options
        .set_from_string("compaction_filter=RemoveEmptyValueCompactionFilter;merge_operator=put")
        .expect("options");
    let db = Db::open("/db", &options).expect("a database");
    assert_eq!(db.warnings(), &[] as &[String]);
    db.put("empty", "").expect("a put");
    db.put("full", "1").expect("a put");
    db.flush().expect("a flush");
    db.compact_range(None, None).expect("a compaction");
    assert_eq!(keys(db.range(..)), [b"full"]);
}

/// Regression test: after a seek to the first or last key, an iterator with `prefix_same_as_start`
/// left the prefix, because it checked prefixes only in steps between blocks.
#[test]
fn an_iterator_stays_in_the_prefix_of_the_first_and_last_key() {
    let mut options = options();
    options.set_from_string("prefix_extractor=rocksdb.FixedPrefix.1").expect("options");
    let db = Db::open("/db", &options).expect("a database");
    for key in ["a1", "a2", "a3", "b1", "b2", "c1", "c2", "c3"] {
        db.put(key, "1").expect("a put");
    }
    db.flush().expect("a flush");
    let family = db.cf_handle("default").expect("a family");
    let reads = ReadOptions::new().with_prefix_same_as_start(true).with_total_order_seek(true);
    let mut iterator = db.raw_iterator_cf_opt(&family, &reads).expect("an iterator");
    let mut steps = 0;
    iterator.seek_to_first().expect("a seek");
    while iterator.valid() {
        assert!(iterator.key().starts_with(b"a"));
        iterator.next().expect("a step");
        steps += 1;
    }
    iterator.seek_to_last().expect("a seek");
    while iterator.valid() {
        assert!(iterator.key().starts_with(b"c"));
        iterator.prev().expect("a step");
        steps += 1;
    }
    assert_eq!(steps, 6);
}
