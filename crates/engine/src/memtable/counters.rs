//! Counters of a memtable's entries. Each writer slot has counters of its own, so that concurrent
//! writers do not write to the same cache line.

use std::sync::atomic::{AtomicU64, Ordering};

use tailwater_format::key::{Sequence, ValueType};

/// Counts of a memtable's entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counters {
    /// Number of entries, including deletions and range deletions.
    pub(crate) entries: u64,
    /// Number of point deletions: entries that delete one key, and not a range of keys.
    pub(crate) deletions: u64,
    /// Number of entries that delete a range of keys.
    pub(crate) range_deletions: u64,
    /// Size of the user keys in bytes, without trailers.
    pub(crate) key_bytes: u64,
    /// Size of the values in bytes. The value of a range deletion is its end key.
    pub(crate) value_bytes: u64,
    /// The lowest and the highest sequence number of the entries; `None` without entries.
    pub(crate) sequences: Option<(Sequence, Sequence)>,
}

/// Counters that other threads may read at any time. They are updated either by one thread at a
/// time ([`LiveCounters::record`]) or by several concurrently ([`LiveCounters::record_shared`]).
#[derive(Debug)]
pub(super) struct LiveCounters {
    entries: AtomicU64,
    deletions: AtomicU64,
    range_deletions: AtomicU64,
    key_bytes: AtomicU64,
    value_bytes: AtomicU64,
    /// The lowest sequence number; `Sequence::MAX` before the first entry.
    smallest_sequence: AtomicU64,
    largest_sequence: AtomicU64,
}

/// The attributes of an added entry that the counters need.
pub(super) struct Entry {
    pub(super) sequence: Sequence,
    pub(super) value_type: ValueType,
    pub(super) key_length: usize,
    pub(super) value_length: usize,
}

impl Default for LiveCounters {
    fn default() -> Self {
        Self {
            entries: AtomicU64::new(0),
            deletions: AtomicU64::new(0),
            range_deletions: AtomicU64::new(0),
            key_bytes: AtomicU64::new(0),
            value_bytes: AtomicU64::new(0),
            smallest_sequence: AtomicU64::new(Sequence::MAX),
            largest_sequence: AtomicU64::new(0),
        }
    }
}

impl LiveCounters {
    /// Counts an entry. No other thread may update these counters at the same time.
    #[inline]
    pub(super) fn record(&self, entry: &Entry) {
        let add = |counter: &AtomicU64, by: u64| {
            counter.store(counter.load(Ordering::Relaxed) + by, Ordering::Relaxed);
        };
        self.record_with(entry, add);
        if entry.sequence < self.smallest_sequence.load(Ordering::Relaxed) {
            self.smallest_sequence.store(entry.sequence, Ordering::Relaxed);
        }
        if entry.sequence > self.largest_sequence.load(Ordering::Relaxed) {
            self.largest_sequence.store(entry.sequence, Ordering::Relaxed);
        }
    }

    /// Counts an entry. Other threads may update these counters concurrently.
    pub(super) fn record_shared(&self, entry: &Entry) {
        self.record_with(entry, |counter, by| {
            counter.fetch_add(by, Ordering::Relaxed);
        });
        self.smallest_sequence.fetch_min(entry.sequence, Ordering::Relaxed);
        self.largest_sequence.fetch_max(entry.sequence, Ordering::Relaxed);
    }

    #[inline(always)]
    fn record_with(&self, entry: &Entry, add: impl Fn(&AtomicU64, u64)) {
        add(&self.entries, 1);
        add(&self.key_bytes, entry.key_length as u64);
        add(&self.value_bytes, entry.value_length as u64);
        match entry.value_type {
            ValueType::Deletion | ValueType::SingleDeletion | ValueType::DeletionWithTimestamp => {
                add(&self.deletions, 1)
            }
            ValueType::RangeDeletion => add(&self.range_deletions, 1),
            _ => {}
        }
    }

    /// Adds these counts to `sum`.
    pub(super) fn add_to(&self, sum: &mut Counters) {
        sum.entries += self.entries.load(Ordering::Relaxed);
        sum.deletions += self.deletions.load(Ordering::Relaxed);
        sum.range_deletions += self.range_deletions.load(Ordering::Relaxed);
        sum.key_bytes += self.key_bytes.load(Ordering::Relaxed);
        sum.value_bytes += self.value_bytes.load(Ordering::Relaxed);
        let smallest = self.smallest_sequence.load(Ordering::Relaxed);
        let largest = self.largest_sequence.load(Ordering::Relaxed);
        if smallest <= largest {
            let (low, high) = sum.sequences.unwrap_or((smallest, largest));
            sum.sequences = Some((low.min(smallest), high.max(largest)));
        }
    }
}
