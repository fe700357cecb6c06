//! The engine options that are the same in all configurations.

use serde::{Deserialize, Serialize};

/// Options with which the databases of all configurations are built and opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TreeOptions {
    /// Value of `write_buffer_size` and of `target_file_size_base`, in bytes.
    pub(super) table_bytes: u64,
    /// Value of `max_bytes_for_level_base`, in bytes.
    pub(super) base_level_bytes: u64,
    /// Size of the block cache, in bytes. It is tiny, so that reads are served from the page cache.
    pub(super) block_cache_bytes: u64,
    /// Value of `max_background_jobs`.
    pub(super) background_jobs: u32,
    /// Value of `max_open_files`.
    pub(super) open_files: u32,
}

impl TreeOptions {
    /// The values of RocksDB's published experiment, whose memory limit is 1 GiB.
    pub(super) const PUBLISHED: Self = Self {
        table_bytes: 16 << 20,
        base_level_bytes: 64 << 20,
        block_cache_bytes: 4 << 20,
        background_jobs: 4,
        open_files: 200,
    };

    /// Values for a small database under a limit of some 100 MiB. Tables and levels have a quarter
    /// of the size that they have in [`Self::PUBLISHED`].
    pub(super) const SMALL: Self = Self {
        table_bytes: 4 << 20,
        base_level_bytes: 16 << 20,
        block_cache_bytes: 1 << 20,
        background_jobs: 4,
        open_files: 400,
    };

    /// Returns the options as an option string in RocksDB's format.
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
