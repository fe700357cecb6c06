//! A shard of the cache: a table for lock-free readers, and a locked ring for the clock hand.
//!
//! # Invariants
//!
//! - An entry is owned by its slot in the ring from before its insertion into the table until after
//!   its removal from the table. Then it is owned by the garbage, with an epoch stamp made after
//!   the removal, until no reader can see it.
//! - An entry keeps its slot in the ring. A new entry gets the slot that was freed last. That slot
//!   is usually just behind the hand, so the hand goes once around the ring before it reaches the
//!   new entry.
//! - The lock is held for a bounded number of entries at a time, except when the table doubles.
//!   Values are dropped after the lock was released.

#![expect(
    unsafe_code,
    reason = "finding an entry needs the lock or a guard, which callers here hold"
)]

use std::mem;
use std::sync::{Arc, MutexGuard};

use super::Stage;
use super::budget::Budget;
use super::entry::{Cached, Key, Node, Priority};
use super::garbage::Garbage;
use super::ghosts::Ghosts;
use super::table::Table;
use tailwater_io::sync::Mutex;

use crate::epoch::{Bin, EpochCell, Guard};

/// Number of buckets of a new table.
const FIRST_BUCKETS: usize = 8;
/// Maximum number of entries that the clock hand examines for one eviction. If all of them survive
/// this pass of the hand, the entry that survives the fewest further passes is evicted.
const HAND_STEPS: usize = 256;
/// Maximum number of entries evicted under one holding of the lock while the cache shrinks.
const SHRINK_BATCH: usize = 64;
/// Number of ring slots searched for a file's entries under one holding of the lock.
const SEARCH_BATCH: usize = 4096;
/// Number of ring slots searched under one holding of the lock if the search also reads the entries
/// to which the slots point.
const LOOK_BATCH: usize = 512;
/// Maximum number of entries found by a search under one holding of the lock.
const FOUND_BATCH: usize = 128;

/// A slot of the ring. The file number is stored next to the pointer, so that a search for a file's
/// entries reads the ring and not the entries.
struct RingSlot<V> {
    file: u64,
    node: Option<Arc<Node<V>>>,
}

/// The part of a shard that its lock protects.
struct State<V: Send + Sync + 'static> {
    /// The hash table of the entries. Readers access it without the shard's lock.
    table: Arc<Table<V>>,
    ring: Vec<RingSlot<V>>,
    /// Indexes of the ring slots without an entry.
    holes: Vec<usize>,
    hand: usize,
    garbage: Garbage<V>,
}

impl<V: Send + Sync + 'static> State<V> {
    fn entries(&self) -> usize {
        self.ring.len() - self.holes.len()
    }

    fn find(&self, hash: u64, key: Key) -> Option<&Node<V>> {
        // SAFETY: the borrower of the state holds the shard's lock, which every writer of the table
        // holds, too.
        unsafe { self.table.find(hash, key) }
    }

    fn link(&mut self, key: Key, hash: u64, value: Arc<Cached<V>>, priority: Priority) {
        let position = self.holes.pop().unwrap_or_else(|| {
            self.ring.push(RingSlot { file: key.file, node: None });
            self.ring.len() - 1
        });
        let node = Arc::new(Node::new(key, value, priority, position));
        self.table.insert(hash, Arc::as_ptr(&node));
        self.ring[position] = RingSlot { file: key.file, node: Some(node) };
    }

    /// Removes the entry in a ring slot from the table and the ring, and adds it to the garbage.
    /// Returns its charge, in bytes.
    fn unlink(&mut self, position: usize) -> usize {
        let Some(node) = self.ring[position].node.take() else { return 0 };
        self.table.remove(node.key.hash(), Arc::as_ptr(&node));
        self.holes.push(position);
        let charge = node.value.charge();
        self.garbage.push(node);
        charge
    }

    /// Advances the clock hand to the next unpinned entry that has no rounds left (further passes
    /// of the hand that it survives). If none of the next [`HAND_STEPS`] entries is such an entry,
    /// selects the unpinned one among them with the fewest rounds left. Returns the index of the
    /// entry's ring slot; `None` if all examined entries are pinned.
    fn next_victim(&mut self) -> Option<usize> {
        let mut coolest: Option<(u8, usize)> = None;
        let mut visited = 0;
        for _ in 0..self.ring.len().max(HAND_STEPS) {
            if visited == HAND_STEPS || self.ring.is_empty() {
                break;
            }
            let position = self.hand % self.ring.len();
            self.hand = position + 1;
            let Some(node) = &self.ring[position].node else { continue };
            visited += 1;
            if node.is_pinned() {
                continue;
            }
            if !node.cool() {
                return Some(position);
            }
            let rounds = node.rounds();
            if coolest.is_none_or(|(fewest, _)| rounds < fewest) {
                coolest = Some((rounds, position));
            }
        }
        coolest.map(|(_, position)| position)
    }

    /// Evicts entries until their charges add up to at least `bytes`, or `limit` entries are
    /// evicted, or no victim is found. Returns the number of bytes evicted.
    fn evict(&mut self, bytes: usize, limit: usize, ghosts: Option<&Ghosts>) -> usize {
        let (mut entries, mut evicted) = (0, 0);
        while evicted < bytes && entries < limit {
            let Some(position) = self.next_victim() else { break };
            let hash = self.ring[position].node.as_ref().map(|node| node.key.hash());
            let charge = self.unlink(position);
            if let (Some(ghosts), Some(hash)) = (ghosts, hash) {
                ghosts.evicted(hash, charge);
            }
            evicted += charge;
            entries += 1;
        }
        evicted
    }
}

/// The lock and the state that it guards. They have cache lines of their own, so that writes under
/// the lock do not slow down readers, which load the table's pointer.
#[repr(align(128))]
struct Locked<V: Send + Sync + 'static>(Mutex<State<V>>);

/// A shard of the cache.
#[repr(align(128))]
pub(super) struct Shard<V: Send + Sync + 'static> {
    table: EpochCell<Table<V>>,
    state: Locked<V>,
    budget: Arc<Budget>,
    /// Number of shards of the cache. Each shard has an equal share of the headroom, the part of
    /// the cache's capacity that evictions try to keep free.
    shards: usize,
    /// Recently evicted keys, if they are tracked.
    ghosts: Option<Arc<Ghosts>>,
}

impl<V: Send + Sync + 'static> Shard<V> {
    /// Creates one of `shards` shards.
    pub(super) fn new(budget: &Arc<Budget>, shards: usize, ghosts: Option<Arc<Ghosts>>) -> Self {
        let table = Arc::new(Table::new(FIRST_BUCKETS));
        let state = State {
            table: Arc::clone(&table),
            ring: Vec::new(),
            holes: Vec::new(),
            hand: 0,
            garbage: Garbage::new(),
        };
        Self {
            table: EpochCell::new(Some(table)),
            state: Locked(Mutex::new(state)),
            budget: Arc::clone(budget),
            shards,
            ghosts,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<V>> {
        self.state.0.lock()
    }

    /// Returns the entry of a key.
    #[inline]
    pub(super) fn find<'g>(&self, hash: u64, key: Key, guard: &'g Guard) -> Option<&'g Node<V>> {
        let table = self.table.load(guard)?;
        // SAFETY: `guard` lives for 'g, and an entry removed from the table stays in the garbage
        // until all guards that may see it are gone.
        unsafe { table.find(hash, key) }
    }

    /// Prefetches what a search for a key reads first, up to `stage`.
    #[inline]
    pub(super) fn prefetch(&self, hash: u64, key: Key, stage: Stage, guard: &Guard) {
        let Some(table) = self.table.load(guard) else { return };
        match stage {
            Stage::Bucket => table.prefetch_bucket(hash),
            Stage::Entry => table.prefetch_entries(hash),
            Stage::Value => {
                if let Some(node) = self.find(hash, key, guard) {
                    node.prefetch_value();
                }
            }
        }
    }

    /// Inserts a value, and evicts entries as needed. If the key already has a value, returns that
    /// value as the error.
    pub(super) fn insert(
        &self,
        key: Key,
        hash: u64,
        value: &Arc<Cached<V>>,
        priority: Priority,
    ) -> Result<(), Arc<Cached<V>>> {
        let mut state = self.lock();
        if let Some(node) = state.find(hash, key) {
            return Err(Arc::clone(&node.value));
        }
        if state.entries() == state.table.limit() {
            self.grow(&mut state);
        }
        state.link(key, hash, Arc::clone(value), priority);
        // Evicting up to twice the size of the inserted value lets a shard that exceeds its share
        // of the capacity shrink back to that share.
        let excess = self.budget.excess(self.budget.headroom());
        let wanted = excess.min(value.charge().saturating_mul(2));
        self.evict(&mut state, wanted);
        let due = self.take_due(&mut state, false);
        drop(state);
        self.discard(due);
        Ok(())
    }

    /// Replaces the table with one of twice the size.
    ///
    /// Readers that still use the old table miss later inserts. They may also find entries that are
    /// removed later. Such an entry gets its epoch stamp after the replacement, so the entry is
    /// kept until all readers have left the old table.
    fn grow(&self, state: &mut State<V>) {
        let table = Arc::new(Table::new(state.table.buckets() * 2));
        for node in state.ring.iter().filter_map(|slot| slot.node.as_ref()) {
            table.insert(node.key.hash(), Arc::as_ptr(node));
        }
        state.table = Arc::clone(&table);
        self.table.store(Some(table));
    }

    fn evict(&self, state: &mut State<V>, bytes: usize) {
        let evicted = state.evict(bytes, usize::MAX, self.ghosts.as_deref());
        self.budget.unlink(evicted);
    }

    /// Removes from the garbage the entries that no reader can see, and returns them. Usually,
    /// entries get their epoch stamps in batches, and an entry without a stamp is not returned.
    /// With `now`, first stamps all entries of the garbage, because their memory is needed
    /// immediately.
    fn take_due(&self, state: &mut State<V>, now: bool) -> Vec<Arc<Node<V>>> {
        let share = if now { 0 } else { self.budget.headroom() / self.shards };
        state.garbage.take_due(share / 2)
    }

    fn discard(&self, due: Vec<Arc<Node<V>>>) {
        let bytes = due.iter().map(|node| node.value.charge()).sum();
        // Dropping an entry lowers `used`, and `settle` lowers `unlinked`. Evictions treat `used`
        // minus `unlinked` as the bytes in use. If `unlinked` were lowered first, another thread
        // could see too large a difference and evict too much.
        drop(due);
        self.budget.settle(bytes);
    }

    /// Drops the garbage that no reader can see.
    pub(super) fn collect(&self) {
        let due = {
            let mut state = self.lock();
            self.take_due(&mut state, true)
        };
        self.discard(due);
    }

    /// Evicts entries of this shard until `bytes` more fit into the cache, but at most twice
    /// `bytes`.
    pub(super) fn make_room(&self, bytes: usize) {
        let wanted = self.budget.excess(bytes).min(bytes.saturating_mul(2));
        let mut state = self.lock();
        self.evict(&mut state, wanted);
        let due = self.take_due(&mut state, true);
        drop(state);
        self.discard(due);
    }

    /// Evicts at least `bytes`, or all unpinned entries if they are fewer, a batch at a time.
    /// Returns the number of bytes evicted.
    pub(super) fn shrink(&self, bytes: usize) -> usize {
        let (mut evicted, mut barren) = (0, 0);
        while evicted < bytes {
            let mut state = self.lock();
            // These evictions are not recorded as ghosts, because the cache shrinks on purpose.
            let batch = state.evict(bytes - evicted, SHRINK_BATCH, None);
            self.budget.unlink(batch);
            let due = self.take_due(&mut state, true);
            let places = state.ring.len();
            drop(state);
            self.discard(due);
            evicted += batch;
            // If nothing was evicted, the entries that the hand examined, at most HAND_STEPS, are
            // all pinned. `barren` counts such entries. When it reaches the length of the ring, the
            // hand has gone around the ring, and the shard has no unpinned entry left.
            barren = if batch == 0 { barren + HAND_STEPS } else { 0 };
            if batch == 0 && barren >= places {
                break;
            }
        }
        evicted
    }

    /// Removes the entry of a key. Returns whether there was one.
    pub(super) fn erase(&self, hash: u64, key: Key) -> bool {
        let mut state = self.lock();
        let Some(position) = state.find(hash, key).map(|node| node.position) else {
            return false;
        };
        self.budget.unlink(state.unlink(position));
        let due = self.take_due(&mut state, true);
        drop(state);
        self.discard(due);
        true
    }

    /// Removes the entries of a file, a batch at a time. Returns their number.
    pub(super) fn erase_file(&self, file: u64) -> usize {
        self.take_out(SEARCH_BATCH, |slot| slot.file == file)
    }

    /// Evicts the unpinned entries whose values satisfy `is_one`, a batch at a time.
    pub(super) fn evict_those(&self, is_one: impl Fn(&V) -> bool) {
        self.take_out(LOOK_BATCH, |slot| {
            slot.node.as_ref().is_some_and(|node| !node.is_pinned() && is_one(&node.value))
        });
    }

    fn take_out(&self, batch: usize, is_wanted: impl Fn(&RingSlot<V>) -> bool) -> usize {
        let mut taken = 0;
        self.search(batch, is_wanted, |state, position| {
            self.budget.unlink(state.unlink(position));
            taken += 1;
        });
        taken
    }

    /// Visits every entry, in no particular order.
    pub(super) fn visit_all(&self, mut visit: impl FnMut(&Node<V>)) {
        self.search(
            LOOK_BATCH,
            |_| true,
            |state, position| {
                if let Some(node) = &state.ring[position].node {
                    visit(node);
                }
            },
        );
    }

    /// Calls `found` with the index of each occupied ring slot that satisfies `is_wanted`. The lock
    /// is released after each batch of slots. Entries keep their slots, so every entry that stays
    /// in the ring during the search is found.
    fn search(
        &self,
        batch: usize,
        is_wanted: impl Fn(&RingSlot<V>) -> bool,
        mut found: impl FnMut(&mut State<V>, usize),
    ) {
        let (mut position, mut finished) = (0, false);
        while !finished {
            let mut state = self.lock();
            let end = state.ring.len().min(position + batch);
            let mut count = 0;
            while position < end && count < FOUND_BATCH {
                let slot = &state.ring[position];
                if slot.node.is_some() && is_wanted(slot) {
                    found(&mut state, position);
                    count += 1;
                }
                position += 1;
            }
            finished = position >= state.ring.len();
            let due = self.take_due(&mut state, true);
            drop(state);
            self.discard(due);
        }
    }

    /// Returns the number of entries.
    pub(super) fn entries(&self) -> usize {
        self.lock().entries()
    }

    /// Returns the number of slots of the hash table.
    pub(super) fn slots(&self) -> usize {
        self.lock().table.slots()
    }

    /// Returns the total charge of the unpinned entries, in bytes.
    pub(super) fn unpinned_bytes(&self) -> usize {
        let (mut bytes, mut start) = (0, 0);
        loop {
            let state = self.lock();
            let end = state.ring.len().min(start + SEARCH_BATCH);
            let nodes = state.ring[start..end].iter().filter_map(|slot| slot.node.as_ref());
            bytes += nodes
                .filter(|node| !node.is_pinned())
                .map(|node| node.value.charge())
                .sum::<usize>();
            if end == state.ring.len() {
                return bytes;
            }
            start = end;
        }
    }
}

impl<V: Send + Sync + 'static> Drop for Shard<V> {
    /// Releases the entries rather than dropping them: a reader may use an entry as long as its
    /// guard lives, even after the cache was dropped.
    fn drop(&mut self) {
        let state = self.state.0.get_mut();
        let ring = mem::take(&mut state.ring);
        Bin::default().release((
            ring.into_iter().filter_map(|slot| slot.node).collect::<Vec<_>>(),
            mem::replace(&mut state.garbage, Garbage::new()),
        ));
    }
}
