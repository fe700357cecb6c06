//! The write path, and the steps of a leader before it writes its group.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tailwater_io::sync::Mutex;

use crate::compaction::stall_conditions;
use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::flush::FlushScheduler;
use crate::sequence_times::WriteTimes;
use crate::stall::StallCause;
use crate::wal::LogSet;
use crate::write::WriteOptions;
use crate::write::queue::{Leadership, Queue};

/// Maximum time that a stopped write waits if the database itself cannot resume writes: only a
/// manual compaction can, or memory that somebody else gives back. After this time the write fails.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// The write path of a database. Its methods are in
///
/// - `commit`: writing a batch
/// - `memtables`, `flush_request`: sealing memtables, and waiting for their flush
/// - `memory`: the limit of the memory of memtables
/// - `wal_switch`: switching and flushing logs
/// - `counts`: statistics
pub(crate) struct WritePath {
    pub(super) context: Arc<Context>,
    pub(super) flushes: Arc<FlushScheduler>,
    pub(super) queue: Queue,
    pub(super) logs: Arc<Mutex<LogSet>>,
    /// Samples of the times at which sequence numbers were written.
    pub(super) write_times: Arc<WriteTimes>,
    /// Set by an insert that filled a memtable; checked by the next leader.
    pub(super) has_full_memtable: AtomicBool,
    /// Set after a group if the current log is due to be switched, or if all logs together exceed
    /// their size limit. The next leader checks it.
    pub(super) has_full_logs: AtomicBool,
    /// Maximum total length of all logs, in bytes.
    pub(super) log_bound: AtomicU64,
    /// The last sequence number assigned. Only leaders access it. Used only while groups are in
    /// flight; otherwise the last published number is used.
    pub(super) numbered: AtomicU64,
    /// Whether there are writes that are neither in a log nor in a table.
    pub(super) has_unlogged: AtomicBool,
    /// Number of the last log for which flushes were requested, so that it can be released. 0 if
    /// there is none.
    pub(super) flushed_for_log: AtomicU64,
}

impl WritePath {
    /// Creates the write path of a database. With `recheck_memtables`, the first leader checks
    /// whether memtables are full.
    pub(crate) fn new(
        context: Arc<Context>,
        flushes: Arc<FlushScheduler>,
        logs: Arc<Mutex<LogSet>>,
        write_times: Arc<WriteTimes>,
        recheck_memtables: bool,
    ) -> Self {
        let path = Self {
            context,
            flushes,
            queue: Queue::default(),
            logs,
            write_times,
            has_full_memtable: AtomicBool::new(recheck_memtables),
            has_full_logs: AtomicBool::new(false),
            log_bound: AtomicU64::new(0),
            numbered: AtomicU64::new(0),
            has_unlogged: AtomicBool::new(false),
            flushed_for_log: AtomicU64::new(0),
        };
        path.update_log_bound();
        path
    }

    /// Leads the write queue, so that no other thread writes until the leadership ends.
    pub(crate) fn lead(&self) -> Result<Leadership<'_>> {
        self.queue.lead()
    }

    /// Whether there are writes that are neither in a log nor in a table.
    pub(crate) fn has_unlogged(&self) -> bool {
        self.has_unlogged.load(Ordering::Relaxed)
    }

    /// Wakes waiting writers, so that they notice that the database fails or is being closed.
    pub(crate) fn wake_waiting(&self) {
        self.context.stall.wake();
        if let Some(manager) = &self.context.readers.write_buffer_manager {
            manager.wake();
        }
    }

    /// Makes the next leader check whether memtables are full.
    pub(crate) fn recheck_memtables(&self) {
        self.has_full_memtable.store(true, Ordering::Relaxed);
    }

    /// Applies the options of the current column families to `write_times`, which samples when
    /// sequence numbers were written.
    pub(crate) fn update_write_times(&self) {
        let published = self.context.published();
        let options = self.context.family_options();
        let now_s = self.context.now_s();
        self.write_times.update(options.iter().map(|options| &**options), published, now_s);
    }

    /// Assigns write times to the sequence numbers that are reserved when a database is created.
    /// The times are spread evenly over the longest time span for which the options preserve write
    /// times.
    pub(crate) fn spread_write_times(&self) {
        let options = self.context.family_options();
        let (last, now_s) = (self.context.published(), self.context.now_s());
        self.write_times.spread(options.iter().map(|options| &**options), last, now_s);
    }

    /// Takes a sample of the write times, if it is due.
    pub(crate) fn sample_write_times_if_due(&self) {
        self.write_times.sample_if_due(&*self.context.clock, || self.context.published());
    }

    /// Prepares to write a group: switches full memtables and logs, and waits while writes are
    /// stalled.
    pub(super) fn prepare(
        &self,
        leadership: &Leadership<'_>,
        bytes: usize,
        options: &WriteOptions,
    ) -> Result<()> {
        self.context.errors.check()?;
        self.context.check_locks_if_due()?;
        let manager = self.manager_near_limit();
        if let Some(manager) = manager {
            self.flush_for_memory(leadership, manager)?;
        }
        // If sealing the full memtables fails, the flag is set again, because they are still full.
        if self.has_full_memtable.swap(false, Ordering::Relaxed) {
            let sealed = self.seal_full(leadership);
            sealed.inspect_err(|_| self.has_full_memtable.store(true, Ordering::Relaxed))?;
        }
        if self.has_full_logs.swap(false, Ordering::Relaxed) {
            let bounded = self.bound_logs(leadership);
            bounded.inspect_err(|_| self.has_full_logs.store(true, Ordering::Relaxed))?;
        }
        let is_stopped = || self.context.stall.state().stopped_by().is_some();
        if self.context.options.is_inline() && self.context.stall.is_stalled() && is_stopped() {
            // No background thread retries the work that failed and would have ended the stall.
            self.flushes.flush_soon();
        }
        let (bytes, no_slowdown) = (bytes as u64, options.no_slowdown);
        let wait = || {
            let mut idle_since = None;
            let refuse = |error| leadership.refuse_impatient(error);
            let check = |cause| self.check_waiting(cause, &mut idle_since);
            self.context.stall.wait(refuse, bytes, no_slowdown, check)
        };
        if self.context.stall.is_stalled() && !no_slowdown {
            self.count_stall(wait)?;
        } else {
            wait()?;
        }
        match manager {
            Some(manager) => self.wait_for_memory(leadership, manager, options),
            None => Ok(()),
        }
    }

    /// Returns an error if waiting for the end of a stall is pointless. `cause` is the condition
    /// that stops writes, if any. `idle_since` is the time from which on nothing but a manual
    /// compaction could end the stall; `None` while something else could.
    fn check_waiting(
        &self,
        cause: Option<StallCause>,
        idle_since: &mut Option<Instant>,
    ) -> Result<()> {
        self.context.errors.check_waiting()?;
        match self.stopped_by_hand_only(cause) {
            None => *idle_since = None,
            Some(reason) => {
                let since = *idle_since.get_or_insert_with(Instant::now);
                if since.elapsed() >= PATIENCE {
                    return Err(Error::new(ErrorKind::Busy, reason));
                }
            }
        }
        let Some(cause) = cause else { return Ok(()) };
        if let Some(error) = self.failing_work(cause) {
            let until = match cause {
                StallCause::MemTables => "a flush succeeds",
                StallCause::Level0 | StallCause::PendingCompaction => "compactions resume",
            };
            return Err(error.while_doing(format_args!("writes are stopped until {until}")));
        }
        if self.context.options.is_inline() {
            let message = "writes are stopped and nothing can resume them";
            return Err(Error::new(ErrorKind::Busy, message));
        }
        Ok(())
    }

    /// Returns the error with which the work fails that would end the stall: the flush or the
    /// compaction of a column family that stops writes for `cause`.
    fn failing_work(&self, cause: StallCause) -> Option<Error> {
        let Context { background, errors, shared, options, .. } = &*self.context;
        let flushes = background.flush_retries();
        shared.family_set().iter().find_map(|family| {
            let id = family.id();
            let error = match cause {
                // An atomic flush waits for the retry of all column families.
                StallCause::MemTables if options.fixed().atomic_flush => flushes.any_error(),
                StallCause::MemTables => flushes.error_of(id),
                StallCause::Level0 | StallCause::PendingCompaction => errors
                    .stopped_compactions(id)
                    .or_else(|| background.compaction_retries().error_of(id)),
            }?;
            (stall_conditions(family).state(0).stopped_by() == Some(cause)).then_some(error)
        })
    }

    /// Returns the reason why writes are stopped, if only a manual compaction can resume them: a
    /// column family with an unimplemented compaction style stops writes, and no compaction is
    /// running.
    fn stopped_by_hand_only(&self, cause: Option<StallCause>) -> Option<String> {
        let cause = cause.filter(|cause| *cause != StallCause::MemTables)?;
        if self.context.background.running_compactions() > 0 {
            return None;
        }
        let families = self.context.shared.family_set();
        let mut conditions = families.iter().map(stall_conditions);
        let by_hand = conditions.find(|it| {
            let state = it.state(0);
            !it.compacts_by_itself && state.stopped_by() == Some(cause)
        })?;
        Some(format!(
            "writes are stopped: {}, which is compacted only manually",
            by_hand.reason(cause)
        ))
    }
}
