//! The reader of record logs, on arbitrary bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tailwater_fuzz::{Choices, allocation, walk};

fuzz_target!(|input: &[u8]| {
    let (mut choices, log) = Choices::split(input);
    let log_number = choices.number(8);
    // Arbitrary bytes rarely have valid checksums, and nothing is decompressed without them. A
    // record is therefore at most as long as its fragments.
    allocation::within(8 * log.len(), || walk::read_log(log, log_number));
});
