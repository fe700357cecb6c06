//! Resuming writes after an error.
//!
//! # Order
//!
//! 1. Writes wait: resuming leads the write queue.
//! 2. After a failure of the MANIFEST, a new one is written from memory.
//! 3. After a shortage in the log, a new log is begun; the old ones are not written again.
//! 4. The memtables of all column families are flushed. The failed log may hold less than they do.
//! 5. One group of edits adds the tables and states that no column family needs a log before the
//!    new one, so that a refused write in the failed log never counts.
//! 6. Writes resume.
//!
//! A crash before the end of step 5 is like one before resuming: the old logs exist, and the new
//! one is empty. If the column families were updated one after the other, a crash in between would
//! leave tables that are ahead of the other families' logs, and apply a refused batch to those
//! families alone. If a step fails, writes stay refused and resuming can be tried again.

use crate::background::{ErrorState, FailedPart};
use crate::column_family::ColumnFamily;
use crate::db::Writer;
use crate::{Error, Result};

impl Writer {
    /// Resumes writes after an error, if that is possible.
    pub(crate) fn resume(&self) -> Result<()> {
        // A flush that waits for space, and stopped writes that wait for it, may need only this.
        self.background.try_again();
        self.round(FailedPart::Upkeep, "resuming", || self.go_on())?
    }

    /// Resumes writes if they are refused for a shortage of descriptors that has ended. Otherwise
    /// nothing changes, and it is tried again, up to `max_bgerror_resume_count` times.
    pub(crate) fn resume_after_shortage(&self) {
        if self.errors.takes_try(self.database.fixed().max_bgerror_resume_count) {
            // Refused callers get the latched failure.
            let _ = self.go_on();
        }
    }

    fn go_on(&self) -> Result<()> {
        let _leadership = self.queue.lead()?;
        if self.errors.is_closed() {
            return Err(Error::closed());
        }
        self.resume_compactions();
        let Some((part, error, failure)) = self.errors.numbered() else { return Ok(()) };
        if !ErrorState::can_resume(part, &error) {
            return Err(error.while_doing("writes can only go on after reopening the database"));
        }
        if self.versions().failure().is_some() {
            self.versions.start_over()?;
        }
        let resumed = match part {
            FailedPart::Log => self.leave_failed_log(error),
            _ => self.flush_everything(),
        };
        resumed?;
        if !self.errors.clear(failure) {
            self.errors.check()?;
        }
        self.update_stall_of_all();
        self.info_log.info(format_args!("writes go on after an error"));
        self.compact_soon();
        Ok(())
    }

    /// Enables compactions of column families whose tables were damaged: they may have been
    /// restored.
    fn resume_compactions(&self) {
        if self.errors.stopped_compaction().is_none() {
            return;
        }
        let families = self.shared.family_set();
        let mut versions = self.versions();
        for family in families.iter() {
            if let Some(state) = versions.compactions(family.id()) {
                state.resume();
            }
        }
        drop(versions);
        self.errors.set_stopped_compaction(None);
        self.compact_soon();
    }

    /// Steps 3 to 5 after a failure of the log. Until they succeed, the log refuses everything.
    fn leave_failed_log(&self, error: Error) -> Result<()> {
        let number = self.logs().start_over(&self.numbers, self.published())?;
        let left = self.flush_into_new_log(number);
        if left.is_err() {
            self.logs().fail_unwritten(error);
        }
        left
    }

    fn flush_into_new_log(&self, number: u64) -> Result<()> {
        let families = self.shared.family_set();
        let sealing = self.sealing();
        for family in families.iter() {
            match family.active().is_empty() {
                true => family.active().set_earliest_log_number(number),
                false => family.seal(number),
            }
            family.request_flush(true);
        }
        drop(sealing);
        self.flush_leaving_logs(number)
    }

    /// Step 4 where the log is intact.
    fn flush_everything(&self) -> Result<()> {
        self.shared.family_set().iter().for_each(|family: &ColumnFamily| {
            family.request_flush(true);
        });
        self.flush_all_sealed()
    }
}
