//! Cursors of consumers that read segments sequentially.
//!
//! A poll names an offset but no consumer. A consumer that is catching up polls from the offset at
//! which its last poll ended. The prefetching scanner of a poll is therefore kept under that offset
//! until the next poll. When too many are kept, the least recently used cursors are dropped first.

use std::sync::Arc;

use super::{Scanner, Segment};
use crate::catalog::PartitionId;
use crate::sync::Mutex;

/// Maximum number of cursors.
const KEPT_MAX: usize = 32;
/// One cursor is kept per this number of bytes of read-ahead memory.
const BYTES_PER_CURSOR: usize = 2 << 20;

/// A cursor: a scanner that is at the position where a poll ended.
#[derive(Debug)]
pub(crate) struct Cursor {
    /// The segment that the cursor reads. Its file stays open while the cursor exists.
    pub(crate) segment: Arc<Segment>,
    pub(crate) scanner: Scanner,
}

/// The cursors of all partitions.
#[derive(Debug)]
pub(crate) struct Cursors {
    kept_max: usize,
    /// Kept cursors, each with its partition and offset, the least recently used first.
    kept: Mutex<Vec<(PartitionId, u64, Cursor)>>,
}

impl Cursors {
    /// Creates an empty set. The maximum number of cursors is small enough to leave most of the
    /// read-ahead memory to active scans.
    pub(crate) fn new(read_ahead_bytes_max: usize) -> Self {
        let kept_max = (read_ahead_bytes_max / BYTES_PER_CURSOR).min(KEPT_MAX);
        Self { kept_max, kept: Mutex::default() }
    }

    /// Removes and returns the partition's cursor at an offset, if it reads `segment`.
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

    /// Keeps a cursor under the offset at which the next poll is expected to begin.
    pub(crate) fn keep(&self, id: PartitionId, offset: u64, cursor: Cursor) {
        let dropped = {
            let mut kept = self.kept.lock();
            kept.push((id, offset, cursor));
            (kept.len() > self.kept_max).then(|| kept.remove(0))
        };
        // Dropping a cursor may wait for its requests in flight, so the lock is released first.
        drop(dropped);
    }

    /// Drops a partition's cursors.
    pub(crate) fn forget(&self, id: PartitionId) {
        self.forget_where(|partition, _| *partition == id);
    }

    /// Drops the cursors of a removed segment, so that its file is closed.
    pub(crate) fn forget_segment(&self, segment: &Segment) {
        self.forget_where(|_, cursor| std::ptr::eq(&*cursor.segment, segment));
    }

    fn forget_where(&self, is_gone: impl Fn(&PartitionId, &Cursor) -> bool) {
        let gone: Vec<_> = {
            let mut kept = self.kept.lock();
            kept.extract_if(.., |(partition, _, cursor)| is_gone(partition, cursor)).collect()
        };
        // Dropping a cursor may wait for its requests in flight, so the lock is released first.
        drop(gone);
    }
}
