//! RocksDB as a store, and in the experiment on the tail latency of reads.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use rocksdb::statistics::Ticker;
use rocksdb::{
    BottommostLevelCompaction, ColumnFamilyDescriptor, CompactOptions, DB, DBRawIterator,
    FlushOptions, Options, ReadOptions, WaitForCompactOptions, WriteOptions,
};
use tailwater_bench::cold::{ColdEngine, Reading};
use tailwater_bench::store::{Direction, Engine, Failure, Scanned, Store};
use tailwater_latency::engine;
use tailwater_latency::tail::{Activity, Moved, TailDatabase, TailEngine};

use crate::rocksdb_slow_reads::Attribution;

/// The directory of this process's open files, and what the descriptor of a ring is a link to.
const DESCRIPTORS: &str = "/proc/self/fd";
const RING: &str = "anon_inode:[io_uring]";

pub(crate) const ENGINE: Engine = Engine {
    name: "rocksdb",
    open: |directory, options| {
        let options = Options::default().get_options_from_string(options)?;
        Ok(Box::new(RocksDb::open(directory, options)?))
    },
};

/// RocksDB, with the given options of reads. Its option `optimize_multiget_for_io` is true by
/// default.
pub(crate) const COLD: ColdEngine = ColdEngine {
    name: ENGINE.name,
    has_async_io: true,
    open: |directory, options, reading| {
        let options = Options::default().get_options_from_string(options)?;
        let database = RocksDb::open(directory, options)?;
        let database = RocksDb { reads: read_options(reading), reading, ..database };
        if reading.async_io {
            database.check_async_io()?;
        }
        Ok(Box::new(database))
    },
};

/// RocksDB, with the counters of `db_bench --statistics`.
pub(crate) const TAIL: TailEngine = engine::Engine {
    name: ENGINE.name,
    open: |directory, options| {
        let mut options = Options::default().get_options_from_string(options)?;
        options.enable_statistics();
        Ok(Box::new(RocksDb::open(directory, options)?))
    },
};

/// An open database, the options that hold its statistics, and the options of reads and writes,
/// which are created once.
struct RocksDb {
    db: DB,
    options: Options,
    reads: ReadOptions,
    /// What `reads` was made from. An iterator needs options of its own.
    reading: Reading,
    writes: WriteOptions,
    synced_writes: WriteOptions,
    slow_reads: Attribution,
}

impl RocksDb {
    fn open(directory: &Path, options: Options) -> Result<Self, Failure> {
        // The default column family is opened by name, because only then does `DB` have a handle
        // for it.
        let default = ColumnFamilyDescriptor::new("default", options.clone());
        let db = DB::open_cf_descriptors(&options, directory, [default])?;
        let mut synced_writes = WriteOptions::default();
        synced_writes.set_sync(true);
        let reading = Reading::default();
        let (reads, writes) = (read_options(reading), WriteOptions::default());
        let slow_reads = Attribution::default();
        Ok(Self { db, options, reads, reading, writes, synced_writes, slow_reads })
    }

    /// Checks that RocksDB reads with io_uring. It ignores `async_io` without an error if it was
    /// built without io_uring, if the kernel does not allow io_uring, and if nothing defines the
    /// function `RocksDbIOUringEnable`. The crate `librocksdb-sys` defines it, but a library that
    /// is linked instead (`ROCKSDB_LIB_DIR`) may not.
    #[expect(clippy::disallowed_methods, reason = "no database's files")]
    fn check_async_io(&self) -> Result<(), Failure> {
        // A thread's first asynchronous iterator creates a ring, which the thread keeps.
        drop(self.db.raw_iterator_opt(read_options(self.reading)));
        for descriptor in std::fs::read_dir(DESCRIPTORS)? {
            // The descriptor of the listed directory no longer exists.
            let Ok(file) = std::fs::read_link(descriptor?.path()) else { continue };
            if file == Path::new(RING) {
                return Ok(());
            }
        }
        Err("RocksDB ignores async_io: it has no io_uring".into())
    }
}

fn read_options(reading: Reading) -> ReadOptions {
    let Reading { async_io, readahead_bytes } = reading;
    let mut options = ReadOptions::default();
    options.set_async_io(async_io);
    options.set_readahead_size(readahead_bytes);
    options
}

impl Store for RocksDb {
    fn name(&self) -> &'static str {
        ENGINE.name
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        Ok(self.db.put_opt(key, value, &self.writes)?)
    }

    fn put_synced(&self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        Ok(self.db.put_opt(key, value, &self.synced_writes)?)
    }

    fn delete_range(&self, begin: &[u8], end: &[u8]) -> Result<(), Failure> {
        let family = self.db.cf_handle("default").ok_or("no default column family")?;
        Ok(self.db.delete_range_cf(family, begin, end)?)
    }

    fn ingest(&self, table: &Path) -> Result<(), Failure> {
        Ok(self.db.ingest_external_file(vec![table])?)
    }

    fn get(&self, key: &[u8]) -> Result<Option<usize>, Failure> {
        Ok(self.db.get_pinned_opt(key, &self.reads)?.map(|value| value.len()))
    }

    fn multi_get(&self, keys: &[&[u8]]) -> Result<usize, Failure> {
        let family = self.db.cf_handle("default").ok_or("no default column family")?;
        let mut found = 0;
        for value in self.db.batched_multi_get_cf_opt(family, keys, false, &self.reads) {
            found += usize::from(value?.is_some());
        }
        Ok(found)
    }

    fn scan(
        &self,
        from: Option<&[u8]>,
        direction: Direction,
        limit: u64,
    ) -> Result<Scanned, Failure> {
        let options = read_options(self.reading);
        let mut iterator: DBRawIterator<'_> = self.db.raw_iterator_opt(options);
        match (direction, from) {
            (Direction::Forward, Some(key)) => iterator.seek(key),
            (Direction::Forward, None) => iterator.seek_to_first(),
            (Direction::Backward, Some(key)) => iterator.seek_for_prev(key),
            (Direction::Backward, None) => iterator.seek_to_last(),
        }
        let mut scanned = Scanned::default();
        while scanned.entries < limit
            && let Some((key, value)) = iterator.item()
        {
            scanned.add(key, value);
            match direction {
                Direction::Forward => iterator.next(),
                Direction::Backward => iterator.prev(),
            }
        }
        Ok(iterator.status().map(|()| scanned)?)
    }

    fn compact(&self) -> Result<(), Failure> {
        let mut options = CompactOptions::default();
        options.set_bottommost_level_compaction(BottommostLevelCompaction::Force);
        self.db.compact_range_opt(None::<&[u8]>, None::<&[u8]>, &options);
        Ok(())
    }

    fn settle(&self) -> Result<(), Failure> {
        let mut options = FlushOptions::default();
        options.set_wait(true);
        self.db.flush_opt(&options)?;
        Ok(self.db.wait_for_compact(&WaitForCompactOptions::default())?)
    }

    fn property(&self, name: &str) -> Result<Option<String>, Failure> {
        Ok(self.db.property_value(name)?)
    }
}

impl TailDatabase for RocksDb {
    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, Failure> {
        let found = self.slow_reads.of(|| self.db.get_pinned_opt(key, &self.reads))?;
        let Some(found) = found else { return Ok(false) };
        value.clear();
        value.extend_from_slice(&found);
        Ok(true)
    }

    fn multi_get(&self, keys: &[&[u8]]) -> Result<usize, Failure> {
        self.slow_reads.of(|| Store::multi_get(self, keys))
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        Ok(self.db.put_opt(key, value, &self.writes)?)
    }

    fn compact(&self) -> Result<(), Failure> {
        self.db.compact_range(None::<&[u8]>, None::<&[u8]>);
        Ok(())
    }

    fn scan(&self, is_over: &dyn Fn() -> bool) -> Result<(), Failure> {
        let mut iterator = self.db.raw_iterator();
        iterator.seek_to_first();
        while !is_over()
            && let Some(entry) = iterator.item()
        {
            std::hint::black_box(entry);
            iterator.next();
        }
        Ok(iterator.status()?)
    }

    fn attribute_slow_reads(&self, threshold_us: u64) -> Result<(), Failure> {
        self.slow_reads.begin(threshold_us);
        Ok(())
    }

    fn activity(&self) -> Result<Activity, Failure> {
        let ticker = |ticker| self.options.get_ticker_count(ticker);
        let read = |ticker_of| Moved { read_bytes: ticker(ticker_of) as f64, written_bytes: 0.0 };
        let written =
            |ticker_of| Moved { read_bytes: 0.0, written_bytes: ticker(ticker_of) as f64 };
        let purposes = BTreeMap::from([
            ("compaction_read".to_owned(), read(Ticker::CompactReadBytes)),
            ("compaction_write".to_owned(), written(Ticker::CompactWriteBytes)),
            ("flush_write".to_owned(), written(Ticker::FlushWriteBytes)),
            ("wal".to_owned(), written(Ticker::WalFileBytes)),
        ]);
        let number = |name: &str| -> Result<u64, Failure> {
            Ok(self.db.property_int_value(name)?.unwrap_or(0))
        };
        Ok(Activity {
            purposes,
            stalled: Duration::from_micros(ticker(Ticker::StallMicros)),
            pending_compaction_bytes: number("rocksdb.estimate-pending-compaction-bytes")?,
            running_compactions: number("rocksdb.num-running-compactions")?,
            running_flushes: number("rocksdb.num-running-flushes")?,
            block_cache_bytes: number("rocksdb.block-cache-capacity")?,
            held_back: None,
            user_reads: None,
            block_cache_hits: ticker(Ticker::BlockCacheDataHit),
            block_cache_misses: ticker(Ticker::BlockCacheDataMiss),
            slow_reads: self.slow_reads.totals(),
        })
    }
}
