//! Moves an index cursor over arbitrary bytes, in any order and in each of the four formats of
//! index entries.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tailwater_format::block::{IndexCursor, IndexFormat, Layout, RestartPrefixes, Restarts};
use tailwater_fuzz::{Choices, allocation};

fuzz_target!(|input: &[u8]| {
    let (mut choices, block) = Choices::split(input);
    let format = IndexFormat { delta_values: choices.flag(), first_keys: choices.flag() };
    let Ok(layout) = Layout::parse(block) else { return };
    allocation::within(4 * block.len(), || walk(choices, block, &layout, format));
});

fn walk(mut choices: Choices<'_>, block: &[u8], layout: &Layout, format: IndexFormat) {
    let mut cursor = IndexCursor::default();
    while !choices.is_empty() {
        let moved = match choices.below(7) {
            0 => cursor.seek_to_first(block, layout, format),
            1 => cursor.seek_to_last(block, layout, format),
            2 => {
                let target = choices.string();
                let among = RestartPrefixes::build(block, layout, format.delta_values, true)
                    .map_or(Restarts::all(layout), |prefixes| prefixes.narrow(target));
                cursor.seek(block, layout, format, among, |key| key.cmp(target))
            }
            3 | 4 => cursor.next(block, layout, format),
            5 => cursor.previous(block, layout, format),
            _ => {
                cursor.reset();
                Ok(())
            }
        };
        if moved.is_ok() && cursor.valid() {
            let handle = cursor.handle();
            let end = handle.offset.checked_add(handle.size).and_then(|end| end.checked_add(5));
            assert!(end.is_some(), "{handle:?} is in no file");
            assert!(format.first_keys || cursor.first_key(block).is_empty());
        }
    }
}
