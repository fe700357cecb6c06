//! The row cache: what it holds, and what it counts.

use std::sync::Arc;

use tailwater::{BlockCache, Db, ErrorKind, OpenOptions, ReadOptions, Statistics};
use tailwater_io::sim::{Call, SimStorage};
use tailwater_io::{Operation, Purpose};

use crate::support::{KIB, collected_usage, filled, key, options, patiently, value};

const DB: &str = "/db";
const KEYS: usize = 300;
/// No block stays in memory, except those of the table's index.
const NO_BLOCKS: &str = "block_based_table_factory={no_block_cache=true}";

struct Scene {
    disk: SimStorage,
    rows: Arc<BlockCache>,
    statistics: Arc<Statistics>,
    db: Db,
}

impl Scene {
    /// Creates a database with a table of [`KEYS`] keys and a row cache of `capacity` bytes.
    fn new(capacity: usize, text: &str) -> Self {
        let (disk, rows) = (SimStorage::new(1), Arc::new(BlockCache::new(capacity)));
        disk.start_recording();
        let statistics = Arc::new(Statistics::new());
        let db = filled(DB, &with_rows(&disk, &rows, &statistics, text), KEYS);
        Self { disk, rows, statistics, db }
    }

    /// Returns the numbers of hits and misses.
    fn counts(&self) -> [u64; 2] {
        ["hit", "miss"].map(|outcome| {
            self.statistics.ticker(&format!("rocksdb.row.cache.{outcome}")).expect("a ticker")
        })
    }

    fn reads(&self) -> usize {
        let is_read = |call: &Call| {
            (call.operation, call.purpose) == (Operation::Read, Some(Purpose::UserRead))
        };
        self.disk.calls().iter().filter(|call| is_read(call)).count()
    }
}

fn with_rows(
    disk: &SimStorage,
    rows: &Arc<BlockCache>,
    statistics: &Arc<Statistics>,
    text: &str,
) -> OpenOptions {
    let mut options = options(disk, None, text);
    options.set_row_cache(Arc::clone(rows)).set_statistics(Arc::clone(statistics));
    options
}

#[test]
fn a_row_is_found_without_the_table() {
    let scene = Scene::new(1 << 20, NO_BLOCKS);
    assert_eq!(scene.db.get(key(7)).expect("a get").as_deref(), Some(&*value(DB, 7)));
    assert_eq!((scene.counts(), scene.rows.occupancy_count()), ([0, 1], 1));
    assert!(scene.rows.usage() > value(DB, 7).len());
    let before = scene.reads();
    for _ in 0..3 {
        assert_eq!(scene.db.get(key(7)).expect("a get").as_deref(), Some(&*value(DB, 7)));
        let pinned = scene.db.get_pinned(key(7)).expect("a get").expect("a value");
        assert_eq!(*pinned, *value(DB, 7));
    }
    for found in scene.db.multi_get(&[key(7), key(7)]) {
        assert_eq!(found.expect("a get").as_deref(), Some(&*value(DB, 7)));
    }
    assert_eq!((scene.counts(), scene.reads()), ([8, 1], before));
}

#[test]
fn a_multi_get_leaves_rows() {
    let scene = Scene::new(1 << 20, NO_BLOCKS);
    let keys: Vec<_> = (0..200).map(key).collect();
    for round in 0..2 {
        for (number, found) in scene.db.multi_get(&keys).into_iter().enumerate() {
            assert_eq!(found.expect("a get").as_deref(), Some(&*value(DB, number)));
        }
        assert_eq!(scene.counts(), [200 * round, 200]);
    }
    assert_eq!(scene.rows.occupancy_count(), 200);
}

#[test]
fn memtables_are_searched_first_and_absent_keys_leave_no_row() {
    let scene = Scene::new(1 << 20, "");
    scene.db.get(key(7)).expect("a get");
    scene.db.put(key(7), "new").expect("a put");
    assert_eq!(scene.db.get(key(7)).expect("a get").as_deref(), Some(&b"new"[..]));
    assert_eq!(scene.counts(), [0, 1]);
    scene.db.flush().expect("a flush");
    assert_eq!(scene.db.get(key(7)).expect("a get").as_deref(), Some(&b"new"[..]));
    assert_eq!(scene.db.get(key(7)).expect("a get").as_deref(), Some(&b"new"[..]));
    assert_eq!(scene.counts(), [1, 2]);
    for absent in 1..4 {
        assert_eq!(scene.db.get("000007x").expect("a get"), None);
        assert_eq!(scene.counts(), [1, 2 + absent]);
    }
    assert_eq!(scene.rows.occupancy_count(), 2);
}

#[test]
fn deletions_and_operands_are_rows() {
    let scene = Scene::new(1 << 20, "merge_operator=stringappend;disable_auto_compactions=true");
    let db = &scene.db;
    db.put("000001a", "base").expect("a put");
    db.flush().expect("a flush");
    db.merge("000001a", "x").expect("a merge");
    db.merge("000001a", "y").expect("a merge");
    db.delete(key(9)).expect("a deletion");
    db.flush().expect("a flush");
    for round in 0..3 {
        assert_eq!(db.get("000001a").expect("a get").as_deref(), Some(&b"base,x,y"[..]));
        assert_eq!(db.get(key(9)).expect("a get"), None);
        // Two tables have the merged key, and one the deletion.
        assert_eq!(scene.counts(), [3 * round, 3]);
    }
}

#[test]
fn a_snapshot_older_than_records_of_the_table_has_rows_of_its_own() {
    let scene = Scene::new(1 << 20, "disable_auto_compactions=true");
    let db = &scene.db;
    db.put("k", "1").expect("a put");
    let first = db.snapshot();
    db.put("k", "2").expect("a put");
    let second = db.snapshot();
    db.flush().expect("a flush");
    let get = |options: &ReadOptions| db.get_opt("k", options).expect("a get");
    let old = ReadOptions::new().with_snapshot(first);
    let new = ReadOptions::new().with_snapshot(second);
    for round in 0..3 {
        assert_eq!(get(&ReadOptions::new()).as_deref(), Some(&b"2"[..]));
        assert_eq!(get(&old).as_deref(), Some(&b"1"[..]));
        // This one sees all of the table, and so it shares the row of reads without a snapshot.
        assert_eq!(get(&new).as_deref(), Some(&b"2"[..]));
        assert_eq!(scene.counts(), [1 + 3 * round, 2]);
    }
}

#[test]
fn deleting_ranges_is_refused() {
    let scene = Scene::new(1 << 20, "");
    let error = scene.db.delete_range("a", "b").expect_err("a range deletion");
    let expected = (ErrorKind::NotSupported, "DeleteRange is not compatible with row cache.");
    assert_eq!((error.kind(), error.message()), expected);
    scene.db.put("a", "1").expect("a put");
    assert!(scene.db.get("a").expect("a get").is_some());
}

#[test]
fn rows_stay_within_the_capacity() {
    for is_strict in [false, true] {
        let scene = Scene::new(20 * KIB, "");
        scene.rows.set_strict_capacity_limit(is_strict);
        let pinned: Vec<_> = (0..KEYS)
            .map(|number| scene.db.get_pinned(key(number)).expect("a get").expect("a value"))
            .collect();
        assert!(scene.rows.usage() <= 20 * KIB);
        assert!((5..20).contains(&scene.rows.occupancy_count()), "{:?}", scene.rows);
        assert!(pinned.iter().enumerate().all(|(number, found)| **found == *value(DB, number)));
    }
}

#[test]
fn one_cache_holds_blocks_and_rows() {
    let (disk, cache) = (SimStorage::new(1), Arc::new(BlockCache::new(200 * KIB)));
    let statistics = Arc::new(Statistics::new());
    let mut options = with_rows(&disk, &cache, &statistics, "");
    options.set_block_cache(Arc::clone(&cache));
    let db = filled(DB, &options, KEYS);
    db.get(key(0)).expect("a get");
    assert_eq!(cache.occupancy_count(), 2, "a block and a row");
    for number in 0..KEYS {
        assert_eq!(db.get(key(number)).expect("a get"), Some(value(DB, number)));
        assert_eq!(db.get(key(number)).expect("a get"), Some(value(DB, number)));
        assert!(cache.usage() <= cache.capacity());
    }
    assert!(statistics.ticker("rocksdb.row.cache.hit").is_some_and(|hits| hits > 0));
    cache.set_capacity(0);
    patiently("all is evicted", || collected_usage(&cache) == 0);
}

#[test]
fn databases_and_column_families_share_a_row_cache() {
    let (disk, rows) = (SimStorage::new(1), Arc::new(BlockCache::new(1 << 20)));
    let statistics = Arc::new(Statistics::new());
    let mut options = with_rows(&disk, &rows, &statistics, "create_missing_column_families=true");
    options.set_column_family_from_string("other", "").expect("options");
    let first = filled("/first", &options, 20);
    let second = filled("/second", &options, 20);
    let other = second.cf_handle("other").expect("a column family");
    for number in 0..20 {
        second.put_cf(&other, key(number), value("other", number)).expect("a put");
    }
    second.flush_cf(&other).expect("a flush");
    for _ in 0..2 {
        for number in 0..20 {
            assert_eq!(first.get(key(number)).expect("a get"), Some(value("/first", number)));
            assert_eq!(second.get(key(number)).expect("a get"), Some(value("/second", number)));
            let found = second.get_cf(&other, key(number)).expect("a get");
            assert_eq!(found, Some(value("other", number)));
        }
    }
    assert_eq!(statistics.ticker("rocksdb.row.cache.hit"), Some(60));
    drop(first);
    assert_eq!(second.get(key(3)).expect("a get"), Some(value("/second", 3)));
}
