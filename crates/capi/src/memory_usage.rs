//! Memory usage of databases and caches.

use std::sync::Arc;

use tailwater::{BlockCache, ColumnFamily, Db};

use crate::boundary::{Outcome, entry, give};
use crate::cache::rocksdb_cache_t;
use crate::database::rocksdb_t;

/// The databases and caches whose memory is to be measured.
#[derive(Default)]
pub(crate) struct rocksdb_memory_consumers_t {
    databases: Vec<Db>,
    caches: Vec<Arc<BlockCache>>,
}

/// The memory of databases and caches, in bytes.
pub(crate) struct rocksdb_memory_usage_t {
    memtables: u64,
    unflushed: u64,
    readers: u64,
    caches: u64,
}

entry! {
    fn rocksdb_memory_consumers_create() -> *mut rocksdb_memory_consumers_t {
        Ok(give(rocksdb_memory_consumers_t::default()))
    }
}

entry! {
    fn rocksdb_memory_consumers_add_db(
        consumers: &mut rocksdb_memory_consumers_t,
        db: shared rocksdb_t,
    ) {
        consumers.databases.push(db.db.clone());
        Ok(())
    }
}

entry! {
    fn rocksdb_memory_consumers_add_cache(
        consumers: &mut rocksdb_memory_consumers_t,
        cache: shared rocksdb_cache_t,
    ) {
        if !consumers.caches.iter().any(|known| Arc::ptr_eq(known, &cache.cache)) {
            consumers.caches.push(Arc::clone(&cache.cache));
        }
        Ok(())
    }
}

entry! {
    fn rocksdb_memory_consumers_destroy(consumers: own rocksdb_memory_consumers_t) {
        drop(consumers);
        Ok(())
    }
}

/// Returns the sum of a property over the column families of `db`.
fn sum(db: &Db, property: &str) -> Outcome<u64> {
    let value = |family: &ColumnFamily| {
        let text = db.property_value_cf(family, property)?;
        Outcome::Ok(text.and_then(|text| text.parse::<u64>().ok()).unwrap_or(0))
    };
    db.column_families().iter().map(value).sum()
}

entry! {
    fn rocksdb_approximate_memory_usage_create(
        consumers: shared rocksdb_memory_consumers_t,
        errptr,
    ) -> *mut rocksdb_memory_usage_t {
        let caches = consumers.caches.iter().map(|cache| cache.usage() as u64).sum();
        let mut usage = rocksdb_memory_usage_t { memtables: 0, unflushed: 0, readers: 0, caches };
        for db in &consumers.databases {
            usage.memtables += sum(db, "rocksdb.size-all-mem-tables")?;
            usage.unflushed += sum(db, "rocksdb.cur-size-all-mem-tables")?;
            usage.readers += sum(db, "rocksdb.estimate-table-readers-mem")?;
        }
        Ok(give(usage))
    }
}

entry! {
    fn rocksdb_approximate_memory_usage_destroy(usage: own rocksdb_memory_usage_t) {
        drop(usage);
        Ok(())
    }
}

entry! {
    fn rocksdb_approximate_memory_usage_get_mem_table_total(
        memory_usage: shared rocksdb_memory_usage_t,
    ) -> u64 {
        Ok(memory_usage.memtables)
    }
}

entry! {
    fn rocksdb_approximate_memory_usage_get_mem_table_unflushed(
        memory_usage: shared rocksdb_memory_usage_t,
    ) -> u64 {
        Ok(memory_usage.unflushed)
    }
}

entry! {
    fn rocksdb_approximate_memory_usage_get_mem_table_readers_total(
        memory_usage: shared rocksdb_memory_usage_t,
    ) -> u64 {
        Ok(memory_usage.readers)
    }
}

entry! {
    fn rocksdb_approximate_memory_usage_get_cache_total(
        memory_usage: shared rocksdb_memory_usage_t,
    ) -> u64 {
        Ok(memory_usage.caches)
    }
}
