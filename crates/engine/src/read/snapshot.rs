//! Snapshots, which let reads ignore later writes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard};

use tailwater_format::key::Sequence;
use tailwater_io::sync::Mutex;

use crate::read::ReadState;

/// The snapshots that users hold of a database. Flushes and compactions keep the records that these
/// snapshots see.
#[derive(Debug, Default)]
pub(crate) struct SnapshotList {
    held: Mutex<HeldSnapshots>,
    /// Set when a snapshot is released: the sequence number of the oldest snapshot that is left or,
    /// if none is left, the published sequence number. 0 before the first release.
    oldest_at_release: AtomicU64,
}

/// The snapshots that users hold. While this is locked, no snapshot can be taken or released.
#[derive(Debug, Default)]
pub(crate) struct HeldSnapshots {
    /// For each snapshot, the time when it was taken, in seconds since 1970. The key is the
    /// snapshot's sequence number and its `number`.
    taken_s: BTreeMap<(Sequence, u64), u64>,
    /// Number of snapshots taken so far.
    count: u64,
}

impl HeldSnapshots {
    /// Whether there are no snapshots.
    pub(crate) fn is_empty(&self) -> bool {
        self.taken_s.is_empty()
    }
}

/// The state of a database at a point in time, kept as long as any clone of the snapshot lives.
///
/// ```
/// # fn main() -> tailwater::Result<()> {
/// # let directory = tempfile::tempdir().expect("a temporary directory");
/// # let directory = directory.path();
/// # let db = tailwater::Db::open_default(directory)?;
/// use tailwater::ReadOptions;
///
/// db.put("key", "old")?;
/// let snapshot = db.snapshot();
/// db.put("key", "new")?;
/// db.delete("another")?;
///
/// let before = ReadOptions::new().with_snapshot(snapshot);
/// assert_eq!(db.get_opt("key", &before)?.as_deref(), Some(&b"old"[..]));
/// assert_eq!(db.get("key")?.as_deref(), Some(&b"new"[..]));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Snapshot {
    entry: Arc<SnapshotEntry>,
}

#[derive(Debug)]
struct SnapshotEntry {
    sequence: Sequence,
    /// Distinguishes snapshots with the same sequence number.
    number: u64,
    shared: Arc<ReadState>,
}

impl ReadState {
    /// Takes a snapshot of the state that reads see. `now_s` is the current time in seconds since
    /// 1970.
    ///
    /// The sequence number is loaded while the list of snapshots is locked. So a thread that
    /// inspects the list either finds this snapshot in it, or has inspected it before the sequence
    /// number was loaded.
    pub(crate) fn take_snapshot(self: &Arc<Self>, now_s: u64) -> Snapshot {
        let mut held = self.snapshots.lock();
        let sequence = self.published.load(Ordering::Acquire);
        held.count += 1;
        let number = held.count;
        held.taken_s.insert((sequence, number), now_s);
        drop(held);
        let shared = Arc::clone(self);
        Snapshot { entry: Arc::new(SnapshotEntry { sequence, number, shared }) }
    }
}

impl SnapshotList {
    /// Returns a sequence number that is recorded whenever a snapshot is released: that of the
    /// oldest remaining snapshot or, if none remains, the published sequence number at that time. 0
    /// before the first release.
    pub(crate) fn oldest_at_release(&self) -> Sequence {
        self.oldest_at_release.load(Ordering::Relaxed)
    }

    /// Returns the distinct sequence numbers of the snapshots, in ascending order.
    pub(crate) fn sequences(&self) -> Vec<Sequence> {
        let mut sequences: Vec<Sequence> =
            self.lock().taken_s.keys().map(|&(sequence, _)| sequence).collect();
        sequences.dedup();
        sequences
    }

    /// Returns the time when the snapshot with the lowest sequence number was taken, in seconds
    /// since 1970; `None` without snapshots.
    pub(crate) fn oldest_time_s(&self) -> Option<u64> {
        self.lock().taken_s.first_key_value().map(|(_, &taken_s)| taken_s)
    }

    /// Returns the number of snapshots.
    pub(crate) fn count(&self) -> usize {
        self.lock().taken_s.len()
    }

    /// Prevents snapshots from being taken or released until the returned guard is dropped.
    pub(crate) fn lock(&self) -> MutexGuard<'_, HeldSnapshots> {
        self.held.lock()
    }
}

impl Drop for SnapshotEntry {
    fn drop(&mut self) {
        let ReadState { snapshots, published, .. } = &*self.shared;
        let mut held = snapshots.lock();
        held.taken_s.remove(&(self.sequence, self.number));
        let oldest = held.taken_s.keys().next().map(|&(sequence, _)| sequence);
        let oldest = oldest.unwrap_or_else(|| published.load(Ordering::Acquire));
        snapshots.oldest_at_release.store(oldest, Ordering::Relaxed);
    }
}

impl Snapshot {
    /// Whether the snapshot belongs to the database whose read state is `shared`.
    #[inline]
    pub(crate) fn is_of(&self, shared: &Arc<ReadState>) -> bool {
        // Comparing addresses is enough: the snapshot keeps its own read state alive, so the read
        // state of another database cannot be at the same address.
        Arc::ptr_eq(&self.entry.shared, shared)
    }

    /// Returns the highest sequence number visible to the snapshot.
    pub fn sequence_number(&self) -> Sequence {
        self.entry.sequence
    }
}
