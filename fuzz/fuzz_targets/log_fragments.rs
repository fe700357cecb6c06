//! The reader of record logs, on logs of arbitrary fragments in any order. Most fragments have
//! valid checksums, so that the reader interprets them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tailwater_format::record_log::{BLOCK_LENGTH, HEADER_LENGTH};
use tailwater_fuzz::{Choices, allocation, walk};
use tailwater_fuzz_seeds::put_fragment;

/// Maximum length of an input, in bytes. It limits the memory and the time of a run, because zstd
/// may decompress each byte of a compressed log to 32 KiB.
const LENGTH_MAX: usize = 1024;
/// Maximum memory for decompressing one byte with zstd, in bytes. The factor 2 is for the output
/// buffer, whose capacity doubles when it grows.
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

/// Appends a random fragment to the log, or bytes that are not a fragment.
fn append(log: &mut Vec<u8>, log_number: u32, choices: &mut Choices<'_>) {
    let room = BLOCK_LENGTH - log.len() % BLOCK_LENGTH;
    match choices.below(16) {
        // Fills the rest of the block with zeros.
        0 => log.resize(log.len() + room, 0),
        // Appends arbitrary bytes.
        1 => log.extend_from_slice(choices.string()),
        // Appends zeros up to a position less than 32 bytes before the end of the block.
        2 => {
            let left = choices.below(32);
            log.resize(log.len() + room.saturating_sub(left), 0);
        }
        choice => {
            let kind = match choice {
                3 => choices.byte(),
                // Fragment types 1 to 12, which include those of whole records and of parts of
                // records.
                _ => choice as u8 - 3,
            };
            let log_number = if choices.below(8) == 7 { choices.byte().into() } else { log_number };
            let mut payload = choices.string().to_vec();
            if choices.below(8) == 7 {
                // Pads or truncates the payload, so that the fragment ends at or near the end of
                // the block.
                payload.resize(room.saturating_sub(HEADER_LENGTH + choices.below(8)), 0);
            }
            put_fragment(log, kind, log_number, &payload);
        }
    }
}
