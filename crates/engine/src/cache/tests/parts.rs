//! The hash and the table by themselves.

#![expect(unsafe_code, reason = "the table's lookup is tested without the lock around it")]

use std::collections::BTreeMap;

use super::*;
use crate::cache::table::Table;

#[test]
fn hashes_of_neighbouring_blocks_spread_evenly() {
    const BINS: u64 = 64;
    const KEYS: u64 = 64 * 1024;
    for (stride, files) in [(4096, 16), (4101, 1), (1 << 20, 64), (1, 2)] {
        for shift in [0, 8, 40, 58] {
            let mut bins = [0u32; BINS as usize];
            for number in 0..KEYS {
                let offset = number / files * stride;
                let hash = Key { file: 100 + number % files, offset }.hash();
                bins[(hash >> shift & (BINS - 1)) as usize] += 1;
            }
            // Even throws of 64 Ki keys into 64 bins stay within 6 deviations of 1024 +- 32.
            let worst = bins.iter().map(|&count| count.abs_diff(1024)).max();
            assert!(
                worst.is_some_and(|worst| worst < 192),
                "stride {stride}, {files} files, bits from {shift}: {bins:?}"
            );
        }
    }
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
            // Few distinct hashes: most entries share their bucket, many their tag.
            let hash = key.hash() & 0x0300_0000_0000_0001;
            // SAFETY: no entry is freed before it was removed, and there is one thread.
            let found = unsafe { table.find(hash, key) }.map(std::ptr::from_ref);
            assert_eq!(found, map.get(&key).map(Arc::as_ptr), "round {round}, step {step}");
            match map.remove(&key) {
                Some(node) => table.remove(hash, Arc::as_ptr(&node)),
                None if map.len() < table.limit() => {
                    let value = Arc::new(Cached::standalone(Block::new(key, 0)));
                    let node = Arc::new(Node::new(key, value, Priority::Low, 0));
                    table.insert(hash, Arc::as_ptr(&node));
                    map.insert(key, node);
                }
                None => {}
            }
        }
    }
}

#[test]
fn a_full_count_of_passed_entries_stays_and_hides_nothing() {
    let table = Table::<Block>::new(128);
    assert!(table.limit() > 600);
    let nodes: Vec<_> = (0..600)
        .map(|block| {
            let value = Arc::new(Cached::standalone(Block::new(key(1, block), 0)));
            Arc::new(Node::new(key(1, block), value, Priority::Low, 0))
        })
        .collect();
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
