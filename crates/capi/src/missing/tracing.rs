//! Traces.

use super::prelude::*;

missing! {
    stand_in fn rocksdb_block_cache_trace_options_create(
    ) -> *mut rocksdb_block_cache_trace_options_t;
    release(options)
    fn rocksdb_block_cache_trace_options_destroy(options: own rocksdb_block_cache_trace_options_t);
    inert fn rocksdb_block_cache_trace_options_get_sampling_frequency(
        opt: *mut rocksdb_block_cache_trace_options_t,
    ) -> u64;
    inert fn rocksdb_block_cache_trace_options_set_sampling_frequency(
        opt: *mut rocksdb_block_cache_trace_options_t,
        v: u64,
    );
    stand_in fn rocksdb_block_cache_trace_writer_options_create(
    ) -> *mut rocksdb_block_cache_trace_writer_options_t;
    release(options)
    fn rocksdb_block_cache_trace_writer_options_destroy(
        options: own rocksdb_block_cache_trace_writer_options_t,
    );
    inert fn rocksdb_block_cache_trace_writer_options_get_max_trace_file_size(
        opt: *mut rocksdb_block_cache_trace_writer_options_t,
    ) -> u64;
    inert fn rocksdb_block_cache_trace_writer_options_set_max_trace_file_size(
        opt: *mut rocksdb_block_cache_trace_writer_options_t,
        v: u64,
    );
    refuse fn rocksdb_end_block_cache_trace(db: *mut rocksdb_t, errptr);
    refuse fn rocksdb_end_io_trace(db: *mut rocksdb_t, errptr);
    refuse fn rocksdb_end_trace(db: *mut rocksdb_t, errptr);
    refuse fn rocksdb_new_default_replayer(
        db: *mut rocksdb_t,
        column_families: *mut *mut rocksdb_column_family_handle_t,
        num_column_families: usize,
        env: *mut rocksdb_env_t,
        env_options: *const rocksdb_envoptions_t,
        trace_path: *const c_char,
        errptr,
    ) -> *mut rocksdb_replayer_t;
    stand_in fn rocksdb_replay_options_create() -> *mut rocksdb_replay_options_t;
    release(options) fn rocksdb_replay_options_destroy(options: own rocksdb_replay_options_t);
    inert fn rocksdb_replay_options_get_fast_forward(options: *mut rocksdb_replay_options_t) -> f64;
    inert fn rocksdb_replay_options_get_num_threads(options: *mut rocksdb_replay_options_t) -> u32;
    inert fn rocksdb_replay_options_set_fast_forward(
        options: *mut rocksdb_replay_options_t,
        fast_forward: f64,
    );
    inert fn rocksdb_replay_options_set_num_threads(
        options: *mut rocksdb_replay_options_t,
        num_threads: u32,
    );
    release(replayer) fn rocksdb_replayer_destroy(replayer: own rocksdb_replayer_t);
    inert fn rocksdb_replayer_get_header_timestamp(replayer: *const rocksdb_replayer_t) -> u64;
    refuse fn rocksdb_replayer_prepare(replayer: *mut rocksdb_replayer_t, errptr);
    refuse fn rocksdb_replayer_replay(
        replayer: *mut rocksdb_replayer_t,
        options: *const rocksdb_replay_options_t,
        errptr,
    );
    refuse fn rocksdb_start_block_cache_trace(
        db: *mut rocksdb_t,
        env: *mut rocksdb_env_t,
        env_options: *const rocksdb_envoptions_t,
        options: *const rocksdb_trace_options_t,
        trace_path: *const c_char,
        errptr,
    );
    refuse fn rocksdb_start_block_cache_trace_with_options(
        db: *mut rocksdb_t,
        env: *mut rocksdb_env_t,
        env_options: *const rocksdb_envoptions_t,
        options: *const rocksdb_block_cache_trace_options_t,
        writer_options: *const rocksdb_block_cache_trace_writer_options_t,
        trace_path: *const c_char,
        errptr,
    );
    refuse fn rocksdb_start_io_trace(
        db: *mut rocksdb_t,
        env: *mut rocksdb_env_t,
        env_options: *const rocksdb_envoptions_t,
        options: *const rocksdb_trace_options_t,
        trace_path: *const c_char,
        errptr,
    );
    refuse fn rocksdb_start_trace(
        db: *mut rocksdb_t,
        env: *mut rocksdb_env_t,
        env_options: *const rocksdb_envoptions_t,
        options: *const rocksdb_trace_options_t,
        trace_path: *const c_char,
        errptr,
    );
    stand_in fn rocksdb_trace_options_create() -> *mut rocksdb_trace_options_t;
    release(options) fn rocksdb_trace_options_destroy(options: own rocksdb_trace_options_t);
    inert fn rocksdb_trace_options_get_filter(opt: *mut rocksdb_trace_options_t) -> u64;
    inert fn rocksdb_trace_options_get_max_trace_file_size(
        opt: *mut rocksdb_trace_options_t,
    ) -> u64;
    inert fn rocksdb_trace_options_get_preserve_write_order(
        opt: *mut rocksdb_trace_options_t,
    ) -> c_uchar;
    inert fn rocksdb_trace_options_get_sampling_frequency(opt: *mut rocksdb_trace_options_t) -> u64;
    inert fn rocksdb_trace_options_set_filter(opt: *mut rocksdb_trace_options_t, v: u64);
    inert fn rocksdb_trace_options_set_max_trace_file_size(
        opt: *mut rocksdb_trace_options_t,
        v: u64,
    );
    inert fn rocksdb_trace_options_set_preserve_write_order(
        opt: *mut rocksdb_trace_options_t,
        v: c_uchar,
    );
    inert fn rocksdb_trace_options_set_sampling_frequency(
        opt: *mut rocksdb_trace_options_t,
        v: u64,
    );
    refuse fn rocksdb_trace_reader_close(reader: *mut rocksdb_trace_reader_t, errptr);
    refuse fn rocksdb_trace_reader_create(
        env: *mut rocksdb_env_t,
        env_options: *const rocksdb_envoptions_t,
        trace_path: *const c_char,
        errptr,
    ) -> *mut rocksdb_trace_reader_t;
    release(reader) fn rocksdb_trace_reader_destroy(reader: own rocksdb_trace_reader_t);
    refuse fn rocksdb_trace_reader_read(
        reader: *mut rocksdb_trace_reader_t,
        size: *mut usize,
        errptr,
    ) -> *mut c_char;
    refuse fn rocksdb_trace_reader_reset(reader: *mut rocksdb_trace_reader_t, errptr);
}
