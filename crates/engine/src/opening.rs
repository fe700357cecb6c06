//! An identifier for each time that a database is opened.

use std::sync::atomic::{AtomicU64, Ordering};

/// Identifies one open handle of a database in this process, for writing or for reading. A handle
/// of a column family holds the identifier of the database that it was obtained from, so that
/// another database can refuse it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OpeningId(u64);

impl OpeningId {
    /// Returns a new identifier. It is never reused, unlike the address of an object.
    pub(crate) fn new() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self(LAST.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Returns the identifier as a number, which is not 0.
    pub(crate) fn number(self) -> u64 {
        self.0
    }
}
