//! Writes parsed input to the database, batch by batch.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

use tailwater::{WriteBatch, WriteOptions};

use super::item_names;
use crate::arguments::LoadArguments;
use crate::outcome::{Failure, Result};
use crate::progress::Progress;
use crate::writing::WritableDatabase;

/// A batch of at least this many bytes is written, however few lines or packages (stanzas of a
/// package index) it has.
const BATCH_BYTES: usize = 4 << 20;

/// The amount of data loaded.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Loaded {
    /// Number of packages or lines written.
    pub(super) items: u64,
    /// Number of entries (key and value) written.
    pub(super) entries: u64,
    /// Number of batches written.
    pub(super) batches: u64,
}

/// Writes batches of packages or lines.
pub(super) struct Loader<'a> {
    database: &'a WritableDatabase,
    /// Ids of the column families used so far, by name.
    families: BTreeMap<String, u32>,
    batch: WriteBatch,
    /// Number of packages or lines in the batch that is being filled.
    waiting: u64,
    /// Maximum number of packages or lines in a batch.
    batch_items: u64,
    options: WriteOptions,
    acknowledgements: Option<Acknowledgements>,
    loaded: Loaded,
    progress: Progress,
}

impl<'a> Loader<'a> {
    /// Creates a loader for a database, with the command line's arguments.
    pub(super) fn new(
        database: &'a WritableDatabase,
        acknowledgements: Option<Acknowledgements>,
        arguments: &LoadArguments,
    ) -> Self {
        // With an acknowledgement file, batches are synced, because an acknowledged batch must
        // survive a crash.
        let sync = arguments.sync || acknowledgements.is_some();
        Self {
            database,
            families: BTreeMap::new(),
            batch: WriteBatch::new(),
            waiting: 0,
            batch_items: arguments.batch,
            options: WriteOptions::new().with_sync(sync),
            acknowledgements,
            loaded: Loaded::default(),
            progress: Progress::counting(item_names(arguments.format).1),
        }
    }

    /// Returns the id of a column family, after creating the column family if it does not exist.
    pub(super) fn family(&mut self, name: &str) -> Result<u32> {
        if let Some(id) = self.families.get(name) {
            return Ok(*id);
        }
        let id = self.database.column_family_or_new(name)?.id();
        self.families.insert(name.to_owned(), id);
        Ok(id)
    }

    /// Adds an entry of the current package or line.
    ///
    /// # Errors
    /// Refused, for a key or value that is too long for a batch.
    pub(super) fn put(&mut self, family: u32, key: &[u8], value: &[u8]) -> Result<()> {
        let refused = |error: tailwater_format::Error| Failure::Refused(error.to_string());
        self.batch.put_cf(family, key, value).map_err(refused)
    }

    /// Ends the current package or line, and writes the batch if it is full.
    ///
    /// # Errors
    /// Errors from writing the batch, and from recording in the file of acknowledgements that the
    /// batch was written.
    pub(super) fn item_done(&mut self) -> Result<()> {
        self.waiting += 1;
        let is_full = self.waiting >= self.batch_items || self.batch.size_in_bytes() >= BATCH_BYTES;
        if is_full { self.write() } else { Ok(()) }
    }

    /// Ends loading. `read` is the result of reading the input. If the input ended, or a line was
    /// malformed, the packages and lines read before are still written.
    pub(super) fn finish(mut self, read: Result<()>) -> (Result<()>, Loaded) {
        let answer = match read {
            Ok(()) | Err(Failure::Input(_)) => self.write().and(read),
            Err(_) => read,
        };
        (answer, self.loaded)
    }

    fn write(&mut self) -> Result<()> {
        if self.waiting == 0 {
            return Ok(());
        }
        self.database.db.write_opt(&mut self.batch, &self.options)?;
        self.loaded.items += self.waiting;
        self.loaded.entries += self.batch.len() as u64;
        self.loaded.batches += 1;
        self.progress.add(self.waiting);
        self.waiting = 0;
        self.batch.clear();
        match &mut self.acknowledgements {
            Some(acknowledgements) => acknowledgements.append(self.loaded.items),
            None => Ok(()),
        }
    }
}

/// A file to which the number of packages or lines loaded so far is appended after each batch, so
/// that a killed load can be resumed.
pub(super) struct Acknowledgements {
    file: File,
    path: PathBuf,
}

impl Acknowledgements {
    /// Opens the file for appending.
    ///
    /// # Errors
    /// Refused, for a file that cannot be opened or created.
    pub(super) fn open(path: PathBuf) -> Result<Self> {
        // This file does not belong to the database, so it is not opened through the engine's
        // storage.
        match File::options().append(true).create(true).open(&path) {
            Ok(file) => Ok(Self { file, path }),
            Err(error) => Err(Failure::Refused(format!("cannot open {}: {error}", path.display()))),
        }
    }

    /// Appends a line with a single write, so that a kill leaves the whole line or nothing.
    fn append(&mut self, loaded: u64) -> Result<()> {
        self.file.write_all(format!("{loaded}\n").as_bytes()).map_err(|error| {
            Failure::Refused(format!("cannot append to {}: {error}", self.path.display()))
        })
    }
}
