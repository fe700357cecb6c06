//! Effects of options on reads of tables.

use std::sync::Arc;

use tailwater::{BlockCache, Db, OpenOptions, ReadOptions, Statistics, WriteOptions};
use tailwater_io::sim::SimStorage;
use tailwater_io::{Operation, Purpose};
use tailwater_testkit::golden;

use super::support::{DB, Scene, open, options};

/// Returns a database with one table of `keys` keys. It was created and then reopened with these
/// options, so its block cache is empty.
fn table_of(keys: usize, family: &str, table: &str) -> Scene {
    let text = format!(
        "{family};disable_auto_compactions=true;compression=kNoCompression;\
         block_based_table_factory={{{table}}}"
    );
    let scene = open(&text);
    scene.fill(0, keys, 100);
    scene.flush();
    scene.reopen(&text)
}

/// Returns how many reads from the device a scan of a table with 5000 keys makes.
fn scan_reads(table: &str) -> usize {
    let scene = table_of(5000, "", table);
    let before = scene.calls(Operation::Read, Purpose::UserRead);
    assert_eq!(scene.scan(), 5000);
    scene.calls(Operation::Read, Purpose::UserRead) - before
}

/// Returns a database with a table whose Bloom filter holds prefixes of three bytes.
fn prefixed(text: &str) -> Scene {
    let scene = open(&format!(
        "prefix_extractor=fixed:3;disable_auto_compactions=true;{text};\
         block_based_table_factory={{filter_policy=bloomfilter:20}}"
    ));
    scene.put("abc1", "1");
    scene.put("abe1", "1");
    scene.flush();
    scene
}

/// Opens a table and reads a key from it. Returns how many index blocks were added to the block
/// cache, and how often an index block was looked up there.
fn cached(family: &str, table: &str) -> (u64, u64) {
    let scene = table_of(1000, family, table);
    scene.get("000007");
    (
        scene.ticker("rocksdb.block.cache.index.add"),
        scene.ticker("rocksdb.block.cache.index.hit")
            + scene.ticker("rocksdb.block.cache.index.miss"),
    )
}

effects! {
    the_allocator_is_trimmed_if_configured shows "trim_allocator" {
        for (text, is_trimmed) in [("", false), ("trim_allocator=true", true)] {
            let cache = BlockCache::auto();
            let disk = SimStorage::new(1);
            let mut options = options(&disk, text);
            options.set_block_cache(Arc::clone(&cache));
            Db::open(DB, &options).expect("a database");
            assert_eq!(cache.trims_allocator(), is_trimmed, "{text}");
        }
    }

    blocks_are_cached shows "no_block_cache", "block_cache" {
        let misses = |table: &str| {
            let scene = table_of(2000, "", table);
            scene.scan();
            let before = scene.calls(Operation::Read, Purpose::UserRead);
            scene.scan();
            scene.calls(Operation::Read, Purpose::UserRead) - before
        };
        assert_eq!(misses(""), 0);
        assert!(misses("no_block_cache=true") > 0);
        assert!(misses("block_cache=16k") > 0);
        let scene = open("block_based_table_factory={block_cache=1m}");
        assert_eq!(scene.property("rocksdb.block-cache-capacity"), "1048576");
    }

    iterators_read_ahead shows
        "max_auto_readahead_size", "initial_auto_readahead_size",
        "num_file_reads_for_auto_readahead"
    {
        let usual = scan_reads("");
        let never = scan_reads("max_auto_readahead_size=0");
        assert!(never > 100 && usual < never / 3, "{usual} and {never}");
        assert!(scan_reads("initial_auto_readahead_size=256k") < usual);
        assert!(scan_reads("num_file_reads_for_auto_readahead=50") > usual + 20);
        // Readahead starts with this size and doubles it, which must not overflow.
        let largest = "initial_auto_readahead_size=18446744073709551615;\
                       max_auto_readahead_size=18446744073709551615";
        assert!(scan_reads(largest) < usual);
    }

    reads_in_flight_are_bounded shows "max_bytes_in_flight" {
        let peak = |text: &str| {
            let scene = table_of(2000, text, "no_block_cache=true");
            let keys: Vec<_> = (0..20).map(|number| format!("{:06}", number * 100)).collect();
            let values = scene.db.multi_get(&keys);
            assert!(values.into_iter().all(|value| value.is_ok_and(|value| value.is_some())));
            let text = scene.property("tailwater.memory");
            let line = text.lines().find(|line| line.contains("in flight, at most so far"));
            line.and_then(|line| line.split_whitespace().last()?.parse::<u64>().ok())
        };
        assert_eq!(peak("max_bytes_in_flight=0"), Some(0));
        assert_eq!(peak("max_bytes_in_flight=12k"), Some(12 << 10));
        assert!(peak("").is_some_and(|peak| peak > 12 << 10));
    }

    indexes_and_filters_are_cached shows "cache_index_and_filter_blocks" {
        assert_eq!(cached("", ""), (0, 0));
        assert_eq!(cached("", "cache_index_and_filter_blocks=true").0, 1);
    }

    indexes_and_filters_are_pinned shows
        "pin_l0_filter_and_index_blocks_in_cache", "metadata_cache_options.unpartitioned_pinning"
    {
        let lookups = |table: &str| cached("", &format!("cache_index_and_filter_blocks=1;{table}")).1;
        let usual = lookups("");
        assert!(usual > 0);
        assert!(lookups("pin_l0_filter_and_index_blocks_in_cache=true") < usual);
        assert!(lookups("metadata_cache_options={unpartitioned_pinning=kAll}") < usual);
        let unpinned = "pin_l0_filter_and_index_blocks_in_cache=true;\
                        metadata_cache_options={unpartitioned_pinning=kNone}";
        assert_eq!(lookups(unpinned), usual);
    }

    index_and_filter_blocks_have_high_priority shows
        "cache_index_and_filter_blocks_with_high_priority" {
        let misses = |table: &str| {
            let scene = open(&format!(
                "disable_auto_compactions=true;compression=kNoCompression;\
                 block_based_table_factory={{cache_index_and_filter_blocks=1;\
                 block_cache=200k;{table}}}"
            ));
            scene.fill(0, 2000, 100);
            scene.flush();
            scene.fill(2000, 6000, 100);
            scene.flush();
            for round in 0..10 {
                scene.get(&format!("{:06}", round * 100));
                // Before the same index block is used again, more blocks are read than the cache
                // can hold.
                for key in (2000..6000).step_by(70) {
                    scene.get(&format!("{key:06}"));
                }
            }
            scene.ticker("rocksdb.block.cache.index.miss")
        };
        let low = "cache_index_and_filter_blocks_with_high_priority=false";
        let (usual, low) = (misses(""), misses(low));
        assert!(usual < low, "{usual} and {low}");
    }

    top_levels_of_partitioned_blocks_are_pinned shows
        "pin_top_level_index_and_filter", "metadata_cache_options.top_level_index_pinning"
    {
        // The golden database has partitioned indexes and filters, which only RocksDB writes.
        let copy = golden::unpack("formats");
        let lookups = |table: &str| {
            let mut options = OpenOptions::load(copy.path()).expect("an OPTIONS file");
            let table = format!("cache_index_and_filter_blocks=1;{table}");
            let text = format!("block_based_table_factory={{{table}}}");
            options.set_from_string(&text).expect("options");
            let statistics = Arc::new(Statistics::new());
            options.set_statistics(Arc::clone(&statistics));
            let db = Db::open_read_only(copy.path(), &options).expect("the database");
            for entry in golden::dump("formats").iter().step_by(10) {
                let family = db.cf_handle(&entry.family).expect("a column family");
                db.get_cf_opt(&family, &entry.key, &ReadOptions::default()).expect("a get");
            }
            let ticker = |name| statistics.ticker(name).expect("a ticker");
            ticker("rocksdb.block.cache.index.hit") + ticker("rocksdb.block.cache.index.miss")
        };
        let usual = lookups("");
        assert!(lookups("pin_top_level_index_and_filter=false") > usual);
        assert!(lookups("metadata_cache_options={top_level_index_pinning=kNone}") > usual);
    }

    hidden_versions_are_skipped_by_a_seek shows "max_sequential_skip_in_iterations" {
        let seeks = |text: &str| {
            let scene = open(text);
            for round in 0..20 {
                scene.put("a", &round.to_string());
            }
            scene.put("b", "1");
            scene.scan();
            scene.ticker("rocksdb.number.reseeks.iteration")
        };
        assert_eq!(seeks("max_sequential_skip_in_iterations=100"), 0);
        assert_eq!(seeks("max_sequential_skip_in_iterations=5"), 1);
    }

    prefix_seeks_may_be_opt_in shows "prefix_seek_opt_in_only" {
        let seek = |text: &str, options: &ReadOptions| {
            let scene = prefixed(text);
            let mut iterator = scene.db.raw_iterator_cf_opt(&scene.family(), options).expect("an iterator");
            iterator.seek(b"abd").expect("a seek");
            iterator.valid()
        };
        let usual = ReadOptions::default();
        assert!(!seek("", &usual), "no key has the prefix");
        assert!(seek("prefix_seek_opt_in_only=true", &usual));
        let opted_in = ReadOptions::new().with_prefix_same_as_start(true);
        assert!(!seek("prefix_seek_opt_in_only=true", &opted_in));
    }

    open_tables_are_bounded shows "max_open_files" {
        let memory = |text: &str| {
            let scene = open(&format!("disable_auto_compactions=true;{text}"));
            for key in 0..60 {
                let key = format!("{key:02}");
                let (family, options) = (scene.family(), WriteOptions::default());
                scene.db.put_cf_opt(&family, key.as_bytes(), b"1", &options).expect("a put");
                scene.flush();
            }
            scene.scan();
            scene.family().table_readers_memory()
        };
        assert!(memory("max_open_files=20") < memory("") / 2);
    }
}
