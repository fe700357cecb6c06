//! Compaction pressure: whether several compactions run concurrently, and whether low-priority
//! compactions switch to normal priority.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

/// The causes of compaction pressure. Any thread may set them, and compactions check them between
/// records.
#[derive(Debug, Default)]
pub(crate) struct CompactionPressure {
    /// Writes are about to be slowed down.
    near_stall: AtomicBool,
    /// Level 0 has enough tables to slow down reads.
    crowded: AtomicBool,
    /// A single compaction does not keep up.
    behind: AtomicBool,
    /// Number of callers waiting for a compaction to end.
    waiting: AtomicUsize,
}

/// A caller waiting for a compaction to end, until this is dropped.
#[derive(Debug)]
pub(crate) struct Waiting<'u>(&'u CompactionPressure);

impl CompactionPressure {
    /// Whether compactions need normal priority.
    pub(crate) fn is_urgent(&self) -> bool {
        self.is_near_stall() || self.crowded.load(Relaxed) || self.waiting.load(Relaxed) > 0
    }

    /// Whether writes are about to be slowed down.
    pub(crate) fn is_near_stall(&self) -> bool {
        self.near_stall.load(Relaxed)
    }

    /// Sets whether writes are about to be slowed down.
    pub(crate) fn set_near_stall(&self, is_near: bool) {
        self.near_stall.store(is_near, Relaxed);
    }

    /// Sets whether level 0 has enough tables to slow down reads.
    pub(crate) fn set_crowded(&self, is_crowded: bool) {
        self.crowded.store(is_crowded, Relaxed);
    }

    /// Whether several compactions are to run concurrently.
    pub(crate) fn is_behind(&self) -> bool {
        self.behind.load(Relaxed)
    }

    /// Sets whether a single compaction does not keep up.
    pub(crate) fn set_behind(&self, is_behind: bool) {
        self.behind.store(is_behind, Relaxed);
    }

    /// Registers a caller waiting for running compactions.
    pub(crate) fn wait(&self) -> Waiting<'_> {
        self.waiting.fetch_add(1, Relaxed);
        Waiting(self)
    }
}

/// The low priority of a job. Once it has ended it stays so, so that parts that have paused do not
/// wait for others that continue at low priority.
#[derive(Debug)]
pub(crate) struct LowPriority {
    pressure: Arc<CompactionPressure>,
    is_over: AtomicBool,
    /// Number of checks after which it ends.
    #[cfg(test)]
    checks_left: AtomicUsize,
}

impl LowPriority {
    /// Creates the state of a job that begins.
    pub(crate) fn new(pressure: &Arc<CompactionPressure>) -> Self {
        Self {
            pressure: Arc::clone(pressure),
            is_over: AtomicBool::new(false),
            #[cfg(test)]
            checks_left: AtomicUsize::new(usize::MAX),
        }
    }

    /// Creates a state that ends after this many checks.
    #[cfg(test)]
    pub(crate) fn over_after(looks: usize) -> Self {
        let low_priority = Self::new(&Arc::default());
        low_priority.checks_left.store(looks, Relaxed);
        low_priority
    }

    /// Whether the job needs normal priority from now on.
    pub(crate) fn is_over(&self) -> bool {
        #[cfg(test)]
        if self.checks_left.fetch_sub(1, Relaxed) == 0 {
            self.is_over.store(true, Relaxed);
        }
        let is_over = self.is_over.load(Relaxed) || self.pressure.is_urgent();
        if is_over {
            self.is_over.store(true, Relaxed);
        }
        is_over
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{CompactionPressure, LowPriority};

    #[test]
    fn it_is_urgent_while_a_caller_waits_or_a_stall_is_near() {
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
    fn normal_priority_is_kept_once_it_was_needed() {
        let pressure = Arc::new(CompactionPressure::default());
        let low_priority = LowPriority::new(&pressure);
        assert!(!low_priority.is_over());
        let waiting = pressure.wait();
        assert!(low_priority.is_over());
        drop(waiting);
        assert!(low_priority.is_over() && !LowPriority::new(&pressure).is_over());
    }
}
