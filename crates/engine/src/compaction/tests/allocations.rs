//! Compactions allocate memory per block and per table, but not per record.

use tailwater_format::key::ValueType;

use super::counting;
use super::scene::{Record, Scene};

/// Number of keys; each has a record in each of three tables.
const KEYS: u64 = 10_000;

/// Creates three overlapping tables of level 0, with blocks of `block_bytes` bytes. In each of them
/// values, merge operands and deletions alternate, and a range tombstone covers some keys.
fn scene(block_bytes: usize) -> Scene {
    let mut scene = Scene::new(&format!(
        "merge_operator=stringappend;block_based_table_factory={{block_size={block_bytes};\
         filter_policy=bloomfilter:10:false}}"
    ));
    let kinds = [ValueType::Value, ValueType::Merge, ValueType::Deletion];
    for table in 0..3 {
        let record = |at| {
            let kind = kinds[(at as usize + table) % kinds.len()];
            let value = if kind == ValueType::Deletion { "" } else { "some value" };
            let sequence = 1 + at + table as u64 * (KEYS + 2);
            Record::new(&format!("key{at:06}"), sequence, kind, value)
        };
        let mut records: Vec<Record> = (0..KEYS).map(record).collect();
        let sequence = (table as u64 + 1) * (KEYS + 2);
        records.push(Record::new("key004", sequence, ValueType::RangeDeletion, "key005"));
        scene.add_table(0, &records, None);
    }
    scene
}

#[test]
fn a_compaction_allocates_nothing_for_a_record() {
    let allocations = |scene: &Scene, level| {
        let job = scene.job(scene.levels(&[0, level]));
        counting::allocations(|| {
            let statistics = job.run().unwrap().statistics;
            assert_eq!(statistics.records_in, 3 * KEYS);
            assert!(statistics.records_out > KEYS / 2);
        })
    };
    let (large, mut small) = (scene(1 << 20), scene(4096));
    // A table in a deeper level makes the compaction keep deletions. It also prevents merge
    // operands without a value from being merged into a value; they are only merged with each
    // other.
    small.add_table(6, &[Record::put("key000000", 1, ""), Record::put("key999999", 1, "")], None);
    for (what, scene, level) in
        [("into the last level", &large, 6), ("above another level", &small, 5)]
    {
        let (count, _) = allocations(scene, level);
        println!("{what}: {count} allocations for {} records", 3 * KEYS);
        assert!(count < KEYS / 4, "{what}: {count}");
    }
}
