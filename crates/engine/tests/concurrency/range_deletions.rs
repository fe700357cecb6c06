//! Overlapping range deletions, concurrent with gets and open iterators.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use fastrand::Rng;
use tailwater::{ColumnFamily, Db, ReadOptions, WriteOptions};
use tailwater_testkit::seed;

use crate::scene::Place;

/// Half the number of keys. Range deletions extend from the middle of the keys to both sides.
const REACH: u64 = 400;

fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

/// Returns the expected keys at a sequence number. Each of the first 2 * REACH writes puts one key,
/// in ascending order. Each later write deletes a range around the middle of the keys. It extends
/// one key further on both sides than the range before.
fn remaining(sequence: u64) -> Vec<u64> {
    let deleted = sequence.saturating_sub(2 * REACH);
    (0..REACH - deleted).chain(REACH + deleted..2 * REACH).collect()
}

/// Reads at one new snapshot after another until the writer is done. The writer continues to write
/// while an iterator is open.
fn check(db: &Db, family: &ColumnFamily, is_done: &AtomicBool, mut rng: Rng) {
    loop {
        let is_last = is_done.load(Ordering::Acquire);
        let snapshot = db.snapshot();
        let expected = remaining(snapshot.sequence_number());
        let read = ReadOptions::new()
            .with_snapshot(snapshot)
            .with_auto_refresh_iterator_with_snapshot(rng.bool());
        let mut iterator = db.raw_iterator_cf_opt(family, &read).expect("an iterator");
        let mut backward = db.raw_iterator_cf_opt(family, &read).expect("an iterator");
        for _ in 0..20 {
            let number = rng.u64(..2 * REACH);
            let found = db.get_cf_opt(family, key(number), &read).expect("a get").is_some();
            assert_eq!(found, expected.binary_search(&number).is_ok(), "{number}");
            iterator.seek(key(number)).expect("a seek");
            let next = expected.iter().find(|&&it| it >= number).map(|&it| key(it).to_vec());
            assert_eq!(iterator.valid().then(|| iterator.key().to_vec()), next, "{number}");
        }
        let mut found = Vec::new();
        iterator.seek_to_first().expect("a seek");
        while iterator.valid() {
            found.push(iterator.key().to_vec());
            iterator.next().expect("a step");
        }
        let mut reversed = Vec::new();
        backward.seek_to_last().expect("a seek");
        while backward.valid() {
            reversed.push(backward.key().to_vec());
            backward.prev().expect("a step");
        }
        reversed.reverse();
        let expected: Vec<_> = expected.iter().map(|&number| key(number).to_vec()).collect();
        assert_eq!((&found, &reversed), (&expected, &expected));
        if is_last {
            return;
        }
    }
}

#[test]
fn reads_concurrent_with_range_deletions_see_those_before_their_snapshot() {
    let seed = seed::rng();
    println!("seed {}", seed.value());
    for text in ["", "write_buffer_size=65536;memtable_max_range_deletions=50"] {
        let [place, _] = Place::both(seed.value());
        let db = place.open(text);
        let family = db.cf_handle("default").expect("the default family");
        let options = WriteOptions::default();
        for number in 0..2 * REACH {
            db.put_cf_opt(&family, key(number), b"value", &options).expect("a put");
        }
        let is_done = AtomicBool::new(false);
        thread::scope(|scope| {
            for reader in 0..2 {
                let rng = Rng::with_seed(seed.value().wrapping_add(reader));
                let (db, family, is_done) = (&db, &family, &is_done);
                scope.spawn(move || check(db, family, is_done, rng));
            }
            for reach in 1..=REACH {
                let (begin, end) = (key(REACH - reach), key(REACH + reach));
                db.delete_range_cf_opt(&family, begin, end, &options).expect("a range deletion");
                thread::yield_now();
            }
            is_done.store(true, Ordering::Release);
        });
    }
}
