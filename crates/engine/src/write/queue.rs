//! Who writes when: a queue of requests, of which one leads and takes others along.
//!
//! The first to come to an idle queue leads. Who comes while somebody leads waits, and is then told one of three things:
//! that its write is done, that it is to insert its own batch, or that it leads. The leader takes whoever waits, in the
//! order in which they came, into its group; when it is done, the first of those that came meanwhile leads. So there is
//! at most one leader at any time, and whoever needs writes to stand still, to switch a memtable or a log, becomes it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use tailwater_format::batch::WriteBatch;

use crate::{Error, Result};

/// How often a waiting writer looks before it lets its thread sleep: some microseconds, about what an unsynced group
/// takes.
const SPINS: u32 = 200;

/// The queue of writers.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    led: bool,
    waiting: VecDeque<Arc<Request>>,
}

/// A write that waits for its turn.
#[derive(Debug)]
pub(crate) struct Request {
    /// What is written. The leader numbers it.
    pub(crate) batch: Mutex<WriteBatch>,
    /// How many bytes the batch has.
    pub(crate) bytes: usize,
    /// How many operations the batch has.
    pub(crate) operations: u32,
    /// What the writer asked for.
    pub(crate) durability: Durability,
    /// [`WAITING`] until there is something in `told`.
    signal: AtomicU32,
    told: Mutex<Option<Told>>,
    changed: Condvar,
}

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

/// What a waiting writer is told.
#[derive(Debug)]
enum Told {
    Lead,
    Insert(Arc<Inserting>),
    Done(Result<()>),
}

/// The members of a group that are inserting their batches.
#[derive(Debug)]
pub(crate) struct Inserting {
    left: AtomicUsize,
    done: Mutex<Result<()>>,
    all_done: Condvar,
}

/// What a writer's turn is.
pub(crate) enum Turn<'q> {
    /// It leads.
    Lead(Leadership<'q>),
    /// It inserts its own batch, says so, and waits again.
    Insert(Arc<Inserting>),
    /// Somebody else wrote its batch.
    Done(Result<()>),
}

const WAITING: u32 = 0;
const SIGNALLED: u32 = 1;

impl Request {
    /// A request to write `batch`.
    pub(crate) fn new(batch: WriteBatch, durability: Durability) -> Self {
        Self {
            bytes: batch.data_size(),
            operations: batch.count(),
            batch: Mutex::new(batch),
            durability,
            signal: AtomicU32::new(WAITING),
            told: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// The batch.
    pub(crate) fn batch(&self) -> MutexGuard<'_, WriteBatch> {
        lock(&self.batch)
    }

    /// The batch back, once the write is done.
    pub(crate) fn take_batch(&self) -> WriteBatch {
        std::mem::take(&mut *self.batch())
    }

    fn tell(&self, told: Told) {
        *lock(&self.told) = Some(told);
        self.signal.store(SIGNALLED, Ordering::Release);
        self.changed.notify_one();
    }

    /// Waits to be told something.
    pub(crate) fn wait<'q>(&self, queue: &'q Queue) -> Turn<'q> {
        let mut spins = 0;
        while self.signal.load(Ordering::Acquire) == WAITING && spins < SPINS {
            std::hint::spin_loop();
            spins += 1;
        }
        let mut told = lock(&self.told);
        loop {
            match told.take() {
                Some(what) => {
                    self.signal.store(WAITING, Ordering::Relaxed);
                    return match what {
                        Told::Lead => Turn::Lead(Leadership { queue }),
                        Told::Insert(inserting) => Turn::Insert(inserting),
                        Told::Done(result) => Turn::Done(result),
                    };
                }
                None => told = self.changed.wait(told).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    /// Tells the writer that its batch is written.
    pub(crate) fn finish(&self, result: Result<()>) {
        self.tell(Told::Done(result));
    }

    /// Tells the writer to insert its own batch.
    pub(crate) fn let_insert(&self, inserting: &Arc<Inserting>) {
        self.tell(Told::Insert(Arc::clone(inserting)));
    }
}

impl Inserting {
    /// Insertions by `members` writers.
    pub(crate) fn new(members: usize) -> Arc<Self> {
        Arc::new(Self {
            left: AtomicUsize::new(members),
            done: Mutex::new(Ok(())),
            all_done: Condvar::new(),
        })
    }

    /// Says that a member has inserted its batch.
    pub(crate) fn inserted(&self, result: Result<()>) {
        let failed = result.is_err();
        if failed {
            *lock(&self.done) = result;
        }
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            // The lock is taken so that the leader cannot miss this between its look and its wait.
            drop(lock(&self.done));
            self.all_done.notify_one();
        }
    }

    /// Waits until every member has inserted its batch. The first failure counts.
    pub(crate) fn wait(&self) -> Result<()> {
        let mut spins = 0;
        while self.left.load(Ordering::Acquire) > 0 && spins < SPINS {
            std::hint::spin_loop();
            spins += 1;
        }
        let mut done = lock(&self.done);
        while self.left.load(Ordering::Acquire) > 0 {
            done = self.all_done.wait(done).unwrap_or_else(PoisonError::into_inner);
        }
        std::mem::replace(&mut *done, Ok(()))
    }
}

impl Queue {
    /// Leads at once, if nobody does.
    #[inline]
    pub(crate) fn try_lead(&self) -> Option<Leadership<'_>> {
        let mut state = lock(&self.state);
        if state.led {
            return None;
        }
        state.led = true;
        Some(Leadership { queue: self })
    }

    /// Takes a place in the queue, or leads if nobody does.
    pub(crate) fn join(&self, request: &Arc<Request>) -> Turn<'_> {
        let mut state = lock(&self.state);
        if !state.led {
            state.led = true;
            return Turn::Lead(Leadership { queue: self });
        }
        state.waiting.push_back(Arc::clone(request));
        drop(state);
        request.wait(self)
    }

    /// Leads as soon as those that came before are done, so that nobody writes meanwhile.
    pub(crate) fn lead(&self) -> Result<Leadership<'_>> {
        let request = Arc::new(Request::new(WriteBatch::new(), Durability::Unlogged));
        match self.join(&request) {
            Turn::Lead(leadership) => Ok(leadership),
            // A leader takes no request into its group that has no operations.
            Turn::Insert(_) | Turn::Done(_) => {
                Err(Error::new(crate::ErrorKind::Io, "the write queue lost its order"))
            }
        }
    }
}

/// The right to write. Who holds it is the only one.
#[derive(Debug)]
pub(crate) struct Leadership<'q> {
    queue: &'q Queue,
}

impl Leadership<'_> {
    /// Takes along those that wait, in order, as far as they are logged or not as the leader is, ask for no more than its
    /// `durability`, so that nobody waits for a sync that he did not ask for, and the batches have no more than `bytes`
    /// together.
    pub(crate) fn take_group(&self, durability: Durability, bytes: usize) -> Vec<Arc<Request>> {
        let logged = durability != Durability::Unlogged;
        let mut left = bytes;
        let mut group = Vec::new();
        let mut state = lock(&self.queue.state);
        while let Some(next) = state.waiting.front() {
            let fits = next.operations > 0
                && next.durability <= durability
                && (next.durability != Durability::Unlogged) == logged
                && next.bytes <= left;
            if !fits {
                break;
            }
            left -= next.bytes;
            group.extend(state.waiting.pop_front());
        }
        group
    }
}

impl Drop for Leadership<'_> {
    /// Whoever waits first leads next.
    fn drop(&mut self) {
        let mut state = lock(&self.queue.state);
        match state.waiting.pop_front() {
            Some(next) => next.tell(Told::Lead),
            None => state.led = false,
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
