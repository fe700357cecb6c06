//! Opens a database whose files were edited at random. Checks that it is either refused, or can be
//! read without a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tailwater_fuzz::database::{Database, MEMORY_MAX, open, read_everything};
use tailwater_fuzz::{Choices, allocation, walk};

fuzz_target!(|input: &[u8]| {
    let (mut choices, edits) = Choices::split(input);
    let flags = choices.byte();
    let database = Database::number(usize::from(flags >> 6));
    let mode = choices.of(&walk::MODES);
    let files = database.edited(Choices::new(edits), flags & 1 != 0, |_| true);
    allocation::within(MEMORY_MAX, || {
        if let Ok(db) = open(&files, mode) {
            read_everything(&db);
        }
    });
});
