//! User-defined timestamps.

use super::prelude::*;

missing! {
    mark_while(opt, ts)
    fn rocksdb_compactoptions_set_full_history_ts_low(
        opt: shared rocksdb_compactoptions_t,
        ts: *mut c_char,
        tslen: usize,
    );
    stand_in fn rocksdb_comparator_with_ts_create(
        state: *mut c_void,
        destructor: Option<unsafe extern "C-unwind" fn(*mut c_void)>,
        compare: Option<unsafe extern "C-unwind" fn(
            *mut c_void,
            a: *const c_char,
            alen: usize,
            b: *const c_char,
            blen: usize,
        ) -> c_int>,
        compare_ts: Option<unsafe extern "C-unwind" fn(
            *mut c_void,
            a_ts: *const c_char,
            a_tslen: usize,
            b_ts: *const c_char,
            b_tslen: usize,
        ) -> c_int>,
        compare_without_ts: Option<unsafe extern "C-unwind" fn(
            *mut c_void,
            a: *const c_char,
            alen: usize,
            a_has_ts: c_uchar,
            b: *const c_char,
            blen: usize,
            b_has_ts: c_uchar,
        ) -> c_int>,
        name: Option<unsafe extern "C-unwind" fn(*mut c_void) -> *const c_char>,
        timestamp_size: usize,
    ) -> *mut rocksdb_comparator_t;
    refuse fn rocksdb_delete_cf_with_ts(
        db: *mut rocksdb_t,
        options: *const rocksdb_writeoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const c_char,
        keylen: usize,
        ts: *const c_char,
        tslen: usize,
        errptr,
    );
    refuse fn rocksdb_delete_with_ts(
        db: *mut rocksdb_t,
        options: *const rocksdb_writeoptions_t,
        key: *const c_char,
        keylen: usize,
        ts: *const c_char,
        tslen: usize,
        errptr,
    );
    refuse fn rocksdb_get_cf_with_ts(
        db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const c_char,
        keylen: usize,
        vallen: *mut usize,
        ts: *mut *mut c_char,
        tslen: *mut usize,
        errptr,
    ) -> *mut c_char;
    refuse fn rocksdb_get_full_history_ts_low(
        db: *mut rocksdb_t,
        column_family: *mut rocksdb_column_family_handle_t,
        ts_lowlen: *mut usize,
        errptr,
    ) -> *mut c_char;
    refuse fn rocksdb_get_with_ts(
        db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
        key: *const c_char,
        keylen: usize,
        vallen: *mut usize,
        ts: *mut *mut c_char,
        tslen: *mut usize,
        errptr,
    ) -> *mut c_char;
    refuse fn rocksdb_increase_full_history_ts_low(
        db: *mut rocksdb_t,
        column_family: *mut rocksdb_column_family_handle_t,
        ts_low: *const c_char,
        ts_lowlen: usize,
        errptr,
    );
    empty_text(tslen)
    fn rocksdb_iter_timestamp(
        iterator: *const rocksdb_iterator_t,
        tslen: out usize,
    ) -> *const c_char;
    inert fn rocksdb_iter_timestamp_slice(iter: *const rocksdb_iterator_t) -> rocksdb_slice_t;
    empty_text(size)
    fn rocksdb_memtableinfo_newest_udt(
        info: *const rocksdb_memtableinfo_t,
        size: out usize,
    ) -> *const c_char;
    refuse_each(num_keys, values_list, errs)
    fn rocksdb_multi_get_cf_with_ts(
        db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
        column_families: *const *const rocksdb_column_family_handle_t,
        num_keys: usize,
        keys_list: *const *const c_char,
        keys_list_sizes: *const usize,
        values_list: *mut *mut c_char,
        values_list_sizes: *mut usize,
        timestamps_list: *mut *mut c_char,
        timestamps_list_sizes: *mut usize,
        errs: *mut *mut c_char,
    );
    refuse_each(num_keys, values_list, errs)
    fn rocksdb_multi_get_with_ts(
        db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
        num_keys: usize,
        keys_list: *const *const c_char,
        keys_list_sizes: *const usize,
        values_list: *mut *mut c_char,
        values_list_sizes: *mut usize,
        timestamp_list: *mut *mut c_char,
        timestamp_list_sizes: *mut usize,
        errs: *mut *mut c_char,
    );
    refuse fn rocksdb_open_and_trim_history(
        options: *const rocksdb_options_t,
        name: *const c_char,
        num_column_families: c_int,
        column_family_names: *const *const c_char,
        column_family_options: *const *const rocksdb_options_t,
        column_family_handles: *mut *mut rocksdb_column_family_handle_t,
        trim_ts: *mut c_char,
        trim_tslen: usize,
        errptr,
    ) -> *mut rocksdb_t;
    refuse fn rocksdb_put_cf_with_ts(
        db: *mut rocksdb_t,
        options: *const rocksdb_writeoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const c_char,
        keylen: usize,
        ts: *const c_char,
        tslen: usize,
        val: *const c_char,
        vallen: usize,
        errptr,
    );
    refuse fn rocksdb_put_with_ts(
        db: *mut rocksdb_t,
        options: *const rocksdb_writeoptions_t,
        key: *const c_char,
        keylen: usize,
        ts: *const c_char,
        tslen: usize,
        val: *const c_char,
        vallen: usize,
        errptr,
    );
    mark_while(opt, ts)
    fn rocksdb_readoptions_set_iter_start_ts(
        opt: shared rocksdb_readoptions_t,
        ts: *const c_char,
        tslen: usize,
    );
    mark_while(opt, ts)
    fn rocksdb_readoptions_set_timestamp(
        opt: shared rocksdb_readoptions_t,
        ts: *const c_char,
        tslen: usize,
    );
    refuse fn rocksdb_singledelete_cf_with_ts(
        db: *mut rocksdb_t,
        options: *const rocksdb_writeoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const c_char,
        keylen: usize,
        ts: *const c_char,
        tslen: usize,
        errptr,
    );
    refuse fn rocksdb_singledelete_with_ts(
        db: *mut rocksdb_t,
        options: *const rocksdb_writeoptions_t,
        key: *const c_char,
        keylen: usize,
        ts: *const c_char,
        tslen: usize,
        errptr,
    );
    refuse fn rocksdb_sstfilewriter_delete_with_ts(
        writer: *mut rocksdb_sstfilewriter_t,
        key: *const c_char,
        keylen: usize,
        ts: *const c_char,
        tslen: usize,
        errptr,
    );
    refuse fn rocksdb_sstfilewriter_put_with_ts(
        writer: *mut rocksdb_sstfilewriter_t,
        key: *const c_char,
        keylen: usize,
        ts: *const c_char,
        tslen: usize,
        val: *const c_char,
        vallen: usize,
        errptr,
    );
    mark(writebatch)
    fn rocksdb_writebatch_delete_cf_with_ts(
        writebatch: shared rocksdb_writebatch_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const c_char,
        klen: usize,
        ts: *const c_char,
        tslen: usize,
    );
    mark(writebatch)
    fn rocksdb_writebatch_put_cf_with_ts(
        writebatch: shared rocksdb_writebatch_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const c_char,
        klen: usize,
        ts: *const c_char,
        tslen: usize,
        val: *const c_char,
        vlen: usize,
    );
    mark(b)
    fn rocksdb_writebatch_singledelete_cf_with_ts(
        b: shared rocksdb_writebatch_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const c_char,
        klen: usize,
        ts: *const c_char,
        tslen: usize,
    );
    refuse fn rocksdb_writebatch_update_timestamps(
        wb: *mut rocksdb_writebatch_t,
        ts: *const c_char,
        tslen: usize,
        state: *mut c_void,
        get_ts_size: Option<unsafe extern "C-unwind" fn(*mut c_void, u32) -> usize>,
        errptr,
    );
}
