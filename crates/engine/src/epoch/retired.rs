//! Objects that wait for the readers that may still see them.
//!
//! Handing an object over is lock-free, so that a thread of reduced weight can do it: it pushes
//! onto a stack. A collector takes the whole stack at once into a queue that only collectors lock,
//! and drops what is due after letting go of the lock, so that a slow drop holds up nobody and may
//! itself retire or collect.

#![expect(unsafe_code, reason = "the stack's links are boxes in atomic pointers")]

use std::any::Any;
use std::ptr;
use std::sync::atomic::AtomicUsize;

use tailwater_io::sync::Mutex;

use super::atomic::{AtomicPtr, Ordering, constructor};
use super::domain::Domain;

/// An object and when it was unlinked.
struct Waiting {
    stamp: u64,
    /// Only dropped. `Any` stands for "of whatever type".
    #[expect(dead_code, reason = "held for the sake of its drop")]
    object: Box<dyn Any + Send>,
}

/// A link of the stack.
struct Link {
    waiting: Waiting,
    next: *mut Link,
}

/// What has been handed over and not been dropped yet.
pub(super) struct Retired {
    /// What no collector has seen yet, the newest first.
    stack: AtomicPtr<Link>,
    /// What a collector found not to be due yet.
    queue: Mutex<Vec<Waiting>>,
    /// How many objects stand in both.
    count: AtomicUsize,
}

/// Takes objects off the count when they have been dropped, also where one panicked.
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
        /// Nothing waits.
        pub(super) fn new() -> Self {
            Self {
                stack: AtomicPtr::new(ptr::null_mut()),
                queue: Mutex::new(Vec::new()),
                count: AtomicUsize::new(0),
            }
        }
    }

    /// Takes over an object with the stamp of its unlinking.
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

    /// How many objects wait. What the others did when they were dropped has happened before.
    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Drops what no reader of `domain` can see any more and answers how many objects that were;
    /// none if another collector is sorting at this moment.
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

    /// Drops everything that waits, which no reader may see.
    #[cfg(not(all(loom, test)))]
    pub(super) fn collect_all(&self) {
        let mut queue = self.queue.lock();
        self.unstack(&mut queue);
        let due = std::mem::take(&mut *queue);
        drop(queue);
        let _dropped = Dropped { objects: due.len(), of: &self.count };
        drop(due);
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
