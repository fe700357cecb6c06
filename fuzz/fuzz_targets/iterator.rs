//! Moves an iterator over a database whose files the fuzzer's input may have edited. The input also
//! determines the moves and their order. If the input contains no edits, the target also checks
//! that each move reaches the same entry as in a list of the entries.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tailwater::{ColumnFamily, Db, DbIterator, ReadOptions};
use tailwater_format::Comparator;
use tailwater_format::file_name::FileKind;
use tailwater_format::record_log::RecoveryMode;
use tailwater_fuzz::database::{Database, Entries, MEMORY_MAX, entries, key, open};
use tailwater_fuzz::{Choices, allocation};

fuzz_target!(|input: &[u8]| {
    let (mut choices, edits) = Choices::split(input);
    let flags = choices.byte();
    let database = Database::number(usize::from(flags >> 6));
    let is_table = |kind| matches!(kind, FileKind::Table(_) | FileKind::Blob(_));
    let files = database.edited(Choices::new(edits), flags & 1 == 0, is_table);
    allocation::within(MEMORY_MAX, || {
        let Ok(db) = open(&files, RecoveryMode::PointInTime) else { return };
        let families = db.column_families();
        let family = choices.of(&families);
        if edits.is_empty() {
            let entries = entries(&db, &family).expect("nothing is edited");
            walk_model(&db, &family, &entries, choices);
        } else {
            walk(&db, &family, choices);
        }
    });
});

/// Returns random options for an iterator, including bounds.
fn read_options(choices: &mut Choices<'_>) -> ReadOptions {
    let flags = choices.byte();
    let bound = |given: bool, choices: &mut Choices<'_>| given.then(|| key(choices));
    let mut options = ReadOptions::new()
        .with_verify_checksums(flags & 1 == 0)
        .with_fill_cache(flags & 2 == 0)
        .with_readahead_size(if flags & 16 == 0 { 0 } else { 500 })
        .with_prefix_same_as_start(flags & 32 != 0)
        .with_total_order_seek(flags & 64 != 0)
        .with_async_io(flags & 128 != 0);
    options.iterate_lower_bound = bound(flags & 4 != 0, choices);
    options.iterate_upper_bound = bound(flags & 8 != 0, choices);
    options
}

fn walk(db: &Db, family: &ColumnFamily, mut choices: Choices<'_>) {
    let Ok(mut iterator) = db.raw_iterator_cf_opt(family, &read_options(&mut choices)) else { return };
    while !choices.is_empty() {
        let moved = match choices.below(8) {
            0 => iterator.seek_to_first(),
            1 => iterator.seek_to_last(),
            2 => iterator.seek(&key(&mut choices)),
            3 => iterator.seek_for_prev(&key(&mut choices)),
            4 | 5 => iterator.next(),
            _ => iterator.prev(),
        };
        assert!(moved.is_ok() || !iterator.valid());
        assert_eq!(iterator.item().is_some(), iterator.valid());
    }
}

fn walk_model(db: &Db, family: &ColumnFamily, all: &Entries, mut choices: Choices<'_>) {
    let mut options = read_options(&mut choices);
    (options.prefix_same_as_start, options.total_order_seek) = (false, true);
    let seen = seen(all, &options, family.comparator());
    let mut iterator = db.raw_iterator_cf_opt(family, &options).expect("nothing is edited");
    let mut place = None;
    while !choices.is_empty() {
        let target = key(&mut choices);
        let compare = |entry: &(Vec<u8>, Vec<u8>)| family.comparator().compare(&entry.0, &target);
        let at_or_above = seen.partition_point(|entry| compare(entry).is_lt());
        let above = seen.partition_point(|entry| compare(entry).is_le());
        let moved = match choices.below(8) {
            0 => {
                place = (!seen.is_empty()).then_some(0);
                iterator.seek_to_first()
            }
            1 => {
                place = seen.len().checked_sub(1);
                iterator.seek_to_last()
            }
            2 => {
                place = (at_or_above < seen.len()).then_some(at_or_above);
                iterator.seek(&target)
            }
            3 => {
                place = above.checked_sub(1);
                iterator.seek_for_prev(&target)
            }
            4 | 5 => {
                place = place.map(|at| at + 1).filter(|&at| at < seen.len());
                iterator.next()
            }
            _ => {
                place = place.and_then(|at| at.checked_sub(1));
                iterator.prev()
            }
        };
        moved.expect("nothing is edited");
        check_place(&iterator, &seen, place);
    }
}

/// Returns the entries within the bounds of an iterator: from the lower bound (inclusive) to the
/// upper bound (exclusive).
fn seen(all: &Entries, options: &ReadOptions, comparator: &Comparator) -> Entries {
    let (lower, upper) = (&options.iterate_lower_bound, &options.iterate_upper_bound);
    let within = |entry: &&(Vec<u8>, Vec<u8>)| {
        lower.as_ref().is_none_or(|bound| comparator.compare(&entry.0, bound).is_ge())
            && upper.as_ref().is_none_or(|bound| comparator.compare(&entry.0, bound).is_lt())
    };
    all.iter().filter(within).cloned().collect()
}

fn check_place(iterator: &DbIterator, seen: &Entries, place: Option<usize>) {
    let expected = place.map(|at| (&seen[at].0[..], &seen[at].1[..]));
    assert_eq!(iterator.item(), expected);
}
