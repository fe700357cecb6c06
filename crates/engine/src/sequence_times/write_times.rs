//! Sampling of the times at which sequence numbers were written, for column families that preserve
//! these times.
//!
//! Sequence numbers and samples belong to the whole database. The interval between samples is about
//! a hundredth of the shortest time span that a column family preserves, and the samples reach back
//! over the longest such span. Tables store samples; the samples in memory start empty at each
//! opening.
//!
//! A new database whose column families preserve times begins at a sequence number above 0. The
//! numbers up to it count as written during the preserved time span before the creation. Data that
//! comes with its own write times can use these numbers. Source: `RegisterRecordSeqnoTimeWorker`,
//! `EnsureSeqnoToTimeMapping` and `PrepopulateSeqnoToTimeMapping` in `db/db_impl/db_impl.cc`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tailwater_format::key::Sequence;
use tailwater_io::Clock;
use tailwater_io::sync::Mutex;

use crate::options::ColumnFamilyOptions;
use crate::sequence_times::{Limits, SAMPLES_MAX, SequenceTimes};

/// Number of samples in the shortest time span that a column family preserves.
const SAMPLES_PER_WINDOW: u64 = 100;
/// The last sequence number of a new database that preserves times.
pub(crate) const PREALLOCATED_SEQUENCES: Sequence = 100;

/// Samples of the times when sequence numbers were written.
#[derive(Debug)]
pub(crate) struct WriteTimes {
    /// Interval between samples, in seconds; 0 if no times are preserved.
    cadence_s: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    times: SequenceTimes,
    /// The time when the last sample was taken, in seconds since 1970.
    sampled_s: u64,
}

/// The shortest and the longest time span that column families preserve, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Windows {
    shortest_s: u64,
    longest_s: u64,
}

impl Default for WriteTimes {
    fn default() -> Self {
        let times = SequenceTimes::new(NOTHING);
        Self { cadence_s: AtomicU64::new(0), state: Mutex::new(State { times, sampled_s: 0 }) }
    }
}

/// Limits that keep no samples.
const NOTHING: Limits = Limits { capacity: 0, window_s: u64::MAX };

impl Windows {
    /// Returns the windows of column families with these options; `None` if none preserves times.
    fn of<'a>(families: impl Iterator<Item = &'a ColumnFamilyOptions>) -> Option<Self> {
        let windows = families.map(ColumnFamilyOptions::preserved_seconds).filter(|&it| it > 0);
        windows.fold(None, |found: Option<Self>, window_s| {
            let found = found.unwrap_or(Self { shortest_s: window_s, longest_s: window_s });
            Some(Self {
                shortest_s: found.shortest_s.min(window_s),
                longest_s: found.longest_s.max(window_s),
            })
        })
    }

    fn cadence_s(self) -> u64 {
        self.shortest_s.div_ceil(SAMPLES_PER_WINDOW)
    }

    fn limits(self) -> Limits {
        let capacity = self.longest_s.saturating_mul(SAMPLES_PER_WINDOW) / self.shortest_s;
        let capacity = usize::try_from(capacity).unwrap_or(SAMPLES_MAX).min(SAMPLES_MAX);
        Limits { capacity, window_s: self.longest_s }
    }
}

/// Returns the sequence number with which a new database begins as its last one, if its column
/// families have these options: 0, or [`PREALLOCATED_SEQUENCES`] if one preserves write times.
pub(crate) fn first_sequence<'a>(
    families: impl Iterator<Item = &'a ColumnFamilyOptions>,
) -> Sequence {
    Windows::of(families).map_or(0, |_| PREALLOCATED_SEQUENCES)
}

impl WriteTimes {
    /// Samples the initial sequence numbers of a new database, up to `last`, as if they had been
    /// written evenly over the preserved time span before `now_s` (in seconds since 1970).
    /// `families`, here and below, are the options of the database's column families.
    pub(crate) fn spread<'a>(
        &self,
        families: impl Iterator<Item = &'a ColumnFamilyOptions>,
        last: Sequence,
        now_s: u64,
    ) {
        let Some(windows) = Windows::of(families) else { return };
        let Some(from_s) = now_s.checked_sub(windows.longest_s).filter(|&from_s| from_s > 0) else {
            return;
        };
        self.state.lock().times = SequenceTimes::spread(last, from_s, now_s, windows.limits());
    }

    /// Applies the options of the current column families, and takes a sample if one of them
    /// preserves times. Must be called when the families or their options have changed. `published`
    /// is the last sequence number that reads see. It must have been loaded before `now_s`, so that
    /// all its writes happened by that time.
    pub(crate) fn update<'a>(
        &self,
        families: impl Iterator<Item = &'a ColumnFamilyOptions>,
        published: Sequence,
        now_s: u64,
    ) {
        let windows = Windows::of(families);
        let mut state = self.state.lock();
        state.times.set_limits(windows.map_or(NOTHING, Windows::limits));
        let cadence_s = windows.map_or(0, Windows::cadence_s);
        self.cadence_s.store(cadence_s, Ordering::Relaxed);
        if windows.is_some() {
            state.sample(published, now_s);
        }
    }

    /// Takes a sample if the interval has passed. `published` returns the last sequence number that
    /// reads see.
    pub(crate) fn sample_if_due(&self, clock: &dyn Clock, published: impl Fn() -> Sequence) {
        let cadence_s = self.cadence_s.load(Ordering::Relaxed);
        if cadence_s == 0 {
            return;
        }
        let now_s = clock.wall_us() / 1_000_000;
        let mut state = self.state.lock();
        // The absolute difference is used because the clock may have been set back.
        if now_s.abs_diff(state.sampled_s) >= cadence_s {
            // The sequence number is loaded before the clock is read, so that all writes up to it
            // happened by the sample's time.
            let published = published();
            state.sample(published, clock.wall_us() / 1_000_000);
        }
    }

    /// Returns the write times of sequence numbers, if a column family with these options preserves
    /// them and samples exist.
    pub(crate) fn of(&self, family: &ColumnFamilyOptions) -> Option<Arc<SequenceTimes>> {
        if family.preserved_seconds() == 0 {
            return None;
        }
        let state = self.state.lock();
        state.times.newest_s().map(|_| Arc::new(state.times.clone()))
    }
}

impl State {
    fn sample(&mut self, sequence: Sequence, now_s: u64) {
        self.times.sample(sequence.max(1), now_s);
        self.sampled_s = now_s;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn windows(seconds: &[u64]) -> Option<Windows> {
        let options: Vec<ColumnFamilyOptions> = seconds
            .iter()
            .map(|&preserve_internal_time_seconds| ColumnFamilyOptions {
                preserve_internal_time_seconds,
                ..ColumnFamilyOptions::default()
            })
            .collect();
        Windows::of(options.iter())
    }

    #[test]
    fn the_shortest_window_sets_the_cadence_and_the_longest_the_capacity() {
        assert_eq!(windows(&[0, 0]), None);
        let one = windows(&[10_000, 0]).unwrap();
        assert_eq!((one.cadence_s(), one.limits().capacity), (100, 100));
        let two = windows(&[10_050, 30_150]).unwrap();
        assert_eq!((two.cadence_s(), two.limits().capacity), (101, 300));
        let extreme = windows(&[1, u64::MAX]).unwrap();
        assert_eq!((extreme.cadence_s(), extreme.limits().capacity), (1, SAMPLES_MAX));
        assert_eq!(extreme.limits().window_s, u64::MAX);
    }
}
