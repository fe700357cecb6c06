//! The compactions that callers request: which run, and whether they are disabled.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tailwater_io::sync::{Condvar, Mutex};

use crate::error::{Error, ErrorKind, Result};

/// The manual compactions of a database.
#[derive(Debug, Default)]
pub(crate) struct ManualCompactions {
    state: Mutex<State>,
    /// Notified when a manual compaction ends.
    ended: Condvar,
    /// Set while manual compactions are disabled. Running ones stop.
    disabled: Arc<AtomicBool>,
}

#[derive(Debug, Default)]
struct State {
    /// Number of calls of [`ManualCompactions::disable`] that were not undone.
    disabled: usize,
    running: usize,
}

/// A manual compaction that is counted as running until this value is dropped.
#[derive(Debug)]
pub(crate) struct ManualCompaction<'m> {
    compactions: &'m ManualCompactions,
}

impl ManualCompactions {
    /// Registers a manual compaction.
    ///
    /// # Errors
    /// Cancelled, while manual compactions are disabled.
    pub(crate) fn begin(&self) -> Result<ManualCompaction<'_>> {
        let mut state = self.state.lock();
        if state.disabled > 0 {
            return Err(disabled());
        }
        state.running += 1;
        Ok(ManualCompaction { compactions: self })
    }

    /// Returns an error while manual compactions are disabled.
    pub(crate) fn check(&self) -> Result<()> {
        if self.disabled.load(Ordering::Relaxed) { Err(disabled()) } else { Ok(()) }
    }

    /// Returns the flag that is set while manual compactions are disabled.
    pub(crate) fn disabled(&self) -> &Arc<AtomicBool> {
        &self.disabled
    }

    /// Disables manual compactions until [`Self::enable`] has been called as often.
    pub(super) fn disable(&self) {
        let mut state = self.state.lock();
        state.disabled += 1;
        self.disabled.store(true, Ordering::Relaxed);
    }

    /// Waits until no manual compaction runs.
    pub(super) fn wait_for_end(&self) {
        let mut state = self.state.lock();
        while state.running > 0 {
            state = self.ended.wait(state);
        }
    }

    /// Ends the effect of one call of [`Self::disable`].
    pub(crate) fn enable(&self) {
        let mut state = self.state.lock();
        state.disabled = state.disabled.saturating_sub(1);
        self.disabled.store(state.disabled > 0, Ordering::Relaxed);
    }
}

impl Drop for ManualCompaction<'_> {
    fn drop(&mut self) {
        self.compactions.state.lock().running -= 1;
        self.compactions.ended.notify_all();
    }
}

#[cold]
fn disabled() -> Error {
    Error::new(ErrorKind::Cancelled, "manual compactions are disabled")
}
