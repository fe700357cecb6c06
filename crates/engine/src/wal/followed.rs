//! The state of the logs as followers see it. A follower reads the logs while they are being
//! written ([`super::updates`]). While a follower exists, no log that it has not read yet is
//! removed.
//!
//! # Invariants
//!
//! - The known end of a log is the offset up to which followers may read. Before this end, the log
//!   is completely in its file. While the log is followed, this part does not change: the file is
//!   neither removed nor overwritten, and new groups are appended after the known end.
//! - The known end of a log advances past a batch before the batch is published.
//! - Bytes that are only in memory, or in an unfinished or failed write, are past the known end.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tailwater_format::key::{MAX_SEQUENCE, Sequence};
use tailwater_io::sync::Mutex;

use crate::error::{Error, Result};

/// The logs of a database that is open for writing, as seen by followers. A follower reads the logs
/// while they are being written.
#[derive(Debug)]
pub(crate) struct Followed {
    /// The end of the current log, in bytes. It advances without the lock on `state`; it is reset
    /// to 0, for the next log, under that lock.
    current_end: AtomicU64,
    /// Whether the database was closed.
    is_closed: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Complete logs, oldest first.
    complete: VecDeque<CompleteLog>,
    /// The number of the current log, which is being written.
    current: u64,
    /// The first log that each follower has yet to read, by follower ID.
    followers: BTreeMap<u64, u64>,
    /// Number of followers created so far.
    follower_count: u64,
}

#[derive(Debug)]
struct CompleteLog {
    number: u64,
    end: u64,
    last_sequence: Sequence,
}

/// The state of a log at a point in time, as a follower (a reader of the logs that are being
/// written) sees it.
#[derive(Debug, Clone, Copy)]
pub(super) struct LogState {
    /// Length in bytes of the part of the log that is completely in the log's file. Followers read
    /// only this part.
    pub(super) end: u64,
    /// Batches after this sequence number are ignored: they were never published, and other batches
    /// may have been given their numbers.
    pub(super) last_sequence: Sequence,
    /// The number of the next log; `None` if this is the current log. If there is a next log, `end`
    /// is final.
    pub(super) next: Option<u64>,
}

impl Followed {
    /// Creates the state. `complete` are the numbers and lengths in bytes of the complete logs,
    /// oldest first; `current` is the number of the log that is being written.
    pub(super) fn new(complete: impl Iterator<Item = (u64, u64)>, current: u64) -> Self {
        let complete = complete
            .map(|(number, end)| CompleteLog { number, end, last_sequence: MAX_SEQUENCE })
            .collect();
        let (followers, follower_count) = (BTreeMap::new(), 0);
        Self {
            current_end: AtomicU64::new(0),
            is_closed: AtomicBool::new(false),
            state: Mutex::new(State { complete, current, followers, follower_count }),
        }
    }

    /// Sets the end of the current log, in bytes.
    pub(super) fn grow(&self, end: u64) {
        self.current_end.store(end, Ordering::Release);
    }

    /// Completes the current log at the end that [`Followed::grow`] set last, and makes log
    /// `number` the current log. Followers ignore batches of the completed log after
    /// `last_sequence`.
    pub(super) fn begin(&self, number: u64, last_sequence: Sequence) {
        let mut state = self.state.lock();
        let end = self.current_end.swap(0, Ordering::AcqRel);
        let complete = CompleteLog { number: state.current, end, last_sequence };
        state.complete.push_back(complete);
        state.current = number;
    }

    /// If no follower still has to read log `number`, which is complete, removes the log from the
    /// list that followers see, and returns true. The log may then be removed or overwritten.
    pub(super) fn release(&self, number: u64) -> bool {
        let mut state = self.state.lock();
        let is_held = state.followers.values().any(|&position| position <= number);
        if !is_held {
            state.complete.retain(|log| log.number != number);
        }
        !is_held
    }

    /// Stops all followers: each of them gets an error from now on.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        self.state.lock().followers.clear();
    }

    /// Creates a follower that begins with the oldest log.
    pub(super) fn follow(self: &Arc<Self>) -> Result<Follower> {
        self.check()?;
        let mut state = self.state.lock();
        let position = state.numbers().next().unwrap_or(state.current);
        let id = state.follower_count;
        state.follower_count += 1;
        state.followers.insert(id, position);
        Ok(Follower { followed: Arc::clone(self), id })
    }

    fn check(&self) -> Result<()> {
        if self.is_closed.load(Ordering::Acquire) { Err(Error::closed()) } else { Ok(()) }
    }
}

impl State {
    fn numbers(&self) -> impl Iterator<Item = u64> {
        self.complete.iter().map(|log| log.number).chain([self.current])
    }
}

/// A follower of the logs. While it lives, logs at and after its position are neither removed nor
/// overwritten.
#[derive(Debug)]
pub(crate) struct Follower {
    followed: Arc<Followed>,
    id: u64,
}

impl Follower {
    /// Returns an error if the database was closed, because another process may then change the
    /// logs.
    pub(super) fn check(&self) -> Result<()> {
        self.followed.check()
    }

    /// Returns the numbers of the existing logs, oldest first.
    pub(super) fn logs(&self) -> Vec<u64> {
        self.followed.state.lock().numbers().collect()
    }

    /// Returns the current state of a log that this follower keeps from being removed.
    pub(super) fn state_of(&self, number: u64) -> LogState {
        let state = self.followed.state.lock();
        let complete = state.complete.iter().find(|log| log.number == number);
        match complete {
            Some(&CompleteLog { end, last_sequence, .. }) => {
                let next = state.numbers().find(|&next| next > number);
                LogState { end, last_sequence, next }
            }
            None => LogState {
                end: self.followed.current_end.load(Ordering::Acquire),
                last_sequence: MAX_SEQUENCE,
                next: None,
            },
        }
    }

    /// Moves the follower to log `number`, which releases earlier logs.
    pub(super) fn move_to(&self, number: u64) {
        let mut state = self.followed.state.lock();
        if let Some(position) = state.followers.get_mut(&self.id) {
            *position = number;
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.followed.state.lock().followers.remove(&self.id);
    }
}
