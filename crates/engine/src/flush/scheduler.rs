//! Schedules flushes. They run on the environment's threads or, if background work is done inline
//! and when the database is closed, on the calling thread.

use std::collections::BTreeSet;
use std::sync::{Arc, MutexGuard, Weak};

use tailwater_io::buffer::BufferPool;
use tailwater_io::stream::Workers;
use tailwater_io::sync::Mutex;

use super::job::FailedJob;
use super::jobs::{Jobs, Paused};
use crate::background::FailedPart;
use crate::column_family::ColumnFamily;
use crate::compaction::CompactionScheduler;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::options::DbOptions;
use crate::sequence_times::WriteTimes;
use crate::table::table_buffers;
use crate::version::Versions;
use crate::wal::LogSet;

/// Flushes sealed memtables.
pub(crate) struct FlushScheduler {
    pub(super) context: Arc<Context>,
    pub(super) versions: Arc<Versions>,
    pub(super) logs: Arc<Mutex<LogSet>>,
    /// The recorded times at which sequence numbers were written.
    pub(super) write_times: Arc<WriteTimes>,
    compactions: Arc<CompactionScheduler>,
    /// A pool of write buffers, which flushes use to write tables.
    pub(super) buffers: Mutex<BufferPool>,
    /// Threads that write the full buffers of flushes. The environment has them while a database is
    /// open; none if background work is done inline.
    pub(super) writers: Weak<Workers>,
    pub(super) jobs: Jobs,
    /// Held while the list of existing logs is read and passed to the versions.
    pub(super) recording_logs: Mutex<()>,
    /// Held while memtables of several column families are sealed, so that a flush takes all of
    /// these memtables or none.
    sealing: Mutex<()>,
}

impl FlushScheduler {
    /// Creates the flush scheduler of a database. `writers` are threads that write full buffers;
    /// they belong to the environment.
    pub(crate) fn new(
        context: Arc<Context>,
        versions: Arc<Versions>,
        logs: Arc<Mutex<LogSet>>,
        write_times: Arc<WriteTimes>,
        compactions: Arc<CompactionScheduler>,
        writers: Weak<Workers>,
    ) -> Self {
        let options = context.options.fixed();
        let buffers = Mutex::new(table_buffers(options, options.flushes_max()));
        Self {
            context,
            versions,
            logs,
            write_times,
            compactions,
            buffers,
            writers,
            jobs: Jobs::new(),
            recording_logs: Mutex::default(),
            sealing: Mutex::default(),
        }
    }

    /// Replaces the pool of write buffers after options have changed. A running flush keeps its
    /// buffers.
    pub(crate) fn change_buffers(&self, options: &DbOptions) {
        *self.buffers.lock() = table_buffers(options, options.flushes_max());
    }

    /// Flushes sealed memtables: on a thread of the environment, or on the calling thread if there
    /// is none.
    pub(crate) fn flush_soon(&self) {
        if self.context.options.is_inline() {
            self.flush_here();
        } else {
            self.context.background.flush_soon();
        }
    }

    /// Like [`Self::flush_soon`], for a caller that waits for the flush. Flushes that wait for a
    /// retry are tried at once.
    pub(crate) fn flush_now(&self) {
        if self.context.options.is_inline() {
            self.flush_here();
        } else {
            self.context.background.flush_now();
        }
    }

    fn flush_here(&self) {
        self.flush_round(|| true);
        self.compactions.compact_soon();
    }

    /// Flushes due memtables, one job after the other, until nothing is due or `goes_on` returns
    /// false; what is left is then requested again. Reports the outcome of each job to waiting
    /// callers.
    pub(crate) fn flush_round(&self, goes_on: impl Fn() -> bool) {
        let mut failed = BTreeSet::new();
        loop {
            let next = || self.flush_next(&mut failed);
            let flushed = self.context.round(FailedPart::Flush, "a flush", next);
            self.context.background.round_ended();
            // Frees the flushed memtables here, because new writes need their memory.
            self.context.shared.garbage.collect();
            self.context.shared.garbage.collect_heavy();
            // If the work panicked, `round` has latched the error, and waiting callers get it.
            if !flushed.unwrap_or(false) {
                return;
            }
            if !goes_on() {
                self.context.background.flush_soon();
                return;
            }
        }
    }

    /// Flushes what is due next, except column families whose flush waits for a retry or is in
    /// `failed`. If the flush fails, adds its column families to `failed`. Returns whether anything
    /// was due.
    fn flush_next(&self, failed: &mut BTreeSet<u32>) -> bool {
        let retries = self.context.background.flush_retries();
        if self.context.errors.failure().is_some() {
            // The memtables are flushed when writes resume.
            retries.retain(|_| false);
            return false;
        }
        let may_flush =
            |family: &ColumnFamily| !failed.contains(&family.id()) && retries.may_try(family.id());
        let job = self.jobs.begin(self.is_one_by_one(), |jobs| self.choose(jobs, may_flush));
        let was_due = job.is_some();
        if let Some(job) = job {
            if self.context.options.now().flushing_threads_max() > 1 {
                // More may be due.
                self.context.background.flush_soon();
            }
            self.run(job, |job| {
                failed.extend(&job.families);
                self.job_failed(job);
            });
        }
        let families = self.context.shared.family_set();
        retries.retain(|id| families.by_id(id).is_some_and(|family| !family.sealed().is_empty()));
        was_due
    }

    /// Whether only one flush may run at a time. If flushes are atomic, a flush includes all column
    /// families; if they run on the threads that request them, they must have ended when the
    /// request returns.
    fn is_one_by_one(&self) -> bool {
        self.context.options.fixed().atomic_flush || self.context.options.is_inline()
    }

    /// Requests a flush of the sealed memtables of a column family, however few they are, except
    /// those whose flush has begun. Returns whether there are any. [`Self::flush_soon`] begins it.
    pub(crate) fn request(&self, family: &ColumnFamily) -> bool {
        let jobs = self.jobs.lock();
        let waits = jobs.unclaimed(family) > 0;
        family.request_flush(waits);
        waits
    }

    /// Whether a flush of the column family is due.
    pub(crate) fn is_pending(&self, family: &ColumnFamily) -> bool {
        self.jobs.lock().is_due(family)
    }

    /// Whether a flush of the column family is due or in progress.
    pub(crate) fn is_pending_or_running(&self, family: &ColumnFamily) -> bool {
        let jobs = self.jobs.lock();
        jobs.flushes(family) || jobs.is_due(family)
    }

    /// Returns the number of flushes that run.
    pub(crate) fn running(&self) -> usize {
        self.jobs.lock().running()
    }

    /// Schedules the retry of a job that failed. If it is not retried, latches the failure.
    pub(super) fn job_failed(&self, job: FailedJob) {
        let FailedJob { families, attempt, error } = job;
        self.context.shared.activity.background_errors.add(1);
        if !self.is_retried(&error) {
            if self.context.errors.latched().is_none() {
                self.context.latch(self.failed_part(), &error);
            }
            return;
        }
        let failures = families.into_iter().map(|family| (family, error.clone()));
        let pause = self.context.background.flush_retries().failed(attempt, failures);
        self.context.info_log.warn(format_args!(
            "a flush found no {} and will be retried in {pause:?}: {error}",
            error.lacking(),
        ));
        self.context.stall.wake();
    }

    /// Waits until the flushes that lack space or file descriptors have been retried, after a
    /// request for it. `attempts` is the number of attempts that had begun before the request.
    ///
    /// # Errors
    /// The error of a retry; the latched error; closed.
    pub(crate) fn wait_for_retry(&self, attempts: u64) -> Result<()> {
        let retries = self.context.background.flush_retries();
        let outcome = || {
            let failure = self.context.errors.failure();
            match failure.or_else(|| retries.any_error_since(attempts)) {
                Some(error) => Some(Err(error)),
                None => retries.any_error().is_none().then_some(Ok(())),
            }
        };
        if self.context.options.is_inline() && retries.any_error().is_some() {
            self.flush_here();
        }
        self.context.background.wait_for(outcome)
    }

    /// Whether a flush that failed with this error is retried: it lacked space or file descriptors.
    /// It is not retried if a write to the MANIFEST or the log failed, because the contents of the
    /// end of that file are then unknown.
    pub(super) fn is_retried(&self, error: &Error) -> bool {
        error.is_shortage()
            && self.failed_part() == FailedPart::Flush
            && self.context.errors.latched().is_none()
    }

    fn failed_part(&self) -> FailedPart {
        match self.versions.lock().failure() {
            Some(_) => FailedPart::Manifest,
            None => FailedPart::Flush,
        }
    }

    /// Pauses flushes until the result is dropped, and waits until none runs.
    pub(crate) fn pause(&self) -> Paused<'_> {
        self.jobs.pause()
    }

    /// Takes the lock under which memtables of several column families are sealed together.
    pub(crate) fn sealing(&self) -> MutexGuard<'_, ()> {
        self.sealing.lock()
    }
}
