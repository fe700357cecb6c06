//! Remote compactions.

use super::prelude::*;

missing! {
    inert fn rocksdb_compaction_service_options_override_add_event_listener(
        override_options: *mut rocksdb_compaction_service_options_override_t,
        event_listener: *mut rocksdb_eventlistener_t,
    );
    inert fn rocksdb_compaction_service_options_override_add_table_properties_collector_factory(
        override_options: *mut rocksdb_compaction_service_options_override_t,
        factory: *mut rocksdb_table_properties_collector_factory_t,
    );
    stand_in fn rocksdb_compaction_service_options_override_create(
    ) -> *mut rocksdb_compaction_service_options_override_t;
    stand_in fn rocksdb_compaction_service_options_override_create_from_options(
        option: *mut rocksdb_options_t,
    ) -> *mut rocksdb_compaction_service_options_override_t;
    release(override_options)
    fn rocksdb_compaction_service_options_override_destroy(
        override_options: own rocksdb_compaction_service_options_override_t,
    );
    inert fn rocksdb_compaction_service_options_override_set_block_based_table_factory(
        override_options: *mut rocksdb_compaction_service_options_override_t,
        table_options: *mut rocksdb_block_based_table_options_t,
    );
    inert fn rocksdb_compaction_service_options_override_set_compaction_filter(
        override_options: *mut rocksdb_compaction_service_options_override_t,
        compaction_filter: *mut rocksdb_compactionfilter_t,
    );
    inert fn rocksdb_compaction_service_options_override_set_compaction_filter_factory(
        override_options: *mut rocksdb_compaction_service_options_override_t,
        compaction_filter_factory: *mut rocksdb_compactionfilterfactory_t,
    );
    inert fn rocksdb_compaction_service_options_override_set_comparator(
        override_options: *mut rocksdb_compaction_service_options_override_t,
        comparator: *mut rocksdb_comparator_t,
    );
    inert fn rocksdb_compaction_service_options_override_set_cuckoo_table_factory(
        override_options: *mut rocksdb_compaction_service_options_override_t,
        table_options: *mut rocksdb_cuckoo_table_options_t,
    );
    inert fn rocksdb_compaction_service_options_override_set_env(
        override_options: *mut rocksdb_compaction_service_options_override_t,
        env: *mut rocksdb_env_t,
    );
    inert fn rocksdb_compaction_service_options_override_set_file_checksum_gen_factory(
        override_options: *mut rocksdb_compaction_service_options_override_t,
        factory: *mut rocksdb_file_checksum_gen_factory_t,
    );
    inert fn rocksdb_compaction_service_options_override_set_info_log(
        override_options: *mut rocksdb_compaction_service_options_override_t,
        logger: *mut rocksdb_logger_t,
    );
    inert fn rocksdb_compaction_service_options_override_set_merge_operator(
        override_options: *mut rocksdb_compaction_service_options_override_t,
        merge_operator: *mut rocksdb_mergeoperator_t,
    );
    inert fn rocksdb_compaction_service_options_override_set_option(
        override_options: *mut rocksdb_compaction_service_options_override_t,
        key: *const c_char,
        value: *const c_char,
    );
    inert fn rocksdb_compaction_service_options_override_set_prefix_extractor(
        override_options: *mut rocksdb_compaction_service_options_override_t,
        prefix_extractor: *mut rocksdb_slicetransform_t,
    );
    inert fn rocksdb_compaction_service_options_override_set_sst_partitioner_factory(
        override_options: *mut rocksdb_compaction_service_options_override_t,
        factory: *mut rocksdb_sst_partitioner_factory_t,
    );
    inert fn rocksdb_compaction_service_options_override_set_statistics(
        override_options: *mut rocksdb_compaction_service_options_override_t,
        options: *mut rocksdb_options_t,
    );
    stand_in fn rocksdb_compactionservice_create(
        state: *mut c_void,
        destructor: Option<unsafe extern "C-unwind" fn(*mut c_void)>,
        schedule: rocksdb_compaction_service_schedule_cb,
        name: *const c_char,
        wait: rocksdb_compaction_service_wait_cb,
        cancel_awaiting_jobs: rocksdb_compaction_service_cancel_awaiting_jobs_cb,
        on_installation: rocksdb_compaction_service_on_installation_cb,
    ) -> *mut rocksdb_compactionservice_t;
    inert fn rocksdb_compactionservice_jobinfo_t_get_base_input_level(
        info: *const rocksdb_compactionservice_jobinfo_t,
    ) -> c_int;
    inert fn rocksdb_compactionservice_jobinfo_t_get_cf_id(
        info: *const rocksdb_compactionservice_jobinfo_t,
    ) -> u32;
    empty_text(len)
    fn rocksdb_compactionservice_jobinfo_t_get_cf_name(
        info: *const rocksdb_compactionservice_jobinfo_t,
        len: out usize,
    ) -> *const c_char;
    inert fn rocksdb_compactionservice_jobinfo_t_get_compaction_reason(
        info: *const rocksdb_compactionservice_jobinfo_t,
    ) -> c_int;
    empty_text(len)
    fn rocksdb_compactionservice_jobinfo_t_get_db_id(
        info: *const rocksdb_compactionservice_jobinfo_t,
        len: out usize,
    ) -> *const c_char;
    empty_text(len)
    fn rocksdb_compactionservice_jobinfo_t_get_db_name(
        info: *const rocksdb_compactionservice_jobinfo_t,
        len: out usize,
    ) -> *const c_char;
    empty_text(len)
    fn rocksdb_compactionservice_jobinfo_t_get_db_session_id(
        info: *const rocksdb_compactionservice_jobinfo_t,
        len: out usize,
    ) -> *const c_char;
    inert fn rocksdb_compactionservice_jobinfo_t_get_job_id(
        info: *const rocksdb_compactionservice_jobinfo_t,
    ) -> u64;
    inert fn rocksdb_compactionservice_jobinfo_t_get_output_level(
        info: *const rocksdb_compactionservice_jobinfo_t,
    ) -> c_int;
    inert fn rocksdb_compactionservice_jobinfo_t_get_priority(
        info: *const rocksdb_compactionservice_jobinfo_t,
    ) -> c_int;
    inert fn rocksdb_compactionservice_jobinfo_t_is_bottommost_level(
        info: *const rocksdb_compactionservice_jobinfo_t,
    ) -> c_uchar;
    inert fn rocksdb_compactionservice_jobinfo_t_is_full_compaction(
        info: *const rocksdb_compactionservice_jobinfo_t,
    ) -> c_uchar;
    inert fn rocksdb_compactionservice_jobinfo_t_is_manual_compaction(
        info: *const rocksdb_compactionservice_jobinfo_t,
    ) -> c_uchar;
    refuse fn rocksdb_compactionservice_scheduleresponse_create(
        scheduled_job_id: *const c_char,
        status: c_int,
        errptr,
    ) -> *mut rocksdb_compactionservice_scheduleresponse_t;
    refuse fn rocksdb_compactionservice_scheduleresponse_create_with_status(
        status: c_int,
        errptr,
    ) -> *mut rocksdb_compactionservice_scheduleresponse_t;
    empty_text(len)
    fn rocksdb_compactionservice_scheduleresponse_get_scheduled_job_id(
        response: *const rocksdb_compactionservice_scheduleresponse_t,
        len: out usize,
    ) -> *const c_char;
    inert fn rocksdb_compactionservice_scheduleresponse_getstatus(
        response: *const rocksdb_compactionservice_scheduleresponse_t,
    ) -> c_int;
    release(response)
    fn rocksdb_compactionservice_scheduleresponse_t_destroy(
        response: own rocksdb_compactionservice_scheduleresponse_t,
    );
    refuse fn rocksdb_open_and_compact(
        db_path: *const c_char,
        output_directory: *const c_char,
        input: *const c_char,
        input_len: usize,
        output_len: *mut usize,
        override_options: *const rocksdb_compaction_service_options_override_t,
        errptr,
    ) -> *mut c_char;
    inert fn rocksdb_open_and_compact_canceled_create() -> *mut c_uchar;
    inert fn rocksdb_open_and_compact_canceled_destroy(canceled: *mut c_uchar);
    inert fn rocksdb_open_and_compact_canceled_set(canceled: *mut c_uchar, value: c_uchar);
    stand_in fn rocksdb_open_and_compact_options_create(
    ) -> *mut rocksdb_open_and_compact_options_t;
    release(options)
    fn rocksdb_open_and_compact_options_destroy(options: own rocksdb_open_and_compact_options_t);
    inert fn rocksdb_open_and_compact_options_get_allow_resumption(
        opt: *mut rocksdb_open_and_compact_options_t,
    ) -> c_uchar;
    inert fn rocksdb_open_and_compact_options_set_allow_resumption(
        options: *mut rocksdb_open_and_compact_options_t,
        allow_resumption: c_uchar,
    );
    inert fn rocksdb_open_and_compact_options_set_canceled(
        options: *mut rocksdb_open_and_compact_options_t,
        canceled: *mut c_uchar,
    );
    refuse fn rocksdb_open_and_compact_with_options(
        options: *const rocksdb_open_and_compact_options_t,
        db_path: *const c_char,
        output_directory: *const c_char,
        input: *const c_char,
        input_len: usize,
        output_len: *mut usize,
        override_options: *const rocksdb_compaction_service_options_override_t,
        errptr,
    ) -> *mut c_char;
    mark_if(options, service)
    fn rocksdb_options_set_compaction_service(
        options: shared rocksdb_options_t,
        service: *mut rocksdb_compactionservice_t,
    );
}
