//! Going on after an error.
//!
//! # Order
//!
//! 1. Nobody writes: resuming leads the write queue.
//! 2. After a failure of the MANIFEST a new one is written of what is in memory.
//! 3. After a full disk under the log a new log is begun; nothing is written to the old ones again.
//! 4. The memtables of all column families are written to tables. What the failed log holds may be
//!    less than they do.
//! 5. One group of edits adds the tables and says that no column family needs a log before the new
//!    one, so that what the failed log may hold of a write that was refused never counts.
//! 6. Writes go on.
//!
//! A crash before the end of step 5 is as one before: the old logs are there, and the new one is
//! empty. Were the column families told of one after the other, a crash in between would leave
//! tables that are ahead of the logs of the others, and apply a refused batch to these alone. If a
//! step fails, writes stay refused and resuming can be tried again.

use crate::db::errors::{ErrorState, FailedPart};
use crate::db::{ColumnFamily, Writer};
use crate::{Error, Result};

impl Writer {
    /// Lets writes go on after an error, where that is possible.
    pub(crate) fn resume(&self) -> Result<()> {
        // A flush that waits for room, and the writes that are stopped for it, need no more.
        self.background.try_again();
        self.round(FailedPart::Upkeep, "resuming", || self.go_on())?
    }

    /// Lets writes go on if they are refused for want of descriptors and there are some again. Else
    /// nothing changes, and it is tried again, as often as `max_bgerror_resume_count` says.
    pub(crate) fn resume_after_shortage(&self) {
        if self.errors.takes_try(self.database.fixed().max_bgerror_resume_count) {
            // Who is refused is told of the failure that is latched.
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

    /// Lets column families be compacted again whose tables were damaged: they may have been
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

    /// Steps 3 to 5 after a failure of the log. Until they are done the log refuses everything.
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

    /// Step 4 where the log is whole.
    fn flush_everything(&self) -> Result<()> {
        self.shared.family_set().iter().for_each(|family: &ColumnFamily| {
            family.request_flush(true);
        });
        self.flush_all_sealed()
    }
}
