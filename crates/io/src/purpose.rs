//! Why bytes move, and how.

/// Why bytes move. Every open, read, write and sync carries a purpose; statistics are kept and
/// modes are chosen by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
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
    /// The write-ahead log, written or replayed.
    Wal,
    /// MANIFEST and CURRENT.
    Manifest,
    /// Tables and files are read only to check them.
    Verification,
    /// A table is written for ingestion, or ingested.
    Ingestion,
    /// A file is copied into a checkpoint.
    Checkpoint,
    /// Small files that are read or written once: OPTIONS, IDENTITY, LOCK, LOG.
    Metadata,
    /// Messages are appended to a segment.
    LogAppend,
    /// Messages are read from a segment: by a poll, at recovery, to check them.
    LogRead,
    /// Indexes of segments.
    LogIndex,
    /// Journals of a message log: its catalog and its consumers' offsets.
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

    /// Returns whether only a message log uses this purpose, and never a database.
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

/// How bytes move between a file and memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum IoMode {
    /// Through the page cache.
    #[default]
    Buffered,
    /// Past the page cache (`O_DIRECT`): offset, length and memory are aligned.
    Direct,
    /// Through the page cache; the kernel then drops the pages that this transfer added to it
    /// (`RWF_DONTCACHE`, Linux 6.14). Pages that were cached before stay.
    Uncached,
    /// Through the page cache, with the advice that the pages are no longer needed
    /// (`POSIX_FADV_DONTNEED`): immediately after reads, after writeback for writes.
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
