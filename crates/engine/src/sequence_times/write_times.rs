//! Sampling of the times at which sequence numbers were written, for column families whose options
//! preserve these times.
//!
//! Sequence numbers and samples belong to the whole database. Column families may preserve times
//! over different time spans. The interval between samples is about a hundredth of the shortest
//! span, and samples are kept for the longest span. Tables store samples. The list of samples in
//! memory is empty when the database is opened.
//!
//! If column families of a new database preserve times, the numbers from 1 to
//! [`PREALLOCATED_SEQUENCES`] are not given to writes. They count as written before the creation,
//! evenly over the longest preserved span. Imported data that has its own write times can use these
//! numbers. Source: `RegisterRecordSeqnoTimeWorker`, `EnsureSeqnoToTimeMapping` and
//! `PrepopulateSeqnoToTimeMapping` in `db/db_impl/db_impl.cc`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tailwater_format::key::Sequence;
use tailwater_io::Clock;
use tailwater_io::sync::Mutex;

use crate::options::ColumnFamilyOptions;
use crate::sequence_times::{Limits, SAMPLES_MAX, SequenceTimes};

/// Number of samples that are taken in the shortest time span that a column family preserves.
const SAMPLES_PER_WINDOW: u64 = 100;
/// Number of sequence numbers that count as written before a new database was created, if one of
/// its column families preserves times.
pub(crate) const PREALLOCATED_SEQUENCES: Sequence = 100;

/// The samples of an open database, and when to take the next one.
#[derive(Debug)]
pub(crate) struct WriteTimes {
    /// Interval between samples, in seconds; 0 if no column family preserves times.
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
    /// Returns the shortest and longest time span that column families with these options preserve;
    /// `None` if none of them preserves times.
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

/// Returns the last sequence number of a new, empty database whose column families have these
/// options: [`PREALLOCATED_SEQUENCES`] if one of them preserves write times, otherwise 0.
pub(crate) fn first_sequence<'a>(
    families: impl Iterator<Item = &'a ColumnFamilyOptions>,
) -> Sequence {
    Windows::of(families).map_or(0, |_| PREALLOCATED_SEQUENCES)
}

impl WriteTimes {
    /// Creates samples for a new database, as if the sequence numbers from 1 to `last` had been
    /// written at a constant rate over the longest preserved time span before `now_s` (in seconds
    /// since 1970). `families` are the options of the database's column families.
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

    /// Applies the options of all column families, which `families` yields. If at least one column
    /// family preserves write times, also stores `published` and `now_s` as a new sample. Must be
    /// called when column families or their options have changed.
    ///
    /// `published` is the last sequence number that reads see, and `now_s` the current time in
    /// seconds since 1970. `published` must have been loaded before the clock was read, so that all
    /// writes up to it happened at `now_s` or earlier.
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

    /// Takes a sample if the interval since the last sample has passed. `published` returns the
    /// last sequence number that reads see.
    pub(crate) fn sample_if_due(&self, clock: &dyn Clock, published: impl Fn() -> Sequence) {
        let cadence_s = self.cadence_s.load(Ordering::Relaxed);
        if cadence_s == 0 {
            return;
        }
        let now_s = clock.wall_us() / 1_000_000;
        let mut state = self.state.lock();
        // The clock may have been set back, so the absolute difference is compared.
        if now_s.abs_diff(state.sampled_s) >= cadence_s {
            // The sequence number must be loaded before the clock is read. Then all writes up to
            // this number happened at the sample's time or earlier.
            let published = published();
            state.sample(published, clock.wall_us() / 1_000_000);
        }
    }

    /// Returns a copy of the samples, if there are any and a column family with these options
    /// preserves write times.
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
