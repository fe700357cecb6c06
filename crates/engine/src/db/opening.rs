//! Opens a database for writing: recovers it, then creates the other components of an open
//! database.

use std::path::Path;
use std::sync::Arc;

use tailwater_io::sync::Mutex;

use super::background_jobs::Writing;
use super::{Access, Database, Db, Inner, default_of};
use crate::column_family::ColumnFamily;
use crate::compaction::update_all_stalls;
use crate::error::Result;
use crate::ingest::Ingester;
use crate::open_options::{OpenOptions, OptionWithoutEffect, database_options_without_effect};
use crate::recovery::{self, Recovered, warnings};

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
    /// As in RocksDB, the database is opened with exactly these options, which are then recorded in
    /// its OPTIONS file. Recorded options that they do not set are reset to their defaults;
    /// [`Db::warnings`] names those of Tailwater's own options. To keep what is recorded, begin
    /// with [`OpenOptions::load`] or call [`OpenOptions::set_load_when_opened`].
    ///
    /// # Errors
    /// Busy, if the database is open for writing elsewhere; not found, if there is none; the errors
    /// of [`Db::open_read_only`]; corruption, if `create_if_missing` is set and there are files of
    /// a database that lost its CURRENT; invalid argument, naming the option, if options contradict
    /// each other, or if an option names a merge operator, compaction filter or prefix extractor
    /// that is not registered (unless the database's OPTIONS file names it, too: then
    /// [`Db::warnings`] has a warning); not supported, naming the option, for a feature that is not
    /// implemented; no space; I/O, also for a thread that the system cannot start, naming the
    /// thread.
    pub fn open(directory: impl AsRef<Path>, options: &OpenOptions) -> Result<Self> {
        let directory = directory.as_ref();
        recovery::open(directory, options).and_then(|recovered| Self::writing(directory, recovered))
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
        options.create_if_missing(true);
        Self::open(directory, &options)
    }

    /// Creates the components that a recovered database lacks, and begins its background work.
    fn writing(directory: &Path, recovered: Recovered) -> Result<Self> {
        let Recovered { context, versions, compactions, flushes, writes, is_new, .. } = recovered;
        let ingester = Ingester::new(
            Arc::clone(&context),
            Arc::clone(&versions),
            Arc::clone(&compactions),
            Arc::clone(&flushes),
            Arc::clone(&writes),
        );
        let database = Database {
            context,
            versions,
            compactions,
            flushes,
            writes,
            ingester,
            options_files: recovered.options_files,
            changing_options: Mutex::default(),
            locks: Mutex::new(Some(recovered.locks)),
            closed: Mutex::default(),
        };
        let dropped = database.complete(is_new)?;
        let writing = Writing::start(Arc::new(database), recovered.threads)?;
        let database = &writing.database;
        let context = &database.context;
        context.info_log.info(format_args!(
            "the database was opened at sequence number {}",
            context.published()
        ));
        let mut warnings = recovered.warnings;
        warnings.extend(dropped);
        warnings.extend(database.warn_of_settings());
        let without_effect = database.options_without_effect();
        warnings.extend(database.warn_of_options(&without_effect));
        database.compactions.compact_soon();
        let inner = Inner {
            default_family: default_of(&context.shared.family_set())?,
            opening: context.shared.opening,
            directory: directory.to_owned(),
            storage: Arc::clone(&context.storage),
            shared: Arc::clone(&context.shared),
            left_out: recovered.left_out,
            warnings,
            without_effect,
            is_new,
            access: Access::Writing(writing),
        };
        Ok(Self { inner: Arc::new(inner) })
    }
}

impl Database {
    /// Creates the column families that are missing, and writes the OPTIONS. `is_new` says whether
    /// this opening created the database. Returns the warning of [`Database::record_own_options`].
    fn complete(&self, is_new: bool) -> Result<Option<String>> {
        self.create_missing_families()?;
        if is_new {
            self.writes.spread_write_times();
        }
        self.writes.update_write_times();
        self.write_options_to_log();
        self.write_options_file(&self.all_options())?;
        let dropped = self.record_own_options()?;
        update_all_stalls(&self.context);
        Ok(dropped)
    }

    /// Writes the file `TAILWATER-OPTIONS`. If that drops recorded values that the options of this
    /// opening do not have, writes a warning to the LOG, and returns it. No warning is given if the
    /// opening has loaded the recorded options: then they were reset on purpose.
    fn record_own_options(&self) -> Result<Option<String>> {
        let own = &self.context.options.fixed().tailwater;
        let are_loaded = self.context.options.open().loads_when_opened();
        let dropped = if are_loaded { None } else { self.options_files.dropped_own(own) };
        self.options_files.write_own(own)?;
        if let Some(warning) = &dropped {
            self.context.info_log.warn(format_args!("{warning}"));
        }
        Ok(dropped)
    }

    /// Writes warnings to the LOG and returns them. They are about objects that the OPTIONS file
    /// names but that are not registered, and features that are not implemented.
    fn warn_of_settings(&self) -> Vec<String> {
        let families = self.context.shared.family_set();
        let unmet = warnings::of_families(&self.context.options.open(), families.iter());
        for warning in &unmet {
            self.context.info_log.warn(format_args!("{warning}"));
        }
        unmet
    }

    /// Returns the options of the database and its column families that are set and have no effect.
    fn options_without_effect(&self) -> Vec<OptionWithoutEffect> {
        let families = self.context.shared.family_set();
        let mut found = database_options_without_effect(&self.context.options.now());
        let names = families.iter().map(ColumnFamily::name);
        found.extend(self.context.options.open().of_families_without_effect(names));
        found
    }

    /// Lists options without effect in the LOG, after a warning with their number. Returns this
    /// warning.
    fn warn_of_options(&self, without_effect: &[OptionWithoutEffect]) -> Option<String> {
        let are = match without_effect.len() {
            0 => return None,
            1 => "1 option that is set has no effect".to_owned(),
            count => format!("{count} options that are set have no effect"),
        };
        self.context.info_log.warn(format_args!("{are}:"));
        for option in without_effect {
            self.context.info_log.info(format_args!("{option}"));
        }
        let home = self.context.directory.display();
        Some(format!("{are}: `tailwater db options {home} --without-effect` lists what and why"))
    }
}
