//! Comparators that treat keys with different bytes as equal.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use fastrand::Rng;
use tailwater::{ColumnFamily, Db, OpenOptions, ReadOptions, Snapshot, WriteOptions};
use tailwater_format::Comparator;
use tailwater_format::comparator::CustomComparator;
use tailwater_io::sim::SimStorage;
use tailwater_testkit::seed;

use crate::support::{default_family, simulated};

/// A comparator that compares keys bytewise, ignoring upper and lower case.
struct IgnoringCase {
    declared: Option<bool>,
}

impl CustomComparator for IgnoringCase {
    fn name(&self) -> &str {
        "tests.IgnoringCase"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.to_ascii_lowercase().cmp(&b.to_ascii_lowercase())
    }

    fn can_keys_with_different_byte_contents_be_equal(&self) -> Option<bool> {
        self.declared
    }
}

/// Options to try. They enable features that use the bytes of keys, such as filters, prefixes and
/// hash indexes. They also make blocks and tables small.
const OPTIONS: [&str; 4] = [
    "",
    "block_based_table_factory={filter_policy=bloomfilter:10:false;block_size=100;\
     data_block_index_type=kDataBlockBinaryAndHash;data_block_hash_table_util_ratio=0.75}",
    "prefix_extractor=fixed:3;target_file_size_base=700;max_bytes_for_level_base=1500;\
     block_based_table_factory={filter_policy=ribbonfilter:10;whole_key_filtering=false;\
     block_size=100}",
    "prefix_extractor=capped:2;max_sequential_skip_in_iterations=0;\
     block_based_table_factory={filter_policy=bloomfilter:10:false;index_block_restart_interval=3;\
     format_version=5;block_restart_interval=1;block_size=200}",
];

fn options(disk: &SimStorage, text: &str, declared: Option<bool>) -> OpenOptions {
    let more = format!("comparator=tests.IgnoringCase;merge_operator=StringAppendOperator;{text}");
    let mut options = simulated(disk, &more);
    options.add_comparator(Comparator::Custom(Arc::new(IgnoringCase { declared })));
    options
}

/// The expected contents of a database. The map's key is a key in lower case. The map's value is a
/// pair. Its first element is the key in the upper and lower case that iterators must show, or
/// `None` if any is allowed. Its second element is the expected value.
type Model = BTreeMap<Vec<u8>, (Option<Vec<u8>>, Vec<u8>)>;

/// Returns a random key with random upper and lower case.
fn key(rng: &mut Rng) -> Vec<u8> {
    let number = rng.u32(..40);
    let plain = format!("key{}{number:02}", ["", "a", "longer"][number as usize % 3]);
    plain.bytes().map(|byte| if rng.bool() { byte.to_ascii_uppercase() } else { byte }).collect()
}

fn small(key: &[u8]) -> Vec<u8> {
    key.to_ascii_lowercase()
}

fn write(db: &Db, family: &ColumnFamily, model: &mut Model, rng: &mut Rng) {
    let (key, options) = (key(rng), WriteOptions::default());
    let value = format!("value {}", rng.u32(..)).into_bytes();
    let written = match rng.u8(..12) {
        0..=6 => {
            model.insert(small(&key), (Some(key.clone()), value.clone()));
            db.put_cf_opt(family, &key, &value, &options)
        }
        7 => {
            let merged = match model.get(&small(&key)) {
                Some((_, old)) => [old, &b","[..], &value].concat(),
                None => value.clone(),
            };
            // The merged keys may differ in upper and lower case, which the comparator ignores. The
            // merged value may be stored with any of these keys.
            model.insert(small(&key), (None, merged));
            db.merge_cf_opt(family, &key, &value, &options)
        }
        8..=10 => {
            model.remove(&small(&key));
            db.delete_cf_opt(family, &key, &options)
        }
        _ => {
            let other = self::key(rng);
            let (begin, end) =
                if small(&key) <= small(&other) { (key, other) } else { (other, key) };
            model.retain(|key, _| *key < small(&begin) || *key >= small(&end));
            db.delete_range_cf_opt(family, &begin, &end, &options)
        }
    };
    written.expect("a write");
}

/// Reads random keys, existing and missing ones, in random upper and lower case. Compares the
/// results with the model.
fn check(
    db: &Db,
    family: &ColumnFamily,
    model: &Model,
    snapshot: Option<&Snapshot>,
    rng: &mut Rng,
    context: &str,
) {
    let read = |total_order_seek| {
        ReadOptions::new().with_snapshot(snapshot.cloned()).with_total_order_seek(total_order_seek)
    };
    let keys: Vec<Vec<u8>> = (0..60).map(|_| key(rng)).collect();
    let wanted: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let together = db.batched_multi_get_cf_opt(family, &wanted, &read(false));
    for (key, together) in keys.iter().zip(together) {
        let expected = model.get(&small(key)).map(|(_, value)| value.clone());
        let found = db.get_cf_opt(family, key, &read(false)).expect("a get");
        let shown = key.escape_ascii();
        assert_eq!(found, expected, "{context}: {shown}");
        let together = together.expect("a get").map(|value| value.to_vec());
        assert_eq!(together, expected, "{context}: {shown} among others");
        // A seek without `total_order_seek` may use prefix filters. It must still find the key if
        // it exists.
        let mut iterator = db.raw_iterator_cf_opt(family, &read(false)).expect("an iterator");
        iterator.seek(key).expect("a seek");
        let is_here = iterator.valid() && small(iterator.key()) == small(key);
        assert_eq!(is_here, expected.is_some(), "{context}: seek of {shown}");
        let mut iterator = db.raw_iterator_cf_opt(family, &read(true)).expect("an iterator");
        iterator.seek_for_prev(key).expect("a seek");
        let before = model.range(..=small(key)).next_back();
        assert_eq!(
            iterator.item().map(|(key, value)| (small(key), value.to_vec())),
            before.map(|(key, (_, value))| (key.clone(), value.clone())),
            "{context}: seek for previous of {shown}"
        );
    }
    for is_forward in [true, false] {
        let mut iterator = db.raw_iterator_cf_opt(family, &read(true)).expect("an iterator");
        let mut found = Vec::new();
        if is_forward { iterator.seek_to_first() } else { iterator.seek_to_last() }
            .expect("a seek");
        while let Some((key, value)) = iterator.item() {
            found.push((key.to_vec(), value.to_vec()));
            if is_forward { iterator.next() } else { iterator.prev() }.expect("a step");
        }
        if !is_forward {
            found.reverse();
        }
        let count = found.len();
        for ((key, value), (expected, (spelling, expected_value))) in found.iter().zip(model) {
            assert_eq!((&small(key), value), (expected, expected_value), "{context}");
            assert!(spelling.as_ref().is_none_or(|it| it == key), "{context}: {key:?}");
        }
        assert_eq!(count, model.len(), "{context}, forward: {is_forward}");
    }
}

/// Regression test: filters and the hash indexes of data blocks contain only the spelling in which
/// a key was written. A key was therefore not found in another spelling.
#[test]
fn a_key_is_found_by_every_equal_spelling() {
    let mut seed = seed::rng();
    for (number, text) in OPTIONS.iter().enumerate() {
        let context = format!("options {number}, seed {}", seed.value());
        let (disk, rng) = (SimStorage::new(1), &mut seed.rng);
        let mut model = Model::new();
        let mut db = Db::open("/db", &options(&disk, text, None)).expect("a database");
        let mut held: Option<(Snapshot, Model)> = None;
        for round in 0..12 {
            let family = default_family(&db);
            let count = rng.usize(..60);
            for _ in 0..count {
                write(&db, &family, &mut model, rng);
            }
            match rng.u8(..5) {
                0 => held = Some((db.snapshot(), model.clone())),
                1 => drop(db.compact_range_cf_opt(&family, None, None, &Default::default())),
                2 => held = None,
                _ => db.flush_all().expect("a flush"),
            }
            if round == 3 {
                // From now on the comparator declares that keys with different bytes may be equal.
                // The existing tables, written without this declaration, have filters that must be
                // ignored.
                held = None;
                drop(db);
                let opened = Db::open("/db", &options(&disk, text, Some(true)));
                db = opened.expect("the database again");
            }
            let family = default_family(&db);
            if round >= 3 {
                check(&db, &family, &model, None, rng, &context);
                if let Some((snapshot, model)) = &held {
                    let context = format!("{context}, by a snapshot");
                    check(&db, &family, model, Some(snapshot), rng, &context);
                }
            }
        }
    }
}

#[test]
fn filters_and_hash_indexes_are_built_only_for_bytewise_equality() {
    let hashed = "block_based_table_factory={filter_policy=bloomfilter:10:false;\
                  data_block_index_type=kDataBlockBinaryAndHash}";
    let sizes = [None, Some(true), Some(false)].map(|declared| {
        let disk = SimStorage::new(1);
        let db = Db::open("/db", &options(&disk, hashed, declared)).expect("a database");
        for number in 0..50 {
            let key = format!("key{number:03}");
            let put =
                db.put_cf_opt(&default_family(&db), key.as_bytes(), b"v", &WriteOptions::default());
            put.expect("a put");
        }
        db.flush_all().expect("a flush");
        let path = &db.live_files()[0].path;
        let table = tailwater::inspect::table::TableFile::open(&disk, path).expect("a table");
        let properties = table.properties().as_ref().expect("properties");
        let policy = String::from_utf8_lossy(&properties.filter_policy_name).into_owned();
        (properties.filter_size > 0, policy, properties.data_size)
    });
    let [(undeclared, _, plain), (equating, policy, same), (telling, _, with_hashes)] = sizes;
    assert_eq!((undeclared, equating, telling), (true, false, true));
    assert_eq!(policy, "");
    assert_eq!(plain, same);
    assert!(with_hashes > plain, "{with_hashes} and {plain} bytes");
}
