//! Flushes, compactions, ingestions and verifications that the user requests.

use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::background::is_working_for;
use crate::column_family::ColumnFamily;
use crate::compaction::CompactRangeOptions;
use crate::db::{Database, Db};
use crate::error::{Error, Result};
use crate::ingest::{ExternalFiles, IngestOptions, IngestedFile};
use crate::stall::StallState;
use crate::verify::check_open_tables;

impl Db {
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

    /// Flushes memtables that have such keys, compacts the keys from `begin` to `end`, both
    /// inclusive, down to the last level, and waits until the compaction is complete. `None` means
    /// no bound. Does nothing if `begin` is after `end`.
    ///
    /// # Errors
    /// The errors of [`Db::flush_cf`]; corruption, with the file, for damaged tables, which stay as
    /// they are; busy, while compactions are paused; cancelled, while manual compactions are
    /// disabled. If a compaction filter or merge operator panics, the compaction that called it
    /// changes nothing, and writes continue.
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

    /// Marks the tables that have keys from `begin` to `end`, both inclusive, for compaction to the
    /// next level, and returns. Tables of the last non-empty level are not marked. `None` means no
    /// bound. The marks are lost when the database is closed.
    ///
    /// # Errors
    /// Invalid argument, for a column family that was dropped, or was not obtained from this `Db`
    /// or a clone of it; the error because of which the column family's compactions stopped.
    pub fn suggest_compact_range_cf(
        &self,
        family: &ColumnFamily,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
    ) -> Result<()> {
        self.check_writable(family)?;
        self.database()?.compactions.suggest_range(family, begin, end)
    }

    /// Disables manual compactions ([`Db::compact_range`]): those that run are cancelled and return
    /// a cancelled error, as later ones do. Waits until none runs, unless a callback of a
    /// compaction calls this. Background compactions continue.
    ///
    /// Calls are counted: manual compactions are possible again when
    /// [`Db::enable_manual_compaction`] was called as often.
    ///
    /// # Errors
    /// Read-only, for a handle that was opened for reading.
    pub fn disable_manual_compaction(&self) -> Result<()> {
        let context = &self.database()?.context;
        let waits = !is_working_for(context.shared.opening);
        context.background.disable_manual_compactions(waits);
        Ok(())
    }

    /// Ends the effect of one call of [`Db::disable_manual_compaction`]. Without such a call, does
    /// nothing.
    ///
    /// # Errors
    /// Read-only, for a handle that was opened for reading.
    pub fn enable_manual_compaction(&self) -> Result<()> {
        self.database()?.context.background.manual().enable();
        Ok(())
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

    /// Reads every table from its file, past all caches, and checks it as
    /// [`verify`](crate::verify::verify()) does. Other reads and writes continue meanwhile; files
    /// that become obsolete are removed afterwards.
    ///
    /// # Errors
    /// Corruption, with the file, for the first damage found, or for a block that cannot be read;
    /// not supported, for a table that cannot be checked; errors from opening tables.
    pub fn verify_tables(&self) -> Result<()> {
        check_open_tables(&self.inner.storage, &self.column_families())
    }

    /// Pauses compactions until the returned value, and those of all other calls, are dropped.
    /// Waits until no compaction runs. Writes may stall during the pause, because the compaction
    /// backlog grows.
    ///
    /// # Errors
    /// Read-only, for a handle that was opened for reading.
    pub fn pause_compactions(&self) -> Result<CompactionPause> {
        let database = &self.write_side()?.database;
        let _waiting = database.context.stall.pressure().wait();
        database.context.background.pause_compactions();
        Ok(CompactionPause { database: Arc::downgrade(database) })
    }

    /// Stops the removal of files that the database needs now and will no longer need later:
    /// tables, blob files, logs, MANIFESTs and OPTIONS files. A program can then copy these files
    /// while the database is in use. [`Db::checkpoint`] is simpler, and needs no space for obsolete
    /// files.
    ///
    /// Calls are counted: files are removed again when [`Db::enable_file_deletions`] was called as
    /// often. If the database is closed before that, the next opening removes them. The property
    /// `rocksdb.is-file-deletions-enabled` is 0 meanwhile.
    ///
    /// # Errors
    /// Read-only, for a handle that was opened for reading.
    pub fn disable_file_deletions(&self) -> Result<()> {
        self.database()?.versions.obsolete().pause();
        Ok(())
    }

    /// Ends the effect of one call of [`Db::disable_file_deletions`]. Without such a call, does
    /// nothing. The files that became obsolete meanwhile are removed in the background.
    ///
    /// # Errors
    /// Read-only, for a handle that was opened for reading.
    pub fn enable_file_deletions(&self) -> Result<()> {
        let database = self.database()?;
        if database.versions.obsolete().end_pause() {
            database.context.clean_soon(database.versions.obsolete());
        }
        Ok(())
    }

    /// Returns the column families whose compactions stopped because of an error, such as a damaged
    /// table, and that error. Their writes are stopped once the compaction backlog requires it.
    /// [`Db::resume`] allows their compactions again.
    pub fn stopped_compactions(&self) -> Vec<(ColumnFamily, Error)> {
        let Ok(database) = self.database() else { return Vec::new() };
        let error =
            |family: &ColumnFamily| database.context.errors.stopped_compactions(family.id());
        let families = self.column_families().into_iter();
        families.filter_map(|family| error(&family).map(|error| (family, error))).collect()
    }

    /// Waits until no column family needs a flush or a compaction and none runs, or until `timeout`
    /// has passed; `None` for no limit. Returns whether all have ended. Does not wait for
    /// compactions that are disabled or have stopped after an error.
    ///
    /// # Errors
    /// The error after which writes are refused; closed, if the database is closed.
    pub fn wait_for_compactions(&self, timeout: Option<Duration>) -> Result<bool> {
        let database = self.database()?;
        let background = &database.context.background;
        // Without an end if it is too far away for the clock.
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            if background.is_closing() {
                return Err(Error::closed());
            }
            if let Some(error) = self.background_error() {
                return Err(error);
            }
            let is_due = |family: &ColumnFamily| {
                database.flushes.is_pending_or_running(family)
                    || family.compacts_by_itself() && database.compactions.needs_compaction(family)
            };
            // In this order: a compaction that is no longer due may be running.
            if !self.column_families().iter().any(is_due) && self.running_compactions() == 0 {
                return Ok(true);
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(false);
            }
            background.wait_for_compaction_for(left.unwrap_or(Duration::MAX));
        }
    }

    /// Returns the number of running compactions; 0 for a handle that was opened for reading.
    pub fn running_compactions(&self) -> usize {
        self.database().map_or(0, |database| database.context.background.running_compactions())
    }

    /// Whether a column family needs a compaction. Also true if the compaction cannot start at
    /// present. False for a handle that was opened for reading, and for a column family in
    /// [`Db::stopped_compactions`].
    ///
    /// # Errors
    /// Invalid argument, for a column family that was not obtained from this `Db` or a clone of it.
    pub fn needs_compaction_cf(&self, family: &ColumnFamily) -> Result<bool> {
        self.check_family(family)?;
        Ok(self.database().is_ok_and(|database| database.compactions.needs_compaction(family)))
    }

    /// Returns whether writes are delayed or stopped, and the reason. Always
    /// [`StallState::Normal`] for a handle that was opened for reading.
    pub fn stall_state(&self) -> StallState {
        self.database().map_or(StallState::Normal, |database| database.context.stall.state())
    }
}

/// A pause of a database's compactions. They continue when this value is dropped, unless another
/// pause exists. It does not keep the database open.
#[must_use = "compactions continue when the pause is dropped"]
#[derive(Debug)]
pub struct CompactionPause {
    database: Weak<Database>,
}

impl Drop for CompactionPause {
    fn drop(&mut self) {
        if let Some(database) = self.database.upgrade() {
            database.context.background.continue_compactions();
            database.compactions.compact_soon();
        }
    }
}
