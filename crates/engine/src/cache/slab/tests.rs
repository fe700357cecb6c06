//! Tests of the slab allocator.

use std::collections::VecDeque;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc;
use std::thread;

use super::*;
use crate::cache::tests::seed;

/// Returns bytes that depend on `seed`, so that the values of different slots can be distinguished.
fn pattern(length: usize, seed: usize) -> Vec<u8> {
    (0..length).map(|at| (at ^ seed) as u8).collect()
}

#[test]
fn slot_sizes_fit_with_little_waste() {
    let mut last = 0;
    for index in 0..SIZES {
        let slot = slot_bytes(index);
        assert!(slot > last && slot.is_multiple_of(32), "{slot} after {last}");
        assert_eq!((size_index(slot), size_index(last + 1)), (Some(index), Some(index)));
        assert!(index == 0 || (slot - last) * STEPS <= slot, "{slot} after {last}");
        last = slot;
    }
    assert_eq!((last, slot_bytes(0)), (SLOT_MAX, SLOT_MIN));
    assert_eq!((size_index(0), size_index(SLOT_MAX + 1)), (Some(0), None));
    assert_eq!(size_index(usize::MAX), None);
}

#[test]
fn slots_keep_their_bytes_while_others_are_allocated_and_freed() {
    let mut random = fastrand::Rng::with_seed(seed());
    let slabs = Slabs::new();
    let mut held: Vec<(SlabBytes, Vec<u8>)> = Vec::new();
    for turn in 0..20_000 {
        if held.len() < 400 && random.u8(..) < 160 {
            let exponent = random.u32(0..=18);
            let length = random.usize(0..=1 << exponent);
            let bytes = pattern(length, turn);
            let copy = slabs.copy(&bytes).expect("memory");
            assert!(copy.capacity() >= length && copy.start.addr().get().is_multiple_of(32));
            held.push((copy, bytes));
        } else if !held.is_empty() {
            let (copy, bytes) = held.swap_remove(random.usize(..held.len()));
            assert!(*copy == *bytes, "turn {turn}");
        }
        if turn % 200 == 0 {
            slabs.release();
        }
    }
    // Checks that no two slots overlap.
    let mut spans: Vec<_> =
        held.iter().map(|(copy, _)| (copy.start.addr().get(), copy.capacity())).collect();
    spans.sort_unstable();
    assert!(spans.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0));
    for (copy, bytes) in held {
        assert!(*copy == *bytes);
    }
    slabs.release();
    assert_eq!(slabs.bytes(), 0);
}

#[test]
fn freed_slots_are_reused_before_a_region_is_added() {
    let mut random = fastrand::Rng::with_seed(seed());
    let slabs = Slabs::new();
    let block = pattern(4000, 7);
    let per_region = REGION / slot_bytes(size_index(block.len()).unwrap());
    let mut held: Vec<_> = (0..per_region).map(|_| slabs.copy(&block).unwrap()).collect();
    for _ in 0..3 * per_region {
        held.swap_remove(random.usize(..held.len()));
        held.push(slabs.copy(&block).unwrap());
    }
    assert_eq!(slabs.bytes(), REGION);
    held.push(slabs.copy(&block).unwrap());
    assert_eq!(slabs.bytes(), 2 * REGION);
    // A slot of another size needs a region of its own. It gets the one that was just released.
    let region = held[per_region].start.addr().get() / REGION;
    held.truncate(per_region);
    slabs.release();
    assert_eq!(slabs.bytes(), REGION);
    let other = slabs.copy(&pattern(100_000, 1)).unwrap();
    assert_eq!((slabs.bytes(), other.start.addr().get() / REGION), (2 * REGION, region));
    assert!(held.iter().all(|copy| **copy == *block) && *other == *pattern(100_000, 1));
}

#[test]
fn an_empty_region_is_returned_to_the_system() {
    let slabs = Slabs::new();
    let first = slabs.copy(&pattern(SLOT_MAX, 3)).unwrap();
    let start = first.start;
    drop(first);
    slabs.release();
    assert_eq!(slabs.bytes(), 0);
    let space = slabs.space.lock();
    assert!(space.empty.contains_key(&start.addr().get()));
    unpoison(start, SLOT_MAX);
    // SAFETY: the address is inside a chunk, and no thread writes to it.
    let bytes = unsafe { std::slice::from_raw_parts(start.as_ptr(), SLOT_MAX) };
    assert!(bytes.iter().all(|&byte| byte == 0));
}

#[test]
fn every_dropped_slot_is_reclaimed() {
    let slabs = Slabs::new();
    let block = pattern(4000, 7);
    let per_region = REGION / slot_bytes(size_index(block.len()).unwrap());
    let mut held: Vec<_> = (0..per_region).map(|_| slabs.copy(&block).unwrap()).collect();
    // The next call of `copy` reclaims fewer slots than are dropped here, so some dropped slots are
    // left.
    held.truncate(per_region - PIECE - 8);
    held.push(slabs.copy(&block).unwrap());
    drop(held);
    slabs.release();
    assert_eq!(slabs.bytes(), 0);
}

#[test]
fn trimming_a_sparse_region_zeroes_only_its_free_pages() {
    let slabs = Slabs::new();
    let block = |seed| pattern(5000, seed);
    let mut held: Vec<_> = (0..150).map(|seed| (seed, slabs.copy(&block(seed)).unwrap())).collect();
    let starts: Vec<_> = held.iter().map(|(_, copy)| copy.start).collect();
    held.retain(|(seed, _)| seed % 50 == 0);
    slabs.release();
    assert_eq!(slabs.bytes(), REGION);
    for (seed, start) in starts.iter().enumerate() {
        unpoison(*start, 5000);
        // SAFETY: the address is inside a chunk, and no thread writes to it.
        let bytes = unsafe { std::slice::from_raw_parts(start.as_ptr(), 5000) };
        match seed % 50 {
            0 => assert!(bytes == block(seed), "block {seed}"),
            // The other dropped blocks are not checked, because they may share a page with a block
            // that is still held.
            15..=35 => assert!(bytes.iter().all(|&byte| byte == 0), "block {seed}"),
            _ => {}
        }
    }
    // The free slots of the trimmed region are reused.
    held.extend((200..340).map(|seed| (seed, slabs.copy(&block(seed)).unwrap())));
    assert_eq!(slabs.bytes(), REGION);
    assert!(held.iter().all(|(seed, copy)| **copy == block(*seed)));
}

#[test]
fn regions_move_to_another_slot_size_when_block_sizes_change() {
    let slabs = Slabs::new();
    let mut held: VecDeque<_> = (0..2000).map(|_| slabs.copy(&pattern(4000, 1)).unwrap()).collect();
    let before = slabs.bytes();
    for _ in 0..500 {
        held.drain(..4);
        held.push_back(slabs.copy(&pattern(16_000, 2)).unwrap());
    }
    assert!(slabs.bytes() <= before + 2 * REGION, "{} after {before}", slabs.bytes());
}

#[test]
fn bytes_outlive_the_slabs() {
    let slabs = Slabs::new();
    let copy = slabs.copy(&pattern(5000, 9)).unwrap();
    drop(slabs);
    assert!(*copy == *pattern(5000, 9));
}

#[test]
#[should_panic(expected = "being trimmed is open")]
fn no_slot_is_taken_from_a_region_being_trimmed() {
    let slabs = Slabs::new();
    let kept = slabs.copy(&pattern(5000, 1)).unwrap();
    let dropped: Vec<_> = (0..100).map(|seed| slabs.copy(&pattern(5000, seed)).unwrap()).collect();
    drop(dropped);
    let size = &slabs.sizes[kept.index as usize];
    while slabs.reclaim(size, |_| ()).1 {}
    let mut regions = size.regions.lock();
    let address = *regions.open.first().unwrap();
    assert!(regions.begin_to_trim(address, size.slot).is_some());
    regions.open.insert(address);
    regions.take(size.slot);
}

#[test]
#[cfg(debug_assertions)]
fn dropping_takes_no_lock() {
    let slabs = Slabs::new();
    let copy = slabs.copy(&pattern(5000, 9)).unwrap();
    let locks = tailwater_io::sync::locks_taken(|| drop(copy));
    assert!(locks.is_empty(), "{locks:?}");
}

#[test]
fn slots_dropped_by_other_threads_are_all_reclaimed() {
    let slabs = Slabs::new();
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                slabs.release();
                thread::yield_now();
            }
        });
        let (senders, receivers): (Vec<_>, Vec<_>) =
            (0..3).map(|_| mpsc::sync_channel::<(SlabBytes, usize)>(64)).unzip();
        let droppers: Vec<_> = receivers
            .into_iter()
            .map(|receiver| {
                scope.spawn(move || {
                    for (copy, seed) in receiver {
                        assert!(*copy == *pattern(copy.len(), seed));
                    }
                })
            })
            .collect();
        let takers: Vec<_> = (0..3)
            .map(|taker| {
                let (slabs, senders) = (&slabs, senders.clone());
                scope.spawn(move || {
                    for turn in 0..4000 {
                        let length = [4000, 4100, 5000, 60_000][turn % 4];
                        let copy = slabs.copy(&pattern(length, turn)).unwrap();
                        senders[(turn + taker) % 3].send((copy, turn)).unwrap();
                    }
                })
            })
            .collect();
        drop(senders);
        takers.into_iter().chain(droppers).for_each(|thread| thread.join().unwrap());
        ended.store(true, Ordering::Relaxed);
    });
    slabs.release();
    assert_eq!(slabs.bytes(), 0);
}

#[test]
fn spare_memory_is_what_held_values_and_returned_pages_leave() {
    let slabs = Slabs::new();
    assert_eq!(slabs.spare_bytes(), 0);
    let mut held: Vec<SlabBytes> =
        (0..512).map(|_| slabs.copy(&[0; 4096]).expect("memory")).collect();
    assert_eq!(slabs.spare_bytes(), 0, "slots that were never used have no memory");
    // Dropped slots are spare, whether they have been reclaimed or not.
    held.truncate(500);
    assert_eq!(slabs.spare_bytes(), 12 * 4096);
    slabs.release();
    assert_eq!(slabs.spare_bytes(), 12 * 4096, "too few to be returned to the system");
    // An empty region is returned to the system, and so are the pages of a sparse one.
    held.truncate(100);
    slabs.release();
    assert_eq!(slabs.spare_bytes(), 0);
}

#[test]
fn spare_memory_includes_the_parts_of_pages_that_cannot_be_returned() {
    let slabs = Slabs::new();
    let slot = slot_bytes(size_index(3900).unwrap());
    let all = REGION / slot;
    let mut held: Vec<SlabBytes> =
        (0..all).map(|_| slabs.copy(&[0; 3900]).expect("memory")).collect();
    assert_eq!(slabs.spare_bytes(), 0);
    // Every third slot is dropped. No whole page is free between two others.
    let mut number = 0;
    held.retain(|_| {
        number += 1;
        number % 3 > 0
    });
    slabs.release();
    assert_eq!(slabs.spare_bytes(), (all - held.len()) * slot);
    // The memory of a region that is used again is not counted twice.
    held.extend((held.len()..all).map(|_| slabs.copy(&[0; 3900]).expect("memory")));
    assert_eq!(slabs.spare_bytes(), 0);
    drop(held);
    slabs.release();
    assert_eq!(slabs.spare_bytes(), 0);
}
