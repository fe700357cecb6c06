//! The numbers in the names of a database's files.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tailwater_io::Storage;

use crate::error::Result;

/// Largest file number that is accepted. The counter of a database's file numbers never gets this
/// far. So a file with a larger number in its name was not created by a database.
pub(crate) const FILE_NUMBER_MAX: u64 = 1 << 62;

/// The counter that numbers all files of a database.
#[derive(Debug, Clone)]
pub(crate) struct FileNumbers(Arc<AtomicU64>);

impl FileNumbers {
    /// Creates a counter that starts at `next`.
    pub(crate) fn starting_at(next: u64) -> Self {
        Self(Arc::new(AtomicU64::new(next)))
    }

    /// Returns a number that this database gave to no file yet, and advances the counter.
    pub(crate) fn take(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }

    /// Like [`Self::take`], for a file at the path that `path` returns for its number. Skips
    /// numbers whose files exist: the database did not create them, and must not replace or remove
    /// them. Returns the number and the path.
    ///
    /// # Errors
    /// Errors from looking for a file.
    pub(crate) fn take_unused(
        &self,
        storage: &dyn Storage,
        path: impl Fn(u64) -> PathBuf,
    ) -> Result<(u64, PathBuf)> {
        loop {
            let number = self.take();
            let path = path(number);
            match storage.metadata(&path) {
                Ok(_) => {}
                Err(error) if error.is_not_found() => return Ok((number, path)),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Returns the number that the next file will get.
    pub(crate) fn next(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
