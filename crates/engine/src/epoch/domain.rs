//! The clock, and the slots in which readers announce themselves.
//!
//! The process has one [`Domain`]; tests create more.
//!
//! # Why nothing is freed under a reader
//!
//! The clock only counts up. A reader *enters*: it loads the clock, stores the count in its slot,
//! passes a sequentially consistent fence, and only then loads shared pointers. A writer *unlinks*
//! an object, then *advances* the clock (a read-modify-write with release) and keeps the previous
//! count as the object's stamp. A collector loads the clock (acquire), passes a sequentially
//! consistent fence, scans the slots, and frees objects whose stamp is lower than every count that
//! it loaded from the clock and the slots. Consider a reader whose slot holds `p`, and an object
//! with stamp `s`:
//!
//! - `p > s`: the reader's load of the clock read the advance that made `s`, or a later advance.
//!   The fence after the load makes the load an acquire. Advances are read-modify-writes, so each
//!   continues the release sequence of those before it. The unlinking therefore happens before the
//!   reader's loads of shared pointers, which do not find the object. It may be freed.
//! - `p <= s`, and the collector sees `p`: the object is kept.
//! - `p <= s`, and the collector does not see `p`. Sequentially consistent fences have a total
//!   order, so there are two cases:
//!   - The reader's fence is before the collector's. Then the scan has read a newer value than `p`
//!     from the slot: the reader has left or entered again. Both are release stores, and the scan's
//!     load is an acquire. So the reader's use of the object happened before the object is freed.
//!   - The collector's fence is before the reader's. The collector had read a count above `s` from
//!     the clock, so the object was unlinked before the collector's fence. The reader's loads come
//!     after its own fence, and so find the object unlinked.
//!
//! The last case needs the clock to be read before the collector's fence. It also needs
//! [`Domain::oldest_pinned`] never to return more than the count that it read from the clock. An
//! object whose stamp is below the returned count may then be freed at any later time.
//!
//! A slot itself is never freed, only reused. A new slot is pushed onto the list of slots before
//! its owner's first fence. So the same argument holds for a collector whose scan misses the new
//! slot: the slot's owner sees every unlinking that happened before that collector's fence.

#![expect(unsafe_code, reason = "slots form a linked list that is read without a lock")]

use std::ptr;
use std::sync::atomic::{AtomicBool as UnwatchedBool, AtomicU64 as UnwatchedU64};

use super::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering, constructor, fence};

/// The value in the slot of a thread that is not reading.
const NOT_PINNED: u64 = 0;

/// The slot in which a thread stores the clock's count at which it began to read.
///
/// Aligned to 128 bytes, because processors may fetch two adjacent cache lines together. A store to
/// one slot therefore does not slow down the owners of other slots.
#[repr(align(128))]
pub(crate) struct Slot {
    /// The clock's count when the thread entered, or [`NOT_PINNED`].
    pinned: AtomicU64,
    /// Whether a thread owns the slot.
    taken: AtomicBool,
    /// The slot that was pushed before this slot. Never changes once this slot is in the list.
    next: *const Slot,
    /// Number of guards that the owner holds, including leaked guards. Wide enough never to
    /// overflow. Only the owner accesses this count.
    pub(crate) nesting: UnwatchedU64,
    /// Whether dropping the last guard also releases the slot, because the owner's thread is
    /// ending. Only the owner accesses this flag.
    pub(crate) ending: UnwatchedBool,
}

// SAFETY: `next` is written before the slot is shared and only read afterwards; all else is atomic.
unsafe impl Sync for Slot {}
// SAFETY: as for `Sync`; a slot does not refer to the thread that made it.
unsafe impl Send for Slot {}

impl Slot {
    /// Marks the slot's owner as no longer reading shared objects.
    #[inline]
    pub(crate) fn leave(&self) {
        self.pinned.store(NOT_PINNED, Ordering::Release);
    }

    /// Makes the slot available to another thread. The owner must have called [`Self::leave`]
    /// before.
    pub(crate) fn release(&self) {
        self.ending.store(false, Ordering::Relaxed);
        self.taken.store(false, Ordering::Release);
    }
}

/// A logical clock, and the slots in which readers store the clock's count at which they began to
/// read.
pub(crate) struct Domain {
    /// Starts at 1, so that no count in a slot equals [`NOT_PINNED`].
    clock: Clock,
    /// The head of the list of slots: the slot pushed last.
    slots: AtomicPtr<Slot>,
}

/// The count of the epoch clock. It is alone on its cache lines because every reader loads it.
#[repr(align(128))]
struct Clock(AtomicU64);

impl Domain {
    constructor! {
        /// Creates a domain without readers.
        pub(crate) fn new() -> Self {
            Self { clock: Clock(AtomicU64::new(1)), slots: AtomicPtr::new(ptr::null_mut()) }
        }
    }

    /// Returns a slot for the calling thread: a released slot if there is one, otherwise a new
    /// slot.
    pub(crate) fn take_slot(&self) -> &'static Slot {
        let mut next = self.slots.load(Ordering::Acquire).cast_const();
        // SAFETY: every pointer in the list is null or points to a slot that was leaked below
        // before it was published with release ordering.
        while let Some(slot) = unsafe { next.as_ref() } {
            let free = !slot.taken.load(Ordering::Relaxed);
            if free
                && slot
                    .taken
                    .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
            {
                return slot;
            }
            next = slot.next;
        }
        self.push_slot()
    }

    fn push_slot(&self) -> &'static Slot {
        let mut head = self.slots.load(Ordering::Relaxed);
        let slot = Box::leak(Box::new(Slot {
            pinned: AtomicU64::new(NOT_PINNED),
            taken: AtomicBool::new(true),
            next: head,
            nesting: UnwatchedU64::new(0),
            ending: UnwatchedBool::new(false),
        }));
        loop {
            slot.next = head;
            let new: *mut Slot = slot;
            match self.slots.compare_exchange(head, new, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return slot,
                Err(found) => head = found,
            }
        }
    }

    /// Announces in `slot` that the caller starts to read. The caller must own `slot` and must not
    /// be reading.
    #[inline]
    pub(crate) fn enter(&self, slot: &Slot) {
        let count = self.clock.0.load(Ordering::Relaxed);
        // Release ordering: a collector may read this store instead of the store of the preceding
        // `leave`. The owner's earlier reads must then happen before the collector frees an object.
        slot.pinned.store(count, Ordering::Release);
        fence(Ordering::SeqCst);
    }

    /// Advances the clock and returns the previous count. This count is the stamp of the objects
    /// that the caller unlinked before this call.
    pub(crate) fn advance(&self) -> u64 {
        self.clock.0.fetch_add(1, Ordering::AcqRel)
    }

    /// Returns a lower bound of the clock counts at which the current readers entered. No reader,
    /// now or later, can see an object whose stamp is below the returned count. An object's stamp
    /// is the clock's count when the object was unlinked.
    pub(crate) fn oldest_pinned(&self) -> u64 {
        let mut oldest = self.clock.0.load(Ordering::Acquire);
        fence(Ordering::SeqCst);
        let mut next = self.slots.load(Ordering::Acquire).cast_const();
        // SAFETY: as in `take_slot`.
        while let Some(slot) = unsafe { next.as_ref() } {
            let pinned = slot.pinned.load(Ordering::Acquire);
            if pinned != NOT_PINNED {
                oldest = oldest.min(pinned);
            }
            next = slot.next;
        }
        oldest
    }
}
