//! The block cache: blocks by file and offset, with a strict memory bound and lock-free reads.
//!
//! # Invariants
//!
//! - A hit takes no lock. A hit writes only one byte that other threads write, too: the byte that
//!   holds the entry's rounds (see below). If an earlier hit has already set this byte to the same
//!   value, the hit does not write it. Hits and misses are not counted here: the caller knows the
//!   type of block and counts them in its own per-thread counters.
//! - The bytes in use never exceed the capacity, except for some time after the capacity was
//!   lowered, and while memory outside the cache is charged that does not fit ([`Cache::charge`]).
//!   Entries use bytes, and so do evicted values that are pinned or that a reader may still see;
//!   each is counted with its overhead. A value that does not fit immediately is returned to its
//!   caller uncached. Callers do not use such a value if the cache is strict
//!   ([`Cache::is_strict`]).
//! - The first value inserted for a key stays until it is evicted or erased; blocks are immutable.
//! - An evicted value is dropped when no reader's guard can see it and nothing references it.
//!
//! # Eviction policy
//!
//! A clock. Each entry has a number of rounds: how many further passes of the clock hand it
//! survives. The number is low at first. A hit sets it to the maximum of the entry's priority
//! ([`Priority`]). The hand walks over the entries, subtracts one round from each, and evicts those
//! at zero; it skips pinned entries. A data block that is inserted and never hit, as by a scan, is
//! evicted when the hand reaches it for the second time. A data block that was hit is evicted when
//! the hand reaches it for the fifth time after the hit. So the blocks that a scan inserts displace
//! blocks of other scans before they displace blocks that were hit. Reads that must not affect the
//! policy use [`Cache::peek`] and do not insert. To bound the latency of an insert, the hand looks
//! at a bounded number of entries and then evicts the one with the fewest rounds.
//!
//! # Shards
//!
//! Entries are spread over shards by hash. Each shard has a lock for changes. All shards share one
//! memory bound, so a block may be larger than a shard's share. An insert into a full cache evicts
//! from its own shard, which keeps the shards balanced. Evictions try to keep 1/64 of the capacity
//! free, because an evicted value's bytes become free only when its readers have left.
//!
//! A cache that releases memory to the system selects values by their addresses instead, because
//! the system takes back whole pages only: it evicts whole regions of slabs ([`Cache::give_back`]).
//!
//! # Threads
//!
//! Everything here is safe to call from any thread. [`Cache::lookup`] and [`Cache::peek`] take no
//! lock and never wait; dropping a value takes no lock either. All other functions take shard
//! locks, which foreground inserts also take. They hold a lock for a bounded number of entries at a
//! time; only when a shard's table doubles, the lock is held for all entries of the shard. So a
//! low-priority thread must not call them: it hands the work to a thread of normal priority.

mod admission;
mod budget;
mod entry;
mod garbage;
mod ghosts;
#[cfg(all(loom, test))]
mod loom;
mod shard;
mod slab;
mod table;
#[cfg(all(not(loom), test))]
mod tests;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use admission::Turn;
use budget::{Budget, Reservation};
pub(crate) use budget::{EntryBytes, OutsideCharge};
use entry::Node;
pub(crate) use entry::{Cached, Key, Priority};
use ghosts::Ghosts;
use shard::Shard;
pub(crate) use slab::{REGION, SLOT_MIN, SlabBytes, Slabs};
pub(crate) use tailwater_io::sizing::{AutoSizes, GhostHits, PAUSE, Sizing};

use crate::epoch::{Guard, pin};

/// Capacity per shard, in bytes.
const SHARD_BYTES: usize = 1 << 20;
/// Maximum number of shards that [`Cache::new`] creates.
const SHARDS_MAX: usize = 64;

/// The size of all entries whose values are in one region of the slabs' memory.
#[derive(Debug, Default)]
struct RegionEntries {
    bytes: usize,
    /// Charge of the unpinned entries, in bytes.
    unpinned_bytes: usize,
    /// Sum of the weighted charges of all entries, in bytes. The weight of an entry is one, plus
    /// its rounds, plus [`WARMTH_OF_HIGH`] if its priority is high.
    warmth: usize,
}

/// The amount that a high priority adds to an entry's weight in [`RegionEntries::warmth`]. Each
/// further pass of the clock hand that the entry survives adds 1.
const WARMTH_OF_HIGH: usize = 8;

/// The block cache. See the module.
///
/// Hash tables that were replaced by larger ones, and the entries left when the cache is dropped,
/// belong to no database: see [`Bin`](crate::epoch::Bin).
pub(crate) struct Cache<V: Send + Sync + 'static> {
    /// The shards. Their number is a power of two.
    shards: Box<[Shard<V>]>,
    budget: Arc<Budget>,
    /// Whether a value that does not fit must not be used, see [`Cache::is_strict`].
    strict: AtomicBool,
    turn: Turn,
    /// Recently evicted keys; `None` if they are not tracked.
    ghosts: Option<Arc<Ghosts>>,
    /// Returns the memory outside a value that its readers read first.
    first_read: fn(&V) -> *const u8,
}

/// The outcome of an insert. Each variant holds the value that the caller should use.
#[derive(Debug)]
pub(crate) enum Inserted<V> {
    /// The value is in the cache.
    Admitted(Arc<Cached<V>>),
    /// The cache already had this value for the key. The value to be inserted was dropped.
    Present(Arc<Cached<V>>),
    /// The value did not fit. It is not in the cache and not charged.
    Standalone(Arc<Cached<V>>),
}

impl<V> Inserted<V> {
    /// Returns the value that the caller should use: the inserted one, or the one that the cache
    /// already had for the key.
    pub(crate) fn into_cached(self) -> Arc<Cached<V>> {
        match self {
            Self::Admitted(cached) | Self::Present(cached) | Self::Standalone(cached) => cached,
        }
    }
}

impl<V: Send + Sync + 'static> Cache<V> {
    /// Overhead of an entry in addition to its value's own memory, in bytes: the entry, the value's
    /// header, slots in the ring and the table, and the allocator's overhead. Every charge includes
    /// it.
    pub(crate) const ENTRY_OVERHEAD: usize =
        size_of::<Node<V>>() + size_of::<Cached<V>>() + 4 * ARC_AND_ALLOCATION + RING_AND_TABLE;

    /// Creates an empty cache of `capacity` bytes, with one shard per MiB, but at most 64 shards.
    ///
    /// The number of shards is fixed. A cache that will grow is created by [`Cache::with_shards`]
    /// instead.
    pub(crate) fn new(capacity: usize) -> Self {
        Self::with_shards(capacity, (capacity / SHARD_BYTES).min(SHARDS_MAX))
    }

    /// Creates an empty cache of `capacity` bytes. Its number of shards is `shards`, rounded up to
    /// a power of two.
    pub(crate) fn with_shards(capacity: usize, shards: usize) -> Self {
        Self::build(capacity, shards, None)
    }

    /// Like [`Cache::with_shards`], but also tracks recently evicted keys, for [`Cache::ghosts`].
    pub(crate) fn with_ghosts(capacity: usize, shards: usize) -> Self {
        Self::build(capacity, shards, Some(Arc::new(Ghosts::new())))
    }

    fn build(capacity: usize, shards: usize, ghosts: Option<Arc<Ghosts>>) -> Self {
        let shards = shards.max(1).next_power_of_two();
        let budget = Budget::new(capacity);
        Self {
            shards: (0..shards).map(|_| Shard::new(&budget, shards, ghosts.clone())).collect(),
            budget,
            strict: AtomicBool::new(false),
            turn: Turn::default(),
            ghosts,
            first_read: |_| ptr::null(),
        }
    }

    /// Returns the cache with a function that returns the memory outside a value that its readers
    /// read first. A lookup prefetches it.
    pub(crate) fn prefetching(self, first_read: fn(&V) -> *const u8) -> Self {
        Self { first_read, ..self }
    }

    /// Returns how many of the inserted keys had been evicted shortly before. If evicted keys are
    /// not tracked, all counts are 0.
    pub(crate) fn ghosts(&self) -> GhostHits {
        self.ghosts.as_ref().map(|ghosts| ghosts.hits()).unwrap_or_default()
    }

    #[inline]
    fn home(&self, hash: u64) -> usize {
        // The bucket and the tag are selected by other bits of the hash.
        (hash >> 40) as usize & (self.shards.len() - 1)
    }

    #[inline]
    fn find<'g>(&self, key: Key, guard: &'g Guard) -> Option<&'g Node<V>> {
        let hash = key.hash();
        self.shards[self.home(hash)].find(hash, key, guard)
    }

    /// Returns the value of a key, and records a hit. The reference is valid as long as the guard
    /// lives; a clone of the `Arc` is valid for longer.
    #[inline]
    pub(crate) fn lookup<'g>(&self, key: Key, guard: &'g Guard) -> Option<&'g Arc<Cached<V>>> {
        let node = self.find(key, guard)?;
        node.prefetch_value();
        node.touch();
        Some(&node.value)
    }

    /// Like [`Cache::lookup`], but records no hit. Compactions and other background reads use it.
    #[inline]
    pub(crate) fn peek<'g>(&self, key: Key, guard: &'g Guard) -> Option<&'g Arc<Cached<V>>> {
        Some(&self.find(key, guard)?.value)
    }

    /// Prefetches what a lookup of a key reads, up to `stage`. The earlier stages must have been
    /// prefetched before, some time ago; otherwise this waits for them.
    #[inline]
    pub(crate) fn prefetch(&self, key: Key, stage: Stage, guard: &Guard) {
        let hash = key.hash();
        self.shards[self.home(hash)].prefetch(hash, key, stage, guard);
    }

    /// Whether the value of a key was hit since it was inserted; `None` if the key has no value in
    /// the cache. Records no hit.
    pub(crate) fn was_hit(&self, key: Key) -> Option<bool> {
        Some(self.find(key, &pin())?.was_hit())
    }

    /// Inserts a value, if it fits or enough bytes can be freed immediately.
    ///
    /// `charge` is the memory that the value owns, in bytes, without `V` itself; the overhead
    /// ([`Cache::ENTRY_OVERHEAD`]) is added. Bytes are freed by evicting unpinned entries and
    /// dropping garbage that no reader can see. The work is bounded: if nearly everything is
    /// pinned, the insert may be refused although an entry could be evicted.
    pub(crate) fn insert(
        &self,
        key: Key,
        value: V,
        charge: usize,
        priority: Priority,
    ) -> Inserted<V> {
        self.insert_with(key, value, charge, priority, Self::admit)
    }

    /// Like [`Cache::insert`]. But if the cache is strict, evicts all unpinned entries, if
    /// necessary, and waits until no reader's guard can see them. So the value is refused only if
    /// pinned bytes leave no room, or if a reader does not leave in time. The caller must have no
    /// guard.
    pub(crate) fn insert_or_wait(
        &self,
        key: Key,
        value: V,
        charge: usize,
        priority: Priority,
    ) -> Inserted<V> {
        self.insert_with(key, value, charge, priority, Self::admit_or_wait)
    }

    fn insert_with(
        &self,
        key: Key,
        value: V,
        charge: usize,
        priority: Priority,
        admit: impl FnOnce(&Self, usize, usize) -> Option<Reservation>,
    ) -> Inserted<V> {
        let hash = key.hash();
        if let Some(node) = self.find(key, &pin()) {
            return Inserted::Present(Arc::clone(&node.value));
        }
        let home = self.home(hash);
        let Some(room) = admit(self, home, charge.saturating_add(Self::ENTRY_OVERHEAD)) else {
            return Inserted::Standalone(Arc::new(Cached::standalone(value)));
        };
        let first_read = (self.first_read)(&value).addr();
        let cached = Arc::new(Cached::charged(value, room, first_read));
        match self.shards[home].insert(key, hash, &cached, priority) {
            Ok(()) => {
                if let Some(ghosts) = &self.ghosts {
                    ghosts.inserted(hash, self.capacity());
                }
                Inserted::Admitted(cached)
            }
            Err(present) => Inserted::Present(present),
        }
    }

    /// Returns a reference to the count of the memory of the entries.
    pub(crate) fn entry_bytes(&self) -> EntryBytes {
        EntryBytes::of(&self.budget)
    }

    /// Changes the capacity, in bytes. Before this returns, unpinned entries are evicted, in equal
    /// shares from all shards, until the headroom is free (the part of the new capacity that
    /// evictions try to keep free). The memory of an evicted entry is freed immediately if no
    /// reader's guard can see it, otherwise by a later [`Cache::collect`]; [`Cache::usage`] shows
    /// the progress.
    pub(crate) fn set_capacity(&self, capacity: usize) {
        self.budget.set_capacity(capacity);
        self.shrink_for(self.budget.headroom());
    }

    /// Lowers the capacity like [`Cache::set_capacity`], but chooses the evicted entries so that
    /// memory can be released to the system.
    ///
    /// The system takes back whole pages only, and scattered evictions would leave most pages
    /// partly in use. So whole regions of slabs are evicted. The first are those with the lowest
    /// warmth per byte: their entries survive few further passes of the clock hand, and few of them
    /// have a high priority. Regions with pinned entries are last. `address` returns the address of
    /// a value's memory.
    ///
    /// Looks at every entry, and holds a shard's lock for a batch of entries at a time.
    pub(crate) fn give_back(&self, capacity: usize, address: impl Fn(&V) -> usize) {
        let excess = self.budget.excess_of(capacity);
        self.budget.set_capacity(capacity);
        self.evict_regions(excess, |value| Some(address(value)));
        // Evicts what still exceeds the capacity: entries may have been inserted in the meantime,
        // and pinned entries were skipped.
        self.shrink_for(self.budget.headroom());
    }

    /// Evicts the entries of the coldest regions, at least `bytes` if enough are unpinned, as
    /// [`Cache::give_back`] does, but leaves the capacity. Values without an address stay.
    pub(crate) fn evict_regions(&self, bytes: usize, address: impl Fn(&V) -> Option<usize>) {
        let region = |value: &V| address(value).map(|address| address / REGION);
        let cold = self.coldest_regions(bytes, region);
        for shard in &self.shards {
            shard.evict_those(|value| region(value).is_some_and(|it| cold.contains(&it)));
        }
    }

    /// Returns the coldest regions, as many as needed to evict `bytes`. Regions are ordered by
    /// warmth per byte, lowest first; regions with pinned entries come after all others.
    fn coldest_regions(
        &self,
        bytes: usize,
        region: impl Fn(&V) -> Option<usize>,
    ) -> HashSet<usize> {
        let mut regions = HashMap::<usize, RegionEntries>::new();
        for shard in &self.shards {
            shard.visit_all(|node| {
                let Some(region) = region(&node.value) else { return };
                let region = regions.entry(region).or_default();
                let charge = node.value.charge();
                let is_high = node.priority == Priority::High;
                let rounds = 1 + usize::from(node.rounds()) + WARMTH_OF_HIGH * usize::from(is_high);
                region.warmth += charge * rounds;
                region.bytes += charge;
                region.unpinned_bytes += if node.is_pinned() { 0 } else { charge };
            });
        }
        let mut regions = Vec::from_iter(regions);
        regions.sort_unstable_by_key(|(_, region)| {
            let is_pinned = region.unpinned_bytes < region.bytes;
            (is_pinned, (region.warmth << 8) / region.bytes.max(1))
        });
        let mut evicted = 0;
        regions
            .into_iter()
            .take_while(|(_, region)| {
                let is_wanted = evicted < bytes;
                evicted += region.unpinned_bytes;
                is_wanted
            })
            .map(|(place, _)| place)
            .collect()
    }

    /// If the key has an entry, makes the clock hand evict the entry at its next pass. Until then,
    /// lookups find the entry, and a hit lets it survive further passes. Takes no lock.
    pub(crate) fn chill(&self, key: Key) {
        if let Some(node) = self.find(key, &pin()) {
            node.chill();
        }
    }

    /// If the key has an entry, lets the entry survive as many passes of the clock hand as after a
    /// hit, without recording a hit. Takes no lock.
    pub(crate) fn warm(&self, key: Key) {
        if let Some(node) = self.find(key, &pin()) {
            node.warm();
        }
    }

    /// Erases the entry of a key. Returns whether there was one. References to its value stay
    /// valid, and its charge stays until they are dropped.
    pub(crate) fn erase(&self, key: Key) -> bool {
        let hash = key.hash();
        if self.find(key, &pin()).is_none() {
            // This is checked without the lock, so that erasing an absent key is cheap.
            return false;
        }
        self.shards[self.home(hash)].erase(hash, key)
    }

    /// Erases the entries of a deleted file. Returns their number.
    ///
    /// An entry that another thread inserts for this file at the same time may remain. The clock
    /// evicts it like any other entry. Reads 16 bytes for every entry of the cache, and holds a
    /// shard's lock for a batch of entries at a time.
    pub(crate) fn erase_file(&self, file: u64) -> usize {
        self.shards.iter().map(|shard| shard.erase_file(file)).sum()
    }

    /// Drops evicted and erased values that no reader can see. An insert does so only for its own
    /// shard, so a background thread calls this for all shards.
    pub(crate) fn collect(&self) {
        self.shards.iter().for_each(Shard::collect);
    }

    /// Returns the capacity, in bytes: `rocksdb.block-cache-capacity`.
    pub(crate) fn capacity(&self) -> usize {
        self.budget.capacity()
    }

    /// Returns the bytes in use by entries and by removed values that are still in memory. This is
    /// the value of the property `rocksdb.block-cache-usage`.
    pub(crate) fn usage(&self) -> usize {
        self.budget.used()
    }

    /// Returns the part of [`Cache::usage`] that eviction cannot free: the charge of all referenced
    /// values, whether they are still in the hash table or not. This is the value of the property
    /// `rocksdb.block-cache-pinned-usage`.
    ///
    /// Looks at every entry, and holds a shard's lock for a batch of entries at a time. Exact only
    /// if nothing changes while this runs.
    pub(crate) fn pinned_usage(&self) -> usize {
        let unpinned: usize = self.shards.iter().map(Shard::unpinned_bytes).sum();
        self.usage().saturating_sub(self.unlinked_usage()).saturating_sub(unpinned)
    }

    /// Returns the part of [`Cache::usage`] that belongs to evicted or erased entries that readers
    /// may still see.
    pub(crate) fn unlinked_usage(&self) -> usize {
        self.budget.unlinked()
    }

    /// Returns the number of entries.
    pub(crate) fn entries(&self) -> usize {
        self.shards.iter().map(Shard::entries).sum()
    }

    /// Returns the number of slots of the hash tables.
    pub(crate) fn slots(&self) -> usize {
        self.shards.iter().map(Shard::slots).sum()
    }
}

impl<V: Send + Sync + 'static> fmt::Debug for Cache<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache")
            .field("capacity", &self.capacity())
            .field("usage", &self.usage())
            .field("entries", &self.entries())
            .field("shards", &self.shards.len())
            .finish()
    }
}

/// What a lookup reads, one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The bucket of the hash table.
    Bucket,
    /// The entry that the bucket refers to.
    Entry,
    /// The value that the entry refers to.
    Value,
}

/// Overhead of an `Arc` or of an allocation, in bytes. An `Arc` has two counters. The allocator
/// adds a header to an allocation and rounds up its size.
const ARC_AND_ALLOCATION: usize = 16;
/// Overhead in the ring and the table, in bytes: 16 for a slot in the ring, 8 for one in the list
/// of free ring slots, and 22 for the table. The table has 8 bytes for each slot, and at least 3/8
/// of its slots are used after it has doubled.
const RING_AND_TABLE: usize = 16 + 8 + 22;
