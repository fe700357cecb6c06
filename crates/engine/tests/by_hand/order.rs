//! Tables whose records are out of order.

use tailwater::{Db, DbIterator, ErrorKind, ReadOptions};

use crate::database::{Database, first_edit, new_file};
use crate::table::{Put, internal_key, table};

/// Number of versions of a key: more records than an iterator skips before it seeks.
const VERSIONS: u64 = 20;

/// Returns a database of one table with these data blocks.
fn database(blocks: &[(&[Put<'_>], &str)]) -> Db {
    let file = table(blocks, &[]);
    let added = new_file(7, &file, internal_key("a", 100), internal_key("z", 0));
    let mut edit = first_edit();
    edit.new_files.push(added);
    let database = Database::new().with_manifest(&[edit]).with("000007.sst", &file);
    database.open().expect("what is wrong shows when the records are read")
}

/// Moves an iterator with `start` and then with `step` until it fails. The error must be about the
/// order of the records.
fn follow(
    db: &Db,
    start: impl Fn(&mut DbIterator) -> tailwater::Result<()>,
    step: impl Fn(&mut DbIterator) -> tailwater::Result<()>,
) {
    let family = &db.column_families()[0];
    let mut iterator =
        db.raw_iterator_cf_opt(family, &ReadOptions::default()).expect("the table opens");
    let mut moved = start(&mut iterator);
    for _ in 0..1000 {
        if let Err(error) = moved {
            assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
            assert!(error.message().contains("in order"), "{error}");
            assert!(error.path().is_some_and(|path| path.ends_with("000007.sst")), "{error}");
            assert!(!iterator.valid());
            return;
        }
        assert!(iterator.valid(), "the end came without an error");
        moved = step(&mut iterator);
    }
    panic!("the iterator does not end");
}

#[test]
fn a_block_that_returns_to_an_earlier_key_ends_iteration() {
    // Regression test: an iterator hung at a key with many versions. Here the versions of key `b`
    // are in the second block, but according to the index all versions of `b` are in the first
    // block. To skip the versions, the iterator sought past the key. The seek ended at the same
    // versions again.
    let versions: Vec<Put<'_>> =
        (1..=VERSIONS).rev().map(|sequence| ("b", sequence, "v")).collect();
    let db = database(&[(&[("a", 50, "1"), ("b", 49, "2")], "c"), (&versions, "z")]);
    follow(&db, DbIterator::seek_to_first, DbIterator::next);
}

#[test]
fn a_key_below_the_one_before_ends_iteration() {
    // Regression test: an iterator returned keys that were not in ascending order, instead of
    // reporting damage.
    let versions: Vec<Put<'_>> =
        (1..=VERSIONS).rev().map(|sequence| ("b", sequence, "v")).collect();
    let mut block: Vec<Put<'_>> = vec![("y", 50, "1")];
    block.extend(&versions);
    let db = database(&[(&block, "z")]);
    follow(&db, DbIterator::seek_to_first, DbIterator::next);
}

#[test]
fn backward_iteration_ends_at_keys_out_of_order() {
    // Regression test: to skip the many versions of a key, an iterator that moved backward sought
    // to the position before them. The seek landed after them, and the iterator reported no error.
    let versions: Vec<Put<'_>> =
        (1..=VERSIONS).rev().map(|sequence| ("b", sequence, "v")).collect();
    let db = database(&[(&[("x", 50, "1")], "a"), (&versions, "z")]);
    follow(&db, DbIterator::seek_to_last, DbIterator::prev);
}
