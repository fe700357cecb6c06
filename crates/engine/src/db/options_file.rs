//! The OPTIONS file: the options that the database was last opened with or changed to, in RocksDB's
//! form.
//!
//! It is written under a temporary name, synced and renamed. The newest of the older ones is kept,
//! as in RocksDB. Options that RocksDB does not have are in `TAILWATER-OPTIONS`, which is written
//! likewise.

use std::path::Path;

use tailwater_format::file_name::FileKind;
use tailwater_io::Purpose;

use crate::Result;
use crate::db::Writer;
use crate::options::{ColumnFamilyOptions, DbOptions, Options};
use crate::version::write_whole;

/// Number of OPTIONS files that are kept.
const KEPT: usize = 2;

impl Writer {
    /// Writes options of the database and its column families.
    ///
    /// # Errors
    /// Errors of writing the file; the previous one stays valid then. Failing to remove an older
    /// file is only logged.
    pub(crate) fn write_options_file(&self, options: &Options) -> Result<()> {
        let number = self.numbers.take();
        let aside = self.directory.join(FileKind::TemporaryOptions(number).to_string());
        let path = self.directory.join(FileKind::Options(number).to_string());
        self.write_new_options(options, &aside, &path).inspect_err(|_| {
            // If it was already renamed, it must not count; if removing fails, the next open
            // replaces it.
            let _ = self.storage.remove(&path);
        })?;
        let mut numbers = self.options_files.lock();
        numbers.insert(number);
        while numbers.len() > KEPT
            && let Some(oldest) = numbers.pop_first()
        {
            let path = self.directory.join(FileKind::Options(oldest).to_string());
            match self.storage.remove(&path) {
                Err(error) if !error.is_not_found() => {
                    self.info_log.warn(format_args!("an old OPTIONS file stays: {error}"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Writes the current options after a change of the database. A failure is only logged.
    pub(crate) fn update_options_file(&self) {
        if let Err(error) = self.write_options_file(&self.all_options()) {
            self.info_log.warn(format_args!("the OPTIONS file was not written: {error}"));
        }
    }

    /// Returns the options of the database and its column families.
    pub(crate) fn all_options(&self) -> Options {
        let families = self.shared.family_set();
        let options = families.iter().map(|family| ColumnFamilyOptions::clone(&family.options()));
        let names = families.iter().map(|family| family.name().to_owned());
        Options {
            database: DbOptions::clone(&self.database.now()),
            column_families: names.zip(options).collect(),
        }
    }

    /// Writes the options that RocksDB does not have, as the database was opened with them, into
    /// their own file, or removes the file if none is set.
    pub(crate) fn write_own_options(&self) -> Result<()> {
        let path = self.directory.join(FileKind::TailwaterOptions.to_string());
        match self.database.fixed().tailwater.to_text() {
            Some(text) => {
                let name = FileKind::Temporary(self.numbers.take()).to_string();
                let aside = self.directory.join(name);
                write_whole(&*self.storage, &aside, text.as_bytes(), Purpose::Metadata)?;
                // A crash here is safe: the older file stays valid, and the next open writes it
                // again.
                self.storage.rename(&aside, &path)?;
            }
            None => match self.storage.remove(&path) {
                Err(error) if error.is_not_found() => return Ok(()),
                removed => removed?,
            },
        }
        Ok(self.storage.sync_directory(&self.directory)?)
    }

    fn write_new_options(&self, options: &Options, aside: &Path, path: &Path) -> Result<()> {
        let text = options.to_document().to_text();
        write_whole(&*self.storage, aside, text.as_bytes(), Purpose::Metadata)?;
        // A crash here is safe: the older file stays valid.
        self.storage.rename(aside, path)?;
        self.storage.sync_directory(&self.directory)?;
        Ok(())
    }
}
