//! Reads of cached data allocate no memory.
//!
//! An allocator counts the allocations of each thread. The tests check a get into a caller's
//! buffer, and a step and a seek of an iterator, once everything is cached. They print the counts.

#[path = "common/counting.rs"]
mod counting;

use std::sync::Arc;

use counting::allocations;
use tailwater::{ColumnFamily, Db, DbIterator, OpenOptions, ReadOptions, Statistics, ValueBuffer};
use tailwater_testkit::dump::Entry;
use tailwater_testkit::golden;

/// A golden database whose blocks have all been read into the block cache.
struct Warm {
    _directory: tempfile::TempDir,
    db: Db,
    dump: Vec<Entry>,
    name: &'static str,
}

/// The golden databases that have only plain values. Merged values and values in blob files are
/// created anew by each read, which allocates.
const PLAIN: [&str; 6] = ["basic", "fifo", "formats", "packages", "universal", "wal"];

impl Warm {
    fn new(name: &'static str) -> Self {
        Self::with(name, |_| ())
    }

    /// Opens the database with additional options that `change` sets.
    fn with(name: &'static str, change: impl FnOnce(&mut OpenOptions)) -> Self {
        let directory = golden::unpack(name);
        let mut options = OpenOptions::load(directory.path()).expect("an OPTIONS file");
        change(&mut options);
        let db = Db::open_read_only(directory.path(), &options).expect("the database");
        let warm = Self { _directory: directory, db, dump: golden::dump(name), name };
        warm.get_all();
        for family in &warm.db.column_families() {
            let mut iterator = warm.iterator(family);
            pass(&mut iterator, true);
            pass(&mut iterator, false);
        }
        warm
    }

    fn iterator(&self, family: &ColumnFamily) -> DbIterator {
        let options = ReadOptions::new().with_total_order_seek(true);
        self.db.raw_iterator_cf_opt(family, &options).expect("an iterator")
    }

    /// Gets every key, and for each key a neighbour that is missing. Returns the number of gets and
    /// the number of their allocations.
    fn get_all(&self) -> (u64, u64) {
        let options = ReadOptions::default();
        let mut value = Vec::with_capacity(1 << 20);
        let mut absent = Vec::with_capacity(1 << 10);
        let (mut gets, mut allocated) = (0, 0);
        for entry in &self.dump {
            let family = self.db.cf_handle(&entry.family).expect("a column family");
            absent.clear();
            absent.extend_from_slice(&entry.key);
            absent.push(0);
            let (here, _) = allocations(|| {
                let found = self.db.get_into_cf_opt(&family, &entry.key, &options, &mut value);
                assert!(found.expect("a get") && value == entry.value, "{}", self.name);
                let found = self.db.get_into_cf_opt(&family, &absent, &options, &mut value);
                assert!(!found.expect("a get"), "{}", self.name);
            });
            allocated += here;
            gets += 2;
        }
        (gets, allocated)
    }
}

/// Iterates over all entries in one direction. Returns the number of steps and of their
/// allocations.
fn pass(iterator: &mut DbIterator, forward: bool) -> (u64, u64) {
    let placed = if forward { iterator.seek_to_first() } else { iterator.seek_to_last() };
    placed.expect("a seek");
    let mut steps = 0;
    let (allocated, _) = allocations(|| {
        while iterator.valid() {
            let stepped = if forward { iterator.next() } else { iterator.prev() };
            stepped.expect("a step");
            steps += 1;
        }
    });
    (steps, allocated)
}

#[test]
fn a_cached_get_into_a_buffer_allocates_nothing() {
    for name in PLAIN {
        let (gets, allocated) = Warm::new(name).get_all();
        println!("{name}: {allocated} allocations in {gets} gets");
        assert_eq!(allocated, 0, "{name}: in {gets} gets");
    }
}

/// Gets batches of up to 100 keys, some of them missing. Returns the number of batches and the
/// highest number of allocations of a batch.
fn multi_get_all(warm: &Warm) -> (u64, u64) {
    let options = ReadOptions::default();
    let mut values = ValueBuffer::new();
    let (mut batches, mut most) = (0, 0);
    for family in &warm.db.column_families() {
        let entries: Vec<_> = warm.dump.iter().filter(|it| it.family == family.name()).collect();
        for batch in entries.chunks(50) {
            let absent = batch.iter().map(|entry| [&entry.key[..], b"\0"].concat());
            let mut keys: Vec<_> =
                batch.iter().map(|entry| entry.key.clone()).chain(absent).collect();
            keys.reverse();
            let mut get = || warm.db.multi_get_into_cf_opt(family, &keys, &options, &mut values);
            // The buffer grows in the first call.
            get();
            let (here, _) = allocations(get);
            for (at, entry) in batch.iter().enumerate() {
                let value = values.get(keys.len() - 1 - at).expect("a get");
                assert_eq!(value, Some(&entry.value[..]), "{}", warm.name);
            }
            (batches, most) = (batches + 1, most.max(here));
        }
    }
    (batches, most)
}

#[test]
fn a_cached_multi_get_into_a_buffer_allocates_once() {
    for name in PLAIN {
        let (batches, most) = multi_get_all(&Warm::new(name));
        println!("{name}: at most {most} allocations in each of {batches} batches");
        assert!(batches > 0 && most <= 1, "{name}: {most}");
    }
}

#[test]
fn counting_a_cached_get_allocates_nothing() {
    for name in PLAIN {
        let statistics = Arc::new(Statistics::new());
        let counts = |options: &mut OpenOptions| {
            options.set_statistics(Arc::clone(&statistics));
        };
        let warm = Warm::with(name, counts);
        let before = statistics.ticker("rocksdb.number.keys.read").expect("a ticker");
        let (gets, allocated) = warm.get_all();
        let counted = statistics.ticker("rocksdb.number.keys.read").expect("a ticker") - before;
        assert_eq!((allocated, counted), (0, gets), "{name}: in {gets} gets");
    }
}

#[test]
fn a_step_in_cached_data_allocates_nothing() {
    for name in PLAIN {
        let warm = Warm::new(name);
        for family in &warm.db.column_families() {
            let mut iterator = warm.iterator(family);
            // The first pass of an iterator grows its buffers.
            pass(&mut iterator, true);
            pass(&mut iterator, false);
            for forward in [true, false] {
                let (steps, allocated) = pass(&mut iterator, forward);
                let way = if forward { "forward" } else { "backward" };
                println!(
                    "{name}/{}: {allocated} allocations in {steps} steps {way}",
                    family.name()
                );
                assert_eq!(allocated, 0, "{name}/{}: in {steps} steps {way}", family.name());
            }
        }
    }
}

#[test]
fn a_seek_in_cached_data_allocates_nothing() {
    for name in PLAIN {
        let warm = Warm::new(name);
        for family in &warm.db.column_families() {
            let mut iterator = warm.iterator(family);
            let keys = warm.dump.iter().filter(|entry| entry.family == family.name());
            // The keys are sought in an order in which successive keys are usually in different
            // tables and blocks.
            let keys: Vec<&[u8]> = keys.map(|entry| entry.key.as_slice()).collect();
            let order: Vec<usize> = (0..keys.len()).map(|at| at * 7919 % keys.len()).collect();
            let mut seek_all = || {
                for &at in &order {
                    iterator.seek(keys[at]).expect("a seek");
                    assert_eq!(iterator.key(), keys[at], "{name}");
                    iterator.seek_for_prev(keys[at]).expect("a seek");
                    assert_eq!(iterator.key(), keys[at], "{name}");
                }
            };
            seek_all();
            let (allocated, _) = allocations(&mut seek_all);
            let seeks = 2 * keys.len();
            println!("{name}/{}: {allocated} allocations in {seeks} seeks", family.name());
            assert_eq!(allocated, 0, "{name}/{}: in {seeks} seeks", family.name());
        }
    }
}

/// Tests that the verification of written blocks and filters is executed. Only damaged memory could
/// make a verification fail, so the test measures how much memory a flush allocates with and
/// without verification. A verification rebuilds the blocks or the filter. This allocates far more
/// bytes than the amount by which two flushes without verification differ.
#[test]
fn written_blocks_and_filters_are_verified_if_the_options_ask_for_it() {
    const KEYS: u32 = 20_000;
    let flush = |table: &str| {
        let disk = tailwater_io::sim::SimStorage::new(1);
        let mut options = OpenOptions::with_storage(Arc::new(disk));
        options.set_inline_background(true);
        let table = format!("block_size=1M;filter_policy=bloomfilter:100;{table}");
        let table = format!("create_if_missing=true;block_based_table_factory={{{table}}}");
        options.set_from_string(&table).expect("options");
        let db = Db::open("/db", &options).expect("a new database");
        let family = db.cf_handle("default").expect("a column family");
        for key in 0..KEYS {
            let value = key.to_string().repeat(10);
            let options = tailwater::WriteOptions::default();
            db.put_cf_opt(&family, key.to_be_bytes(), value.as_bytes(), &options).expect("a put");
        }
        allocations(|| db.flush_cf(&family).expect("a flush")).1
    };
    let without = flush("");
    // Each option enables a verification. It is paired with the approximate number of bytes that
    // the verification allocates. The filter has 100 bits per key. A value is the key's number in
    // decimal, repeated ten times. Most numbers have five digits.
    for (option, bytes) in [
        ("verify_compression", u64::from(KEYS) * 40),
        ("detect_filter_construct_corruption", u64::from(KEYS) * 100 / 8),
    ] {
        let with = flush(&format!("{option}=true"));
        println!("{option}: {with} bytes, {without} without it");
        assert!(with - without > bytes / 2, "{option}: {with} and {without}");
    }
}
