//! Cache entries: keys, priorities, and values with their charge.

use std::ops::Deref;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use super::budget::Reservation;
use crate::prefetch::{self, CACHE_LINE};

/// The identity of a block: its file's number and its offset in the file.
///
/// File numbers are never reused, so a key never changes its meaning. Databases that share a cache
/// must use different file numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Key {
    /// The file's number.
    pub file: u64,
    /// The block's offset in the file, in bytes.
    pub offset: u64,
}

impl Key {
    /// Returns a hash of the key. Parts of the hash select the shard, the bucket and the tag. Each
    /// bit of these parts depends on every bit of the key.
    #[inline]
    pub(super) fn hash(self) -> u64 {
        // Both constants are odd, and about half of their bits are set. The first is 2^64 divided
        // by the golden ratio. The second is a prime.
        let file = self.file.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
        let mut hash = file ^ self.offset;
        hash ^= hash >> 32;
        hash = hash.wrapping_mul(0xd6e8_feb8_6659_fd93);
        hash ^ (hash >> 32)
    }
}

/// The priority of an entry. It determines how many passes of the clock hand the entry survives.
///
/// An entry's number of rounds is the number of further passes that the entry survives. Each
/// priority defines two numbers of rounds: a new entry starts with the lower one, and a hit sets
/// the entry's rounds to the higher one. Each pass of the hand subtracts one round. A pass evicts
/// an entry that has no rounds left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Priority {
    /// For data blocks. A new entry survives 1 pass of the clock hand. After a hit, it survives the
    /// next 4 passes.
    Low,
    /// For index and filter blocks. A new entry survives 2 passes of the clock hand. After a hit,
    /// it survives the next 5 passes.
    High,
}

impl Priority {
    fn first_rounds(self) -> u8 {
        match self {
            Self::Low => 1,
            Self::High => 2,
        }
    }

    fn rounds_after_hit(self) -> u8 {
        match self {
            Self::Low => 4,
            Self::High => 5,
        }
    }
}

/// A value that is or was in the cache, or that the cache refused.
///
/// The charge stays until the last reference to the value is dropped, even if the value was
/// evicted: a value that is still in memory is counted. Dereferences to the value.
#[derive(Debug)]
pub(crate) struct Cached<V> {
    // Fields are dropped in the order of declaration, so the charge is released only after the
    // value's memory.
    value: V,
    reservation: Option<Reservation>,
    /// Address of the memory that a reader of the value reads first; 0 if unknown.
    first_read: usize,
}

impl<V> Cached<V> {
    pub(super) fn charged(value: V, reservation: Reservation, first_read: usize) -> Self {
        Self { value, reservation: Some(reservation), first_read }
    }

    pub(crate) fn standalone(value: V) -> Self {
        Self { value, reservation: None, first_read: 0 }
    }

    /// Returns the bytes charged to the cache, overhead included; 0 for a value that it refused.
    pub(crate) fn charge(&self) -> usize {
        self.reservation.as_ref().map_or(0, Reservation::bytes)
    }
}

impl<V> Deref for Cached<V> {
    type Target = V;

    #[inline]
    fn deref(&self) -> &V {
        &self.value
    }
}

/// A bit of [`Node::mark`]. The first hit sets it, and it is never cleared.
const HIT: u8 = 0x80;

/// An entry of the table.
///
/// An entry is created under the shard's lock. The shard's ring owns it until its removal, and then
/// the shard's garbage; readers borrow it. An entry has cache lines of its own. Otherwise, writes
/// to a neighbouring allocation could slow down every reader of this entry.
#[repr(align(64))]
pub(super) struct Node<V> {
    pub(super) key: Key,
    pub(super) value: Arc<Cached<V>>,
    /// The index of the entry's slot in the shard's ring.
    pub(super) position: usize,
    /// Address of the memory that a reader of the value reads first; 0 if unknown. It is kept here,
    /// too, so that this memory can be prefetched together with the value.
    first_read: usize,
    /// The entry's rounds, combined with the bit [`HIT`].
    mark: AtomicU8,
    /// The value that a hit stores in `mark`: the rounds after a hit, combined with the bit
    /// [`HIT`].
    hottest: u8,
    pub(super) priority: Priority,
}

impl<V> Node<V> {
    pub(super) fn new(
        key: Key,
        value: Arc<Cached<V>>,
        priority: Priority,
        position: usize,
    ) -> Self {
        let mark = AtomicU8::new(priority.first_rounds());
        let hottest = HIT | priority.rounds_after_hit();
        let first_read = value.first_read;
        Self { key, value, position, first_read, mark, hottest, priority }
    }

    /// Prefetches the value, its reference counts, which are on the cache line before it, and what
    /// a reader of the value reads first.
    #[inline]
    pub(super) fn prefetch_value(&self) {
        let value = Arc::as_ptr(&self.value).cast::<u8>();
        prefetch::line(value);
        prefetch::line(ptr::without_provenance::<u8>(self.first_read));
        prefetch::line(value.wrapping_sub(CACHE_LINE));
    }

    /// Records a hit in `mark`. If `mark` already has the value that a hit stores, it is not
    /// written, so that its cache line stays shared between cores.
    #[inline]
    pub(super) fn touch(&self) {
        if self.mark.load(Ordering::Relaxed) != self.hottest {
            self.mark.store(self.hottest, Ordering::Relaxed);
        }
    }

    /// Called when the clock hand passes the entry. Subtracts one round. Returns false if none was
    /// left.
    ///
    /// `mark` is loaded and stored separately, so a concurrent hit may be lost, or may undo the
    /// decrement. The entry is then evicted somewhat too early or too late.
    pub(super) fn cool(&self) -> bool {
        let mark = self.mark.load(Ordering::Relaxed);
        if mark & !HIT == 0 {
            return false;
        }
        self.mark.store(mark - 1, Ordering::Relaxed);
        true
    }

    /// Makes the clock hand evict the entry at its next pass.
    pub(super) fn chill(&self) {
        self.mark.store(self.mark.load(Ordering::Relaxed) & HIT, Ordering::Relaxed);
    }

    /// Lets the entry survive as many passes of the clock hand as after a hit, without recording a
    /// hit. An entry that was already hit is not changed.
    pub(super) fn warm(&self) {
        if !self.was_hit() {
            self.mark.store(self.hottest & !HIT, Ordering::Relaxed);
        }
    }

    /// Returns the entry's rounds.
    pub(super) fn rounds(&self) -> u8 {
        self.mark.load(Ordering::Relaxed) & !HIT
    }

    /// Whether the entry has ever been hit.
    pub(super) fn was_hit(&self) -> bool {
        self.mark.load(Ordering::Relaxed) & HIT != 0
    }

    /// Whether the value is referenced outside the cache. Evicting such an entry would free no
    /// memory.
    pub(super) fn is_pinned(&self) -> bool {
        Arc::strong_count(&self.value) > 1
    }
}
