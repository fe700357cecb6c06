//! Loom tests of pinning, unlinking and freeing: loom tries every interleaving, and every value
//! that a load may return.
//!
//! The object under test is in a loom cell, and freeing it is a write to the cell, so loom reports
//! a reader whose read is not ordered before the write. The test has a domain of its own, because
//! the thread-local slots of the process's domain do not work with loom's threads.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

use super::domain::Domain;

const ALIVE: u32 = 0x600d;
const FREED: u32 = 0xdead;

/// Two objects. Readers can reach only one of them: the one whose index is `linked`.
struct LinkedObjects {
    domain: Domain,
    linked: AtomicUsize,
    objects: [UnsafeCell<u32>; 2],
}

// SAFETY: the test's subject is that the protocol orders every access to the cells; loom checks
// each one.
#[expect(unsafe_code, reason = "loom's cells are shared on purpose")]
unsafe impl Sync for LinkedObjects {}

impl LinkedObjects {
    fn new() -> Self {
        let objects = [UnsafeCell::new(ALIVE), UnsafeCell::new(ALIVE)];
        Self { domain: Domain::new(), linked: AtomicUsize::new(0), objects }
    }

    fn look(&self) {
        let linked = self.linked.load(Ordering::Acquire);
        #[expect(unsafe_code, reason = "loom checks that no write is concurrent")]
        // SAFETY: loom fails the test if this read and a write to the cell are not ordered.
        let found = self.objects[linked].with(|object| unsafe { *object });
        assert_eq!(found, ALIVE, "object {linked}");
    }

    fn free(&self, index: usize) {
        #[expect(unsafe_code, reason = "loom checks that no access is concurrent")]
        // SAFETY: as in `look`.
        self.objects[index].with_mut(|object| unsafe { *object = FREED });
    }
}

#[test]
fn a_reader_never_sees_what_a_writer_frees() {
    loom::model(|| {
        let shared = Arc::new(LinkedObjects::new());
        let reader = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let slot = shared.domain.take_slot();
                for _ in 0..2 {
                    shared.domain.enter(slot);
                    shared.look();
                    slot.leave();
                }
                slot.release();
            })
        };
        shared.linked.store(1, Ordering::Release);
        let stamp = shared.domain.advance();
        if stamp < shared.domain.oldest_pinned() {
            shared.free(0);
        }
        reader.join().expect("the reader found what it should");
    });
}

#[test]
fn a_third_thread_may_free_an_object_given_only_its_stamp() {
    loom::model(|| {
        let shared = Arc::new(LinkedObjects::new());
        let stamp = Arc::new(AtomicUsize::new(usize::MAX));
        let reader = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let slot = shared.domain.take_slot();
                shared.domain.enter(slot);
                shared.look();
                slot.leave();
            })
        };
        let collector = {
            let (shared, stamp) = (Arc::clone(&shared), Arc::clone(&stamp));
            thread::spawn(move || {
                let oldest = shared.domain.oldest_pinned();
                // The stamp may have been taken after the scan. The result of the scan must be
                // valid for it, too.
                if (stamp.load(Ordering::Acquire) as u64) < oldest {
                    shared.free(0);
                }
            })
        };
        shared.linked.store(1, Ordering::Release);
        stamp.store(shared.domain.advance() as usize, Ordering::Release);
        reader.join().expect("the reader found what it should");
        collector.join().expect("the collector is done");
    });
}

#[test]
fn a_slot_is_taken_by_one_thread_at_a_time() {
    loom::model(|| {
        let domain = Arc::new(Domain::new());
        domain.take_slot().release();
        let other = {
            let domain = Arc::clone(&domain);
            thread::spawn(move || std::ptr::from_ref(domain.take_slot()) as usize)
        };
        let mine = std::ptr::from_ref(domain.take_slot()) as usize;
        assert_ne!(mine, other.join().expect("the other thread has a slot"));
    });
}
