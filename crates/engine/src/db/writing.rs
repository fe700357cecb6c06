//! Methods of handles that were opened for writing.

use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;

use tailwater_format::batch::WriteBatch;

use super::{Database, Db, Opened, Writing, destroy};
use crate::column_family::ColumnFamily;
use crate::compaction::CompactRangeOptions;
use crate::error::{Error, Result};
use crate::ingest::{ExternalFiles, IngestOptions, IngestedFile};
use crate::open_options::OpenOptions;
use crate::options::{ColumnFamilyOptions, DbOptions};
use crate::stall::StallState;
use crate::version::manifest::{self, Manifest};
use crate::write::WriteOptions;

thread_local! {
    /// The batch with which this thread performs single operations, such as a put. It is reused, so
    /// that single operations need not allocate.
    static SINGLE: Cell<WriteBatch> = Cell::new(WriteBatch::new());
}

/// Maximum size in bytes of a batch that is kept for reuse. A larger batch is freed after its
/// operation.
const SINGLE_BYTES_KEPT: usize = 64 << 10;

impl Db {
    /// Opens the database in `directory` for reading and writing. The database is locked until it
    /// is closed, so it cannot be opened for writing again.
    ///
    /// `create_if_missing`, `error_if_exists` and `create_missing_column_families` control what is
    /// created. All column families are opened, including those that the options do not name: see
    /// [`OpenOptions`]. The contents of the logs are flushed to tables, unless
    /// `avoid_flush_during_recovery` is set; unreadable parts of the logs are moved into the folder
    /// `lost`, and [`Db::left_out`] reports them.
    ///
    /// # Errors
    /// Busy, if the database is open for writing elsewhere; not found, if there is none; the errors
    /// of [`Db::open_read_only`]; corruption, if `create_if_missing` is set and there are files of
    /// a database that lost its CURRENT; invalid argument, naming the option, if options contradict
    /// each other; not supported, naming the option, for a feature that is not implemented; no
    /// space; I/O, also for a thread that the system cannot start, naming the thread.
    pub fn open(directory: impl AsRef<Path>, options: &OpenOptions) -> Result<Self> {
        let directory = directory.as_ref();
        Opened::open(directory, options).and_then(|opened| Self::writing(directory, opened))
    }

    /// Opens the database in `directory` for reading and writing with default options; creates it
    /// if it is missing.
    ///
    /// Like [`Db::open`] with `create_if_missing`.
    ///
    /// # Errors
    /// Busy, if the database is open for writing elsewhere; corruption, no space and I/O: see
    /// [`Db::open`].
    pub fn open_default(directory: impl AsRef<Path>) -> Result<Self> {
        let mut options = OpenOptions::default();
        options.set_options("create_if_missing=true")?;
        Self::open(directory, &options)
    }

    /// Returns the names of the column families of the database in `directory`, in the order of
    /// their IDs.
    ///
    /// # Errors
    /// Errors from reading the database's MANIFEST.
    pub fn list_cf(directory: impl AsRef<Path>, options: &OpenOptions) -> Result<Vec<String>> {
        let (directory, storage) = (directory.as_ref(), &**options.storage());
        let number = manifest::current(storage, directory)?;
        let manifest = Manifest::read(storage, directory, number)?;
        Ok(manifest.column_families.into_values().map(|family| family.name).collect())
    }

    /// Removes the database in `directory`: all files that are certainly its own, and directories
    /// that become empty. A missing database is not an error. Files in directories that another
    /// database has claimed are kept.
    ///
    /// # Errors
    /// Busy, if the database is open for writing; invalid argument, if `wal_dir`, `db_paths` or
    /// `cf_paths` name a directory with unclaimed files and [`OpenOptions::set_adopt_directories`]
    /// is not set, in which case nothing is removed; errors from removing files.
    pub fn destroy(directory: impl AsRef<Path>, options: &OpenOptions) -> Result<()> {
        let directory = directory.as_ref();
        destroy::destroy(directory, options.sanitized(directory, false))
    }

    /// Sets the value of `key` in `family`. Key and value are arbitrary bytes, of lengths up to
    /// [`KEY_LENGTH_MAX`] and [`VALUE_LENGTH_MAX`].
    ///
    /// # Errors
    /// The errors of [`Db::write_opt`]; invalid argument, for a key or value that is too long, and
    /// for a column family that was dropped, or was not obtained from this `Db` or a clone of it.
    ///
    /// [`KEY_LENGTH_MAX`]: tailwater_format::batch::KEY_LENGTH_MAX
    /// [`VALUE_LENGTH_MAX`]: tailwater_format::batch::VALUE_LENGTH_MAX
    #[inline]
    pub fn put_cf_opt(
        &self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<()> {
        self.put_slices(family, key.as_ref(), value.as_ref(), options)
    }

    /// Removes `key` from `family`; a missing key is no error.
    ///
    /// # Errors
    /// The errors of [`Db::put_cf_opt`].
    #[inline]
    pub fn delete_cf_opt(
        &self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<()> {
        self.delete_slices(family, key.as_ref(), options)
    }

    /// Removes `key` from `family`. The key must have been put exactly once since this method last
    /// removed it. If this method never removed the key, the key must have been put exactly once in
    /// total. The tombstone is dropped as soon as a compaction finds it together with that put. A
    /// tombstone of [`Db::delete`], in contrast, stays until no deeper level can have the key.
    ///
    /// This contract is RocksDB's. If a key was put twice, or merged, an older value may become
    /// visible again, as in RocksDB. The same may happen to a key that was removed both by this
    /// method and by [`Db::delete`], once a flush or compaction has dropped one of the two
    /// tombstones. If a flush or compaction finds a tombstone of [`Db::delete`] together with a put
    /// and its single deletion, it keeps the tombstone; RocksDB does not.
    ///
    /// If a compaction finds that the next older record under a single deletion is a deletion
    /// instead of a put, compactions stop with a corruption error, unless
    /// `enforce_single_del_contracts` is disabled.
    ///
    /// # Errors
    /// The errors of [`Db::put_cf_opt`].
    #[inline]
    pub fn single_delete_cf_opt(
        &self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<()> {
        self.single_delete_slices(family, key.as_ref(), options)
    }

    /// Removes every key from `begin` up to, not including, `end` from `family`.
    ///
    /// # Errors
    /// The errors of [`Db::put_cf_opt`]; invalid argument, if `end` comes before `begin`.
    #[inline]
    pub fn delete_range_cf_opt(
        &self,
        family: &ColumnFamily,
        begin: impl AsRef<[u8]>,
        end: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<()> {
        self.delete_range_slices(family, begin.as_ref(), end.as_ref(), options)
    }

    /// Merges `operand` into the value of `key` in `family`, with the family's
    /// [`MergeOperator`](crate::MergeOperator), when the key is read or compacted.
    ///
    /// # Errors
    /// The errors of [`Db::put_cf_opt`]; invalid argument, for a column family without a merge
    /// operator.
    #[inline]
    pub fn merge_cf_opt(
        &self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<()> {
        self.merge_slices(family, key.as_ref(), operand.as_ref(), options)
    }

    /// Writes a batch atomically, and sets its sequence number. A batch refers to column families
    /// by their IDs; it is not checked that the IDs are meant for this database. The same batch can
    /// be written again.
    ///
    /// # Errors
    /// Invalid argument, for a batch that names a column family that does not exist, and for a
    /// record that its column family cannot store, such as an operand without a merge operator; not
    /// supported, for records of prepared transactions; limit reached, if no sequence number is
    /// left; read-only, for a handle that was opened for reading; closed, for one that was closed;
    /// busy, if writes are stalled and [`WriteOptions::no_slowdown`] is set; no space or I/O. After
    /// a no-space or I/O error, writes are refused with the same error until [`Db::resume`] or
    /// reopening. After a failed write, the batch may nevertheless be present when the database is
    /// reopened. The same is true of a batch that was being written when the process ended.
    ///
    /// # Panics
    /// Panics if a user's comparator panics. Concurrent and later writers then get an error.
    pub fn write_opt(&self, batch: &mut WriteBatch, options: &WriteOptions) -> Result<()> {
        self.database()?.writes.write(batch, options)
    }

    /// Flushes a column family's memtables to a table, and waits until the flush is complete. A
    /// flush that is waiting to retry after a full disk is retried immediately.
    ///
    /// # Errors
    /// Errors from writing; invalid argument, for a column family that was dropped, or was not
    /// obtained from this `Db` or a clone of it; panicked, for user code that panics.
    pub fn flush_cf(&self, family: &ColumnFamily) -> Result<()> {
        self.check_writable(family)?;
        self.database()?.writes.flush(&[family])
    }

    /// Flushes the memtables of all column families, and waits until the flush is complete.
    ///
    /// # Errors
    /// Errors from writing; panicked, for user code that panics.
    pub fn flush_all(&self) -> Result<()> {
        let families = self.column_families();
        self.database()?.writes.flush(&families.iter().collect::<Vec<_>>())
    }

    /// Flushes memtables, compacts the keys from `begin` to `end`, both inclusive, down to the last
    /// level, and waits until the compaction is complete. `None` means no bound.
    ///
    /// # Errors
    /// The errors of [`Db::flush_cf`]; corruption, with the file, for damaged tables, which stay as
    /// they are; busy, while compactions are paused. If a compaction filter or merge operator
    /// panics, the compaction that called it changes nothing, and writes continue.
    pub fn compact_range_cf_opt(
        &self,
        family: &ColumnFamily,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
        options: &CompactRangeOptions,
    ) -> Result<()> {
        self.check_writable(family)?;
        self.database()?.compact_range(family, begin, end, options)
    }

    /// Ingests either all of the given tables or none. The tables were made outside the database,
    /// by [`SstFileWriter`] or by RocksDB's `SstFileWriter`. If two of the tables contain the same
    /// key, the later table takes precedence.
    ///
    /// Writes wait while the tables are installed, which takes one write of the MANIFEST. If
    /// memtables hold keys in the files' range, writes also wait for their flush. When this
    /// returns, everything is on the device.
    ///
    /// # Errors
    /// Not found; corruption, for a file that is damaged or not a table; invalid argument, for a
    /// table that was not made for ingestion, or whose ingestion needs a step that the options
    /// forbid. Each of these errors names the file. Not supported, for options that are refused;
    /// busy, if `fail_if_not_bottommost_level` is set and another level is needed; errors from
    /// writing files. On an error nothing has changed, unless the MANIFEST could not be written:
    /// the files may then turn out to be ingested after reopening.
    ///
    /// [`SstFileWriter`]: crate::SstFileWriter
    pub fn ingest_external_file_cf_opts(
        &self,
        family: &ColumnFamily,
        paths: &[impl AsRef<Path>],
        options: &IngestOptions,
    ) -> Result<Vec<IngestedFile>> {
        let paths: Vec<&Path> = paths.iter().map(AsRef::as_ref).collect();
        let files = ExternalFiles { family, paths: &paths, options: *options };
        Ok(self.ingest_external_files(&[files])?.pop().unwrap_or_default())
    }

    /// Ingests tables into several column families atomically: either all tables or none. The
    /// tables were made outside the database. Returns the ingested files of each element of
    /// `files`.
    ///
    /// Like [`Db::ingest_external_file_cf_opts`]; see [`ExternalFiles`].
    ///
    /// # Errors
    /// The errors of [`Db::ingest_external_file_cf_opts`]; invalid argument, if a column family is
    /// named twice.
    pub fn ingest_external_files(
        &self,
        files: &[ExternalFiles<'_>],
    ) -> Result<Vec<Vec<IngestedFile>>> {
        files.iter().try_for_each(|files| self.check_writable(files.family))?;
        self.database()?.ingester.ingest(files)
    }

    /// Pauses compactions until [`Db::continue_compactions`] has been called as many times as this
    /// method. Waits until no compaction runs. Writes may stall during the pause, because the
    /// compaction backlog grows.
    ///
    /// # Errors
    /// Read-only, for a handle that was opened for reading.
    pub fn pause_compactions(&self) -> Result<()> {
        let database = self.database()?;
        let _waiting = database.context.stall.pressure().wait();
        database.context.background.pause_compactions();
        Ok(())
    }

    /// Ends one pause that [`Db::pause_compactions`] began.
    ///
    /// # Errors
    /// Read-only, for a handle that was opened for reading.
    pub fn continue_compactions(&self) -> Result<()> {
        let database = self.database()?;
        database.context.background.continue_compactions();
        database.compactions.compact_soon();
        Ok(())
    }

    /// Returns the number of running compactions.
    pub fn running_compactions(&self) -> usize {
        self.database().map_or(0, |database| database.context.background.running_compactions())
    }

    /// Whether a column family needs a compaction. Also true if the compaction cannot start at
    /// present. False for a column family that was not obtained from this `Db` or a clone of it.
    pub fn needs_compaction(&self, family: &ColumnFamily) -> bool {
        self.check_family(family).is_ok()
            && self.database().is_ok_and(|database| database.compactions.needs_compaction(family))
    }

    /// Writes buffered log records to the log file. (With the option `manual_wal_flush`, log
    /// records are buffered in memory.) With `sync`, also makes everything that was logged durable.
    ///
    /// # Errors
    /// No space or I/O, after which writes are refused; read-only or closed, if the handle is.
    pub fn flush_wal(&self, sync: bool) -> Result<()> {
        self.database()?.writes.flush_wal(sync)
    }

    /// Creates a column family.
    ///
    /// # Errors
    /// Invalid argument, if the name exists or options contradict each other; errors from writing
    /// the MANIFEST.
    pub fn create_cf(&self, name: &str, options: &ColumnFamilyOptions) -> Result<ColumnFamily> {
        self.database()?.create_family(name, options)
    }

    /// Changes options of a column family, each given as a name and a value, while the database is
    /// open: all of them or none. A part of an option is named with a dot, or set in braces:
    /// `("compression_opts", "{level=3}")`.
    ///
    /// The resulting options are sanitized and checked as by [`Db::open`]. When this returns, they
    /// are in a new OPTIONS file on the device, and have taken effect for memtables, stall
    /// conditions, compactions that are picked from now on, and new tables. A running flush or
    /// compaction keeps the options with which it began, and an open table keeps its read options.
    /// `docs/options.md` lists the options that can be changed.
    ///
    /// # Errors
    /// Invalid argument, which names the option, if the option does not exist, belongs to the
    /// database or cannot be changed while the database is open, or if the value is refused; errors
    /// from writing the OPTIONS file. On an error nothing is changed.
    pub fn set_options_cf(&self, family: &ColumnFamily, changes: &[(&str, &str)]) -> Result<()> {
        self.check_writable(family)?;
        self.database()?.set_family_options(family, changes)
    }

    /// Changes options of the database, each given as a name and a value, while the database is
    /// open: all of them or none.
    ///
    /// Takes effect like the changes of [`Db::set_options_cf`].
    ///
    /// # Errors
    /// Invalid argument, which names the option, if the option does not exist, belongs to column
    /// families or cannot be changed while the database is open, or if the value is refused; errors
    /// from writing the OPTIONS file. On an error nothing is changed.
    pub fn set_database_options(&self, changes: &[(&str, &str)]) -> Result<()> {
        self.write_side()?.set_database_options(changes)
    }

    /// Returns the current options of the database.
    ///
    /// # Errors
    /// Read-only, for a handle that was opened for reading.
    pub fn database_options(&self) -> Result<Arc<DbOptions>> {
        Ok(self.database()?.context.options.now())
    }

    /// Drops a column family with all its data. Existing handles to it can still read. Its files
    /// are removed when no handle or reader is left.
    ///
    /// # Errors
    /// Invalid argument, for `default` and for a column family that is not of this database; errors
    /// from writing the MANIFEST.
    pub fn drop_cf(&self, family: &ColumnFamily) -> Result<()> {
        self.check_writable(family)?;
        self.database()?.drop_family(family)
    }

    /// Resumes writes after the cause of an error is gone. A flush that is waiting to retry after a
    /// full disk is retried immediately.
    ///
    /// # Errors
    /// The latched error, if only reopening helps; errors from flushing memtables.
    pub fn resume(&self) -> Result<()> {
        self.database()?.resume()
    }

    /// Creates a second database in `directory`, which must not exist, with the current contents of
    /// this database. The second database shares the tables by hard links if the filesystem
    /// supports them. Writes wait while memtables are flushed.
    ///
    /// # Errors
    /// Invalid argument, if the path exists; errors from writing files.
    pub fn checkpoint(&self, directory: impl AsRef<Path>) -> Result<()> {
        self.database()?.checkpoint(directory.as_ref())
    }

    /// Returns whether writes are delayed or stopped, and the reason.
    pub fn stall_state(&self) -> StallState {
        self.database().map_or(StallState::Normal, |database| database.context.stall.state())
    }

    /// Returns the error because of which writes are refused, if any. Closing the database does not
    /// change it.
    pub fn background_error(&self) -> Option<Error> {
        self.database().ok()?.context.errors.failure()
    }

    /// Closes a database that is open for writing: unlogged writes are flushed, unless
    /// `avoid_flush_during_shutdown` is set, and the lock is released. Reads still work; writes are
    /// refused. Dropping the last handle also closes the database, but cannot report an error. A
    /// second call, also a concurrent one, waits for the first and returns its outcome.
    ///
    /// If a user callback in one of the database's threads, such as a compaction filter, drops the
    /// last handle, the database is closed soon after the callback returns. Until then, opening the
    /// database again returns a busy error.
    ///
    /// # Errors
    /// The error after which writes were refused; errors from the last flush and write; invalid
    /// argument, if a callback of the database calls this, because closing would wait for the
    /// callback.
    pub fn close(&self) -> Result<()> {
        match &self.inner.writing {
            Some(writing) => writing.close(),
            None => Ok(()),
        }
    }

    fn put_slices(
        &self,
        family: &ColumnFamily,
        key: &[u8],
        value: &[u8],
        options: &WriteOptions,
    ) -> Result<()> {
        self.write_one(family, options, |batch, id| batch.put_cf(id, key, value))
    }

    fn delete_slices(
        &self,
        family: &ColumnFamily,
        key: &[u8],
        options: &WriteOptions,
    ) -> Result<()> {
        self.write_one(family, options, |batch, id| batch.delete_cf(id, key))
    }

    fn single_delete_slices(
        &self,
        family: &ColumnFamily,
        key: &[u8],
        options: &WriteOptions,
    ) -> Result<()> {
        self.write_one(family, options, |batch, id| batch.single_delete_cf(id, key))
    }

    fn delete_range_slices(
        &self,
        family: &ColumnFamily,
        begin: &[u8],
        end: &[u8],
        options: &WriteOptions,
    ) -> Result<()> {
        self.write_one(family, options, |batch, id| batch.delete_range_cf(id, begin, end))
    }

    fn merge_slices(
        &self,
        family: &ColumnFamily,
        key: &[u8],
        operand: &[u8],
        options: &WriteOptions,
    ) -> Result<()> {
        self.write_one(family, options, |batch, id| batch.merge_cf(id, key, operand))
    }

    fn write_one(
        &self,
        family: &ColumnFamily,
        options: &WriteOptions,
        add: impl FnOnce(&mut WriteBatch, u32) -> tailwater_format::Result<()>,
    ) -> Result<()> {
        self.check_writable(family)?;
        // The batch is taken out of the thread-local value while it is used, because a user's
        // callback in this thread may write, too. If the thread is ending, the value may already be
        // destroyed.
        let mut batch = SINGLE.try_with(Cell::take).unwrap_or_default();
        batch.clear();
        add(&mut batch, family.id())?;
        let written = self.write_opt(&mut batch, options);
        if batch.data_size() <= SINGLE_BYTES_KEPT {
            let _ = SINGLE.try_with(|single| single.set(batch));
        }
        written
    }

    /// Refuses a column family that was dropped, or was not obtained from this `Db` or a clone of
    /// it.
    #[inline]
    fn check_writable(&self, family: &ColumnFamily) -> Result<()> {
        self.check_family(family)?;
        if family.is_dropped() { Err(dropped(family)) } else { Ok(()) }
    }

    fn database(&self) -> Result<&Database> {
        self.write_side().map(|writing| &*writing.database)
    }

    fn write_side(&self) -> Result<&Writing> {
        self.inner.writing.as_ref().ok_or_else(Error::read_only)
    }
}

#[cold]
fn dropped(family: &ColumnFamily) -> Error {
    Error::invalid_argument(format!("column family '{}' was dropped", family.name()))
}
