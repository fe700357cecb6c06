//! State shared by all partitions of a log.

use std::path::PathBuf;
use std::sync::Arc;

use tailwater_io::Clock;

use crate::backpressure::Backpressure;
use crate::identity::LastOpening;
use crate::scheduler::Scheduler;
use crate::segment::{Cursors, SegmentFiles};
use crate::tail::ChunkPool;

/// State shared by all partitions of a log.
#[derive(Debug)]
pub(crate) struct Env {
    pub(crate) segment_files: SegmentFiles,
    pub(crate) clock: Arc<dyn Clock>,
    /// The log's directory.
    pub(crate) directory: PathBuf,
    /// Id of the log.
    pub(crate) log: u128,
    /// The current opening of the log: this boot, and the shared memory in use.
    pub(crate) opening: LastOpening,
    /// Whether the log was last opened in this boot of the machine.
    pub(crate) is_same_boot: bool,
    /// Size of a block, the unit of writes to segments, in bytes: a multiple of 4096.
    pub(crate) block: u64,
    pub(crate) memory: Arc<ChunkPool>,
    pub(crate) backpressure: Arc<Backpressure>,
    pub(crate) scheduler: Arc<Scheduler>,
    /// Scanners of consumers that are catching up.
    pub(crate) cursors: Cursors,
    pub(crate) partition_unpersisted_bytes_max: u64,
    pub(crate) batch_bytes_max: usize,
}
