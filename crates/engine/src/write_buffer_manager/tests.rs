//! Tests of the counts, the limits, the charge to a cache, and the end of stalls.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::*;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

fn charge(manager: &Arc<WriteBufferManager>, bytes: usize) -> MemTableCharge {
    let charge = MemTableCharge::new(Some(Arc::clone(manager)));
    charge.add(bytes);
    charge
}

fn counts(manager: &WriteBufferManager) -> (usize, usize) {
    (manager.memory_usage(), manager.mutable_memtable_memory_usage())
}

#[test]
fn memory_counts_until_it_is_freed_and_is_mutable_until_it_is_sealed() {
    let manager = Arc::new(WriteBufferManager::new(MIB, false));
    let (first, second) = (charge(&manager, 100), charge(&manager, 20));
    first.add(3);
    assert_eq!(counts(&manager), (123, 123));
    first.seal();
    assert_eq!(counts(&manager), (123, 20));
    drop(first);
    assert_eq!(counts(&manager), (20, 20));
    drop(second);
    assert_eq!(counts(&manager), (0, 0));
}

#[test]
fn a_limit_that_is_set_or_removed_later_does_not_confuse_the_counts() {
    let manager = Arc::new(WriteBufferManager::new(0, false));
    assert!(!manager.enabled());
    let charge = charge(&manager, 100);
    assert_eq!(counts(&manager), (0, 0), "without a limit, nothing is counted");
    manager.set_buffer_size(MIB);
    charge.add(5);
    assert_eq!(counts(&manager), (5, 5));
    manager.set_buffer_size(0);
    charge.add(7);
    drop(charge);
    assert_eq!(counts(&manager), (0, 0));
}

#[test]
fn range_deletions_count_what_they_add() {
    let manager = Arc::new(WriteBufferManager::new(MIB, false));
    let charge = charge(&manager, 0);
    for (bytes, counted) in [(50, 50), (40, 50), (60, 60)] {
        charge.add_tombstones(bytes);
        assert_eq!(manager.memory_usage(), counted);
    }
}

/// The limits of `WriteBufferManager::ShouldFlush` and `ShouldStall` in RocksDB.
#[test]
fn the_limits_are_those_of_rocksdb() {
    let manager = Arc::new(WriteBufferManager::new(80, true));
    let active = charge(&manager, 70);
    assert!(!manager.should_flush() && !manager.is_near_limit(), "7/8 of the limit");
    active.add(1);
    assert!(manager.should_flush() && !manager.should_stall() && manager.is_near_limit());
    active.seal();
    assert!(!manager.should_flush());
    manager.recheck_limits();
    assert!(!manager.is_near_limit());
    let next = charge(&manager, 8);
    assert!(!manager.should_stall(), "79 bytes of 80");
    next.add(1);
    assert!(manager.should_stall() && manager.is_near_limit());
    assert!(!manager.should_flush(), "most of the memory is sealed");
    next.add(31);
    assert!(manager.should_flush(), "half of the limit is mutable");
    manager.set_allow_stall(false);
    assert!(!manager.should_stall());
    manager.set_buffer_size(0);
    assert!(!manager.should_flush());
    manager.recheck_limits();
    assert!(!manager.is_near_limit());
}

#[test]
fn the_cache_is_charged_in_units_that_are_given_back_late() {
    let cache = Arc::new(BlockCache::new(4 * MIB));
    let manager = Arc::new(WriteBufferManager::with_cache(0, Arc::clone(&cache), false));
    assert!(manager.cost_to_cache() && !manager.enabled());
    let taken = || (manager.dummy_entries_in_cache_usage() / (256 * KIB), cache.usage());
    let first = charge(&manager, 1);
    assert_eq!(taken(), (1, 256 * KIB));
    let second = charge(&manager, MIB - 1);
    assert_eq!((manager.memory_usage(), taken()), (MIB, (4, MIB)));
    assert_eq!(manager.mutable_memtable_memory_usage(), 0, "counted only with a limit");
    let third = charge(&manager, 1);
    assert_eq!(taken().0, 5);
    drop((first, third));
    assert_eq!(taken().0, 5, "more than 3/4 are used");
    drop(second);
    assert_eq!(taken(), (0, 0));
}

#[test]
fn a_full_cache_is_charged_beyond_its_capacity_unless_that_is_strict() {
    let cache = Arc::new(BlockCache::new(MIB));
    let manager = Arc::new(WriteBufferManager::with_cache(64 * MIB, Arc::clone(&cache), false));
    let loose = charge(&manager, 3 * MIB);
    assert_eq!((manager.dummy_entries_in_cache_usage(), cache.usage()), (3 * MIB, 3 * MIB));
    drop(loose);
    cache.set_strict_capacity_limit(true);
    let charge = charge(&manager, 3 * MIB);
    assert_eq!(manager.dummy_entries_in_cache_usage(), MIB);
    cache.set_capacity(2 * MIB);
    charge.add(1);
    assert_eq!(manager.dummy_entries_in_cache_usage(), 2 * MIB, "the next change tries again");
    drop(charge);
    assert_eq!((manager.memory_usage(), cache.usage()), (0, 0));
}

#[test]
fn freed_memory_other_limits_and_a_wake_end_the_wait_of_a_stalled_writer() {
    let manager = Arc::new(WriteBufferManager::new(100, true));
    let long = Duration::from_secs(60);
    let stalled_until = |change: &dyn Fn()| {
        thread::scope(|scope| {
            let (stalls, begun) = mpsc::channel();
            let manager = &manager;
            let waiting = scope.spawn(move || {
                let mut stalled = manager.stall();
                assert!(manager.has_stalled_writers());
                stalls.send(()).expect("the test waits");
                stalled.wait(long)
            });
            begun.recv().expect("a stall");
            change();
            assert!(waiting.join().expect("no panic"), "woken by the change");
        });
        assert!(!manager.has_stalled_writers());
    };
    let charge = std::cell::Cell::new(Some(charge(&manager, 200)));
    stalled_until(&|| manager.wake());
    stalled_until(&|| drop(charge.take()));
    stalled_until(&|| manager.set_buffer_size(1000));
    stalled_until(&|| manager.set_allow_stall(false));
    let mut unchanged = manager.stall();
    assert!(!unchanged.wait(Duration::from_millis(1)));
}

#[test]
fn threads_that_grow_and_shrink_leave_no_trace() {
    let cache = Arc::new(BlockCache::new(64 * MIB));
    let manager = Arc::new(WriteBufferManager::with_cache(MIB, Arc::clone(&cache), false));
    thread::scope(|scope| {
        for thread in 0..4 {
            let manager = &manager;
            scope.spawn(move || {
                for round in 0..500 {
                    let charge = charge(manager, (thread + round) % 7 * 100 * KIB);
                    if round % 2 == 0 {
                        charge.seal();
                    }
                    manager.recheck_limits();
                }
            });
        }
    });
    assert_eq!((counts(&manager), cache.usage()), ((0, 0), 0));
    manager.recheck_limits();
    assert!(!manager.is_near_limit());
    let _full = charge(&manager, MIB);
    assert!(manager.is_near_limit());
}
