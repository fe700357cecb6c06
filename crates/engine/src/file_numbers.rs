//! The numbers in the names of a database's files.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Largest number that a file of a database can have. The counter never comes near it; a name with
/// a larger number was not given by a database.
pub(crate) const FILE_NUMBER_MAX: u64 = 1 << 62;

/// One counter numbers every file of a database.
#[derive(Debug, Clone)]
pub(crate) struct FileNumbers(Arc<AtomicU64>);

impl FileNumbers {
    /// Begins with `next`.
    pub(crate) fn starting_at(next: u64) -> Self {
        Self(Arc::new(AtomicU64::new(next)))
    }

    /// A number that no file has.
    pub(crate) fn take(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }

    /// The number that the next file gets.
    pub(crate) fn next(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
