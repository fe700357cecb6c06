//! What those who follow the logs know of them, and which logs they hold back.
//!
//! # Invariants
//!
//! - Up to the end that is known here a log is whole in its file, and does not change as long as
//!   somebody follows it: it is not removed or written over, and the next group comes behind.
//! - The end of a log is moved before any batch that this takes in is published.
//! - What is in memory only, or in a write that is under way or failed, is behind the end.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tailwater_format::key::{MAX_SEQUENCE, Sequence};
use tailwater_io::sync::Mutex;

use crate::{Error, Result};

/// The logs of a database that is open for writing, as those see them who follow them.
#[derive(Debug)]
pub(crate) struct Followed {
    /// The end of the log that is written, in bytes. Moved without the lock, set to 0 under it.
    current_end: AtomicU64,
    /// Whether the database was closed.
    is_closed: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Those that are complete, oldest first.
    complete: VecDeque<CompleteLog>,
    /// The number of the one that is written.
    current: u64,
    /// From which log on each follower has yet to read.
    followers: BTreeMap<u64, u64>,
    /// How many followers there have been.
    follower_count: u64,
}

#[derive(Debug)]
struct CompleteLog {
    number: u64,
    end: u64,
    last_sequence: Sequence,
}

/// What is known of a log at one moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    /// Up to where it is whole in its file, in bytes.
    pub(super) end: u64,
    /// What it holds behind this sequence number does not count: it was never published, and other
    /// batches may have its numbers.
    pub(super) last_sequence: Sequence,
    /// The number of the log after it; then its end is its last.
    pub(super) next: Option<u64>,
}

impl Followed {
    /// Logs that are complete, oldest first, each a number and a length in bytes, and `current`,
    /// which is written.
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

    /// Says up to where the log that is written is in its file, in bytes.
    pub(super) fn grow(&self, end: u64) {
        self.current_end.store(end, Ordering::Release);
    }

    /// Says that the log that was written is complete, as far as it is in its file and up to
    /// `last_sequence`, and that log `number` is written from now on.
    pub(super) fn begin(&self, number: u64, last_sequence: Sequence) {
        let mut state = self.state.lock();
        let end = self.current_end.swap(0, Ordering::AcqRel);
        let complete = CompleteLog { number: state.current, end, last_sequence };
        state.complete.push_back(complete);
        state.current = number;
    }

    /// Whether a complete log may be removed or written over; if so, nobody is told of it any more.
    pub(super) fn let_go(&self, number: u64) -> bool {
        let mut state = self.state.lock();
        let is_held = state.followers.values().any(|&position| position <= number);
        if !is_held {
            state.complete.retain(|log| log.number != number);
        }
        !is_held
    }

    /// Lets nobody follow the logs any more.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        self.state.lock().followers.clear();
    }

    /// Follows the logs from the oldest on.
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
        match self.is_closed.load(Ordering::Acquire) {
            true => Err(Error::closed()),
            false => Ok(()),
        }
    }
}

impl State {
    fn numbers(&self) -> impl Iterator<Item = u64> {
        self.complete.iter().map(|log| log.number).chain([self.current])
    }
}

/// One who follows the logs. Those from its position on are held back while it lives.
#[derive(Debug)]
pub(crate) struct Follower {
    followed: Arc<Followed>,
    id: u64,
}

impl Follower {
    /// Refuses, where the database was closed: the logs belong to whoever opens it next.
    pub(super) fn check(&self) -> Result<()> {
        self.followed.check()
    }

    /// The numbers of the logs that there are, oldest first.
    pub(super) fn logs(&self) -> Vec<u64> {
        self.followed.state.lock().numbers().collect()
    }

    /// What is known of a log that is held back.
    pub(super) fn look(&self, number: u64) -> Look {
        let state = self.followed.state.lock();
        let complete = state.complete.iter().find(|log| log.number == number);
        match complete {
            Some(&CompleteLog { end, last_sequence, .. }) => {
                let next = state.numbers().find(|&next| next > number);
                Look { end, last_sequence, next }
            }
            None => Look {
                end: self.followed.current_end.load(Ordering::Acquire),
                last_sequence: MAX_SEQUENCE,
                next: None,
            },
        }
    }

    /// Holds back only the logs from `number` on.
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
