//! Recent data in memory: batches that no segment has yet, and persisted batches that consumers may
//! still poll.
//!
//! A partition's tail is a sequence of [`Chunk`]s. A chunk holds batches as they are laid out in
//! the segment, at the same distance from a block boundary, so persisting it is one write of its
//! memory, and a poll returns slices of it. A chunk that is persisted in full stays as a cache
//! until its memory is needed: the oldest chunk of all partitions is evicted first
//! ([`ChunkPool`]). An idle partition gives its chunks back.
//!
//! Topics of durability `process` keep their tails in shared memory, which outlives the process:
//! the next process recovers the batches from it ([`survivors`]).

mod chunk;
mod memory;
pub(crate) mod sizing;
pub(crate) mod survivors;

pub(crate) use chunk::{Chunk, ChunkPlace, SegmentStart, Walk};
pub(crate) use memory::{ChunkPool, MemoryKind};
