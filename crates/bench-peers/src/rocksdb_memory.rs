//! RocksDB, with several databases that share a write buffer manager and a strict block cache.

use rocksdb::perf::MemoryUsageBuilder;
use rocksdb::{DB, Options, WriteBufferManager};
use tailwater_bench::memory::{Limits, MemoryEngine, MemorySubject, Refusal};
use tailwater_bench::store::Failure;

pub(crate) const ENGINE: MemoryEngine = MemoryEngine {
    name: crate::rocksdb::ENGINE.name,
    open: |directories, limits, options, tables| {
        let &Limits { memtables_bytes, cache_bytes, charges_memtables } = limits;
        if charges_memtables {
            return Err("--charge: the crate rocksdb has no strict cache for this".into());
        }
        // The crate has no call for a strict cache. Databases that are opened with the same options
        // share the cache that the options text created.
        let cache = format!("block_cache={{capacity={cache_bytes};strict_capacity_limit=true}}");
        let text = format!("block_based_table_factory={{{tables};{cache}}};{options}");
        let mut options = Options::default().get_options_from_string(text)?;
        options.set_write_buffer_manager(&WriteBufferManager::new_write_buffer_manager(
            memtables_bytes,
            true,
        ));
        let databases = directories.iter().map(|directory| DB::open(&options, directory));
        Ok(Box::new(SharedLimits { databases: databases.collect::<Result<_, _>>()? }))
    },
};

/// Databases that share their memory limits.
struct SharedLimits {
    databases: Vec<DB>,
}

fn refusal(error: rocksdb::Error) -> Refusal {
    Refusal { kind: format!("{:?}", error.kind()), message: error.into_string() }
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
        let mut iterator = self.databases[database].raw_iterator();
        let mut entries = 0;
        iterator.seek(from);
        while entries < limit && iterator.valid() {
            entries += 1;
            iterator.next();
        }
        iterator.status().map(|()| entries).map_err(refusal)
    }

    fn live(&self) -> Result<Vec<(String, u64)>, Failure> {
        let mut usage = MemoryUsageBuilder::new()?;
        for db in &self.databases {
            usage.add_db(db);
        }
        let usage = usage.build()?;
        let cache = self.databases[0].property_int_value("rocksdb.block-cache-usage")?;
        let parts = [
            ("memtables", usage.approximate_mem_table_total()),
            ("block cache", cache.unwrap_or(0)),
            ("tables", usage.approximate_mem_table_readers_total()),
        ];
        Ok(parts.map(|(name, bytes)| (name.to_owned(), bytes)).into())
    }
}
