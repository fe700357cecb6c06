//! From a directory to a database that can be read, as a chain of types.
//!
//! ```text
//! Unrecovered    a directory and the options it is to be opened with
//! ManifestRead   which tables and logs it consists of
//! LogsReplayed   its logs in memtables: all that a reader needs
//! ```
//!
//! Each step takes the one before and gives the next, so none can be left out. None changes a file.

mod logs;
mod manifest;
mod options;

use std::path::PathBuf;
use std::sync::Arc;

use tailwater_format::key::Sequence;
use tailwater_io::Storage;

use crate::db::ColumnFamily;
use crate::version::manifest::Manifest;
use crate::wal::replay::LeftOut;

pub use options::OpenOptions;

/// A directory and the options it is to be opened with.
pub(crate) struct Unrecovered {
    directory: PathBuf,
    storage: Arc<dyn Storage>,
    options: OpenOptions,
}

/// A database of which it is known what it consists of.
pub(crate) struct ManifestRead {
    unrecovered: Unrecovered,
    manifest: Manifest,
}

/// A database with its logs in memory.
pub(crate) struct LogsReplayed {
    pub(crate) directory: PathBuf,
    pub(crate) storage: Arc<dyn Storage>,
    /// In the order of their ids.
    pub(crate) families: Vec<ColumnFamily>,
    pub(crate) last_sequence: Sequence,
    pub(crate) left_out: Vec<LeftOut>,
}
