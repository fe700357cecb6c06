//! Who writes when: a queue of requests, of which one leads and takes others along.
//!
//! The first to come to an idle queue leads. Who comes while somebody leads waits, and is then told
//! one of three things: that its write is done, that it is to insert its own batch, or that it
//! leads. The leader takes whoever waits, in the order in which they came, into its group; when it
//! is done, the first of those that came meanwhile leads. So there is at most one leader at any
//! time, and whoever needs writes to stand still, to switch a memtable or a log, becomes it and
//! waits for groups that are in flight: those whose leader let the next one lead before they were
//! written ([`Flight`]).
//!
//! # Invariants
//!
//! - There is one [`Leadership`] or none. What a leader did happens before what the next one does.
//! - Requests are taken in the order in which they came: nobody who comes later leads or is written
//!   earlier, but for requests that are refused.
//! - Whoever waits is answered, also where a leader or a member gives up by an error or a panic. No
//!   member inserts any more when the next leader begins.
//!
//! # Cost
//!
//! A writer that meets nobody pays two atomic operations: it leads by one and lets go by the other,
//! and sees by a load that there is nobody to take along. The lock is for those that meet.
//!
//! Waiting writers sleep, but not at once, for waking a thread takes longer than many a group does.
//! Those that will be told next, no more than there are processors beside the leader's, look for
//! some microseconds first, and all let others run for a while. Who waits for a sync sleeps at
//! once. [`processors`] has who runs where there are more writers than processors.

mod in_flight;
mod inserting;
#[cfg(all(loom, test))]
mod loom;
mod processors;
mod request;
mod sync;
#[cfg(all(test, not(loom)))]
mod tests;

use std::collections::VecDeque;
use std::num::NonZero;
use std::sync::Arc;

use tailwater_format::batch::WriteBatch;

use crate::{Error, ErrorKind, Result};

pub(crate) use in_flight::Flight;
use in_flight::InFlight;
pub(crate) use inserting::{Inserting, Insertion};
pub(crate) use processors::step_aside_if_due;
use request::Patience;
pub(crate) use request::{Durability, Group, Request};
use sync::{AtomicU32, Mutex, MutexGuard, Ordering, lock};

/// Nobody leads, and nobody waits.
const IDLE: u32 = 0;
/// Somebody leads, and nobody waits.
const LED: u32 = 1;
/// Somebody leads, and others wait. It is entered and left under the lock.
const AWAITED: u32 = 2;

/// The queue of writers.
#[derive(Debug)]
pub(crate) struct Queue {
    state: AtomicU32,
    waiting: Mutex<Waiting>,
    in_flight: InFlight,
    /// How many of those that wait first spin before they sleep.
    spinning_places: usize,
}

#[derive(Debug)]
struct Waiting {
    requests: VecDeque<Arc<Request>>,
    /// What requests without patience are told while writes are stalled.
    refusal: Option<Error>,
}

/// What a writer's turn is.
#[derive(Debug)]
pub(crate) enum Turn<'q> {
    /// It leads.
    Lead(Leadership<'q>),
    /// It inserts its own batch, says so, and waits again.
    Insert(Insertion),
    /// Somebody else wrote its batch, or it was refused.
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
    /// Leads at once, if nobody does.
    #[inline]
    pub(crate) fn try_lead(&self) -> Option<Leadership<'_>> {
        let led = self.state.compare_exchange(IDLE, LED, Ordering::Acquire, Ordering::Relaxed);
        // Not made where it is not had: dropping it would hand over another's.
        led.is_ok().then(|| Leadership { queue: self })
    }

    /// Takes a place in the queue, or leads if nobody does. Then waits to be told something.
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
        let patience = match request.durability {
            Durability::Synced => Patience::Sleeps,
            _ => self.patience_at(place),
        };
        request.wait_by(self, patience)
    }

    /// Leads as soon as those that came before are done and nothing is in flight, so that nobody
    /// writes meanwhile.
    pub(crate) fn lead(&self) -> Result<Leadership<'_>> {
        // A leader takes no request into its group that has no operations.
        let request = Arc::new(Request::new(WriteBatch::new(), Durability::Unlogged, false));
        match self.join(&request) {
            Turn::Lead(leadership) => {
                leadership.stand_still();
                Ok(leadership)
            }
            Turn::Insert(_) | Turn::Done(_) => {
                Err(Error::new(ErrorKind::Io, "a request to lead was taken for a write"))
            }
        }
    }

    /// Leads if nobody does, or else leaves the mark that somebody waits, who is put into the queue
    /// before the lock is let go.
    fn lead_or_be_awaited(&self) -> bool {
        let next = |state| Some(if state == IDLE { LED } else { AWAITED });
        self.state.fetch_update(Ordering::Acquire, Ordering::Relaxed, next) == Ok(IDLE)
    }

    /// What somebody does before he sleeps who is to be told something soon, in that place of the
    /// queue, counted from 0.
    fn patience_at(&self, place: usize) -> Patience {
        if place < self.spinning_places { Patience::Spins } else { Patience::Yields }
    }

    /// Takes the mark away that somebody waits, if that is so no more.
    fn note_departures(&self, waiting: &MutexGuard<'_, Waiting>) {
        if waiting.requests.is_empty() {
            self.state.store(LED, Ordering::Relaxed);
        }
    }
}

/// The right to write. Who holds it is the only one.
#[derive(Debug)]
pub(crate) struct Leadership<'q> {
    queue: &'q Queue,
}

impl Leadership<'_> {
    /// Takes along those that wait, in order, as far as they are logged or not as the leader is,
    /// ask for no more than its `durability`, so that nobody waits for a sync that it did not ask
    /// for, and the batches have no more than `bytes` together.
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

    /// Refuses requests without patience, those that wait and those that come, until what this
    /// answers is dropped. For a leader that has to wait because writes are stalled.
    pub(crate) fn refuse_impatient(&self, error: Error) -> Refusing<'_> {
        let mut waiting = lock(&self.queue.waiting);
        let all = std::mem::take(&mut waiting.requests).into_iter();
        let (impatient, patient): (Vec<_>, Vec<_>) = all.partition(|request| request.no_slowdown);
        waiting.requests = patient.into();
        waiting.refusal = Some(error.clone());
        self.queue.note_departures(&waiting);
        drop(waiting);
        for request in impatient {
            request.finish(Err(error.clone()));
        }
        Refusing { queue: self.queue }
    }

    /// Tells the members of a group how their write went, and lets the next one lead.
    ///
    /// As a rule the next one leads first, so that it need not wait until they all are awake. A
    /// sync takes longer than that: members that are woken first come back with their next writes
    /// in time to go along with the next one.
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
    /// Whoever waits first leads next.
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

/// While it lives, requests without patience are refused.
#[derive(Debug)]
pub(crate) struct Refusing<'q> {
    queue: &'q Queue,
}

impl Drop for Refusing<'_> {
    fn drop(&mut self) {
        lock(&self.queue.waiting).refusal = None;
    }
}
