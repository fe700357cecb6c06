//! Compaction pressure: whether several compactions run concurrently, and whether low-priority
//! compactions switch to normal priority.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

/// The causes of compaction pressure. Any thread may set them, and compactions check them between
/// records.
#[derive(Debug, Default)]
pub(crate) struct Urgency {
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
pub(crate) struct Waiting<'u>(&'u Urgency);

impl Urgency {
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
pub(crate) struct Quiet {
    urgency: Arc<Urgency>,
    is_over: AtomicBool,
    /// Number of checks after which it ends.
    #[cfg(test)]
    looks_left: AtomicUsize,
}

impl Quiet {
    /// Creates the state of a job that begins.
    pub(crate) fn new(urgency: &Arc<Urgency>) -> Self {
        Self {
            urgency: Arc::clone(urgency),
            is_over: AtomicBool::new(false),
            #[cfg(test)]
            looks_left: AtomicUsize::new(usize::MAX),
        }
    }

    /// Creates a state that ends after this many checks.
    #[cfg(test)]
    pub(crate) fn over_after(looks: usize) -> Self {
        let quiet = Self::new(&Arc::default());
        quiet.looks_left.store(looks, Relaxed);
        quiet
    }

    /// Whether the job needs normal priority from now on.
    pub(crate) fn is_over(&self) -> bool {
        #[cfg(test)]
        if self.looks_left.fetch_sub(1, Relaxed) == 0 {
            self.is_over.store(true, Relaxed);
        }
        let is_over = self.is_over.load(Relaxed) || self.urgency.is_urgent();
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

    use super::{Quiet, Urgency};

    #[test]
    fn it_is_urgent_while_somebody_waits_or_a_stall_is_near() {
        let urgency = Urgency::default();
        assert!(!urgency.is_urgent());
        let waiting = [urgency.wait(), urgency.wait()];
        assert!(urgency.is_urgent());
        drop(waiting);
        assert!(!urgency.is_urgent());
        urgency.set_near_stall(true);
        assert!(urgency.is_urgent());
        urgency.set_near_stall(false);
        urgency.set_crowded(true);
        assert!(urgency.is_urgent() && !urgency.is_near_stall());
    }

    #[test]
    fn what_was_urgent_once_is_quiet_no_more() {
        let urgency = Arc::new(Urgency::default());
        let quiet = Quiet::new(&urgency);
        assert!(!quiet.is_over());
        let waiting = urgency.wait();
        assert!(quiet.is_over());
        drop(waiting);
        assert!(quiet.is_over() && !Quiet::new(&urgency).is_over());
    }
}
