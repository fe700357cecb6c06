//! Recent data in memory: batches that are not yet in a segment, and persisted batches that
//! consumers may still poll.
//!
//! A partition's tail is a sequence of [`Chunk`]s. A chunk holds batches in the layout of the
//! segment, with the same alignment to blocks. One write of a chunk's memory therefore persists the
//! chunk, and a poll returns slices of that memory. A fully persisted chunk stays as a cache until
//! its memory is needed: the oldest chunk of all partitions is evicted first ([`ChunkPool`]). An
//! idle partition releases its chunks.
//!
//! Topics with durability `process` keep their tails in shared memory, which outlives the process.
//! The process that opens the log next recovers batches from there ([`survivors`]).

mod chunk;
mod memory;
pub(crate) mod sizing;
pub(crate) mod survivors;

pub(crate) use chunk::{Chunk, ChunkPlace, SegmentStart, Walk};
pub(crate) use memory::{ChunkPool, MemoryKind};
