//! Runs: steps of a [`MergingIterator`] within one block of one leaf, as long as no other leaf can
//! have the next key.
//!
//! A run can begin if the winner is a table or level in bytewise order, no leaf has range
//! tombstones, and the current record is a visible value that is the only version of its key: the
//! other leaves are past this key. During a run only the winner moves, by quick steps
//! ([`TableIterator::next_key`], [`TableIterator::previous_decoded`]). It neither compares leaves
//! nor copies keys.
//!
//! The user keys of a run are beyond all keys that the caller has passed, and before the run's
//! limit: the nearest user key of the other leaves, or the caller's bound if that is nearer. A run
//! ends when the winner reaches the limit, with its block, or when the iterator moves in another
//! way.
//!
//! [`TableIterator::next_key`]: crate::table::TableIterator::next_key
//! [`TableIterator::previous_decoded`]: crate::table::TableIterator::previous_decoded

use tailwater_format::key::{self, Sequence};

use super::MergingIterator;
use crate::iterator::{Direction, Leaf};

/// The current run, if there is one.
pub(super) struct Run {
    /// The direction of the run; `None` if there is no run.
    direction: Option<Direction>,
    /// The limit, a user key in bytewise order. Used only if `has_limit` is true.
    limit: Vec<u8>,
    has_limit: bool,
    /// The leaf that was the winner when a run was last considered. A run begins only if the leaf
    /// has won twice in a row; otherwise looking for the limit costs more than the run saves.
    last_winner: usize,
}

/// The result of a step in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunStep {
    /// The iterator is at the next record, which is a visible value and the only version of its
    /// key. The run goes on.
    Within,
    /// The run has ended, and the iterator is at the next record. It belongs to another user key.
    Left,
    /// The iterator has not moved.
    Stays,
}

impl Default for Run {
    fn default() -> Self {
        Self { direction: None, limit: Vec::new(), has_limit: false, last_winner: usize::MAX }
    }
}

impl Run {
    /// Ends the run, if there is one.
    #[inline(always)]
    pub(super) fn end(&mut self) {
        self.direction = None;
    }

    /// Whether an internal key is before the limit.
    #[inline(always)]
    fn is_within(&self, internal_key: &[u8], direction: Direction) -> bool {
        !self.has_limit || is_before(key::user_key(internal_key), &self.limit, direction)
    }

    /// Lets the next run begin at once if `winner` is the winner then.
    pub(super) fn expect(&mut self, winner: usize) {
        self.last_winner = winner;
    }
}

impl MergingIterator {
    /// Begins a run at the current record, if the conditions for it are met. The current record
    /// must be a value that `snapshot` sees. Forward, all older keys must have been passed;
    /// backward, the record must be the first one of its key that the iterator has reached. The run
    /// stays before `bound` in the iterator's direction.
    ///
    /// If this returns true while the iterator moves backward, the current record is also the
    /// newest version of its key.
    pub(crate) fn begin_run(&mut self, snapshot: Sequence, bound: Option<&[u8]>) -> bool {
        let winner = self.tree[0].leaf;
        let has_won_twice = std::mem::replace(&mut self.run.last_winner, winner) == winner;
        if !has_won_twice || self.leaves.iter().any(Leaf::has_tombstones) {
            return false;
        }
        let direction = self.direction;
        let Some(table) = self.leaves.get_mut(winner).and_then(Leaf::table_mut) else {
            return false;
        };
        if !table.allows_quick_steps()
            || (direction == Direction::Backward && !table.is_newest_value(snapshot))
        {
            return false;
        }
        let mut kept = std::mem::take(&mut self.run.limit);
        let limit = self.limit(winner, bound);
        let own = key::user_key(self.key());
        let begins = limit.is_none_or(|limit| is_before(own, limit, direction));
        let has_limit = limit.is_some();
        kept.clear();
        kept.extend_from_slice(limit.unwrap_or_default());
        self.run = Run {
            direction: begins.then_some(direction),
            limit: kept,
            has_limit,
            last_winner: winner,
        };
        begins
    }

    /// Returns the nearest user key of the leaves other than `winner`, or `bound` if that is
    /// nearer.
    fn limit<'a>(&'a self, winner: usize, bound: Option<&'a [u8]>) -> Option<&'a [u8]> {
        let mut limit = bound;
        // The leaf that comes next lost to the winner, so it is at one of the winner's nodes.
        let mut node = (winner + self.leaves.len()) / 2;
        while node > 0 {
            if let Some(loser) = self.leaves.get(self.tree[node].leaf).filter(|leaf| leaf.valid()) {
                let user_key = key::user_key(loser.key());
                if limit.is_none_or(|limit| is_before(user_key, limit, self.direction)) {
                    limit = Some(user_key);
                }
            }
            node /= 2;
        }
        limit
    }

    /// Takes a step forward if there is a run forward.
    #[inline(always)]
    pub(crate) fn next_in_run(&mut self, snapshot: Sequence) -> RunStep {
        if self.run.direction != Some(Direction::Forward) {
            return RunStep::Stays;
        }
        let winner = self.tree[0].leaf;
        let table = self.leaves.get_mut(winner).and_then(Leaf::table_mut);
        let Some(table) = table else { return RunStep::Stays };
        if !table.next_key(snapshot) {
            return RunStep::Stays;
        }
        if self.run.is_within(table.key(), Direction::Forward) {
            return RunStep::Within;
        }
        self.leave_run(winner)
    }

    /// Takes a step backward if there is a run backward.
    #[inline(always)]
    pub(crate) fn previous_in_run(&mut self, snapshot: Sequence) -> RunStep {
        if self.run.direction != Some(Direction::Backward) {
            return RunStep::Stays;
        }
        let winner = self.tree[0].leaf;
        let table = self.leaves.get_mut(winner).and_then(Leaf::table_mut);
        let Some(table) = table else { return RunStep::Stays };
        if !table.previous_decoded() {
            return RunStep::Stays;
        }
        if table.is_newest_value(snapshot) && self.run.is_within(table.key(), Direction::Backward) {
            return RunStep::Within;
        }
        self.leave_run(winner)
    }

    /// Ends the run after the winner has moved.
    #[cold]
    fn leave_run(&mut self, winner: usize) -> RunStep {
        self.run.end();
        self.replay(winner);
        RunStep::Left
    }
}

/// Whether user key `a` comes before user key `b` in a direction, in bytewise order.
#[inline(always)]
fn is_before(a: &[u8], b: &[u8], direction: Direction) -> bool {
    match direction {
        Direction::Forward => a < b,
        Direction::Backward => a > b,
    }
}
