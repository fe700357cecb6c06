//! What all partitions of a log share.

use std::path::PathBuf;
use std::sync::Arc;

use tailwater_io::Clock;
use tailwater_io::descriptors::Reservation;

use crate::backpressure::Backpressure;
use crate::guard::LockGuard;
use crate::patience::Patience;
use crate::scheduler::Scheduler;
use crate::segment::SegmentFiles;
use crate::tail::ChunkPool;
use crate::timestamps::Timestamps;
use crate::workers::Workers;

/// What all partitions of a log share: files, memory, threads and settings.
#[derive(Debug)]
pub(crate) struct Env {
    pub(crate) segment_files: Arc<SegmentFiles>,
    /// The lock on the log's directory, which is checked before changes and appends.
    pub(crate) lock: Arc<LockGuard>,
    /// The descriptors that the log needs in addition to those of its segments.
    #[expect(dead_code, reason = "returned when the log is dropped")]
    pub(crate) reserved: Reservation,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) timestamps: Timestamps,
    /// The log's directory.
    pub(crate) directory: PathBuf,
    /// The id of the log.
    pub(crate) log: u128,
    /// Whether the previous opening of the log was in the same boot of the machine.
    pub(crate) is_same_boot: bool,
    /// Size of a block in bytes, a multiple of 4096. Writes to segments consist of whole blocks.
    pub(crate) block: u64,
    pub(crate) memory: Arc<ChunkPool>,
    pub(crate) backpressure: Arc<Backpressure>,
    pub(crate) scheduler: Arc<Scheduler>,
    /// The threads that work for the log, which may call functions of the user.
    pub(crate) workers: Workers,
    /// How long closing the log may wait for descriptors.
    pub(crate) closing_patience: Patience,
    pub(crate) partition_unpersisted_bytes_max: u64,
    pub(crate) batch_bytes_max: usize,
}
