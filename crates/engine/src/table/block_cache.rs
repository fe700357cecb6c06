//! The cache of tables' blocks.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::Instant;

use tailwater_io::kernel::{Memory, System};
use tailwater_io::sync::{Condvar, Mutex};
use tailwater_io::thread::{self, Thread};

use crate::cache::{self, AutoSizes, Cache, Slabs};
use crate::table::{Block, BlockBytes};

/// The capacity that gives rise to another shard of a cache that will grow, in bytes.
const SHARD_BYTES: u64 = 16 << 20;
/// The most shards of such a cache.
const SHARDS_MAX: u64 = 64;

/// One part in so many of the capacity may be kept aside in any case.
const ASIDE_PART: usize = 8;
/// The same of all that is written, where that is to come into the cache.
const ASIDE_PART_OF_ALL: usize = 2;
/// So much as one part in so many of the memory that is left is kept aside at most.
const ASIDE_PART_OF_LEFT: i64 = 2;

/// A cache of tables' blocks, which column families and databases may share. Any thread may use it.
///
/// What it holds, evicted blocks that somebody still reads included, is never charged more than its
/// capacity; a block for which there is no room is read past it. Its memory is a little more: what
/// blocks that were let go of leave free between others.
#[derive(Debug)]
pub struct BlockCache {
    pub(crate) blocks: Cache<Block>,
    /// Where the bytes of blocks are that are in it.
    slabs: Arc<Slabs>,
    /// How much is kept aside for it by tables that are being written, in bytes.
    aside: AtomicUsize,
    /// How much may be, by the memory that was left at the last look.
    aside_max: AtomicUsize,
    memory: Memory,
    tuner: Option<Tuner>,
    /// Whether the C library's allocator gives memory back when the cache does.
    trims_allocator: AtomicBool,
}

impl BlockCache {
    /// An empty cache of `capacity` bytes.
    pub fn new(capacity: usize) -> Self {
        Self {
            blocks: Cache::new(capacity),
            slabs: Slabs::new(),
            aside: AtomicUsize::new(0),
            aside_max: AtomicUsize::new(0),
            memory: Memory::of_this_process(System::default()),
            tuner: None,
            trims_allocator: AtomicBool::new(false),
        }
    }

    /// An empty cache that sizes itself: from the memory limit of this process, or the machine's
    /// memory, less everything else that is taken. Where it is full it takes what nobody has, and
    /// what the page cache has while that spares reads; it gives back what others need. Its thread
    /// ends with it.
    ///
    /// Where the system does not tell what memory there is it keeps the size that it begins with,
    /// 32 MiB.
    pub fn auto() -> Arc<Self> {
        let memory = Memory::of_this_process(System::default());
        let shards = memory.limit().unwrap_or(0) / SHARD_BYTES;
        Arc::new_cyclic(|this| Self {
            blocks: Cache::with_ghosts(FIRST_CAPACITY, shards.min(SHARDS_MAX) as usize),
            slabs: Slabs::new(),
            aside: AtomicUsize::new(0),
            aside_max: AtomicUsize::new(0),
            memory: memory.clone(),
            tuner: Some(Tuner::start(Weak::clone(this), memory)),
            trims_allocator: AtomicBool::new(false),
        })
    }

    /// Has the C library's allocator give back to the system what it keeps of freed memory,
    /// whenever a cache that sizes itself gives memory back. The call (`malloc_trim`) goes over
    /// the heap of the whole process and keeps its locks meanwhile, so it is for a program to ask
    /// for that knows what else is in its process. The option `trim_allocator` asks for it, too.
    /// Without glibc it has no effect.
    pub fn trim_allocator(&self) {
        self.trims_allocator.store(true, Relaxed);
    }

    /// Whether [`BlockCache::trim_allocator`] was asked for.
    pub fn trims_allocator(&self) -> bool {
        self.trims_allocator.load(Relaxed)
    }

    /// What it has decided of its size, if it sizes itself.
    pub fn auto_sizes(&self) -> Option<AutoSizes> {
        Some(self.tuner.as_ref()?.shared.sizing.lock().sizes())
    }

    /// A copy of the bytes of a block that is about to come into the cache, in its memory; on the
    /// heap where there is none.
    ///
    /// Takes a lock that users' reads take.
    pub(crate) fn take_in(&self, bytes: &[u8]) -> BlockBytes {
        self.slabs.copy(bytes).map_or_else(|| bytes.to_vec().into(), BlockBytes::Slab)
    }

    /// Looks how much memory is left in which blocks may be kept aside, once the cache has what it
    /// may hold.
    pub(crate) fn look_for_room_aside(&self) {
        let to_come = self.capacity().saturating_sub(self.usage()) as i64;
        let available = self.memory.left().map_or(0, |left| left.available);
        // What is kept aside is taken already, and counts to what may be.
        let room = available - to_come + self.aside.load(Relaxed) as i64;
        let bound = usize::try_from(room / ASIDE_PART_OF_LEFT).unwrap_or(0);
        self.aside_max.store(bound, Relaxed);
    }

    /// Lets so many bytes be kept aside for it, if with them no more are than there is memory for,
    /// or than its capacity. An eighth of that may be in any case, and half where `is_all` that is
    /// written is to come into it.
    pub(crate) fn take_aside(&self, bytes: usize, is_all: bool) -> bool {
        let capacity = self.capacity();
        let bound = match is_all {
            true => capacity / ASIDE_PART_OF_ALL,
            false => self.aside_max.load(Relaxed).clamp(capacity / ASIDE_PART, capacity),
        };
        let fits = self.aside.fetch_add(bytes, Relaxed) + bytes <= bound;
        if !fits {
            self.give_back_aside(bytes);
        }
        fits
    }

    /// So many bytes are not kept aside any more.
    pub(crate) fn give_back_aside(&self, bytes: usize) {
        self.aside.fetch_sub(bytes, Relaxed);
    }

    /// How many bytes it may hold.
    pub fn capacity(&self) -> usize {
        self.blocks.capacity()
    }

    /// Changes how many bytes it may hold; what is too much is evicted at once. One that sizes
    /// itself goes on from there.
    pub fn set_capacity(&self, capacity: usize) {
        let is_less = capacity < self.capacity();
        self.blocks.set_capacity(capacity);
        if is_less {
            self.slabs.release();
        }
    }

    /// Erases the blocks of a file that is gone.
    pub(crate) fn erase_file(&self, file: u64) {
        self.blocks.erase_file(file);
        self.slabs.release();
    }

    /// How many bytes it holds.
    pub fn usage(&self) -> usize {
        self.blocks.usage()
    }

    /// How many of those bytes somebody is reading, so that they cannot be given back.
    pub fn pinned_usage(&self) -> usize {
        self.blocks.pinned_usage()
    }
}

/// How large a cache begins that sizes itself, in bytes.
const FIRST_CAPACITY: usize = 32 << 20;

/// The thread that sizes a cache.
#[derive(Debug)]
struct Tuner {
    shared: Arc<Shared>,
    /// Joined when it is dropped; `None` where the system had no room for it.
    _thread: Option<Thread>,
}

#[derive(Debug, Default)]
struct Shared {
    sizing: Mutex<cache::Sizing>,
    ended: Mutex<bool>,
    wake: Condvar,
}

impl Drop for BlockCache {
    fn drop(&mut self) {
        debug_assert!(
            std::thread::panicking() || *self.aside.get_mut() == 0,
            "what was kept aside was not given back"
        );
    }
}

impl Tuner {
    fn start(cache: Weak<BlockCache>, memory: Memory) -> Self {
        let shared = Arc::<Shared>::default();
        let of_thread = Arc::clone(&shared);
        let body = move || of_thread.run(&cache, &memory);
        Self { shared, _thread: thread::spawn("block cache", body).ok() }
    }
}

impl Drop for Tuner {
    fn drop(&mut self) {
        *self.shared.ended.lock() = true;
        self.shared.wake.notify_all();
    }
}

impl Shared {
    /// Looks again and again until the cache is dropped.
    fn run(&self, cache: &Weak<BlockCache>, memory: &Memory) {
        let (mut looked, mut wait, mut gave_back) = (Instant::now(), cache::LOOK, false);
        loop {
            let ended = self.ended.lock();
            if *ended || *self.wake.wait_timeout(ended, wait) {
                return;
            }
            let Some(cache) = cache.upgrade() else { continue };
            let elapsed = looked.elapsed();
            looked = Instant::now();
            let Some(left) = memory.left() else { continue };
            let (capacity, usage) = (cache.capacity(), cache.usage());
            let mut sizing = self.sizing.lock();
            let next = sizing.next(capacity, usage, left, cache.blocks.ghosts(), elapsed);
            wait = sizing.pause();
            drop(sizing);
            let gives_back = next < capacity && next < usage;
            if gives_back {
                cache.blocks.give_back(next, Block::address);
            } else if next != capacity {
                cache.set_capacity(next);
            }
            if gives_back || gave_back {
                cache.blocks.collect();
                cache.slabs.release();
                // The entries themselves are the allocator's, and not yet the system's.
                if cache.trims_allocator() {
                    tailwater_io::release_free_memory();
                }
            }
            // What was being read goes later.
            gave_back = gives_back || (gave_back && cache.blocks.unlinked_usage() > 0);
        }
    }
}

#[cfg(all(not(loom), test))]
mod tests {
    use super::*;
    use crate::cache::{Key, Priority};
    use crate::table::BlockKind;

    const MIB: usize = 1 << 20;

    fn put(cache: &BlockCache, file: u64, number: u64) {
        // Its last number says that it has one restart.
        let mut bytes = [0; 4000];
        bytes[3996] = 1;
        let block = Block::parse(cache.take_in(&bytes), BlockKind::Data).expect("a block");
        let (key, charge) = (Key { file, offset: number * 4096 }, block.memory());
        cache.blocks.insert(key, block, charge, Priority::Low);
    }

    #[test]
    fn its_memory_is_little_more_than_its_capacity_whoever_fills_it() {
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
    fn what_it_gives_back_is_the_systems_again() {
        let cache = BlockCache::new(16 * MIB);
        (0..4000).for_each(|number| put(&cache, 1, number));
        // What is read and what is not lies side by side, in regions that are read and are not.
        for number in (0..4000).filter(|number| number / 512 % 2 == 0 && number % 8 != 0) {
            cache.blocks.lookup(Key { file: 1, offset: number * 4096 }, &crate::epoch::pin());
        }
        let before = cache.slabs.bytes();
        cache.blocks.give_back(8 * MIB, Block::address);
        // Readers of other tests may hold up the freeing.
        while cache.blocks.unlinked_usage() > 0 {
            std::thread::yield_now();
            cache.blocks.collect();
        }
        cache.slabs.release();
        let given_back = before - cache.slabs.bytes();
        assert!(given_back >= 7 * MIB, "{given_back} bytes");
    }
}
