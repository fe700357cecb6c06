//! Warm handover: data that users read stays cached in memory when a compaction replaces the tables
//! that contain the data.
//!
//! Without handover, a compaction that writes with direct I/O would leave no block of its outputs
//! in memory, while the cached blocks of its inputs are dropped together with the inputs. Users
//! would then wait for the device at the first read of each output block. So each block of a
//! compaction's inputs has a [`Warmth`]: whether users read it from the block cache, or
//! [recently](warm_set) from the page cache. Each record takes the warmth of its input block into
//! the output. An output block is warm if enough of its bytes come from warm input blocks:
//!
//! - A block that is warm for the page cache is written through the page cache. The rest of the
//!   table bypasses it
//!   ([`SequentialWriter::append_warm`](tailwater_io::stream::SequentialWriter::append_warm)).
//! - The uncompressed bytes of a block that is warm for the block cache are
//!   [staged](staged_blocks): copied aside, and inserted into the block cache when the output is
//!   installed.
//!
//! Handover to the page cache is limited if users read few of the blocks handed over before. Then,
//! of the blocks that are warm for the page cache but not for the block cache, only a sample is
//! handed over. Near a write stall, no block counts as warm.
//!
//! Handover takes about as much memory as the inputs' cached blocks, which are dropped with the
//! inputs.
//!
//! Each table is built with a [`TableHandover`], and installed by
//! [`WarmInstallation`](crate::table::WarmInstallation). The warm blocks of an output are in the
//! caches before readers see the output. The staged blocks of a failed job are dropped with the
//! job; a failure to keep blocks warm is not an error.

mod staged_blocks;
mod warm_set;

use std::sync::Arc;

use crate::block_cache::{Block, BlockCache, BlockKind, RecentKeys};
use crate::cache::{Key, Priority};
use crate::stall::CompactionPressure;
use crate::stats::{Statistics, Ticker};

use staged_blocks::StagedBlocks;
pub(crate) use warm_set::{Generations, HotRegions};

/// A block of an output is warm if at least 1/WARM_PART of its bytes come from warm blocks of the
/// inputs. An input block is warm if users read it from a cache.
const WARM_PART: usize = 4;
/// If users read few of the blocks handed over to the page cache, only a sample is handed over: one
/// in SAMPLE_PART of the blocks that users read from the page cache and not from the block cache.
const SAMPLE_PART: usize = 16;

/// The caches from which users read a block.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Warmth {
    /// Whether the block is in the block cache and users have read it.
    pub(crate) cached: bool,
    /// Whether the block is in the page cache and users have read it.
    pub(crate) paged: bool,
}

/// Which data the flushes and compactions of a column family hand over to the caches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Shares {
    /// Whether compactions hand over (put into a cache) output blocks if users read the same data
    /// from the input tables.
    pub(crate) read: bool,
    /// Whether blocks are handed over to the page cache: true if users read through the page cache
    /// while compactions bypass it when writing.
    pub(crate) pages: bool,
    /// Whether flushes hand over the blocks with records of keys that users read lately.
    pub(crate) flushes: bool,
    /// Whether compactions insert every block into the block cache.
    pub(crate) all_of_compactions: bool,
    /// Whether flushes insert every block into the block cache.
    pub(crate) all_of_flushes: bool,
}

/// The warm handover of a column family: what users read stays in a cache when a flush or
/// compaction writes it to a new table.
#[derive(Debug)]
pub(crate) struct Handover {
    pub(crate) generations: Arc<Generations>,
    /// The keys that users read lately. Noted if flushes hand over blocks.
    pub(crate) recent_keys: Arc<RecentKeys>,
    /// The compaction pressure. Near a write stall, no block counts as warm.
    pub(crate) pressure: Arc<CompactionPressure>,
    /// The block cache of the tables.
    pub(crate) cache: Option<Arc<BlockCache>>,
    pub(crate) shares: Shares,
    pub(crate) statistics: Option<Arc<Statistics>>,
}

impl Handover {
    /// Returns the object that selects which blocks of table `number`, which a flush writes, are
    /// put into a cache. Returns `None` if flushes put no blocks into a cache.
    pub(crate) fn of_flush(self: &Arc<Self>, number: u64) -> Option<TableHandover> {
        let Shares { flushes, all_of_flushes, .. } = self.shares;
        if !flushes && !all_of_flushes {
            return None;
        }
        self.recent_keys.forget_old();
        if let Some(cache) = &self.cache {
            cache.update_staging_limit();
        }
        let pages = self.warmth_of_recent_keys().paged;
        Some(TableHandover::new(Arc::clone(self), number, pages, all_of_flushes))
    }

    /// Returns the object that selects which blocks of table `number`, which a compaction writes,
    /// are put into a cache. Returns `None` if compactions put no blocks into a cache.
    pub(crate) fn of_compaction(self: &Arc<Self>, number: u64) -> Option<TableHandover> {
        let Shares { read, pages, all_of_compactions, .. } = self.shares;
        if !read && !all_of_compactions {
            return None;
        }
        if let Some(cache) = &self.cache {
            cache.update_staging_limit();
        }
        Some(TableHandover::new(Arc::clone(self), number, pages, all_of_compactions))
    }

    /// Notes that a user found a key in a table.
    #[inline]
    pub(crate) fn note_read(&self, user_key: &[u8]) {
        if self.shares.flushes {
            self.recent_keys.note(user_key);
        }
    }

    /// Whether users read a key lately.
    pub(crate) fn was_read(&self, user_key: &[u8]) -> bool {
        self.shares.flushes && self.recent_keys.has(user_key)
    }

    /// Returns the caches into which a flush puts records of keys that users read lately.
    pub(crate) fn warmth_of_recent_keys(&self) -> Warmth {
        let Shares { flushes, pages, .. } = self.shares;
        let flushes = flushes && !self.pressure.is_near_stall();
        Warmth { cached: flushes && self.cache.is_some() && !pages, paged: flushes && pages }
    }

    /// Returns the warmth of the input block whose key in the block cache is `key`. `is_resident`
    /// returns whether the block is in the page cache. It is called only if the result depends on
    /// it.
    pub(crate) fn warmth(
        &self,
        key: Key,
        hot_regions: Option<&HotRegions>,
        is_resident: impl FnOnce() -> bool,
    ) -> Warmth {
        if !self.shares.read || self.pressure.is_near_stall() {
            return Warmth::default();
        }
        let is_hot = hot_regions.is_some_and(|hot_regions| hot_regions.is_hot(key.offset));
        let was_hit = self.cache.as_ref().and_then(|cache| cache.blocks.was_hit(key));
        let cached = was_hit.is_some_and(|was_hit| was_hit || is_hot);
        Warmth { cached, paged: self.shares.pages && (is_hot || cached) && is_resident() }
    }

    /// Reserves memory for staging a block of `bytes` bytes. Returns whether enough memory was
    /// left. `is_all` says whether all blocks of the table are staged, or only those that users
    /// read.
    fn reserve_staging(&self, bytes: usize, is_all: bool) -> bool {
        self.cache.as_ref().is_some_and(|cache| cache.reserve_staging(bytes, is_all))
    }

    fn release_staging(&self, bytes: usize, is_all: bool) {
        if let Some(cache) = &self.cache {
            cache.release_staging(bytes, is_all);
        }
    }

    fn count(&self, ticker: Ticker, by: u64) {
        if let Some(statistics) = &self.statistics {
            statistics.add(ticker, by);
        }
    }
}

/// A warm block of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WarmBlock {
    /// Offset of the block in the table, in bytes.
    pub(crate) offset: u64,
    /// Whether the block was handed over to the page cache only, not to the block cache. Its first
    /// read is then counted, to judge whether handover is worthwhile.
    pub(crate) is_paged_only: bool,
}

/// Selects which blocks of a table that is being written are put into a cache. Keeps these blocks
/// in memory until the table is installed.
#[derive(Debug)]
pub(crate) struct TableHandover {
    handover: Arc<Handover>,
    /// The table's file number.
    number: u64,
    /// Whether blocks may be written through the page cache.
    pages: bool,
    /// Whether every block is inserted into the block cache, even if users did not read its data.
    takes_all: bool,
    /// Total size of the records in the current block, in bytes. `cached_bytes` counts those from
    /// input blocks that are warm for the block cache, and `paged_bytes` those from input blocks
    /// that are warm for the page cache.
    bytes: usize,
    cached_bytes: usize,
    paged_bytes: usize,
    /// Number of calls of [`Self::is_sample`]: blocks that are handed over only if they belong to
    /// the sample.
    little_read: usize,
    /// The warm blocks written so far.
    warm: Vec<WarmBlock>,
    /// Whether any block so far is written through the page cache.
    is_paged: bool,
    /// The blocks staged for the block cache.
    staged: StagedBlocks,
    /// The staged blocks, once they have been copied into memory of the block cache; empty before.
    cached: Vec<CachedBlock>,
    /// Size of the staged blocks for which memory is reserved, in bytes.
    staged_bytes: usize,
}

/// A block that was copied into memory of the block cache, but is not yet inserted.
#[derive(Debug)]
struct CachedBlock {
    /// Offset of the block in its table, in bytes.
    offset: u64,
    block: Block,
    /// Whether the block is warm for the block cache: users read its data from cached blocks of the
    /// inputs. If not, the block is inserted only because all blocks of the table are inserted.
    is_warm: bool,
}

impl TableHandover {
    /// Creates the state for a table that has no blocks yet.
    fn new(handover: Arc<Handover>, number: u64, pages: bool, takes_all: bool) -> Self {
        Self {
            handover,
            number,
            pages,
            takes_all,
            bytes: 0,
            cached_bytes: 0,
            paged_bytes: 0,
            little_read: 0,
            warm: Vec::new(),
            is_paged: false,
            staged: StagedBlocks::default(),
            cached: Vec::new(),
            staged_bytes: 0,
        }
    }

    /// Returns the table's file number.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Whether blocks may be written through the page cache.
    pub(crate) fn pages(&self) -> bool {
        self.pages
    }

    /// Adds a record of `bytes` bytes to the current block. `warmth` tells for which caches the
    /// input block of the record is warm.
    #[inline]
    pub(crate) fn add(&mut self, bytes: usize, warmth: Warmth) {
        self.bytes += bytes;
        self.cached_bytes += if warmth.cached { bytes } else { 0 };
        self.paged_bytes += if warmth.paged { bytes } else { 0 };
    }

    /// Ends the current block, which will be written at `offset`. `block` is its uncompressed
    /// contents. Returns whether the block is to be written through the page cache.
    pub(crate) fn end_block(&mut self, offset: u64, block: &[u8]) -> bool {
        let enough = self.bytes.div_ceil(WARM_PART).max(1);
        let cached = self.cached_bytes >= enough;
        let paged = self.paged_bytes >= enough
            && (cached || self.handover.generations.is_worth_it() || self.is_sample());
        (self.bytes, self.cached_bytes, self.paged_bytes) = (0, 0, 0);
        if (cached || self.takes_all) && self.handover.reserve_staging(block.len(), self.takes_all)
        {
            self.staged.stage(offset, block, cached);
            self.staged_bytes += block.len();
        }
        if cached || paged {
            self.warm.push(WarmBlock { offset, is_paged_only: !cached });
        }
        self.is_paged |= paged;
        paged
    }

    /// Whether the current block belongs to the sample: one in `SAMPLE_PART` blocks. If users read
    /// few of the blocks handed over to the page cache before, only the sample is handed over. It
    /// reveals when users begin to read handed-over blocks again.
    fn is_sample(&mut self) -> bool {
        self.little_read += 1;
        self.little_read % SAMPLE_PART == 1
    }

    /// Whether the table's tail, which is everything after the data blocks, is written through the
    /// page cache. The tail is written through the page cache if any data block is: a read of a
    /// data block needs the tail first.
    pub(crate) fn is_paged(&self) -> bool {
        self.is_paged
    }

    /// Copies the staged blocks into memory of the block cache, before the table is installed.
    /// Copying takes time, so it must not be done while the job has its turn to install tables, for
    /// which other jobs wait. It also takes a lock that users' reads take, so it must not be done
    /// on a low-priority thread.
    pub(crate) fn copy_into_cache(&mut self) {
        let Some(cache) = &self.handover.cache else { return };
        let cached = &mut self.cached;
        std::mem::take(&mut self.staged).for_each(|offset, is_warm, bytes| {
            // The builder wrote the block, so it parses.
            if let Ok(block) = Block::parse(cache.copy_in(bytes), BlockKind::Data) {
                cached.push(CachedBlock { offset, block, is_warm });
            }
        });
    }

    /// Inserts the staged blocks into the block cache. To be called right before readers see the
    /// table. `file` identifies the table in the cache, and `hot_regions` is the table's part of
    /// the warm set.
    pub(crate) fn install(mut self, file: u64, hot_regions: &HotRegions) {
        debug_assert!(self.staged.is_empty(), "staged blocks were not copied into the cache");
        hot_regions.inherit(&self.warm);
        self.handover.count(Ticker::HandoverBlocks, self.warm.len() as u64);
        self.handover.count(Ticker::HandoverCachedBytes, self.staged_bytes as u64);
        self.handover.release_staging(std::mem::take(&mut self.staged_bytes), self.takes_all);
        let Some(cache) = &self.handover.cache else { return };
        for CachedBlock { offset, block, is_warm } in std::mem::take(&mut self.cached) {
            let (key, charge) = (Key { file, offset }, block.memory());
            cache.blocks.insert(key, block, charge, Priority::Low);
            if is_warm {
                // The new block is kept as long as if users had just read it, because users read
                // the input blocks that it replaces. This does not count as a read. A later
                // compaction hands the block over again only if users read it.
                cache.blocks.warm(key);
            } else {
                // Nobody asked for the block, so it is evicted before blocks that were read.
                cache.blocks.chill(key);
            }
        }
    }

    /// Returns the [`Handover`] of the table's column family.
    pub(crate) fn handover(&self) -> &Arc<Handover> {
        &self.handover
    }

    /// Whether the table has warm blocks.
    pub(crate) fn is_warm(&self) -> bool {
        !self.warm.is_empty()
    }

    /// Returns the size of the blocks staged for the block cache, in bytes.
    pub(crate) fn staged_bytes(&self) -> usize {
        self.staged_bytes
    }
}

impl Drop for TableHandover {
    fn drop(&mut self) {
        self.handover.release_staging(self.staged_bytes, self.takes_all);
    }
}
