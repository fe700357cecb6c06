//! Eviction order and capacity.

use super::*;

#[test]
fn the_first_value_of_a_key_is_kept() {
    let cache = cache_of(8);
    assert!(!hit(&cache, key(1, 1)));
    let first = put(&cache, key(1, 1), Priority::Low);
    let second = cache.insert(key(1, 1), Block::new(key(1, 1), 2), 100, Priority::High);
    assert_eq!(outcome(&second), "present");
    assert!(Arc::ptr_eq(&first, &second.into_cached()));
    assert!(hit(&cache, key(1, 1)));
    assert_eq!((cache.entries(), cache.usage(), first.charge()), (1, UNIT, UNIT));
}

#[test]
fn a_value_larger_than_the_cache_is_returned_uncached() {
    let cache = cache_of(8);
    for block in 0..8 {
        put(&cache, key(1, block), Priority::Low);
    }
    let refused = cache.insert(key(2, 0), Block::new(key(2, 0), 0), 1 << 20, Priority::High);
    assert_eq!(outcome(&refused), "standalone");
    let refused = refused.into_cached();
    refused.verify(key(2, 0));
    assert_eq!((refused.charge(), cache.entries(), cache.usage()), (0, 8, 8 * UNIT));

    let none = Cache::with_shards(0, 1);
    let refused = none.insert(key(2, 0), Block::new(key(2, 0), 0), 0, Priority::High);
    assert_eq!(outcome(&refused), "standalone");
}

#[test]
fn hit_entries_survive_a_scan_as_large_as_the_cache() {
    let cache = cache_of(64);
    for block in 0..64 {
        put(&cache, key(1, block), Priority::Low);
    }
    assert!((0..32).all(|block| hit(&cache, key(1, block))));
    for block in 0..64 {
        put(&cache, key(2, block), Priority::Low);
    }
    let survivors = (0..32).filter(|&block| is_resident(&cache, key(1, block))).count();
    assert_eq!(survivors, 32, "a scan evicted hot blocks");
    let others = (32..64).filter(|&block| is_resident(&cache, key(1, block))).count();
    assert_eq!(others, 0, "blocks that were never hit outlived the scan");

    assert!((0..32).all(|block| hit(&cache, key(1, block))));
    // The 32 hot entries are hit from time to time, so they must survive a scan of any length.
    for block in 0..5000 {
        put(&cache, key(3, block), Priority::Low);
        if block % 16 == 0 {
            assert!((0..32).all(|block| hit(&cache, key(1, block))), "lost at {block}");
        }
    }
    // Once the 32 hot entries are no longer hit, inserts evict them.
    for block in 0..300 {
        put(&cache, key(4, block), Priority::Low);
    }
    let survivors = (0..32).filter(|&block| is_resident(&cache, key(1, block))).count();
    assert_eq!(survivors, 0, "blocks that were not hit again are still there");
}

#[test]
fn a_new_entry_stays_for_a_whole_round() {
    let cache = cache_of(32);
    for block in 0..32 {
        put(&cache, key(1, block), Priority::Low);
    }
    for block in 0..500 {
        put(&cache, key(2, block), Priority::Low);
        let young = (block.saturating_sub(25)..=block).find(|&b| !is_resident(&cache, key(2, b)));
        assert_eq!(young, None, "evicted early, at {block}");
    }
}

#[test]
fn lower_priorities_are_evicted_first() {
    for touched in [false, true] {
        let cache = cache_of(60);
        let all = [Priority::Low, Priority::High];
        for block in 0..60 {
            put(&cache, key(1, block), all[block as usize % 2]);
        }
        if touched {
            assert!((0..60).all(|block| hit(&cache, key(1, block))));
        }
        let left = |rest: u64| {
            (0..30).filter(|block| is_resident(&cache, key(1, block * 2 + rest))).count()
        };
        let mut fresh = 0;
        while left(1) == 30 {
            put(&cache, key(2, fresh), Priority::Low);
            fresh += 1;
            assert!(left(1) == 30 || left(0) == 0, "an index block went before a data block");
            assert!(fresh < 10_000, "index blocks are never evicted");
        }
    }
}

#[test]
fn pinned_entries_stay_and_a_cache_full_of_them_refuses_inserts() {
    let cache = cache_of(16);
    let pinned: Vec<_> = (0..16).map(|block| put(&cache, key(1, block), Priority::Low)).collect();
    let room = cache.capacity() - cache.usage();
    assert!(room < UNIT);
    assert_eq!(cache.pinned_usage(), 16 * UNIT);
    for attempt in 0..20 {
        let refused = cache.insert(key(2, 0), Block::new(key(2, 0), 0), UNIT, Priority::High);
        assert_eq!(outcome(&refused), "standalone", "attempt {attempt}");
    }
    assert!((0..16).all(|block| is_resident(&cache, key(1, block))));
    drop(pinned);
    assert_eq!(cache.pinned_usage(), 0);
    put(&cache, key(2, 0), Priority::Low);
}

#[test]
fn an_erased_value_stays_charged_while_it_is_held() {
    let cache = cache_of(16);
    let held = put(&cache, key(1, 0), Priority::Low);
    assert!(cache.erase(key(1, 0)) && !cache.erase(key(1, 0)));
    settle(&cache);
    assert!(!is_resident(&cache, key(1, 0)));
    held.verify(key(1, 0));
    assert_eq!((cache.entries(), cache.usage(), cache.pinned_usage()), (0, UNIT, UNIT));

    // While the erased value is pinned, another value can be inserted for the key.
    put(&cache, key(1, 0), Priority::Low);
    assert_eq!(cache.usage(), 2 * UNIT);
    drop(held);
    assert_eq!((cache.usage(), cache.pinned_usage()), (UNIT, 0));
}

#[test]
fn an_erased_value_lives_as_long_as_a_guard_that_found_it() {
    let alive = Arc::new(AtomicUsize::new(0));
    let cache = cache_of(16);
    let block = Block::counted(key(1, 0), 0, &alive);
    drop(cache.insert(key(1, 0), block, UNIT - OVERHEAD, Priority::Low));
    let guard = pin();
    let seen = cache.lookup(key(1, 0), &guard).expect("just inserted");
    assert!(cache.erase(key(1, 0)));
    cache.collect();
    seen.verify(key(1, 0));
    let counts = (alive.load(Ordering::Relaxed), cache.usage(), cache.unlinked_usage());
    assert_eq!(counts, (1, UNIT, UNIT));
    assert!(cache.lookup(key(1, 0), &guard).is_none());
    drop(guard);
    settle(&cache);
    assert_eq!((alive.load(Ordering::Relaxed), cache.usage()), (0, 0));
}

#[test]
fn borrowed_and_counted_values_outlive_the_cache() {
    let alive = Arc::new(AtomicUsize::new(0));
    let guard = pin();
    let cache = cache_of(16);
    let insert = |block: u64| {
        let value = Block::counted(key(1, block), 0, &alive);
        cache.insert(key(1, block), value, 0, Priority::Low).into_cached()
    };
    let held = insert(0);
    drop(insert(1));
    let seen = cache.lookup(key(1, 1), &guard).expect("just inserted");
    drop(cache);
    crate::epoch::collect_unowned();
    seen.verify(key(1, 1));
    held.verify(key(1, 0));
    drop(guard);
    let start = Instant::now();
    while alive.load(Ordering::Relaxed) > 1 {
        crate::epoch::collect_unowned();
        assert!(start.elapsed() < Duration::from_secs(30), "the cache's values leak");
    }
    drop(held);
    assert_eq!(alive.load(Ordering::Relaxed), 0);
}

#[test]
fn lowering_the_capacity_evicts_cold_entries_at_once() {
    let capacity = 400 * UNIT;
    let cache = Cache::with_shards(capacity, 4);
    for block in 0..380 {
        put(&cache, key(1, block), Priority::Low);
    }
    assert!((0..80).all(|block| hit(&cache, key(1, block))));
    settle(&cache);
    cache.set_capacity(150 * UNIT);
    settle(&cache);
    let wanted = 150 * UNIT * 63 / 64;
    assert!(cache.usage() <= wanted && cache.usage() > wanted - 5 * UNIT, "{cache:?}");
    let hot = (0..80).filter(|&block| is_resident(&cache, key(1, block))).count();
    assert_eq!(hot, 80, "hot blocks were evicted before cold ones");

    let held = put(&cache, key(2, 0), Priority::Low);
    cache.set_capacity(0);
    settle(&cache);
    assert_eq!((cache.entries(), cache.usage(), cache.pinned_usage()), (1, UNIT, UNIT));
    drop(held);
    cache.set_capacity(capacity);
    for block in 0..300 {
        put(&cache, key(3, block), Priority::Low);
    }
    assert_eq!(cache.entries(), 301);
}

#[test]
fn entries_can_be_erased_and_listed_by_file() {
    let cache = Cache::with_shards(1 << 20, 4);
    for block in 0..100 {
        put(&cache, key(7, block), Priority::Low);
        put(&cache, key(8, block), if block < 10 { Priority::High } else { Priority::Low });
    }
    assert!([3, 30].iter().all(|&block| hit(&cache, key(8, block))));
    assert!(is_resident(&cache, key(8, 50)));
    assert_eq!(cache.erase_file(7), 100);
    assert_eq!((cache.erase_file(7), entries_of(&cache, 7).len()), (0, 0));
    settle(&cache);
    assert_eq!((cache.entries(), cache.usage()), (100, 100 * UNIT));
    let entries = entries_of(&cache, 8);
    for (block, found) in (0..).zip(&entries) {
        let (priority, rounds) = match (block < 10, [3, 30].contains(&block)) {
            (true, false) => (Priority::High, 2),
            (true, true) => (Priority::High, 5),
            (false, false) => (Priority::Low, 1),
            (false, true) => (Priority::Low, 4),
        };
        let was_hit = [3, 30].contains(&block);
        assert_eq!(*found, (key(8, block), priority, was_hit, rounds));
    }
    assert_eq!(entries.len(), 100);
    // New entries get the ring slots that were freed above.
    for block in 0..100 {
        put(&cache, key(9, block), Priority::Low);
    }
    assert_eq!(entries_of(&cache, 9).len(), 100);
}

#[test]
fn a_block_larger_than_a_shards_share_is_admitted() {
    let cache = Cache::new(64 << 20);
    let large = 8 << 20;
    for file in 0..7 {
        let block = Block::new(key(file, 0), 0);
        let inserted = cache.insert(key(file, 0), block, large, Priority::Low);
        assert_eq!(outcome(&inserted), "admitted", "block {file}");
    }
    assert_eq!(cache.usage(), 7 * (large + OVERHEAD));
    // The cache is full, so each further insert succeeds only if it evicts one of the entries
    // inserted above. That entry may be in another shard than the new one.
    for file in 7..100 {
        patiently(&cache, || {
            let block = Block::new(key(file, 0), 0);
            let inserted = cache.insert(key(file, 0), block, large, Priority::Low);
            (outcome(&inserted) == "admitted").then_some(())
        });
    }
}

#[test]
fn a_growing_table_loses_nothing() {
    let cache = Cache::with_shards(1 << 30, 1);
    for block in 0..50_000 {
        drop(cache.insert(key(1, block), Block::new(key(1, block), 0), 0, Priority::Low));
    }
    assert!((0..50_000).all(|block| hit(&cache, key(1, block))));
    assert!((50_000..60_000).all(|block| !hit(&cache, key(1, block))));
    assert_eq!((cache.entries(), cache.usage()), (50_000, 50_000 * OVERHEAD));
}

#[test]
fn inserts_use_the_headroom_while_a_reader_delays_reclamation() {
    let cache = Cache::with_shards(640 * UNIT, 1);
    for block in 0..1000 {
        put(&cache, key(1, block), Priority::Low);
    }
    assert_eq!(cache.usage(), 630 * UNIT, "a 64th is kept free");
    let guard = pin();
    let insert = |block: u64| {
        let block_key = key(2, block);
        cache.insert(block_key, Block::new(block_key, 0), UNIT - OVERHEAD, Priority::Low)
    };
    assert!((0..10).all(|block| outcome(&insert(block)) == "admitted"));
    assert_eq!(outcome(&insert(10)), "standalone");
    assert_eq!((cache.usage(), cache.unlinked_usage()), (640 * UNIT, 10 * UNIT));
    drop(guard);
    settle(&cache);
    assert_eq!(outcome(&insert(11)), "admitted");
}

#[test]
fn an_insert_scans_a_bounded_number_of_entries() {
    let cache = cache_of(2000);
    for block in 0..2000 {
        put(&cache, key(1, block), Priority::Low);
    }
    assert!((0..2000).all(|block| hit(&cache, key(1, block))));
    put(&cache, key(2, 0), Priority::Low);
    let entries = entries_of(&cache, 1);
    let cooled = entries.iter().filter(|(.., rounds)| *rounds < 4).count();
    assert_eq!(entries.len(), 1999);
    assert!((200..=256).contains(&cooled), "the hand cooled {cooled}");
}

#[test]
fn giving_back_memory_evicts_the_coldest_whole_regions() {
    let entry = Cache::<usize>::ENTRY_OVERHEAD + 100;
    let (regions, each) = (8, 32);
    // 1/64 of the capacity is headroom, so the capacity is larger than all entries by the factor
    // 64/63.
    let cache = Cache::<usize>::with_shards(regions * each * entry * 64 / 63 + entry, 4);
    let region = |number: usize| number % regions;
    let at = |number: usize| key(1, number as u64);
    let all = 0..regions * each;
    let held = cache.insert(at(3), REGION * 3, 100, Priority::Low).into_cached();
    for number in all.clone() {
        cache.insert(at(number), REGION * region(number) + number, 100, Priority::Low);
    }
    // Regions 5 and 6 have no hits and must be evicted. Region 3 has no hits either, but stays
    // because one of its entries is pinned.
    let is_cold = |number: usize| region(number) == 5 || region(number) == 6;
    for number in all.clone().filter(|&number| !is_cold(number) && region(number) != 3) {
        assert!(cache.lookup(at(number), &pin()).is_some());
    }
    let (capacity, two_regions) = (cache.capacity(), 2 * each * entry);
    // The capacity is lowered by less than two regions, but whole regions are evicted.
    cache.give_back(capacity - two_regions + 5 * entry, |&address| address);
    // A reader of another test in this process may delay the freeing.
    while cache.unlinked_usage() > 0 {
        std::thread::yield_now();
        cache.collect();
    }
    assert!(cache.usage() <= cache.capacity() && cache.capacity() < capacity);
    for number in all {
        assert_eq!(cache.peek(at(number), &pin()).is_some(), !is_cold(number), "{number}");
    }
    drop(held);
}

#[test]
fn a_small_hot_region_stays_when_memory_is_given_back() {
    let entry = Cache::<usize>::ENTRY_OVERHEAD + 100;
    let cache = Cache::<usize>::with_shards(100 * entry * 64 / 63 + entry, 1);
    // One region holds only the hot entry, and another holds all cold entries.
    for number in 0..100 {
        let address = if number == 0 { REGION } else { REGION * 2 };
        cache.insert(key(1, number), address, 100, Priority::Low);
    }
    assert!(cache.lookup(key(1, 0), &pin()).is_some());
    cache.give_back(cache.capacity() - 10 * entry, |&address| address);
    assert!(cache.peek(key(1, 0), &pin()).is_some());
    assert!((1..100).all(|number| cache.peek(key(1, number), &pin()).is_none()));
}

#[test]
fn chilled_entries_are_evicted_before_all_others() {
    let cache = cache_of(64);
    let all = 0..60;
    for block in all.clone() {
        put(&cache, key(1, block), Priority::Low);
    }
    assert!(all.clone().all(|block| hit(&cache, key(1, block))));
    all.clone().filter(|block| block % 2 == 0).for_each(|block| cache.chill(key(1, block)));
    assert!(all.clone().all(|block| is_resident(&cache, key(1, block))), "it is found as before");
    for block in 0..30 {
        put(&cache, key(2, block), Priority::Low);
        cache.warm(key(2, block));
        assert_eq!(cache.was_hit(key(2, block)), Some(false), "nobody read it");
    }
    let stayed: Vec<_> = all.filter(|&block| is_resident(&cache, key(1, block))).collect();
    assert!(stayed.iter().filter(|block| *block % 2 == 1).count() == 30, "{stayed:?}");
    assert!((0..30).all(|block| is_resident(&cache, key(2, block))));
}

#[test]
fn memory_outside_the_cache_is_charged_to_it() {
    let cache = cache_of(16);
    for block in 0..16 {
        put(&cache, key(1, block), Priority::Low);
    }
    let charge = cache.charge(8 * UNIT).expect("a cache that is not strict");
    assert_eq!(charge.bytes(), 8 * UNIT);
    settle(&cache);
    assert!(cache.entries() < 10 && cache.usage() <= cache.capacity(), "{cache:?}");
    assert_eq!(cache.pinned_usage(), 8 * UNIT);
    // What does not fit is charged nevertheless, unless the cache is strict.
    let more = [cache.charge(1 << 20), cache.charge_without_lock(1 << 20)];
    assert!(more.iter().all(Option::is_some) && cache.usage() > 2 << 20);
    drop(more);
    cache.set_strict(true);
    assert!(cache.charge(1 << 20).is_none() && cache.charge_without_lock(1 << 20).is_none());
    drop(charge);
    settle(&cache);
    assert_eq!((cache.usage(), cache.entries()), (0, 0));
}

#[test]
fn a_strict_cache_evicts_everything_before_it_refuses() {
    let cache = Cache::with_shards(64 * UNIT, 8);
    cache.set_strict(true);
    for block in 0..200 {
        put(&cache, key(1, block), Priority::Low);
    }
    let is_kept = |block| is_resident(&cache, key(1, block));
    assert!((0..200).filter(|&block| is_kept(block)).count() > 40);
    // An insert into one shard that needs what the others have.
    let large = key(2, 0);
    let charge = 60 * UNIT;
    let inserted = patiently(&cache, || {
        match cache.insert_or_wait(large, Block::new(large, 0), charge, Priority::Low) {
            Inserted::Admitted(cached) => Some(cached),
            Inserted::Present(_) | Inserted::Standalone(_) => None,
        }
    });
    assert!(cache.usage() <= cache.capacity());
    let other = key(2, 1);
    let refused = cache.insert_or_wait(other, Block::new(other, 0), charge, Priority::Low);
    assert_eq!(outcome(&refused), "standalone", "the first one is pinned");
    drop(inserted);
    put(&cache, key(3, 0), Priority::Low);
}
