//! Filters. Checks that arbitrary bytes can be queried as a filter, and that a built filter
//! contains every key that was added.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tailwater_format::filter::{FilterKey, FilterPolicy, FilterReader};
use tailwater_fuzz::Choices;

fuzz_target!(|input: &[u8]| {
    let (mut choices, data) = Choices::split(input);
    check_any(choices.clone(), data);
    check_built(choices.byte(), Choices::new(data));
});

/// Checks that a query for several keys returns the same results as queries for single keys, on
/// arbitrary bytes.
fn check_any(mut choices: Choices<'_>, block: &[u8]) {
    let mut strings = Vec::new();
    while !choices.is_empty() {
        strings.push(choices.string());
    }
    let keys: Vec<FilterKey<'_>> = strings.into_iter().map(FilterKey::new).collect();
    let reader = FilterReader::parse(block);
    let mut answers = vec![None; keys.len()];
    reader.may_contain_each(&keys, |place, answer| answers[place] = Some(answer));
    for (key, answer) in keys.iter().zip(answers) {
        assert_eq!(Some(reader.may_contain(key)), answer);
    }
}

fn check_built(millibits: u8, mut choices: Choices<'_>) {
    let policy = FilterPolicy::bloom(f64::from(millibits) / 2.0);
    let Some(mut builder) = policy.bloom_builder() else { return };
    let mut added = Vec::new();
    while !choices.is_empty() {
        let length = choices.below(12);
        let key = choices.bytes(length);
        if choices.flag() {
            let prefix = &key[..key.len() / 2];
            builder.add_with_prefix(key, prefix);
            added.push(prefix);
        } else {
            builder.add(key);
        }
        added.push(key);
    }
    assert!(builder.num_entries() <= added.len());
    let length = builder.block_length(builder.num_entries());
    let block = builder.finish();
    assert_eq!(block.len(), length);
    let reader = FilterReader::parse(&block);
    for key in added {
        assert!(reader.may_contain(&FilterKey::new(key)), "'{}' was added", key.escape_ascii());
    }
}
