//! Notices that a lock of the database was removed or replaced.
//!
//! Another process can then open the database. It replays and removes the logs that this process
//! writes, so whatever this process acknowledges from then on is lost. Nothing prevents that
//! process from opening the database, but this process soon stops acknowledging writes: the locks
//! are checked before every change of a directory ([`GuardedStorage`](crate::directory)) and of the
//! MANIFEST, by a write if the last check is [`CHECK_INTERVAL_NS`] ago, and every second if there
//! are no writes.

use std::sync::atomic::Ordering;

use super::Context;
use crate::background::FailedPart;
use crate::error::{Error, Result};

/// Time after which a write checks the locks again. A check takes about a microsecond.
const CHECK_INTERVAL_NS: u64 = 10_000_000;

impl Context {
    /// Fails if a lock was removed or replaced. Later writes are then refused until the database is
    /// opened again.
    pub(crate) fn check_locks(&self) -> Result<()> {
        self.guard.check_locks().map_err(|lost| {
            let error = Error::from(lost);
            self.latch(FailedPart::Lock, &error);
            error
        })
    }

    /// Like [`Self::check_locks`], for a write: checks only if the last check is a while ago.
    #[inline]
    pub(crate) fn check_locks_if_due(&self) -> Result<()> {
        let now_ns = self.clock.coarse_monotonic_ns();
        if now_ns < self.lock_check_due_ns.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.lock_check_due_ns.store(now_ns + CHECK_INTERVAL_NS, Ordering::Relaxed);
        self.check_locks()
    }
}
