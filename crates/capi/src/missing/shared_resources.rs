//! Resources that databases share.

use super::prelude::*;

missing! {
    stand_in fn rocksdb_create_mem_env() -> *mut rocksdb_env_t;
    inert fn rocksdb_env_get_background_threads(env: *mut rocksdb_env_t) -> c_int;
    inert fn rocksdb_env_get_bottom_priority_background_threads(env: *mut rocksdb_env_t) -> c_int;
    inert fn rocksdb_env_get_high_priority_background_threads(env: *mut rocksdb_env_t) -> c_int;
    inert fn rocksdb_env_get_low_priority_background_threads(env: *mut rocksdb_env_t) -> c_int;
    inert fn rocksdb_env_join_all_threads(env: *mut rocksdb_env_t);
    note(env)
    fn rocksdb_env_lower_high_priority_thread_pool_cpu_priority(env: shared rocksdb_env_t);
    note(env) fn rocksdb_env_lower_high_priority_thread_pool_io_priority(env: shared rocksdb_env_t);
    note(env) fn rocksdb_env_lower_thread_pool_cpu_priority(env: shared rocksdb_env_t);
    note(env) fn rocksdb_env_lower_thread_pool_io_priority(env: shared rocksdb_env_t);
    note(env) fn rocksdb_env_set_background_threads(env: shared rocksdb_env_t, n: c_int);
    note(env)
    fn rocksdb_env_set_bottom_priority_background_threads(env: shared rocksdb_env_t, n: c_int);
    note(env)
    fn rocksdb_env_set_high_priority_background_threads(env: shared rocksdb_env_t, n: c_int);
    note(env)
    fn rocksdb_env_set_low_priority_background_threads(env: shared rocksdb_env_t, n: c_int);
    refuse fn rocksdb_jemalloc_nodump_allocator_create(errptr) -> *mut rocksdb_memory_allocator_t;
    note_if(opt, blob_cache)
    fn rocksdb_options_set_blob_cache(
        opt: shared rocksdb_options_t,
        blob_cache: *mut rocksdb_cache_t,
    );
}
