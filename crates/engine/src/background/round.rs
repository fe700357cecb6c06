//! Rounds of background work, in the database's threads or a caller's.

use crate::Result;
use crate::background::WorkingThread;
use crate::db::Writer;
use crate::db::errors::FailedPart;
use crate::panics;

impl Writer {
    /// Runs a round of work; `what` names it, such as "a flush". A panic in it is latched as a
    /// failure of `part`, which refuses later writes, and is returned as an error.
    pub(crate) fn round<R>(
        &self,
        part: FailedPart,
        what: &str,
        work: impl FnOnce() -> R,
    ) -> Result<R> {
        let _working = WorkingThread::begin(self.shared.opening);
        let done = panics::catch(what, || Ok(work()));
        done.inspect_err(|error| self.latch(part, error))
    }

    /// Installs a change in the MANIFEST and then in memory; `what` names it, such as "a flush".
    /// After a panic in between the two disagree until the database is reopened, so the panic is
    /// latched as a failed installation.
    pub(crate) fn halfway<R>(&self, what: &'static str, change: impl FnOnce() -> R) -> R {
        let latch = HalfwayLatch { writer: self, what };
        let changed = change();
        std::mem::forget(latch);
        changed
    }
}

/// Latches a failure when a change unwinds.
struct HalfwayLatch<'w> {
    writer: &'w Writer,
    what: &'static str,
}

impl Drop for HalfwayLatch<'_> {
    fn drop(&mut self) {
        let what = format!("the end of {}", self.what);
        self.writer.latch(FailedPart::Installation, &panics::unwinding(what));
    }
}
