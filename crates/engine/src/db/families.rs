//! Lists and drops column families.
//!
//! A drop changes the MANIFEST while writes wait. The cleaning job then writes the OPTIONS file.
//! After a crash in between, the OPTIONS file names a column family that does not exist; loading
//! options from the database's files ignores it.

use std::path::Path;
use std::sync::Arc;

use tailwater_format::version_edit::VersionEdit;

use crate::column_family::ColumnFamily;
use crate::compaction::update_stalls;
use crate::db::{Database, Db};
use crate::error::{Error, Result};
use crate::open_options::OpenOptions;
use crate::version::manifest::{self, Manifest};

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
        Ok(manifest.families.into_values().map(|family| family.name).collect())
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
    /// Drops a column family. Its existing readers continue; its files are removed when no reader
    /// is left.
    pub(super) fn drop_family(&self, family: &ColumnFamily) -> Result<()> {
        if family.id() == 0 {
            return Err(Error::invalid_argument("the default column family cannot be dropped"));
        }
        let changing = self.changing_options();
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
        self.context.options.open().remove_column_family(family.name());
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
        self.flushes.install_dropped();
        self.options_files.set_outdated(true);
        drop(changing);
        self.update_options_file_soon();
        Ok(())
    }
}
