//! Access to a table's blocks: only to those in memory, or also from the file.

use std::cell::Cell;
use std::sync::Arc;

use tailwater_format::table::BlockHandle;
use tailwater_io::{Purpose, charge_reads, pace};

use crate::block_cache::{Block, BlockKind, BlockRef};
use crate::cache::{Cached, Inserted, Key, Priority};
use crate::epoch::{self, Guard};
use crate::error::{Error, Result};
use crate::stats::{Histogram, Statistics, Ticker, slow_reads};
use crate::table::reader::index::prepare_index;
use crate::table::reader::{Index, TableReader};

/// The parameters of a read that may access the file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadProfile {
    /// The purpose of the I/O.
    pub(crate) purpose: Purpose,
    /// Whether block checksums are checked.
    pub(crate) verify_checksums: bool,
    /// Whether blocks that are read from the file are added to the block cache.
    pub(crate) fill_cache: bool,
    /// The priority at which reads for users are charged to the rate limiter; `None` if they are
    /// not. Each function that reads from the file applies it, with [`charge_reads`].
    pub(crate) charged: Option<pace::Priority>,
}

impl ReadProfile {
    /// Returns the parameters of reads that check checksums and are not charged as a user's.
    pub(crate) const fn new(purpose: Purpose, fill_cache: bool) -> Self {
        Self { purpose, verify_checksums: true, fill_cache, charged: None }
    }
}

/// The kinds of access to blocks: [`Resident`] for blocks in memory only, [`Loading`] also from the
/// file.
pub(crate) trait BlockAccess {
    /// The reason why a search cannot continue.
    type Stop: From<Error>;

    /// Returns the block at `handle`.
    fn block<'a>(
        &'a self,
        table: &'a TableReader,
        handle: BlockHandle,
        kind: BlockKind,
    ) -> AccessResult<BlockRef<'a>, Self>;

    /// Counts an event of a get in `table`.
    fn count(&self, table: &TableReader, probe: Probe);
}

/// The result of a search with access of type `A`.
pub(crate) type AccessResult<T, A> = std::result::Result<T, <A as BlockAccess>::Stop>;

/// The reason why a search in memory cannot continue.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The search needs something that is not in memory.
    Unreachable(Missing),
    Failed(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// What a search needs and does not find in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    /// The table is not open.
    Table,
    /// A block of the table is not in the cache.
    Block(BlockHandle, BlockKind),
}

/// The events that are counted while a get searches tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Probe {
    /// A data block was in the cache.
    DataHit,
    /// An index block was in the cache.
    IndexHit,
    /// A filter block was in the cache.
    FilterHit,
    /// A filter of whole keys excluded the key.
    KeyAbsent,
    /// A filter of whole keys may contain the key.
    KeyPossible,
    /// The table has the key, after its filter of whole keys said that it may.
    KeyPresent,
    /// A filter of prefixes excluded the key's prefix.
    PrefixAbsent,
    /// A filter of prefixes may contain the key's prefix.
    PrefixPossible,
    /// The table has the key, after its filter of prefixes said that it may have the key's prefix.
    PrefixPresent,
}

impl Probe {
    const COUNT: usize = Self::PrefixPresent as usize + 1;

    /// The tickers to which each event is added.
    const TICKERS: [(Ticker, Option<Ticker>); Self::COUNT] = [
        (Ticker::BlockCacheDataHit, Some(Ticker::BlockCacheHit)),
        (Ticker::BlockCacheIndexHit, Some(Ticker::BlockCacheHit)),
        (Ticker::BlockCacheFilterHit, Some(Ticker::BlockCacheHit)),
        (Ticker::BloomFilterUseful, None),
        (Ticker::BloomFilterFullPositive, None),
        (Ticker::BloomFilterFullTruePositive, None),
        (Ticker::BloomFilterPrefixUseful, Some(Ticker::BloomFilterPrefixChecked)),
        (Ticker::BloomFilterPrefixChecked, None),
        (Ticker::BloomFilterPrefixTruePositive, None),
    ];

    /// Returns the event to count when a block of this kind is found in the cache.
    fn hit(kind: BlockKind) -> Self {
        match kind {
            BlockKind::Data => Self::DataHit,
            BlockKind::Index => Self::IndexHit,
            BlockKind::Filter => Self::FilterHit,
        }
    }

    /// Adds `by` to the tickers of this event.
    fn add_to(self, statistics: &Statistics, by: u64) {
        let (ticker, also) = Self::TICKERS[self as usize];
        let recorder = statistics.recorder();
        recorder.add(ticker, by);
        if let Some(also) = also {
            recorder.add(also, by);
        }
    }
}

/// Access to blocks in memory only. It takes no lock, changes no reference count and allocates no
/// memory.
///
/// The counts of events ([`Probe`]) are kept in this object at first. If one of a table's blocks is
/// not in memory, a get drops the events counted for that table and searches the table again with
/// [`Loading`], which counts them again. A multi-get keeps them, and goes on where it stopped.
pub(crate) struct Resident<'g> {
    /// The guard of an epoch. While it lives, blocks that were found stay in memory.
    pub(crate) guard: &'g Guard,
    /// What was opened and read for this search. Its blocks are not counted as hits.
    loaded: &'g Loaded,
    counts: Counts,
}

/// Tables that were opened, and blocks that were read from files, for a search. They stay in
/// memory, whatever the caches do, so that the search always comes further.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    /// The tables, with the ids of their files in the block cache.
    tables: Vec<(u64, Arc<TableReader>)>,
    blocks: Vec<(Key, Arc<Cached<Block>>)>,
}

impl Loaded {
    const NONE: Self = Self { tables: Vec::new(), blocks: Vec::new() };

    /// Adds an open table, unless it was added before.
    pub(crate) fn add_table(&mut self, table: &Arc<TableReader>) {
        if self.table(table.cache_id).is_none() {
            self.tables.push((table.cache_id, Arc::clone(table)));
        }
    }

    /// Returns a table that was added, by the id of its file in the block cache.
    pub(crate) fn table(&self, file: u64) -> Option<&Arc<TableReader>> {
        self.tables.iter().find(|(id, _)| *id == file).map(|(_, table)| table)
    }

    /// Adds the block at `handle` of a table, unless it was added before.
    pub(crate) fn add(
        &mut self,
        table: &TableReader,
        handle: BlockHandle,
        block: &Arc<Cached<Block>>,
    ) {
        let key = table.cache_key(handle);
        if self.block(key).is_none() {
            self.blocks.push((key, Arc::clone(block)));
        }
    }

    fn block(&self, key: Key) -> Option<&Arc<Cached<Block>>> {
        self.blocks.iter().find(|(loaded, _)| *loaded == key).map(|(_, block)| block)
    }
}

/// The events that a [`Resident`] has counted, until they are added to the statistics.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counts {
    /// The number of events of each kind, indexed by [`Probe`].
    probes: [Cell<u32>; Probe::COUNT],
    /// Charge of the cached blocks that were read, in bytes. Counted only if there are statistics.
    cached_bytes: Cell<u64>,
}

impl<'g> Resident<'g> {
    /// Creates an access to the blocks in memory. All its event counts are 0.
    #[inline]
    pub(crate) fn new(guard: &'g Guard) -> Self {
        Self::with_loaded(guard, const { &Loaded::NONE })
    }

    /// Creates an access to the blocks in memory and to those in `loaded`.
    #[inline]
    pub(crate) fn with_loaded(guard: &'g Guard, loaded: &'g Loaded) -> Self {
        Self { guard, loaded, counts: Counts::default() }
    }

    /// Returns a table that was opened for this search, by the id of its file in the block cache.
    pub(crate) fn loaded_table(&self, file: u64) -> Option<&'g TableReader> {
        self.loaded.table(file).map(|table| &**table)
    }

    /// Returns a copy of the event counts. [`Resident::rewind`] can set the counts back to it.
    #[inline]
    pub(crate) fn mark(&self) -> Counts {
        self.counts.clone()
    }

    /// Sets the event counts back to those in `mark`.
    pub(crate) fn rewind(&self, mark: &Counts) {
        let counts = self.counts.probes.iter().zip(&mark.probes);
        counts.for_each(|(count, mark)| count.set(mark.get()));
        self.counts.cached_bytes.set(mark.cached_bytes.get());
    }

    /// Adds the counted events to the statistics.
    pub(crate) fn add_to(&self, statistics: &Statistics) {
        let recorder = statistics.recorder();
        recorder.add(Ticker::BlockCacheBytesRead, self.counts.cached_bytes.get());
        for (count, (ticker, also)) in self.counts.probes.iter().zip(Probe::TICKERS) {
            let count = u64::from(count.get());
            if count > 0 {
                recorder.add(ticker, count);
                if let Some(also) = also {
                    recorder.add(also, count);
                }
            }
        }
    }
}

impl BlockAccess for Resident<'_> {
    type Stop = Stop;

    #[inline]
    fn block<'a>(
        &'a self,
        table: &'a TableReader,
        handle: BlockHandle,
        kind: BlockKind,
    ) -> AccessResult<BlockRef<'a>, Self> {
        let key = table.cache_key(handle);
        if let Some(block) = self.loaded.block(key) {
            return Ok(BlockRef::Borrowed(block));
        }
        let cache = table.context.block_cache.as_ref();
        let Some(block) = cache.and_then(|cache| cache.blocks.lookup(key, self.guard)) else {
            return Err(Stop::Unreachable(Missing::Block(handle, kind)));
        };
        self.count(table, Probe::hit(kind));
        if table.context.statistics.is_some() {
            let bytes = &self.counts.cached_bytes;
            bytes.set(bytes.get() + block.charge() as u64);
        }
        Ok(BlockRef::Borrowed(block))
    }

    #[inline]
    fn count(&self, _table: &TableReader, probe: Probe) {
        let count = &self.counts.probes[probe as usize];
        count.set(count.get().wrapping_add(1));
    }
}

/// Access to blocks in memory, or else in the file.
pub(crate) struct Loading<'o>(pub(crate) &'o ReadProfile);

impl BlockAccess for Loading<'_> {
    type Stop = Error;

    fn block<'a>(
        &'a self,
        table: &'a TableReader,
        handle: BlockHandle,
        kind: BlockKind,
    ) -> Result<BlockRef<'a>> {
        table.load(handle, kind, self.0).map(BlockRef::Owned)
    }

    fn count(&self, table: &TableReader, probe: Probe) {
        if let Some(statistics) = &table.context.statistics {
            probe.add_to(statistics, 1);
        }
    }
}

impl TableReader {
    /// Returns the key under which the block cache holds the block at `handle`.
    #[inline]
    pub(super) fn cache_key(&self, handle: BlockHandle) -> Key {
        Key { file: self.cache_id, offset: handle.offset }
    }

    /// Loads the block at `handle` from the cache or the file.
    pub(crate) fn load(
        &self,
        handle: BlockHandle,
        kind: BlockKind,
        profile: &ReadProfile,
    ) -> Result<Arc<Cached<Block>>> {
        match self.resident(handle, kind, profile.purpose) {
            Some(block) => Ok(block),
            None => self.load_absent(handle, kind, profile),
        }
    }

    /// Loads the block at `handle`, which is not in the cache, from the file.
    pub(crate) fn load_absent(
        &self,
        handle: BlockHandle,
        kind: BlockKind,
        profile: &ReadProfile,
    ) -> Result<Arc<Cached<Block>>> {
        let _charged = charge_reads(profile.charged);
        let statistics = self.context.statistics.as_deref();
        let started = statistics.map(Statistics::start);
        let dictionary = self.dictionary_for(kind);
        let verify = profile.verify_checksums;
        let bytes = self.file.read(handle, dictionary, verify, profile.purpose)?;
        let block = self.keep_read(handle, kind, bytes, profile)?;
        if let (Some(statistics), Some(started)) = (statistics, started) {
            let histogram = match profile.purpose {
                Purpose::CompactionRead => Histogram::ReadBlockCompaction,
                _ => Histogram::ReadBlockGet,
            };
            statistics.record_since(histogram, started);
        }
        Ok(block)
    }

    /// Like [`Self::keep`], for a block that was read for the caller and not ahead. Records the
    /// read for warm handover.
    pub(super) fn keep_read(
        &self,
        handle: BlockHandle,
        kind: BlockKind,
        bytes: Vec<u8>,
        profile: &ReadProfile,
    ) -> Result<Arc<Cached<Block>>> {
        if profile.purpose == Purpose::UserRead && profile.fill_cache && kind == BlockKind::Data {
            self.record_read(handle.offset);
        }
        self.keep(handle, kind, bytes, profile)
    }

    /// Returns the block at `handle`, if it is cached. A compaction's read is not a hit for the
    /// eviction policy, since it does not show that users need the block.
    pub(crate) fn resident(
        &self,
        handle: BlockHandle,
        kind: BlockKind,
        purpose: Purpose,
    ) -> Option<Arc<Cached<Block>>> {
        let cache = self.context.block_cache.as_ref()?;
        let block = {
            let (guard, key) = (epoch::pin(), self.cache_key(handle));
            match purpose {
                Purpose::CompactionRead => cache.blocks.peek(key, &guard).map(Arc::clone),
                _ => cache.blocks.lookup(key, &guard).map(Arc::clone),
            }
        };
        if let Some(statistics) = &self.context.statistics {
            match &block {
                Some(block) => {
                    Probe::hit(kind).add_to(statistics, 1);
                    statistics.add(Ticker::BlockCacheBytesRead, block.charge() as u64);
                }
                None => {
                    let recorder = statistics.recorder();
                    recorder.add(Ticker::BlockCacheMiss, 1);
                    recorder.add(CacheTickers::of(kind).miss, 1);
                }
            }
        }
        block
    }

    /// Parses the uncompressed bytes of the block at `handle`. Inserts the block into the cache if
    /// `profile` says so.
    ///
    /// # Errors
    /// Memory limit, if a cache with a strict capacity limit has no room. A filter block is then
    /// used without being cached, because no read of RocksDB fails for lack of a filter.
    pub(crate) fn keep(
        &self,
        handle: BlockHandle,
        kind: BlockKind,
        bytes: Vec<u8>,
        profile: &ReadProfile,
    ) -> Result<Arc<Cached<Block>>> {
        let cache = self.context.block_cache.as_ref().filter(|_| profile.fill_cache);
        let bytes = match cache {
            Some(cache) => cache.copy_in(&bytes),
            None => bytes.into(),
        };
        let block = Block::parse(bytes, kind)
            .and_then(|block| match kind {
                BlockKind::Index => {
                    let Index { format, user_keys, .. } = self.index;
                    prepare_index(block, self.comparator(), format, user_keys)
                }
                BlockKind::Data | BlockKind::Filter => Ok(block),
            })
            .map_err(|error| self.damaged(handle, error))?;
        Ok(match cache {
            Some(cache) => {
                let charge = block.memory();
                let priority = self.context.priority(kind);
                let key = self.cache_key(handle);
                let inserted = cache.blocks.insert_or_wait(key, block, charge, priority);
                self.count_block(kind, matches!(inserted, Inserted::Present(_)));
                if let Some(statistics) = &self.context.statistics {
                    count_insert(statistics, kind, &inserted);
                }
                let is_refused = matches!(inserted, Inserted::Standalone(_));
                if is_refused && kind != BlockKind::Filter && cache.has_strict_capacity_limit() {
                    return Err(Error::cache_full());
                }
                inserted.into_cached()
            }
            None => {
                self.count_block(kind, false);
                Arc::new(Cached::standalone(block))
            }
        })
    }

    /// Counts a block that was read from the file for the thread's slow read, if it is one.
    fn count_block(&self, kind: BlockKind, is_redundant: bool) {
        slow_reads::count_block(self.level as usize, kind, self.added_ns, is_redundant);
    }
}

/// The block cache tickers of a kind of block.
struct CacheTickers {
    miss: Ticker,
    add: Ticker,
    bytes: Ticker,
    redundant: Ticker,
}

impl CacheTickers {
    const fn of(kind: BlockKind) -> Self {
        match kind {
            BlockKind::Data => Self {
                miss: Ticker::BlockCacheDataMiss,
                add: Ticker::BlockCacheDataAdd,
                bytes: Ticker::BlockCacheDataBytesInsert,
                redundant: Ticker::BlockCacheDataAddRedundant,
            },
            BlockKind::Index => Self {
                miss: Ticker::BlockCacheIndexMiss,
                add: Ticker::BlockCacheIndexAdd,
                bytes: Ticker::BlockCacheIndexBytesInsert,
                redundant: Ticker::BlockCacheIndexAddRedundant,
            },
            BlockKind::Filter => Self {
                miss: Ticker::BlockCacheFilterMiss,
                add: Ticker::BlockCacheFilterAdd,
                bytes: Ticker::BlockCacheFilterBytesInsert,
                redundant: Ticker::BlockCacheFilterAddRedundant,
            },
        }
    }
}

/// Counts the outcome of an insert into the cache.
fn count_insert(statistics: &Statistics, kind: BlockKind, inserted: &Inserted<Block>) {
    let recorder = statistics.recorder();
    let tickers = CacheTickers::of(kind);
    let (cached, is_redundant) = match inserted {
        Inserted::Admitted(cached) => (cached, false),
        Inserted::Present(cached) => (cached, true),
        Inserted::Standalone(_) => return recorder.add(Ticker::BlockCacheAddFailures, 1),
    };
    let charge = cached.charge() as u64;
    recorder.add(Ticker::BlockCacheAdd, 1);
    recorder.add(tickers.add, 1);
    recorder.add(Ticker::BlockCacheBytesWrite, charge);
    recorder.add(tickers.bytes, charge);
    if is_redundant {
        recorder.add(Ticker::BlockCacheAddRedundant, 1);
        recorder.add(tickers.redundant, 1);
    }
}

impl super::TableContext {
    fn priority(&self, kind: BlockKind) -> Priority {
        match kind {
            BlockKind::Data => Priority::Low,
            BlockKind::Index | BlockKind::Filter if self.meta_blocks.high_priority => {
                Priority::High
            }
            BlockKind::Index | BlockKind::Filter => Priority::Low,
        }
    }
}

#[cfg(all(not(loom), test))]
mod tests;
