//! Groups in flight: written to the device beside each other, each by its own leader.
//!
//! A leader that has numbered its group and said where in the log it goes may let the next one lead
//! before it writes ([`Leadership::take_off`]). Else each of two writers would wait for the other's
//! write and then for its own. Where there are more writers this gains nothing, and with many it
//! loses: while one group is written the others gather and go together, and a device is quicker
//! with few large writes than with many small ones. So it goes by how many writers there are
//! ([`FEW_WRITERS`]).
//!
//! # Invariants
//!
//! - Groups end in the order in which they took off: none is published, or acknowledged, before
//!   those ahead of it are.
//! - Only a leader lets groups take off. Who leads and has seen that nothing is in flight knows
//!   that it stays so.

use super::sync::{AtomicUsize, Condvar, Mutex, Ordering, lock, wait};
use super::{Group, Leadership, Queue};
use crate::Result;

/// With more writers than so at a time, one group is in flight at a time. Measured
/// (docs/benchmarks.md).
pub(super) const FEW_WRITERS: usize = 3;
/// For so many groups a writer counts that was seen once.
const REMEMBERED_GROUPS: usize = 32;

/// The groups that are in flight.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    /// How many there are.
    count: AtomicUsize,
    /// How many writers there have been at a time of late, times [`REMEMBERED_GROUPS`]. Only
    /// leaders touch it.
    writers_of_late: AtomicUsize,
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// How many groups took off.
    begun: u64,
    /// How many of them have ended.
    ended: u64,
    /// How many writers those have that are in flight.
    writers: usize,
    /// How many wait for one to end: a call of the system is spared where nobody does.
    waiting: usize,
}

/// A group that is in flight. Dropping it ends it, when those ahead of it have ended.
#[derive(Debug)]
pub(crate) struct Flight<'q> {
    queue: &'q Queue,
    /// Its place in the order, from 1 on.
    place: u64,
    writers: usize,
}

impl Leadership<'_> {
    /// Whether nothing is in flight.
    #[inline]
    pub(crate) fn stands_still(&self) -> bool {
        self.queue.in_flight.count.load(Ordering::Acquire) == 0
    }

    /// Waits until nothing is in flight.
    #[inline]
    pub(crate) fn stand_still(&self) {
        if !self.stands_still() {
            let in_flight = &self.queue.in_flight;
            let begun = lock(&in_flight.state).begun;
            in_flight.wait_until_ended(begun);
        }
    }

    /// Whether there are so few writers that a group of this leader's is better written beside
    /// others.
    pub(crate) fn has_few_writers(&self) -> bool {
        let in_flight = &self.queue.in_flight;
        let waiting = if self.is_awaited() { lock(&self.queue.waiting).requests.len() } else { 0 };
        let flying = if self.stands_still() { 0 } else { lock(&in_flight.state).writers };
        let now = 1 + waiting + flying;
        let before = in_flight.writers_of_late.load(Ordering::Relaxed);
        let of_late = before.saturating_sub(1).max(now * REMEMBERED_GROUPS);
        in_flight.writers_of_late.store(of_late, Ordering::Relaxed);
        of_late <= FEW_WRITERS * REMEMBERED_GROUPS
    }
}

impl<'q> Leadership<'q> {
    /// Lets the next one lead while `group` is written.
    pub(crate) fn take_off(self, group: &Group) -> Flight<'q> {
        let queue = self.queue;
        let writers = 1 + group.len();
        let mut state = lock(&queue.in_flight.state);
        state.begun += 1;
        state.writers += writers;
        let place = state.begun;
        queue.in_flight.count.fetch_add(1, Ordering::Relaxed);
        drop(state);
        Flight { queue, place, writers }
    }
}

impl Flight<'_> {
    /// Waits until those ahead have ended. What they did happens before what is done then.
    pub(crate) fn wait_for_turn(&self) {
        self.queue.in_flight.wait_until_ended(self.place - 1);
    }

    /// Ends the flight, and tells the members of its group how their write went.
    pub(crate) fn finish(self, group: Group, result: &Result<()>) {
        drop(self);
        group.finish(result);
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        self.wait_for_turn();
        let in_flight = &self.queue.in_flight;
        let mut state = lock(&in_flight.state);
        state.ended = self.place;
        state.writers -= self.writers;
        in_flight.count.fetch_sub(1, Ordering::Release);
        let is_awaited = state.waiting > 0;
        drop(state);
        if is_awaited {
            in_flight.ended.notify_all();
        }
    }
}

impl InFlight {
    /// Waits until so many have ended.
    fn wait_until_ended(&self, count: u64) {
        let mut state = lock(&self.state);
        state.waiting += 1;
        while state.ended < count {
            state = wait(&self.ended, state);
        }
        state.waiting -= 1;
    }
}
