//! Properties of tables, their collectors, partitioners, and factories of compaction filters.

use super::prelude::*;

missing! {
    inert fn rocksdb_compactionfilter_set_ignore_snapshots(
        compactionfilter: *mut rocksdb_compactionfilter_t,
        value: c_uchar,
    );
    inert fn rocksdb_compactionfiltercontext_is_full_compaction(
        context: *mut rocksdb_compactionfiltercontext_t,
    ) -> c_uchar;
    inert fn rocksdb_compactionfiltercontext_is_manual_compaction(
        context: *mut rocksdb_compactionfiltercontext_t,
    ) -> c_uchar;
    stand_in fn rocksdb_compactionfilterfactory_create(
        state: *mut c_void,
        destructor: Option<unsafe extern "C-unwind" fn(*mut c_void)>,
        create_compaction_filter: Option<unsafe extern "C-unwind" fn(
            *mut c_void,
            context: *mut rocksdb_compactionfiltercontext_t,
        ) -> *mut rocksdb_compactionfilter_t>,
        name: Option<unsafe extern "C-unwind" fn(*mut c_void) -> *const c_char>,
    ) -> *mut rocksdb_compactionfilterfactory_t;
    release(compactionfilterfactory)
    fn rocksdb_compactionfilterfactory_destroy(
        compactionfilterfactory: own rocksdb_compactionfilterfactory_t,
    );
    note(opt)
    fn rocksdb_options_add_compact_on_deletion_collector_factory(
        opt: shared rocksdb_options_t,
        window_size: usize,
        num_dels_trigger: usize,
    );
    note(opt)
    fn rocksdb_options_add_compact_on_deletion_collector_factory_del_ratio(
        opt: shared rocksdb_options_t,
        window_size: usize,
        num_dels_trigger: usize,
        deletion_ratio: f64,
    );
    note(opt)
    fn rocksdb_options_add_compact_on_deletion_collector_factory_min_file_size(
        opt: shared rocksdb_options_t,
        window_size: usize,
        num_dels_trigger: usize,
        deletion_ratio: f64,
        min_file_size: u64,
    );
    mark_if(opt, table_properties_collector_factory)
    fn rocksdb_options_add_table_properties_collector_factory(
        opt: shared rocksdb_options_t,
        table_properties_collector_factory: *mut rocksdb_table_properties_collector_factory_t,
    );
    mark_if(opt, compactionfilterfactory)
    fn rocksdb_options_set_compaction_filter_factory(
        opt: shared rocksdb_options_t,
        compactionfilterfactory: *mut rocksdb_compactionfilterfactory_t,
    );
    note_if(opt, sst_partitioner_factory)
    fn rocksdb_options_set_sst_partitioner_factory(
        opt: shared rocksdb_options_t,
        sst_partitioner_factory: *mut rocksdb_sst_partitioner_factory_t,
    );
    release(factory)
    fn rocksdb_sst_partitioner_factory_destroy(factory: own rocksdb_sst_partitioner_factory_t);
    stand_in fn rocksdb_sst_partitioner_fixed_prefix_factory_create(
        prefix_len: usize,
    ) -> *mut rocksdb_sst_partitioner_factory_t;
    release(factory)
    fn rocksdb_table_properties_collector_factory_destroy(
        factory: own rocksdb_table_properties_collector_factory_t,
    );
    inert fn rocksdb_table_properties_column_family_id(
        props: *const rocksdb_table_properties_t,
    ) -> u64;
    empty_text(size)
    fn rocksdb_table_properties_column_family_name(
        props: *const rocksdb_table_properties_t,
        size: out usize,
    ) -> *const c_char;
    empty_text(size)
    fn rocksdb_table_properties_comparator_name(
        props: *const rocksdb_table_properties_t,
        size: out usize,
    ) -> *const c_char;
    empty_text(size)
    fn rocksdb_table_properties_compression_name(
        props: *const rocksdb_table_properties_t,
        size: out usize,
    ) -> *const c_char;
    empty_text(size)
    fn rocksdb_table_properties_compression_options(
        props: *const rocksdb_table_properties_t,
        size: out usize,
    ) -> *const c_char;
    inert fn rocksdb_table_properties_creation_time(
        props: *const rocksdb_table_properties_t,
    ) -> u64;
    inert fn rocksdb_table_properties_data_block_restart_interval(
        props: *const rocksdb_table_properties_t,
    ) -> u64;
    inert fn rocksdb_table_properties_data_size(props: *const rocksdb_table_properties_t) -> u64;
    empty_text(size)
    fn rocksdb_table_properties_db_host_id(
        props: *const rocksdb_table_properties_t,
        size: out usize,
    ) -> *const c_char;
    empty_text(size)
    fn rocksdb_table_properties_db_id(
        props: *const rocksdb_table_properties_t,
        size: out usize,
    ) -> *const c_char;
    empty_text(size)
    fn rocksdb_table_properties_db_session_id(
        props: *const rocksdb_table_properties_t,
        size: out usize,
    ) -> *const c_char;
    inert fn rocksdb_table_properties_external_sst_file_global_seqno_offset(
        props: *const rocksdb_table_properties_t,
    ) -> u64;
    inert fn rocksdb_table_properties_fast_compression_estimated_data_size(
        props: *const rocksdb_table_properties_t,
    ) -> u64;
    inert fn rocksdb_table_properties_file_creation_time(
        props: *const rocksdb_table_properties_t,
    ) -> u64;
    empty_text(size)
    fn rocksdb_table_properties_filter_policy_name(
        props: *const rocksdb_table_properties_t,
        size: out usize,
    ) -> *const c_char;
    inert fn rocksdb_table_properties_filter_size(props: *const rocksdb_table_properties_t) -> u64;
    inert fn rocksdb_table_properties_fixed_key_len(
        props: *const rocksdb_table_properties_t,
    ) -> u64;
    inert fn rocksdb_table_properties_format_version(
        props: *const rocksdb_table_properties_t,
    ) -> u64;
    inert fn rocksdb_table_properties_has_key_largest_seqno(
        props: *const rocksdb_table_properties_t,
    ) -> c_uchar;
    inert fn rocksdb_table_properties_has_key_smallest_seqno(
        props: *const rocksdb_table_properties_t,
    ) -> c_uchar;
    inert fn rocksdb_table_properties_index_block_restart_interval(
        props: *const rocksdb_table_properties_t,
    ) -> u64;
    inert fn rocksdb_table_properties_index_key_is_user_key(
        props: *const rocksdb_table_properties_t,
    ) -> u64;
    inert fn rocksdb_table_properties_index_partitions(
        props: *const rocksdb_table_properties_t,
    ) -> u64;
    inert fn rocksdb_table_properties_index_size(props: *const rocksdb_table_properties_t) -> u64;
    inert fn rocksdb_table_properties_index_value_is_delta_encoded(
        props: *const rocksdb_table_properties_t,
    ) -> u64;
    inert fn rocksdb_table_properties_key_largest_seqno(
        props: *const rocksdb_table_properties_t,
    ) -> u64;
    inert fn rocksdb_table_properties_key_smallest_seqno(
        props: *const rocksdb_table_properties_t,
    ) -> u64;
    empty_text(size)
    fn rocksdb_table_properties_merge_operator_name(
        props: *const rocksdb_table_properties_t,
        size: out usize,
    ) -> *const c_char;
    inert fn rocksdb_table_properties_newest_key_time(
        props: *const rocksdb_table_properties_t,
    ) -> u64;
    inert fn rocksdb_table_properties_num_data_blocks(
        props: *const rocksdb_table_properties_t,
    ) -> u64;
    inert fn rocksdb_table_properties_num_data_blocks_compression_bypassed(
        props: *const rocksdb_table_properties_t,
    ) -> u64;
    inert fn rocksdb_table_properties_num_data_blocks_compression_rejected(
        props: *const rocksdb_table_properties_t,
    ) -> u64;
    inert fn rocksdb_table_properties_num_deletions(
        props: *const rocksdb_table_properties_t,
    ) -> u64;
    inert fn rocksdb_table_properties_num_entries(props: *const rocksdb_table_properties_t) -> u64;
    inert fn rocksdb_table_properties_num_filter_entries(
        props: *const rocksdb_table_properties_t,
    ) -> u64;
    inert fn rocksdb_table_properties_num_merge_operands(
        props: *const rocksdb_table_properties_t,
    ) -> u64;
    inert fn rocksdb_table_properties_num_range_deletions(
        props: *const rocksdb_table_properties_t,
    ) -> u64;
    inert fn rocksdb_table_properties_num_uniform_blocks(
        props: *const rocksdb_table_properties_t,
    ) -> u64;
    inert fn rocksdb_table_properties_oldest_key_time(
        props: *const rocksdb_table_properties_t,
    ) -> u64;
    inert fn rocksdb_table_properties_orig_file_number(
        props: *const rocksdb_table_properties_t,
    ) -> u64;
    empty_text(size)
    fn rocksdb_table_properties_prefix_extractor_name(
        props: *const rocksdb_table_properties_t,
        size: out usize,
    ) -> *const c_char;
    empty_text(size)
    fn rocksdb_table_properties_property_collectors_names(
        props: *const rocksdb_table_properties_t,
        size: out usize,
    ) -> *const c_char;
    inert fn rocksdb_table_properties_raw_key_size(props: *const rocksdb_table_properties_t) -> u64;
    inert fn rocksdb_table_properties_raw_value_size(
        props: *const rocksdb_table_properties_t,
    ) -> u64;
    inert fn rocksdb_table_properties_readable_properties_count(
        props: *const rocksdb_table_properties_t,
    ) -> usize;
    empty_text(key_len)
    fn rocksdb_table_properties_readable_properties_key_at(
        props: *const rocksdb_table_properties_t,
        pos: usize,
        key_len: out usize,
    ) -> *const c_char;
    empty_text(value_len)
    fn rocksdb_table_properties_readable_properties_value_at(
        props: *const rocksdb_table_properties_t,
        pos: usize,
        value_len: out usize,
    ) -> *const c_char;
    inert fn rocksdb_table_properties_separate_key_value_in_data_block(
        props: *const rocksdb_table_properties_t,
    ) -> u64;
    empty_text(size)
    fn rocksdb_table_properties_seqno_to_time_mapping(
        props: *const rocksdb_table_properties_t,
        size: out usize,
    ) -> *const c_char;
    inert fn rocksdb_table_properties_slow_compression_estimated_data_size(
        props: *const rocksdb_table_properties_t,
    ) -> u64;
    inert fn rocksdb_table_properties_tail_start_offset(
        props: *const rocksdb_table_properties_t,
    ) -> u64;
    inert fn rocksdb_table_properties_top_level_index_size(
        props: *const rocksdb_table_properties_t,
    ) -> u64;
    inert fn rocksdb_table_properties_udi_is_primary_index(
        props: *const rocksdb_table_properties_t,
    ) -> u64;
    inert fn rocksdb_table_properties_uncompressed_data_size(
        props: *const rocksdb_table_properties_t,
    ) -> u64;
    inert fn rocksdb_table_properties_user_collected_properties_count(
        props: *const rocksdb_table_properties_t,
    ) -> usize;
    empty_text(key_len)
    fn rocksdb_table_properties_user_collected_properties_key_at(
        props: *const rocksdb_table_properties_t,
        pos: usize,
        key_len: out usize,
    ) -> *const c_char;
    empty_text(value_len)
    fn rocksdb_table_properties_user_collected_properties_value_at(
        props: *const rocksdb_table_properties_t,
        pos: usize,
        value_len: out usize,
    ) -> *const c_char;
    inert fn rocksdb_table_properties_user_defined_timestamps_persisted(
        props: *const rocksdb_table_properties_t,
    ) -> u64;
}
