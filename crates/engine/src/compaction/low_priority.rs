//! Decides when a compaction job changes from low to normal priority.

use std::sync::Arc;
#[cfg(test)]
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::stall::CompactionPressure;

/// Indicates when a job must run at normal priority. Once a job has switched to normal priority, it
/// stays there. Otherwise, parts that have already paused for the switch would wait for parts that
/// continue at low priority.
#[derive(Debug)]
pub(crate) struct LowPriority {
    pressure: Arc<CompactionPressure>,
    is_over: AtomicBool,
    /// In a test, the number of calls of `is_over` after which low priority ends.
    #[cfg(test)]
    checks_left: AtomicUsize,
}

impl LowPriority {
    /// Creates the state of a new job.
    pub(crate) fn new(pressure: &Arc<CompactionPressure>) -> Self {
        Self {
            pressure: Arc::clone(pressure),
            is_over: AtomicBool::new(false),
            #[cfg(test)]
            checks_left: AtomicUsize::new(usize::MAX),
        }
    }

    /// Creates a state in which low priority ends after `checks` calls of [`LowPriority::is_over`].
    #[cfg(test)]
    pub(crate) fn over_after(checks: usize) -> Self {
        let low_priority = Self::new(&Arc::default());
        low_priority.checks_left.store(checks, Relaxed);
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::LowPriority;
    use crate::stall::CompactionPressure;

    #[test]
    fn a_job_keeps_normal_priority_once_needed() {
        let pressure = Arc::new(CompactionPressure::default());
        let low_priority = LowPriority::new(&pressure);
        assert!(!low_priority.is_over());
        let waiting = pressure.wait();
        assert!(low_priority.is_over());
        drop(waiting);
        assert!(low_priority.is_over() && !LowPriority::new(&pressure).is_over());
    }
}
