//! The queue of writers: it orders write requests, and its leader writes several of them as a
//! group.
//!
//! The first writer to reach an idle queue leads. Writers that arrive while it leads wait until
//! they are notified that their write is done, that they are to insert their own batch, or that
//! they lead. The leader takes waiting requests into its group, in order of arrival. When the
//! leader is done, the writer of the first remaining request leads, so there is at most one leader
//! at any time. A thread that has to quiesce writes, to switch a memtable or a log, becomes the
//! leader and waits for the groups in flight. A group is in flight ([`GroupInFlight`]) if its
//! leader let the next leader begin before the group was written.
//!
//! # Invariants
//!
//! - There is at most one [`Leadership`]. The actions of a leader happen before those of the next
//!   leader.
//! - Requests are served in order of arrival, except that a request may be refused.
//! - Every waiting request gets a result, even if a leader or a member of a group fails or panics.
//!   No member is still inserting when the next leader begins.
//!
//! # Cost
//!
//! An uncontended writer performs two atomic operations, one to lead and one to stop leading, and a
//! load that shows that nobody waits. The lock is used only under contention.
//!
//! Waiting writers do not sleep immediately, because waking a thread often takes longer than
//! writing a group. The writers at the front of the queue, at most one for each processor besides
//! the leader's, spin for some microseconds; then all yield for a while. Writers that wait for a
//! sync sleep immediately. [`processors`] shares the processors if there are more writers than
//! processors.

mod in_flight;
mod inserting;
#[cfg(all(loom, test))]
mod loom;
mod processors;
mod request;
mod sync;
#[cfg(all(test, not(loom)))]
mod tests;
mod wait_by;

use std::collections::VecDeque;
use std::num::NonZero;
use std::sync::Arc;

use tailwater_format::batch::WriteBatch;

use crate::error::{Error, Result};

pub(crate) use in_flight::GroupInFlight;
use in_flight::InFlight;
pub(crate) use inserting::{Inserting, Insertion};
pub(crate) use processors::yield_if_due;
pub(crate) use request::{Durability, Group, Request};
use sync::{AtomicU32, Mutex, MutexGuard, Ordering, lock};
use wait_by::WaitBy;

/// State: there is no leader, and nobody waits.
const IDLE: u32 = 0;
/// State: there is a leader, and nobody waits.
const LED: u32 = 1;
/// State: there is a leader, and others wait. This state is entered and left under the lock.
const AWAITED: u32 = 2;

/// The queue of writers.
#[derive(Debug)]
pub(crate) struct Queue {
    state: AtomicU32,
    waiting: Mutex<Waiting>,
    in_flight: InFlight,
    /// Number of waiting requests, from the front of the queue, whose writers spin before they
    /// sleep.
    spinning_places: usize,
}

#[derive(Debug)]
struct Waiting {
    requests: VecDeque<Arc<Request>>,
    /// The error with which `no_slowdown` requests are refused; `None` unless writes are stalled.
    refusal: Option<Error>,
}

/// The next action of a writer after it was notified.
#[derive(Debug)]
pub(crate) enum Turn<'q> {
    /// The writer leads the queue.
    Lead(Leadership<'q>),
    /// The writer inserts its own batch, reports the result to its leader, and waits again.
    Insert(Insertion),
    /// The writer returns this result: a leader wrote the batch, or the request was refused.
    Done(Result<()>),
}

impl Default for Queue {
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
        Self {
            state: AtomicU32::new(IDLE),
            waiting: Mutex::new(Waiting { requests: VecDeque::new(), refusal: None }),
            in_flight: InFlight::default(),
            spinning_places: processors - 1,
        }
    }
}

impl Queue {
    /// Becomes the leader immediately. Returns `None` if the queue already has a leader.
    #[inline]
    pub(crate) fn try_lead(&self) -> Option<Leadership<'_>> {
        let led = self.state.compare_exchange(IDLE, LED, Ordering::Acquire, Ordering::Relaxed);
        // A `Leadership` is created only on success: dropping one would end another writer's
        // leadership.
        led.is_ok().then(|| Leadership { queue: self })
    }

    /// Adds a request to the queue and waits to be notified, or leads if there is no leader.
    pub(crate) fn join(&self, request: &Arc<Request>) -> Turn<'_> {
        let mut waiting = lock(&self.waiting);
        if request.no_slowdown
            && let Some(error) = &waiting.refusal
        {
            return Turn::Done(Err(error.clone()));
        }
        if self.lead_or_be_awaited() {
            return Turn::Lead(Leadership { queue: self });
        }
        let place = waiting.requests.len();
        waiting.requests.push_back(Arc::clone(request));
        drop(waiting);
        let wait_by = match request.durability {
            Durability::Synced => WaitBy::Sleeps,
            _ => self.wait_by_at(place),
        };
        request.wait_with(self, wait_by)
    }

    /// Becomes the leader once all earlier requests are done and no group is in flight, so that no
    /// other thread writes until the leadership ends.
    pub(crate) fn lead(&self) -> Result<Leadership<'_>> {
        // The batch is empty. No leader takes a request without operations into its group, so this
        // request can only become the leader's own.
        let request = Arc::new(Request::new(WriteBatch::new(), Durability::Unlogged, false));
        match self.join(&request) {
            Turn::Lead(leadership) => {
                leadership.quiesce();
                Ok(leadership)
            }
            Turn::Insert(_) | Turn::Done(_) => {
                Err(Error::internal("a leadership request was treated as a write"))
            }
        }
    }

    /// If there is no leader, makes the calling writer the leader and returns true. Otherwise marks
    /// the queue as [`AWAITED`], so that the current leader looks for waiting requests. The caller
    /// holds the lock, and must then add its request before it releases the lock.
    fn lead_or_be_awaited(&self) -> bool {
        let next = |state| Some(if state == IDLE { LED } else { AWAITED });
        self.state.fetch_update(Ordering::Acquire, Ordering::Relaxed, next) == Ok(IDLE)
    }

    /// Returns what a writer that expects its notification soon does before it sleeps: it spins or
    /// yields. `place` is the position of the writer's request in the queue, counted from 0.
    fn wait_by_at(&self, place: usize) -> WaitBy {
        if place < self.spinning_places { WaitBy::Spins } else { WaitBy::Yields }
    }

    /// Clears the mark [`AWAITED`] if no request waits any more.
    fn note_departures(&self, waiting: &MutexGuard<'_, Waiting>) {
        if waiting.requests.is_empty() {
            self.state.store(LED, Ordering::Relaxed);
        }
    }
}

/// The leadership of the queue: the exclusive right to begin a group or to change memtables and
/// logs.
#[derive(Debug)]
pub(crate) struct Leadership<'q> {
    queue: &'q Queue,
}

impl Leadership<'_> {
    /// Takes waiting requests into a group, in order, while their batches have at most `bytes`
    /// bytes in total. The group ends before the first request
    /// - that has no operations,
    /// - that needs a higher durability than `durability`, which is the leader's, so that nobody
    ///   waits for a sync that it did not request,
    /// - or that is logged while the leader's batch is not, or the reverse.
    pub(crate) fn take_group(&self, durability: Durability, bytes: usize) -> Group {
        if !self.is_awaited() {
            return Group::new(Vec::new(), durability);
        }
        let logged = durability != Durability::Unlogged;
        let mut left = bytes;
        let mut waiting = lock(&self.queue.waiting);
        let fits = |next: &&Arc<Request>| {
            let fits = next.operations > 0
                && next.durability <= durability
                && (next.durability != Durability::Unlogged) == logged
                && next.bytes <= left;
            left -= if fits { next.bytes } else { 0 };
            fits
        };
        let count = waiting.requests.iter().take_while(fits).count();
        let members = waiting.requests.drain(..count).collect();
        self.queue.note_departures(&waiting);
        Group::new(members, durability)
    }

    /// Refuses `no_slowdown` requests, both waiting and new ones, until the returned guard is
    /// dropped. For a leader that has to wait because writes are stalled.
    pub(crate) fn refuse_impatient(&self, error: Error) -> Refusing<'_> {
        let mut waiting = lock(&self.queue.waiting);
        waiting.refusal = Some(error.clone());
        self.refuse_waiting(waiting, &error, |request| request.no_slowdown);
        Refusing { queue: self.queue }
    }

    /// Refuses all waiting writes. Whoever waits to lead goes on waiting. For a leader that has
    /// waited in vain for the end of a stall.
    pub(crate) fn refuse_writes(&self, error: &Error) {
        self.refuse_waiting(lock(&self.queue.waiting), error, |request| request.operations > 0);
    }

    fn refuse_waiting(
        &self,
        mut waiting: MutexGuard<'_, Waiting>,
        error: &Error,
        is_refused: impl Fn(&Request) -> bool,
    ) {
        let all = std::mem::take(&mut waiting.requests).into_iter();
        let (refused, kept): (Vec<_>, Vec<_>) = all.partition(|request| is_refused(request));
        waiting.requests = kept.into();
        self.queue.note_departures(&waiting);
        drop(waiting);
        for request in refused {
            request.finish(Err(error.clone()));
        }
    }

    /// Reports the result to the members of a group, and lets the next request lead.
    ///
    /// Usually the next leader starts first, so that it need not wait until all members are
    /// notified. A sync takes longer than notifying them, so after a sync the members are notified
    /// first: they can then return with their next writes in time to join the next group.
    pub(crate) fn finish(self, group: Group, result: &Result<()>) {
        if group.durability == Durability::Synced {
            group.finish(result);
            drop(self);
        } else {
            drop(self);
            group.finish(result);
        }
    }

    fn is_awaited(&self) -> bool {
        self.queue.state.load(Ordering::Relaxed) == AWAITED
    }
}

impl Drop for Leadership<'_> {
    /// Makes the first waiting request the leader.
    #[inline]
    fn drop(&mut self) {
        let state = &self.queue.state;
        if state.compare_exchange(LED, IDLE, Ordering::Release, Ordering::Relaxed).is_err() {
            self.queue.hand_over();
        }
    }
}

impl Queue {
    #[cold]
    fn hand_over(&self) {
        let mut waiting = lock(&self.waiting);
        let next = waiting.requests.pop_front();
        match &next {
            Some(_) => self.note_departures(&waiting),
            None => self.state.store(IDLE, Ordering::Release),
        }
        drop(waiting);
        if let Some(next) = next {
            next.let_lead();
        }
    }
}

/// A guard that refuses `no_slowdown` requests while it lives.
#[derive(Debug)]
pub(crate) struct Refusing<'q> {
    queue: &'q Queue,
}

impl Drop for Refusing<'_> {
    fn drop(&mut self) {
        lock(&self.queue.waiting).refusal = None;
    }
}
