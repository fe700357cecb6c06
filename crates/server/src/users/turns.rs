//! A queue in which several parties take turns, so that none of them delays the others by queueing
//! many entries.

use std::collections::{HashMap, VecDeque};

/// A first-in, first-out queue, or a queue of parties that each have such a queue.
pub(super) trait Queue: Default {
    /// What is queued.
    type Entry;
    /// What names the queue that an entry belongs to.
    type Key;

    /// Adds an entry.
    fn push(&mut self, key: Self::Key, entry: Self::Entry);

    /// Removes and returns the next entry.
    fn pop(&mut self) -> Option<Self::Entry>;

    fn is_empty(&self) -> bool;
}

impl<T> Queue for VecDeque<T> {
    type Entry = T;
    type Key = ();

    fn push(&mut self, (): (), entry: T) {
        self.push_back(entry);
    }

    fn pop(&mut self) -> Option<T> {
        self.pop_front()
    }

    fn is_empty(&self) -> bool {
        VecDeque::is_empty(self)
    }
}

/// A queue in which parties take turns. Each party has a number and a queue of its own.
#[derive(Debug, Default)]
pub(super) struct Turns<Q> {
    /// The parties whose queues are not empty, in the order of their turns.
    order: VecDeque<u64>,
    queues: HashMap<u64, Q>,
}

impl<Q: Queue> Queue for Turns<Q> {
    type Entry = Q::Entry;
    type Key = (u64, Q::Key);

    fn push(&mut self, (party, key): Self::Key, entry: Q::Entry) {
        let queue = self.queues.entry(party).or_default();
        if queue.is_empty() {
            self.order.push_back(party);
        }
        queue.push(key, entry);
    }

    fn pop(&mut self) -> Option<Q::Entry> {
        let party = self.order.pop_front()?;
        let queue = self.queues.get_mut(&party)?;
        let entry = queue.pop();
        if queue.is_empty() {
            self.queues.remove(&party);
        } else {
            self.order.push_back(party);
        }
        entry
    }

    fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parties_take_turns_at_each_level() {
        let mut turns = Turns::<Turns<VecDeque<&str>>>::default();
        let entries = [
            (1, 1, "a"),
            (1, 1, "b"),
            (1, 1, "c"),
            (1, 2, "d"),
            (2, 1, "e"),
            (1, 3, "f"),
            (2, 1, "g"),
        ];
        for (one, two, entry) in entries {
            turns.push((one, (two, ())), entry);
        }
        let popped: Vec<_> = std::iter::from_fn(|| turns.pop()).collect();
        assert_eq!(popped, ["a", "e", "d", "g", "f", "b", "c"]);
        assert!(turns.is_empty() && turns.queues.is_empty());
    }
}
