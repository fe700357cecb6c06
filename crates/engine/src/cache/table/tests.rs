//! Tests of the cache's hash table with one thread and many collisions.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::*;
use crate::cache::entry::{Cached, Priority};
use crate::cache::tests::{Block, key, seed};

fn node(key: Key) -> Arc<Node<Block>> {
    let value = Arc::new(Cached::standalone(Block::new(key, 0)));
    Arc::new(Node::new(key, value, Priority::Low, 0))
}

/// Whether all control words are zero. Then all slots are empty, and no bucket counts entries that
/// are stored in a later bucket.
fn is_clean(table: &Table<Block>) -> bool {
    table.buckets.iter().all(|bucket| bucket.control.load(Ordering::Relaxed) == 0)
}

#[test]
fn a_table_agrees_with_a_map_when_buckets_overflow() {
    let seed = seed();
    let mut random = fastrand::Rng::with_seed(seed);
    for round in 0..50 {
        let table = Table::<Block>::new(4);
        let mut map = BTreeMap::new();
        for step in 0..400 {
            let key = key(1, random.u64(..40));
            // The mask leaves few distinct hashes, so most entries share a bucket, and many share a
            // tag.
            let hash = key.hash() & 0x0300_0000_0000_0001;
            // SAFETY: no entry is freed before it is removed, and only this thread uses the table.
            let found = unsafe { table.find(hash, key) }.map(std::ptr::from_ref);
            assert_eq!(found, map.get(&key).map(Arc::as_ptr), "round {round}, step {step}");
            match map.remove(&key) {
                Some(node) => table.remove(hash, Arc::as_ptr(&node)),
                None if map.len() < table.limit() => {
                    let node = node(key);
                    table.insert(hash, Arc::as_ptr(&node));
                    map.insert(key, node);
                }
                None => {}
            }
        }
        let rest = std::mem::take(&mut map);
        for node in rest.values() {
            table.remove(node.key.hash() & 0x0300_0000_0000_0001, Arc::as_ptr(node));
        }
        assert!(is_clean(&table), "round {round}: counts stay behind");
    }
}

#[test]
fn a_saturated_overflow_count_hides_no_entry() {
    let table = Table::<Block>::new(128);
    assert!(table.limit() > 600);
    let nodes: Vec<_> = (0..600).map(|block| node(key(1, block))).collect();
    nodes.iter().for_each(|node| table.insert(0, Arc::as_ptr(node)));
    for (removed, node) in nodes.iter().enumerate() {
        table.remove(0, Arc::as_ptr(node));
        for (index, node) in nodes.iter().enumerate() {
            // SAFETY: the entries live to the end of the test.
            let found = unsafe { table.find(0, node.key) }.is_some();
            assert_eq!(found, index > removed, "entry {index} after {removed} was removed");
        }
    }
}
