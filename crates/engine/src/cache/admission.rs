//! Admission: reserves bytes of the capacity for new entries and for memory outside the cache, and
//! evicts entries to make room.
//!
//! Bytes that were evicted become free only when no reader's guard can see them. An insert does not
//! wait for that: it uses the headroom instead, or is refused. If the refusal makes a read fail, as
//! in a strict cache, the insert waits for the readers first, for a bounded time.

use std::iter;
use std::sync::atomic::{AtomicUsize, Ordering};

use tailwater_io::Clock;
use tailwater_io::clock::SystemClock;

use super::{Cache, OutsideCharge, Reservation};

/// Maximum number of other shards from which an insert evicts, in addition to its own.
const NEIGHBOURS: usize = 3;

/// The first pause, in nanoseconds, of an insert into a strict cache that waits for readers. Each
/// later pause is twice as long.
const FIRST_PAUSE_NS: u64 = 16_000;
/// Number of pauses of such an insert. Together they last 65 ms.
const PAUSES: u32 = 12;

/// An insert evicts from its own shard, and from other shards if necessary. This counter selects
/// the other shards, round-robin. It has its own cache line.
#[repr(align(128))]
#[derive(Default)]
pub(super) struct Turn(AtomicUsize);

impl<V: Send + Sync + 'static> Cache<V> {
    /// Whether the capacity is strict, as with RocksDB's `strict_capacity_limit`: a value that the
    /// cache refuses must not be used, so that values in use by readers do not exceed the capacity,
    /// either.
    pub(crate) fn is_strict(&self) -> bool {
        self.strict.load(Ordering::Relaxed)
    }

    /// Sets whether the capacity is strict.
    pub(crate) fn set_strict(&self, is_strict: bool) {
        self.strict.store(is_strict, Ordering::Relaxed);
    }

    /// Charges memory outside the cache, until the charge is dropped. Evicts entries to make
    /// room. If pinned bytes leave no room, the bytes in use exceed the capacity; if the cache is
    /// strict, returns `None` instead.
    pub(crate) fn charge(&self, bytes: usize) -> Option<OutsideCharge> {
        if let Some(room) = self.budget.reserve(bytes) {
            return Some(room.for_outside());
        }
        if self.is_strict() && bytes > self.capacity() {
            return None;
        }
        self.shrink_for(bytes);
        match self.is_strict() {
            true => self.budget.reserve(bytes).map(Reservation::for_outside),
            false => Some(self.budget.charge(bytes)),
        }
    }

    /// Like [`Self::charge`], but if the cache is strict, waits for readers.
    pub(crate) fn charge_or_wait(&self, bytes: usize) -> Option<OutsideCharge> {
        if !self.is_strict() {
            return self.charge(bytes);
        }
        let room = self.budget.reserve(bytes).or_else(|| self.admit_patiently(bytes));
        room.map(Reservation::for_outside)
    }

    /// Like [`Self::charge`], but takes no lock, and so evicts nothing: the inserts that follow do.
    /// For threads of low priority.
    pub(crate) fn charge_without_lock(&self, bytes: usize) -> Option<OutsideCharge> {
        let room = self.budget.reserve(bytes).map(Reservation::for_outside);
        room.or_else(|| (!self.is_strict()).then(|| self.budget.charge(bytes)))
    }

    /// Reserves `bytes` for an insert into the shard with index `home`, evicting entries if needed.
    /// Returns `None` if this did not free enough.
    pub(super) fn admit(&self, home: usize, bytes: usize) -> Option<Reservation> {
        if let Some(room) = self.budget.reserve(bytes) {
            return Some(room);
        }
        if bytes > self.capacity() {
            return None;
        }
        self.collect();
        let turn = self.turn.0.fetch_add(1, Ordering::Relaxed);
        let neighbours = (0..NEIGHBOURS).map(|step| turn.wrapping_add(step) % self.shards.len());
        for shard in iter::once(home).chain(neighbours) {
            if let Some(room) = self.budget.reserve(bytes) {
                return Some(room);
            }
            self.shards[shard].make_room(bytes);
        }
        self.budget.reserve(bytes)
    }

    /// Like [`Self::admit`], but if the cache is strict, waits for readers.
    pub(super) fn admit_or_wait(&self, home: usize, bytes: usize) -> Option<Reservation> {
        let room = self.admit(home, bytes);
        if room.is_none() && self.is_strict() { self.admit_patiently(bytes) } else { room }
    }

    /// Reserves `bytes`. Evicts from all shards, and waits until readers that may see evicted
    /// entries have left. Returns `None` if pinned bytes leave no room, or if a reader stays for
    /// longer than the pauses.
    #[cold]
    fn admit_patiently(&self, bytes: usize) -> Option<Reservation> {
        for pause in 0..PAUSES {
            if bytes > self.capacity() {
                return None;
            }
            self.shrink_for(bytes);
            if let Some(room) = self.budget.reserve(bytes) {
                return Some(room);
            }
            // Otherwise, another thread may just have used what was evicted.
            let is_pinned = || self.pinned_usage().saturating_add(bytes) > self.capacity();
            if self.unlinked_usage() == 0 && is_pinned() {
                return None;
            }
            SystemClock.sleep_until(SystemClock.monotonic_ns() + (FIRST_PAUSE_NS << pause));
        }
        self.collect();
        self.budget.reserve(bytes)
    }

    /// Evicts from all shards, until `bytes` more fit or no unpinned entry is left.
    pub(super) fn shrink_for(&self, bytes: usize) {
        loop {
            let share = self.budget.excess(bytes).div_ceil(self.shards.len());
            let mut progress = 0;
            for shard in &self.shards {
                progress += shard.shrink(share.min(self.budget.excess(bytes)));
            }
            if progress == 0 {
                return self.collect();
            }
        }
    }
}
