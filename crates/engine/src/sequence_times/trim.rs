//! Reduction of the number of samples.
//!
//! Repeatedly removes the sample whose two neighbours are closest to each other in time. So the
//! remaining samples are spread evenly over time. If several samples are equal in this respect, the
//! oldest is removed. Takes O(n log n) time for n samples.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tailwater_format::table::sequence_times::SequenceTime;

/// Removes samples until at most `capacity` are left. The first and the last sample are kept even
/// if `capacity` is 1; all are removed if it is 0.
pub(super) fn to(samples: &mut Vec<SequenceTime>, capacity: usize) {
    if capacity == 0 {
        samples.clear();
    }
    let capacity = capacity.max(2);
    if samples.len() <= capacity {
        return;
    }
    let mut list = List::of(samples);
    let mut candidates: BinaryHeap<Reverse<(u64, usize)>> =
        (1..samples.len() - 1).map(|at| Reverse((list.gap(at), at))).collect();
    let mut excess = samples.len() - capacity;
    while excess > 0 {
        let Some(Reverse((gap, at))) = candidates.pop() else { return };
        // The gap was computed when the candidate was pushed. If a neighbour was removed since
        // then, the gap has become wider, and the candidate is pushed again.
        if list.gap(at) > gap {
            candidates.push(Reverse((list.gap(at), at)));
        } else {
            list.unlink(at);
            excess -= 1;
        }
    }
    *samples = list.links.into_iter().filter(|link| link.is_kept).map(|link| link.sample).collect();
}

/// The kept samples as a linked list.
struct List {
    links: Vec<Link>,
}

struct Link {
    sample: SequenceTime,
    before: usize,
    behind: usize,
    is_kept: bool,
}

impl List {
    fn of(samples: &[SequenceTime]) -> Self {
        let link = |(at, &sample): (usize, &SequenceTime)| Link {
            sample,
            before: at.saturating_sub(1),
            behind: at + 1,
            is_kept: true,
        };
        Self { links: samples.iter().enumerate().map(link).collect() }
    }

    /// Returns the time between the two neighbours of a sample, in seconds. The first and the last
    /// sample lack a neighbour and are not allowed.
    fn gap(&self, at: usize) -> u64 {
        let Link { before, behind, .. } = self.links[at];
        self.links[behind].sample.time_s - self.links[before].sample.time_s
    }

    /// Removes a sample from the list. It must not be the first or the last.
    fn unlink(&mut self, at: usize) {
        let Link { before, behind, .. } = self.links[at];
        self.links[before].behind = behind;
        self.links[behind].before = before;
        self.links[at].is_kept = false;
    }
}
