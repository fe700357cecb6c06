//! Waiting for the end of a stall.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tailwater_io::sync::{Condvar, Mutex};

/// The writers that stall: at most one per database, the leader of its write queue.
#[derive(Debug, Default)]
pub(super) struct Stalls {
    /// Number of stalled writers.
    count: AtomicUsize,
    /// Number of changes that could have ended a stall, while there were stalled writers.
    changes: Mutex<u64>,
    changed: Condvar,
}

/// A stall of a writer, until this value is dropped.
#[derive(Debug)]
pub(crate) struct Stalled<'s> {
    stalls: &'s Stalls,
    /// The number of changes that the writer knows of.
    seen: u64,
}

impl Stalls {
    /// Begins a stall. The caller checks whether it should stall after this call, and then again
    /// after each change.
    pub(super) fn begin(&self) -> Stalled<'_> {
        self.count.fetch_add(1, Ordering::SeqCst);
        Stalled { stalls: self, seen: *self.changes.lock() }
    }

    /// Returns the number of stalled writers.
    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// Wakes all stalled writers, because something has changed. The caller has changed it with
    /// sequentially consistent ordering. So a writer whose stall is not counted yet sees the change
    /// when it checks whether it should stall.
    pub(super) fn wake(&self) {
        if self.count() > 0 {
            *self.changes.lock() += 1;
            self.changed.notify_all();
        }
    }
}

impl Stalled<'_> {
    /// Waits for the next change, for at most `longest`. Returns whether there was one.
    pub(crate) fn wait(&mut self, longest: Duration) -> bool {
        let changes = self.stalls.changes.lock();
        let seen = self.seen;
        let changes =
            self.stalls.changed.wait_timeout_while(changes, longest, |changes| *changes == seen);
        self.seen = *changes;
        self.seen != seen
    }
}

impl Drop for Stalled<'_> {
    fn drop(&mut self) {
        self.stalls.count.fetch_sub(1, Ordering::SeqCst);
    }
}
