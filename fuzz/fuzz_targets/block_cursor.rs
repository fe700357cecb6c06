//! Moves a block cursor over arbitrary bytes, in any order. Checks that each move returns success
//! or an error without a panic, and that the cursor stays inside the block.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tailwater_format::block::{Cursor, Layout, Target};
use tailwater_format::{Comparator, key};
use tailwater_fuzz::{Choices, allocation};

fuzz_target!(|input: &[u8]| {
    let (choices, block) = Choices::split(input);
    let Ok(layout) = Layout::parse(block) else { return };
    // A cursor keeps the keys of one restart interval in memory. Each of these keys is at most as
    // long as the block.
    let limit = 64 * block.len() + block.len() * block.len() / 2;
    allocation::within(limit, || walk(choices, block, &layout));
});

fn walk(mut choices: Choices<'_>, block: &[u8], layout: &Layout) {
    let mut cursor = Cursor::default();
    while !choices.is_empty() {
        let moved = match choices.below(8) {
            0 => cursor.seek_to_first(block, layout),
            1 => cursor.seek_to_last(block, layout),
            2 => {
                let target = target(choices.string());
                cursor.seek(block, layout, &target)
            }
            3 => {
                let target = target(choices.string());
                cursor.seek_for_get(block, layout, &target)
            }
            4 | 5 => cursor.next(block, layout),
            6 => cursor.previous(block, layout),
            _ => {
                cursor.reset();
                Ok(())
            }
        };
        if moved.is_ok() && cursor.valid() {
            let value = cursor.value_range();
            assert!(value.start <= value.end && value.end as usize <= block.len());
            assert_eq!(cursor.value(block).len(), value.len());
            assert!((cursor.entry_offset() as usize) < block.len());
        }
    }
}

fn target(user_key: &[u8]) -> Target<'_> {
    let trailer = key::pack_trailer(key::MAX_SEQUENCE, key::ValueType::FOR_SEEK);
    Target { comparator: &Comparator::Bytewise, user_key, trailer }
}
