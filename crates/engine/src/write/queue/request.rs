//! A write that waits for its turn, and the group that a leader takes along.

use std::ops::Deref;
use std::sync::Arc;

use tailwater_format::batch::WriteBatch;

use super::inserting::{Inserting, Insertion};
use super::sync::{
    AtomicU32, Mutex, MutexGuard, Ordering, Thread, lock, sleep_until, spin_until, thread, unpark,
    yield_until,
};
use super::{Leadership, Queue, Turn, processors};
use crate::{Result, panics};

/// What a write asks of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Durability {
    /// Nothing: it is not logged.
    Unlogged,
    /// To be in the log.
    Logged,
    /// To be in the log and on the device.
    Synced,
}

/// A write that waits for its turn.
#[derive(Debug)]
pub(crate) struct Request {
    /// What is written. The leader numbers it.
    batch: Mutex<WriteBatch>,
    /// How many bytes the batch has.
    pub(crate) bytes: usize,
    /// How many operations the batch has.
    pub(crate) operations: u32,
    /// What the writer asked for.
    pub(crate) durability: Durability,
    /// Whether the writer would rather be refused than wait while writes are stalled.
    pub(super) no_slowdown: bool,
    /// [`WAITING`], [`ASLEEP`], or [`TOLD`] once there is something in `told`.
    signal: AtomicU32,
    told: Mutex<Option<Told>>,
    writer: Thread,
}

/// What a thread does before it sleeps while it waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    /// It looks for some microseconds, and then lets others run for a while.
    Spins,
    /// It lets others run for a while.
    Yields,
    /// Nothing: it waits for a device, or for many others.
    Sleeps,
}

/// What a waiting writer is told.
#[derive(Debug)]
enum Told {
    Lead,
    Insert(Insertion),
    Done(Result<()>),
}

const WAITING: u32 = 0;
/// The writer waits and is about to let its thread sleep, or has.
const ASLEEP: u32 = 1;
const TOLD: u32 = 2;

impl Request {
    /// A request of the calling thread to write `batch`. With `no_slowdown` it would rather be
    /// refused than wait while writes are stalled.
    pub(crate) fn new(batch: WriteBatch, durability: Durability, no_slowdown: bool) -> Self {
        Self {
            bytes: batch.data_size(),
            operations: batch.count(),
            batch: Mutex::new(batch),
            durability,
            no_slowdown,
            signal: AtomicU32::new(WAITING),
            told: Mutex::new(None),
            writer: thread::current(),
        }
    }

    /// The batch.
    pub(crate) fn batch(&self) -> MutexGuard<'_, WriteBatch> {
        lock(&self.batch)
    }

    /// Gives the batch back, for what stands in `batch`.
    pub(crate) fn swap_batch(&self, batch: &mut WriteBatch) {
        std::mem::swap(&mut *self.batch(), batch);
    }

    /// Waits to be told something. Only the thread that made the request may.
    pub(crate) fn wait<'q>(&self, queue: &'q Queue) -> Turn<'q> {
        self.wait_by(queue, queue.patience_at(0))
    }

    /// As [`Self::wait`].
    pub(super) fn wait_by<'q>(&self, queue: &'q Queue, patience: Patience) -> Turn<'q> {
        let is_told = || self.signal.load(Ordering::Acquire) == TOLD;
        let is_told_soon = || match patience {
            Patience::Spins => spin_until(is_told) || yield_until(is_told),
            Patience::Yields => yield_until(is_told),
            Patience::Sleeps => false,
        };
        let falls_asleep = || {
            let (from, to) = (WAITING, ASLEEP);
            self.signal.compare_exchange(from, to, Ordering::Relaxed, Ordering::Acquire).is_ok()
        };
        loop {
            let sleeps = !is_told_soon() && falls_asleep();
            if sleeps {
                sleep_until(is_told);
            }
            processors::goes_on(sleeps);
            // Before the answer: what follows from it may lead to the next word.
            self.signal.store(WAITING, Ordering::Relaxed);
            match lock(&self.told).take() {
                Some(Told::Lead) => return Turn::Lead(Leadership { queue }),
                Some(Told::Insert(insertion)) => return Turn::Insert(insertion),
                Some(Told::Done(result)) => return Turn::Done(result),
                None => {}
            }
        }
    }

    /// Tells the writer to insert its own batch, for which `inserting` waits.
    pub(crate) fn let_insert(&self, inserting: &Inserting) {
        self.tell(Told::Insert(inserting.one_more()));
    }

    /// Tells the writer that it leads.
    pub(super) fn let_lead(&self) {
        self.tell(Told::Lead);
    }

    /// Tells the writer how its write went.
    pub(super) fn finish(&self, result: Result<()>) {
        self.tell(Told::Done(result));
    }

    fn tell(&self, told: Told) {
        *lock(&self.told) = Some(told);
        // Only now may the writer look: it never finds a word whose signal is still to come.
        processors::told();
        if self.signal.swap(TOLD, Ordering::AcqRel) == ASLEEP {
            processors::while_put_off(|| unpark(&self.writer));
        }
    }
}

impl Drop for Request {
    /// A writer that panicked, when it inserted its batch, does not hear how the write went.
    fn drop(&mut self) {
        if self.signal.load(Ordering::Relaxed) == TOLD {
            processors::goes_on(false);
        }
    }
}

/// The requests that a leader took along, in their order.
///
/// Every one of them is answered, whatever becomes of the leader: by [`Leadership::finish`], or
/// with an error when the group is dropped.
#[derive(Debug)]
pub(crate) struct Group {
    members: Vec<Arc<Request>>,
    /// What is done for all of them.
    pub(super) durability: Durability,
}

impl Group {
    /// Requests, in their order, that are written as `durability` says.
    pub(super) fn new(members: Vec<Arc<Request>>, durability: Durability) -> Self {
        Self { members, durability }
    }

    /// Tells every member how the group's write went.
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
            let error = panics::unwinding("the writer that wrote for others");
            member.finish(Err(error.followed_by("the write may be lost or not")));
        }
    }
}
