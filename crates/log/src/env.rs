//! State shared by all partitions of a log.

use std::path::PathBuf;
use std::sync::Arc;

use tailwater_io::buffer::BufferPool;
use tailwater_io::{Clock, IoMode, Storage};

use crate::backpressure::Backpressure;
use crate::identity::LastOpening;
use crate::scheduler::Scheduler;
use crate::segment::Cursors;
use crate::tail::ChunkPool;

/// State shared by all partitions of a log.
#[derive(Debug)]
pub(crate) struct Env {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) clock: Arc<dyn Clock>,
    /// The log's directory.
    pub(crate) directory: PathBuf,
    /// Id of the log.
    pub(crate) log: u128,
    /// Effective mode of writes to segments.
    pub(crate) append_mode: IoMode,
    /// Whether every write to a segment is durable, whatever the topic's durability.
    pub(crate) syncs_appends: bool,
    /// The present opening of the log.
    pub(crate) opening: LastOpening,
    /// Whether the log was last opened in this boot of the machine.
    pub(crate) is_same_boot: bool,
    /// Effective mode of reads of segments.
    pub(crate) read_mode: IoMode,
    /// Size of a block, the unit of writes to segments, in bytes: a multiple of 4096.
    pub(crate) block: u64,
    pub(crate) memory: Arc<ChunkPool>,
    pub(crate) backpressure: Arc<Backpressure>,
    pub(crate) scheduler: Arc<Scheduler>,
    /// Buffers for prefetching from segments.
    pub(crate) read_buffers: BufferPool,
    /// Scanners of consumers that are catching up.
    pub(crate) cursors: Cursors,
    pub(crate) partition_unpersisted_bytes_max: u64,
    pub(crate) batch_bytes_max: usize,
}
