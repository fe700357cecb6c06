//! Types of options whose values are names from a fixed list.

use tailwater_format::block::IndexShortening;
use tailwater_format::checksum::ChecksumType;
use tailwater_format::options_text::strip_outer_braces;
use tailwater_format::record_log::RecoveryMode;
use tailwater_format::table::IndexType;
use tailwater_format::version_edit::Temperature;

use super::error::{Error, Result};
use super::value::{OptionValue, ValueKind};

/// Implements [`OptionValue`] for a type whose values have fixed names, in the order of their
/// numbers in RocksDB.
macro_rules! choice_names {
    ($type:ty { $($name:literal = $value:expr),* $(,)? }) => {
        impl OptionValue for $type {
            const KIND: ValueKind = ValueKind::Enum(&[$($name),*]);

            fn set(&mut self, text: &str) -> Result<()> {
                *self = match strip_outer_braces(text) {
                    $($name => $value,)*
                    _ => {
                        let expected = format!("one of {}", [$($name),*].join(", "));
                        return Err(Error::malformed(text, expected));
                    }
                };
                Ok(())
            }

            fn print(&self) -> String {
                let names = [$(($value, $name)),*];
                let name = names.iter().find(|(value, _)| value == self).map(|(_, name)| *name);
                name.unwrap_or_default().to_owned()
            }
        }
    };
}

/// Declares an enum of option values, each with its name in option strings. The first value is the
/// default.
macro_rules! choice {
    (
        $(#[$meta:meta])*
        pub enum $type:ident {
            $(#[doc = $first_doc:literal])+ $first:ident = $first_name:literal,
            $($(#[doc = $doc:literal])+ $value:ident = $name:literal,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $type {
            $(#[doc = $first_doc])+
            #[default]
            $first,
            $($(#[doc = $doc])+ $value,)*
        }

        choice_names!($type { $first_name = Self::$first, $($name = Self::$value),* });
    };
}

choice! {
    /// The compression of data. This type is separate from
    /// `tailwater_format::compress::Compression` for two reasons: blocks may have compressions that
    /// no option can select, and an option may inherit its value from another option.
    pub enum CompressionType {
        /// No compression.
        None = "kNoCompression",
        /// Snappy.
        Snappy = "kSnappyCompression",
        /// zlib's deflate, without the zlib header.
        Zlib = "kZlibCompression",
        /// bzip2.
        Bzip2 = "kBZip2Compression",
        /// LZ4.
        Lz4 = "kLZ4Compression",
        /// LZ4 with the high-compression encoder, which is slower and compresses better.
        Lz4Hc = "kLZ4HCCompression",
        /// Xpress, the compression of Windows.
        Xpress = "kXpressCompression",
        /// zstd.
        Zstd = "kZSTD",
        /// Not set: the compression is that of option `compression`.
        Inherited = "kDisableCompressionOption",
    }
}

choice! {
    /// The way in which compactions select and arrange tables.
    pub enum CompactionStyle {
        /// Data is arranged in levels. The size of each level is a multiple of the size of the
        /// previous level.
        Level = "kCompactionStyleLevel",
        /// Data is arranged in sorted runs of similar size.
        Universal = "kCompactionStyleUniversal",
        /// First in, first out: the oldest tables are dropped.
        Fifo = "kCompactionStyleFIFO",
        /// Manual compactions only.
        None = "kCompactionStyleNone",
    }
}

choice! {
    /// Which table of a level is compacted first.
    pub enum CompactionPriority {
        /// The table with the lowest overlap ratio: the bytes in the next level that overlap the
        /// table, divided by the table's size.
        MinOverlappingRatio = "kMinOverlappingRatio",
        /// The largest table, with extra weight for tombstones.
        ByCompensatedSize = "kByCompensatedSize",
        /// The table whose newest record has the lowest sequence number.
        OldestLargestSequenceFirst = "kOldestLargestSeqFirst",
        /// The table whose oldest record has the lowest sequence number.
        OldestSmallestSequenceFirst = "kOldestSmallestSeqFirst",
        /// The tables of the level are compacted in turn, in key order.
        RoundRobin = "kRoundRobin",
    }
}

choice! {
    /// The condition at which universal compaction stops adding sorted runs.
    pub enum StopStyle {
        /// Universal compaction stops selecting runs when the next run is larger than all selected
        /// runs together.
        TotalSize = "kCompactionStopStyleTotalSize",
        /// Universal compaction stops selecting runs when the next run is not similar in size to
        /// the run selected last.
        SimilarSize = "kCompactionStopStyleSimilarSize",
    }
}

choice! {
    /// The minimum severity of messages in the information log.
    pub enum InfoLogLevel {
        /// Messages about normal operation.
        Info = "INFO_LEVEL",
        /// Details for debugging.
        Debug = "DEBUG_LEVEL",
        /// Conditions that may need attention.
        Warn = "WARN_LEVEL",
        /// Failures.
        Error = "ERROR_LEVEL",
        /// Failures that the engine cannot survive.
        Fatal = "FATAL_LEVEL",
        /// Only the lines that each log starts with.
        Header = "HEADER_LEVEL",
    }
}

choice! {
    /// The cache tiers that may be used.
    pub enum CacheTier {
        /// All cache tiers may be used.
        NonVolatileBlock = "kNonVolatileBlockTier",
        /// The caches in memory, including the compressed one.
        VolatileCompressed = "kVolatileCompressedTier",
        /// The uncompressed cache in memory.
        Volatile = "kVolatileTier",
    }
}

choice! {
    /// Which large values are added to the blob cache when they are written.
    pub enum PrepopulateBlobCache {
        /// No values are added to the blob cache.
        Disable = "kDisable",
        /// Only the values that a flush writes are added to the blob cache.
        FlushOnly = "kFlushOnly",
    }
}

choice! {
    /// Which blocks are added to the block cache when they are written.
    pub enum PrepopulateBlockCache {
        /// No blocks are added to the block cache.
        Disable = "kDisable",
        /// Only the blocks that a flush writes are added to the block cache.
        FlushOnly = "kFlushOnly",
        /// The blocks that a flush or a compaction writes are added to the block cache.
        FlushAndCompaction = "kFlushAndCompaction",
    }
}

choice! {
    /// The search algorithm for index blocks.
    pub enum IndexSearchType {
        /// Binary search.
        Binary = "kBinary",
        /// Interpolation search, which estimates the position from the bytes of the keys.
        Interpolation = "kInterpolation",
        /// Interpolation search in blocks that are marked as having uniformly distributed keys,
        /// binary search in all others.
        Auto = "kAuto",
    }
}

choice! {
    /// The index of a data block.
    pub enum DataBlockIndexType {
        /// Binary search.
        BinarySearch = "kDataBlockBinarySearch",
        /// Binary search, and a hash index for point lookups.
        BinaryAndHash = "kDataBlockBinaryAndHash",
    }
}

choice! {
    /// Which metadata blocks stay in the cache while their tables are open.
    pub enum PinningTier {
        /// The older options for pinning determine which metadata blocks stay in the cache.
        Fallback = "kFallback",
        /// No metadata blocks stay in the cache.
        None = "kNone",
        /// The metadata blocks of tables in level 0 stay in the cache. Those of other tables do
        /// not.
        FlushedAndSimilar = "kFlushedAndSimilar",
        /// All metadata blocks stay in the cache.
        All = "kAll",
    }
}

choice! {
    /// Whether memory outside the block cache is charged to it. In RocksDB, this is
    /// `CacheEntryRoleOptions::charged`.
    pub enum CacheEntryRoleDecision {
        /// The default for this use of memory.
        Fallback = "kFallback",
        /// The memory is charged.
        Enabled = "kEnabled",
        /// The memory is not charged.
        Disabled = "kDisabled",
    }
}

choice! {
    /// The I/O mode that an option requests for one purpose of I/O.
    pub enum IoModeChoice {
        /// No mode is requested here. RocksDB's options for direct I/O determine the mode.
        Unset = "default",
        /// The I/O goes through the page cache.
        Buffered = "buffered",
        /// The I/O bypasses the page cache. If the filesystem does not support this, opening the
        /// database fails.
        Direct = "direct",
        /// The I/O goes through the page cache, with a flag that makes the kernel drop the pages
        /// when the I/O is complete.
        Uncached = "uncached",
        /// The I/O goes through the page cache. Afterwards `posix_fadvise` advises the kernel to
        /// drop the pages.
        Fadvise = "fadvise",
        /// The I/O bypasses the page cache if the filesystem supports this. Otherwise it goes
        /// through the page cache.
        Auto = "auto",
    }
}

choice_names! {
    ChecksumType {
        "kNoChecksum" = Self::None,
        "kCRC32c" = Self::Crc32c,
        "kxxHash" = Self::XxHash,
        "kxxHash64" = Self::XxHash64,
        "kXXH3" = Self::Xxh3,
    }
}

choice_names! {
    IndexType {
        "kBinarySearch" = Self::BinarySearch,
        "kHashSearch" = Self::HashSearch,
        "kTwoLevelIndexSearch" = Self::TwoLevelIndexSearch,
        "kBinarySearchWithFirstKey" = Self::BinarySearchWithFirstKey,
    }
}

choice_names! {
    IndexShortening {
        "kNoShortening" = Self::None,
        "kShortenSeparators" = Self::Separators,
        "kShortenSeparatorsAndSuccessor" = Self::SeparatorsAndSuccessor,
    }
}

choice_names! {
    RecoveryMode {
        "kTolerateCorruptedTailRecords" = Self::TolerateCorruptedTailRecords,
        "kAbsoluteConsistency" = Self::AbsoluteConsistency,
        "kPointInTimeRecovery" = Self::PointInTime,
        "kSkipAnyCorruptedRecords" = Self::SkipAnyCorruptedRecords,
    }
}

choice_names! {
    Temperature {
        "kUnknown" = Self::UNKNOWN,
        "kHot" = Self::HOT,
        "kWarm" = Self::WARM,
        "kCool" = Self::COOL,
        "kCold" = Self::COLD,
        "kIce" = Self::ICE,
    }
}
