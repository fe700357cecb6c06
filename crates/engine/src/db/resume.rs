//! Resuming writes after an error.
//!
//! # Order
//!
//! 1. Writes wait, because the resuming thread becomes the leader of the write queue.
//! 2. If writing the MANIFEST failed, a new MANIFEST is written from the state in memory.
//! 3. If the log failed for lack of space or file descriptors, a new log is begun. Nothing more is
//!    written to the old logs.
//! 4. If the log failed, all memtables of all column families are flushed, since it may lack
//!    entries that they have. No other flush runs during steps 3 to 5. If the log is intact, only
//!    sealed memtables are flushed.
//! 5. If the log failed, one group of edits adds the tables and records that no column family needs
//!    a log before the new log. A write that failed but is in the failed log is therefore never
//!    replayed. If the log is intact, each flush adds its tables as usual.
//! 6. Writes resume.
//!
//! After a failure of the log, a crash before the end of step 5 has the same effect as a crash
//! before resuming: the old logs exist, and the new log is empty.
//!
//! The edits of step 5 must be one group. If each column family had its own edit, a crash between
//! two edits would keep the flushed tables of one family, and lose those of another. A refused
//! batch that is only in memory would then survive in the first family and not in the second.
//!
//! If a step fails, writes stay refused and resuming can be tried again.

use crate::background::{ErrorState, FailedPart};
use crate::column_family::ColumnFamily;
use crate::compaction::update_all_stalls;
use crate::db::{Database, Db};
use crate::error::{Error, ErrorKind, Result};

impl Db {
    /// Resumes writes after the cause of an error is gone. Flushes and compactions that lack disk
    /// space or file descriptors are retried immediately; this waits for the flushes.
    ///
    /// # Errors
    /// The latched error, if only reopening helps; errors from flushing memtables.
    pub fn resume(&self) -> Result<()> {
        self.database()?.resume()
    }

    /// Returns the error of background work that lasts, if any: the error because of which writes
    /// are refused, or the error of a flush or compaction that lacks disk space or file descriptors
    /// and is retried. In the latter case, writes are refused only while they would have to wait
    /// for that work. Closing the database does not change the result.
    pub fn background_error(&self) -> Option<Error> {
        let context = &self.database().ok()?.context;
        context.errors.failure().or_else(|| context.background.shortage())
    }
}

impl Database {
    /// Resumes writes after an error, if that is possible.
    pub(super) fn resume(&self) -> Result<()> {
        let attempts = self.context.background.flush_retries().attempts();
        self.context.background.try_again();
        self.context.round(FailedPart::Upkeep, "resuming", || self.resume_leading())??;
        self.flushes.wait_for_retry(attempts)
    }

    /// Resumes writes if they are refused because of the limit of space, and the files take up less
    /// space now; or because of a shortage of file descriptors that has ended. Otherwise does
    /// nothing. After a shortage, at most `max_bgerror_resume_count` attempts are made per failure.
    pub(super) fn resume_after_shortage(&self) {
        let failure = self.context.errors.failure();
        if failure.is_some_and(|error| error.kind() == ErrorKind::SpaceLimit) {
            if self.context.files.check_space().is_ok() {
                // If this fails, the failure stays latched, and this is tried again.
                let _ = self.resume_leading();
            }
            return;
        }
        let most = self.context.options.fixed().max_bgerror_resume_count;
        let Some(attempt) = self.context.errors.take_try(most) else { return };
        // The failure stays latched, and callers whose writes are refused get it.
        if let Err(error) = self.resume_leading()
            && attempt == most
        {
            self.context.info_log.error(format_args!(
                "writes stay refused until `resume` is called: attempt {attempt} of {most} to \
                 resume failed: {error}"
            ));
        }
    }

    /// Performs all steps of the module's description, as leader of the write queue.
    fn resume_leading(&self) -> Result<()> {
        let _leadership = self.writes.lead()?;
        if self.context.errors.is_closed() {
            return Err(Error::closed());
        }
        self.compactions.resume();
        let Some((part, error, failure)) = self.context.errors.numbered() else { return Ok(()) };
        if error.kind() == ErrorKind::SpaceLimit {
            self.context.files.check_space()?;
        }
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
        // The tables of step 4 may have reached the limit of space, while another failure was
        // latched.
        self.flushes.refuse_writes_if_full();
        self.context.errors.check()?;
        update_all_stalls(&self.context);
        self.context.info_log.info(format_args!("writes resumed after an error"));
        self.compactions.compact_soon();
        Ok(())
    }

    /// Begins a new log and flushes the memtables after a failure of the log. These are steps 3 to
    /// 5 of the module's description. Until they succeed, the log refuses all writes.
    fn leave_failed_log(&self, error: Error) -> Result<()> {
        let paused = self.flushes.pause();
        let number =
            self.writes.logs().start_over(&self.context.numbers, self.context.published())?;
        let left = self.flushes.flush_into_new_log(&paused, number);
        if left.is_err() {
            self.writes.logs().fail_unwritten(error);
        }
        left
    }

    /// Flushes all sealed memtables, for the case that the log is intact. This is step 4 of the
    /// module's description.
    fn flush_everything(&self) -> Result<()> {
        self.context.shared.family_set().iter().for_each(|family: &ColumnFamily| {
            family.request_flush(true);
        });
        self.flushes.flush_all_sealed()
    }
}
