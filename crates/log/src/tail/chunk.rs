//! A chunk: a piece of a partition's tail, as readers see it.

use std::ops::Range;
use std::sync::Arc;

use tailwater_format::message::batch::{HEADER_BYTES, Header};
use tailwater_format::message::index::Entry;
use tailwater_format::message::padding::{Next, batch_at};
use tailwater_io::buffer::AppendedBytes;

use crate::sync::Published;
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Minimum distance between the batches of two consecutive index entries of a chunk, in bytes.
const INDEX_INTERVAL: usize = 16 << 10;

/// The base offset and the base timestamp of a segment. The names of the segment's files contain
/// both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SegmentStart {
    /// Offset of the segment's first message.
    pub(crate) base_offset: u64,
    /// Lower bound on the timestamps of the segment's batches, in microseconds since 1970.
    pub(crate) base_timestamp_us: u64,
}

/// Where a chunk is in its partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChunkPlace {
    /// The segment that the chunk is written to.
    pub(crate) segment: SegmentStart,
    /// Position in the segment of the chunk's first byte.
    pub(crate) position: u64,
    /// Offset of the first message of the chunk's first batch.
    pub(crate) base_offset: u64,
    /// Position in the chunk at which its first batch begins. The bytes before it are a partial
    /// block, carried over from the previous chunk.
    pub(crate) first_batch: usize,
}

/// A chunk of a tail. It has its bytes until it is evicted.
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

    /// Returns the chunk's bytes, or `None` if it was evicted. The returned bytes stay valid even
    /// if the chunk is evicted later.
    pub(crate) fn bytes(&self) -> Option<Arc<AppendedBytes>> {
        self.bytes.load()
    }

    /// Evicts the chunk: drops its reference to its bytes. They stay valid for readers that hold
    /// them.
    pub(crate) fn evict(&self) {
        self.bytes.store(None);
    }

    /// Adds an entry to the chunk's index for a batch that begins at `position` in the chunk,
    /// unless the last entry is less than [`INDEX_INTERVAL`] before it. Only the partition's owner
    /// calls this, before it publishes the batch to readers.
    pub(crate) fn note(&self, offset: u64, timestamp_us: u64, position: usize) {
        self.index.note(offset, timestamp_us, position);
    }

    /// Returns entries for the segment's index: those of this chunk's index whose batches begin in
    /// `range`, a range of positions in the chunk.
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

    /// Finds the last indexed batch whose offset is at most `offset`, or else the chunk's first
    /// batch. Returns the position of that batch in the chunk, in bytes.
    pub(crate) fn position_of_offset(&self, offset: u64) -> usize {
        self.index
            .last_where(|slot| slot.offset.load(Ordering::Relaxed) <= offset)
            .unwrap_or(self.place.first_batch)
    }

    /// Finds the last indexed batch whose timestamp is below `timestamp_us`, or else the chunk's
    /// first batch. Returns the position of that batch in the chunk, in bytes.
    pub(crate) fn position_of_timestamp(&self, timestamp_us: u64) -> usize {
        self.index
            .last_where(|slot| slot.timestamp_us.load(Ordering::Relaxed) < timestamp_us)
            .unwrap_or(self.place.first_batch)
    }
}

/// The index of a chunk. It has entries for some of the chunk's batches, in the order of the
/// batches. The owner stores an entry before it increments `count`, the number of entries. Readers
/// read only the first `count` entries.
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

    /// Returns the position of the last entry that fulfils a condition; `None` if no entry does.
    /// All entries that fulfil it must come before those that do not.
    fn last_where(&self, fulfils: impl Fn(&Slot) -> bool) -> Option<usize> {
        let count = self.count.load(Ordering::Acquire);
        let known = self.slots.get(..count)?;
        let end = known.partition_point(fulfils);
        Some(known.get(end.checked_sub(1)?)?.position.load(Ordering::Relaxed))
    }
}

/// Iterates over the batches in the bytes of a chunk, and skips gaps. Returns the header of each
/// batch, and the range of the chunk that contains the batch.
#[derive(Debug)]
pub(crate) struct Walk<'a> {
    bytes: &'a [u8],
    /// Position in the segment of the first byte of `bytes`.
    position: u64,
    at: usize,
}

impl<'a> Walk<'a> {
    /// Creates an iterator that starts `at` bytes after the start of a chunk. `bytes` are the
    /// published bytes of the chunk. `position` is the start of the chunk, as a byte position in
    /// its segment.
    pub(crate) fn new(bytes: &'a [u8], position: u64, at: usize) -> Self {
        Self { bytes, position, at }
    }
}

impl Iterator for Walk<'_> {
    type Item = (Header, Range<usize>);

    fn next(&mut self) -> Option<(Header, Range<usize>)> {
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
                    return (end <= self.bytes.len()).then_some((header, start..end));
                }
            }
        }
    }
}
