//! An open table: the locations of its parts, and those parts that are kept in memory.
//!
//! Opening reads the footer, the metaindex, the properties and the range tombstones. It also reads
//! the index and the filter, unless the block cache is to hold them. Opening refuses a table that
//! uses an unsupported feature, with an error that names the feature.

mod access;
mod fetch;
mod filter;
mod get;
mod index;
mod load_together;
mod open;

use std::sync::Arc;

use tailwater_format::block::IndexFormat;
use tailwater_format::compress::DecompressionDictionary;
use tailwater_format::key::Sequence;
use tailwater_format::table::{BlockHandle, Footer, Properties};
use tailwater_format::{self as format, Comparator};
use tailwater_io::IoMode;
use tailwater_io::in_flight::ReadsInFlight;

use crate::block_cache::{Block, BlockCache, BlockKind, CacheCharges};
use crate::cache::{Cached, OutsideCharge, Stage};
use crate::epoch::{Bin, Guard};
use crate::error::Error;
use crate::handover::{Handover, HotRegions, Warmth};
use crate::memory_counters::Counted;
use crate::prefix_extractor::PrefixExtractor;
use crate::range_tombstone::FragmentedRangeTombstones;
use crate::stats::slow_reads::SlowReads;
use crate::stats::{ReaderMemory, Statistics, Ticker};
use crate::table::OpenPermit;

pub(crate) use access::{
    AccessResult, BlockAccess, Loaded, Loading, Missing, Probe, ReadProfile, Resident, Stop,
};
pub(crate) use fetch::BlockFile;
pub(crate) use get::{GetCursors, PassedFilter};
pub(crate) use index::compare_to;
pub(crate) use load_together::{LoadTogether, Wanted, load_together};
pub(crate) use open::TableIdentity;

/// Size of the cache of index and filter partitions of tables that are read outside a database, in
/// bytes.
const PARTITION_CACHE: usize = 16 << 20;

/// Settings and objects shared by the tables of a column family.
#[derive(Debug, Clone)]
pub(crate) struct TableContext {
    /// The order of user keys.
    pub(crate) comparator: Comparator,
    /// The current prefix extractor.
    pub(crate) prefix_extractor: Option<PrefixExtractor>,
    /// The block cache; `None` caches no blocks.
    pub(crate) block_cache: Option<Arc<BlockCache>>,
    /// What is charged to the block cache in addition to its blocks.
    pub(crate) charges: CacheCharges,
    /// Whether filters are used for lookups.
    pub(crate) uses_filters: bool,
    /// Whether a table's unique id is checked against the MANIFEST.
    pub(crate) verifies_unique_ids: bool,
    /// The placement of index and filter blocks.
    pub(crate) meta_blocks: MetaBlockPlacement,
    /// Automatic readahead of iterators.
    pub(crate) auto_read_ahead: AutoReadAhead,
    /// Whether the operating system is advised that reads are random.
    pub(crate) advises_random: bool,
    /// The statistics to which reads are added, if any.
    pub(crate) statistics: Option<Arc<Statistics>>,
    /// Reads in flight of the database.
    pub(crate) in_flight: Arc<ReadsInFlight>,
    /// The slow reads of the database.
    pub(crate) slow_reads: Arc<SlowReads>,
    /// The name of the column family; empty outside a database.
    pub(crate) family: Arc<str>,
    /// Counts the memory that is used by all table readers of the database and is not part of the
    /// block cache.
    pub(crate) reader_memory: Arc<ReaderMemory>,
    /// Warm handover, if enabled.
    pub(crate) handover: Option<Arc<Handover>>,
    /// The bin of the database.
    pub(crate) bin: Bin,
}

impl TableContext {
    /// Returns the context for reading tables outside an open database. It has a cache of its own,
    /// because the tables have no keys in the block cache of a database.
    pub(crate) fn standalone(
        comparator: Comparator,
        prefix_extractor: Option<PrefixExtractor>,
    ) -> Arc<Self> {
        Arc::new(Self {
            comparator,
            prefix_extractor,
            block_cache: Some(Arc::new(BlockCache::new(PARTITION_CACHE))),
            charges: CacheCharges::default(),
            uses_filters: true,
            verifies_unique_ids: true,
            meta_blocks: MetaBlockPlacement::WITH_TABLE,
            auto_read_ahead: AutoReadAhead::NONE,
            advises_random: false,
            statistics: None,
            in_flight: Arc::new(ReadsInFlight::new(0, false, &Arc::default())),
            slow_reads: Arc::new(SlowReads::new(0, false)),
            family: Arc::default(),
            reader_memory: Arc::default(),
            handover: None,
            bin: Bin::default(),
        })
    }
}

/// The placement of the index and filter blocks of tables: in the block cache, or with the open
/// table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MetaBlockPlacement {
    /// Which tables keep the roots of their partitioned indexes and filters in memory.
    pub(crate) roots: Kept,
    /// Which tables keep their unpartitioned indexes and filters in memory.
    pub(crate) whole: Kept,
    /// Whether index and filter blocks in the block cache have a higher priority than data blocks.
    pub(crate) high_priority: bool,
}

/// Which open tables keep their index and filter blocks of one type in memory. The types are the
/// fields of [`MetaBlockPlacement`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    /// No table keeps its index and filter blocks in memory.
    Never,
    /// Only tables of level 0 keep their index and filter blocks in memory.
    InLevel0,
    /// All tables keep their index and filter blocks in memory.
    Always,
}

impl MetaBlockPlacement {
    /// All index and filter blocks are kept with the open table.
    pub(crate) const WITH_TABLE: Self =
        Self { roots: Kept::Always, whole: Kept::Always, high_priority: true };
}

/// Parameters of automatic readahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AutoReadAhead {
    /// Number of sequential block reads before readahead starts.
    pub(crate) after_reads: u64,
    /// Size of the first readahead, in bytes.
    pub(crate) initial_bytes: usize,
    /// Maximum size of a readahead, in bytes; 0 disables it.
    pub(crate) max_bytes: usize,
}

impl AutoReadAhead {
    /// No readahead.
    pub(crate) const NONE: Self = Self { after_reads: 0, initial_bytes: 0, max_bytes: 0 };
}

/// An open table, shared by all threads that read it. Its methods, except those about the state
/// that opening set, are in
///
/// - `open`: opening
/// - `access`: loading blocks, from the cache or the file
/// - `index`, `filter`: searching the index and the filter
/// - `get`: searching the table for a key
/// - `iterator::index`: visiting all data blocks
#[derive(Debug)]
pub(crate) struct TableReader {
    context: Arc<TableContext>,
    /// Identifies the table's file. The block-cache key of each of the table's blocks begins with
    /// this id. The id is the same each time the file is opened.
    cache_id: u64,
    /// The table's level when it was opened; 0 outside a database.
    level: u32,
    /// See [`TableIdentity::added_ns`].
    added_ns: Option<u64>,
    file: BlockFile,
    footer: Footer,
    properties: Properties,
    index: Index,
    filter: Filter,
    dictionary: Option<DecompressionDictionary>,
    /// The block of range tombstones, if the file has any.
    range_deletions: Option<BlockHandle>,
    range_tombstones: Arc<FragmentedRangeTombstones>,
    /// The sequence number of all records of an ingested file. The records themselves store zeros.
    global_sequence: Option<Sequence>,
    /// The memory of the open table, if it is charged to the block cache.
    charge: Option<OutsideCharge>,
    counted: Counted,
    /// The file's share of the open-file budget of compactions; `None` if the file does not count
    /// against this budget.
    pub(super) permit: Option<OpenPermit>,
    /// The regions of the table that users read recently. When a compaction replaces the table,
    /// warm handover keeps the contents of these regions in memory.
    pub(super) hot_regions: Option<Arc<HotRegions>>,
}

/// The index of a table.
#[derive(Debug)]
struct Index {
    root: MetaBlock,
    format: IndexFormat,
    /// Whether the keys of the index are user keys rather than internal keys.
    user_keys: bool,
    /// Whether the root's entries refer to index blocks rather than data blocks.
    partitioned: bool,
}

/// The filter of a table.
#[derive(Debug)]
struct Filter {
    kind: FilterKind,
    /// Whether the filter contains whole keys.
    whole_keys: bool,
    /// The extractor of the prefixes that the filter contains, if any.
    prefixes: Option<PrefixExtractor>,
}

#[derive(Debug)]
enum FilterKind {
    None,
    Full(MetaBlock),
    /// An index whose entries refer to filter blocks.
    Partitioned(MetaBlock),
}

/// An index or filter block, or the root of a partitioned one.
#[derive(Debug)]
struct MetaBlock {
    handle: BlockHandle,
    /// The block, if it is kept with the open table rather than left to the block cache.
    kept: Option<Arc<Cached<Block>>>,
}

impl TableReader {
    /// Whether visiting all entries of the index may require reading blocks from the file.
    pub(crate) fn index_may_need_reads(&self) -> bool {
        self.index.partitioned || self.index.root.kept.is_none()
    }

    /// Returns the [`Handover`] of the table's column family, through which compactions keep in
    /// memory what users read; `None` if warm handover is disabled.
    pub(crate) fn handover(&self) -> Option<&Arc<Handover>> {
        self.context.handover.as_ref()
    }

    /// Returns the warmth of the data block at `handle`.
    pub(crate) fn warmth(&self, handle: BlockHandle) -> Warmth {
        let Some(handover) = &self.context.handover else { return Warmth::default() };
        handover.warmth(self.cache_key(handle), self.hot_regions.as_deref(), || {
            let pages = self.file.handle().resident_pages(handle.offset, handle.size);
            pages.is_none_or(|pages| pages > 0)
        })
    }

    /// Prefetches a part of what a search for the data block at `handle` reads in the block cache;
    /// see [`Cache::prefetch`](crate::cache::Cache::prefetch).
    #[inline]
    pub(crate) fn prefetch_block(&self, handle: BlockHandle, stage: Stage, guard: &Guard) {
        if let Some(cache) = &self.context.block_cache {
            cache.blocks.prefetch(self.cache_key(handle), stage, guard);
        }
    }

    /// Prefetches the bytes that a scan reads first in the data block at `handle`, if it is in the
    /// block cache.
    #[inline]
    pub(super) fn prefetch_bytes(&self, handle: BlockHandle, is_backward: bool, guard: &Guard) {
        let cache = self.context.block_cache.as_ref();
        if let Some(block) =
            cache.and_then(|cache| cache.blocks.peek(self.cache_key(handle), guard))
        {
            block.prefetch_for_scan(is_backward);
        }
    }

    /// Records, for warm handover, that a user's read took the block at file offset `offset` from
    /// the file rather than from the block cache.
    pub(super) fn record_read(&self, offset: u64) {
        if let Some(hot_regions) = &self.hot_regions
            && hot_regions.record_read(offset)
        {
            self.count(Ticker::HandoverBlocksRead, 1);
        }
    }

    /// Returns the I/O mode of the file.
    pub(crate) fn mode(&self) -> IoMode {
        self.file.handle().mode()
    }

    /// Returns the table's properties.
    pub(crate) fn properties(&self) -> &Properties {
        &self.properties
    }

    /// Whether the properties count all records. In a table with a `format_version` below 5, the
    /// numbers of entries and deletions may exclude range tombstones, and other numbers of records
    /// may be missing: RocksDB counts as it does now since version 6.0, and no earlier version
    /// wrote `format_version` 5. Source: `UpdateInternalStatsFromInputFiles` in
    /// `db/compaction/compaction_job.cc`.
    pub(crate) fn counts_all_records(&self) -> bool {
        self.footer.format_version >= 5
    }

    /// Returns the table's footer.
    pub(crate) fn footer(&self) -> &Footer {
        &self.footer
    }

    /// Returns the file.
    pub(crate) fn file(&self) -> &BlockFile {
        &self.file
    }

    /// Returns the range tombstones, fragmented.
    pub(crate) fn range_tombstones(&self) -> &Arc<FragmentedRangeTombstones> {
        &self.range_tombstones
    }

    /// Returns the order of user keys.
    pub(crate) fn comparator(&self) -> &Comparator {
        &self.context.comparator
    }

    /// Returns the bin of the database.
    pub(crate) fn bin(&self) -> &Bin {
        &self.context.bin
    }

    /// Returns the parameters of automatic readahead.
    pub(crate) fn auto_read_ahead(&self) -> AutoReadAhead {
        self.context.auto_read_ahead
    }

    /// Returns what the reads in flight of the database share.
    pub(crate) fn in_flight(&self) -> &ReadsInFlight {
        &self.context.in_flight
    }

    /// Returns the counter of the memory that all readers of the database use outside the block
    /// cache.
    pub(crate) fn reader_memory(&self) -> &Arc<ReaderMemory> {
        &self.context.reader_memory
    }

    /// Adds `by` to a ticker, if there are statistics.
    pub(crate) fn count(&self, ticker: Ticker, by: u64) {
        if let Some(statistics) = &self.context.statistics {
            statistics.add(ticker, by);
        }
    }

    /// Returns the global sequence number of all records, if the table has one.
    pub(crate) fn global_sequence(&self) -> Option<Sequence> {
        self.global_sequence
    }

    /// Returns the memory that the open table keeps outside the block cache, in bytes.
    pub(crate) fn memory(&self) -> usize {
        let kept = |block: &MetaBlock| block.kept.as_ref().map_or(0, |block| block.memory());
        let filter = match &self.filter.kind {
            FilterKind::None => 0,
            FilterKind::Full(block) | FilterKind::Partitioned(block) => kept(block),
        };
        let dictionary = self.dictionary.as_ref().map_or(0, DecompressionDictionary::memory_usage);
        let tombstones = self.range_tombstones.memory_usage();
        size_of::<Self>() + kept(&self.index.root) + filter + dictionary + tombstones
    }

    /// Returns the dictionary with which blocks of a kind are compressed, if there is one.
    pub(crate) fn dictionary_for(&self, kind: BlockKind) -> Option<&DecompressionDictionary> {
        self.dictionary.as_ref().filter(|_| kind == BlockKind::Data)
    }

    /// Converts a decoder's error about the block at `handle`. The block may be compressed, so the
    /// error gives the block's offset in the file rather than the offset inside the block.
    pub(crate) fn damaged(&self, handle: BlockHandle, error: format::Error) -> Error {
        Error::corruption_at(self.file.path(), handle.offset, format!("in the block here: {error}"))
    }
}
