//! Metadata of column families and files, export and import, choice of files to compact.

use super::prelude::*;

missing! {
    refuse fn rocksdb_checkpoint_export_column_family(
        checkpoint: *mut rocksdb_checkpoint_t,
        column_family: *mut rocksdb_column_family_handle_t,
        export_dir: *const c_char,
        errptr,
    ) -> *mut rocksdb_export_import_files_metadata_t;
    release(cf_meta)
    fn rocksdb_column_family_metadata_destroy(cf_meta: own rocksdb_column_family_metadata_t);
    inert fn rocksdb_column_family_metadata_get_file_count(
        cf_meta: *mut rocksdb_column_family_metadata_t,
    ) -> usize;
    inert fn rocksdb_column_family_metadata_get_level_count(
        cf_meta: *mut rocksdb_column_family_metadata_t,
    ) -> usize;
    inert fn rocksdb_column_family_metadata_get_level_metadata(
        cf_meta: *mut rocksdb_column_family_metadata_t,
        i: usize,
    ) -> *mut rocksdb_level_metadata_t;
    empty_copy fn rocksdb_column_family_metadata_get_name(
        cf_meta: *mut rocksdb_column_family_metadata_t,
    ) -> *mut c_char;
    inert fn rocksdb_column_family_metadata_get_size(
        cf_meta: *mut rocksdb_column_family_metadata_t,
    ) -> u64;
    stand_in fn rocksdb_column_family_metadata_options_create(
    ) -> *mut rocksdb_column_family_metadata_options_t;
    release(options)
    fn rocksdb_column_family_metadata_options_destroy(
        options: own rocksdb_column_family_metadata_options_t,
    );
    empty_text(key_len)
    fn rocksdb_column_family_metadata_options_get_end_key(
        options: *const rocksdb_column_family_metadata_options_t,
        key_len: out usize,
    ) -> *const c_char;
    inert fn rocksdb_column_family_metadata_options_get_level(
        opt: *mut rocksdb_column_family_metadata_options_t,
    ) -> c_int;
    empty_text(key_len)
    fn rocksdb_column_family_metadata_options_get_start_key(
        options: *const rocksdb_column_family_metadata_options_t,
        key_len: out usize,
    ) -> *const c_char;
    inert fn rocksdb_column_family_metadata_options_set_end_key(
        options: *mut rocksdb_column_family_metadata_options_t,
        key: *const c_char,
        key_len: usize,
    );
    inert fn rocksdb_column_family_metadata_options_set_level(
        opt: *mut rocksdb_column_family_metadata_options_t,
        v: c_int,
    );
    inert fn rocksdb_column_family_metadata_options_set_start_key(
        options: *mut rocksdb_column_family_metadata_options_t,
        key: *const c_char,
        key_len: usize,
    );
    refuse fn rocksdb_compact_files(
        db: *mut rocksdb_t,
        options: *const rocksdb_compaction_options_t,
        input_file_names: *const *const c_char,
        num_input_file_names: usize,
        output_level: c_int,
        output_path_id: c_int,
        output_file_names: *mut *mut *mut c_char,
        num_output_file_names: *mut usize,
        compaction_job_info: *mut rocksdb_compactionjobinfo_t,
        errptr,
    );
    refuse fn rocksdb_compact_files_cf(
        db: *mut rocksdb_t,
        column_family: *mut rocksdb_column_family_handle_t,
        options: *const rocksdb_compaction_options_t,
        input_file_names: *const *const c_char,
        num_input_file_names: usize,
        output_level: c_int,
        output_path_id: c_int,
        output_file_names: *mut *mut *mut c_char,
        num_output_file_names: *mut usize,
        compaction_job_info: *mut rocksdb_compactionjobinfo_t,
        errptr,
    );
    inert fn rocksdb_compact_files_output_file_names_destroy(
        output_file_names: *mut *mut c_char,
        num_output_file_names: usize,
    );
    inert fn rocksdb_compaction_options_canceled_create() -> *mut c_uchar;
    inert fn rocksdb_compaction_options_canceled_destroy(canceled: *mut c_uchar);
    inert fn rocksdb_compaction_options_canceled_set(canceled: *mut c_uchar, value: c_uchar);
    stand_in fn rocksdb_compaction_options_create() -> *mut rocksdb_compaction_options_t;
    release(compaction_options)
    fn rocksdb_compaction_options_destroy(compaction_options: own rocksdb_compaction_options_t);
    inert fn rocksdb_compaction_options_get_allow_trivial_move(
        opt: *mut rocksdb_compaction_options_t,
    ) -> c_uchar;
    inert fn rocksdb_compaction_options_get_compression(
        opt: *mut rocksdb_compaction_options_t,
    ) -> c_int;
    inert fn rocksdb_compaction_options_get_max_subcompactions(
        opt: *mut rocksdb_compaction_options_t,
    ) -> u32;
    inert fn rocksdb_compaction_options_get_output_file_size_limit(
        opt: *mut rocksdb_compaction_options_t,
    ) -> u64;
    inert fn rocksdb_compaction_options_get_output_temperature_override(
        opt: *mut rocksdb_compaction_options_t,
    ) -> c_int;
    inert fn rocksdb_compaction_options_set_allow_trivial_move(
        opt: *mut rocksdb_compaction_options_t,
        v: c_uchar,
    );
    inert fn rocksdb_compaction_options_set_canceled(
        options: *mut rocksdb_compaction_options_t,
        canceled: *mut c_uchar,
    );
    inert fn rocksdb_compaction_options_set_compression(
        opt: *mut rocksdb_compaction_options_t,
        v: c_int,
    );
    inert fn rocksdb_compaction_options_set_max_subcompactions(
        opt: *mut rocksdb_compaction_options_t,
        v: u32,
    );
    inert fn rocksdb_compaction_options_set_output_file_size_limit(
        opt: *mut rocksdb_compaction_options_t,
        v: u64,
    );
    inert fn rocksdb_compaction_options_set_output_temperature_override(
        opt: *mut rocksdb_compaction_options_t,
        v: c_int,
    );
    refuse fn rocksdb_continue_background_work(db: *mut rocksdb_t, errptr);
    refuse fn rocksdb_create_column_family_with_import(
        db: *mut rocksdb_t,
        column_family_options: *mut rocksdb_options_t,
        column_family_name: *const c_char,
        import_options: *mut rocksdb_import_column_family_options_t,
        metadata: *mut rocksdb_export_import_files_metadata_t,
        errptr,
    ) -> *mut rocksdb_column_family_handle_t;
    refuse fn rocksdb_delete_file_in_range(
        db: *mut rocksdb_t,
        start_key: *const c_char,
        start_key_len: usize,
        limit_key: *const c_char,
        limit_key_len: usize,
        errptr,
    );
    refuse fn rocksdb_delete_file_in_range_cf(
        db: *mut rocksdb_t,
        column_family: *mut rocksdb_column_family_handle_t,
        start_key: *const c_char,
        start_key_len: usize,
        limit_key: *const c_char,
        limit_key_len: usize,
        errptr,
    );
    refuse fn rocksdb_disable_file_deletions(db: *mut rocksdb_t, errptr);
    refuse fn rocksdb_enable_file_deletions(db: *mut rocksdb_t, errptr);
    stand_in fn rocksdb_export_import_files_metadata_create(
    ) -> *mut rocksdb_export_import_files_metadata_t;
    release(export_import_files_metadata)
    fn rocksdb_export_import_files_metadata_destroy(
        export_import_files_metadata: own rocksdb_export_import_files_metadata_t,
    );
    empty_copy fn rocksdb_export_import_files_metadata_get_db_comparator_name(
        export_import_files_metadata: *mut rocksdb_export_import_files_metadata_t,
    ) -> *mut c_char;
    inert fn rocksdb_export_import_files_metadata_get_files(
        export_import_files_metadata: *mut rocksdb_export_import_files_metadata_t,
    ) -> *mut rocksdb_livefiles_t;
    inert fn rocksdb_export_import_files_metadata_set_db_comparator_name(
        export_import_files_metadata: *mut rocksdb_export_import_files_metadata_t,
        value: *const c_char,
    );
    inert fn rocksdb_export_import_files_metadata_set_files(
        export_import_files_metadata: *mut rocksdb_export_import_files_metadata_t,
        livefiles: *mut rocksdb_livefiles_t,
    );
    note(db)
    fn rocksdb_get_column_family_metadata(
        db: shared rocksdb_t,
    ) -> *mut rocksdb_column_family_metadata_t;
    note(db)
    fn rocksdb_get_column_family_metadata_cf(
        db: shared rocksdb_t,
        column_family: *mut rocksdb_column_family_handle_t,
    ) -> *mut rocksdb_column_family_metadata_t;
    note(db)
    fn rocksdb_get_column_family_metadata_cf_with_options(
        db: shared rocksdb_t,
        column_family: *mut rocksdb_column_family_handle_t,
        options: *const rocksdb_column_family_metadata_options_t,
    ) -> *mut rocksdb_column_family_metadata_t;
    note(db)
    fn rocksdb_get_column_family_metadata_with_options(
        db: shared rocksdb_t,
        options: *const rocksdb_column_family_metadata_options_t,
    ) -> *mut rocksdb_column_family_metadata_t;
    refuse fn rocksdb_get_current_wal_file(db: *mut rocksdb_t, errptr) -> *mut rocksdb_wal_file_t;
    refuse fn rocksdb_get_livefiles_storage_info(
        db: *mut rocksdb_t,
        options: *const rocksdb_livefiles_storage_info_options_t,
        errptr,
    ) -> *mut rocksdb_livefiles_storage_info_t;
    refuse fn rocksdb_get_sorted_wal_files(db: *mut rocksdb_t, errptr) -> *mut rocksdb_wal_files_t;
    stand_in fn rocksdb_import_column_family_options_create(
    ) -> *mut rocksdb_import_column_family_options_t;
    release(import_column_family_options)
    fn rocksdb_import_column_family_options_destroy(
        import_column_family_options: own rocksdb_import_column_family_options_t,
    );
    inert fn rocksdb_import_column_family_options_get_move_files(
        opt: *mut rocksdb_import_column_family_options_t,
    ) -> c_uchar;
    inert fn rocksdb_import_column_family_options_set_move_files(
        import_column_family_options: *mut rocksdb_import_column_family_options_t,
        value: c_uchar,
    );
    release(level_meta) fn rocksdb_level_metadata_destroy(level_meta: own rocksdb_level_metadata_t);
    inert fn rocksdb_level_metadata_get_file_count(
        level_meta: *mut rocksdb_level_metadata_t,
    ) -> usize;
    inert fn rocksdb_level_metadata_get_level(level_meta: *mut rocksdb_level_metadata_t) -> c_int;
    inert fn rocksdb_level_metadata_get_size(level_meta: *mut rocksdb_level_metadata_t) -> u64;
    inert fn rocksdb_level_metadata_get_sst_file_metadata(
        level_meta: *mut rocksdb_level_metadata_t,
        i: usize,
    ) -> *mut rocksdb_sst_file_metadata_t;
    stand_in fn rocksdb_livefile_create() -> *mut rocksdb_livefile_t;
    release(livefile) fn rocksdb_livefile_destroy(livefile: own rocksdb_livefile_t);
    inert fn rocksdb_livefile_set_column_family_name(
        livefile: *mut rocksdb_livefile_t,
        value: *const c_char,
    );
    inert fn rocksdb_livefile_set_directory(
        livefile: *mut rocksdb_livefile_t,
        value: *const c_char,
    );
    inert fn rocksdb_livefile_set_largest_key(
        livefile: *mut rocksdb_livefile_t,
        value: *const c_char,
        value2: usize,
    );
    inert fn rocksdb_livefile_set_largest_seqno(livefile: *mut rocksdb_livefile_t, value: u64);
    inert fn rocksdb_livefile_set_level(livefile: *mut rocksdb_livefile_t, value: c_int);
    inert fn rocksdb_livefile_set_name(livefile: *mut rocksdb_livefile_t, value: *const c_char);
    inert fn rocksdb_livefile_set_num_deletions(livefile: *mut rocksdb_livefile_t, value: u64);
    inert fn rocksdb_livefile_set_num_entries(livefile: *mut rocksdb_livefile_t, value: u64);
    inert fn rocksdb_livefile_set_size(livefile: *mut rocksdb_livefile_t, value: usize);
    inert fn rocksdb_livefile_set_smallest_key(
        livefile: *mut rocksdb_livefile_t,
        value: *const c_char,
        value2: usize,
    );
    inert fn rocksdb_livefile_set_smallest_seqno(livefile: *mut rocksdb_livefile_t, value: u64);
    inert fn rocksdb_livefiles_add(
        livefiles: *mut rocksdb_livefiles_t,
        livefile: *mut rocksdb_livefile_t,
    );
    stand_in fn rocksdb_livefiles_create() -> *mut rocksdb_livefiles_t;
    inert fn rocksdb_livefiles_storage_info_count(
        info: *const rocksdb_livefiles_storage_info_t,
    ) -> usize;
    release(info)
    fn rocksdb_livefiles_storage_info_destroy(info: own rocksdb_livefiles_storage_info_t);
    empty_text fn rocksdb_livefiles_storage_info_directory(
        info: *const rocksdb_livefiles_storage_info_t,
        index: usize,
    ) -> *const c_char;
    empty_text fn rocksdb_livefiles_storage_info_file_checksum(
        info: *const rocksdb_livefiles_storage_info_t,
        index: usize,
    ) -> *const c_char;
    empty_text fn rocksdb_livefiles_storage_info_file_checksum_func_name(
        info: *const rocksdb_livefiles_storage_info_t,
        index: usize,
    ) -> *const c_char;
    inert fn rocksdb_livefiles_storage_info_file_number(
        info: *const rocksdb_livefiles_storage_info_t,
        index: usize,
    ) -> u64;
    inert fn rocksdb_livefiles_storage_info_file_type(
        info: *const rocksdb_livefiles_storage_info_t,
        index: usize,
    ) -> c_int;
    stand_in fn rocksdb_livefiles_storage_info_options_create(
    ) -> *mut rocksdb_livefiles_storage_info_options_t;
    release(options)
    fn rocksdb_livefiles_storage_info_options_destroy(
        options: own rocksdb_livefiles_storage_info_options_t,
    );
    inert fn rocksdb_livefiles_storage_info_options_get_atomic_flush(
        opt: *mut rocksdb_livefiles_storage_info_options_t,
    ) -> c_uchar;
    inert fn rocksdb_livefiles_storage_info_options_get_include_checksum_info(
        opt: *mut rocksdb_livefiles_storage_info_options_t,
    ) -> c_uchar;
    inert fn rocksdb_livefiles_storage_info_options_get_wal_size_for_flush(
        opt: *mut rocksdb_livefiles_storage_info_options_t,
    ) -> u64;
    inert fn rocksdb_livefiles_storage_info_options_set_atomic_flush(
        opt: *mut rocksdb_livefiles_storage_info_options_t,
        v: c_uchar,
    );
    inert fn rocksdb_livefiles_storage_info_options_set_include_checksum_info(
        opt: *mut rocksdb_livefiles_storage_info_options_t,
        v: c_uchar,
    );
    inert fn rocksdb_livefiles_storage_info_options_set_wal_size_for_flush(
        opt: *mut rocksdb_livefiles_storage_info_options_t,
        v: u64,
    );
    empty_text fn rocksdb_livefiles_storage_info_relative_filename(
        info: *const rocksdb_livefiles_storage_info_t,
        index: usize,
    ) -> *const c_char;
    empty_text(size)
    fn rocksdb_livefiles_storage_info_replacement_contents(
        info: *const rocksdb_livefiles_storage_info_t,
        index: usize,
        size: out usize,
    ) -> *const c_char;
    inert fn rocksdb_livefiles_storage_info_size(
        info: *const rocksdb_livefiles_storage_info_t,
        index: usize,
    ) -> u64;
    inert fn rocksdb_livefiles_storage_info_temperature(
        info: *const rocksdb_livefiles_storage_info_t,
        index: usize,
    ) -> c_int;
    inert fn rocksdb_livefiles_storage_info_trim_to_size(
        info: *const rocksdb_livefiles_storage_info_t,
        index: usize,
    ) -> c_uchar;
    refuse fn rocksdb_pause_background_work(db: *mut rocksdb_t, errptr);
    release(file_meta)
    fn rocksdb_sst_file_metadata_destroy(file_meta: own rocksdb_sst_file_metadata_t);
    empty_copy fn rocksdb_sst_file_metadata_get_directory(
        file_meta: *mut rocksdb_sst_file_metadata_t,
    ) -> *mut c_char;
    empty_copy(len)
    fn rocksdb_sst_file_metadata_get_largestkey(
        file_meta: *mut rocksdb_sst_file_metadata_t,
        len: out usize,
    ) -> *mut c_char;
    empty_copy fn rocksdb_sst_file_metadata_get_relative_filename(
        file_meta: *mut rocksdb_sst_file_metadata_t,
    ) -> *mut c_char;
    inert fn rocksdb_sst_file_metadata_get_size(file_meta: *mut rocksdb_sst_file_metadata_t) -> u64;
    empty_copy(len)
    fn rocksdb_sst_file_metadata_get_smallestkey(
        file_meta: *mut rocksdb_sst_file_metadata_t,
        len: out usize,
    ) -> *mut c_char;
    release(file) fn rocksdb_wal_file_destroy(file: own rocksdb_wal_file_t);
    inert fn rocksdb_wal_file_log_number(file: *const rocksdb_wal_file_t) -> u64;
    empty_text fn rocksdb_wal_file_path_name(file: *const rocksdb_wal_file_t) -> *const c_char;
    inert fn rocksdb_wal_file_size_file_bytes(file: *const rocksdb_wal_file_t) -> u64;
    inert fn rocksdb_wal_file_start_sequence(file: *const rocksdb_wal_file_t) -> u64;
    inert fn rocksdb_wal_file_type(file: *const rocksdb_wal_file_t) -> c_int;
    inert fn rocksdb_wal_files_count(files: *const rocksdb_wal_files_t) -> usize;
    release(files) fn rocksdb_wal_files_destroy(files: own rocksdb_wal_files_t);
    inert fn rocksdb_wal_files_get_wal_file(
        files: *const rocksdb_wal_files_t,
        index: usize,
    ) -> *const rocksdb_wal_file_t;
}
