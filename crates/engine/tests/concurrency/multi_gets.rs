//! Multi-gets over several column families, concurrent with batches that write to all of them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tailwater::{ColumnFamily, Db, WriteBatch};
use tailwater_testkit::seed;

use crate::scene::Place;

const BATCHES: u64 = 400;
/// Length of the padding in a value, in bytes. A memtable is full after some 30 batches.
const PADDING: usize = 1000;

/// Reads the values that the batches write, until the writer is done. All must come from the same
/// batch.
fn check(db: &Db, families: &[ColumnFamily], is_done: &AtomicBool) {
    // Not in the order of the families; one key is missing, and one occurs twice.
    let keys: Vec<_> = ["b", "missing", "a", "b"]
        .into_iter()
        .flat_map(|key| families.iter().rev().map(move |family| (family, key)))
        .collect();
    loop {
        let is_last = is_done.load(Ordering::Acquire);
        let values = db.multi_get_cf(&keys);
        assert_eq!(values.len(), keys.len());
        let values: Vec<_> = values.into_iter().map(|value| value.expect("a get")).collect();
        // The first batch may not be written yet.
        let number = values[0].as_ref().and_then(|first| first.first_chunk());
        let number = number.copied().map(u64::from_le_bytes);
        for ((family, key), found) in keys.iter().zip(&values) {
            let number = number.filter(|_| *key != "missing");
            let expected = number.map(|number| value(number, family, key));
            assert_eq!(found.as_deref(), expected.as_deref(), "{key} in {}", family.name());
        }
        if is_last {
            assert_eq!(number, Some(BATCHES));
            return;
        }
    }
}

/// Returns the value that the batch `number` writes.
fn value(number: u64, family: &ColumnFamily, key: &str) -> Vec<u8> {
    [&number.to_le_bytes(), family.name().as_bytes(), key.as_bytes(), &[0; PADDING]].concat()
}

#[test]
fn multi_gets_over_column_families_see_whole_batches() {
    for place in Place::both(seed::rng().value()) {
        let db = place.open("write_buffer_size=65536");
        let options = db.default_cf().options();
        let families = ["one", "two", "three"];
        let families = families.map(|name| db.create_cf(name, &options).expect("a column family"));
        let is_done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| check(&db, &families, &is_done));
            for number in 1..=BATCHES {
                let mut batch = WriteBatch::new();
                for family in &families {
                    for key in ["a", "b"] {
                        batch.put_cf(family, key, value(number, family, key)).expect("a put");
                    }
                }
                db.write(&mut batch).expect("a write");
            }
            is_done.store(true, Ordering::Release);
        });
    }
}
