//! The record log's reader over fragments of any kind, in any order, whose checksums are right.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tailwater_format::log::{BLOCK_LENGTH, HEADER_LENGTH};
use tailwater_fuzz::{Choices, allocation, walk};
use tailwater_fuzz_seeds::put_fragment;

/// The longest input, in bytes: in a compressed log zstd may make 32 KiB of each.
const LENGTH_MAX: usize = 1024;
/// Maximum memory of a byte decompressed by zstd, with the doubling of its buffer.
const AMPLIFICATION: usize = 2 * (128 << 10);

fuzz_target!(|input: &[u8]| {
    if input.len() > LENGTH_MAX {
        return;
    }
    let mut choices = Choices::new(input);
    let log_number = choices.number(4);
    let mut log = Vec::new();
    while !choices.is_empty() {
        append(&mut log, log_number as u32, &mut choices);
    }
    let limit = 8 * log.len() + AMPLIFICATION * input.len();
    allocation::within(limit, || walk::read_log(&log, log_number));
});

/// Appends a fragment, or something that stands between fragments.
fn append(log: &mut Vec<u8>, log_number: u32, choices: &mut Choices<'_>) {
    let room = BLOCK_LENGTH - log.len() % BLOCK_LENGTH;
    match choices.below(16) {
        // To the end of the block, in zeros.
        0 => log.resize(log.len() + room, 0),
        // Any bytes.
        1 => log.extend_from_slice(choices.string()),
        // Near the end of the block.
        2 => {
            let left = choices.below(32);
            log.resize(log.len() + room.saturating_sub(left), 0);
        }
        choice => {
            let kind = match choice {
                3 => choices.byte(),
                // Types 1 to 11, with those of whole and fragmented records more often.
                _ => choice as u8 - 3,
            };
            let log_number = if choices.below(8) == 7 { choices.byte().into() } else { log_number };
            let mut payload = choices.string().to_vec();
            if choices.below(8) == 7 {
                // Up to where the block ends, or a little beyond.
                payload.resize(room.saturating_sub(HEADER_LENGTH + choices.below(8)), 0);
            }
            put_fragment(log, kind, log_number, &payload);
        }
    }
}
