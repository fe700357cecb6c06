//! Recovery as a chain of types: from a directory to a database that can be read, and on to one
//! that can be written.
//!
//! ```text
//! Unrecovered    a directory and the options it is to be opened with
//! ManifestRead   which tables and logs it consists of
//! FilesFound     every file that the MANIFEST names is where the options expect it
//! LogsReplayed   its logs in memtables: all that a reader needs
//! Recovered      with a log of its own and nothing left over: all that a writer needs
//! ```
//!
//! [`Db::open`](crate::Db::open) ends the chain: it makes a `Recovered` the opened database.
//!
//! Each step consumes the previous one, so none can be left out. Only the last one changes files.

mod components;
mod files;
mod log_files;
mod logs;
mod manifest;
mod new_database;
mod open;
mod recovered;
pub(crate) mod warnings;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tailwater_format::key::Sequence;
use tailwater_io::Storage;

use tailwater_format::Comparator;

use crate::column_family::{ColumnFamily, ReaderFactory};
use crate::directory::{Directories, Files, Home};
use crate::error::{Error, ErrorKind, Result};
use crate::io_modes::IoModes;
use crate::left_out::LeftOut;
use crate::open_options::OpenOptions;
use crate::opening::OpeningId;
use crate::options::ColumnFamilyOptions;
use crate::stats::{Activity, Statistics};
use crate::version::manifest::Manifest;
use crate::version::{CompactCursors, Version};
use crate::wal::replay::ReplayedLog;

pub(crate) use log_files::LOST;
pub(crate) use open::open;
pub(crate) use recovered::Recovered;

/// Maximum number of attempts to read a database that another process writes.
const ATTEMPTS: usize = 16;

/// A directory and the options to open it with.
pub(crate) struct Unrecovered {
    home: Home,
    storage: Arc<dyn Storage>,
    options: OpenOptions,
    io_modes: Arc<IoModes>,
    /// The files in the home, if they were already listed.
    home_files: Option<Files>,
}

/// A database whose MANIFEST was read.
pub(crate) struct ManifestRead {
    unrecovered: Unrecovered,
    manifest: Manifest,
}

/// A database whose files all exist.
pub(crate) struct FilesFound {
    unrecovered: Unrecovered,
    /// The content of the MANIFEST, except the column families.
    manifest: Manifest,
    families: Vec<FoundFamily>,
    directories: Directories,
    /// Everything in logs with a lower number is in tables.
    oldest_needed_log: u64,
    left_out: Vec<LeftOut>,
    warnings: Vec<String>,
}

/// A column family whose files all exist.
struct FoundFamily {
    id: u32,
    name: String,
    options: ColumnFamilyOptions,
    comparator: Comparator,
    version: Arc<Version>,
    /// All its writes in logs with a lower number are in tables.
    log_number: u64,
    /// The round-robin cursors of its levels.
    cursors: CompactCursors,
}

/// A database with its logs in memory.
pub(crate) struct LogsReplayed {
    pub(crate) home: PathBuf,
    pub(crate) storage: Arc<dyn Storage>,
    options: OpenOptions,
    factory: ReaderFactory,
    /// The column families, in the order of their ids.
    pub(crate) families: Vec<ColumnFamily>,
    /// The log number of each family, in the same order.
    log_numbers: Vec<u64>,
    /// The round-robin cursors of each family, in the same order.
    cursors: Vec<CompactCursors>,
    /// The content of the MANIFEST, except the column families.
    manifest: Manifest,
    /// Everything in logs with a lower number is in tables.
    oldest_needed_log: u64,
    /// The logs that were read, in order.
    logs: Vec<ReplayedLog>,
    /// The blob files to which the logs refer, by column family and number.
    blob_files: BTreeSet<(u32, u64)>,
    pub(crate) last_sequence: Sequence,
    pub(crate) left_out: Vec<LeftOut>,
    /// Warnings for the LOG and the caller.
    pub(crate) warnings: Vec<String>,
    directories: Directories,
}

impl LogsReplayed {
    /// Returns the statistics object, if one was set.
    pub(crate) fn statistics(&self) -> Option<Arc<Statistics>> {
        self.options.statistics().cloned()
    }

    /// Returns the opening ID of its column families.
    pub(crate) fn opening(&self) -> OpeningId {
        self.factory.opening()
    }

    /// Returns the I/O modes of its files.
    pub(crate) fn io_modes(&self) -> Arc<IoModes> {
        Arc::clone(self.factory.io_modes())
    }

    /// Returns an empty record of the database's activity.
    pub(crate) fn activity(&self) -> Activity {
        Activity::new(Arc::clone(self.options.clock()))
    }
}

/// Recovers a database for reading, as of a point in time. Starts again if the MANIFEST changed
/// during recovery: a concurrent writer may have removed a log before it was read.
///
/// # Errors
/// As [`crate::Db::open_read_only`].
pub(crate) fn recover_read_only(directory: &Path, options: &OpenOptions) -> Result<LogsReplayed> {
    let storage = &**options.storage();
    for _ in 0..ATTEMPTS {
        let before = manifest::state(storage, directory)?;
        let recovered = options
            .loaded_when_opened(directory)
            .and_then(|options| Unrecovered::new(directory, &options))
            .and_then(Unrecovered::read_manifest)
            .and_then(ManifestRead::find_files)
            .and_then(FilesFound::replay_logs);
        let is_refused = recovered.as_ref().is_err_and(Error::is_out_of_descriptors);
        if is_refused || manifest::state(storage, directory)? == before {
            return recovered;
        }
    }
    let message = "the database changes faster than it can be opened";
    Err(Error::new(ErrorKind::Busy, message).in_file(directory))
}
