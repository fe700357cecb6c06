//! The first step of recovery: reads the MANIFEST, which lists the database's tables and logs.

use std::path::Path;
use std::sync::Arc;

use tailwater_io::Storage;

use super::{ManifestRead, Unrecovered};
use crate::directory::{Files, Home};
use crate::error::{Error, ErrorKind, Result};
use crate::io_modes::IoModes;
use crate::open_options::OpenOptions;
use crate::options::{check_family_for_reading, check_for_reading};
use crate::version::manifest::{self, Manifest};

impl Unrecovered {
    /// Prepares to open the database in a directory for reading.
    pub(crate) fn new(directory: &Path, options: &OpenOptions) -> Result<Self> {
        let mut options = options.sanitized(directory, true);
        let storage = options.limiting_reads(Arc::clone(options.storage()));
        options.set_storage(Arc::clone(&storage));
        check_for_reading(options.database())
            .map_err(|error| Error::invalid_argument(error.to_string()))?;
        let named = options.column_families().chain(["default"]);
        for name in named {
            check_family_for_reading(options.column_family(name)).map_err(|error| {
                Error::invalid_argument(format!("column family '{name}': {error}"))
            })?;
        }
        options.allow_threads();
        let home = home(&*storage, directory)?;
        options.resolve_paths(&home.path, home.identity)?;
        let io_modes = Arc::new(IoModes::new(options.database()));
        for tables in options.all_table_directories(&home.path) {
            io_modes.try_reading(&*storage, &tables)?;
        }
        Ok(Self { home, storage, options, io_modes, home_files: None })
    }

    /// Prepares to open a database for writing. `options` must be checked and sanitized.
    /// `home_files` is the listing of the database's home directory.
    pub(super) fn for_writing(home: Home, home_files: Files, options: OpenOptions) -> Self {
        let storage = Arc::clone(options.storage());
        let io_modes = Arc::new(IoModes::new(options.database()));
        Self { home, storage, options, io_modes, home_files: Some(home_files) }
    }

    /// Reads the MANIFEST that CURRENT names.
    pub(crate) fn read_manifest(self) -> Result<ManifestRead> {
        let number = manifest::current(&*self.storage, &self.home.path).map_err(|error| {
            if error.is_not_found() { no_database(&self.home.path) } else { error }
        })?;
        let manifest = Manifest::read(&*self.storage, &self.home.path, number)?;
        Ok(ManifestRead { unrecovered: self, manifest })
    }
}

/// Returns `directory` as the home of a database.
pub(super) fn home(storage: &dyn Storage, directory: &Path) -> Result<Home> {
    Home::at(storage, directory)
        .map_err(|error| if error.is_not_found() { no_database(directory) } else { error })
}

pub(super) fn no_database(directory: &Path) -> Error {
    let message = "there is no database here: no CURRENT file";
    Error::new(ErrorKind::NotFound, message).in_file(directory)
}
