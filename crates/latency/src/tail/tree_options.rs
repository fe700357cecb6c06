//! The options that the databases of all configurations share.

use serde::{Deserialize, Serialize};

/// The options with which databases are created and opened in all configurations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TreeOptions {
    /// `write_buffer_size` and `target_file_size_base`.
    pub(super) table_bytes: u64,
    /// `max_bytes_for_level_base`.
    pub(super) base_level_bytes: u64,
    /// The block cache, which is tiny: reads are served from the page cache.
    pub(super) block_cache_bytes: u64,
    /// `max_background_jobs`.
    pub(super) background_jobs: u32,
    /// `max_open_files`.
    pub(super) open_files: u32,
}

impl TreeOptions {
    /// The published experiment's values, for a memory limit of 1 GiB.
    pub(super) const PUBLISHED: Self = Self {
        table_bytes: 16 << 20,
        base_level_bytes: 64 << 20,
        block_cache_bytes: 4 << 20,
        background_jobs: 4,
        open_files: 200,
    };

    /// Similar proportions for a memory limit of a few dozen megabytes, part of which the engines
    /// themselves need.
    pub(super) const SMALL: Self = Self {
        table_bytes: 4 << 20,
        base_level_bytes: 16 << 20,
        block_cache_bytes: 1 << 20,
        background_jobs: 4,
        open_files: 400,
    };

    /// Returns the option string.
    pub(super) fn options(&self) -> String {
        let Self { table_bytes, base_level_bytes, block_cache_bytes, .. } = self;
        format!(
            "write_buffer_size={table_bytes};target_file_size_base={table_bytes};\
             max_bytes_for_level_base={base_level_bytes};max_background_jobs={};\
             max_open_files={};compression=kNoCompression;compaction_readahead_size=2097152;\
             skip_stats_update_on_db_open=true;\
             block_based_table_factory={{block_cache={block_cache_bytes}}}",
            self.background_jobs, self.open_files
        )
    }
}
