//! The purpose of I/O, and the mode in which it is done.

/// The purpose of an I/O operation. Every open, read, write and sync has one. Statistics are kept
/// for each purpose, and the I/O mode is chosen by purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
#[repr(u8)]
pub enum Purpose {
    /// A user's get or iterator reads a table.
    UserRead,
    /// A user's get or iterator reads a blob file.
    UserBlobRead,
    /// A compaction reads its input tables.
    CompactionRead,
    /// A compaction reads blob files.
    CompactionBlobRead,
    /// A compaction writes its output tables.
    CompactionWrite,
    /// A flush writes a table.
    FlushWrite,
    /// A flush or compaction writes a blob file.
    BlobWrite,
    /// The write-ahead log is written or replayed.
    Wal,
    /// MANIFEST or CURRENT is read or written.
    Manifest,
    /// A table or another file is read, and the read serves only to verify the file.
    Verification,
    /// A table is written for ingestion, or ingested.
    Ingestion,
    /// A file is copied into a checkpoint.
    Checkpoint,
    /// OPTIONS, IDENTITY, LOCK, LOG or another small file is read or written once.
    Metadata,
    /// The message log appends messages to a segment.
    LogAppend,
    /// The message log reads messages from a segment: for a poll, for recovery, or to verify them.
    LogRead,
    /// The message log reads or writes the index of a segment.
    LogIndex,
    /// The message log reads or writes a journal: that of its catalog or of consumer offsets.
    LogJournal,
}

impl Purpose {
    /// Number of purposes.
    pub const COUNT: usize = 17;

    /// All purposes, in the order of their numbers.
    pub const ALL: [Self; Self::COUNT] = [
        Self::UserRead,
        Self::UserBlobRead,
        Self::CompactionRead,
        Self::CompactionBlobRead,
        Self::CompactionWrite,
        Self::FlushWrite,
        Self::BlobWrite,
        Self::Wal,
        Self::Manifest,
        Self::Verification,
        Self::Ingestion,
        Self::Checkpoint,
        Self::Metadata,
        Self::LogAppend,
        Self::LogRead,
        Self::LogIndex,
        Self::LogJournal,
    ];

    /// Returns whether only the message log uses this purpose, and a database never does.
    pub fn is_of_message_log(self) -> bool {
        matches!(self, Self::LogAppend | Self::LogRead | Self::LogIndex | Self::LogJournal)
    }

    /// Returns the purpose's name in options and statistics: `user_read`, `compaction_write`.
    pub fn name(self) -> &'static str {
        match self {
            Self::UserRead => "user_read",
            Self::UserBlobRead => "user_blob_read",
            Self::CompactionRead => "compaction_read",
            Self::CompactionBlobRead => "compaction_blob_read",
            Self::CompactionWrite => "compaction_write",
            Self::FlushWrite => "flush_write",
            Self::BlobWrite => "blob_write",
            Self::Wal => "wal",
            Self::Manifest => "manifest",
            Self::Verification => "verification",
            Self::Ingestion => "ingestion",
            Self::Checkpoint => "checkpoint",
            Self::Metadata => "metadata",
            Self::LogAppend => "log_append",
            Self::LogRead => "log_read",
            Self::LogIndex => "log_index",
            Self::LogJournal => "log_journal",
        }
    }
}

/// The I/O mode: the way in which bytes move between a file and memory. A storage refuses a mode
/// that it does not know with an error of kind `Unsupported`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum IoMode {
    /// Through the page cache.
    #[default]
    Buffered,
    /// Past the page cache (`O_DIRECT`). The offset, the length and the memory must be aligned.
    Direct,
    /// Through the page cache. The kernel then drops the pages that this read or write added to the
    /// cache (`RWF_DONTCACHE`, Linux 6.14). Pages that were in the cache before stay there.
    Uncached,
    /// Through the page cache. The kernel is then advised that the pages are no longer needed
    /// (`POSIX_FADV_DONTNEED`): immediately after a read, and after writeback for a write.
    DropBehind,
}

impl IoMode {
    /// All modes.
    pub const ALL: [Self; 4] = [Self::Buffered, Self::Direct, Self::Uncached, Self::DropBehind];

    /// Returns the mode's name in options and statistics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Buffered => "buffered",
            Self::Direct => "direct",
            Self::Uncached => "uncached",
            Self::DropBehind => "fadvise",
        }
    }
}
