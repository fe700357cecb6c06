//! Backups.

use super::prelude::*;

missing! {
    inert fn rocksdb_backup_engine_close(be: *mut rocksdb_backup_engine_t);
    refuse fn rocksdb_backup_engine_create_new_backup(
        be: *mut rocksdb_backup_engine_t,
        db: *mut rocksdb_t,
        errptr,
    );
    refuse fn rocksdb_backup_engine_create_new_backup_flush(
        be: *mut rocksdb_backup_engine_t,
        db: *mut rocksdb_t,
        flush_before_backup: c_uchar,
        errptr,
    );
    refuse fn rocksdb_backup_engine_create_new_backup_with_metadata(
        be: *mut rocksdb_backup_engine_t,
        db: *mut rocksdb_t,
        options: *const rocksdb_create_backup_options_t,
        app_metadata: *const c_char,
        app_metadata_len: usize,
        backup_id: *mut u32,
        errptr,
    );
    refuse fn rocksdb_backup_engine_create_new_backup_with_options(
        be: *mut rocksdb_backup_engine_t,
        db: *mut rocksdb_t,
        options: *const rocksdb_create_backup_options_t,
        backup_id: *mut u32,
        errptr,
    );
    inert fn rocksdb_backup_engine_get_backup_info(
        be: *mut rocksdb_backup_engine_t,
    ) -> *const rocksdb_backup_engine_info_t;
    empty_text(len)
    fn rocksdb_backup_engine_info_app_metadata(
        info: *const rocksdb_backup_engine_info_t,
        index: c_int,
        len: out usize,
    ) -> *const c_char;
    inert fn rocksdb_backup_engine_info_backup_id(
        info: *const rocksdb_backup_engine_info_t,
        index: c_int,
    ) -> u32;
    inert fn rocksdb_backup_engine_info_count(info: *const rocksdb_backup_engine_info_t) -> c_int;
    release(info)
    fn rocksdb_backup_engine_info_destroy(info: own_const rocksdb_backup_engine_info_t);
    inert fn rocksdb_backup_engine_info_number_files(
        info: *const rocksdb_backup_engine_info_t,
        index: c_int,
    ) -> u32;
    inert fn rocksdb_backup_engine_info_size(
        info: *const rocksdb_backup_engine_info_t,
        index: c_int,
    ) -> u64;
    inert fn rocksdb_backup_engine_info_timestamp(
        info: *const rocksdb_backup_engine_info_t,
        index: c_int,
    ) -> i64;
    refuse fn rocksdb_backup_engine_open(
        options: *const rocksdb_options_t,
        path: *const c_char,
        errptr,
    ) -> *mut rocksdb_backup_engine_t;
    refuse fn rocksdb_backup_engine_open_opts(
        options: *const rocksdb_backup_engine_options_t,
        env: *mut rocksdb_env_t,
        errptr,
    ) -> *mut rocksdb_backup_engine_t;
    stand_in fn rocksdb_backup_engine_options_create(
        backup_dir: *const c_char,
    ) -> *mut rocksdb_backup_engine_options_t;
    release(backup_engine_options)
    fn rocksdb_backup_engine_options_destroy(
        backup_engine_options: own rocksdb_backup_engine_options_t,
    );
    empty_text(size)
    fn rocksdb_backup_engine_options_get_backup_dir(
        opt: *mut rocksdb_backup_engine_options_t,
        size: out usize,
    ) -> *const c_char;
    inert fn rocksdb_backup_engine_options_get_backup_log_files(
        opt: *mut rocksdb_backup_engine_options_t,
    ) -> c_uchar;
    inert fn rocksdb_backup_engine_options_get_backup_rate_limit(
        opt: *mut rocksdb_backup_engine_options_t,
    ) -> u64;
    inert fn rocksdb_backup_engine_options_get_callback_trigger_interval_size(
        opt: *mut rocksdb_backup_engine_options_t,
    ) -> u64;
    inert fn rocksdb_backup_engine_options_get_current_temperatures_override_manifest(
        opt: *mut rocksdb_backup_engine_options_t,
    ) -> c_uchar;
    inert fn rocksdb_backup_engine_options_get_destroy_old_data(
        opt: *mut rocksdb_backup_engine_options_t,
    ) -> c_uchar;
    inert fn rocksdb_backup_engine_options_get_io_buffer_size(
        opt: *mut rocksdb_backup_engine_options_t,
    ) -> u64;
    inert fn rocksdb_backup_engine_options_get_max_background_operations(
        opt: *mut rocksdb_backup_engine_options_t,
    ) -> c_int;
    inert fn rocksdb_backup_engine_options_get_max_valid_backups_to_open(
        opt: *mut rocksdb_backup_engine_options_t,
    ) -> c_int;
    inert fn rocksdb_backup_engine_options_get_restore_rate_limit(
        opt: *mut rocksdb_backup_engine_options_t,
    ) -> u64;
    inert fn rocksdb_backup_engine_options_get_schema_version(
        opt: *mut rocksdb_backup_engine_options_t,
    ) -> c_int;
    inert fn rocksdb_backup_engine_options_get_share_files_with_checksum(
        opt: *mut rocksdb_backup_engine_options_t,
    ) -> c_uchar;
    inert fn rocksdb_backup_engine_options_get_share_files_with_checksum_naming(
        opt: *mut rocksdb_backup_engine_options_t,
    ) -> c_int;
    inert fn rocksdb_backup_engine_options_get_share_table_files(
        opt: *mut rocksdb_backup_engine_options_t,
    ) -> c_uchar;
    inert fn rocksdb_backup_engine_options_get_sync(
        opt: *mut rocksdb_backup_engine_options_t,
    ) -> c_uchar;
    inert fn rocksdb_backup_engine_options_set_backup_dir(
        opt: *mut rocksdb_backup_engine_options_t,
        v: *const c_char,
    );
    inert fn rocksdb_backup_engine_options_set_backup_log_files(
        opt: *mut rocksdb_backup_engine_options_t,
        v: c_uchar,
    );
    inert fn rocksdb_backup_engine_options_set_backup_rate_limit(
        opt: *mut rocksdb_backup_engine_options_t,
        v: u64,
    );
    inert fn rocksdb_backup_engine_options_set_backup_rate_limiter(
        options: *mut rocksdb_backup_engine_options_t,
        limiter: *mut rocksdb_ratelimiter_t,
    );
    inert fn rocksdb_backup_engine_options_set_callback_trigger_interval_size(
        opt: *mut rocksdb_backup_engine_options_t,
        v: u64,
    );
    inert fn rocksdb_backup_engine_options_set_current_temperatures_override_manifest(
        opt: *mut rocksdb_backup_engine_options_t,
        v: c_uchar,
    );
    inert fn rocksdb_backup_engine_options_set_destroy_old_data(
        opt: *mut rocksdb_backup_engine_options_t,
        v: c_uchar,
    );
    inert fn rocksdb_backup_engine_options_set_env(
        options: *mut rocksdb_backup_engine_options_t,
        env: *mut rocksdb_env_t,
    );
    inert fn rocksdb_backup_engine_options_set_io_buffer_size(
        opt: *mut rocksdb_backup_engine_options_t,
        v: u64,
    );
    inert fn rocksdb_backup_engine_options_set_max_background_operations(
        opt: *mut rocksdb_backup_engine_options_t,
        v: c_int,
    );
    inert fn rocksdb_backup_engine_options_set_max_valid_backups_to_open(
        opt: *mut rocksdb_backup_engine_options_t,
        v: c_int,
    );
    inert fn rocksdb_backup_engine_options_set_restore_rate_limit(
        opt: *mut rocksdb_backup_engine_options_t,
        v: u64,
    );
    inert fn rocksdb_backup_engine_options_set_restore_rate_limiter(
        options: *mut rocksdb_backup_engine_options_t,
        limiter: *mut rocksdb_ratelimiter_t,
    );
    inert fn rocksdb_backup_engine_options_set_schema_version(
        opt: *mut rocksdb_backup_engine_options_t,
        v: c_int,
    );
    inert fn rocksdb_backup_engine_options_set_share_files_with_checksum(
        opt: *mut rocksdb_backup_engine_options_t,
        v: c_uchar,
    );
    inert fn rocksdb_backup_engine_options_set_share_files_with_checksum_naming(
        opt: *mut rocksdb_backup_engine_options_t,
        v: c_int,
    );
    inert fn rocksdb_backup_engine_options_set_share_table_files(
        opt: *mut rocksdb_backup_engine_options_t,
        v: c_uchar,
    );
    inert fn rocksdb_backup_engine_options_set_sync(
        opt: *mut rocksdb_backup_engine_options_t,
        v: c_uchar,
    );
    refuse fn rocksdb_backup_engine_purge_old_backups(
        be: *mut rocksdb_backup_engine_t,
        num_backups_to_keep: u32,
        errptr,
    );
    refuse fn rocksdb_backup_engine_restore_db_from_backup(
        be: *mut rocksdb_backup_engine_t,
        db_dir: *const c_char,
        wal_dir: *const c_char,
        restore_options: *const rocksdb_restore_options_t,
        backup_id: u32,
        errptr,
    );
    refuse fn rocksdb_backup_engine_restore_db_from_latest_backup(
        be: *mut rocksdb_backup_engine_t,
        db_dir: *const c_char,
        wal_dir: *const c_char,
        restore_options: *const rocksdb_restore_options_t,
        errptr,
    );
    inert fn rocksdb_backup_engine_stop_backup(be: *mut rocksdb_backup_engine_t);
    refuse fn rocksdb_backup_engine_verify_backup(
        be: *mut rocksdb_backup_engine_t,
        backup_id: u32,
        errptr,
    );
    stand_in fn rocksdb_create_backup_options_create() -> *mut rocksdb_create_backup_options_t;
    release(options)
    fn rocksdb_create_backup_options_destroy(options: own rocksdb_create_backup_options_t);
    inert fn rocksdb_create_backup_options_get_atomic_flush(
        opt: *mut rocksdb_create_backup_options_t,
    ) -> c_uchar;
    inert fn rocksdb_create_backup_options_get_background_thread_cpu_priority(
        opt: *mut rocksdb_create_backup_options_t,
    ) -> c_int;
    inert fn rocksdb_create_backup_options_get_decrease_background_thread_cpu_priority(
        opt: *mut rocksdb_create_backup_options_t,
    ) -> c_uchar;
    inert fn rocksdb_create_backup_options_get_flush_before_backup(
        opt: *mut rocksdb_create_backup_options_t,
    ) -> c_uchar;
    inert fn rocksdb_create_backup_options_set_atomic_flush(
        opt: *mut rocksdb_create_backup_options_t,
        v: c_uchar,
    );
    inert fn rocksdb_create_backup_options_set_background_thread_cpu_priority(
        opt: *mut rocksdb_create_backup_options_t,
        v: c_int,
    );
    inert fn rocksdb_create_backup_options_set_decrease_background_thread_cpu_priority(
        opt: *mut rocksdb_create_backup_options_t,
        v: c_uchar,
    );
    inert fn rocksdb_create_backup_options_set_exclude_files_callback(
        options: *mut rocksdb_create_backup_options_t,
        state: *mut c_void,
        callback: rocksdb_create_backup_options_exclude_files_cb,
    );
    inert fn rocksdb_create_backup_options_set_flush_before_backup(
        opt: *mut rocksdb_create_backup_options_t,
        v: c_uchar,
    );
    inert fn rocksdb_create_backup_options_set_progress_callback(
        options: *mut rocksdb_create_backup_options_t,
        state: *mut c_void,
        callback: rocksdb_create_backup_options_progress_cb,
    );
    stand_in fn rocksdb_restore_options_create() -> *mut rocksdb_restore_options_t;
    release(opt) fn rocksdb_restore_options_destroy(opt: own rocksdb_restore_options_t);
    inert fn rocksdb_restore_options_get_keep_log_files(
        opt: *mut rocksdb_restore_options_t,
    ) -> c_uchar;
    inert fn rocksdb_restore_options_get_mode(opt: *mut rocksdb_restore_options_t) -> c_int;
    inert fn rocksdb_restore_options_set_keep_log_files(
        opt: *mut rocksdb_restore_options_t,
        v: c_int,
    );
    inert fn rocksdb_restore_options_set_mode(opt: *mut rocksdb_restore_options_t, v: c_int);
}
