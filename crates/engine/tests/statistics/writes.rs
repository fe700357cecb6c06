//! The exact effects of writes, logs, stalls and flushes on the statistics.

use std::sync::Arc;

use tailwater::{
    CompactRangeOptions, Db, OpenOptions, RateLimiter, Statistics, WriteBatch, WriteBufferManager,
    WriteOptions,
};
use tailwater_format::batch::HEADER_LENGTH;

use crate::support::{Counted, tickers};

fn batch() -> WriteBatch {
    let mut batch = WriteBatch::new();
    batch.put_cf(0, b"a", b"1").expect("a record");
    batch.delete_cf(0, b"b").expect("a record");
    batch
}

#[test]
fn a_write_counts_its_batch() {
    let counted = Counted::new("");
    let mut batch = batch();
    let bytes = batch.size_in_bytes() as u64;
    let synced = WriteOptions::new().with_sync(true);
    counted.db.write_opt(&mut batch, &synced).expect("a write");
    assert_eq!(counted.measured("bytes.per.write"), (1, bytes));
    assert_eq!(counted.measured("db.write.micros").0, 1);
    assert_eq!(counted.measured("wal.file.sync.micros").0, 1);
    let logged = [
        ("number.keys.written", 2),
        ("bytes.written", bytes),
        ("write.self", 1),
        ("write.wal", 1),
        ("wal.bytes", bytes),
        ("wal.synced", 1),
    ];
    assert_eq!(counted.moved(), tickers(logged));
    let unlogged = WriteOptions::new().with_disable_wal(true);
    counted.db.write_opt(&mut batch, &unlogged).expect("a write");
    let not_logged = [("number.keys.written", 2), ("bytes.written", bytes), ("write.self", 1)];
    assert_eq!(counted.moved(), tickers(not_logged));
    counted.db.flush_wal(true).expect("a sync");
    assert_eq!(counted.moved(), tickers([("wal.synced", 1)]));
    let report = counted.property("rocksdb.dbstats");
    let writes =
        "Cumulative writes: 2 writes, 4 keys, 2 commit groups, 1.0 writes per commit group";
    assert!(report.contains(writes), "{report}");
    let log = "Cumulative WAL: 1 writes, 2 syncs, 0.50 writes per sync";
    assert!(report.contains(log), "{report}");
}

#[test]
fn concurrent_writers_count_each_batch_once() {
    let directory = tempfile::tempdir().expect("a directory");
    let statistics = Arc::new(Statistics::new());
    let mut options = OpenOptions::default();
    options.set_from_string("create_if_missing=true").expect("options");
    options.set_statistics(Arc::clone(&statistics));
    let db = Db::open(directory.path(), &options).expect("a new database");
    const THREADS: u64 = 4;
    const WRITES: u64 = 500;
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..WRITES {
                    db.write_opt(&mut batch(), &WriteOptions::default()).expect("a write");
                }
            });
        }
    });
    let ticker = |name: &str| statistics.ticker(name).expect("a ticker");
    let total = THREADS * WRITES;
    let (own, others) = (ticker("rocksdb.write.self"), ticker("rocksdb.write.other"));
    assert_eq!(own + others, total);
    assert_eq!(ticker("rocksdb.write.wal"), total);
    assert_eq!(ticker("rocksdb.number.keys.written"), 2 * total);
    let payload = (batch().size_in_bytes() - HEADER_LENGTH) as u64;
    let bytes = total * payload + own * HEADER_LENGTH as u64;
    assert_eq!(ticker("rocksdb.bytes.written"), bytes);
    assert_eq!(ticker("rocksdb.wal.bytes"), bytes);
    let groups = statistics.histogram("rocksdb.bytes.per.write").expect("a histogram");
    assert_eq!((groups.count, groups.sum), (own, bytes));
    let writes = statistics.histogram("rocksdb.db.write.micros").expect("a histogram");
    assert_eq!(writes.count, total);
}

#[test]
fn a_flush_counts_its_table() {
    let counted = Counted::new("");
    counted.put("a", "1");
    counted.moved();
    counted.flush();
    assert_eq!(counted.measured("db.flush.micros").0, 1);
    assert_eq!(counted.measured("table.sync.micros").0, 1);
    let size: u64 = counted.property("rocksdb.live-sst-files-size").parse().expect("a number");
    // The flush opens the table that it wrote, so no later read has to open it.
    let expected =
        [("flush.write.bytes", size), ("no.file.opens", 1), ("files.deleted.immediately", 1)];
    assert_eq!(counted.moved(), tickers(expected), "the log was removed");
    let report = counted.property("rocksdb.cfstats");
    let level = report.lines().find(|line| line.starts_with("  L0")).expect("a line for level 0");
    let words: Vec<&str> = level.split_whitespace().collect();
    assert_eq!((words[1], words[12]), ("1/0", "1.0"), "files and write amplification: {level}");
    assert_eq!(words[17], "1", "one flush: {level}");
    assert_eq!(counted.property("rocksdb.num-running-flushes"), "0");
}

/// Returns the tickers of the reasons of flushes, and their requests, that are not zero.
fn reasons(counted: &Counted) -> Vec<(String, u64)> {
    let moved = counted.moved().into_iter();
    let reasons = moved.filter(|(name, _)| name.contains("reason."));
    reasons.map(|(name, count)| (name.replace("reason.", ""), count)).collect()
}

fn of_reasons(reasons: &[(&str, u64)]) -> Vec<(String, u64)> {
    reasons.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
}

#[test]
fn flushes_are_counted_by_their_reason() {
    let full = "write_buffer_size=65536;arena_block_size=4096";
    for (text, atomic) in [("", 0), ("atomic_flush=true", 1)] {
        let counted = Counted::new(&format!("{full};memtable_max_range_deletions=2;{text}"));
        let of_both = |reason: &str| {
            let (flush, request) =
                (format!("flush.{reason}"), format!("atomic_flush.request.{reason}"));
            let all = [(request.as_str(), atomic), (flush.as_str(), 1)];
            of_reasons(&all[1 - atomic as usize..])
        };
        counted.put("a", &"v".repeat(70_000));
        assert_eq!(reasons(&counted), [], "{text}: the next write flushes");
        counted.put("a", "1");
        let memory = counted.measured("flush.write_buffer_full.memtable.memory.bytes");
        assert!(memory.0 == 1 && memory.1 > 70_000, "{text}: {memory:?}");
        assert_eq!(counted.measured("flush.memtable.memory.bytes"), memory, "{text}");
        let data = counted.measured("flush.memtable.total.data.size.bytes");
        assert_eq!(data, (1, 70_001), "{text}");
        assert_eq!(reasons(&counted), of_both("write_buffer_full"), "{text}");
        for _ in 0..2 {
            counted
                .db
                .delete_range_cf_opt(&counted.family(), b"b", b"c", &WriteOptions::default())
                .expect("a deletion");
        }
        counted.put("a", "1");
        assert_eq!(reasons(&counted), of_both("memtable_max_range_deletions"), "{text}");
        counted.flush();
        let other = [("atomic_flush.request.other", 1)];
        assert_eq!(reasons(&counted), of_reasons(&other[1 - atomic as usize..]), "{text}");

        let manager = Arc::new(WriteBufferManager::new(100_000, false));
        let counted = Counted::with(&format!("arena_block_size=4096;{text}"), |options| {
            options.set_write_buffer_manager(manager);
        });
        counted.put("a", &"v".repeat(100_000));
        counted.put("a", "1");
        let memory = counted.measured("flush.write_buffer_manager.memtable.memory.bytes");
        assert!(memory.0 == 1 && memory.1 > 100_000, "{text}: {memory:?}");
        assert_eq!(reasons(&counted), of_both("write_buffer_manager"), "{text}");
    }
}

#[test]
fn waits_for_the_rate_limiter_are_counted() {
    let counted = Counted::with("compression=kNoCompression", |options| {
        // 100 bytes per refill: a table takes several.
        let limiter = RateLimiter::new(100_000).with_refill_period(1000);
        options.set_rate_limiter(Arc::new(limiter));
    });
    counted.put("a", &"v".repeat(200));
    counted.moved();
    counted.flush();
    let (micros, size) = (
        counted.measured("rate.limiter.wait.micros.write"),
        counted.property("rocksdb.total-sst-files-size"),
    );
    let moved = counted.moved();
    let of = |name: &str| moved.get(name).copied().unwrap_or(0);
    assert_eq!(of("rate.limiter.bytes.write").to_string(), size);
    assert!(of("rate.limiter.requests.write") > 5, "{moved:?}");
    let delayed = of("rate.limiter.delayed.requests.write");
    assert!(delayed > 0 && of("number.rate_limiter.drains") >= delayed, "{moved:?}");
    assert_eq!(micros, (delayed, of("rate.limiter.total.wait.micros.write")));
    assert!(!moved.keys().any(|name| name.starts_with("rate.limiter.") && name.contains(".read")));
}

#[test]
fn a_stall_counts_its_duration() {
    let directory = tempfile::tempdir().expect("a directory");
    let statistics = Arc::new(Statistics::new());
    let mut options = OpenOptions::default();
    options.set_inline_background(true);
    let text = "create_if_missing=true;level0_file_num_compaction_trigger=1;\
                level0_slowdown_writes_trigger=1;delayed_write_rate=10000";
    options.set_from_string(text).expect("options");
    options.set_statistics(Arc::clone(&statistics));
    let db = Db::open(directory.path(), &options).expect("a new database");
    let _pause = db.pause_compactions().expect("a pause");
    let family = db.cf_handle("default").expect("a family");
    db.put_cf_opt(&family, b"a", b"1", &WriteOptions::default()).expect("a put");
    db.flush_cf(&family).expect("a flush");
    assert_eq!(statistics.ticker("rocksdb.stall.micros"), Some(0));
    db.put_cf_opt(&family, b"a", [0; 300], &WriteOptions::default()).expect("a slow put");
    let micros = statistics.ticker("rocksdb.stall.micros").expect("a ticker");
    assert!(micros >= 30_000, "300 bytes at 10,000 a second took {micros} us");
    let stalls = statistics.histogram("rocksdb.db.write.stall").expect("a histogram");
    assert_eq!((stalls.count, stalls.sum), (1, micros));
    let property =
        |name: &str| db.property_value_cf(&family, name).expect("a property").expect("one");
    let causes = property("rocksdb.cf-write-stall-stats");
    assert!(causes.contains("l0-file-count-limit-delays: 1"), "{causes}");
    assert!(causes.contains("total-delays: 1, total-stops: 0"), "{causes}");
    let stall = property("rocksdb.dbstats");
    let stall = stall.lines().find(|line| line.starts_with("Cumulative stall")).expect("a line");
    assert!(!stall.contains("00:00:0.000"), "{stall}");
}

/// Tests a compaction that reads its inputs with direct I/O. It opens each input a second time, and
/// adds neither blocks nor filters of the inputs to the block cache.
#[test]
fn a_direct_compaction_fills_no_cache() {
    let counted = Counted::new(
        "use_direct_io_for_compaction_reads=true;disable_auto_compactions=true;\
         block_based_table_factory={filter_policy=bloomfilter:10:false;\
         cache_index_and_filter_blocks=true}",
    );
    for round in 0..3 {
        for number in 0..500 {
            counted.put(&format!("{number:04}"), &format!("{round}").repeat(50));
        }
        counted.flush();
    }
    counted.moved();
    let usage = || counted.property("rocksdb.block-cache-usage").parse::<u64>().expect("a number");
    let before = usage();
    let everything = CompactRangeOptions::default();
    counted
        .db
        .compact_range_cf_opt(&counted.family(), None, None, &everything)
        .expect("a compaction");
    let (opens, _) = counted.measured("table.open.io.micros");
    let moved = counted.moved();
    assert_eq!(moved.get("tailwater.compaction.direct.file.opens"), Some(&3), "{moved:?}");
    // `no.file.opens` counts only tables that are opened for user reads. Here that is only the
    // output of the compaction. The histogram counts all opened tables: the three inputs and the
    // output.
    assert_eq!((moved.get("no.file.opens"), opens), (Some(&1), 4), "{moved:?}");
    assert!(!moved.keys().any(|name| name.starts_with("block.cache.filter")), "{moved:?}");
    assert!(!moved.keys().any(|name| name.starts_with("block.cache.data")), "{moved:?}");
    assert!(usage() <= before, "{before} bytes were cached, and {}", usage());
}
