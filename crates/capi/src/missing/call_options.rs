//! Settings of single calls that are not implemented. They are stored and read back.

use super::prelude::*;

missing! {
    fetch(opt, allow_write_stall, 0)
    fn rocksdb_compactoptions_get_allow_write_stall(
        opt: shared rocksdb_compactoptions_t,
    ) -> c_uchar;
    fetch(opt, blob_garbage_collection_age_cutoff, -1.0)
    fn rocksdb_compactoptions_get_blob_garbage_collection_age_cutoff(
        opt: shared rocksdb_compactoptions_t,
    ) -> f64;
    fetch(opt, blob_garbage_collection_policy, 2)
    fn rocksdb_compactoptions_get_blob_garbage_collection_policy(
        opt: shared rocksdb_compactoptions_t,
    ) -> c_int;
    fetch(opt, change_level, 0)
    fn rocksdb_compactoptions_get_change_level(opt: shared rocksdb_compactoptions_t) -> c_uchar;
    fetch(opt, max_subcompactions, 0)
    fn rocksdb_compactoptions_get_max_subcompactions(opt: shared rocksdb_compactoptions_t) -> c_int;
    fetch(opt, target_level, -1)
    fn rocksdb_compactoptions_get_target_level(opt: shared rocksdb_compactoptions_t) -> c_int;
    fetch(opt, target_path_id, 0)
    fn rocksdb_compactoptions_get_target_path_id(opt: shared rocksdb_compactoptions_t) -> c_int;
    store(opt, value, allow_write_stall, 0, Nothing)
    fn rocksdb_compactoptions_set_allow_write_stall(
        opt: shared rocksdb_compactoptions_t,
        value: c_uchar,
    );
    store(opt, v, blob_garbage_collection_age_cutoff, -1.0, Note)
    fn rocksdb_compactoptions_set_blob_garbage_collection_age_cutoff(
        opt: shared rocksdb_compactoptions_t,
        v: f64,
    );
    store(opt, v, blob_garbage_collection_policy, 2, Note)
    fn rocksdb_compactoptions_set_blob_garbage_collection_policy(
        opt: shared rocksdb_compactoptions_t,
        v: c_int,
    );
    store(opt, value, change_level, 0, Note)
    fn rocksdb_compactoptions_set_change_level(
        opt: shared rocksdb_compactoptions_t,
        value: c_uchar,
    );
    store(opt, value, max_subcompactions, 0, Nothing)
    fn rocksdb_compactoptions_set_max_subcompactions(
        opt: shared rocksdb_compactoptions_t,
        value: c_int,
    );
    store(opt, value, target_level, -1, Nothing)
    fn rocksdb_compactoptions_set_target_level(opt: shared rocksdb_compactoptions_t, value: c_int);
    store(opt, value, target_path_id, 0, Note)
    fn rocksdb_compactoptions_set_target_path_id(
        opt: shared rocksdb_compactoptions_t,
        value: c_int,
    );
    refuse fn rocksdb_flush_wal_with_options(
        db: *mut rocksdb_t,
        options: *const rocksdb_flushwaloptions_t,
        errptr,
    );
    fetch(opt, allow_write_stall, 0)
    fn rocksdb_flushoptions_get_allow_write_stall(opt: shared rocksdb_flushoptions_t) -> c_uchar;
    fetch(opt, force_atomic_flush, 0)
    fn rocksdb_flushoptions_get_force_atomic_flush(opt: shared rocksdb_flushoptions_t) -> c_uchar;
    fetch(opt, listener_wait, 0)
    fn rocksdb_flushoptions_get_listener_wait(opt: shared rocksdb_flushoptions_t) -> c_uchar;
    store(opt, v, allow_write_stall, 0, Nothing)
    fn rocksdb_flushoptions_set_allow_write_stall(opt: shared rocksdb_flushoptions_t, v: c_uchar);
    store(opt, v, force_atomic_flush, 0, Refuse)
    fn rocksdb_flushoptions_set_force_atomic_flush(opt: shared rocksdb_flushoptions_t, v: c_uchar);
    store(opt, v, listener_wait, 0, Nothing)
    fn rocksdb_flushoptions_set_listener_wait(opt: shared rocksdb_flushoptions_t, v: c_uchar);
    stand_in fn rocksdb_flushwaloptions_create() -> *mut rocksdb_flushwaloptions_t;
    release(options) fn rocksdb_flushwaloptions_destroy(options: own rocksdb_flushwaloptions_t);
    inert fn rocksdb_flushwaloptions_get_rate_limiter_priority(
        opt: *mut rocksdb_flushwaloptions_t,
    ) -> c_int;
    inert fn rocksdb_flushwaloptions_get_sync(opt: *mut rocksdb_flushwaloptions_t) -> c_uchar;
    inert fn rocksdb_flushwaloptions_set_rate_limiter_priority(
        opt: *mut rocksdb_flushwaloptions_t,
        v: c_int,
    );
    inert fn rocksdb_flushwaloptions_set_sync(opt: *mut rocksdb_flushwaloptions_t, v: c_uchar);
    fetch(opt, file_opening_threads, 1)
    fn rocksdb_ingestexternalfileoptions_get_file_opening_threads(
        opt: shared rocksdb_ingestexternalfileoptions_t,
    ) -> c_int;
    fetch(opt, fill_cache, 1)
    fn rocksdb_ingestexternalfileoptions_get_fill_cache(
        opt: shared rocksdb_ingestexternalfileoptions_t,
    ) -> c_uchar;
    fetch(opt, prefetch_lmax_index_and_filter_blocks, 1)
    fn rocksdb_ingestexternalfileoptions_get_prefetch_lmax_index_and_filter_blocks(
        opt: shared rocksdb_ingestexternalfileoptions_t,
    ) -> c_uchar;
    fetch(opt, verify_checksums_readahead_size, 0)
    fn rocksdb_ingestexternalfileoptions_get_verify_checksums_readahead_size(
        opt: shared rocksdb_ingestexternalfileoptions_t,
    ) -> usize;
    fetch(opt, verify_file_checksum, 1)
    fn rocksdb_ingestexternalfileoptions_get_verify_file_checksum(
        opt: shared rocksdb_ingestexternalfileoptions_t,
    ) -> c_uchar;
    store(opt, v, file_opening_threads, 1, Nothing)
    fn rocksdb_ingestexternalfileoptions_set_file_opening_threads(
        opt: shared rocksdb_ingestexternalfileoptions_t,
        v: c_int,
    );
    store(opt, v, fill_cache, 1, Nothing)
    fn rocksdb_ingestexternalfileoptions_set_fill_cache(
        opt: shared rocksdb_ingestexternalfileoptions_t,
        v: c_uchar,
    );
    store(opt, v, prefetch_lmax_index_and_filter_blocks, 1, Nothing)
    fn rocksdb_ingestexternalfileoptions_set_prefetch_lmax_index_and_filter_blocks(
        opt: shared rocksdb_ingestexternalfileoptions_t,
        v: c_uchar,
    );
    store(opt, v, verify_checksums_readahead_size, 0, Nothing)
    fn rocksdb_ingestexternalfileoptions_set_verify_checksums_readahead_size(
        opt: shared rocksdb_ingestexternalfileoptions_t,
        v: usize,
    );
    store(opt, v, verify_file_checksum, 1, Nothing)
    fn rocksdb_ingestexternalfileoptions_set_verify_file_checksum(
        opt: shared rocksdb_ingestexternalfileoptions_t,
        v: c_uchar,
    );
    inert fn rocksdb_readoptions_clear_merge_operand_count_threshold(
        opt: *mut rocksdb_readoptions_t,
    );
    inert fn rocksdb_readoptions_clear_request_id(opt: *mut rocksdb_readoptions_t);
    inert fn rocksdb_readoptions_clear_table_filter(opt: *mut rocksdb_readoptions_t);
    inert fn rocksdb_readoptions_clear_table_index_factory(opt: *mut rocksdb_readoptions_t);
    fetch(opt, deadline, 0)
    fn rocksdb_readoptions_get_deadline(opt: shared rocksdb_readoptions_t) -> u64;
    fetch(opt, ignore_range_deletions, 0)
    fn rocksdb_readoptions_get_ignore_range_deletions(opt: shared rocksdb_readoptions_t) -> c_uchar;
    fetch(opt, io_activity, 0xff)
    fn rocksdb_readoptions_get_io_activity(opt: shared rocksdb_readoptions_t) -> c_int;
    fetch(opt, io_timeout, 0)
    fn rocksdb_readoptions_get_io_timeout(opt: shared rocksdb_readoptions_t) -> u64;
    fetch(opt, max_skippable_internal_keys, 0)
    fn rocksdb_readoptions_get_max_skippable_internal_keys(
        opt: shared rocksdb_readoptions_t,
    ) -> u64;
    fetch(opt, merge_operand_count_threshold, 0)
    fn rocksdb_readoptions_get_merge_operand_count_threshold(
        opt: shared rocksdb_readoptions_t,
    ) -> usize;
    fetch(opt, read_tier, 0)
    fn rocksdb_readoptions_get_read_tier(opt: shared rocksdb_readoptions_t) -> c_int;
    empty_text(request_id_len)
    fn rocksdb_readoptions_get_request_id(
        opt: *mut rocksdb_readoptions_t,
        request_id_len: out usize,
    ) -> *const c_char;
    empty_text(name_len)
    fn rocksdb_readoptions_get_table_index_factory_name(
        opt: *const rocksdb_readoptions_t,
        name_len: out usize,
    ) -> *const c_char;
    fetch(opt, tailing, 0)
    fn rocksdb_readoptions_get_tailing(opt: shared rocksdb_readoptions_t) -> c_uchar;
    fetch(opt, value_size_soft_limit, u64::MAX)
    fn rocksdb_readoptions_get_value_size_soft_limit(opt: shared rocksdb_readoptions_t) -> u64;
    fetch(opt, merge_operand_count_threshold, 0)
    fn rocksdb_readoptions_has_merge_operand_count_threshold(
        opt: shared rocksdb_readoptions_t,
    ) -> c_uchar;
    inert fn rocksdb_readoptions_has_table_filter(opt: *const rocksdb_readoptions_t) -> c_uchar;
    store(opt, microseconds, deadline, 0, Note)
    fn rocksdb_readoptions_set_deadline(opt: shared rocksdb_readoptions_t, microseconds: u64);
    store(opt, v, ignore_range_deletions, 0, Refuse)
    fn rocksdb_readoptions_set_ignore_range_deletions(
        opt: shared rocksdb_readoptions_t,
        v: c_uchar,
    );
    store(opt, v, io_activity, 0xff, Nothing)
    fn rocksdb_readoptions_set_io_activity(opt: shared rocksdb_readoptions_t, v: c_int);
    store(opt, microseconds, io_timeout, 0, Note)
    fn rocksdb_readoptions_set_io_timeout(opt: shared rocksdb_readoptions_t, microseconds: u64);
    store(opt, v, max_skippable_internal_keys, 0, Note)
    fn rocksdb_readoptions_set_max_skippable_internal_keys(
        opt: shared rocksdb_readoptions_t,
        v: u64,
    );
    store(opt, threshold, merge_operand_count_threshold, 0, Nothing)
    fn rocksdb_readoptions_set_merge_operand_count_threshold(
        opt: shared rocksdb_readoptions_t,
        threshold: usize,
    );
    store(opt, v, read_tier, 0, Refuse)
    fn rocksdb_readoptions_set_read_tier(opt: shared rocksdb_readoptions_t, v: c_int);
    inert fn rocksdb_readoptions_set_request_id(
        opt: *mut rocksdb_readoptions_t,
        request_id: *const c_char,
        request_id_len: usize,
    );
    mark(opt)
    fn rocksdb_readoptions_set_table_filter(
        opt: shared rocksdb_readoptions_t,
        state: *mut c_void,
        destructor: Option<unsafe extern "C-unwind" fn(*mut c_void)>,
        table_filter: rocksdb_readoptions_table_filter_cb,
    );
    refuse fn rocksdb_readoptions_set_table_index_factory_from_string(
        opt: *mut rocksdb_readoptions_t,
        value: *const c_char,
        value_len: usize,
        errptr,
    );
    store(opt, v, tailing, 0, Refuse)
    fn rocksdb_readoptions_set_tailing(opt: shared rocksdb_readoptions_t, v: c_uchar);
    store(opt, v, value_size_soft_limit, u64::MAX, Note)
    fn rocksdb_readoptions_set_value_size_soft_limit(opt: shared rocksdb_readoptions_t, v: u64);
    fetch(opt, ignore_missing_column_families, 0)
    fn rocksdb_writeoptions_get_ignore_missing_column_families(
        opt: shared rocksdb_writeoptions_t,
    ) -> c_uchar;
    fetch(opt, io_activity, 0xff)
    fn rocksdb_writeoptions_get_io_activity(opt: shared rocksdb_writeoptions_t) -> c_int;
    fetch(opt, low_pri, 0)
    fn rocksdb_writeoptions_get_low_pri(opt: shared rocksdb_writeoptions_t) -> c_uchar;
    fetch(opt, memtable_insert_hint_per_batch, 0)
    fn rocksdb_writeoptions_get_memtable_insert_hint_per_batch(
        opt: shared rocksdb_writeoptions_t,
    ) -> c_uchar;
    fetch(opt, protection_bytes_per_key, 0)
    fn rocksdb_writeoptions_get_protection_bytes_per_key(
        opt: shared rocksdb_writeoptions_t,
    ) -> usize;
    store(opt, v, ignore_missing_column_families, 0, Refuse)
    fn rocksdb_writeoptions_set_ignore_missing_column_families(
        opt: shared rocksdb_writeoptions_t,
        v: c_uchar,
    );
    store(opt, v, io_activity, 0xff, Nothing)
    fn rocksdb_writeoptions_set_io_activity(opt: shared rocksdb_writeoptions_t, v: c_int);
    store(opt, v, low_pri, 0, Note)
    fn rocksdb_writeoptions_set_low_pri(opt: shared rocksdb_writeoptions_t, v: c_uchar);
    store(opt, v, memtable_insert_hint_per_batch, 0, Nothing)
    fn rocksdb_writeoptions_set_memtable_insert_hint_per_batch(
        opt: shared rocksdb_writeoptions_t,
        v: c_uchar,
    );
    store(opt, v, protection_bytes_per_key, 0, Note)
    fn rocksdb_writeoptions_set_protection_bytes_per_key(
        opt: shared rocksdb_writeoptions_t,
        v: usize,
    );
}
