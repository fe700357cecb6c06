//! One chunk of a partition's tail, as readers see it.

use std::ops::Range;
use std::sync::Arc;

use tailwater_format::message::batch::{HEADER_BYTES, Header};
use tailwater_format::message::index::Entry;
use tailwater_format::message::padding::{Next, batch_at};
use tailwater_io::buffer::AppendedBytes;

use crate::sync::Published;
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Smallest distance between two entries of a chunk's index, in bytes.
const INDEX_INTERVAL: usize = 16 << 10;

/// The start of a segment, as recorded in the names of its files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SegmentStart {
    /// Offset of the segment's first message.
    pub(crate) base_offset: u64,
    /// Lower bound on the timestamps of the segment's batches, in microseconds since 1970.
    pub(crate) base_timestamp_us: u64,
}

/// The position of a chunk in its segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChunkPlace {
    /// The segment.
    pub(crate) segment: SegmentStart,
    /// Position of the chunk's first byte in the segment.
    pub(crate) position: u64,
    /// Offset of the chunk's first batch.
    pub(crate) base_offset: u64,
    /// Position in the chunk of its first batch; the bytes before it are carried from the last
    /// chunk.
    pub(crate) first_batch: usize,
}

/// A chunk. Its bytes stay in memory until it is evicted.
#[derive(Debug)]
pub(crate) struct Chunk {
    place: ChunkPlace,
    bytes: Published<AppendedBytes>,
    index: Index,
}

impl Chunk {
    pub(crate) fn new(place: ChunkPlace, bytes: AppendedBytes) -> Self {
        let slots = 1 + bytes.capacity() / INDEX_INTERVAL;
        let index = Index::new(slots);
        Self { place, bytes: Published::new(Some(Arc::new(bytes))), index }
    }

    pub(crate) fn place(&self) -> &ChunkPlace {
        &self.place
    }

    /// Returns the bytes, which stay valid while the caller holds them; `None` after eviction.
    pub(crate) fn bytes(&self) -> Option<Arc<AppendedBytes>> {
        self.bytes.load()
    }

    /// Drops the chunk's reference to its bytes. The bytes stay valid for readers that still hold
    /// them.
    pub(crate) fn evict(&self) {
        self.bytes.store(None);
    }

    /// Adds a batch that begins at `position` in the chunk to the index, unless the last entry is
    /// near. Only the partition's owner calls this, before it publishes the batch.
    pub(crate) fn note(&self, offset: u64, timestamp_us: u64, position: usize) {
        self.index.note(offset, timestamp_us, position);
    }

    /// Returns entries for the segment's index, for some of the batches that begin in `range` of
    /// the chunk.
    pub(crate) fn entries_within(&self, range: Range<usize>) -> impl Iterator<Item = Entry> {
        let count = self.index.count.load(Ordering::Acquire);
        self.index.slots.iter().take(count).filter_map(move |slot| {
            let position = slot.position.load(Ordering::Relaxed);
            range.contains(&position).then(|| Entry {
                offset: slot.offset.load(Ordering::Relaxed),
                timestamp_us: slot.timestamp_us.load(Ordering::Relaxed),
                position: self.place.position + position as u64,
            })
        })
    }

    /// Returns the position of the last indexed batch at or before an offset.
    pub(crate) fn position_of_offset(&self, offset: u64) -> usize {
        self.index
            .last_where(|slot| slot.offset.load(Ordering::Relaxed) <= offset)
            .unwrap_or(self.place.first_batch)
    }

    /// Returns the position of the last indexed batch that is older than a timestamp.
    pub(crate) fn position_of_timestamp(&self, timestamp_us: u64) -> usize {
        self.index
            .last_where(|slot| slot.timestamp_us.load(Ordering::Relaxed) < timestamp_us)
            .unwrap_or(self.place.first_batch)
    }
}

/// Positions of some of a chunk's batches, in order. The owner stores an entry before it increments
/// the count; readers read only entries whose index is below the count.
#[derive(Debug)]
struct Index {
    slots: Box<[Slot]>,
    count: AtomicUsize,
}

#[derive(Debug, Default)]
struct Slot {
    offset: AtomicU64,
    timestamp_us: AtomicU64,
    position: AtomicUsize,
}

impl Index {
    fn new(slots: usize) -> Self {
        Self { slots: (0..slots).map(|_| Slot::default()).collect(), count: AtomicUsize::new(0) }
    }

    fn note(&self, offset: u64, timestamp_us: u64, position: usize) {
        let count = self.count.load(Ordering::Relaxed);
        let last = count.checked_sub(1).and_then(|last| self.slots.get(last));
        let is_near = last
            .is_some_and(|last| position < last.position.load(Ordering::Relaxed) + INDEX_INTERVAL);
        let Some(slot) = self.slots.get(count).filter(|_| !is_near) else { return };
        slot.offset.store(offset, Ordering::Relaxed);
        slot.timestamp_us.store(timestamp_us, Ordering::Relaxed);
        slot.position.store(position, Ordering::Relaxed);
        self.count.store(count + 1, Ordering::Release);
    }

    /// Returns the position of the last entry for which `fulfils` is true. If `fulfils` is true for
    /// an entry, it must be true for all entries before that one.
    fn last_where(&self, fulfils: impl Fn(&Slot) -> bool) -> Option<usize> {
        let count = self.count.load(Ordering::Acquire);
        let known = self.slots.get(..count)?;
        let end = known.partition_point(fulfils);
        Some(known.get(end.checked_sub(1)?)?.position.load(Ordering::Relaxed))
    }
}

/// Iterates over the batches of a chunk.
#[derive(Debug)]
pub(crate) struct Walk<'a> {
    bytes: &'a [u8],
    /// Position of the first byte of `bytes` in the segment.
    position: u64,
    at: usize,
}

/// A batch in a chunk.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WalkedBatch {
    pub(crate) header: Header,
    /// Start and end (exclusive) of the batch in the chunk.
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl<'a> Walk<'a> {
    /// Starts at position `at` of a chunk whose first byte is at `position` in the segment. `bytes`
    /// are all published bytes of the chunk.
    pub(crate) fn new(bytes: &'a [u8], position: u64, at: usize) -> Self {
        Self { bytes, position, at }
    }
}

impl Iterator for Walk<'_> {
    type Item = WalkedBatch;

    fn next(&mut self) -> Option<WalkedBatch> {
        loop {
            let rest = self.bytes.get(self.at..).filter(|rest| !rest.is_empty())?;
            match batch_at(self.position + self.at as u64, rest) {
                Next::Gap(end) => self.at = usize::try_from(end - self.position).ok()?,
                Next::Batch if rest.len() < HEADER_BYTES => return None,
                Next::Batch => {
                    let header = Header::decode(rest).ok()?;
                    let start = self.at;
                    let end = start.checked_add(usize::try_from(header.length).ok()?)?;
                    self.at = end;
                    return (end <= self.bytes.len()).then_some(WalkedBatch { header, start, end });
                }
            }
        }
    }
}
