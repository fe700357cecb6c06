//! Moves a block cursor over well-formed blocks of every format, in any order. Checks that each
//! move reaches the same entry as in a list of the entries.
#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use tailwater_format::block::{Cursor, Layout, Target};
use tailwater_format::{Comparator, key};
use tailwater_fuzz::Choices;
use tailwater_fuzz::block_writer::{Shape, data_block};

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

fuzz_target!(|input: &[u8]| {
    let (moves, data) = Choices::split(input);
    let mut choices = Choices::new(data);
    let shape = Shape {
        restart_interval: choices.below(20) + 1,
        values_apart: choices.flag(),
        buckets: choices.below(40) as u16,
    };
    let entries = entries(choices);
    let block = data_block(shape, &entries);
    let layout = Layout::parse(&block).expect("the block is well formed");
    walk(moves, &block, &layout, &entries);
});

/// Returns entries in the order of their internal keys. The entries have few different user keys,
/// and several versions of some of them.
fn entries(mut choices: Choices<'_>) -> Entries {
    let mut entries = BTreeMap::new();
    while !choices.is_empty() && entries.len() < 1000 {
        let length = choices.below(12);
        let user_key = choices.bytes(length).to_vec();
        let trailer = key::pack_trailer(u64::from(choices.byte()), 1);
        let length = choices.below(20);
        // The trailer is inverted in the map's key, because the newest version of a user key must
        // come first.
        entries.insert((user_key, u64::MAX - trailer), choices.bytes(length).to_vec());
    }
    let entry = |((user_key, inverted), value): ((Vec<u8>, u64), Vec<u8>)| {
        let mut internal_key = Vec::new();
        key::put_internal_key(&mut internal_key, &user_key, u64::MAX - inverted);
        (internal_key, value)
    };
    entries.into_iter().map(entry).collect()
}

fn walk(mut choices: Choices<'_>, block: &[u8], layout: &Layout, entries: &Entries) {
    let mut cursor = Cursor::default();
    let mut place = None;
    while !choices.is_empty() {
        let moved = match choices.below(8) {
            0 => {
                place = (!entries.is_empty()).then_some(0);
                cursor.seek_to_first(block, layout)
            }
            1 => {
                place = entries.len().checked_sub(1);
                cursor.seek_to_last(block, layout)
            }
            2 => {
                let target = target(&mut choices, entries);
                let below = |entry: &(Vec<u8>, Vec<u8>)| compare(&entry.0, &target).is_lt();
                let at = entries.partition_point(below);
                place = (at < entries.len()).then_some(at);
                cursor.seek(block, layout, &sought(&target))
            }
            3 => {
                get(&mut choices, block, layout, entries);
                continue;
            }
            4 | 5 if cursor.valid() => {
                place = place.map(|at| at + 1).filter(|&at| at < entries.len());
                cursor.next(block, layout)
            }
            6 | 7 if cursor.valid() => {
                place = place.and_then(|at| at.checked_sub(1));
                cursor.previous(block, layout)
            }
            _ => continue,
        };
        assert_eq!(moved, Ok(()));
        let found = cursor.valid().then(|| (cursor.key(), cursor.value(block)));
        let expected = place.map(|at| (&entries[at].0[..], &entries[at].1[..]));
        assert_eq!(found, expected);
    }
}

/// Checks that a get of a random key, which uses the hash index if there is one, finds the newest
/// visible version of the key, or nothing if there is none.
fn get(choices: &mut Choices<'_>, block: &[u8], layout: &Layout, entries: &Entries) {
    let target = target(choices, entries);
    let user_key = key::user_key(&target);
    let expected = entries
        .iter()
        .find(|(entry, _)| compare(entry, &target).is_ge())
        .filter(|(entry, _)| key::user_key(entry) == user_key);
    let mut cursor = Cursor::default();
    assert_eq!(cursor.seek_for_get(block, layout, &sought(&target)), Ok(()));
    let found = cursor.valid() && key::user_key(cursor.key()) == user_key;
    assert_eq!(found.then(|| (cursor.key(), cursor.value(block))), expected.map(pair));
}

fn sought(internal_key: &[u8]) -> Target<'_> {
    let (user_key, trailer) = key::split(internal_key).unwrap_or((internal_key, 0));
    Target { comparator: &Comparator::Bytewise, user_key, trailer }
}

fn pair((key, value): &(Vec<u8>, Vec<u8>)) -> (&[u8], &[u8]) {
    (key, value)
}

/// Returns an internal key to seek to. Its user key is that of an existing entry, or arbitrary.
fn target(choices: &mut Choices<'_>, entries: &Entries) -> Vec<u8> {
    let mut target = Vec::new();
    let user_key = match entries.get(choices.below(entries.len() + 1)) {
        Some((entry, _)) => key::user_key(entry),
        None => choices.string(),
    };
    key::put_internal_key(&mut target, user_key, u64::from(choices.byte()) << 8 | 1);
    target
}

fn compare(a: &[u8], b: &[u8]) -> std::cmp::Ordering {
    key::compare_internal(&Comparator::Bytewise, a, b)
}
