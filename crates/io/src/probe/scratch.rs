//! Names and creation of the files with which a disk is tried.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::storage::{Create, Storage, WriteFile};
use crate::{IoMode, Purpose, Result};

/// Number of process ids that Linux can assign.
const PROCESS_IDS: u64 = 1 << 22;

/// Creates a file whose name no file has yet. If a crash leaves such a file in a database's
/// directory, RocksDB and Tailwater remove it. Returns its path, too; the caller removes the file.
pub(super) fn create(
    storage: &dyn Storage,
    directory: &Path,
    mode: IoMode,
) -> Result<(PathBuf, Box<dyn WriteFile>)> {
    let mut number = u64::from(std::process::id());
    loop {
        let path = directory.join(format!("{number:06}.dbtmp"));
        match storage.create(&path, Create::New, mode, Purpose::Metadata) {
            Err(error) if error.source.kind() == ErrorKind::AlreadyExists => number += PROCESS_IDS,
            created => return created.map(|file| (path, file)),
        }
    }
}
