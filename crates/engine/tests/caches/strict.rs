//! Caches with a strict capacity limit: a read fails if pinned blocks leave no room.

use std::sync::Arc;

use tailwater::{BlockCache, Db, Error, ErrorKind, PinnedValue, ReadOptions};
use tailwater_io::sim::SimStorage;

use crate::support::{KIB, collected_usage, filled, key, options, patiently, value};

const DB: &str = "/db";
const KEYS: usize = 300;
const CAPACITY: usize = 64 * KIB;

fn cache(is_strict: bool) -> Arc<BlockCache> {
    let cache = Arc::new(BlockCache::new(CAPACITY));
    cache.set_strict_capacity_limit(is_strict);
    cache
}

#[track_caller]
fn assert_refused(error: &Error) {
    let expected = (ErrorKind::MemoryLimit, "Insert failed due to LRU cache being full.");
    assert_eq!((error.kind(), error.message()), expected);
}

/// Pins the values of one key after another, from the first on, until a read fails. Returns the
/// values and the error.
fn pin_until_full(db: &Db) -> (Vec<PinnedValue>, Option<Error>) {
    let mut pinned = Vec::new();
    for number in 0..KEYS {
        match db.get_pinned(key(number)) {
            Ok(found) => pinned.push(found.expect("a value")),
            Err(error) => return (pinned, Some(error)),
        }
    }
    (pinned, None)
}

#[test]
fn a_read_fails_if_pinned_blocks_leave_no_room() {
    let (disk, cache) = (SimStorage::new(1), cache(true));
    let db = filled(DB, &options(&disk, Some(&cache), ""), KEYS);
    let (pinned, error) = pin_until_full(&db);
    assert_refused(&error.expect("a full cache"));
    assert!(pinned.len() > 30 && cache.usage() <= CAPACITY, "{} values", pinned.len());
    patiently("only pinned blocks are left", || collected_usage(&cache) == cache.pinned_usage());

    // Whatever the operation is, and while the blocks that are there can be read.
    let last = key(KEYS - 1);
    assert_refused(&db.get(&last).expect_err("a get"));
    let both = db.multi_get(&[key(0), last.clone()]);
    assert_eq!(both[0].as_ref().expect("a value").as_deref(), Some(&*value(DB, 0)));
    assert_refused(both[1].as_ref().expect_err("a multi-get"));
    let mut iterator = db.raw_iterator().expect("an iterator");
    assert_refused(&iterator.seek(&last).expect_err("a seek"));
    assert!(!iterator.valid());
    assert!(cache.usage() <= CAPACITY);

    drop((pinned, both, iterator));
    patiently("the next read succeeds", || db.get(&last).is_ok_and(|found| found.is_some()));
    assert!(cache.usage() <= CAPACITY);
}

#[test]
fn reads_that_do_not_fill_the_cache_never_fail() {
    let (disk, cache) = (SimStorage::new(1), cache(true));
    let db = filled(DB, &options(&disk, Some(&cache), ""), KEYS);
    let (_pinned, error) = pin_until_full(&db);
    assert!(error.is_some());
    let past = ReadOptions::new().with_fill_cache(false);
    assert!(db.get_opt(key(KEYS - 1), &past).expect("a get").is_some());
    assert_eq!(db.range_opt(.., &past).filter(Result::is_ok).count(), KEYS);
    db.put(key(KEYS), "new").expect("a put");
    db.flush().expect("a flush");
    db.compact_range(None, None).expect("a compaction");
    assert!(cache.usage() <= CAPACITY);
}

#[test]
fn a_read_fails_for_lack_of_an_index_but_not_of_a_filter() {
    let table = "block_based_table_factory={cache_index_and_filter_blocks=true;\
                 filter_policy=bloomfilter:100000;block_size=64}";
    let read = |capacity: usize| {
        let (disk, cache) = (SimStorage::new(1), cache(true));
        let db = filled(DB, &options(&disk, Some(&cache), table), KEYS);
        cache.set_capacity(capacity);
        db.get(key(0))
    };
    // The index has several KiB, the filter megabytes.
    assert_refused(&read(4 * KIB).expect_err("a get"));
    patiently("a read without the filter", || read(64 * KIB).is_ok_and(|found| found.is_some()));
}

#[test]
fn without_a_strict_limit_reads_never_fail() {
    let (disk, cache) = (SimStorage::new(1), cache(false));
    let db = filled(DB, &options(&disk, Some(&cache), ""), KEYS);
    let (pinned, error) = pin_until_full(&db);
    assert!(error.is_none());
    assert!(pinned.iter().enumerate().all(|(number, found)| **found == *value(DB, number)));
    assert!(cache.usage() <= CAPACITY);
}

#[test]
fn the_limit_can_be_made_strict_by_an_option_or_while_the_cache_is_used() {
    let strict = "block_based_table_factory={block_cache={capacity=64k;strict_capacity_limit=1}}";
    let disk = SimStorage::new(1);
    let db = filled(DB, &options(&disk, None, strict), KEYS);
    let (pinned, error) = pin_until_full(&db);
    assert_refused(&error.expect("a full cache"));
    drop(pinned);

    let (disk, cache) = (SimStorage::new(1), cache(false));
    let db = filled(DB, &options(&disk, Some(&cache), ""), KEYS);
    let (_pinned, _) = pin_until_full(&db);
    cache.set_strict_capacity_limit(true);
    assert!(cache.has_strict_capacity_limit());
    assert_refused(&db.get(key(KEYS - 1)).expect_err("a get"));
    cache.set_strict_capacity_limit(false);
    assert!(db.get(key(KEYS - 1)).expect("a get").is_some());
}

/// Readers that only copy values leave no block pinned for long, so none of them fails.
#[test]
fn readers_that_release_their_blocks_do_not_fail_each_other() {
    let (disk, cache) = (SimStorage::new(1), cache(true));
    let db = filled(DB, &options(&disk, Some(&cache), ""), KEYS);
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let db = &db;
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(thread);
                for _ in 0..2000 {
                    let number = random.usize(..KEYS);
                    let found = db.get(key(number)).expect("a get");
                    assert_eq!(found.as_deref(), Some(&*value(DB, number)));
                }
            });
        }
    });
    assert!(cache.usage() <= CAPACITY);
}
