//! What all partitions of a log share.

use std::path::PathBuf;
use std::sync::Arc;

use tailwater_io::buffer::BufferPool;
use tailwater_io::{Clock, IoMode, Storage};

use crate::persister::Scheduler;
use crate::room::Room;
use crate::tail::TailMemory;

/// What all partitions of a log share.
#[derive(Debug)]
pub(crate) struct Env {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) clock: Arc<dyn Clock>,
    /// The log's directory.
    pub(crate) directory: PathBuf,
    /// Id of the log.
    pub(crate) log: u128,
    /// How segments are written, as the filesystem does it.
    pub(crate) append_mode: IoMode,
    /// Whether each write to a segment is durable, whatever a topic asks for.
    pub(crate) syncs_appends: bool,
    /// Whether the log was last opened in this boot of the machine.
    pub(crate) is_same_boot: bool,
    /// How segments are read.
    pub(crate) read_mode: IoMode,
    /// Unit in which segments are written, in bytes: a multiple of 4096.
    pub(crate) block: u64,
    pub(crate) memory: Arc<TailMemory>,
    pub(crate) room: Arc<Room>,
    pub(crate) scheduler: Arc<Scheduler>,
    /// Buffers for reading segments ahead.
    pub(crate) read_buffers: BufferPool,
    pub(crate) partition_unpersisted_bytes_max: u64,
    pub(crate) batch_bytes_max: usize,
}
