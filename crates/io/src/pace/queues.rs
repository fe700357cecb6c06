//! The requests that wait, and the order in which they are granted bytes.

use std::collections::VecDeque;

use super::Priority;

/// The waiting requests, in one queue for each priority. Each queue is in the order of arrival.
#[derive(Debug)]
pub(super) struct Queues {
    queues: [VecDeque<Waiting>; Priority::COUNT],
    next_ticket: u64,
    fairness: u32,
    /// Chooses the refills in which lower priorities come first.
    random: fastrand::Rng,
}

/// A request that has been granted none or only a part of its bytes.
#[derive(Debug)]
struct Waiting {
    ticket: u64,
    missing: u64,
}

impl Queues {
    /// Creates empty queues, with a seed of the random choices.
    pub(super) fn new(fairness: u32, seed: u64) -> Self {
        let random = fastrand::Rng::with_seed(seed);
        Self { queues: Default::default(), next_ticket: 0, fairness, random }
    }

    pub(super) fn set_fairness(&mut self, fairness: u32) {
        self.fairness = fairness;
    }

    pub(super) fn are_empty(&self) -> bool {
        self.queues.iter().all(VecDeque::is_empty)
    }

    /// Returns the number of requests of a priority.
    pub(super) fn waiting(&self, priority: Priority) -> usize {
        self.queues[priority as usize].len()
    }

    /// Adds a request, and returns its ticket.
    pub(super) fn push(&mut self, priority: Priority, missing: u64) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.queues[priority as usize].push_back(Waiting { ticket, missing });
        ticket
    }

    /// Whether a request is still waiting.
    pub(super) fn is_waiting(&self, ticket: u64, priority: Priority) -> bool {
        self.queues[priority as usize].iter().any(|waiting| waiting.ticket == ticket)
    }

    /// Removes a request that was given up.
    pub(super) fn remove(&mut self, ticket: u64, priority: Priority) {
        self.queues[priority as usize].retain(|waiting| waiting.ticket != ticket);
    }

    /// Grants the available bytes to the requests. [`Self::order`] decides which priority's queue
    /// is served first; in each queue, the oldest request is first. Returns the bytes that are
    /// left.
    pub(super) fn give_out(&mut self, mut available: u64) -> u64 {
        for priority in self.order() {
            while let Some(first) = self.queues[priority as usize].front_mut() {
                let part = first.missing.min(available);
                first.missing -= part;
                available -= part;
                if first.missing > 0 {
                    return available;
                }
                self.queues[priority as usize].pop_front();
            }
        }
        available
    }

    /// Returns the order in which the queues are served at this refill.
    pub(super) fn order(&mut self) -> [Priority; Priority::COUNT] {
        let high_is_last = self.is_exception();
        let (first, second) = match self.is_exception() {
            true => (Priority::Low, Priority::Mid),
            false => (Priority::Mid, Priority::Low),
        };
        match high_is_last {
            true => [Priority::User, first, second, Priority::High],
            false => [Priority::User, Priority::High, first, second],
        }
    }

    /// Returns true once in `fairness` calls, on average.
    fn is_exception(&mut self) -> bool {
        self.random.u32(..self.fairness) == 0
    }
}
