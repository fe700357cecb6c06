//! The exact effects of gets on the statistics.

use std::sync::Arc;

use tailwater::{BlockCache, ReadOptions};

use crate::support::{Counted, tickers};

/// Options for tables with a Bloom filter of whole keys.
const BLOOM: &str = "block_based_table_factory={filter_policy=bloomfilter:10:false}";

#[test]
fn a_get_counts_the_source_of_its_result() {
    let counted = Counted::new("");
    counted.put("a", "123");
    counted.moved();
    assert_eq!(counted.get("a"), Some(b"123".to_vec()));
    assert_eq!(counted.get("b"), None);
    assert_eq!(
        (counted.measured("db.get.micros").0, counted.measured("bytes.per.read")),
        (2, (1, 3))
    );
    let in_memory =
        [("memtable.hit", 1), ("memtable.miss", 1), ("number.keys.read", 2), ("bytes.read", 3)];
    assert_eq!(counted.moved(), tickers(in_memory));
    counted.flush();
    counted.moved();
    counted.get("a");
    assert_eq!(counted.measured("table.open.io.micros").0, 0, "the flush opened it");
    assert_eq!(counted.measured("read.block.get.micros").0, 1);
    let charged = counted.statistics.ticker("rocksdb.block.cache.bytes.write").expect("one");
    assert!((100..5000).contains(&charged), "{charged}");
    let mut first = tickers([
        ("memtable.miss", 1),
        ("number.keys.read", 1),
        ("bytes.read", 3),
        ("l0.hit", 1),
        ("block.cache.miss", 1),
        ("block.cache.data.miss", 1),
        ("block.cache.add", 1),
        ("block.cache.data.add", 1),
    ]);
    first.insert("block.cache.bytes.write".to_owned(), charged);
    first.insert("block.cache.data.bytes.insert".to_owned(), charged);
    assert_eq!(counted.moved(), first);
    counted.get("a");
    let cached = [
        ("memtable.miss", 1),
        ("number.keys.read", 1),
        ("bytes.read", 3),
        ("l0.hit", 1),
        ("block.cache.hit", 1),
        ("block.cache.data.hit", 1),
        ("block.cache.bytes.read", charged),
    ];
    assert_eq!(counted.moved(), tickers(cached));
}

#[test]
fn a_whole_key_filter_counts_the_reads_it_avoided() {
    let counted = Counted::new(BLOOM);
    counted.put("a", "1");
    counted.put("c", "1");
    counted.flush();
    // The first get fills the block cache.
    counted.get("a");
    counted.moved();
    counted.get("a");
    let found = counted.moved();
    assert_eq!(found.get("bloom.filter.full.positive"), Some(&1));
    assert_eq!(found.get("bloom.filter.full.true.positive"), Some(&1));
    assert_eq!(found.get("bloom.filter.useful"), None);
    counted.get("b");
    let spared = [("memtable.miss", 1), ("number.keys.read", 1), ("bloom.filter.useful", 1)];
    assert_eq!(counted.moved(), tickers(spared));
}

#[test]
fn a_prefix_filter_counts_the_reads_it_avoided() {
    let counted = Counted::new(
        "prefix_extractor=fixed:1;block_based_table_factory={filter_policy=bloomfilter:10:false;\
         whole_key_filtering=false}",
    );
    counted.put("aa", "1");
    counted.put("cc", "1");
    counted.flush();
    counted.get("aa");
    counted.moved();
    counted.get("aa");
    counted.get("ab");
    counted.get("bb");
    let moved = counted.moved();
    let prefix = |what: &str| moved.get(&format!("bloom.filter.prefix.{what}")).copied();
    assert_eq!(prefix("checked"), Some(3));
    assert_eq!(prefix("useful"), Some(1));
    assert_eq!(prefix("true.positive"), Some(1));
    assert_eq!(moved.get("bloom.filter.full.positive"), None);
}

#[test]
fn cached_index_and_filter_blocks_are_counted() {
    let counted = Counted::new(
        "block_based_table_factory={filter_policy=bloomfilter:10:false;\
         cache_index_and_filter_blocks=true}",
    );
    counted.put("a", "1");
    counted.flush();
    counted.moved();
    counted.get("a");
    let first = counted.moved();
    for kind in ["index", "filter", "data"] {
        assert_eq!(first.get(&format!("block.cache.{kind}.miss")), Some(&1), "{kind}: {first:?}");
        assert_eq!(first.get(&format!("block.cache.{kind}.add")), Some(&1), "{kind}: {first:?}");
        assert_eq!(first.get(&format!("block.cache.{kind}.hit")), None, "{kind}: {first:?}");
    }
    let charged = |kind: &str| first[&format!("block.cache.{kind}.bytes.insert")];
    let charges = charged("index") + charged("filter") + charged("data");
    assert_eq!(first["block.cache.bytes.write"], charges);
    assert_eq!((first["block.cache.miss"], first["block.cache.add"]), (3, 3));
    counted.get("a");
    let second = counted.moved();
    for kind in ["index", "filter", "data"] {
        assert_eq!(second.get(&format!("block.cache.{kind}.hit")), Some(&1), "{kind}: {second:?}");
    }
    assert_eq!((second.get("block.cache.hit"), second.get("block.cache.miss")), (Some(&3), None));
    assert_eq!(first.get("block.cache.bytes.read"), None);
    assert_eq!(second["block.cache.bytes.read"], charges);
}

/// Tests a get that finds the filter and the index in the block cache, but not the data block. Such
/// a get first searches only in memory, and then again with reads from the file. Every block must
/// be counted only once.
#[test]
fn a_get_that_continues_on_disk_counts_each_block_once() {
    let counted = Counted::new(
        "block_based_table_factory={filter_policy=bloomfilter:10:false;block_size=1024;\
         cache_index_and_filter_blocks=true}",
    );
    for key in 0..100 {
        counted.put(&format!("{key:03}"), &"v".repeat(100));
    }
    counted.flush();
    counted.get("000");
    counted.moved();
    counted.get("099");
    let moved = counted.moved();
    let cache = |what: &str| moved.get(&format!("block.cache.{what}")).copied().unwrap_or(0);
    assert_eq!((cache("filter.hit"), cache("index.hit"), cache("data.miss")), (1, 1, 1));
    assert_eq!((cache("hit"), cache("miss"), cache("add")), (2, 1, 1));
    assert_eq!(moved.get("bloom.filter.full.positive"), Some(&1));
    assert_eq!(moved.get("bloom.filter.full.true.positive"), Some(&1));
}

#[test]
fn inserts_into_a_full_cache_are_counted_as_failures() {
    let counted = Counted::with("", |options| {
        options.set_block_cache(Arc::new(BlockCache::new(0)));
    });
    counted.put("a", "1");
    counted.flush();
    counted.moved();
    counted.get("a");
    let moved = counted.moved();
    assert_eq!(moved.get("block.cache.add.failures"), Some(&1), "{moved:?}");
    assert_eq!(moved.get("block.cache.add"), None, "{moved:?}");
}

#[test]
fn a_multi_get_has_its_own_counts() {
    let counted = Counted::new("");
    counted.put("a", "123");
    counted.put("b", "45");
    counted.moved();
    let keys: [&[u8]; 3] = [b"b", b"nothing", b"a"];
    let values =
        counted.db.batched_multi_get_cf_opt(&counted.family(), &keys, &ReadOptions::default());
    assert!(values.iter().all(Result::is_ok));
    assert_eq!(counted.measured("db.multiget.micros").0, 1);
    assert_eq!(counted.measured("bytes.per.multiget"), (1, 5));
    let expected = [
        ("number.multiget.get", 1),
        ("number.multiget.keys.read", 3),
        ("number.multiget.keys.found", 2),
        ("number.multiget.bytes.read", 5),
        ("memtable.hit", 2),
        ("memtable.miss", 1),
    ];
    assert_eq!(counted.moved(), tickers(expected));
}

#[test]
fn a_table_that_cannot_be_opened_counts_an_error() {
    use tailwater_io::sim::{Fault, FaultPlan, FaultRule};
    use tailwater_io::{Operation, Purpose};
    let counted = Counted::new("");
    counted.put("a", "1");
    counted.moved();
    let unreadable = FaultRule::new(Fault::InputOutput)
        .operation(Operation::Read)
        .purpose(Purpose::FlushWrite)
        .from(0);
    counted.disk.set_faults(FaultPlan::none().with(unreadable));
    // The flush opens the table that it wrote, so no later read has to open it.
    counted.flush();
    let moved = counted.moved();
    assert_eq!(moved.get("no.file.errors"), Some(&1), "{moved:?}");
    assert_eq!(moved.get("no.file.opens"), None, "{moved:?}");
}

#[test]
fn values_in_deeper_levels_count_for_their_level() {
    let (_directory, db, statistics) = {
        let directory = tailwater_testkit::golden::unpack("basic");
        let mut options = tailwater::OpenOptions::load(directory.path()).expect("options");
        let statistics = Arc::new(tailwater::Statistics::new());
        options.set_statistics(Arc::clone(&statistics));
        let db = tailwater::Db::open_read_only(directory.path(), &options).expect("the database");
        (directory, db, statistics)
    };
    let family = db.cf_handle("default").expect("a family");
    let dump = tailwater_testkit::golden::dump("basic");
    for entry in &dump {
        db.get_cf_opt(&family, &entry.key, &ReadOptions::default()).expect("a get");
    }
    let ticker = |name: &str| statistics.ticker(name).expect("a ticker");
    let (memtables, deep) = (ticker("rocksdb.memtable.hit"), ticker("rocksdb.l2andup.hit"));
    assert_eq!(memtables + deep, dump.len() as u64);
    assert!(memtables > 0 && deep > 0, "{memtables} and {deep}");
    assert_eq!(ticker("rocksdb.l0.hit") + ticker("rocksdb.l1.hit"), 0);
    assert_eq!(ticker("rocksdb.no.file.opens"), 4);
}
