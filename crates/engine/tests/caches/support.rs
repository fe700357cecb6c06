//! Helpers of the tests of caches.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tailwater::{BlockCache, Db, OpenOptions};
use tailwater_io::sim::SimStorage;

pub(crate) const KIB: usize = 1 << 10;

/// The length of each value, in bytes. A block has four of them.
const VALUE: usize = 1200;

/// Returns options for databases on `disk` that use `cache`, if it is given. `text` is an option
/// string. Background work runs in the calling thread.
pub(crate) fn options(
    disk: &SimStorage,
    cache: Option<&Arc<BlockCache>>,
    text: &str,
) -> OpenOptions {
    let mut options = OpenOptions::with_storage(Arc::new(disk.clone()));
    options.set_clock(disk.clock());
    options.set_inline_background(true);
    let usual = "create_if_missing=true;compression=kNoCompression";
    options.set_from_string(usual).expect("options");
    options.set_from_string(text).expect("options");
    if let Some(cache) = cache {
        options.set_block_cache(Arc::clone(cache));
    }
    options
}

pub(crate) fn key(number: usize) -> String {
    format!("{number:06}")
}

/// Returns the value of key `number` in the database `name`.
pub(crate) fn value(name: &str, number: usize) -> Vec<u8> {
    let mut value = format!("{name} {number} ").into_bytes();
    value.resize(VALUE, b'.');
    value
}

/// Opens a new database `name`, with a table of `keys` keys.
pub(crate) fn filled(name: &str, options: &OpenOptions, keys: usize) -> Db {
    let db = Db::open(name, options).expect("a database");
    for number in 0..keys {
        db.put(key(number), value(name, number)).expect("a put");
    }
    db.flush().expect("a flush");
    db
}

/// Frees the blocks that were evicted, if no reader can see them, and returns the usage.
pub(crate) fn collected_usage(cache: &BlockCache) -> usize {
    cache.set_capacity(cache.capacity());
    cache.usage()
}

/// Calls `attempt` until it returns true. Blocks that were evicted stay counted until no thread
/// that reads may see them, and the threads of other tests read at the same time.
#[track_caller]
pub(crate) fn patiently(what: &str, mut attempt: impl FnMut() -> bool) {
    let start = Instant::now();
    while !attempt() {
        assert!(start.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::yield_now();
    }
}
