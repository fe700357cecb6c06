//! A memtable's range tombstones.
//!
//! Writers put tombstones into a log. The fragments that reads use are built from the log once
//! after it has changed, by the first who asks, and kept until it changes again. Readers reach the
//! kept ones without a lock and without writing to a line that others read.
//!
//! Invariants: `added` is raised after its tombstone is in the log and before its writer publishes
//! the sequence, so whoever reads at that sequence sees the number; kept fragments hold the first
//! so many tombstones of the log, and are current if that is at least `added`.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, MutexGuard};

use arc_swap::ArcSwapOption;
use tailwater_format::Comparator;
use tailwater_format::key::Sequence;
use tailwater_io::sync::Mutex;

use crate::range_tombstone::{FragmentedRangeTombstones, RangeTombstone};

/// Range tombstones under way from writers to readers. Shared between threads.
#[derive(Default)]
pub(super) struct Tombstones {
    /// How many tombstones the log has.
    added: AtomicUsize,
    fragments: ArcSwapOption<FragmentedRangeTombstones>,
    log: Mutex<Log>,
    /// The bytes that the log and the kept fragments take.
    memory: AtomicUsize,
}

/// All tombstones, as they were written.
#[derive(Default)]
struct Log {
    keys: Vec<u8>,
    /// Sorted by start key, then the newest first: building fragments is quick on sorted
    /// tombstones.
    entries: Vec<LogEntry>,
}

struct LogEntry {
    /// Where in `keys` the start key begins, the start key ends and the end key begins, and the end
    /// key ends.
    start: usize,
    middle: usize,
    end: usize,
    sequence: Sequence,
}

impl Log {
    fn tombstone(&self, entry: &LogEntry) -> RangeTombstone<'_> {
        RangeTombstone {
            start: &self.keys[entry.start..entry.middle],
            end: &self.keys[entry.middle..entry.end],
            sequence: entry.sequence,
        }
    }

    fn memory_usage(&self) -> usize {
        self.keys.capacity() + self.entries.capacity() * size_of::<LogEntry>()
    }
}

impl Tombstones {
    /// Adds a tombstone; answers whether it was new, because one with the same start and sequence
    /// is not added again.
    pub(super) fn add(&self, comparator: &Comparator, tombstone: RangeTombstone<'_>) -> bool {
        let mut log = self.lock_log();
        let found = log.entries.binary_search_by(|entry| {
            let present = log.tombstone(entry);
            comparator
                .compare(present.start, tombstone.start)
                .then_with(|| tombstone.sequence.cmp(&present.sequence))
        });
        let Err(at) = found else { return false };
        let before = log.memory_usage();
        let start = log.keys.len();
        log.keys.extend_from_slice(tombstone.start);
        let middle = log.keys.len();
        log.keys.extend_from_slice(tombstone.end);
        let end = log.keys.len();
        log.entries.insert(at, LogEntry { start, middle, end, sequence: tombstone.sequence });
        self.memory.fetch_add(log.memory_usage() - before, Ordering::Relaxed);
        self.added.store(log.entries.len(), Ordering::Release);
        true
    }

    /// How many tombstones there are.
    #[inline]
    pub(super) fn count(&self) -> usize {
        self.added.load(Ordering::Relaxed)
    }

    /// The bytes that tombstones and fragments take.
    pub(super) fn memory_usage(&self) -> usize {
        self.memory.load(Ordering::Relaxed)
    }

    /// Fragments of all tombstones added so far, none if there are none.
    #[inline]
    pub(super) fn fragments(
        &self,
        comparator: &Comparator,
    ) -> Option<Arc<FragmentedRangeTombstones>> {
        let added = self.count();
        if added == 0 {
            return None;
        }
        let kept = self.fragments.load();
        match &*kept {
            Some(kept) if kept.tombstone_count() >= added => Some(Arc::clone(kept)),
            _ => Some(self.rebuild(comparator)),
        }
    }

    /// The newest tombstone at or below the snapshot that covers the user key.
    #[inline]
    pub(super) fn covering_sequence(
        &self,
        comparator: &Comparator,
        user_key: &[u8],
        snapshot: Sequence,
    ) -> Option<Sequence> {
        let added = self.count();
        if added == 0 {
            return None;
        }
        let kept = self.fragments.load();
        match &*kept {
            Some(kept) if kept.tombstone_count() >= added => {
                kept.covering_sequence(user_key, snapshot)
            }
            _ => self.rebuild(comparator).covering_sequence(user_key, snapshot),
        }
    }

    #[cold]
    fn rebuild(&self, comparator: &Comparator) -> Arc<FragmentedRangeTombstones> {
        let log = self.lock_log();
        let kept = self.fragments.load_full();
        if let Some(kept) = &kept
            && kept.tombstone_count() >= log.entries.len()
        {
            return Arc::clone(kept);
        }
        let tombstones = log.entries.iter().map(|entry| log.tombstone(entry));
        let fragments = Arc::new(FragmentedRangeTombstones::build(comparator, tombstones));
        let before = kept.map_or(0, |kept| kept.memory_usage());
        self.fragments.store(Some(Arc::clone(&fragments)));
        self.memory.fetch_add(fragments.memory_usage(), Ordering::Relaxed);
        self.memory.fetch_sub(before, Ordering::Relaxed);
        fragments
    }

    /// The log is whole even after a panic: comparators are called before it changes.
    fn lock_log(&self) -> MutexGuard<'_, Log> {
        self.log.lock()
    }
}
