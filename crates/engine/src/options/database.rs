//! The options of a database.

use std::path::PathBuf;

use tailwater_format::log::RecoveryMode;
use tailwater_format::options_text::strip_outer_braces;
use tailwater_format::version_edit::Temperature;

use super::choice::{CacheTier, CompressionType, InfoLogLevel};
use super::error::Result;
use super::object::ObjectName;
use super::tailwater::TailwaterOptions;
use super::value::OptionValue;

const NO_TRANSACTIONS: &str =
    "two-phase transactions are not built, and prepared ones would be lost";
const NO_ARCHIVE: &str = "logs go when they are flushed, though somebody who follows the database may not have read them";
const NO_TIERS: &str = "files are not sorted by temperature";
const NO_FOLLOWERS: &str = "there are no follower instances";
const OWN_PIPELINE: &str =
    "the write path has one order of its own, and none of its guarantees is given up";
const OWN_WAITING: &str = "writers wait in their own way";
const NO_MMAP: &str =
    "files are never mapped; results are the same, and direct modes are refused beside it";
const OTHER_SYSTEM: &str = "files are reached through the system's own calls";
/// Of options that keep the last level free for files that are ingested behind all others.
pub(super) const NO_INGESTION_BEHIND: &str =
    "compactions fill the last level, which files that are ingested behind all others need";

/// The most threads that work for flushes, for compactions, or for one compaction: more only take
/// memory.
const THREADS_MAX: usize = 256;
/// The largest request that moves bytes past the page cache: devices take no larger one at once.
const DIRECT_REQUEST_MAX: u64 = 16 << 20;

/// A directory for tables, and how much is meant to be put there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DbPath {
    /// The directory.
    pub path: PathBuf,
    /// How many bytes of tables are meant to be there.
    pub target_size: u64,
}

/// Sets directories for tables: `/fast,10G:/slow`, each with the bytes that are meant to be there
/// behind a comma, or without them for any number. RocksDB has no text for these options; they are
/// set in code there.
pub(super) fn set_paths(paths: &mut Vec<DbPath>, text: &str) -> Result<()> {
    let mut set = Vec::new();
    for item in strip_outer_braces(text).split(':').filter(|item| !item.is_empty()) {
        let (path, size) = item.rsplit_once(',').unwrap_or((item, ""));
        let mut target_size = u64::MAX;
        if !size.is_empty() {
            target_size.set(size)?;
        }
        set.push(DbPath { path: PathBuf::from(path), target_size });
    }
    *paths = set;
    Ok(())
}

/// The text of listeners, which RocksDB puts into braces unlike other lists.
fn print_listeners(listeners: &[ObjectName]) -> String {
    if listeners.is_empty() {
        return String::new();
    }
    let texts: Vec<String> = listeners.iter().map(OptionValue::print).collect();
    format!("{{{}}}", texts.join(":"))
}

option_table! {
    /// The options of a database. Names, defaults and units are RocksDB's.
    pub struct DbOptions {
        /// Reads only the foot of each table when the database is opened.
        fast_sst_open: bool = false, Mutable, NoEffect("opening a table reads its footer, properties, index and filter");
        /// The longest pause between two checks for compactions that time brings due, in seconds.
        max_compaction_trigger_wakeup_seconds: u64 = 43_200, Mutable, Honoured;
        /// Writes the MANIFEST so that it is quick to read.
        optimize_manifest_for_recovery: bool = false, Mutable,
            NoEffect("each open writes the MANIFEST anew");
        /// How much larger than its contents the MANIFEST may become, in percent, before it is
        /// written anew.
        max_manifest_space_amp_pct: i32 = 500, Mutable, Honoured;
        /// Reads the MANIFEST back when the database is closed.
        verify_manifest_content_on_close: bool = false, Mutable,
            NoEffect("closing does not read the MANIFEST back");
        /// How many bytes are reserved for the MANIFEST at a time.
        manifest_preallocation_size: u64 = 4 << 20, Mutable, NoEffect("the MANIFEST takes its space as it grows");
        /// How long the MANIFEST may become, in bytes, before it is written anew.
        max_manifest_file_size: u64 = 1 << 30, Mutable, Honoured;
        /// How far compaction reads ahead, in bytes, 64 MiB at most.
        compaction_readahead_size: u64 = 2 << 20, Mutable, Honoured;
        /// Never lets more than the limits below wait to be written to the device.
        strict_bytes_per_sync: bool = false, Mutable, NoEffect("writing back is begun in time and not waited for");
        /// How many bytes of a table are written before the device is asked to take them; 0 means
        /// 1 MiB.
        bytes_per_sync: u64 = 0, Mutable, Honoured;
        /// How many threads flush and compact, 256 at most; several compact where one does not keep
        /// up.
        max_background_jobs: i32 = 2, Mutable, Honoured;
        /// Flushes nothing when the database is closed, so that writes without a log are lost.
        avoid_flush_during_shutdown: bool = false, Mutable, Honoured;
        /// How many flushes run at a time; -1 goes by `max_background_jobs`.
        max_background_flushes: i32 = -1, Mutable, NoEffect("one thread flushes, all column families in turn");
        /// The rate at which writes go on when compaction is behind, in bytes per second; 0 means
        /// 16 MiB.
        delayed_write_rate: u64 = 0, Mutable, Honoured;
        /// How many tables are kept open; -1 means as many as the process's limit on open files
        /// (`RLIMIT_NOFILE`) leaves, which also bounds any other number.
        max_open_files: i32 = -1, Mutable, Honoured;
        /// How many threads share one compaction, 256 at most.
        max_subcompactions: u32 = 1, Mutable, Honoured;
        /// The buffer between a table and its file, in bytes, 64 MiB at most.
        writable_file_max_buffer_size: u64 = 1 << 20, Mutable, Honoured;
        /// How many bytes of a log are written before the device is asked to take them; 0 leaves it
        /// to the system.
        wal_bytes_per_sync: u64 = 0, Mutable, Honoured;
        /// How many compactions run at a time where one does not keep up, 256 at most; -1 goes by
        /// `max_background_jobs`.
        max_background_compactions: i32 = -1, Mutable, Honoured;
        /// How large all live logs may become, in bytes, before the oldest data is flushed; 0 goes
        /// by write buffers.
        max_total_wal_size: u64 = 0, Mutable, Honoured;
        /// How often the directory is searched for files that nothing needs, in microseconds.
        delete_obsolete_files_period_micros: u64 = 21_600_000_000, Mutable, NoEffect("files go as soon as nobody reads them, without a search");
        /// How often statistics go to the information log, in seconds; 0 means never.
        stats_dump_period_sec: u32 = 600, Mutable, Honoured;
        /// The time of day when there is little to do, as `HH:mm-HH:mm` in UTC; empty means none.
        daily_offpeak_time_utc: String = String::new(), Mutable,
            NoEffect("what time brings due is compacted at any hour");
        /// How many bytes of memory the history of statistics may take.
        stats_history_buffer_size: u64 = 1 << 20, Mutable,
            NoEffect("no history of statistics is kept");
        /// How often statistics go to their history, in seconds.
        stats_persist_period_sec: u32 = 600, Mutable, NoEffect("no history of statistics is kept");
        /// How often a follower looks for news, in milliseconds.
        follower_refresh_catchup_period_ms: u64 = 10_000, Fixed, NoEffect(NO_FOLLOWERS);
        /// Refuses to go on when a single deletion meets a key that was written more than once.
        enforce_single_del_contracts: bool = true, Fixed, Honoured;
        /// Which caches may be used.
        lowest_used_cache_tier: CacheTier = CacheTier::NonVolatileBlock, Fixed,
            NoEffect("there is one cache, in memory");
        /// The pause before a background error is tried again, in microseconds.
        bgerror_resume_retry_interval: u64 = 1_000_000, Fixed, Honoured;
        /// The temperature of MANIFEST, CURRENT and OPTIONS files.
        metadata_write_temperature: Temperature = Temperature::UNKNOWN, Fixed,
            NoEffect(NO_TIERS);
        /// Opens what is left of a database that lost files.
        best_efforts_recovery: bool = false, Fixed,
            NoEffect("a database that lost files is repaired, not opened");
        /// How far recovery reads ahead in logs, in bytes.
        log_readahead_size: u64 = 0, Fixed, NoEffect("logs are read in blocks of 32 KiB, which the system reads ahead");
        /// Writes the database's id to the file IDENTITY.
        write_identity_file: bool = true, Fixed, Honoured;
        /// Writes the database's id to the MANIFEST.
        write_dbid_to_manifest: bool = true, Fixed, Honoured;
        /// How logs are compressed: not at all or with zstd.
        wal_compression: CompressionType = CompressionType::None, Fixed, Honoured;
        /// Leaves log records in memory until a flush of the log is asked for.
        manual_wal_flush: bool = false, Fixed, Honoured;
        /// The name of this machine in the properties of tables; `__hostname__` asks the system.
        db_host_id: String = "__hostname__".to_owned(), Fixed, Honoured;
        /// Lets writes that skip the memtable use a queue of their own.
        two_write_queues: bool = false, Fixed, NoEffect(OWN_PIPELINE);
        /// Keeps the last level free for files that are ingested behind all others.
        allow_ingest_behind: bool = false, Fixed,
            Refused(NO_INGESTION_BEHIND, &["false"]);
        /// How often a follower tries again.
        follower_catchup_retry_count: u64 = 10, Fixed, NoEffect(NO_FOLLOWERS);
        /// Keeps what was recovered from logs in memtables instead of flushing it at once.
        avoid_flush_during_recovery: bool = false, Fixed, Honoured;
        /// Adds the allocator's statistics to those in the information log.
        dump_malloc_stats: bool = false, Fixed, NoEffect("the allocator's statistics are not told");
        /// Flushes all column families together, so that they survive a crash in one state without
        /// a log.
        atomic_flush: bool = false, Fixed, Honoured;
        /// Compares the unique id of each table that is opened with the MANIFEST.
        verify_sst_unique_id_in_manifest: bool = true, Fixed, Honoured;
        /// Reads no properties of tables when the database is opened, so that compaction knows less
        /// at first.
        skip_stats_update_on_db_open: bool = false, Fixed, NoEffect("a table's properties are read whenever it is opened");
        /// Writes into each log what is known of the one before it, and checks it in recovery.
        track_and_verify_wals: bool = false, Fixed, Honoured;
        /// Writes the lengths of synced logs to the MANIFEST, and checks them in recovery.
        track_and_verify_wals_in_manifest: bool = false, Fixed, NoEffect("what a MANIFEST says of logs is checked, but not written");
        /// Checks that a compaction read as many records as its inputs hold.
        compaction_verify_record_count: bool = true, Fixed, Honoured;
        /// Checks that a flush wrote as many records as the memtable holds.
        flush_verify_memtable_count: bool = true, Fixed, NoEffect("it is always counted");
        /// Refuses to open a database, and to go on writing, where a file is damaged.
        paranoid_checks: bool = true, Fixed, NoEffect("the checks are always made");
        /// Makes the database if it is not there.
        create_if_missing: bool = false, Fixed, Honoured;
        /// Computes the checksum of each whole table for the MANIFEST.
        file_checksum_gen_factory: ObjectName = ObjectName::default(), Fixed,
            NoEffect("new tables have no checksum as a whole");
        /// Keeps track of what each thread does.
        enable_thread_tracking: bool = false, Fixed, NoEffect("threads are not tracked");
        /// Leaves slow cleaning up to background threads.
        avoid_unnecessary_blocking_io: bool = false, Fixed,
            NoEffect("cleaning up is always left to the background");
        /// How many threads read for users.
        read_io_executor_threads: i32 = 1, Fixed, NoEffect("users' threads read for themselves");
        /// Opens tables in the background after the database is open.
        open_files_async: bool = false, Fixed, NoEffect("all tables are opened before the database is, or with a max_open_files when they are read");
        /// Reserves space for files before they are written.
        allow_fallocate: bool = true, Fixed, Honoured;
        /// How many bytes of other writers' batches a leader takes along.
        max_write_batch_group_size_bytes: u64 = 1 << 20, Fixed, Honoured;
        /// Puts keys into messages about errors.
        allow_data_in_errors: bool = false, Fixed,
            NoEffect("an error about a key names it in either case");
        /// Refuses to open a database that is there.
        error_if_exists: bool = false, Fixed, Honoured;
        /// Flushes and compactions write around the page cache.
        use_direct_io_for_flush_and_compaction: bool = false, Fixed, Honoured;
        /// Closes logs in the background.
        background_close_inactive_wals: bool = false, Fixed,
            NoEffect("a log is closed when it was synced, or at the next flush");
        /// Makes the column families that are asked for and not there.
        create_missing_column_families: bool = false, Fixed, Honoured;
        /// Goes on with the MANIFEST that is there.
        reuse_manifest_on_open: bool = false, Fixed, NoEffect("each open writes the MANIFEST anew");
        /// How large all archived logs may become, in MiB; 0 means no limit.
        wal_size_limit_mb as "WAL_size_limit_MB": u64 = 0, Fixed,
            Refused(NO_ARCHIVE, &["0"]);
        /// Users' reads go around the page cache.
        use_direct_reads: bool = false, Fixed, Honoured;
        /// Keeps the history of statistics in the database.
        persist_stats_to_disk: bool = false, Fixed,
            NoEffect("no history of statistics is kept");
        /// Keeps what two-phase transactions need.
        allow_2pc: bool = false, Fixed, Refused(NO_TRANSACTIONS, &["false"]);
        /// Closes files in programs that this one starts.
        is_fd_close_on_exec: bool = true, Fixed, NoEffect("they are always closed");
        /// How long the information log may become, in bytes, before a new one is begun; 0 means no
        /// limit.
        max_log_file_size: u64 = 0, Fixed, Honoured;
        /// How many threads open tables when the database is opened.
        max_file_opening_threads: i32 = 16, Fixed, NoEffect("tables are opened one after the other");
        /// Looks at log records in recovery.
        wal_filter: ObjectName = ObjectName::default(), Fixed,
            NoEffect("recovery takes every record of the logs");
        /// The temperature of logs.
        wal_write_temperature: Temperature = Temperature::UNKNOWN, Fixed,
            NoEffect(NO_TIERS);
        /// The pause before a follower tries again, in milliseconds.
        follower_catchup_retry_wait_ms: u64 = 100, Fixed, NoEffect(NO_FOLLOWERS);
        /// Maps tables into memory to read them.
        allow_mmap_reads: bool = false, Fixed, NoEffect(NO_MMAP);
        /// Maps files into memory to write them.
        allow_mmap_writes: bool = false, Fixed, NoEffect(NO_MMAP);
        /// Spins before it waits for a lock.
        use_adaptive_mutex: bool = false, Fixed, NoEffect(OWN_WAITING);
        /// Syncs logs with `fsync` where `fdatasync` would do.
        use_fsync: bool = false, Fixed, Honoured;
        /// The directory of the information log; empty means the database's.
        db_log_dir: String = String::new(), Fixed, Honoured;
        /// The number of shards of the cache of open tables, as a power of two.
        table_cache_numshardbits: i32 = 6, Fixed,
            NoEffect("the cache of open tables chooses its shards");
        /// Compactions read around the page cache, even if users' reads go through it.
        use_direct_io_for_compaction_reads: bool = false, Fixed, Honoured;
        /// How many bytes of memory the write buffers of all column families may take; 0 means no
        /// limit.
        db_write_buffer_size: u64 = 0, Fixed, Honoured;
        /// How many information logs are kept.
        keep_log_file_num: u64 = 1000, Fixed, Honoured;
        /// How often a background error is tried again.
        max_bgerror_resume_count: i32 = i32::MAX, Fixed, Honoured;
        /// Keeps to the limit of memory for write buffers in recovery too.
        enforce_write_buffer_manager_during_recovery: bool = true, Fixed, NoEffect("what logs hold is flushed when all of them are read");
        /// Lets writers insert into a memtable at the same time.
        allow_concurrent_memtable_write: bool = true, Fixed, NoEffect(OWN_PIPELINE);
        /// How many used logs are kept to be written over; 0 means none.
        recycle_log_file_num: u64 = 0, Fixed, Honoured;
        /// Iterators go by prefixes only where they are asked to.
        prefix_seek_opt_in_only: bool = false, Fixed, Honoured;
        /// Makes the next log before it is needed.
        async_wal_precreate: bool = false, Fixed,
            NoEffect("a log is made when it is needed; one past the page cache finds space that was made ahead");
        /// Tells the system that tables are read at random places.
        advise_random_on_open: bool = true, Fixed, Honoured;
        /// The least important messages that the information log takes.
        info_log_level: InfoLogLevel = InfoLogLevel::Info, Fixed, Honoured;
        /// After how many seconds a new information log is begun; 0 means never.
        log_file_time_to_roll: u64 = 0, Fixed, Honoured;
        /// The directory of the logs; empty means the database's.
        wal_dir: String = String::new(), Fixed, Honoured;
        /// For how many seconds archived logs are kept; 0 means not at all.
        wal_ttl_seconds as "WAL_ttl_seconds": u64 = 0, Fixed,
            Refused(NO_ARCHIVE, &["0"]);
        /// Lets a group write to the log while the one before it inserts.
        enable_pipelined_write: bool = false, Fixed, NoEffect(OWN_PIPELINE);
        /// After how many microseconds without the processor a writer that waits goes to sleep.
        write_thread_slow_yield_usec: u64 = 3, Fixed, NoEffect(OWN_WAITING);
        /// Gives up the order of writes within a snapshot.
        unordered_write: bool = false, Fixed, NoEffect(OWN_PIPELINE);
        /// How much damage logs may have when the database is opened.
        wal_recovery_mode: RecoveryMode = RecoveryMode::PointInTime, Fixed, Honoured;
        /// Lets writers spin before they go to sleep.
        enable_write_thread_adaptive_yield: bool = true, Fixed, NoEffect(OWN_WAITING);
        /// For how many microseconds a writer that waits spins.
        write_thread_max_yield_usec: u64 = 100, Fixed, NoEffect(OWN_WAITING);
        /// Who is told of flushes, compactions and errors.
        listeners: Vec<ObjectName> = Vec::new(), Fixed,
            NoEffect("listeners are not told of anything"), print_listeners;
        /// How fast flushes and compactions may write, in bytes per second; 0 means no limit.
        rate_limiter_bytes_per_sec: u64 = 0, MutableUnwritten, Honoured;
        /// The operating system, as RocksDB sees it.
        env: ObjectName = ObjectName::default(), Unwritten,
            Refused(OTHER_SYSTEM, &["nullptr", "DefaultEnv", "PosixEnv"]);
        /// Counters of what the database does.
        statistics: ObjectName = ObjectName::default(), Unwritten,
            NoEffect("statistics are kept where OpenOptions::set_statistics says");
    }
    elsewhere {
        /// Where tables are put; none means the database's directory alone.
        db_paths: Vec<DbPath> = Vec::new();
        /// The options that RocksDB does not have.
        tailwater: TailwaterOptions = TailwaterOptions::default();
    }
    other_names {
        "db_paths" => |options, text| set_paths(&mut options.db_paths, text);
        "use_direct_reads_for_compaction" => |options, text| {
            options.use_direct_io_for_compaction_reads.set(text)
        };
    }
    retired {
        "access_hint_on_compaction_start"
        "allow_os_buffer"
        "base_background_compactions"
        "concurrent_prepare"
        "disableDataSync"
        "disable_data_sync"
        "experimental_allow_mempurge"
        "experimental_mempurge_policy"
        "experimental_mempurge_threshold"
        "fail_if_options_file_error"
        "new_table_reader_for_compaction_inputs"
        "preserve_deletes"
        "random_access_max_buffer_size"
        "rate_limiter"
        "seq_per_batch"
        "skip_checking_sst_file_sizes_on_db_open"
        "skip_log_error_on_recovery"
        "use_direct_writes"
    }
}

impl DbOptions {
    /// How many compactions run at a time where they are behind: what `max_background_compactions`
    /// says, or three quarters of `max_background_jobs`, as RocksDB shares them out.
    pub(crate) fn compactions_max(&self) -> usize {
        let jobs = self.max_background_jobs;
        let own = match self.max_background_compactions {
            -1 => jobs.saturating_sub((jobs / 4).max(1)),
            compactions => compactions,
        };
        usize::try_from(own).unwrap_or(0).clamp(1, THREADS_MAX)
    }

    /// How many threads work for flushes and compactions.
    pub(crate) fn jobs_max(&self) -> usize {
        usize::try_from(self.max_background_jobs).unwrap_or(0).clamp(1, THREADS_MAX)
    }

    /// How many threads share one compaction.
    pub(crate) fn subcompactions_max(&self) -> usize {
        (self.max_subcompactions as usize).clamp(1, THREADS_MAX)
    }

    /// How much one request of a compaction or flush moves past the page cache, in bytes.
    pub(crate) fn direct_request_size(&self) -> usize {
        self.tailwater.direct_request_size.min(DIRECT_REQUEST_MAX) as usize
    }
}
