//! Cursors of consumers that read segments sequentially.
//!
//! A poll names an offset but no consumer. A consumer that reads sequentially polls at the offset
//! at which its previous poll ended. A poll reads with a scanner, which has read ahead when the
//! poll ends. So the scanner is kept as a cursor, under the offset at which the poll ended, for the
//! next poll. If there are too many cursors, the least recently used one is dropped.

use std::sync::Arc;

use super::{Scanner, Segment};
use crate::catalog::PartitionId;
use crate::sync::Mutex;

/// Maximum number of cursors that are kept.
const KEPT_MAX: usize = 32;
/// At most one cursor is kept for every `BYTES_PER_CURSOR` bytes of the limit on read-ahead memory.
const BYTES_PER_CURSOR: usize = 2 << 20;
/// At most one cursor, with up to two files, is kept for this many descriptors.
const DESCRIPTORS_PER_CURSOR: usize = 8;

/// A cursor: the scanner of a poll, positioned where the poll ended.
#[derive(Debug)]
pub(crate) struct Cursor {
    /// The segment that the scanner reads. The segment's file stays open as long as the cursor
    /// exists.
    pub(crate) segment: Arc<Segment>,
    pub(crate) scanner: Scanner,
}

/// The cursors that polls of all partitions have left for later polls. Safe to use from any thread.
#[derive(Debug)]
pub(crate) struct Cursors {
    kept_max: usize,
    /// Each cursor with its partition and the offset at which it continues, least recently used
    /// first.
    kept: Mutex<Vec<(PartitionId, u64, Cursor)>>,
}

impl Cursors {
    /// Creates an empty set of cursors. A kept cursor holds read-ahead memory and descriptors. The
    /// number of kept cursors is therefore limited, so that most of them are left for active scans.
    pub(super) fn new(read_ahead_bytes_max: usize, descriptors_max: usize) -> Self {
        let kept_max = (read_ahead_bytes_max / BYTES_PER_CURSOR)
            .min(descriptors_max / DESCRIPTORS_PER_CURSOR)
            .min(KEPT_MAX);
        Self { kept_max, kept: Mutex::default() }
    }

    /// Removes and returns the cursor that continues at this offset of the partition; `None` if
    /// there is none, or if it reads another segment than `segment`.
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

    /// Keeps a cursor for the next poll at `offset`.
    pub(crate) fn keep(&self, id: PartitionId, offset: u64, cursor: Cursor) {
        let dropped = {
            let mut kept = self.kept.lock();
            kept.push((id, offset, cursor));
            (kept.len() > self.kept_max).then(|| kept.remove(0))
        };
        // Dropping a cursor may wait for its requests in flight. Do it after the lock is released.
        drop(dropped);
    }

    /// Drops the least recently used cursor, which returns its memory and its descriptors. Returns
    /// false if there is none.
    pub(super) fn drop_oldest(&self) -> bool {
        let oldest = {
            let mut kept = self.kept.lock();
            (!kept.is_empty()).then(|| kept.remove(0))
        };
        // Dropping a cursor may wait for its requests in flight. Do it after the lock is released.
        oldest.is_some()
    }

    /// Drops all cursors.
    pub(crate) fn forget_all(&self) {
        self.forget_where(|_, _| true);
    }

    /// Drops all cursors of a partition.
    pub(crate) fn forget(&self, id: PartitionId) {
        self.forget_where(|partition, _| *partition == id);
    }

    /// Drops the cursors that read `segment`, so that they no longer keep its file open. Called
    /// when the segment is being removed.
    pub(crate) fn forget_segment(&self, segment: &Segment) {
        self.forget_where(|_, cursor| std::ptr::eq(&*cursor.segment, segment));
    }

    fn forget_where(&self, is_gone: impl Fn(&PartitionId, &Cursor) -> bool) {
        let gone: Vec<_> = {
            let mut kept = self.kept.lock();
            kept.extract_if(.., |(partition, _, cursor)| is_gone(partition, cursor)).collect()
        };
        // Dropping a cursor may wait for its requests in flight. Do it after the lock is released.
        drop(gone);
    }
}
