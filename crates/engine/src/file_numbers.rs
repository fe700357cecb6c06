//! The numbers in the names of a database's files.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

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

    /// Returns a number that no file has yet, and advances the counter.
    pub(crate) fn take(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the number that the next file will get.
    pub(crate) fn next(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
