//! Tests that no read returns wrong data and nothing panics if any byte of a database is damaged,
//! or any file is truncated.
//!
//! In each small golden database the bytes of every table, blob file, log, MANIFEST and CURRENT are
//! changed, one at a time, and every file is truncated. The damaged offsets are every third,
//! beginning with one drawn at random, or every offset if `TAILWATER_ROUNDS` is at least 3. Each
//! damaged database is opened, read completely by iterators and gets, and verified:
//!
//! - Every read returns a correct result, or an error that names the damaged file. A damaged log
//!   may be recovered up to the end of some batch; the database then reports that something was
//!   left out.
//! - Column families that do not use the damaged file are read as before.
//! - Verification finds all damage that reads found.
//!
//! In addition, every bit of small logs is flipped, in every recovery mode (`damage/bits.rs`).
//!
//! The outcomes are counted and printed by kind of file, with the offsets of undetected changes.
//! Only offsets that no checksum covers may be among these, which the tests assert.

#[path = "damage/bits.rs"]
mod bits;
#[path = "damage/database.rs"]
mod database;
#[path = "damage/logs.rs"]
mod logs;
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

/// Distance between two offsets that the same round damages, in bytes.
const STRIDE: usize = 3;

/// Returns the offsets below `length` that a round damages; `first` is the first offset of round 0.
fn offsets(first: usize, round: usize, length: usize) -> impl Iterator<Item = usize> {
    ((first + round) % STRIDE..length).step_by(STRIDE)
}

/// Draws the first offset of round 0 at random.
fn first_offset() -> usize {
    let mut seed = seed::rng();
    eprintln!("TAILWATER_SEED={}", seed.value());
    seed.rng.usize(..STRIDE)
}

/// Returns the bits to flip in a damaged byte, which depend on its offset and on the round.
fn mask(offset: usize, round: usize) -> u8 {
    match round {
        0 => 1 << (offset % 8),
        1 => 0xff,
        _ => fastrand::u8(1..),
    }
}

/// Opens, reads and verifies a database in which one file has other contents, and counts the
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
        // A log or MANIFEST that is truncated at the end of a record looks complete, so this loss
        // need not be detected.
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
