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
    note_if(opt, sfm)
    fn rocksdb_options_set_sst_file_manager(
        opt: shared rocksdb_options_t,
        sfm: *mut rocksdb_sst_file_manager_t,
    );
    stand_in fn rocksdb_sst_file_manager_create(
        env: *mut rocksdb_env_t,
    ) -> *mut rocksdb_sst_file_manager_t;
    release(sfm) fn rocksdb_sst_file_manager_destroy(sfm: own rocksdb_sst_file_manager_t);
    inert fn rocksdb_sst_file_manager_get_delete_rate_bytes_per_second(
        sfm: *mut rocksdb_sst_file_manager_t,
    ) -> i64;
    inert fn rocksdb_sst_file_manager_get_max_trash_db_ratio(
        sfm: *mut rocksdb_sst_file_manager_t,
    ) -> f64;
    inert fn rocksdb_sst_file_manager_get_total_size(sfm: *mut rocksdb_sst_file_manager_t) -> u64;
    inert fn rocksdb_sst_file_manager_get_total_trash_size(
        sfm: *mut rocksdb_sst_file_manager_t,
    ) -> u64;
    inert fn rocksdb_sst_file_manager_is_max_allowed_space_reached(
        sfm: *mut rocksdb_sst_file_manager_t,
    ) -> bool;
    inert fn rocksdb_sst_file_manager_is_max_allowed_space_reached_including_compactions(
        sfm: *mut rocksdb_sst_file_manager_t,
    ) -> bool;
    inert fn rocksdb_sst_file_manager_set_compaction_buffer_size(
        sfm: *mut rocksdb_sst_file_manager_t,
        compaction_buffer_size: u64,
    );
    inert fn rocksdb_sst_file_manager_set_delete_rate_bytes_per_second(
        sfm: *mut rocksdb_sst_file_manager_t,
        delete_rate: i64,
    );
    inert fn rocksdb_sst_file_manager_set_max_allowed_space_usage(
        sfm: *mut rocksdb_sst_file_manager_t,
        max_allowed_space: u64,
    );
    inert fn rocksdb_sst_file_manager_set_max_trash_db_ratio(
        sfm: *mut rocksdb_sst_file_manager_t,
        ratio: f64,
    );
}
