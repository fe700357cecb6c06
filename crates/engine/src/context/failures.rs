//! Handles failures of background work. A latched failure makes the database refuse writes until it
//! resumes. A round of background work, such as one flush, runs in one of the database's threads or
//! in a caller's thread. Its panics are caught and latched. Violated contracts are only reported.

use std::sync::Arc;

use super::Context;
use crate::background::{FailedPart, WorkingThread};
use crate::column_family::ColumnFamily;
use crate::contracts::Violations;
use crate::error::{Error, Result};
use crate::panics;
use crate::stats::Ticker;
use crate::version::{Installed, Version};

impl Context {
    /// Latches a failure of the log: from now on, writes are refused.
    pub(crate) fn latch_log(&self, error: &Error) {
        self.latch(FailedPart::Log, error);
    }

    /// Latches a failure of `part`: from now on, writes are refused.
    pub(crate) fn latch(&self, part: FailedPart, error: &Error) {
        let is_new = self.errors.latch(part, error.clone());
        self.stall.wake();
        if is_new {
            let report = || {
                let message = format_args!("writes are refused from now on: {part}: {error}");
                self.info_log.error(message);
                Ok(())
            };
            // Ignores a panic: the log message uses the clock and the storage, and the failure
            // being reported may be a panic in one of them.
            let _ = panics::catch("the LOG", report);
        }
    }

    /// Returns the current version of a column family, just after a change of it was installed. If
    /// the column family is missing, the MANIFEST and memory disagree. This is latched as a failed
    /// installation, which stops the removal of files, since the MANIFEST may name them.
    pub(crate) fn installed_version(
        &self,
        installed: &Installed<'_>,
        family: &ColumnFamily,
    ) -> Result<Arc<Version>> {
        let known = installed.families().get(&family.id());
        known.map(|known| Arc::clone(&known.version)).ok_or_else(|| {
            let error = Error::lost_version(family.name());
            self.latch(FailedPart::Installation, &error);
            error
        })
    }

    /// Runs a round of work; `what` names it, such as "a flush". A panic in the work is latched as
    /// a failure of `part`, so that later writes are refused, and is returned as an error.
    pub(crate) fn round<R>(
        &self,
        part: FailedPart,
        what: &str,
        work: impl FnOnce() -> R,
    ) -> Result<R> {
        let _own = WorkingThread::begin(self.shared.opening);
        let done = panics::catch(what, || Ok(work()));
        done.inspect_err(|error| self.latch(part, error))
    }

    /// Runs `change`, which writes a change to the MANIFEST and then applies it in memory. `what`
    /// names the change, such as "a flush". After a panic between these two steps, the MANIFEST and
    /// memory disagree until the database is reopened, so the panic is latched as a failed
    /// installation.
    pub(crate) fn latch_on_unwind<R>(&self, what: &'static str, change: impl FnOnce() -> R) -> R {
        let latch = UnwindLatch { context: self, what };
        let changed = change();
        std::mem::forget(latch);
        changed
    }

    /// Writes the violations that a flush or compaction of a column family found to the LOG, and
    /// counts them. `work` names the work, such as "a flush".
    pub(crate) fn report_violations(
        &self,
        family: &ColumnFamily,
        work: &str,
        violations: &Violations,
    ) {
        let count = violations.count();
        if count == 0 {
            return;
        }
        let name = family.name();
        for broken in violations.broken() {
            self.info_log.error(format_args!(
                "{work} of '{name}' went on after {} violations of the contract of {}; the first: \
                 {}",
                broken.count, broken.contract, broken.first
            ));
        }
        family.statistics().contract_violations.add(count);
        if let Some(statistics) = self.shared.statistics.as_deref() {
            statistics.add(Ticker::ContractViolations, count);
        }
    }
}

/// This value exists while a change is written to the MANIFEST and applied in memory. If a panic
/// drops the value, `drop` makes the database refuse later writes.
struct UnwindLatch<'c> {
    context: &'c Context,
    what: &'static str,
}

impl Drop for UnwindLatch<'_> {
    fn drop(&mut self) {
        let what = format!("the end of {}", self.what);
        self.context.latch(FailedPart::Installation, &panics::unwinding(what));
    }
}
