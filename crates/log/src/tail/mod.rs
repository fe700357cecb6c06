//! The tails of partitions: recent batches in memory. They are batches that are not yet in a
//! segment, and persisted batches that consumers may still poll.
//!
//! A partition's tail is a sequence of [`Chunk`]s. A chunk contains batches exactly as they will be
//! in the segment, with the same alignment to blocks. So a chunk is persisted by writing its
//! memory, and a poll returns slices of that memory. A chunk that is completely persisted stays as
//! a cache until its memory is needed. Then the oldest chunk of all partitions is evicted
//! ([`ChunkPool`]). An idle partition releases its chunks.
//!
//! The tails of topics with durability `process` are in shared memory, which outlives the process.
//! If the process dies, the process that opens the log next recovers the batches from there
//! ([`survivors`]).

mod chunk;
mod memory;
pub(crate) mod sizing;
pub(crate) mod survivors;

pub(crate) use chunk::{Chunk, ChunkPlace, SegmentStart, Walk};
pub(crate) use memory::{ChunkPool, MemoryKind};
