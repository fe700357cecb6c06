//! The members of a group that insert their own batches, and the leader that waits for them.

use std::sync::Arc;

use super::Queue;
use super::request::Patience;
use super::sync::{AtomicUsize, Mutex, Ordering, Thread, lock, thread, unpark, wait_until};
use crate::{Error, Result, panics};

/// The leader's side of the insertions of a group's members.
///
/// Dropping it waits for them: whatever becomes of the leader, no member is inserting any more when
/// the next one leads.
#[derive(Debug)]
pub(crate) struct Inserting {
    insertions: Arc<Insertions>,
    may_spin: bool,
}

/// A member's side: its own insertion. Dropped before anything was said of it, it has failed.
#[derive(Debug)]
pub(crate) struct Insertion {
    insertions: Arc<Insertions>,
    outcome: Option<Result<()>>,
}

#[derive(Debug)]
struct Insertions {
    /// How many members have not inserted their batch.
    left: AtomicUsize,
    /// The first failure.
    failure: Mutex<Option<Error>>,
    leader: Thread,
}

impl Inserting {
    /// No insertions yet, for the leader that calls this to wait for. It has to go before the group
    /// does.
    pub(crate) fn new(queue: &Queue) -> Self {
        let insertions = Insertions {
            left: AtomicUsize::new(0),
            failure: Mutex::new(None),
            leader: thread::current(),
        };
        Self { insertions: Arc::new(insertions), may_spin: queue.patience_at(0) == Patience::Spins }
    }

    /// One more, for a member to do.
    pub(super) fn one_more(&self) -> Insertion {
        // Whoever is told of it is told under a lock.
        self.insertions.left.fetch_add(1, Ordering::Relaxed);
        Insertion { insertions: Arc::clone(&self.insertions), outcome: None }
    }

    /// Waits until every member has inserted its batch. The first failure counts.
    pub(crate) fn wait(self) -> Result<()> {
        self.wait_for_all();
        lock(&self.insertions.failure).take().map_or(Ok(()), Err)
    }

    fn wait_for_all(&self) {
        let left = &self.insertions.left;
        wait_until(self.may_spin, || left.load(Ordering::Acquire) == 0);
    }
}

impl Drop for Inserting {
    fn drop(&mut self) {
        self.wait_for_all();
    }
}

impl Insertion {
    /// Says how it went.
    pub(crate) fn inserted(mut self, result: Result<()>) {
        self.outcome = Some(result);
    }
}

impl Drop for Insertion {
    fn drop(&mut self) {
        let given_up = || Err(panics::unwinding("a writer that inserted its own batch"));
        if let Err(error) = self.outcome.take().unwrap_or_else(given_up) {
            lock(&self.insertions.failure).get_or_insert(error);
        }
        if self.insertions.left.fetch_sub(1, Ordering::Release) == 1 {
            unpark(&self.insertions.leader);
        }
    }
}
