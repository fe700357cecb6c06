//! What a handle can do that was opened for writing.

use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;

use tailwater_format::batch::WriteBatch;

use super::{Db, Writing, destroy};
use crate::compaction::CompactRangeOptions;
use crate::db::{ColumnFamily, Writer};
use crate::ingest::{ExternalFiles, IngestOptions, IngestedFile};
use crate::options::{ColumnFamilyOptions, DbOptions};
use crate::recovery::{self, OpenOptions};
use crate::version::manifest::{self, Manifest};
use crate::write::{StallState, WriteOptions};
use crate::{Error, Result};

thread_local! {
    /// A batch for writes of one operation, kept so that they need not allocate.
    static SINGLE: Cell<WriteBatch> = Cell::new(WriteBatch::new());
}

/// How large such a batch may be to be kept, in bytes.
const SINGLE_BYTES_KEPT: usize = 64 << 10;

impl Db {
    /// Opens the database in `directory` for reading and writing. Until it is closed it is locked:
    /// nobody else can open it for writing.
    ///
    /// `create_if_missing`, `error_if_exists` and `create_missing_column_families` say what is made
    /// where it is missing. All column families are opened, those that the options do not name with
    /// RocksDB's defaults. What the logs held is flushed to tables, unless
    /// `avoid_flush_during_recovery` is set; what of them could not be read is moved into the
    /// folder `lost`, and [`Db::left_out`] tells it.
    ///
    /// # Errors
    /// Busy, where the database is open for writing elsewhere; not found, where there is none;
    /// those of [`Db::open_read_only`]; corruption, where `create_if_missing` is set and there are
    /// files of a database that lost its CURRENT; invalid argument and not supported, with its
    /// name, for an option that contradicts another or needs what is not built; no space and I/O,
    /// the latter also for a thread that the system does not start, with its name.
    pub fn open(directory: &Path, options: &OpenOptions) -> Result<Self> {
        recovery::open(directory, options).map(|opened| Self::writing(directory, opened))
    }

    /// The names of the column families of the database in `directory`, in the order of their ids.
    ///
    /// # Errors
    /// Those of reading its MANIFEST.
    pub fn list_column_families(directory: &Path, options: &OpenOptions) -> Result<Vec<String>> {
        let storage = &**options.storage();
        let number = manifest::current(storage, directory)?;
        let manifest = Manifest::read(storage, directory, number)?;
        Ok(manifest.column_families.into_values().map(|family| family.name).collect())
    }

    /// Removes the database in `directory`: the files that are certainly its own in all its
    /// directories, which go if nothing else is in them. A missing database is no error. What is in
    /// directories that another database has claimed stays.
    ///
    /// # Errors
    /// Busy, where it is open for writing; invalid argument, where `wal_dir`, `db_paths` or
    /// `cf_paths` name a directory with files that nobody has claimed, and
    /// [`OpenOptions::set_adopt_directories`] is not set: nothing is removed then; those of
    /// removing files.
    pub fn destroy(directory: &Path, options: &OpenOptions) -> Result<()> {
        destroy::destroy(directory, options.sanitized(directory, false))
    }

    /// Gives `key` this value.
    ///
    /// # Errors
    /// As [`Db::write`].
    pub fn put(
        &self,
        family: &ColumnFamily,
        key: &[u8],
        value: &[u8],
        options: &WriteOptions,
    ) -> Result<()> {
        self.write_one(family, options, |batch, id| batch.put(id, key, value))
    }

    /// Removes `key`.
    ///
    /// # Errors
    /// As [`Db::write`].
    pub fn delete(&self, family: &ColumnFamily, key: &[u8], options: &WriteOptions) -> Result<()> {
        self.write_one(family, options, |batch, id| batch.delete(id, key))
    }

    /// Removes `key`, which must have been put exactly once since it was last removed by this
    /// method, or at all. It goes as soon as it meets that put, where a deletion by [`Db::delete`]
    /// stays until nothing deeper can have the key.
    ///
    /// The contract is RocksDB's. A key that was put twice, or merged, may show the older value
    /// again, as it does in RocksDB. One that is removed by both methods may too, once flushes or
    /// compactions have dropped what the other method wrote: where they find a deletion together
    /// with a put and its single deletion they keep the deletion, which RocksDB does not. A single
    /// deletion right above a deletion, with nothing put between them, stops compactions as
    /// corruption, unless `enforce_single_del_contracts` is switched off.
    ///
    /// # Errors
    /// As [`Db::write`].
    pub fn single_delete(
        &self,
        family: &ColumnFamily,
        key: &[u8],
        options: &WriteOptions,
    ) -> Result<()> {
        self.write_one(family, options, |batch, id| batch.single_delete(id, key))
    }

    /// Removes every key from `begin` up to, not including, `end`.
    ///
    /// # Errors
    /// As [`Db::write`]; invalid argument, for an end that comes before the beginning.
    pub fn delete_range(
        &self,
        family: &ColumnFamily,
        begin: &[u8],
        end: &[u8],
        options: &WriteOptions,
    ) -> Result<()> {
        self.write_one(family, options, |batch, id| batch.delete_range(id, begin, end))
    }

    /// Gives `key` a merge operand.
    ///
    /// # Errors
    /// As [`Db::write`]; invalid argument, for a column family without a merge operator.
    pub fn merge(
        &self,
        family: &ColumnFamily,
        key: &[u8],
        operand: &[u8],
        options: &WriteOptions,
    ) -> Result<()> {
        self.write_one(family, options, |batch, id| batch.merge(id, key, operand))
    }

    /// Writes a batch, all of it or nothing, and gives its operations their sequence numbers. It
    /// may name several column families by their ids, which say nothing of the database that they
    /// are of. A batch can be written again.
    ///
    /// # Errors
    /// Invalid argument, for a batch that names a column family that there is not; not supported,
    /// for a handle that was opened for reading; closed, for one that was closed; busy, where
    /// writes are stalled and [`WriteOptions::no_slowdown`] is set; no space and I/O, after which
    /// writes are refused with that error until [`Db::resume`] or reopening. The batch that failed
    /// may be found again after reopening, as may one whose process ended before it was
    /// acknowledged.
    ///
    /// # Panics
    /// If a comparator of the user's does. Other writers, and all later ones, are told of it by an
    /// error then.
    pub fn write(&self, batch: &mut WriteBatch, options: &WriteOptions) -> Result<()> {
        self.writer()?.write(batch, options)
    }

    /// Flushes what was written to a column family to a table, and waits for it. What found no
    /// space before, and is tried again later, is tried at once.
    ///
    /// # Errors
    /// Those of writing; invalid argument, for a column family that was dropped or is not of this
    /// opening of the database; panicked, for code of the user's that panics.
    pub fn flush(&self, family: &ColumnFamily) -> Result<()> {
        self.check_writable(family)?;
        self.writer()?.flush(&[family])
    }

    /// Flushes what was written to all column families, and waits for it.
    ///
    /// # Errors
    /// As [`Db::flush`].
    pub fn flush_all(&self) -> Result<()> {
        let families = self.column_families();
        self.writer()?.flush(&families.iter().collect::<Vec<_>>())
    }

    /// Compacts the keys from `begin` to `end`, both included, down to the last level, and waits
    /// for it; without them, from the first and to the last. What is in memory is flushed before.
    ///
    /// # Errors
    /// As [`Db::flush`]; corruption, with the file, for damaged tables, which stay as they are;
    /// busy, while compactions are paused. After a panic of a filter or merge operator here nothing
    /// was changed, and writes go on.
    pub fn compact_range(
        &self,
        family: &ColumnFamily,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
        options: &CompactRangeOptions,
    ) -> Result<()> {
        self.check_writable(family)?;
        self.writer()?.compact_range(family, begin, end, options)
    }

    /// Takes tables in that were made outside the database, by [`SstFileWriter`] or that of
    /// RocksDB: all or none. Where two have the same keys, the later one counts.
    ///
    /// Writes wait while it is installed, which takes as long as a write of the MANIFEST, and as a
    /// flush where something is in memory of the keys that the files reach over. When it answers,
    /// everything is on the device.
    ///
    /// # Errors Not found; corruption, for a file that is damaged or no table; invalid argument,
    /// for one that was not made for this, or needs what the options forbid; each names the file.
    /// Not supported, for options that are refused; busy, where `fail_if_not_bottommost_level` is
    /// set and another level is needed; those of writing files. Nothing has changed then, unless
    /// the MANIFEST could not be written: after reopening the files may be found to have been taken
    /// in.
    ///
    /// [`SstFileWriter`]: crate::SstFileWriter
    pub fn ingest_external_file(
        &self,
        family: &ColumnFamily,
        paths: &[&Path],
        options: &IngestOptions,
    ) -> Result<Vec<IngestedFile>> {
        let files = ExternalFiles { family, paths, options: *options };
        Ok(self.ingest_external_files(&[files])?.pop().unwrap_or_default())
    }

    /// As [`Db::ingest_external_file`], for several column families at once.
    ///
    /// # Errors
    /// As [`Db::ingest_external_file`]; invalid argument, for a column family that is named twice.
    pub fn ingest_external_files(
        &self,
        files: &[ExternalFiles<'_>],
    ) -> Result<Vec<Vec<IngestedFile>>> {
        files.iter().try_for_each(|files| self.check_writable(files.family))?;
        self.writer()?.ingest(files)
    }

    /// Lets no compaction begin until [`Db::continue_compactions`] was called as often as this, and
    /// waits until none runs. Writes are stalled as soon as they would be without compactions.
    ///
    /// # Errors
    /// Not supported, for a handle that was opened for reading.
    pub fn pause_compactions(&self) -> Result<()> {
        let writer = self.writer()?;
        let _waiting = writer.stall.urgency().wait();
        writer.background.pause_compactions();
        Ok(())
    }

    /// Takes back one [`Db::pause_compactions`].
    ///
    /// # Errors
    /// Not supported, for a handle that was opened for reading.
    pub fn continue_compactions(&self) -> Result<()> {
        let writer = self.writer()?;
        writer.background.continue_compactions();
        writer.compact_soon();
        Ok(())
    }

    /// How many compactions run at this moment.
    pub fn running_compactions(&self) -> usize {
        self.writer().map_or(0, |writer| writer.background.running_compactions())
    }

    /// Whether something should be compacted of a column family, even if it cannot be yet. Nothing
    /// of one that is not of this opening of the database.
    pub fn needs_compaction(&self, family: &ColumnFamily) -> bool {
        self.check_family(family).is_ok()
            && self.writer().is_ok_and(|writer| writer.needs_compaction(family))
    }

    /// Hands what `manual_wal_flush` holds back to the system, and with `sync` makes everything
    /// that was logged durable.
    ///
    /// # Errors
    /// As [`Db::write`].
    pub fn flush_wal(&self, sync: bool) -> Result<()> {
        self.writer()?.flush_wal(sync)
    }

    /// Makes a column family.
    ///
    /// # Errors
    /// Invalid argument, for a name that there is and for options that contradict each other; those
    /// of writing the MANIFEST.
    pub fn create_column_family(
        &self,
        name: &str,
        options: &ColumnFamilyOptions,
    ) -> Result<ColumnFamily> {
        self.writer()?.create_family(name, options)
    }

    /// Changes options of a column family, each a name and a value, while the database is open:
    /// all of them or none. A part of an option is named with a dot, or in braces:
    /// `("compression_opts", "{level=3}")`.
    ///
    /// What comes of it is brought into its ranges and checked as by [`Db::open`]. It is in a new
    /// OPTIONS file, on the device, when this returns, and takes effect at once: for memtables, the
    /// conditions of stalls, what is to be compacted, and tables that are written from then on. A
    /// flush or compaction that runs keeps the options it began with, and so does a table that is
    /// open of how it is read. `docs/options.md` lists what can be changed.
    ///
    /// # Errors
    /// Invalid argument, which names the option, for one that there is not, that is the database's
    /// or cannot be changed while it is open, and for a value that is refused; those of writing the
    /// OPTIONS file. Nothing is changed then.
    pub fn set_options(&self, family: &ColumnFamily, changes: &[(&str, &str)]) -> Result<()> {
        self.check_writable(family)?;
        self.writer()?.set_family_options(family, changes)
    }

    /// Changes options of the database as [`Db::set_options`] does those of a column family.
    ///
    /// # Errors
    /// As [`Db::set_options`].
    pub fn set_database_options(&self, changes: &[(&str, &str)]) -> Result<()> {
        self.write_side()?.set_database_options(changes)
    }

    /// The options of the database as they are at this moment.
    ///
    /// # Errors
    /// Not supported, for a handle that was opened for reading.
    pub fn database_options(&self) -> Result<Arc<DbOptions>> {
        Ok(self.writer()?.database.now())
    }

    /// Drops a column family with all it holds. Handles to it can read on; its files go when there
    /// are none.
    ///
    /// # Errors
    /// Invalid argument, for `default` and for one that is not of this database; those of writing
    /// the MANIFEST.
    pub fn drop_column_family(&self, family: &ColumnFamily) -> Result<()> {
        self.check_writable(family)?;
        self.writer()?.drop_family(family)
    }

    /// Lets writes go on after an error, when its cause is gone. What found no space, and is tried
    /// again later, is tried at once.
    ///
    /// # Errors
    /// The error itself, where only reopening helps; those of flushing what is in memory.
    pub fn resume(&self) -> Result<()> {
        self.writer()?.resume()
    }

    /// Makes a second database in `directory`, which must not be there: what this one holds at this
    /// moment, sharing its tables by links where the filesystem can. Writes wait while what is in
    /// memory is flushed.
    ///
    /// # Errors
    /// Invalid argument, where there is something; those of writing files.
    pub fn checkpoint(&self, directory: &Path) -> Result<()> {
        self.writer()?.checkpoint(directory)
    }

    /// Whether writes are slowed down or stopped, and why.
    pub fn stall_state(&self) -> StallState {
        self.writer().map_or(StallState::Normal, |writer| writer.stall.state())
    }

    /// The error after which writes are refused, if there was one; closing does not change it.
    pub fn background_error(&self) -> Option<Error> {
        self.writer().ok()?.errors.failure()
    }

    /// Closes a database that is open for writing: what no log holds is flushed, unless
    /// `avoid_flush_during_shutdown` is set, and the lock is given up. Reads go on; writes are
    /// refused. Dropping the last handle does the same, but cannot tell an error.
    ///
    /// Where code of the user's drops the last handle that the database calls in a thread of its
    /// own, a compaction filter perhaps, the database is closed soon after that call has returned:
    /// another opening is busy until then.
    ///
    /// # Errors
    /// The error after which writes were refused; those of the last flush and write; invalid
    /// argument, in code that the database calls, which closing would wait for.
    pub fn close(&self) -> Result<()> {
        match &self.inner.writing {
            Some(writing) => writing.close(),
            None => Ok(()),
        }
    }

    fn write_one(
        &self,
        family: &ColumnFamily,
        options: &WriteOptions,
        add: impl FnOnce(&mut WriteBatch, u32) -> tailwater_format::Result<()>,
    ) -> Result<()> {
        self.check_writable(family)?;
        // Taken out while it is used: a callback of the user's may write, too. A thread that ends
        // may have it no more.
        let mut batch = SINGLE.try_with(Cell::take).unwrap_or_default();
        batch.clear();
        add(&mut batch, family.id()).map_err(|error| Error::invalid_argument(error.to_string()))?;
        let written = self.write(&mut batch, options);
        if batch.data_size() <= SINGLE_BYTES_KEPT {
            let _ = SINGLE.try_with(|single| single.set(batch));
        }
        written
    }

    /// Refuses a column family of others, and one that was dropped.
    #[inline]
    fn check_writable(&self, family: &ColumnFamily) -> Result<()> {
        self.check_family(family)?;
        if family.is_dropped() { Err(dropped(family)) } else { Ok(()) }
    }

    fn writer(&self) -> Result<&Writer> {
        self.write_side().map(|writing| &*writing.writer)
    }

    fn write_side(&self) -> Result<&Writing> {
        self.inner.writing.as_ref().ok_or_else(Error::read_only)
    }
}

#[cold]
fn dropped(family: &ColumnFamily) -> Error {
    Error::invalid_argument(format!("column family '{}' was dropped", family.name()))
}
