//! A waiting write request, and the group of requests that a leader takes.

use std::ops::Deref;
use std::sync::Arc;

use tailwater_format::batch::WriteBatch;

use super::inserting::{Inserting, Insertion};
use super::sync::{
    AtomicU32, Mutex, MutexGuard, Ordering, Thread, lock, sleep_until, spin_until, thread, unpark,
    yield_until,
};
use super::wait_by::WaitBy;
use super::{Leadership, Queue, Turn, processors};
use crate::error::Result;
use crate::panics;

/// The durability that a write asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Durability {
    /// The batch is not written to the write-ahead log.
    Unlogged,
    /// The batch is written to the write-ahead log without a sync.
    Logged,
    /// The batch is written to the write-ahead log, and the log is synced to the device.
    Synced,
}

/// A write that waits for its turn.
#[derive(Debug)]
pub(crate) struct Request {
    /// The batch to write. The leader assigns its sequence numbers.
    batch: Mutex<WriteBatch>,
    /// Size of the batch in bytes.
    pub(crate) bytes: usize,
    /// Number of operations in the batch.
    pub(crate) operations: u64,
    /// The durability that the writer asked for.
    pub(crate) durability: Durability,
    /// Whether the writer wants to be refused instead of waiting while writes are stalled.
    pub(super) no_slowdown: bool,
    /// The state of the wait: [`WAITING`], [`ASLEEP`] or, once `notification` holds a notification,
    /// [`NOTIFIED`].
    signal: AtomicU32,
    notification: Mutex<Option<Notification>>,
    writer: Thread,
}

/// A notification to a waiting writer.
#[derive(Debug)]
enum Notification {
    Lead,
    Insert(Insertion),
    Done(Result<()>),
}

const WAITING: u32 = 0;
/// The writer's thread sleeps or is about to.
const ASLEEP: u32 = 1;
const NOTIFIED: u32 = 2;

impl Request {
    /// Creates a request of the calling thread to write `batch`. With `no_slowdown` it is refused
    /// instead of waiting while writes are stalled.
    pub(crate) fn new(batch: WriteBatch, durability: Durability, no_slowdown: bool) -> Self {
        Self {
            bytes: batch.size_in_bytes(),
            operations: batch.len() as u64,
            batch: Mutex::new(batch),
            durability,
            no_slowdown,
            signal: AtomicU32::new(WAITING),
            notification: Mutex::new(None),
            writer: thread::current(),
        }
    }

    /// Returns the batch, locked.
    pub(crate) fn batch(&self) -> MutexGuard<'_, WriteBatch> {
        lock(&self.batch)
    }

    /// Swaps the request's batch with `batch`.
    pub(crate) fn swap_batch(&self, batch: &mut WriteBatch) {
        std::mem::swap(&mut *self.batch(), batch);
    }

    /// Waits for a notification. Only the thread that made the request may call this.
    pub(crate) fn wait<'q>(&self, queue: &'q Queue) -> Turn<'q> {
        self.wait_with(queue, queue.wait_by_at(0))
    }

    /// Like [`Self::wait`], but waits in the way given by `wait_by`.
    pub(super) fn wait_with<'q>(&self, queue: &'q Queue, wait_by: WaitBy) -> Turn<'q> {
        let is_notified = || self.signal.load(Ordering::Acquire) == NOTIFIED;
        let is_notified_soon = || match wait_by {
            WaitBy::Spins => spin_until(is_notified) || yield_until(is_notified),
            WaitBy::Yields => yield_until(is_notified),
            WaitBy::Sleeps => false,
        };
        let falls_asleep = || {
            let (from, to) = (WAITING, ASLEEP);
            self.signal.compare_exchange(from, to, Ordering::Relaxed, Ordering::Acquire).is_ok()
        };
        loop {
            let sleeps = !is_notified_soon() && falls_asleep();
            if sleeps {
                sleep_until(is_notified);
            }
            processors::resumes(sleeps);
            // The signal is reset before the writer takes the notification, because the writer's
            // reaction to the notification may trigger the next one.
            self.signal.store(WAITING, Ordering::Relaxed);
            match lock(&self.notification).take() {
                Some(Notification::Lead) => return Turn::Lead(Leadership { queue }),
                Some(Notification::Insert(insertion)) => return Turn::Insert(insertion),
                Some(Notification::Done(result)) => return Turn::Done(result),
                None => {}
            }
        }
    }

    /// Notifies the writer to insert its own batch. With `inserting`, the leader waits until the
    /// batch is inserted.
    pub(crate) fn let_insert(&self, inserting: &Inserting) {
        self.notify(Notification::Insert(inserting.one_more()));
    }

    /// Notifies the writer that it is now the leader of the queue.
    pub(super) fn let_lead(&self) {
        self.notify(Notification::Lead);
    }

    /// Notifies the writer of the result.
    pub(super) fn finish(&self, result: Result<()>) {
        self.notify(Notification::Done(result));
    }

    fn notify(&self, notification: Notification) {
        *lock(&self.notification) = Some(notification);
        // The writer is counted as held up before the signal is set, because it subtracts itself
        // from this count as soon as it sees the signal.
        processors::notifying();
        if self.signal.swap(NOTIFIED, Ordering::AcqRel) == ASLEEP {
            processors::while_waking(|| unpark(&self.writer));
        }
    }
}

impl Drop for Request {
    /// Subtracts the writer from the count of held-up writers if it never received its last
    /// notification. This is the case if the writer panicked while it inserted its batch.
    fn drop(&mut self) {
        if self.signal.load(Ordering::Relaxed) == NOTIFIED {
            processors::resumes(false);
        }
    }
}

/// The requests that a leader took from the queue, in the order in which they joined it.
///
/// Each request gets a result: from [`Leadership::finish`], or, if the leader fails, as an error
/// when the group is dropped.
#[derive(Debug)]
pub(crate) struct Group {
    members: Vec<Arc<Request>>,
    /// The durability with which the group is written, which is the one that the leader's write
    /// asked for.
    pub(super) durability: Durability,
}

impl Group {
    /// Creates a group from requests, in order. The group is written with `durability`.
    pub(super) fn new(members: Vec<Arc<Request>>, durability: Durability) -> Self {
        Self { members, durability }
    }

    /// Reports `result`, the result of writing the group, to every member.
    pub(super) fn finish(mut self, result: &Result<()>) {
        for member in self.members.drain(..) {
            member.finish(result.clone());
        }
    }
}

impl Deref for Group {
    type Target = [Arc<Request>];

    fn deref(&self) -> &[Arc<Request>] {
        &self.members
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for member in self.members.drain(..) {
            let error = panics::unwinding("the leader of a group of writes");
            member.finish(Err(error.followed_by("the outcome of the write is unknown")));
        }
    }
}
