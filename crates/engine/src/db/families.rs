//! Creates and drops column families while the database is open.
//!
//! # Order of a creation
//!
//! 1. The directories of the column family are created and claimed, and then listed in the record
//!    of claimed directories. After a crash, the next opening removes the claims of listed
//!    directories that no option names. A directory that is claimed but not listed keeps its claim:
//!    this database can use the directory, another database must adopt it.
//! 2. Writes wait while the MANIFEST gets the column family. After a crash from here on, it exists.
//! 3. The OPTIONS file gets its options. Other threads can already find the column family by its
//!    name and write to it. After a crash before the file is written, the column family has the
//!    options with which the next opening is called.
//!
//! A drop changes the MANIFEST while writes wait, and the OPTIONS file afterwards. After a crash in
//! between, the OPTIONS file names a column family that does not exist.

use std::path::Path;
use std::sync::Arc;

use tailwater_format::Comparator;
use tailwater_format::version_edit::VersionEdit;

use crate::column_family::{ColumnFamily, FamilyReaders};
use crate::compaction::update_stalls;
use crate::db::{Database, Db};
use crate::directory::{Directories, Home, Needed};
use crate::error::{Error, Result};
use crate::io_modes::OF_TABLES;
use crate::open_options::OpenOptions;
use crate::options::{ColumnFamilyOptions, SetOptions, check_column_family};
use crate::version::manifest::{self, Manifest};
use crate::version::{FamilyVersion, Version};

impl Db {
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

    /// Creates a column family.
    ///
    /// # Errors
    /// Invalid argument, if the name exists, options contradict each other, or an option names an
    /// object that was not registered when the database was opened; errors from writing the
    /// MANIFEST. If only the OPTIONS file cannot be written, the error says so, and the column
    /// family exists: [`Db::cf_handle`] returns it.
    pub fn create_cf(&self, name: &str, options: &ColumnFamilyOptions) -> Result<ColumnFamily> {
        self.database()?.create_family(name, options)
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
}

impl Database {
    /// Creates a column family.
    pub(super) fn create_family(
        &self,
        name: &str,
        options: &ColumnFamilyOptions,
    ) -> Result<ColumnFamily> {
        let _changing = self.changing_options();
        let database = self.context.options.now();
        let both = SetOptions::of_family(options.clone(), &database);
        let options = both.effective.clone();
        check_column_family(&options, &database)?;
        self.context.options.open().check_objects(name, &options)?;
        self.context.errors.check()?;
        if self.context.shared.family_set().by_name(name).is_some() {
            let message = format!("there is a column family '{name}' already");
            return Err(Error::invalid_argument(message));
        }
        let mut all_options = self.context.options.open().clone();
        all_options.change_column_family(name, &both);
        let comparator = all_options.comparator(name, "")?;
        let readers = Arc::new(self.context.readers.readers(&all_options, name, &comparator));
        self.prepare_directories(&all_options, name)?;
        // The new family needs the logs from the current one on. While this thread leads the write
        // queue, no other thread writes, so no earlier log can hold writes to the family.
        let leadership = self.writes.lead()?;
        self.context.errors.check()?;
        let make = || self.add_family(name, options, comparator, readers);
        let family = self.context.latch_on_unwind("creating a column family", make)?;
        *self.context.options.open() = all_options;
        self.writes.update_log_bound();
        self.writes.update_write_times();
        drop(leadership);
        let id = family.id();
        self.context.info_log.info(format_args!("created column family '{name}' with ID {id}"));
        for warning in self.unmet_settings(&family) {
            self.context.info_log.warn(format_args!("{warning}"));
        }
        self.options_files.write(&self.all_options()).map_err(|error| {
            error.while_doing(format_args!(
                "column family '{name}' was created, but its options were not written"
            ))
        })?;
        Ok(family)
    }

    /// Adds a new column family to the MANIFEST, and then to the family set.
    fn add_family(
        &self,
        name: &str,
        options: ColumnFamilyOptions,
        comparator: Comparator,
        readers: Arc<FamilyReaders>,
    ) -> Result<ColumnFamily> {
        let log_number = self.writes.logs().current_number();
        let version = Arc::new(Version::with_levels(options.num_levels as usize));
        let installation = self.versions.begin_installation();
        let id = installation.versions().next_family_id();
        let edit = VersionEdit {
            column_family: id,
            column_family_add: Some(name.to_owned()),
            comparator: Some(comparator.name().to_owned()),
            log_number: Some(log_number),
            ..VersionEdit::default()
        };
        let written = self.context.write_edits(installation, vec![edit], &[])?;
        let added = FamilyVersion {
            name: name.to_owned(),
            comparator,
            log_number,
            level_count: options.num_levels as usize,
            version: Arc::clone(&version),
            compactions: Default::default(),
            next_epoch: 1,
        };
        written.install().add_family(id, added);
        let (opening, name) = (self.context.shared.opening, name.to_owned());
        let family = ColumnFamily::new(opening, id, name, options, readers, version);
        family.active().set_earliest_log_number(log_number);
        let families = self.context.shared.family_set().with(family.clone());
        self.context.shared.families.store(Arc::new(families));
        Ok(family)
    }

    /// Creates and claims the directories of a new column family, and probes their I/O modes.
    fn prepare_directories(&self, options: &OpenOptions, name: &str) -> Result<()> {
        let storage = &*self.context.storage;
        let home = Home::at(storage, &self.context.directory)?;
        let id = self.context.identity.durable_id(&self.context.options.now()).to_owned();
        let mut directories = Directories::find(storage, home, options, &id)?;
        directories.check(storage)?;
        directories.check_unclaimed_are_empty()?;
        directories.create(storage)?;
        for directory in options.table_directories(&self.context.directory, name) {
            let modes = self.context.readers.io_modes();
            for warning in modes.try_in(storage, &directory, &OF_TABLES)? {
                self.context.info_log.warn(format_args!("{warning}"));
            }
        }
        if let Some(locks) = &mut *self.locks.lock() {
            directories.lock_outside(storage, locks)?;
        }
        directories.claim(storage, &id, &Needed::default())
    }

    /// Drops a column family. Its existing readers continue; its files are removed when no reader
    /// is left.
    pub(super) fn drop_family(&self, family: &ColumnFamily) -> Result<()> {
        if family.id() == 0 {
            return Err(Error::invalid_argument("the default column family cannot be dropped"));
        }
        let _changing = self.changing_options();
        let leadership = self.writes.lead()?;
        self.context.errors.check()?;
        let families = self.context.shared.family_set();
        if families.by_id(family.id()).is_none_or(|known| !known.is_same(family)) {
            let message = format!("there is no column family '{}' here", family.name());
            return Err(Error::invalid_argument(message));
        }
        let edit = VersionEdit {
            column_family: family.id(),
            column_family_drop: true,
            // Logs are removed below. The edit raises the number of the oldest needed log first;
            // otherwise the next opening would find needed logs missing.
            min_log_number_to_keep: Some(self.flushes.oldest_needed_log_without(family)),
            ..VersionEdit::default()
        };
        self.context.latch_on_unwind("dropping a column family", || -> Result<()> {
            let installation = self.versions.begin_installation();
            let mut installed = self.context.write_edits(installation, vec![edit], &[])?.install();
            family.set_dropped();
            self.context.shared.families.store(Arc::new(families.without(family.id())));
            self.context.retire_files(&mut installed, family);
            Ok(())
        })?;
        let names: Vec<String> = self
            .context
            .shared
            .family_set()
            .iter()
            .map(|family| family.name().to_owned())
            .collect();
        self.context.options.open().retain_column_families(&names);
        self.context.info_log.info(format_args!("dropped column family '{}'", family.name()));
        self.writes.update_log_bound();
        self.writes.update_write_times();
        let background = &self.context.background;
        for retries in [background.flush_retries(), background.compaction_retries()] {
            retries.retain(|id| id != family.id());
        }
        update_stalls(&self.context, &[]);
        self.flushes.release_logs();
        drop(leadership);
        self.update_options_file();
        Ok(())
    }

    /// Creates the missing column families that the options name.
    pub(super) fn create_missing_families(&self) -> Result<()> {
        let options = self.context.options.open().clone();
        for name in options.column_families() {
            if self.context.shared.family_set().by_name(name).is_some() {
                continue;
            }
            if !self.context.options.fixed().create_missing_column_families {
                let message = format!(
                    "there is no column family '{name}', and create_missing_column_families is \
                     false"
                );
                return Err(Error::invalid_argument(message).in_file(&self.context.directory));
            }
            self.create_family(name, options.column_family(name))?;
        }
        Ok(())
    }
}
