//! The background threads of a database.
//!
//! Some threads flush, some compact, and one cleans up. A flushing thread is woken when a
//! memtable is sealed, the compacting threads when tables were added or a compaction released its
//! inputs, and the cleaning thread when there are files to remove. The threads end when the
//! database is closed: a running flush is completed; a running compaction is cancelled, and its
//! outputs remain as obsolete files.
//!
//! Threads end for no other reason. A thread that panics, for example in user code, continues to
//! run. The panic counts as a failure of the thread's current round of work: later writes are
//! refused, and waiting callers get the error.
//!
//! Flushes and compactions that lack disk space or file descriptors are retried after a pause.
//! Until a retry succeeds, callers that wait for such work get its error.

mod backoff;
mod errors;
mod manual;
mod retries;
mod working_thread;

use backoff::Backoff;
pub(crate) use errors::{ErrorState, FailedPart};
pub(crate) use manual::ManualCompactions;
pub(crate) use retries::{Attempt, Retries};
pub(crate) use working_thread::{WorkingThread, is_working_for};

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

use tailwater_io::sync::{Condvar, Mutex};

use crate::error::{Error, ErrorKind, Result};
use crate::stall::CompactionPressure;

/// Maximum time for which the first flushing thread and the cleaning thread sleep without a
/// request.
const IDLE: Duration = Duration::from_secs(1);

/// The requests to the background threads, the counts of work in progress, and whether the database
/// is being closed.
#[derive(Debug)]
pub(crate) struct Background {
    state: Mutex<State>,
    /// The compaction pressure. It says whether compactions are behind, so that several may run
    /// concurrently.
    pressure: Arc<CompactionPressure>,
    /// Notified when a background thread may have something to do.
    wanted: Condvar,
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
    /// Whether the cleaning thread must close the database, because the thread that dropped the
    /// last handle cannot.
    abandoned: bool,
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
    /// Number of running compactions in background threads, a part of `compactions`.
    own_compactions: usize,
    /// Number of operations on the database's files that run in users' threads. Compactions are not
    /// counted.
    works: usize,
    /// Number of rounds of flushing that have ended, with or without an error. In a round, a thread
    /// flushes memtables that are due.
    rounds: u64,
}

/// The next task of the cleaning thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cleaning {
    /// Remove obsolete files.
    Remove,
    /// Close the database, whose last handle was dropped.
    Close,
    End,
}

/// The next task of a flushing thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Task {
    Flush,
    /// No request arrived within [`IDLE`]. Only the first thread gets this task.
    Idle,
    End,
}

/// A compaction that is counted as running until this value is dropped.
#[derive(Debug)]
pub(crate) struct Running<'b> {
    background: &'b Background,
    /// Whether the compaction runs in a background thread.
    is_own: bool,
}

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
    pub(crate) fn new(pressure: Arc<CompactionPressure>, retry_interval_us: Option<u64>) -> Self {
        Self {
            state: Mutex::default(),
            pressure,
            wanted: Condvar::new(),
            done: Condvar::new(),
            cancelling: Arc::default(),
            manual: ManualCompactions::default(),
            flush_retries: Retries::new(retry_interval_us),
            compaction_retries: Retries::new(retry_interval_us),
        }
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
    pub(crate) fn flush_soon(&self) {
        self.lock().flush_wanted = true;
        self.wanted.notify_all();
    }

    /// Requests a flush of sealed memtables. Flushes that wait for a retry are tried at once.
    pub(crate) fn flush_now(&self) {
        self.flush_retries.end_pause(false);
        self.flush_soon();
    }

    /// Notifies the background threads that space or file descriptors may have become available.
    /// Work that waits for a retry is tried at once.
    pub(crate) fn try_again(&self) {
        self.flush_retries.end_pause(true);
        self.compaction_retries.end_pause(true);
        self.wake();
    }

    /// Makes the cleaning thread close the database. The thread that dropped the last handle cannot
    /// close it, because closing would wait for that thread itself.
    pub(crate) fn abandon(&self) {
        self.lock().abandoned = true;
        self.wanted.notify_all();
    }

    /// Makes an idle background thread look for a compaction.
    pub(crate) fn compact_soon(&self) {
        self.lock().compaction_wanted = true;
        self.wanted.notify_all();
    }

    /// Requests the removal of obsolete files.
    pub(crate) fn clean_soon(&self) {
        self.lock().cleaning_wanted = true;
        self.wanted.notify_all();
    }

    /// Sets how many flushes may run concurrently, and how many background compactions at times
    /// when compactions are behind. Those that are already running continue.
    pub(crate) fn set_limits(&self, flushes: usize, compactions: usize) {
        let mut state = self.lock();
        (state.flushes_max, state.compactions_max) = (flushes, compactions);
        drop(state);
        self.wanted.notify_all();
    }

    /// Makes the background threads look for flushes and compactions.
    pub(crate) fn wake(&self) {
        let mut state = self.lock();
        state.flush_wanted = true;
        state.compaction_wanted = true;
        drop(state);
        self.wanted.notify_all();
    }

    /// Makes the background threads end, and cancels running compactions.
    pub(crate) fn close(&self) {
        self.cancelling.store(true, Ordering::Release);
        self.lock().closing = true;
        self.wanted.notify_all();
        self.done.notify_all();
    }

    /// Waits until no compaction runs and no user's thread works on the database's files. If
    /// [`Self::close`] was called before, no such work can start afterwards.
    pub(crate) fn wait_for_all_work(&self) {
        let goes_on = |state: &mut State| state.compactions > 0 || state.works > 0;
        drop(self.done.wait_while(self.lock(), goes_on));
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

    /// Waits for the next task of flushing thread `number`, counted from 0.
    pub(crate) fn next_flush(&self, number: usize) -> Task {
        let idle_at = (number == 0).then(|| Instant::now() + IDLE);
        let mut state = self.lock();
        loop {
            if state.closing {
                return Task::End;
            }
            let rests = number > 0 && number >= state.flushes_max;
            let is_due = |state: &mut State| {
                std::mem::take(&mut state.flush_wanted) || self.flush_retries.take_ended_pause()
            };
            if !rests && is_due(&mut state) {
                return Task::Flush;
            }
            let until_idle = idle_at.map(|at| at.saturating_duration_since(Instant::now()));
            if until_idle.is_some_and(|left| left.is_zero()) {
                return Task::Idle;
            }
            let until_retry = self.flush_retries.pause_left().filter(|_| !rests);
            state = match until_idle.into_iter().chain(until_retry).min() {
                Some(pause) => self.wanted.wait_timeout(state, pause),
                None => self.wanted.wait(state),
            };
        }
    }

    /// Waits until compaction thread `number`, counted from 0, is to look for a compaction: on
    /// request, or to retry one. The wait is longer while this thread is not allowed to start a
    /// compaction, for example because compactions are paused. Returns `None` if the thread must
    /// end.
    pub(crate) fn next_compaction(&self, number: usize) -> Option<Running<'_>> {
        let at_a_time =
            |state: &State| if self.pressure.is_behind() { state.compactions_max } else { 1 };
        let rests = |state: &State| {
            state.pauses > 0
                || number >= state.compactions_max
                || state.own_compactions >= at_a_time(state)
        };
        let mut state = self.lock();
        while !state.closing {
            let rests = rests(&state);
            let is_due = || state.compaction_wanted || self.compaction_retries.take_ended_pause();
            if !rests && is_due() {
                state.compaction_wanted = false;
                state.compactions += 1;
                state.own_compactions += 1;
                return Some(Running { background: self, is_own: true });
            }
            state = match self.compaction_retries.pause_left().filter(|_| !rests) {
                Some(pause) => self.wanted.wait_timeout(state, pause),
                None => self.wanted.wait(state),
            };
        }
        None
    }

    /// Waits for the next task of the cleaning thread. Without a request, the thread removes files
    /// every [`IDLE`].
    pub(crate) fn next_cleaning(&self) -> Cleaning {
        let state = self.lock();
        let waits =
            |state: &mut State| !state.closing && !state.cleaning_wanted && !state.abandoned;
        let mut state = self.wanted.wait_timeout_while(state, IDLE, waits);
        state.cleaning_wanted = false;
        match (state.closing, state.abandoned) {
            (true, _) => Cleaning::End,
            (false, true) => Cleaning::Close,
            (false, false) => Cleaning::Remove,
        }
    }

    /// Registers a compaction that does not run in a background thread.
    ///
    /// # Errors
    /// Busy, while compactions are paused; closed, after closing.
    pub(crate) fn begin_compaction(&self) -> Result<Running<'_>> {
        let mut state = self.lock();
        if state.closing {
            return Err(Error::closed());
        }
        if state.pauses > 0 {
            return Err(Error::new(ErrorKind::Busy, "compactions are paused"));
        }
        state.compactions += 1;
        Ok(Running { background: self, is_own: false })
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
    pub(crate) fn continue_compactions(&self) {
        let mut state = self.lock();
        state.pauses = state.pauses.saturating_sub(1);
        state.compaction_wanted = true;
        drop(state);
        self.wanted.notify_all();
    }

    /// Returns the number of running compactions.
    pub(crate) fn running_compactions(&self) -> usize {
        self.lock().compactions
    }

    /// Waits for `pause`, or until shutdown.
    pub(crate) fn sleep(&self, pause: Duration) {
        let state = self.lock();
        drop(self.wanted.wait_timeout_while(state, pause, |state| !state.closing));
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

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut state = self.background.lock();
        state.compactions -= 1;
        if self.is_own {
            state.own_compactions -= 1;
            self.background.wanted.notify_all();
        }
        drop(state);
        self.background.done.notify_all();
    }
}

impl Drop for Working<'_> {
    fn drop(&mut self) {
        self.background.lock().works -= 1;
        self.background.done.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tailwater_io::thread;

    use super::*;

    #[test]
    fn a_second_thread_compacts_only_when_compactions_are_behind() {
        let pressure = Arc::new(CompactionPressure::default());
        let background = Arc::new(Background::new(Arc::clone(&pressure), None));
        background.set_limits(1, 2);
        background.compact_soon();
        let first = background.next_compaction(0);
        assert!(first.is_some());
        background.compact_soon();
        let (done, is_done) = std::sync::mpsc::channel();
        let of_second = Arc::clone(&background);
        let second = thread::spawn("second", move || {
            done.send(of_second.next_compaction(1).is_some()).expect("somebody listens");
        })
        .expect("a thread");
        let rested = is_done.recv_timeout(Duration::from_millis(20));
        assert!(rested.is_err(), "the second compacts though nothing is behind");
        pressure.set_behind(true);
        background.compact_soon();
        assert!(is_done.recv().expect("the second has not panicked"));
        drop((first, second));
    }

    #[test]
    fn a_second_thread_flushes_only_if_the_limit_allows_it() {
        let background = Arc::new(Background::new(Arc::default(), None));
        background.set_limits(1, 1);
        let (done, is_done) = std::sync::mpsc::channel();
        let of_second = Arc::clone(&background);
        let second = thread::spawn("second", move || {
            done.send(of_second.next_flush(1)).expect("somebody listens");
        })
        .expect("a thread");
        background.flush_soon();
        let rested = is_done.recv_timeout(Duration::from_millis(20));
        assert!(rested.is_err(), "the second flushes although one flush may run");
        background.set_limits(2, 1);
        assert_eq!(is_done.recv().expect("the second has not panicked"), Task::Flush);
        drop(second);
        assert_eq!(background.next_flush(0), Task::Idle, "the request was taken");
    }

    #[test]
    fn another_thread_compacts_after_the_first_has_ended() {
        let background = Background::new(Arc::default(), None);
        background.set_limits(1, 2);
        background.compact_soon();
        drop(background.next_compaction(1));
        background.compact_soon();
        assert!(background.next_compaction(1).is_some());
    }

    #[test]
    fn the_end_of_a_pause_wakes_the_threads() {
        let background = Background::new(Arc::default(), Some(0));
        background.set_limits(1, 1);
        let full = || Error::new(ErrorKind::NoSpace, "a full disk");
        for retries in [background.flush_retries(), background.compaction_retries()] {
            retries.failed(retries.begin(), [(0, full())]);
        }
        assert_eq!(background.next_flush(0), Task::Flush);
        assert!(background.next_compaction(0).is_some());
        assert_eq!(
            background.next_flush(0),
            Task::Idle,
            "nothing was tried, so nothing is retried"
        );
        background.close();
        assert!(background.next_compaction(0).is_none());
    }
}
