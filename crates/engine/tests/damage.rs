//! Tests that no read returns wrong data and nothing panics when any byte of a database is damaged,
//! or any file is truncated.
//!
//! For each small golden database (one that RocksDB wrote), the test changes bytes of every table,
//! blob file, log, MANIFEST and CURRENT, one byte at a time, and truncates every one of these
//! files. One round damages every third offset, beginning with a random one; with
//! `TAILWATER_ROUNDS` at least 3, every offset is damaged. The test opens each damaged database,
//! reads all of it with iterators and gets, and verifies it:
//!
//! - Every read must return a correct result, or an error that names the damaged file. A damaged
//!   log may be recovered up to the end of some batch; the database must then report that something
//!   was left out.
//! - Column families that do not use the damaged file must be read completely.
//! - Verification must find all damage that reads found.
//!
//! In addition, `damage/bits.rs` flips every bit of small logs, in every recovery mode, and
//! `damage/skipping.rs` tests iterators that skip damage.
//!
//! The test counts the outcomes by kind of file, and prints the counts and the offsets at which
//! damage was not detected. It asserts that no checksum covers these offsets.

#[path = "damage/bits.rs"]
mod bits;
#[path = "damage/database.rs"]
mod database;
#[path = "damage/logs.rs"]
mod logs;
#[path = "damage/skipping.rs"]
mod skipping;
#[path = "damage/tally.rs"]
mod tally;

use std::ops::RangeInclusive;
use std::panic::{self, AssertUnwindSafe};

use database::{Damaged, Small};
use tailwater_testkit::{golden, seed};
use tally::{Outcome, Tally};

/// Offsets of the zero padding between the block handles and the version in the footer of a table
/// with format_version 5 or lower, in bytes from the end of the file. No checksum covers the
/// padding.
const LEGACY_FOOTER_PADDING: RangeInclusive<usize> = 13..=46;

/// Distance between two damaged offsets in one round, in bytes.
const STRIDE: usize = 3;

/// Returns the offsets in `0..length` at which a file is damaged in round `round`. `first` is the
/// first of these offsets in round 0.
fn offsets(first: usize, round: usize, length: usize) -> impl Iterator<Item = usize> {
    ((first + round) % STRIDE..length).step_by(STRIDE)
}

/// Returns a random `first` for [`offsets`]: the first offset at which files are damaged in round
/// 0.
fn first_offset() -> usize {
    let mut seed = seed::rng();
    eprintln!("TAILWATER_SEED={}", seed.value());
    seed.rng.usize(..STRIDE)
}

/// Returns the bits to flip in the byte at `offset`. `round` is the number of times that every
/// offset has already been damaged. If it is 0, one bit is flipped. If it is 1, all bits are
/// flipped. Otherwise, random bits are flipped.
fn mask(offset: usize, round: usize) -> u8 {
    match round {
        0 => 1 << (offset % 8),
        1 => 0xff,
        _ => fastrand::u8(1..),
    }
}

/// Opens, reads and verifies the database with `contents` in place of one file, and counts the
/// outcome.
fn try_damage(small: &Small, tally: &mut Tally, file: &str, offset: usize, contents: Vec<u8>) {
    let damaged = Damaged { small, file, contents };
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| damaged.outcome()));
    let Ok(outcome) = outcome else {
        panic!("{} panicked: {file}, {} at {offset}", small.name, tally.what);
    };
    tally.note(small, file, offset, outcome);
}

fn change_bytes(small: &Small) {
    let mut tally = Tally::new("a byte changed");
    let first = first_offset();
    for round in 0..seed::rounds() {
        for (file, contents) in small.damageable() {
            for offset in offsets(first, round, contents.len()) {
                let mut changed = contents.clone();
                changed[offset] ^= mask(offset, round / STRIDE);
                try_damage(small, &mut tally, file, offset, changed);
            }
        }
    }
    tally.print(small);
    for (file, offset) in tally.unnoticed() {
        let from_end = small.files[file].len() - offset;
        let is_padding = small.has_legacy_footers()
            && file.ends_with(".sst")
            && LEGACY_FOOTER_PADDING.contains(&from_end);
        assert!(is_padding, "{}: byte {offset} of {file} is not checked", small.name);
    }
}

fn truncate_files(small: &Small) {
    let mut tally = Tally::new("cut");
    let first = first_offset();
    for round in 0..seed::rounds().min(STRIDE) {
        for (file, contents) in small.damageable() {
            for length in offsets(first, round, contents.len()) {
                try_damage(small, &mut tally, file, length, contents[..length].to_vec());
            }
        }
    }
    tally.print(small);
    for (file, length) in tally.unnoticed() {
        // A log or MANIFEST that is truncated at the end of a record looks complete, so this
        // truncation need not be detected.
        let grows = file.ends_with(".log") || file.starts_with("MANIFEST");
        assert!(grows, "{}: {file} cut at {length} goes unnoticed", small.name);
    }
}

macro_rules! small_databases {
    ($($flip:ident, $cut:ident => $name:literal),* $(,)?) => {
        $(
            #[test]
            fn $flip() {
                change_bytes(&Small::load($name));
            }

            #[test]
            fn $cut() {
                truncate_files(&Small::load($name));
            }
        )*

        #[test]
        fn every_small_database_is_damaged() {
            assert_eq!(golden::small_names(), [$($name),*]);
        }
    };
}

small_databases! {
    changed_2, cut_2 => "small-2",
    changed_5, cut_5 => "small-5",
    changed_6, cut_6 => "small-6",
    changed_7, cut_7 => "small-7",
    changed_blobs, cut_blobs => "small-blobs",
}

#[test]
fn an_undamaged_database_passes_the_checks() {
    for name in golden::small_names() {
        let small = Small::load(name);
        let (file, contents) = small.damageable().next().expect("a file");
        let damaged = Damaged { small: &small, file, contents: contents.clone() };
        assert_eq!(damaged.outcome(), Outcome::Unnoticed, "{name}");
    }
}
