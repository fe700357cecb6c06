//! The first step: which tables and logs the database consists of.

use std::path::Path;
use std::sync::Arc;

use super::{ManifestRead, OpenOptions, Unrecovered};
use crate::options::check_for_reading;
use crate::version::manifest::{self, Manifest};
use crate::{Error, ErrorKind, Result};

impl Unrecovered {
    /// A directory that is to be opened with these options.
    pub(crate) fn new(directory: &Path, options: &OpenOptions) -> Result<Self> {
        let storage = Arc::clone(options.storage());
        let options = options.sanitized(directory);
        check_for_reading(options.database())
            .map_err(|error| Error::invalid_argument(error.to_string()))?;
        Ok(Self { directory: directory.to_owned(), storage, options })
    }

    /// Reads the MANIFEST that CURRENT names.
    pub(crate) fn read_manifest(self) -> Result<ManifestRead> {
        let number = manifest::current(&*self.storage, &self.directory).map_err(|error| {
            if error.is_not_found() {
                let message = "there is no database here: no CURRENT file";
                Error::new(ErrorKind::NotFound, message).in_file(&self.directory)
            } else {
                error
            }
        })?;
        let manifest = Manifest::read(&*self.storage, &self.directory, number)?;
        Ok(ManifestRead { unrecovered: self, manifest })
    }
}
