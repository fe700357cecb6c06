//! The thread that sizes a cache to the available memory, see [`tailwater_io::sizing`].

use std::sync::{Arc, Weak};
use std::time::Instant;

use tailwater_io::kernel::Memory;
use tailwater_io::sync::{Condvar, Mutex};
use tailwater_io::thread::{self, Thread};

use super::BlockCache;
use crate::block_cache::Block;
use crate::cache::{self, AutoSizes};

/// The thread that sizes a cache.
#[derive(Debug)]
pub(super) struct Tuner {
    sizer: Arc<Sizer>,
    /// The thread that sizes the cache. It is joined when this is dropped; `None` if the system
    /// could not start it.
    _thread: Option<Thread>,
}

#[derive(Debug, Default)]
struct Sizer {
    sizing: Mutex<cache::Sizing>,
    ended: Mutex<bool>,
    wake: Condvar,
}

impl Tuner {
    pub(super) fn start(cache: Weak<BlockCache>, memory: Memory) -> Self {
        let sizer = Arc::<Sizer>::default();
        let of_thread = Arc::clone(&sizer);
        let body = move || of_thread.run(&cache, &memory);
        Self { sizer, _thread: thread::spawn("block cache", body).ok() }
    }

    /// Returns the counts and the last inputs of the decisions on the cache's capacity.
    pub(super) fn sizes(&self) -> AutoSizes {
        self.sizer.sizing.lock().sizes()
    }
}

impl Drop for Tuner {
    fn drop(&mut self) {
        *self.sizer.ended.lock() = true;
        self.sizer.wake.notify_all();
    }
}

impl Sizer {
    /// Resizes the cache periodically until the cache is dropped.
    fn run(&self, cache: &Weak<BlockCache>, memory: &Memory) {
        let (mut last_check, mut wait, mut gave_back) = (Instant::now(), cache::PAUSE, false);
        loop {
            let ended = self.ended.lock();
            if *ended || *self.wake.wait_timeout(ended, wait) {
                return;
            }
            let Some(cache) = cache.upgrade() else { continue };
            let elapsed = last_check.elapsed();
            last_check = Instant::now();
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
                // The memory of freed entries is back in the allocator. The allocator releases it
                // to the system only on request.
                if cache.trims_allocator() {
                    tailwater_io::release_free_memory();
                }
            }
            // The memory of a block that is being read is freed only later. It must then be
            // released to the system in a later round.
            gave_back = gives_back || (gave_back && cache.blocks.unlinked_usage() > 0);
        }
    }
}
