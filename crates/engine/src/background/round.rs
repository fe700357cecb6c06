//! Rounds of work that the database does for itself, in a thread of its own or in a caller's.

use crate::Result;
use crate::background::OwnWork;
use crate::db::Writer;
use crate::db::errors::FailedPart;
use crate::panics;

impl Writer {
    /// Does a round of work, `what` as in "a flush". A panic in it refuses writes from now on, as a
    /// failure of `part`, and is the answer.
    pub(crate) fn round<R>(
        &self,
        part: FailedPart,
        what: &str,
        work: impl FnOnce() -> R,
    ) -> Result<R> {
        let _own = OwnWork::begin(self.shared.opening);
        let done = panics::catch(what, || Ok(work()));
        done.inspect_err(|error| self.latch(part, error))
    }

    /// Changes what the database consists of, `what` as in "a flush": in the MANIFEST first, and
    /// then in memory. A panic in between leaves the one without the other, and only reopening
    /// helps then.
    pub(crate) fn halfway<R>(&self, what: &'static str, change: impl FnOnce() -> R) -> R {
        let latch = HalfwayLatch { writer: self, what };
        let changed = change();
        std::mem::forget(latch);
        changed
    }
}

/// Dropped where a change unwinds.
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
