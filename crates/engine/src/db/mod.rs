//! The handle of an open database.
//!
//! Each public method of [`Db`] is in the file with its implementation: for example `Db::open` in
//! `opening.rs`, `Db::close` in `closing.rs`, gets in `reading.rs`, puts in `writing.rs`. The
//! methods with default arguments are in `forms.rs`.

mod approximate_sizes;
mod background_jobs;
mod changing_options;
mod checkpoint;
mod closing;
mod creating_families;
mod database;
mod destroy;
mod dump_statistics;
mod embedding;
mod entries;
mod families;
mod forms;
mod live_files;
mod maintenance;
mod opening;
mod options_file;
mod options_in_log;
mod properties;
mod reading;
mod resume;
mod updates;
mod writing;

pub use approximate_sizes::{MemTableStatistics, SizeOptions};
use background_jobs::Writing;
pub use checkpoint::CheckpointOptions;
pub use creating_families::CreateFamiliesError;
use database::Database;
pub use entries::{Entries, KeyBounds};
pub use live_files::LiveFile;
pub use maintenance::CompactionPause;
pub use properties::{LEVEL_PROPERTY_NAMES, PROPERTY_NAMES};

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tailwater_format::key::Sequence;
use tailwater_io::Storage;

use crate::column_family::{ColumnFamily, FamilySet};
use crate::error::{Error, ErrorKind, Result};
use crate::left_out::LeftOut;
use crate::open_options::{OpenOptions, OptionWithoutEffect};
use crate::opening::OpeningId;
use crate::options::DbOptions;
use crate::read::{ReadState, Snapshot, SnapshotList};
use crate::recovery::{self, LogsReplayed};

/// An open database. Clones are handles to the same open database. Thread-safe.
///
/// Methods by task:
///
/// - open and close: [`open`](Self::open), [`open_default`](Self::open_default),
///   [`open_read_only`](Self::open_read_only),
///   [`cancel_background_work`](Self::cancel_background_work), [`close`](Self::close)
/// - read: [`get`](Self::get), [`get_into`](Self::get_into), [`get_pinned`](Self::get_pinned),
///   [`multi_get`](Self::multi_get), [`multi_get_cf`](Self::multi_get_cf),
///   [`snapshot`](Self::snapshot)
/// - iterate: [`range`](Self::range), [`prefix`](Self::prefix),
///   [`raw_iterator`](Self::raw_iterator)
/// - write: [`put`](Self::put), [`delete`](Self::delete), [`single_delete`](Self::single_delete),
///   [`delete_range`](Self::delete_range), [`merge`](Self::merge), [`write`](Self::write),
///   [`flush_wal`](Self::flush_wal)
/// - column families: [`cf_handle`](Self::cf_handle), [`default_cf`](Self::default_cf),
///   [`column_families`](Self::column_families), [`create_cf`](Self::create_cf),
///   [`create_cfs`](Self::create_cfs),
///   [`create_cfs_with_objects`](Self::create_cfs_with_objects), [`drop_cf`](Self::drop_cf),
///   [`list_cf`](Self::list_cf)
/// - flush and compact: [`flush`](Self::flush), [`flush_all`](Self::flush_all),
///   [`compact_range`](Self::compact_range),
///   [`suggest_compact_range_cf`](Self::suggest_compact_range_cf),
///   [`disable_manual_compaction`](Self::disable_manual_compaction),
///   [`pause_compactions`](Self::pause_compactions),
///   [`needs_compaction`](Self::needs_compaction),
///   [`wait_for_compactions`](Self::wait_for_compactions),
///   [`running_compactions`](Self::running_compactions), [`stall_state`](Self::stall_state)
/// - bulk load: [`ingest_external_file`](Self::ingest_external_file),
///   [`ingest_external_files`](Self::ingest_external_files)
/// - copy and follow: [`checkpoint`](Self::checkpoint), [`live_files`](Self::live_files),
///   [`disable_file_deletions`](Self::disable_file_deletions),
///   [`updates_since`](Self::updates_since),
///   [`updates_since_or_after`](Self::updates_since_or_after),
///   [`latest_sequence_number`](Self::latest_sequence_number)
/// - change options: [`set_options`](Self::set_options),
///   [`set_database_options`](Self::set_database_options),
///   [`database_options`](Self::database_options)
/// - observe: [`property_value`](Self::property_value),
///   [`property_int_value`](Self::property_int_value),
///   [`approximate_sizes`](Self::approximate_sizes),
///   [`approximate_memtable_stats`](Self::approximate_memtable_stats)
/// - errors: [`background_error`](Self::background_error), [`resume`](Self::resume),
///   [`verify_tables`](Self::verify_tables), [`left_out`](Self::left_out),
///   [`warnings`](Self::warnings), [`options_without_effect`](Self::options_without_effect)
/// - embed in other languages: [`write_to_log`](Self::write_to_log), [`identity`](Self::identity)
/// - remove: [`destroy`](Self::destroy)
///
/// These methods use the column family `default` and default options. For those that can use
/// others, the suffix `_cf` means that a method takes a column family, and `_opt` (in ingestions
/// `_opts`) that it takes options: [`get`](Self::get), [`get_opt`](Self::get_opt),
/// [`get_cf`](Self::get_cf), [`get_cf_opt`](Self::get_cf_opt). The last of these describes the
/// method completely.
///
/// ```
/// # fn main() -> tailwater::Result<()> {
/// # let directory = tempfile::tempdir().expect("a temporary directory");
/// # let directory = directory.path();
/// use tailwater::{Db, OpenOptions};
///
/// let mut options = OpenOptions::default();
/// options.create_if_missing(true);
/// let db = Db::open(directory, &options)?;
/// db.put("key", "value")?;
///
/// let reader = std::thread::spawn({
///     let db = db.clone();
///     move || db.get("key")
/// });
/// let value = reader.join().expect("the thread did not panic")?;
/// assert_eq!(value.as_deref(), Some(&b"value"[..]));
/// db.close()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Db {
    inner: Arc<Inner>,
}

struct Inner {
    default_family: ColumnFamily,
    /// Identifies the call that opened the database. The column families that this `Db` returns
    /// have the same ID. So handles from another database, or from another call that opened this
    /// one, are detected.
    opening: OpeningId,
    directory: PathBuf,
    storage: Arc<dyn Storage>,
    shared: Arc<ReadState>,
    left_out: Vec<LeftOut>,
    warnings: Vec<String>,
    without_effect: Vec<OptionWithoutEffect>,
    is_new: bool,
    access: Access,
}

/// What a handle was opened for.
enum Access {
    /// Reading only, with these options.
    Reading(Arc<DbOptions>),
    /// Reading and writing, with the components and threads for writing.
    Writing(Writing),
}

impl fmt::Debug for Db {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let families = self.inner.shared.family_set();
        let names: Vec<&str> = families.iter().map(ColumnFamily::name).collect();
        f.debug_struct("Db")
            .field("directory", &self.inner.directory)
            .field("column_families", &names)
            .field("latest_sequence", &self.latest_sequence_number())
            .finish_non_exhaustive()
    }
}

impl Db {
    /// Opens the database in `directory` for reading. No file is changed or created and no lock is
    /// taken, so the database may be open for writing elsewhere. The handle shows the database as
    /// it is at some time during this call.
    ///
    /// If another process removes a table or blob file later, because it became obsolete, the
    /// handle can still read it if this call has opened it. With `max_open_files=-1`, the default,
    /// this call opens all files, as far as the process's limit on open files permits.
    ///
    /// The write-ahead logs are replayed into memory according to the recovery mode;
    /// [`Db::left_out`] reports what was left out.
    ///
    /// # Errors
    /// Not found, if there is no database; corruption, for damage to its MANIFEST, for a table,
    /// blob file or log that the MANIFEST names and that is missing or too short, and for damage to
    /// logs that the recovery mode does not accept; invalid argument, for a comparator other than
    /// the one that the database was written with, for tables in level `num_levels` or deeper, and
    /// for a directory in `wal_dir`, `db_paths` or `cf_paths` that belongs to another database; not
    /// supported, for features that are not implemented; busy, if the database is open for writing
    /// elsewhere and changed during each of very many attempts to read it; I/O, for failures of the
    /// system such as too many open files. Damage inside tables is found when they are read.
    pub fn open_read_only(directory: impl AsRef<Path>, options: &OpenOptions) -> Result<Self> {
        let directory = directory.as_ref();
        recovery::recover_read_only(directory, options)
            .and_then(|recovered| Self::from_recovered(directory, recovered))
    }

    fn from_recovered(directory: &Path, mut recovered: LogsReplayed) -> Result<Self> {
        let access = Access::Reading(Arc::new(recovered.database_options().clone()));
        let shared = recovered.take_read_state(recovered.last_sequence);
        let LogsReplayed { storage, left_out, warnings, .. } = recovered;
        let inner = Inner {
            default_family: default_of(&shared.family_set())?,
            opening: shared.opening,
            directory: directory.to_owned(),
            storage,
            shared: Arc::new(shared),
            left_out,
            warnings,
            without_effect: Vec::new(),
            is_new: false,
            access,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Returns the database's directory.
    pub fn directory(&self) -> &Path {
        &self.inner.directory
    }

    /// Returns the storage that holds the database's files.
    pub fn storage(&self) -> &Arc<dyn Storage> {
        &self.inner.storage
    }

    /// Returns the contents of the MANIFEST and of the write-ahead logs that were ignored when the
    /// database was opened.
    pub fn left_out(&self) -> &[LeftOut] {
        &self.inner.left_out
    }

    /// Returns the warnings of the opening, as human-readable sentences. If the database is open
    /// for writing, they include unfulfilled requests: objects that the OPTIONS file names but that
    /// are not registered, compaction styles that are not implemented, and the number of options
    /// without effect. The database's LOG has the same sentences.
    pub fn warnings(&self) -> &[String] {
        &self.inner.warnings
    }

    /// Returns the options that were set when the database was opened and have no effect, of the
    /// database and of its column families. None if the database was opened read-only. The
    /// database's LOG lists them, too.
    pub fn options_without_effect(&self) -> &[OptionWithoutEffect] {
        &self.inner.without_effect
    }

    /// Whether this opening created the database.
    pub fn is_new(&self) -> bool {
        self.inner.is_new
    }

    /// Returns the column families, in the order of their IDs, `default` first.
    pub fn column_families(&self) -> Vec<ColumnFamily> {
        self.inner.shared.family_set().iter().cloned().collect()
    }

    /// Returns the column family `default`, which every database has.
    #[inline]
    pub fn default_cf(&self) -> &ColumnFamily {
        &self.inner.default_family
    }

    /// Returns the column family with this name.
    ///
    /// # Errors
    /// Not found, if there is no such column family.
    pub fn cf_handle(&self, name: &str) -> Result<ColumnFamily> {
        self.inner.shared.family_set().by_name(name).cloned().ok_or_else(|| {
            Error::new(ErrorKind::NotFound, format!("there is no column family '{name}'"))
        })
    }

    /// Returns the highest sequence number that reads see.
    #[inline]
    pub fn latest_sequence_number(&self) -> Sequence {
        self.inner.shared.published.load(Ordering::Acquire)
    }

    /// Returns a snapshot of all column families, for reads that must not see later writes.
    pub fn snapshot(&self) -> Snapshot {
        let now_s = self.inner.shared.activity.clock().wall_us() / 1_000_000;
        self.inner.shared.take_snapshot(now_s)
    }

    /// Refuses a column family that was not obtained from this `Db` or a clone of it.
    #[inline]
    fn check_family(&self, family: &ColumnFamily) -> Result<()> {
        if family.opening() == self.inner.opening { Ok(()) } else { Err(foreign(family)) }
    }

    fn snapshots(&self) -> &SnapshotList {
        &self.inner.shared.snapshots
    }
}

fn default_of(families: &FamilySet) -> Result<ColumnFamily> {
    let missing = || Error::internal("there is no column family 'default'");
    families.by_id(0).cloned().ok_or_else(missing)
}

#[cold]
fn foreign(family: &ColumnFamily) -> Error {
    let name = family.name();
    Error::invalid_argument(format!(
        "this handle of column family '{name}' does not belong to this opening of the database"
    ))
}
