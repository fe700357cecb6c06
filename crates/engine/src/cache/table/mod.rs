//! A hash table with lock-free reads and one writer at a time.
//!
//! A bucket is one cache line: a control word and seven pointers. Bytes 0 to 6 of the control word
//! are the tags of the pointers (eight bits of the hash, 0 for an empty slot). Byte 7 counts the
//! entries that are stored in a later bucket because this one was full when they were inserted. A
//! lookup compares all tags simultaneously and continues with the next bucket only if that count is
//! not zero. So it almost always reads one line of the table, and removal leaves no tombstones.
//!
//! # Invariants
//!
//! - Writers hold the shard's lock. A reader may miss an entry that is being inserted or removed,
//!   but never returns a wrong one: it compares the key in the entry.
//! - When an entry is inserted, its pointer is stored before its tag. When it is removed, its tag
//!   is cleared before its pointer.
//! - An entry is freed only after its removal, when every reader that could see it has left.
//! - A count that has reached 255 is never decremented, because it may be too low. Lookups in that
//!   bucket take longer until the table grows.
//! - At most three quarters of the slots are used, so every probe finds a free one.

#![expect(
    unsafe_code,
    reason = "readers borrow entries from pointers that are unlinked under them"
)]

#[cfg(all(not(loom), test))]
mod tests;

use std::ptr;

use super::entry::{Key, Node};
use crate::epoch::atomic::{AtomicPtr, AtomicU64, Ordering};
use crate::prefetch;

/// Number of pointers in a bucket.
const LANES: usize = 7;
/// The lowest bit of each of the seven tags in a control word.
const LANE_LOW_BITS: u64 = 0x0001_0101_0101_0101;
/// The highest bit of each of the seven tags in a control word.
const LANE_HIGH_BITS: u64 = LANE_LOW_BITS << 7;
/// The amount that is added to the count in byte 7 of a bucket's control word for each entry that
/// is stored in a later bucket because this bucket was full.
const PASSED_ONE: u64 = 1 << 56;
/// The highest value of the count in byte 7 of a control word. The count is the number of entries
/// that are stored in later buckets because this bucket was full. A count that reaches the highest
/// value stays there.
const PASSED_FULL: u64 = 0xff << 56;

#[repr(align(64))]
struct Bucket<V> {
    control: AtomicU64,
    nodes: [AtomicPtr<Node<V>>; LANES],
}

impl<V> Bucket<V> {
    fn new() -> Self {
        let nodes = std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut()));
        Self { control: AtomicU64::new(0), nodes }
    }

    fn free_lane(control: u64) -> Option<usize> {
        (0..LANES).find(|lane| (control >> (lane * 8)) & 0xff == 0)
    }
}

/// Returns a number in which the highest bit is set in each byte in which the control word has this
/// tag. It may be set in other bytes, too. Such a false match is rejected when the keys are
/// compared.
#[inline(always)]
fn matches(control: u64, tag: u64) -> u64 {
    let difference = control ^ (tag * LANE_LOW_BITS);
    // The subtraction sets the highest bit of each byte that is zero. It may borrow from higher
    // bytes and set bits there, too.
    difference.wrapping_sub(LANE_LOW_BITS) & !difference & LANE_HIGH_BITS
}

/// The table. Its size is fixed; the shard replaces a full table with one of twice the size.
pub(super) struct Table<V> {
    /// The buckets. Their number is a power of two.
    buckets: Box<[Bucket<V>]>,
}

impl<V> Table<V> {
    /// Creates an empty table of `buckets` buckets, rounded up to a power of two.
    pub(super) fn new(buckets: usize) -> Self {
        Self { buckets: (0..buckets.next_power_of_two()).map(|_| Bucket::new()).collect() }
    }

    pub(super) fn buckets(&self) -> usize {
        self.buckets.len()
    }

    /// Returns the number of slots.
    pub(super) fn slots(&self) -> usize {
        self.buckets.len() * LANES
    }

    /// Returns the maximum number of entries, three quarters of all slots.
    pub(super) fn limit(&self) -> usize {
        self.slots() * 3 / 4
    }

    fn tag(hash: u64) -> u64 {
        (hash >> 56).max(1)
    }

    /// Returns all buckets in probing order, starting with the hash's own bucket.
    fn walk(&self, hash: u64) -> impl Iterator<Item = &Bucket<V>> {
        let mask = self.buckets.len() - 1;
        let home = hash as usize;
        (0..self.buckets.len()).map(move |step| &self.buckets[home.wrapping_add(step) & mask])
    }

    /// Returns the entry of a key.
    ///
    /// # Safety
    /// During all of `'a` the caller holds the lock that every writer of this table holds, or a
    /// guard of the epoch domain that delays the freeing of removed entries.
    #[inline]
    pub(super) unsafe fn find<'a>(&self, hash: u64, key: Key) -> Option<&'a Node<V>> {
        for bucket in self.walk(hash) {
            let control = bucket.control.load(Ordering::Acquire);
            let mut matches = matches(control, Self::tag(hash));
            while matches != 0 {
                let lane = matches.trailing_zeros() as usize / 8;
                matches &= matches - 1;
                let node = bucket.nodes[lane].load(Ordering::Acquire);
                // SAFETY: a pointer that is not null refers to an entry that was in the table when
                // the pointer was loaded. The caller's lock or guard keeps the entry alive.
                if let Some(node) = unsafe { node.as_ref() }
                    && node.key == key
                {
                    return Some(node);
                }
            }
            if control < PASSED_ONE {
                return None;
            }
        }
        None
    }

    /// Prefetches the bucket in which a search for this hash begins.
    #[inline]
    pub(super) fn prefetch_bucket(&self, hash: u64) {
        prefetch::line(self.first_bucket(hash));
    }

    /// Prefetches the entries in that bucket that may have this hash.
    #[inline]
    pub(super) fn prefetch_entries(&self, hash: u64) {
        let bucket = self.first_bucket(hash);
        let mut matches = matches(bucket.control.load(Ordering::Relaxed), Self::tag(hash));
        while matches != 0 {
            let lane = matches.trailing_zeros() as usize / 8;
            matches &= matches - 1;
            prefetch::line(bucket.nodes[lane].load(Ordering::Relaxed));
        }
    }

    fn first_bucket(&self, hash: u64) -> &Bucket<V> {
        &self.buckets[hash as usize & (self.buckets.len() - 1)]
    }

    /// Inserts an entry whose key is not in the table. The caller holds the shard's lock, keeps the
    /// table within its limit, and keeps the entry alive as [`Table::find`] requires.
    pub(super) fn insert(&self, hash: u64, node: *const Node<V>) {
        for bucket in self.walk(hash) {
            let control = bucket.control.load(Ordering::Relaxed);
            if let Some(lane) = Bucket::<V>::free_lane(control) {
                bucket.nodes[lane].store(node.cast_mut(), Ordering::Release);
                let control = control | Self::tag(hash) << (lane * 8);
                bucket.control.store(control, Ordering::Release);
                return;
            }
            if control < PASSED_FULL {
                bucket.control.store(control + PASSED_ONE, Ordering::Release);
            }
        }
    }

    /// Removes an entry that is in the table. The caller holds the shard's lock.
    pub(super) fn remove(&self, hash: u64, node: *const Node<V>) {
        for bucket in self.walk(hash) {
            let control = bucket.control.load(Ordering::Relaxed);
            let is_node = |slot: &AtomicPtr<_>| ptr::eq(slot.load(Ordering::Relaxed), node);
            if let Some(lane) = bucket.nodes.iter().position(is_node) {
                bucket.control.store(control & !(0xff << (lane * 8)), Ordering::Release);
                bucket.nodes[lane].store(ptr::null_mut(), Ordering::Release);
                return;
            }
            if control < PASSED_FULL {
                bucket.control.store(control - PASSED_ONE, Ordering::Release);
            }
        }
    }
}
