//! Changing the capacity of a cache that is in use, and the cache's figures.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tailwater::BlockCache;
use tailwater_io::sim::SimStorage;

use crate::support::{KIB, collected_usage, filled, key, options, patiently, value};

const DB: &str = "/db";
const KEYS: usize = 600;

#[test]
fn the_capacity_changes_while_threads_read() {
    for is_strict in [false, true] {
        let cache = Arc::new(BlockCache::new(400 * KIB));
        cache.set_strict_capacity_limit(is_strict);
        let db = filled(DB, &options(&SimStorage::new(1), Some(&cache), ""), KEYS);
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let (db, ended) = (&db, &ended);
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(thread);
                    while !ended.load(Ordering::Relaxed) {
                        let number = random.usize(..KEYS);
                        let found = db.get(key(number)).expect("a get");
                        assert_eq!(found.as_deref(), Some(&*value(DB, number)));
                    }
                });
            }
            for round in 0..200 {
                let capacity = [100, 400, 60, 1000, 200][round % 5] * KIB;
                cache.set_capacity(capacity);
                assert_eq!(cache.capacity(), capacity);
                patiently("the excess is evicted", || collected_usage(&cache) <= capacity);
            }
            ended.store(true, Ordering::Relaxed);
        });
    }
}

#[test]
fn a_capacity_below_what_is_pinned_takes_effect_as_it_is_released() {
    let cache = Arc::new(BlockCache::new(400 * KIB));
    let db = filled(DB, &options(&SimStorage::new(1), Some(&cache), ""), KEYS);
    let pinned: Vec<_> = (0..150)
        .map(|number| db.get_pinned(key(number)).expect("a get").expect("a value"))
        .collect();
    patiently("the blocks are pinned", || cache.pinned_usage() > 150 * KIB);
    let before = cache.pinned_usage();
    cache.set_capacity(50 * KIB);
    patiently("all that can be evicted is", || collected_usage(&cache) == before);
    assert_eq!((cache.pinned_usage(), cache.capacity()), (before, 50 * KIB));
    // Other reads succeed, without the cache.
    assert_eq!(db.get(key(500)).expect("a get").as_deref(), Some(&*value(DB, 500)));
    assert_eq!(cache.usage(), before);
    assert!(pinned.iter().enumerate().all(|(number, found)| **found == *value(DB, number)));
    // With a strict limit, they fail.
    cache.set_strict_capacity_limit(true);
    assert!(db.get(key(500)).is_err());

    drop(pinned);
    assert_eq!(cache.pinned_usage(), 0);
    patiently("the new capacity holds", || db.get(key(500)).is_ok() && cache.usage() <= 50 * KIB);
    cache.set_capacity(400 * KIB);
    for number in 0..150 {
        db.get(key(number)).expect("a get");
    }
    assert!(cache.usage() > 150 * KIB);
}

#[test]
fn the_figures_of_a_cache() {
    let cache = Arc::new(BlockCache::new(400 * KIB));
    assert_eq!((cache.usage(), cache.pinned_usage(), cache.occupancy_count()), (0, 0, 0));
    let empty = cache.table_address_count();
    let db = filled(DB, &options(&SimStorage::new(1), Some(&cache), ""), KEYS);
    let block = db.get_pinned(key(0)).expect("a get").expect("a value");
    // A block of four values, and its overhead.
    let charge = cache.usage();
    assert!((4800..6000).contains(&charge), "{charge}");
    assert_eq!((cache.pinned_usage(), cache.occupancy_count()), (charge, 1));
    drop(block);
    assert_eq!((cache.usage(), cache.pinned_usage()), (charge, 0));
    for number in 0..KEYS {
        db.get(key(number)).expect("a get");
    }
    let count = cache.occupancy_count();
    assert!(count * charge <= 400 * KIB && count > 60, "{count} blocks");
    assert!(cache.table_address_count() > empty && cache.table_address_count() >= count);
    cache.set_capacity(0);
    patiently("all blocks are evicted", || collected_usage(&cache) == 0);
    assert_eq!(cache.occupancy_count(), 0);
}
