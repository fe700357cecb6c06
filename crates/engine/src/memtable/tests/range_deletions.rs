//! Range deletions: what readers see of them, and when.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use fastrand::Rng;
use tailwater_format::Comparator;
use tailwater_format::key::{MAX_SEQUENCE, Sequence, ValueType};

use super::rounds;
use crate::memtable::{Error, MemTable};

#[test]
fn without_range_deletions_nothing_is_covered() {
    let memtable = MemTable::new(Comparator::Bytewise);
    memtable.add(1, ValueType::Deletion, b"a", b"").unwrap();
    assert!(memtable.range_tombstones().is_none());
    assert_eq!(memtable.covering_sequence(b"a", MAX_SEQUENCE), None);
}

#[test]
fn every_range_deletion_counts_once_it_is_added() {
    let base = fastrand::u64(..);
    for round in 0..rounds(50, 2) {
        let seed = base.wrapping_add(round as u64);
        println!("seed {seed}");
        let mut random = Rng::with_seed(seed);
        let memtable = MemTable::new(Comparator::Bytewise);
        let mut added: Vec<(u8, u8, Sequence)> = Vec::new();
        for sequence in 1..30 {
            let (start, end) = (random.u8(..20), random.u8(..20));
            memtable.add(sequence, ValueType::RangeDeletion, &[start], &[end]).unwrap();
            added.push((start, end, sequence));
            let key = random.u8(..20);
            let snapshot = random.u64(..=sequence);
            let covers = |&&(start, end, at): &&(u8, u8, Sequence)| {
                (start..end).contains(&key) && at <= snapshot
            };
            let expected = added.iter().filter(covers).map(|tombstone| tombstone.2).max();
            assert_eq!(memtable.covering_sequence(&[key], snapshot), expected);
            let tombstones = memtable.range_tombstones().unwrap();
            assert_eq!(tombstones.covering_sequence(&[key], snapshot), expected);
            assert_eq!(tombstones.tombstone_count(), added.len());
        }
        assert_eq!(memtable.counters().range_deletions, 29);
        assert_eq!(memtable.counters().sequences, Some((1, 29)));
    }
}

#[test]
fn fragments_are_cut_once_for_each_change() {
    let memtable = MemTable::new(Comparator::Bytewise);
    memtable.add(1, ValueType::RangeDeletion, b"a", b"m").unwrap();
    let before = memtable.memory_usage();
    let first = memtable.range_tombstones().unwrap();
    assert!(memtable.memory_usage() > before);
    assert!(std::sync::Arc::ptr_eq(&first, &memtable.range_tombstones().unwrap()));
    memtable.add(2, ValueType::RangeDeletion, b"c", b"z").unwrap();
    assert!(!std::sync::Arc::ptr_eq(&first, &memtable.range_tombstones().unwrap()));
    assert_eq!(first.covering_sequence(b"p", MAX_SEQUENCE), None);
    assert!(!memtable.is_empty());
}

#[test]
fn the_same_range_deletion_is_not_added_twice() {
    let memtable = MemTable::new(Comparator::Bytewise);
    memtable.add(1, ValueType::RangeDeletion, b"a", b"m").unwrap();
    let again = memtable.add(1, ValueType::RangeDeletion, b"a", b"z");
    assert_eq!(again, Err(Error::Duplicate));
    assert_eq!(memtable.covering_sequence(b"p", MAX_SEQUENCE), None);
    assert_eq!(memtable.counters().entries, 1);
}

#[test]
fn readers_see_the_range_deletions_below_the_published_sequence() {
    let last = rounds(2000, 40) as Sequence;
    let memtable = MemTable::new(Comparator::Bytewise);
    let published = AtomicU64::new(0);
    let key_of = |sequence: Sequence| (sequence % 16) as u8;
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let snapshot = published.load(Ordering::Acquire);
                    for key in 0..16 {
                        let newest = (1..=snapshot).rev().take(16).find(|&at| key_of(at) == key);
                        assert_eq!(memtable.covering_sequence(&[key], snapshot), newest);
                    }
                    if snapshot == last {
                        return;
                    }
                }
            });
        }
        for sequence in 1..=last {
            let key = key_of(sequence);
            memtable.add(sequence, ValueType::RangeDeletion, &[key], &[key + 1]).unwrap();
            published.store(sequence, Ordering::Release);
        }
    });
}
