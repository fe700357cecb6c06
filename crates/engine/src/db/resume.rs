//! Resuming writes after an error.
//!
//! # Order
//!
//! 1. Writes wait: resuming leads the write queue.
//! 2. After a failure of the MANIFEST, a new one is written from memory.
//! 3. After a shortage in the log, a new log is started; nothing more is written to the old ones.
//! 4. The memtables of all column families are flushed, since the failed log may hold less than
//!    they do.
//! 5. One group of edits adds the tables and states that no column family needs a log before the
//!    new one, so that a refused write in the failed log is never replayed.
//! 6. Writes resume.
//!
//! A crash before the end of step 5 is like one before resuming: the old logs exist, and the new
//! one is empty. If the column families were updated one after the other, a crash between two
//! updates would leave tables that are ahead of the other families' logs, so that a refused batch
//! would apply to some families only. If a step fails, writes stay refused and resuming can be
//! tried again.

use crate::background::{ErrorState, FailedPart};
use crate::column_family::ColumnFamily;
use crate::compaction::update_all_stalls;
use crate::db::Database;
use crate::error::{Error, Result};

impl Database {
    /// Resumes writes after an error, if that is possible.
    pub(super) fn resume(&self) -> Result<()> {
        // This may already unblock a flush that waits for space, and stopped writes that wait for
        // that flush.
        self.context.background.try_again();
        self.context.round(FailedPart::Upkeep, "resuming", || self.go_on())?
    }

    /// Resumes writes if they are refused for a shortage of descriptors that has ended. If it has
    /// not ended, this does nothing. At most `max_bgerror_resume_count` attempts are made per
    /// failure.
    pub(super) fn resume_after_shortage(&self) {
        if self.context.errors.takes_try(self.context.options.fixed().max_bgerror_resume_count) {
            // Refused callers get the latched failure.
            let _ = self.go_on();
        }
    }

    fn go_on(&self) -> Result<()> {
        let _leadership = self.writes.lead()?;
        if self.context.errors.is_closed() {
            return Err(Error::closed());
        }
        self.compactions.resume();
        let Some((part, error, failure)) = self.context.errors.numbered() else { return Ok(()) };
        if !ErrorState::can_resume(part, &error) {
            return Err(error.while_doing("writes can resume only after reopening the database"));
        }
        if self.versions.lock().failure().is_some() {
            self.versions.start_over()?;
        }
        let resumed = match part {
            FailedPart::Log => self.leave_failed_log(error),
            _ => self.flush_everything(),
        };
        resumed?;
        if !self.context.errors.clear(failure) {
            self.context.errors.check()?;
        }
        update_all_stalls(&self.context);
        self.context.info_log.info(format_args!("writes resumed after an error"));
        self.compactions.compact_soon();
        Ok(())
    }

    /// Performs steps 3 to 5 after a failure of the log. Until they succeed, the log refuses
    /// everything.
    fn leave_failed_log(&self, error: Error) -> Result<()> {
        let number =
            self.writes.logs().start_over(&self.context.numbers, self.context.published())?;
        let left = self.flushes.flush_into_new_log(number);
        if left.is_err() {
            self.writes.logs().fail_unwritten(error);
        }
        left
    }

    /// Performs step 4, if the log is intact.
    fn flush_everything(&self) -> Result<()> {
        self.context.shared.family_set().iter().for_each(|family: &ColumnFamily| {
            family.request_flush(true);
        });
        self.flushes.flush_all_sealed()
    }
}
