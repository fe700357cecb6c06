//! Tests of the cache's invariants.

mod model;
mod policy;
mod stress;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::*;

/// A value that stores its key, detects its own drop, and is counted while it lives.
pub(super) struct Block {
    key: Key,
    serial: u64,
    check: AtomicU64,
    alive: Option<Arc<AtomicUsize>>,
}

impl Block {
    pub(super) fn new(key: Key, serial: u64) -> Self {
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

    /// Asserts that this is a live block of `key`.
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
/// Charge of a block whose size does not matter to the test, in bytes, overhead included.
const UNIT: usize = 1024;

pub(super) fn key(file: u64, block: u64) -> Key {
    Key { file, offset: block * 4096 }
}

/// Creates a cache of one shard. `entries` entries of [`UNIT`] bytes fit besides the headroom, the
/// part of the capacity that evictions try to keep free.
fn cache_of(entries: usize) -> Cache<Block> {
    Cache::with_shards((entries * UNIT * 64).div_ceil(63) + 64, 1)
}

/// Waits until all removed entries are dropped. An epoch guard that another test in this process
/// holds may delay this.
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

/// Calls `attempt` until it returns a result. An attempt may fail because another test in this
/// process holds an epoch guard, which delays the drop of evicted entries.
fn patiently<T>(cache: &Cache<Block>, mut attempt: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        settle(cache);
        if let Some(answer) = attempt() {
            settle(cache);
            return answer;
        }
        assert!(start.elapsed() < Duration::from_secs(30), "no room: {cache:?}");
    }
}

/// Inserts a block of [`UNIT`] bytes. The caller ensures that eviction can free this many bytes.
fn put(cache: &Cache<Block>, key: Key, priority: Priority) -> Arc<Cached<Block>> {
    patiently(cache, || match cache.insert(key, Block::new(key, 0), UNIT - OVERHEAD, priority) {
        Inserted::Admitted(cached) => Some(cached),
        Inserted::Standalone(_) => None,
        Inserted::Present(_) => panic!("{key:?} is there already"),
    })
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

/// Returns the entries of a file, in the order of their offsets: the block, its priority, whether a
/// lookup has hit it, and how many further passes of the clock hand it survives.
fn entries_of(cache: &Cache<Block>, file: u64) -> Vec<(Key, Priority, bool, u8)> {
    let mut found = Vec::new();
    for shard in &cache.shards {
        shard.visit_all(|node| {
            if node.key.file == file {
                found.push((node.key, node.priority, node.was_hit(), node.rounds()));
            }
        });
    }
    found.sort_unstable_by_key(|(key, ..)| *key);
    found
}

/// Returns the seed of a random test, from `TAILWATER_SEED` or a new one. Prints it, so that a
/// failure shows it.
pub(super) fn seed() -> u64 {
    let given = std::env::var("TAILWATER_SEED").ok().and_then(|text| text.parse().ok());
    let seed = given.unwrap_or_else(|| fastrand::u64(..));
    println!("repeat with TAILWATER_SEED={seed}");
    seed
}

#[test]
fn hashes_of_neighbouring_blocks_spread_evenly() {
    const BINS: u64 = 64;
    const KEYS: u64 = 64 * 1024;
    for (stride, files) in [(4096, 16), (4101, 1), (1 << 20, 64), (1, 2)] {
        for shift in [0, 8, 40, 58] {
            let mut bins = [0u32; BINS as usize];
            for number in 0..KEYS {
                let offset = number / files * stride;
                let hash = Key { file: 100 + number % files, offset }.hash();
                bins[(hash >> shift & (BINS - 1)) as usize] += 1;
            }
            // With a uniform hash, each of 64 bins gets 1024 of 64 Ki keys on average, with a
            // standard deviation of 32; this allows 6 standard deviations.
            let worst = bins.iter().map(|&count| count.abs_diff(1024)).max();
            assert!(
                worst.is_some_and(|worst| worst < 192),
                "stride {stride}, {files} files, bits from {shift}: {bins:?}"
            );
        }
    }
}
