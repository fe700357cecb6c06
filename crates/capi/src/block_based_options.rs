//! Options of tables.

use std::ffi::c_char;
use std::sync::Arc;

use tailwater::BlockCache;
use tailwater::options::{BlockBasedTableOptions, FilterPolicy};

use crate::boundary::{Class, Failure, entry, give};
use crate::cache::rocksdb_cache_t;
use crate::filter_policy::rocksdb_filterpolicy_t;
use crate::marks::{Marked, Marks};

/// Options of tables, and their cache.
#[derive(Default)]
pub(crate) struct rocksdb_block_based_table_options_t {
    pub(crate) options: BlockBasedTableOptions,
    pub(crate) block_cache: Option<Arc<BlockCache>>,
    pub(crate) marks: Marks,
}

impl Marked for rocksdb_block_based_table_options_t {
    fn marks(&self) -> &Marks {
        &self.marks
    }
}

entry! {
    fn rocksdb_block_based_options_create() -> *mut rocksdb_block_based_table_options_t {
        Ok(give(rocksdb_block_based_table_options_t::default()))
    }
}

entry! {
    fn rocksdb_block_based_options_destroy(options: own rocksdb_block_based_table_options_t) {
        drop(options);
        Ok(())
    }
}

entry! {
    /// As in RocksDB, null keeps the block cache.
    fn rocksdb_block_based_options_set_block_cache(
        options: &mut rocksdb_block_based_table_options_t,
        block_cache: maybe rocksdb_cache_t,
    ) {
        if let Some(cache) = block_cache {
            options.block_cache = Some(Arc::clone(&cache.cache));
        }
        Ok(())
    }
}

entry! {
    /// The options become the owner of the policy.
    fn rocksdb_block_based_options_set_filter_policy(
        options: &mut rocksdb_block_based_table_options_t,
        filter_policy: own rocksdb_filterpolicy_t,
    ) {
        options.options.filter_policy =
            filter_policy.map_or(FilterPolicy::None, |policy| policy.policy);
        Ok(())
    }
}

entry! {
    fn rocksdb_block_based_options_set_user_defined_index_factory_from_string(
        options: shared rocksdb_block_based_table_options_t,
        value: bytes[value_len],
        errptr,
    ) {
        if !value.is_empty() {
            let name = value.escape_ascii();
            let message = format!("there is no user-defined index '{name}'");
            return Err(Failure::new(Class::NotSupported, message));
        }
        let _ = options;
        Ok(())
    }
}

entry! {
    fn rocksdb_block_based_options_clear_user_defined_index_factory(
        options: shared rocksdb_block_based_table_options_t,
    ) {
        let _ = options;
        Ok(())
    }
}

entry! {
    /// There are none: null, with length 0.
    fn rocksdb_block_based_options_get_user_defined_index_factory_name(
        options: &rocksdb_block_based_table_options_t,
        name_len: out usize,
    ) -> *const c_char {
        let _ = options;
        name_len.set(0);
        Ok(std::ptr::null())
    }
}
