//! Options that are one of several named values.

use tailwater_format::log::RecoveryMode;
use tailwater_format::options_text::strip_outer_braces;
use tailwater_format::version_edit::Temperature;

use super::error::{Error, Result};
use super::value::OptionValue;

/// Makes named values the values of options.
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
    /// How bytes are compressed.
    pub enum CompressionType {
        /// Not at all.
        None = "kNoCompression",
        /// With Snappy.
        Snappy = "kSnappyCompression",
        /// With zlib's deflate, without its head.
        Zlib = "kZlibCompression",
        /// With bzip2.
        Bzip2 = "kBZip2Compression",
        /// With LZ4.
        Lz4 = "kLZ4Compression",
        /// With LZ4's slower, denser compressor.
        Lz4Hc = "kLZ4HCCompression",
        /// With Windows' Xpress.
        Xpress = "kXpressCompression",
        /// With zstd.
        Zstd = "kZSTD",
        /// As another option says.
        Inherited = "kDisableCompressionOption",
    }
}

choice! {
    /// The checksum of a block.
    pub enum ChecksumType {
        /// The low half of XXH3 with 64 bits.
        Xxh3 = "kXXH3",
        /// None.
        None = "kNoChecksum",
        /// CRC32C.
        Crc32c = "kCRC32c",
        /// xxHash with 32 bits.
        Xxh32 = "kxxHash",
        /// The low half of xxHash with 64 bits.
        Xxh64 = "kxxHash64",
    }
}

choice! {
    /// How tables are chosen and arranged by compaction.
    pub enum CompactionStyle {
        /// In levels, each a multiple of the one before it.
        Level = "kCompactionStyleLevel",
        /// In sorted runs of similar size.
        Universal = "kCompactionStyleUniversal",
        /// Not at all: the oldest tables are dropped.
        Fifo = "kCompactionStyleFIFO",
        /// Only by hand.
        None = "kCompactionStyleNone",
    }
}

choice! {
    /// Which table of a level is compacted first.
    pub enum CompactionPriority {
        /// The one that overlaps least with the next level, for its size.
        MinOverlappingRatio = "kMinOverlappingRatio",
        /// The largest, tombstones counted more.
        ByCompensatedSize = "kByCompensatedSize",
        /// The one whose newest data is oldest.
        OldestLargestSequenceFirst = "kOldestLargestSeqFirst",
        /// The one whose oldest data is oldest.
        OldestSmallestSequenceFirst = "kOldestSmallestSeqFirst",
        /// Each in turn, in the order of the keys.
        RoundRobin = "kRoundRobin",
    }
}

choice! {
    /// When universal compaction stops to add sorted runs.
    pub enum StopStyle {
        /// When the next run is larger than all chosen ones together.
        TotalSize = "kCompactionStopStyleTotalSize",
        /// When the next run is not of similar size as the last.
        SimilarSize = "kCompactionStopStyleSimilarSize",
    }
}

choice! {
    /// The least important messages that the information log takes.
    pub enum InfoLogLevel {
        /// What the engine does.
        Info = "INFO_LEVEL",
        /// What helps to find faults in the engine.
        Debug = "DEBUG_LEVEL",
        /// What may need attention.
        Warn = "WARN_LEVEL",
        /// What failed.
        Error = "ERROR_LEVEL",
        /// What the engine could not survive.
        Fatal = "FATAL_LEVEL",
        /// What stands at the head of each log.
        Header = "HEADER_LEVEL",
    }
}

choice! {
    /// Which caches may be used.
    pub enum CacheTier {
        /// All.
        NonVolatileBlock = "kNonVolatileBlockTier",
        /// Those in memory, the compressed one too.
        VolatileCompressed = "kVolatileCompressedTier",
        /// The one in memory.
        Volatile = "kVolatileTier",
    }
}

choice! {
    /// Which large values are put into the cache while they are written.
    pub enum PrepopulateBlobCache {
        /// None.
        Disable = "kDisable",
        /// Those that flushes write.
        FlushOnly = "kFlushOnly",
    }
}

choice! {
    /// Which blocks are put into the cache while they are written.
    pub enum PrepopulateBlockCache {
        /// None.
        Disable = "kDisable",
        /// Those that flushes write.
        FlushOnly = "kFlushOnly",
        /// All.
        FlushAndCompaction = "kFlushAndCompaction",
    }
}

choice! {
    /// How a table's index is laid out.
    pub enum IndexType {
        /// One block of separators.
        BinarySearch = "kBinarySearch",
        /// One block, with a hash of prefixes.
        HashSearch = "kHashSearch",
        /// Blocks of separators under a block of their separators.
        TwoLevelSearch = "kTwoLevelIndexSearch",
        /// One block of separators, with each data block's first key.
        BinarySearchWithFirstKey = "kBinarySearchWithFirstKey",
    }
}

choice! {
    /// How a block of an index is searched.
    pub enum IndexSearchType {
        /// By halving.
        Binary = "kBinary",
        /// By guessing from the keys' bytes.
        Interpolation = "kInterpolation",
        /// By guessing, in blocks that say that their keys are spread evenly.
        Auto = "kAuto",
    }
}

choice! {
    /// How a data block is searched.
    pub enum DataBlockIndexType {
        /// By halving.
        BinarySearch = "kDataBlockBinarySearch",
        /// With a hash of keys for point lookups.
        BinaryAndHash = "kDataBlockBinaryAndHash",
    }
}

choice! {
    /// How far the separators of an index are shortened.
    pub enum IndexShortening {
        /// All but the last.
        Separators = "kShortenSeparators",
        /// Not at all.
        None = "kNoShortening",
        /// All.
        SeparatorsAndSuccessor = "kShortenSeparatorsAndSuccessor",
    }
}

choice! {
    /// Which blocks about a table stay in the cache while it is open.
    pub enum PinningTier {
        /// As the older options say.
        Fallback = "kFallback",
        /// None.
        None = "kNone",
        /// Those of tables that a flush wrote, or that are about as small.
        FlushedAndSimilar = "kFlushedAndSimilar",
        /// All.
        All = "kAll",
    }
}

choice! {
    /// How bytes of one purpose move between files and memory.
    pub enum IoModeChoice {
        /// As RocksDB's options say.
        Unset = "default",
        /// Through the page cache.
        Buffered = "buffered",
        /// Past the page cache. Where a filesystem refuses that, the database is not opened.
        Direct = "direct",
        /// Through the page cache, which keeps nothing of it.
        Uncached = "uncached",
        /// Through the page cache, which is told that nothing of it is needed.
        Fadvise = "fadvise",
        /// Past the page cache where a filesystem lets it, and through it elsewhere.
        Auto = "auto",
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
