//! The budget of files that compactions open in addition to the shared open tables.
//!
//! Compactions that read in an I/O mode of their own open their input files a second time. The
//! number of open files of a process is limited (`RLIMIT_NOFILE`), and reaching the limit would
//! make users' reads fail. So these second opens are counted against a budget. Once half the budget
//! is used, files are closed as soon as they have been read. A compaction merges only as many
//! level-0 tables at a time as its share of the budget allows.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of level-0 tables that a compaction may always merge at a time, however small its share
/// of the budget.
const FAN_IN_MIN: usize = 4;

/// Number of descriptors per input file of a compaction: one for the file, and one for its
/// readahead ring.
const DESCRIPTORS: usize = 2;

/// The open-file budget of compactions, shared by the compactions of a database.
#[derive(Debug)]
pub(crate) struct OpenBudget {
    /// The budget, in file descriptors.
    capacity: AtomicUsize,
    taken: AtomicUsize,
}

/// A permit for an open file. The file counts against the budget until the permit is dropped.
#[derive(Debug)]
pub(crate) struct OpenPermit(Arc<OpenBudget>);

impl OpenBudget {
    /// Creates a budget of `descriptors` file descriptors.
    pub(crate) fn new(descriptors: usize) -> Self {
        Self { capacity: AtomicUsize::new(descriptors), taken: AtomicUsize::new(0) }
    }

    /// Changes the budget to `descriptors` file descriptors.
    pub(crate) fn set(&self, descriptors: usize) {
        self.capacity.store(descriptors, Ordering::Relaxed);
    }

    /// Counts a file that is about to be opened.
    pub(crate) fn take(self: &Arc<Self>) -> OpenPermit {
        self.taken.fetch_add(DESCRIPTORS, Ordering::Relaxed);
        OpenPermit(Arc::clone(self))
    }

    /// Returns the number of open files.
    #[cfg(test)]
    pub(crate) fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed) / DESCRIPTORS
    }

    /// Whether files may be kept open after they have been read.
    pub(crate) fn has_room(&self) -> bool {
        self.taken.load(Ordering::Relaxed) < self.capacity.load(Ordering::Relaxed) / 2
    }

    /// Returns the maximum number of level-0 tables that each of `jobs` concurrent compactions or
    /// subcompactions may have open at a time. `reads_ahead` says whether each table has a
    /// readahead ring.
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
    fn compactions_divide_the_budget() {
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
