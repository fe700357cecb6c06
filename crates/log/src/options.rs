//! What a log and its topics are asked for.

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tailwater_io::clock::SystemClock;
use tailwater_io::posix::PosixStorage;
use tailwater_io::{Clock, SharedMemory, Storage};

use crate::{Error, Result};

/// What an acknowledged append survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// It lasts as long as this process.
    Memory,
    /// It survives the death of the process (SIGKILL), not that of the machine or container.
    #[default]
    Process,
    /// It survives a power cut. Readers see only what does.
    Disk,
}

impl Durability {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Process => "process",
            Self::Disk => "disk",
        }
    }
}

/// What becomes of a block that a group of batches does not fill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartialBlocks {
    /// It is padded, and never written again. A sealed segment is rewritten without the gaps.
    #[default]
    Pad,
    /// It is kept, and written again when it is full.
    Carry,
}

/// What a topic is asked for; its partitions go by it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TopicOptions {
    /// What an acknowledged append survives.
    pub durability: Durability,
    /// Number of unpersisted messages that begins a persist.
    pub messages_required_to_save: u32,
    /// Unpersisted bytes that begin a persist.
    pub size_of_messages_required_to_save: u64,
    /// Longest time that a message stays unpersisted, in microseconds.
    pub save_interval_us: u64,
    /// Size at which a segment is sealed, in bytes.
    pub segment_bytes: u64,
    /// Age at which messages may be removed, in microseconds; none are without.
    pub message_expiry_us: Option<u64>,
    /// Size of a partition from which on its oldest segments are removed, in bytes.
    pub partition_bytes_max: Option<u64>,
    /// What becomes of a block that is not full.
    pub partial_blocks: PartialBlocks,
}

impl Default for TopicOptions {
    fn default() -> Self {
        Self {
            durability: Durability::default(),
            messages_required_to_save: 1024,
            size_of_messages_required_to_save: 1 << 20,
            save_interval_us: 1_000_000,
            segment_bytes: 1 << 30,
            message_expiry_us: None,
            partition_bytes_max: None,
            partial_blocks: PartialBlocks::default(),
        }
    }
}

impl TopicOptions {
    /// Checks that every value makes sense.
    ///
    /// # Errors
    /// Invalid argument, with the option's name.
    pub(crate) fn check(&self) -> Result<()> {
        let refuse = |option: &str, want: &str| Err(Error::invalid(format!("{option}: {want}")));
        match self {
            Self { segment_bytes, .. } if *segment_bytes < 64 << 10 => {
                refuse("segment_bytes", "a segment has 64 KiB at least")
            }
            Self { segment_bytes, .. } if *segment_bytes > 1 << 40 => {
                refuse("segment_bytes", "a segment has 1 TiB at most")
            }
            Self { messages_required_to_save: 0, .. } => {
                refuse("messages_required_to_save", "1 at least")
            }
            Self { size_of_messages_required_to_save: 0, .. } => {
                refuse("size_of_messages_required_to_save", "1 byte at least")
            }
            _ => Ok(()),
        }
    }
}

/// How bytes move between a file and memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum IoModeChoice {
    /// Past the page cache where the filesystem can, else through it, which is reported.
    #[default]
    Auto,
    /// Past the page cache; a filesystem that cannot is an error when the log is opened.
    Direct,
    /// Through the page cache.
    Buffered,
}

/// Where a topic of durability [`Process`](Durability::Process) keeps what no segment has yet.
#[derive(Debug, Clone, Default)]
pub enum TailMemory {
    /// In shared memory in `/dev/shm`, where there is any; else it waits for the write to the
    /// segment, which is reported.
    #[default]
    Automatic,
    /// In shared memory in this directory, which must be on a tmpfs.
    Directory(PathBuf),
    /// In this shared memory.
    Shared(Arc<dyn SharedMemory>),
    /// In the process's own memory: an append waits for the write to the segment.
    Private,
}

/// What a log is asked for.
#[derive(Debug, Clone)]
pub struct LogOptions {
    /// The file system.
    pub storage: Arc<dyn Storage>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Where topics of durability `process` keep what no segment has yet.
    pub tail_memory: TailMemory,
    /// How segments are written.
    pub append_io_mode: IoModeChoice,
    /// Whether each write to a segment is durable, whatever a topic asks for.
    pub syncs_appends: bool,
    /// How old segments are read.
    pub read_io_mode: IoModeChoice,
    /// Memory for what was appended of late, in bytes: unpersisted batches, and behind them, as far
    /// as there is room, persisted ones that consumers may still want.
    pub tail_bytes_max: usize,
    /// Unpersisted bytes that a partition may have; appends beyond wait or fail.
    pub partition_unpersisted_bytes_max: u64,
    /// Largest batch that is taken, in bytes.
    pub batch_bytes_max: usize,
    /// Threads that persist. With 0 somebody has to call
    /// [`Log::run_pending`](crate::Log::run_pending).
    pub persisters: usize,
    /// Memory for reading old segments ahead, in bytes.
    pub read_ahead_bytes_max: usize,
    /// What tells this boot of the machine from others: a log that was opened in the same boot lost
    /// nothing that was written, so that what is missing is damage. `None` where that is not known.
    pub boot_id: Option<String>,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self {
            storage: Arc::new(PosixStorage::new()),
            clock: Arc::new(SystemClock),
            tail_memory: TailMemory::default(),
            append_io_mode: IoModeChoice::default(),
            syncs_appends: false,
            read_io_mode: IoModeChoice::default(),
            tail_bytes_max: 256 << 20,
            partition_unpersisted_bytes_max: 64 << 20,
            batch_bytes_max: 64 << 20,
            persisters: 2,
            read_ahead_bytes_max: 64 << 20,
            boot_id: tailwater_io::boot_id(),
        }
    }
}
