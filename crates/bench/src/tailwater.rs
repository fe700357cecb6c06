//! The benchmark's [`Store`] interface, implemented for Tailwater.

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tailwater::{
    BlockCache, BottommostRewrite, ColumnFamily, CompactRangeOptions, Db, Error, IngestOptions,
    OpenOptions, ProcessMemory, ReadOptions, Statistics, ValueBuffer, WriteBufferManager,
};
use tailwater_latency::engine;
use tailwater_latency::tail::Tailwater;

use crate::cold::{ColdEngine, Reading};
use crate::family_bursts::{FamilyEngine, FamilySubject};
use crate::memory::{Limits, MemoryEngine, MemorySubject, Refusal};
use crate::snapshot_scans::{ScanEngine, ScanSubject, Scans};
use crate::store::{Direction, Engine, Failure, Scanned, Store};

thread_local! {
    /// Each get copies its value into this buffer. Pinning the value instead would update a
    /// reference count that all threads share.
    static VALUE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    /// A multi-get copies its values into this buffer.
    static VALUES: RefCell<ValueBuffer> = const { RefCell::new(ValueBuffer::new()) };
}

/// Tailwater.
pub const ENGINE: Engine = Engine {
    name: "tailwater",
    open: |directory, options| Ok(Box::new(Tailwater::open(directory, options, None)?)),
};

/// Tailwater, with the given options of reads.
pub const COLD: ColdEngine = ColdEngine {
    name: ENGINE.name,
    has_async_io: true,
    open: |directory, options, reading| {
        let Reading { async_io, readahead_bytes } = reading;
        let mut database = Tailwater::open(directory, options, None)?;
        database.reads =
            database.reads.with_async_io(async_io).with_readahead_size(readahead_bytes);
        Ok(Box::new(database))
    },
};

impl Store for Tailwater {
    fn name(&self) -> &'static str {
        ENGINE.name
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        Ok(self.db.put_cf_opt(&self.family, key, value, &self.writes)?)
    }

    fn put_synced(&self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        Ok(self.db.put_cf_opt(&self.family, key, value, &self.writes.with_sync(true))?)
    }

    fn delete_range(&self, begin: &[u8], end: &[u8]) -> Result<(), Failure> {
        Ok(self.db.delete_range_cf_opt(&self.family, begin, end, &self.writes)?)
    }

    fn ingest(&self, table: &Path) -> Result<(), Failure> {
        let options = IngestOptions::new();
        self.db.ingest_external_file_cf_opts(&self.family, &[table], &options)?;
        Ok(())
    }

    fn get(&self, key: &[u8]) -> Result<Option<usize>, Failure> {
        VALUE.with_borrow_mut(|value| {
            let found = self.db.get_into_cf_opt(&self.family, key, &self.reads, value)?;
            Ok(found.then_some(value.len()))
        })
    }

    fn multi_get(&self, keys: &[&[u8]]) -> Result<usize, Failure> {
        VALUES.with_borrow_mut(|values| {
            self.db.multi_get_into_cf_opt(&self.family, keys, &self.reads, values);
            let mut found = 0;
            for at in 0..values.len() {
                found += usize::from(values.get(at)?.is_some());
            }
            Ok(found)
        })
    }

    fn scan(
        &self,
        from: Option<&[u8]>,
        direction: Direction,
        limit: u64,
    ) -> Result<Scanned, Failure> {
        let mut iterator = self.db.raw_iterator_cf_opt(&self.family, &self.reads)?;
        match (direction, from) {
            (Direction::Forward, Some(key)) => iterator.seek(key)?,
            (Direction::Forward, None) => iterator.seek_to_first()?,
            (Direction::Backward, Some(key)) => iterator.seek_for_prev(key)?,
            (Direction::Backward, None) => iterator.seek_to_last()?,
        }
        let mut scanned = Scanned::default();
        while scanned.entries < limit
            && let Some((key, value)) = iterator.item()
        {
            scanned.add(key, value);
            match direction {
                Direction::Forward => iterator.next()?,
                Direction::Backward => iterator.prev()?,
            }
        }
        Ok(scanned)
    }

    fn compact(&self) -> Result<(), Failure> {
        let everything =
            CompactRangeOptions::new().with_bottommost_level_compaction(BottommostRewrite::Force);
        Ok(self.db.compact_range_cf_opt(&self.family, None, None, &everything)?)
    }

    fn settle(&self) -> Result<(), Failure> {
        self.db.flush_cf(&self.family)?;
        while self.db.needs_compaction_cf(&self.family)? || self.db.running_compactions() > 0 {
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    fn property(&self, name: &str) -> Result<Option<String>, Failure> {
        Ok(self.db.property_value_cf(&self.family, name)?)
    }
}

/// Tailwater, with statistics that count the hits and misses of the block cache.
pub const SCANS: ScanEngine = engine::Engine {
    name: ENGINE.name,
    open: |directory, options| {
        Ok(Box::new(Tailwater::open(directory, options, Some(Statistics::new()))?))
    },
};

impl ScanSubject for Tailwater {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        Store::put(self, key, value)
    }

    fn scan(&self, scans: &Scans) -> Result<Scanned, Failure> {
        let options = ReadOptions::new()
            .with_snapshot(self.db.snapshot())
            .with_auto_refresh_iterator_with_snapshot(scans.refreshes)
            .with_async_io(scans.async_io);
        let mut scanned = Scanned::default();
        for key in scans.keys() {
            let mut iterator = self.db.raw_iterator_cf_opt(&self.family, &options)?;
            iterator.seek(key)?;
            let end = scanned.entries + scans.steps;
            while scanned.entries < end
                && let Some((key, value)) = iterator.item()
            {
                scanned.add(key, value);
                iterator.next()?;
            }
        }
        Ok(scanned)
    }

    fn walk(&self, refreshes: bool, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), Failure> {
        let options = ReadOptions::new()
            .with_snapshot(self.db.snapshot())
            .with_auto_refresh_iterator_with_snapshot(refreshes)
            .with_fill_cache(false);
        let mut iterator = self.db.raw_iterator_cf_opt(&self.family, &options)?;
        iterator.seek_to_first()?;
        while let Some((key, value)) = iterator.item() {
            visit(key, value);
            iterator.next()?;
        }
        Ok(())
    }

    fn number(&self, property: &str) -> Result<u64, Failure> {
        let value = self.property(property)?;
        Ok(value.ok_or_else(|| format!("no property {property}"))?.parse()?)
    }

    fn settle(&self) -> Result<(), Failure> {
        Store::settle(self)
    }

    fn take_snapshot(&self) -> Result<(), Failure> {
        drop(std::hint::black_box(self.db.snapshot()));
        Ok(())
    }

    fn renew_version(&self) -> Result<(), Failure> {
        // Setting any option installs a new version. The option is set to the value that it already
        // has, so that nothing else changes.
        let options = [("max_sequential_skip_in_iterations", "8")];
        Ok(self.db.set_options_cf(&self.family, &options)?)
    }

    fn block_cache_lookups(&self) -> Result<[u64; 2], Failure> {
        let statistics = self.statistics.as_ref().ok_or("no statistics")?;
        let count = |name: &str| statistics.ticker(name).ok_or("no such ticker");
        Ok([count("rocksdb.block.cache.hit")?, count("rocksdb.block.cache.miss")?])
    }
}

/// Charges all that can be charged to the block cache. RocksDB has these options, too, but only its
/// interface of C++ can set them.
const CHARGES: &str = "cache_usage_options={kFilterConstruction=kEnabled;\
    kBlockBasedTableReader=kEnabled;kFileMetadata=kEnabled}";

/// Tailwater, with several databases that share a write buffer manager and a strict block cache.
pub const MEMORY: MemoryEngine = MemoryEngine {
    name: ENGINE.name,
    open: |directories, limits, options, tables| {
        let &Limits { memtables_bytes, cache_bytes, charges_memtables } = limits;
        let cache = Arc::new(BlockCache::new(cache_bytes));
        cache.set_strict_capacity_limit(true);
        let manager = Arc::new(if charges_memtables {
            WriteBufferManager::with_cache(memtables_bytes, Arc::clone(&cache), true)
        } else {
            WriteBufferManager::new(memtables_bytes, true)
        });
        let mut open = OpenOptions::default();
        let tables = format!("block_based_table_factory={{{tables};{CHARGES}}}");
        open.set_from_string(&format!("{tables};{options}"))?;
        open.set_block_cache(cache);
        open.set_write_buffer_manager(manager);
        let databases = directories.iter().map(|directory| Db::open(directory, &open));
        let databases = databases.collect::<Result<_, _>>()?;
        Ok(Box::new(SharedLimits { databases }))
    },
};

/// Databases that share their memory limits.
#[derive(Debug)]
struct SharedLimits {
    databases: Vec<Db>,
}

fn refusal(error: Error) -> Refusal {
    Refusal { kind: format!("{:?}", error.kind()), message: error.to_string() }
}

impl MemorySubject for SharedLimits {
    fn put(&self, database: usize, key: &[u8], value: &[u8]) -> Result<(), Refusal> {
        self.databases[database].put(key, value).map_err(refusal)
    }

    fn get(&self, database: usize, key: &[u8]) -> Result<bool, Refusal> {
        let found = self.databases[database].get_pinned(key).map_err(refusal)?;
        Ok(found.is_some())
    }

    fn scan(&self, database: usize, from: &[u8], limit: u64) -> Result<u64, Refusal> {
        let mut entries = 0;
        let mut scan = || {
            let mut iterator = self.databases[database].raw_iterator()?;
            iterator.seek(from)?;
            while entries < limit && iterator.item().is_some() {
                entries += 1;
                iterator.next()?;
            }
            Ok(())
        };
        scan().map_err(refusal)?;
        Ok(entries)
    }

    fn live(&self) -> Result<Vec<(String, u64)>, Failure> {
        let memory = ProcessMemory::now();
        Ok(memory.parts().map(|(name, bytes)| (name.to_owned(), bytes)).collect())
    }
}

/// Tailwater, with many column families.
pub const FAMILIES: FamilyEngine = FamilyEngine {
    name: ENGINE.name,
    open: |directory, count, options, of_families| {
        let mut open = OpenOptions::default();
        open.set_from_string(options)?;
        let db = Db::open(directory, &open)?;
        let mut of_family = OpenOptions::default();
        of_family.set_from_string(of_families)?;
        let of_family = of_family.column_family("default").clone();
        let mut families = vec![db.default_cf().clone()];
        for number in 1..=count {
            families.push(db.create_cf(&number.to_string(), &of_family)?);
        }
        Ok(Box::new(Families { db, families }))
    },
};

/// A database with many column families.
#[derive(Debug)]
struct Families {
    db: Db,
    families: Vec<ColumnFamily>,
}

impl FamilySubject for Families {
    fn put(&self, family: usize, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        Ok(self.db.put_cf(&self.families[family], key, value)?)
    }
}
