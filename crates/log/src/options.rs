//! Options of a log and of its topics.

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tailwater_io::clock::SystemClock;
use tailwater_io::posix::PosixStorage;
use tailwater_io::{Clock, SharedMemory, Storage};

use crate::{Error, Result};

/// The most severe kind of failure that an acknowledged append survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// Nothing: the append is lost when the process dies.
    Memory,
    /// The death of the process (SIGKILL), but not of the machine or the container.
    #[default]
    Process,
    /// A power cut. Readers see only messages that are durable.
    Disk,
}

impl Durability {
    /// Returns the name of the durability.
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Process => "process",
            Self::Disk => "disk",
        }
    }
}

/// The handling of a partial block: the last block of a write, which the written batches do not
/// fill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartialBlocks {
    /// The block is padded and never rewritten. Once its segment is sealed, the segment is
    /// rewritten without the gaps.
    #[default]
    Pad,
    /// The contents of the block are kept in memory, and the block is written again when it is
    /// full.
    Carry,
}

/// Options of a topic, which apply to all its partitions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TopicOptions {
    /// The most severe kind of failure that an acknowledged append survives.
    pub durability: Durability,
    /// Number of unpersisted messages in a partition that triggers a persist.
    pub messages_required_to_save: u32,
    /// Unpersisted bytes in a partition that trigger a persist.
    pub size_of_messages_required_to_save: u64,
    /// Maximum time that a message stays unpersisted, in microseconds.
    pub save_interval_us: u64,
    /// Size at which a segment is sealed, in bytes.
    pub segment_bytes: u64,
    /// Age at which messages may be removed, in microseconds; `None` keeps them indefinitely.
    pub message_expiry_us: Option<u64>,
    /// Size of a partition beyond which its oldest segments are removed, in bytes.
    pub partition_bytes_max: Option<u64>,
    /// Handling of partial blocks.
    pub partial_blocks: PartialBlocks,
    /// Whether stored offsets of consumers should survive a power cut. The log only keeps this
    /// value: callers read it and pass it on when they store an offset.
    pub are_offsets_durable: bool,
    /// Text that an application keeps with the topic; the log does not interpret it.
    pub attributes: String,
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
            are_offsets_durable: false,
            attributes: String::new(),
        }
    }
}

impl TopicOptions {
    /// Checks every value.
    ///
    /// # Errors
    /// Invalid argument, naming the option.
    pub(crate) fn check(&self) -> Result<()> {
        let refuse = |option: &str, want: &str| Err(Error::invalid(format!("{option}: {want}")));
        match self {
            Self { segment_bytes, .. } if *segment_bytes < 64 << 10 => {
                refuse("segment_bytes", "a segment must have at least 64 KiB")
            }
            Self { segment_bytes, .. } if *segment_bytes > 1 << 40 => {
                refuse("segment_bytes", "a segment must have at most 1 TiB")
            }
            Self { messages_required_to_save: 0, .. } => {
                refuse("messages_required_to_save", "at least 1")
            }
            Self { size_of_messages_required_to_save: 0, .. } => {
                refuse("size_of_messages_required_to_save", "at least 1 byte")
            }
            _ => Ok(()),
        }
    }
}

/// The mode in which bytes move between a file and memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum IoModeChoice {
    /// Direct if the filesystem supports it, otherwise buffered, with a warning.
    #[default]
    Auto,
    /// Direct: bypassing the page cache. If the filesystem does not support it, opening the log
    /// fails.
    Direct,
    /// Buffered: through the page cache.
    Buffered,
}

impl IoModeChoice {
    /// All choices.
    pub const ALL: [Self; 3] = [Self::Auto, Self::Direct, Self::Buffered];

    /// Returns the name of the choice in configuration files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Direct => "direct",
            Self::Buffered => "buffered",
        }
    }
}

/// The memory of unpersisted batches of topics with durability [`Process`](Durability::Process).
#[derive(Debug, Clone, Default)]
pub enum TailMemory {
    /// Shared memory in `/dev/shm`. If there is no shared memory, appends wait for the write to the
    /// segment, with a warning.
    #[default]
    Automatic,
    /// Shared memory in this directory, which must be on a tmpfs.
    Directory(PathBuf),
    /// This shared memory.
    Shared(Arc<dyn SharedMemory>),
    /// Private memory of the process: appends wait for the write to the segment.
    Private,
}

/// Options of a log.
#[derive(Debug, Clone)]
pub struct LogOptions {
    /// Storage that contains the log.
    pub storage: Arc<dyn Storage>,
    /// Source of time.
    pub clock: Arc<dyn Clock>,
    /// Memory of unpersisted batches of topics with durability `process`.
    pub tail_memory: TailMemory,
    /// Mode of writes to segments.
    pub append_io_mode: IoModeChoice,
    /// Whether every write to a segment is durable when it returns, whatever the topic's
    /// durability.
    pub syncs_appends: bool,
    /// Mode of reads of segments.
    pub read_io_mode: IoModeChoice,
    /// Memory for recent data, in bytes: unpersisted batches and, as space permits, persisted
    /// batches that consumers may still poll. An append that would exceed this memory waits or
    /// fails.
    ///
    /// 0 (the default) selects the size automatically: an eighth of the memory available to the
    /// process, between 64 MiB and 1 GiB. Within this limit, the memory for persisted batches grows
    /// while memory is free and shrinks under memory pressure, provided that the log has
    /// persisters.
    pub tail_bytes_max: usize,
    /// Upper bound on a partition's unpersisted bytes; appends beyond it wait or fail.
    pub partition_unpersisted_bytes_max: u64,
    /// Maximum size of an accepted batch, in bytes.
    pub batch_bytes_max: usize,
    /// Number of threads that persist batches. With 0, the caller must call
    /// [`Log::run_pending`](crate::Log::run_pending).
    pub persisters: usize,
    /// Memory for prefetching from segments, in bytes.
    pub read_ahead_bytes_max: usize,
    /// Identifier of the machine's current boot; `None` if it is unknown. If the log was last
    /// opened in the same boot, no write that completed can have been lost, so missing bytes are
    /// damage.
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
            tail_bytes_max: 0,
            partition_unpersisted_bytes_max: 64 << 20,
            batch_bytes_max: 64 << 20,
            persisters: 2,
            read_ahead_bytes_max: 64 << 20,
            boot_id: tailwater_io::boot_id(),
        }
    }
}
