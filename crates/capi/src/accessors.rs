//! Functions that set or get one option. Generated from `accessors.tsv` and the engine's options
//! by the test `accessors`, with `TAILWATER_REWRITE=1`.

use std::ffi::{c_char, c_int, c_uchar, c_uint};

use crate::block_based_options::rocksdb_block_based_table_options_t;
use crate::boundary::entry;
use crate::compaction::rocksdb_compactoptions_t;
use crate::env_options::rocksdb_envoptions_t;
use crate::flush::rocksdb_flushoptions_t;
use crate::ingestion::rocksdb_ingestexternalfileoptions_t;
use crate::options::{
    rocksdb_fifo_compaction_options_t, rocksdb_options_t, rocksdb_universal_compaction_options_t,
};
use crate::read_options::rocksdb_readoptions_t;
use crate::sizes::rocksdb_size_approximation_options_t;
use crate::values::{get, set, text_from};
use crate::wal_iterator::rocksdb_wal_readoptions_t;
use crate::write_options::rocksdb_writeoptions_t;

entry! {
    fn rocksdb_block_based_options_get_block_align(opt: shared rocksdb_block_based_table_options_t) -> c_uchar {
        get(&opt.options.block_align)
    }
}

entry! {
    fn rocksdb_block_based_options_get_block_restart_interval(opt: shared rocksdb_block_based_table_options_t) -> c_int {
        get(&opt.options.block_restart_interval)
    }
}

entry! {
    fn rocksdb_block_based_options_get_block_size(opt: shared rocksdb_block_based_table_options_t) -> u64 {
        get(&opt.options.block_size)
    }
}

entry! {
    fn rocksdb_block_based_options_get_block_size_deviation(opt: shared rocksdb_block_based_table_options_t) -> c_int {
        get(&opt.options.block_size_deviation)
    }
}

entry! {
    fn rocksdb_block_based_options_get_cache_index_and_filter_blocks(opt: shared rocksdb_block_based_table_options_t) -> c_uchar {
        get(&opt.options.cache_index_and_filter_blocks)
    }
}

entry! {
    fn rocksdb_block_based_options_get_cache_index_and_filter_blocks_with_high_priority(opt: shared rocksdb_block_based_table_options_t) -> c_uchar {
        get(&opt.options.cache_index_and_filter_blocks_with_high_priority)
    }
}

entry! {
    fn rocksdb_block_based_options_get_checksum(opt: shared rocksdb_block_based_table_options_t) -> c_int {
        get(&opt.options.checksum)
    }
}

entry! {
    fn rocksdb_block_based_options_get_data_block_hash_table_util_ratio(opt: shared rocksdb_block_based_table_options_t) -> f64 {
        get(&opt.options.data_block_hash_table_util_ratio)
    }
}

entry! {
    fn rocksdb_block_based_options_get_data_block_index_type(opt: shared rocksdb_block_based_table_options_t) -> c_int {
        get(&opt.options.data_block_index_type)
    }
}

entry! {
    fn rocksdb_block_based_options_get_decouple_partitioned_filters(opt: shared rocksdb_block_based_table_options_t) -> c_uchar {
        get(&opt.options.decouple_partitioned_filters)
    }
}

entry! {
    fn rocksdb_block_based_options_get_detect_filter_construct_corruption(opt: shared rocksdb_block_based_table_options_t) -> c_uchar {
        get(&opt.options.detect_filter_construct_corruption)
    }
}

entry! {
    fn rocksdb_block_based_options_get_enable_index_compression(opt: shared rocksdb_block_based_table_options_t) -> c_uchar {
        get(&opt.options.enable_index_compression)
    }
}

entry! {
    fn rocksdb_block_based_options_get_fail_if_no_udi_on_open(opt: shared rocksdb_block_based_table_options_t) -> c_uchar {
        get(&opt.options.fail_if_no_udi_on_open)
    }
}

entry! {
    fn rocksdb_block_based_options_get_format_version(opt: shared rocksdb_block_based_table_options_t) -> u32 {
        get(&opt.options.format_version)
    }
}

entry! {
    fn rocksdb_block_based_options_get_index_block_restart_interval(opt: shared rocksdb_block_based_table_options_t) -> c_int {
        get(&opt.options.index_block_restart_interval)
    }
}

entry! {
    fn rocksdb_block_based_options_get_index_block_search_type(opt: shared rocksdb_block_based_table_options_t) -> c_int {
        get(&opt.options.index_block_search_type)
    }
}

entry! {
    fn rocksdb_block_based_options_get_index_shortening(opt: shared rocksdb_block_based_table_options_t) -> c_int {
        get(&opt.options.index_shortening)
    }
}

entry! {
    fn rocksdb_block_based_options_get_index_type(opt: shared rocksdb_block_based_table_options_t) -> c_int {
        get(&opt.options.index_type)
    }
}

entry! {
    fn rocksdb_block_based_options_get_initial_auto_readahead_size(opt: shared rocksdb_block_based_table_options_t) -> usize {
        get(&opt.options.initial_auto_readahead_size)
    }
}

entry! {
    fn rocksdb_block_based_options_get_max_auto_readahead_size(opt: shared rocksdb_block_based_table_options_t) -> usize {
        get(&opt.options.max_auto_readahead_size)
    }
}

entry! {
    fn rocksdb_block_based_options_get_metadata_block_size(opt: shared rocksdb_block_based_table_options_t) -> u64 {
        get(&opt.options.metadata_block_size)
    }
}

entry! {
    fn rocksdb_block_based_options_get_no_block_cache(opt: shared rocksdb_block_based_table_options_t) -> c_uchar {
        get(&opt.options.no_block_cache)
    }
}

entry! {
    fn rocksdb_block_based_options_get_num_file_reads_for_auto_readahead(opt: shared rocksdb_block_based_table_options_t) -> u64 {
        get(&opt.options.num_file_reads_for_auto_readahead)
    }
}

entry! {
    fn rocksdb_block_based_options_get_optimize_filters_for_memory(opt: shared rocksdb_block_based_table_options_t) -> c_uchar {
        get(&opt.options.optimize_filters_for_memory)
    }
}

entry! {
    fn rocksdb_block_based_options_get_partition_filters(opt: shared rocksdb_block_based_table_options_t) -> c_uchar {
        get(&opt.options.partition_filters)
    }
}

entry! {
    fn rocksdb_block_based_options_get_pin_l0_filter_and_index_blocks_in_cache(opt: shared rocksdb_block_based_table_options_t) -> c_uchar {
        get(&opt.options.pin_l0_filter_and_index_blocks_in_cache)
    }
}

entry! {
    fn rocksdb_block_based_options_get_pin_top_level_index_and_filter(opt: shared rocksdb_block_based_table_options_t) -> c_uchar {
        get(&opt.options.pin_top_level_index_and_filter)
    }
}

entry! {
    fn rocksdb_block_based_options_get_prepopulate_block_cache(opt: shared rocksdb_block_based_table_options_t) -> c_int {
        get(&opt.options.prepopulate_block_cache)
    }
}

entry! {
    fn rocksdb_block_based_options_get_read_amp_bytes_per_bit(opt: shared rocksdb_block_based_table_options_t) -> u32 {
        get(&opt.options.read_amp_bytes_per_bit)
    }
}

entry! {
    fn rocksdb_block_based_options_get_separate_key_value_in_data_block(opt: shared rocksdb_block_based_table_options_t) -> c_uchar {
        get(&opt.options.separate_key_value_in_data_block)
    }
}

entry! {
    fn rocksdb_block_based_options_get_super_block_alignment_size(opt: shared rocksdb_block_based_table_options_t) -> usize {
        get(&opt.options.super_block_alignment_size)
    }
}

entry! {
    fn rocksdb_block_based_options_get_super_block_alignment_space_overhead_ratio(opt: shared rocksdb_block_based_table_options_t) -> usize {
        get(&opt.options.super_block_alignment_space_overhead_ratio)
    }
}

entry! {
    fn rocksdb_block_based_options_get_uniform_cv_threshold(opt: shared rocksdb_block_based_table_options_t) -> f64 {
        get(&opt.options.uniform_cv_threshold)
    }
}

entry! {
    fn rocksdb_block_based_options_get_use_delta_encoding(opt: shared rocksdb_block_based_table_options_t) -> c_uchar {
        get(&opt.options.use_delta_encoding)
    }
}

entry! {
    fn rocksdb_block_based_options_get_use_udi_as_primary_index(opt: shared rocksdb_block_based_table_options_t) -> c_uchar {
        get(&opt.options.use_udi_as_primary_index)
    }
}

entry! {
    fn rocksdb_block_based_options_get_verify_compression(opt: shared rocksdb_block_based_table_options_t) -> c_uchar {
        get(&opt.options.verify_compression)
    }
}

entry! {
    fn rocksdb_block_based_options_get_whole_key_filtering(opt: shared rocksdb_block_based_table_options_t) -> c_uchar {
        get(&opt.options.whole_key_filtering)
    }
}

entry! {
    fn rocksdb_block_based_options_set_block_align(opt: &mut rocksdb_block_based_table_options_t, v: c_uchar) {
        set(&mut opt.options.block_align, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_block_based_options_set_block_restart_interval(opt: &mut rocksdb_block_based_table_options_t, v: c_int) {
        set(&mut opt.options.block_restart_interval, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_block_based_options_set_block_size(opt: &mut rocksdb_block_based_table_options_t, v: usize) {
        set(&mut opt.options.block_size, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_block_based_options_set_block_size_deviation(opt: &mut rocksdb_block_based_table_options_t, v: c_int) {
        set(&mut opt.options.block_size_deviation, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_block_based_options_set_cache_index_and_filter_blocks(opt: &mut rocksdb_block_based_table_options_t, v: c_uchar) {
        set(&mut opt.options.cache_index_and_filter_blocks, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_block_based_options_set_cache_index_and_filter_blocks_with_high_priority(opt: &mut rocksdb_block_based_table_options_t, v: c_uchar) {
        set(&mut opt.options.cache_index_and_filter_blocks_with_high_priority, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_block_based_options_set_checksum(opt: &mut rocksdb_block_based_table_options_t, v: c_char) {
        set(&mut opt.options.checksum, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_block_based_options_set_data_block_hash_ratio(opt: &mut rocksdb_block_based_table_options_t, v: f64) {
        set(&mut opt.options.data_block_hash_table_util_ratio, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_block_based_options_set_data_block_hash_table_util_ratio(opt: &mut rocksdb_block_based_table_options_t, v: f64) {
        set(&mut opt.options.data_block_hash_table_util_ratio, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_block_based_options_set_data_block_index_type(opt: &mut rocksdb_block_based_table_options_t, v: c_int) {
        set(&mut opt.options.data_block_index_type, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_block_based_options_set_decouple_partitioned_filters(opt: &mut rocksdb_block_based_table_options_t, v: c_uchar) {
        set(&mut opt.options.decouple_partitioned_filters, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_block_based_options_set_detect_filter_construct_corruption(opt: &mut rocksdb_block_based_table_options_t, v: c_uchar) {
        set(&mut opt.options.detect_filter_construct_corruption, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_block_based_options_set_enable_index_compression(opt: &mut rocksdb_block_based_table_options_t, v: c_uchar) {
        set(&mut opt.options.enable_index_compression, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_block_based_options_set_fail_if_no_udi_on_open(opt: &mut rocksdb_block_based_table_options_t, v: c_uchar) {
        set(&mut opt.options.fail_if_no_udi_on_open, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_block_based_options_set_format_version(opt: &mut rocksdb_block_based_table_options_t, v: c_int) {
        set(&mut opt.options.format_version, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_block_based_options_set_index_block_restart_interval(opt: &mut rocksdb_block_based_table_options_t, v: c_int) {
        set(&mut opt.options.index_block_restart_interval, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_block_based_options_set_index_block_search_type(opt: &mut rocksdb_block_based_table_options_t, v: c_int) {
        set(&mut opt.options.index_block_search_type, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_block_based_options_set_index_shortening(opt: &mut rocksdb_block_based_table_options_t, v: c_int) {
        set(&mut opt.options.index_shortening, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_block_based_options_set_index_type(opt: &mut rocksdb_block_based_table_options_t, v: c_int) {
        set(&mut opt.options.index_type, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_block_based_options_set_initial_auto_readahead_size(opt: &mut rocksdb_block_based_table_options_t, v: usize) {
        set(&mut opt.options.initial_auto_readahead_size, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_block_based_options_set_max_auto_readahead_size(opt: &mut rocksdb_block_based_table_options_t, v: usize) {
        set(&mut opt.options.max_auto_readahead_size, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_block_based_options_set_metadata_block_size(opt: &mut rocksdb_block_based_table_options_t, v: u64) {
        set(&mut opt.options.metadata_block_size, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_block_based_options_set_no_block_cache(opt: &mut rocksdb_block_based_table_options_t, v: c_uchar) {
        set(&mut opt.options.no_block_cache, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_block_based_options_set_num_file_reads_for_auto_readahead(opt: &mut rocksdb_block_based_table_options_t, v: u64) {
        set(&mut opt.options.num_file_reads_for_auto_readahead, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_block_based_options_set_optimize_filters_for_memory(opt: &mut rocksdb_block_based_table_options_t, v: c_uchar) {
        set(&mut opt.options.optimize_filters_for_memory, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_block_based_options_set_partition_filters(opt: &mut rocksdb_block_based_table_options_t, v: c_uchar) {
        set(&mut opt.options.partition_filters, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_block_based_options_set_partition_pinning_tier(opt: &mut rocksdb_block_based_table_options_t, v: c_int) {
        set(&mut opt.options.metadata_cache_options.partition_pinning, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_block_based_options_set_pin_l0_filter_and_index_blocks_in_cache(opt: &mut rocksdb_block_based_table_options_t, v: c_uchar) {
        set(&mut opt.options.pin_l0_filter_and_index_blocks_in_cache, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_block_based_options_set_pin_top_level_index_and_filter(opt: &mut rocksdb_block_based_table_options_t, v: c_uchar) {
        set(&mut opt.options.pin_top_level_index_and_filter, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_block_based_options_set_prepopulate_block_cache(opt: &mut rocksdb_block_based_table_options_t, v: c_int) {
        set(&mut opt.options.prepopulate_block_cache, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_block_based_options_set_read_amp_bytes_per_bit(opt: &mut rocksdb_block_based_table_options_t, v: u32) {
        set(&mut opt.options.read_amp_bytes_per_bit, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_block_based_options_set_separate_key_value_in_data_block(opt: &mut rocksdb_block_based_table_options_t, v: c_uchar) {
        set(&mut opt.options.separate_key_value_in_data_block, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_block_based_options_set_super_block_alignment_size(opt: &mut rocksdb_block_based_table_options_t, v: usize) {
        set(&mut opt.options.super_block_alignment_size, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_block_based_options_set_super_block_alignment_space_overhead_ratio(opt: &mut rocksdb_block_based_table_options_t, v: usize) {
        set(&mut opt.options.super_block_alignment_space_overhead_ratio, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_block_based_options_set_top_level_index_pinning_tier(opt: &mut rocksdb_block_based_table_options_t, v: c_int) {
        set(&mut opt.options.metadata_cache_options.top_level_index_pinning, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_block_based_options_set_uniform_cv_threshold(opt: &mut rocksdb_block_based_table_options_t, v: f64) {
        set(&mut opt.options.uniform_cv_threshold, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_block_based_options_set_unpartitioned_pinning_tier(opt: &mut rocksdb_block_based_table_options_t, v: c_int) {
        set(&mut opt.options.metadata_cache_options.unpartitioned_pinning, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_block_based_options_set_use_delta_encoding(opt: &mut rocksdb_block_based_table_options_t, v: c_uchar) {
        set(&mut opt.options.use_delta_encoding, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_block_based_options_set_use_udi_as_primary_index(opt: &mut rocksdb_block_based_table_options_t, v: c_uchar) {
        set(&mut opt.options.use_udi_as_primary_index, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_block_based_options_set_verify_compression(opt: &mut rocksdb_block_based_table_options_t, v: c_uchar) {
        set(&mut opt.options.verify_compression, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_block_based_options_set_whole_key_filtering(opt: &mut rocksdb_block_based_table_options_t, v: c_uchar) {
        set(&mut opt.options.whole_key_filtering, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_compactoptions_get_bottommost_level_compaction(opt: shared rocksdb_compactoptions_t) -> c_uchar {
        get(&opt.options.bottommost_level_compaction)
    }
}

entry! {
    fn rocksdb_compactoptions_get_exclusive_manual_compaction(opt: shared rocksdb_compactoptions_t) -> c_uchar {
        get(&opt.exclusive)
    }
}

entry! {
    fn rocksdb_compactoptions_set_bottommost_level_compaction(opt: &mut rocksdb_compactoptions_t, v: c_uchar) {
        set(&mut opt.options.bottommost_level_compaction, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_compactoptions_set_exclusive_manual_compaction(opt: &mut rocksdb_compactoptions_t, v: c_uchar) {
        set(&mut opt.exclusive, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_envoptions_get_allow_fallocate(opt: shared rocksdb_envoptions_t) -> c_uchar {
        get(&opt.allow_fallocate)
    }
}

entry! {
    fn rocksdb_envoptions_get_bytes_per_sync(opt: shared rocksdb_envoptions_t) -> u64 {
        get(&opt.bytes_per_sync)
    }
}

entry! {
    fn rocksdb_envoptions_get_compaction_readahead_size(opt: shared rocksdb_envoptions_t) -> usize {
        get(&opt.compaction_readahead_size)
    }
}

entry! {
    fn rocksdb_envoptions_get_fallocate_with_keep_size(opt: shared rocksdb_envoptions_t) -> c_uchar {
        get(&opt.fallocate_with_keep_size)
    }
}

entry! {
    fn rocksdb_envoptions_get_fd_cloexec(opt: shared rocksdb_envoptions_t) -> c_uchar {
        get(&opt.fd_cloexec)
    }
}

entry! {
    fn rocksdb_envoptions_get_strict_bytes_per_sync(opt: shared rocksdb_envoptions_t) -> c_uchar {
        get(&opt.strict_bytes_per_sync)
    }
}

entry! {
    fn rocksdb_envoptions_get_use_direct_reads(opt: shared rocksdb_envoptions_t) -> c_uchar {
        get(&opt.use_direct_reads)
    }
}

entry! {
    fn rocksdb_envoptions_get_use_direct_writes(opt: shared rocksdb_envoptions_t) -> c_uchar {
        get(&opt.use_direct_writes)
    }
}

entry! {
    fn rocksdb_envoptions_get_use_mmap_reads(opt: shared rocksdb_envoptions_t) -> c_uchar {
        get(&opt.use_mmap_reads)
    }
}

entry! {
    fn rocksdb_envoptions_get_use_mmap_writes(opt: shared rocksdb_envoptions_t) -> c_uchar {
        get(&opt.use_mmap_writes)
    }
}

entry! {
    fn rocksdb_envoptions_get_writable_file_max_buffer_size(opt: shared rocksdb_envoptions_t) -> usize {
        get(&opt.writable_file_max_buffer_size)
    }
}

entry! {
    fn rocksdb_envoptions_set_allow_fallocate(opt: &mut rocksdb_envoptions_t, v: c_uchar) {
        set(&mut opt.allow_fallocate, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_envoptions_set_bytes_per_sync(opt: &mut rocksdb_envoptions_t, v: u64) {
        set(&mut opt.bytes_per_sync, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_envoptions_set_compaction_readahead_size(opt: &mut rocksdb_envoptions_t, v: usize) {
        set(&mut opt.compaction_readahead_size, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_envoptions_set_fallocate_with_keep_size(opt: &mut rocksdb_envoptions_t, v: c_uchar) {
        set(&mut opt.fallocate_with_keep_size, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_envoptions_set_fd_cloexec(opt: &mut rocksdb_envoptions_t, v: c_uchar) {
        set(&mut opt.fd_cloexec, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_envoptions_set_strict_bytes_per_sync(opt: &mut rocksdb_envoptions_t, v: c_uchar) {
        set(&mut opt.strict_bytes_per_sync, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_envoptions_set_use_direct_reads(opt: &mut rocksdb_envoptions_t, v: c_uchar) {
        set(&mut opt.use_direct_reads, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_envoptions_set_use_direct_writes(opt: &mut rocksdb_envoptions_t, v: c_uchar) {
        set(&mut opt.use_direct_writes, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_envoptions_set_use_mmap_reads(opt: &mut rocksdb_envoptions_t, v: c_uchar) {
        set(&mut opt.use_mmap_reads, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_envoptions_set_use_mmap_writes(opt: &mut rocksdb_envoptions_t, v: c_uchar) {
        set(&mut opt.use_mmap_writes, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_envoptions_set_writable_file_max_buffer_size(opt: &mut rocksdb_envoptions_t, v: usize) {
        set(&mut opt.writable_file_max_buffer_size, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_fifo_compaction_options_get_age_for_warm(opt: shared rocksdb_fifo_compaction_options_t) -> u64 {
        get(&opt.options.age_for_warm)
    }
}

entry! {
    fn rocksdb_fifo_compaction_options_get_allow_compaction(opt: shared rocksdb_fifo_compaction_options_t) -> c_uchar {
        get(&opt.options.allow_compaction)
    }
}

entry! {
    fn rocksdb_fifo_compaction_options_get_allow_trivial_copy_when_change_temperature(opt: shared rocksdb_fifo_compaction_options_t) -> c_uchar {
        get(&opt.options.allow_trivial_copy_when_change_temperature)
    }
}

entry! {
    fn rocksdb_fifo_compaction_options_get_max_data_files_size(opt: shared rocksdb_fifo_compaction_options_t) -> u64 {
        get(&opt.options.max_data_files_size)
    }
}

entry! {
    fn rocksdb_fifo_compaction_options_get_max_table_files_size(opt: shared rocksdb_fifo_compaction_options_t) -> u64 {
        get(&opt.options.max_table_files_size)
    }
}

entry! {
    fn rocksdb_fifo_compaction_options_get_trivial_copy_buffer_size(opt: shared rocksdb_fifo_compaction_options_t) -> u64 {
        get(&opt.options.trivial_copy_buffer_size)
    }
}

entry! {
    fn rocksdb_fifo_compaction_options_get_use_kv_ratio_compaction(opt: shared rocksdb_fifo_compaction_options_t) -> c_uchar {
        get(&opt.options.use_kv_ratio_compaction)
    }
}

entry! {
    fn rocksdb_fifo_compaction_options_set_age_for_warm(opt: &mut rocksdb_fifo_compaction_options_t, v: u64) {
        set(&mut opt.options.age_for_warm, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_fifo_compaction_options_set_allow_compaction(opt: &mut rocksdb_fifo_compaction_options_t, v: c_uchar) {
        set(&mut opt.options.allow_compaction, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_fifo_compaction_options_set_allow_trivial_copy_when_change_temperature(opt: &mut rocksdb_fifo_compaction_options_t, v: c_uchar) {
        set(&mut opt.options.allow_trivial_copy_when_change_temperature, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_fifo_compaction_options_set_max_data_files_size(opt: &mut rocksdb_fifo_compaction_options_t, v: u64) {
        set(&mut opt.options.max_data_files_size, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_fifo_compaction_options_set_max_table_files_size(opt: &mut rocksdb_fifo_compaction_options_t, v: u64) {
        set(&mut opt.options.max_table_files_size, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_fifo_compaction_options_set_trivial_copy_buffer_size(opt: &mut rocksdb_fifo_compaction_options_t, v: u64) {
        set(&mut opt.options.trivial_copy_buffer_size, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_fifo_compaction_options_set_use_kv_ratio_compaction(opt: &mut rocksdb_fifo_compaction_options_t, v: c_uchar) {
        set(&mut opt.options.use_kv_ratio_compaction, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_flushoptions_get_wait(opt: shared rocksdb_flushoptions_t) -> c_uchar {
        get(&opt.wait)
    }
}

entry! {
    fn rocksdb_flushoptions_set_wait(opt: &mut rocksdb_flushoptions_t, v: c_uchar) {
        set(&mut opt.wait, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_ingestexternalfileoptions_get_allow_blocking_flush(opt: shared rocksdb_ingestexternalfileoptions_t) -> c_uchar {
        get(&opt.options.allow_blocking_flush)
    }
}

entry! {
    fn rocksdb_ingestexternalfileoptions_get_allow_db_generated_files(opt: shared rocksdb_ingestexternalfileoptions_t) -> c_uchar {
        get(&opt.options.allow_db_generated_files)
    }
}

entry! {
    fn rocksdb_ingestexternalfileoptions_get_allow_global_seqno(opt: shared rocksdb_ingestexternalfileoptions_t) -> c_uchar {
        get(&opt.options.allow_global_seqno)
    }
}

entry! {
    fn rocksdb_ingestexternalfileoptions_get_fail_if_not_bottommost_level(opt: shared rocksdb_ingestexternalfileoptions_t) -> c_uchar {
        get(&opt.options.fail_if_not_bottommost_level)
    }
}

entry! {
    fn rocksdb_ingestexternalfileoptions_get_failed_move_fall_back_to_copy(opt: shared rocksdb_ingestexternalfileoptions_t) -> c_uchar {
        get(&opt.options.failed_move_fall_back_to_copy)
    }
}

entry! {
    fn rocksdb_ingestexternalfileoptions_get_ingest_behind(opt: shared rocksdb_ingestexternalfileoptions_t) -> c_uchar {
        get(&opt.options.ingest_behind)
    }
}

entry! {
    fn rocksdb_ingestexternalfileoptions_get_link_files(opt: shared rocksdb_ingestexternalfileoptions_t) -> c_uchar {
        get(&opt.options.link_files)
    }
}

entry! {
    fn rocksdb_ingestexternalfileoptions_get_move_files(opt: shared rocksdb_ingestexternalfileoptions_t) -> c_uchar {
        get(&opt.options.move_files)
    }
}

entry! {
    fn rocksdb_ingestexternalfileoptions_get_snapshot_consistency(opt: shared rocksdb_ingestexternalfileoptions_t) -> c_uchar {
        get(&opt.options.snapshot_consistency)
    }
}

entry! {
    fn rocksdb_ingestexternalfileoptions_get_verify_checksums_before_ingest(opt: shared rocksdb_ingestexternalfileoptions_t) -> c_uchar {
        get(&opt.options.verify_checksums_before_ingest)
    }
}

entry! {
    fn rocksdb_ingestexternalfileoptions_get_write_global_seqno(opt: shared rocksdb_ingestexternalfileoptions_t) -> c_uchar {
        get(&opt.options.write_global_seqno)
    }
}

entry! {
    fn rocksdb_ingestexternalfileoptions_set_allow_blocking_flush(opt: &mut rocksdb_ingestexternalfileoptions_t, v: c_uchar) {
        set(&mut opt.options.allow_blocking_flush, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_ingestexternalfileoptions_set_allow_db_generated_files(opt: &mut rocksdb_ingestexternalfileoptions_t, v: c_uchar) {
        set(&mut opt.options.allow_db_generated_files, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_ingestexternalfileoptions_set_allow_global_seqno(opt: &mut rocksdb_ingestexternalfileoptions_t, v: c_uchar) {
        set(&mut opt.options.allow_global_seqno, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_ingestexternalfileoptions_set_fail_if_not_bottommost_level(opt: &mut rocksdb_ingestexternalfileoptions_t, v: c_uchar) {
        set(&mut opt.options.fail_if_not_bottommost_level, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_ingestexternalfileoptions_set_failed_move_fall_back_to_copy(opt: &mut rocksdb_ingestexternalfileoptions_t, v: c_uchar) {
        set(&mut opt.options.failed_move_fall_back_to_copy, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_ingestexternalfileoptions_set_ingest_behind(opt: &mut rocksdb_ingestexternalfileoptions_t, v: c_uchar) {
        set(&mut opt.options.ingest_behind, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_ingestexternalfileoptions_set_link_files(opt: &mut rocksdb_ingestexternalfileoptions_t, v: c_uchar) {
        set(&mut opt.options.link_files, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_ingestexternalfileoptions_set_move_files(opt: &mut rocksdb_ingestexternalfileoptions_t, v: c_uchar) {
        set(&mut opt.options.move_files, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_ingestexternalfileoptions_set_snapshot_consistency(opt: &mut rocksdb_ingestexternalfileoptions_t, v: c_uchar) {
        set(&mut opt.options.snapshot_consistency, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_ingestexternalfileoptions_set_verify_checksums_before_ingest(opt: &mut rocksdb_ingestexternalfileoptions_t, v: c_uchar) {
        set(&mut opt.options.verify_checksums_before_ingest, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_ingestexternalfileoptions_set_write_global_seqno(opt: &mut rocksdb_ingestexternalfileoptions_t, v: c_uchar) {
        set(&mut opt.options.write_global_seqno, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_compaction_readahead_size(opt: &mut rocksdb_options_t, v: usize) {
        set(&mut opt.database.compaction_readahead_size, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_get_WAL_size_limit_MB(opt: shared rocksdb_options_t) -> u64 {
        get(&opt.database.wal_size_limit_mb)
    }
}

entry! {
    fn rocksdb_options_get_WAL_ttl_seconds(opt: shared rocksdb_options_t) -> u64 {
        get(&opt.database.wal_ttl_seconds)
    }
}

entry! {
    fn rocksdb_options_get_advise_random_on_open(opt: shared rocksdb_options_t) -> c_uchar {
        get(&opt.database.advise_random_on_open)
    }
}

entry! {
    fn rocksdb_options_get_allow_2pc(opt: shared rocksdb_options_t) -> c_uchar {
        get(&opt.database.allow_2pc)
    }
}

entry! {
    fn rocksdb_options_get_allow_concurrent_memtable_write(opt: shared rocksdb_options_t) -> c_uchar {
        get(&opt.database.allow_concurrent_memtable_write)
    }
}

entry! {
    fn rocksdb_options_get_allow_data_in_errors(opt: shared rocksdb_options_t) -> c_uchar {
        get(&opt.database.allow_data_in_errors)
    }
}

entry! {
    fn rocksdb_options_get_allow_fallocate(opt: shared rocksdb_options_t) -> c_uchar {
        get(&opt.database.allow_fallocate)
    }
}

entry! {
    fn rocksdb_options_get_allow_ingest_behind(opt: shared rocksdb_options_t) -> c_uchar {
        get(&opt.database.allow_ingest_behind)
    }
}

entry! {
    fn rocksdb_options_get_allow_mmap_reads(opt: shared rocksdb_options_t) -> c_uchar {
        get(&opt.database.allow_mmap_reads)
    }
}

entry! {
    fn rocksdb_options_get_allow_mmap_writes(opt: shared rocksdb_options_t) -> c_uchar {
        get(&opt.database.allow_mmap_writes)
    }
}

entry! {
    fn rocksdb_options_get_arena_block_size(opt: shared rocksdb_options_t) -> usize {
        get(&opt.family.arena_block_size)
    }
}

entry! {
    fn rocksdb_options_get_async_wal_precreate(opt: shared rocksdb_options_t) -> c_uchar {
        get(&opt.database.async_wal_precreate)
    }
}

entry! {
    fn rocksdb_options_get_atomic_flush(opt: shared rocksdb_options_t) -> c_uchar {
        get(&opt.database.atomic_flush)
    }
}

entry! {
    fn rocksdb_options_get_avoid_flush_during_recovery(opt: shared rocksdb_options_t) -> c_uchar {
        get(&opt.database.avoid_flush_during_recovery)
    }
}

entry! {
    fn rocksdb_options_get_avoid_flush_during_shutdown(opt: shared rocksdb_options_t) -> c_uchar {
        get(&opt.database.avoid_flush_during_shutdown)
    }
}

entry! {
    fn rocksdb_options_get_avoid_unnecessary_blocking_io(opt: shared rocksdb_options_t) -> c_uchar {
        get(&opt.database.avoid_unnecessary_blocking_io)
    }
}

entry! {
    fn rocksdb_options_get_background_close_inactive_wals(opt: shared rocksdb_options_t) -> c_uchar {
        get(&opt.database.background_close_inactive_wals)
    }
}

entry! {
    fn rocksdb_options_get_best_efforts_recovery(opt: shared rocksdb_options_t) -> c_uchar {
        get(&opt.database.best_efforts_recovery)
    }
}

entry! {
    fn rocksdb_options_get_bgerror_resume_retry_interval(opt: shared rocksdb_options_t) -> u64 {
        get(&opt.database.bgerror_resume_retry_interval)
    }
}

entry! {
    fn rocksdb_options_get_blob_compaction_readahead_size(opt: shared rocksdb_options_t) -> u64 {
        get(&opt.family.blob_compaction_readahead_size)
    }
}

entry! {
    fn rocksdb_options_get_blob_compression_type(opt: shared rocksdb_options_t) -> c_int {
        get(&opt.family.blob_compression_type)
    }
}

entry! {
    fn rocksdb_options_get_blob_direct_write_partitions(opt: shared rocksdb_options_t) -> u32 {
        get(&opt.family.blob_direct_write_partitions)
    }
}

entry! {
    fn rocksdb_options_get_blob_file_size(opt: shared rocksdb_options_t) -> u64 {
        get(&opt.family.blob_file_size)
    }
}

entry! {
    fn rocksdb_options_get_blob_file_starting_level(opt: shared rocksdb_options_t) -> c_int {
        get(&opt.family.blob_file_starting_level)
    }
}

entry! {
    fn rocksdb_options_get_blob_gc_age_cutoff(opt: shared rocksdb_options_t) -> f64 {
        get(&opt.family.blob_garbage_collection_age_cutoff)
    }
}

entry! {
    fn rocksdb_options_get_blob_gc_force_threshold(opt: shared rocksdb_options_t) -> f64 {
        get(&opt.family.blob_garbage_collection_force_threshold)
    }
}

entry! {
    fn rocksdb_options_get_block_protection_bytes_per_key(opt: shared rocksdb_options_t) -> u8 {
        get(&opt.family.block_protection_bytes_per_key)
    }
}

entry! {
    fn rocksdb_options_get_bloom_locality(opt: shared rocksdb_options_t) -> u32 {
        get(&opt.family.bloom_locality)
    }
}

entry! {
    fn rocksdb_options_get_bottommost_compression(opt: shared rocksdb_options_t) -> c_int {
        get(&opt.family.bottommost_compression)
    }
}

entry! {
    fn rocksdb_options_get_bottommost_compression_options_use_zstd_dict_trainer(opt: shared rocksdb_options_t) -> c_uchar {
        get(&opt.family.bottommost_compression_opts.use_zstd_dict_trainer)
    }
}

entry! {
    fn rocksdb_options_get_bottommost_file_compaction_delay(opt: shared rocksdb_options_t) -> u32 {
        get(&opt.family.bottommost_file_compaction_delay)
    }
}

entry! {
    fn rocksdb_options_get_bytes_per_sync(opt: shared rocksdb_options_t) -> u64 {
        get(&opt.database.bytes_per_sync)
    }
}

entry! {
    fn rocksdb_options_get_cf_allow_ingest_behind(opt: shared rocksdb_options_t) -> c_uchar {
        get(&opt.family.cf_allow_ingest_behind)
    }
}

entry! {
    fn rocksdb_options_get_compaction_pri(opt: shared rocksdb_options_t) -> c_int {
        get(&opt.family.compaction_pri)
    }
}

entry! {
    fn rocksdb_options_get_compaction_readahead_size(opt: shared rocksdb_options_t) -> usize {
        get(&opt.database.compaction_readahead_size)
    }
}

entry! {
    fn rocksdb_options_get_compaction_style(opt: shared rocksdb_options_t) -> c_int {
        get(&opt.family.compaction_style)
    }
}

entry! {
    fn rocksdb_options_get_compaction_verify_record_count(opt: shared rocksdb_options_t) -> c_uchar {
        get(&opt.database.compaction_verify_record_count)
    }
}

entry! {
    fn rocksdb_options_get_compression(opt: shared rocksdb_options_t) -> c_int {
        get(&opt.family.compression)
    }
}

entry! {
    fn rocksdb_options_get_compression_options_max_dict_buffer_bytes(opt: shared rocksdb_options_t) -> u64 {
        get(&opt.family.compression_opts.max_dict_buffer_bytes)
    }
}

entry! {
    fn rocksdb_options_get_compression_options_parallel_threads(opt: shared rocksdb_options_t) -> c_int {
        get(&opt.family.compression_opts.parallel_threads)
    }
}

entry! {
    fn rocksdb_options_get_compression_options_use_zstd_dict_trainer(opt: shared rocksdb_options_t) -> c_uchar {
        get(&opt.family.compression_opts.use_zstd_dict_trainer)
    }
}

entry! {
    fn rocksdb_options_get_compression_options_zstd_max_train_bytes(opt: shared rocksdb_options_t) -> c_int {
        get(&opt.family.compression_opts.zstd_max_train_bytes)
    }
}

entry! {
    fn rocksdb_options_get_create_if_missing(opt: shared rocksdb_options_t) -> c_uchar {
        get(&opt.database.create_if_missing)
    }
}

entry! {
    fn rocksdb_options_get_create_missing_column_families(opt: shared rocksdb_options_t) -> c_uchar {
        get(&opt.database.create_missing_column_families)
    }
}

entry! {
    fn rocksdb_options_get_daily_offpeak_time_utc(opt: shared rocksdb_options_t, size: out usize) -> *const c_char {
        let (text, length) = opt.texts.get("daily_offpeak_time_utc", &opt.database.daily_offpeak_time_utc);
        size.set(length);
        Ok(text)
    }
}

entry! {
    fn rocksdb_options_get_db_host_id(opt: shared rocksdb_options_t, size: out usize) -> *const c_char {
        let (text, length) = opt.texts.get("db_host_id", &opt.database.db_host_id);
        size.set(length);
        Ok(text)
    }
}

entry! {
    fn rocksdb_options_get_db_log_dir(opt: shared rocksdb_options_t, size: out usize) -> *const c_char {
        let (text, length) = opt.texts.get("db_log_dir", &opt.database.db_log_dir);
        size.set(length);
        Ok(text)
    }
}

entry! {
    fn rocksdb_options_get_db_write_buffer_size(opt: shared rocksdb_options_t) -> usize {
        get(&opt.database.db_write_buffer_size)
    }
}

entry! {
    fn rocksdb_options_get_default_temperature(opt: shared rocksdb_options_t) -> c_int {
        get(&opt.family.default_temperature)
    }
}

entry! {
    fn rocksdb_options_get_default_write_temperature(opt: shared rocksdb_options_t) -> c_int {
        get(&opt.family.default_write_temperature)
    }
}

entry! {
    fn rocksdb_options_get_delayed_write_rate(opt: shared rocksdb_options_t) -> u64 {
        get(&opt.database.delayed_write_rate)
    }
}

entry! {
    fn rocksdb_options_get_delete_obsolete_files_period_micros(opt: shared rocksdb_options_t) -> u64 {
        get(&opt.database.delete_obsolete_files_period_micros)
    }
}

entry! {
    fn rocksdb_options_get_disable_auto_compactions(opt: shared rocksdb_options_t) -> c_uchar {
        get(&opt.family.disable_auto_compactions)
    }
}

entry! {
    fn rocksdb_options_get_disallow_memtable_writes(opt: shared rocksdb_options_t) -> c_uchar {
        get(&opt.family.disallow_memtable_writes)
    }
}

entry! {
    fn rocksdb_options_get_dump_malloc_stats(opt: shared rocksdb_options_t) -> c_uchar {
        get(&opt.database.dump_malloc_stats)
    }
}

entry! {
    fn rocksdb_options_get_enable_blob_direct_write(opt: shared rocksdb_options_t) -> c_uchar {
        get(&opt.family.enable_blob_direct_write)
    }
}

entry! {
    fn rocksdb_options_get_enable_blob_files(opt: shared rocksdb_options_t) -> c_uchar {
        get(&opt.family.enable_blob_files)
    }
}

entry! {
    fn rocksdb_options_get_enable_blob_gc(opt: shared rocksdb_options_t) -> c_uchar {
        get(&opt.family.enable_blob_garbage_collection)
    }
}

entry! {
    fn rocksdb_options_get_enable_pipelined_write(opt: shared rocksdb_options_t) -> c_uchar {
        get(&opt.database.enable_pipelined_write)
    }
}

entry! {
    fn rocksdb_options_get_enable_thread_tracking(opt: shared rocksdb_options_t) -> c_uchar {
        get(&opt.database.enable_thread_tracking)
    }
}

entry! {
    fn rocksdb_options_get_enable_write_thread_adaptive_yield(opt: shared rocksdb_options_t) -> c_uchar {
        get(&opt.database.enable_write_thread_adaptive_yield)
    }
}

entry! {
    fn rocksdb_options_get_enforce_single_del_contracts(opt: shared rocksdb_options_t) -> c_uchar {
        get(&opt.database.enforce_single_del_contracts)
    }
}

entry! {
    fn rocksdb_options_get_enforce_write_buffer_manager_during_recovery(opt: shared rocksdb_options_t) -> c_uchar {
        get(&opt.database.enforce_write_buffer_manager_during_recovery)
    }
}

entry! {
    fn rocksdb_options_get_error_if_exists(opt: shared rocksdb_options_t) -> c_uchar {
        get(&opt.database.error_if_exists)
    }
}

entry! {
    fn rocksdb_options_get_experimental_mempurge_threshold(opt: shared rocksdb_options_t) -> f64 {
        get(&opt.family.experimental_mempurge_threshold)
    }
}

entry! {
    fn rocksdb_options_get_fast_sst_open(opt: shared rocksdb_options_t) -> c_uchar {
        get(&opt.database.fast_sst_open)
    }
}

entry! {
    fn rocksdb_options_get_flush_verify_memtable_count(opt: shared rocksdb_options_t) -> c_uchar {
        get(&opt.database.flush_verify_memtable_count)
    }
}

entry! {
    fn rocksdb_options_get_follower_catchup_retry_count(opt: shared rocksdb_options_t) -> u64 {
        get(&opt.database.follower_catchup_retry_count)
    }
}

entry! {
    fn rocksdb_options_get_follower_catchup_retry_wait_ms(opt: shared rocksdb_options_t) -> u64 {
        get(&opt.database.follower_catchup_retry_wait_ms)
    }
}

entry! {
    fn rocksdb_options_get_follower_refresh_catchup_period_ms(opt: shared rocksdb_options_t) -> u64 {
        get(&opt.database.follower_refresh_catchup_period_ms)
    }
}

entry! {
    fn rocksdb_options_get_force_consistency_checks(opt: shared rocksdb_options_t) -> c_uchar {
        get(&opt.family.force_consistency_checks)
    }
}

entry! {
    fn rocksdb_options_get_hard_pending_compaction_bytes_limit(opt: shared rocksdb_options_t) -> usize {
        get(&opt.family.hard_pending_compaction_bytes_limit)
    }
}

entry! {
    fn rocksdb_options_get_info_log_level(opt: shared rocksdb_options_t) -> c_int {
        get(&opt.database.info_log_level)
    }
}

entry! {
    fn rocksdb_options_get_inplace_update_num_locks(opt: shared rocksdb_options_t) -> usize {
        get(&opt.family.inplace_update_num_locks)
    }
}

entry! {
    fn rocksdb_options_get_inplace_update_support(opt: shared rocksdb_options_t) -> c_uchar {
        get(&opt.family.inplace_update_support)
    }
}

entry! {
    fn rocksdb_options_get_is_fd_close_on_exec(opt: shared rocksdb_options_t) -> c_uchar {
        get(&opt.database.is_fd_close_on_exec)
    }
}

entry! {
    fn rocksdb_options_get_keep_log_file_num(opt: shared rocksdb_options_t) -> usize {
        get(&opt.database.keep_log_file_num)
    }
}

entry! {
    fn rocksdb_options_get_last_level_temperature(opt: shared rocksdb_options_t) -> c_int {
        get(&opt.family.last_level_temperature)
    }
}

entry! {
    fn rocksdb_options_get_level0_file_num_compaction_trigger(opt: shared rocksdb_options_t) -> c_int {
        get(&opt.family.level0_file_num_compaction_trigger)
    }
}

entry! {
    fn rocksdb_options_get_level0_slowdown_writes_trigger(opt: shared rocksdb_options_t) -> c_int {
        get(&opt.family.level0_slowdown_writes_trigger)
    }
}

entry! {
    fn rocksdb_options_get_level0_stop_writes_trigger(opt: shared rocksdb_options_t) -> c_int {
        get(&opt.family.level0_stop_writes_trigger)
    }
}

entry! {
    fn rocksdb_options_get_level_compaction_dynamic_level_bytes(opt: shared rocksdb_options_t) -> c_uchar {
        get(&opt.family.level_compaction_dynamic_level_bytes)
    }
}

entry! {
    fn rocksdb_options_get_log_file_time_to_roll(opt: shared rocksdb_options_t) -> usize {
        get(&opt.database.log_file_time_to_roll)
    }
}

entry! {
    fn rocksdb_options_get_log_readahead_size(opt: shared rocksdb_options_t) -> usize {
        get(&opt.database.log_readahead_size)
    }
}

entry! {
    fn rocksdb_options_get_lowest_used_cache_tier(opt: shared rocksdb_options_t) -> c_int {
        get(&opt.database.lowest_used_cache_tier)
    }
}

entry! {
    fn rocksdb_options_get_manifest_preallocation_size(opt: shared rocksdb_options_t) -> usize {
        get(&opt.database.manifest_preallocation_size)
    }
}

entry! {
    fn rocksdb_options_get_manual_wal_flush(opt: shared rocksdb_options_t) -> c_uchar {
        get(&opt.database.manual_wal_flush)
    }
}

entry! {
    fn rocksdb_options_get_max_background_compactions(opt: shared rocksdb_options_t) -> c_int {
        get(&opt.database.max_background_compactions)
    }
}

entry! {
    fn rocksdb_options_get_max_background_flushes(opt: shared rocksdb_options_t) -> c_int {
        get(&opt.database.max_background_flushes)
    }
}

entry! {
    fn rocksdb_options_get_max_background_jobs(opt: shared rocksdb_options_t) -> c_int {
        get(&opt.database.max_background_jobs)
    }
}

entry! {
    fn rocksdb_options_get_max_bgerror_resume_count(opt: shared rocksdb_options_t) -> c_int {
        get(&opt.database.max_bgerror_resume_count)
    }
}

entry! {
    fn rocksdb_options_get_max_bytes_for_level_base(opt: shared rocksdb_options_t) -> u64 {
        get(&opt.family.max_bytes_for_level_base)
    }
}

entry! {
    fn rocksdb_options_get_max_bytes_for_level_multiplier(opt: shared rocksdb_options_t) -> f64 {
        get(&opt.family.max_bytes_for_level_multiplier)
    }
}

entry! {
    fn rocksdb_options_get_max_compaction_bytes(opt: shared rocksdb_options_t) -> u64 {
        get(&opt.family.max_compaction_bytes)
    }
}

entry! {
    fn rocksdb_options_get_max_compaction_trigger_wakeup_seconds(opt: shared rocksdb_options_t) -> u64 {
        get(&opt.database.max_compaction_trigger_wakeup_seconds)
    }
}

entry! {
    fn rocksdb_options_get_max_file_opening_threads(opt: shared rocksdb_options_t) -> c_int {
        get(&opt.database.max_file_opening_threads)
    }
}

entry! {
    fn rocksdb_options_get_max_log_file_size(opt: shared rocksdb_options_t) -> usize {
        get(&opt.database.max_log_file_size)
    }
}

entry! {
    fn rocksdb_options_get_max_manifest_file_size(opt: shared rocksdb_options_t) -> usize {
        get(&opt.database.max_manifest_file_size)
    }
}

entry! {
    fn rocksdb_options_get_max_manifest_space_amp_pct(opt: shared rocksdb_options_t) -> c_int {
        get(&opt.database.max_manifest_space_amp_pct)
    }
}

entry! {
    fn rocksdb_options_get_max_open_files(opt: shared rocksdb_options_t) -> c_int {
        get(&opt.database.max_open_files)
    }
}

entry! {
    fn rocksdb_options_get_max_sequential_skip_in_iterations(opt: shared rocksdb_options_t) -> u64 {
        get(&opt.family.max_sequential_skip_in_iterations)
    }
}

entry! {
    fn rocksdb_options_get_max_subcompactions(opt: shared rocksdb_options_t) -> u32 {
        get(&opt.database.max_subcompactions)
    }
}

entry! {
    fn rocksdb_options_get_max_successive_merges(opt: shared rocksdb_options_t) -> usize {
        get(&opt.family.max_successive_merges)
    }
}

entry! {
    fn rocksdb_options_get_max_total_wal_size(opt: shared rocksdb_options_t) -> u64 {
        get(&opt.database.max_total_wal_size)
    }
}

entry! {
    fn rocksdb_options_get_max_write_batch_group_size_bytes(opt: shared rocksdb_options_t) -> u64 {
        get(&opt.database.max_write_batch_group_size_bytes)
    }
}

entry! {
    fn rocksdb_options_get_max_write_buffer_number(opt: shared rocksdb_options_t) -> c_int {
        get(&opt.family.max_write_buffer_number)
    }
}

entry! {
    fn rocksdb_options_get_max_write_buffer_size_to_maintain(opt: shared rocksdb_options_t) -> i64 {
        get(&opt.family.max_write_buffer_size_to_maintain)
    }
}

entry! {
    fn rocksdb_options_get_memtable_avg_op_scan_flush_trigger(opt: shared rocksdb_options_t) -> u32 {
        get(&opt.family.memtable_avg_op_scan_flush_trigger)
    }
}

entry! {
    fn rocksdb_options_get_memtable_batch_lookup_optimization(opt: shared rocksdb_options_t) -> c_uchar {
        get(&opt.family.memtable_batch_lookup_optimization)
    }
}

entry! {
    fn rocksdb_options_get_memtable_huge_page_size(opt: shared rocksdb_options_t) -> usize {
        get(&opt.family.memtable_huge_page_size)
    }
}

entry! {
    fn rocksdb_options_get_memtable_max_range_deletions(opt: shared rocksdb_options_t) -> u32 {
        get(&opt.family.memtable_max_range_deletions)
    }
}

entry! {
    fn rocksdb_options_get_memtable_op_scan_flush_trigger(opt: shared rocksdb_options_t) -> u32 {
        get(&opt.family.memtable_op_scan_flush_trigger)
    }
}

entry! {
    fn rocksdb_options_get_memtable_prefix_bloom_size_ratio(opt: shared rocksdb_options_t) -> f64 {
        get(&opt.family.memtable_prefix_bloom_size_ratio)
    }
}

entry! {
    fn rocksdb_options_get_memtable_protection_bytes_per_key(opt: shared rocksdb_options_t) -> u32 {
        get(&opt.family.memtable_protection_bytes_per_key)
    }
}

entry! {
    fn rocksdb_options_get_memtable_verify_per_key_checksum_on_seek(opt: shared rocksdb_options_t) -> c_uchar {
        get(&opt.family.memtable_verify_per_key_checksum_on_seek)
    }
}

entry! {
    fn rocksdb_options_get_memtable_whole_key_filtering(opt: shared rocksdb_options_t) -> c_uchar {
        get(&opt.family.memtable_whole_key_filtering)
    }
}

entry! {
    fn rocksdb_options_get_metadata_write_temperature(opt: shared rocksdb_options_t) -> c_int {
        get(&opt.database.metadata_write_temperature)
    }
}

entry! {
    fn rocksdb_options_get_min_blob_size(opt: shared rocksdb_options_t) -> u64 {
        get(&opt.family.min_blob_size)
    }
}

entry! {
    fn rocksdb_options_get_min_tombstones_for_range_conversion(opt: shared rocksdb_options_t) -> u32 {
        get(&opt.family.min_tombstones_for_range_conversion)
    }
}

entry! {
    fn rocksdb_options_get_min_write_buffer_number_to_merge(opt: shared rocksdb_options_t) -> c_int {
        get(&opt.family.min_write_buffer_number_to_merge)
    }
}

entry! {
    fn rocksdb_options_get_num_levels(opt: shared rocksdb_options_t) -> c_int {
        get(&opt.family.num_levels)
    }
}

entry! {
    fn rocksdb_options_get_open_files_async(opt: shared rocksdb_options_t) -> c_uchar {
        get(&opt.database.open_files_async)
    }
}

entry! {
    fn rocksdb_options_get_optimize_filters_for_hits(opt: shared rocksdb_options_t) -> c_uchar {
        get(&opt.family.optimize_filters_for_hits)
    }
}

entry! {
    fn rocksdb_options_get_optimize_manifest_for_recovery(opt: shared rocksdb_options_t) -> c_uchar {
        get(&opt.database.optimize_manifest_for_recovery)
    }
}

entry! {
    fn rocksdb_options_get_paranoid_checks(opt: shared rocksdb_options_t) -> c_uchar {
        get(&opt.database.paranoid_checks)
    }
}

entry! {
    fn rocksdb_options_get_paranoid_file_checks(opt: shared rocksdb_options_t) -> c_uchar {
        get(&opt.family.paranoid_file_checks)
    }
}

entry! {
    fn rocksdb_options_get_paranoid_memory_checks(opt: shared rocksdb_options_t) -> c_uchar {
        get(&opt.family.paranoid_memory_checks)
    }
}

entry! {
    fn rocksdb_options_get_periodic_compaction_seconds(opt: shared rocksdb_options_t) -> u64 {
        get(&opt.family.periodic_compaction_seconds)
    }
}

entry! {
    fn rocksdb_options_get_persist_stats_to_disk(opt: shared rocksdb_options_t) -> c_uchar {
        get(&opt.database.persist_stats_to_disk)
    }
}

entry! {
    fn rocksdb_options_get_persist_user_defined_timestamps(opt: shared rocksdb_options_t) -> c_uchar {
        get(&opt.family.persist_user_defined_timestamps)
    }
}

entry! {
    fn rocksdb_options_get_preclude_last_level_data_seconds(opt: shared rocksdb_options_t) -> u64 {
        get(&opt.family.preclude_last_level_data_seconds)
    }
}

entry! {
    fn rocksdb_options_get_prefix_seek_opt_in_only(opt: shared rocksdb_options_t) -> c_uchar {
        get(&opt.database.prefix_seek_opt_in_only)
    }
}

entry! {
    fn rocksdb_options_get_prepopulate_blob_cache(opt: shared rocksdb_options_t) -> c_int {
        get(&opt.family.prepopulate_blob_cache)
    }
}

entry! {
    fn rocksdb_options_get_preserve_internal_time_seconds(opt: shared rocksdb_options_t) -> u64 {
        get(&opt.family.preserve_internal_time_seconds)
    }
}

entry! {
    fn rocksdb_options_get_read_io_executor_threads(opt: shared rocksdb_options_t) -> c_int {
        get(&opt.database.read_io_executor_threads)
    }
}

entry! {
    fn rocksdb_options_get_read_triggered_compaction_threshold(opt: shared rocksdb_options_t) -> f64 {
        get(&opt.family.read_triggered_compaction_threshold)
    }
}

entry! {
    fn rocksdb_options_get_recycle_log_file_num(opt: shared rocksdb_options_t) -> usize {
        get(&opt.database.recycle_log_file_num)
    }
}

entry! {
    fn rocksdb_options_get_report_bg_io_stats(opt: shared rocksdb_options_t) -> c_uchar {
        get(&opt.family.report_bg_io_stats)
    }
}

entry! {
    fn rocksdb_options_get_reuse_manifest_on_open(opt: shared rocksdb_options_t) -> c_uchar {
        get(&opt.database.reuse_manifest_on_open)
    }
}

entry! {
    fn rocksdb_options_get_sample_for_compression(opt: shared rocksdb_options_t) -> u64 {
        get(&opt.family.sample_for_compression)
    }
}

entry! {
    fn rocksdb_options_get_skip_stats_update_on_db_open(opt: shared rocksdb_options_t) -> c_uchar {
        get(&opt.database.skip_stats_update_on_db_open)
    }
}

entry! {
    fn rocksdb_options_get_soft_pending_compaction_bytes_limit(opt: shared rocksdb_options_t) -> usize {
        get(&opt.family.soft_pending_compaction_bytes_limit)
    }
}

entry! {
    fn rocksdb_options_get_stats_dump_period_sec(opt: shared rocksdb_options_t) -> c_uint {
        get(&opt.database.stats_dump_period_sec)
    }
}

entry! {
    fn rocksdb_options_get_stats_history_buffer_size(opt: shared rocksdb_options_t) -> usize {
        get(&opt.database.stats_history_buffer_size)
    }
}

entry! {
    fn rocksdb_options_get_stats_persist_period_sec(opt: shared rocksdb_options_t) -> c_uint {
        get(&opt.database.stats_persist_period_sec)
    }
}

entry! {
    fn rocksdb_options_get_strict_bytes_per_sync(opt: shared rocksdb_options_t) -> c_uchar {
        get(&opt.database.strict_bytes_per_sync)
    }
}

entry! {
    fn rocksdb_options_get_strict_max_successive_merges(opt: shared rocksdb_options_t) -> c_uchar {
        get(&opt.family.strict_max_successive_merges)
    }
}

entry! {
    fn rocksdb_options_get_table_cache_numshardbits(opt: shared rocksdb_options_t) -> c_int {
        get(&opt.database.table_cache_numshardbits)
    }
}

entry! {
    fn rocksdb_options_get_target_file_size_base(opt: shared rocksdb_options_t) -> u64 {
        get(&opt.family.target_file_size_base)
    }
}

entry! {
    fn rocksdb_options_get_target_file_size_is_upper_bound(opt: shared rocksdb_options_t) -> c_uchar {
        get(&opt.family.target_file_size_is_upper_bound)
    }
}

entry! {
    fn rocksdb_options_get_target_file_size_multiplier(opt: shared rocksdb_options_t) -> c_int {
        get(&opt.family.target_file_size_multiplier)
    }
}

entry! {
    fn rocksdb_options_get_track_and_verify_wals(opt: shared rocksdb_options_t) -> c_uchar {
        get(&opt.database.track_and_verify_wals)
    }
}

entry! {
    fn rocksdb_options_get_track_and_verify_wals_in_manifest(opt: shared rocksdb_options_t) -> c_uchar {
        get(&opt.database.track_and_verify_wals_in_manifest)
    }
}

entry! {
    fn rocksdb_options_get_ttl(opt: shared rocksdb_options_t) -> u64 {
        get(&opt.family.ttl)
    }
}

entry! {
    fn rocksdb_options_get_two_write_queues(opt: shared rocksdb_options_t) -> c_uchar {
        get(&opt.database.two_write_queues)
    }
}

entry! {
    fn rocksdb_options_get_uncache_aggressiveness(opt: shared rocksdb_options_t) -> u32 {
        get(&opt.family.uncache_aggressiveness)
    }
}

entry! {
    fn rocksdb_options_get_unordered_write(opt: shared rocksdb_options_t) -> c_uchar {
        get(&opt.database.unordered_write)
    }
}

entry! {
    fn rocksdb_options_get_use_adaptive_mutex(opt: shared rocksdb_options_t) -> c_uchar {
        get(&opt.database.use_adaptive_mutex)
    }
}

entry! {
    fn rocksdb_options_get_use_direct_io_for_compaction_reads(opt: shared rocksdb_options_t) -> c_uchar {
        get(&opt.database.use_direct_io_for_compaction_reads)
    }
}

entry! {
    fn rocksdb_options_get_use_direct_io_for_flush_and_compaction(opt: shared rocksdb_options_t) -> c_uchar {
        get(&opt.database.use_direct_io_for_flush_and_compaction)
    }
}

entry! {
    fn rocksdb_options_get_use_direct_reads(opt: shared rocksdb_options_t) -> c_uchar {
        get(&opt.database.use_direct_reads)
    }
}

entry! {
    fn rocksdb_options_get_use_fsync(opt: shared rocksdb_options_t) -> c_int {
        get(&opt.database.use_fsync)
    }
}

entry! {
    fn rocksdb_options_get_verify_manifest_content_on_close(opt: shared rocksdb_options_t) -> c_uchar {
        get(&opt.database.verify_manifest_content_on_close)
    }
}

entry! {
    fn rocksdb_options_get_verify_output_flags(opt: shared rocksdb_options_t) -> c_int {
        get(&opt.family.verify_output_flags)
    }
}

entry! {
    fn rocksdb_options_get_verify_sst_unique_id_in_manifest(opt: shared rocksdb_options_t) -> c_uchar {
        get(&opt.database.verify_sst_unique_id_in_manifest)
    }
}

entry! {
    fn rocksdb_options_get_wal_bytes_per_sync(opt: shared rocksdb_options_t) -> u64 {
        get(&opt.database.wal_bytes_per_sync)
    }
}

entry! {
    fn rocksdb_options_get_wal_compression(opt: shared rocksdb_options_t) -> c_int {
        get(&opt.database.wal_compression)
    }
}

entry! {
    fn rocksdb_options_get_wal_dir(opt: shared rocksdb_options_t, size: out usize) -> *const c_char {
        let (text, length) = opt.texts.get("wal_dir", &opt.database.wal_dir);
        size.set(length);
        Ok(text)
    }
}

entry! {
    fn rocksdb_options_get_wal_recovery_mode(opt: shared rocksdb_options_t) -> c_int {
        get(&opt.database.wal_recovery_mode)
    }
}

entry! {
    fn rocksdb_options_get_wal_write_temperature(opt: shared rocksdb_options_t) -> c_int {
        get(&opt.database.wal_write_temperature)
    }
}

entry! {
    fn rocksdb_options_get_writable_file_max_buffer_size(opt: shared rocksdb_options_t) -> u64 {
        get(&opt.database.writable_file_max_buffer_size)
    }
}

entry! {
    fn rocksdb_options_get_write_buffer_size(opt: shared rocksdb_options_t) -> usize {
        get(&opt.family.write_buffer_size)
    }
}

entry! {
    fn rocksdb_options_get_write_dbid_to_manifest(opt: shared rocksdb_options_t) -> c_uchar {
        get(&opt.database.write_dbid_to_manifest)
    }
}

entry! {
    fn rocksdb_options_get_write_identity_file(opt: shared rocksdb_options_t) -> c_uchar {
        get(&opt.database.write_identity_file)
    }
}

entry! {
    fn rocksdb_options_get_write_thread_max_yield_usec(opt: shared rocksdb_options_t) -> u64 {
        get(&opt.database.write_thread_max_yield_usec)
    }
}

entry! {
    fn rocksdb_options_get_write_thread_slow_yield_usec(opt: shared rocksdb_options_t) -> u64 {
        get(&opt.database.write_thread_slow_yield_usec)
    }
}

entry! {
    fn rocksdb_options_set_WAL_size_limit_MB(opt: &mut rocksdb_options_t, v: u64) {
        set(&mut opt.database.wal_size_limit_mb, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_WAL_ttl_seconds(opt: &mut rocksdb_options_t, v: u64) {
        set(&mut opt.database.wal_ttl_seconds, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_advise_random_on_open(opt: &mut rocksdb_options_t, v: c_uchar) {
        set(&mut opt.database.advise_random_on_open, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_allow_2pc(opt: &mut rocksdb_options_t, v: c_uchar) {
        set(&mut opt.database.allow_2pc, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_allow_concurrent_memtable_write(opt: &mut rocksdb_options_t, v: c_uchar) {
        set(&mut opt.database.allow_concurrent_memtable_write, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_allow_data_in_errors(opt: &mut rocksdb_options_t, v: c_uchar) {
        set(&mut opt.database.allow_data_in_errors, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_allow_fallocate(opt: &mut rocksdb_options_t, v: c_uchar) {
        set(&mut opt.database.allow_fallocate, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_allow_ingest_behind(opt: &mut rocksdb_options_t, v: c_uchar) {
        set(&mut opt.database.allow_ingest_behind, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_allow_mmap_reads(opt: &mut rocksdb_options_t, v: c_uchar) {
        set(&mut opt.database.allow_mmap_reads, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_allow_mmap_writes(opt: &mut rocksdb_options_t, v: c_uchar) {
        set(&mut opt.database.allow_mmap_writes, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_arena_block_size(opt: &mut rocksdb_options_t, v: usize) {
        set(&mut opt.family.arena_block_size, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_async_wal_precreate(opt: &mut rocksdb_options_t, v: c_uchar) {
        set(&mut opt.database.async_wal_precreate, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_atomic_flush(opt: &mut rocksdb_options_t, v: c_uchar) {
        set(&mut opt.database.atomic_flush, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_avoid_flush_during_recovery(opt: &mut rocksdb_options_t, v: c_uchar) {
        set(&mut opt.database.avoid_flush_during_recovery, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_avoid_flush_during_shutdown(opt: &mut rocksdb_options_t, v: c_uchar) {
        set(&mut opt.database.avoid_flush_during_shutdown, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_avoid_unnecessary_blocking_io(opt: &mut rocksdb_options_t, v: c_uchar) {
        set(&mut opt.database.avoid_unnecessary_blocking_io, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_background_close_inactive_wals(opt: &mut rocksdb_options_t, v: c_uchar) {
        set(&mut opt.database.background_close_inactive_wals, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_best_efforts_recovery(opt: &mut rocksdb_options_t, v: c_uchar) {
        set(&mut opt.database.best_efforts_recovery, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_bgerror_resume_retry_interval(opt: &mut rocksdb_options_t, v: u64) {
        set(&mut opt.database.bgerror_resume_retry_interval, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_blob_compaction_readahead_size(opt: &mut rocksdb_options_t, v: u64) {
        set(&mut opt.family.blob_compaction_readahead_size, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_blob_compression_type(opt: &mut rocksdb_options_t, v: c_int) {
        set(&mut opt.family.blob_compression_type, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_blob_direct_write_partitions(opt: &mut rocksdb_options_t, v: u32) {
        set(&mut opt.family.blob_direct_write_partitions, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_blob_file_size(opt: &mut rocksdb_options_t, v: u64) {
        set(&mut opt.family.blob_file_size, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_blob_file_starting_level(opt: &mut rocksdb_options_t, v: c_int) {
        set(&mut opt.family.blob_file_starting_level, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_blob_gc_age_cutoff(opt: &mut rocksdb_options_t, v: f64) {
        set(&mut opt.family.blob_garbage_collection_age_cutoff, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_blob_gc_force_threshold(opt: &mut rocksdb_options_t, v: f64) {
        set(&mut opt.family.blob_garbage_collection_force_threshold, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_block_protection_bytes_per_key(opt: &mut rocksdb_options_t, v: u8) {
        set(&mut opt.family.block_protection_bytes_per_key, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_bloom_locality(opt: &mut rocksdb_options_t, v: u32) {
        set(&mut opt.family.bloom_locality, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_bottommost_compression(opt: &mut rocksdb_options_t, v: c_int) {
        set(&mut opt.family.bottommost_compression, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_bottommost_file_compaction_delay(opt: &mut rocksdb_options_t, v: u32) {
        set(&mut opt.family.bottommost_file_compaction_delay, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_bytes_per_sync(opt: &mut rocksdb_options_t, v: u64) {
        set(&mut opt.database.bytes_per_sync, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_cf_allow_ingest_behind(opt: &mut rocksdb_options_t, v: c_uchar) {
        set(&mut opt.family.cf_allow_ingest_behind, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_compaction_pri(opt: &mut rocksdb_options_t, v: c_int) {
        set(&mut opt.family.compaction_pri, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_compaction_style(opt: &mut rocksdb_options_t, v: c_int) {
        set(&mut opt.family.compaction_style, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_compaction_verify_record_count(opt: &mut rocksdb_options_t, v: c_uchar) {
        set(&mut opt.database.compaction_verify_record_count, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_compression(opt: &mut rocksdb_options_t, v: c_int) {
        set(&mut opt.family.compression, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_compression_options_max_dict_buffer_bytes(opt: &mut rocksdb_options_t, v: u64) {
        set(&mut opt.family.compression_opts.max_dict_buffer_bytes, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_compression_options_parallel_threads(opt: &mut rocksdb_options_t, v: c_int) {
        set(&mut opt.family.compression_opts.parallel_threads, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_compression_options_use_zstd_dict_trainer(opt: &mut rocksdb_options_t, v: c_uchar) {
        set(&mut opt.family.compression_opts.use_zstd_dict_trainer, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_compression_options_zstd_max_train_bytes(opt: &mut rocksdb_options_t, v: c_int) {
        set(&mut opt.family.compression_opts.zstd_max_train_bytes, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_create_if_missing(opt: &mut rocksdb_options_t, v: c_uchar) {
        set(&mut opt.database.create_if_missing, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_create_missing_column_families(opt: &mut rocksdb_options_t, v: c_uchar) {
        set(&mut opt.database.create_missing_column_families, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_daily_offpeak_time_utc(opt: &mut rocksdb_options_t, v: text) {
        opt.database.daily_offpeak_time_utc = text_from(v)?;
        Ok(())
    }
}

entry! {
    fn rocksdb_options_set_db_host_id(opt: &mut rocksdb_options_t, v: text) {
        opt.database.db_host_id = text_from(v)?;
        Ok(())
    }
}

entry! {
    fn rocksdb_options_set_db_log_dir(opt: &mut rocksdb_options_t, v: text) {
        opt.database.db_log_dir = text_from(v)?;
        Ok(())
    }
}

entry! {
    fn rocksdb_options_set_db_write_buffer_size(opt: &mut rocksdb_options_t, v: usize) {
        set(&mut opt.database.db_write_buffer_size, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_default_temperature(opt: &mut rocksdb_options_t, v: c_int) {
        set(&mut opt.family.default_temperature, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_default_write_temperature(opt: &mut rocksdb_options_t, v: c_int) {
        set(&mut opt.family.default_write_temperature, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_delayed_write_rate(opt: &mut rocksdb_options_t, v: u64) {
        set(&mut opt.database.delayed_write_rate, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_delete_obsolete_files_period_micros(opt: &mut rocksdb_options_t, v: u64) {
        set(&mut opt.database.delete_obsolete_files_period_micros, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_disable_auto_compactions(opt: &mut rocksdb_options_t, v: c_int) {
        set(&mut opt.family.disable_auto_compactions, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_disallow_memtable_writes(opt: &mut rocksdb_options_t, v: c_uchar) {
        set(&mut opt.family.disallow_memtable_writes, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_dump_malloc_stats(opt: &mut rocksdb_options_t, v: c_uchar) {
        set(&mut opt.database.dump_malloc_stats, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_enable_blob_direct_write(opt: &mut rocksdb_options_t, v: c_uchar) {
        set(&mut opt.family.enable_blob_direct_write, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_enable_blob_files(opt: &mut rocksdb_options_t, v: c_uchar) {
        set(&mut opt.family.enable_blob_files, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_enable_blob_gc(opt: &mut rocksdb_options_t, v: c_uchar) {
        set(&mut opt.family.enable_blob_garbage_collection, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_enable_pipelined_write(opt: &mut rocksdb_options_t, v: c_uchar) {
        set(&mut opt.database.enable_pipelined_write, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_enable_thread_tracking(opt: &mut rocksdb_options_t, v: c_uchar) {
        set(&mut opt.database.enable_thread_tracking, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_enable_write_thread_adaptive_yield(opt: &mut rocksdb_options_t, v: c_uchar) {
        set(&mut opt.database.enable_write_thread_adaptive_yield, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_enforce_single_del_contracts(opt: &mut rocksdb_options_t, v: c_uchar) {
        set(&mut opt.database.enforce_single_del_contracts, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_enforce_write_buffer_manager_during_recovery(opt: &mut rocksdb_options_t, v: c_uchar) {
        set(&mut opt.database.enforce_write_buffer_manager_during_recovery, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_error_if_exists(opt: &mut rocksdb_options_t, v: c_uchar) {
        set(&mut opt.database.error_if_exists, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_experimental_mempurge_threshold(opt: &mut rocksdb_options_t, v: f64) {
        set(&mut opt.family.experimental_mempurge_threshold, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_fast_sst_open(opt: &mut rocksdb_options_t, v: c_uchar) {
        set(&mut opt.database.fast_sst_open, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_flush_verify_memtable_count(opt: &mut rocksdb_options_t, v: c_uchar) {
        set(&mut opt.database.flush_verify_memtable_count, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_follower_catchup_retry_count(opt: &mut rocksdb_options_t, v: u64) {
        set(&mut opt.database.follower_catchup_retry_count, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_follower_catchup_retry_wait_ms(opt: &mut rocksdb_options_t, v: u64) {
        set(&mut opt.database.follower_catchup_retry_wait_ms, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_follower_refresh_catchup_period_ms(opt: &mut rocksdb_options_t, v: u64) {
        set(&mut opt.database.follower_refresh_catchup_period_ms, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_force_consistency_checks(opt: &mut rocksdb_options_t, v: c_uchar) {
        set(&mut opt.family.force_consistency_checks, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_hard_pending_compaction_bytes_limit(opt: &mut rocksdb_options_t, v: usize) {
        set(&mut opt.family.hard_pending_compaction_bytes_limit, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_info_log_level(opt: &mut rocksdb_options_t, v: c_int) {
        set(&mut opt.database.info_log_level, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_inplace_update_num_locks(opt: &mut rocksdb_options_t, v: usize) {
        set(&mut opt.family.inplace_update_num_locks, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_inplace_update_support(opt: &mut rocksdb_options_t, v: c_uchar) {
        set(&mut opt.family.inplace_update_support, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_is_fd_close_on_exec(opt: &mut rocksdb_options_t, v: c_uchar) {
        set(&mut opt.database.is_fd_close_on_exec, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_keep_log_file_num(opt: &mut rocksdb_options_t, v: usize) {
        set(&mut opt.database.keep_log_file_num, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_last_level_temperature(opt: &mut rocksdb_options_t, v: c_int) {
        set(&mut opt.family.last_level_temperature, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_level0_file_num_compaction_trigger(opt: &mut rocksdb_options_t, v: c_int) {
        set(&mut opt.family.level0_file_num_compaction_trigger, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_level0_slowdown_writes_trigger(opt: &mut rocksdb_options_t, v: c_int) {
        set(&mut opt.family.level0_slowdown_writes_trigger, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_level0_stop_writes_trigger(opt: &mut rocksdb_options_t, v: c_int) {
        set(&mut opt.family.level0_stop_writes_trigger, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_level_compaction_dynamic_level_bytes(opt: &mut rocksdb_options_t, v: c_uchar) {
        set(&mut opt.family.level_compaction_dynamic_level_bytes, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_log_file_time_to_roll(opt: &mut rocksdb_options_t, v: usize) {
        set(&mut opt.database.log_file_time_to_roll, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_log_readahead_size(opt: &mut rocksdb_options_t, v: usize) {
        set(&mut opt.database.log_readahead_size, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_lowest_used_cache_tier(opt: &mut rocksdb_options_t, v: c_int) {
        set(&mut opt.database.lowest_used_cache_tier, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_manifest_preallocation_size(opt: &mut rocksdb_options_t, v: usize) {
        set(&mut opt.database.manifest_preallocation_size, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_manual_wal_flush(opt: &mut rocksdb_options_t, v: c_uchar) {
        set(&mut opt.database.manual_wal_flush, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_max_background_compactions(opt: &mut rocksdb_options_t, v: c_int) {
        set(&mut opt.database.max_background_compactions, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_max_background_flushes(opt: &mut rocksdb_options_t, v: c_int) {
        set(&mut opt.database.max_background_flushes, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_max_background_jobs(opt: &mut rocksdb_options_t, v: c_int) {
        set(&mut opt.database.max_background_jobs, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_max_bgerror_resume_count(opt: &mut rocksdb_options_t, v: c_int) {
        set(&mut opt.database.max_bgerror_resume_count, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_max_bytes_for_level_base(opt: &mut rocksdb_options_t, v: u64) {
        set(&mut opt.family.max_bytes_for_level_base, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_max_bytes_for_level_multiplier(opt: &mut rocksdb_options_t, v: f64) {
        set(&mut opt.family.max_bytes_for_level_multiplier, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_max_compaction_bytes(opt: &mut rocksdb_options_t, v: u64) {
        set(&mut opt.family.max_compaction_bytes, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_max_compaction_trigger_wakeup_seconds(opt: &mut rocksdb_options_t, v: u64) {
        set(&mut opt.database.max_compaction_trigger_wakeup_seconds, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_max_file_opening_threads(opt: &mut rocksdb_options_t, v: c_int) {
        set(&mut opt.database.max_file_opening_threads, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_max_log_file_size(opt: &mut rocksdb_options_t, v: usize) {
        set(&mut opt.database.max_log_file_size, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_max_manifest_file_size(opt: &mut rocksdb_options_t, v: usize) {
        set(&mut opt.database.max_manifest_file_size, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_max_manifest_space_amp_pct(opt: &mut rocksdb_options_t, v: c_int) {
        set(&mut opt.database.max_manifest_space_amp_pct, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_max_open_files(opt: &mut rocksdb_options_t, v: c_int) {
        set(&mut opt.database.max_open_files, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_max_sequential_skip_in_iterations(opt: &mut rocksdb_options_t, v: u64) {
        set(&mut opt.family.max_sequential_skip_in_iterations, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_max_subcompactions(opt: &mut rocksdb_options_t, v: u32) {
        set(&mut opt.database.max_subcompactions, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_max_successive_merges(opt: &mut rocksdb_options_t, v: usize) {
        set(&mut opt.family.max_successive_merges, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_max_total_wal_size(opt: &mut rocksdb_options_t, v: u64) {
        set(&mut opt.database.max_total_wal_size, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_max_write_batch_group_size_bytes(opt: &mut rocksdb_options_t, v: u64) {
        set(&mut opt.database.max_write_batch_group_size_bytes, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_max_write_buffer_number(opt: &mut rocksdb_options_t, v: c_int) {
        set(&mut opt.family.max_write_buffer_number, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_max_write_buffer_size_to_maintain(opt: &mut rocksdb_options_t, v: i64) {
        set(&mut opt.family.max_write_buffer_size_to_maintain, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_memtable_avg_op_scan_flush_trigger(opt: &mut rocksdb_options_t, v: u32) {
        set(&mut opt.family.memtable_avg_op_scan_flush_trigger, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_memtable_batch_lookup_optimization(opt: &mut rocksdb_options_t, v: c_uchar) {
        set(&mut opt.family.memtable_batch_lookup_optimization, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_memtable_huge_page_size(opt: &mut rocksdb_options_t, v: usize) {
        set(&mut opt.family.memtable_huge_page_size, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_memtable_max_range_deletions(opt: &mut rocksdb_options_t, v: u32) {
        set(&mut opt.family.memtable_max_range_deletions, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_memtable_op_scan_flush_trigger(opt: &mut rocksdb_options_t, v: u32) {
        set(&mut opt.family.memtable_op_scan_flush_trigger, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_memtable_prefix_bloom_size_ratio(opt: &mut rocksdb_options_t, v: f64) {
        set(&mut opt.family.memtable_prefix_bloom_size_ratio, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_memtable_protection_bytes_per_key(opt: &mut rocksdb_options_t, v: u32) {
        set(&mut opt.family.memtable_protection_bytes_per_key, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_memtable_verify_per_key_checksum_on_seek(opt: &mut rocksdb_options_t, v: c_uchar) {
        set(&mut opt.family.memtable_verify_per_key_checksum_on_seek, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_memtable_whole_key_filtering(opt: &mut rocksdb_options_t, v: c_uchar) {
        set(&mut opt.family.memtable_whole_key_filtering, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_metadata_write_temperature(opt: &mut rocksdb_options_t, v: c_int) {
        set(&mut opt.database.metadata_write_temperature, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_min_blob_size(opt: &mut rocksdb_options_t, v: u64) {
        set(&mut opt.family.min_blob_size, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_min_tombstones_for_range_conversion(opt: &mut rocksdb_options_t, v: u32) {
        set(&mut opt.family.min_tombstones_for_range_conversion, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_min_write_buffer_number_to_merge(opt: &mut rocksdb_options_t, v: c_int) {
        set(&mut opt.family.min_write_buffer_number_to_merge, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_num_levels(opt: &mut rocksdb_options_t, v: c_int) {
        set(&mut opt.family.num_levels, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_open_files_async(opt: &mut rocksdb_options_t, v: c_uchar) {
        set(&mut opt.database.open_files_async, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_optimize_filters_for_hits(opt: &mut rocksdb_options_t, v: c_int) {
        set(&mut opt.family.optimize_filters_for_hits, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_optimize_manifest_for_recovery(opt: &mut rocksdb_options_t, v: c_uchar) {
        set(&mut opt.database.optimize_manifest_for_recovery, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_paranoid_checks(opt: &mut rocksdb_options_t, v: c_uchar) {
        set(&mut opt.database.paranoid_checks, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_paranoid_file_checks(opt: &mut rocksdb_options_t, v: c_uchar) {
        set(&mut opt.family.paranoid_file_checks, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_paranoid_memory_checks(opt: &mut rocksdb_options_t, v: c_uchar) {
        set(&mut opt.family.paranoid_memory_checks, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_periodic_compaction_seconds(opt: &mut rocksdb_options_t, v: u64) {
        set(&mut opt.family.periodic_compaction_seconds, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_persist_stats_to_disk(opt: &mut rocksdb_options_t, v: c_uchar) {
        set(&mut opt.database.persist_stats_to_disk, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_persist_user_defined_timestamps(opt: &mut rocksdb_options_t, v: c_uchar) {
        set(&mut opt.family.persist_user_defined_timestamps, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_preclude_last_level_data_seconds(opt: &mut rocksdb_options_t, v: u64) {
        set(&mut opt.family.preclude_last_level_data_seconds, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_prefix_seek_opt_in_only(opt: &mut rocksdb_options_t, v: c_uchar) {
        set(&mut opt.database.prefix_seek_opt_in_only, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_prepopulate_blob_cache(opt: &mut rocksdb_options_t, v: c_int) {
        set(&mut opt.family.prepopulate_blob_cache, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_preserve_internal_time_seconds(opt: &mut rocksdb_options_t, v: u64) {
        set(&mut opt.family.preserve_internal_time_seconds, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_read_io_executor_threads(opt: &mut rocksdb_options_t, v: c_int) {
        set(&mut opt.database.read_io_executor_threads, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_read_triggered_compaction_threshold(opt: &mut rocksdb_options_t, v: f64) {
        set(&mut opt.family.read_triggered_compaction_threshold, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_recycle_log_file_num(opt: &mut rocksdb_options_t, v: usize) {
        set(&mut opt.database.recycle_log_file_num, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_report_bg_io_stats(opt: &mut rocksdb_options_t, v: c_int) {
        set(&mut opt.family.report_bg_io_stats, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_reuse_manifest_on_open(opt: &mut rocksdb_options_t, v: c_uchar) {
        set(&mut opt.database.reuse_manifest_on_open, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_sample_for_compression(opt: &mut rocksdb_options_t, v: u64) {
        set(&mut opt.family.sample_for_compression, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_skip_stats_update_on_db_open(opt: &mut rocksdb_options_t, v: c_uchar) {
        set(&mut opt.database.skip_stats_update_on_db_open, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_soft_pending_compaction_bytes_limit(opt: &mut rocksdb_options_t, v: usize) {
        set(&mut opt.family.soft_pending_compaction_bytes_limit, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_stats_dump_period_sec(opt: &mut rocksdb_options_t, v: c_uint) {
        set(&mut opt.database.stats_dump_period_sec, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_stats_history_buffer_size(opt: &mut rocksdb_options_t, v: usize) {
        set(&mut opt.database.stats_history_buffer_size, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_stats_persist_period_sec(opt: &mut rocksdb_options_t, v: c_uint) {
        set(&mut opt.database.stats_persist_period_sec, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_strict_bytes_per_sync(opt: &mut rocksdb_options_t, v: c_uchar) {
        set(&mut opt.database.strict_bytes_per_sync, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_strict_max_successive_merges(opt: &mut rocksdb_options_t, v: c_uchar) {
        set(&mut opt.family.strict_max_successive_merges, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_table_cache_numshardbits(opt: &mut rocksdb_options_t, v: c_int) {
        set(&mut opt.database.table_cache_numshardbits, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_target_file_size_base(opt: &mut rocksdb_options_t, v: u64) {
        set(&mut opt.family.target_file_size_base, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_target_file_size_is_upper_bound(opt: &mut rocksdb_options_t, v: c_uchar) {
        set(&mut opt.family.target_file_size_is_upper_bound, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_target_file_size_multiplier(opt: &mut rocksdb_options_t, v: c_int) {
        set(&mut opt.family.target_file_size_multiplier, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_track_and_verify_wals(opt: &mut rocksdb_options_t, v: c_uchar) {
        set(&mut opt.database.track_and_verify_wals, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_track_and_verify_wals_in_manifest(opt: &mut rocksdb_options_t, v: c_uchar) {
        set(&mut opt.database.track_and_verify_wals_in_manifest, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_ttl(opt: &mut rocksdb_options_t, v: u64) {
        set(&mut opt.family.ttl, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_two_write_queues(opt: &mut rocksdb_options_t, v: c_uchar) {
        set(&mut opt.database.two_write_queues, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_uncache_aggressiveness(opt: &mut rocksdb_options_t, v: u32) {
        set(&mut opt.family.uncache_aggressiveness, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_unordered_write(opt: &mut rocksdb_options_t, v: c_uchar) {
        set(&mut opt.database.unordered_write, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_use_adaptive_mutex(opt: &mut rocksdb_options_t, v: c_uchar) {
        set(&mut opt.database.use_adaptive_mutex, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_use_direct_io_for_compaction_reads(opt: &mut rocksdb_options_t, v: c_uchar) {
        set(&mut opt.database.use_direct_io_for_compaction_reads, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_use_direct_io_for_flush_and_compaction(opt: &mut rocksdb_options_t, v: c_uchar) {
        set(&mut opt.database.use_direct_io_for_flush_and_compaction, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_use_direct_reads(opt: &mut rocksdb_options_t, v: c_uchar) {
        set(&mut opt.database.use_direct_reads, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_use_fsync(opt: &mut rocksdb_options_t, v: c_int) {
        set(&mut opt.database.use_fsync, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_verify_manifest_content_on_close(opt: &mut rocksdb_options_t, v: c_uchar) {
        set(&mut opt.database.verify_manifest_content_on_close, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_verify_output_flags(opt: &mut rocksdb_options_t, v: c_int) {
        set(&mut opt.family.verify_output_flags, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_verify_sst_unique_id_in_manifest(opt: &mut rocksdb_options_t, v: c_uchar) {
        set(&mut opt.database.verify_sst_unique_id_in_manifest, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_wal_bytes_per_sync(opt: &mut rocksdb_options_t, v: u64) {
        set(&mut opt.database.wal_bytes_per_sync, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_wal_compression(opt: &mut rocksdb_options_t, v: c_int) {
        set(&mut opt.database.wal_compression, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_wal_dir(opt: &mut rocksdb_options_t, v: text) {
        opt.database.wal_dir = text_from(v)?;
        Ok(())
    }
}

entry! {
    fn rocksdb_options_set_wal_recovery_mode(opt: &mut rocksdb_options_t, v: c_int) {
        set(&mut opt.database.wal_recovery_mode, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_wal_write_temperature(opt: &mut rocksdb_options_t, v: c_int) {
        set(&mut opt.database.wal_write_temperature, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_writable_file_max_buffer_size(opt: &mut rocksdb_options_t, v: u64) {
        set(&mut opt.database.writable_file_max_buffer_size, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_write_buffer_size(opt: &mut rocksdb_options_t, v: usize) {
        set(&mut opt.family.write_buffer_size, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_write_dbid_to_manifest(opt: &mut rocksdb_options_t, v: c_uchar) {
        set(&mut opt.database.write_dbid_to_manifest, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_write_identity_file(opt: &mut rocksdb_options_t, v: c_uchar) {
        set(&mut opt.database.write_identity_file, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_write_thread_max_yield_usec(opt: &mut rocksdb_options_t, v: u64) {
        set(&mut opt.database.write_thread_max_yield_usec, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_options_set_write_thread_slow_yield_usec(opt: &mut rocksdb_options_t, v: u64) {
        set(&mut opt.database.write_thread_slow_yield_usec, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_readoptions_get_adaptive_readahead(opt: shared rocksdb_readoptions_t) -> c_uchar {
        get(&opt.options.adaptive_readahead)
    }
}

entry! {
    fn rocksdb_readoptions_get_allow_unprepared_value(opt: shared rocksdb_readoptions_t) -> c_uchar {
        get(&opt.options.allow_unprepared_value)
    }
}

entry! {
    fn rocksdb_readoptions_get_async_io(opt: shared rocksdb_readoptions_t) -> c_uchar {
        get(&opt.options.async_io)
    }
}

entry! {
    fn rocksdb_readoptions_get_auto_readahead_size(opt: shared rocksdb_readoptions_t) -> c_uchar {
        get(&opt.options.auto_readahead_size)
    }
}

entry! {
    fn rocksdb_readoptions_get_auto_refresh_iterator_with_snapshot(opt: shared rocksdb_readoptions_t) -> c_uchar {
        get(&opt.options.auto_refresh_iterator_with_snapshot)
    }
}

entry! {
    fn rocksdb_readoptions_get_background_purge_on_iterator_cleanup(opt: shared rocksdb_readoptions_t) -> c_uchar {
        get(&opt.background_purge)
    }
}

entry! {
    fn rocksdb_readoptions_get_fill_cache(opt: shared rocksdb_readoptions_t) -> c_uchar {
        get(&opt.options.fill_cache)
    }
}

entry! {
    fn rocksdb_readoptions_get_optimize_multiget_for_io(opt: shared rocksdb_readoptions_t) -> c_uchar {
        get(&opt.options.optimize_multiget_for_io)
    }
}

entry! {
    fn rocksdb_readoptions_get_pin_data(opt: shared rocksdb_readoptions_t) -> c_uchar {
        get(&opt.options.pin_data)
    }
}

entry! {
    fn rocksdb_readoptions_get_prefix_same_as_start(opt: shared rocksdb_readoptions_t) -> c_uchar {
        get(&opt.options.prefix_same_as_start)
    }
}

entry! {
    fn rocksdb_readoptions_get_readahead_size(opt: shared rocksdb_readoptions_t) -> usize {
        get(&opt.options.readahead_size)
    }
}

entry! {
    fn rocksdb_readoptions_get_total_order_seek(opt: shared rocksdb_readoptions_t) -> c_uchar {
        get(&opt.options.total_order_seek)
    }
}

entry! {
    fn rocksdb_readoptions_get_verify_checksums(opt: shared rocksdb_readoptions_t) -> c_uchar {
        get(&opt.options.verify_checksums)
    }
}

entry! {
    fn rocksdb_readoptions_set_adaptive_readahead(opt: &mut rocksdb_readoptions_t, v: c_uchar) {
        set(&mut opt.options.adaptive_readahead, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_readoptions_set_allow_unprepared_value(opt: &mut rocksdb_readoptions_t, v: c_uchar) {
        set(&mut opt.options.allow_unprepared_value, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_readoptions_set_async_io(opt: &mut rocksdb_readoptions_t, v: c_uchar) {
        set(&mut opt.options.async_io, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_readoptions_set_auto_readahead_size(opt: &mut rocksdb_readoptions_t, v: c_uchar) {
        set(&mut opt.options.auto_readahead_size, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_readoptions_set_auto_refresh_iterator_with_snapshot(opt: &mut rocksdb_readoptions_t, v: c_uchar) {
        set(&mut opt.options.auto_refresh_iterator_with_snapshot, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_readoptions_set_background_purge_on_iterator_cleanup(opt: &mut rocksdb_readoptions_t, v: c_uchar) {
        set(&mut opt.background_purge, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_readoptions_set_fill_cache(opt: &mut rocksdb_readoptions_t, v: c_uchar) {
        set(&mut opt.options.fill_cache, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_readoptions_set_optimize_multiget_for_io(opt: &mut rocksdb_readoptions_t, v: c_uchar) {
        set(&mut opt.options.optimize_multiget_for_io, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_readoptions_set_pin_data(opt: &mut rocksdb_readoptions_t, v: c_uchar) {
        set(&mut opt.options.pin_data, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_readoptions_set_prefix_same_as_start(opt: &mut rocksdb_readoptions_t, v: c_uchar) {
        set(&mut opt.options.prefix_same_as_start, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_readoptions_set_readahead_size(opt: &mut rocksdb_readoptions_t, v: usize) {
        set(&mut opt.options.readahead_size, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_readoptions_set_total_order_seek(opt: &mut rocksdb_readoptions_t, v: c_uchar) {
        set(&mut opt.options.total_order_seek, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_readoptions_set_verify_checksums(opt: &mut rocksdb_readoptions_t, v: c_uchar) {
        set(&mut opt.options.verify_checksums, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_size_approximation_options_get_files_size_error_margin(opt: shared rocksdb_size_approximation_options_t) -> f64 {
        get(&opt.options.files_size_error_margin)
    }
}

entry! {
    fn rocksdb_size_approximation_options_get_include_blob_files(opt: shared rocksdb_size_approximation_options_t) -> c_uchar {
        get(&opt.options.include_blob_files)
    }
}

entry! {
    fn rocksdb_size_approximation_options_get_include_files(opt: shared rocksdb_size_approximation_options_t) -> c_uchar {
        get(&opt.options.include_files)
    }
}

entry! {
    fn rocksdb_size_approximation_options_get_include_memtables(opt: shared rocksdb_size_approximation_options_t) -> c_uchar {
        get(&opt.options.include_memtables)
    }
}

entry! {
    fn rocksdb_size_approximation_options_set_files_size_error_margin(opt: &mut rocksdb_size_approximation_options_t, v: f64) {
        set(&mut opt.options.files_size_error_margin, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_size_approximation_options_set_include_blob_files(opt: &mut rocksdb_size_approximation_options_t, v: c_uchar) {
        set(&mut opt.options.include_blob_files, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_size_approximation_options_set_include_files(opt: &mut rocksdb_size_approximation_options_t, v: c_uchar) {
        set(&mut opt.options.include_files, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_size_approximation_options_set_include_memtables(opt: &mut rocksdb_size_approximation_options_t, v: c_uchar) {
        set(&mut opt.options.include_memtables, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_universal_compaction_options_get_allow_trivial_move(opt: shared rocksdb_universal_compaction_options_t) -> c_uchar {
        get(&opt.options.allow_trivial_move)
    }
}

entry! {
    fn rocksdb_universal_compaction_options_get_compression_size_percent(opt: shared rocksdb_universal_compaction_options_t) -> c_int {
        get(&opt.options.compression_size_percent)
    }
}

entry! {
    fn rocksdb_universal_compaction_options_get_incremental(opt: shared rocksdb_universal_compaction_options_t) -> c_uchar {
        get(&opt.options.incremental)
    }
}

entry! {
    fn rocksdb_universal_compaction_options_get_max_merge_width(opt: shared rocksdb_universal_compaction_options_t) -> c_int {
        get(&opt.options.max_merge_width)
    }
}

entry! {
    fn rocksdb_universal_compaction_options_get_max_read_amp(opt: shared rocksdb_universal_compaction_options_t) -> c_int {
        get(&opt.options.max_read_amp)
    }
}

entry! {
    fn rocksdb_universal_compaction_options_get_max_size_amplification_percent(opt: shared rocksdb_universal_compaction_options_t) -> c_int {
        get(&opt.options.max_size_amplification_percent)
    }
}

entry! {
    fn rocksdb_universal_compaction_options_get_min_merge_width(opt: shared rocksdb_universal_compaction_options_t) -> c_int {
        get(&opt.options.min_merge_width)
    }
}

entry! {
    fn rocksdb_universal_compaction_options_get_reduce_file_locking(opt: shared rocksdb_universal_compaction_options_t) -> c_uchar {
        get(&opt.options.reduce_file_locking)
    }
}

entry! {
    fn rocksdb_universal_compaction_options_get_size_ratio(opt: shared rocksdb_universal_compaction_options_t) -> c_int {
        get(&opt.options.size_ratio)
    }
}

entry! {
    fn rocksdb_universal_compaction_options_get_stop_style(opt: shared rocksdb_universal_compaction_options_t) -> c_int {
        get(&opt.options.stop_style)
    }
}

entry! {
    fn rocksdb_universal_compaction_options_set_allow_trivial_move(opt: &mut rocksdb_universal_compaction_options_t, v: c_uchar) {
        set(&mut opt.options.allow_trivial_move, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_universal_compaction_options_set_compression_size_percent(opt: &mut rocksdb_universal_compaction_options_t, v: c_int) {
        set(&mut opt.options.compression_size_percent, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_universal_compaction_options_set_incremental(opt: &mut rocksdb_universal_compaction_options_t, v: c_uchar) {
        set(&mut opt.options.incremental, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_universal_compaction_options_set_max_merge_width(opt: &mut rocksdb_universal_compaction_options_t, v: c_int) {
        set(&mut opt.options.max_merge_width, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_universal_compaction_options_set_max_read_amp(opt: &mut rocksdb_universal_compaction_options_t, v: c_int) {
        set(&mut opt.options.max_read_amp, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_universal_compaction_options_set_max_size_amplification_percent(opt: &mut rocksdb_universal_compaction_options_t, v: c_int) {
        set(&mut opt.options.max_size_amplification_percent, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_universal_compaction_options_set_min_merge_width(opt: &mut rocksdb_universal_compaction_options_t, v: c_int) {
        set(&mut opt.options.min_merge_width, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_universal_compaction_options_set_reduce_file_locking(opt: &mut rocksdb_universal_compaction_options_t, v: c_uchar) {
        set(&mut opt.options.reduce_file_locking, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_universal_compaction_options_set_size_ratio(opt: &mut rocksdb_universal_compaction_options_t, v: c_int) {
        set(&mut opt.options.size_ratio, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_universal_compaction_options_set_stop_style(opt: &mut rocksdb_universal_compaction_options_t, v: c_int) {
        set(&mut opt.options.stop_style, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_wal_readoptions_get_verify_checksums(opt: shared rocksdb_wal_readoptions_t) -> c_uchar {
        get(&opt.verify_checksums)
    }
}

entry! {
    fn rocksdb_wal_readoptions_set_verify_checksums(opt: &mut rocksdb_wal_readoptions_t, v: c_uchar) {
        set(&mut opt.verify_checksums, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_writeoptions_disable_WAL(opt: &mut rocksdb_writeoptions_t, v: c_int) {
        set(&mut opt.options.disable_wal, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_writeoptions_get_disable_WAL(opt: shared rocksdb_writeoptions_t) -> c_uchar {
        get(&opt.options.disable_wal)
    }
}

entry! {
    fn rocksdb_writeoptions_get_no_slowdown(opt: shared rocksdb_writeoptions_t) -> c_uchar {
        get(&opt.options.no_slowdown)
    }
}

entry! {
    fn rocksdb_writeoptions_get_sync(opt: shared rocksdb_writeoptions_t) -> c_uchar {
        get(&opt.options.sync)
    }
}

entry! {
    fn rocksdb_writeoptions_set_no_slowdown(opt: &mut rocksdb_writeoptions_t, v: c_uchar) {
        set(&mut opt.options.no_slowdown, v, &opt.marks)
    }
}

entry! {
    fn rocksdb_writeoptions_set_sync(opt: &mut rocksdb_writeoptions_t, v: c_uchar) {
        set(&mut opt.options.sync, v, &opt.marks)
    }
}
