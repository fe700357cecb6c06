//! The options of a database.

use std::path::PathBuf;

use tailwater_format::options_text::strip_outer_braces;
use tailwater_format::record_log::RecoveryMode;
use tailwater_format::version_edit::Temperature;

use super::choice::{CacheTier, CompressionType, InfoLogLevel};
use super::error::Result;
use super::object::ObjectName;
use super::tailwater::TailwaterOptions;
use super::value::OptionValue;

const NO_TRANSACTIONS: &str =
    "two-phase transactions are not implemented, and prepared ones would be lost";
const NO_ARCHIVE: &str =
    "there is no archive: a log stays only while it has unflushed data or an open reader needs it";
const NO_TIERS: &str = "files are not sorted by temperature";
const NO_FOLLOWERS: &str = "there are no follower instances";
const OWN_PIPELINE: &str = "the write path has its own pipeline, which keeps all guarantees";
const OWN_WAITING: &str = "writers have their own way of waiting";
const NO_MMAP: &str =
    "files are never mapped; results are the same, and direct modes cannot be combined with it";
const OTHER_SYSTEM: &str = "files are accessed through the system's own calls";
/// The reason why RocksDB's options for ingesting files as the oldest data are refused. These
/// options keep the last level free for such files.
pub(super) const NO_INGESTION_BEHIND: &str =
    "compactions fill the last level, which must stay free for files ingested as the oldest data";

/// Maximum number of threads for flushes, for compactions, or for a single compaction. More threads
/// would only use memory.
const THREADS_MAX: usize = 256;
/// Maximum size of a direct I/O request, in bytes. Devices do not accept larger requests.
const DIRECT_REQUEST_MAX: u64 = 16 << 20;

/// A directory for tables, and its target size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DbPath {
    /// Path of the directory.
    pub path: PathBuf,
    /// Target size of all tables in the directory together, in bytes.
    pub target_size: u64,
}

/// Sets table directories from a text such as `/fast,10G:/slow`: paths separated by colons, each
/// optionally followed by a comma and a target size in bytes. Without a target size, the size is
/// unlimited. RocksDB has no text form of these options; there they are set in code.
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

/// Prints the list of listeners. RocksDB puts this list in braces, unlike other lists.
fn print_listeners(listeners: &[ObjectName]) -> String {
    if listeners.is_empty() {
        return String::new();
    }
    let texts: Vec<String> = listeners.iter().map(OptionValue::print).collect();
    format!("{{{}}}", texts.join(":"))
}

option_table! {
    /// The options of a database. Names, defaults and units are RocksDB's.
    ///
    /// ```
    /// # fn main() -> tailwater::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// # let directory = directory.path();
    /// use tailwater::{Db, OpenOptions};
    ///
    /// let mut options = OpenOptions::default();
    /// let database = options.database_mut();
    /// database.create_if_missing = true;
    /// database.max_background_jobs = 4;
    /// database.rate_limiter_bytes_per_sec = 64 << 20;
    /// let db = Db::open(directory, &options)?;
    ///
    /// // While the database is open, an option is changed by its name.
    /// db.set_database_options(&[("max_background_jobs", "8")])?;
    /// assert_eq!(db.database_options().max_background_jobs, 8);
    /// # Ok(())
    /// # }
    /// ```
    pub struct DbOptions {
        /// Reads only the footer of each table when the database is opened.
        fast_sst_open: bool = false, Mutable, NoEffect("opening a table reads its footer, properties, index and filter");
        /// Maximum interval between checks for due compactions, in seconds. A compaction that
        /// becomes due because of a table's age starts without such a check.
        max_compaction_trigger_wakeup_seconds: u64 = 43_200, Mutable, Honoured;
        /// Writes the MANIFEST in a form that recovery reads faster.
        optimize_manifest_for_recovery: bool = false, Mutable,
            NoEffect("each open rewrites the MANIFEST");
        /// Space amplification of the MANIFEST, in percent, above which it is rewritten.
        max_manifest_space_amp_pct: i32 = 500, Mutable, Honoured;
        /// Verifies the MANIFEST by reading it when the database is closed.
        verify_manifest_content_on_close: bool = false, Mutable,
            NoEffect("closing does not read the MANIFEST");
        /// Unit in which space for the MANIFEST is preallocated, in bytes.
        manifest_preallocation_size: u64 = 4 << 20, Mutable, NoEffect("space for the MANIFEST is not preallocated");
        /// Size of the MANIFEST above which it is rewritten, in bytes.
        max_manifest_file_size: u64 = 1 << 30, Mutable, Honoured;
        /// Readahead of compactions, in bytes, 64 MiB at most.
        compaction_readahead_size: u64 = 2 << 20, Mutable, Honoured;
        /// Waits for writeback whenever more than `bytes_per_sync` or `wal_bytes_per_sync` is
        /// outstanding.
        strict_bytes_per_sync: bool = false, Mutable, NoEffect("writeback is started early, but not waited for");
        /// Number of bytes of a table written before writeback to the device is started; 0 means 1
        /// MiB.
        bytes_per_sync: u64 = 0, Mutable, Honoured;
        /// Number of threads for flushes and compactions, 256 at most. More than one thread
        /// compacts only if one cannot keep up. Databases of one environment share their threads.
        max_background_jobs: i32 = 2, Mutable, Honoured;
        /// Skips the flush when the database is closed, so that writes without a log are lost.
        avoid_flush_during_shutdown: bool = false, Mutable, Honoured;
        /// Number of concurrent flushes, 256 at most; -1 means a quarter of `max_background_jobs`,
        /// or 1 if `max_background_compactions` is set.
        max_background_flushes: i32 = -1, Mutable, Honoured;
        /// Write rate while writes are slowed down because compaction is behind, in bytes per
        /// second; 0 means 16 MiB.
        delayed_write_rate: u64 = 0, Mutable, Honoured;
        /// Number of tables kept open; -1 means as many as the process's limit on open files
        /// (`RLIMIT_NOFILE`) allows, which also bounds any other number.
        max_open_files: i32 = -1, Mutable, Honoured;
        /// Number of threads that share one compaction, 256 at most.
        max_subcompactions: u32 = 1, Mutable, Honoured;
        /// Size of the write buffer of a table file, in bytes, 64 MiB at most.
        writable_file_max_buffer_size: u64 = 1 << 20, Mutable, Honoured;
        /// Number of bytes of a log written before writeback to the device is started; 0 leaves it
        /// to the system.
        wal_bytes_per_sync: u64 = 0, Mutable, Honoured;
        /// Number of concurrent compactions if one does not keep up, 256 at most; -1 means three
        /// quarters of `max_background_jobs`, or 1 if `max_background_flushes` is set.
        max_background_compactions: i32 = -1, Mutable, Honoured;
        /// Total size of live logs above which the oldest data is flushed, in bytes; 0 derives it
        /// from the write buffers.
        max_total_wal_size: u64 = 0, Mutable, Honoured;
        /// Interval at which the directory is searched for obsolete files, in microseconds.
        delete_obsolete_files_period_micros: u64 = 21_600_000_000, Mutable, NoEffect("files are deleted as soon as no reader needs them, without a search");
        /// Interval at which statistics are written to the information log, in seconds; 0 means
        /// never.
        stats_dump_period_sec: u32 = 600, Mutable, Honoured;
        /// Off-peak time of day, as `HH:mm-HH:mm` in UTC; empty means none.
        daily_offpeak_time_utc: String = String::new(), Mutable,
            NoEffect("compactions that are due by time run at any hour");
        /// Maximum memory for the history of statistics, in bytes.
        stats_history_buffer_size: u64 = 1 << 20, Mutable,
            NoEffect("no history of statistics is kept");
        /// Interval at which statistics are added to their history, in seconds.
        stats_persist_period_sec: u32 = 600, Mutable, NoEffect("no history of statistics is kept");
        /// Interval at which a follower catches up, in milliseconds.
        follower_refresh_catchup_period_ms: u64 = 10_000, Fixed, NoEffect(NO_FOLLOWERS);
        /// Reports single deletions that break their contract, in the LOG and in the property
        /// `tailwater.contract-violations`. In either case, compactions continue.
        enforce_single_del_contracts: bool = true, Fixed, Honoured;
        /// Cache tiers that may be used.
        lowest_used_cache_tier: CacheTier = CacheTier::NonVolatileBlock, Fixed,
            NoEffect("there is one cache, in memory");
        /// Interval between retries of a flush or compaction that lacks disk space or file
        /// descriptors, in microseconds.
        bgerror_resume_retry_interval: u64 = 1_000_000, Fixed, Honoured;
        /// The temperature of MANIFEST, CURRENT and OPTIONS files.
        metadata_write_temperature: Temperature = Temperature::UNKNOWN, Fixed,
            NoEffect(NO_TIERS);
        /// Opens a database that lost files, without the data that cannot be recovered.
        best_efforts_recovery: bool = false, Fixed,
            NoEffect("a database that lost files must be repaired before it is opened");
        /// Readahead of recovery in logs, in bytes.
        log_readahead_size: u64 = 0, Fixed, NoEffect("logs are read in blocks of 32 KiB, which the system reads ahead");
        /// Writes the database's id to the file IDENTITY.
        write_identity_file: bool = true, Fixed, Honoured;
        /// Writes the database's id to the MANIFEST.
        write_dbid_to_manifest: bool = true, Fixed, Honoured;
        /// Compression of logs: none or zstd.
        wal_compression: CompressionType = CompressionType::None, Fixed, Honoured;
        /// Keeps log records in memory until a flush of the log is requested.
        manual_wal_flush: bool = false, Fixed, Honoured;
        /// Host name in table properties; `__hostname__` takes it from the system.
        db_host_id: String = "__hostname__".to_owned(), Fixed, Honoured;
        /// Lets writes that skip the memtable use a queue of their own.
        two_write_queues: bool = false, Fixed, NoEffect(OWN_PIPELINE);
        /// Keeps the last level free for files that are ingested as the oldest data.
        allow_ingest_behind: bool = false, Fixed,
            Refused(NO_INGESTION_BEHIND, &["false"]);
        /// Maximum number of retries of a follower.
        follower_catchup_retry_count: u64 = 10, Fixed, NoEffect(NO_FOLLOWERS);
        /// Keeps data recovered from logs in memtables instead of flushing it immediately.
        avoid_flush_during_recovery: bool = false, Fixed, Honoured;
        /// Adds the allocator's statistics to those in the information log.
        dump_malloc_stats: bool = false, Fixed, NoEffect("the allocator's statistics are not reported");
        /// Flushes all column families atomically, so that they are consistent after a crash even
        /// without a log.
        atomic_flush: bool = false, Fixed, Honoured;
        /// Checks the unique id of each opened table against the MANIFEST.
        verify_sst_unique_id_in_manifest: bool = true, Fixed, Honoured;
        /// Skips reading table properties when the database is opened, so that compactions start
        /// with fewer statistics.
        skip_stats_update_on_db_open: bool = false, Fixed, NoEffect("a table's properties are read whenever it is opened");
        /// Records in each log the number, size and last sequence number of its predecessor, and
        /// checks them in recovery.
        track_and_verify_wals: bool = false, Fixed, Honoured;
        /// Writes the lengths of synced logs to the MANIFEST, and checks them in recovery.
        track_and_verify_wals_in_manifest: bool = false, Fixed, NoEffect("sizes of logs in a MANIFEST are checked, but not written");
        /// Checks that a compaction reads as many records as its inputs hold.
        compaction_verify_record_count: bool = true, Fixed, Honoured;
        /// Checks that a flush reads as many records as the memtables hold.
        flush_verify_memtable_count: bool = true, Fixed, NoEffect("the count is always checked");
        /// Refuses to open a database with a damaged file, and stops writes when damage is found.
        paranoid_checks: bool = true, Fixed, NoEffect("the checks are always on");
        /// Creates the database if it does not exist.
        create_if_missing: bool = false, Fixed, Honoured;
        /// Factory of generators of whole-file checksums, which are stored in the MANIFEST.
        file_checksum_gen_factory: ObjectName = ObjectName::default(), Fixed,
            NoEffect("new tables have no whole-file checksum");
        /// Tracks the status of threads.
        enable_thread_tracking: bool = false, Fixed, NoEffect("threads are not tracked");
        /// Leaves slow cleanup to background threads.
        avoid_unnecessary_blocking_io: bool = false, Fixed,
            NoEffect("cleanup always runs in the background");
        /// Number of threads that perform users' reads.
        read_io_executor_threads: i32 = 1, Fixed, NoEffect("users' threads perform their own reads");
        /// Opens tables in the background after the database is open.
        open_files_async: bool = false, Fixed, NoEffect("all tables are opened before the database is, or with a max_open_files when they are read");
        /// Preallocates space for files before they are written.
        allow_fallocate: bool = true, Fixed, Honoured;
        /// Maximum size of a write group, in bytes.
        max_write_batch_group_size_bytes: u64 = 1 << 20, Fixed, Honoured;
        /// Includes keys in error messages.
        allow_data_in_errors: bool = false, Fixed,
            NoEffect("errors about a key always include it");
        /// Refuses to open a database that exists.
        error_if_exists: bool = false, Fixed, Honoured;
        /// Flushes and compactions write with direct I/O.
        use_direct_io_for_flush_and_compaction: bool = false, Fixed, Honoured;
        /// Closes logs in the background.
        background_close_inactive_wals: bool = false, Fixed,
            NoEffect("a log is closed after its sync, or at the next flush");
        /// Creates requested column families that do not exist.
        create_missing_column_families: bool = false, Fixed, Honoured;
        /// Continues the existing MANIFEST.
        reuse_manifest_on_open: bool = false, Fixed, NoEffect("each open rewrites the MANIFEST");
        /// Maximum total size of archived logs, in MiB; 0 means no limit.
        wal_size_limit_mb as "WAL_size_limit_MB": u64 = 0, Fixed,
            Refused(NO_ARCHIVE, &["0"]);
        /// Reads of tables and blob files by users and by compactions use direct I/O.
        use_direct_reads: bool = false, Fixed, Honoured;
        /// Stores the history of statistics in the database.
        persist_stats_to_disk: bool = false, Fixed,
            NoEffect("no history of statistics is kept");
        /// Supports two-phase commit of transactions.
        allow_2pc: bool = false, Fixed, Refused(NO_TRANSACTIONS, &["false"]);
        /// Closes files in child processes (`FD_CLOEXEC`).
        is_fd_close_on_exec: bool = true, Fixed, NoEffect("files are always closed");
        /// Size at which a new information log is started, in bytes; 0 means no limit.
        max_log_file_size: u64 = 0, Fixed, Honoured;
        /// Number of threads that open tables when the database is opened.
        max_file_opening_threads: i32 = 16, Fixed, NoEffect("tables are opened one at a time");
        /// Filters log records in recovery.
        wal_filter: ObjectName = ObjectName::default(), Fixed,
            NoEffect("recovery applies every record of the logs");
        /// The temperature of logs.
        wal_write_temperature: Temperature = Temperature::UNKNOWN, Fixed,
            NoEffect(NO_TIERS);
        /// Delay before a follower retries, in milliseconds.
        follower_catchup_retry_wait_ms: u64 = 100, Fixed, NoEffect(NO_FOLLOWERS);
        /// Maps tables into memory to read them.
        allow_mmap_reads: bool = false, Fixed, NoEffect(NO_MMAP);
        /// Maps files into memory to write them.
        allow_mmap_writes: bool = false, Fixed, NoEffect(NO_MMAP);
        /// Spins before waiting for a mutex.
        use_adaptive_mutex: bool = false, Fixed, NoEffect(OWN_WAITING);
        /// Syncs logs with `fsync` instead of `fdatasync`.
        use_fsync: bool = false, Fixed, Honoured;
        /// Directory of the information log; empty means the database's.
        db_log_dir: String = String::new(), Fixed, Honoured;
        /// Number of shards of the table cache, as a power of two.
        table_cache_numshardbits: i32 = 6, Fixed,
            NoEffect("the table cache chooses its number of shards");
        /// Compactions read their inputs, and their outputs to verify them, with direct I/O, even
        /// if users' reads are buffered. `use_direct_reads_for_compaction`, the option's name in
        /// RocksDB's pull request 14743, is accepted as well.
        use_direct_io_for_compaction_reads: bool = false, Fixed, Honoured;
        /// Total memory of the write buffers of all column families, in bytes; 0 means no limit.
        db_write_buffer_size: u64 = 0, Fixed, Honoured;
        /// Number of information logs kept.
        keep_log_file_num: u64 = 1000, Fixed, Honoured;
        /// Maximum number of attempts to resume automatically after a failure that refuses writes.
        /// Flushes and compactions that lack disk space or file descriptors are retried without
        /// limit.
        max_bgerror_resume_count: i32 = i32::MAX, Fixed, Honoured;
        /// Keeps recovered data within the limit of the write buffer manager: if it exceeds the
        /// limit, it is flushed in parts while the logs are replayed, even with
        /// `avoid_flush_during_recovery`.
        enforce_write_buffer_manager_during_recovery: bool = true, Fixed, Honoured;
        /// Lets writers insert into a memtable concurrently.
        allow_concurrent_memtable_write: bool = true, Fixed, NoEffect(OWN_PIPELINE);
        /// Number of old logs kept for recycling; 0 means none.
        recycle_log_file_num: u64 = 0, Fixed, Honoured;
        /// Iterators use prefixes only if their read options request it.
        prefix_seek_opt_in_only: bool = false, Fixed, Honoured;
        /// Creates the next log before it is needed.
        async_wal_precreate: bool = false, Fixed,
            NoEffect("a log is created when it is needed; space for direct logs is preallocated");
        /// Advises the system that tables are read at random offsets.
        advise_random_on_open: bool = true, Fixed, Honoured;
        /// Minimum severity of messages in the information log.
        info_log_level: InfoLogLevel = InfoLogLevel::Info, Fixed, Honoured;
        /// Age at which a new information log is started, in seconds; 0 means never.
        log_file_time_to_roll: u64 = 0, Fixed, Honoured;
        /// Directory of the logs; empty means the database's.
        wal_dir: String = String::new(), Fixed, Honoured;
        /// Time for which archived logs are kept, in seconds; 0 means not at all.
        wal_ttl_seconds as "WAL_ttl_seconds": u64 = 0, Fixed,
            Refused(NO_ARCHIVE, &["0"]);
        /// Lets a group write to the log while its predecessor inserts into memtables.
        enable_pipelined_write: bool = false, Fixed, NoEffect(OWN_PIPELINE);
        /// Duration of a yield above which a waiting writer counts it as slow and soon sleeps, in
        /// microseconds.
        write_thread_slow_yield_usec: u64 = 3, Fixed, NoEffect(OWN_WAITING);
        /// Gives up the immutability of snapshots for write throughput.
        unordered_write: bool = false, Fixed, NoEffect(OWN_PIPELINE);
        /// The log damage that recovery tolerates.
        wal_recovery_mode: RecoveryMode = RecoveryMode::PointInTime, Fixed, Honoured;
        /// Lets waiting writers yield before they sleep.
        enable_write_thread_adaptive_yield: bool = true, Fixed, NoEffect(OWN_WAITING);
        /// Time for which a waiting writer yields before it sleeps, in microseconds.
        write_thread_max_yield_usec: u64 = 100, Fixed, NoEffect(OWN_WAITING);
        /// Listeners that are notified of flushes, compactions and errors.
        listeners: Vec<ObjectName> = Vec::new(), Fixed,
            NoEffect("listeners are never notified"), print_listeners;
        /// Maximum write rate of flushes and compactions, in bytes per second; 0 means no limit.
        rate_limiter_bytes_per_sec: u64 = 0, MutableUnwritten, Honoured;
        /// RocksDB's interface to the operating system.
        env: ObjectName = ObjectName::default(), Unwritten,
            Refused(OTHER_SYSTEM, &["nullptr", "DefaultEnv", "PosixEnv"]);
        /// Counters of the database's operations.
        statistics: ObjectName = ObjectName::default(), Unwritten,
            NoEffect("statistics are collected in the object given to OpenOptions::set_statistics");
    }
    elsewhere {
        /// Directories of tables; none means the database's directory alone.
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
    /// Returns the maximum number of compactions that run concurrently when a single one does not
    /// keep up.
    pub(crate) fn compactions_max(&self) -> usize {
        self.job_limits().1
    }

    /// Returns the maximum number of flushes that run concurrently.
    pub(crate) fn flushes_max(&self) -> usize {
        self.job_limits().0
    }

    /// Returns the maximum number of a database's threads that flush. An atomic flush includes all
    /// column families, so another thread would wait for it.
    pub(crate) fn flushing_threads_max(&self) -> usize {
        if self.atomic_flush { 1 } else { self.flushes_max() }
    }

    /// Returns the maximum numbers of concurrent flushes and compactions. If neither
    /// `max_background_flushes` nor `max_background_compactions` is set, a quarter of
    /// `max_background_jobs` flushes, and the others compact. Source: `DBImpl::GetBGJobLimits` in
    /// `db/db_impl/db_impl_compaction_flush.cc`.
    fn job_limits(&self) -> (usize, usize) {
        let (flushes, compactions) =
            match (self.max_background_flushes, self.max_background_compactions) {
                (-1, -1) => {
                    let flushes = (self.max_background_jobs / 4).max(1);
                    (flushes, self.max_background_jobs.saturating_sub(flushes))
                }
                set => set,
            };
        let bounded = |count| usize::try_from(count).unwrap_or(0).clamp(1, THREADS_MAX);
        (bounded(flushes), bounded(compactions))
    }

    /// Returns the number of threads for flushes and compactions.
    pub(crate) fn jobs_max(&self) -> usize {
        usize::try_from(self.max_background_jobs).unwrap_or(0).clamp(1, THREADS_MAX)
    }

    /// Returns the maximum number of threads that share one compaction.
    pub(crate) fn subcompactions_max(&self) -> usize {
        (self.max_subcompactions as usize).clamp(1, THREADS_MAX)
    }

    /// Returns the size of one direct I/O request of a compaction or flush, in bytes.
    pub(crate) fn direct_request_size(&self) -> usize {
        self.tailwater.direct_request_size.min(DIRECT_REQUEST_MAX) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The figures of `DBImpl::GetBGJobLimits` in RocksDB.
    #[test]
    fn background_jobs_are_divided_as_in_rocksdb() {
        let limits = |flushes, compactions, jobs| {
            let options = DbOptions {
                max_background_flushes: flushes,
                max_background_compactions: compactions,
                max_background_jobs: jobs,
                ..DbOptions::default()
            };
            (options.flushes_max(), options.compactions_max())
        };
        let jobs = [0, 1, 2, 4, 7, 8, 16, i32::MAX].map(|jobs| limits(-1, -1, jobs));
        let expected = [(1, 1), (1, 1), (1, 1), (1, 3), (1, 6), (2, 6), (4, 12)];
        assert_eq!(jobs[..7], expected);
        assert_eq!(jobs[7], (THREADS_MAX, THREADS_MAX));
        assert_eq!([limits(3, -1, 16), limits(-1, 5, 16)], [(3, 1), (1, 5)]);
        assert_eq!([limits(2, 4, 1), limits(0, 0, 8)], [(2, 4), (1, 1)]);
    }
}
