//! Snapshots: reads that see no later write.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard};

use tailwater_format::key::Sequence;
use tailwater_io::sync::Mutex;

use crate::db::Shared;

/// The snapshots that a database's users hold, for flush and compaction to keep what they show.
#[derive(Debug, Default)]
pub(crate) struct SnapshotList {
    held: Mutex<HeldMoments>,
    /// The oldest that was left when one was last released, or what reads saw then if none was; 0
    /// before.
    oldest_at_release: AtomicU64,
}

#[derive(Debug, Default)]
struct HeldMoments {
    /// When each was taken, in seconds since 1970, by its sequence number and its own number.
    taken_s: BTreeMap<(Sequence, u64), u64>,
    /// How many were taken.
    count: u64,
}

/// While it lives no snapshot is taken or released: whoever wants to waits.
#[derive(Debug)]
pub(crate) struct HeldStill<'a> {
    held: MutexGuard<'a, HeldMoments>,
}

impl HeldStill<'_> {
    /// Whether there are no snapshots.
    pub(crate) fn is_empty(&self) -> bool {
        self.held.taken_s.is_empty()
    }
}

/// The state of a database at one moment. What it shows is kept for as long as a clone of it lives.
#[derive(Debug, Clone)]
pub struct Snapshot {
    held: Arc<Held>,
}

#[derive(Debug)]
struct Held {
    sequence: Sequence,
    /// Tells it from others at the same sequence number.
    number: u64,
    shared: Arc<Shared>,
}

impl Shared {
    /// Holds what reads see now, from `now_s` on, in seconds since 1970. What they see is asked for
    /// under the list's lock, so that whoever reads the list sees the snapshot or comes first.
    pub(crate) fn take_snapshot(self: &Arc<Self>, now_s: u64) -> Snapshot {
        let mut held = self.snapshots.lock();
        let sequence = self.published.load(Ordering::Acquire);
        held.count += 1;
        let number = held.count;
        held.taken_s.insert((sequence, number), now_s);
        drop(held);
        Snapshot { held: Arc::new(Held { sequence, number, shared: Arc::clone(self) }) }
    }
}

impl SnapshotList {
    /// The oldest snapshot that was left when one was last released, or what reads saw then if none
    /// was; 0 before the first release.
    pub(crate) fn oldest_at_release(&self) -> Sequence {
        self.oldest_at_release.load(Ordering::Relaxed)
    }

    /// The sequence numbers that are held, in order.
    pub(crate) fn sequences(&self) -> Vec<Sequence> {
        let mut sequences: Vec<Sequence> =
            self.lock().taken_s.keys().map(|&(sequence, _)| sequence).collect();
        sequences.dedup();
        sequences
    }

    /// When the oldest snapshot was taken, in seconds since 1970, if there is any.
    pub(crate) fn oldest_time_s(&self) -> Option<u64> {
        self.lock().taken_s.first_key_value().map(|(_, &taken_s)| taken_s)
    }

    /// How many snapshots there are.
    pub(crate) fn count(&self) -> usize {
        self.lock().taken_s.len()
    }

    /// Keeps the snapshots as they are until what this answers is dropped.
    pub(crate) fn hold_still(&self) -> HeldStill<'_> {
        HeldStill { held: self.lock() }
    }

    fn lock(&self) -> MutexGuard<'_, HeldMoments> {
        self.held.lock()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let Shared { snapshots, published, .. } = &*self.shared;
        let mut held = snapshots.lock();
        held.taken_s.remove(&(self.sequence, self.number));
        let oldest = held.taken_s.keys().next().map(|&(sequence, _)| sequence);
        let oldest = oldest.unwrap_or_else(|| published.load(Ordering::Acquire));
        snapshots.oldest_at_release.store(oldest, Ordering::Relaxed);
    }
}

impl Snapshot {
    /// Whether it is of the database that has this.
    #[inline]
    pub(crate) fn is_of(&self, shared: &Arc<Shared>) -> bool {
        // The snapshot keeps what it points to, so no other has its address.
        Arc::ptr_eq(&self.held.shared, shared)
    }

    /// The highest sequence number it shows.
    pub fn sequence(&self) -> Sequence {
        self.held.sequence
    }
}
