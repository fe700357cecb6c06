//! Tests which range deletions readers see, and when.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::thread;

use fastrand::Rng;
use tailwater_format::Comparator;
use tailwater_format::comparator::CustomComparator;
use tailwater_format::key::{MAX_SEQUENCE, Sequence, ValueType};

use super::{Counting, rounds};
use crate::memtable::{Account, Error, MemTable};
use crate::range_tombstone::FragmentedRangeTombstones;

#[test]
fn without_range_deletions_nothing_is_covered() {
    let memtable = MemTable::new(Comparator::Bytewise, None, Account::default());
    memtable.add(1, ValueType::Deletion, b"a", b"").unwrap();
    assert!(memtable.tombstones().is_none());
    assert_eq!(memtable.covering_sequence(b"a", MAX_SEQUENCE), None);
}

#[test]
fn every_range_deletion_applies_once_added() {
    let base = fastrand::u64(..);
    for round in 0..rounds(50, 2) {
        let seed = base.wrapping_add(round as u64);
        println!("seed {seed}");
        let mut random = Rng::with_seed(seed);
        let memtable = MemTable::new(Comparator::Bytewise, None, Account::default());
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
            let layers = memtable.tombstones().unwrap();
            let fragments = FragmentedRangeTombstones::build(memtable.comparator(), layers.iter());
            assert_eq!(fragments.covering_sequence(&[key], snapshot), expected);
        }
        assert_eq!(memtable.counters().range_deletions, 29);
        assert_eq!(memtable.counters().sequences, Some((1, 29)));
    }
}

#[test]
fn tombstones_held_by_a_reader_do_not_change() {
    let memtable = MemTable::new(Comparator::Bytewise, None, Account::default());
    let before = memtable.memory_usage();
    memtable.add(1, ValueType::RangeDeletion, b"a", b"m").unwrap();
    assert!(memtable.memory_usage() > before);
    let first = memtable.tombstones().unwrap();
    assert!(Arc::ptr_eq(&first, &memtable.tombstones().unwrap()));
    memtable.add(2, ValueType::RangeDeletion, b"c", b"z").unwrap();
    assert_eq!(first.covering(b"p", MAX_SEQUENCE), None);
    assert_eq!(memtable.tombstones().unwrap().covering(b"p", MAX_SEQUENCE), Some(2));
    assert!(!memtable.is_empty());
}

/// Adds `count` range deletions, each of which covers all earlier ones, and reads after each
/// addition. Returns the average number of comparisons per range deletion, including those of the
/// reads, and the average memory per range deletion in bytes.
fn work_for_each(count: u32) -> (u64, u64) {
    let counting = Arc::<Counting>::default();
    let comparator = Comparator::Custom(Arc::clone(&counting) as Arc<dyn CustomComparator>);
    let memtable = MemTable::new(comparator, None, Account::default());
    let key = |number: u32| number.to_be_bytes();
    for number in 0..count {
        let (start, end) = (key(count - number), key(count + 1 + number));
        let sequence = Sequence::from(number) + 1;
        memtable.add(sequence, ValueType::RangeDeletion, &start, &end).unwrap();
        assert_eq!(memtable.covering_sequence(&start, MAX_SEQUENCE), Some(sequence));
        assert_eq!(memtable.covering_sequence(&key(count), 1), Some(1));
        assert_eq!(memtable.covering_sequence(&key(0), MAX_SEQUENCE), None);
    }
    let each = |total: u64| total / u64::from(count);
    (each(counting.0.load(Relaxed)), each(memtable.memory_usage() as u64))
}

/// Regression test: each addition of a range deletion fragmented all range deletions of the
/// memtable again. The memory of the fragments grew with the square of the number of range
/// deletions.
#[test]
fn work_and_memory_per_overlapping_range_deletion_stay_bounded() {
    let [few, many] = [500, 8000].map(work_for_each);
    assert!(few.0 < 300 && many.0 < 2 * few.0, "{few:?} and {many:?}: comparisons for each");
    assert!(few.1 < 400 && many.1 < 2 * few.1, "{few:?} and {many:?}: bytes for each");
}

#[test]
fn the_same_range_deletion_is_not_added_twice() {
    let memtable = MemTable::new(Comparator::Bytewise, None, Account::default());
    memtable.add(1, ValueType::RangeDeletion, b"a", b"m").unwrap();
    let again = memtable.add(1, ValueType::RangeDeletion, b"a", b"z");
    assert_eq!(again, Err(Error::Duplicate));
    assert_eq!(memtable.covering_sequence(b"p", MAX_SEQUENCE), None);
    assert_eq!(memtable.counters().entries, 1);
}

#[test]
fn readers_see_the_range_deletions_below_the_published_sequence() {
    let last = rounds(2000, 40) as Sequence;
    let memtable = MemTable::new(Comparator::Bytewise, None, Account::default());
    let published = AtomicU64::new(0);
    let key_of = |sequence: Sequence| (sequence % 16) as u8;
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let snapshot = published.load(Acquire);
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
            published.store(sequence, Release);
        }
    });
}
