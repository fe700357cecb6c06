//! Event listeners and loggers.

use super::prelude::*;

missing! {
    inert fn rocksdb_blob_file_addition_info_blob_file_number(
        info: *const rocksdb_blob_file_addition_info_t,
    ) -> u64;
    empty_text(size)
    fn rocksdb_blob_file_addition_info_blob_file_path(
        info: *const rocksdb_blob_file_addition_info_t,
        size: out usize,
    ) -> *const c_char;
    inert fn rocksdb_blob_file_addition_info_total_blob_bytes(
        info: *const rocksdb_blob_file_addition_info_t,
    ) -> u64;
    inert fn rocksdb_blob_file_addition_info_total_blob_count(
        info: *const rocksdb_blob_file_addition_info_t,
    ) -> u64;
    inert fn rocksdb_blob_file_garbage_info_blob_file_number(
        info: *const rocksdb_blob_file_garbage_info_t,
    ) -> u64;
    empty_text(size)
    fn rocksdb_blob_file_garbage_info_blob_file_path(
        info: *const rocksdb_blob_file_garbage_info_t,
        size: out usize,
    ) -> *const c_char;
    inert fn rocksdb_blob_file_garbage_info_garbage_blob_bytes(
        info: *const rocksdb_blob_file_garbage_info_t,
    ) -> u64;
    inert fn rocksdb_blob_file_garbage_info_garbage_blob_count(
        info: *const rocksdb_blob_file_garbage_info_t,
    ) -> u64;
    inert fn rocksdb_compaction_file_info_file_number(
        info: *const rocksdb_compaction_file_info_t,
    ) -> u64;
    inert fn rocksdb_compaction_file_info_level(
        info: *const rocksdb_compaction_file_info_t,
    ) -> c_int;
    inert fn rocksdb_compaction_file_info_oldest_blob_file_number(
        info: *const rocksdb_compaction_file_info_t,
    ) -> u64;
    inert fn rocksdb_compaction_job_stats_cpu_micros(
        stats: *const rocksdb_compaction_job_stats_t,
    ) -> u64;
    inert fn rocksdb_compaction_job_stats_elapsed_micros(
        stats: *const rocksdb_compaction_job_stats_t,
    ) -> u64;
    inert fn rocksdb_compaction_job_stats_file_fsync_nanos(
        stats: *const rocksdb_compaction_job_stats_t,
    ) -> u64;
    inert fn rocksdb_compaction_job_stats_file_prepare_write_nanos(
        stats: *const rocksdb_compaction_job_stats_t,
    ) -> u64;
    inert fn rocksdb_compaction_job_stats_file_range_sync_nanos(
        stats: *const rocksdb_compaction_job_stats_t,
    ) -> u64;
    inert fn rocksdb_compaction_job_stats_file_write_nanos(
        stats: *const rocksdb_compaction_job_stats_t,
    ) -> u64;
    inert fn rocksdb_compaction_job_stats_has_accurate_num_input_records(
        stats: *const rocksdb_compaction_job_stats_t,
    ) -> c_uchar;
    inert fn rocksdb_compaction_job_stats_is_full_compaction(
        stats: *const rocksdb_compaction_job_stats_t,
    ) -> c_uchar;
    inert fn rocksdb_compaction_job_stats_is_manual_compaction(
        stats: *const rocksdb_compaction_job_stats_t,
    ) -> c_uchar;
    inert fn rocksdb_compaction_job_stats_is_remote_compaction(
        stats: *const rocksdb_compaction_job_stats_t,
    ) -> c_uchar;
    empty_text(size)
    fn rocksdb_compaction_job_stats_largest_output_key_prefix(
        stats: *const rocksdb_compaction_job_stats_t,
        size: out usize,
    ) -> *const c_char;
    inert fn rocksdb_compaction_job_stats_num_blobs_read(
        stats: *const rocksdb_compaction_job_stats_t,
    ) -> u64;
    inert fn rocksdb_compaction_job_stats_num_corrupt_keys(
        stats: *const rocksdb_compaction_job_stats_t,
    ) -> u64;
    inert fn rocksdb_compaction_job_stats_num_expired_deletion_records(
        stats: *const rocksdb_compaction_job_stats_t,
    ) -> u64;
    inert fn rocksdb_compaction_job_stats_num_filtered_input_files(
        stats: *const rocksdb_compaction_job_stats_t,
    ) -> usize;
    inert fn rocksdb_compaction_job_stats_num_filtered_input_files_at_output_level(
        stats: *const rocksdb_compaction_job_stats_t,
    ) -> usize;
    inert fn rocksdb_compaction_job_stats_num_input_deletion_records(
        stats: *const rocksdb_compaction_job_stats_t,
    ) -> u64;
    inert fn rocksdb_compaction_job_stats_num_input_files(
        stats: *const rocksdb_compaction_job_stats_t,
    ) -> usize;
    inert fn rocksdb_compaction_job_stats_num_input_files_at_output_level(
        stats: *const rocksdb_compaction_job_stats_t,
    ) -> usize;
    inert fn rocksdb_compaction_job_stats_num_input_files_trivially_moved(
        stats: *const rocksdb_compaction_job_stats_t,
    ) -> usize;
    inert fn rocksdb_compaction_job_stats_num_input_records(
        stats: *const rocksdb_compaction_job_stats_t,
    ) -> u64;
    inert fn rocksdb_compaction_job_stats_num_output_files(
        stats: *const rocksdb_compaction_job_stats_t,
    ) -> usize;
    inert fn rocksdb_compaction_job_stats_num_output_files_blob(
        stats: *const rocksdb_compaction_job_stats_t,
    ) -> usize;
    inert fn rocksdb_compaction_job_stats_num_output_records(
        stats: *const rocksdb_compaction_job_stats_t,
    ) -> u64;
    inert fn rocksdb_compaction_job_stats_num_records_replaced(
        stats: *const rocksdb_compaction_job_stats_t,
    ) -> u64;
    inert fn rocksdb_compaction_job_stats_num_single_del_fallthru(
        stats: *const rocksdb_compaction_job_stats_t,
    ) -> u64;
    inert fn rocksdb_compaction_job_stats_num_single_del_mismatch(
        stats: *const rocksdb_compaction_job_stats_t,
    ) -> u64;
    empty_text(size)
    fn rocksdb_compaction_job_stats_smallest_output_key_prefix(
        stats: *const rocksdb_compaction_job_stats_t,
        size: out usize,
    ) -> *const c_char;
    inert fn rocksdb_compaction_job_stats_total_blob_bytes_read(
        stats: *const rocksdb_compaction_job_stats_t,
    ) -> u64;
    inert fn rocksdb_compaction_job_stats_total_input_bytes(
        stats: *const rocksdb_compaction_job_stats_t,
    ) -> u64;
    inert fn rocksdb_compaction_job_stats_total_input_raw_key_bytes(
        stats: *const rocksdb_compaction_job_stats_t,
    ) -> u64;
    inert fn rocksdb_compaction_job_stats_total_input_raw_value_bytes(
        stats: *const rocksdb_compaction_job_stats_t,
    ) -> u64;
    inert fn rocksdb_compaction_job_stats_total_output_bytes(
        stats: *const rocksdb_compaction_job_stats_t,
    ) -> u64;
    inert fn rocksdb_compaction_job_stats_total_output_bytes_blob(
        stats: *const rocksdb_compaction_job_stats_t,
    ) -> u64;
    inert fn rocksdb_compaction_job_stats_total_skipped_input_bytes(
        stats: *const rocksdb_compaction_job_stats_t,
    ) -> u64;
    inert fn rocksdb_compactionjobinfo_aborted(info: *const rocksdb_compactionjobinfo_t) -> c_uchar;
    inert fn rocksdb_compactionjobinfo_base_input_level(
        info: *const rocksdb_compactionjobinfo_t,
    ) -> c_int;
    inert fn rocksdb_compactionjobinfo_blob_compression_type(
        info: *const rocksdb_compactionjobinfo_t,
    ) -> u32;
    inert fn rocksdb_compactionjobinfo_blob_file_addition_info_at(
        info: *const rocksdb_compactionjobinfo_t,
        pos: usize,
    ) -> *const rocksdb_blob_file_addition_info_t;
    inert fn rocksdb_compactionjobinfo_blob_file_addition_infos_count(
        info: *const rocksdb_compactionjobinfo_t,
    ) -> usize;
    inert fn rocksdb_compactionjobinfo_blob_file_garbage_info_at(
        info: *const rocksdb_compactionjobinfo_t,
        pos: usize,
    ) -> *const rocksdb_blob_file_garbage_info_t;
    inert fn rocksdb_compactionjobinfo_blob_file_garbage_infos_count(
        info: *const rocksdb_compactionjobinfo_t,
    ) -> usize;
    inert fn rocksdb_compactionjobinfo_cf_id(info: *const rocksdb_compactionjobinfo_t) -> u32;
    empty_text(size)
    fn rocksdb_compactionjobinfo_cf_name(
        info: *const rocksdb_compactionjobinfo_t,
        size: out usize,
    ) -> *const c_char;
    inert fn rocksdb_compactionjobinfo_compaction_reason(
        info: *const rocksdb_compactionjobinfo_t,
    ) -> u32;
    inert fn rocksdb_compactionjobinfo_compression(info: *const rocksdb_compactionjobinfo_t) -> u32;
    stand_in fn rocksdb_compactionjobinfo_create() -> *mut rocksdb_compactionjobinfo_t;
    release(info) fn rocksdb_compactionjobinfo_destroy(info: own rocksdb_compactionjobinfo_t);
    inert fn rocksdb_compactionjobinfo_elapsed_micros(
        info: *const rocksdb_compactionjobinfo_t,
    ) -> u64;
    empty_text(size)
    fn rocksdb_compactionjobinfo_input_file_at(
        info: *const rocksdb_compactionjobinfo_t,
        pos: usize,
        size: out usize,
    ) -> *const c_char;
    inert fn rocksdb_compactionjobinfo_input_file_info_at(
        info: *const rocksdb_compactionjobinfo_t,
        pos: usize,
    ) -> *const rocksdb_compaction_file_info_t;
    inert fn rocksdb_compactionjobinfo_input_file_infos_count(
        info: *const rocksdb_compactionjobinfo_t,
    ) -> usize;
    inert fn rocksdb_compactionjobinfo_input_files_count(
        info: *const rocksdb_compactionjobinfo_t,
    ) -> usize;
    inert fn rocksdb_compactionjobinfo_input_records(
        info: *const rocksdb_compactionjobinfo_t,
    ) -> u64;
    inert fn rocksdb_compactionjobinfo_job_id(info: *const rocksdb_compactionjobinfo_t) -> c_int;
    inert fn rocksdb_compactionjobinfo_num_corrupt_keys(
        info: *const rocksdb_compactionjobinfo_t,
    ) -> u64;
    inert fn rocksdb_compactionjobinfo_num_input_files(
        info: *const rocksdb_compactionjobinfo_t,
    ) -> usize;
    inert fn rocksdb_compactionjobinfo_num_input_files_at_output_level(
        info: *const rocksdb_compactionjobinfo_t,
    ) -> usize;
    inert fn rocksdb_compactionjobinfo_num_l0_files(
        info: *const rocksdb_compactionjobinfo_t,
    ) -> c_int;
    empty_text(size)
    fn rocksdb_compactionjobinfo_output_file_at(
        info: *const rocksdb_compactionjobinfo_t,
        pos: usize,
        size: out usize,
    ) -> *const c_char;
    inert fn rocksdb_compactionjobinfo_output_file_info_at(
        info: *const rocksdb_compactionjobinfo_t,
        pos: usize,
    ) -> *const rocksdb_compaction_file_info_t;
    inert fn rocksdb_compactionjobinfo_output_file_infos_count(
        info: *const rocksdb_compactionjobinfo_t,
    ) -> usize;
    inert fn rocksdb_compactionjobinfo_output_files_count(
        info: *const rocksdb_compactionjobinfo_t,
    ) -> usize;
    inert fn rocksdb_compactionjobinfo_output_level(
        info: *const rocksdb_compactionjobinfo_t,
    ) -> c_int;
    inert fn rocksdb_compactionjobinfo_output_records(
        info: *const rocksdb_compactionjobinfo_t,
    ) -> u64;
    inert fn rocksdb_compactionjobinfo_stats(
        info: *const rocksdb_compactionjobinfo_t,
    ) -> *const rocksdb_compaction_job_stats_t;
    refuse fn rocksdb_compactionjobinfo_status(info: *const rocksdb_compactionjobinfo_t, errptr);
    inert fn rocksdb_compactionjobinfo_table_properties_count(
        info: *const rocksdb_compactionjobinfo_t,
    ) -> usize;
    inert fn rocksdb_compactionjobinfo_table_properties_for_file(
        info: *const rocksdb_compactionjobinfo_t,
        file_name: *const c_char,
        file_name_len: usize,
    ) -> *const rocksdb_table_properties_t;
    empty_text(key_len)
    fn rocksdb_compactionjobinfo_table_properties_key_at(
        info: *const rocksdb_compactionjobinfo_t,
        pos: usize,
        key_len: out usize,
    ) -> *const c_char;
    inert fn rocksdb_compactionjobinfo_table_properties_value_at(
        info: *const rocksdb_compactionjobinfo_t,
        pos: usize,
    ) -> *const rocksdb_table_properties_t;
    inert fn rocksdb_compactionjobinfo_thread_id(info: *const rocksdb_compactionjobinfo_t) -> u64;
    inert fn rocksdb_compactionjobinfo_total_input_bytes(
        info: *const rocksdb_compactionjobinfo_t,
    ) -> u64;
    inert fn rocksdb_compactionjobinfo_total_output_bytes(
        info: *const rocksdb_compactionjobinfo_t,
    ) -> u64;
    stand_in fn rocksdb_eventlistener_create(
        state: *mut c_void,
        destructor: Option<unsafe extern "C-unwind" fn(*mut c_void)>,
        on_flush_begin: on_flush_begin_cb,
        on_flush_completed: on_flush_completed_cb,
        on_compaction_begin: on_compaction_begin_cb,
        on_compaction_completed: on_compaction_completed_cb,
        on_subcompaction_begin: on_subcompaction_begin_cb,
        on_subcompaction_completed: on_subcompaction_completed_cb,
        on_external_file_ingested: on_external_file_ingested_cb,
        on_background_error: on_background_error_cb,
        on_stall_conditions_changed: on_stall_conditions_changed_cb,
        on_memtable_sealed: on_memtable_sealed_cb,
    ) -> *mut rocksdb_eventlistener_t;
    release(eventlistener)
    fn rocksdb_eventlistener_destroy(eventlistener: own rocksdb_eventlistener_t);
    empty_text(size)
    fn rocksdb_externalfileingestioninfo_cf_name(
        info: *const rocksdb_externalfileingestioninfo_t,
        size: out usize,
    ) -> *const c_char;
    empty_text(size)
    fn rocksdb_externalfileingestioninfo_external_file_path(
        info: *const rocksdb_externalfileingestioninfo_t,
        size: out usize,
    ) -> *const c_char;
    inert fn rocksdb_externalfileingestioninfo_global_seqno(
        info: *const rocksdb_externalfileingestioninfo_t,
    ) -> u64;
    empty_text(size)
    fn rocksdb_externalfileingestioninfo_internal_file_path(
        info: *const rocksdb_externalfileingestioninfo_t,
        size: out usize,
    ) -> *const c_char;
    inert fn rocksdb_externalfileingestioninfo_table_properties(
        info: *const rocksdb_externalfileingestioninfo_t,
    ) -> *const rocksdb_table_properties_t;
    inert fn rocksdb_flushjobinfo_blob_compression_type(info: *const rocksdb_flushjobinfo_t) -> u32;
    inert fn rocksdb_flushjobinfo_blob_file_addition_info_at(
        info: *const rocksdb_flushjobinfo_t,
        pos: usize,
    ) -> *const rocksdb_blob_file_addition_info_t;
    inert fn rocksdb_flushjobinfo_blob_file_addition_infos_count(
        info: *const rocksdb_flushjobinfo_t,
    ) -> usize;
    inert fn rocksdb_flushjobinfo_cf_id(info: *const rocksdb_flushjobinfo_t) -> u32;
    empty_text(size)
    fn rocksdb_flushjobinfo_cf_name(
        info: *const rocksdb_flushjobinfo_t,
        size: out usize,
    ) -> *const c_char;
    inert fn rocksdb_flushjobinfo_file_number(info: *const rocksdb_flushjobinfo_t) -> u64;
    empty_text(size)
    fn rocksdb_flushjobinfo_file_path(
        info: *const rocksdb_flushjobinfo_t,
        size: out usize,
    ) -> *const c_char;
    inert fn rocksdb_flushjobinfo_flush_reason(info: *const rocksdb_flushjobinfo_t) -> u32;
    inert fn rocksdb_flushjobinfo_job_id(info: *const rocksdb_flushjobinfo_t) -> c_int;
    inert fn rocksdb_flushjobinfo_largest_seqno(info: *const rocksdb_flushjobinfo_t) -> u64;
    inert fn rocksdb_flushjobinfo_oldest_blob_file_number(
        info: *const rocksdb_flushjobinfo_t,
    ) -> u64;
    inert fn rocksdb_flushjobinfo_smallest_seqno(info: *const rocksdb_flushjobinfo_t) -> u64;
    inert fn rocksdb_flushjobinfo_table_properties(
        info: *const rocksdb_flushjobinfo_t,
    ) -> *const rocksdb_table_properties_t;
    inert fn rocksdb_flushjobinfo_thread_id(info: *const rocksdb_flushjobinfo_t) -> u64;
    inert fn rocksdb_flushjobinfo_triggered_writes_slowdown(
        info: *const rocksdb_flushjobinfo_t,
    ) -> c_uchar;
    inert fn rocksdb_flushjobinfo_triggered_writes_stop(
        info: *const rocksdb_flushjobinfo_t,
    ) -> c_uchar;
    stand_in fn rocksdb_logger_create_callback_logger(
        log_level: c_int,
        value: Option<unsafe extern "C-unwind" fn(
            context: *mut c_void,
            lev: c_uint,
            msg: *mut c_char,
            len: usize,
        )>,
        context: *mut c_void,
    ) -> *mut rocksdb_logger_t;
    stand_in fn rocksdb_logger_create_stderr_logger(
        log_level: c_int,
        prefix: *const c_char,
    ) -> *mut rocksdb_logger_t;
    release(logger) fn rocksdb_logger_destroy(logger: own rocksdb_logger_t);
    empty_text(size)
    fn rocksdb_memtableinfo_cf_name(
        info: *const rocksdb_memtableinfo_t,
        size: out usize,
    ) -> *const c_char;
    inert fn rocksdb_memtableinfo_earliest_seqno(info: *const rocksdb_memtableinfo_t) -> u64;
    inert fn rocksdb_memtableinfo_first_seqno(info: *const rocksdb_memtableinfo_t) -> u64;
    inert fn rocksdb_memtableinfo_num_deletes(info: *const rocksdb_memtableinfo_t) -> u64;
    inert fn rocksdb_memtableinfo_num_entries(info: *const rocksdb_memtableinfo_t) -> u64;
    mark_if(opt, eventlistener)
    fn rocksdb_options_add_eventlistener(
        opt: shared rocksdb_options_t,
        eventlistener: *mut rocksdb_eventlistener_t,
    );
    inert fn rocksdb_options_get_info_log(opt: *mut rocksdb_options_t) -> *mut rocksdb_logger_t;
    inert fn rocksdb_reset_status(status_ptr: *mut rocksdb_status_ptr_t);
    refuse fn rocksdb_status_ptr_get_error(status: *mut rocksdb_status_ptr_t, errptr);
    inert fn rocksdb_subcompactionjobinfo_base_input_level(
        info: *const rocksdb_subcompactionjobinfo_t,
    ) -> c_int;
    inert fn rocksdb_subcompactionjobinfo_blob_compression_type(
        info: *const rocksdb_subcompactionjobinfo_t,
    ) -> u32;
    inert fn rocksdb_subcompactionjobinfo_cf_id(info: *const rocksdb_subcompactionjobinfo_t) -> u32;
    empty_text(size)
    fn rocksdb_subcompactionjobinfo_cf_name(
        info: *const rocksdb_subcompactionjobinfo_t,
        size: out usize,
    ) -> *const c_char;
    inert fn rocksdb_subcompactionjobinfo_compaction_reason(
        info: *const rocksdb_subcompactionjobinfo_t,
    ) -> u32;
    inert fn rocksdb_subcompactionjobinfo_compression(
        info: *const rocksdb_subcompactionjobinfo_t,
    ) -> u32;
    inert fn rocksdb_subcompactionjobinfo_job_id(
        info: *const rocksdb_subcompactionjobinfo_t,
    ) -> c_int;
    inert fn rocksdb_subcompactionjobinfo_output_level(
        info: *const rocksdb_subcompactionjobinfo_t,
    ) -> c_int;
    inert fn rocksdb_subcompactionjobinfo_stats(
        info: *const rocksdb_subcompactionjobinfo_t,
    ) -> *const rocksdb_compaction_job_stats_t;
    refuse fn rocksdb_subcompactionjobinfo_status(
        info: *const rocksdb_subcompactionjobinfo_t,
        errptr,
    );
    inert fn rocksdb_subcompactionjobinfo_subcompaction_job_id(
        info: *const rocksdb_subcompactionjobinfo_t,
    ) -> c_int;
    inert fn rocksdb_subcompactionjobinfo_thread_id(
        info: *const rocksdb_subcompactionjobinfo_t,
    ) -> u64;
    empty_text(size)
    fn rocksdb_writestallinfo_cf_name(
        info: *const rocksdb_writestallinfo_t,
        size: out usize,
    ) -> *const c_char;
    inert fn rocksdb_writestallinfo_cur(
        info: *const rocksdb_writestallinfo_t,
    ) -> *const rocksdb_writestallcondition_t;
    inert fn rocksdb_writestallinfo_prev(
        info: *const rocksdb_writestallinfo_t,
    ) -> *const rocksdb_writestallcondition_t;
}
