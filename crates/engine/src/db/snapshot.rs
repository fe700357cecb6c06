//! Snapshots: reads that see no later write.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tailwater_format::key::Sequence;

/// The snapshots that a database's users hold, for flush and compaction to keep what they show.
#[derive(Debug, Clone, Default)]
pub(crate) struct SnapshotList {
    /// How many there are of each sequence number.
    held: Arc<Mutex<BTreeMap<Sequence, usize>>>,
}

/// The state of a database at one moment. What it shows is kept for as long as a clone of it lives.
#[derive(Debug, Clone)]
pub struct Snapshot {
    held: Arc<Held>,
}

#[derive(Debug)]
struct Held {
    sequence: Sequence,
    list: SnapshotList,
}

impl SnapshotList {
    /// Holds what `sequence` shows. It is asked for under the list's lock, so that whoever reads
    /// the list sees it or comes first.
    pub(crate) fn take(&self, sequence: impl FnOnce() -> Sequence) -> Snapshot {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let sequence = sequence();
        *held.entry(sequence).or_default() += 1;
        drop(held);
        Snapshot { held: Arc::new(Held { sequence, list: self.clone() }) }
    }

    /// The sequence numbers that are held, in order.
    pub(crate) fn sequences(&self) -> Vec<Sequence> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.keys().copied().collect()
    }

    /// How many snapshots there are.
    pub(crate) fn count(&self) -> usize {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.values().sum()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut held = self.list.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = held.get_mut(&self.sequence) {
            *count -= 1;
            if *count == 0 {
                held.remove(&self.sequence);
            }
        }
    }
}

impl Snapshot {
    /// The highest sequence number it shows.
    pub fn sequence(&self) -> Sequence {
        self.held.sequence
    }
}
