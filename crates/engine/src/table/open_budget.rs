//! How many files compactions may have open beside the tables that everybody reads.
//!
//! Compactions that read in a mode of their own open their inputs a second time. A process may have
//! only so many files open (`RLIMIT_NOFILE`), and running out of them would fail users' reads. So
//! these opens are counted: no table or blob file is kept open longer than it is read once half the
//! budget is taken, and a compaction takes no more tables of level 0 at a time than its share of
//! it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The fewest tables of level 0 that a compaction takes at once, if there are as many.
const FAN_IN_MIN: usize = 4;

/// What a file costs that a compaction reads for itself: a descriptor, and one for the ring that
/// reads it ahead.
const DESCRIPTORS: usize = 2;

/// How many files compactions may have open. Shared by the compactions of a database.
#[derive(Debug)]
pub(crate) struct OpenBudget {
    /// In descriptors, as is what is taken.
    capacity: AtomicUsize,
    taken: AtomicUsize,
}

/// A file that is open, until this is dropped.
#[derive(Debug)]
pub(crate) struct OpenPermit(Arc<OpenBudget>);

impl OpenBudget {
    /// A budget of so many descriptors.
    pub(crate) fn new(descriptors: usize) -> Self {
        Self { capacity: AtomicUsize::new(descriptors), taken: AtomicUsize::new(0) }
    }

    /// Another budget from now on.
    pub(crate) fn set(&self, descriptors: usize) {
        self.capacity.store(descriptors, Ordering::Relaxed);
    }

    /// Counts a file that is about to be opened.
    pub(crate) fn take(self: &Arc<Self>) -> OpenPermit {
        self.taken.fetch_add(DESCRIPTORS, Ordering::Relaxed);
        OpenPermit(Arc::clone(self))
    }

    /// How many files are open.
    #[cfg(test)]
    pub(crate) fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed) / DESCRIPTORS
    }

    /// Whether files may be kept open beyond their reading.
    pub(crate) fn has_room(&self) -> bool {
        self.taken.load(Ordering::Relaxed) < self.capacity.load(Ordering::Relaxed) / 2
    }

    /// How many tables of level 0 may be taken by one of `jobs` that run at a time, compactions or
    /// parts of them: all of its tables are open at once. `reads_ahead` where each has a ring.
    pub(crate) fn fan_in(&self, jobs: usize, reads_ahead: bool) -> usize {
        let share = self.capacity.load(Ordering::Relaxed) / 2 / jobs.max(1);
        let descriptors = if reads_ahead { DESCRIPTORS } else { 1 };
        (share / descriptors).max(FAN_IN_MIN)
    }
}

impl Drop for OpenPermit {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(DESCRIPTORS, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tables_leave_is_shared_out() {
        let budget = Arc::new(OpenBudget::new(760));
        assert_eq!((budget.fan_in(1, true), budget.fan_in(4, true)), (190, 47));
        assert_eq!(budget.fan_in(4, false), 95);
        assert_eq!(OpenBudget::new(32).fan_in(8, true), FAN_IN_MIN);
        let permits: Vec<_> = (0..190).map(|_| budget.take()).collect();
        assert!(!budget.has_room());
        drop(permits);
        assert!(budget.has_room());
        assert_eq!(budget.taken(), 0);
        budget.set(380);
        assert_eq!(budget.fan_in(1, true), 95);
    }
}
