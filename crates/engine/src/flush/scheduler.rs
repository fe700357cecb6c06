//! Schedules flushes. They run on the flush thread or, if background work is done inline, on the
//! calling thread.

use std::sync::{Arc, MutexGuard};

use tailwater_io::buffer::BufferPool;
use tailwater_io::stream::Workers;
use tailwater_io::sync::Mutex;

use crate::background::{Backoff, FailedPart};
use crate::compaction::CompactionScheduler;
use crate::context::Context;
use crate::epoch::{self, heavy};
use crate::error::Result;
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

    /// Like [`Self::flush_soon`], for a caller that waits for the flush. If a flush ran out of
    /// space and pauses before a retry, the retry begins immediately.
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
        let flushed = self.context.round(FailedPart::Flush, "a flush", || self.flush_until_done());
        self.context.background.round_ended(flushed.and_then(|done| done).err());
        // Frees the flushed memtables here, because new writes need their memory.
        epoch::collect();
        heavy::collect();
    }

    /// Flushes due memtables. After a shortage of space or file descriptors it retries, up to
    /// `max_bgerror_resume_count` times.
    fn flush_until_done(&self) -> Result<()> {
        // If a failure is latched, the memtables are flushed when writes resume.
        self.context.errors.failure().map_or(Ok(()), Err)?;
        let mut backoff = Backoff::new(self.context.options.fixed().bgerror_resume_retry_interval);
        let mut tries_left = self.context.options.fixed().max_bgerror_resume_count;
        let failure = loop {
            let asked = self.context.background.asked();
            let flushed = self.flush_all_sealed();
            if flushed.is_err() {
                self.context.shared.activity.background_errors.add(1);
            }
            match flushed {
                Ok(()) => return Ok(()),
                Err(error) if error.is_shortage() && self.is_retried() => {
                    if tries_left <= 0 || self.context.background.is_closing() {
                        break error;
                    }
                    tries_left -= 1;
                    let pause = backoff.next_pause();
                    self.context.info_log.warn(format_args!(
                        "a flush found no {} and will be retried in {pause:?}: {error}",
                        error.lacking(),
                    ));
                    self.context.background.round_ended(Some(error));
                    self.context.background.pause_flushes(pause, asked);
                    if self.context.background.asked().was_resumed_since(asked) {
                        backoff.restart();
                    }
                }
                Err(error) => break error,
            }
        };
        if self.context.errors.latched().is_none() {
            self.context.latch(self.failed_part(), &failure);
        }
        Err(failure)
    }

    /// Whether a flush that failed for lack of space or file descriptors can be retried. It cannot
    /// if a write to the MANIFEST or the log failed, because the contents of the end of that file
    /// are then unknown.
    fn is_retried(&self) -> bool {
        self.failed_part() == FailedPart::Flush && self.context.errors.latched().is_none()
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
