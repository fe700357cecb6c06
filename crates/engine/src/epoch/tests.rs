//! Tests of epochs with real threads.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use super::*;

/// An object whose drop increments the shared counter `dropped` and overwrites `check`. A test can
/// thus detect a use after the drop.
struct Canary {
    number: u64,
    check: AtomicU64,
    dropped: Arc<AtomicUsize>,
}

const POISON: u64 = 0xdead_beef_dead_beef;

impl Canary {
    fn new(number: u64, dropped: &Arc<AtomicUsize>) -> Arc<Self> {
        let dropped = Arc::clone(dropped);
        Arc::new(Self { number, check: AtomicU64::new(!number), dropped })
    }

    fn is_alive(&self) -> bool {
        self.check.load(Ordering::Relaxed) == !self.number
    }
}

impl Drop for Canary {
    fn drop(&mut self) {
        assert!(self.is_alive(), "dropped twice");
        self.check.store(POISON, Ordering::Relaxed);
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }
}

/// Calls `collect` until `done`. Guards of other tests in the process may delay the collection.
fn collect_until(collect: impl Fn() -> usize, done: impl Fn() -> bool) {
    let start = Instant::now();
    while !done() {
        collect();
        assert!(start.elapsed() < Duration::from_secs(30), "retired objects are not dropped");
        thread::yield_now();
    }
}

#[test]
fn a_guard_delays_freeing_of_objects_retired_meanwhile() {
    let (garbage, dropped) = (Garbage::new(), Arc::new(AtomicUsize::new(0)));
    let cell = EpochCell::in_bin(garbage.bin(), Some(Canary::new(1, &dropped)));
    let outer = pin();
    let seen = cell.load(&outer).expect("the first canary");
    cell.store(Some(Canary::new(2, &dropped)));
    drop(pin());
    for _ in 0..10 {
        assert_eq!((garbage.waiting(), dropped.load(Ordering::Relaxed)), (1, 0));
        garbage.collect();
        assert!(seen.is_alive());
    }
    assert_eq!(cell.load(&outer).map(|canary| canary.number), Some(2));
    drop(outer);
    assert_eq!(dropped.load(Ordering::Relaxed), 0, "a guard's end dropped something");
    collect_until(|| garbage.collect(), || dropped.load(Ordering::Relaxed) == 1);
    assert_eq!(garbage.waiting(), 0);
    drop(cell);
    assert_eq!((garbage.waiting(), dropped.load(Ordering::Relaxed)), (1, 1));
    collect_until(|| garbage.collect(), || dropped.load(Ordering::Relaxed) == 2);
}

#[test]
fn a_borrowed_object_outlives_its_cell() {
    let garbage = Garbage::new();
    for bin in [Bin::default(), garbage.bin()] {
        let dropped = Arc::new(AtomicUsize::new(0));
        let guard = pin();
        let cell = EpochCell::in_bin(bin, Some(Canary::new(1, &dropped)));
        let seen = cell.load(&guard).expect("a canary");
        drop(cell);
        garbage.collect();
        assert!(seen.is_alive());
        drop(guard);
        // Drains both lists.
        collect_until(|| garbage.collect(), || dropped.load(Ordering::Relaxed) == 1);
    }
}

#[test]
fn a_counted_reference_outlives_collection() {
    let (garbage, dropped) = (Garbage::new(), Arc::new(AtomicUsize::new(0)));
    let cell = EpochCell::in_bin(garbage.bin(), Some(Canary::new(1, &dropped)));
    let loaded = cell.load_arc().expect("a canary");
    cell.store(None);
    assert!(cell.load_arc().is_none());
    collect_until(|| garbage.collect(), || Arc::strong_count(&loaded) == 1);
    drop(loaded);
    assert_eq!(dropped.load(Ordering::Relaxed), 1);
}

#[test]
fn a_stamp_is_passed_when_its_readers_have_left() {
    let guard = pin();
    let stamp = advance();
    assert!(oldest_pinned() <= stamp);
    drop(guard);
    let start = Instant::now();
    while oldest_pinned() <= stamp {
        assert!(start.elapsed() < Duration::from_secs(30));
        thread::yield_now();
    }
}

#[test]
fn a_thread_that_ends_releases_its_slot() {
    static DOMAIN: Domain = Domain::new();
    let domain = &DOMAIN;
    let first: *const Slot = domain.take_slot();
    let second = domain.take_slot();
    second.release();
    assert!(std::ptr::eq(second, domain.take_slot()));
    assert!(!std::ptr::eq(first, domain.take_slot()));

    // Many threads that start and end must reuse slots. Without reuse, the number of slots would
    // grow with every thread, and so would the time of a scan.
    for _ in 0..200 {
        thread::scope(|scope| scope.spawn(|| drop(pin())).join().expect("pins"));
    }
}

#[test]
fn a_guard_protects_after_its_threads_slot_was_released() {
    struct Late(RefCell<Option<Guard>>, RefCell<Option<Arc<AtomicBool>>>);
    impl Drop for Late {
        fn drop(&mut self) {
            let nested = pin();
            let stamp = advance();
            let guarded = oldest_pinned() <= stamp;
            drop(self.0.take());
            drop(nested);
            if let Some(answer) = self.1.take() {
                answer.store(guarded, Ordering::Relaxed);
            }
        }
    }
    thread_local! {
        static LATE: Late = const { Late(RefCell::new(None), RefCell::new(None)) };
    }
    for pin_first in [false, true] {
        let guarded = Arc::new(AtomicBool::new(false));
        let answer = Arc::clone(&guarded);
        thread::scope(|scope| {
            scope.spawn(move || {
                // Thread-local destructors run in registration order or in the reverse order,
                // depending on the platform. The test tries both orders.
                let early = pin_first.then(pin);
                LATE.with(|late| {
                    *late.0.borrow_mut() = Some(pin());
                    *late.1.borrow_mut() = Some(answer);
                });
                drop(early);
            });
        });
        let start = Instant::now();
        while !guarded.load(Ordering::Relaxed) {
            assert!(start.elapsed() < Duration::from_secs(30), "pin_first {pin_first}");
            thread::yield_now();
        }
    }
}

/// An object of this test is a number. The writer frees all numbers below some number with a single
/// store, because a slower free could miss the failure that the test looks for: a reader's
/// announcement is still in its processor's store buffer while the reader already reads. This
/// window is short. To lengthen it, both threads store to contended cache lines, which keeps the
/// store buffer full.
#[test]
fn an_announcement_is_visible_before_the_reads_that_follow_it() {
    #[repr(align(128))]
    struct Line(AtomicU64);
    const ENOUGH: u64 = 600_000;
    static DOMAIN: Domain = Domain::new();
    let domain = &DOMAIN;
    let [linked, freed_below] = [0, 0].map(|value| Line(AtomicU64::new(value)));
    // Number of reads that found a newer number than the previous read found. The writer has
    // written between the two reads, so it certainly ran concurrently with them.
    let newer_reads = Line(AtomicU64::new(0));
    let noise = [(); 8].map(|()| Line(AtomicU64::new(0)));
    let stop = AtomicBool::new(false);
    let start = Barrier::new(2);
    thread::scope(|scope| {
        scope.spawn(|| {
            let slot = domain.take_slot();
            let mut last = 0;
            start.wait();
            while !stop.load(Ordering::Relaxed) {
                noise.iter().for_each(|line| line.0.store(1, Ordering::Relaxed));
                domain.enter(slot);
                let seen = linked.0.load(Ordering::Acquire);
                for _ in 0..4 {
                    let freed_below = freed_below.0.load(Ordering::Acquire);
                    if freed_below > seen {
                        stop.store(true, Ordering::Relaxed);
                        panic!("{seen} was in use, all below {freed_below} were freed");
                    }
                }
                slot.leave();
                newer_reads.0.fetch_add(u64::from(seen != last), Ordering::Relaxed);
                last = seen;
            }
        });
        let (mut freed, mut number) = (0, 0);
        start.wait();
        let begin = Instant::now();
        let is_enough = |freed: u64| freed.min(newer_reads.0.load(Ordering::Relaxed)) >= ENOUGH;
        // If the two threads never run at the same time on this machine, the test cannot find a
        // failure, and gives up.
        let is_hopeless = |number| number % 256 == 0 && begin.elapsed() > Duration::from_secs(2);
        while !is_enough(freed) && !is_hopeless(number) && !stop.load(Ordering::Relaxed) {
            number += 1;
            noise.iter().for_each(|line| line.0.store(2, Ordering::Relaxed));
            linked.0.store(number, Ordering::Release);
            let stamp = domain.advance();
            if stamp < domain.oldest_pinned() {
                freed_below.0.store(number, Ordering::Release);
                freed += 1;
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn concurrent_readers_see_only_live_objects() {
    const READERS: usize = 3;
    const SWAPS: u64 = 30_000;
    let (garbage, dropped) = (Garbage::new(), Arc::new(AtomicUsize::new(0)));
    let new = |number| Some(Canary::new(number, &dropped));
    // The cells of a database, and those of no database.
    let cells = [garbage.bin(), Bin::default()].map(|bin| EpochCell::in_bin(bin, new(0)));
    let stop = AtomicBool::new(false);
    let start = Barrier::new(READERS + 2);
    thread::scope(|scope| {
        for _ in 0..READERS {
            scope.spawn(|| {
                start.wait();
                while !stop.load(Ordering::Relaxed) {
                    let guard = pin();
                    for cell in &cells {
                        let canary = cell.load(&guard).expect("never empty");
                        assert!(canary.is_alive(), "a reader saw a dropped object");
                        let nested = pin();
                        assert!(canary.is_alive(), "a reader's object was dropped under it");
                        drop(nested);
                        assert!(canary.is_alive(), "a reader's object was dropped under it");
                    }
                }
            });
        }
        let writers: Vec<_> = cells
            .iter()
            .map(|cell| {
                scope.spawn(|| {
                    start.wait();
                    for number in 0..SWAPS {
                        cell.store(new(number));
                        garbage.collect();
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.join().expect("the writer is done");
        }
        stop.store(true, Ordering::Relaxed);
    });
    drop(cells);
    let all = 2 + 2 * SWAPS;
    collect_until(|| garbage.collect(), || dropped.load(Ordering::Relaxed) as u64 == all);
}

/// Starts a thread that holds a guard until the returned sender is dropped. Returns when it holds
/// the guard.
fn pin_elsewhere<'s>(scope: &'s thread::Scope<'s, '_>) -> mpsc::Sender<()> {
    let (end, wait_for_end) = mpsc::channel();
    let (begun, wait_for_begin) = mpsc::channel();
    scope.spawn(move || {
        let _guard = pin();
        begun.send(()).expect("the test waits");
        assert!(wait_for_end.recv().is_err(), "only dropped");
    });
    wait_for_begin.recv().expect("the thread pins");
    end
}

#[test]
fn each_database_counts_and_collects_its_own_garbage() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let (first, second) = (Garbage::new(), Garbage::new());
    let guard = pin();
    for number in 0..3 {
        first.retire(Canary::new(number, &dropped));
    }
    second.bin().retire(Canary::new(3, &dropped));
    assert_eq!((first.waiting(), second.waiting()), (3, 1));
    drop(guard);
    collect_until(|| second.collect(), || second.waiting() == 0);
    assert_eq!((first.waiting(), dropped.load(Ordering::Relaxed)), (3, 1));
    collect_until(|| first.bin().collect(), || first.waiting() == 0);
    assert_eq!(dropped.load(Ordering::Relaxed), 4);
}

#[test]
fn closing_leaves_what_a_reader_sees_to_other_databases() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let (closed, open) = (Garbage::new(), Garbage::new());
    thread::scope(|scope| {
        let reader = pin_elsewhere(scope);
        closed.retire(Canary::new(1, &dropped));
        closed.close();
        // The closed database's structures retire more.
        let bin = closed.bin();
        bin.retire(Canary::new(2, &dropped));
        bin.release(Canary::new(3, &dropped));
        assert_eq!((closed.waiting(), open.waiting()), (0, 0));
        drop(closed);
        bin.retire(Canary::new(4, &dropped));
        bin.release(Canary::new(5, &dropped));
        open.collect();
        assert_eq!(dropped.load(Ordering::Relaxed), 0, "dropped under a reader");
        drop(reader);
    });
    collect_until(|| open.collect(), || dropped.load(Ordering::Relaxed) == 5);
}

#[test]
fn the_last_database_drops_what_others_have_left() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let last = Garbage::new();
    thread::scope(|scope| {
        let _reader = pin_elsewhere(scope);
        let first = Garbage::new();
        first.retire(Canary::new(1, &dropped));
    });
    last.close();
    // A guard of another test may have been in the way.
    collect_until(collect_unowned, || dropped.load(Ordering::Relaxed) == 1);
}

/// Objects that retire others when they are dropped, as a super version does.
#[test]
fn closing_drops_objects_that_retire_others() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let garbage = Garbage::new();
    let inner = EpochCell::in_bin(garbage.bin(), Some(Canary::new(1, &dropped)));
    garbage.retire((Canary::new(2, &dropped), inner));
    drop(garbage);
    collect_until(collect_unowned, || dropped.load(Ordering::Relaxed) == 2);
}

/// An object that reports the thread that drops it.
struct Heavy(mpsc::Sender<ThreadId>);

impl Drop for Heavy {
    fn drop(&mut self) {
        self.0.send(thread::current().id()).expect("the test waits");
    }
}

/// Regression test: the thread that dropped the last iterator over a memtable had to free its
/// memory.
#[test]
fn heavy_objects_are_dropped_by_a_collector_of_their_database() {
    let (sender, dropped) = mpsc::channel();
    let (garbage, other) = (&Garbage::new(), Garbage::new());
    let (begun, wait_for_begin) = mpsc::channel();
    let (end, wait_for_end) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let collector = scope.spawn(move || {
            let _collector = garbage.begin_collecting();
            begun.send(()).expect("the test waits");
            assert!(wait_for_end.recv().is_err(), "only dropped");
        });
        let collector = collector.thread().id();
        wait_for_begin.recv().expect("the thread collects");
        garbage.bin().drop_elsewhere(Heavy(sender.clone()));
        assert!(dropped.try_recv().is_err(), "dropped before the collector could");
        // The other database has no collector.
        other.bin().drop_elsewhere(Heavy(sender.clone()));
        assert_eq!(dropped.try_recv(), Ok(thread::current().id()));
        drop(end);
        assert_eq!(dropped.recv(), Ok(collector));
    });
    for bin in [garbage.bin(), Bin::default()] {
        bin.drop_elsewhere(Heavy(sender.clone()));
        assert_eq!(dropped.try_recv(), Ok(thread::current().id()), "no collector is left");
    }
}
