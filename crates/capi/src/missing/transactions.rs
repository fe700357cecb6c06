//! Transactions, and batches with an index.

use super::prelude::*;

missing! {
    inert fn rocksdb_optimistictransaction_begin(
        otxn_db: *mut rocksdb_optimistictransactiondb_t,
        write_options: *const rocksdb_writeoptions_t,
        otxn_options: *const rocksdb_optimistictransaction_options_t,
        old_txn: *mut rocksdb_transaction_t,
    ) -> *mut rocksdb_transaction_t;
    stand_in fn rocksdb_optimistictransaction_options_create(
    ) -> *mut rocksdb_optimistictransaction_options_t;
    release(opt)
    fn rocksdb_optimistictransaction_options_destroy(
        opt: own rocksdb_optimistictransaction_options_t,
    );
    inert fn rocksdb_optimistictransaction_options_get_set_snapshot(
        opt: *mut rocksdb_optimistictransaction_options_t,
    ) -> c_uchar;
    inert fn rocksdb_optimistictransaction_options_set_set_snapshot(
        opt: *mut rocksdb_optimistictransaction_options_t,
        v: c_uchar,
    );
    refuse fn rocksdb_optimistictransactiondb_checkpoint_object_create(
        otxn_db: *mut rocksdb_optimistictransactiondb_t,
        errptr,
    ) -> *mut rocksdb_checkpoint_t;
    inert fn rocksdb_optimistictransactiondb_close(otxn_db: *mut rocksdb_optimistictransactiondb_t);
    inert fn rocksdb_optimistictransactiondb_close_base_db(base_db: *mut rocksdb_t);
    inert fn rocksdb_optimistictransactiondb_get_base_db(
        otxn_db: *mut rocksdb_optimistictransactiondb_t,
    ) -> *mut rocksdb_t;
    inert fn rocksdb_optimistictransactiondb_lock_buckets_approximate_memory_usage(
        lock_buckets: *mut rocksdb_optimistictransactiondb_lock_buckets_t,
    ) -> usize;
    stand_in fn rocksdb_optimistictransactiondb_lock_buckets_create(
        bucket_count: usize,
        cache_aligned: c_uchar,
    ) -> *mut rocksdb_optimistictransactiondb_lock_buckets_t;
    release(lock_buckets)
    fn rocksdb_optimistictransactiondb_lock_buckets_destroy(
        lock_buckets: own rocksdb_optimistictransactiondb_lock_buckets_t,
    );
    refuse fn rocksdb_optimistictransactiondb_open(
        options: *const rocksdb_options_t,
        name: *const c_char,
        errptr,
    ) -> *mut rocksdb_optimistictransactiondb_t;
    refuse fn rocksdb_optimistictransactiondb_open_column_families(
        options: *const rocksdb_options_t,
        name: *const c_char,
        num_column_families: c_int,
        column_family_names: *const *const c_char,
        column_family_options: *const *const rocksdb_options_t,
        column_family_handles: *mut *mut rocksdb_column_family_handle_t,
        errptr,
    ) -> *mut rocksdb_optimistictransactiondb_t;
    refuse fn rocksdb_optimistictransactiondb_open_column_families_with_otxn_db_options(
        options: *const rocksdb_options_t,
        otxn_db_options: *const rocksdb_optimistictransactiondb_options_t,
        name: *const c_char,
        num_column_families: c_int,
        column_family_names: *const *const c_char,
        column_family_options: *const *const rocksdb_options_t,
        column_family_handles: *mut *mut rocksdb_column_family_handle_t,
        errptr,
    ) -> *mut rocksdb_optimistictransactiondb_t;
    refuse fn rocksdb_optimistictransactiondb_open_with_otxn_db_options(
        options: *const rocksdb_options_t,
        otxn_db_options: *const rocksdb_optimistictransactiondb_options_t,
        name: *const c_char,
        errptr,
    ) -> *mut rocksdb_optimistictransactiondb_t;
    stand_in fn rocksdb_optimistictransactiondb_options_create(
    ) -> *mut rocksdb_optimistictransactiondb_options_t;
    release(opt)
    fn rocksdb_optimistictransactiondb_options_destroy(
        opt: own rocksdb_optimistictransactiondb_options_t,
    );
    inert fn rocksdb_optimistictransactiondb_options_get_occ_lock_buckets(
        opt: *mut rocksdb_optimistictransactiondb_options_t,
    ) -> u32;
    inert fn rocksdb_optimistictransactiondb_options_get_validate_policy(
        opt: *mut rocksdb_optimistictransactiondb_options_t,
    ) -> c_int;
    inert fn rocksdb_optimistictransactiondb_options_set_occ_lock_buckets(
        opt: *mut rocksdb_optimistictransactiondb_options_t,
        v: u32,
    );
    inert fn rocksdb_optimistictransactiondb_options_set_shared_lock_buckets(
        opt: *mut rocksdb_optimistictransactiondb_options_t,
        lock_buckets: *mut rocksdb_optimistictransactiondb_lock_buckets_t,
    );
    inert fn rocksdb_optimistictransactiondb_options_set_validate_policy(
        opt: *mut rocksdb_optimistictransactiondb_options_t,
        v: c_int,
    );
    inert fn rocksdb_optimistictransactiondb_property_int(
        db: *mut rocksdb_optimistictransactiondb_t,
        propname: *const c_char,
        out_val: *mut u64,
    ) -> c_int;
    empty_copy fn rocksdb_optimistictransactiondb_property_value(
        db: *mut rocksdb_optimistictransactiondb_t,
        propname: *const c_char,
    ) -> *mut c_char;
    refuse fn rocksdb_optimistictransactiondb_write(
        otxn_db: *mut rocksdb_optimistictransactiondb_t,
        options: *const rocksdb_writeoptions_t,
        batch: *mut rocksdb_writebatch_t,
        errptr,
    );
    inert fn rocksdb_transaction_begin(
        txn_db: *mut rocksdb_transactiondb_t,
        write_options: *const rocksdb_writeoptions_t,
        txn_options: *const rocksdb_transaction_options_t,
        old_txn: *mut rocksdb_transaction_t,
    ) -> *mut rocksdb_transaction_t;
    refuse fn rocksdb_transaction_commit(txn: *mut rocksdb_transaction_t, errptr);
    stand_in fn rocksdb_transaction_create_iterator(
        txn: *mut rocksdb_transaction_t,
        options: *const rocksdb_readoptions_t,
    ) -> *mut rocksdb_iterator_t;
    stand_in fn rocksdb_transaction_create_iterator_cf(
        txn: *mut rocksdb_transaction_t,
        options: *const rocksdb_readoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
    ) -> *mut rocksdb_iterator_t;
    refuse fn rocksdb_transaction_delete(
        txn: *mut rocksdb_transaction_t,
        key: *const c_char,
        klen: usize,
        errptr,
    );
    refuse fn rocksdb_transaction_delete_cf(
        txn: *mut rocksdb_transaction_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const c_char,
        klen: usize,
        errptr,
    );
    release(txn) fn rocksdb_transaction_destroy(txn: own rocksdb_transaction_t);
    refuse fn rocksdb_transaction_get(
        txn: *mut rocksdb_transaction_t,
        options: *const rocksdb_readoptions_t,
        key: *const c_char,
        klen: usize,
        vlen: *mut usize,
        errptr,
    ) -> *mut c_char;
    refuse fn rocksdb_transaction_get_cf(
        txn: *mut rocksdb_transaction_t,
        options: *const rocksdb_readoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const c_char,
        klen: usize,
        vlen: *mut usize,
        errptr,
    ) -> *mut c_char;
    refuse fn rocksdb_transaction_get_for_update(
        txn: *mut rocksdb_transaction_t,
        options: *const rocksdb_readoptions_t,
        key: *const c_char,
        klen: usize,
        vlen: *mut usize,
        exclusive: c_uchar,
        errptr,
    ) -> *mut c_char;
    refuse fn rocksdb_transaction_get_for_update_cf(
        txn: *mut rocksdb_transaction_t,
        options: *const rocksdb_readoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const c_char,
        klen: usize,
        vlen: *mut usize,
        exclusive: c_uchar,
        errptr,
    ) -> *mut c_char;
    empty_copy(name_len)
    fn rocksdb_transaction_get_name(
        txn: *mut rocksdb_transaction_t,
        name_len: out usize,
    ) -> *mut c_char;
    refuse fn rocksdb_transaction_get_pinned(
        txn: *mut rocksdb_transaction_t,
        options: *const rocksdb_readoptions_t,
        key: *const c_char,
        klen: usize,
        errptr,
    ) -> *mut rocksdb_pinnableslice_t;
    refuse fn rocksdb_transaction_get_pinned_cf(
        txn: *mut rocksdb_transaction_t,
        options: *const rocksdb_readoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const c_char,
        klen: usize,
        errptr,
    ) -> *mut rocksdb_pinnableslice_t;
    refuse fn rocksdb_transaction_get_pinned_for_update(
        txn: *mut rocksdb_transaction_t,
        options: *const rocksdb_readoptions_t,
        key: *const c_char,
        klen: usize,
        exclusive: c_uchar,
        errptr,
    ) -> *mut rocksdb_pinnableslice_t;
    refuse fn rocksdb_transaction_get_pinned_for_update_cf(
        txn: *mut rocksdb_transaction_t,
        options: *const rocksdb_readoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const c_char,
        klen: usize,
        exclusive: c_uchar,
        errptr,
    ) -> *mut rocksdb_pinnableslice_t;
    inert fn rocksdb_transaction_get_snapshot(
        txn: *mut rocksdb_transaction_t,
    ) -> *const rocksdb_snapshot_t;
    inert fn rocksdb_transaction_get_writebatch_wi(
        txn: *mut rocksdb_transaction_t,
    ) -> *mut rocksdb_writebatch_wi_t;
    refuse fn rocksdb_transaction_merge(
        txn: *mut rocksdb_transaction_t,
        key: *const c_char,
        klen: usize,
        val: *const c_char,
        vlen: usize,
        errptr,
    );
    refuse fn rocksdb_transaction_merge_cf(
        txn: *mut rocksdb_transaction_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const c_char,
        klen: usize,
        val: *const c_char,
        vlen: usize,
        errptr,
    );
    refuse_each(num_keys, values_list, errs)
    fn rocksdb_transaction_multi_get(
        txn: *mut rocksdb_transaction_t,
        options: *const rocksdb_readoptions_t,
        num_keys: usize,
        keys_list: *const *const c_char,
        keys_list_sizes: *const usize,
        values_list: *mut *mut c_char,
        values_list_sizes: *mut usize,
        errs: *mut *mut c_char,
    );
    refuse_each(num_keys, values_list, errs)
    fn rocksdb_transaction_multi_get_cf(
        txn: *mut rocksdb_transaction_t,
        options: *const rocksdb_readoptions_t,
        column_families: *const *const rocksdb_column_family_handle_t,
        num_keys: usize,
        keys_list: *const *const c_char,
        keys_list_sizes: *const usize,
        values_list: *mut *mut c_char,
        values_list_sizes: *mut usize,
        errs: *mut *mut c_char,
    );
    refuse_each(num_keys, values_list, errs)
    fn rocksdb_transaction_multi_get_for_update(
        txn: *mut rocksdb_transaction_t,
        options: *const rocksdb_readoptions_t,
        num_keys: usize,
        keys_list: *const *const c_char,
        keys_list_sizes: *const usize,
        values_list: *mut *mut c_char,
        values_list_sizes: *mut usize,
        errs: *mut *mut c_char,
    );
    refuse_each(num_keys, values_list, errs)
    fn rocksdb_transaction_multi_get_for_update_cf(
        txn: *mut rocksdb_transaction_t,
        options: *const rocksdb_readoptions_t,
        column_families: *const *const rocksdb_column_family_handle_t,
        num_keys: usize,
        keys_list: *const *const c_char,
        keys_list_sizes: *const usize,
        values_list: *mut *mut c_char,
        values_list_sizes: *mut usize,
        errs: *mut *mut c_char,
    );
    stand_in fn rocksdb_transaction_options_create() -> *mut rocksdb_transaction_options_t;
    release(opt) fn rocksdb_transaction_options_destroy(opt: own rocksdb_transaction_options_t);
    inert fn rocksdb_transaction_options_get_commit_bypass_memtable(
        opt: *mut rocksdb_transaction_options_t,
    ) -> c_uchar;
    inert fn rocksdb_transaction_options_get_deadlock_detect(
        opt: *mut rocksdb_transaction_options_t,
    ) -> c_uchar;
    inert fn rocksdb_transaction_options_get_deadlock_detect_depth(
        opt: *mut rocksdb_transaction_options_t,
    ) -> i64;
    inert fn rocksdb_transaction_options_get_deadlock_timeout_us(
        opt: *mut rocksdb_transaction_options_t,
    ) -> i64;
    inert fn rocksdb_transaction_options_get_expiration(
        opt: *mut rocksdb_transaction_options_t,
    ) -> i64;
    inert fn rocksdb_transaction_options_get_large_txn_commit_optimize_byte_threshold(
        opt: *mut rocksdb_transaction_options_t,
    ) -> u64;
    inert fn rocksdb_transaction_options_get_large_txn_commit_optimize_threshold(
        opt: *mut rocksdb_transaction_options_t,
    ) -> u32;
    inert fn rocksdb_transaction_options_get_lock_timeout(
        opt: *mut rocksdb_transaction_options_t,
    ) -> i64;
    inert fn rocksdb_transaction_options_get_max_write_batch_size(
        opt: *mut rocksdb_transaction_options_t,
    ) -> usize;
    inert fn rocksdb_transaction_options_get_set_snapshot(
        opt: *mut rocksdb_transaction_options_t,
    ) -> c_uchar;
    inert fn rocksdb_transaction_options_get_skip_concurrency_control(
        opt: *mut rocksdb_transaction_options_t,
    ) -> c_uchar;
    inert fn rocksdb_transaction_options_get_skip_prepare(
        opt: *mut rocksdb_transaction_options_t,
    ) -> c_uchar;
    inert fn rocksdb_transaction_options_get_use_only_the_last_commit_time_batch_for_recovery(
        opt: *mut rocksdb_transaction_options_t,
    ) -> c_uchar;
    inert fn rocksdb_transaction_options_get_write_batch_flush_threshold(
        opt: *mut rocksdb_transaction_options_t,
    ) -> i64;
    inert fn rocksdb_transaction_options_get_write_batch_track_timestamp_size(
        opt: *mut rocksdb_transaction_options_t,
    ) -> c_uchar;
    inert fn rocksdb_transaction_options_set_commit_bypass_memtable(
        opt: *mut rocksdb_transaction_options_t,
        v: c_uchar,
    );
    inert fn rocksdb_transaction_options_set_deadlock_detect(
        opt: *mut rocksdb_transaction_options_t,
        v: c_uchar,
    );
    inert fn rocksdb_transaction_options_set_deadlock_detect_depth(
        opt: *mut rocksdb_transaction_options_t,
        v: i64,
    );
    inert fn rocksdb_transaction_options_set_deadlock_timeout_us(
        opt: *mut rocksdb_transaction_options_t,
        v: i64,
    );
    inert fn rocksdb_transaction_options_set_expiration(
        opt: *mut rocksdb_transaction_options_t,
        v: i64,
    );
    inert fn rocksdb_transaction_options_set_large_txn_commit_optimize_byte_threshold(
        opt: *mut rocksdb_transaction_options_t,
        v: u64,
    );
    inert fn rocksdb_transaction_options_set_large_txn_commit_optimize_threshold(
        opt: *mut rocksdb_transaction_options_t,
        v: u32,
    );
    inert fn rocksdb_transaction_options_set_lock_timeout(
        opt: *mut rocksdb_transaction_options_t,
        v: i64,
    );
    inert fn rocksdb_transaction_options_set_max_write_batch_size(
        opt: *mut rocksdb_transaction_options_t,
        v: usize,
    );
    inert fn rocksdb_transaction_options_set_set_snapshot(
        opt: *mut rocksdb_transaction_options_t,
        v: c_uchar,
    );
    inert fn rocksdb_transaction_options_set_skip_concurrency_control(
        opt: *mut rocksdb_transaction_options_t,
        v: c_uchar,
    );
    inert fn rocksdb_transaction_options_set_skip_prepare(
        opt: *mut rocksdb_transaction_options_t,
        v: c_uchar,
    );
    inert fn rocksdb_transaction_options_set_use_only_the_last_commit_time_batch_for_recovery(
        opt: *mut rocksdb_transaction_options_t,
        v: c_uchar,
    );
    inert fn rocksdb_transaction_options_set_write_batch_flush_threshold(
        opt: *mut rocksdb_transaction_options_t,
        v: i64,
    );
    inert fn rocksdb_transaction_options_set_write_batch_track_timestamp_size(
        opt: *mut rocksdb_transaction_options_t,
        v: c_uchar,
    );
    refuse fn rocksdb_transaction_prepare(txn: *mut rocksdb_transaction_t, errptr);
    refuse fn rocksdb_transaction_put(
        txn: *mut rocksdb_transaction_t,
        key: *const c_char,
        klen: usize,
        val: *const c_char,
        vlen: usize,
        errptr,
    );
    refuse fn rocksdb_transaction_put_cf(
        txn: *mut rocksdb_transaction_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const c_char,
        klen: usize,
        val: *const c_char,
        vlen: usize,
        errptr,
    );
    inert fn rocksdb_transaction_put_log_data(
        txn: *mut rocksdb_transaction_t,
        blob: *const c_char,
        len: usize,
    );
    refuse fn rocksdb_transaction_rebuild_from_writebatch(
        txn: *mut rocksdb_transaction_t,
        writebatch: *mut rocksdb_writebatch_t,
        errptr,
    );
    refuse fn rocksdb_transaction_rebuild_from_writebatch_wi(
        txn: *mut rocksdb_transaction_t,
        wi: *mut rocksdb_writebatch_wi_t,
        errptr,
    );
    refuse fn rocksdb_transaction_rollback(txn: *mut rocksdb_transaction_t, errptr);
    refuse fn rocksdb_transaction_rollback_to_savepoint(txn: *mut rocksdb_transaction_t, errptr);
    inert fn rocksdb_transaction_set_commit_timestamp(
        txn: *mut rocksdb_transaction_t,
        commit_timestamp: u64,
    );
    refuse fn rocksdb_transaction_set_name(
        txn: *mut rocksdb_transaction_t,
        name: *const c_char,
        name_len: usize,
        errptr,
    );
    inert fn rocksdb_transaction_set_read_timestamp_for_validation(
        txn: *mut rocksdb_transaction_t,
        read_timestamp: u64,
    );
    inert fn rocksdb_transaction_set_savepoint(txn: *mut rocksdb_transaction_t);
    refuse fn rocksdb_transactiondb_checkpoint_object_create(
        txn_db: *mut rocksdb_transactiondb_t,
        errptr,
    ) -> *mut rocksdb_checkpoint_t;
    inert fn rocksdb_transactiondb_close(txn_db: *mut rocksdb_transactiondb_t);
    inert fn rocksdb_transactiondb_close_base_db(base_db: *mut rocksdb_t);
    refuse fn rocksdb_transactiondb_create_column_family(
        txn_db: *mut rocksdb_transactiondb_t,
        column_family_options: *const rocksdb_options_t,
        column_family_name: *const c_char,
        errptr,
    ) -> *mut rocksdb_column_family_handle_t;
    stand_in fn rocksdb_transactiondb_create_iterator(
        txn_db: *mut rocksdb_transactiondb_t,
        options: *const rocksdb_readoptions_t,
    ) -> *mut rocksdb_iterator_t;
    stand_in fn rocksdb_transactiondb_create_iterator_cf(
        txn_db: *mut rocksdb_transactiondb_t,
        options: *const rocksdb_readoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
    ) -> *mut rocksdb_iterator_t;
    inert fn rocksdb_transactiondb_create_snapshot(
        txn_db: *mut rocksdb_transactiondb_t,
    ) -> *const rocksdb_snapshot_t;
    refuse fn rocksdb_transactiondb_delete(
        txn_db: *mut rocksdb_transactiondb_t,
        options: *const rocksdb_writeoptions_t,
        key: *const c_char,
        klen: usize,
        errptr,
    );
    refuse fn rocksdb_transactiondb_delete_cf(
        txn_db: *mut rocksdb_transactiondb_t,
        options: *const rocksdb_writeoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const c_char,
        keylen: usize,
        errptr,
    );
    refuse fn rocksdb_transactiondb_flush(
        txn_db: *mut rocksdb_transactiondb_t,
        options: *const rocksdb_flushoptions_t,
        errptr,
    );
    refuse fn rocksdb_transactiondb_flush_cf(
        txn_db: *mut rocksdb_transactiondb_t,
        options: *const rocksdb_flushoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
        errptr,
    );
    refuse fn rocksdb_transactiondb_flush_cfs(
        txn_db: *mut rocksdb_transactiondb_t,
        options: *const rocksdb_flushoptions_t,
        column_families: *mut *mut rocksdb_column_family_handle_t,
        num_column_families: c_int,
        errptr,
    );
    refuse fn rocksdb_transactiondb_flush_wal(
        txn_db: *mut rocksdb_transactiondb_t,
        sync: c_uchar,
        errptr,
    );
    refuse fn rocksdb_transactiondb_flush_wal_with_options(
        txn_db: *mut rocksdb_transactiondb_t,
        options: *const rocksdb_flushwaloptions_t,
        errptr,
    );
    refuse fn rocksdb_transactiondb_get(
        txn_db: *mut rocksdb_transactiondb_t,
        options: *const rocksdb_readoptions_t,
        key: *const c_char,
        klen: usize,
        vlen: *mut usize,
        errptr,
    ) -> *mut c_char;
    inert fn rocksdb_transactiondb_get_base_db(
        txn_db: *mut rocksdb_transactiondb_t,
    ) -> *mut rocksdb_t;
    refuse fn rocksdb_transactiondb_get_cf(
        txn_db: *mut rocksdb_transactiondb_t,
        options: *const rocksdb_readoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const c_char,
        keylen: usize,
        vallen: *mut usize,
        errptr,
    ) -> *mut c_char;
    refuse fn rocksdb_transactiondb_get_pinned(
        txn_db: *mut rocksdb_transactiondb_t,
        options: *const rocksdb_readoptions_t,
        key: *const c_char,
        klen: usize,
        errptr,
    ) -> *mut rocksdb_pinnableslice_t;
    refuse fn rocksdb_transactiondb_get_pinned_cf(
        txn_db: *mut rocksdb_transactiondb_t,
        options: *const rocksdb_readoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const c_char,
        keylen: usize,
        errptr,
    ) -> *mut rocksdb_pinnableslice_t;
    inert(cnt)
    fn rocksdb_transactiondb_get_prepared_transactions(
        txn_db: *mut rocksdb_transactiondb_t,
        cnt: out usize,
    ) -> *mut *mut rocksdb_transaction_t;
    refuse fn rocksdb_transactiondb_merge(
        txn_db: *mut rocksdb_transactiondb_t,
        options: *const rocksdb_writeoptions_t,
        key: *const c_char,
        klen: usize,
        val: *const c_char,
        vlen: usize,
        errptr,
    );
    refuse fn rocksdb_transactiondb_merge_cf(
        txn_db: *mut rocksdb_transactiondb_t,
        options: *const rocksdb_writeoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const c_char,
        klen: usize,
        val: *const c_char,
        vlen: usize,
        errptr,
    );
    refuse_each(num_keys, values_list, errs)
    fn rocksdb_transactiondb_multi_get(
        txn_db: *mut rocksdb_transactiondb_t,
        options: *const rocksdb_readoptions_t,
        num_keys: usize,
        keys_list: *const *const c_char,
        keys_list_sizes: *const usize,
        values_list: *mut *mut c_char,
        values_list_sizes: *mut usize,
        errs: *mut *mut c_char,
    );
    refuse_each(num_keys, values_list, errs)
    fn rocksdb_transactiondb_multi_get_cf(
        txn_db: *mut rocksdb_transactiondb_t,
        options: *const rocksdb_readoptions_t,
        column_families: *const *const rocksdb_column_family_handle_t,
        num_keys: usize,
        keys_list: *const *const c_char,
        keys_list_sizes: *const usize,
        values_list: *mut *mut c_char,
        values_list_sizes: *mut usize,
        errs: *mut *mut c_char,
    );
    refuse fn rocksdb_transactiondb_open(
        options: *const rocksdb_options_t,
        txn_db_options: *const rocksdb_transactiondb_options_t,
        name: *const c_char,
        errptr,
    ) -> *mut rocksdb_transactiondb_t;
    refuse fn rocksdb_transactiondb_open_column_families(
        options: *const rocksdb_options_t,
        txn_db_options: *const rocksdb_transactiondb_options_t,
        name: *const c_char,
        num_column_families: c_int,
        column_family_names: *const *const c_char,
        column_family_options: *const *const rocksdb_options_t,
        column_family_handles: *mut *mut rocksdb_column_family_handle_t,
        errptr,
    ) -> *mut rocksdb_transactiondb_t;
    stand_in fn rocksdb_transactiondb_options_create() -> *mut rocksdb_transactiondb_options_t;
    release(opt) fn rocksdb_transactiondb_options_destroy(opt: own rocksdb_transactiondb_options_t);
    inert fn rocksdb_transactiondb_options_get_default_lock_timeout(
        opt: *mut rocksdb_transactiondb_options_t,
    ) -> i64;
    inert fn rocksdb_transactiondb_options_get_default_write_batch_flush_threshold(
        opt: *mut rocksdb_transactiondb_options_t,
    ) -> i64;
    inert fn rocksdb_transactiondb_options_get_enable_udt_validation(
        opt: *mut rocksdb_transactiondb_options_t,
    ) -> c_uchar;
    inert fn rocksdb_transactiondb_options_get_max_num_deadlocks(
        opt: *mut rocksdb_transactiondb_options_t,
    ) -> u32;
    inert fn rocksdb_transactiondb_options_get_max_num_locks(
        opt: *mut rocksdb_transactiondb_options_t,
    ) -> i64;
    inert fn rocksdb_transactiondb_options_get_num_stripes(
        opt: *mut rocksdb_transactiondb_options_t,
    ) -> usize;
    inert fn rocksdb_transactiondb_options_get_rollback_merge_operands(
        opt: *mut rocksdb_transactiondb_options_t,
    ) -> c_uchar;
    inert fn rocksdb_transactiondb_options_get_skip_concurrency_control(
        opt: *mut rocksdb_transactiondb_options_t,
    ) -> c_uchar;
    inert fn rocksdb_transactiondb_options_get_transaction_lock_timeout(
        opt: *mut rocksdb_transactiondb_options_t,
    ) -> i64;
    inert fn rocksdb_transactiondb_options_get_txn_commit_bypass_memtable_threshold(
        opt: *mut rocksdb_transactiondb_options_t,
    ) -> u32;
    inert fn rocksdb_transactiondb_options_get_use_per_key_point_lock_mgr(
        opt: *mut rocksdb_transactiondb_options_t,
    ) -> c_uchar;
    inert fn rocksdb_transactiondb_options_get_write_policy(
        opt: *mut rocksdb_transactiondb_options_t,
    ) -> c_int;
    inert fn rocksdb_transactiondb_options_set_default_lock_timeout(
        opt: *mut rocksdb_transactiondb_options_t,
        v: i64,
    );
    inert fn rocksdb_transactiondb_options_set_default_write_batch_flush_threshold(
        opt: *mut rocksdb_transactiondb_options_t,
        v: i64,
    );
    inert fn rocksdb_transactiondb_options_set_enable_udt_validation(
        opt: *mut rocksdb_transactiondb_options_t,
        v: c_uchar,
    );
    inert fn rocksdb_transactiondb_options_set_max_num_deadlocks(
        opt: *mut rocksdb_transactiondb_options_t,
        v: u32,
    );
    inert fn rocksdb_transactiondb_options_set_max_num_locks(
        opt: *mut rocksdb_transactiondb_options_t,
        v: i64,
    );
    inert fn rocksdb_transactiondb_options_set_num_stripes(
        opt: *mut rocksdb_transactiondb_options_t,
        v: usize,
    );
    inert fn rocksdb_transactiondb_options_set_rollback_merge_operands(
        opt: *mut rocksdb_transactiondb_options_t,
        v: c_uchar,
    );
    inert fn rocksdb_transactiondb_options_set_skip_concurrency_control(
        opt: *mut rocksdb_transactiondb_options_t,
        v: c_uchar,
    );
    inert fn rocksdb_transactiondb_options_set_transaction_lock_timeout(
        opt: *mut rocksdb_transactiondb_options_t,
        v: i64,
    );
    inert fn rocksdb_transactiondb_options_set_txn_commit_bypass_memtable_threshold(
        opt: *mut rocksdb_transactiondb_options_t,
        v: u32,
    );
    inert fn rocksdb_transactiondb_options_set_use_per_key_point_lock_mgr(
        opt: *mut rocksdb_transactiondb_options_t,
        v: c_uchar,
    );
    inert fn rocksdb_transactiondb_options_set_write_policy(
        opt: *mut rocksdb_transactiondb_options_t,
        v: c_int,
    );
    inert fn rocksdb_transactiondb_property_int(
        db: *mut rocksdb_transactiondb_t,
        propname: *const c_char,
        out_val: *mut u64,
    ) -> c_int;
    empty_copy fn rocksdb_transactiondb_property_value(
        db: *mut rocksdb_transactiondb_t,
        propname: *const c_char,
    ) -> *mut c_char;
    refuse fn rocksdb_transactiondb_put(
        txn_db: *mut rocksdb_transactiondb_t,
        options: *const rocksdb_writeoptions_t,
        key: *const c_char,
        klen: usize,
        val: *const c_char,
        vlen: usize,
        errptr,
    );
    refuse fn rocksdb_transactiondb_put_cf(
        txn_db: *mut rocksdb_transactiondb_t,
        options: *const rocksdb_writeoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const c_char,
        keylen: usize,
        val: *const c_char,
        vallen: usize,
        errptr,
    );
    inert fn rocksdb_transactiondb_release_snapshot(
        txn_db: *mut rocksdb_transactiondb_t,
        snapshot: *const rocksdb_snapshot_t,
    );
    refuse fn rocksdb_transactiondb_write(
        db: *mut rocksdb_transactiondb_t,
        options: *const rocksdb_writeoptions_t,
        batch: *mut rocksdb_writebatch_t,
        errptr,
    );
    refuse fn rocksdb_write_writebatch_wi(
        db: *mut rocksdb_t,
        options: *const rocksdb_writeoptions_t,
        wbwi: *mut rocksdb_writebatch_wi_t,
        errptr,
    );
    refuse fn rocksdb_writebatch_pop_save_point(b: *mut rocksdb_writebatch_t, errptr);
    refuse fn rocksdb_writebatch_rollback_to_save_point(b: *mut rocksdb_writebatch_t, errptr);
    mark(b) fn rocksdb_writebatch_set_save_point(b: shared rocksdb_writebatch_t);
    inert fn rocksdb_writebatch_wi_clear(writebatch_wi: *mut rocksdb_writebatch_wi_t);
    inert fn rocksdb_writebatch_wi_count(b: *mut rocksdb_writebatch_wi_t) -> c_int;
    stand_in fn rocksdb_writebatch_wi_create(
        reserved_bytes: usize,
        overwrite_keys: c_uchar,
    ) -> *mut rocksdb_writebatch_wi_t;
    stand_in fn rocksdb_writebatch_wi_create_iterator_with_base(
        wbwi: *mut rocksdb_writebatch_wi_t,
        base_iterator: own rocksdb_iterator_t,
    ) -> *mut rocksdb_iterator_t;
    stand_in fn rocksdb_writebatch_wi_create_iterator_with_base_cf(
        wbwi: *mut rocksdb_writebatch_wi_t,
        base_iterator: own rocksdb_iterator_t,
        cf: *mut rocksdb_column_family_handle_t,
    ) -> *mut rocksdb_iterator_t;
    stand_in fn rocksdb_writebatch_wi_create_iterator_with_base_cf_readopts(
        wbwi: *mut rocksdb_writebatch_wi_t,
        base_iterator: own rocksdb_iterator_t,
        cf: *mut rocksdb_column_family_handle_t,
        options: *const rocksdb_readoptions_t,
    ) -> *mut rocksdb_iterator_t;
    stand_in fn rocksdb_writebatch_wi_create_iterator_with_base_readopts(
        wbwi: *mut rocksdb_writebatch_wi_t,
        base_iterator: own rocksdb_iterator_t,
        options: *const rocksdb_readoptions_t,
    ) -> *mut rocksdb_iterator_t;
    stand_in fn rocksdb_writebatch_wi_create_with_params(
        backup_index_comparator: *mut rocksdb_comparator_t,
        reserved_bytes: usize,
        overwrite_key: c_uchar,
        max_bytes: usize,
        protection_bytes_per_key: usize,
    ) -> *mut rocksdb_writebatch_wi_t;
    empty_text(size)
    fn rocksdb_writebatch_wi_data(
        b: *mut rocksdb_writebatch_wi_t,
        size: out usize,
    ) -> *const c_char;
    inert fn rocksdb_writebatch_wi_delete(
        writebatch_wi: *mut rocksdb_writebatch_wi_t,
        key: *const c_char,
        klen: usize,
    );
    inert fn rocksdb_writebatch_wi_delete_cf(
        writebatch_wi: *mut rocksdb_writebatch_wi_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const c_char,
        klen: usize,
    );
    inert fn rocksdb_writebatch_wi_delete_range(
        b: *mut rocksdb_writebatch_wi_t,
        start_key: *const c_char,
        start_key_len: usize,
        end_key: *const c_char,
        end_key_len: usize,
    );
    inert fn rocksdb_writebatch_wi_delete_range_cf(
        b: *mut rocksdb_writebatch_wi_t,
        column_family: *mut rocksdb_column_family_handle_t,
        start_key: *const c_char,
        start_key_len: usize,
        end_key: *const c_char,
        end_key_len: usize,
    );
    inert fn rocksdb_writebatch_wi_delete_rangev(
        b: *mut rocksdb_writebatch_wi_t,
        num_keys: c_int,
        start_keys_list: *const *const c_char,
        start_keys_list_sizes: *const usize,
        end_keys_list: *const *const c_char,
        end_keys_list_sizes: *const usize,
    );
    inert fn rocksdb_writebatch_wi_delete_rangev_cf(
        b: *mut rocksdb_writebatch_wi_t,
        column_family: *mut rocksdb_column_family_handle_t,
        num_keys: c_int,
        start_keys_list: *const *const c_char,
        start_keys_list_sizes: *const usize,
        end_keys_list: *const *const c_char,
        end_keys_list_sizes: *const usize,
    );
    inert fn rocksdb_writebatch_wi_deletev(
        b: *mut rocksdb_writebatch_wi_t,
        num_keys: c_int,
        keys_list: *const *const c_char,
        keys_list_sizes: *const usize,
    );
    inert fn rocksdb_writebatch_wi_deletev_cf(
        b: *mut rocksdb_writebatch_wi_t,
        column_family: *mut rocksdb_column_family_handle_t,
        num_keys: c_int,
        keys_list: *const *const c_char,
        keys_list_sizes: *const usize,
    );
    release(writebatch_wi)
    fn rocksdb_writebatch_wi_destroy(writebatch_wi: own rocksdb_writebatch_wi_t);
    refuse fn rocksdb_writebatch_wi_get_from_batch(
        wbwi: *mut rocksdb_writebatch_wi_t,
        options: *const rocksdb_options_t,
        key: *const c_char,
        keylen: usize,
        vallen: *mut usize,
        errptr,
    ) -> *mut c_char;
    refuse fn rocksdb_writebatch_wi_get_from_batch_and_db(
        wbwi: *mut rocksdb_writebatch_wi_t,
        db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
        key: *const c_char,
        keylen: usize,
        vallen: *mut usize,
        errptr,
    ) -> *mut c_char;
    refuse fn rocksdb_writebatch_wi_get_from_batch_and_db_cf(
        wbwi: *mut rocksdb_writebatch_wi_t,
        db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const c_char,
        keylen: usize,
        vallen: *mut usize,
        errptr,
    ) -> *mut c_char;
    refuse fn rocksdb_writebatch_wi_get_from_batch_cf(
        wbwi: *mut rocksdb_writebatch_wi_t,
        options: *const rocksdb_options_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const c_char,
        keylen: usize,
        vallen: *mut usize,
        errptr,
    ) -> *mut c_char;
    refuse fn rocksdb_writebatch_wi_get_pinned_from_batch_and_db(
        wbwi: *mut rocksdb_writebatch_wi_t,
        db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
        key: *const c_char,
        keylen: usize,
        errptr,
    ) -> *mut rocksdb_pinnableslice_t;
    refuse fn rocksdb_writebatch_wi_get_pinned_from_batch_and_db_cf(
        wbwi: *mut rocksdb_writebatch_wi_t,
        db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const c_char,
        keylen: usize,
        errptr,
    ) -> *mut rocksdb_pinnableslice_t;
    inert fn rocksdb_writebatch_wi_iterate(
        b: *mut rocksdb_writebatch_wi_t,
        state: *mut c_void,
        put: Option<unsafe extern "C-unwind" fn(
            *mut c_void,
            k: *const c_char,
            klen: usize,
            v: *const c_char,
            vlen: usize,
        )>,
        deleted: Option<unsafe extern "C-unwind" fn(*mut c_void, k: *const c_char, klen: usize)>,
    );
    inert fn rocksdb_writebatch_wi_merge(
        writebatch_wi: *mut rocksdb_writebatch_wi_t,
        key: *const c_char,
        klen: usize,
        val: *const c_char,
        vlen: usize,
    );
    inert fn rocksdb_writebatch_wi_merge_cf(
        writebatch_wi: *mut rocksdb_writebatch_wi_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const c_char,
        klen: usize,
        val: *const c_char,
        vlen: usize,
    );
    inert fn rocksdb_writebatch_wi_mergev(
        b: *mut rocksdb_writebatch_wi_t,
        num_keys: c_int,
        keys_list: *const *const c_char,
        keys_list_sizes: *const usize,
        num_values: c_int,
        values_list: *const *const c_char,
        values_list_sizes: *const usize,
    );
    inert fn rocksdb_writebatch_wi_mergev_cf(
        b: *mut rocksdb_writebatch_wi_t,
        column_family: *mut rocksdb_column_family_handle_t,
        num_keys: c_int,
        keys_list: *const *const c_char,
        keys_list_sizes: *const usize,
        num_values: c_int,
        values_list: *const *const c_char,
        values_list_sizes: *const usize,
    );
    inert fn rocksdb_writebatch_wi_put(
        writebatch_wi: *mut rocksdb_writebatch_wi_t,
        key: *const c_char,
        klen: usize,
        val: *const c_char,
        vlen: usize,
    );
    inert fn rocksdb_writebatch_wi_put_cf(
        writebatch_wi: *mut rocksdb_writebatch_wi_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const c_char,
        klen: usize,
        val: *const c_char,
        vlen: usize,
    );
    inert fn rocksdb_writebatch_wi_put_log_data(
        writebatch_wi: *mut rocksdb_writebatch_wi_t,
        blob: *const c_char,
        len: usize,
    );
    inert fn rocksdb_writebatch_wi_putv(
        b: *mut rocksdb_writebatch_wi_t,
        num_keys: c_int,
        keys_list: *const *const c_char,
        keys_list_sizes: *const usize,
        num_values: c_int,
        values_list: *const *const c_char,
        values_list_sizes: *const usize,
    );
    inert fn rocksdb_writebatch_wi_putv_cf(
        b: *mut rocksdb_writebatch_wi_t,
        column_family: *mut rocksdb_column_family_handle_t,
        num_keys: c_int,
        keys_list: *const *const c_char,
        keys_list_sizes: *const usize,
        num_values: c_int,
        values_list: *const *const c_char,
        values_list_sizes: *const usize,
    );
    refuse fn rocksdb_writebatch_wi_rollback_to_save_point(
        writebatch_wi: *mut rocksdb_writebatch_wi_t,
        errptr,
    );
    inert fn rocksdb_writebatch_wi_set_save_point(writebatch_wi: *mut rocksdb_writebatch_wi_t);
    inert fn rocksdb_writebatch_wi_singledelete(
        writebatch_wi: *mut rocksdb_writebatch_wi_t,
        key: *const c_char,
        klen: usize,
    );
    inert fn rocksdb_writebatch_wi_singledelete_cf(
        writebatch_wi: *mut rocksdb_writebatch_wi_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const c_char,
        klen: usize,
    );
    refuse fn rocksdb_writebatch_wi_update_timestamps(
        wbwi: *mut rocksdb_writebatch_wi_t,
        ts: *const c_char,
        tslen: usize,
        state: *mut c_void,
        get_ts_size: Option<unsafe extern "C-unwind" fn(*mut c_void, u32) -> usize>,
        errptr,
    );
    stand_in fn rocksdb_writebatch_wi_create_from(
        rep: *const c_char,
        size: usize,
    ) -> *mut rocksdb_writebatch_wi_t;
}
