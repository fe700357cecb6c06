//! Where an experiment was done.

use std::path::Path;

use serde::Serialize;
use tailwater_io::Storage;
use tailwater_io::posix::PosixStorage;

use crate::store::Failure;

/// The system and the disk.
#[derive(Debug, Serialize)]
pub(super) struct Environment {
    /// Tailwater's version.
    version: &'static str,
    kernel_release: String,
    processors: usize,
    filesystem: String,
    /// What holds a run to its memory limit, in words.
    memory_limit: String,
}

impl Environment {
    /// That of this system and a directory.
    ///
    /// # Errors
    /// A directory that is not there.
    pub(super) fn of(directory: &Path, memory_limit: String) -> Result<Self, Failure> {
        Ok(Self {
            version: env!("CARGO_PKG_VERSION"),
            kernel_release: rustix::system::uname().release().to_string_lossy().into_owned(),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            filesystem: PosixStorage::new().capabilities(directory)?.filesystem,
            memory_limit,
        })
    }

    /// What it was done on, for a heading.
    pub(super) fn filesystem(&self) -> &str {
        &self.filesystem
    }
}
