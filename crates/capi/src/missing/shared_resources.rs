//! Resources that databases share.

use super::prelude::*;

missing! {
    stand_in fn rocksdb_create_mem_env() -> *mut rocksdb_env_t;
    refuse fn rocksdb_jemalloc_nodump_allocator_create(errptr) -> *mut rocksdb_memory_allocator_t;
    note_if(opt, blob_cache)
    fn rocksdb_options_set_blob_cache(
        opt: shared rocksdb_options_t,
        blob_cache: *mut rocksdb_cache_t,
    );
}
