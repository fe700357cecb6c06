//! The record log's reader over arbitrary bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tailwater_fuzz::{Choices, allocation, walk};

fuzz_target!(|input: &[u8]| {
    let (mut choices, log) = Choices::split(input);
    let log_number = choices.number(8);
    // Without valid checksums nothing is decompressed, so a record is as long as its fragments.
    allocation::within(8 * log.len(), || walk::read_log(log, log_number));
});
