//! Moves an index cursor over well-formed index blocks of every format, in any order. Checks that
//! each move reaches the same entry as in a list of the entries.
#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use tailwater_format::block::{IndexCursor, IndexFormat, Layout, RestartPrefixes, Restarts};
use tailwater_format::table::{BLOCK_TRAILER_LENGTH, BlockHandle};
use tailwater_fuzz::Choices;
use tailwater_fuzz::block_writer::{IndexEntry, Shape, index_block};

fuzz_target!(|input: &[u8]| {
    let (moves, data) = Choices::split(input);
    let mut choices = Choices::new(data);
    let shape =
        Shape { restart_interval: choices.below(20) + 1, values_apart: choices.flag(), buckets: 0 };
    let format = IndexFormat { delta_values: choices.flag(), first_keys: choices.flag() };
    let entries = entries(choices, format);
    let block = index_block(shape, format, &entries);
    let layout = Layout::parse(&block).expect("the block is well formed");
    walk(moves, &block, &layout, format, &entries);
});

/// Returns index entries in the order of their keys. Their data blocks are adjacent in the file.
fn entries(mut choices: Choices<'_>, format: IndexFormat) -> Vec<IndexEntry> {
    let mut offset = choices.number(4);
    let mut sizes = BTreeMap::new();
    while !choices.is_empty() && sizes.len() < 1000 {
        let length = choices.below(12);
        let key = choices.bytes(length).to_vec();
        sizes.insert(key, choices.number(3));
    }
    let entry = |(key, size): (Vec<u8>, u64)| {
        let handle = BlockHandle { offset, size };
        offset += size + BLOCK_TRAILER_LENGTH as u64;
        let first_key = if format.first_keys { key.repeat(2) } else { Vec::new() };
        IndexEntry { key, handle, first_key }
    };
    sizes.into_iter().map(entry).collect()
}

fn walk(
    mut choices: Choices<'_>,
    block: &[u8],
    layout: &Layout,
    format: IndexFormat,
    entries: &[IndexEntry],
) {
    let mut cursor = IndexCursor::default();
    let mut place = None;
    while !choices.is_empty() {
        let moved = match choices.below(7) {
            0 => {
                place = (!entries.is_empty()).then_some(0);
                cursor.seek_to_first(block, layout, format)
            }
            1 => {
                place = entries.len().checked_sub(1);
                cursor.seek_to_last(block, layout, format)
            }
            2 => {
                let target = match entries.get(choices.below(entries.len() + 1)) {
                    Some(entry) => &entry.key,
                    None => choices.string(),
                };
                let at = entries.partition_point(|entry| &entry.key[..] < target);
                place = (at < entries.len()).then_some(at);
                let among = RestartPrefixes::build(block, layout, format.delta_values, true)
                    .map_or(Restarts::all(layout), |prefixes| prefixes.narrow(target));
                cursor.seek(block, layout, format, among, |key| key.cmp(target))
            }
            3 | 4 if cursor.valid() => {
                place = place.map(|at| at + 1).filter(|&at| at < entries.len());
                cursor.next(block, layout, format)
            }
            5 | 6 if cursor.valid() => {
                place = place.and_then(|at| at.checked_sub(1));
                cursor.previous(block, layout, format)
            }
            _ => continue,
        };
        assert_eq!(moved, Ok(()));
        let found = cursor.valid().then(|| IndexEntry {
            key: cursor.key().to_vec(),
            handle: cursor.handle(),
            first_key: cursor.first_key(block).to_vec(),
        });
        assert_eq!(found.as_ref(), place.map(|at| &entries[at]));
    }
}
