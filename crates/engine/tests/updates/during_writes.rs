//! Followers that read the updates of a database while threads write to it. A follower iterates
//! over the batches in the logs.

use std::thread;
use std::time::{Duration, Instant};

use tailwater::{Db, Updates, WriteBatch, WriteOptions};
use tailwater_testkit::filesystem::writes_directly;
use tailwater_testkit::seed;

use crate::support::{default_family, options};

/// Number of threads that write.
const WRITERS: u32 = 3;
/// Number of batches that each thread writes.
const BATCHES: u32 = 1500;
/// Maximum time that a follower waits for the next batch.
const PATIENCE: Duration = Duration::from_secs(60);

fn write_all(db: &Db, writer: u32, mut rng: fastrand::Rng) {
    let family = default_family(db);
    for number in 0..BATCHES * seed::rounds() as u32 {
        let mut batch = WriteBatch::new();
        for part in 0..rng.u32(1..4) {
            let key = [writer, number, part].map(u32::to_be_bytes).concat();
            let length = if rng.u8(..50) == 0 { 40_000 } else { rng.usize(..300) };
            batch.put_cf(family.id(), &key, vec![rng.u8(..); length]).expect("a put");
        }
        let options = WriteOptions::new().with_sync(rng.u8(..40) == 0);
        db.write_opt(&mut batch, &options).expect("a write");
    }
}

/// Reads all batches. Asserts that they come in sequence order, and that each is already visible to
/// reads when the follower returns it.
fn follow(db: &Db, mut updates: Updates) {
    let mut next = [0; WRITERS as usize];
    let mut due = 1;
    let mut last_came = Instant::now();
    while next.iter().any(|&next| next < BATCHES * seed::rounds() as u32) {
        let Some(batch) = updates.next() else {
            assert!(last_came.elapsed() < PATIENCE, "nothing comes after {due}");
            thread::yield_now();
            continue;
        };
        let batch = batch.expect("a batch");
        last_came = Instant::now();
        assert_eq!(batch.sequence(), due);
        due += batch.len() as u64;
        assert!(due - 1 <= db.latest_sequence_number(), "{due} is not published");
        let first = batch.reader().expect("a batch").next().expect("a put").expect("a put");
        let words: Vec<u32> = first
            .key
            .chunks(4)
            .map(|word| u32::from_be_bytes(word.try_into().expect("four bytes")))
            .collect();
        assert_eq!(words[1..], [next[words[0] as usize], 0]);
        next[words[0] as usize] += 1;
    }
    assert!(updates.next().is_none());
    assert_eq!(due - 1, db.latest_sequence_number());
}

fn run(text: &str) {
    let mut seed = seed::rng();
    println!("seed {}, {text}", seed.value());
    let directory = tempfile::tempdir().expect("a directory");
    let options = options(&format!("write_buffer_size=100000;{text}"));
    let db = Db::open(directory.path(), &options).expect("a database");
    // The followers are created before anything is written. Otherwise logs that they need might be
    // removed.
    let followers = [(); 2].map(|()| db.updates_since(0).expect("the logs"));
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (db, rng) = (&db, seed.rng.fork());
            scope.spawn(move || write_all(db, writer, rng));
        }
        for updates in followers {
            let db = &db;
            scope.spawn(move || follow(db, updates));
        }
    });
    db.close().expect("closing");
}

#[test]
fn updates_are_in_order_during_writes() {
    run("");
}

#[test]
fn updates_are_in_order_from_recycled_logs() {
    run("recycle_log_file_num=3");
}

#[test]
fn updates_are_in_order_from_compressed_and_recycled_logs() {
    run("recycle_log_file_num=2;wal_compression=kZSTD");
}

#[test]
fn updates_are_in_order_from_direct_logs() {
    writes_directly(&std::env::temp_dir(), "updates from direct logs");
    run("wal_io_mode=direct;wal_preallocation_block_size=65536");
}

#[test]
fn updates_are_in_order_from_compressed_logs_of_two_flushing_threads() {
    run("wal_compression=kZSTD;max_background_jobs=4");
}
