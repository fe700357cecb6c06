//! Groups in flight: several groups are written to the device concurrently, each by its own leader.
//!
//! A leader first numbers its group and reserves the group's range in the log. The next leader may
//! then begin while the first leader still writes its group ([`Leadership::begin_pipelined`]). If
//! the next leader had to wait, each of two writers would wait for the other's write and then for
//! its own. With a few more writers, groups in flight save no time. With many writers they cost
//! time: without them, all writers that wait for a write gather into one group, and a device
//! handles few large writes faster than many small ones. So the number of writers decides
//! ([`FEW_WRITERS`]).
//!
//! # Invariants
//!
//! - Groups end in the order in which they began: none is published or acknowledged before the
//!   groups ahead of it.
//! - Only a leader adds a group in flight. So if a leader sees that no group is in flight, this
//!   remains true while it leads.

use super::sync::{AtomicUsize, Condvar, Mutex, Ordering, lock, wait};
use super::{Group, Leadership, Queue};
use crate::error::Result;

/// If there are more concurrent writers than this, only one group is written at a time. This number
/// is based on measurements (docs/appendix/measurements.md).
pub(super) const FEW_WRITERS: usize = 3;
/// Number of groups after which the observed maximum of concurrent writers decays by one writer.
const REMEMBERED_GROUPS: usize = 32;

/// The groups in flight: groups that are being written while the next leader may already number and
/// write its own group.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    /// Number of groups in flight.
    count: AtomicUsize,
    /// Recent maximum number of concurrent writers, in units of 1/[`REMEMBERED_GROUPS`] writer.
    /// Each call of [`Leadership::has_few_writers`] lowers it by one unit, so that an old maximum
    /// fades. Only leaders access it.
    writers_of_late: AtomicUsize,
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Number of groups that were put in flight since the queue was created, including those that
    /// have ended.
    begun: u64,
    /// Number of groups that were put in flight since the queue was created and have ended.
    ended: u64,
    /// Number of writers of the groups in flight.
    writers: usize,
    /// Number of threads that wait for a group to end. While it is 0, ending a group makes no
    /// system call.
    waiting: usize,
}

/// A group in flight. Dropping this waits for the groups ahead, and then ends the group.
#[derive(Debug)]
pub(crate) struct GroupInFlight<'q> {
    queue: &'q Queue,
    /// Number of the group. All groups that are put in flight are numbered consecutively from 1.
    number: u64,
    writers: usize,
}

impl Leadership<'_> {
    /// Whether no group is in flight.
    #[inline]
    pub(crate) fn is_quiesced(&self) -> bool {
        self.queue.in_flight.count.load(Ordering::Acquire) == 0
    }

    /// Waits until no group is in flight.
    #[inline]
    pub(crate) fn quiesce(&self) {
        if !self.is_quiesced() {
            let in_flight = &self.queue.in_flight;
            let begun = lock(&in_flight.state).begun;
            in_flight.wait_until_ended(begun);
        }
    }

    /// Whether there have recently been at most `FEW_WRITERS` concurrent writers. If so, the next
    /// leader should begin while this leader still writes its group.
    pub(crate) fn has_few_writers(&self) -> bool {
        let in_flight = &self.queue.in_flight;
        let waiting = if self.is_awaited() { lock(&self.queue.waiting).requests.len() } else { 0 };
        let in_flight_writers = if self.is_quiesced() { 0 } else { lock(&in_flight.state).writers };
        let now = 1 + waiting + in_flight_writers;
        let before = in_flight.writers_of_late.load(Ordering::Relaxed);
        let of_late = before.saturating_sub(1).max(now * REMEMBERED_GROUPS);
        in_flight.writers_of_late.store(of_late, Ordering::Relaxed);
        of_late <= FEW_WRITERS * REMEMBERED_GROUPS
    }
}

impl<'q> Leadership<'q> {
    /// Lets the next writer lead while `group` is written.
    pub(crate) fn begin_pipelined(self, group: &Group) -> GroupInFlight<'q> {
        let queue = self.queue;
        let writers = 1 + group.len();
        let mut state = lock(&queue.in_flight.state);
        state.begun += 1;
        state.writers += writers;
        let number = state.begun;
        queue.in_flight.count.fetch_add(1, Ordering::Relaxed);
        drop(state);
        GroupInFlight { queue, number, writers }
    }
}

impl GroupInFlight<'_> {
    /// Waits until the groups ahead have ended. Their memory accesses happen before what the caller
    /// does next.
    pub(crate) fn wait_for_turn(&self) {
        self.queue.in_flight.wait_until_ended(self.number - 1);
    }

    /// Ends the write, and reports its result to the members of its group.
    pub(crate) fn finish(self, group: Group, result: &Result<()>) {
        drop(self);
        group.finish(result);
    }
}

impl Drop for GroupInFlight<'_> {
    fn drop(&mut self) {
        self.wait_for_turn();
        let in_flight = &self.queue.in_flight;
        let mut state = lock(&in_flight.state);
        state.ended = self.number;
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
    /// Waits until at least `count` groups have ended.
    fn wait_until_ended(&self, count: u64) {
        let mut state = lock(&self.state);
        state.waiting += 1;
        while state.ended < count {
            state = wait(&self.ended, state);
        }
        state.waiting -= 1;
    }
}
