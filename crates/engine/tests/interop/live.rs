//! A database that Tailwater opens while RocksDB is writing it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::in_laboratory;
use tailwater::{Db, OpenOptions, ReadOptions};
use tailwater_testkit::oracle::Script;

/// Number of keys that RocksDB puts, in ascending order.
const KEYS: usize = 20_000;
/// Number of puts between two flushes. After a flush, RocksDB removes the flushed log.
const FLUSH_EVERY: usize = 40;

fn key(number: usize) -> Vec<u8> {
    format!("key{number:06}").into_bytes()
}

#[test]
fn a_database_opened_during_writes_shows_one_consistent_state() {
    // Regression tests: RocksDB removed a log after Tailwater had read the MANIFEST and before it
    // read the logs. Tailwater then skipped that log, and all its keys were missing. Later, opening
    // failed if the MANIFEST changed during each of a few attempts.
    in_laboratory("opening during writes", |laboratory| {
        let path = laboratory.next_directory();
        let mut script = Script::open(&path, "", &[]);
        for number in 0..KEYS {
            script.put("default", &key(number), b"value");
            if number % FLUSH_EVERY == 0 {
                script.flush("default");
            }
        }
        let context = laboratory.context.clone();
        let oracle = &mut laboratory.oracle;
        let ended = AtomicBool::new(false);
        let (opened, grown) = thread::scope(|scope| {
            let ended = &ended;
            let writer = scope.spawn(move || {
                let answer = oracle.run(&script);
                ended.store(true, Ordering::Release);
                answer.map(drop)
            });
            let (mut opened, mut grown, mut most) = (0, 0, 0);
            while !ended.load(Ordering::Acquire) {
                let db = match Db::open_read_only(&path, &OpenOptions::default()) {
                    Ok(db) => db,
                    // RocksDB has not created the database yet.
                    Err(error) if error.is_not_found() => continue,
                    Err(error) => panic!("{context}: {error}"),
                };
                let count = contiguous(&db, &context);
                assert!(count >= most, "{context}: {count} keys, after {most} were seen");
                opened += 1;
                grown += usize::from(count > most);
                most = count;
            }
            writer.join().expect("the writer").unwrap_or_else(|error| panic!("{context}: {error}"));
            (opened, grown)
        });
        assert!(grown > 1, "{context}: opened {opened} times, but nothing was written during this");
    });
}

/// Checks that the keys of a database are `key(0)`, `key(1)` and so on, without a gap. Returns
/// their number.
fn contiguous(db: &Db, context: &str) -> usize {
    let family = db.cf_handle("default").expect("the default family");
    let mut iterator =
        db.raw_iterator_cf_opt(&family, &ReadOptions::default()).expect("an iterator");
    let mut count = 0;
    iterator.seek_to_first().expect("the first key");
    while iterator.valid() {
        assert_eq!(iterator.key(), key(count), "{context}: a key is missing");
        count += 1;
        iterator.next().expect("the next key");
    }
    count
}
