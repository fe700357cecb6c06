//! Performance counters, other table formats, filters of logs, checksums of files.

use super::prelude::*;

missing! {
    stand_in fn rocksdb_cuckoo_options_create() -> *mut rocksdb_cuckoo_table_options_t;
    release(options) fn rocksdb_cuckoo_options_destroy(options: own rocksdb_cuckoo_table_options_t);
    inert fn rocksdb_cuckoo_options_get_cuckoo_block_size(
        opt: *mut rocksdb_cuckoo_table_options_t,
    ) -> u32;
    inert fn rocksdb_cuckoo_options_get_hash_table_ratio(
        opt: *mut rocksdb_cuckoo_table_options_t,
    ) -> f64;
    inert fn rocksdb_cuckoo_options_get_identity_as_first_hash(
        opt: *mut rocksdb_cuckoo_table_options_t,
    ) -> c_uchar;
    inert fn rocksdb_cuckoo_options_get_max_search_depth(
        opt: *mut rocksdb_cuckoo_table_options_t,
    ) -> u32;
    inert fn rocksdb_cuckoo_options_get_use_module_hash(
        opt: *mut rocksdb_cuckoo_table_options_t,
    ) -> c_uchar;
    inert fn rocksdb_cuckoo_options_set_cuckoo_block_size(
        opt: *mut rocksdb_cuckoo_table_options_t,
        v: u32,
    );
    inert fn rocksdb_cuckoo_options_set_hash_ratio(
        options: *mut rocksdb_cuckoo_table_options_t,
        v: f64,
    );
    inert fn rocksdb_cuckoo_options_set_hash_table_ratio(
        opt: *mut rocksdb_cuckoo_table_options_t,
        v: f64,
    );
    inert fn rocksdb_cuckoo_options_set_identity_as_first_hash(
        opt: *mut rocksdb_cuckoo_table_options_t,
        v: c_uchar,
    );
    inert fn rocksdb_cuckoo_options_set_max_search_depth(
        opt: *mut rocksdb_cuckoo_table_options_t,
        v: u32,
    );
    inert fn rocksdb_cuckoo_options_set_use_module_hash(
        opt: *mut rocksdb_cuckoo_table_options_t,
        v: c_uchar,
    );
    stand_in fn rocksdb_file_checksum_gen_crc32c_factory_create(
    ) -> *mut rocksdb_file_checksum_gen_factory_t;
    release(factory)
    fn rocksdb_file_checksum_gen_factory_destroy(factory: own rocksdb_file_checksum_gen_factory_t);
    inert fn rocksdb_options_clear_wal_filter(opt: *mut rocksdb_options_t);
    note_if(opt, table_options)
    fn rocksdb_options_set_cuckoo_table_factory(
        opt: shared rocksdb_options_t,
        table_options: *mut rocksdb_cuckoo_table_options_t,
    );
    note_if(opt, file_checksum_gen_factory)
    fn rocksdb_options_set_file_checksum_gen_factory(
        opt: shared rocksdb_options_t,
        file_checksum_gen_factory: *mut rocksdb_file_checksum_gen_factory_t,
    );
    note(opt)
    fn rocksdb_options_set_plain_table_factory(
        opt: shared rocksdb_options_t,
        value: u32,
        value2: c_int,
        value3: f64,
        value4: usize,
        value5: usize,
        value6: c_char,
        value7: c_uchar,
        value8: c_uchar,
    );
    mark_if(opt, walfilter)
    fn rocksdb_options_set_wal_filter(
        opt: shared rocksdb_options_t,
        walfilter: *mut rocksdb_walfilter_t,
    );
    stand_in fn rocksdb_perfcontext_create() -> *mut rocksdb_perfcontext_t;
    release(context) fn rocksdb_perfcontext_destroy(context: own rocksdb_perfcontext_t);
    inert fn rocksdb_perfcontext_metric(context: *mut rocksdb_perfcontext_t, metric: c_int) -> u64;
    empty_copy fn rocksdb_perfcontext_report(
        context: *mut rocksdb_perfcontext_t,
        exclude_zero_counters: c_uchar,
    ) -> *mut c_char;
    inert fn rocksdb_perfcontext_reset(context: *mut rocksdb_perfcontext_t);
    inert fn rocksdb_set_perf_level(value: c_int);
    refuse fn rocksdb_verify_file_checksums(db: *mut rocksdb_t, errptr);
    refuse fn rocksdb_verify_file_checksums_with_options(
        db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
        errptr,
    );
    stand_in fn rocksdb_walfilter_create(
        state: *mut c_void,
        destructor: Option<unsafe extern "C-unwind" fn(*mut c_void)>,
        column_family_log_number_map: rocksdb_walfilter_column_family_log_number_map_cb,
        log_record_found: rocksdb_walfilter_log_record_found_cb,
        name: Option<unsafe extern "C-unwind" fn(*mut c_void) -> *const c_char>,
    ) -> *mut rocksdb_walfilter_t;
    release(walfilter) fn rocksdb_walfilter_destroy(walfilter: own rocksdb_walfilter_t);
    refuse fn rocksdb_writebatch_verify_checksum(b: *mut rocksdb_writebatch_t, errptr);
}
