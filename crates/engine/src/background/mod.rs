//! The background work of a database.
//!
//! Threads of the database's environment ([`crate::env`]) do it: some flush, some compact, others
//! clean up. A flush is scheduled when a memtable is sealed, a compaction when tables were added or
//! a compaction released its inputs, and a cleaning when there are files to remove. When the
//! database is closed, a running flush is completed; a running compaction is cancelled, and its
//! outputs remain as obsolete files; what no thread has begun is dropped.
//!
//! A panic in such work, for example in user code, counts as its failure: later writes are refused,
//! and waiting callers get the error.
//!
//! Flushes and compactions that lack disk space or file descriptors are retried after a pause.
//! Until a retry succeeds, callers that wait for such work get its error.

mod backoff;
mod errors;
mod jobs;
mod manual;
mod retries;
#[cfg(test)]
mod tests;
mod working_thread;

use backoff::Backoff;
pub(crate) use errors::{ErrorState, FailedPart};
pub(crate) use jobs::{JobKind, Work};
pub(crate) use manual::ManualCompactions;
pub(crate) use retries::{Attempt, Retries};
pub(crate) use working_thread::{WorkingThread, is_working_for};

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use tailwater_io::sync::{Condvar, Mutex};

use crate::env::Threads;
use crate::error::{Error, ErrorKind, Result};
use crate::stall::CompactionPressure;
use jobs::{Jobs, Started};

/// Interval of the upkeep, and maximum time for which callers wait for a compaction's end without
/// looking again.
const IDLE: Duration = Duration::from_secs(1);

/// The requests for background work, the counts of work in progress, and whether the database is
/// being closed.
#[derive(Debug)]
pub(crate) struct Background {
    state: Mutex<State>,
    /// The compaction pressure. It says whether compactions are behind, so that several may run
    /// concurrently.
    pressure: Arc<CompactionPressure>,
    /// Notified when the database is closed.
    closed: Condvar,
    /// Notified when a round of flushing, a compaction or other work has ended.
    done: Condvar,
    /// Set when running compactions must stop.
    cancelling: Arc<AtomicBool>,
    manual: ManualCompactions,
    /// The flushes that lack disk space or file descriptors. Their lock is taken while `state` is
    /// locked, never the reverse.
    flush_retries: Retries,
    /// The compactions that lack disk space or file descriptors; locked like `flush_retries`.
    compaction_retries: Retries,
}

#[derive(Debug, Default)]
struct State {
    flush_wanted: bool,
    compaction_wanted: bool,
    cleaning_wanted: bool,
    closing: bool,
    /// The threads that do the work; `None` before [`Background::start`], while background work is
    /// done inline, and after closing.
    started: Option<Started>,
    /// The jobs that are scheduled or that run in these threads.
    jobs: Jobs,
    /// Maximum number of concurrent flushes.
    flushes_max: usize,
    /// Maximum number of concurrent background compactions while compactions are behind. At other
    /// times, at most one runs.
    compactions_max: usize,
    /// Number of calls of [`Background::pause_compactions`] not yet ended by
    /// [`Background::continue_compactions`].
    pauses: usize,
    /// Number of running compactions, including manual ones.
    compactions: usize,
    /// Number of operations on the database's files that run in users' threads. Compactions are not
    /// counted.
    works: usize,
    /// Number of rounds of flushing that have ended, with or without an error. In a round, a thread
    /// flushes memtables that are due.
    rounds: u64,
}

/// A compaction that is counted as running until this value is dropped.
#[derive(Debug)]
pub(crate) struct Running {
    background: Arc<Background>,
}

/// The end of background work: nothing new can begin.
#[must_use = "closing waits for the work that runs"]
pub(crate) struct Ending<'b> {
    background: &'b Background,
    /// Kept until nothing runs.
    threads: Option<Arc<Threads>>,
}

/// The state after [`Ending::wait`]: no thread works for the database, and none will.
pub(crate) struct Ended(());

/// Work of a user's thread on the database's files, counted as running until this value is dropped.
#[derive(Debug)]
pub(crate) struct Working<'b> {
    background: &'b Background,
}

impl Background {
    /// Creates the state for a database with this compaction pressure. Work that fails for lack of
    /// disk space or file descriptors is retried after pauses with the interval
    /// `retry_interval_us`, in microseconds; with `None`, it is retried by the next call that
    /// requests such work.
    pub(crate) fn new(
        pressure: Arc<CompactionPressure>,
        retry_interval_us: Option<u64>,
    ) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::default(),
            pressure,
            closed: Condvar::new(),
            done: Condvar::new(),
            cancelling: Arc::default(),
            manual: ManualCompactions::default(),
            flush_retries: Retries::new(retry_interval_us),
            compaction_retries: Retries::new(retry_interval_us),
        })
    }

    /// Returns the flushes that lack disk space or file descriptors, and are retried.
    pub(crate) fn flush_retries(&self) -> &Retries {
        &self.flush_retries
    }

    /// Returns the compactions that lack disk space or file descriptors, and are retried.
    pub(crate) fn compaction_retries(&self) -> &Retries {
        &self.compaction_retries
    }

    /// Returns the error of a flush or a compaction that lacks disk space or file descriptors, and
    /// is retried; `None` if there is none.
    pub(crate) fn shortage(&self) -> Option<Error> {
        self.flush_retries.any_error().or_else(|| self.compaction_retries.any_error())
    }

    /// Requests a flush of sealed memtables, except those whose flush waits for a retry.
    pub(crate) fn flush_soon(self: &Arc<Self>) {
        self.request(|state| state.flush_wanted = true);
    }

    /// Requests a flush of sealed memtables. Flushes that wait for a retry are tried at once.
    pub(crate) fn flush_now(self: &Arc<Self>) {
        self.flush_retries.end_pause(false);
        self.flush_soon();
    }

    /// Notes that space or file descriptors may have become available. Work that waits for a retry
    /// is tried at once.
    pub(crate) fn try_again(self: &Arc<Self>) {
        self.flush_retries.end_pause(true);
        self.compaction_retries.end_pause(true);
        self.wake();
    }

    /// Requests a compaction, if one is due.
    pub(crate) fn compact_soon(self: &Arc<Self>) {
        self.request(|state| state.compaction_wanted = true);
    }

    /// Requests the removal of obsolete files.
    pub(crate) fn clean_soon(self: &Arc<Self>) {
        self.request(|state| state.cleaning_wanted = true);
    }

    /// Sets how many flushes may run concurrently, and how many background compactions at times
    /// when compactions are behind. Those that are already running continue.
    pub(crate) fn set_limits(self: &Arc<Self>, flushes: usize, compactions: usize) {
        self.request(|state| (state.flushes_max, state.compactions_max) = (flushes, compactions));
    }

    /// Requests flushes and compactions, if any are due.
    pub(crate) fn wake(self: &Arc<Self>) {
        self.request(|state| {
            state.flush_wanted = true;
            state.compaction_wanted = true;
        });
    }

    /// Prevents background work from beginning, drops the jobs that no thread has begun, and
    /// cancels running compactions. The result waits for those that run.
    pub(crate) fn close(&self) -> Ending<'_> {
        self.cancelling.store(true, Ordering::Release);
        let mut state = self.lock();
        state.closing = true;
        let started = state.started.take();
        drop(state);
        self.closed.notify_all();
        self.done.notify_all();
        Ending { background: self, threads: started.map(Started::cancel_jobs) }
    }

    /// Whether the threads are shutting down.
    pub(crate) fn is_closing(&self) -> bool {
        self.lock().closing
    }

    /// Returns the compactions that callers request.
    pub(crate) fn manual(&self) -> &ManualCompactions {
        &self.manual
    }

    /// Prevents manual compactions until [`ManualCompactions::enable`] is called, and cancels those
    /// that run. With `waits`, waits for their end: a callback of a compaction must not.
    pub(crate) fn disable_manual_compactions(&self, waits: bool) {
        self.manual.disable();
        // Wakes those that wait for other compactions.
        self.done.notify_all();
        if waits {
            self.manual.wait_for_end();
        }
    }

    /// Returns the flag that is set when running compactions must stop.
    pub(crate) fn cancelling(&self) -> &Arc<AtomicBool> {
        &self.cancelling
    }

    /// Registers a compaction that does not run in a background thread.
    ///
    /// # Errors
    /// Busy, while compactions are paused; closed, after closing.
    pub(crate) fn begin_compaction(self: &Arc<Self>) -> Result<Running> {
        let mut state = self.lock();
        if state.closing {
            return Err(Error::closed());
        }
        if state.pauses > 0 {
            return Err(Error::new(ErrorKind::Busy, "compactions are paused"));
        }
        state.compactions += 1;
        Ok(Running { background: Arc::clone(self) })
    }

    /// Registers work on the database's files in a user's thread, other than a compaction. Closing
    /// the database waits for the work to end, and keeps the directory locked until then.
    ///
    /// # Errors
    /// Closed, after closing.
    pub(crate) fn begin_work(&self) -> Result<Working<'_>> {
        let mut state = self.lock();
        if state.closing {
            return Err(Error::closed());
        }
        state.works += 1;
        Ok(Working { background: self })
    }

    /// Waits until some compaction ends, for at most [`IDLE`].
    pub(crate) fn wait_for_compaction(&self) {
        self.wait_for_compaction_for(IDLE);
    }

    /// Waits until some compaction ends, for at most [`IDLE`] and `longest`.
    pub(crate) fn wait_for_compaction_for(&self, longest: Duration) {
        let state = self.lock();
        drop(self.done.wait_timeout(state, IDLE.min(longest)));
    }

    /// Prevents compactions from starting, and waits until none runs. Each call must be followed by
    /// a call of [`Self::continue_compactions`].
    pub(crate) fn pause_compactions(&self) {
        let mut state = self.lock();
        state.pauses += 1;
        while state.compactions > 0 && !state.closing {
            state = self.done.wait(state);
        }
    }

    /// Ends the effect of one call of [`Self::pause_compactions`].
    pub(crate) fn continue_compactions(self: &Arc<Self>) {
        self.request(|state| {
            state.pauses = state.pauses.saturating_sub(1);
            state.compaction_wanted = true;
        });
    }

    /// Returns the number of running compactions.
    pub(crate) fn running_compactions(&self) -> usize {
        self.lock().compactions
    }

    /// Waits for `pause`, or until shutdown.
    pub(crate) fn sleep(&self, pause: Duration) {
        let state = self.lock();
        drop(self.closed.wait_timeout_while(state, pause, |state| !state.closing));
    }

    /// Records that a round of flushing has ended.
    pub(crate) fn round_ended(&self) {
        self.lock().rounds += 1;
        self.done.notify_all();
    }

    /// Waits until `outcome` returns a result. Calls `outcome` at once, and again after each round
    /// of flushing, when the effects of the round are visible.
    ///
    /// # Errors
    /// The error that `outcome` returns; closed, if the database is closed first.
    pub(crate) fn wait_for(&self, outcome: impl Fn() -> Option<Result<()>>) -> Result<()> {
        loop {
            let seen = self.lock().rounds;
            if let Some(outcome) = outcome() {
                return outcome;
            }
            let mut state = self.lock();
            while state.rounds == seen && !state.closing {
                state = self.done.wait(state);
            }
            if state.closing {
                drop(state);
                return outcome().unwrap_or_else(|| Err(Error::closed()));
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl Ending<'_> {
    /// Waits until no job and no compaction of the database runs, and no user's thread works on its
    /// files.
    pub(crate) fn wait(self) -> Ended {
        let goes_on =
            |state: &mut State| state.compactions > 0 || state.works > 0 || !state.jobs.is_empty();
        let background = self.background;
        drop(background.done.wait_while(background.lock(), goes_on));
        drop(self.threads);
        Ended(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.background.lock().compactions -= 1;
        self.background.done.notify_all();
    }
}

impl Drop for Working<'_> {
    fn drop(&mut self) {
        self.background.lock().works -= 1;
        self.background.done.notify_all();
    }
}
