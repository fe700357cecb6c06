//! Random operations of a single thread, after which every read method of the memtable must agree
//! with a simple model.

use std::ops::ControlFlow;

use fastrand::Rng;
use tailwater_format::Comparator;
use tailwater_format::key::{MAX_SEQUENCE, ParsedKey, Sequence, ValueType, compare_internal};

use super::{comparators, internal_key, rounds};
use crate::memtable::{Account, Counters, Cursor, Error, MemTable};

const LAST_SEQUENCE: Sequence = 60;

const TYPES: [ValueType; 4] =
    [ValueType::Value, ValueType::Deletion, ValueType::Merge, ValueType::SingleDeletion];

/// The model: entries by internal key, in the comparator's order.
struct Model {
    comparator: Comparator,
    entries: Vec<(Vec<u8>, Vec<u8>)>,
    counters: Counters,
}

impl Model {
    fn new(comparator: Comparator) -> Self {
        Self { comparator, entries: Vec::new(), counters: Counters::default() }
    }

    /// Returns the index of the first entry at or after the key.
    fn first_from(&self, internal_key: &[u8]) -> usize {
        self.entries.partition_point(|(key, _)| {
            compare_internal(&self.comparator, key, internal_key).is_lt()
        })
    }

    fn is_at(&self, index: usize, internal_key: &[u8]) -> bool {
        self.entries
            .get(index)
            .is_some_and(|(key, _)| compare_internal(&self.comparator, key, internal_key).is_eq())
    }

    fn add(&mut self, key: ParsedKey<'_>, value: &[u8]) -> Result<(), Error> {
        let internal_key = key.to_vec();
        let at = self.first_from(&internal_key);
        if self.is_at(at, &internal_key) {
            return Err(Error::Duplicate);
        }
        self.entries.insert(at, (internal_key, value.to_vec()));
        self.counters.entries += 1;
        self.counters.key_bytes += key.user_key.len() as u64;
        self.counters.value_bytes += value.len() as u64;
        if matches!(key.value_type, ValueType::Deletion | ValueType::SingleDeletion) {
            self.counters.deletions += 1;
        }
        let (low, high) = self.counters.sequences.unwrap_or((key.sequence, key.sequence));
        self.counters.sequences = Some((low.min(key.sequence), high.max(key.sequence)));
        Ok(())
    }

    fn versions(&self, user_key: &[u8], snapshot: Sequence) -> Vec<(Sequence, ValueType, &[u8])> {
        self.entries
            .iter()
            .map(|(key, value)| (ParsedKey::parse(key).unwrap(), value))
            .filter(|(key, _)| self.comparator.compare(key.user_key, user_key).is_eq())
            .filter(|(key, _)| key.sequence <= snapshot)
            .map(|(key, value)| (key.sequence, key.value_type, &value[..]))
            .collect()
    }
}

/// Returns a random key of 0 to 10 bytes. Half of the keys have a common prefix of seven bytes, so
/// that the first eight bytes of two keys may be equal, partly equal or different. Keys may contain
/// zeros.
fn random_key(random: &mut Rng) -> Vec<u8> {
    let letters = [0, 1, b'a', b'A', 0xff];
    let mut key = if random.bool() { b"prefix-".to_vec() } else { Vec::new() };
    key.extend((0..random.usize(..4)).map(|_| letters[random.usize(..letters.len())]));
    key
}

fn current<'a>(cursor: &Cursor, memtable: &'a MemTable) -> Option<(&'a [u8], &'a [u8])> {
    cursor.valid().then(|| (cursor.key(memtable), cursor.value(memtable)))
}

fn fill(random: &mut Rng, memtable: &MemTable, model: &mut Model, count: usize) {
    for _ in 0..count {
        let user_key = &random_key(random)[..];
        let sequence = random.u64(..=LAST_SEQUENCE);
        let value_type = TYPES[random.usize(..TYPES.len())];
        let value = vec![random.u8(..); random.usize(..40)];
        let expected = model.add(ParsedKey { user_key, sequence, value_type }, &value);
        assert_eq!(memtable.add(sequence, value_type, user_key, &value), expected);
    }
}

/// Runs `test` with randomly filled memtables of every comparator. As long as `test` returns
/// `Continue`, adds three random entries and runs `test` again with the same memtable.
fn with_filled_memtables(mut test: impl FnMut(&mut Rng, &MemTable, &Model) -> ControlFlow<()>) {
    let base = fastrand::u64(..);
    for round in 0..rounds(60, 2) {
        let seed = base.wrapping_add(round as u64);
        for comparator in comparators() {
            println!("seed {seed} comparator {}", comparator.name());
            let mut random = Rng::with_seed(seed);
            let memtable = MemTable::new(comparator.clone(), None, Account::default());
            let mut model = Model::new(comparator);
            let count = random.usize(..rounds(500, 40));
            fill(&mut random, &memtable, &mut model, count);
            while test(&mut random, &memtable, &model).is_continue() {
                fill(&mut random, &memtable, &mut model, 3);
            }
        }
    }
}

#[test]
fn cursors_agree_with_a_sorted_list() {
    with_filled_memtables(|random, memtable, model| {
        // One cursor is used for the whole test, while entries are inserted between the calls.
        // `index` is the position in the model at which the cursor must be.
        let mut cursor = Cursor::default();
        for _ in 0..rounds(300, 60) {
            let target = internal_key(
                &random_key(random),
                random.u64(..=LAST_SEQUENCE),
                TYPES[random.usize(..TYPES.len())] as u8,
            );
            let at = model.first_from(&target);
            let mut index = match random.u8(..4) {
                0 => {
                    cursor.seek(memtable, &target);
                    Some(at)
                }
                1 => {
                    cursor.seek_for_previous(memtable, &target);
                    if model.is_at(at, &target) { Some(at) } else { at.checked_sub(1) }
                }
                2 => {
                    cursor.seek_to_first(memtable);
                    Some(0)
                }
                _ => {
                    cursor.seek_to_last(memtable);
                    model.entries.len().checked_sub(1)
                }
            };
            for _ in 0..random.usize(..12) {
                let expected = index.and_then(|index| model.entries.get(index));
                let expected = expected.map(|(key, value)| (&key[..], &value[..]));
                assert_eq!(current(&cursor, memtable), expected);
                if expected.is_none() {
                    break;
                }
                if random.bool() {
                    cursor.next(memtable);
                    index = index.map(|index| index + 1);
                } else {
                    cursor.previous(memtable);
                    index = index.and_then(|index| index.checked_sub(1));
                }
            }
        }
        ControlFlow::Break(())
    });
}

#[test]
fn cursors_see_entries_added_between_moves() {
    let mut cursor = Cursor::default();
    let mut moves = 0;
    with_filled_memtables(|random, memtable, model| {
        if moves == 0 {
            cursor.seek_to_first(memtable);
        }
        let place = current(&cursor, memtable).map(|(key, _)| key);
        let index = place.map(|key| model.first_from(key));
        let expected = match (index, random.bool()) {
            (Some(index), true) => {
                cursor.next(memtable);
                model.entries.get(index + 1)
            }
            (Some(index), false) => {
                cursor.previous(memtable);
                index.checked_sub(1).and_then(|index| model.entries.get(index))
            }
            (None, forward) if forward => {
                cursor.seek_to_first(memtable);
                model.entries.first()
            }
            (None, _) => {
                cursor.seek_to_last(memtable);
                model.entries.last()
            }
        };
        let expected = expected.map(|(key, value)| (&key[..], &value[..]));
        assert_eq!(current(&cursor, memtable), expected);
        moves = (moves + 1) % rounds(200, 30);
        if moves == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
}

#[test]
fn versions_are_newest_first_starting_at_the_snapshot() {
    with_filled_memtables(|random, memtable, model| {
        for _ in 0..rounds(300, 40) {
            let key = random_key(random);
            let snapshot = if random.bool() { MAX_SEQUENCE } else { random.u64(..=LAST_SEQUENCE) };
            let expected = model.versions(&key, snapshot);
            let found: Vec<_> = memtable
                .versions(&key, snapshot)
                .map(|version| (version.sequence, version.value_type, version.value))
                .collect();
            assert_eq!(found, expected);
        }
        ControlFlow::Break(())
    });
}

#[test]
fn counters_and_memory_usage_include_every_entry() {
    with_filled_memtables(|_, memtable, model| {
        assert_eq!(memtable.counters(), model.counters);
        assert_eq!(memtable.is_empty(), model.entries.is_empty());
        let bytes = model.counters.key_bytes + model.counters.value_bytes;
        assert!(memtable.memory_usage() as u64 > bytes + 32 * model.counters.entries);
        ControlFlow::Break(())
    });
}

#[test]
fn sequential_and_reversed_inserts_are_found() {
    let count = rounds(20_000, 200) as u64;
    for comparator in comparators() {
        for reversed in [false, true] {
            let memtable = MemTable::new(comparator.clone(), None, Account::default());
            for number in 0..count {
                let key = if reversed { count - number } else { number }.to_be_bytes();
                memtable.add(number, ValueType::Value, &key, &key).unwrap();
            }
            let mut cursor = Cursor::default();
            cursor.seek_to_first(&memtable);
            let mut last = cursor.key(&memtable);
            for _ in 1..count {
                cursor.next(&memtable);
                assert!(compare_internal(&comparator, last, cursor.key(&memtable)).is_lt());
                last = cursor.key(&memtable);
            }
            cursor.next(&memtable);
            assert!(!cursor.valid());
        }
    }
}

#[test]
fn a_large_value_takes_little_more_than_its_size() {
    let memtable = MemTable::new(Comparator::Bytewise, None, Account::default());
    let value = vec![7; 5 << 20];
    memtable.add(1, ValueType::Value, b"large", &value).unwrap();
    assert!(memtable.memory_usage() < (5 << 20) + (64 << 10));
    let version = memtable.versions(b"large", 1).next().unwrap();
    assert_eq!(version.value, value);
}

#[test]
#[should_panic(expected = "another memtable")]
fn a_cursor_of_another_memtable_is_refused() {
    let memtable = MemTable::new(Comparator::Bytewise, None, Account::default());
    memtable.add(1, ValueType::Value, b"key", b"").unwrap();
    let mut cursor = Cursor::default();
    cursor.seek_to_first(&memtable);
    drop(memtable);
    cursor.key(&MemTable::new(Comparator::Bytewise, None, Account::default()));
}
