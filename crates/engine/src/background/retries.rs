//! Retries of flushes, or of compactions, that failed for lack of disk space or file descriptors.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tailwater_io::sync::Mutex;

use super::Backoff;
use crate::error::Error;

/// Maximum length of a pause, even if the interval of the retries is longer.
const PAUSE_MAX: Duration = Duration::from_secs(365 * 24 * 3600);

/// The column families whose flushes lack disk space or file descriptors, or those whose
/// compactions do.
///
/// Each failure begins a pause, which is twice as long as the previous one. During the pause, the
/// work of all these column families waits; that of other column families does not. The pauses are
/// short again once no work fails any more.
#[derive(Debug)]
pub(crate) struct Retries {
    /// Whether failed work waits for the end of a pause. If not, every attempt includes it.
    has_pauses: bool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    backoff: Backoff,
    /// When the pause ends; `None` if there is no pause, or if its end was reported.
    paused_until: Option<Instant>,
    /// The failures, by the IDs of the column families.
    failures: BTreeMap<u32, Failure>,
    /// Number of attempts begun so far.
    attempts: u64,
    /// Number of requests so far to end the pause.
    requests: u64,
}

#[derive(Debug)]
struct Failure {
    error: Error,
    /// Number of the attempt that failed.
    attempt: u64,
}

/// An attempt to do the work that is due.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attempt {
    /// Number of the attempt, counted from 1.
    number: u64,
    /// Number of requests to end the pause when the attempt began.
    requests: u64,
}

impl Retries {
    /// Creates the state in which nothing has failed. `interval_us` is the interval of the pauses
    /// ([`Backoff::new`]), in microseconds; with `None`, there are no pauses.
    pub(super) fn new(interval_us: Option<u64>) -> Self {
        let state = State {
            backoff: Backoff::new(interval_us.unwrap_or(0)),
            paused_until: None,
            failures: BTreeMap::new(),
            attempts: 0,
            requests: 0,
        };
        Self { has_pauses: interval_us.is_some(), state: Mutex::new(state) }
    }

    /// Begins an attempt.
    pub(crate) fn begin(&self) -> Attempt {
        let mut state = self.state.lock();
        state.attempts += 1;
        Attempt { number: state.attempts, requests: state.requests }
    }

    /// Returns the number of attempts begun so far.
    pub(crate) fn attempts(&self) -> u64 {
        self.state.lock().attempts
    }

    /// Notes that an attempt failed for these column families, given by their IDs, and begins a
    /// pause. Returns its length, which is 0 if [`Self::end_pause`] was called during the attempt.
    pub(crate) fn failed(
        &self,
        attempt: Attempt,
        failures: impl IntoIterator<Item = (u32, Error)>,
    ) -> Duration {
        let mut state = self.state.lock();
        let attempts = failures
            .into_iter()
            .map(|(family, error)| (family, Failure { error, attempt: attempt.number }));
        state.failures.extend(attempts);
        let pauses = self.has_pauses && attempt.requests == state.requests;
        let pause = if pauses { state.backoff.next_pause().min(PAUSE_MAX) } else { Duration::ZERO };
        state.paused_until = self.has_pauses.then(|| Instant::now() + pause);
        pause
    }

    /// Notes that the work of a column family succeeded. Returns whether it had failed before.
    pub(crate) fn succeeded(&self, family: u32) -> bool {
        let mut state = self.state.lock();
        let had_failed = state.failures.remove(&family).is_some();
        state.end_if_nothing_fails();
        had_failed
    }

    /// Forgets the failures of the column families for whose ID `is_kept` returns false.
    pub(crate) fn retain(&self, is_kept: impl Fn(u32) -> bool) {
        let mut state = self.state.lock();
        state.failures.retain(|&family, _| is_kept(family));
        state.end_if_nothing_fails();
    }

    /// Whether the work of a column family may be tried: it has not failed, or the pause has ended.
    pub(crate) fn may_try(&self, family: u32) -> bool {
        let state = self.state.lock();
        !state.failures.contains_key(&family) || !state.is_paused()
    }

    /// Ends the pause, so that everything is tried again at once. With `anew`, the next pause is as
    /// short as the first.
    pub(crate) fn end_pause(&self, anew: bool) {
        let mut state = self.state.lock();
        state.requests += 1;
        state.paused_until = None;
        if anew {
            state.backoff.restart();
        }
    }

    /// Returns the time until [`Self::take_ended_pause`] returns true; `None` if there is no pause
    /// whose end it would report.
    pub(super) fn pause_left(&self) -> Option<Duration> {
        self.state.lock().pause_left()
    }

    /// Whether a pause has ended. Returns true only once for each pause.
    pub(super) fn take_ended_pause(&self) -> bool {
        let mut state = self.state.lock();
        let has_ended = state.paused_until.is_some() && !state.is_paused();
        if has_ended {
            state.paused_until = None;
        }
        has_ended
    }

    /// Returns the error because of which the work of a column family failed; `None` if it has not
    /// failed.
    pub(crate) fn error_of(&self, family: u32) -> Option<Error> {
        self.state.lock().failures.get(&family).map(|failure| failure.error.clone())
    }

    /// Like [`Self::error_of`], but only if it failed in an attempt that began after `attempts`
    /// attempts had begun.
    pub(crate) fn error_since(&self, family: u32, attempts: u64) -> Option<Error> {
        let state = self.state.lock();
        let failure = state.failures.get(&family);
        failure.filter(|failure| failure.attempt > attempts).map(|failure| failure.error.clone())
    }

    /// Returns the error of one of the failures; `None` if nothing fails.
    pub(crate) fn any_error(&self) -> Option<Error> {
        self.any_error_since(0)
    }

    /// Like [`Self::any_error`], for failures of attempts that began after `attempts` attempts had
    /// begun.
    pub(crate) fn any_error_since(&self, attempts: u64) -> Option<Error> {
        let state = self.state.lock();
        let failure = state.failures.values().find(|failure| failure.attempt > attempts);
        failure.map(|failure| failure.error.clone())
    }
}

impl State {
    fn pause_left(&self) -> Option<Duration> {
        Some(self.paused_until?.saturating_duration_since(Instant::now()))
    }

    fn is_paused(&self) -> bool {
        self.pause_left().is_some_and(|left| !left.is_zero())
    }

    fn end_if_nothing_fails(&mut self) {
        if self.failures.is_empty() {
            self.paused_until = None;
            self.backoff.restart();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    /// An interval between retries that does not pass during a test, in microseconds.
    const LONG_US: u64 = 1 << 45;

    fn full() -> Error {
        Error::new(ErrorKind::NoSpace, "a full disk")
    }

    #[test]
    fn only_what_failed_waits_for_the_end_of_the_pause() {
        let retries = Retries::new(Some(LONG_US));
        assert!(retries.may_try(1) && retries.pause_left().is_none());
        let attempt = retries.begin();
        assert!(!retries.failed(attempt, [(1, full()), (2, full())]).is_zero());
        assert_eq!([1, 2, 3].map(|family| retries.may_try(family)), [false, false, true]);
        assert!(retries.error_of(1).is_some() && retries.error_of(3).is_none());
        assert!(retries.succeeded(1) && !retries.succeeded(1));
        assert!(retries.pause_left().is_some() && !retries.take_ended_pause());
        retries.retain(|family| family != 2);
        assert!(retries.pause_left().is_none() && retries.any_error().is_none());
    }

    #[test]
    fn a_request_ends_the_pause_and_that_of_the_attempt_in_progress() {
        let retries = Retries::new(Some(LONG_US));
        let first = retries.failed(retries.begin(), [(1, full())]);
        assert_eq!(retries.failed(retries.begin(), [(1, full())]), first * 2);
        retries.end_pause(false);
        assert!(retries.may_try(1) && !retries.take_ended_pause());
        let attempt = retries.begin();
        retries.end_pause(true);
        assert!(retries.failed(attempt, [(1, full())]).is_zero());
        assert!(retries.take_ended_pause() && !retries.take_ended_pause());
        assert_eq!(retries.failed(retries.begin(), [(1, full())]), first);
    }

    #[test]
    fn failures_are_those_of_later_attempts() {
        let retries = Retries::new(Some(LONG_US));
        let attempt = retries.begin();
        let seen = retries.attempts();
        retries.failed(attempt, [(1, full())]);
        assert!(retries.error_since(1, seen).is_none() && retries.any_error_since(seen).is_none());
        retries.failed(retries.begin(), [(1, full())]);
        assert!(retries.error_since(1, seen).is_some() && retries.error_since(2, seen).is_none());
        assert!(retries.any_error_since(seen).is_some());
    }

    #[test]
    fn without_pauses_everything_is_tried_in_each_attempt() {
        let retries = Retries::new(None);
        retries.failed(retries.begin(), [(1, full())]);
        assert!(retries.may_try(1) && retries.pause_left().is_none());
        assert!(!retries.take_ended_pause() && retries.any_error().is_some());
        let endless = Retries::new(Some(u64::MAX));
        endless.failed(endless.begin(), [(1, full())]);
        assert!(!endless.may_try(1));
    }
}
