//! Schedules the work of partitions (persists and commands) on threads.
//!
//! A partition is idle, or queued, or one thread is running a step of it. So two threads never work
//! on the same partition at the same time. If a partition has more work after a step, it is put at
//! the end of the queue, so that partitions take turns. Writes of several partitions can be in
//! flight concurrently, and the kernel can merge their flush requests to the device.
//!
//! The scheduler also wakes a partition when its save interval ends, when its next run of retention
//! is due, and when its memory is to be released.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tailwater_io::Clock;

use crate::sync::{Condvar, Mutex};

/// What the scheduler schedules: a partition.
pub(crate) trait Scheduled: Send + Sync {
    /// Runs one step of the partition's work. If work is left, queues the partition again.
    fn run_step(&self);

    /// Queues the partition if any of its work is due.
    fn wake(&self);
}

/// Queues partitions with work, and runs it on the threads that call [`Scheduler::work`].
#[derive(Default)]
pub(crate) struct Scheduler {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    ready: VecDeque<Arc<dyn Scheduled>>,
    deadlines: BinaryHeap<Reverse<Deadline>>,
    is_closed: bool,
}

struct Deadline {
    at_ns: u64,
    partition: Weak<dyn Scheduled>,
}

impl PartialEq for Deadline {
    fn eq(&self, other: &Self) -> bool {
        self.at_ns == other.at_ns
    }
}

impl Eq for Deadline {}

impl PartialOrd for Deadline {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Deadline {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.at_ns.cmp(&other.at_ns)
    }
}

/// What a thread does next.
enum Next {
    Work(Arc<dyn Scheduled>),
    Due(Arc<dyn Scheduled>),
    Wait(Option<u64>),
}

impl Scheduler {
    /// Queues a partition. It must be neither queued already nor running a step.
    pub(crate) fn push(&self, partition: Arc<dyn Scheduled>) {
        self.state.lock().ready.push_back(partition);
        self.changed.notify_one();
    }

    /// Arranges for a partition to be woken at a time of the monotonic clock, in nanoseconds.
    pub(crate) fn wake_at(&self, at_ns: u64, partition: Weak<dyn Scheduled>) {
        let deadline = Deadline { at_ns, partition };
        let mut state = self.state.lock();
        let is_first = state.deadlines.peek().is_none_or(|first| at_ns < first.0.at_ns);
        state.deadlines.push(Reverse(deadline));
        drop(state);
        if is_first {
            self.changed.notify_one();
        }
    }

    /// Makes all deadlines due immediately, so that their partitions are woken now.
    pub(crate) fn wake_all(&self) {
        let mut state = self.state.lock();
        let waiting = std::mem::take(&mut state.deadlines);
        let now = waiting.into_iter().map(|Reverse(it)| Reverse(Deadline { at_ns: 0, ..it }));
        state.deadlines = now.collect();
        drop(state);
        self.changed.notify_all();
    }

    fn next(state: &mut State, now_ns: u64) -> Next {
        while let Some(Reverse(first)) = state.deadlines.peek() {
            if first.at_ns > now_ns {
                break;
            }
            let due = state.deadlines.pop().and_then(|Reverse(due)| due.partition.upgrade());
            if let Some(partition) = due {
                return Next::Due(partition);
            }
        }
        match state.ready.pop_front() {
            Some(partition) => Next::Work(partition),
            None => Next::Wait(state.deadlines.peek().map(|first| first.0.at_ns)),
        }
    }

    /// Runs the work of partitions in the calling thread, until the scheduler is closed and its
    /// queue is empty.
    pub(crate) fn work(&self, clock: &dyn Clock) {
        loop {
            let now_ns = clock.monotonic_ns();
            let mut state = self.state.lock();
            match Self::next(&mut state, now_ns) {
                Next::Work(partition) => {
                    drop(state);
                    partition.run_step();
                }
                Next::Due(partition) => {
                    drop(state);
                    partition.wake();
                }
                Next::Wait(_) if state.is_closed => return,
                Next::Wait(None) => drop(self.changed.wait(state)),
                Next::Wait(Some(at_ns)) => {
                    let time = Duration::from_nanos(at_ns - now_ns);
                    drop(self.changed.wait_timeout(state, time));
                }
            }
        }
    }

    /// Runs all work that is due now, in the calling thread.
    pub(crate) fn run_pending(&self, clock: &dyn Clock) {
        loop {
            let now_ns = clock.monotonic_ns();
            let next = Self::next(&mut self.state.lock(), now_ns);
            match next {
                Next::Work(partition) => partition.run_step(),
                Next::Due(partition) => partition.wake(),
                Next::Wait(_) => return,
            }
        }
    }

    /// Makes [`Self::work`] return in all threads as soon as the queue is empty.
    pub(crate) fn close(&self) {
        self.state.lock().is_closed = true;
        self.changed.notify_all();
    }
}

impl fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.lock();
        write!(f, "Scheduler({} ready)", state.ready.len())
    }
}
