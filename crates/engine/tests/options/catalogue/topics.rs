//! Assigns each option to a chapter of `docs/options.md`.

/// A chapter of `docs/options.md`: its title, its introduction, and parts of option names. An
/// option belongs to the first chapter in [`RULES`] of which a part occurs in the option's name.
pub(super) struct Topic {
    pub(super) title: &'static str,
    pub(super) about: &'static str,
    parts: &'static [&'static str],
}

const fn topic(title: &'static str, about: &'static str, parts: &'static [&'static str]) -> Topic {
    Topic { title, about, parts }
}

/// The chapters of `docs/options.md`. An option belongs to the first chapter in this list that
/// matches the option's name.
static RULES: &[Topic] = &[
    topic(
        "Universal and FIFO databases",
        "These styles are only compacted manually, by `Db::compact_range` or `tailwater db \
         compact`. Until then writes are stalled as in leveled databases: by the number of \
         sorted runs under universal compaction, and by the bytes above \
         `max_table_files_size` under FIFO compaction, which count as pending compaction \
         bytes and are not dropped. A stopped write fails after 10 seconds without a \
         compaction. `disable_auto_compactions` disables these stalls.",
        &["compaction_options_universal", "compaction_options_fifo"],
    ),
    topic(
        "How bytes move",
        "I/O through the page cache or past it, by purpose. Options that end in `_io_mode`, \
         and `direct_request_size`, are Tailwater's own and are stored in the file \
         `TAILWATER-OPTIONS`. Modes are `buffered`, `direct`, `uncached`, `fadvise` or \
         `auto`, and take precedence over RocksDB's flags. [direct-io.md](direct-io.md) \
         describes when to enable which.",
        &["_io_mode", "use_direct", "direct_request"],
    ),
    topic(
        "Large values in blob files",
        "Blob files that RocksDB wrote are read, and compactions keep references to their \
         values.",
        &["blob"],
    ),
    topic(
        "Compression",
        "How blocks of tables are compressed, by level. `compression_opts` and \
         `bottommost_compression_opts` have the same parts.",
        &[
            "compression_opts",
            "compression_per_level",
            "compression_manager",
            "=compression",
            "bottommost_compression",
            "sample_for_compression",
            "verify_compression",
        ],
    ),
    topic(
        "Write-ahead logs",
        "The cost of a synced write, and what survives a crash.",
        &[
            "wal",
            "WAL",
            "recycle_log_file_num",
            "log_readahead_size",
            "use_fsync",
            "allow_2pc",
            "allow_mmap_writes",
        ],
    ),
    topic(
        "Write stalls",
        "When writes are slowed down or stopped because flushes or compactions are behind.",
        &[
            "level0_slowdown",
            "level0_stop",
            "pending_compaction_bytes",
            "delayed_write_rate",
            "=max_write_buffer_number",
        ],
    ),
    topic(
        "The information log and statistics",
        "What is logged and counted, where, and for how long.",
        &[
            "info_log",
            "log_file",
            "db_log_dir",
            "stats",
            "statistics",
            "dump_malloc",
            "tracking",
            "listeners",
            "allow_data_in_errors",
            "report_bg_io",
        ],
    ),
    topic(
        "Filters",
        "Filters avoid reads of tables that do not contain a key.",
        &[
            "filter_policy",
            "whole_key_filtering",
            "partition_filters",
            "partitioned_filters",
            "optimize_filters",
            "filter_construct",
            "prefix_extractor",
            "prefix_seek",
            "bloom",
        ],
    ),
    topic(
        "Cache and reading",
        "Which parts of tables are kept in memory, and how the others are read.",
        &[
            "cache",
            "pinning",
            "pin_",
            "readahead",
            "max_open_files",
            "max_sequential_skip",
            "allow_mmap_reads",
            "read_io_executor",
            "advise_random",
            "read_amp_bytes",
            "max_file_opening",
            "open_files_async",
            "block_protection",
            "min_tombstones",
            "trim_allocator",
        ],
    ),
    topic(
        "Memtables and writes",
        "How much data is held in memory before it is flushed to a table.",
        &[
            "write_buffer",
            "memtable",
            "arena",
            "inplace",
            "successive_merges",
            "mempurge",
            "avoid_flush_during_shutdown",
            "atomic_flush",
            "write_batch_group",
            "two_write_queues",
            "pipelined",
            "unordered",
            "write_thread",
            "adaptive",
            "paranoid_memory",
            "merge_operator",
            "comparator",
            "persist_user_defined",
        ],
    ),
    topic(
        "When and what to compact",
        "The shape of the tree, and what triggers a compaction.",
        &[
            "level0_file_num",
            "max_bytes_for_level",
            "target_file_size",
            "num_levels",
            "dynamic_level",
            "compaction_style",
            "compaction_pri",
            "max_compaction_bytes",
            "disable_auto_compactions",
            "ttl",
            "periodic",
            "bottommost_file",
            "compaction_filter",
            "compaction_trigger_wakeup",
            "daily_offpeak",
            "read_triggered",
            "sst_partitioner",
            "level_temperature",
            "temperature",
            "preclude",
            "preserve_internal",
            "ingest_behind",
        ],
    ),
    topic(
        "Work in the background",
        "How many threads flush and compact, how fast, and how their output is checked.",
        &[
            "background",
            "max_subcompactions",
            "rate_limiter",
            "bytes_per_sync",
            "writable_file",
            "bgerror",
            "verify_record_count",
            "verify_memtable_count",
            "paranoid",
            "verify_output",
            "single_del",
            "delete_obsolete",
            "blocking_io",
        ],
    ),
    topic(
        "The form of tables",
        "How tables are laid out: blocks, indexes, checksums.",
        &[
            "block",
            "index",
            "checksum",
            "format_version",
            "table_factory",
            "table_properties",
            "use_delta_encoding",
            "metadata",
            "uniform",
            "data_block_hash",
            "udi",
            "sst_unique_id",
        ],
    ),
    topic(
        "Opening and closing, files and the MANIFEST",
        "What is created, checked and kept.",
        &[""],
    ),
];

/// The order of the chapters in `docs/options.md`, as indexes in `RULES`.
const ORDER: &[usize] = &[9, 4, 5, 10, 1, 11, 12, 3, 7, 8, 13, 6, 2, 0];

/// Returns the chapters in the order in which `docs/options.md` has them.
pub(super) fn topics() -> impl Iterator<Item = &'static Topic> {
    ORDER.iter().map(|&at| &RULES[at])
}

impl Topic {
    /// Whether an option belongs to this chapter.
    pub(super) fn has(&self, name: &str) -> bool {
        let first = RULES.iter().find(|topic| {
            topic.parts.iter().any(|part| match part.strip_prefix('=') {
                Some(whole) => name == whole,
                None => name.contains(part),
            })
        });
        first.is_some_and(|first| std::ptr::eq(first, self))
    }
}
