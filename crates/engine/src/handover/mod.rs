//! Handing over what users read, from the tables that a compaction replaces to those it writes.
//!
//! A compaction that writes past the page cache leaves its outputs nowhere in memory, while what
//! users read of its inputs was there, and goes with them. Nobody removes that miss: the output is
//! read from the device again, block by block, by users who wait for it. So of each block of a
//! compaction's inputs it is asked how users get at it ([`Warmth`]): from the block cache, where it
//! is in use, or from the page cache, where they read it [lately](heat). What goes into an output
//! takes that along, and an output's block is warm when enough of its bytes are:
//!
//! - for the page cache it is written through it, and the rest of the table past it
//!   ([`SequentialWriter::append_warm`](tailwater_io::stream::SequentialWriter::append_warm));
//! - for the block cache its uncompressed bytes are kept [aside], and put there when the output is
//!   installed, right after the input's blocks have left.
//!
//! Where users read little of what was handed over to the page cache, only a sample is; near a
//! stall, nothing that they read. No more is handed over than was in memory, and that goes with the
//! inputs.
//!
//! Outputs are warm when they are first seen. What a job that failed has kept aside goes with it;
//! failing to warm is no error.

mod aside;
mod heat;

use std::collections::HashSet;
use std::sync::Arc;

use tailwater_io::Purpose;

use crate::cache::{Key, Priority};
use crate::compaction::Urgency;
use crate::stats::{Statistics, Ticker};
use crate::table::{Block, BlockCache, BlockKind, ReadProfile};
use crate::version::{FileMetadata, Version};

use aside::Aside;
pub(crate) use heat::{Generations, Heat};

/// One part in so many of a block's bytes must come from warm blocks for it to be warm.
const WARM_PART: usize = 4;
/// Where little is read of what was handed over, one block in so many is.
const SAMPLE_PART: usize = 16;

/// How users get at a block.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Warmth {
    /// From the block cache, where it is in use.
    pub(crate) cached: bool,
    /// From the page cache, where they read it lately.
    pub(crate) paged: bool,
}

/// What is handed over between the tables of a column family.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Shares {
    /// What users read, by compactions.
    pub(crate) read: bool,
    /// To the page cache: users read through it, and compactions write past it.
    pub(crate) pages: bool,
    /// What users read in memtables, by flushes.
    pub(crate) flushes: bool,
    /// Every block that compactions write, to the block cache.
    pub(crate) all_of_compactions: bool,
    /// Every block that flushes write.
    pub(crate) all_of_flushes: bool,
}

/// Handing over between the tables of a column family.
#[derive(Debug)]
pub(crate) struct Handover {
    pub(crate) generations: Arc<Generations>,
    /// Near a stall compactions have no time for what users read.
    pub(crate) urgency: Arc<Urgency>,
    /// Where the tables' blocks are.
    pub(crate) cache: Option<Arc<BlockCache>>,
    pub(crate) shares: Shares,
    pub(crate) statistics: Option<Arc<Statistics>>,
}

impl Handover {
    /// What is handed over.
    pub(crate) fn shares(&self) -> Shares {
        self.shares
    }

    /// What a table takes over that a flush writes, if anything.
    pub(crate) fn of_flush(self: &Arc<Self>) -> Option<Takeover> {
        let Shares { flushes, all_of_flushes, .. } = self.shares;
        (flushes || all_of_flushes).then(|| Takeover::new(Arc::clone(self), all_of_flushes))
    }

    /// What a table takes over that a compaction writes, if anything.
    pub(crate) fn of_compaction(self: &Arc<Self>) -> Option<Takeover> {
        let Shares { read, all_of_compactions, .. } = self.shares;
        if !read && !all_of_compactions {
            return None;
        }
        if let Some(cache) = &self.cache {
            cache.look_for_room_aside();
        }
        Some(Takeover::new(Arc::clone(self), all_of_compactions))
    }

    /// How users will get at what they read in a memtable.
    pub(crate) fn warmth_of_memtables(&self) -> Warmth {
        let Shares { flushes, pages, .. } = self.shares;
        let flushes = flushes && !self.urgency.is_near_stall();
        Warmth { cached: flushes && self.cache.is_some() && !pages, paged: flushes && pages }
    }

    /// The generations that heat is told by.
    pub(crate) fn generations(&self) -> &Arc<Generations> {
        &self.generations
    }

    /// How users get at a block that goes by `key` in the block cache. `is_resident` is asked
    /// whether it is in the page cache, where that matters.
    pub(crate) fn warmth(
        &self,
        key: Key,
        heat: Option<&Heat>,
        is_resident: impl FnOnce() -> bool,
    ) -> Warmth {
        if !self.shares.read || self.urgency.is_near_stall() {
            return Warmth::default();
        }
        let is_hot = heat.is_some_and(|heat| heat.is_hot(key.offset));
        let was_hit = self.cache.as_ref().and_then(|cache| cache.blocks.was_hit(key));
        let cached = was_hit.is_some_and(|was_hit| was_hit || is_hot);
        Warmth { cached, paged: self.shares.pages && (is_hot || cached) && is_resident() }
    }

    /// Takes room for so many bytes to be kept aside, of all that is written or only of what users
    /// read.
    fn take_aside(&self, bytes: usize, is_all: bool) -> bool {
        self.cache.as_ref().is_some_and(|cache| cache.take_aside(bytes, is_all))
    }

    fn give_back(&self, bytes: usize) {
        if let Some(cache) = &self.cache {
            cache.give_back_aside(bytes);
        }
    }

    fn count(&self, ticker: Ticker, by: u64) {
        if let Some(statistics) = &self.statistics {
            statistics.add(ticker, by);
        }
    }
}

/// A block of a table that is warm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WarmBlock {
    /// Where it begins.
    pub(crate) offset: u64,
    /// Whether users can get at it from the page cache alone. Then a first read of it is noted.
    pub(crate) is_paged_only: bool,
}

/// What a table that is being written takes over.
#[derive(Debug)]
pub(crate) struct Takeover {
    handover: Arc<Handover>,
    /// Whether every block goes to the block cache.
    takes_all: bool,
    /// Of the block that is being filled: its bytes, and those of them that come from blocks in the
    /// block cache, and in the page cache.
    bytes: usize,
    cached_bytes: usize,
    paged_bytes: usize,
    /// How many blocks would have been warm if more were read of such.
    little_read: usize,
    /// Its warm blocks.
    warm: Vec<WarmBlock>,
    /// Whether any block is to be in the page cache.
    is_paged: bool,
    /// What is kept aside for the block cache.
    aside: Aside,
    /// The same, once it is in the cache's memory.
    taken_in: Vec<TakenIn>,
    /// How many bytes either is.
    aside_bytes: usize,
}

/// A block in the memory of the block cache.
#[derive(Debug)]
struct TakenIn {
    /// Where it begins in its table.
    offset: u64,
    block: Block,
    /// Whether users read it where it comes from.
    is_warm: bool,
}

impl Takeover {
    /// Nothing yet.
    fn new(handover: Arc<Handover>, takes_all: bool) -> Self {
        Self {
            handover,
            takes_all,
            bytes: 0,
            cached_bytes: 0,
            paged_bytes: 0,
            little_read: 0,
            warm: Vec::new(),
            is_paged: false,
            aside: Aside::default(),
            taken_in: Vec::new(),
            aside_bytes: 0,
        }
    }

    /// A record of so many bytes goes into the block that is being filled.
    #[inline]
    pub(crate) fn add(&mut self, bytes: usize, warmth: Warmth) {
        self.bytes += bytes;
        self.cached_bytes += if warmth.cached { bytes } else { 0 };
        self.paged_bytes += if warmth.paged { bytes } else { 0 };
    }

    /// The block is full, and will begin at an offset. Answers whether it is to be in the page
    /// cache.
    pub(crate) fn end_block(&mut self, offset: u64, block: &[u8]) -> bool {
        let enough = self.bytes.div_ceil(WARM_PART).max(1);
        let cached = self.cached_bytes >= enough;
        let paged = self.paged_bytes >= enough
            && (cached || self.handover.generations.is_worth_it() || self.is_sample());
        (self.bytes, self.cached_bytes, self.paged_bytes) = (0, 0, 0);
        if (cached || self.takes_all) && self.handover.take_aside(block.len(), self.takes_all) {
            self.aside.keep(offset, block, cached);
            self.aside_bytes += block.len();
        }
        if cached || paged {
            self.warm.push(WarmBlock { offset, is_paged_only: !cached });
        }
        self.is_paged |= paged;
        paged
    }

    /// Whether a block is handed over of those of which little is read, to find out when that
    /// changes.
    fn is_sample(&mut self) -> bool {
        self.little_read += 1;
        self.little_read % SAMPLE_PART == 1
    }

    /// Whether what lies behind its blocks is to be in the page cache: who reads one of them needs
    /// that first.
    pub(crate) fn is_paged(&self) -> bool {
        self.is_paged
    }

    /// Takes what was kept aside into the memory of the block cache, before the table is installed:
    /// a copy, which is not for whoever has the turn to change the versions, nor, since it takes a
    /// lock that users' reads take, for a thread of low weight.
    pub(crate) fn take_in(&mut self) {
        let Some(cache) = &self.handover.cache else { return };
        let taken_in = &mut self.taken_in;
        std::mem::take(&mut self.aside).for_each(|offset, is_warm, bytes| {
            // What the builder made is a block.
            if let Ok(block) = Block::parse(cache.take_in(bytes), BlockKind::Data) {
                taken_in.push(TakenIn { offset, block, is_warm });
            }
        });
    }

    /// The table is about to be seen: what was taken in goes to the block cache.
    fn install(mut self, file: &FileMetadata) {
        debug_assert!(self.aside.is_empty(), "it was not taken in");
        file.heat(&self.handover.generations).inherit(&self.warm);
        self.handover.count(Ticker::HandoverBlocks, self.warm.len() as u64);
        self.handover.count(Ticker::HandoverCachedBytes, self.aside_bytes as u64);
        self.handover.give_back(std::mem::take(&mut self.aside_bytes));
        let Some(cache) = &self.handover.cache else { return };
        let cache_id = file.identity().cache_id;
        for TakenIn { offset, block, is_warm } in std::mem::take(&mut self.taken_in) {
            let (key, charge) = (Key { file: cache_id, offset }, block.memory());
            cache.blocks.insert(key, block, charge, Priority::Low);
            if is_warm {
                // It stays as what it replaces would. It is handed over again only if it is read.
                cache.blocks.warm(key);
            }
        }
    }
}

/// New tables in the order in which they are opened: those that take over what users read come
/// first.
pub(crate) fn by_warmth(
    added: &[Arc<FileMetadata>],
    takeovers: &[(u64, Takeover)],
) -> Vec<Arc<FileMetadata>> {
    let warm = takeovers.iter().filter(|(_, takeover)| !takeover.warm.is_empty());
    let warm: HashSet<u64> = warm.map(|(number, _)| *number).collect();
    let mut files = added.to_vec();
    files.sort_by_key(|file| !warm.contains(&file.number()));
    files
}

/// Has the blocks of tables that are about to be replaced make room in the block cache for what
/// takes their place, where there is none: else that would drive itself out.
pub(crate) fn make_room<'f>(
    replaced: impl Iterator<Item = &'f Arc<FileMetadata>>,
    takeovers: &[(u64, Takeover)],
) {
    let bytes: usize = takeovers.iter().map(|(_, takeover)| takeover.aside_bytes).sum();
    let handover = takeovers.first().map(|(_, takeover)| &takeover.handover);
    let Some(cache) = handover.and_then(|handover| handover.cache.as_ref()) else { return };
    if bytes > 0 && cache.usage() + bytes > cache.capacity() {
        replaced.for_each(|file| for_each_block(file, |cache, key| cache.blocks.chill(key)));
    }
}

/// Lets the blocks of a table go from the block cache that was replaced.
pub(crate) fn forget(file: &FileMetadata) {
    for_each_block(file, |cache, key| {
        cache.blocks.erase(key);
    });
}

/// Goes over the places of a table's data blocks in the block cache.
fn for_each_block(file: &FileMetadata, visit: impl Fn(&BlockCache, Key)) {
    // What would have to be read for it goes when the table does.
    let table = file.table.load_arc().filter(|table| !table.is_index_partitioned());
    let Some(table) = table else { return };
    let Some(cache) = table.handover().and_then(|handover| handover.cache.as_ref()) else { return };
    let cache_id = file.identity().cache_id;
    let profile =
        ReadProfile { purpose: Purpose::CompactionRead, verify_checksums: true, fill_cache: false };
    let _ = table.for_each_data_block(&profile, |_, handle| {
        visit(cache, Key { file: cache_id, offset: handle.offset });
    });
}

/// Whether any of what tables take over goes to the block cache.
pub(crate) fn fill_cache(takeovers: &[(u64, Takeover)]) -> bool {
    takeovers.iter().any(|(_, takeover)| takeover.aside_bytes > 0)
}

/// Installs what tables of a version take over, by their numbers, before the version is seen.
pub(crate) fn install(version: &Version, takeovers: impl IntoIterator<Item = (u64, Takeover)>) {
    for (number, takeover) in takeovers {
        let mut files = version.files().map(|(_, file)| file);
        if let Some(file) = files.find(|file| file.number() == number) {
            takeover.install(file);
        }
    }
}

impl Drop for Takeover {
    fn drop(&mut self) {
        self.handover.give_back(self.aside_bytes);
    }
}
