//! Tests of epochs with real threads.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
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

/// Collects until `done`. Guards of other tests in the process may delay the collection.
fn collect_until(done: impl Fn() -> bool) {
    let start = Instant::now();
    while !done() {
        collect();
        assert!(start.elapsed() < Duration::from_secs(30), "still waiting for {}", waiting());
        thread::yield_now();
    }
}

#[test]
fn a_guard_delays_freeing_of_objects_retired_meanwhile() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let cell = EpochCell::new(Some(Canary::new(1, &dropped)));
    let outer = pin();
    let seen = cell.load(&outer).expect("the first canary");
    cell.store(Some(Canary::new(2, &dropped)));
    drop(pin());
    for _ in 0..10 {
        collect();
        assert_eq!(dropped.load(Ordering::Relaxed), 0);
        assert!(seen.is_alive() && waiting() >= 1);
    }
    assert_eq!(cell.load(&outer).map(|canary| canary.number), Some(2));
    drop(outer);
    assert_eq!(dropped.load(Ordering::Relaxed), 0, "a guard's end dropped something");
    collect_until(|| dropped.load(Ordering::Relaxed) == 1);
    drop(cell);
    collect_until(|| dropped.load(Ordering::Relaxed) == 2);
}

#[test]
fn a_borrowed_object_outlives_its_cell() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let guard = pin();
    let cell = EpochCell::new(Some(Canary::new(1, &dropped)));
    let seen = cell.load(&guard).expect("a canary");
    drop(cell);
    collect();
    assert!(seen.is_alive());
}

#[test]
fn a_counted_reference_outlives_collection() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let cell = EpochCell::new(Some(Canary::new(1, &dropped)));
    let loaded = cell.load_arc().expect("a canary");
    cell.store(None);
    assert!(cell.load_arc().is_none());
    collect_until(|| Arc::strong_count(&loaded) == 1);
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
    let dropped = Arc::new(AtomicUsize::new(0));
    let cells = [0, 1].map(|number| EpochCell::new(Some(Canary::new(number, &dropped))));
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
                        cell.store(Some(Canary::new(number, &dropped)));
                        collect();
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
    collect_until(|| dropped.load(Ordering::Relaxed) as u64 == 2 + 2 * SWAPS);
}
