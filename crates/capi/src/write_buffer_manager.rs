//! Write buffer managers: limits of the memory of memtables.

use std::sync::Arc;

use tailwater::WriteBufferManager;

use crate::boundary::{entry, give};
use crate::cache::rocksdb_cache_t;

/// A write buffer manager, which databases share.
pub(crate) struct rocksdb_write_buffer_manager_t {
    pub(crate) manager: Arc<WriteBufferManager>,
}

impl rocksdb_write_buffer_manager_t {
    fn new(manager: WriteBufferManager) -> Self {
        Self { manager: Arc::new(manager) }
    }
}

entry! {
    fn rocksdb_write_buffer_manager_create(
        buffer_size: usize,
        allow_stall: bool,
    ) -> *mut rocksdb_write_buffer_manager_t {
        let manager = WriteBufferManager::new(buffer_size, allow_stall);
        Ok(give(rocksdb_write_buffer_manager_t::new(manager)))
    }
}

entry! {
    /// The cache stays the caller's.
    fn rocksdb_write_buffer_manager_create_with_cache(
        buffer_size: usize,
        cache: &rocksdb_cache_t,
        allow_stall: bool,
    ) -> *mut rocksdb_write_buffer_manager_t {
        let cache = Arc::clone(&cache.cache);
        let manager = WriteBufferManager::with_cache(buffer_size, cache, allow_stall);
        Ok(give(rocksdb_write_buffer_manager_t::new(manager)))
    }
}

entry! {
    /// The databases that use the manager keep it.
    fn rocksdb_write_buffer_manager_destroy(wbm: own rocksdb_write_buffer_manager_t) {
        drop(wbm);
        Ok(())
    }
}

entry! {
    fn rocksdb_write_buffer_manager_enabled(wbm: shared rocksdb_write_buffer_manager_t) -> bool {
        Ok(wbm.manager.enabled())
    }
}

entry! {
    fn rocksdb_write_buffer_manager_cost_to_cache(
        wbm: shared rocksdb_write_buffer_manager_t,
    ) -> bool {
        Ok(wbm.manager.cost_to_cache())
    }
}

entry! {
    fn rocksdb_write_buffer_manager_memory_usage(
        wbm: shared rocksdb_write_buffer_manager_t,
    ) -> usize {
        Ok(wbm.manager.memory_usage())
    }
}

entry! {
    fn rocksdb_write_buffer_manager_mutable_memtable_memory_usage(
        wbm: shared rocksdb_write_buffer_manager_t,
    ) -> usize {
        Ok(wbm.manager.mutable_memtable_memory_usage())
    }
}

entry! {
    fn rocksdb_write_buffer_manager_dummy_entries_in_cache_usage(
        wbm: shared rocksdb_write_buffer_manager_t,
    ) -> usize {
        Ok(wbm.manager.dummy_entries_in_cache_usage())
    }
}

entry! {
    fn rocksdb_write_buffer_manager_buffer_size(
        wbm: shared rocksdb_write_buffer_manager_t,
    ) -> usize {
        Ok(wbm.manager.buffer_size())
    }
}

entry! {
    fn rocksdb_write_buffer_manager_set_buffer_size(
        wbm: shared rocksdb_write_buffer_manager_t,
        new_size: usize,
    ) {
        wbm.manager.set_buffer_size(new_size);
        Ok(())
    }
}

entry! {
    fn rocksdb_write_buffer_manager_set_allow_stall(
        wbm: shared rocksdb_write_buffer_manager_t,
        new_allow_stall: bool,
    ) {
        wbm.manager.set_allow_stall(new_allow_stall);
        Ok(())
    }
}
