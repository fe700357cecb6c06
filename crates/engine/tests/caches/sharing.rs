//! Databases that share a cache.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tailwater::{BlockCache, Db};
use tailwater_io::sim::SimStorage;

use crate::support::{KIB, filled, key, options, value};

const KEYS: usize = 300;

/// Both databases have tables with the same numbers and blocks at the same offsets.
#[test]
fn a_database_is_closed_while_another_reads_through_the_same_cache() {
    let cache = Arc::new(BlockCache::new(200 * KIB));
    let disks = [SimStorage::new(1), SimStorage::new(2)];
    let first = filled("/first", &options(&disks[0], Some(&cache), ""), KEYS);
    drop(filled("/second", &options(&disks[1], Some(&cache), ""), KEYS));
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (first, ended) = (&first, &ended);
        let reader = scope.spawn(move || {
            let mut reads = 0;
            while !ended.load(Ordering::Relaxed) || reads < 2 * KEYS {
                let number = reads % KEYS;
                let found = first.get_pinned(key(number)).expect("a get").expect("a value");
                assert_eq!(*found, *value("/first", number));
                reads += 1;
            }
        });
        for round in 0..20 {
            let second = Db::open("/second", &options(&disks[1], Some(&cache), "")).expect("open");
            for number in (round..KEYS).step_by(20) {
                let found = second.get(key(number)).expect("a get");
                assert_eq!(found.as_deref(), Some(&*value("/second", number)));
            }
            second.close().expect("a close");
            assert!(cache.usage() <= cache.capacity());
        }
        ended.store(true, Ordering::Relaxed);
        reader.join().expect("a reader");
    });
}

#[test]
fn the_limit_holds_for_all_databases_together() {
    let cache = Arc::new(BlockCache::new(100 * KIB));
    let disk = SimStorage::new(1);
    let names = ["/a", "/b", "/c"];
    let databases = names.map(|name| filled(name, &options(&disk, Some(&cache), ""), KEYS));
    for (name, db) in names.iter().zip(&databases) {
        for number in 0..KEYS {
            assert_eq!(db.get(key(number)).expect("a get").as_deref(), Some(&*value(name, number)));
            assert!(cache.usage() <= cache.capacity());
        }
        let usage = db.property_int_value("rocksdb.block-cache-usage").expect("a property");
        assert_eq!(usage, Some(cache.usage() as u64));
    }
}
