//! The cache against its promises.

mod model;
mod parts;
mod policy;
mod stress;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::*;

/// A value that knows whose it is, can tell that it was dropped, and is counted while it lives.
struct Block {
    key: Key,
    serial: u64,
    check: AtomicU64,
    alive: Option<Arc<AtomicUsize>>,
}

impl Block {
    fn new(key: Key, serial: u64) -> Self {
        Self { key, serial, check: AtomicU64::new(Self::checksum(key, serial)), alive: None }
    }

    fn counted(key: Key, serial: u64, alive: &Arc<AtomicUsize>) -> Self {
        alive.fetch_add(1, Ordering::Relaxed);
        let mut block = Self::new(key, serial);
        block.alive = Some(Arc::clone(alive));
        block
    }

    fn checksum(key: Key, serial: u64) -> u64 {
        key.hash() ^ serial.rotate_left(17)
    }

    /// Fails unless this is a living block of `key`.
    fn verify(&self, key: Key) {
        let check = self.check.load(Ordering::Relaxed);
        assert_eq!((self.key, check), (key, Self::checksum(key, self.serial)), "another's block");
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        self.verify(self.key);
        self.check.store(0xdead, Ordering::Relaxed);
        if let Some(alive) = &self.alive {
            alive.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

const OVERHEAD: usize = Cache::<Block>::ENTRY_OVERHEAD;
/// The charge of the blocks whose size does not matter, overhead included.
const UNIT: usize = 1024;

fn key(file: u64, block: u64) -> Key {
    Key { file, offset: block * 4096 }
}

/// A cache of one shard with room for `entries` of [`UNIT`], and the headroom beside it.
fn cache_of(entries: usize) -> Cache<Block> {
    Cache::with_shards((entries * UNIT * 64).div_ceil(63) + 64, 1)
}

/// Waits until everything that left the table is gone; guards of other tests in this process may
/// hold it up for a moment.
fn settle(cache: &Cache<Block>) {
    let start = Instant::now();
    loop {
        cache.collect();
        if cache.unlinked_usage() == 0 {
            return;
        }
        assert!(start.elapsed() < Duration::from_secs(30), "garbage stays: {cache:?}");
        thread::yield_now();
    }
}

/// Inserts a block of [`UNIT`] where nothing stands in the way but evicting.
fn put(cache: &Cache<Block>, key: Key, priority: Priority) -> Arc<Cached<Block>> {
    settle(cache);
    let inserted = cache.insert(key, Block::new(key, 0), UNIT - OVERHEAD, priority);
    settle(cache);
    match inserted {
        Inserted::Admitted(cached) => cached,
        other => panic!("{key:?} was not admitted: {}", outcome(&other)),
    }
}

fn outcome(inserted: &Inserted<Block>) -> &'static str {
    match inserted {
        Inserted::Admitted(_) => "admitted",
        Inserted::Present(_) => "present",
        Inserted::Standalone(_) => "standalone",
    }
}

fn hit(cache: &Cache<Block>, key: Key) -> bool {
    let guard = pin();
    cache.lookup(key, &guard).inspect(|block| block.verify(key)).is_some()
}

fn is_resident(cache: &Cache<Block>, key: Key) -> bool {
    cache.peek(key, &pin()).is_some()
}

/// A seed for a random test: the one in `TAILWATER_SEED`, or a new one. It is printed, so that a
/// failure shows it.
fn seed() -> u64 {
    let given = std::env::var("TAILWATER_SEED").ok().and_then(|text| text.parse().ok());
    let seed = given.unwrap_or_else(|| fastrand::u64(..));
    println!("repeat with TAILWATER_SEED={seed}");
    seed
}
