//! Retired objects that readers may still see.
//!
//! Adding an object is lock-free, so that a low-priority thread can add objects: the object is
//! pushed onto a stack. A collector moves the whole stack into a queue that only collectors lock.
//! It releases this lock before it drops the objects that are due. A slow drop therefore delays no
//! other thread, and a drop may itself retire or collect.

#![expect(unsafe_code, reason = "the stack's links are boxes in atomic pointers")]

use std::any::Any;
use std::ptr;
use std::sync::atomic::AtomicUsize;

use tailwater_io::sync::Mutex;

use super::atomic::{AtomicPtr, Ordering, constructor};
use super::domain::Domain;

/// An object and its stamp: the count of the epoch clock when the object was unlinked.
struct Waiting {
    stamp: u64,
    /// The object, which is only kept to be dropped. `Any` allows any type.
    object: Box<dyn Any + Send>,
}

/// A node of the stack's linked list.
struct Link {
    waiting: Waiting,
    next: *mut Link,
}

/// A list of objects that were retired and are not yet dropped. It must be empty when it is itself
/// dropped.
pub(super) struct Retired {
    /// Objects not yet seen by a collector, the newest first.
    stack: AtomicPtr<Link>,
    /// Objects that a collector kept at its last check, because readers might still have seen them.
    queue: Mutex<Vec<Waiting>>,
    /// Number of objects that are retired and not completely dropped.
    count: AtomicUsize,
}

/// The drop of this value subtracts `objects` from the count of retired objects, even if the drop
/// of an object panicked.
struct Dropped<'c> {
    objects: usize,
    of: &'c AtomicUsize,
}

impl Drop for Dropped<'_> {
    fn drop(&mut self) {
        self.of.fetch_sub(self.objects, Ordering::Release);
    }
}

impl Retired {
    constructor! {
        /// Creates an empty set.
        pub(super) fn new() -> Self {
            Self {
                stack: AtomicPtr::new(ptr::null_mut()),
                queue: Mutex::new(Vec::new()),
                count: AtomicUsize::new(0),
            }
        }
    }

    /// Adds an object. `stamp` is the clock's count when the object was unlinked.
    pub(super) fn push(&self, stamp: u64, object: Box<dyn Any + Send>) {
        self.count.fetch_add(1, Ordering::Relaxed);
        let mut head = self.stack.load(Ordering::Relaxed);
        let waiting = Waiting { stamp, object };
        let link = Box::into_raw(Box::new(Link { waiting, next: head }));
        loop {
            // SAFETY: the link came from the box above, and nobody else knows it until the exchange
            // succeeds.
            unsafe { (*link).next = head };
            match self.stack.compare_exchange(head, link, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(found) => head = found,
            }
        }
    }

    /// Returns the number of retired objects that are not yet completely dropped. The drop of an
    /// object that is no longer counted happens-before the return from this call.
    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Drops the objects that no reader of `domain` can see any more, and returns their number.
    /// Returns 0 if another collector holds the lock of the queue.
    pub(super) fn collect(&self, domain: &Domain) -> usize {
        let Some(mut queue) = self.queue.try_lock() else { return 0 };
        self.unstack(&mut queue);
        if queue.is_empty() {
            return 0;
        }
        let oldest = domain.oldest_pinned();
        let due: Vec<Waiting> = queue.extract_if(.., |waiting| waiting.stamp < oldest).collect();
        drop(queue);
        let dropped = Dropped { objects: due.len(), of: &self.count };
        drop(due);
        dropped.objects
    }

    /// Drops all waiting objects, which must be invisible to readers.
    pub(super) fn collect_all(&self) {
        let due = self.take_all();
        let _dropped = Dropped { objects: due.len(), of: &self.count };
        drop(due);
    }

    /// Drops the objects that no reader of `domain` can see any more, and moves the others to
    /// `heir`.
    pub(super) fn dissolve(&self, domain: &Domain, heir: &Self) {
        let mut all = self.take_all();
        let _left = Dropped { objects: all.len(), of: &self.count };
        let oldest = domain.oldest_pinned();
        for Waiting { stamp, object } in all.extract_if(.., |waiting| waiting.stamp >= oldest) {
            heir.push(stamp, object);
        }
        drop(all);
    }

    fn take_all(&self) -> Vec<Waiting> {
        let mut queue = self.queue.lock();
        self.unstack(&mut queue);
        std::mem::take(&mut *queue)
    }

    fn unstack(&self, queue: &mut Vec<Waiting>) {
        let mut next = self.stack.swap(ptr::null_mut(), Ordering::Acquire);
        while !next.is_null() {
            // SAFETY: the swap made every link of this stack ours alone; each came from a box in
            // `push`.
            let link = unsafe { Box::from_raw(next) };
            next = link.next;
            queue.push(link.waiting);
        }
    }
}
