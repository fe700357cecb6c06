//! Internal keys. Checks that a key can be split into its parts and put together again, and that
//! the order of keys is total.
#![no_main]

use std::cmp::Ordering;

use libfuzzer_sys::fuzz_target;
use tailwater_format::Comparator;
use tailwater_format::key::{ParsedKey, compare_internal, put_internal_key, split, user_key};
use tailwater_fuzz::Choices;

fuzz_target!(|input: &[u8]| {
    let (mut choices, a) = Choices::split(input);
    let (b, c) = (choices.string(), choices.string());
    for key in [a, b, c] {
        check_parts(key);
    }
    for comparator in [Comparator::Bytewise, Comparator::ReverseBytewise] {
        check_order(&comparator, [a, b, c]);
        check_separators(&comparator, a, b);
    }
});

fn check_parts(key: &[u8]) {
    if let Ok(parsed) = ParsedKey::parse(key) {
        assert_eq!(parsed.to_vec(), key);
        assert_eq!(parsed.user_key, user_key(key));
    }
    if let Some((user_key, trailer)) = split(key) {
        let mut again = Vec::new();
        put_internal_key(&mut again, user_key, trailer);
        assert_eq!(again, key);
    }
}

fn check_order(comparator: &Comparator, keys: [&[u8]; 3]) {
    let compare = |a: &[u8], b: &[u8]| compare_internal(comparator, a, b);
    let [a, b, c] = keys;
    assert_eq!(compare(a, a), Ordering::Equal);
    assert_eq!(compare(a, b), compare(b, a).reverse());
    if compare(a, b).is_le() && compare(b, c).is_le() {
        assert!(compare(a, c).is_le());
    }
}

/// Checks the keys that an index stores for a block. A separator must be at or after `start` and
/// before `limit`, a successor at or after `start`. Neither may be longer than `start`.
fn check_separators(comparator: &Comparator, start: &[u8], limit: &[u8]) {
    if comparator.compare(start, limit).is_lt() {
        let mut separator = start.to_vec();
        comparator.find_shortest_separator(&mut separator, limit);
        assert!(comparator.compare(start, &separator).is_le());
        assert!(comparator.compare(&separator, limit).is_lt());
        assert!(separator.len() <= start.len());
    }
    let mut successor = start.to_vec();
    comparator.find_short_successor(&mut successor);
    assert!(comparator.compare(start, &successor).is_le());
    assert!(successor.len() <= start.len());
}
