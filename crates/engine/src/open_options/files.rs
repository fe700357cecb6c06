//! The OPTIONS file. In RocksDB's format, it records the options with which the database was last
//! opened, including changes since then.
//!
//! A changed option takes effect after a file with it was written. When column families are created
//! or dropped, the file is outdated for a short time, because its length, and so the time to write
//! it, grows with the number of column families. Until it is written, the MANIFEST records the
//! options of new column families.
//!
//! The file is written under a temporary name, synced, and renamed. As in RocksDB, the current file
//! and its predecessor are kept. Options that RocksDB does not have are in a separate file,
//! `TAILWATER-OPTIONS`, which is written in the same way.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tailwater_format::file_name::FileKind;
use tailwater_io::sync::Mutex;
use tailwater_io::{Purpose, Storage};

use crate::error::Result;
use crate::file_numbers::FileNumbers;
use crate::incomplete_file::IncompleteFile;
use crate::options::{OptionTable, Options, TailwaterOptions};
use crate::version::{ObsoleteFiles, write_whole};

use super::load::read_own_options;

/// Number of OPTIONS files that are kept, including the current one.
const KEPT: usize = 2;

/// The OPTIONS files of a database, of which the one with the highest number is current.
pub(crate) struct OptionsFiles {
    storage: Arc<dyn Storage>,
    /// The home directory of the database.
    directory: PathBuf,
    numbers: FileNumbers,
    obsolete: Arc<ObsoleteFiles>,
    /// The numbers of the existing OPTIONS files.
    existing: Mutex<BTreeSet<u64>>,
    /// Whether column families were created or dropped since the current file was written.
    is_outdated: AtomicBool,
    /// Whether the last attempt to write a file failed.
    has_failed: AtomicBool,
}

impl OptionsFiles {
    /// Creates an `OptionsFiles` for the database in `directory`. `existing` are the numbers of the
    /// OPTIONS files that are already there. Old OPTIONS files are passed to `obsolete`.
    pub(crate) fn new(
        storage: Arc<dyn Storage>,
        directory: PathBuf,
        numbers: FileNumbers,
        obsolete: Arc<ObsoleteFiles>,
        existing: BTreeSet<u64>,
    ) -> Self {
        let (existing, is_outdated) = (Mutex::new(existing), AtomicBool::new(false));
        let has_failed = AtomicBool::new(false);
        Self { storage, directory, numbers, obsolete, existing, is_outdated, has_failed }
    }

    /// Sets whether the current file is outdated.
    pub(crate) fn set_outdated(&self, is_outdated: bool) {
        self.is_outdated.store(is_outdated, Ordering::Release);
    }

    /// Whether the current file is outdated.
    pub(crate) fn is_outdated(&self) -> bool {
        self.is_outdated.load(Ordering::Acquire)
    }

    /// Notes that a file could not be written. Returns whether the attempt before succeeded.
    pub(crate) fn is_first_failure(&self) -> bool {
        !self.has_failed.swap(true, Ordering::Relaxed)
    }

    /// Returns the number of a new OPTIONS file. Of two files with different options, the one with
    /// the newer options must have the higher number, which makes it the current file.
    ///
    /// # Errors
    /// Errors from looking for a file that already has the number.
    pub(crate) fn take_number(&self) -> Result<u64> {
        let (number, _) = self.numbers.take_unused(&*self.storage, |number| self.path(number))?;
        Ok(number)
    }

    /// Writes OPTIONS file `number` with the options of the database and its column families, and
    /// removes all but the newest [`KEPT`] files.
    ///
    /// # Errors
    /// Errors from writing the file. The previous file then stays current. A failure to remove an
    /// older file is only logged.
    pub(crate) fn write(&self, number: u64, options: &Options) -> Result<()> {
        let aside = self.directory.join(FileKind::TemporaryOptions(number).to_string());
        self.write_new(options, &aside, &self.path(number))?;
        self.has_failed.store(false, Ordering::Relaxed);
        let mut numbers = self.existing.lock();
        numbers.insert(number);
        while numbers.len() > KEPT
            && let Some(oldest) = numbers.pop_first()
        {
            self.obsolete.remove(self.path(oldest));
        }
        Ok(())
    }

    /// Returns a warning about values in the file `TAILWATER-OPTIONS` that
    /// [`OptionsFiles::write_own`] would remove because the same options have their defaults in
    /// `options`; `None` if there is no such value. If the file cannot be read, the warning says
    /// so.
    pub(crate) fn dropped_own(&self, options: &TailwaterOptions) -> Option<String> {
        let path = self.directory.join(FileKind::TailwaterOptions.to_string());
        let recorded = match read_own_options(&*self.storage, &path) {
            Ok(recorded) => recorded,
            Err(error) if error.is_not_found() => return None,
            Err(error) => return Some(format!("{error}; what it recorded is no longer recorded")),
        };
        let unset = TailwaterOptions::default();
        let kept: Vec<&str> = options.differences(&unset).map(|(name, ..)| name).collect();
        let dropped: Vec<String> = recorded
            .differences(&unset)
            .filter(|(name, ..)| !kept.contains(name))
            .map(|(name, value, _)| format!("{name}={value}"))
            .collect();
        (!dropped.is_empty()).then(|| {
            format!(
                "TAILWATER-OPTIONS recorded {}, which the options of this opening do not have, so \
                 it is no longer recorded; OpenOptions::load and set_load_when_opened keep it",
                dropped.join(", ")
            )
        })
    }

    /// Writes the file `TAILWATER-OPTIONS`: the options that do not exist in RocksDB. If all of
    /// these options have their defaults, removes the file instead.
    pub(crate) fn write_own(&self, options: &TailwaterOptions) -> Result<()> {
        let path = self.directory.join(FileKind::TailwaterOptions.to_string());
        match options.to_text() {
            Some(text) => {
                let name = FileKind::Temporary(self.numbers.take()).to_string();
                let aside = self.directory.join(name);
                write_whole(&*self.storage, &aside, text.as_bytes(), Purpose::Metadata)?;
                // A crash before the rename is safe: the previous file stays valid.
                self.storage.rename(&aside, &path)?;
            }
            None => match self.storage.remove(&path) {
                Err(error) if error.is_not_found() => return Ok(()),
                removed => removed?,
            },
        }
        Ok(self.storage.sync_directory(&self.directory)?)
    }

    fn path(&self, number: u64) -> PathBuf {
        self.directory.join(FileKind::Options(number).to_string())
    }

    fn write_new(&self, options: &Options, aside: &Path, path: &Path) -> Result<()> {
        let text = options.to_document().to_text();
        write_whole(&*self.storage, aside, text.as_bytes(), Purpose::Metadata)?;
        // A crash before the rename is safe: the previous file stays current.
        self.storage.rename(aside, path)?;
        // If the sync fails, the file must not stay the current OPTIONS file.
        let incomplete = IncompleteFile::created(&*self.storage, path);
        self.storage.sync_directory(&self.directory)?;
        incomplete.complete();
        Ok(())
    }
}
