//! Samples of the times at which sequence numbers were written.
//!
//! With option `preserve_internal_time_seconds`, a database periodically takes a sample: the last
//! sequence number and the current time. Each table stores the samples that concern its records.
//! When a sample was taken, its sequence number and all lower ones had been written, and no higher
//! ones. This example has the samples (10, 500), (20, 600) and (30, 700):
//!
//! ```text
//! sequence numbers   ..10      11..20      21..30
//! time                    500         600         700
//! ```
//!
//! For a given time, the samples yield the highest sequence number that is known to have been
//! written at that time or earlier. If the clock was set back, two samples may contradict each
//! other. Then the lower time counts.
//!
//! # Invariants
//! - Sequence numbers and times of the samples are strictly ascending. No sample has sequence
//!   number 0, because compactions give that number to old records.
//! - There are at most `capacity` samples after a trim, and at most an eighth more before the next
//!   trim. At most one sample is older than the maximum age (`window_s`).
//!
//! Source: `db/seqno_to_time_mapping.{h,cc}`.

#[cfg(test)]
mod tests;
mod trim;
mod write_times;

use tailwater_format::key::Sequence;
use tailwater_format::table::sequence_times::{self, SequenceTime};

pub(crate) use write_times::{WriteTimes, first_sequence};

/// Maximum number of samples that a table stores.
const SAMPLES_PER_TABLE: usize = 100;
/// Maximum number of samples that are kept in memory.
pub(crate) const SAMPLES_MAX: usize = 1000;

/// Limits on the samples (each a sequence number and a time) that are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Maximum number of samples after a trim.
    pub(crate) capacity: usize,
    /// Maximum age of a sample, in seconds. One older sample is kept, too.
    pub(crate) window_s: u64,
}

/// Samples of the times at which sequence numbers were written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SequenceTimes {
    samples: Vec<SequenceTime>,
    limits: Limits,
}

impl SequenceTimes {
    /// Creates an empty list of samples.
    pub(crate) fn new(limits: Limits) -> Self {
        Self { samples: Vec::new(), limits }
    }

    /// Creates samples as if the sequence numbers from 1 to `last` had been written at a constant
    /// rate between the times `from_s` and `to_s`, in seconds since 1970.
    pub(crate) fn spread(last: Sequence, from_s: u64, to_s: u64, limits: Limits) -> Self {
        let mut times = Self::new(limits);
        let length = u128::from(to_s.saturating_sub(from_s));
        let steps = u128::from(last.saturating_sub(1).max(1));
        for sequence in 1..=last {
            let way = length * u128::from(sequence - 1) / steps;
            times.sample(sequence, from_s.saturating_add(way as u64));
        }
        times
    }

    /// Changes the limits, and removes samples that exceed them.
    pub(crate) fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
        self.forget_before_window(None);
        trim::to(&mut self.samples, limits.capacity);
    }

    /// Returns the time of the newest sample, in seconds since 1970; `None` without samples.
    pub(crate) fn newest_s(&self) -> Option<u64> {
        self.samples.last().map(|sample| sample.time_s)
    }

    /// Records that at the time `time_s`, in seconds since 1970, `sequence` was the last sequence
    /// number.
    pub(crate) fn sample(&mut self, sequence: Sequence, time_s: u64) {
        // A sample whose sequence number is lower than that of the last sample was recorded too
        // late. It adds no information.
        let is_late = self.samples.last().is_some_and(|last| sequence < last.sequence);
        if sequence == 0 || is_late {
            return;
        }
        push(&mut self.samples, SequenceTime { sequence, time_s });
        self.forget_before_window(None);
        let capacity = self.limits.capacity;
        if self.samples.len() > capacity.saturating_add(capacity / 8) {
            trim::to(&mut self.samples, capacity);
        }
    }

    /// Merges other samples into these. The others may be in any order. `now_s` is the current
    /// time, in seconds since 1970. Samples that are older than the window before this time are
    /// removed, except the newest of them.
    pub(crate) fn take_in(&mut self, others: impl IntoIterator<Item = SequenceTime>, now_s: u64) {
        let mut all = std::mem::take(&mut self.samples);
        all.extend(others.into_iter().filter(|sample| sample.sequence > 0));
        all.sort_unstable();
        for sample in all {
            push(&mut self.samples, sample);
        }
        self.forget_before_window(Some(now_s));
        trim::to(&mut self.samples, self.limits.capacity);
    }

    /// Returns the highest sequence number that is known to have been written at `time_s` (in
    /// seconds since 1970) or earlier.
    pub(crate) fn sequence_at(&self, time_s: u64) -> Option<Sequence> {
        let behind = self.samples.partition_point(|sample| sample.time_s <= time_s);
        self.samples.get(behind.checked_sub(1)?).map(|sample| sample.sequence)
    }

    /// Returns the samples to store in a table, in encoded form. A sample is a sequence number with
    /// its time. The table has sequence numbers from `lowest` to `highest`, both inclusive.
    pub(crate) fn encode(&self, lowest: Sequence, highest: Sequence) -> Vec<u8> {
        let from = self.samples.partition_point(|sample| sample.sequence < lowest);
        let to = self.samples.partition_point(|sample| sample.sequence <= highest);
        // Also takes the sample before those in the range: it tells when the numbers before
        // `lowest` had been written.
        let within = self.samples.get(from.saturating_sub(1)..to.max(from)).unwrap_or_default();
        let mut within = within.to_vec();
        trim::to(&mut within, SAMPLES_PER_TABLE);
        let mut encoded = Vec::new();
        sequence_times::encode(&within, &mut encoded);
        encoded
    }

    /// Removes samples that are older than the window, except the newest of them. The window ends
    /// at `now_s` (in seconds since 1970) or, with `None`, at the time of the newest sample.
    fn forget_before_window(&mut self, now_s: Option<u64>) {
        let Some(end_s) = now_s.or_else(|| self.newest_s()) else { return };
        let Some(begin_s) = end_s.checked_sub(self.limits.window_s) else { return };
        let behind = self.samples.partition_point(|sample| sample.time_s <= begin_s);
        self.samples.drain(..behind.saturating_sub(1));
    }
}

/// Adds a sample whose sequence number is not lower than that of any other sample. If samples have
/// the same time, as after a burst of writes, only the one with the highest sequence number is
/// kept. If samples have the same sequence number, as in an idle database, only the one with the
/// lowest time is kept.
fn push(samples: &mut Vec<SequenceTime>, mut sample: SequenceTime) {
    if let Some(last) = samples.pop_if(|last| last.sequence == sample.sequence) {
        sample.time_s = sample.time_s.min(last.time_s);
    }
    while samples.pop_if(|last| last.time_s >= sample.time_s).is_some() {}
    samples.push(sample);
}
