//! The OPTIONS file: the options with which the database was last opened, or to which they were
//! changed since, in RocksDB's format.
//!
//! The file is written under a temporary name, synced and renamed. Besides the current file, the
//! one before it is kept, as in RocksDB. Options that RocksDB does not have are in the file
//! `TAILWATER-OPTIONS`, which is written in the same way.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tailwater_format::file_name::FileKind;
use tailwater_io::sync::Mutex;
use tailwater_io::{Purpose, Storage};

use crate::error::Result;
use crate::file_numbers::FileNumbers;
use crate::options::{Options, TailwaterOptions};
use crate::stats::InfoLog;
use crate::version::write_whole;

/// Number of OPTIONS files that are kept, including the current one.
const KEPT: usize = 2;

/// The OPTIONS files of a database.
pub(crate) struct OptionsFiles {
    storage: Arc<dyn Storage>,
    /// The home of the database.
    directory: PathBuf,
    numbers: FileNumbers,
    info_log: Arc<InfoLog>,
    /// The numbers of the existing OPTIONS files.
    existing: Mutex<BTreeSet<u64>>,
}

impl OptionsFiles {
    /// Creates the component, given the numbers of the existing OPTIONS files.
    pub(crate) fn new(
        storage: Arc<dyn Storage>,
        directory: PathBuf,
        numbers: FileNumbers,
        info_log: Arc<InfoLog>,
        existing: BTreeSet<u64>,
    ) -> Self {
        Self { storage, directory, numbers, info_log, existing: Mutex::new(existing) }
    }

    /// Writes options of the database and its column families.
    ///
    /// # Errors
    /// Errors from writing the file. The previous file then stays valid. A failure to remove an
    /// older file is only logged.
    pub(crate) fn write(&self, options: &Options) -> Result<()> {
        let number = self.numbers.take();
        let aside = self.directory.join(FileKind::TemporaryOptions(number).to_string());
        let path = self.directory.join(FileKind::Options(number).to_string());
        self.write_new(options, &aside, &path).inspect_err(|_| {
            // If the file was already renamed, it must not take effect. If it cannot be removed,
            // the next open replaces it.
            let _ = self.storage.remove(&path);
        })?;
        let mut numbers = self.existing.lock();
        numbers.insert(number);
        while numbers.len() > KEPT
            && let Some(oldest) = numbers.pop_first()
        {
            let path = self.directory.join(FileKind::Options(oldest).to_string());
            match self.storage.remove(&path) {
                Err(error) if !error.is_not_found() => {
                    self.info_log
                        .warn(format_args!("an old OPTIONS file was not removed: {error}"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Writes the options that RocksDB does not have to `TAILWATER-OPTIONS`, with their values as
    /// of opening the database. Removes the file if none of these options is set.
    pub(crate) fn write_own(&self, options: &TailwaterOptions) -> Result<()> {
        let path = self.directory.join(FileKind::TailwaterOptions.to_string());
        match options.to_text() {
            Some(text) => {
                let name = FileKind::Temporary(self.numbers.take()).to_string();
                let aside = self.directory.join(name);
                write_whole(&*self.storage, &aside, text.as_bytes(), Purpose::Metadata)?;
                // A crash here is safe: the older file stays valid, and the next open writes the
                // new options again.
                self.storage.rename(&aside, &path)?;
            }
            None => match self.storage.remove(&path) {
                Err(error) if error.is_not_found() => return Ok(()),
                removed => removed?,
            },
        }
        Ok(self.storage.sync_directory(&self.directory)?)
    }

    fn write_new(&self, options: &Options, aside: &Path, path: &Path) -> Result<()> {
        let text = options.to_document().to_text();
        write_whole(&*self.storage, aside, text.as_bytes(), Purpose::Metadata)?;
        // A crash here is safe: the older file stays valid.
        self.storage.rename(aside, path)?;
        self.storage.sync_directory(&self.directory)?;
        Ok(())
    }
}
