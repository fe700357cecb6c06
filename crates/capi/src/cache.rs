//! Block caches and row caches. All of them are the engine's own cache, which has neither shards
//! nor an eviction policy to choose.

use std::ffi::c_int;
use std::sync::Arc;

use tailwater::BlockCache;

use crate::boundary::{entry, give};

/// A block cache or row cache, which databases share.
pub(crate) struct rocksdb_cache_t {
    pub(crate) cache: Arc<BlockCache>,
}

impl rocksdb_cache_t {
    fn new(capacity: usize) -> Self {
        Self { cache: Arc::new(BlockCache::new(capacity)) }
    }
}

/// Options of a cache.
pub(crate) struct rocksdb_lru_cache_options_t {
    capacity: usize,
}

/// Options of a cache.
pub(crate) struct rocksdb_hyper_clock_cache_options_t {
    capacity: usize,
}

/// An allocator of a cache's memory. There are none: the only one of this interface needs jemalloc,
/// and fails as in a RocksDB without it. A cache takes its memory from slabs of its own.
pub(crate) enum rocksdb_memory_allocator_t {}

entry! {
    fn rocksdb_memory_allocator_destroy(memory_allocator: own rocksdb_memory_allocator_t) {
        drop(memory_allocator);
        Ok(())
    }
}

entry! {
    fn rocksdb_cache_create_lru(capacity: usize) -> *mut rocksdb_cache_t {
        Ok(give(rocksdb_cache_t::new(capacity)))
    }
}

entry! {
    fn rocksdb_cache_create_lru_with_strict_capacity_limit(
        capacity: usize,
    ) -> *mut rocksdb_cache_t {
        let cache = rocksdb_cache_t::new(capacity);
        cache.cache.set_strict_capacity_limit(true);
        Ok(give(cache))
    }
}

entry! {
    fn rocksdb_cache_create_lru_opts(
        opt: &rocksdb_lru_cache_options_t,
    ) -> *mut rocksdb_cache_t {
        Ok(give(rocksdb_cache_t::new(opt.capacity)))
    }
}

entry! {
    fn rocksdb_cache_create_hyper_clock(
        capacity: usize,
        estimated_entry_charge: usize,
    ) -> *mut rocksdb_cache_t {
        let _ = estimated_entry_charge;
        Ok(give(rocksdb_cache_t::new(capacity)))
    }
}

entry! {
    fn rocksdb_cache_create_hyper_clock_opts(
        opt: &rocksdb_hyper_clock_cache_options_t,
    ) -> *mut rocksdb_cache_t {
        Ok(give(rocksdb_cache_t::new(opt.capacity)))
    }
}

entry! {
    fn rocksdb_cache_destroy(cache: own rocksdb_cache_t) {
        drop(cache);
        Ok(())
    }
}

entry! {
    /// Skips the freeing of blocks at the end of the process, which ends soon enough.
    fn rocksdb_cache_disown_data(cache: maybe rocksdb_cache_t) {
        let _ = cache;
        Ok(())
    }
}

entry! {
    fn rocksdb_cache_set_capacity(cache: shared rocksdb_cache_t, capacity: usize) {
        cache.cache.set_capacity(capacity);
        Ok(())
    }
}

entry! {
    fn rocksdb_cache_get_capacity(cache: &rocksdb_cache_t) -> usize {
        Ok(cache.cache.capacity())
    }
}

entry! {
    fn rocksdb_cache_get_usage(cache: &rocksdb_cache_t) -> usize {
        Ok(cache.cache.usage())
    }
}

entry! {
    fn rocksdb_cache_get_pinned_usage(cache: &rocksdb_cache_t) -> usize {
        Ok(cache.cache.pinned_usage())
    }
}

entry! {
    fn rocksdb_cache_get_table_address_count(cache: &rocksdb_cache_t) -> usize {
        Ok(cache.cache.table_address_count())
    }
}

entry! {
    fn rocksdb_cache_get_occupancy_count(cache: &rocksdb_cache_t) -> usize {
        Ok(cache.cache.occupancy_count())
    }
}

entry! {
    /// As in RocksDB, the capacity is 0 until it is set.
    fn rocksdb_lru_cache_options_create() -> *mut rocksdb_lru_cache_options_t {
        Ok(give(rocksdb_lru_cache_options_t { capacity: 0 }))
    }
}

entry! {
    fn rocksdb_lru_cache_options_destroy(opt: own rocksdb_lru_cache_options_t) {
        drop(opt);
        Ok(())
    }
}

entry! {
    fn rocksdb_lru_cache_options_set_capacity(
        opt: &mut rocksdb_lru_cache_options_t,
        capacity: usize,
    ) {
        opt.capacity = capacity;
        Ok(())
    }
}

entry! {
    fn rocksdb_lru_cache_options_set_num_shard_bits(
        opt: shared rocksdb_lru_cache_options_t,
        num_shard_bits: c_int,
    ) {
        let _ = (opt, num_shard_bits);
        Ok(())
    }
}

entry! {
    /// Null, since there are no allocators.
    fn rocksdb_lru_cache_options_set_memory_allocator(
        lru_cache_options: shared rocksdb_lru_cache_options_t,
        memory_allocator: maybe rocksdb_memory_allocator_t,
    ) {
        let _ = (lru_cache_options, memory_allocator);
        Ok(())
    }
}

entry! {
    fn rocksdb_hyper_clock_cache_options_create(
        capacity: usize,
        estimated_entry_charge: usize,
    ) -> *mut rocksdb_hyper_clock_cache_options_t {
        let _ = estimated_entry_charge;
        Ok(give(rocksdb_hyper_clock_cache_options_t { capacity }))
    }
}

entry! {
    fn rocksdb_hyper_clock_cache_options_destroy(
        opt: own rocksdb_hyper_clock_cache_options_t,
    ) {
        drop(opt);
        Ok(())
    }
}

entry! {
    fn rocksdb_hyper_clock_cache_options_set_capacity(
        opt: &mut rocksdb_hyper_clock_cache_options_t,
        capacity: usize,
    ) {
        opt.capacity = capacity;
        Ok(())
    }
}

entry! {
    fn rocksdb_hyper_clock_cache_options_set_estimated_entry_charge(
        opt: shared rocksdb_hyper_clock_cache_options_t,
        estimated_entry_charge: usize,
    ) {
        let _ = (opt, estimated_entry_charge);
        Ok(())
    }
}

entry! {
    fn rocksdb_hyper_clock_cache_options_set_num_shard_bits(
        opt: shared rocksdb_hyper_clock_cache_options_t,
        num_shard_bits: c_int,
    ) {
        let _ = (opt, num_shard_bits);
        Ok(())
    }
}

entry! {
    /// Null, since there are no allocators.
    fn rocksdb_hyper_clock_cache_options_set_memory_allocator(
        hyper_clock_cache_options: shared rocksdb_hyper_clock_cache_options_t,
        memory_allocator: maybe rocksdb_memory_allocator_t,
    ) {
        let _ = (hyper_clock_cache_options, memory_allocator);
        Ok(())
    }
}
