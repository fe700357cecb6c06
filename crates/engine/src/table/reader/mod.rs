//! One open table: where its parts stand, and what of it is kept in memory.
//!
//! Opening reads the footer, the metaindex, the properties, the range tombstones, and, unless they
//! are left to the block cache, the index and the filter. A table that uses what is not built is
//! refused here, by name.

mod access;
mod fetch;
mod filter;
mod get;
mod index;
mod open;

use std::sync::Arc;

use tailwater_format::block::IndexFormat;
use tailwater_format::compress::DecompressionDictionary;
use tailwater_format::key::Sequence;
use tailwater_format::table::{BlockHandle, Footer, Properties};
use tailwater_format::{self as format, Comparator};
use tailwater_io::IoMode;

use crate::Error;
use crate::cache::{Cached, Key};
use crate::handover::{Handover, Heat, Warmth};
use crate::prefix_extractor::PrefixExtractor;
use crate::range_tombstone::FragmentedRangeTombstones;
use crate::stats::{ReaderMemory, Statistics, Ticker};
use crate::table::{Block, BlockCache, BlockKind, OpenPermit};

pub(crate) use access::{BlockAccess, Loading, Probe, ReadProfile, Resident};
pub(crate) use fetch::BlockFile;
pub(crate) use get::{GetCursors, TableStep};
pub(crate) use index::compare_to;
pub(crate) use open::TableIdentity;

/// What the tables of a column family have in common.
#[derive(Debug)]
pub(crate) struct TableContext {
    /// The order of user keys.
    pub(crate) comparator: Comparator,
    /// The prefixes that filters may be asked about.
    pub(crate) prefix_extractor: Option<PrefixExtractor>,
    /// Where blocks are kept; `None` keeps none.
    pub(crate) block_cache: Option<Arc<BlockCache>>,
    /// Whether filters are asked at all.
    pub(crate) uses_filters: bool,
    /// Whether a table's unique id must be the one that the MANIFEST says.
    pub(crate) verifies_unique_ids: bool,
    /// Where index and filter blocks live.
    pub(crate) meta_blocks: MetaBlockPlacement,
    /// How iterators read ahead that were not told how.
    pub(crate) auto_read_ahead: AutoReadAhead,
    /// Whether the system is told that files are read at random places.
    pub(crate) advises_random: bool,
    /// Where reads are counted, if they are.
    pub(crate) statistics: Option<Arc<Statistics>>,
    /// What readers hold outside the block cache, of the whole database.
    pub(crate) reader_memory: Arc<ReaderMemory>,
    /// What compactions hand over of what users read, where they do.
    pub(crate) handover: Option<Arc<Handover>>,
}

/// Where the index and filter blocks of tables live: in the block cache, or with the open table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MetaBlockPlacement {
    /// Which tables keep their own roots of partitioned indexes and filters.
    pub(crate) roots: Kept,
    /// Which tables keep their own indexes and filters that are one block.
    pub(crate) whole: Kept,
    /// Whether those in the block cache stay longer than data blocks.
    pub(crate) high_priority: bool,
}

/// Which tables keep a block with them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    /// None.
    Never,
    /// Those of level 0.
    InLevel0,
    /// All.
    Always,
}

impl MetaBlockPlacement {
    /// All with the open table.
    pub(crate) const WITH_TABLE: Self =
        Self { roots: Kept::Always, whole: Kept::Always, high_priority: true };
}

/// How an iterator reads ahead that was not told how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AutoReadAhead {
    /// How many blocks are read one after the other before it begins.
    pub(crate) after_reads: u64,
    /// How much is read at once the first time, in bytes.
    pub(crate) initial_bytes: usize,
    /// How much is read at once at most, in bytes; 0 reads nothing ahead.
    pub(crate) max_bytes: usize,
}

impl AutoReadAhead {
    /// Not at all.
    pub(crate) const NONE: Self = Self { after_reads: 0, initial_bytes: 0, max_bytes: 0 };
}

/// One open table. Shared by every thread that reads it.
#[derive(Debug)]
pub(crate) struct TableReader {
    context: Arc<TableContext>,
    /// What its blocks go by in the block cache, the same each time the file is opened.
    cache_id: u64,
    file: BlockFile,
    footer: Footer,
    properties: Properties,
    index: Index,
    filter: Filter,
    dictionary: Option<DecompressionDictionary>,
    /// Where the file has its range tombstones, if it has any.
    range_deletions: Option<BlockHandle>,
    range_tombstones: Arc<FragmentedRangeTombstones>,
    /// The sequence number of every record of an ingested file, which stores zeros.
    global_sequence: Option<Sequence>,
    /// What its open file counts as, where it counts.
    permit: Option<OpenPermit>,
    /// What of it users read lately, where that is handed over.
    heat: Option<Arc<Heat>>,
}

/// The index of a table.
#[derive(Debug)]
struct Index {
    root: MetaBlock,
    format: IndexFormat,
    /// Whether keys are user keys rather than internal keys.
    user_keys: bool,
    /// Whether the root leads to index blocks rather than data blocks.
    partitioned: bool,
}

/// The filter of a table.
#[derive(Debug)]
struct Filter {
    kind: FilterKind,
    /// Whether whole keys were added.
    whole_keys: bool,
    /// What extracted the prefixes that were added, if any were.
    prefixes: Option<PrefixExtractor>,
}

#[derive(Debug)]
enum FilterKind {
    None,
    Full(MetaBlock),
    /// An index whose entries lead to filters.
    Partitioned(MetaBlock),
}

/// A block that every read of the table needs.
#[derive(Debug)]
struct MetaBlock {
    handle: BlockHandle,
    /// The block, if it is kept with the open table rather than left to the block cache.
    kept: Option<Arc<Cached<Block>>>,
}

impl TableReader {
    /// Has its open file count until it is dropped.
    pub(crate) fn count_with(&mut self, permit: OpenPermit) {
        self.permit = Some(permit);
    }

    /// Has what users read of it noted.
    pub(crate) fn note_heat(&mut self, heat: Arc<Heat>) {
        self.heat = Some(heat);
    }

    /// Whether its index may have to be read block by block.
    pub(crate) fn is_index_partitioned(&self) -> bool {
        self.index.partitioned || self.index.root.kept.is_none()
    }

    /// What is handed over between the tables of its column family.
    pub(crate) fn handover(&self) -> Option<&Arc<Handover>> {
        self.context.handover.as_ref()
    }

    /// How users get at a data block of it, where that is handed over.
    #[inline]
    pub(crate) fn warmth(&self, handle: BlockHandle) -> Warmth {
        match &self.context.handover {
            Some(handover) => self.warmth_for(handover, handle),
            None => Warmth::default(),
        }
    }

    fn warmth_for(&self, handover: &Handover, handle: BlockHandle) -> Warmth {
        let key = Key { file: self.cache_id, offset: handle.offset };
        handover.warmth(key, self.heat.as_deref(), || {
            let pages = self.file.handle().resident_pages(handle.offset, handle.size);
            pages.is_none_or(|pages| pages > 0)
        })
    }

    /// Notes that a user read the block at an offset from the file.
    pub(super) fn touch(&self, offset: u64) {
        if let Some(heat) = &self.heat
            && heat.touch(offset)
        {
            self.count(Ticker::HandoverBlocksRead, 1);
        }
    }

    /// How its bytes are read.
    pub(crate) fn mode(&self) -> IoMode {
        self.file.handle().mode()
    }

    /// The table's properties.
    pub(crate) fn properties(&self) -> &Properties {
        &self.properties
    }

    /// The table's footer.
    pub(crate) fn footer(&self) -> &Footer {
        &self.footer
    }

    /// The file.
    pub(crate) fn file(&self) -> &BlockFile {
        &self.file
    }

    /// The range tombstones, fragmented.
    pub(crate) fn range_tombstones(&self) -> &Arc<FragmentedRangeTombstones> {
        &self.range_tombstones
    }

    /// The order of user keys.
    pub(crate) fn comparator(&self) -> &Comparator {
        &self.context.comparator
    }

    /// How its iterators read ahead that were not told how.
    pub(crate) fn auto_read_ahead(&self) -> AutoReadAhead {
        self.context.auto_read_ahead
    }

    /// What all readers of the database hold.
    pub(crate) fn reader_memory(&self) -> &Arc<ReaderMemory> {
        &self.context.reader_memory
    }

    /// Counts `by` more of something, where it is counted.
    pub(crate) fn count(&self, ticker: Ticker, by: u64) {
        if let Some(statistics) = &self.context.statistics {
            statistics.add(ticker, by);
        }
    }

    /// The sequence number of every record, where it stands outside the records.
    pub(crate) fn global_sequence(&self) -> Option<Sequence> {
        self.global_sequence
    }

    /// The memory that the open table keeps outside the block cache, in bytes.
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

    /// The dictionary that blocks of that kind are compressed with.
    pub(crate) fn dictionary_for(&self, kind: BlockKind) -> Option<&DecompressionDictionary> {
        self.dictionary.as_ref().filter(|_| kind == BlockKind::Data)
    }

    /// A decoder's error about the block at `handle`. Offsets inside a block that may be compressed
    /// say nothing about the file, so the block is named instead.
    pub(crate) fn damaged(&self, handle: BlockHandle, error: format::Error) -> Error {
        Error::corruption_at(self.file.path(), handle.offset, format!("in the block here: {error}"))
    }
}
