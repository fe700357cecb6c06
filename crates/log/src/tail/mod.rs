//! What was appended of late, in memory: batches that no segment has yet, and behind them, as far
//! as there is room, batches that consumers may still want.
//!
//! A partition's tail is a sequence of [`Chunk`]s. A chunk holds batches as the segment gets them,
//! at the same distance from a block's beginning, so persisting it is one write of its memory, and
//! a poll hands out slices of it. When the segment has all of a chunk, the chunk stays as a cache
//! until its memory is wanted: the oldest of all partitions go first ([`TailMemory`]).
//!
//! For topics of durability `process` the memory is shared memory: it outlives the process, and the
//! next one finds the batches there ([`survivors`]).

mod chunk;
mod memory;
pub(crate) mod survivors;

pub(crate) use chunk::{Chunk, ChunkPlace, SegmentStart, Walk};
pub(crate) use memory::{MemoryKind, TailMemory};
