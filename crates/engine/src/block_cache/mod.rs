//! Blocks of tables in memory, and the cache that keeps them. The same cache can keep rows: see the
//! row cache of tables.

mod block;
mod census;
mod charges;
mod recent_keys;
mod sizing;

pub(crate) use block::{Block, BlockBytes, BlockKind, BlockRef};
pub(crate) use census::memory_of_all;
pub(crate) use charges::{CacheCharges, SteppedCharge};
pub(crate) use recent_keys::RecentKeys;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use tailwater_io::kernel::{Memory, System};

use self::sizing::Tuner;
use crate::cache::{AutoSizes, Cache, Key, Priority, REGION, SLOT_MIN, Slabs};

/// Memory limit per shard of a self-sizing cache, in bytes.
const SHARD_BYTES: u64 = 16 << 20;
/// Maximum number of shards of a self-sizing cache.
const SHARDS_MAX: u64 = 64;

/// A table that is being written stages blocks: it keeps them in memory, to insert them into the
/// cache when the table is installed. However little memory is available, the limit of staged
/// blocks is at least 1/STAGED_PART of the cache's capacity.
const STAGED_PART: usize = 8;
/// The limit of the staged blocks of flushes and compactions that stage every block that they write
/// is at most 1/STAGED_PART_OF_ALL of the cache's capacity.
const STAGED_PART_OF_ALL: usize = 2;
/// The limit of staged blocks is at most 1/STAGED_PART_OF_AVAILABLE of the memory that is available
/// to the process.
const STAGED_PART_OF_AVAILABLE: i64 = 2;

/// Free slots may make the memory of a cache exceed its capacity by 1/SPARE_PART of the capacity,
/// or by SPARE_REGIONS regions if that is more, before whole regions of blocks are evicted.
const SPARE_PART: usize = 64;
const SPARE_REGIONS: usize = 2;

/// A cache of table blocks, which column families and databases may share. Any thread may use it.
/// It can also be the row cache of databases
/// ([`OpenOptions::set_row_cache`](crate::OpenOptions::set_row_cache)), or both at the same time.
///
/// The bytes charged for blocks never exceed the capacity. They include evicted blocks that are
/// still being read. A block that does not fit is not cached; with a strict capacity limit
/// ([`BlockCache::set_strict_capacity_limit`]), the read that needs it fails. The memory that the
/// cache uses is slightly larger than the charge, because of free slots between blocks.
///
/// ```
/// # fn main() -> tailwater::Result<()> {
/// # let directory = tempfile::tempdir().expect("a temporary directory");
/// # let directory = directory.path();
/// use std::sync::Arc;
/// use tailwater::{BlockCache, Db, OpenOptions};
///
/// // One memory limit applies to both databases.
/// let cache = Arc::new(BlockCache::new(64 << 20));
/// let mut options = OpenOptions::default();
/// options.create_if_missing(true);
/// options.set_block_cache(Arc::clone(&cache));
/// let first = Db::open(directory.join("first"), &options)?;
/// let second = Db::open(directory.join("second"), &options)?;
/// first.put("key", "value")?;
/// first.flush()?;
/// first.get("key")?;
/// assert!(cache.usage() > 0 && cache.usage() <= cache.capacity());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct BlockCache {
    pub(crate) blocks: Cache<Block>,
    /// The memory of the cached blocks' bytes.
    slabs: Arc<Slabs>,
    /// Total size of the staged blocks of the tables that are being written, in bytes: of tables
    /// that stage what users read, and of tables that stage everything. So the latter leave room
    /// for the former.
    staged_bytes: [AtomicUsize; 2],
    /// Limit of each of `staged_bytes`, in bytes, derived from the memory that was available at the
    /// last check.
    staged_bytes_max: AtomicUsize,
    /// The keys that users of the cache's databases read lately.
    pub(crate) recent_keys: Arc<RecentKeys>,
    memory: Memory,
    tuner: Option<Tuner>,
    /// Whether the C library's allocator must release freed memory to the system whenever the cache
    /// shrinks.
    trims_allocator: AtomicBool,
}

impl BlockCache {
    /// Creates an empty cache of `capacity` bytes.
    pub fn new(capacity: usize) -> Self {
        Self::build(Cache::new(capacity), Memory::of_this_process(System::default()), None)
    }

    fn build(blocks: Cache<Block>, memory: Memory, tuner: Option<Tuner>) -> Self {
        let slabs = Slabs::new();
        census::register(&blocks, &slabs);
        // A self-sizing cache may grow to about half of the memory of the process.
        let bytes_max = match &tuner {
            Some(_) => memory.limit().unwrap_or(0) as usize / 2,
            None => blocks.capacity(),
        };
        Self {
            recent_keys: Arc::new(RecentKeys::new(bytes_max)),
            blocks: blocks.prefetching(Block::first_read),
            slabs,
            staged_bytes: Default::default(),
            staged_bytes_max: AtomicUsize::new(0),
            memory,
            tuner,
            trims_allocator: AtomicBool::new(false),
        }
    }

    /// Creates an empty cache that sizes itself within the memory limit of this process, or the
    /// machine's memory. A thread changes the capacity until the cache is dropped. When the cache
    /// is full, it grows into free memory. It also takes memory from the page cache, as long as
    /// this growth avoids misses. If memory is needed for other purposes, the cache gives memory
    /// back.
    ///
    /// If the system does not report its memory, the cache keeps its initial size of 32 MiB.
    pub fn auto() -> Arc<Self> {
        let memory = Memory::of_this_process(System::default());
        let shards = memory.limit().unwrap_or(0) / SHARD_BYTES;
        let blocks = Cache::with_ghosts(FIRST_CAPACITY, shards.min(SHARDS_MAX) as usize);
        Arc::new_cyclic(|this| {
            let tuner = Tuner::start(Weak::clone(this), memory.clone());
            Self::build(blocks, memory, Some(tuner))
        })
    }

    /// Sets whether the capacity limit is strict, as RocksDB's `strict_capacity_limit`. By default,
    /// it is not: if the blocks that readers hold leave no room, further blocks are used without
    /// being cached or counted. With a strict limit, a read that needs such a block fails with
    /// [`ErrorKind::MemoryLimit`](crate::ErrorKind::MemoryLimit). Reads that do not fill the cache,
    /// and compactions, never fail for this reason, and neither does a read that needs a filter
    /// block.
    pub fn set_strict_capacity_limit(&self, is_strict: bool) {
        self.blocks.set_strict(is_strict);
    }

    /// Whether the capacity limit is strict.
    pub fn has_strict_capacity_limit(&self) -> bool {
        self.blocks.is_strict()
    }

    /// Makes the C library's allocator release freed memory to the system whenever this self-sizing
    /// cache shrinks. The call (`malloc_trim`) scans the heap of the whole process while holding
    /// its locks, so only a program that knows what else runs in its process should enable it. The
    /// option `trim_allocator` enables it, too. Without glibc, the call has no effect.
    pub fn trim_allocator(&self) {
        self.trims_allocator.store(true, Relaxed);
    }

    /// Whether [`BlockCache::trim_allocator`] was called.
    pub fn trims_allocator(&self) -> bool {
        self.trims_allocator.load(Relaxed)
    }

    /// Returns the counts and the last inputs of the cache's sizing decisions; `None` if the cache
    /// does not size itself.
    pub fn auto_sizes(&self) -> Option<AutoSizes> {
        Some(self.tuner.as_ref()?.sizes())
    }

    /// Copies the bytes of a block that is about to be cached into the cache's memory. If the cache
    /// gets no memory, copies them to the heap.
    ///
    /// Takes a lock that users' reads also take.
    pub(crate) fn copy_in(&self, bytes: &[u8]) -> BlockBytes {
        self.slabs.copy(bytes).map_or_else(|| bytes.to_vec().into(), BlockBytes::Slab)
    }

    /// Inserts a row, if it fits. Rows that would waste most of a slot are kept on the heap.
    pub(crate) fn insert_row(&self, key: Key, row: Vec<u8>) {
        let bytes = if row.len() < SLOT_MIN { row.into() } else { self.copy_in(&row) };
        let row = Block::row(bytes);
        let charge = row.memory();
        self.blocks.insert(key, row, charge, Priority::Low);
    }

    /// Sets the limit of staged blocks to half of the memory that would still be available to the
    /// process if the cache grew to its capacity.
    pub(crate) fn update_staging_limit(&self) {
        let may_grow_by = self.capacity().saturating_sub(self.usage()) as i64;
        let available = self.memory.left().map_or(0, |left| left.available);
        // The staged blocks themselves no longer count as available memory, so their size is added.
        let staged: usize = self.staged_bytes.iter().map(|bytes| bytes.load(Relaxed)).sum();
        let usable = available - may_grow_by + staged as i64;
        let bound = usize::try_from(usable / STAGED_PART_OF_AVAILABLE).unwrap_or(0);
        self.staged_bytes_max.store(bound, Relaxed);
    }

    /// Reserves `bytes` for a staged block of a table that stages all of its blocks (`is_all`), or
    /// only those that users read. Returns false if the total size of such blocks would exceed its
    /// limit: half of the available memory, but at least an eighth of the cache's capacity, and at
    /// most half of it (`is_all`) or all of it.
    pub(crate) fn reserve_staging(&self, bytes: usize, is_all: bool) -> bool {
        let capacity = self.capacity();
        let max = if is_all { capacity / STAGED_PART_OF_ALL } else { capacity };
        let bound = self.staged_bytes_max.load(Relaxed).clamp(capacity / STAGED_PART, max);
        let staged = &self.staged_bytes[usize::from(is_all)];
        let fits = staged.fetch_add(bytes, Relaxed) + bytes <= bound;
        if !fits {
            self.release_staging(bytes, is_all);
        }
        fits
    }

    /// Releases `bytes` reserved for staged blocks.
    pub(crate) fn release_staging(&self, bytes: usize, is_all: bool) {
        self.staged_bytes[usize::from(is_all)].fetch_sub(bytes, Relaxed);
    }

    /// Returns the cache's capacity, in bytes.
    pub fn capacity(&self) -> usize {
        self.blocks.capacity()
    }

    /// Changes the cache's capacity, in bytes, and evicts the excess immediately. A self-sizing
    /// cache continues to adapt, starting from the new capacity.
    pub fn set_capacity(&self, capacity: usize) {
        let is_less = capacity < self.capacity();
        self.blocks.set_capacity(capacity);
        if is_less {
            self.slabs.release();
        }
    }

    /// Erases all cached blocks of a deleted file. Also ensures that free slots between blocks do
    /// not make the memory exceed the capacity for long.
    ///
    /// Looks at every block if they do, so only background threads call this.
    pub(crate) fn erase_file(&self, file: u64) {
        self.blocks.erase_file(file);
        self.slabs.release();
        self.evict_for_free_slots();
    }

    /// Evicts whole regions of blocks if the memory of blocks and of the free slots between them
    /// exceeds the capacity. Free slots remain when other sizes of blocks, such as filters, take up
    /// capacity that data blocks had.
    fn evict_for_free_slots(&self) {
        // Evicted blocks that are still read are freed without another eviction.
        let blocks = self.usage().saturating_sub(self.blocks.unlinked_usage());
        let excess = (blocks + self.slabs.spare_bytes()).saturating_sub(self.capacity());
        if excess > (self.capacity() / SPARE_PART).max(SPARE_REGIONS * REGION) {
            self.blocks.evict_regions(excess, Block::slot_address);
            self.blocks.collect();
            self.slabs.release();
        }
    }

    /// Returns the bytes in use: those of cached blocks, and of removed blocks that are still being
    /// read.
    pub fn usage(&self) -> usize {
        self.blocks.usage()
    }

    /// Returns the number of bytes in use that are being read and so cannot be released.
    pub fn pinned_usage(&self) -> usize {
        self.blocks.pinned_usage()
    }

    /// Returns the number of cached blocks.
    pub fn occupancy_count(&self) -> usize {
        self.blocks.entries()
    }

    /// Returns the number of slots of the cache's hash tables, which are enlarged as blocks are
    /// added. It is never below [`BlockCache::occupancy_count`].
    pub fn table_address_count(&self) -> usize {
        self.blocks.slots()
    }
}

/// Initial capacity of a self-sizing cache, in bytes.
const FIRST_CAPACITY: usize = 32 << 20;

impl Drop for BlockCache {
    fn drop(&mut self) {
        debug_assert!(
            std::thread::panicking()
                || self.staged_bytes.iter_mut().all(|bytes| *bytes.get_mut() == 0),
            "reserved bytes of staged blocks were not released"
        );
    }
}

#[cfg(all(not(loom), test))]
mod tests {
    use super::*;
    use crate::block_cache::BlockKind;

    const MIB: usize = 1 << 20;

    fn put(cache: &BlockCache, file: u64, number: u64) {
        // A block ends with the number of its restart points, here one.
        let mut bytes = [0; 4000];
        bytes[3996] = 1;
        let block = Block::parse(cache.copy_in(&bytes), BlockKind::Data).expect("a block");
        let (key, charge) = (Key { file, offset: number * 4096 }, block.memory());
        cache.blocks.insert(key, block, charge, Priority::Low);
    }

    #[test]
    fn memory_stays_near_the_capacity_when_several_threads_insert() {
        let cache = BlockCache::new(16 * MIB);
        for round in 0..4 {
            std::thread::scope(|scope| {
                for thread in 0..4 {
                    let cache = &cache;
                    let file = round * 4 + thread;
                    scope.spawn(move || (0..4000).for_each(|number| put(cache, file, number)));
                }
            });
        }
        assert!(cache.usage() > 15 * MIB);
        let bytes = cache.slabs.bytes();
        assert!(bytes <= 17 * MIB, "{bytes} bytes of memory");
    }

    #[test]
    fn free_slots_do_not_exceed_the_capacity() {
        let cache = BlockCache::new(16 * MIB);
        let wait_for_readers = || {
            // A reader of another test in this process may delay the freeing.
            while cache.blocks.unlinked_usage() > 0 {
                std::thread::yield_now();
                cache.blocks.collect();
            }
        };
        (0..4000).for_each(|number| put(&cache, 1, number));
        // Large blocks, which have memory of their own, displace small ones all over the regions.
        let mut bytes = vec![0; 256 << 10];
        bytes[(256 << 10) - 4] = 1;
        for number in 0..16 {
            let block = Block::parse(cache.copy_in(&bytes), BlockKind::Data).expect("a block");
            let (key, charge) = (Key { file: 2, offset: number << 20 }, block.memory());
            cache.blocks.insert(key, block, charge, Priority::High);
            wait_for_readers();
        }
        let memory = || cache.usage() + cache.slabs.spare_bytes();
        assert!(memory() > 18 * MIB, "{} bytes", memory());
        cache.erase_file(3);
        wait_for_readers();
        cache.slabs.release();
        assert!(memory() <= 16 * MIB + SPARE_REGIONS * REGION, "{} bytes", memory());
        assert!(cache.usage() > 10 * MIB, "{} bytes in use", cache.usage());
    }

    #[test]
    fn memory_that_is_given_back_returns_to_the_system() {
        let cache = BlockCache::new(16 * MIB);
        (0..4000).for_each(|number| put(&cache, 1, number));
        // Hits seven of every eight blocks, but only in every second group of 512 blocks. So some
        // regions of memory have no block with a hit.
        for number in (0..4000).filter(|number| number / 512 % 2 == 0 && number % 8 != 0) {
            cache.blocks.lookup(Key { file: 1, offset: number * 4096 }, &crate::epoch::pin());
        }
        let before = cache.slabs.bytes();
        cache.blocks.give_back(8 * MIB, Block::address);
        // A reader of another test in this process may delay the freeing.
        while cache.blocks.unlinked_usage() > 0 {
            std::thread::yield_now();
            cache.blocks.collect();
        }
        cache.slabs.release();
        let given_back = before - cache.slabs.bytes();
        assert!(given_back >= 7 * MIB, "{given_back} bytes");
    }
}
