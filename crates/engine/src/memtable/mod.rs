//! The memtable: the newest writes, sorted, before they are flushed to a table.
//!
//! Point entries are in a skiplist (`skiplist/`) whose nodes are allocated in an arena
//! (`arena.rs`). Range deletions are kept separately (`tombstones.rs`), in an index that is updated
//! by each addition.
//!
//! Invariants:
//! - Any number of threads may read and insert concurrently, without waiting for each other. The
//!   only exception: threads that add range deletions wait for each other.
//! - An entry is in the memtable when [`MemTable::add`] returns. Another thread sees the entry if
//!   it learned of the addition through a load with acquire ordering, for instance of the published
//!   sequence number.
//! - Entries are never removed or changed. All memory is freed when the memtable is dropped.
//!
//! The life of a memtable has these steps. First, any thread adds entries and then publishes their
//! sequence numbers. When the memtable is full, its owner waits until no writer uses it, and
//! flushes it. The memtable is dropped when the last reader has released it. A memtable does not
//! survive a crash; its entries are recovered from the WAL.

mod account;
mod arena;
mod counters;
mod cursor;
mod filter;
mod random;
mod skiplist;
mod sync;
#[cfg(test)]
mod tests;
mod tombstones;
mod versions;
mod writer_slot;

use std::fmt;
use std::num::NonZero;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;

use tailwater_format::Comparator;
use tailwater_format::key::{
    MAX_SEQUENCE, Sequence, TRAILER_LENGTH, ValueType, pack_trailer, put_internal_key, user_key,
};
use tailwater_io::thread::ordinal;

use crate::block_cache::RecentKeys;
use crate::range_tombstone::{RangeTombstone, TombstoneLayers};
use counters::{Entry, LiveCounters};
use filter::Filter;
use skiplist::{SkipList, Splice};
use tombstones::Tombstones;
use writer_slot::WriterSlot;

pub(crate) use account::Account;
pub(crate) use counters::Counters;
pub(crate) use cursor::Cursor;
pub(crate) use filter::FilterSettings;
pub(crate) use versions::Versions;

/// Maximum number of writer slots, even if there are more processors.
const MAX_SLOTS: usize = 64;

/// Maximum length of a key, in bytes: a node stores the length of the internal key in 32 bits. A
/// log of RocksDB may have keys of this length; writes refuse much shorter ones.
const KEY_LENGTH_MAX: usize = u32::MAX as usize - TRAILER_LENGTH;

/// Maximum length of a value, in bytes: a node stores the length in 32 bits.
const VALUE_LENGTH_MAX: usize = u32::MAX as usize;

/// The reason why an entry was not added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Error {
    /// The memtable already has an entry with the same key, sequence number and type.
    Duplicate,
    /// The key is longer than [`KEY_LENGTH_MAX`].
    KeyTooLong,
    /// The value is longer than [`VALUE_LENGTH_MAX`].
    ValueTooLong,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Duplicate => "the memtable has an entry with this key, sequence and type",
            Self::KeyTooLong => "the key is too long",
            Self::ValueTooLong => "the value is too long",
        })
    }
}

impl std::error::Error for Error {}

/// A memtable; see the module's documentation. Thread-safe.
pub(crate) struct MemTable {
    list: SkipList,
    /// A filter of the point entries' keys.
    filter: Option<Filter>,
    tombstones: Tombstones,
    slots: Box<[WriterSlot]>,
    /// The counters of range deletions, and of inserts that found their writer slot taken.
    shared_counters: LiveCounters,
    earliest_log_number: AtomicU64,
    /// The last sequence number before the memtable began.
    creation_sequence: AtomicU64,
    /// The time when the oldest entry was written, in seconds since 1970; 0 if not set.
    oldest_key_time_s: AtomicU64,
    /// Where the keys that users find in the memtable are noted; unset if they are not.
    recent_keys: OnceLock<Arc<RecentKeys>>,
    account: Account,
}

impl Drop for MemTable {
    /// Frees the tombstones and the filter in a background thread, because freeing them may take
    /// long. The skiplist frees its own memory in the same way.
    fn drop(&mut self) {
        if self.tombstones.count() > 0 || self.filter.is_some() {
            let tombstones = std::mem::take(&mut self.tombstones);
            self.account.free((tombstones, self.filter.take()));
        }
    }
}

impl MemTable {
    /// Creates an empty memtable, with a filter if given. It takes a few kilobytes, and the size of
    /// the filter. `account` counts its memory.
    pub(crate) fn new(
        comparator: Comparator,
        filter: Option<&FilterSettings>,
        account: Account,
    ) -> Self {
        let slots = slot_count();
        let filter = filter.map(Filter::new);
        account.add(slots * size_of::<WriterSlot>() + filter.as_ref().map_or(0, Filter::bytes));
        Self {
            list: SkipList::new(comparator, slots, account.clone()),
            filter,
            tombstones: Tombstones::default(),
            slots: std::iter::repeat_with(WriterSlot::default).take(slots).collect(),
            shared_counters: LiveCounters::default(),
            earliest_log_number: AtomicU64::new(0),
            creation_sequence: AtomicU64::new(0),
            oldest_key_time_s: AtomicU64::new(0),
            recent_keys: OnceLock::new(),
            account,
        }
    }

    /// From now on, notes the keys that users find here in `keys`.
    pub(crate) fn note_reads_in(&self, keys: &Arc<RecentKeys>) {
        self.recent_keys.get_or_init(|| Arc::clone(keys));
    }

    /// Notes that a user's read found this key in the memtable.
    #[inline]
    pub(crate) fn note_read(&self, user_key: &[u8]) {
        if let Some(keys) = self.recent_keys.get() {
            keys.note(user_key);
        }
    }

    /// Returns the comparator of user keys.
    #[inline]
    pub(crate) fn comparator(&self) -> &Comparator {
        self.list.comparator()
    }

    /// Adds an entry. For a [`ValueType::RangeDeletion`], `user_key` is the inclusive start of the
    /// deleted range and `value` is its exclusive end. The sequence number must be at most
    /// [`MAX_SEQUENCE`].
    ///
    /// A thread is faster if it inserts keys near its previous key, especially sequential keys,
    /// than if it inserts random keys.
    ///
    /// # Errors
    /// If the same internal key exists, or the entry is too large. Nothing is added then.
    #[inline]
    pub(crate) fn add(
        &self,
        sequence: Sequence,
        value_type: ValueType,
        user_key: &[u8],
        value: &[u8],
    ) -> Result<(), Error> {
        if user_key.len() > KEY_LENGTH_MAX {
            return Err(Error::KeyTooLong);
        }
        if value.len() > VALUE_LENGTH_MAX {
            return Err(Error::ValueTooLong);
        }
        debug_assert!(sequence <= MAX_SEQUENCE);
        let (key_length, value_length) = (user_key.len(), value.len());
        let entry = Entry { sequence, value_type, key_length, value_length };
        if value_type == ValueType::RangeDeletion {
            return self.add_tombstone(user_key, value, &entry);
        }
        if let Some(filter) = &self.filter {
            filter.add(user_key);
        }
        let target = self.list.target(user_key, pack_trailer(sequence, value_type as u8));
        let number = ordinal();
        match self.slots[number & (self.slots.len() - 1)].try_take() {
            Some(mut slot) => {
                let mut splice = slot.splice().attach(&self.list);
                self.list
                    .insert(&target, value, number, &mut splice)
                    .map_err(|_| Error::Duplicate)?;
                slot.counters().record(&entry);
            }
            None => {
                let mut nowhere = Splice::default();
                let mut splice = nowhere.attach(&self.list);
                self.list
                    .insert(&target, value, number, &mut splice)
                    .map_err(|_| Error::Duplicate)?;
                self.shared_counters.record_shared(&entry);
            }
        }
        Ok(())
    }

    #[cold]
    fn add_tombstone(&self, start: &[u8], end: &[u8], entry: &Entry) -> Result<(), Error> {
        let tombstone = RangeTombstone { start, end, sequence: entry.sequence };
        if !self.tombstones.add(self.comparator(), tombstone) {
            return Err(Error::Duplicate);
        }
        self.account.add_tombstones(self.tombstones.memory_usage());
        self.shared_counters.record_shared(entry);
        Ok(())
    }

    /// Notes that the memtable accepts no more entries: a write buffer manager no longer counts it
    /// among the memtables that do.
    pub(crate) fn seal(&self) {
        self.account.seal();
    }

    /// Returns the versions of a user key whose sequence number is at most `snapshot`, newest
    /// first. Ignores range deletions; for these see [`MemTable::covering_sequence`].
    #[inline]
    pub(crate) fn versions(&self, user_key: &[u8], snapshot: Sequence) -> Versions<'_> {
        if self.filter.as_ref().is_some_and(|filter| !filter.may_contain(user_key)) {
            return Versions::of(&self.list, user_key, None);
        }
        let target = self.list.target(user_key, pack_trailer(snapshot, ValueType::FOR_SEEK));
        Versions::of(&self.list, user_key, self.list.find(&target))
    }

    /// Returns the sequence number of the newest range deletion that covers the user key and whose
    /// sequence number is at most `snapshot`. If the memtable has no range deletions, the call
    /// costs a single load.
    #[inline]
    pub(crate) fn covering_sequence(
        &self,
        user_key: &[u8],
        snapshot: Sequence,
    ) -> Option<Sequence> {
        self.tombstones.covering_sequence(user_key, snapshot)
    }

    /// Returns all range deletions; `None` if there are none. The result includes a deletion if the
    /// caller learned of its addition through a load with acquire ordering, for instance of the
    /// published sequence number.
    #[inline]
    pub(crate) fn tombstones(&self) -> Option<Arc<TombstoneLayers>> {
        self.tombstones.layers()
    }

    /// Whether there are entries or range deletions of user keys from `begin` to `end`, both
    /// inclusive.
    pub(crate) fn overlaps(&self, begin: &[u8], end: &[u8]) -> bool {
        if self.tombstones().is_some_and(|tombstones| tombstones.overlaps(begin, end)) {
            return true;
        }
        let mut first = Vec::new();
        put_internal_key(&mut first, begin, pack_trailer(MAX_SEQUENCE, ValueType::FOR_SEEK));
        let mut cursor = Cursor::default();
        cursor.seek(self, &first);
        cursor.valid() && self.comparator().compare(user_key(cursor.key(self)), end).is_le()
    }

    /// Whether there are neither point entries nor range deletions.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.tombstones.count() == 0 && self.list.head().next(0).is_none()
    }

    /// Returns counts of all added entries. An entry that is being added concurrently may be in
    /// some of the counts and missing in others.
    pub(crate) fn counters(&self) -> Counters {
        let mut sum = Counters::default();
        for slot in &self.slots {
            slot.counters().add_to(&mut sum);
        }
        self.shared_counters.add_to(&mut sum);
        sum
    }

    /// Returns the memory that the memtable holds, in bytes. This includes allocated memory that no
    /// entry uses yet. It does not include the 32 KiB for tracking which keys are read: with them,
    /// a memtable with a small size limit would count as full before the first write.
    #[inline]
    pub(crate) fn memory_usage(&self) -> usize {
        let filter = self.filter.as_ref().map_or(0, Filter::bytes);
        self.list.memory_usage()
            + self.tombstones.memory_usage()
            + size_of_val(&*self.slots)
            + filter
    }

    /// Returns the number of the oldest WAL that holds entries of this memtable; 0 if not set.
    #[inline]
    pub(crate) fn earliest_log_number(&self) -> u64 {
        self.earliest_log_number.load(Ordering::Relaxed)
    }

    /// Returns the time when the oldest entry was written, in seconds since 1970; `None` if not
    /// set.
    #[inline]
    pub(crate) fn oldest_key_time_s(&self) -> Option<u64> {
        Some(self.oldest_key_time_s.load(Ordering::Relaxed)).filter(|&time| time != 0)
    }

    /// Sets the time when the oldest entry was written, in seconds since 1970.
    #[inline]
    pub(crate) fn set_oldest_key_time_s(&self, time_s: u64) {
        self.oldest_key_time_s.store(time_s, Ordering::Relaxed);
    }

    /// Returns the last sequence number before the memtable began; 0 if not set.
    pub(crate) fn creation_sequence(&self) -> Sequence {
        self.creation_sequence.load(Ordering::Relaxed)
    }

    /// Sets where the memtable begins: its entries are in WAL `log_number` and later ones, and have
    /// higher sequence numbers than `sequence`.
    pub(crate) fn begin_at(&self, log_number: u64, sequence: Sequence) {
        self.earliest_log_number.store(log_number, Ordering::Relaxed);
        self.creation_sequence.store(sequence, Ordering::Relaxed);
    }
}

impl fmt::Debug for MemTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemTable")
            .field("comparator", self.comparator())
            .field("counters", &self.counters())
            .field("memory_usage", &self.memory_usage())
            .finish_non_exhaustive()
    }
}

/// Returns the number of writer slots: the number of processors, rounded up to a power of two, but
/// at most [`MAX_SLOTS`].
fn slot_count() -> usize {
    static COUNT: OnceLock<usize> = OnceLock::new();
    *COUNT.get_or_init(|| {
        let processors = thread::available_parallelism().map_or(1, NonZero::get);
        processors.next_power_of_two().min(MAX_SLOTS)
    })
}
