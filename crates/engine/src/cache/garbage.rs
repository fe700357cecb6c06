//! Entries that were removed from the cache's hash table, and are kept until no reader can see
//! them.

use std::collections::VecDeque;
use std::sync::Arc;

use super::entry::Node;
use crate::epoch::{self, Epoch};

/// Number of entries that share one epoch stamp, unless their memory is needed sooner. Making a
/// stamp writes a cache line that every reader loads when it pins the epoch. One stamp for several
/// entries saves readers cache misses.
const STAMP_BATCH: usize = 8;

/// A shard's garbage, guarded by the shard's lock: entries that were removed from the hash table,
/// but may still be visible to readers. At some time after its removal, an entry is stamped with
/// the current epoch. The entry can be dropped when no reader is pinned in that epoch or an earlier
/// one.
pub(super) struct Garbage<V> {
    unstamped: Vec<Arc<Node<V>>>,
    unstamped_bytes: usize,
    /// Entries with their stamps, the oldest stamp first.
    stamped: VecDeque<(Epoch, Arc<Node<V>>)>,
}

impl<V> Garbage<V> {
    pub(super) fn new() -> Self {
        Self { unstamped: Vec::new(), unstamped_bytes: 0, stamped: VecDeque::new() }
    }

    /// Adds an entry that was just removed from the cache's hash table.
    pub(super) fn push(&mut self, node: Arc<Node<V>>) {
        self.unstamped_bytes += node.value.charge();
        self.unstamped.push(node);
    }

    /// Removes and returns the entries that no reader can see. The caller drops them after it has
    /// released the lock.
    ///
    /// First stamps the entries that have no epoch stamp yet, if there are [`STAMP_BATCH`] of them
    /// or they hold `stamp_bytes` bytes.
    pub(super) fn take_due(&mut self, stamp_bytes: usize) -> Vec<Arc<Node<V>>> {
        let enough = self.unstamped.len() >= STAMP_BATCH || self.unstamped_bytes >= stamp_bytes;
        if enough && !self.unstamped.is_empty() {
            let epoch = epoch::advance();
            self.unstamped_bytes = 0;
            self.stamped.extend(self.unstamped.drain(..).map(|node| (epoch, node)));
        }
        if self.stamped.is_empty() {
            return Vec::new();
        }
        let oldest = epoch::oldest_pinned();
        let due = self.stamped.partition_point(|(epoch, _)| *epoch < oldest);
        self.stamped.drain(..due).map(|(_, node)| node).collect()
    }
}
