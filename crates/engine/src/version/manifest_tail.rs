//! Follows the MANIFEST of a database that another process may be writing.
//!
//! A writer appends edits to its MANIFEST. When the MANIFEST is too long, and at each opening, it
//! writes a new one that begins with the whole state, renames a new CURRENT into place, and removes
//! the former MANIFEST. It removes a table, blob file or log only after an edit has made it
//! obsolete. So if a file that a state names is missing, and following the MANIFEST shows no
//! change, the file is lost; otherwise a newer state does without it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tailwater_format::file_name::FileKind;
use tailwater_io::{IoMode, Purpose, ReadFile, Storage};

use super::manifest::{self, Manifest, Replay};
use crate::error::Result;

/// Maximum number of attempts to open the MANIFEST that CURRENT names, if another process replaces
/// both each time.
const ATTEMPTS: usize = 64;

/// A MANIFEST that was read up to some position, and may have grown or have been replaced since.
#[derive(Debug)]
pub(crate) struct ManifestTail {
    directory: PathBuf,
    number: u64,
    file: Arc<dyn ReadFile>,
    replay: Replay,
}

/// The difference between a database's state and the one that was read before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// Nothing was written.
    Nothing,
    /// Edits were appended. They record flushes and compactions only, and no log became obsolete.
    /// So the state that was read before, with all logs as they are now, has all writes.
    Tables,
    /// Edits of other kinds were appended, or logs became obsolete.
    Other,
    /// CURRENT names another MANIFEST.
    Replaced,
}

impl ManifestTail {
    /// Opens and reads the MANIFEST that CURRENT names.
    ///
    /// # Errors
    /// Not found, if there is no CURRENT; the errors of [`Manifest::read`].
    pub(crate) fn open(storage: &dyn Storage, directory: &Path) -> Result<Self> {
        let mut attempts = 1..ATTEMPTS;
        let mut number = manifest::current(storage, directory)?;
        loop {
            let path = directory.join(FileKind::Manifest(number).to_string());
            let error = match storage.open(&path, IoMode::Buffered, Purpose::Manifest) {
                Ok(file) => {
                    let mut replay = Replay::new(path, number);
                    replay.read_on(&file)?;
                    let directory = directory.to_owned();
                    return Ok(Self { directory, number, file, replay });
                }
                Err(error) if error.is_not_found() => manifest::missing(&path),
                Err(error) => error.into(),
            };
            let before = std::mem::replace(&mut number, manifest::current(storage, directory)?);
            if before == number || attempts.next().is_none() {
                return Err(error);
            }
        }
    }

    /// Reads the edits that were appended, and returns how the state changed.
    ///
    /// # Errors
    /// Corruption, for damage in the edits that were appended.
    pub(crate) fn follow(&mut self, storage: &dyn Storage) -> Result<Change> {
        // Edits are appended to this MANIFEST only as long as CURRENT names it. So CURRENT must be
        // read first: if it still names this MANIFEST, the state is current once the edits are
        // read.
        if manifest::current(storage, &self.directory)? != self.number {
            return Ok(Change::Replaced);
        }
        let summary = |replay: &Replay| (replay.milestones(), replay.oldest_needed_log());
        let (records, before) = (self.replay.records(), summary(&self.replay));
        self.replay.read_on(&self.file)?;
        Ok(if self.replay.records() == records {
            Change::Nothing
        } else if summary(&self.replay) == before {
            Change::Tables
        } else {
            Change::Other
        })
    }

    /// Returns the state according to the edits that were read.
    ///
    /// # Errors
    /// Corruption, for a MANIFEST that lacks a required field.
    pub(crate) fn state(&self) -> Result<Manifest> {
        self.replay.clone().finish()
    }
}
