//! Readers during compactions that read and write with direct I/O.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use fastrand::Rng;
use tailwater::{ColumnFamily, CompactRangeOptions, Db, ReadOptions, WriteOptions};
use tailwater_io::Purpose;
use tailwater_testkit::filesystem::writes_directly;
use tailwater_testkit::seed;

use crate::scene::Place;

const KEYS: u64 = 2000;
/// Minimum number of rounds, in each of which all keys are written and then compacted.
const ROUNDS: u64 = 12;
const READERS: usize = 4;

const OPTIONS: &str = "use_direct_io_for_compaction_reads=true;compaction_write_io_mode=direct;\
    write_buffer_size=131072;target_file_size_base=65536;compression=kNoCompression;\
    block_based_table_factory={block_cache=65536;filter_policy=bloomfilter:10:false}";

/// What the writer and the readers of a database tell each other.
#[derive(Debug, Default)]
struct Progress {
    /// The last round that was completely written.
    written: AtomicU64,
    /// For each reader, how often it finished its gets and its scan while a compaction was running.
    reads: [AtomicU64; READERS],
    is_done: AtomicBool,
}

impl Progress {
    fn all_have_read(&self) -> bool {
        self.reads.iter().all(|reads| reads.load(Ordering::Relaxed) > 0)
    }
}

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
fn read(db: &Db, family: &ColumnFamily, progress: &Progress, reader: usize, mut rng: Rng) {
    while !progress.is_done.load(Ordering::Acquire) {
        let least = progress.written.load(Ordering::Acquire);
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
        if db.running_compactions() > 0 {
            progress.reads[reader].fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Checks that compactions read and write directly, and did not fall back to buffered I/O.
fn check_modes(db: &Db, family: &ColumnFamily) {
    let modes = db.property_value_cf(family, "tailwater.io-modes").expect("a property");
    let modes = modes.expect("modes");
    for purpose in ["compaction_read: ", "compaction_write: "] {
        let line = modes.lines().find(|line| line.starts_with(purpose)).expect("a line");
        assert!(line.ends_with("effective direct"), "{modes}");
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
        check_modes(&db, &family);
        let write = |round: u64| {
            for number in 0..KEYS {
                let options = WriteOptions::default();
                db.put_cf_opt(&family, key(number), value(number, round), &options).expect("a put");
            }
        };
        write(0);
        let progress = Progress::default();
        thread::scope(|scope| {
            let readers: Vec<_> = (0..READERS)
                .map(|reader| {
                    let rng = Rng::with_seed(seed.value().wrapping_add(reader as u64));
                    let (db, family, progress) = (&db, &family, &progress);
                    scope.spawn(move || read(db, family, progress, reader, rng))
                })
                .collect();
            let mut round = 0;
            // On a busy machine, it may take more rounds until each reader has read during a
            // compaction.
            while round < ROUNDS || !progress.all_have_read() {
                round += 1;
                write(round);
                progress.written.store(round, Ordering::Release);
                let everything = CompactRangeOptions::default();
                db.compact_range_cf_opt(&family, None, None, &everything).expect("a compaction");
                // A reader that ends before the writer has panicked, and then the scope does, too.
                if readers.iter().any(thread::ScopedJoinHandle::is_finished) {
                    break;
                }
            }
            progress.is_done.store(true, Ordering::Release);
        });
        let done = |purpose| db.storage().statistics().snapshot(purpose);
        let read_bytes = done(Purpose::CompactionRead).read_bytes;
        let written_bytes = done(Purpose::CompactionWrite).written_bytes;
        assert!(read_bytes > 0 && written_bytes > 0, "{read_bytes} and {written_bytes}");
    }
}
