//! Recovery as a chain of types: from a directory, to a database that can be read, to a database
//! that can be written. Each step consumes the value of the previous one, so no step can be left
//! out. Only the last step changes files.
//!
//! ```text
//! Unrecovered       a directory and the options with which to open it
//! ManifestRead      the tables and logs of the database are known
//! DirectoriesFound  the files in its directories are known
//! FilesFound        every file that the MANIFEST names is where the options expect it
//! LogsReplayed      the logs are in memtables: all that a reader needs
//! Recovered         there is a new log and no leftover file: all that a writer needs
//! ```
//!
//! [`Db::open`](crate::Db::open) turns a `Recovered` into the opened database.

mod components;
mod files;
mod manifest;
mod new_database;
mod open;
mod read_only;
mod recovered;
mod second_replay;
mod wal_files;
mod wal_replay;
pub(crate) mod warnings;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tailwater_format::key::Sequence;
use tailwater_format::version_edit::FamilyOptions;
use tailwater_io::Storage;

use tailwater_format::Comparator;

use crate::column_family::{ColumnFamily, FamilySet, ReaderFactory};
use crate::directory::{Directories, Files, Home};
use crate::epoch::FullEpochCell;
use crate::io_modes::IoModes;
use crate::left_out::LeftOut;
use crate::open_options::OpenOptions;
use crate::opening::OpeningId;
use crate::options::{ColumnFamilyOptions, DbOptions};
use crate::read::{ReadState, SnapshotList};
use crate::stats::Activity;
use crate::version::manifest::{DatabaseState, Manifest};
use crate::version::{CompactCursors, Version};
use crate::wal::replay::ReplayedLog;
use second_replay::SecondReplay;

pub(crate) use open::open;
pub(crate) use read_only::recover_read_only;
pub(crate) use recovered::Recovered;
pub(crate) use wal_files::LOST;

/// A directory and the options with which to open it.
#[derive(Clone)]
pub(crate) struct Unrecovered {
    home: Home,
    storage: Arc<dyn Storage>,
    options: OpenOptions,
    io_modes: Arc<IoModes>,
    /// The files in the home directory, if it was already listed.
    home_files: Option<Files>,
}

/// A database whose MANIFEST was read.
pub(crate) struct ManifestRead {
    unrecovered: Unrecovered,
    manifest: Manifest,
}

/// A database whose directories were found and listed.
pub(crate) struct DirectoriesFound {
    unrecovered: Unrecovered,
    manifest: Manifest,
    directories: Directories,
}

/// A database all of whose files were found.
pub(crate) struct FilesFound {
    unrecovered: Unrecovered,
    manifest: DatabaseState,
    families: Vec<FoundFamily>,
    directories: Directories,
    left_out: Vec<LeftOut>,
    warnings: Vec<String>,
}

/// A column family all of whose files were found.
struct FoundFamily {
    id: u32,
    name: String,
    options: ColumnFamilyOptions,
    comparator: Comparator,
    version: Arc<Version>,
    /// Number of the oldest log that may have writes of this column family that are not in its
    /// tables.
    log_number: u64,
    /// The positions at which round-robin compaction continues in the column family's levels.
    cursors: CompactCursors,
    /// The options that the MANIFEST records, because no OPTIONS file had them yet.
    recorded_options: Option<FamilyOptions>,
}

/// A column family whose logs were replayed into its memtable.
struct ReplayedFamily {
    family: ColumnFamily,
    /// See [`FoundFamily`].
    log_number: u64,
    cursors: CompactCursors,
    recorded_options: Option<FamilyOptions>,
}

/// A database whose logs were replayed into memtables, or must be replayed again when tables can be
/// written.
pub(crate) struct LogsReplayed {
    pub(crate) home: PathBuf,
    pub(crate) storage: Arc<dyn Storage>,
    options: OpenOptions,
    opening: OpeningId,
    factory: Arc<ReaderFactory>,
    io_modes: Arc<IoModes>,
    /// The column families, in the order of their ids.
    families: Vec<ReplayedFamily>,
    manifest: DatabaseState,
    /// The logs that were replayed, oldest first.
    logs: Vec<ReplayedLog>,
    /// What fills the memtables, which are empty, if they would have exceeded the limit of the
    /// write buffer manager.
    second_replay: Option<SecondReplay>,
    /// The blob files to which the logs refer: column family ID and file number.
    blob_files: BTreeSet<(u32, u64)>,
    pub(crate) last_sequence: Sequence,
    pub(crate) left_out: Vec<LeftOut>,
    /// Warnings that are written to the LOG and returned to the caller of `open`.
    pub(crate) warnings: Vec<String>,
    directories: Directories,
}

impl LogsReplayed {
    fn families(&self) -> impl Iterator<Item = &ColumnFamily> {
        self.families.iter().map(|replayed| &replayed.family)
    }

    /// Returns the options of the database.
    pub(crate) fn database_options(&self) -> &DbOptions {
        self.options.database()
    }

    /// Moves the column families to the state that reads and writes share. Reads see sequence
    /// numbers up to `published`.
    pub(crate) fn take_read_state(&mut self, published: Sequence) -> ReadState {
        let families = std::mem::take(&mut self.families).into_iter();
        let families = FamilySet::new(families.map(|replayed| replayed.family));
        ReadState {
            opening: self.opening,
            families: FullEpochCell::in_bin(self.factory.garbage.bin(), Arc::new(families)),
            published: AtomicU64::new(published),
            snapshots: SnapshotList::default(),
            activity: Activity::new(Arc::clone(self.options.clock())),
            statistics: self.options.statistics().cloned(),
            slow_reads: Arc::clone(&self.factory.slow_reads),
            io_modes: Arc::clone(&self.io_modes),
            garbage: Arc::clone(&self.factory.garbage),
        }
    }
}
