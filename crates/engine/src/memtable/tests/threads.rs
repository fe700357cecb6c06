//! Tests with several threads that insert and read concurrently.

use std::cmp;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use tailwater_format::Comparator;
use tailwater_format::key::{MAX_SEQUENCE, ValueType, compare_internal, user_key};

use super::{comparators, internal_key, rounds};
use crate::memtable::{Account, Cursor, Error, MemTable};

const INSERTERS: u64 = 4;

/// How the keys of the inserting threads are distributed.
#[derive(Debug, Clone, Copy)]
enum Pattern {
    /// Each inserter adds ascending keys in a key range of its own.
    Apart,
    /// All inserters add ascending keys, which interleave with each other.
    Interleaved,
    /// All inserters add keys that are randomly distributed over the same range.
    Scattered,
}

impl Pattern {
    /// Returns the key with index `number` of an inserter.
    fn key(self, inserter: u64, number: u64) -> [u8; 16] {
        let place = match self {
            Self::Apart => (inserter << 32) | number,
            Self::Interleaved => number * INSERTERS + inserter,
            // Multiplication by an odd number is a permutation of all `u64`, so all keys are
            // different.
            Self::Scattered => (number * INSERTERS + inserter).wrapping_mul(0x9e37_79b9_7f4a_7c15),
        };
        // The key is the number in hex, so its low digits are after the first eight bytes. A node
        // stores only the first eight bytes as its prefix. So both the comparison of prefixes and
        // that of whole keys are tested.
        let digits = *b"0123456789abcdef";
        let digit = |at: usize| digits[(place >> (60 - 4 * at)) as usize & 15];
        std::array::from_fn(digit)
    }
}

/// State that inserters and readers share. `added` holds the number of entries that each inserter
/// has added.
struct InsertedEntries {
    memtable: MemTable,
    added: [AtomicU64; INSERTERS as usize],
    done: AtomicBool,
}

fn insert(shared: &InsertedEntries, pattern: Pattern, inserter: u64, count: u64) {
    for number in 0..count {
        let key = pattern.key(inserter, number);
        let sequence = number * INSERTERS + inserter;
        shared.memtable.add(sequence, ValueType::Value, &key, &key).unwrap();
        shared.added[inserter as usize].store(number + 1, Ordering::Release);
    }
}

fn read(shared: &InsertedEntries, pattern: Pattern) {
    let mut cursor = Cursor::default();
    loop {
        let done = shared.done.load(Ordering::Acquire);
        let added = shared.added.each_ref().map(|added| added.load(Ordering::Acquire));
        for (inserter, &count) in (0..).zip(&added) {
            let step = (count / 20).max(1) as usize;
            for number in (0..count).rev().step_by(step) {
                let key = pattern.key(inserter, number);
                let found = shared.memtable.versions(&key, MAX_SEQUENCE).next().unwrap();
                assert_eq!(found.value, key);
                check_seeks(&mut cursor, &shared.memtable, &key);
            }
        }
        let total = added.iter().sum::<u64>();
        assert!(count_in_order(&mut cursor, shared, true) >= total);
        assert!(count_in_order(&mut cursor, shared, false) >= total);
        if done {
            return;
        }
    }
}

/// Checks seeks to positions directly before and directly after the entry of `key`. The seeks may
/// or may not find entries that are added concurrently, but must never find an entry on the wrong
/// side of `key`.
fn check_seeks(cursor: &mut Cursor, memtable: &MemTable, key: &[u8]) {
    let comparator = memtable.comparator();
    let order = |cursor: &Cursor| {
        if cursor.valid() {
            Some(comparator.compare(user_key(cursor.key(memtable)), key))
        } else {
            None
        }
    };
    let before = internal_key(key, MAX_SEQUENCE, ValueType::FOR_SEEK);
    cursor.seek_for_previous(memtable, &before);
    assert!(order(cursor).is_none_or(cmp::Ordering::is_lt));
    cursor.seek(memtable, &before);
    assert_eq!(order(cursor), Some(cmp::Ordering::Equal));
    let behind = internal_key(key, 0, 0);
    cursor.seek_for_previous(memtable, &behind);
    assert_eq!(order(cursor), Some(cmp::Ordering::Equal));
    cursor.seek(memtable, &behind);
    assert!(order(cursor).is_none_or(cmp::Ordering::is_gt));
}

/// Walks over all entries in one direction and counts them. Checks that they are in order and that
/// none is missing.
fn count_in_order(cursor: &mut Cursor, shared: &InsertedEntries, forward: bool) -> u64 {
    let memtable = &shared.memtable;
    let (mut count, mut last) = (0, None);
    if forward {
        cursor.seek_to_first(memtable)
    } else {
        cursor.seek_to_last(memtable)
    }
    while cursor.valid() {
        let key = cursor.key(memtable);
        assert_eq!(user_key(key), cursor.value(memtable));
        if let Some(last) = last {
            let (before, behind) = if forward { (last, key) } else { (key, last) };
            assert!(compare_internal(memtable.comparator(), before, behind).is_lt());
        }
        last = Some(key);
        count += 1;
        if forward { cursor.next(memtable) } else { cursor.previous(memtable) }
    }
    count
}

#[test]
fn readers_find_entries_added_by_concurrent_inserters() {
    let count = rounds(3000, 40) as u64;
    for comparator in comparators() {
        for pattern in [Pattern::Apart, Pattern::Interleaved, Pattern::Scattered] {
            println!("{} {pattern:?}", comparator.name());
            let shared = InsertedEntries {
                memtable: MemTable::new(comparator.clone(), None, Account::default()),
                added: Default::default(),
                done: AtomicBool::new(false),
            };
            thread::scope(|scope| {
                let readers: Vec<_> =
                    (0..2).map(|_| scope.spawn(|| read(&shared, pattern))).collect();
                thread::scope(|inserters| {
                    for inserter in 0..INSERTERS {
                        let shared = &shared;
                        inserters.spawn(move || insert(shared, pattern, inserter, count));
                    }
                });
                shared.done.store(true, Ordering::Release);
                for reader in readers {
                    reader.join().unwrap();
                }
            });
            let counters = shared.memtable.counters();
            assert_eq!(counters.entries, INSERTERS * count);
            assert_eq!(counters.key_bytes, INSERTERS * count * 16);
            assert_eq!(counters.sequences, Some((0, INSERTERS * count - 1)));
        }
    }
}

#[test]
fn exactly_one_inserter_of_an_entry_succeeds() {
    let count = rounds(3000, 30) as u64;
    let memtable = MemTable::new(Comparator::Bytewise, None, Account::default());
    let added = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..INSERTERS {
            scope.spawn(|| {
                for number in 0..count {
                    let key = number.to_be_bytes();
                    match memtable.add(number, ValueType::Value, &key, b"") {
                        Ok(()) => added.fetch_add(1, Ordering::Relaxed),
                        Err(error) => {
                            assert_eq!(error, Error::Duplicate);
                            0
                        }
                    };
                }
            });
        }
    });
    assert_eq!(added.into_inner(), count);
    assert_eq!(memtable.counters().entries, count);
    let mut cursor = Cursor::default();
    cursor.seek_to_first(&memtable);
    for number in 0..count {
        assert_eq!(user_key(cursor.key(&memtable)), number.to_be_bytes());
        cursor.next(&memtable);
    }
    assert!(!cursor.valid());
}
