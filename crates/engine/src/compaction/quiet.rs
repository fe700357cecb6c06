//! The low priority of compaction jobs.

use std::sync::Arc;
#[cfg(test)]
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::stall::Urgency;

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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::Quiet;
    use crate::stall::Urgency;

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
