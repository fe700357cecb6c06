//! The threads that work while users do.
//!
//! One flushes, some compact, one cleans up. The first is woken when a memtable is sealed, the
//! second when tables came or may be let go of, the third when there is something to remove. They
//! end when the database is closed: after the flush they are at, and in the middle of a compaction,
//! whose outputs are left over then.
//!
//! None ends otherwise. What panics in a thread, in code of the user's perhaps, is an error of the
//! round it was in ([`Writer::round`]), which refuses writes and is told to whoever waits.

mod backoff;
mod own_work;
mod round;
mod threads;

pub(crate) use backoff::Backoff;
pub(crate) use own_work::{OwnWork, is_at_work_for};
pub(crate) use threads::Threads;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, MutexGuard, PoisonError};
use std::time::Duration;

use tailwater_io::sync::Mutex;

use crate::compaction::Urgency;
use crate::{Error, ErrorKind, Result};

/// How long the threads that flush and clean sleep at most.
const IDLE: Duration = Duration::from_secs(1);

/// What background threads have to do, and whether they are to end.
#[derive(Debug)]
pub(crate) struct Background {
    state: Mutex<State>,
    /// How much compactions have to hurry.
    urgency: Arc<Urgency>,
    /// Notified when there is something to do.
    wanted: Condvar,
    /// Notified when something was done.
    done: Condvar,
    /// Whether compactions that run are to give up.
    cancelling: Arc<AtomicBool>,
}

#[derive(Debug, Default)]
struct State {
    flush_wanted: bool,
    compaction_wanted: bool,
    cleaning_wanted: bool,
    closing: bool,
    /// Whether nobody holds the database any more and nobody but the cleaning thread can close it.
    abandoned: bool,
    /// How often what found no space was asked for once more.
    asked: Asked,
    /// Whether a compaction found no space, and all of them rest.
    compactions_rest: bool,
    /// How many of the threads for it compact where compactions are behind, and one elsewhere; the
    /// others rest.
    compactions_max: usize,
    /// How many times compactions are paused.
    pauses: usize,
    /// How many compactions run, those that somebody waits for too.
    compactions: usize,
    /// How many of them are background threads'.
    own_compactions: usize,
    /// How much other work on files is done in threads of users.
    works: usize,
    /// How many rounds of flushing have ended.
    rounds: u64,
    /// How the last of them failed, if it did.
    failure: Option<Error>,
}

/// How often what found no space was asked for: it is tried again at once then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Asked {
    /// By those who say that there is room. Pauses are short again from then on.
    resumes: u64,
    /// By those who want a flush.
    flushes: u64,
}

impl Asked {
    /// Whether somebody has said since `before` that there is room.
    pub(crate) fn was_resumed_since(&self, before: Self) -> bool {
        self.resumes != before.resumes
    }
}

/// What the cleaning thread is to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cleaning {
    /// To remove what nobody needs.
    Remove,
    /// To close the database, which nobody holds any more.
    Close,
    End,
}

/// What the flushing thread is to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Task {
    Flush,
    /// Nothing in particular: time has passed.
    Idle,
    End,
}

/// A compaction that runs. Dropping it says that it has ended.
#[derive(Debug)]
pub(crate) struct Running<'b> {
    background: &'b Background,
    /// Whether it is a background thread's.
    is_own: bool,
}

/// Work of a user's thread on the files of the database. Dropping it says that it has ended.
#[derive(Debug)]
pub(crate) struct Working<'b> {
    background: &'b Background,
}

impl Background {
    /// For a database whose compactions have to hurry so much.
    pub(crate) fn new(urgency: Arc<Urgency>) -> Self {
        Self {
            state: Mutex::default(),
            urgency,
            wanted: Condvar::new(),
            done: Condvar::new(),
            cancelling: Arc::default(),
        }
    }

    /// Has memtables flushed.
    pub(crate) fn flush_soon(&self) {
        self.lock().flush_wanted = true;
        self.wanted.notify_all();
    }

    /// Has memtables flushed, at once also where that found no space and is to be tried again
    /// later.
    pub(crate) fn flush_now(&self) {
        let mut state = self.lock();
        state.flush_wanted = true;
        state.asked.flushes += 1;
        drop(state);
        self.wanted.notify_all();
    }

    /// Has whatever found no space be tried again at once: there is room, perhaps.
    pub(crate) fn try_again(&self) {
        let mut state = self.lock();
        state.flush_wanted = true;
        state.compaction_wanted = true;
        state.asked.resumes += 1;
        drop(state);
        self.wanted.notify_all();
    }

    /// How often what found no space was asked for. What is tried after this is the answer to all
    /// of that.
    pub(crate) fn asked(&self) -> Asked {
        self.lock().asked
    }

    /// Has the cleaning thread close the database: nobody holds it any more, and who let go of it
    /// is a thread that closing waits for.
    pub(crate) fn abandon(&self) {
        self.lock().abandoned = true;
        self.wanted.notify_all();
    }

    /// Has somebody look for something to compact.
    pub(crate) fn compact_soon(&self) {
        self.lock().compaction_wanted = true;
        self.wanted.notify_all();
    }

    /// Has somebody remove what nobody needs.
    pub(crate) fn clean_soon(&self) {
        self.lock().cleaning_wanted = true;
        self.wanted.notify_all();
    }

    /// Lets so many compactions of background threads run at a time where they are behind; those
    /// that run go on.
    pub(crate) fn set_compactions_max(&self, compactions: usize) {
        self.lock().compactions_max = compactions;
        self.wanted.notify_all();
    }

    /// Has all threads look for what they have to do.
    pub(crate) fn wake(&self) {
        let mut state = self.lock();
        state.flush_wanted = true;
        state.compaction_wanted = true;
        drop(state);
        self.wanted.notify_all();
    }

    /// Has the threads end.
    pub(crate) fn close(&self) {
        self.cancelling.store(true, Ordering::Release);
        self.lock().closing = true;
        self.wanted.notify_all();
        self.done.notify_all();
    }

    /// Waits until no compaction runs and no thread of a user's works on files; after
    /// [`Self::close`] none begins.
    pub(crate) fn wait_for_all_work(&self) {
        let goes_on = |state: &mut State| state.compactions > 0 || state.works > 0;
        drop(self.done.wait_while(self.lock(), goes_on));
    }

    /// Whether the threads are to end.
    pub(crate) fn is_closing(&self) -> bool {
        self.lock().closing
    }

    /// Whether compactions that run are to give up.
    pub(crate) fn cancelling(&self) -> &Arc<AtomicBool> {
        &self.cancelling
    }

    /// Waits for something to do for the flushing thread.
    pub(crate) fn next_flush(&self) -> Task {
        let mut state = self.lock();
        loop {
            if state.closing {
                return Task::End;
            }
            if std::mem::take(&mut state.flush_wanted) {
                return Task::Flush;
            }
            let waited = self.wanted.wait_timeout(state, IDLE);
            let (next, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            state = next;
            if timeout.timed_out() && !state.flush_wanted && !state.closing {
                return Task::Idle;
            }
        }
    }

    /// Waits until compacting thread `number`, counted from 0, is to look for something to compact,
    /// at the latest for `period`. `None` when the thread is to end.
    pub(crate) fn next_compaction(&self, number: usize, period: Duration) -> Option<Running<'_>> {
        let at_a_time = |state: &State| match self.urgency.is_behind() {
            true => state.compactions_max,
            false => 1,
        };
        let rests = |state: &State| {
            state.pauses > 0
                || state.compactions_rest
                || number >= state.compactions_max
                || state.own_compactions >= at_a_time(state)
        };
        let state = self.lock();
        let waits =
            |state: &mut State| !state.closing && (!state.compaction_wanted || rests(state));
        let waited = self.wanted.wait_timeout_while(state, period, waits);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        while rests(&state) && !state.closing {
            state = self.wanted.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.closing {
            return None;
        }
        state.compaction_wanted = false;
        state.compactions += 1;
        state.own_compactions += 1;
        Some(Running { background: self, is_own: true })
    }

    /// Waits until there is something to do for the cleaning thread, or for a while.
    pub(crate) fn next_cleaning(&self) -> Cleaning {
        let state = self.lock();
        let waits =
            |state: &mut State| !state.closing && !state.cleaning_wanted && !state.abandoned;
        let waited = self.wanted.wait_timeout_while(state, IDLE, waits);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.cleaning_wanted = false;
        match (state.closing, state.abandoned) {
            (true, _) => Cleaning::End,
            (false, true) => Cleaning::Close,
            (false, false) => Cleaning::Remove,
        }
    }

    /// Notes a compaction that is not a background thread's.
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

    /// Notes work on files that is no compaction, in a thread of a user's. Closing waits for it:
    /// the lock on the directory is not given up before.
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

    /// Waits until another compaction has ended, but not for long.
    pub(crate) fn wait_for_compaction(&self) {
        let state = self.lock();
        let _ = self.done.wait_timeout(state, IDLE);
    }

    /// Lets no compaction begin until [`Self::continue_compactions`] was called as often as this,
    /// and waits until none runs.
    pub(crate) fn pause_compactions(&self) {
        let mut state = self.lock();
        state.pauses += 1;
        while state.compactions > 0 && !state.closing {
            state = self.done.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Takes back one [`Self::pause_compactions`].
    pub(crate) fn continue_compactions(&self) {
        let mut state = self.lock();
        state.pauses = state.pauses.saturating_sub(1);
        state.compaction_wanted = true;
        drop(state);
        self.wanted.notify_all();
    }

    /// How many compactions run.
    pub(crate) fn running_compactions(&self) -> usize {
        self.lock().compactions
    }

    /// Waits for `pause` after a flush found no space, or until the threads are to end or somebody
    /// asks for it, as nobody had `before` it was tried. What is merely sealed meanwhile asks for
    /// nothing: it will find no space either.
    pub(crate) fn pause_flushes(&self, pause: Duration, before: Asked) {
        let goes_on = |state: &mut State| !state.closing && state.asked == before;
        let _ = self.wanted.wait_timeout_while(self.lock(), pause, goes_on);
    }

    /// Lets no compaction of a background thread begin for `pause` after one found no space, or
    /// until the threads are to end or somebody says that there is room, as nobody had `before` it
    /// was tried.
    pub(crate) fn rest_compactions(&self, pause: Duration, before: Asked) {
        let mut state = self.lock();
        state.compactions_rest = true;
        let goes_on = |state: &mut State| !state.closing && !state.asked.was_resumed_since(before);
        let waited = self.wanted.wait_timeout_while(state, pause, goes_on);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.compactions_rest = false;
        state.compaction_wanted = true;
        drop(state);
        self.wanted.notify_all();
    }

    /// Waits for `pause`, or until the threads are to end.
    pub(crate) fn sleep(&self, pause: Duration) {
        let state = self.lock();
        let _ = self.wanted.wait_timeout_while(state, pause, |state| !state.closing);
    }

    /// Says how a round of flushing has ended.
    pub(crate) fn round_ended(&self, failure: Option<Error>) {
        let mut state = self.lock();
        state.rounds += 1;
        state.failure = failure;
        drop(state);
        self.done.notify_all();
    }

    /// How the last round of flushing failed, if it did.
    pub(crate) fn last_failure(&self) -> Option<Error> {
        self.lock().failure.clone()
    }

    /// How many rounds of flushing have ended.
    pub(crate) fn rounds(&self) -> u64 {
        self.lock().rounds
    }

    /// Waits until `outcome` has one; it is asked after each round. What makes a round end in an
    /// outcome happens before its end.
    ///
    /// # Errors
    /// That of the outcome, and that of a round which failed since `seen` had ended: who takes that
    /// number before he asks for a flush misses none that answers him.
    pub(crate) fn wait_for(
        &self,
        mut seen: u64,
        outcome: impl Fn() -> Option<Result<()>>,
    ) -> Result<()> {
        loop {
            if let Some(outcome) = outcome() {
                return outcome;
            }
            let mut state = self.lock();
            while state.rounds == seen && !state.closing {
                state = self.done.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            let failure = state.failure.clone().filter(|_| state.rounds != seen);
            let is_closing = state.closing;
            seen = state.rounds;
            drop(state);
            if let Some(outcome) = outcome() {
                return outcome;
            }
            if let Some(failure) = failure {
                return Err(failure);
            }
            if is_closing {
                return Err(Error::closed());
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
    fn one_thread_compacts_until_compactions_are_behind() {
        let urgency = Arc::new(Urgency::default());
        let background = Arc::new(Background::new(Arc::clone(&urgency)));
        background.set_compactions_max(2);
        let period = Duration::from_millis(1);
        let first = background.next_compaction(0, period);
        assert!(first.is_some());
        let (done, is_done) = std::sync::mpsc::channel();
        let of_second = Arc::clone(&background);
        let second = thread::spawn("second", move || {
            done.send(of_second.next_compaction(1, period).is_some()).expect("somebody listens");
        })
        .expect("a thread");
        let rested = is_done.recv_timeout(Duration::from_millis(20));
        assert!(rested.is_err(), "the second compacts though nothing is behind");
        urgency.set_behind(true);
        background.compact_soon();
        assert!(is_done.recv().expect("the second has not panicked"));
        drop((first, second));
    }

    #[test]
    fn a_pause_is_cut_short_once_for_each_who_asks() {
        let background = Background::new(Arc::default());
        let forever = Duration::from_secs(1 << 30);
        let before = background.asked();
        background.flush_soon();
        background.pause_flushes(Duration::from_millis(1), before);
        assert_eq!(background.asked(), before, "what is sealed does not ask");
        background.flush_now();
        background.pause_flushes(forever, before);
        let then = background.asked();
        assert!(then != before && !then.was_resumed_since(before));
        background.try_again();
        background.pause_flushes(forever, then);
        background.rest_compactions(forever, then);
        let last = background.asked();
        assert!(last.was_resumed_since(then));
        background.pause_flushes(Duration::from_millis(1), last);
        background.close();
        background.pause_flushes(forever, last);
        background.rest_compactions(forever, last);
    }

    #[test]
    fn another_thread_compacts_where_the_first_has_ended() {
        let background = Background::new(Arc::default());
        background.set_compactions_max(2);
        let period = Duration::from_millis(1);
        drop(background.next_compaction(1, period));
        assert!(background.next_compaction(1, period).is_some());
    }
}
