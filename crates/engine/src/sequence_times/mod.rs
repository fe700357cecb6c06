//! Samples of the times at which sequence numbers were written.
//!
//! With `preserve_internal_time_seconds`, a database periodically records a sample: the last
//! sequence number and the current time. Its tables keep the samples that concern their records. A
//! sample was taken after the writes up to its sequence number, inclusive, and before those above
//! it:
//!
//! ```text
//! sequence numbers   ..10      11..20      21..30
//! time                    500         600         700
//! ```
//!
//! For a given time, the samples yield the highest sequence number that is known to have been
//! written at that time or earlier. If two samples contradict each other because the clock was set
//! back, the lower time is used.
//!
//! # Invariants
//! - Sequence numbers and times ascend strictly. No sample has sequence number 0, because
//!   compactions give that number to old records.
//! - The number of samples is at most the capacity, plus an eighth of it between two trims. At most
//!   one sample is older than the window.
//!
//! Source: `db/seqno_to_time_mapping.{h,cc}`.

#[cfg(test)]
mod tests;
mod trim;
mod write_times;

use tailwater_format::key::Sequence;
use tailwater_format::table::sequence_times::{self, SequenceTime};

pub(crate) use write_times::{WriteTimes, first_sequence};

/// Maximum number of samples that a table keeps.
const SAMPLES_PER_TABLE: usize = 100;
/// Maximum number of samples in memory.
pub(crate) const SAMPLES_MAX: usize = 1000;

/// Limits on the samples that are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Maximum number of samples.
    pub(crate) capacity: usize,
    /// Maximum age of samples, in seconds.
    pub(crate) window_s: u64,
}

/// Samples of the times at which sequence numbers were written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SequenceTimes {
    samples: Vec<SequenceTime>,
    limits: Limits,
}

impl SequenceTimes {
    /// Creates an empty set of samples.
    pub(crate) fn new(limits: Limits) -> Self {
        Self { samples: Vec::new(), limits }
    }

    /// Creates samples as if the sequence numbers `1..=last` had been written evenly over the time
    /// from `from_s` to `to_s`.
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

    /// Changes the limits.
    pub(crate) fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
        self.forget_before_window(None);
        trim::to(&mut self.samples, limits.capacity);
    }

    /// Returns the time of the newest sample, in seconds since 1970; `None` without samples.
    pub(crate) fn newest_s(&self) -> Option<u64> {
        self.samples.last().map(|sample| sample.time_s)
    }

    /// Records that `sequence` is the last sequence number at `time_s`.
    pub(crate) fn sample(&mut self, sequence: Sequence, time_s: u64) {
        // A sample with a lower sequence number than the last one came late and adds no
        // information.
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

    /// Merges other samples, in any order, as of `now_s`.
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

    /// Returns the highest sequence number that is known to have been written at `time_s` or
    /// earlier.
    pub(crate) fn sequence_at(&self, time_s: u64) -> Option<Sequence> {
        let behind = self.samples.partition_point(|sample| sample.time_s <= time_s);
        self.samples.get(behind.checked_sub(1)?).map(|sample| sample.sequence)
    }

    /// Encodes, for a table, the samples that cover the sequence numbers from `lowest` to
    /// `highest`.
    pub(crate) fn encode(&self, lowest: Sequence, highest: Sequence) -> Vec<u8> {
        let from = self.samples.partition_point(|sample| sample.sequence < lowest);
        let to = self.samples.partition_point(|sample| sample.sequence <= highest);
        // The sample before those in the range gives the time of the lowest sequence number.
        let within = self.samples.get(from.saturating_sub(1)..to.max(from)).unwrap_or_default();
        let mut within = within.to_vec();
        trim::to(&mut within, SAMPLES_PER_TABLE);
        let mut encoded = Vec::new();
        sequence_times::encode(&within, &mut encoded);
        encoded
    }

    /// Removes samples older than the window. The window ends at `now_s`, or at the newest sample's
    /// time if that is `None`.
    fn forget_before_window(&mut self, now_s: Option<u64>) {
        let Some(end_s) = now_s.or_else(|| self.newest_s()) else { return };
        let Some(begin_s) = end_s.checked_sub(self.limits.window_s) else { return };
        let behind = self.samples.partition_point(|sample| sample.time_s <= begin_s);
        self.samples.drain(..behind.saturating_sub(1));
    }
}

/// Adds a sample whose sequence number is at least that of the previous samples. Samples with the
/// same time, from a burst of writes, are merged into the one with the highest sequence number.
/// Samples with the same sequence number, from an idle database, are merged into the one with the
/// lowest time.
fn push(samples: &mut Vec<SequenceTime>, mut sample: SequenceTime) {
    if let Some(last) = samples.pop_if(|last| last.sequence == sample.sequence) {
        sample.time_s = sample.time_s.min(last.time_s);
    }
    while samples.pop_if(|last| last.time_s >= sample.time_s).is_some() {}
    samples.push(sample);
}
