//! Where the files of segments are, and how they are opened.

use std::sync::Arc;

use tailwater_io::buffer::BufferPool;
use tailwater_io::{IoMode, Storage};

/// The storage of a log's segments, with the I/O modes and buffers for their files.
#[derive(Debug)]
pub(crate) struct SegmentFiles {
    pub(crate) storage: Arc<dyn Storage>,
    /// Effective I/O mode of writes to segments.
    pub(crate) append_mode: IoMode,
    /// Whether every write to a segment is durable, even if the topic's durability does not require
    /// it.
    pub(crate) syncs_appends: bool,
    /// Effective I/O mode of reads from segments.
    pub(crate) read_mode: IoMode,
    /// Buffers for read-ahead from segments.
    pub(crate) read_buffers: BufferPool,
}
