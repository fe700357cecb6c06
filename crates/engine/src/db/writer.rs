//! The writing side of an open database.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

use tailwater_format::key::Sequence;
use tailwater_format::version_edit::VersionEdit;
use tailwater_io::buffer::BufferPool;
use tailwater_io::pace::RateLimiter;
use tailwater_io::stream::Workers;
use tailwater_io::sync::Mutex;
use tailwater_io::{Clock, FileIdentity, Storage};

use crate::background::{Background, Threads};
use crate::db::errors::{ErrorState, FailedPart};
use crate::db::obsolete::Obsolete;
use crate::db::{
    Closing, ColumnFamily, DatabaseOptions, FamilySet, OpeningId, ReaderFactory, SnapshotList,
    WriteTimes,
};
use crate::directory::Locks;
use crate::epoch::EpochCell;
use crate::io_modes::IoModes;
use crate::options::DbOptions;
use crate::panics;
use crate::recovery::OpenOptions;
use crate::stats::{Activity, InfoLog, Statistics};
use crate::version::{FileMetadata, FileNumbers, Installation, VersionSet, Versions, Written};
use crate::wal::LogSet;
use crate::write::queue::{Leadership, Queue};
use crate::write::{FamilyLook, StallCause, StallController, StallState, WriteOptions};
use crate::{Error, ErrorKind, Result};

/// Time that a stopped write waits for a manual compaction, if only that can resume writes.
const PATIENCE: Duration = Duration::from_secs(10);

/// State shared by reading and writing.
#[derive(Debug)]
pub(crate) struct Shared {
    /// The opening ID of its column families.
    pub(crate) opening: OpeningId,
    /// The column families.
    pub(crate) families: EpochCell<FamilySet>,
    /// The highest sequence number that reads see.
    pub(crate) published: AtomicU64,
    pub(crate) snapshots: SnapshotList,
    /// Activity since the database was opened.
    pub(crate) activity: Activity,
    /// The statistics object, if one was set.
    pub(crate) statistics: Option<Arc<Statistics>>,
    /// The I/O modes of its files.
    pub(crate) io_modes: Arc<IoModes>,
    #[expect(dead_code, reason = "dropped after the others")]
    closing: Closing,
}

impl Shared {
    /// Creates the state from column families and the published sequence number.
    pub(crate) fn new(
        opening: OpeningId,
        families: FamilySet,
        published: Sequence,
        activity: Activity,
        statistics: Option<Arc<Statistics>>,
        io_modes: Arc<IoModes>,
    ) -> Self {
        Self {
            opening,
            families: EpochCell::new(Some(Arc::new(families))),
            published: AtomicU64::new(published),
            snapshots: SnapshotList::default(),
            activity,
            statistics,
            io_modes,
            closing: Closing,
        }
    }

    /// Returns the highest sequence number that reads see.
    pub(crate) fn published(&self) -> Sequence {
        self.published.load(Ordering::Acquire)
    }

    /// Returns a reference to the column families.
    pub(crate) fn family_set(&self) -> Arc<FamilySet> {
        self.families.load_arc().unwrap_or_default()
    }
}

/// When sealed memtables are flushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flush {
    /// When a column family has `min_write_buffer_number_to_merge` of them.
    WhenEnough,
    /// However few they are.
    InAnyCase,
}

/// The identity of a database and its opening, as written to its files.
#[derive(Debug, Clone)]
pub(crate) struct DatabaseIdentity {
    pub(crate) database_id: String,
    pub(crate) session_id: String,
    /// The host name; empty if it is not to be recorded.
    pub(crate) host_id: String,
}

impl DatabaseIdentity {
    /// Returns the ID if these options persist it; empty if it changes with every opening.
    pub(crate) fn durable_id(&self, options: &DbOptions) -> &str {
        match options.write_identity_file || options.write_dbid_to_manifest {
            true => &self.database_id,
            false => "",
        }
    }
}

/// The writing side of an open database.
pub(crate) struct Writer {
    pub(crate) shared: Arc<Shared>,
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) directory: PathBuf,
    pub(crate) database: DatabaseOptions,
    /// Includes the options of the existing column families.
    pub(crate) options: Mutex<OpenOptions>,
    pub(crate) readers: ReaderFactory,
    pub(crate) queue: Queue,
    pub(crate) errors: ErrorState,
    pub(crate) stall: StallController,
    pub(crate) numbers: FileNumbers,
    pub(crate) info_log: Arc<InfoLog>,
    pub(crate) background: Background,
    pub(crate) identity: DatabaseIdentity,
    pub(crate) clock: Arc<dyn Clock>,
    /// When sequence numbers were written.
    pub(crate) write_times: WriteTimes,
    pub(crate) rate_limiter: EpochCell<RateLimiter>,
    /// The buffers of tables that flushes write.
    pub(crate) buffers: Mutex<BufferPool>,
    /// Threads that write the full buffers of flushes; `None` if background work is done inline.
    pub(crate) flush_writers: Option<Arc<Workers>>,
    /// The same for compactions and ingestions, separate so that no flush waits for these, or for a
    /// lock held by a low-priority thread. `None` as above.
    pub(crate) compaction_writers: Option<Arc<Workers>>,
    /// Threads that read compaction inputs ahead where the system does not. `None` as above.
    pub(crate) input_readers: Option<Arc<Workers>>,
    /// Set by an insert that filled a memtable; checked by the next leader.
    pub(crate) has_full_memtable: AtomicBool,
    /// Set by a group that filled a log, or all logs together; checked by the next leader.
    pub(crate) has_full_logs: AtomicBool,
    /// Maximum total length of all logs, in bytes.
    pub(crate) log_bound: AtomicU64,
    /// The last sequence number assigned. Only leaders access it, and it is relevant only while
    /// groups are in flight.
    pub(crate) numbered: AtomicU64,
    /// Whether there are writes that are in no log and no table.
    pub(crate) has_unlogged: AtomicBool,
    /// Logs up to this number are being released by flushing what they hold.
    pub(crate) flushing_logs_through: AtomicU64,
    pub(crate) logs: Mutex<LogSet>,
    pub(crate) versions: Versions,
    /// The oldest snapshot when compactions were last considered because of it.
    pub(crate) oldest_looked_at: AtomicU64,
    /// Round-robin counter of the column family that may compact next.
    pub(crate) next_compacted: AtomicUsize,
    /// Held during a flush.
    pub(crate) flushing: Mutex<()>,
    /// Held while memtables of several column families are sealed, so that a flush takes all of
    /// them or none.
    pub(crate) sealing: Mutex<()>,
    /// Tables that no version has, to be removed when nobody reads them.
    pub(crate) obsolete: Mutex<Vec<Obsolete>>,
    /// External files whose sync has failed.
    pub(crate) unsynced_files: Mutex<BTreeSet<FileIdentity>>,
    /// Held while the options or the set of column families change.
    pub(crate) changing_options: Mutex<()>,
    /// The threads to end when the cleaning thread closes the database.
    pub(crate) abandoned: Mutex<Option<Threads>>,
    /// The numbers of the existing OPTIONS files.
    pub(crate) options_files: Mutex<BTreeSet<u64>>,
    /// Held until the database is closed.
    pub(crate) locks: Mutex<Option<Locks>>,
    #[expect(dead_code, reason = "dropped after the others, among which the versions have tables")]
    pub(crate) closing: Closing,
}

impl Writer {
    /// Locks the logs.
    pub(crate) fn logs(&self) -> MutexGuard<'_, LogSet> {
        self.logs.lock()
    }

    /// Locks the versions. The lock is never held across I/O.
    pub(crate) fn versions(&self) -> MutexGuard<'_, VersionSet> {
        self.versions.lock()
    }

    /// Locks the options, which include those of the column families.
    pub(crate) fn options(&self) -> MutexGuard<'_, OpenOptions> {
        self.options.lock()
    }

    /// Returns the highest sequence number that reads see.
    pub(crate) fn published(&self) -> Sequence {
        self.shared.published.load(Ordering::Acquire)
    }

    /// Prepares for a group: switches full memtables and logs, and waits while writes are stalled.
    pub(crate) fn prepare(
        &self,
        leadership: &Leadership<'_>,
        bytes: usize,
        options: &WriteOptions,
    ) -> Result<()> {
        self.errors.check()?;
        // If switching fails, the memtable is still full.
        if self.has_full_memtable.swap(false, Ordering::Relaxed) {
            let sealed = self.seal_where(leadership, ColumnFamily::is_full, Flush::WhenEnough);
            sealed.inspect_err(|_| self.has_full_memtable.store(true, Ordering::Relaxed))?;
        }
        self.bound_memtables(leadership)?;
        if self.has_full_logs.swap(false, Ordering::Relaxed) {
            let bounded = self.bound_logs(leadership);
            bounded.inspect_err(|_| self.has_full_logs.store(true, Ordering::Relaxed))?;
        }
        let (bytes, no_slowdown) = (bytes as u64, options.no_slowdown);
        let wait = || {
            let mut idle_since = None;
            let go_on = |cause| self.check_waiting(cause, &mut idle_since);
            self.stall.wait(leadership, bytes, no_slowdown, go_on)
        };
        if self.stall.is_stalled() && !no_slowdown { self.count_stall(wait) } else { wait() }
    }

    /// Returns an error if waiting for a stall to end is pointless. `cause` is the condition that
    /// stops writes, if any; `idle_since` is since when no compaction could change that.
    fn check_waiting(
        &self,
        cause: Option<StallCause>,
        idle_since: &mut Option<Instant>,
    ) -> Result<()> {
        self.errors.check_waiting()?;
        match self.stopped_by_hand_only(cause) {
            None => *idle_since = None,
            Some(reason) => {
                let since = *idle_since.get_or_insert_with(Instant::now);
                if since.elapsed() >= PATIENCE {
                    return Err(Error::new(ErrorKind::Busy, reason));
                }
            }
        }
        match (cause, self.errors.stopped_compaction()) {
            (Some(StallCause::Level0 | StallCause::PendingCompaction), Some(error)) => {
                Err(error.while_doing("writes are stopped until compaction goes on"))
            }
            (Some(_), _) if self.options().inline_background() => {
                let message = "writes are stopped and nothing can resume them";
                Err(Error::new(ErrorKind::Busy, message))
            }
            _ => Ok(()),
        }
    }

    /// Returns why writes are stopped, if a column family with an unimplemented compaction style
    /// stops them and no compaction is running.
    fn stopped_by_hand_only(&self, cause: Option<StallCause>) -> Option<String> {
        let cause = cause.filter(|cause| *cause != StallCause::MemTables)?;
        if self.background.running_compactions() > 0 {
            return None;
        }
        let families = self.shared.family_set();
        let mut conditions = families.iter().map(ColumnFamily::stall_conditions);
        let by_hand = conditions.find(|it| {
            let state = it.state(0);
            !it.compacts_by_itself && state.stopped_by() == Some(cause)
        })?;
        Some(format!(
            "writes are stopped: {}, which is compacted manually only",
            by_hand.reason(cause)
        ))
    }

    /// Seals the largest memtable when all together have reached `db_write_buffer_size`.
    fn bound_memtables(&self, leadership: &Leadership<'_>) -> Result<()> {
        let bound = self.database.fixed().db_write_buffer_size;
        if bound == 0 {
            return Ok(());
        }
        let families = self.shared.family_set();
        let sizes = || families.iter().map(|family| (family.active().memory_usage(), family));
        let total: usize = sizes().map(|(bytes, _)| bytes).sum();
        // Like RocksDB, which reserves an eighth for memtables being flushed.
        if (total as u64) < bound / 8 * 7 {
            return Ok(());
        }
        match sizes().max_by_key(|(bytes, _)| *bytes) {
            Some((_, largest)) if !largest.active().is_empty() => {
                self.seal(leadership, &[largest], Flush::InAnyCase)
            }
            _ => Ok(()),
        }
    }

    /// Switches the current log if it is due. If all logs together exceed their maximum, flushes
    /// what the oldest holds instead.
    fn bound_logs(&self, leadership: &Leadership<'_>) -> Result<()> {
        let (is_due, are_padded, total, oldest, current) = {
            let logs = self.logs();
            let (oldest, current) = (logs.oldest_number(), logs.current_number());
            (logs.is_due(), logs.are_padded(), logs.total_bytes(), oldest, current)
        };
        let families = self.shared.family_set();
        let bound = self.log_bound.load(Ordering::Relaxed);
        // A single family's log is released with its memtable; nothing else holds it back. A padded
        // log may be many times as long as its contents.
        if (are_padded || families.iter().nth(1).is_some())
            && total > bound
            && self.flushing_logs_through.load(Ordering::Relaxed) < oldest
        {
            let holds_oldest = |family: &ColumnFamily| {
                let active = family.active();
                !active.is_empty() && active.earliest_log_number() <= oldest
            };
            self.seal_where(leadership, holds_oldest, Flush::InAnyCase)?;
            self.flushing_logs_through.store(current, Ordering::Relaxed);
            return Ok(());
        }
        if is_due { self.switch_log(leadership).map(drop) } else { Ok(()) }
    }

    /// Recomputes the maximum total length of the logs, after a change of column families.
    pub(crate) fn update_log_bound(&self) {
        let bound = self.total_log_bound(&self.shared.family_set());
        self.log_bound.store(bound, Ordering::Relaxed);
    }

    fn total_log_bound(&self, families: &FamilySet) -> u64 {
        if self.database.now().max_total_wal_size > 0 {
            return self.database.now().max_total_wal_size;
        }
        let buffers = families.iter().map(|family| {
            let options = family.options();
            let count = options.max_write_buffer_number.max(1).cast_unsigned();
            options.write_buffer_size.saturating_mul(count.into())
        });
        buffers.fold(0, u64::saturating_add).saturating_mul(4)
    }

    /// Seals the memtables of the column families that `is_due` selects, or of all families if
    /// flushes are atomic.
    fn seal_where(
        &self,
        leadership: &Leadership<'_>,
        is_due: impl Fn(&ColumnFamily) -> bool,
        flush: Flush,
    ) -> Result<()> {
        let families = self.shared.family_set();
        let due: Vec<&ColumnFamily> = families.iter().filter(|family| is_due(family)).collect();
        self.seal(leadership, &due, flush)
    }

    /// Seals the memtables of column families that are not empty, and has them flushed. Writes wait
    /// meanwhile.
    pub(crate) fn seal(
        &self,
        leadership: &Leadership<'_>,
        families: &[&ColumnFamily],
        flush: Flush,
    ) -> Result<()> {
        if self.seal_only(leadership, families, flush)? {
            self.flush_soon();
        }
        Ok(())
    }

    /// Like `seal`, for callers that flush them themselves. Returns whether any were sealed.
    pub(crate) fn seal_only(
        &self,
        leadership: &Leadership<'_>,
        families: &[&ColumnFamily],
        flush: Flush,
    ) -> Result<bool> {
        leadership.quiesce();
        let all = self.shared.family_set();
        let holds_something = |family: &&ColumnFamily| !family.active().is_empty();
        let due: Vec<&ColumnFamily> = if self.database.fixed().atomic_flush && !families.is_empty()
        {
            all.iter().filter(holds_something).collect()
        } else {
            families.iter().copied().filter(holds_something).collect()
        };
        if due.is_empty() {
            return Ok(false);
        }
        let next_log = self.switch_log(leadership)?;
        self.sample_write_times_if_due();
        let sealing = self.sealing();
        for family in &due {
            family.seal(next_log);
            if flush == Flush::InAnyCase {
                // Requested after sealing: a running flush clears the request along with what it
                // finds.
                family.request_flush(true);
            }
        }
        drop(sealing);
        self.update_stall(&due);
        Ok(true)
    }

    /// Locks sealing: memtables are sealed together while this is held.
    pub(crate) fn sealing(&self) -> MutexGuard<'_, ()> {
        self.sealing.lock()
    }

    /// Begins a new log, unless the current one is empty. Returns the number of the current log.
    fn switch_log(&self, leadership: &Leadership<'_>) -> Result<u64> {
        leadership.quiesce();
        let mut logs = self.logs();
        if !logs.current_is_empty() {
            let switched = logs.switch(self.numbers.take());
            if let Err(error) = switched {
                let is_as_before = error.is_out_of_descriptors() && !logs.has_failed();
                drop(logs);
                if !is_as_before {
                    self.latch_log(&error);
                }
                return Err(error);
            }
        }
        let number = logs.current_number();
        drop(logs);
        for family in self.shared.family_set().iter() {
            let active = family.active();
            if active.is_empty() {
                active.set_earliest_log_number(number);
            }
        }
        Ok(number)
    }

    /// Syncs the complete logs if there are several column families, before the MANIFEST gets data
    /// of one family that is newer than these logs' data of another: otherwise a crash could keep
    /// the one and lose the other. On failure, refuses writes.
    pub(crate) fn sync_closed_logs(&self) -> Result<()> {
        if self.shared.family_set().iter().nth(1).is_none() {
            return Ok(());
        }
        let synced = self.logs().sync_closed();
        synced.inspect_err(|error| self.latch_log(error))
    }

    /// Refuses writes after a failure of the log.
    pub(crate) fn latch_log(&self, error: &Error) {
        self.latch(FailedPart::Log, error);
    }

    /// Refuses writes after a failure.
    pub(crate) fn latch(&self, part: FailedPart, error: &Error) {
        let is_new = self.errors.latch(part, error.clone());
        self.stall.wake();
        if is_new {
            let tell = || {
                let message = format_args!("writes are refused from now on: {part}: {error}");
                self.info_log.error(message);
                Ok(())
            };
            // Writing to the LOG uses the clock and the storage, one of which may have panicked.
            let _ = panics::catch("the LOG", tell);
        }
    }

    /// Like [`Writer::update_stall`], if any column family may have changed.
    pub(crate) fn update_stall_of_all(&self) {
        let families = self.shared.family_set();
        self.update_stall(&families.iter().collect::<Vec<_>>());
    }

    /// Makes edits durable atomically, to be installed afterwards; refuses writes if that fails.
    /// `new_tables` are the tables that the edits add, as far as they are open.
    pub(crate) fn write_edits<'v>(
        &self,
        installation: Installation<'v>,
        edits: Vec<VersionEdit>,
        new_tables: &[Arc<FileMetadata>],
    ) -> Result<Written<'v>> {
        self.write_edits_at(installation, edits, new_tables, self.published())
    }

    /// Like [`Writer::write_edits`], with edits that use sequence numbers up to `last_sequence`.
    pub(crate) fn write_edits_at<'v>(
        &self,
        installation: Installation<'v>,
        edits: Vec<VersionEdit>,
        new_tables: &[Arc<FileMetadata>],
        last_sequence: Sequence,
    ) -> Result<Written<'v>> {
        let failed = |error: &Error| self.latch(FailedPart::Manifest, error);
        installation.write(edits, new_tables, last_sequence, failed)
    }

    /// Recomputes whether writes are stalled, after the memtables or tables of column families have
    /// changed.
    pub(crate) fn update_stall(&self, changed: &[&ColumnFamily]) {
        let families = self.shared.family_set();
        let looks = families.iter().map(|family| FamilyLook {
            id: family.id(),
            conditions: family.stall_conditions(),
            has_changed: changed.iter().any(|changed| changed.id() == family.id()),
        });
        let record = |id: u32, state: &StallState| {
            if let Some(family) = families.by_id(id) {
                family.statistics().stalls.record(state);
            }
        };
        let changed = self.stall.update(self.database.now().delayed_write_rate, looks, record);
        if self.stall.pressure().is_behind() {
            self.background.compact_soon();
        }
        if let Some(state) = changed {
            match state {
                StallState::Normal => self.info_log.info(format_args!("writes go on")),
                StallState::Delayed { bytes_per_second, reason, .. } => self.info_log.warn(
                    format_args!("writes are slowed down to {bytes_per_second} bytes/s: {reason}"),
                ),
                StallState::Stopped { reason, .. } => {
                    self.info_log.warn(format_args!("writes are stopped: {reason}"));
                }
            }
        }
    }
}
