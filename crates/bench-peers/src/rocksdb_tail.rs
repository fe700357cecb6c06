//! RocksDB in the experiment on the tail latency of reads.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use rocksdb::statistics::Ticker;
use rocksdb::{ColumnFamilyDescriptor, DB, Options, ReadOptions, WriteOptions};
use tailwater_latency::Failure;
use tailwater_latency::tail::{Activity, EngineName, Moved, TailDatabase, TailEngine};

/// RocksDB, with the counters of `db_bench --statistics`.
pub(crate) struct RocksDbEngine;

impl TailEngine for RocksDbEngine {
    fn name(&self) -> EngineName {
        EngineName::Rocksdb
    }

    fn open(&self, directory: &Path, options: &str) -> Result<Box<dyn TailDatabase>, Failure> {
        let mut options = Options::default().get_options_from_string(options)?;
        options.enable_statistics();
        let default = ColumnFamilyDescriptor::new("default", options.clone());
        let db = DB::open_cf_descriptors(&options, directory, [default])?;
        let (reads, writes) = (ReadOptions::default(), WriteOptions::default());
        Ok(Box::new(Opened { db, options, reads, writes }))
    }
}

/// An open database, the options that hold its statistics, and the options of reads and writes,
/// which are created once.
struct Opened {
    db: DB,
    options: Options,
    reads: ReadOptions,
    writes: WriteOptions,
}

impl TailDatabase for Opened {
    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, Failure> {
        let Some(found) = self.db.get_pinned_opt(key, &self.reads)? else { return Ok(false) };
        value.clear();
        value.extend_from_slice(&found);
        Ok(true)
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

    fn activity(&self) -> Result<Activity, Failure> {
        let ticker = |ticker| self.options.get_ticker_count(ticker);
        let read = |ticker_of| Moved { read_bytes: ticker(ticker_of), written_bytes: 0 };
        let written = |ticker_of| Moved { read_bytes: 0, written_bytes: ticker(ticker_of) };
        let purposes = BTreeMap::from([
            ("compaction_read".to_owned(), read(Ticker::CompactReadBytes)),
            ("compaction_write".to_owned(), written(Ticker::CompactWriteBytes)),
            ("flush_write".to_owned(), written(Ticker::FlushWriteBytes)),
            ("wal".to_owned(), written(Ticker::WalFileBytes)),
        ]);
        let pending = self.db.property_int_value("rocksdb.estimate-pending-compaction-bytes")?;
        Ok(Activity {
            purposes,
            stalled: Duration::from_micros(ticker(Ticker::StallMicros)),
            pending_compaction_bytes: pending.unwrap_or(0),
            held_back: None,
            user_reads: None,
        })
    }
}
