//! The OPTIONS file: what the database was last opened with, or changed to, in RocksDB's form.
//!
//! It is written aside, synced and renamed. Of older ones the newest is kept, as RocksDB does. What
//! options RocksDB does not have stand in `TAILWATER-OPTIONS`, which is written in the same way.

use std::path::Path;

use tailwater_format::file_name::FileKind;
use tailwater_io::Purpose;

use crate::Result;
use crate::db::Writer;
use crate::options::{ColumnFamilyOptions, DbOptions, Options};
use crate::version::write_whole;

/// How many OPTIONS files are kept.
const KEPT: usize = 2;

impl Writer {
    /// Writes options of the database and its column families.
    ///
    /// # Errors
    /// Those of writing the file; then the one before counts. That an older one stays is none; the
    /// LOG has it.
    pub(crate) fn write_options_file(&self, options: &Options) -> Result<()> {
        let number = self.numbers.take();
        let aside = self.directory.join(FileKind::TemporaryOptions(number).to_string());
        let path = self.directory.join(FileKind::Options(number).to_string());
        self.write_new_options(options, &aside, &path).inspect_err(|_| {
            // Where it has its name already, it does not count; where it stays, the next open takes
            // its place.
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

    /// Writes the options as they are, after something that was done with the database, of which it
    /// is no error if this fails; the LOG has it.
    pub(crate) fn update_options_file(&self) {
        if let Err(error) = self.write_options_file(&self.all_options()) {
            self.info_log.warn(format_args!("the OPTIONS file was not written: {error}"));
        }
    }

    /// The options of the database and its column families.
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
    /// their own file; where none is set there is none.
    pub(crate) fn write_own_options(&self) -> Result<()> {
        let path = self.directory.join(FileKind::TailwaterOptions.to_string());
        match self.database.fixed().tailwater.to_text() {
            Some(text) => {
                let name = FileKind::Temporary(self.numbers.take()).to_string();
                let aside = self.directory.join(name);
                write_whole(&*self.storage, &aside, text.as_bytes(), Purpose::Metadata)?;
                // A crash here is safe: the older file counts, and the next open writes it anew.
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
        // A crash here is safe: the older file counts.
        self.storage.rename(aside, path)?;
        self.storage.sync_directory(&self.directory)?;
        Ok(())
    }
}
