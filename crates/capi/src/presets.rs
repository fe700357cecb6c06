//! Functions that set several options at once. Source of the values: `options/options.cc`.

use std::ffi::c_int;
use std::sync::Arc;

use tailwater::BlockCache;
use tailwater::env::Priority;
use tailwater::options::{
    BlockBasedTableOptions, CompactionStyle, CompressionType, DataBlockIndexType, FilterPolicy,
};

use crate::boundary::entry;
use crate::env::set_threads;
use crate::options::rocksdb_options_t;

entry! {
    fn rocksdb_options_increase_parallelism(opt: &mut rocksdb_options_t, total_threads: c_int) {
        opt.database.max_background_jobs = total_threads;
        set_threads(total_threads, Priority::Low)?;
        set_threads(1, Priority::High)
    }
}

entry! {
    fn rocksdb_options_optimize_for_point_lookup(
        opt: &mut rocksdb_options_t,
        block_cache_size_mb: u64,
    ) {
        let capacity = usize::try_from(block_cache_size_mb << 20).unwrap_or(usize::MAX);
        let mut table = BlockBasedTableOptions::default();
        table.data_block_index_type = DataBlockIndexType::BinaryAndHash;
        table.data_block_hash_table_util_ratio = 0.75;
        table.filter_policy = FilterPolicy::Bloom { bits_per_key: 10.0 };
        opt.family.table_factory = table;
        opt.block_cache = Some(Arc::new(BlockCache::new(capacity)));
        opt.family.memtable_prefix_bloom_size_ratio = 0.02;
        opt.family.memtable_whole_key_filtering = true;
        Ok(())
    }
}

entry! {
    fn rocksdb_options_optimize_level_style_compaction(
        opt: &mut rocksdb_options_t,
        memtable_memory_budget: u64,
    ) {
        let family = &mut opt.family;
        family.write_buffer_size = memtable_memory_budget / 4;
        family.min_write_buffer_number_to_merge = 2;
        family.max_write_buffer_number = 6;
        family.level0_file_num_compaction_trigger = 2;
        family.target_file_size_base = memtable_memory_budget / 8;
        family.max_bytes_for_level_base = memtable_memory_budget;
        family.compaction_style = CompactionStyle::Level;
        let levels = usize::try_from(family.num_levels).unwrap_or(0);
        let compression = |level| match level {
            0 | 1 => CompressionType::None,
            _ => CompressionType::Lz4,
        };
        family.compression_per_level = (0..levels).map(compression).collect();
        Ok(())
    }
}

entry! {
    fn rocksdb_options_optimize_universal_style_compaction(
        opt: &mut rocksdb_options_t,
        memtable_memory_budget: u64,
    ) {
        let family = &mut opt.family;
        family.write_buffer_size = memtable_memory_budget / 4;
        family.min_write_buffer_number_to_merge = 2;
        family.max_write_buffer_number = 6;
        family.compaction_style = CompactionStyle::Universal;
        family.compaction_options_universal.compression_size_percent = 80;
        Ok(())
    }
}

entry! {
    fn rocksdb_options_prepare_for_bulk_load(opt: &mut rocksdb_options_t) {
        let family = &mut opt.family;
        family.level0_file_num_compaction_trigger = 1 << 30;
        family.level0_slowdown_writes_trigger = 1 << 30;
        family.level0_stop_writes_trigger = 1 << 30;
        family.soft_pending_compaction_bytes_limit = 0;
        family.hard_pending_compaction_bytes_limit = 0;
        family.disable_auto_compactions = true;
        family.max_compaction_bytes = 1 << 60;
        family.num_levels = 2;
        family.max_write_buffer_number = 6;
        family.min_write_buffer_number_to_merge = 1;
        family.target_file_size_base = 256 << 20;
        opt.database.max_background_flushes = 4;
        opt.database.max_background_compactions = 2;
        Ok(())
    }
}
