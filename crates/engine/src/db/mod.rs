//! The handle of an open database.
//!
//! Each public method of [`Db`] is in the file with its implementation: for example `Db::open` in
//! `opening.rs`, `Db::close` in `closing.rs`, puts in `writing.rs`. The short forms of methods are
//! in `forms`.

mod approximate_sizes;
mod changing_options;
mod checkpoint;
mod closing;
mod database;
mod destroy;
mod dump_statistics;
mod entries;
mod families;
mod forms;
mod live_files;
mod maintenance;
mod opening;
mod properties;
mod resume;
mod threads;
mod updates;
mod writing;

pub use approximate_sizes::{MemTableStatistics, SizeOptions};
use closing::Writing;
use database::Database;
pub use entries::{Entries, KeyBounds};
pub use live_files::LiveFile;
pub use maintenance::CompactionPause;
use opening::Opened;
pub use properties::{LEVEL_PROPERTY_NAMES, PROPERTY_NAMES};

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tailwater_format::key::Sequence;
use tailwater_io::{Purpose, Storage};

use crate::column_family::{ColumnFamily, FamilySet};
use crate::error::{Error, ErrorKind, Result};
use crate::iterator::DbIterator;
use crate::left_out::LeftOut;
use crate::open_options::OpenOptions;
use crate::opening::OpeningId;
use crate::options::DbOptions;
use crate::read::{self, ReadOptions, ReadState, Snapshot, SnapshotList};
use crate::recovery::{self, LogsReplayed};
use crate::table::{PinnedValue, ReadProfile, Sink};

/// An open database. Clones are handles to the same open database. Thread-safe.
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
    /// it is at the time of this call.
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
    /// elsewhere and its MANIFEST changed during every attempt to read it; I/O, for failures of the
    /// system such as too many open files. Damage inside tables is found when they are read.
    pub fn open_read_only(directory: impl AsRef<Path>, options: &OpenOptions) -> Result<Self> {
        let directory = directory.as_ref();
        recovery::recover_read_only(directory, options)
            .and_then(|recovered| Self::from_recovered(directory, recovered))
    }

    fn from_recovered(directory: &Path, recovered: LogsReplayed) -> Result<Self> {
        let (statistics, activity) = (recovered.statistics(), recovered.activity());
        let io_modes = recovered.io_modes();
        let opening = recovered.opening();
        let access = Access::Reading(Arc::new(recovered.database_options().clone()));
        let LogsReplayed { storage, families, last_sequence, left_out, warnings, .. } = recovered;
        let families = FamilySet::new(families);
        let default_family = default_of(&families)?;
        let shared =
            ReadState::new(opening, families, last_sequence, activity, statistics, io_modes);
        let (directory, shared) = (directory.to_owned(), Arc::new(shared));
        let is_new = false;
        let inner = Inner {
            default_family,
            opening,
            directory,
            storage,
            shared,
            left_out,
            warnings,
            is_new,
            access,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    fn writing(directory: &Path, opened: Opened) -> Result<Self> {
        let Opened { writing, left_out, warnings, is_new } = opened;
        let context = &writing.database.context;
        let inner = Inner {
            default_family: default_of(&context.shared.family_set())?,
            opening: context.shared.opening,
            directory: directory.to_owned(),
            storage: Arc::clone(&context.storage),
            shared: Arc::clone(&context.shared),
            left_out,
            warnings,
            is_new,
            access: Access::Writing(writing),
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
    /// for writing, they include unfulfilled requests: options that have no effect, objects that
    /// the OPTIONS file names but that are not registered, and compaction styles that are not
    /// implemented. The database's LOG has the same sentences.
    pub fn warnings(&self) -> &[String] {
        &self.inner.warnings
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

    /// Returns a copy of a key's value; `None` if the key has no value.
    ///
    /// # Errors
    /// Errors from reading tables and blob files, and of the merge operator; invalid argument, for
    /// a column family or a snapshot that was not obtained from this `Db` or a clone of it.
    #[inline]
    pub fn get_cf_opt(
        &self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
        options: &ReadOptions,
    ) -> Result<Option<Vec<u8>>> {
        self.get_copy(family, key.as_ref(), options)
    }

    fn get_copy(
        &self,
        family: &ColumnFamily,
        key: &[u8],
        options: &ReadOptions,
    ) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        Ok(self.get_to_sink(family, key, options, &mut value)?.then_some(value))
    }

    /// Replaces the content of `value` with a copy of a key's value. Returns whether the key has a
    /// value; if not, `value` is unspecified.
    ///
    /// A value in a memtable is copied without a lock, and without an allocation unless `value`
    /// grows.
    ///
    /// # Errors
    /// The errors of [`Db::get_cf_opt`].
    #[inline]
    pub fn get_into_cf_opt(
        &self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
        options: &ReadOptions,
        value: &mut Vec<u8>,
    ) -> Result<bool> {
        self.get_to_sink(family, key.as_ref(), options, value)
    }

    /// Returns a key's value, pinned in memory rather than copied; `None` if the key has no value.
    ///
    /// # Errors
    /// The errors of [`Db::get_cf_opt`].
    #[inline]
    pub fn get_pinned_cf_opt(
        &self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
        options: &ReadOptions,
    ) -> Result<Option<PinnedValue>> {
        self.get_pin(family, key.as_ref(), options)
    }

    fn get_pin(
        &self,
        family: &ColumnFamily,
        key: &[u8],
        options: &ReadOptions,
    ) -> Result<Option<PinnedValue>> {
        let mut value = None;
        self.get_to_sink(family, key, options, &mut value)?;
        Ok(value)
    }

    #[inline(always)]
    fn get_to_sink<S: Sink>(
        &self,
        family: &ColumnFamily,
        key: &[u8],
        options: &ReadOptions,
        sink: &mut S,
    ) -> Result<bool> {
        self.check_read(family, options)?;
        let snapshot = || self.read_sequence(options);
        let statistics = self.inner.shared.statistics.as_deref();
        read::get(family.current(), key, snapshot, &profile(options), sink, statistics)
    }

    /// Returns the values of several keys of one column family, as of one point in time, in the
    /// order of the keys.
    ///
    /// # Errors
    /// For each key, the errors of [`Db::get_cf_opt`].
    pub fn batched_multi_get_cf_opt(
        &self,
        family: &ColumnFamily,
        keys: &[impl AsRef<[u8]>],
        options: &ReadOptions,
    ) -> Vec<Result<Option<PinnedValue>>> {
        if let Err(error) = self.check_read(family, options) {
            return keys.iter().map(|_| Err(error.clone())).collect();
        }
        let source = family.super_version();
        let statistics = self.inner.shared.statistics.as_deref();
        let sequence = self.read_sequence(options);
        read::multi_get(&source, keys, sequence, &profile(options), statistics)
    }

    /// Returns the values of several keys, each with the column family to search, as of one point
    /// in time, in the order of the keys. If all keys are in one column family,
    /// [`Db::batched_multi_get_cf_opt`] is cheaper, because it takes no snapshot.
    ///
    /// # Errors
    /// For each key, the errors of [`Db::get_cf_opt`].
    pub fn multi_get_cf_opt(
        &self,
        keys: &[(&ColumnFamily, impl AsRef<[u8]>)],
        options: &ReadOptions,
    ) -> Vec<Result<Option<PinnedValue>>> {
        let snapshot = options.snapshot.clone().unwrap_or_else(|| self.snapshot());
        let options = options.clone().with_snapshot(snapshot);
        // Keys that are refused keep their errors.
        let mut values: Vec<_> = keys
            .iter()
            .map(|(family, _)| self.check_read(family, &options).map(|()| None))
            .collect();
        let mut order: Vec<usize> = (0..keys.len()).filter(|&at| values[at].is_ok()).collect();
        order.sort_by_key(|&at| keys[at].0.id());
        for group in order.chunk_by(|&a, &b| keys[a].0.id() == keys[b].0.id()) {
            let family = keys[group[0]].0;
            let in_family: Vec<&[u8]> = group.iter().map(|&at| keys[at].1.as_ref()).collect();
            let found = self.batched_multi_get_cf_opt(family, &in_family, &options);
            for (&at, value) in group.iter().zip(found) {
                values[at] = value;
            }
        }
        values
    }

    /// Creates an iterator over a column family. The iterator has no position before its first
    /// seek.
    ///
    /// # Errors
    /// Errors from opening tables; invalid argument, as for [`Db::get_cf_opt`].
    pub fn raw_iterator_cf_opt(
        &self,
        family: &ColumnFamily,
        options: &ReadOptions,
    ) -> Result<DbIterator> {
        self.check_read(family, options)?;
        let source = family.super_version();
        let snapshot = self.read_sequence(options);
        let mut iterator = DbIterator::over(source, snapshot, options, &profile(options))?;
        if matches!(self.inner.access, Access::Writing(_)) {
            iterator.set_origin(family, &self.inner.shared, options);
        }
        Ok(iterator)
    }

    /// Refuses a column family that was not obtained from this `Db` or a clone of it.
    #[inline]
    fn check_family(&self, family: &ColumnFamily) -> Result<()> {
        if family.opening() == self.inner.opening { Ok(()) } else { Err(foreign(family)) }
    }

    /// Like [`Self::check_family`], but for a read: also checks the snapshot in the options.
    #[inline(always)]
    fn check_read(&self, family: &ColumnFamily, options: &ReadOptions) -> Result<()> {
        let snapshot = options.snapshot.as_ref();
        let is_own_snapshot = snapshot.is_none_or(|snapshot| snapshot.is_of(&self.inner.shared));
        match (family.opening() == self.inner.opening, is_own_snapshot) {
            (true, true) => Ok(()),
            (is_own_family, _) => Err(foreign_read(family, is_own_family)),
        }
    }

    fn snapshots(&self) -> &SnapshotList {
        &self.inner.shared.snapshots
    }

    fn read_sequence(&self, options: &ReadOptions) -> Sequence {
        options
            .snapshot
            .as_ref()
            .map_or_else(|| self.latest_sequence_number(), Snapshot::sequence_number)
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

#[cold]
fn foreign_read(family: &ColumnFamily, is_own_family: bool) -> Error {
    if !is_own_family {
        return foreign(family);
    }
    Error::invalid_argument("the snapshot does not belong to this opening of the database")
}

fn profile(options: &ReadOptions) -> ReadProfile {
    ReadProfile {
        purpose: Purpose::UserRead,
        verify_checksums: options.verify_checksums,
        fill_cache: options.fill_cache,
    }
}
