//! Cursors of consumers that read segments sequentially.
//!
//! A poll names an offset and no consumer. A consumer that catches up polls from the end of its
//! last poll, so its prefetching scanner is kept under that offset until the next poll. The least
//! recently used cursors are dropped first.

use std::sync::Arc;

use super::{Scanner, Segment};
use crate::catalog::PartitionId;
use crate::sync::Mutex;

/// Maximum number of cursors.
const KEPT_MAX: usize = 32;

/// The end of a poll.
#[derive(Debug)]
pub(crate) struct Cursor {
    /// The segment that it reads and pins.
    pub(crate) segment: Arc<Segment>,
    pub(crate) scanner: Scanner,
}

/// The cursors of all partitions.
#[derive(Debug, Default)]
pub(crate) struct Cursors {
    /// The least recently used first.
    kept: Mutex<Vec<(PartitionId, u64, Cursor)>>,
}

impl Cursors {
    /// Removes and returns the cursor of an offset, in a segment that the partition still has.
    pub(crate) fn take(
        &self,
        id: PartitionId,
        offset: u64,
        segment: &Arc<Segment>,
    ) -> Option<Cursor> {
        let mut kept = self.kept.lock();
        let found = kept.iter().position(|(partition, next, cursor)| {
            *partition == id && *next == offset && Arc::ptr_eq(&cursor.segment, segment)
        })?;
        Some(kept.remove(found).2)
    }

    /// Keeps a cursor under the offset of its next batch.
    pub(crate) fn keep(&self, id: PartitionId, offset: u64, cursor: Cursor) {
        let dropped = {
            let mut kept = self.kept.lock();
            kept.push((id, offset, cursor));
            (kept.len() > KEPT_MAX).then(|| kept.remove(0))
        };
        // Dropping it may wait for requests in flight, so the lock is released first.
        drop(dropped);
    }

    /// Drops a partition's cursors.
    pub(crate) fn forget(&self, id: PartitionId) {
        let (gone, stay) = {
            let mut kept = self.kept.lock();
            std::mem::take(&mut *kept).into_iter().partition(|(partition, _, _)| *partition == id)
        };
        let gone: Vec<_> = gone;
        self.kept.lock().extend::<Vec<_>>(stay);
        drop(gone);
    }
}
