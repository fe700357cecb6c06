//! What the cache holds: keys, priorities and values with their charge.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use super::budget::Reservation;

/// Where a block stands: the number of its file and its offset there, in bytes.
///
/// File numbers are never used twice, so a key never changes its meaning. Databases that share a
/// cache must make their file numbers differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// The file's number.
    pub file: u64,
    /// The block's offset in the file, in bytes.
    pub offset: u64,
}

impl Key {
    /// A mix in which every bit of the key reaches every bit that the shard, the bucket and the
    /// tag are taken from.
    #[inline]
    pub(super) fn hash(self) -> u64 {
        // Odd constants with about half their bits set: 2^64 over the golden ratio, and a prime.
        let file = self.file.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
        let mut hash = file ^ self.offset;
        hash ^= hash >> 32;
        hash = hash.wrapping_mul(0xd6e8_feb8_6659_fd93);
        hash ^ (hash >> 32)
    }
}

/// How long an entry stays: the rounds of the clock hand that it survives.
///
/// An entry comes in with the first number and a hit sets it to the second; each passing of the
/// hand takes one away, and an entry at zero goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Priority {
    /// 0 rounds, 2 after a hit: values from blob files.
    Bottom,
    /// 1 round, 4 after a hit: data blocks.
    Low,
    /// 2 rounds, 5 after a hit: index and filter blocks.
    High,
}

impl Priority {
    fn first_rounds(self) -> u8 {
        match self {
            Self::Bottom => 0,
            Self::Low => 1,
            Self::High => 2,
        }
    }

    fn rounds_after_hit(self) -> u8 {
        match self {
            Self::Bottom => 2,
            Self::Low => 4,
            Self::High => 5,
        }
    }
}

/// A value that is or was in the cache, or was refused by it.
///
/// It holds its charge until its last reference is dropped, even after it left the cache: what is
/// still in memory stays counted. Reads as the value.
#[derive(Debug)]
pub struct Cached<V> {
    // Dropped in this order: the bytes are given back after the value's memory.
    value: V,
    reservation: Option<Reservation>,
}

impl<V> Cached<V> {
    pub(super) fn charged(value: V, reservation: Reservation) -> Self {
        Self { value, reservation: Some(reservation) }
    }

    pub(crate) fn standalone(value: V) -> Self {
        Self { value, reservation: None }
    }

    /// The value.
    #[inline]
    pub fn value(&self) -> &V {
        &self.value
    }

    /// The bytes charged to the cache, overhead included; 0 for a value that it refused.
    pub fn charge(&self) -> usize {
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

/// Set in a mark once the entry has been hit, and never cleared.
const HIT: u8 = 0x80;

/// An entry of the table.
///
/// Made under the shard's lock, owned by the shard's ring and then by its garbage; readers borrow
/// it. On cache lines of its own: what the allocator puts beside it may be what a thread writes at
/// each get, and every reader of this entry would wait for that.
#[repr(align(64))]
pub(super) struct Node<V> {
    pub(super) key: Key,
    pub(super) value: Arc<Cached<V>>,
    /// Where the shard's ring holds it.
    pub(super) position: usize,
    /// The rounds left, and [`HIT`].
    mark: AtomicU8,
    /// The mark that a hit sets.
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
        Self { key, value, position, mark, hottest, priority }
    }

    /// Notes a hit: a store only if the mark is not already at its highest.
    #[inline]
    pub(super) fn touch(&self) {
        if self.mark.load(Ordering::Relaxed) != self.hottest {
            self.mark.store(self.hottest, Ordering::Relaxed);
        }
    }

    /// The hand passes: takes a round away, or answers that none was left.
    ///
    /// A hit at the same time may be lost, or undo this: either costs a round, nothing else.
    pub(super) fn cool(&self) -> bool {
        let mark = self.mark.load(Ordering::Relaxed);
        if mark & !HIT == 0 {
            return false;
        }
        self.mark.store(mark - 1, Ordering::Relaxed);
        true
    }

    /// Takes all rounds away: the hand's next passing evicts it.
    pub(super) fn chill(&self) {
        self.mark.store(self.mark.load(Ordering::Relaxed) & HIT, Ordering::Relaxed);
    }

    /// Gives it the rounds of a hit, without its counting as one.
    pub(super) fn warm(&self) {
        if !self.was_hit() {
            self.mark.store(self.hottest & !HIT, Ordering::Relaxed);
        }
    }

    /// The rounds left.
    pub(super) fn rounds(&self) -> u8 {
        self.mark.load(Ordering::Relaxed) & !HIT
    }

    /// Whether it has ever been hit.
    pub(super) fn was_hit(&self) -> bool {
        self.mark.load(Ordering::Relaxed) & HIT != 0
    }

    /// Whether anyone outside the cache holds the value, so that evicting it would free nothing.
    pub(super) fn is_pinned(&self) -> bool {
        Arc::strong_count(&self.value) > 1
    }
}
