//! Multi-gets and iterators with reads in flight, on a simulated disk whose reads fail, are short
//! and complete in any order.

#[path = "reads_in_flight/blobs.rs"]
mod blobs;
#[path = "reads_in_flight/ranges.rs"]
mod ranges;
#[path = "reads_in_flight/recorder.rs"]
mod recorder;
#[path = "reads_in_flight/seeks.rs"]
mod seeks;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use fastrand::Rng;
use tailwater::{ColumnFamily, Db, OpenOptions, ReadOptions, Snapshot, ValueBuffer};
use tailwater_io::sim::{Fault, FaultPlan, FaultRule, SimStorage};
use tailwater_io::{Create, IoMode, Operation, Purpose, Storage};
use tailwater_testkit::{golden, seed};

const KEYS: u32 = 3000;

/// Tables of several levels, with small blocks and a cache that holds few of them.
const OPTIONS: &str = "create_if_missing=true;write_buffer_size=32K;target_file_size_base=16K;\
                       max_bytes_for_level_base=64K;level0_file_num_compaction_trigger=3;\
                       compression=kNoCompression;merge_operator=stringappend;\
                       block_based_table_factory={block_size=512;metadata_block_size=256;\
                       filter_policy=bloomfilter:10:false;block_cache=24K;";

/// Where the index, the filter and the data are. (Partitioned indexes and filters, which only
/// RocksDB writes, are in the golden databases: see `seeks`.)
const LAYOUTS: [&str; 3] = [
    "",
    "cache_index_and_filter_blocks=true;",
    "data_block_index_type=kDataBlockBinaryAndHash;no_block_cache=true;",
];

fn key(number: u32) -> Vec<u8> {
    format!("key{number:06}").into_bytes()
}

/// Returns a simulated disk with a golden database.
fn on_disk(name: &str, rng: &mut Rng) -> SimStorage {
    let disk = SimStorage::new(rng.u64(..));
    let directory = Path::new("/db");
    disk.create_directory(directory).expect("a directory");
    for (name, bytes) in golden::files(name) {
        let mode = IoMode::Buffered;
        let file = disk.create(&directory.join(name), Create::New, mode, Purpose::Metadata);
        file.expect("a file").write_all_at(&bytes, 0, Purpose::Metadata).expect("a write");
    }
    disk
}

/// A database, and its contents at two points in time.
struct Scene {
    storage: Arc<SimStorage>,
    db: Db,
    family: ColumnFamily,
    earlier: (Snapshot, BTreeMap<Vec<u8>, Vec<u8>>),
    now: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Scene {
    fn new(layout: &str, more: &str, rng: &mut Rng) -> Self {
        let storage = Arc::new(SimStorage::new(rng.u64(..)));
        let mut options = OpenOptions::with_storage(Arc::clone(&storage) as Arc<_>);
        options.set_from_string(&format!("{OPTIONS}{layout}}};{more}")).expect("options");
        options.set_inline_background(true);
        let db = Db::open(Path::new("/db"), &options).expect("a database");
        let family = db.default_cf().clone();
        let mut now = BTreeMap::new();
        fill(&db, &mut now, rng);
        let earlier = (db.snapshot(), now.clone());
        fill(&db, &mut now, rng);
        Self { storage, db, family, earlier, now }
    }

    /// Returns read options and what they show.
    fn view(&self, rng: &mut Rng) -> (ReadOptions, &BTreeMap<Vec<u8>, Vec<u8>>) {
        let options = ReadOptions::new()
            .with_fill_cache(rng.bool())
            .with_async_io(true)
            .with_optimize_multiget_for_io(rng.bool())
            .with_adaptive_readahead(rng.bool());
        match rng.bool() {
            true => (options, &self.now),
            false => (options.with_snapshot(self.earlier.0.clone()), &self.earlier.1),
        }
    }

    fn set_fault(&self, rule: Option<FaultRule>) {
        let rule = rule.map(|it| it.operation(Operation::Read).purpose(Purpose::UserRead));
        self.storage
            .set_faults(rule.map_or(FaultPlan::none(), |rule| FaultPlan::none().with(rule)));
    }

    /// Makes a multi-get and compares it with the contents. Returns the number of failed keys.
    fn check_multi_get(&self, keys: &[Vec<u8>], rng: &mut Rng) -> usize {
        let (options, contents) = self.view(rng);
        let mut failed = 0;
        let mut copies = ValueBuffer::new();
        self.db.multi_get_into_cf_opt(&self.family, keys, &options, &mut copies);
        for (at, key) in keys.iter().enumerate() {
            let expected = contents.get(key).map(Vec::as_slice);
            match copies.get(at) {
                Ok(value) => assert_eq!(value, expected, "{}", key.escape_ascii()),
                Err(_) => failed += 1,
            }
        }
        let pinned = self.db.batched_multi_get_cf_opt(&self.family, keys, &options);
        for (key, value) in keys.iter().zip(pinned) {
            match value {
                Ok(value) => assert_eq!(value.as_deref(), contents.get(key).map(Vec::as_slice)),
                Err(_) => failed += 1,
            }
        }
        failed
    }

    /// Seeks and steps, and compares what the iterator shows with the contents. Returns whether a
    /// move failed.
    fn check_iterator(&self, rng: &mut Rng) -> bool {
        let (options, contents) = self.view(rng);
        let from = key(rng.u32(..KEYS));
        let Ok(mut iterator) = self.db.raw_iterator_cf_opt(&self.family, &options) else {
            return true;
        };
        let is_forward = rng.bool();
        let mut moved =
            if is_forward { iterator.seek(&from) } else { iterator.seek_for_prev(&from) };
        let expected: Box<dyn Iterator<Item = _>> = match is_forward {
            true => Box::new(contents.range(from..)),
            false => Box::new(contents.range(..=from).rev()),
        };
        for (key, value) in expected.take(rng.usize(..300)) {
            if moved.is_err() {
                assert!(!iterator.valid());
                return true;
            }
            assert_eq!(iterator.item(), Some((&key[..], &value[..])));
            moved = if is_forward { iterator.next() } else { iterator.prev() };
        }
        moved.is_err()
    }
}

/// Writes, merges and deletes random keys and ranges.
fn fill(db: &Db, contents: &mut BTreeMap<Vec<u8>, Vec<u8>>, rng: &mut Rng) {
    for _ in 0..KEYS {
        let (number, length) = (rng.u32(..KEYS), rng.usize(..200));
        let (key, value) = (key(number), vec![rng.alphanumeric() as u8; length]);
        match rng.u8(..20) {
            0 => {
                db.delete(&key).expect("a deletion");
                contents.remove(&key);
            }
            1 => {
                let end = self::key(number + rng.u32(1..5));
                db.delete_range(&key, &end).expect("a deletion");
                contents.retain(|it, _| *it < key || *it >= end);
            }
            2..6 => {
                db.merge(&key, &value).expect("a merge");
                match contents.entry(key) {
                    std::collections::btree_map::Entry::Occupied(mut entry) => {
                        entry.get_mut().push(b',');
                        entry.get_mut().extend(value);
                    }
                    std::collections::btree_map::Entry::Vacant(entry) => {
                        entry.insert(value);
                    }
                }
            }
            _ => {
                db.put(&key, &value).expect("a put");
                contents.insert(key, value);
            }
        }
    }
}

/// Returns random keys, some of them missing, some of them more than once.
fn random_keys(count: usize, rng: &mut Rng) -> Vec<Vec<u8>> {
    let mut keys: Vec<_> = (0..count).map(|_| key(rng.u32(..KEYS + 100))).collect();
    if rng.bool() {
        let repeated: Vec<_> = keys.iter().take(5).cloned().collect();
        keys.extend(repeated);
        keys.push(Vec::new());
    }
    keys
}

#[test]
fn results_are_those_of_single_gets_whatever_the_reads_do() {
    let mut seed = seed::rng();
    println!("TAILWATER_SEED={}", seed.value());
    let rng = &mut seed.rng;
    let (mut failed, mut strikes) = (0, 0);
    for layout in LAYOUTS {
        // With little memory, some reads of a batch are made alone.
        let more =
            *rng.choice(&["", "max_bytes_in_flight=4096", "max_bytes_in_flight=0"]).unwrap_or(&"");
        let scene = Scene::new(layout, more, rng);
        for _ in 0..30 * seed::rounds() {
            let count = *rng.choice(&[0, 1, 2, 30, 64, 65, 300]).unwrap_or(&1);
            let keys = random_keys(count, rng);
            assert_eq!(scene.check_multi_get(&keys, rng), 0, "{layout}");
            assert!(!scene.check_iterator(rng), "{layout}");
            scene.set_fault(Some(FaultRule::new(Fault::Short).from(0)));
            assert_eq!(scene.check_multi_get(&keys, rng), 0, "{layout}: short reads are completed");
            assert!(!scene.check_iterator(rng), "{layout}: short reads are completed");
            let at = rng.u64(..30);
            let rule = FaultRule::new(Fault::InputOutput);
            scene.set_fault(Some(if rng.bool() { rule.at(at) } else { rule.from(at) }));
            failed += scene.check_multi_get(&keys, rng);
            strikes += usize::from(scene.check_iterator(rng));
            scene.set_fault(None);
        }
        let text = scene.db.property_value("tailwater.memory").expect("a property");
        let text = text.expect("the memory");
        assert!(text.contains("users' reads in flight  "), "{text}");
    }
    println!("{failed} keys and {strikes} iterators met an error");
    assert!(failed > 0 && strikes > 0);
}

#[test]
fn a_long_list_of_keys_is_read_in_batches() {
    let mut rng = Rng::with_seed(7);
    for layout in LAYOUTS {
        let scene = Scene::new(layout, "", &mut rng);
        let keys = random_keys(10_000, &mut rng);
        assert_eq!(scene.check_multi_get(&keys, &mut rng), 0);
        let text = scene.db.property_value("tailwater.memory").expect("a property");
        let peak = text.as_deref().and_then(|text| {
            let line = text.lines().find(|line| line.contains("in flight, at most"))?;
            line.split_whitespace().last()?.parse::<u64>().ok()
        });
        assert!(peak.is_some_and(|peak| peak > 4096 && peak <= 32 << 20), "{peak:?}");
    }
}

/// The missing blocks of all keys are read together, and those that are adjacent in one request.
#[test]
fn adjacent_blocks_are_read_in_one_request() {
    let storage = Arc::new(SimStorage::new(1));
    let mut options = OpenOptions::with_storage(Arc::clone(&storage) as Arc<_>);
    let text = "create_if_missing=true;compression=kNoCompression;block_based_table_factory=\
                {block_size=512;no_block_cache=true;}";
    options.set_from_string(text).expect("options");
    options.set_inline_background(true);
    let db = Db::open(Path::new("/db"), &options).expect("a database");
    for number in 0..1000 {
        db.put(key(number), vec![b'x'; 100]).expect("a put");
    }
    db.flush().expect("a flush");
    let reads = || storage.statistics().snapshot(Purpose::UserRead).reads.count;
    let mut values = ValueBuffer::new();
    let mut count = |keys: &[Vec<u8>]| {
        let before = reads();
        db.multi_get_into(keys, &mut values);
        assert!((0..keys.len()).all(|at| values.get(at).is_ok_and(|it| it.is_some())));
        reads() - before
    };
    // The first get opens the table.
    count(&[key(0)]);
    let all: Vec<_> = (0..60).map(key).collect();
    assert_eq!(count(&all), 1, "60 keys of adjacent blocks");
    let apart: Vec<_> = (0..20).map(|number| key(number * 50)).collect();
    assert_eq!(count(&apart), 20, "blocks that are not adjacent");
    let both: Vec<_> = [0, 1, 2, 3, 500, 501, 900].into_iter().map(key).collect();
    assert!((3..=4).contains(&count(&both)));
}

/// A database without a block cache, whose tables are in one level and have `entries` entries each.
struct Tables {
    storage: Arc<SimStorage>,
    db: Db,
}

impl Tables {
    fn new(tables: u32, entries: u32) -> Self {
        Self::with(tables, entries, "")
    }

    fn with(tables: u32, entries: u32, more: &str) -> Self {
        let storage = Arc::new(SimStorage::new(1));
        let mut options = OpenOptions::with_storage(Arc::clone(&storage) as Arc<_>);
        let text = "create_if_missing=true;compression=kNoCompression;\
                    disable_auto_compactions=true;block_based_table_factory={no_block_cache=true;\
                    block_size=1024}";
        options.set_from_string(&format!("{text};{more}")).expect("options");
        options.set_inline_background(true);
        let db = Db::open(Path::new("/db"), &options).expect("a database");
        for table in 0..tables {
            for number in 0..entries {
                db.put(key(table * entries + number), vec![b'x'; 100]).expect("a put");
            }
            db.flush().expect("a flush");
            let bounds = (key(table * entries), key((table + 1) * entries - 1));
            db.compact_range(Some(&bounds.0), Some(&bounds.1)).expect("a compaction");
        }
        let tables = Self { storage, db };
        // The first scan opens the tables.
        tables.scan(&ReadOptions::new());
        tables
    }

    /// Scans with these options. Returns the number of entries, of reads and of bytes read.
    fn scan(&self, options: &ReadOptions) -> (u64, u64, u64) {
        self.measured(|db| {
            let mut iterator = db.raw_iterator_opt(options).expect("an iterator");
            let mut entries = 0;
            iterator.seek(key(0)).expect("a seek");
            while iterator.valid() {
                entries += 1;
                iterator.next().expect("a step");
            }
            entries
        })
    }

    /// Calls `scan`, which returns a number of entries. Returns that number, and the numbers of
    /// reads and of bytes read meanwhile.
    fn measured(&self, scan: impl FnOnce(&Db) -> u64) -> (u64, u64, u64) {
        let before = self.storage.statistics().snapshot(Purpose::UserRead);
        let entries = scan(&self.db);
        let after = self.storage.statistics().snapshot(Purpose::UserRead);
        let reads = after.reads.count - before.reads.count;
        (entries, reads, after.read_bytes - before.read_bytes)
    }
}

#[test]
fn readahead_ends_at_the_upper_bound() {
    let tables = Tables::new(1, 5000);
    let scan = |ends: bool| {
        let options =
            ReadOptions::new().with_auto_readahead_size(ends).with_readahead_size(200_000);
        tables.scan(&options.with_iterate_upper_bound(key(100)))
    };
    let ((entries, _, bytes), (same, _, more)) = (scan(true), scan(false));
    assert_eq!((entries, same), (100, 100));
    assert!(bytes < 20_000 && more > 150_000, "{bytes} and {more} bytes");
    let options = ReadOptions::new().with_async_io(true).with_readahead_size(200_000);
    let (entries, _, bytes) = tables.scan(&options.with_iterate_upper_bound(key(100)));
    assert_eq!(entries, 100);
    assert!(bytes < 20_000, "{bytes} bytes");
}

#[test]
fn adaptive_readahead_keeps_its_size_in_the_next_table() {
    let tables = Tables::new(10, 1000);
    let scan = |adaptive| tables.scan(&ReadOptions::new().with_adaptive_readahead(adaptive));
    let ((entries, reads, _), (same, more, _)) = (scan(true), scan(false));
    assert_eq!((entries, same), (10_000, 10_000));
    assert!(reads + 20 < more, "{reads} and {more} reads");
}

#[test]
fn a_scan_with_reads_in_flight_reads_everything_once() {
    let tables = Tables::new(10, 1000);
    let (entries, _, bytes) = tables.scan(&ReadOptions::new());
    let (same, reads, bytes_in_flight) = tables.scan(&ReadOptions::new().with_async_io(true));
    assert_eq!((entries, same), (10_000, 10_000));
    assert!(bytes_in_flight <= bytes + bytes / 10, "{bytes_in_flight} and {bytes} bytes");
    assert!(reads < 200, "{reads} reads");
}

/// Regression test: a table that was opened for a batch could be closed before the batch searched
/// it, so that it was opened again and again.
#[test]
fn a_batch_opens_each_table_once() {
    let tables = Tables::with(60, 50, "max_open_files=20");
    let keys: Vec<_> = (0..60).map(|table| key(table * 50 + 7)).collect();
    let opens = || tables.storage.statistics().snapshot(Purpose::UserRead).opens;
    let before = opens();
    let values = tables.db.multi_get(&keys);
    assert!(values.iter().all(|value| value.as_ref().is_ok_and(Option::is_some)));
    let opened = opens() - before;
    assert!((30..=60).contains(&opened), "{opened}");
}

/// Regression test: the search for a key began again at its first block for each of its blocks.
#[test]
fn a_key_that_continues_over_many_blocks_is_read_once() {
    let storage = Arc::new(SimStorage::new(1));
    let mut options = OpenOptions::with_storage(Arc::clone(&storage) as Arc<_>);
    let text = "create_if_missing=true;compression=kNoCompression;merge_operator=stringappend;\
                block_based_table_factory={block_size=512;no_block_cache=true;}";
    options.set_from_string(text).expect("options");
    options.set_inline_background(true);
    let db = Db::open(Path::new("/db"), &options).expect("a database");
    // Without a snapshot after each, the flush would merge the operands.
    let mut snapshots = Vec::new();
    for _ in 0..1000 {
        db.merge("key", vec![b'x'; 100]).expect("a merge");
        snapshots.push(db.snapshot());
    }
    db.flush().expect("a flush");
    let reads = || storage.statistics().snapshot(Purpose::UserRead).reads.count;
    assert!(db.get("key").expect("a get").is_some());
    let before = reads();
    assert_eq!(db.get("key").expect("a get").map(|value| value.len()), Some(100_999));
    let of_get = reads() - before;
    let values = db.multi_get(&["key", "none"]);
    assert_eq!(values[0].as_ref().expect("a get").as_ref().map(|it| it.len()), Some(100_999));
    let of_batch = reads() - before - of_get;
    assert!(of_get > 150 && of_batch <= of_get + 5, "{of_get} and {of_batch} reads");
}

/// The receiver of a multi-get's values is code of the user, and may use the database.
#[test]
fn the_receiver_may_write_flush_and_compact() {
    let tables = Tables::new(2, 100);
    let keys: Vec<_> = (0..200).map(key).collect();
    let mut received = 0;
    tables.db.multi_get_with(&keys, |at, value| {
        assert!(value.is_ok_and(|value| value.is_some()));
        received += 1;
        if at % 50 == 0 {
            tables.db.put(key(at as u32), "new").expect("a put");
            tables.db.flush().expect("a flush");
            tables.db.compact_range(None, None).expect("a compaction");
        }
    });
    assert_eq!(received, 200);
}

/// Regression test: an index that could not be read at the upper bound failed the reads before it.
#[test]
fn a_damaged_index_at_the_upper_bound_does_not_disturb_the_reads_before_it() {
    let more = "block_based_table_factory={no_block_cache=false;block_cache=1k;block_size=1024;\
                cache_index_and_filter_blocks=true}";
    let tables = Tables::with(1, 5000, more);
    let fault = FaultRule::new(Fault::InputOutput).operation(Operation::Read);
    // The number of reads before that of the index at the bound: that of the index at the seek's
    // target and, with reads in flight, that of the first data block.
    for (async_io, before) in [(false, 1), (true, 2)] {
        let options = ReadOptions::new().with_readahead_size(100_000).with_async_io(async_io);
        let options = options.with_iterate_upper_bound(key(4000));
        let mut iterator = tables.db.raw_iterator_opt(&options).expect("an iterator");
        tables.storage.set_faults(FaultPlan::none().with(fault.clone().at(before)));
        let calls = tables.storage.call_count();
        iterator.seek(key(0)).expect("a seek");
        for number in 0..100 {
            assert_eq!(iterator.key(), key(number), "with async_io={async_io}");
            iterator.next().expect("a step");
        }
        let count = tables.storage.call_count() - calls;
        assert!(count > before, "the fault has struck: {count} calls, async_io={async_io}");
        tables.storage.set_faults(FaultPlan::none());
    }
}
