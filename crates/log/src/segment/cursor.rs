//! Consumers that read old segments one poll after the other.
//!
//! A poll says where it begins and nothing of who polls. A consumer that catches up polls from
//! where its last poll ended, so what reads ahead for it is kept under that offset until the next
//! poll asks for it. Cursors that nobody takes up again go, the least recently used first.

use std::sync::Arc;

use super::{Scanner, Segment};
use crate::catalog::PartitionId;
use crate::sync::Mutex;

/// Number of cursors that are kept.
const KEPT_MAX: usize = 32;

/// Where a poll ended.
#[derive(Debug)]
pub(crate) struct Cursor {
    /// The segment it reads, which it pins.
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
    /// Takes out the cursor whose next batch has an offset, in a segment that the partition still
    /// has.
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

    /// Keeps a cursor whose next batch has an offset.
    pub(crate) fn keep(&self, id: PartitionId, offset: u64, cursor: Cursor) {
        let dropped = {
            let mut kept = self.kept.lock();
            kept.push((id, offset, cursor));
            (kept.len() > KEPT_MAX).then(|| kept.remove(0))
        };
        // It may wait for requests in flight: not while others wait for the lock.
        drop(dropped);
    }

    /// Lets go of a partition's cursors.
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
