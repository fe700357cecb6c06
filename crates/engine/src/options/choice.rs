//! Types of options whose values are names from a fixed list.

use tailwater_format::block::IndexShortening;
use tailwater_format::checksum::ChecksumType;
use tailwater_format::log::RecoveryMode;
use tailwater_format::options_text::strip_outer_braces;
use tailwater_format::table::IndexType;
use tailwater_format::version_edit::Temperature;

use super::error::{Error, Result};
use super::value::OptionValue;

/// Implements [`OptionValue`] for a type with named values.
macro_rules! choice_names {
    ($type:ty { $($name:literal = $value:expr),* $(,)? }) => {
        impl OptionValue for $type {
            fn set(&mut self, text: &str) -> Result<()> {
                const NAMES: &[&str] = &[$($name),*];
                *self = match strip_outer_braces(text) {
                    $($name => $value,)*
                    _ => {
                        let expected = format!("one of {}", NAMES.join(", "));
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

/// Declares an option's values with their names; the first one is the default.
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
    /// The compression of data. A separate type from `tailwater_format::compress::Compression`,
    /// because blocks may also have compressions that no option can select, and an option may
    /// inherit its value.
    pub enum CompressionType {
        /// None.
        None = "kNoCompression",
        /// Snappy.
        Snappy = "kSnappyCompression",
        /// zlib's deflate, without the zlib header.
        Zlib = "kZlibCompression",
        /// bzip2.
        Bzip2 = "kBZip2Compression",
        /// LZ4.
        Lz4 = "kLZ4Compression",
        /// LZ4 with its slower, denser compressor.
        Lz4Hc = "kLZ4HCCompression",
        /// Windows' Xpress.
        Xpress = "kXpressCompression",
        /// zstd.
        Zstd = "kZSTD",
        /// The value of the option for all levels.
        Inherited = "kDisableCompressionOption",
    }
}

choice! {
    /// The way in which compactions select and arrange tables.
    pub enum CompactionStyle {
        /// In levels, each a multiple of the one before it.
        Level = "kCompactionStyleLevel",
        /// In sorted runs of similar size.
        Universal = "kCompactionStyleUniversal",
        /// First in, first out: the oldest tables are dropped.
        Fifo = "kCompactionStyleFIFO",
        /// Manual compactions only.
        None = "kCompactionStyleNone",
    }
}

choice! {
    /// The table of a level that is compacted first.
    pub enum CompactionPriority {
        /// The table that overlaps least with the next level, relative to its size.
        MinOverlappingRatio = "kMinOverlappingRatio",
        /// The largest table, with extra weight for tombstones.
        ByCompensatedSize = "kByCompensatedSize",
        /// The table whose newest data is oldest.
        OldestLargestSequenceFirst = "kOldestLargestSeqFirst",
        /// The table whose oldest data is oldest.
        OldestSmallestSequenceFirst = "kOldestSmallestSeqFirst",
        /// Each table in turn, in key order.
        RoundRobin = "kRoundRobin",
    }
}

choice! {
    /// The condition at which universal compaction stops adding sorted runs.
    pub enum StopStyle {
        /// When the next run is larger than all selected runs together.
        TotalSize = "kCompactionStopStyleTotalSize",
        /// When the next run is not similar in size to the last one.
        SimilarSize = "kCompactionStopStyleSimilarSize",
    }
}

choice! {
    /// The minimum severity of messages in the information log.
    pub enum InfoLogLevel {
        /// Normal operation.
        Info = "INFO_LEVEL",
        /// Details for debugging.
        Debug = "DEBUG_LEVEL",
        /// Conditions that may need attention.
        Warn = "WARN_LEVEL",
        /// Failures.
        Error = "ERROR_LEVEL",
        /// Failures that the engine cannot survive.
        Fatal = "FATAL_LEVEL",
        /// The header of each log.
        Header = "HEADER_LEVEL",
    }
}

choice! {
    /// The cache tiers that may be used.
    pub enum CacheTier {
        /// All.
        NonVolatileBlock = "kNonVolatileBlockTier",
        /// The caches in memory, including the compressed one.
        VolatileCompressed = "kVolatileCompressedTier",
        /// The uncompressed cache in memory.
        Volatile = "kVolatileTier",
    }
}

choice! {
    /// The large values that are added to the cache when they are written.
    pub enum PrepopulateBlobCache {
        /// None.
        Disable = "kDisable",
        /// Values written by flushes.
        FlushOnly = "kFlushOnly",
    }
}

choice! {
    /// The blocks that are added to the block cache when they are written.
    pub enum PrepopulateBlockCache {
        /// None.
        Disable = "kDisable",
        /// Blocks written by flushes.
        FlushOnly = "kFlushOnly",
        /// All.
        FlushAndCompaction = "kFlushAndCompaction",
    }
}

choice! {
    /// The search algorithm for index blocks.
    pub enum IndexSearchType {
        /// Binary search.
        Binary = "kBinary",
        /// Interpolation of the keys' bytes.
        Interpolation = "kInterpolation",
        /// Interpolation in blocks marked as having uniform keys, binary search in others.
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
    /// The metadata blocks of a table that stay in the cache while it is open.
    pub enum PinningTier {
        /// As selected by the older options.
        Fallback = "kFallback",
        /// None.
        None = "kNone",
        /// The blocks of tables that a flush wrote, or that are similarly small.
        FlushedAndSimilar = "kFlushedAndSimilar",
        /// All.
        All = "kAll",
    }
}

choice! {
    /// The I/O mode requested for one purpose.
    pub enum IoModeChoice {
        /// As selected by RocksDB's options.
        Unset = "default",
        /// Through the page cache.
        Buffered = "buffered",
        /// Past the page cache. If the filesystem does not support this, opening the database
        /// fails.
        Direct = "direct",
        /// Through the page cache, from which the pages are dropped when the I/O is complete.
        Uncached = "uncached",
        /// Through the page cache, which is advised to drop the pages.
        Fadvise = "fadvise",
        /// Past the page cache if the filesystem supports it, otherwise through it.
        Auto = "auto",
    }
}

choice_names! {
    ChecksumType {
        "kXXH3" = Self::Xxh3,
        "kNoChecksum" = Self::None,
        "kCRC32c" = Self::Crc32c,
        "kxxHash" = Self::XxHash,
        "kxxHash64" = Self::XxHash64,
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
        "kShortenSeparators" = Self::Separators,
        "kNoShortening" = Self::None,
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
