//! Reads of what is in memory allocate nothing.
//!
//! An allocator that counts, for each thread by itself, shows how many times a get into a buffer of
//! the caller's, an iterator's step and an iterator's seek allocate once everything is cached. The
//! figures are printed.

#![expect(unsafe_code, reason = "an allocator that counts is an unsafe trait")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use tailwater::{ColumnFamily, Db, DbIterator, OpenOptions, ReadOptions};
use tailwater_testkit::dump::Entry;
use tailwater_testkit::golden;

/// The system's allocator, with a count of what each thread asks of it.
struct Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    // A thread that is ending has no count any more.
    let _ = COUNT.try_with(|count| count.set(count.get() + 1));
}

// SAFETY: every call is handed on to the system's allocator as it came; counting neither allocates
// nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the promises of `GlobalAlloc::alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the pointer is from `alloc` or `realloc`, and so from the system's allocator.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as for `dealloc`; the caller keeps the promises of `GlobalAlloc::realloc`.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How often `work` allocates.
fn allocations(work: impl FnOnce()) -> u64 {
    let before = COUNT.get();
    work();
    COUNT.get() - before
}

/// A database with everything that it reads in memory.
struct Warm {
    _directory: tempfile::TempDir,
    db: Db,
    dump: Vec<Entry>,
    name: &'static str,
}

/// The databases whose values are plain: what is merged or in blob files is made anew for each
/// read.
const PLAIN: [&str; 6] = ["basic", "fifo", "formats", "packages", "universal", "wal"];

impl Warm {
    fn new(name: &'static str) -> Self {
        let directory = golden::unpack(name);
        let options = OpenOptions::load(directory.path()).expect("an OPTIONS file");
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
        let options = ReadOptions { total_order_seek: true, ..ReadOptions::default() };
        self.db.iterator(family, &options).expect("an iterator")
    }

    /// Gets every key and one beside it, and answers how many gets that were and how often they
    /// allocated.
    fn get_all(&self) -> (u64, u64) {
        let options = ReadOptions::default();
        let mut value = Vec::with_capacity(1 << 20);
        let mut absent = Vec::with_capacity(1 << 10);
        let (mut gets, mut allocated) = (0, 0);
        for entry in &self.dump {
            let family = self.db.column_family(&entry.family).expect("a column family");
            absent.clear();
            absent.extend_from_slice(&entry.key);
            absent.push(0);
            allocated += allocations(|| {
                let found = self.db.get_into(&family, &entry.key, &options, &mut value);
                assert!(found.expect("a get") && value == entry.value, "{}", self.name);
                let found = self.db.get_into(&family, &absent, &options, &mut value);
                assert!(!found.expect("a get"), "{}", self.name);
            });
            gets += 2;
        }
        (gets, allocated)
    }
}

/// Goes over all entries, one way or the other, and answers how many steps that were and how often
/// they allocated.
fn pass(iterator: &mut DbIterator, forward: bool) -> (u64, u64) {
    let placed = if forward { iterator.seek_to_first() } else { iterator.seek_to_last() };
    placed.expect("a seek");
    let mut steps = 0;
    let allocated = allocations(|| {
        while iterator.valid() {
            let stepped = if forward { iterator.next() } else { iterator.previous() };
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

#[test]
fn a_step_in_cached_data_allocates_nothing() {
    for name in PLAIN {
        let warm = Warm::new(name);
        for family in &warm.db.column_families() {
            let mut iterator = warm.iterator(family);
            // The first pass of an iterator gives its buffers their sizes.
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
            // Not in order, so that tables and blocks change with every seek.
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
            let allocated = allocations(&mut seek_all);
            let seeks = 2 * keys.len();
            println!("{name}/{}: {allocated} allocations in {seeks} seeks", family.name());
            assert_eq!(allocated, 0, "{name}/{}: in {seeks} seeks", family.name());
        }
    }
}
