//! Readers during compactions that read and write with direct I/O.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use fastrand::Rng;
use tailwater::{ColumnFamily, CompactRangeOptions, Db, ReadOptions, WriteOptions};
use tailwater_testkit::filesystem::writes_directly;
use tailwater_testkit::seed;

use crate::scene::Place;

const KEYS: u64 = 2000;
const ROUNDS: u64 = 12;
const READERS: u64 = 4;

const OPTIONS: &str = "use_direct_io_for_compaction_reads=true;compaction_write_io_mode=direct;\
    write_buffer_size=131072;target_file_size_base=65536;compression=kNoCompression;\
    block_based_table_factory={block_cache=65536;filter_policy=bloomfilter:10:false}";

fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

fn value(number: u64, round: u64) -> Vec<u8> {
    [number, round].map(u64::to_be_bytes).concat().repeat(16)
}

/// Returns the number of the round that wrote a value, and checks that the value is complete.
fn round_of(number: u64, found: &[u8]) -> u64 {
    let round = found[8..16].try_into().map(u64::from_be_bytes).expect("a round");
    assert_eq!(found, value(number, round), "key {number}");
    round
}

/// Gets and scans until the writer is done. Every value must be complete, and must be of the last
/// round that was completely written when the reads began, or of a later one.
fn read(db: &Db, family: &ColumnFamily, written: &AtomicU64, is_done: &AtomicBool, mut rng: Rng) {
    while !is_done.load(Ordering::Acquire) {
        let least = written.load(Ordering::Acquire);
        for _ in 0..50 {
            let number = rng.u64(..KEYS);
            let found = db.get_cf_opt(family, key(number), &ReadOptions::default()).expect("a get");
            assert!(round_of(number, &found.expect("a value")) >= least);
        }
        let mut iterator =
            db.raw_iterator_cf_opt(family, &ReadOptions::default()).expect("an iterator");
        let first = rng.u64(..KEYS);
        iterator.seek(key(first)).expect("a seek");
        for number in first..KEYS.min(first + 100) {
            let (found, value) = iterator.item().expect("an entry");
            assert_eq!(found, key(number));
            assert!(round_of(number, value) >= least);
            iterator.next().expect("a step");
        }
    }
}

#[test]
fn values_are_right_during_rounds_of_direct_compactions() {
    let seed = seed::rng();
    println!("seed {}", seed.value());
    for place in Place::both(seed.value()) {
        if let Place::Files(directory) = &place
            && !writes_directly(directory.path(), "rounds of direct compactions on real files")
        {
            continue;
        }
        let db = place.open(OPTIONS);
        let family = db.cf_handle("default").expect("the default column family");
        let write = |round: u64| {
            for number in 0..KEYS {
                let options = WriteOptions::default();
                db.put_cf_opt(&family, key(number), value(number, round), &options).expect("a put");
            }
        };
        write(0);
        let (written, is_done) = (AtomicU64::new(0), AtomicBool::new(false));
        thread::scope(|scope| {
            let readers: Vec<_> = (0..READERS)
                .map(|reader| {
                    let rng = Rng::with_seed(seed.value().wrapping_add(reader));
                    let (db, family, written, is_done) = (&db, &family, &written, &is_done);
                    scope.spawn(move || read(db, family, written, is_done, rng))
                })
                .collect();
            for round in 1..=ROUNDS {
                write(round);
                written.store(round, Ordering::Release);
                let everything = CompactRangeOptions::default();
                db.compact_range_cf_opt(&family, None, None, &everything).expect("a compaction");
                if readers.iter().any(thread::ScopedJoinHandle::is_finished) {
                    break;
                }
            }
            is_done.store(true, Ordering::Release);
        });
    }
}
