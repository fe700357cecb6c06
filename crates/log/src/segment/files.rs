//! Opening the files of segments.

use std::sync::Arc;

use tailwater_io::buffer::BufferPool;
use tailwater_io::{IoMode, Storage};

/// The storage of a log's segments, and the modes in which their files are opened.
#[derive(Debug)]
pub(crate) struct SegmentFiles {
    pub(crate) storage: Arc<dyn Storage>,
    /// Effective mode of writes to segments.
    pub(crate) append_mode: IoMode,
    /// Whether every write to a segment is durable, whatever the topic's durability.
    pub(crate) syncs_appends: bool,
    /// Effective mode of reads of segments.
    pub(crate) read_mode: IoMode,
    /// Buffers for prefetching from segments.
    pub(crate) read_buffers: BufferPool,
}
