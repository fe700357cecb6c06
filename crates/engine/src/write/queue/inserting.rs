//! Members of a group that insert their own batches, and the leader that waits for them.

use std::sync::Arc;

use super::Queue;
use super::sync::{AtomicUsize, Mutex, Ordering, Thread, lock, thread, unpark, wait_until};
use super::wait_by::WaitBy;
use crate::error::{Error, Result};
use crate::panics;

/// The leader's handle for the insertions by members of its group.
///
/// Dropping the handle waits for the insertions, so that even if the leader fails, no member is
/// still inserting when the next leader begins.
#[derive(Debug)]
pub(crate) struct Inserting {
    insertions: Arc<Insertions>,
    may_spin: bool,
}

/// A member's handle for its own insertion. If it is dropped without a result, the insertion counts
/// as failed.
#[derive(Debug)]
pub(crate) struct Insertion {
    insertions: Arc<Insertions>,
    outcome: Option<Result<()>>,
}

#[derive(Debug)]
struct Insertions {
    /// Number of members that have not yet inserted their batch.
    left: AtomicUsize,
    /// The first failure of a member, if any.
    failure: Mutex<Option<Error>>,
    leader: Thread,
}

impl Inserting {
    /// Creates the calling leader's handle, which waits for no insertion yet. The leader must drop
    /// the handle before it drops its group, so that no member gets its result while it inserts.
    pub(crate) fn new(queue: &Queue) -> Self {
        let insertions = Insertions {
            left: AtomicUsize::new(0),
            failure: Mutex::new(None),
            leader: thread::current(),
        };
        Self { insertions: Arc::new(insertions), may_spin: queue.wait_by_at(0) == WaitBy::Spins }
    }

    /// Makes the leader wait for one more insertion. Returns the handle for the member that
    /// performs this insertion.
    pub(super) fn one_more(&self) -> Insertion {
        // Relaxed suffices, because the member of the group that performs the insertion is notified
        // afterwards, under a lock.
        self.insertions.left.fetch_add(1, Ordering::Relaxed);
        Insertion { insertions: Arc::clone(&self.insertions), outcome: None }
    }

    /// Waits until every member has inserted its batch. Returns the first failure.
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
    /// Ends the insertion, and reports its result to the leader.
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
