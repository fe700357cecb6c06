//! The state that the components of an open database share: its files, column families and options,
//! requests to its background threads, and the failures that stop its writes.
//!
//! Each component that writes is created with a context and the components below it in this list:
//!
//! ```text
//! ingest::Ingester                  external files
//! write::WritePath                  queue, logs, memtables
//! flush::FlushScheduler             from memtables to tables
//! compaction::CompactionScheduler   from tables to tables
//! version::Versions                 the current tables; the MANIFEST
//! ```

mod cleaning;
mod failures;
mod locks;
mod new_tables;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tailwater_format::key::Sequence;
use tailwater_format::version_edit::VersionEdit;
use tailwater_io::pace::CountedLimiter;
use tailwater_io::{Clock, Storage};

use crate::background::{Background, ErrorState, FailedPart};
use crate::column_family::{ColumnFamily, OpenFiles, ReaderFactory};
use crate::directory::{DatabaseIdentity, GuardedStorage};
use crate::error::{Error, Result};
use crate::file_numbers::FileNumbers;
use crate::handover::Generations;
use crate::open_options::CurrentOptions;
use crate::options::ColumnFamilyOptions;
use crate::read::ReadState;
use crate::sst_file_manager::TrackedFiles;
use crate::stall::StallController;
use crate::stats::{InfoLog, Statistics};
use crate::table::FileMetadata;
use crate::version::{Installation, Written};

/// The state shared by the components of a database that is open for writing.
pub(crate) struct Context {
    /// The state shared with reads.
    pub(crate) shared: Arc<ReadState>,
    pub(crate) storage: Arc<dyn Storage>,
    /// The same storage, to check the locks of the database's directories.
    pub(crate) guard: Arc<GuardedStorage>,
    /// The coarse time from which on the next writer checks the locks.
    pub(crate) lock_check_due_ns: AtomicU64,
    /// The tables, blob files and logs, for the removal of files and the limit of their space.
    pub(crate) files: Arc<TrackedFiles>,
    /// The home of the database.
    pub(crate) directory: PathBuf,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) info_log: Arc<InfoLog>,
    pub(crate) identity: DatabaseIdentity,
    pub(crate) numbers: FileNumbers,
    pub(crate) options: CurrentOptions,
    /// Creates the readers of new column families and of those whose options change.
    pub(crate) readers: Arc<ReaderFactory>,
    pub(crate) open_files: Arc<OpenFiles>,
    /// The generations of the warm set.
    pub(crate) generations: Arc<Generations>,
    pub(crate) errors: ErrorState,
    pub(crate) stall: StallController,
    pub(crate) background: Arc<Background>,
}

impl Context {
    /// Returns the highest sequence number that reads see.
    pub(crate) fn published(&self) -> Sequence {
        self.shared.published()
    }

    /// Returns the rate limiter of flushes and compactions, if there is one, which counts in the
    /// database's statistics.
    pub(crate) fn rate_limiter(&self) -> Option<CountedLimiter> {
        let limiter = self.options.rate_limiter()?;
        Some(Statistics::counting(limiter, self.shared.statistics.clone()))
    }

    /// Returns the time in seconds since 1970.
    pub(crate) fn now_s(&self) -> u64 {
        self.clock.wall_us() / 1_000_000
    }

    /// Returns the options of the current column families.
    pub(crate) fn family_options(&self) -> Vec<Arc<ColumnFamilyOptions>> {
        self.shared.family_set().iter().map(ColumnFamily::options).collect()
    }

    /// Writes edits to the MANIFEST, durably and atomically; the caller installs them in memory
    /// afterwards. If the MANIFEST cannot be written, later writes are refused. `new_tables` are
    /// the tables that the edits add, if they are open.
    pub(crate) fn write_edits<'v>(
        &self,
        installation: Installation<'v>,
        edits: Vec<VersionEdit>,
        new_tables: &[Arc<FileMetadata>],
    ) -> Result<Written<'v>> {
        self.write_edits_at(installation, edits, new_tables, self.published())
    }

    /// Like [`Context::write_edits`], with edits that use sequence numbers up to `last_sequence`.
    pub(crate) fn write_edits_at<'v>(
        &self,
        installation: Installation<'v>,
        edits: Vec<VersionEdit>,
        new_tables: &[Arc<FileMetadata>],
        last_sequence: Sequence,
    ) -> Result<Written<'v>> {
        self.check_locks()?;
        let failed = |error: &Error| self.latch(FailedPart::Manifest, error);
        installation.write(edits, new_tables, last_sequence, failed)
    }
}
