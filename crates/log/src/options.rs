//! Options of a log and of its topics.

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::storage::{Clock, DescriptorBudget, PosixStorage, SharedMemory, Storage, SystemClock};
use crate::{Error, Result};

/// Defines setters. Each line contains the name of a method, the field that the method sets, and
/// the type of the argument, which is converted to the field's type.
macro_rules! setters {
    ($($method:ident, $field:ident: $argument:ty;)*) => {
        $(
            #[doc = concat!("Sets [`", stringify!($field), "`](Self::", stringify!($field), ").")]
            #[must_use]
            pub fn $method(mut self, $field: $argument) -> Self {
                self.$field = $field.into();
                self
            }
        )*
    };
}

/// What an acknowledged append survives. A later variant includes the earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Durability {
    /// An acknowledged append can be lost when the process ends without closing the log.
    Memory,
    /// An acknowledged append survives a crash of the process (for example by SIGKILL), but not a
    /// crash of the machine or of the container.
    #[default]
    Process,
    /// An acknowledged append survives a power cut. Consumers see a message only when it is
    /// durable.
    Disk,
}

impl Durability {
    /// Returns the durability's name, as used in configuration files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Process => "process",
            Self::Disk => "disk",
        }
    }
}

/// What happens to a partial block: the last block of a write, if the batches do not fill it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PartialBlocks {
    /// The rest of the block is filled with padding, and the block is not written again. After its
    /// segment is sealed, the segment may be rewritten without the gaps that the padding leaves.
    #[default]
    Pad,
    /// The bytes of the partial block are kept in memory. The block is written again, together with
    /// the batches that follow.
    Carry,
}

impl PartialBlocks {
    /// Returns the name of this value, as used in configuration files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pad => "pad",
            Self::Carry => "carry",
        }
    }
}

/// Options of a topic. They apply to all its partitions.
///
/// ```
/// use tailwater_log::{Durability, TopicOptions};
///
/// let week_us = 7 * 24 * 3600 * 1_000_000;
/// let options = TopicOptions::new()
///     .with_durability(Durability::Disk)
///     .with_segment_bytes(256 << 20)
///     .with_message_expiry_us(week_us);
/// assert_eq!(options.message_expiry_us, Some(week_us));
/// assert_eq!(options.partition_bytes_max, None); // the default
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct TopicOptions {
    /// What an acknowledged append survives.
    pub durability: Durability,
    /// A partition persists its batches when it has at least this many unpersisted messages.
    pub messages_required_to_save: u32,
    /// A partition persists its batches when it has at least this many unpersisted bytes.
    pub size_of_messages_required_to_save: u64,
    /// Longest time that a message stays unpersisted, in microseconds.
    pub save_interval_us: u64,
    /// Size at which a segment is sealed and a new one begun, in bytes.
    pub segment_bytes: u64,
    /// Messages older than this may be removed, in microseconds; `None` keeps them indefinitely.
    pub message_expiry_us: Option<u64>,
    /// If a partition's segments have more bytes than this, the oldest ones are removed; `None` for
    /// no limit.
    pub partition_bytes_max: Option<u64>,
    /// What happens to the last block of a write if the batches do not fill it.
    pub partial_blocks: PartialBlocks,
    /// Whether consumers' stored offsets survive a power cut once their tickets are complete.
    /// Otherwise they survive a crash of the process.
    pub are_offsets_durable: bool,
    /// A text that an application stores with the topic. The log does not interpret it.
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
    /// Returns the default options.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        with_durability, durability: Durability;
        with_messages_required_to_save, messages_required_to_save: u32;
        with_size_of_messages_required_to_save, size_of_messages_required_to_save: u64;
        with_save_interval_us, save_interval_us: u64;
        with_segment_bytes, segment_bytes: u64;
        with_message_expiry_us, message_expiry_us: impl Into<Option<u64>>;
        with_partition_bytes_max, partition_bytes_max: impl Into<Option<u64>>;
        with_partial_blocks, partial_blocks: PartialBlocks;
        with_are_offsets_durable, are_offsets_durable: bool;
        with_attributes, attributes: impl Into<String>;
    }

    /// Checks that every option has a valid value.
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

/// How the I/O mode for segments is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum IoModeChoice {
    /// Direct I/O if the filesystem supports it; otherwise buffered I/O and a warning.
    #[default]
    Auto,
    /// Direct I/O, which bypasses the page cache. If the filesystem does not support it, opening
    /// the log fails.
    Direct,
    /// Buffered I/O, through the page cache.
    Buffered,
}

impl IoModeChoice {
    /// All values.
    pub const ALL: &'static [Self] = &[Self::Auto, Self::Direct, Self::Buffered];

    /// Returns the name of this value in configuration files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Direct => "direct",
            Self::Buffered => "buffered",
        }
    }
}

/// The memory that holds the tails of topics with durability [`Process`](Durability::Process). A
/// tail consists of the most recent batches of a partition. If the memory is not shared, an append
/// to such a topic is acknowledged only after it has been written to the segment.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub enum TailMemory {
    /// The recent batches are in shared memory in `/dev/shm`. If that is not possible, they are in
    /// private memory, and opening the log reports a warning.
    #[default]
    Automatic,
    /// The recent batches are in shared memory in this directory, which must be on a tmpfs.
    Directory(PathBuf),
    /// The recent batches are in this shared memory.
    Shared(Arc<dyn SharedMemory>),
    /// The recent batches are in private memory of the process.
    Private,
}

/// Options of a log.
///
/// ```
/// use tailwater_log::{Log, LogOptions, TailMemory};
///
/// # let directory = tempfile::tempdir()?;
/// # let directory = directory.path();
/// let options = LogOptions::new()
///     .with_tail_memory(TailMemory::Private)
///     .with_tail_bytes_max(256 << 20)
///     .with_persisters(1);
/// let log = Log::open(directory, &options)?;
/// log.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LogOptions {
    /// Whether opening a directory without a log creates one. Otherwise it fails with a not found
    /// error and creates nothing.
    pub create_if_missing: bool,
    /// The storage that contains the log.
    pub storage: Arc<dyn Storage>,
    /// The source of time.
    pub clock: Arc<dyn Clock>,
    /// The budget of file descriptors. It bounds the number of open files, whatever the number of
    /// partitions and segments: the least recently used files are closed. By default it is the
    /// budget of the process, whose limit is the process's limit on open files.
    pub descriptor_budget: DescriptorBudget,
    /// The memory that holds the tails (the recent batches) of topics with durability `process`.
    pub tail_memory: TailMemory,
    /// I/O mode of writes to segments.
    pub append_io_mode: IoModeChoice,
    /// Whether every write to a segment is durable when it returns, even if the topic's durability
    /// does not require it.
    pub syncs_appends: bool,
    /// I/O mode of reads from segments.
    pub read_io_mode: IoModeChoice,
    /// Hard limit on the memory of all tails, in bytes. Tails hold unpersisted batches and, as a
    /// cache, persisted batches that consumers may still poll. An append that would exceed the
    /// limit waits or fails.
    ///
    /// 0 (the default) selects the limit automatically: an eighth of the process's memory limit or,
    /// without a limit, of the machine's memory, but at least 64 MiB and at most 1 GiB. If the log
    /// then has persisters, the cache grows within the limit while memory is free, and shrinks
    /// under memory pressure.
    pub tail_bytes_max: usize,
    /// Limit on the unpersisted bytes of one partition. An append that would exceed it waits or
    /// fails.
    pub partition_unpersisted_bytes_max: u64,
    /// Maximum length of a batch, in bytes. Longer batches are rejected.
    pub batch_bytes_max: usize,
    /// Number of threads that persist batches. If it is 0, the caller must call
    /// [`Log::run_pending`](crate::Log::run_pending).
    pub persisters: usize,
    /// Memory for reading segments, in bytes. While much of it is in use, polls do not read ahead;
    /// while all of it is in use, they wait. One poll at a time is possible with any value.
    pub read_ahead_bytes_max: usize,
    /// Identifier of the machine's current boot; `None` if unknown. If the log was last opened in
    /// the same boot, the machine has not crashed since, so no completed write can have been lost.
    /// Missing bytes are then treated as damage.
    pub boot_id: Option<String>,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self {
            create_if_missing: true,
            storage: Arc::new(PosixStorage::private()),
            clock: Arc::new(SystemClock),
            descriptor_budget: DescriptorBudget::of_process(),
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

impl LogOptions {
    /// Returns the default options.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        with_create_if_missing, create_if_missing: bool;
        with_storage, storage: Arc<dyn Storage>;
        with_clock, clock: Arc<dyn Clock>;
        with_descriptor_budget, descriptor_budget: DescriptorBudget;
        with_tail_memory, tail_memory: TailMemory;
        with_append_io_mode, append_io_mode: IoModeChoice;
        with_syncs_appends, syncs_appends: bool;
        with_read_io_mode, read_io_mode: IoModeChoice;
        with_tail_bytes_max, tail_bytes_max: usize;
        with_partition_unpersisted_bytes_max, partition_unpersisted_bytes_max: u64;
        with_batch_bytes_max, batch_bytes_max: usize;
        with_persisters, persisters: usize;
        with_read_ahead_bytes_max, read_ahead_bytes_max: usize;
        with_boot_id, boot_id: impl Into<Option<String>>;
    }
}
