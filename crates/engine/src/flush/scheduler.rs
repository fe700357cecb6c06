//! Schedules flushes. They run on the flush thread or, if background work is done inline, on the
//! calling thread.

use std::sync::{Arc, MutexGuard};

use tailwater_io::buffer::BufferPool;
use tailwater_io::stream::Workers;
use tailwater_io::sync::Mutex;

use crate::background::{Attempt, FailedPart};
use crate::column_family::ColumnFamily;
use crate::compaction::CompactionScheduler;
use crate::context::Context;
use crate::epoch::{self, heavy};
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
    /// Threads that write the full buffers of flushes; `None` if background work is done inline.
    pub(super) writers: Option<Arc<Workers>>,
    /// Held during a flush.
    flushing: Mutex<()>,
    /// Held while memtables of several column families are sealed, so that a flush takes all of
    /// these memtables or none.
    sealing: Mutex<()>,
}

impl FlushScheduler {
    /// Creates the flush scheduler of a database. `writers` are threads that write full buffers;
    /// `None` if background work is done inline.
    pub(crate) fn new(
        context: Arc<Context>,
        versions: Arc<Versions>,
        logs: Arc<Mutex<LogSet>>,
        write_times: Arc<WriteTimes>,
        compactions: Arc<CompactionScheduler>,
        writers: Option<Arc<Workers>>,
    ) -> Self {
        let buffers = Mutex::new(table_buffers(context.options.fixed(), 1));
        let (flushing, sealing) = (Mutex::default(), Mutex::default());
        Self {
            context,
            versions,
            logs,
            write_times,
            compactions,
            buffers,
            writers,
            flushing,
            sealing,
        }
    }

    /// Replaces the pool of write buffers after options have changed. A running flush keeps its
    /// buffers.
    pub(crate) fn change_buffers(&self, options: &DbOptions) {
        *self.buffers.lock() = table_buffers(options, 1);
    }

    /// Flushes sealed memtables: on the flush thread, or on the calling thread if there is none.
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
        self.flush_round();
        self.compactions.compact_soon();
    }

    /// Flushes due memtables, and reports the outcome to waiting callers.
    pub(crate) fn flush_round(&self) {
        // If the work panicked, `round` has latched the error, and waiting callers get it.
        let _ = self.context.round(FailedPart::Flush, "a flush", || self.flush_due());
        self.context.background.round_ended();
        // Frees the flushed memtables here, because new writes need their memory.
        epoch::collect();
        heavy::collect();
    }

    /// Flushes due memtables, except those whose flush waits for a retry.
    fn flush_due(&self) {
        let retries = self.context.background.flush_retries();
        if self.context.errors.failure().is_some() {
            // The memtables are flushed when writes resume.
            retries.retain(|_| false);
            return;
        }
        let attempt = retries.begin();
        match self.flush_where(|family| retries.may_try(family.id())) {
            Ok(failures) => self.retry_later(attempt, failures),
            Err(error) => {
                self.context.shared.activity.background_errors.add(1);
                if self.context.errors.latched().is_none() {
                    self.context.latch(self.failed_part(), &error);
                }
            }
        }
        let families = self.context.shared.family_set();
        retries.retain(|id| families.by_id(id).is_some_and(|family| !family.sealed().is_empty()));
    }

    /// Schedules the retry of flushes that lack space or file descriptors.
    fn retry_later(&self, attempt: Attempt, failures: Vec<(ColumnFamily, Error)>) {
        let Some((_, error)) = failures.first().cloned() else { return };
        self.context.shared.activity.background_errors.add(1);
        let by_id = failures.into_iter().map(|(family, error)| (family.id(), error));
        let pause = self.context.background.flush_retries().failed(attempt, by_id);
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

    /// Takes the lock that is held during a flush, so that only one thread flushes at a time.
    pub(crate) fn flushing(&self) -> MutexGuard<'_, ()> {
        self.flushing.lock()
    }

    /// Takes the lock under which memtables of several column families are sealed together.
    pub(crate) fn sealing(&self) -> MutexGuard<'_, ()> {
        self.sealing.lock()
    }
}
