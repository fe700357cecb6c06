//! Options about what the block cache holds, and what is charged to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tailwater::{BlockCache, CustomPrefixExtractor, Db, ErrorKind, PrefixExtractor};
use tailwater_io::sim::SimStorage;

use super::support::{DB, Scene, options, try_open_with};

/// Opens a database whose block cache is `cache`, with these table options.
fn open(cache: &Arc<BlockCache>, table: &str) -> Scene {
    let disk = SimStorage::new(1);
    let text = format!("compression=kNoCompression;block_based_table_factory={{{table}}}");
    try_open_with(&disk, &text, |options| {
        options.set_block_cache(Arc::clone(cache));
    })
    .expect("a new database")
}

/// Waits until this many bytes of a cache are in use. Readers of other tests in this process may
/// delay that memory is freed. `collect` frees garbage of a database, which the operations of that
/// database do, as does any database with that of closed ones.
#[track_caller]
fn expect_usage(cache: &BlockCache, expected: usize, collect: impl Fn()) {
    let start = Instant::now();
    while cache.usage() != expected {
        let late = start.elapsed() > Duration::from_secs(30);
        assert!(!late, "{} bytes, not {expected}", cache.usage());
        // Frees what was evicted.
        cache.set_capacity(cache.capacity());
        collect();
        thread::yield_now();
    }
}

/// Frees garbage of databases that were closed.
fn collect_of_closed() {
    open(&Arc::new(BlockCache::new(1 << 20)), "").compact();
}

/// A prefix extractor that notes the highest usage of a cache that it sees. Builders of filters
/// call it for each key.
struct Watching {
    cache: Arc<BlockCache>,
    usage: Arc<AtomicUsize>,
}

impl CustomPrefixExtractor for Watching {
    fn name(&self) -> &str {
        "watching"
    }

    fn prefix<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        self.usage.fetch_max(self.cache.usage(), Ordering::Relaxed);
        key.get(..5)
    }
}

/// Writes a table of 40,000 keys. Returns the highest usage of the block cache while its filter was
/// built, and the usage afterwards.
fn filter_usage(table: &str, is_strict: bool) -> (usize, usize) {
    let cache = Arc::new(BlockCache::new(if is_strict { 100 << 10 } else { 4 << 20 }));
    cache.set_strict_capacity_limit(is_strict);
    let usage = Arc::new(AtomicUsize::new(0));
    let watching = Watching { cache: Arc::clone(&cache), usage: Arc::clone(&usage) };
    let disk = SimStorage::new(1);
    let mut options = options(
        &disk,
        &format!(
            "prefix_extractor=watching;\
             block_based_table_factory={{filter_policy=bloomfilter:10;{table}}}"
        ),
    );
    options.set_block_cache(Arc::clone(&cache));
    options.add_prefix_extractor(PrefixExtractor::Custom(Arc::new(watching)));
    let db = Db::open(DB, &options).expect("a database");
    for key in 0..40_000 {
        db.put(format!("{key:06}"), "").expect("a put");
    }
    db.flush().expect("a flush");
    (usage.load(Ordering::Relaxed), cache.usage())
}

effects! {
    filters_that_are_built_are_charged shows "cache_usage_options.kFilterConstruction" {
        assert_eq!(filter_usage("", false), (0, 0));
        let disabled = "cache_usage_options={kFilterConstruction=kDisabled}";
        assert_eq!(filter_usage(disabled, false), (0, 0));
        // Of each key and prefix, 8 bytes are kept.
        let charged = "cache_usage_options={kFilterConstruction=kEnabled}";
        let (highest, afterwards) = filter_usage(charged, false);
        assert!((256 << 10..1 << 20).contains(&highest), "{highest}");
        assert_eq!(afterwards, 0);
        // What does not fit under a strict limit is not charged.
        assert_eq!(filter_usage(charged, true), (0, 0));
    }

    open_tables_are_charged shows "cache_usage_options.kBlockBasedTableReader" {
        let charged = "cache_usage_options={kBlockBasedTableReader=kEnabled}";
        let cache = Arc::new(BlockCache::new(1 << 20));
        let usage = |table: &str| {
            let scene = open(&cache, table);
            scene.fill(0, 1000, 100);
            scene.flush();
            scene.fill(0, 1000, 100);
            scene.flush();
            assert!(scene.get("000007").is_some());
            let readers = scene.property("rocksdb.estimate-table-readers-mem");
            (cache.usage(), readers.parse::<usize>().expect("a number"))
        };
        let (blocks, readers) = usage("");
        cache.set_capacity(0);
        expect_usage(&cache, 0, collect_of_closed);
        cache.set_capacity(1 << 20);
        let (all, same_readers) = usage(charged);
        assert_eq!(same_readers, readers);
        assert!(readers > 2000 && all == blocks + readers, "{all}, {blocks}, {readers}");
        // The readers are not charged any more, once the database is closed.
        cache.set_capacity(0);
        expect_usage(&cache, 0, collect_of_closed);

        // A table that does not fit under a strict limit cannot be read.
        cache.set_capacity(1000);
        cache.set_strict_capacity_limit(true);
        let scene = open(&cache, charged);
        scene.fill(0, 1000, 100);
        scene.flush();
        let error = scene.db.get("000007").expect_err("a get");
        let message = "Can't allocate BlockBasedTableReader due to memory limit based on cache \
                       capacity for memory allocation";
        assert_eq!((error.kind(), error.message()), (ErrorKind::MemoryLimit, message));
        cache.set_capacity(1 << 20);
        assert!(scene.get("000007").is_some());
    }

    metadata_of_tables_is_charged shows "cache_usage_options.kFileMetadata" {
        let charged = "cache_usage_options={kFileMetadata=kEnabled}";
        for is_strict in [false, true] {
            let cache = Arc::new(BlockCache::new(1 << 20));
            cache.set_strict_capacity_limit(is_strict);
            let mut usage = Vec::new();
            let scene = open(&cache, charged);
            for _ in 0..3 {
                scene.fill(0, 10, 100);
                scene.flush();
                usage.push(cache.usage());
            }
            let each = usage[0];
            assert!((300..3000).contains(&each), "{each}");
            assert_eq!(usage, [each, 2 * each, 3 * each]);
            scene.compact();
            let tables = scene.db.live_files().len();
            assert!(tables < 3);
            expect_usage(&cache, tables * each, || scene.compact());
            let text = format!("block_based_table_factory={{{charged}}}");
            let scene = scene.reopen_with(&text, |options| {
                options.set_block_cache(Arc::clone(&cache));
            });
            expect_usage(&cache, tables * each, || scene.compact());
            drop(scene);
            expect_usage(&cache, 0, collect_of_closed);
            let scene = open(&cache, "");
            scene.fill(0, 10, 100);
            scene.flush();
            assert_eq!(cache.usage(), 0);
        }
    }
}
