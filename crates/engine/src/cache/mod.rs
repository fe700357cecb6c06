//! The block cache: blocks by file and offset, within a strict bound, read without a lock.
//!
//! # Invariants
//!
//! - A hit takes no lock and writes nothing that other cores write. The entry's mark is set only
//!   if it is not set already. Hits and misses are not counted here: the caller knows the kind of
//!   block and counts them in its own per-thread counters.
//! - The bytes in use never pass the capacity: entries, what was evicted but is pinned or may
//!   still be seen by a reader, and reservations, each with what it costs to keep. A value for
//!   which there is no room at once is handed back to its caller uncached. Only a capacity that
//!   was lowered can be passed, until what is evicted for it has left.
//! - The first value of a key stays until it is evicted or erased; blocks do not change.
//! - An evicted value is dropped when no reader's guard can see it and nobody holds it.
//!
//! # Who goes first
//!
//! A clock. Each entry has a count of rounds: low when it comes in, set to the highest of its
//! priority by a hit ([`Priority`]). A hand walks over the entries, takes one round from each,
//! and evicts those at zero; pinned entries are passed over. A block that is read once, as by a
//! scan, is gone after its second meeting with the hand, while one that was hit stays for five,
//! so a scan drives out what other scans left before it drives out what is in use. Reads
//! that should leave no trace look with [`Cache::peek`] and do not insert. To keep an insert's
//! delay flat, the hand looks at a bounded number of entries and then takes the coolest of them.
//!
//! # Shards
//!
//! Entries are spread over shards by hash; one lock each, for whoever changes something. The bound
//! is one for all, so a block may be larger than a shard's share. An insert into a full cache
//! evicts from its own shard, which keeps the shards even. Evicting keeps a little ahead
//! (a 64th of the capacity), because an evicted value's bytes come back only when its readers
//! have left.
//!
//! A cache that gives memory back to the system evicts by where values are in memory instead, since
//! the system takes whole pages ([`Cache::give_back`]): where their bytes are in slabs, a region of
//! those at a time.
//!
//! # Threads
//!
//! Everything here is safe to call from any thread. [`Cache::lookup`] and [`Cache::peek`] take no
//! lock and wait for nothing, and dropping a value or a reservation takes no lock either. All else
//! takes shard locks that foreground inserts take, for a bounded number of entries at a time (all
//! of a shard's only when its table doubles), so a thread of reduced scheduling weight must not
//! call it: it hands the work to a thread of normal weight.

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
use std::iter;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use budget::Budget;
pub use budget::Reservation;
use entry::Node;
pub use entry::{Cached, Key, Priority};
use ghosts::Ghosts;
use shard::Shard;
use slab::REGION;
pub(crate) use slab::{SlabBytes, Slabs};
pub use tailwater_io::sizing::{AutoSizes, GhostHits};
pub(crate) use tailwater_io::sizing::{LOOK, Sizing};

use crate::epoch::{Guard, pin};

/// The capacity that gives rise to another shard, in bytes.
const SHARD_BYTES: usize = 4 << 20;
/// The most shards that [`Cache::new`] makes.
const SHARDS_MAX: usize = 64;
/// The shards besides its own that an insert asks for room, at most.
const NEIGHBOURS: usize = 3;
/// How often a reservation evicts and tries again, while others take what it evicted.
const RESERVE_ATTEMPTS: usize = 3;

/// The entries whose values are in one region of memory.
#[derive(Debug, Default)]
struct RegionEntries {
    bytes: usize,
    /// The bytes of those that nobody holds.
    unpinned_bytes: usize,
    /// The rounds that they have left, for each byte.
    warmth: usize,
}

/// By so much an entry of high priority is warmer than another.
const WARMTH_OF_HIGH: usize = 8;

/// The cache. See the module.
///
/// Tables that it outgrew, and what it still holds when it is dropped, go to
/// [`epoch::retire`](crate::epoch::retire).
pub struct Cache<V: Send + Sync + 'static> {
    /// A power of two of them.
    shards: Box<[Shard<V>]>,
    budget: Arc<Budget>,
    counters: Counters,
    /// What left it lately, where that is kept account of.
    ghosts: Option<Arc<Ghosts>>,
}

/// Written by inserts, on cache lines of their own.
#[repr(align(128))]
#[derive(Default)]
struct Counters {
    /// Turns over the shards that inserts ask for room.
    neighbour: AtomicUsize,
    inserted: AtomicU64,
    present: AtomicU64,
    refused: AtomicU64,
    evicted: AtomicU64,
    erased: AtomicU64,
}

/// What happened in a cache since it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Values that were admitted.
    pub inserted: u64,
    /// Values that were not needed, because their key had one.
    pub present: u64,
    /// Values that found no room.
    pub refused: u64,
    /// Entries that were evicted to make room.
    pub evicted: u64,
    /// Entries that were erased.
    pub erased: u64,
}

/// What became of an inserted value. Each carries the value to use.
#[derive(Debug)]
pub enum Inserted<V> {
    /// It is in the cache.
    Admitted(Arc<Cached<V>>),
    /// The key had a value already: this one. The new one was dropped.
    Present(Arc<Cached<V>>),
    /// There was no room: the value is here and nowhere else, and not charged.
    Standalone(Arc<Cached<V>>),
}

impl<V> Inserted<V> {
    /// The value to use.
    pub fn into_cached(self) -> Arc<Cached<V>> {
        match self {
            Self::Admitted(cached) | Self::Present(cached) | Self::Standalone(cached) => cached,
        }
    }
}

/// An entry of a file, as [`Cache::resident`] found it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resident {
    /// The block's offset in the file, in bytes.
    pub offset: u64,
    /// Its charge, overhead included, in bytes.
    pub charge: usize,
    /// The priority it was inserted with.
    pub priority: Priority,
    /// Whether a lookup has hit it since it was inserted.
    pub was_hit: bool,
    /// The rounds it has left, 0 to 5: how lately it was hit, measured in evictions.
    pub rounds: u8,
}

impl<V: Send + Sync + 'static> Cache<V> {
    /// What an entry costs besides its value's own memory, in bytes: the entry, the value's
    /// header, places in ring and table, and the allocator's share. Every charge includes it.
    pub const ENTRY_OVERHEAD: usize =
        size_of::<Node<V>>() + size_of::<Cached<V>>() + 4 * ARC_AND_ALLOCATION + RING_AND_TABLE;

    /// An empty cache of `capacity` bytes, with a shard for every 4 MiB, 64 at most.
    ///
    /// For a cache that will grow, see [`Cache::with_shards`]: the number of shards stays.
    pub fn new(capacity: usize) -> Self {
        Self::with_shards(capacity, (capacity / SHARD_BYTES).min(SHARDS_MAX))
    }

    /// An empty cache of `capacity` bytes in `shards` shards, rounded up to a power of two.
    pub fn with_shards(capacity: usize, shards: usize) -> Self {
        Self::build(capacity, shards, None)
    }

    /// The same, with account kept of what leaves it: [`Cache::ghosts`].
    pub fn with_ghosts(capacity: usize, shards: usize) -> Self {
        Self::build(capacity, shards, Some(Arc::new(Ghosts::new())))
    }

    fn build(capacity: usize, shards: usize, ghosts: Option<Arc<Ghosts>>) -> Self {
        let shards = shards.max(1).next_power_of_two();
        let budget = Budget::new(capacity);
        Self {
            shards: (0..shards).map(|_| Shard::new(&budget, shards, ghosts.clone())).collect(),
            budget,
            counters: Counters::default(),
            ghosts,
        }
    }

    /// How much of what came in had been let go of shortly before; nothing where no account is
    /// kept.
    pub fn ghosts(&self) -> GhostHits {
        self.ghosts.as_ref().map(|ghosts| ghosts.hits()).unwrap_or_default()
    }

    #[inline]
    fn home(&self, hash: u64) -> usize {
        // Bits that neither the bucket nor the tag is taken from.
        (hash >> 40) as usize & (self.shards.len() - 1)
    }

    #[inline]
    fn find<'g>(&self, key: Key, guard: &'g Guard) -> Option<&'g Node<V>> {
        let hash = key.hash();
        self.shards[self.home(hash)].find(hash, key, guard)
    }

    /// The value with that key, for as long as the guard lives; to keep it longer, clone the
    /// reference. Counts as a hit for the clock.
    #[inline]
    pub fn lookup<'g>(&self, key: Key, guard: &'g Guard) -> Option<&'g Arc<Cached<V>>> {
        let node = self.find(key, guard)?;
        node.touch();
        Some(&node.value)
    }

    /// As [`Cache::lookup`], but leaves no trace: for compaction and other background reads.
    #[inline]
    pub fn peek<'g>(&self, key: Key, guard: &'g Guard) -> Option<&'g Arc<Cached<V>>> {
        Some(&self.find(key, guard)?.value)
    }

    /// Whether the value with that key was hit since it was inserted; `None` where there is none.
    /// Leaves no trace.
    pub fn was_hit(&self, key: Key) -> Option<bool> {
        Some(self.find(key, &pin())?.was_hit())
    }

    /// Puts a value in, if it has room or can be given room at once.
    ///
    /// `charge` is the memory that the value owns, in bytes, without `V` itself; the overhead
    /// ([`Cache::ENTRY_OVERHEAD`]) is added. Room is taken from unpinned entries and from garbage
    /// that no reader can see any more; there is none if the rest fills the cache. The work is
    /// bounded: where nearly everything is pinned, room that exists may not be found.
    pub fn insert(&self, key: Key, value: V, charge: usize, priority: Priority) -> Inserted<V> {
        let hash = key.hash();
        if let Some(node) = self.find(key, &pin()) {
            add(&self.counters.present, 1);
            return Inserted::Present(Arc::clone(&node.value));
        }
        let home = self.home(hash);
        let Some(room) = self.admit(home, charge.saturating_add(Self::ENTRY_OVERHEAD)) else {
            add(&self.counters.refused, 1);
            return Inserted::Standalone(Arc::new(Cached::standalone(value)));
        };
        let cached = Arc::new(Cached::charged(value, room));
        match self.shards[home].insert(key, hash, &cached, priority) {
            Ok(evicted) => {
                if let Some(ghosts) = &self.ghosts {
                    ghosts.inserted(hash, self.capacity());
                }
                add(&self.counters.inserted, 1);
                add(&self.counters.evicted, evicted);
                Inserted::Admitted(cached)
            }
            Err(present) => {
                add(&self.counters.present, 1);
                Inserted::Present(present)
            }
        }
    }

    /// Room for an insert of `bytes` into the shard `home`.
    fn admit(&self, home: usize, bytes: usize) -> Option<Reservation> {
        if let Some(room) = self.budget.reserve(bytes) {
            return Some(room);
        }
        if bytes > self.capacity() {
            return None;
        }
        self.collect();
        let turn = self.counters.neighbour.fetch_add(1, Ordering::Relaxed);
        let neighbours = (0..NEIGHBOURS).map(|step| turn.wrapping_add(step) % self.shards.len());
        for shard in iter::once(home).chain(neighbours) {
            if let Some(room) = self.budget.reserve(bytes) {
                return Some(room);
            }
            add(&self.counters.evicted, self.shards[shard].make_room(bytes));
        }
        self.budget.reserve(bytes)
    }

    /// Takes `bytes` of the capacity for memory that is charged to the cache and is not in it:
    /// memtables, table readers, a filter under construction. Evicts as much as it takes.
    ///
    /// `None` if what is pinned or may still be seen by a reader leaves no room. It visits every
    /// shard, so reserve large pieces (256 KiB and more) and use them up.
    pub fn reserve(&self, bytes: usize) -> Option<Reservation> {
        for _ in 0..RESERVE_ATTEMPTS {
            if let Some(reservation) = self.budget.reserve(bytes) {
                return Some(reservation);
            }
            if bytes > self.capacity() {
                return None;
            }
            self.shrink_for(bytes);
        }
        self.budget.reserve(bytes)
    }

    /// Changes the capacity, in bytes. Returns when everything unpinned that is too much has been
    /// evicted, in fair shares from every shard; its memory is free when [`Cache::usage`] says so:
    /// at once if no reader's guard stands in the way, else after a later [`Cache::collect`].
    pub fn set_capacity(&self, capacity: usize) {
        self.budget.set_capacity(capacity);
        self.shrink_for(self.budget.headroom());
    }

    /// Lowers the capacity, as [`Cache::set_capacity`] does, so that memory can be given back to
    /// the system: that takes whole pages, and entries that are evicted here and there leave a part
    /// of each. So whole regions of memory are evicted, as slabs have them: those first whose
    /// entries were hit least of late, where one of high priority counts for more, and last those
    /// of which somebody holds a part. `address` says where a value's memory is.
    ///
    /// Looks at every entry, some under a lock at a time.
    pub fn give_back(&self, capacity: usize, address: impl Fn(&V) -> usize) {
        let cold = self.coldest_regions(self.budget.excess_of(capacity), &address);
        self.budget.set_capacity(capacity);
        for shard in &self.shards {
            let is_cold = |value: &V| cold.contains(&(address(value) / REGION));
            add(&self.counters.evicted, shard.evict_those(is_cold));
        }
        // What came in meanwhile, and what somebody held before.
        self.shrink_for(self.budget.headroom());
    }

    /// The regions of memory whose entries were hit least of late, so many that they have `bytes`.
    fn coldest_regions(&self, bytes: usize, address: impl Fn(&V) -> usize) -> HashSet<usize> {
        let mut regions = HashMap::<usize, RegionEntries>::new();
        for shard in &self.shards {
            shard.visit_all(|node| {
                let region = regions.entry(address(&node.value) / REGION).or_default();
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

    /// Evicts from all shards until `bytes` have room or nothing unpinned is left.
    fn shrink_for(&self, bytes: usize) {
        loop {
            let share = self.budget.excess(bytes).div_ceil(self.shards.len());
            let mut progress = 0;
            for shard in &self.shards {
                let (entries, evicted) = shard.shrink(share.min(self.budget.excess(bytes)));
                add(&self.counters.evicted, entries);
                progress += evicted;
            }
            if progress == 0 {
                return self.collect();
            }
        }
    }

    /// Lets the entry with that key go before all others that were not let go, if there is one.
    /// Until then it is found as before, and a hit keeps it. Takes no lock.
    pub fn chill(&self, key: Key) {
        if let Some(node) = self.find(key, &pin()) {
            node.chill();
        }
    }

    /// Lets the entry with that key stay as long as if it were hit now, if there is one. It does
    /// not count as hit. Takes no lock.
    pub fn warm(&self, key: Key) {
        if let Some(node) = self.find(key, &pin()) {
            node.warm();
        }
    }

    /// Erases the entry with that key; answers whether there was one. Whoever holds its value
    /// keeps it, and its charge stays until then.
    pub fn erase(&self, key: Key) -> bool {
        let hash = key.hash();
        if self.find(key, &pin()).is_none() {
            // Without the lock, so that asking for what is not there costs little.
            return false;
        }
        let erased = self.shards[self.home(hash)].erase(hash, key);
        add(&self.counters.erased, usize::from(erased));
        erased
    }

    /// Erases the entries of a file that is gone; answers how many there were.
    ///
    /// An insert for the same file at the same time may stay behind; it ages like any other. Reads
    /// 16 bytes for every entry of the cache, a batch under a lock at a time.
    pub fn erase_file(&self, file: u64) -> usize {
        let erased = self.shards.iter().map(|shard| shard.erase_file(file)).sum();
        add(&self.counters.erased, erased);
        erased
    }

    /// The entries of a file and how hot they are, in the order of their offsets.
    ///
    /// Each was there at some time during the call. Costs as much as [`Cache::erase_file`].
    pub fn resident(&self, file: u64) -> Vec<Resident> {
        let mut found = Vec::new();
        for shard in &self.shards {
            shard.visit_file(file, |node| {
                found.push(Resident {
                    offset: node.key.offset,
                    charge: node.value.charge(),
                    priority: node.priority,
                    was_hit: node.was_hit(),
                    rounds: node.rounds(),
                });
            });
        }
        found.sort_unstable_by_key(|resident| resident.offset);
        found.dedup_by_key(|resident| resident.offset);
        found
    }

    /// Drops evicted and erased values that no reader can see any more. Inserts do so for their
    /// own shards; a background thread that calls this frees what inserts would not come to.
    pub fn collect(&self) {
        self.shards.iter().for_each(Shard::collect);
    }

    /// The bytes it may use: `rocksdb.block-cache-capacity`.
    pub fn capacity(&self) -> usize {
        self.budget.capacity()
    }

    /// The bytes in use: entries, what left the table and is still in memory, and reservations:
    /// `rocksdb.block-cache-usage`.
    pub fn usage(&self) -> usize {
        self.budget.used()
    }

    /// The part of [`Cache::usage`] that evicting cannot free: values that someone holds, in the
    /// table or not, and reservations: `rocksdb.block-cache-pinned-usage`.
    ///
    /// Looks at every entry, a batch under a lock at a time; exact only while nothing changes.
    pub fn pinned_usage(&self) -> usize {
        let unpinned: usize = self.shards.iter().map(Shard::unpinned_bytes).sum();
        self.usage().saturating_sub(self.unlinked_usage()).saturating_sub(unpinned)
    }

    /// The part of [`Cache::usage`] that was evicted or erased and waits for its readers.
    pub fn unlinked_usage(&self) -> usize {
        self.budget.unlinked()
    }

    /// How many entries it has.
    pub fn entries(&self) -> usize {
        self.shards.iter().map(Shard::entries).sum()
    }

    /// What happened since it was made.
    pub fn statistics(&self) -> Statistics {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Statistics {
            inserted: read(&self.counters.inserted),
            present: read(&self.counters.present),
            refused: read(&self.counters.refused),
            evicted: read(&self.counters.evicted),
            erased: read(&self.counters.erased),
        }
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

/// Half of what one counted allocation costs: two counts, and the allocator's header and rounding.
const ARC_AND_ALLOCATION: usize = 16;
/// A place in the ring (16), one in the list of holes (8), and 8 bytes for each of the table's
/// slots, of which at least three in eight are used after the table has doubled.
const RING_AND_TABLE: usize = 16 + 8 + 22;

fn add(counter: &AtomicU64, count: usize) {
    if count > 0 {
        counter.fetch_add(count as u64, Ordering::Relaxed);
    }
}
