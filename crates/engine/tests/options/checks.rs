//! Options that are rejected when a database is opened, and options that are accepted.

use std::sync::Arc;

use tailwater::for_tests::{check_column_family, check_database, check_for_reading};
use tailwater::options::{ColumnFamilyOptions, DbOptions, DbPath, Problem, set_from_string};
use tailwater::{Db, ErrorKind, OpenOptions};
use tailwater_io::sim::SimStorage;

/// Sets these options and checks them as opening a database does. Returns the message of the
/// rejection, if any.
fn open(text: &str) -> Result<(), String> {
    let (mut database, mut family) = (DbOptions::default(), ColumnFamilyOptions::default());
    set_from_string(&mut database, &mut family, text).unwrap();
    check_database(&database)
        .and_then(|()| check_column_family(&family, &database))
        .map_err(|error| error.to_string())
}

#[test]
fn defaults_and_honoured_options_are_accepted() {
    for text in [
        "",
        "use_direct_reads=true;use_direct_io_for_flush_and_compaction=true",
        "allow_2pc=false;wal_filter=nullptr;block_based_table_factory={format_version=5}",
        "compaction_style=kCompactionStyleFIFO",
        "prefix_extractor=fixed:3;bottommost_compression_opts={max_dict_bytes=1}",
        "daily_offpeak_time_utc=23:30-01:15",
        "memtable_factory=vector;unordered_write=true",
        "compaction_filter=mine;merge_operator=mine;comparator=mine",
        "env=PosixEnv;statistics=BasicStatistics",
        "inplace_update_support=true;allow_concurrent_memtable_write=false",
        "enable_blob_files=true;enable_blob_direct_write=true;allow_concurrent_memtable_write=false",
        "open_files_async=true;skip_stats_update_on_db_open=true",
    ] {
        assert_eq!(open(text), Ok(()), "{text}");
    }
}

#[test]
fn options_that_would_break_a_guarantee_are_refused_by_name() {
    for (text, message) in [
        (
            "allow_2pc=true",
            "option allow_2pc: 'true' is not supported: two-phase transactions are not implemented, and prepared ones would be lost",
        ),
        (
            "allow_ingest_behind=true",
            "option allow_ingest_behind: 'true' is not supported: compactions fill the last level, \
             which must stay free for files ingested as the oldest data",
        ),
        (
            "cf_allow_ingest_behind=true",
            "option cf_allow_ingest_behind: 'true' is not supported: compactions fill the last \
             level, which must stay free for files ingested as the oldest data",
        ),
        (
            "persist_user_defined_timestamps=false",
            "option persist_user_defined_timestamps: 'false' is not supported: user-defined timestamps are not implemented, and flushes would have to drop them",
        ),
        (
            "WAL_ttl_seconds=60",
            "option WAL_ttl_seconds: '60' is not supported: there is no archive: a log stays only while it has unflushed data or an open reader needs it",
        ),
        (
            "WAL_size_limit_MB=1",
            "option WAL_size_limit_MB: '1' is not supported: there is no archive: a log stays only while it has unflushed data or an open reader needs it",
        ),
        (
            "block_based_table_factory={use_udi_as_primary_index=true;\
             user_defined_index_factory=trie}",
            "option table_factory.use_udi_as_primary_index: 'true' is not supported: new tables have no user-defined index, so RocksDB would not open them with this option",
        ),
        (
            "block_based_table_factory={fail_if_no_udi_on_open=true}",
            "option table_factory.fail_if_no_udi_on_open: 'true' is not supported: new tables have no user-defined index, so RocksDB would not open them with this option",
        ),
        (
            "compression=kXpressCompression",
            "option compression: 'kXpressCompression' is not supported: it exists only on Windows",
        ),
        (
            "env=encrypted",
            "option env: 'encrypted' is not supported: files are accessed through the system's own \
             calls",
        ),
    ] {
        assert_eq!(open(text), Err(message.to_owned()), "{text}");
    }
}

/// Regression test: databases with some options of RocksDB could not be opened for writing. The
/// options belong to features that Tailwater lacks, but they affect neither the entries nor the
/// results of reads, nor whether RocksDB can open the database again.
#[test]
fn options_that_only_add_checks_or_place_files_are_accepted() {
    for text in [
        "listeners={mine:{id=yours;with=2}}",
        "table_properties_collectors=mine",
        "sst_partitioner_factory=mine",
        "file_checksum_gen_factory=mine",
        "compression_manager=mine",
        "wal_filter=mine",
        "compaction_filter_factory=mine",
        "memtable_protection_bytes_per_key=8;block_protection_bytes_per_key=4",
        "paranoid_memory_checks=true;memtable_verify_per_key_checksum_on_seek=true",
        "last_level_temperature=kCold;default_write_temperature=kWarm;default_temperature=kHot",
        "metadata_write_temperature=kHot;wal_write_temperature=kWarm",
        "preserve_internal_time_seconds=60;preclude_last_level_data_seconds=3600",
        "enable_blob_files=true;min_blob_size=8;enable_blob_garbage_collection=true",
        "persist_stats_to_disk=true;verify_manifest_content_on_close=true",
        "track_and_verify_wals_in_manifest=true;best_efforts_recovery=true",
        "compression=kZSTD;compression_opts={max_dict_bytes=16384;zstd_max_train_bytes=65536}",
        "bottommost_compression_opts={max_dict_bytes=1;enabled=true}",
        "block_based_table_factory={index_type=kTwoLevelIndexSearch;partition_filters=true}",
        "block_based_table_factory={index_type=kBinarySearchWithFirstKey}",
        "prefix_extractor=fixed:3;block_based_table_factory={index_type=kHashSearch}",
        "block_based_table_factory={format_version=2}",
        "block_based_table_factory={format_version=4}",
        "block_based_table_factory={separate_key_value_in_data_block=true}",
        "block_based_table_factory={super_block_alignment_size=131072}",
        "block_based_table_factory={read_amp_bytes_per_bit=32}",
        "block_based_table_factory={user_defined_index_factory=trie}",
        "block_based_table_factory={flush_block_policy_factory=mine}",
        "block_based_table_factory={filter_policy=mine}",
        "compaction_style=kCompactionStyleFIFO;num_levels=1;compaction_options_fifo=\
         {file_temperature_age_thresholds={{age=3;temperature=kHot}:{age=9;temperature=kCold}}}",
        "blob_write_io_mode=direct",
    ] {
        assert_eq!(open(text), Ok(()), "{text}");
    }
}

#[test]
fn values_that_contradict_each_other_are_refused() {
    for (text, option) in [
        ("allow_mmap_reads=true;use_direct_reads=true", "use_direct_reads"),
        (
            "allow_mmap_reads=true;use_direct_io_for_compaction_reads=true",
            "use_direct_io_for_compaction_reads",
        ),
        (
            "allow_mmap_writes=true;use_direct_io_for_flush_and_compaction=true",
            "use_direct_io_for_flush_and_compaction",
        ),
        (
            "writable_file_max_buffer_size=0;use_direct_io_for_flush_and_compaction=true",
            "writable_file_max_buffer_size",
        ),
        ("keep_log_file_num=0", "keep_log_file_num"),
        ("read_io_executor_threads=0", "read_io_executor_threads"),
        ("unordered_write=true;allow_concurrent_memtable_write=false", "unordered_write"),
        ("atomic_flush=true;enable_pipelined_write=true", "enable_pipelined_write"),
        ("write_dbid_to_manifest=false;write_identity_file=false", "write_dbid_to_manifest"),
        ("daily_offpeak_time_utc=24:00-01:00", "daily_offpeak_time_utc"),
        ("daily_offpeak_time_utc=01:00-01:00", "daily_offpeak_time_utc"),
        ("compaction_style=kCompactionStyleFIFO;max_open_files=100", "compaction_style"),
        ("unordered_write=true;max_successive_merges=1", "max_successive_merges"),
        (
            "enable_blob_garbage_collection=true;blob_garbage_collection_age_cutoff=1.5",
            "blob_garbage_collection_age_cutoff",
        ),
        (
            "compaction_style=kCompactionStyleUniversal;\
             compaction_options_universal={max_read_amp=2}",
            "compaction_options_universal.max_read_amp",
        ),
        ("compression=kDisableCompressionOption", "compression"),
        ("compression_opts={zstd_max_train_bytes=65536}", "compression_opts.zstd_max_train_bytes"),
        ("block_based_table_factory={format_version=1}", "table_factory.format_version"),
        ("block_based_table_factory={format_version=8}", "table_factory.format_version"),
        ("block_based_table_factory={index_type=kHashSearch}", "table_factory.index_type"),
        ("block_protection_bytes_per_key=3", "block_protection_bytes_per_key"),
        ("memtable_protection_bytes_per_key=16", "memtable_protection_bytes_per_key"),
        ("inplace_update_support=true", "inplace_update_support"),
        ("open_files_async=true", "open_files_async"),
        (
            "open_files_async=true;skip_stats_update_on_db_open=true;\
             compaction_style=kCompactionStyleFIFO",
            "open_files_async",
        ),
        ("read_triggered_compaction_threshold=-0.5", "read_triggered_compaction_threshold"),
        ("enable_blob_direct_write=true;enable_blob_files=true", "enable_blob_direct_write"),
        ("num_levels=65", "num_levels"),
        (
            "compaction_options_fifo={file_temperature_age_thresholds={{age=3;temperature=kHot}}}",
            "compaction_options_fifo.file_temperature_age_thresholds",
        ),
        (
            "compaction_style=kCompactionStyleFIFO;num_levels=1;compaction_options_fifo=\
             {file_temperature_age_thresholds={{age=9;temperature=kHot}:{age=9;temperature=kCold}}}",
            "compaction_options_fifo.file_temperature_age_thresholds",
        ),
        (
            "block_based_table_factory={super_block_alignment_size=100000}",
            "table_factory.super_block_alignment_size",
        ),
        (
            "block_based_table_factory={super_block_alignment_size=8g}",
            "table_factory.super_block_alignment_size",
        ),
        (
            "block_based_table_factory={super_block_alignment_space_overhead_ratio=3}",
            "table_factory.super_block_alignment_space_overhead_ratio",
        ),
        (
            "compression_opts={parallel_threads=2};\
             block_based_table_factory={user_defined_index_factory=trie}",
            "table_factory.user_defined_index_factory",
        ),
        ("block_based_table_factory={block_align=true}", "table_factory.block_align"),
        (
            "block_based_table_factory={no_block_cache=true;cache_index_and_filter_blocks=true}",
            "table_factory.cache_index_and_filter_blocks",
        ),
        ("enable_pipelined_write=true;unordered_write=true", "enable_pipelined_write"),
        (
            "enable_blob_garbage_collection=true;blob_garbage_collection_force_threshold=-1",
            "blob_garbage_collection_force_threshold",
        ),
        ("bottommost_compression=kXpressCompression", "bottommost_compression"),
        ("blob_compression_type=kXpressCompression", "blob_compression_type"),
        ("compression_per_level=kNoCompression:kXpressCompression", "compression_per_level"),
        ("compression_per_level=kDisableCompressionOption", "compression_per_level"),
        (
            "block_based_table_factory={no_block_cache=true;\
             pin_l0_filter_and_index_blocks_in_cache=true}",
            "table_factory.pin_l0_filter_and_index_blocks_in_cache",
        ),
        ("block_based_table_factory={block_size=4g}", "table_factory.block_size"),
        (
            "compression=kNoCompression;\
             block_based_table_factory={block_align=true;block_size=5000}",
            "table_factory.block_align",
        ),
        (
            "block_based_table_factory={data_block_index_type=kDataBlockBinaryAndHash;\
             data_block_hash_table_util_ratio=0}",
            "table_factory.data_block_hash_table_util_ratio",
        ),
        (
            "comparator=mine;block_based_table_factory={index_block_search_type=kInterpolation}",
            "table_factory.index_block_search_type",
        ),
    ] {
        let message = open(text).unwrap_err();
        assert!(message.starts_with(&format!("option {option}: '")), "{text}: {message}");
    }
}

#[test]
fn tables_go_to_four_directories_at_most() {
    let path = DbPath { path: "/data".into(), target_size: 1 };
    let mut database = DbOptions::default();
    database.db_paths = vec![path.clone(); 5];
    let error = check_database(&database).unwrap_err();
    assert!(matches!(error.problem, Problem::Invalid { .. }));
    let mut family = ColumnFamilyOptions::default();
    family.cf_paths = vec![path; 2];
    assert_eq!(check_column_family(&family, &DbOptions::default()), Ok(()));
    family.set("compaction_style=kCompactionStyleFIFO");
    assert!(check_column_family(&family, &DbOptions::default()).is_err());
}

/// Sets options of a column family from an option string that is known to be valid.
trait SetAll {
    fn set(&mut self, text: &str);
}

impl SetAll for ColumnFamilyOptions {
    fn set(&mut self, text: &str) {
        set_from_string(&mut DbOptions::default(), self, text).unwrap();
    }
}

#[test]
fn opening_read_only_checks_only_the_options_it_uses() {
    let check = |text| {
        let (mut database, mut family) = (DbOptions::default(), ColumnFamilyOptions::default());
        set_from_string(&mut database, &mut family, text).unwrap();
        check_for_reading(&database).map_err(|error| error.option)
    };
    assert_eq!(check("allow_2pc=true;keep_log_file_num=0;WAL_ttl_seconds=5"), Ok(()));
    assert_eq!(
        check("allow_mmap_reads=true;use_direct_reads=true"),
        Err("use_direct_reads".to_owned())
    );
    assert_eq!(check("read_io_executor_threads=0"), Err("read_io_executor_threads".to_owned()));
}

/// Tests that each reason for a rejection in `check.rs` is given for some option string.
#[test]
fn every_refusal_has_its_reason() {
    for (text, reason) in [
        ("allow_mmap_reads=true;use_direct_reads=true", "which allow_mmap_reads uses"),
        (
            "allow_mmap_writes=true;use_direct_io_for_flush_and_compaction=true",
            "which allow_mmap_writes uses",
        ),
        (
            "writable_file_max_buffer_size=0;use_direct_io_for_flush_and_compaction=true",
            "use_direct_io_for_flush_and_compaction needs a buffer",
        ),
        ("keep_log_file_num=0", "it must be above 0"),
        ("write_dbid_to_manifest=0;write_identity_file=0", "the database's id must be stored"),
        ("daily_offpeak_time_utc=1", "two different times, such as 04:30-07:30"),
        (
            "unordered_write=true;allow_concurrent_memtable_write=false",
            "it needs allow_concurrent_memtable_write",
        ),
        (
            "atomic_flush=1;enable_pipelined_write=1",
            "be combined with unordered_write or atomic_flush",
        ),
        ("unordered_write=1;max_successive_merges=1", "it cannot be combined with unordered_write"),
        ("compaction_style=kCompactionStyleFIFO;max_open_files=100", "max_open_files=-1"),
        (
            "compaction_style=kCompactionStyleUniversal;\
             compaction_options_universal={max_read_amp=2}",
            "at least level0_file_num_compaction_trigger",
        ),
        (
            "enable_blob_garbage_collection=1;blob_garbage_collection_age_cutoff=2",
            "it must be from 0 to 1",
        ),
        ("compression=kXpressCompression", "it exists only on Windows"),
        (
            "compression=kDisableCompressionOption",
            "only bottommost_compression can inherit a value",
        ),
        ("compression_opts={zstd_max_train_bytes=1}", "need max_dict_bytes above 0"),
        ("block_based_table_factory={format_version=8}", "it must be from 2 to 7"),
        ("num_levels=100", "it must be from 1 to 64"),
        ("inplace_update_support=1", "it needs allow_concurrent_memtable_write=false"),
        ("open_files_async=1", "it needs skip_stats_update_on_db_open"),
        ("block_protection_bytes_per_key=5", "it must be 0, 1, 2, 4 or 8"),
        ("read_triggered_compaction_threshold=-1", "it must be at least 0"),
        ("wal_preallocation_block_size=2G", "it must be from 0 to 1073741824"),
        ("enable_blob_direct_write=1", "two_write_queues to be false"),
        (
            "block_based_table_factory={no_block_cache=1;cache_index_and_filter_blocks=1}",
            "there is no cache: no_block_cache is true",
        ),
        ("block_based_table_factory={block_size=4g}", "it must be below 4 GiB"),
        (
            "block_based_table_factory={block_align=true}",
            "a block_size that is a power of two, and no compression",
        ),
        (
            "comparator=mine;block_based_table_factory={index_block_search_type=kInterpolation}",
            "it needs keys in the order of their bytes",
        ),
    ] {
        let message = open(text).unwrap_err();
        assert!(message.contains(reason), "{text}: {message}");
    }
}

#[test]
fn mmap_and_direct_modes_conflict() {
    for (text, option) in [
        ("allow_mmap_reads=true;compaction_read_io_mode=direct", "compaction_read_io_mode"),
        ("allow_mmap_writes=true;compaction_write_io_mode=direct", "compaction_write_io_mode"),
        ("allow_mmap_writes=true;flush_write_io_mode=direct", "flush_write_io_mode"),
        ("allow_mmap_writes=true;wal_io_mode=direct", "wal_io_mode"),
        ("wal_io_mode=fadvise", "wal_io_mode"),
        ("wal_preallocation_block_size=2G", "wal_preallocation_block_size"),
    ] {
        let error = open(text).expect_err(text);
        assert!(error.contains(option), "{text}: {error}");
    }
}

/// An option string, and a function that sets the same option by its field.
type Change = (&'static str, fn(&mut OpenOptions));

#[test]
fn options_set_by_field_are_refused_like_options_set_by_name() {
    let cases: [Change; 4] = [
        ("allow_2pc=true", |options| options.database_mut().allow_2pc = true),
        ("keep_log_file_num=0", |options| options.database_mut().keep_log_file_num = 0),
        ("persist_user_defined_timestamps=false", |options| {
            options.other_column_families_mut().persist_user_defined_timestamps = false;
        }),
        ("memtable_protection_bytes_per_key=3", |options| {
            options.column_family_mut("default").memtable_protection_bytes_per_key = 3;
        }),
    ];
    let defaults = || {
        let mut options = OpenOptions::with_storage(Arc::new(SimStorage::new(1)));
        options.database_mut().create_if_missing = true;
        options
    };
    Db::open("/db", &defaults()).expect("defaults are accepted");
    for (text, set) in cases {
        let (mut by_name, mut by_field) = (defaults(), defaults());
        by_name.set_from_string(text).expect(text);
        set(&mut by_field);
        let [by_name, by_field] = [by_name, by_field].map(|options| {
            let error = Db::open("/db", &options).expect_err(text);
            (error.kind(), error.to_string())
        });
        assert_eq!(by_name, by_field);
        assert!([ErrorKind::NotSupported, ErrorKind::InvalidArgument].contains(&by_name.0));
        assert!(by_name.1.contains(text.split('=').next().expect("a name")), "{}", by_name.1);
    }
}

#[test]
fn a_column_family_begins_with_the_options_of_the_others() {
    let mut options = OpenOptions::default();
    options.other_column_families_mut().num_levels = 5;
    options.column_family_mut("own").write_buffer_size = 1 << 20;
    options.other_column_families_mut().num_levels = 4;
    assert_eq!(options.column_families().collect::<Vec<_>>(), ["own"]);
    let own = options.column_family_mut("own").clone();
    assert_eq!((own.num_levels, own.write_buffer_size), (5, 1 << 20));
    assert_eq!(options.column_family("other").num_levels, 4);
    options.set_from_string("num_levels=3").expect("an option");
    assert_eq!(options.column_family("own").num_levels, 3, "set_from_string reaches every family");
    assert_eq!(options.column_family("other").num_levels, 3);
}
