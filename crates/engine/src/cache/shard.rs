//! One part of the cache: a table for readers, and behind a lock the ring that the clock hand
//! walks.
//!
//! # Invariants
//!
//! - An entry is owned by its place in the ring from before it is in the table until after it has
//!   been taken out; then by the garbage, with a stamp made after the taking out, until no reader
//!   can see it.
//! - An entry keeps its place in the ring. A new one takes the place that was freed last, which
//!   is right behind the hand, so that it has a whole round to be hit.
//! - The lock is held for a bounded number of entries at a time, except when the table doubles,
//!   and values are dropped after it has been let go.

#![expect(
    unsafe_code,
    reason = "finding an entry needs the lock or a guard, which callers here hold"
)]

use std::mem;
use std::sync::{Arc, MutexGuard};

use super::budget::Budget;
use super::entry::{Cached, Key, Node, Priority};
use super::garbage::Garbage;
use super::ghosts::Ghosts;
use super::table::Table;
use tailwater_io::sync::Mutex;

use crate::epoch::{self, EpochCell, Guard};

/// The buckets of a new table.
const FIRST_BUCKETS: usize = 8;
/// The entries that the hand looks at, at most, before it takes the coolest of them.
const HAND_STEPS: usize = 256;
/// The entries that are evicted under one holding of the lock while the cache shrinks.
const SHRINK_BATCH: usize = 64;
/// The places of the ring that are searched for a file's entries under one holding of the lock.
const SEARCH_BATCH: usize = 4096;
/// The same where each entry is looked at, which is not in the ring.
const LOOK_BATCH: usize = 512;
/// The entries that such a search may find under one holding of the lock.
const FOUND_BATCH: usize = 128;

/// A place in the ring. The file stands beside the pointer, so that searching for a file's entries
/// reads the ring alone.
struct Place<V> {
    file: u64,
    node: Option<Arc<Node<V>>>,
}

/// What the lock guards.
struct State<V: Send + Sync + 'static> {
    /// The same table that readers see.
    table: Arc<Table<V>>,
    ring: Vec<Place<V>>,
    /// The places of the ring without an entry.
    holes: Vec<usize>,
    hand: usize,
    garbage: Garbage<V>,
}

impl<V: Send + Sync + 'static> State<V> {
    fn entries(&self) -> usize {
        self.ring.len() - self.holes.len()
    }

    fn find(&self, hash: u64, key: Key) -> Option<&Node<V>> {
        // SAFETY: a borrowed state is a held lock.
        unsafe { self.table.find(hash, key) }
    }

    fn link(&mut self, key: Key, hash: u64, value: Arc<Cached<V>>, priority: Priority) {
        let position = self.holes.pop().unwrap_or_else(|| {
            self.ring.push(Place { file: key.file, node: None });
            self.ring.len() - 1
        });
        let node = Arc::new(Node::new(key, value, priority, position));
        self.table.insert(hash, Arc::as_ptr(&node));
        self.ring[position] = Place { file: key.file, node: Some(node) };
    }

    /// Takes the entry in that place out of the table and answers its charge.
    fn unlink(&mut self, position: usize) -> usize {
        let Some(node) = self.ring[position].node.take() else { return 0 };
        self.table.remove(node.key.hash(), Arc::as_ptr(&node));
        self.holes.push(position);
        let charge = node.value.charge();
        self.garbage.push(node);
        charge
    }

    /// Moves the hand on to an entry that nobody holds and that has no round left; if it meets
    /// none in [`HAND_STEPS`] entries, to the one with the fewest.
    fn next_victim(&mut self) -> Option<usize> {
        let mut coolest: Option<(u8, usize)> = None;
        let mut looked = 0;
        for _ in 0..self.ring.len().max(HAND_STEPS) {
            if looked == HAND_STEPS || self.ring.is_empty() {
                break;
            }
            let position = self.hand % self.ring.len();
            self.hand = position + 1;
            let Some(node) = &self.ring[position].node else { continue };
            looked += 1;
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

    /// Evicts up to `limit` entries until `bytes` are on their way out; answers how many entries
    /// and bytes that were.
    fn evict(&mut self, bytes: usize, limit: usize, ghosts: Option<&Ghosts>) -> (usize, usize) {
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
        (entries, evicted)
    }
}

/// The lock on cache lines of its own: readers look at the table's pointer beside it.
#[repr(align(128))]
struct Locked<V: Send + Sync + 'static>(Mutex<State<V>>);

/// One part of the cache.
#[repr(align(128))]
pub(super) struct Shard<V: Send + Sync + 'static> {
    table: EpochCell<Table<V>>,
    state: Locked<V>,
    budget: Arc<Budget>,
    /// How many shards share the headroom.
    shards: usize,
    /// What was evicted lately, where that is kept account of.
    ghosts: Option<Arc<Ghosts>>,
}

impl<V: Send + Sync + 'static> Shard<V> {
    /// One of `shards` parts.
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

    /// The entry with that key.
    #[inline]
    pub(super) fn find<'g>(&self, hash: u64, key: Key, guard: &'g Guard) -> Option<&'g Node<V>> {
        let table = self.table.load(guard)?;
        // SAFETY: `guard` lives for 'g, and entries removed from the table wait in the garbage for
        // every guard that was there.
        unsafe { table.find(hash, key) }
    }

    /// Puts a value in and evicts as much as it takes, or answers the value that was there first.
    /// Also says how many entries were evicted.
    pub(super) fn insert(
        &self,
        key: Key,
        hash: u64,
        value: &Arc<Cached<V>>,
        priority: Priority,
    ) -> Result<usize, Arc<Cached<V>>> {
        let mut state = self.lock();
        if let Some(node) = state.find(hash, key) {
            return Err(Arc::clone(&node.value));
        }
        if state.entries() == state.table.limit() {
            self.grow(&mut state);
        }
        state.link(key, hash, Arc::clone(value), priority);
        // Twice its own size: a shard that took more than its share gives it back.
        let excess = self.budget.excess(self.budget.headroom());
        let wanted = excess.min(value.charge().saturating_mul(2));
        let (evicted, _) = self.evict(&mut state, wanted, usize::MAX);
        let due = self.take_due(&mut state, false);
        drop(state);
        self.discard(due);
        Ok(evicted)
    }

    /// Replaces the table by one of twice the size.
    ///
    /// Readers go on in the old one, and miss what is inserted after. They may also find there what
    /// is removed after; but it is stamped after the old table was replaced, so it waits for all
    /// who can still be in there.
    fn grow(&self, state: &mut State<V>) {
        let table = Arc::new(Table::new(state.table.buckets() * 2));
        for node in state.ring.iter().filter_map(|place| place.node.as_ref()) {
            table.insert(node.key.hash(), Arc::as_ptr(node));
        }
        state.table = Arc::clone(&table);
        self.table.store(Some(table));
    }

    fn evict(&self, state: &mut State<V>, bytes: usize, limit: usize) -> (usize, usize) {
        let (entries, evicted) = state.evict(bytes, limit, self.ghosts.as_deref());
        self.budget.unlink(evicted);
        (entries, evicted)
    }

    /// Takes out of the garbage what can go. `now` stamps what has no stamp yet, for when room is
    /// needed.
    fn take_due(&self, state: &mut State<V>, now: bool) -> Vec<Arc<Node<V>>> {
        let share = if now { 0 } else { self.budget.headroom() / self.shards };
        state.garbage.take_due(share / 2)
    }

    fn discard(&self, due: Vec<Arc<Node<V>>>) {
        let bytes = due.iter().map(|node| node.value.charge()).sum();
        // First the bytes come back, then they stop waiting: the other way round, someone would
        // evict for them a second time.
        drop(due);
        self.budget.settle(bytes);
    }

    /// Drops the garbage that no reader can see any more.
    pub(super) fn collect(&self) {
        let due = {
            let mut state = self.lock();
            self.take_due(&mut state, true)
        };
        self.discard(due);
    }

    /// Evicts so that `bytes` have room, or as much as this shard can do about it at once; answers
    /// how many entries went.
    pub(super) fn make_room(&self, bytes: usize) -> usize {
        let wanted = self.budget.excess(bytes).min(bytes.saturating_mul(2));
        let mut state = self.lock();
        let (entries, _) = self.evict(&mut state, wanted, usize::MAX);
        let due = self.take_due(&mut state, true);
        drop(state);
        self.discard(due);
        entries
    }

    /// Evicts `bytes`, or everything that is not pinned, a batch at a time; answers how many
    /// entries and bytes went.
    pub(super) fn shrink(&self, bytes: usize) -> (usize, usize) {
        let (mut entries, mut evicted, mut barren) = (0, 0, 0);
        while evicted < bytes {
            let mut state = self.lock();
            // Not the ghosts' business: the cache was made smaller on purpose.
            let batch = state.evict(bytes - evicted, SHRINK_BATCH, None);
            self.budget.unlink(batch.1);
            let due = self.take_due(&mut state, true);
            let places = state.ring.len();
            drop(state);
            self.discard(due);
            entries += batch.0;
            evicted += batch.1;
            // The hand has to come round once without a victim before there is none.
            barren = if batch.0 == 0 { barren + HAND_STEPS } else { 0 };
            if batch.0 == 0 && barren >= places {
                break;
            }
        }
        (entries, evicted)
    }

    /// Takes the entry with that key out; answers whether there was one.
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

    /// Takes the entries of a file out, a batch at a time; answers how many.
    pub(super) fn erase_file(&self, file: u64) -> usize {
        self.take_out(SEARCH_BATCH, |place| place.file == file)
    }

    /// Evicts the entries that nobody holds and whose value is one of those, a batch at a time;
    /// answers how many.
    pub(super) fn evict_those(&self, is_one: impl Fn(&V) -> bool) -> usize {
        self.take_out(LOOK_BATCH, |place| {
            place.node.as_ref().is_some_and(|node| !node.is_pinned() && is_one(&node.value))
        })
    }

    fn take_out(&self, batch: usize, is_wanted: impl Fn(&Place<V>) -> bool) -> usize {
        let mut taken = 0;
        self.search(batch, is_wanted, |state, position| {
            self.budget.unlink(state.unlink(position));
            taken += 1;
        });
        taken
    }

    /// Shows every entry of a file, in no order.
    pub(super) fn visit_file(&self, file: u64, visit: impl FnMut(&Node<V>)) {
        self.visit(SEARCH_BATCH, |place| place.file == file, visit);
    }

    /// Shows every entry, in no order.
    pub(super) fn visit_all(&self, visit: impl FnMut(&Node<V>)) {
        self.visit(LOOK_BATCH, |_| true, visit);
    }

    fn visit(
        &self,
        batch: usize,
        is_wanted: impl Fn(&Place<V>) -> bool,
        mut visit: impl FnMut(&Node<V>),
    ) {
        self.search(batch, is_wanted, |state, position| {
            if let Some(node) = &state.ring[position].node {
                visit(node);
            }
        });
    }

    /// Calls `found` with each place that holds an entry and is wanted, a batch of places at a
    /// time. Entries keep their places, so each that stays during the search is found.
    fn search(
        &self,
        batch: usize,
        is_wanted: impl Fn(&Place<V>) -> bool,
        mut found: impl FnMut(&mut State<V>, usize),
    ) {
        let (mut position, mut finished) = (0, false);
        while !finished {
            let mut state = self.lock();
            let end = state.ring.len().min(position + batch);
            let mut count = 0;
            while position < end && count < FOUND_BATCH {
                let place = &state.ring[position];
                if place.node.is_some() && is_wanted(place) {
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

    /// How many entries it has.
    pub(super) fn entries(&self) -> usize {
        self.lock().entries()
    }

    /// The bytes of the entries that nobody outside the cache holds.
    pub(super) fn unpinned_bytes(&self) -> usize {
        let (mut bytes, mut start) = (0, 0);
        loop {
            let state = self.lock();
            let end = state.ring.len().min(start + SEARCH_BATCH);
            let nodes = state.ring[start..end].iter().filter_map(|place| place.node.as_ref());
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
    /// The entries wait for their readers, since a borrow is bound to its guard and not to the
    /// cache. Nobody can look for them any more, so they count as unlinked.
    fn drop(&mut self) {
        let state = self.state.0.get_mut();
        let ring = mem::take(&mut state.ring);
        epoch::retire((
            ring.into_iter().filter_map(|place| place.node).collect::<Vec<_>>(),
            mem::replace(&mut state.garbage, Garbage::new()),
        ));
    }
}
