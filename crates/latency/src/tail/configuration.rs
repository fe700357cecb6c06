//! The configurations that the experiment compares. They differ in which I/O bypasses the page
//! cache.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use tailwater_io::Purpose;

use super::engine::EngineName;
use crate::parsing;

/// A configuration of the database; variants are named as in reports.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum Configuration {
    /// Everything through the page cache
    Buffered,
    /// Compactions and flushes write with direct I/O: use_direct_io_for_flush_and_compaction
    DirectCompactionWritesOnly,
    /// Compactions read with direct I/O: use_direct_io_for_compaction_reads
    DirectCompactionReadOnly,
    /// Compactions read and write, and flushes write, with direct I/O
    DirectCompactionReadWrite,
    /// All reads and writes of tables use direct I/O: use_direct_reads and
    /// use_direct_io_for_flush_and_compaction
    DirectAll,
    /// direct_all with a self-sizing block cache (--block-cache for RocksDB) and a Bloom filter of
    /// 10 bits per key
    Recommended,
    /// direct_all with a block cache that holds the hot set (--block-cache)
    DirectAllBlockCache,
    /// Like direct_all_block_cache, but flushes and compactions insert the blocks that they write
    /// into the block cache: prepopulate_block_cache
    DirectAllPrepopulated,
    /// direct_all_block_cache without warm handover
    DirectAllWithoutHandover,
    /// direct_all with a self-sizing block cache
    DirectAllAutoCache,
    /// Compactions use direct I/O, flushes use the page cache
    Tailwater,
    /// tailwater without warm handover
    TailwaterWithoutHandover,
    /// tailwater with low-priority compactions
    #[value(alias = "tailwater_quiet")]
    #[serde(alias = "tailwater_quiet")]
    TailwaterLowPriority,
    /// Compactions use the page cache with RWF_DONTCACHE
    Uncached,
    /// Compactions use the page cache and drop their pages afterwards
    Fadvise,
    /// Nothing is written or compacted: the latency of reads alone, through the page cache
    NoCompaction,
}

impl Configuration {
    /// The configurations that are compared by default. The first one is the reference for the
    /// others.
    pub const DEFAULT: [Self; 6] = [
        Self::Buffered,
        Self::DirectCompactionWritesOnly,
        Self::DirectCompactionReadOnly,
        Self::DirectCompactionReadWrite,
        Self::DirectAll,
        Self::Recommended,
    ];

    /// The configurations of RocksDB's published experiment.
    pub(super) const ROCKSDB_14743: [Self; 5] = [
        Self::Buffered,
        Self::DirectCompactionWritesOnly,
        Self::DirectCompactionReadOnly,
        Self::DirectCompactionReadWrite,
        Self::DirectAll,
    ];

    /// The configurations that `--quick` compares.
    pub(super) const QUICK: [Self; 3] =
        [Self::Buffered, Self::DirectCompactionReadWrite, Self::Recommended];

    /// The configurations that the experiment with one compaction compares by default.
    pub(super) const MERGING: [Self; 4] = [
        Self::Buffered,
        Self::DirectCompactionWritesOnly,
        Self::DirectCompactionReadWrite,
        Self::NoCompaction,
    ];

    /// Returns the configuration's name, as used in reports and on the command line.
    pub fn name(self) -> String {
        parsing::name(&self)
    }

    /// Returns the engine options of the configuration, as an option string in RocksDB's format.
    pub fn options(self) -> &'static str {
        match self {
            Self::Buffered => "",
            Self::DirectCompactionWritesOnly => "use_direct_io_for_flush_and_compaction=true",
            Self::DirectCompactionReadOnly => "use_direct_io_for_compaction_reads=true",
            Self::DirectCompactionReadWrite => {
                "use_direct_io_for_compaction_reads=true;\
                 use_direct_io_for_flush_and_compaction=true"
            }
            Self::DirectAll
            | Self::Recommended
            | Self::DirectAllBlockCache
            | Self::DirectAllPrepopulated => {
                "use_direct_reads=true;use_direct_io_for_flush_and_compaction=true"
            }
            Self::DirectAllWithoutHandover => {
                "use_direct_reads=true;use_direct_io_for_flush_and_compaction=true;\
                 warm_handover=false"
            }
            Self::DirectAllAutoCache => {
                "use_direct_reads=true;use_direct_io_for_flush_and_compaction=true;\
                 block_based_table_factory={block_cache=auto};trim_allocator=true"
            }
            Self::Tailwater => {
                "compaction_read_io_mode=direct;compaction_write_io_mode=direct;\
                 flush_write_io_mode=buffered"
            }
            Self::TailwaterWithoutHandover => {
                "compaction_read_io_mode=direct;compaction_write_io_mode=direct;\
                 flush_write_io_mode=buffered;warm_handover=false"
            }
            Self::TailwaterLowPriority => {
                "compaction_read_io_mode=direct;compaction_write_io_mode=direct;\
                 flush_write_io_mode=buffered;low_priority_compactions=true"
            }
            Self::Uncached => "compaction_read_io_mode=uncached;compaction_write_io_mode=uncached",
            Self::Fadvise => "compaction_read_io_mode=fadvise;compaction_write_io_mode=fadvise",
            Self::NoCompaction => "disable_auto_compactions=true",
        }
    }

    /// Returns the table options of the configuration for an engine, as an option string, if a
    /// block cache of fixed size has this size; `None` if it needs no table options.
    pub(super) fn table_options(
        self,
        engine: EngineName,
        block_cache_bytes: u64,
    ) -> Option<String> {
        let block_cache = format!("block_cache={block_cache_bytes}");
        match self {
            Self::Recommended => {
                let block_cache = match engine {
                    EngineName::Tailwater => "block_cache=auto",
                    EngineName::Rocksdb => &block_cache,
                };
                Some(format!("{block_cache};filter_policy=bloomfilter:10:false"))
            }
            Self::DirectAllBlockCache | Self::DirectAllWithoutHandover => Some(block_cache),
            Self::DirectAllPrepopulated => {
                Some(format!("{block_cache};prepopulate_block_cache=kFlushAndCompaction"))
            }
            _ => None,
        }
    }

    /// Returns whether the configuration's options exist only in Tailwater, not in RocksDB.
    pub fn is_of_tailwater_only(self) -> bool {
        let only_here = ["_io_mode=", "warm_handover=", "trim_allocator="];
        only_here.iter().any(|option| self.options().contains(option))
    }

    /// Returns the purposes whose reads bypass the page cache in this configuration.
    pub(super) fn direct_reads(self) -> &'static [Purpose] {
        const COMPACTION: [&str; 2] =
            ["use_direct_io_for_compaction_reads=true", "compaction_read_io_mode=direct"];
        let options = self.options();
        if options.contains("use_direct_reads=true") {
            &[Purpose::UserRead, Purpose::CompactionRead, Purpose::CompactionBlobRead]
        } else if COMPACTION.iter().any(|option| options.contains(option)) {
            &[Purpose::CompactionRead, Purpose::CompactionBlobRead]
        } else {
            &[]
        }
    }

    /// Returns whether users' reads bypass the page cache in this configuration.
    pub(super) fn reads_of_users_are_direct(self) -> bool {
        self.direct_reads().contains(&Purpose::UserRead)
    }

    /// Returns whether other work (writes and compactions) runs during the reads.
    pub fn disturbs(self) -> bool {
        self != Self::NoCompaction
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configuration_names_match_arguments_and_reports() {
        for configuration in Configuration::value_variants() {
            let argument = configuration.to_possible_value().unwrap();
            assert_eq!(argument.get_name(), configuration.name());
            let report = serde_json::to_value(configuration).unwrap();
            assert_eq!(report, configuration.name());
        }
    }

    #[test]
    fn tailwater_accepts_the_options_of_every_configuration() {
        for configuration in Configuration::value_variants() {
            tailwater::OpenOptions::default().set_from_string(configuration.options()).unwrap();
        }
    }
}
