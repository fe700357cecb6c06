//! Compaction pressure: it decides whether several compactions run concurrently, whether
//! low-priority compactions switch to normal priority, and with which priority compactions and
//! flushes ask a rate limiter.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use tailwater_io::pace::Priority;

/// The reasons why compactions should hurry. Any thread may set them. Compactions check them
/// regularly, between records.
#[derive(Debug, Default)]
pub(crate) struct CompactionPressure {
    /// Whether writes will soon be slowed down.
    near_stall: AtomicBool,
    /// Whether writes are slowed down or stopped.
    stalled: AtomicBool,
    /// Whether the number of tables in level 0 slows down reads.
    crowded: AtomicBool,
    /// Whether compactions fall behind the writes if only one compaction runs at a time.
    behind: AtomicBool,
    /// Number of callers that wait for a compaction to end.
    waiting: AtomicUsize,
}

/// Counts a caller as waiting for a compaction to end, until this value is dropped.
#[derive(Debug)]
pub(crate) struct Waiting<'u>(&'u CompactionPressure);

impl CompactionPressure {
    /// Whether compactions should run at normal instead of low priority.
    pub(crate) fn is_urgent(&self) -> bool {
        self.is_near_stall() || self.crowded.load(Relaxed) || self.waiting.load(Relaxed) > 0
    }

    /// Whether writes will soon be slowed down.
    pub(crate) fn is_near_stall(&self) -> bool {
        self.near_stall.load(Relaxed)
    }

    /// Sets whether writes will soon be slowed down.
    pub(crate) fn set_near_stall(&self, is_near: bool) {
        self.near_stall.store(is_near, Relaxed);
    }

    /// Whether writes are slowed down or stopped.
    pub(crate) fn is_stalled(&self) -> bool {
        self.stalled.load(Relaxed)
    }

    /// Sets whether writes are slowed down or stopped.
    pub(crate) fn set_stalled(&self, is_stalled: bool) {
        self.stalled.store(is_stalled, Relaxed);
    }

    /// Sets whether the number of tables in level 0 slows down reads.
    pub(crate) fn set_crowded(&self, is_crowded: bool) {
        self.crowded.store(is_crowded, Relaxed);
    }

    /// Whether several compactions should run concurrently.
    pub(crate) fn is_behind(&self) -> bool {
        self.behind.load(Relaxed)
    }

    /// Sets whether compactions fall behind the writes if only one compaction runs at a time.
    pub(crate) fn set_behind(&self, is_behind: bool) {
        self.behind.store(is_behind, Relaxed);
    }

    /// Returns the priority of background work at a rate limiter, which is `usual` unless writers
    /// wait for such work. The same as in RocksDB.
    pub(crate) fn priority(&self, usual: Priority) -> Priority {
        if self.is_stalled() { Priority::User } else { usual }
    }

    /// Counts the caller as waiting for running compactions, until the result is dropped.
    pub(crate) fn wait(&self) -> Waiting<'_> {
        self.waiting.fetch_add(1, Relaxed);
        Waiting(self)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::{CompactionPressure, Priority};

    #[test]
    fn pressure_is_urgent_while_a_caller_waits_or_a_stall_is_near() {
        let pressure = CompactionPressure::default();
        assert!(!pressure.is_urgent());
        let waiting = [pressure.wait(), pressure.wait()];
        assert!(pressure.is_urgent());
        drop(waiting);
        assert!(!pressure.is_urgent());
        pressure.set_near_stall(true);
        assert!(pressure.is_urgent());
        pressure.set_near_stall(false);
        pressure.set_crowded(true);
        assert!(pressure.is_urgent() && !pressure.is_near_stall());
    }

    #[test]
    fn work_has_the_priority_of_users_while_writes_are_stalled() {
        let pressure = CompactionPressure::default();
        assert_eq!(pressure.priority(Priority::Low), Priority::Low);
        pressure.set_stalled(true);
        assert_eq!(pressure.priority(Priority::Low), Priority::User);
        assert_eq!(pressure.priority(Priority::High), Priority::User);
    }
}
