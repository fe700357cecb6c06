//! What compactions note about a table.

use std::sync::atomic::{AtomicBool, Ordering};

/// What compactions note about a table at its level.
#[derive(Debug, Default)]
pub(crate) struct CompactionMarks {
    is_claimed: AtomicBool,
    is_settled: AtomicBool,
    is_suggested: AtomicBool,
}

impl CompactionMarks {
    /// Whether the table is an input of a running compaction. May be called only under the lock
    /// that is held while compactions are picked.
    pub(crate) fn is_claimed(&self) -> bool {
        self.is_claimed.load(Ordering::Relaxed)
    }

    /// Sets whether the table is an input of a running compaction, under the same lock.
    pub(crate) fn set_claimed(&self, is_claimed: bool) {
        self.is_claimed.store(is_claimed, Ordering::Relaxed);
    }

    /// Whether a compaction of the table was suggested.
    pub(crate) fn is_suggested(&self) -> bool {
        self.is_suggested.load(Ordering::Relaxed)
    }

    /// Records that a compaction of the table was suggested.
    pub(crate) fn set_suggested(&self) {
        self.is_suggested.store(true, Ordering::Relaxed);
    }

    /// Whether another compaction of the table to its own level would not change it. This is so if
    /// a compaction wrote the table to the last level of its key range, and all snapshots saw all
    /// its records: any sequence numbers that it did not set to 0 belong to merge operands that
    /// cannot be merged.
    pub(crate) fn is_settled(&self) -> bool {
        self.is_settled.load(Ordering::Relaxed)
    }

    /// Records that another compaction of the table to its own level would not change it.
    pub(crate) fn set_settled(&self) {
        self.is_settled.store(true, Ordering::Relaxed);
    }
}
