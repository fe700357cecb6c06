//! The objects and callbacks of groups that are not implemented.

use std::ffi::{c_char, c_int, c_uchar, c_ulonglong, c_void};

use super::StandIn;
use crate::batch::rocksdb_writebatch_t;
use crate::database::rocksdb_t;

/// Declares objects of groups that are not implemented.
macro_rules! objects {
    ($($name:ident)*) => {
        $(
            /// An object of a group that is not implemented.
            pub(crate) struct $name {
                _nothing: u8,
            }

            impl StandIn for $name {
                fn stand_in(_function: &'static str) -> Self {
                    Self { _nothing: 0 }
                }
            }
        )*
    };
}

objects! {
    rocksdb_backup_engine_info_t
    rocksdb_backup_engine_options_t
    rocksdb_backup_engine_t
    rocksdb_blob_file_addition_info_t
    rocksdb_blob_file_garbage_info_t
    rocksdb_block_cache_trace_options_t
    rocksdb_block_cache_trace_writer_options_t
    rocksdb_column_family_metadata_options_t
    rocksdb_column_family_metadata_t
    rocksdb_compaction_file_info_t
    rocksdb_compaction_job_stats_t
    rocksdb_compaction_options_t
    rocksdb_compaction_service_options_override_t
    rocksdb_compactionfiltercontext_t
    rocksdb_compactionfilterfactory_t
    rocksdb_compactionjobinfo_t
    rocksdb_compactionservice_jobinfo_t
    rocksdb_compactionservice_scheduleresponse_t
    rocksdb_compactionservice_t
    rocksdb_create_backup_options_t
    rocksdb_cuckoo_table_options_t
    rocksdb_eventlistener_t
    rocksdb_export_import_files_metadata_t
    rocksdb_externalfileingestioninfo_t
    rocksdb_file_checksum_gen_factory_t
    rocksdb_flushjobinfo_t
    rocksdb_flushwaloptions_t
    rocksdb_import_column_family_options_t
    rocksdb_level_metadata_t
    rocksdb_livefile_t
    rocksdb_livefiles_storage_info_options_t
    rocksdb_livefiles_storage_info_t
    rocksdb_logger_t
    rocksdb_memtableinfo_t
    rocksdb_open_and_compact_options_t
    rocksdb_optimistictransaction_options_t
    rocksdb_optimistictransactiondb_lock_buckets_t
    rocksdb_optimistictransactiondb_options_t
    rocksdb_optimistictransactiondb_t
    rocksdb_perfcontext_t
    rocksdb_replay_options_t
    rocksdb_replayer_t
    rocksdb_restore_options_t
    rocksdb_sst_file_metadata_t
    rocksdb_sst_partitioner_factory_t
    rocksdb_status_ptr_t
    rocksdb_subcompactionjobinfo_t
    rocksdb_table_properties_collector_factory_t
    rocksdb_table_properties_t
    rocksdb_trace_options_t
    rocksdb_trace_reader_t
    rocksdb_transaction_options_t
    rocksdb_transaction_t
    rocksdb_transactiondb_options_t
    rocksdb_transactiondb_t
    rocksdb_wal_file_t
    rocksdb_wal_files_t
    rocksdb_walfilter_t
    rocksdb_writebatch_wi_t
    rocksdb_writestallcondition_t
    rocksdb_writestallinfo_t
}

pub(crate) type rocksdb_compaction_service_schedule_cb = Option<
    unsafe extern "C-unwind" fn(
        state: *mut c_void,
        info: *const rocksdb_compactionservice_jobinfo_t,
        compaction_service_input: *const c_char,
        input_len: usize,
    ) -> *mut rocksdb_compactionservice_scheduleresponse_t,
>;
pub(crate) type rocksdb_compaction_service_wait_cb = Option<
    unsafe extern "C-unwind" fn(
        state: *mut c_void,
        scheduled_job_id: *const c_char,
        result: *mut *mut c_char,
        result_len: *mut usize,
    ) -> c_int,
>;
pub(crate) type rocksdb_compaction_service_cancel_awaiting_jobs_cb =
    Option<unsafe extern "C-unwind" fn(state: *mut c_void)>;
pub(crate) type rocksdb_compaction_service_on_installation_cb = Option<
    unsafe extern "C-unwind" fn(state: *mut c_void, scheduled_job_id: *const c_char, status: c_int),
>;
pub(crate) type rocksdb_create_backup_options_progress_cb =
    Option<unsafe extern "C-unwind" fn(state: *mut c_void)>;
pub(crate) type rocksdb_create_backup_options_exclude_files_cb = Option<
    unsafe extern "C-unwind" fn(
        state: *mut c_void,
        relative_file: *const c_char,
        relative_file_len: usize,
    ) -> c_uchar,
>;
pub(crate) type rocksdb_readoptions_table_filter_cb = Option<
    unsafe extern "C-unwind" fn(
        state: *mut c_void,
        table_properties: *const rocksdb_table_properties_t,
    ) -> c_uchar,
>;
pub(crate) type rocksdb_walfilter_column_family_log_number_map_cb = Option<
    unsafe extern "C-unwind" fn(
        state: *mut c_void,
        column_family_ids: *const u32,
        log_numbers: *const u64,
        column_family_log_number_count: usize,
        column_family_names: *const *const c_char,
        column_family_name_lengths: *const usize,
        column_family_name_ids: *const u32,
        column_family_name_count: usize,
    ),
>;
pub(crate) type rocksdb_walfilter_log_record_found_cb = Option<
    unsafe extern "C-unwind" fn(
        state: *mut c_void,
        log_number: c_ulonglong,
        log_file_name: *const c_char,
        log_file_name_len: usize,
        batch: *const rocksdb_writebatch_t,
        new_batch: *mut rocksdb_writebatch_t,
        batch_changed: *mut c_uchar,
    ) -> c_int,
>;
pub(crate) type on_flush_begin_cb =
    Option<unsafe extern "C-unwind" fn(*mut c_void, *mut rocksdb_t, *const rocksdb_flushjobinfo_t)>;
pub(crate) type on_flush_completed_cb =
    Option<unsafe extern "C-unwind" fn(*mut c_void, *mut rocksdb_t, *const rocksdb_flushjobinfo_t)>;
pub(crate) type on_compaction_begin_cb = Option<
    unsafe extern "C-unwind" fn(*mut c_void, *mut rocksdb_t, *const rocksdb_compactionjobinfo_t),
>;
pub(crate) type on_compaction_completed_cb = Option<
    unsafe extern "C-unwind" fn(*mut c_void, *mut rocksdb_t, *const rocksdb_compactionjobinfo_t),
>;
pub(crate) type on_subcompaction_begin_cb =
    Option<unsafe extern "C-unwind" fn(*mut c_void, *const rocksdb_subcompactionjobinfo_t)>;
pub(crate) type on_subcompaction_completed_cb =
    Option<unsafe extern "C-unwind" fn(*mut c_void, *const rocksdb_subcompactionjobinfo_t)>;
pub(crate) type on_external_file_ingested_cb = Option<
    unsafe extern "C-unwind" fn(
        *mut c_void,
        *mut rocksdb_t,
        *const rocksdb_externalfileingestioninfo_t,
    ),
>;
pub(crate) type on_background_error_cb =
    Option<unsafe extern "C-unwind" fn(*mut c_void, u32, *mut rocksdb_status_ptr_t)>;
pub(crate) type on_stall_conditions_changed_cb =
    Option<unsafe extern "C-unwind" fn(*mut c_void, *const rocksdb_writestallinfo_t)>;
#[expect(dead_code, reason = "no function has this type, but the header declares it")]
pub(crate) type rocksdb_logger_logv_cb =
    Option<unsafe extern "C-unwind" fn(*mut c_void, log_level: u32, *const c_char)>;
pub(crate) type on_memtable_sealed_cb =
    Option<unsafe extern "C-unwind" fn(*mut c_void, *const rocksdb_memtableinfo_t)>;
